//! From arguments to a plan, with everything that was given or assumed.

use super::cli::{NeighboursArg, PlanArgs, QuestionArgs, RedactionArgs, RunArgs, Sampler};
use super::labels;
use super::mechanism::{Loaded, is_stdin, load};
use super::schedule::{Batches, assumed_neighbours, batches};
use crate::contract::Inputs;
use anyhow::{Context, Result, anyhow, bail};
use reticent_accounting::confidentiality::MeasuredRates;
use reticent_accounting::statistics::LabelledSample;
use reticent_accounting::{
    Confidence, Delta, Epsilon, GroupSize, Mechanism, MissRate, Neighbours, NoiseMultiplier, Plan,
    Redaction, Sampling, Tolerance, UnitName,
};
use std::path::{Path, PathBuf};

/// Assumed when no δ is given.
pub const DELTA: f64 = 1e-5;
/// Assumed for a measured miss rate.
pub const CONFIDENCE: f64 = 0.95;
/// What a record is called when nobody says.
pub const UNIT: &str = "record";

/// A plan as asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    /// What to account for.
    pub plan: Plan,
    /// What runs, as it was described.
    pub run: Run,
    /// δ is asked for at this ε, instead of ε at the plan's δ.
    pub epsilon: Option<Epsilon>,
    /// The sample behind a measured miss rate.
    pub sample: Option<LabelledSample>,
    /// Rates of both policies from labels.
    pub measured: Option<MeasuredRates>,
    /// What was given and what was assumed, for the envelope.
    pub inputs: Inputs,
}

/// What runs, as it was described.
#[derive(Debug, Clone, PartialEq)]
pub enum Run {
    /// DP-SGD by its numbers.
    DpSgd {
        /// σ.
        sigma: NoiseMultiplier,
        /// How its batches are drawn, and how many.
        batches: Batches,
    },
    /// Files with mechanisms, in order.
    Files(Vec<String>),
}

impl Run {
    /// What could not be accounted for, with the place that it came from.
    ///
    /// # Errors
    /// The same one.
    pub fn blamed<T>(&self, found: reticent_accounting::Result<T>) -> Result<T> {
        match self {
            Self::DpSgd { batches, .. } if batches.sampling != Sampling::Poisson => {
                found.context("--sampler")
            }
            Self::DpSgd { .. } => Ok(found?),
            Self::Files(names) => found.with_context(|| names.join(", ")),
        }
    }
}

/// A mechanism with everything known about it before a question is asked.
#[derive(Debug, Clone)]
pub struct Source {
    /// What runs.
    pub mechanism: Mechanism,
    /// As it was described.
    pub run: Run,
    /// What one record is, if the files say so.
    pub unit: Option<UnitName>,
    /// Some of the files do not say it: theirs is assumed to be the others'.
    pub unit_open: bool,
    /// Who is compared with whom: as asked, or assumed.
    pub neighbours: Neighbours,
    /// Given and assumed so far.
    pub inputs: Inputs,
}

impl Source {
    /// What runs, by numbers or from one file.
    ///
    /// # Errors
    /// Values that contradict each other, and a file that describes no mechanism.
    pub fn of_run(run: &RunArgs, neighbours: Neighbours) -> Result<Self> {
        if let Some(path) = &run.mechanism {
            let loaded = load(path, neighbours).context("--mechanism")?;
            return Self::of_loaded(vec![loaded], neighbours);
        }
        let sigma = run.sigma.ok_or_else(|| anyhow!("--sigma is needed"))?;
        let inputs = Inputs::new().given("sigma", sigma)?;
        let (batches, inputs) = batches(&run.schedule, inputs)?;
        Ok(Self {
            mechanism: batches.run(sigma),
            run: Run::DpSgd { sigma, batches },
            unit: None,
            unit_open: true,
            neighbours,
            inputs,
        })
    }

    /// What runs, file after file.
    ///
    /// # Errors
    /// A file that describes no mechanism, stdin twice, or two files about different units.
    pub fn of_files(files: &[PathBuf], neighbours: Neighbours) -> Result<Self> {
        if files.iter().filter(|path| is_stdin(path)).count() > 1 {
            bail!("FILE: stdin (-) can be read only once");
        }
        let loaded = files.iter().map(|path| load(path, neighbours));
        Self::of_loaded(loaded.collect::<Result<_>>()?, neighbours)
    }

    fn of_loaded(mut loaded: Vec<Loaded>, neighbours: Neighbours) -> Result<Self> {
        let mut units = loaded
            .iter()
            .filter_map(|file| Some((&file.name, file.unit.as_ref()?)));
        let unit = units.next();
        if let (Some((first, unit)), Some((other, odd))) =
            (unit, units.find(|(_, u)| Some(*u) != unit.map(|(_, u)| u)))
        {
            bail!(
                "FILE: one record is a {unit} in {first} and a {odd} in {other}: these runs have no common question"
            );
        }
        let unit = unit.map(|(_, unit)| unit.clone());
        let unit_open = loaded.iter().any(|file| file.unit.is_none());
        let names: Vec<String> = loaded.iter().map(|file| file.name.clone()).collect();
        let mechanism = match loaded.len() {
            1 => loaded.remove(0).mechanism,
            _ => Mechanism::Sequence {
                parts: loaded.into_iter().map(|file| file.mechanism).collect(),
            },
        };
        let inputs = Inputs::new().given("files", &names)?;
        Ok(Self {
            mechanism,
            run: Run::Files(names),
            unit,
            unit_open,
            neighbours,
            inputs,
        })
    }
}

/// What one record is, and that if it was said: as the files say, which no argument overrules,
/// since the same number promises more of a larger unit.
///
/// # Errors
/// An argument that contradicts the files.
pub fn unit(
    asked: Option<&UnitName>,
    of_files: Option<&UnitName>,
    open: bool,
) -> Result<(Option<UnitName>, UnitName)> {
    match (asked, of_files) {
        (Some(asked), Some(known)) if asked != known => {
            bail!("--unit: must be {known}, what one record is in the file, got {asked}")
        }
        (Some(unit), _) => Ok((Some(unit.clone()), unit.clone())),
        (None, Some(unit)) => Ok(((!open).then(|| unit.clone()), unit.clone())),
        (None, None) => Ok((None, UnitName::new(UNIT)?)),
    }
}

impl Asked {
    /// Checks the arguments against each other and fills in what is missing.
    ///
    /// # Errors
    /// Values that contradict each other, named.
    pub fn new(arguments: &PlanArgs) -> Result<Self> {
        let question = &arguments.question;
        Self::about(
            Source::of_run(
                &arguments.run,
                neighbours_of(question.neighbours, arguments.run.schedule.sampler),
            )?,
            question,
        )
    }

    /// A question about something that runs.
    ///
    /// # Errors
    /// Values that contradict each other, named.
    pub fn about(source: Source, question: &QuestionArgs) -> Result<Self> {
        let delta = question.delta.map_or_else(|| Delta::new(DELTA), Ok)?;
        let (said, unit) = unit(
            question.unit.as_ref(),
            source.unit.as_ref(),
            source.unit_open,
        )?;
        let neighbours = source.neighbours;
        let inputs = match question.epsilon {
            Some(epsilon) => source.inputs.given("epsilon", epsilon)?,
            None => source.inputs.or_assumed("delta", question.delta, delta)?,
        };
        let inputs = inputs
            .or_assumed(
                "neighbours",
                question.neighbours.map(Neighbours::from),
                neighbours,
            )?
            .or_assumed("unit", said, unit.clone())?
            .or_assumed("tolerance", question.tolerance, Tolerance::DEFAULT)?
            .given("group", question.group)?;
        let (redaction, inputs) = redaction(&question.redaction, inputs)?;
        let inputs = inputs
            .given("prior", question.prior)?
            .given("gdp", question.gdp)?;
        let mut plan = Plan::new(source.mechanism, unit, delta);
        plan.neighbours = neighbours;
        plan.group = question.group.unwrap_or(GroupSize::ONE);
        plan.prior = question.prior;
        plan.gaussian_slack = question.gdp;
        plan.tolerance = question.tolerance.unwrap_or(Tolerance::DEFAULT);
        if let Some(found) = &redaction {
            plan.redaction = Some(found.redaction);
            plan.confidence = found.confidence;
        }
        Ok(Self {
            plan,
            run: source.run,
            epsilon: question.epsilon,
            sample: redaction.as_ref().and_then(|found| found.sample),
            measured: redaction.and_then(|found| found.measured),
            inputs,
        })
    }
}

/// The neighbours of the differential-privacy rows, or those that are assumed for a sampler.
pub fn neighbours_of(given: Option<NeighboursArg>, sampler: Option<Sampler>) -> Neighbours {
    given.map_or_else(|| assumed_neighbours(sampler), Into::into)
}

/// The same of what comes from files.
pub fn neighbours(given: Option<NeighboursArg>) -> Neighbours {
    given.map_or(Neighbours::AddRemove, Into::into)
}

struct Found {
    redaction: Redaction,
    sample: Option<LabelledSample>,
    measured: Option<MeasuredRates>,
    confidence: Option<Confidence>,
}

/// Both rates from a file of labels; what the conservative policy misses from its own flags when
/// it was not labelled.
fn labelled(path: &Path, given: &RedactionArgs, inputs: Inputs) -> Result<(Option<Found>, Inputs)> {
    let sample = labels::read(path).context("--labels")?;
    let confidence = given
        .confidence
        .map_or_else(|| Confidence::new(CONFIDENCE), Ok)?;
    let rates = sample.rates(confidence).context("--labels")?;
    let inputs = inputs
        .given("labelled", sample.labelled())?
        .given("missed", sample.missed())?
        .or_assumed("confidence", given.confidence, confidence)?
        .given("gamma", rates.gamma)?;
    let gamma = *rates.gamma.get();
    let (joint, inputs) = if sample.conservative_labelled() {
        if let Some(miss) = given.conservative_miss {
            bail!("--conservative-miss: is measured by --labels, got {miss}");
        }
        let inputs = inputs.given("missed_by_both", sample.missed_by_both())?;
        (*rates.eta.get(), inputs.given("joint_miss", rates.eta)?)
    } else {
        let most = given
            .conservative_miss
            .map_or(gamma, |miss| if miss < gamma { miss } else { gamma });
        joint_miss(given, most, inputs)?
    };
    let found = Found {
        redaction: Redaction::new(gamma, joint).context("--labels")?,
        sample: Some(LabelledSample {
            labelled: sample.labelled(),
            missed: sample.missed(),
        }),
        measured: sample.conservative_labelled().then_some(rates),
        confidence: Some(confidence),
    };
    Ok((Some(found), inputs))
}

/// The redaction policy, assumed or measured, if there is one.
fn redaction(given: &RedactionArgs, inputs: Inputs) -> Result<(Option<Found>, Inputs)> {
    if let Some(path) = &given.labels {
        return labelled(path, given, inputs);
    }
    let (gamma, sample, confidence, inputs) = match (given.gamma, given.labelled, given.missed) {
        (Some(gamma), ..) => (gamma, None, None, inputs.given("gamma", gamma)?),
        (None, Some(labelled), Some(missed)) => {
            if missed > labelled {
                bail!("--missed: must lie in [0, labelled {labelled}], got {missed}");
            }
            let confidence = given
                .confidence
                .map_or_else(|| Confidence::new(CONFIDENCE), Ok)?;
            let sample = LabelledSample { labelled, missed };
            let gamma = sample
                .miss_rate(confidence)
                .context("--labelled")?
                .into_inner();
            let inputs = inputs
                .given("labelled", labelled)?
                .given("missed", missed)?
                .or_assumed("confidence", given.confidence, confidence)?
                .given("gamma", gamma)?;
            (gamma, Some(sample), Some(confidence), inputs)
        }
        _ => {
            for (name, value) in [
                ("--conservative-miss", given.conservative_miss),
                ("--joint-miss", given.joint_miss),
            ] {
                if let Some(value) = value {
                    bail!(
                        "{name}: needs a miss rate of the redaction policy (--gamma or --labelled), got {value} alone"
                    );
                }
            }
            return Ok((None, inputs));
        }
    };
    let most = given
        .conservative_miss
        .map_or(gamma, |miss| if miss < gamma { miss } else { gamma });
    let (joint, inputs) = joint_miss(given, most, inputs)?;
    let redaction = Redaction::new(gamma, joint).context("--joint-miss")?;
    Ok((
        Some(Found {
            redaction,
            sample,
            measured: None,
            confidence,
        }),
        inputs,
    ))
}

/// η: as given, or the most it can be; zero without a conservative policy, when every record
/// counts as private.
fn joint_miss(given: &RedactionArgs, most: MissRate, inputs: Inputs) -> Result<(MissRate, Inputs)> {
    let inputs = match given.conservative_miss {
        Some(miss) => inputs.given("conservative_miss", miss)?,
        None => inputs,
    };
    match given.joint_miss {
        Some(joint) if joint > most => {
            bail!(
                "--joint-miss: must lie in [0, {most}] (no more than either policy misses), got {joint}"
            )
        }
        Some(joint) => Ok((joint, inputs.given("joint_miss", joint)?)),
        None => {
            let joint = if given.conservative_miss.is_some() {
                most
            } else {
                MissRate::ZERO
            };
            Ok((joint, inputs.assumed("joint_miss", joint)?))
        }
    }
}
