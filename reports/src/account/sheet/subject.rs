//! What a page is about: a plan with its corpus' facts and its measured rates, from a file, a
//! prepared corpus, or both.

use super::file::{FirstPhase, Recipe, TrainingFile};
use super::prepared::PreparedFacts;
use crate::account::labels;
use crate::contract::Inputs;
use anyhow::{Context, Result, bail};
use reticent_accounting::confidentiality::{
    CorpusFacts, JustFineTuneTwice, Knowledge, LabelledSecrets, MeasuredRates, PhaseOne, Reach,
    RedactedAlike,
};
use reticent_accounting::{
    Confidence, Delta, GroupSize, Mechanism, NoiseMultiplier, Probability, Redaction, SamplingRate,
    Steps, Tolerance, UnitName,
};

/// Assumed when no δ is given.
pub const DELTA: f64 = 1e-5;
/// Assumed for measured miss rates.
pub const CONFIDENCE: f64 = 0.95;
/// Relative width of the numbers on the page: printed to five digits.
pub const TOLERANCE: f64 = 1e-6;

/// How often the policies miss, and how that is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    /// γ and η.
    pub redaction: Redaction,
    /// The sample and what follows from it; absent for assumed rates.
    pub measured: Option<(LabelledSecrets, MeasuredRates)>,
}

impl Rates {
    /// Where every record is private nothing is missed by both.
    #[must_use]
    pub fn screened(self, everything_private: bool) -> Self {
        if !everything_private {
            return self;
        }
        Self {
            redaction: Redaction::single_policy(self.redaction.miss()),
            ..self
        }
    }

    /// The rates of a sample.
    ///
    /// # Errors
    /// None for rates that were measured.
    pub fn of(sample: LabelledSecrets, found: MeasuredRates) -> Result<Self> {
        Ok(Self {
            redaction: found.redaction()?,
            measured: Some((sample, found)),
        })
    }
}

/// Everything a page needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    /// The method.
    pub recipe: Recipe,
    /// What one record is.
    pub unit: UnitName,
    /// σ; absent for `sgd`.
    pub sigma: Option<NoiseMultiplier>,
    /// q.
    pub rate: SamplingRate,
    /// T.
    pub steps: Steps,
    /// δ.
    pub delta: Delta,
    /// Relative width of every number.
    pub tolerance: Tolerance,
    /// Records that one secret is trained on in, and how many before deduplication.
    pub records: GroupSize,
    /// The same before deduplication.
    pub records_before: Option<GroupSize>,
    /// What became of the secrets of the corpus.
    pub facts: Option<CorpusFacts>,
    /// How often the policies miss.
    pub rates: Option<Rates>,
    /// No conservative policy.
    pub everything_private: bool,
    /// The first phase of `jft`.
    pub first_phase: Option<FirstPhase>,
    /// Chance of guessing a secret beforehand.
    pub prior: Option<Probability>,
    /// Contents a secret can have.
    pub candidates: Option<u64>,
    /// Planted secrets.
    pub canaries: Option<u64>,
    /// Something that releases private text without protection.
    pub leak: Option<String>,
    /// What was given and assumed.
    pub inputs: Inputs,
}

/// q and T: given, or from batch and private side as `audit train` runs them: an epoch has
/// round(1/q) steps.
struct Schedule {
    rate: SamplingRate,
    steps: Steps,
}

impl Subject {
    /// Checks a file against itself and the corpus it names.
    ///
    /// # Errors
    /// A key that is missing, or values that contradict each other, by name.
    pub fn new(file: &TrainingFile, prepared: Option<&PreparedFacts>) -> Result<Self> {
        let mut inputs = Inputs::new().given("recipe", file.recipe)?;
        let unit = match (&file.unit, prepared) {
            (Some(unit), Some(found)) if *unit != found.unit => {
                bail!(
                    "unit: must be the prepared corpus' own, {}, got {unit}",
                    found.unit
                )
            }
            (_, Some(found)) => found.unit.clone(),
            (Some(unit), None) => unit.clone(),
            (None, None) => UnitName::new("record")?,
        };
        let told = file.unit.is_some() || prepared.is_some();
        inputs = inputs.or_assumed("unit", told.then(|| unit.clone()), unit.clone())?;
        let delta = file.delta.map_or_else(|| Delta::new(DELTA), Ok)?;
        inputs = inputs.or_assumed("delta", file.delta, delta)?;
        let (schedule, sigma, inputs) = schedule(file, prepared, inputs)?;
        let (rates, inputs) = rates(file, inputs)?;
        let facts = prepared.map(|found| found.secrets);
        let (records, inputs) = records(file, facts.as_ref(), inputs)?;
        let everything_private = everything_private(file, prepared)?;
        let rates = rates.map(|found| found.screened(everything_private));
        let mut inputs = inputs
            .given("records_before", file.secrets.records_before)?
            .given("everything_private", everything_private)?
            .given("prior", file.secrets.prior)?
            .given("candidates", file.secrets.candidates)?;
        let canaries = file
            .secrets
            .canaries
            .or(prepared.and_then(|p| Some(p.canaries?.0)));
        inputs = inputs.given("canaries", canaries)?;
        if let Some(found) = prepared {
            inputs = inputs
                .given("public_records", found.public)?
                .given("deduplicated", found.deduplicated)?
                .given("distinct_secrets", found.secrets.secrets())?
                .given("missed_secrets", found.secrets.missed())?
                .given("open_secrets", found.secrets.missed_by_both())?;
        }
        if file.first_phase.is_some() != (file.recipe == Recipe::Jft) {
            bail!("first_phase: belongs to recipe \"jft\" and is needed there");
        }
        for (key, count) in [
            ("candidates", file.secrets.candidates),
            ("canaries", canaries),
        ] {
            if count == Some(0) {
                bail!("secrets.{key}: must be a whole number from 1 on, got 0");
            }
        }
        let leaks = prepared.is_some_and(|found| found.vocabulary_leaks);
        Ok(Self {
            recipe: file.recipe,
            unit,
            sigma,
            rate: schedule.rate,
            steps: schedule.steps,
            delta,
            tolerance: file
                .tolerance
                .map_or_else(|| Tolerance::new(TOLERANCE), Ok)?,
            records,
            records_before: file.secrets.records_before,
            facts,
            rates,
            everything_private,
            first_phase: file.first_phase.clone(),
            prior: file.secrets.prior,
            candidates: file.secrets.candidates,
            canaries,
            leak: leaks.then(|| "the vocabulary was fitted on the private text".to_owned()),
            inputs,
        })
    }

    /// What runs on the records in question, with whatever releases them unprotected.
    #[must_use]
    pub fn mechanism(&self) -> Mechanism {
        let open = |why: &str| Mechanism::NonPrivate {
            why: why.to_owned(),
        };
        let noisy = match self.sigma {
            Some(sigma) if self.recipe != Recipe::Sgd => {
                Mechanism::dp_sgd(sigma, self.rate, self.steps)
            }
            _ => open("training without noise"),
        };
        let run = match &self.first_phase {
            Some(first) => first.run(noisy).mechanism(),
            None => noisy,
        };
        match &self.leak {
            Some(why) => Mechanism::Sequence {
                parts: vec![open(why), run],
            },
            None => run,
        }
    }

    /// Whether misses were counted in this very corpus.
    #[must_use]
    pub fn counted(&self) -> Option<CorpusFacts> {
        self.facts
            .filter(|facts| facts.knowledge() == Knowledge::Counted)
    }
}

impl FirstPhase {
    fn run(&self, second: Mechanism) -> JustFineTuneTwice {
        let first = match (self.sigma, self.sample_rate, self.steps) {
            (Some(sigma), Some(rate), Some(steps)) => {
                PhaseOne::Noised(Mechanism::dp_sgd(sigma, rate, Steps::new(steps)))
            }
            _ => PhaseOne::Unnoised(RedactedAlike {
                every_content_caught: self.every_content_caught,
                length_and_kind_hidden: self.length_and_kind_hidden,
                screening_ignores_secrets: self.screening_ignores_secrets,
            }),
        };
        JustFineTuneTwice { first, second }
    }

    /// Whether it runs with noise.
    #[must_use]
    pub const fn noised(&self) -> bool {
        self.sigma.is_some() && self.sample_rate.is_some() && self.steps.is_some()
    }
}

fn schedule(
    file: &TrainingFile,
    prepared: Option<&PreparedFacts>,
    inputs: Inputs,
) -> Result<(Schedule, Option<NoiseMultiplier>, Inputs)> {
    let training = &file.training;
    if file.recipe == Recipe::Sgd {
        let schedule = Schedule {
            rate: SamplingRate::new(1.0)?,
            steps: Steps::new(1),
        };
        return Ok((schedule, None, inputs));
    }
    let Some(sigma) = training.sigma else {
        bail!("training.sigma: is needed for every recipe but \"sgd\"");
    };
    let private = match (prepared, file.data.private) {
        (Some(_), Some(_)) => bail!("data.private: comes from data.prepared, give one of them"),
        // Noise on every record, whichever side it was sorted to.
        (Some(found), None) if file.recipe == Recipe::Dpsgd => Some(found.public + found.private),
        (Some(found), None) => Some(found.private),
        (None, given) => given,
    };
    let mut inputs = inputs
        .given("sigma", sigma)?
        .given("private_records", private)?;
    let rate = match (training.sample_rate, training.batch_size, private) {
        (Some(_), Some(_), _) => {
            bail!("training.sample_rate and training.batch_size: give one of them")
        }
        (Some(rate), None, _) => rate,
        (None, Some(batch), Some(private)) if batch >= 1 && batch <= private => {
            inputs = inputs.given("batch_size", batch)?;
            SamplingRate::new(batch as f64 / private as f64)?
        }
        (None, Some(batch), Some(private)) => {
            bail!(
                "training.batch_size: must lie in [1, {private}] (the private records), got {batch}"
            )
        }
        (None, Some(_), None) => bail!("data.private: is needed with training.batch_size"),
        (None, None, _) => bail!("training.batch_size: is needed, or training.sample_rate"),
    };
    let steps = match (training.steps, training.epochs) {
        (Some(_), Some(_)) => bail!("training.steps and training.epochs: give one of them"),
        (Some(steps), None) if steps >= 1 => steps,
        (Some(steps), None) => {
            bail!("training.steps: must be a whole number from 1 on, got {steps}")
        }
        (None, Some(epochs)) if epochs > 0.0 && epochs.is_finite() => {
            inputs = inputs.given("epochs", epochs)?;
            let Some(steps) = Steps::for_epochs(epochs, rate) else {
                bail!("training.epochs: must make at most 2^53 steps, got {epochs:?}");
            };
            steps.get()
        }
        (None, Some(epochs)) => {
            bail!("training.epochs: must be a number in (0, inf), got {epochs:?}")
        }
        (None, None) => bail!("training.epochs: is needed, or training.steps"),
    };
    let inputs = inputs.given("sample_rate", rate)?.given("steps", steps)?;
    let schedule = Schedule {
        rate,
        steps: Steps::new(steps),
    };
    Ok((schedule, Some(sigma), inputs))
}

/// γ and η, measured or assumed.
fn rates(file: &TrainingFile, inputs: Inputs) -> Result<(Option<Rates>, Inputs)> {
    let secrets = &file.secrets;
    match (&secrets.labels, secrets.gamma) {
        (Some(_), Some(gamma)) => {
            bail!("secrets.gamma: is measured by secrets.labels, give one of them, got {gamma}")
        }
        (Some(path), None) => {
            if let Some(joint) = secrets.joint_miss {
                bail!("secrets.joint_miss: is measured by secrets.labels, got {joint}");
            }
            let confidence = secrets
                .confidence
                .map_or_else(|| Confidence::new(CONFIDENCE), Ok)?;
            let sample = labels::read(path).context("secrets.labels")?;
            let (rates, inputs) = measured(sample, secrets.confidence, confidence, inputs)?;
            Ok((Some(rates), inputs))
        }
        (None, Some(gamma)) => {
            let joint = secrets.joint_miss.unwrap_or(gamma);
            let redaction = Redaction::new(gamma, joint).context("secrets.joint_miss")?;
            let inputs = inputs.given("gamma", gamma)?.or_assumed(
                "joint_miss",
                secrets.joint_miss,
                joint,
            )?;
            let rates = Rates {
                redaction,
                measured: None,
            };
            Ok((Some(rates), inputs))
        }
        (None, None) => {
            if let Some(joint) = secrets.joint_miss {
                bail!("secrets.joint_miss: needs secrets.gamma, got {joint} alone");
            }
            Ok((None, inputs))
        }
    }
}

/// Rates from a sample; without a conservative policy nothing is missed by both.
fn measured(
    sample: LabelledSecrets,
    given: Option<Confidence>,
    confidence: Confidence,
    inputs: Inputs,
) -> Result<(Rates, Inputs)> {
    let found = sample.rates(confidence)?;
    let inputs = inputs
        .or_assumed("confidence", given, confidence)?
        .given("labelled", sample.labelled())?
        .given("missed", sample.missed())?
        .given(
            "missed_by_both",
            sample
                .conservative_labelled()
                .then(|| sample.missed_by_both()),
        )?
        .given("gamma", found.gamma)?
        .given("joint_miss", found.eta)?;
    Ok((Rates::of(sample, found)?, inputs))
}

/// Whether no record is trained on without noise: what was sorted to the public side of a corpus is.
fn everything_private(file: &TrainingFile, prepared: Option<&PreparedFacts>) -> Result<bool> {
    let given = file.secrets.everything_private;
    let sorted = prepared.filter(|found| !found.everything_private);
    match (given, sorted) {
        (Some(true), Some(found)) if file.recipe != Recipe::Dpsgd => bail!(
            "secrets.everything_private: must be false, {} records of the prepared corpus are on the public side, got true",
            found.public
        ),
        _ => Ok(given
            .or(prepared.map(|found| found.everything_private))
            .unwrap_or(false)),
    }
}

/// How many records one secret is trained on in: given, or the corpus' worst missed one.
fn records(
    file: &TrainingFile,
    facts: Option<&CorpusFacts>,
    inputs: Inputs,
) -> Result<(GroupSize, Inputs)> {
    let found = facts.and_then(|facts| match facts.missed_reach() {
        Reach::Records(records) => Some(records),
        Reach::Nothing | Reach::Open => None,
    });
    if let (Some(given), Some(found)) = (file.secrets.records, found)
        && given < found
    {
        bail!(
            "secrets.records: must lie in [{}, 10000], what the prepared corpus holds, got {}",
            found.get(),
            given.get()
        );
    }
    let told = file.secrets.records.or(found);
    let records = told.unwrap_or(GroupSize::ONE);
    Ok((records, inputs.or_assumed("records", told, records)?))
}
