//! Which single change lowers the headline most.

use super::file::Recipe;
use super::promises::promises;
use super::subject::{Rates, Subject};
use crate::number::shortest;
use anyhow::Result;
use reticent_accounting::Epsilon;
use reticent_accounting::confidentiality::{CorpusFacts, Reach};
use reticent_accounting::{
    GroupSize, MissRate, NoiseMultiplier, Redaction, SamplingRate, Steps, Tolerance, Upper,
};
use serde::{Deserialize, Serialize};

/// Relative width of the compared numbers: printed to four digits.
const TOLERANCE: f64 = 1e-4;

/// A change and what the headline becomes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tightened {
    /// What is changed, in words.
    pub change: String,
    /// What it costs or supposes.
    pub price: String,
    /// The headline's ε afterwards.
    pub epsilon: Upper<Epsilon>,
}

/// The headline's ε; infinite without one.
pub(super) fn headline(subject: &Subject) -> Result<Upper<Epsilon>> {
    let found = promises(subject)?;
    let best = found
        .iter()
        .find(|p| !p.for_planning)
        .and_then(|p| p.guarantee.epsilon)
        .and_then(|bounds| bounds.upper);
    Ok(best.map_or_else(|| Epsilon::new(f64::INFINITY).map(Upper::new), Ok)?)
}

/// Every change that applies, the most effective first. A change whose headline can't be certified
/// is left out.
///
/// # Errors
/// None for a plan that could be accounted.
pub fn tightened(subject: &Subject) -> Result<Vec<Tightened>> {
    let mut rough = subject.clone();
    if rough.tolerance.get() < TOLERANCE {
        rough.tolerance = Tolerance::new(TOLERANCE)?;
    }
    let mut found = Vec::new();
    for (change, price, changed) in changes(&rough)? {
        if let Ok(epsilon) = headline(&changed) {
            found.push(Tightened {
                change,
                price,
                epsilon,
            });
        }
    }
    found.sort_by(|a, b| a.epsilon.get().get().total_cmp(&b.epsilon.get().get()));
    Ok(found)
}

type Change = (String, String, Subject);

fn changes(subject: &Subject) -> Result<Vec<Change>> {
    let mut all = Vec::new();
    if subject.recipe == Recipe::Sgd || subject.leak.is_some() {
        return Ok(all);
    }
    all.extend(noise(subject)?);
    all.extend(copies(subject)?);
    all.extend(labels(subject)?);
    all.extend(screening(subject)?);
    Ok(all)
}

fn noise(subject: &Subject) -> Result<Vec<Change>> {
    let Some(sigma) = subject.sigma else {
        return Ok(Vec::new());
    };
    let louder = NoiseMultiplier::new(sigma.get() * 1.1)?;
    let fewer = Steps::new(subject.steps.get().div_ceil(2));
    let rarer = SamplingRate::new(subject.rate.get() * 0.5)?;
    let longer = Steps::new(subject.steps.get().saturating_mul(2));
    Ok(vec![
        (
            format!(
                "sigma +10 % ({})",
                shortest((louder.get() * 1e4).round() / 1e4)
            ),
            "utility".into(),
            Subject {
                sigma: Some(louder),
                ..subject.clone()
            },
        ),
        (
            format!("half the steps ({})", fewer.get()),
            "utility".into(),
            Subject {
                steps: fewer,
                ..subject.clone()
            },
        ),
        (
            "half the batch, the same passes over the data".into(),
            "utility".into(),
            Subject {
                rate: rarer,
                steps: longer,
                ..subject.clone()
            },
        ),
    ])
}

/// Fewer records of one secret: deduplication beyond exact copies, or a unit that holds more of them.
fn copies(subject: &Subject) -> Result<Vec<Change>> {
    let now = subject.records.get();
    let mut all = Vec::new();
    let mut push = |records: u32, how: &str| -> Result<()> {
        let records = GroupSize::new(records)?;
        let facts = match subject.facts {
            Some(facts) => Some(limited(facts, records)?),
            None => None,
        };
        let changed = Subject {
            records,
            facts,
            ..subject.clone()
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

/// The facts with no missed secret in more than so many records.
fn limited(facts: CorpusFacts, records: GroupSize) -> Result<CorpusFacts> {
    let most = match facts.missed_reach() {
        Reach::Nothing => return Ok(facts),
        Reach::Records(_) | Reach::Open => u64::from(records.get()).min(facts.most_records()),
    };
    Ok(CorpusFacts::new(
        facts.secrets(),
        facts.missed(),
        facts.missed_by_both(),
        most,
        facts.spread(),
        facts.knowledge(),
    )?)
}

fn labels(subject: &Subject) -> Result<Vec<Change>> {
    let Some(rates) = &subject.rates else {
        return Ok(Vec::new());
    };
    let mut all = Vec::new();
    if let Some((sample, found)) = &rates.measured {
        for factor in [1, 9] {
            let more = sample.labelled() * factor;
            let larger = sample.enlarged(more);
            let enlarged = larger.rates(found.confidence)?;
            let rates = Rates::of(larger, enlarged)?.screened(subject.everything_private);
            all.push((
                format!("label {more} more secrets"),
                "labour, if the same share is missed".into(),
                Subject {
                    rates: Some(rates),
                    ..subject.clone()
                },
            ));
        }
    }
    let redaction = rates.redaction;
    let half = |rate: MissRate| MissRate::new(0.5 * rate.get());
    let better = Redaction::new(half(redaction.miss())?, half(redaction.missed_by_both())?)?;
    all.push((
        "policies that miss half as often".into(),
        "better policies, labelled afresh".into(),
        Subject {
            rates: Some(Rates {
                redaction: better,
                measured: None,
            }),
            ..subject.clone()
        },
    ));
    Ok(all)
}

/// No conservative policy at all: every record is trained on with noise.
fn screening(subject: &Subject) -> Result<Option<Change>> {
    if subject.recipe != Recipe::Crt || subject.everything_private {
        return Ok(None);
    }
    let facts = match subject.facts {
        Some(facts) => Some(CorpusFacts::new(
            facts.secrets(),
            facts.missed(),
            0,
            facts.most_records(),
            facts.spread(),
            facts.knowledge(),
        )?),
        None => None,
    };
    let rates = subject.rates.clone().map(|rates| rates.screened(true));
    let changed = Subject {
        everything_private: true,
        facts,
        rates,
        ..subject.clone()
    };
    Ok(Some((
        "treat every record as private, same rate".into(),
        "utility and time".into(),
        changed,
    )))
}
