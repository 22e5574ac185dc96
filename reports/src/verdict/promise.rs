//! Selects the guarantees that make a promise an audit can contradict.

use super::{Promise, Terms};
use reticent_accounting::{Convention, Epsilon, Guarantee, Notion};

/// Why a guarantee is not part of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoPromise {
    /// The guarantee is for the papers' neighbouring relation, which is not the notion's own.
    #[error("it is computed for the papers' neighbours, not for the notion's own")]
    PapersConvention,
    /// Bayesian confidentiality concerns an adversary without prior knowledge of the secret; an audit knows the
    /// secret.
    #[error("it concerns an adversary without prior knowledge of the secret")]
    Bayesian,
    /// The guarantee is amplified by a miss rate: it is an average over secrets, and the audited secret either
    /// was missed or was not.
    #[error("it averages over secrets that the policy misses and catches")]
    Amplified,
    /// ε has no upper end.
    #[error("it has no upper end")]
    NoUpperEnd,
    /// There is no δ.
    #[error("it has no δ")]
    NoDelta,
}

impl Promise<Epsilon> {
    /// Returns what a guarantee promises about `released`, if an audit can contradict it.
    ///
    /// # Errors
    /// Returns a [`NoPromise`] if no audit can contradict the guarantee.
    pub fn of(released: impl Into<String>, guarantee: &Guarantee) -> Result<Self, NoPromise> {
        if guarantee.convention != Convention::Definition {
            return Err(NoPromise::PapersConvention);
        }
        if guarantee.notion == Notion::BayesianConfidentiality {
            return Err(NoPromise::Bayesian);
        }
        if guarantee.gamma.is_some() {
            return Err(NoPromise::Amplified);
        }
        let at_most = guarantee.epsilon.and_then(|bounds| bounds.upper);
        Ok(Self {
            at_most: at_most.ok_or(NoPromise::NoUpperEnd)?,
            terms: Terms {
                released: released.into(),
                notion: guarantee.notion,
                neighbours: guarantee.neighbours,
                unit: guarantee.unit.clone(),
                delta: guarantee.delta.ok_or(NoPromise::NoDelta)?,
                group: guarantee.group.map_or(1, |size| u64::from(size.get())),
                prior: None,
            },
            mistakes: Vec::new(),
        })
    }
}
