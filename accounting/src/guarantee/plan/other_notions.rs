//! Rows that aren't (ε, δ): reconstruction and μ-GDP.

use super::Plan;
use crate::guarantee::trade_off::GaussianFit;
use crate::guarantee::{Guarantee, Method, Notion};
use crate::loss::{PrivacyLoss, Query};
use crate::quantity::bound::Bounds;
use crate::quantity::error::{Error, Result};
use crate::quantity::{GroupSize, Probability, Tolerance};

impl Plan {
    /// Returns μ-GDP for the plan's own question, if it was requested. A single number for a whole curve
    /// costs a hundred evaluations of the curve, so it is computed to four digits at best.
    pub(super) fn gaussian(&self) -> Result<Option<Guarantee>> {
        let Some(slack) = self.gaussian_slack else {
            return Ok(None);
        };
        let query = Query::new(self.neighbours, self.group);
        let tolerance = Tolerance::new(self.tolerance.get().max(1e-4))?;
        let fit = GaussianFit::of(&self.mechanism, query, slack, tolerance)?;
        Ok(Some(Guarantee {
            engine: Some(fit.engine),
            delta: Some(fit.slack),
            group: (self.group > GroupSize::ONE).then_some(self.group),
            mu: Some(fit.mu),
            regret: Some(fit.regret),
            ..self.row(Notion::Gdp, self.neighbours, Method::Pld)
        }))
    }

    /// Returns the posterior of a secret by the blow-up of its pair with a reference, and by the
    /// divergences that may replace Kullback and Leibler's in Hush! Lemma 3.2.
    pub(super) fn reconstruction(&self, prior: Probability) -> Result<Vec<Guarantee>> {
        let (loss, neighbours) = match PrivacyLoss::of_guesses(&self.mechanism, self.group) {
            // The lemma says nothing about guesses; the other rows stand.
            Err(Error::Unsupported { .. }) if self.group > GroupSize::ONE => return Ok(Vec::new()),
            found => found?,
        };
        let row = |method, posterior| Guarantee {
            delta: None,
            prior: Some(prior),
            posterior: Some(posterior),
            group: (self.group > GroupSize::ONE).then_some(self.group),
            ..self.row(Notion::SecretProtection, neighbours, method)
        };
        let exact = loss.blow_up(prior, self.tolerance)?;
        let (renyi, order) = loss.renyi_fano(prior)?;
        let mut rows = vec![
            Guarantee {
                engine: Some(exact.engine),
                looseness: exact.looseness,
                ..row(Method::BlowUp, exact.bounds)
            },
            row(Method::KlFano, Bounds::below(loss.kl_fano(prior)?)),
            Guarantee {
                order: Some(order),
                ..row(Method::RenyiFano, Bounds::below(renyi))
            },
        ];
        // For stated Rényi divergences, these rows follow from the divergences alone and say less.
        if !self.mechanism.is_stated() {
            // Order 2 may be out of reach even if other orders aren't.
            if let Ok(posterior) = loss.chi_square_fano(prior) {
                rows.push(row(Method::ChiSquareFano, Bounds::below(posterior)));
            }
            let posterior = loss.total_variation_bound(prior, self.tolerance)?;
            rows.push(row(Method::TotalVariation, Bounds::below(posterior)));
        }
        Ok(rows)
    }
}
