//! The promise for a secret, and the ways to prove it.

use crate::engine::Engine;
use crate::guarantee::reconstruction::fano::bernoulli_divergence;
use crate::loss::PrivacyLoss;
use crate::quantity::bound::Upper;
use crate::quantity::error::{Error, Result};
use crate::quantity::{Probability, Tolerance};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Promises are weighted by their divergences: 2^32 examples divided by this is still finite.
const LEAST_DIVERGENCE: f64 = 1e-290;

/// The promise for a secret: if it is guessed with probability at most `prior` without the model, it is
/// guessed with probability at most `posterior` with the model.
///
/// Source: Hush! Definition 3.1, with every change of the secret's examples allowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Secret {
    prior: Probability,
    posterior: Probability,
}

impl Secret {
    /// Creates a promise after checking that 0 < prior < posterior < 1. Priors down to 2^-256 and below
    /// are allowed.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] otherwise, and if the divergence of the two probabilities is too
    /// small to divide by or not finite.
    pub fn new(prior: Probability, posterior: Probability) -> Result<Self> {
        if prior.get() <= 0.0 {
            return Err(Error::out_of_range("prior", "(0, posterior)", prior.get()));
        }
        if posterior <= prior || posterior.get() >= 1.0 {
            return Err(Error::out_of_range(
                "posterior",
                "(prior, 1)",
                posterior.get(),
            ));
        }
        let secret = Self { prior, posterior };
        if !(LEAST_DIVERGENCE..f64::INFINITY).contains(&secret.divergence()) {
            return Err(Error::out_of_range(
                "posterior",
                "(prior, 1), with a finite divergence of at least 1e-290 from the prior",
                posterior.get(),
            ));
        }
        Ok(secret)
    }

    /// Returns the largest probability of guessing the secret without the model.
    #[must_use]
    pub const fn prior(&self) -> Probability {
        self.prior
    }

    /// Returns the largest tolerated probability of guessing the secret with the model.
    #[must_use]
    pub const fn posterior(&self) -> Probability {
        self.posterior
    }

    /// Returns μ_j = KL(Bern(r_j) ‖ Bern(p_j)) in nats, the divergence that Fano's inequality allows.
    ///
    /// Source: Hush! Algorithm 2, line 1.
    #[must_use]
    pub fn divergence(&self) -> f64 {
        bernoulli_divergence(self.posterior, self.prior)
    }
}

/// How a posterior is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Proof {
    /// By the blow-up of the dominating pair: tight for that pair.
    BlowUp,
    /// By Fano's inequality for the Kullback–Leibler divergence (Hush! Lemma 3.2).
    KlFano,
    /// By the same for Rényi divergences, at the best order.
    RenyiFano,
}

/// Both ends of a proof's bound on a posterior; equal for Fano's inequality.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ends {
    pub(crate) lower: f64,
    pub(crate) upper: f64,
}

impl Proof {
    /// Returns the name in the field's terms.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::BlowUp => "the blow-up",
            Self::KlFano => "Fano's inequality for KL",
            Self::RenyiFano => "Fano's inequality for Rényi divergences",
        }
    }

    /// Returns the posterior of a secret with this prior. A posterior that can't be certified is
    /// bounded by 1.
    pub(crate) fn posterior(
        self,
        loss: &PrivacyLoss,
        prior: Probability,
        tolerance: Tolerance,
    ) -> Result<Ends> {
        let found = match self {
            Self::BlowUp => blow_up(loss, prior, tolerance),
            Self::KlFano => loss.kl_fano(prior).map(both),
            Self::RenyiFano => loss.renyi_fano(prior).map(|(bound, _)| both(bound)),
        };
        match found {
            Err(Error::NotCertified { .. }) => Ok(Ends {
                lower: prior.get(),
                upper: 1.0,
            }),
            other => other,
        }
    }
}

/// Returns the ends by the blow-up. If its engine found no tight ones, Fano's bound may be the better
/// upper end of the same posterior.
fn blow_up(loss: &PrivacyLoss, prior: Probability, tolerance: Tolerance) -> Result<Ends> {
    let answer = loss.blow_up(prior, tolerance)?;
    let bounds = answer.bounds;
    let mut ends = Ends {
        lower: bounds.lower.map_or(prior.get(), |end| end.get().get()),
        upper: bounds.upper.map_or(1.0, |end| end.get().get()),
    };
    if answer.engine == Engine::Chernoff {
        match loss.renyi_fano(prior) {
            Ok((bound, _)) => ends.upper = ends.upper.min(bound.get().get()).max(ends.lower),
            Err(Error::NotCertified { .. }) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(ends)
}

fn both(bound: Upper<Probability>) -> Ends {
    let value = bound.get().get();
    Ends {
        lower: value,
        upper: value,
    }
}
