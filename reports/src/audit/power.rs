//! How likely an audit would contradict its promise, had less noise been added.

use crate::audit::exposure::promise::{reconstruction_loss, with_noise};
use crate::verdict::Power;
use anyhow::Result;
use reticent_accounting::{
    Epsilon, Error, Estimate, Mechanism, PrivacyLoss, Probability, Tolerance, Upper,
};
use reticent_attacks::evalue::{PlannedAudit, ScoreLaw};
use reticent_attacks::exposure::{RankAudit, prior_mass};

/// The shares of the noise at which power is stated; 0 is a run without noise, whose records are still drawn as stated.
const SHARES: [f64; 4] = [0.0, 0.25, 0.5, 0.75];

/// Returns the power at each share of the noise, given the chance of a contradiction at one. Empty if the chance at some
/// share is not known.
pub(in crate::audit) fn at_each_share(
    mut chance: impl FnMut(f64) -> Result<Option<Estimate<Probability>>>,
) -> Result<Vec<Power>> {
    let mut found = Vec::with_capacity(SHARES.len());
    for noise in SHARES {
        match chance(noise)? {
            Some(chance) => found.push(Power { noise, chance }),
            None => return Ok(Vec::new()),
        }
    }
    Ok(found)
}

/// Returns how likely the audit of planted canaries would contradict ε: the probability of a hit is at most that of the
/// best attack on the weaker run, and the canaries that training met are assumed to be independent. Empty if no noise is
/// known that could be lower, or there is no law for this many records.
pub(in crate::audit) fn of_ranks(
    audits: &PlannedAudit,
    promised: Epsilon,
    mechanism: &Mechanism,
    records: u32,
) -> Result<Vec<Power>> {
    let (candidates, canaries) = audits.of();
    let audit = &audits.by_rank;
    let mut wanted = Vec::new();
    for &threshold in &audit.thresholds {
        if let Some(hits) = audits.hits_beyond(promised, threshold)? {
            let mass = prior_mass(threshold, candidates, canaries, audit.draw)?;
            wanted.push((hits, mass));
        }
    }
    let loss = |weaker: &Mechanism| reconstruction_loss(weaker, records);
    at_each_share(|share| {
        let Some(attacked) = Attacked::with_share(mechanism, share, loss)? else {
            return Ok(None);
        };
        let mut most = Probability::new(0.0)?;
        for &(hits, mass) in &wanted {
            let each = attacked.blow_up(mass)?;
            let chance = *RankAudit::chance_of(hits, audits.reached(), each).get();
            most = if chance > most { chance } else { most };
        }
        Ok(Some(Estimate::new(most)))
    })
}

/// A run as the best attack sees it.
pub(in crate::audit) struct Attacked {
    loss: PrivacyLoss,
    /// Whether its noise is left out.
    noiseless: bool,
}

impl Attacked {
    /// Returns a run as it is stated.
    pub(in crate::audit) const fn as_stated(loss: PrivacyLoss) -> Self {
        Self {
            loss,
            noiseless: false,
        }
    }

    /// Returns a run with a share of its noise; `None` if no noise is known that could be lower, or if `loss` is not
    /// known.
    pub(in crate::audit) fn with_share(
        mechanism: &Mechanism,
        share: f64,
        loss: impl Fn(&Mechanism) -> Result<Option<PrivacyLoss>>,
    ) -> Result<Option<Self>> {
        let noiseless = share <= 0.0;
        // What is seen without noise follows from the sampler, which is that of the loss at any noise.
        let Some(weaker) = with_noise(mechanism, if noiseless { 1.0 } else { share })? else {
            return Ok(None);
        };
        let loss = loss(&weaker)?;
        Ok(loss.map(|loss| Self { loss, noiseless }))
    }

    /// Returns the largest probability of a right guess of this mass.
    pub(in crate::audit) fn blow_up(&self, mass: Probability) -> Result<Probability> {
        if self.noiseless {
            return Ok(self.loss.blow_up_without_noise(mass).into_inner());
        }
        match self.loss.blow_up(mass, Tolerance::new(1e-3)?) {
            Ok(found) => Ok((found.bounds.upper).map_or(Probability::ONE, Upper::into_inner)),
            // Nothing below one is known to bound it.
            Err(Error::NotCertified { .. }) => Ok(Probability::ONE),
            Err(other) => Err(other.into()),
        }
    }

    /// Returns the law of the scores of its canaries.
    pub(in crate::audit) fn scores(&self) -> Result<ScoreLaw> {
        ScoreLaw::of_blow_up(|mass| self.blow_up(mass))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reticent_accounting::{Confidence, Delta, NoiseMultiplier, SamplingRate, Steps};
    use reticent_attacks::Draw;
    use reticent_corpus::Unit;

    fn planned(candidates: u64, canaries: u64) -> PlannedAudit {
        let rank = RankAudit {
            thresholds: RankAudit::planned_thresholds(candidates, 1),
            confidence: Confidence::new(0.9995).unwrap(),
            delta: Delta::new(1e-6).unwrap(),
            draw: Draw::Independent,
            unit: Unit::Document,
            copies: 1,
        };
        PlannedAudit::new(rank, candidates, canaries).unwrap()
    }

    fn run(rate: f64, steps: u64) -> Mechanism {
        Mechanism::dp_sgd(
            NoiseMultiplier::new(1.0).unwrap(),
            SamplingRate::new(rate).unwrap(),
            Steps::new(steps),
        )
    }

    fn chances(power: &[Power]) -> Vec<f64> {
        power.iter().map(|p| p.chance.get().get()).collect()
    }

    /// Of canaries that are drawn with probability 1 − .999^10 = 0.01, at most 0.011 are found among ten, whatever the
    /// noise: twenty of them contradict nothing. Where every canary is drawn, an audit without noise finds all.
    #[test]
    fn canaries_that_are_not_drawn_are_not_found() {
        let audit = planned(1000, 20);
        let level = |epsilon| Epsilon::new(epsilon).unwrap();
        let rare = chances(&of_ranks(&audit, level(0.05), &run(0.001, 10), 1).unwrap());
        assert_eq!(rare.len(), SHARES.len());
        assert!(rare[0] < 0.01, "{rare:?}");
        assert!(rare.is_sorted_by(|a, b| a >= b), "{rare:?}");
        let always = chances(&of_ranks(&audit, level(0.05), &run(1.0, 1), 1).unwrap());
        assert!((always[0] - 1.0).abs() < 1e-12, "{always:?}");
    }
}
