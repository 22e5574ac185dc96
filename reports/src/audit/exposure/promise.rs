//! What a mechanism promises about records and canaries, in the terms an audit can meet.

use crate::verdict::Mistake;
use anyhow::Result;
use reticent_accounting::{
    Convention, Delta, Error, GroupSize, Guarantee, Mechanism, Neighbours, NoiseMultiplier, Notion,
    Plan, PrivacyLoss, Sampling, SamplingRate, Tolerance, UnitName,
};
use reticent_corpus::Unit;

/// One record in the definition's neighbours and in the papers', and all records of a canary at once.
pub(in crate::audit) fn guarantees(
    mechanism: &Mechanism,
    unit: Unit,
    group: u32,
    delta: Delta,
) -> Result<Vec<Guarantee>> {
    let plan = |neighbours| -> Result<Plan> {
        let name = UnitName::new(unit.to_string())?;
        let tolerance = Tolerance::DEFAULT;
        Ok(Plan {
            neighbours,
            tolerance,
            ..Plan::new(mechanism.clone(), name, delta)
        })
    };
    let first = |plan: &Plan, notion| -> Result<Option<Guarantee>> {
        match plan.guarantees() {
            Ok(rows) => Ok(rows.into_iter().find(|g| g.notion == notion)),
            // A guarantee that is stated for other neighbours says nothing here.
            Err(Error::Unsupported { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    };
    let mut rows = Vec::new();
    rows.extend(first(&plan(Neighbours::Replace)?, Notion::Dp)?);
    let paper = first(&plan(Neighbours::AddRemove)?, Notion::Dp)?;
    rows.extend(paper.map(|g| Guarantee {
        convention: Convention::Paper,
        ..g
    }));
    if group > 1 {
        let grouped = Plan {
            group: GroupSize::new(group)?,
            ..plan(Neighbours::Replace)?
        };
        rows.extend(first(&grouped, Notion::GroupDp)?);
    }
    Ok(rows)
}

/// What would have run, had a known mistake been made: the mechanism, and the records that hold one
/// canary's secret.
pub(in crate::audit) fn alternatives(
    mechanism: &Mechanism,
    records: u32,
) -> Vec<(Mistake, Mechanism, u32)> {
    let more = records.max(1).saturating_mul(TIMES);
    let mut all = vec![(Mistake::UncountedCopies, mechanism.clone(), more)];
    if let Some(oftener) = oftener(mechanism) {
        all.push((Mistake::SamplingRate, oftener, records));
    }
    all
}

/// How many times a mistake is supposed to be.
const TIMES: u32 = 10;

/// The same with larger sampling rates; nothing where no batch is drawn.
fn oftener(mechanism: &Mechanism) -> Option<Mechanism> {
    Some(match mechanism {
        Mechanism::SubsampledGaussian {
            noise_multiplier,
            sampling_rate,
            sampling: Sampling::Poisson,
        } => Mechanism::SubsampledGaussian {
            noise_multiplier: *noise_multiplier,
            sampling_rate: SamplingRate::new((sampling_rate.get() * f64::from(TIMES)).min(1.0))
                .ok()?,
            sampling: Sampling::Poisson,
        },
        Mechanism::Repeat { times, each } => Mechanism::Repeat {
            times: *times,
            each: Box::new(oftener(each)?),
        },
        Mechanism::Sequence { parts } => Mechanism::Sequence {
            parts: parts
                .iter()
                .map(|part| oftener(part).unwrap_or_else(|| part.clone()))
                .collect(),
        },
        _ => return None,
    })
}

/// The same with this share of the noise of each Gaussian; nothing where another mechanism runs.
pub(in crate::audit) fn with_noise(mechanism: &Mechanism, share: f64) -> Result<Option<Mechanism>> {
    let less = |sigma: &NoiseMultiplier| NoiseMultiplier::new(share * sigma.get());
    Ok(Some(match mechanism {
        Mechanism::Gaussian { noise_multiplier } => Mechanism::Gaussian {
            noise_multiplier: less(noise_multiplier)?,
        },
        Mechanism::SubsampledGaussian {
            noise_multiplier,
            sampling_rate,
            sampling,
        } => Mechanism::SubsampledGaussian {
            noise_multiplier: less(noise_multiplier)?,
            sampling_rate: *sampling_rate,
            sampling: *sampling,
        },
        Mechanism::Repeat { times, each } => match with_noise(each, share)? {
            Some(each) => Mechanism::Repeat {
                times: *times,
                each: Box::new(each),
            },
            None => return Ok(None),
        },
        Mechanism::Sequence { parts } => {
            let parts = parts.iter().map(|part| with_noise(part, share));
            match parts.collect::<Result<Option<Vec<_>>>>()? {
                Some(parts) => Mechanism::Sequence { parts },
                None => return Ok(None),
            }
        }
        _ => return Ok(None),
    }))
}

/// The pair that bounds reconstruction of a canary: its records against a reference, the mixture first. Nothing where the
/// sampler's law of so many records is not known: ε of them has the group lemma, guesses have nothing.
pub(in crate::audit) fn reconstruction_loss(
    mechanism: &Mechanism,
    group: u32,
) -> Result<Option<PrivacyLoss>> {
    match PrivacyLoss::of_guesses(mechanism, GroupSize::new(group.max(1))?) {
        Ok((loss, _)) => Ok(Some(loss)),
        Err(Error::Unsupported { .. }) => Ok(None),
        Err(other) => Err(other.into()),
    }
}
