//! Finds the single change that lowers the headline most.

use super::PlannedRun;
use super::promises::{headline, is_about_a_record};
use crate::number::shortest;
use crate::plan::at_half_the_rate;
use anyhow::Result;
use reticent_accounting::Epsilon;
use reticent_accounting::confidentiality::{CorpusFacts, Reach};
use reticent_accounting::redaction::Redaction;
use reticent_accounting::training::{LabelledRates, NoisySteps, Recipe, Run, Stated, TrainingPlan};
use reticent_accounting::{GroupSize, MissRate, NoiseMultiplier, Steps, Tolerance, Upper};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The relative width of the compared numbers: they are printed to four digits.
const TOLERANCE: f64 = 1e-4;

/// A change and what the headline becomes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Tightened {
    /// What is changed, in words.
    pub(crate) change: String,
    /// What it costs or assumes.
    pub(crate) price: String,
    /// The headline's ε afterwards.
    pub(crate) epsilon: Upper<Epsilon>,
}

/// Returns the changes that lower the headline, the most effective first, and in words those that apply and don't. A
/// change whose headline can't be certified is left out.
///
/// # Errors
/// Returns no error for a plan that could be accounted.
pub(crate) fn tightened(
    run: &PlannedRun,
    now: Upper<Epsilon>,
) -> Result<(Vec<Tightened>, Vec<String>)> {
    let mut rough = run.clone();
    if rough.tolerance.get() < TOLERANCE {
        rough.tolerance = Tolerance::new(TOLERANCE)?;
    }
    let mut found = Vec::new();
    for (change, price, plan) in changes(&rough)? {
        let changed = PlannedRun {
            plan,
            ..rough.clone()
        };
        if let Ok(epsilon) = headline(&changed, run) {
            found.push(Tightened {
                change,
                price,
                epsilon,
            });
        }
    }
    found.sort_by(|a, b| a.epsilon.get().get().total_cmp(&b.epsilon.get().get()));
    let (help, rest): (Vec<_>, Vec<_>) = found.into_iter().partition(|row| lowers(row, now));
    Ok((help, rest.into_iter().map(|row| row.change).collect()))
}

/// Returns whether a change lowers the headline by more than the rounding of the compared numbers.
fn lowers(row: &Tightened, now: Upper<Epsilon>) -> bool {
    let (then, now) = (row.epsilon.get().get(), now.get().get());
    then < now * (1.0 - 1e-3) || then.is_finite() && now.is_infinite()
}

type Change = (String, String, TrainingPlan);

fn changes(run: &PlannedRun) -> Result<Vec<Change>> {
    let mut all = Vec::new();
    if run.plan.run.recipe() == Some(Recipe::Sgd) || run.plan.unprotected().is_some() {
        return Ok(all);
    }
    all.extend(noise(run)?);
    if !is_about_a_record(run) {
        all.extend(copies(run)?);
    }
    all.extend(labels(run)?);
    all.extend(screening(run)?);
    Ok(all)
}

/// Returns the plan with other noisy steps.
fn with(plan: &TrainingPlan, noisy: NoisySteps) -> TrainingPlan {
    let mut changed = plan.clone();
    if let Some(steps) = changed.run.noisy_mut() {
        *steps = noisy;
    }
    changed
}

fn noise(run: &PlannedRun) -> Result<Vec<Change>> {
    let plan = &run.plan;
    let Some(noisy) = plan.run.noisy() else {
        return Ok(Vec::new());
    };
    let louder = NoiseMultiplier::new(noisy.noise_multiplier.get() * 1.1)?;
    let fewer = Steps::new(noisy.steps.get().div_ceil(2));
    let mut all = vec![
        (
            format!(
                "sigma +10 % ({})",
                shortest((louder.get() * 1e4).round() / 1e4)
            ),
            "utility".into(),
            with(plan, noisy.with_noise(louder)),
        ),
        (
            format!("half the steps ({})", fewer.get()),
            "utility".into(),
            with(plan, noisy.with_steps(fewer)),
        ),
    ];
    // A batch of one record can't be halved.
    if let Ok(rarer) = at_half_the_rate(&run.request, run.corpus.as_ref(), noisy) {
        all.push((
            "half the batch, the same passes over the data".into(),
            "utility".into(),
            with(plan, rarer),
        ));
    }
    Ok(all)
}

/// Reduces the records of one secret: by deduplication beyond exact copies, or by a unit that holds
/// more of them.
fn copies(run: &PlannedRun) -> Result<Vec<Change>> {
    let now = run.records().get();
    let mut all = Vec::new();
    let mut push = |records: u32, how: &str| -> Result<()> {
        let records = GroupSize::new(records)?;
        let mut changed = run.plan.clone();
        changed.secrets.records = Some(Stated::assumed(records));
        changed.secrets.facts = match changed.secrets.facts {
            Some(facts) => Some(limited(facts, records)?),
            None => None,
        };
        all.push((
            format!("{how}: a secret in {} instead of {now}", records.get()),
            "data left out or merged".into(),
            changed,
        ));
        Ok(())
    };
    if now > 2 {
        push(now.div_ceil(2), "deduplicate by secret")?;
    }
    if now > 1 {
        push(1, "deduplicate by secret, or a larger unit")?;
    }
    Ok(all)
}

/// Returns the facts with no missed secret in more than `records` records.
fn limited(facts: CorpusFacts, records: GroupSize) -> Result<CorpusFacts> {
    let most = match facts.missed_reach() {
        Reach::Nothing => return Ok(facts),
        Reach::Records(_) | Reach::Open => u64::from(records.get()).min(facts.most_records()),
    };
    Ok(facts.recounted(facts.missed_by_both(), most)?)
}

fn labels(run: &PlannedRun) -> Result<Vec<Change>> {
    let Some(redaction) = run.redaction() else {
        return Ok(Vec::new());
    };
    let everything_private = run.plan.secrets.everything_private;
    let mut all = Vec::new();
    if let Some(LabelledRates { sample, rates }) = run.labels() {
        let mut most = sample.labelled();
        for factor in [1, 9] {
            let larger = sample.enlarged(sample.labelled() * factor);
            // A population has no more secrets than that.
            if larger.labelled() <= most {
                break;
            }
            most = larger.labelled();
            let more = most - sample.labelled();
            let rates = larger.rates(rates.confidence)?;
            let redaction = if everything_private {
                Redaction::single_policy(*rates.gamma.get())
            } else {
                rates.redaction()?
            };
            let mut changed = run.plan.clone();
            changed.secrets.redaction = Some(Stated::assumed(redaction));
            changed.secrets.labels = Some(LabelledRates {
                sample: larger,
                rates,
            });
            all.push((
                format!("label {more} more secrets"),
                "labour, if the same share is missed".into(),
                changed,
            ));
        }
    }
    let half = |rate: MissRate| MissRate::new(0.5 * rate.get());
    let better = Redaction::new(half(redaction.miss())?, half(redaction.missed_by_both())?)?;
    let mut changed = run.plan.clone();
    changed.secrets.redaction = Some(Stated::assumed(better));
    changed.secrets.labels = None;
    all.push((
        "policies that miss half as often".into(),
        "better policies, on a new labelled sample".into(),
        changed,
    ));
    Ok(all)
}

/// Removes the conservative policy, so that every record is trained on with noise: with the steps of the private
/// records, of which there must be some, or it would cost nothing.
fn screening(run: &PlannedRun) -> Result<Option<Change>> {
    let secrets = &run.plan.secrets;
    let has_noise = matches!(
        run.plan.run,
        Run::Crt {
            private: Some(_),
            ..
        }
    );
    if !has_noise || secrets.everything_private {
        return Ok(None);
    }
    let mut changed = run.plan.clone();
    changed.secrets.everything_private = true;
    if let Some(facts) = secrets.facts {
        changed.secrets.facts = Some(facts.recounted(0, facts.most_records())?);
    }
    if let Some(redaction) = &secrets.redaction {
        let private = Redaction::single_policy(redaction.miss());
        changed.secrets.redaction = Some(redaction.with(private));
    }
    Ok(Some((
        "treat every record as private, same rate".into(),
        "utility and time".into(),
        changed,
    )))
}
