//! The comparison of an upper bound with a lower bound, which happens only here.
//!
//! A [`Promise`] holds an [`Upper`], a [`Measurement`] a [`Lower`]; both carry their [`Terms`]. [`judge`]
//! compares them only if the terms agree word for word, and says "not contradicted" or "contradicted", never
//! "safe": an audit that finds nothing proves nothing.

mod promise;
mod terms;

pub use promise::NoPromise;
pub use terms::{Field, Mismatch, Terms};

use crate::contract::{Exit, Number};
use crate::number::{nearest, rounded_down, rounded_up};
use reticent_accounting::{Estimate, Lower, Probability, Upper};
use reticent_attacks::exposure::CeilingOutcome;
use schemars::JsonSchema;
use serde::Serialize;

/// The probability that at least one verdict of a whole report says "contradicted" although every promise
/// holds.
pub const FALSE_ALARM: f64 = 1e-3;

/// Returns the false-alarm rate for each of `tests` tests at which together they stay within `total`
/// (Bonferroni).
///
/// ```
/// use reticent_accounting::Probability;
/// let each = reticent_reports::verdict::split(Probability::new(1e-3)?, 4);
/// assert!(each.get() * 4.0 <= 1e-3);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
#[must_use]
pub fn split(total: Probability, tests: usize) -> Probability {
    let each = total.get() / tests.max(1) as f64;
    // A share of a probability is a probability.
    Probability::new(each).unwrap_or(total)
}

/// A promise of the accountant: the quantity is at most this, under these terms.
#[derive(Debug, Clone, PartialEq)]
pub struct Promise<T> {
    /// The terms of the promise.
    pub terms: Terms,
    /// The bound.
    pub at_most: Upper<T>,
    /// The promises that would have been made after each known kind of mistake.
    pub mistakes: Vec<(Mistake, Upper<T>)>,
}

/// A measurement of an attack: the quantity is at least this, except in a false alarm.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement<T> {
    /// The terms of the measurement.
    pub terms: Terms,
    /// The bound.
    pub at_least: Lower<T>,
    /// The probability that the bound is wrong although the promise holds.
    pub false_alarm: Probability,
    /// The largest bound that this audit could have given, whatever was trained.
    pub provable: Upper<T>,
    /// The probabilities of contradicting a promise whose noise is smaller than stated, where they are known.
    pub power: Vec<Power>,
}

/// The chance of a contradiction, had less noise been added: by the best attack on canaries that
/// are independent of each other. An optimistic estimate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Power {
    /// The noise that was added, as a share of what is stated.
    pub noise: f64,
    /// The chance.
    pub chance: Estimate<Probability>,
}

/// A known kind of mistake that makes a model leak more than was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mistake {
    /// The policy let the secret through to ordinary optimisation.
    MissedSecret,
    /// More copies or records carry the secret than were counted.
    UncountedCopies,
    /// Batches were larger or more frequent than the sampling rate says.
    SamplingRate,
    /// Noise was missing, too small, or drawn once for several steps; or gradients were not clipped.
    NoiseOrClipping,
}

impl Mistake {
    /// Returns the mistake in words.
    #[must_use]
    pub const fn says(self) -> &'static str {
        match self {
            Self::MissedSecret => "the policy missed the secret, so it was trained on in the clear",
            Self::UncountedCopies => "more records carry the secret than were counted",
            Self::SamplingRate => "records were sampled more often than the stated rate",
            Self::NoiseOrClipping => "noise is missing or too small, or gradients were not clipped",
        }
    }
}

/// A promise compared with a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[must_use]
pub struct Verdict {
    /// What follows from the two.
    outcome: CeilingOutcome,
    /// In a sentence.
    says: String,
    /// The measured lower bound.
    at_least: Number,
    /// The promised upper bound.
    at_most: Number,
    /// The most that this audit could have proved; no less than `at_least`.
    provable: Number,
    /// Estimated chances of finding a mistake.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    power: Vec<Power>,
    /// The probability that a promise that holds is contradicted.
    false_alarm: f64,
    /// What may have gone wrong.
    suspects: Vec<Mistake>,
    /// What both are about.
    terms: Terms,
}

/// Compares a promise with a measurement.
///
/// The measurement contradicts the promise if its lower bound exceeds the upper bound. A contradiction is a
/// bug report: the suspects are the mistakes under which the promise would have covered the measurement, the
/// smallest such promise first. If no listed mistake would have, [`Mistake::NoiseOrClipping`] remains.
///
/// ```
/// use reticent_accounting::{
///     Delta, Epsilon, Lower, Neighbours, Notion, Probability, UnitName, Upper,
/// };
/// use reticent_reports::verdict::{Measurement, Promise, Terms, judge};
/// let terms = Terms {
///     released: "model.safetensors".into(),
///     notion: Notion::GroupDp,
///     neighbours: Neighbours::Replace,
///     unit: UnitName::new("turn")?,
///     delta: Delta::new(1e-5)?,
///     group: 20,
///     prior: None,
/// };
/// let promise = Promise { terms: terms.clone(), at_most: Upper::new(Epsilon::new(2.0)?), mistakes: vec![] };
/// let measured = Measurement {
///     terms,
///     at_least: Lower::new(Epsilon::new(14.8)?),
///     false_alarm: Probability::new(1e-3)?,
///     provable: Upper::new(Epsilon::new(15.0)?),
///     power: vec![],
/// };
/// assert!(judge(&promise, &measured)?.is_contradicted());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns a [`Mismatch`] if the terms differ; nothing can be concluded then.
pub fn judge<T: Copy + PartialOrd + Into<f64>>(
    promise: &Promise<T>,
    measured: &Measurement<T>,
) -> Result<Verdict, Mismatch> {
    promise.terms.agree(&measured.terms)?;
    let at_most: f64 = (*promise.at_most.get()).into();
    let at_least: f64 = (*measured.at_least.get()).into();
    // What is proved could be, though by canaries that training is said not to have met.
    let provable = measured.provable.no_less_than(*measured.at_least.get());
    let provable: f64 = provable.into_inner().into();
    let suspects = if at_least > at_most {
        suspects(&promise.mistakes, at_least)
    } else {
        Vec::new()
    };
    let mut verdict = Verdict {
        outcome: outcome(at_most, at_least, provable),
        says: String::new(),
        at_least: Number(at_least),
        at_most: Number(at_most),
        provable: Number(provable),
        power: measured.power.clone(),
        false_alarm: measured.false_alarm.get(),
        suspects,
        terms: promise.terms.clone(),
    };
    verdict.says = verdict.in_words();
    Ok(verdict)
}

const fn outcome(at_most: f64, at_least: f64, provable: f64) -> CeilingOutcome {
    match (at_least > at_most, provable > at_most) {
        (true, _) => CeilingOutcome::Contradicted,
        (false, true) => CeilingOutcome::NotContradicted,
        (false, false) => CeilingOutcome::CouldNotContradict,
    }
}

fn suspects<T: Copy + Into<f64>>(mistakes: &[(Mistake, Upper<T>)], at_least: f64) -> Vec<Mistake> {
    let mut covering: Vec<(Mistake, f64)> = mistakes
        .iter()
        .map(|(mistake, upper)| (*mistake, (*upper.get()).into()))
        .filter(|(_, upper)| *upper >= at_least)
        .collect();
    covering.sort_by(|a, b| a.1.total_cmp(&b.1));
    if covering.is_empty() {
        return vec![Mistake::NoiseOrClipping];
    }
    covering.into_iter().map(|(mistake, _)| mistake).collect()
}

impl Verdict {
    /// Whether the lower bound exceeds the upper bound.
    #[must_use]
    pub fn is_contradicted(&self) -> bool {
        self.at_least > self.at_most
    }
    /// What both speak of.
    #[must_use]
    pub fn terms(&self) -> &Terms {
        &self.terms
    }
    /// Returns the mistakes that would explain a contradiction, the likeliest first.
    #[must_use]
    pub fn suspects(&self) -> &[Mistake] {
        &self.suspects
    }
    /// Returns the promise as a number: no measured bound should exceed it.
    #[must_use]
    pub const fn promised_at_most(&self) -> f64 {
        self.at_most.0
    }
    /// Returns the measurement as a number: the quantity is at least this.
    #[must_use]
    pub const fn measured_at_least(&self) -> f64 {
        self.at_least.0
    }
    /// Returns the probability that the measured bound is wrong although the promise holds.
    #[must_use]
    pub const fn false_alarm(&self) -> f64 {
        self.false_alarm
    }
    /// Returns the exit code of a command that ends with this verdict.
    #[must_use]
    pub fn exit(&self) -> Exit {
        Exit::of(self.is_contradicted())
    }
    /// Returns whether the audit could have contradicted the promise, that is, whether the largest bound that
    /// it can give exceeds it.
    #[must_use]
    pub fn could_contradict(&self) -> bool {
        self.provable > self.at_most
    }
    /// Returns the largest bound that the audit could have given.
    #[must_use]
    pub const fn provable(&self) -> f64 {
        self.provable.0
    }
    /// Returns the probabilities that it would have contradicted a promise whose noise is smaller than
    /// stated.
    #[must_use]
    pub fn power(&self) -> &[Power] {
        &self.power
    }
    /// A contradiction as a sentence; nothing where there is none.
    #[must_use]
    pub fn contradiction(&self) -> Option<String> {
        self.is_contradicted().then(|| {
            format!(
                "This contradicts the promise: measured at least {}, promised at most {}.",
                rounded_down(self.at_least.0, 4),
                rounded_up(self.at_most.0, 4)
            )
        })
    }
    fn in_words(&self) -> String {
        let suspects: Vec<&str> = self.suspects.iter().map(|mistake| mistake.says()).collect();
        // An audit that could not contradict the promise has none.
        let power = self.power.iter().filter(|_| self.could_contradict());
        let power: Vec<String> = power.map(Power::to_string).collect();
        format!(
            "{}{}{} (measured at least {}, promised at most {}; false-alarm rate {}; this audit can prove {} at most{}{})",
            self.outcome(),
            if suspects.is_empty() { "" } else { ": " },
            suspects.join(", or "),
            rounded_down(self.at_least.0, 4),
            rounded_up(self.at_most.0, 4),
            nearest(self.false_alarm, 2),
            rounded_up(self.provable.0, 4),
            if power.is_empty() {
                ""
            } else {
                "; estimated power "
            },
            power.join(", ")
        )
    }
    /// Returns the outcome in words.
    #[must_use]
    pub const fn outcome(&self) -> &'static str {
        self.outcome.says()
    }
}

impl std::fmt::Display for Power {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let chance = nearest(self.chance.get().get(), 2);
        match self.noise {
            0.0 => write!(f, "{chance} without noise"),
            share => write!(f, "{chance} at {share} of the noise"),
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.says)
    }
}

#[cfg(test)]
pub(crate) mod tests;
