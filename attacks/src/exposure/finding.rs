//! The result of `audit exposure` as data: the body of `schemas/exposure.schema.json`.

use crate::draw::Draw;
use crate::error::{Result, counted};
use crate::evalue::{CanaryGuesses, PlannedAudit};
use crate::exposure::rank_audit::{EpsilonBound, EpsilonMethod, RankAudit};
use crate::exposure::{Exposure, ExposureSummary, Rank, rank_p_value};
use crate::search::{FlatSample, RankCount, Ranking, Work};
use reticent_accounting::{Epsilon, Upper};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One canary in the finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CanaryFinding {
    /// The canary's name in the plan.
    pub id: String,
    /// Records that hold it.
    pub copies: u64,
    /// Summed NLL of the secret span, nats; `"inf"` when the model rules it out.
    #[serde(with = "crate::spelled")]
    #[schemars(with = "f64")]
    pub nll: f64,
    /// Its rank among the candidates.
    pub rank: Rank,
    /// Its exposure, bits.
    pub exposure: Exposure,
    /// max-rank / N.
    pub p_value: f64,
    /// Other candidates within the tie tolerance.
    pub ties: u64,
    /// Candidates that a spent budget left open; 0 means the rank is exact.
    pub unresolved: u64,
}

/// The finding of an exposure audit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExposureFinding {
    /// N.
    pub candidates: u64,
    /// How the secrets were drawn.
    pub draw: Draw,
    /// Candidates this close to a canary's NLL counted as ties, nats.
    pub tie_tolerance: f64,
    /// One per canary.
    pub canaries: Vec<CanaryFinding>,
    /// Maximum, mean and median with their nulls.
    pub summary: ExposureSummary,
    /// The lower bound on ε by ranks.
    pub epsilon: EpsilonBound,
    /// The lower bound on ε by e-values, where the model's beliefs are known, and which of the two
    /// counts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub e_value: Option<EValueFinding>,
    /// What it cost.
    pub work: Work,
    /// Flat scoring, timed on a sample of the candidates.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub flat_sample: Option<FlatSample>,
}

/// The lower bound on ε by e-values, beside that by ranks. Only one of the two counts, and which was
/// fixed by the plan of the audit: the larger of both would be wrong twice as often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EValueFinding {
    /// The bound.
    pub epsilon: EpsilonBound,
    /// The method that counts, from (m, N, δ, α).
    pub decides: EpsilonMethod,
    /// The largest ε that e-values of the canaries that training met can prove; no less than what they prove.
    pub provable: Upper<Epsilon>,
    /// The largest that ranks can; no less than what they prove.
    pub provable_by_ranks: Upper<Epsilon>,
}

impl ExposureFinding {
    /// Adds the bound by e-values to the bound by ranks. Which of the two counts was fixed with the audit, before
    /// anything was scored.
    ///
    /// # Errors
    /// As for [`EValueAudit::bound`](crate::evalue::EValueAudit::bound) and [`RankAudit::provable`].
    pub fn beside_evalues(
        mut self,
        audit: &PlannedAudit,
        guesses: &[CanaryGuesses],
    ) -> Result<Self> {
        let epsilon = audit.by_evalue.bound(guesses)?;
        let (by_evalues, by_ranks) = (*epsilon.lower.get(), *self.epsilon.lower.get());
        self.e_value = Some(EValueFinding {
            decides: audit.decides(),
            // A canary that training is said not to have met proves something all the same where that is a mistake.
            provable: audit.provable_by_evalues()?.no_less_than(by_evalues),
            provable_by_ranks: audit.provable_by_ranks()?.no_less_than(by_ranks),
            epsilon,
        });
        Ok(self)
    }

    /// Returns the bound that counts.
    #[must_use]
    pub fn bound(&self) -> &EpsilonBound {
        match &self.e_value {
            Some(found) if found.decides == EpsilonMethod::EValue => &found.epsilon,
            _ => &self.epsilon,
        }
    }

    /// Creates the finding of a ranking. `names` holds the id and the copies of each canary.
    ///
    /// # Errors
    /// Returns an error if the number of names is not that of ranks, and as for
    /// [`ExposureSummary::of`] and [`RankAudit::bound`].
    pub fn new(
        ranking: &Ranking,
        names: &[(String, u64)],
        audit: &RankAudit,
        tie_tolerance: f64,
    ) -> Result<Self> {
        let counts = &ranking.counts;
        counted("canary names", names.len(), counts.len())?;
        let summary = ExposureSummary::of(counts, audit.draw)?;
        let canaries = names.iter().zip(counts);
        Ok(Self {
            candidates: counts[0].candidates,
            draw: audit.draw,
            tie_tolerance,
            canaries: canaries
                .map(|((id, copies), count)| canary(id.clone(), *copies, count))
                .collect(),
            summary,
            epsilon: audit.bound(counts)?,
            e_value: None,
            work: ranking.work,
            flat_sample: None,
        })
    }
}

fn canary(id: String, copies: u64, count: &RankCount) -> CanaryFinding {
    CanaryFinding {
        id,
        copies,
        nll: count.nll,
        rank: Rank::of(count),
        exposure: Exposure::of(count),
        p_value: rank_p_value(count),
        ties: count.ties,
        unresolved: count.unresolved,
    }
}
