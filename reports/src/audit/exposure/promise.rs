//! What a mechanism promises about records and canaries, in terms that an audit can test.

use crate::contract::Inputs;
use crate::verdict::{Mistake, Promise};
use anyhow::Result;
#[cfg(feature = "audit")]
use reticent_accounting::training::TrainingPlan;
use reticent_accounting::{
    Convention, Delta, Epsilon, Error, GroupSize, Guarantee, Mechanism, Neighbours,
    NoiseMultiplier, Notion, Plan, PrivacyLoss, Sampling, SamplingRate, Tolerance, UnitName,
};
use reticent_corpus::Unit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The neighbours that are assumed of a promise that does not name its own.
pub(in crate::audit) const NEIGHBOURS: Neighbours = Neighbours::AddRemove;

/// The file that a promise is taken from, where no checkpoint of ours states it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromisedBy {
    /// The name of the file, as given.
    pub file: String,
    /// What one record is.
    pub unit: UnitName,
    /// Whether the file does not state the unit: it is then assumed to be that of the canaries.
    pub unit_assumed: bool,
    /// Whether it holds a promise that does not name its neighbours, such as (ε, δ) of an event: they are then assumed to be
    /// add-remove.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub neighbours_assumed: bool,
}

impl PromisedBy {
    /// Describes a run that a file states, read for [`NEIGHBOURS`] where it does not name its own.
    #[cfg(feature = "audit")]
    pub(in crate::audit) fn file(name: &str, run: &TrainingPlan, unnamed: bool) -> Self {
        Self {
            file: name.to_owned(),
            unit: run.unit.value.clone(),
            unit_assumed: run.unit.is_assumed(),
            neighbours_assumed: unnamed,
        }
    }

    /// Adds the unit, as stated or assumed, and the neighbours that were assumed, if a file states the promise.
    ///
    /// # Errors
    /// Returns no error for values that JSON can represent.
    pub fn inputs(by: Option<&Self>, inputs: Inputs) -> serde_json::Result<Inputs> {
        let Some(by) = by else {
            return Ok(inputs);
        };
        let stated = (!by.unit_assumed).then_some(&by.unit);
        let inputs = inputs.or_assumed("unit", stated, &by.unit)?;
        match by.neighbours_assumed {
            true => inputs.assumed("promise_neighbours", NEIGHBOURS),
            false => Ok(inputs),
        }
    }
}

impl std::fmt::Display for PromisedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, as the user states", self.file)?;
        if self.unit_assumed {
            write!(
                f,
                "; it does not say what one record is, which is assumed to be a {}, as in the canary plan",
                self.unit
            )?;
        }
        if self.neighbours_assumed {
            write!(
                f,
                "; it does not name the neighbours of its promise, which are assumed to be {NEIGHBOURS}"
            )?;
        }
        Ok(())
    }
}

/// Returns the guarantees for one record, with the definition's and the papers' neighbours, and for all records of a
/// canary at once.
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
            // A guarantee that is stated for other neighbours doesn't apply here.
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

/// Returns the notion of what is promised about so many records at once.
pub(in crate::audit) const fn notion(records: u64) -> Notion {
    if records > 1 {
        Notion::GroupDp
    } else {
        Notion::Dp
    }
}

/// Returns the guarantee of [`guarantees`] for all records of a canary at once, by the definition.
pub(in crate::audit) fn of_all_records(rows: &[Guarantee], records: u64) -> Option<&Guarantee> {
    let notion = notion(records);
    rows.iter()
        .find(|g| g.notion == notion && g.convention == Convention::Definition)
}

/// Returns a guarantee as the promise of a release, a finite ε, or why it is none.
pub(in crate::audit) fn finite_promise(
    released: &str,
    guarantee: &Guarantee,
) -> Result<Promise<Epsilon>, String> {
    let promise = Promise::of(released, guarantee).map_err(|why| why.to_string())?;
    if promise.at_most.get().get().is_infinite() {
        return Err("nothing was promised: ε is infinite".into());
    }
    Ok(promise)
}

/// Returns an upper bound on the total variation distance of a mechanism's outputs on neighbours.
pub(in crate::audit) fn total_variation(loss: &PrivacyLoss) -> Result<f64> {
    let answer = loss.delta(Epsilon::new(0.0)?, Tolerance::new(1e-3)?)?;
    Ok(answer.bounds.upper.map_or(1.0, |upper| upper.get().get()))
}

/// Returns what would have run after each known mistake: the mechanism, and the number of records that hold one
/// canary's secret.
pub(in crate::audit) fn alternatives(
    mechanism: &Mechanism,
    records: u32,
) -> Vec<(Mistake, Mechanism, u32)> {
    let more = records.max(1).saturating_mul(TIMES);
    let mut all = vec![(Mistake::UncountedCopies, mechanism.clone(), more)];
    let mut oftener = mechanism.clone();
    if draw_oftener(&mut oftener).is_some() {
        all.push((Mistake::SamplingRate, oftener, records));
    }
    all
}

/// The factor of a supposed mistake.
const TIMES: u32 = 10;

/// Raises the sampling rates of a mechanism; `None` if no batch is drawn.
fn draw_oftener(mechanism: &mut Mechanism) -> Option<()> {
    match mechanism {
        Mechanism::SubsampledGaussian {
            sampling_rate,
            sampling: Sampling::Poisson,
            ..
        } => {
            let rate = (sampling_rate.get() * f64::from(TIMES)).min(1.0);
            *sampling_rate = SamplingRate::new(rate).ok()?;
        }
        Mechanism::Repeat { each, .. } => draw_oftener(each)?,
        Mechanism::Sequence { parts } => {
            for part in parts {
                draw_oftener(part);
            }
        }
        _ => return None,
    }
    Some(())
}

/// Returns the mechanism with this share of the noise of each Gaussian; `None` for any other mechanism.
pub(in crate::audit) fn with_noise(mechanism: &Mechanism, share: f64) -> Result<Option<Mechanism>> {
    let mut weaker = mechanism.clone();
    Ok(lessen(&mut weaker, share)?.then_some(weaker))
}

/// Lessens the noise of each Gaussian; false if there is anything else.
fn lessen(mechanism: &mut Mechanism, share: f64) -> Result<bool> {
    match mechanism {
        Mechanism::Gaussian { noise_multiplier }
        | Mechanism::SubsampledGaussian {
            noise_multiplier, ..
        } => {
            *noise_multiplier = NoiseMultiplier::new(share * noise_multiplier.get())?;
            Ok(true)
        }
        Mechanism::Repeat { each, .. } => lessen(each, share),
        Mechanism::Sequence { parts } => {
            for part in parts {
                if !lessen(part, share)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Returns the pair that bounds reconstruction of a canary: its records against a reference, the mixture first. `None`
/// if the sampler's law for this many records is unknown: the group lemma bounds their ε, but not guesses.
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
