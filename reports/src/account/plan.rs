//! Turns arguments into a plan and records everything that was given or assumed.

use super::args::{PlanArgs, QuestionArgs, RunArgs};
use super::mechanism::{Loaded, load, of_text};
use crate::contract::Inputs;
use crate::plan::sampler::Sampler;
use crate::plan::schedule::assumed_neighbours;
use crate::plan::{
    PlanRequest, Redacted, SecretsRequest, UNIT, at_rate, build, canary_records, redaction,
    run_inputs, unauthenticated,
};
use anyhow::{Context, Result, bail};
use reticent_accounting::training::{Base, CompletedRun, NoisySteps, Recipe, TrainingPlan};
use reticent_accounting::{
    Delta, Epsilon, GroupSize, Mechanism, Neighbours, Plan, Sampling, SamplingRate, Tolerance,
    UnitName,
};
use std::path::{Path, PathBuf};

/// A plan and the question about it.
#[derive(Debug, Clone)]
pub struct Question {
    /// The plan to account for.
    pub plan: Plan,
    /// The run, as it was described.
    pub run: Run,
    /// The ε at which δ is asked for, instead of ε at the plan's δ.
    pub epsilon: Option<Epsilon>,
    /// The miss rates of the policies.
    pub redacted: Option<Redacted>,
    /// Notes about the files.
    pub caveats: Vec<String>,
    /// The given and the assumed inputs, for the envelope.
    pub inputs: Inputs,
}

/// A run, as it was described.
#[derive(Debug, Clone, PartialEq)]
pub enum Run {
    /// DP-SGD on every record, by its numbers.
    Plan {
        /// The plan.
        plan: Box<TrainingPlan>,
        /// What it was built from.
        request: Box<PlanRequest>,
    },
    /// Files with mechanisms.
    Files {
        /// Their names, in order.
        names: Vec<String>,
        /// The runs that they describe, one after another.
        completed: CompletedRun,
        /// The plan that ran, if there is a single manifest.
        plan: Option<Box<TrainingPlan>>,
    },
}

impl Run {
    /// Returns the noisy steps, if they are known by their numbers and nothing else runs.
    #[must_use]
    pub fn noisy(&self) -> Option<&NoisySteps> {
        match self {
            Self::Plan { plan, .. } if plan.mechanism() == plan.run.noisy()?.mechanism() => {
                plan.run.noisy()
            }
            Self::Plan { .. } | Self::Files { .. } => None,
        }
    }

    /// Returns [`Self::noisy`] at another sampling rate, if there are such steps.
    #[must_use]
    pub fn at_rate(&self, rate: SamplingRate) -> Option<NoisySteps> {
        match self {
            Self::Plan { request, .. } => at_rate(request, None, self.noisy()?, rate).ok(),
            Self::Files { .. } => None,
        }
    }

    /// Returns the recipe, if it promises less than differential privacy.
    #[must_use]
    pub fn narrower(&self) -> Option<Recipe> {
        match self {
            Self::Plan { plan, .. } => plan.narrower(),
            Self::Files { completed, .. } => completed.narrower(),
        }
    }

    /// Returns whether the run comes from files that count no secrets, although its recipe promises something to the
    /// secrets of a text. Of several runs, the recipe that is known is the one that promises less than differential
    /// privacy.
    #[must_use]
    pub fn counts_no_secrets(&self) -> bool {
        let Some((completed, plan)) = self.of_files() else {
            return false;
        };
        let (recipe, records) = match plan {
            Some(plan) => (plan.run.recipe(), plan.secret_records()),
            None => (completed.recipe, completed.secret_records),
        };
        let of_secrets = !matches!(recipe, None | Some(Recipe::Sgd | Recipe::Protect));
        of_secrets && records.is_none()
    }

    /// Returns why nothing is promised to some secret of the run, if it is known from files and its recipe trains on
    /// missed secrets without noise.
    #[must_use]
    pub fn no_promise_to_secrets(&self) -> Option<String> {
        let (completed, plan) = self.of_files()?;
        if !completed.exposes_secrets() {
            return None;
        }
        let stated = plan.and_then(TrainingPlan::unprotected);
        Some(stated.unwrap_or_else(|| {
            "secrets count as missed here; account --prepared FOLDER counts them".to_owned()
        }))
    }

    /// Returns the neighbours of its first rows if none are named: contents, if it redacts or its promises are to
    /// secrets.
    fn own_neighbours(&self) -> Option<Neighbours> {
        match self.of_files()?.0.recipe? {
            Recipe::Crt | Recipe::Sdp | Recipe::Jft | Recipe::Protect => Some(Neighbours::Replace),
            Recipe::Sgd | Recipe::Dpsgd => None,
        }
    }

    /// Returns the status of the model of others on which the run is based.
    #[must_use]
    pub fn base(&self) -> Option<Base> {
        match self {
            Self::Plan { plan, .. } => plan.base(),
            Self::Files { completed, .. } => completed.base,
        }
    }

    /// Whether its records have classes.
    #[must_use]
    pub fn is_labelled(&self) -> bool {
        match self {
            Self::Plan { plan, .. } => plan.has_classes(),
            Self::Files { completed, .. } => completed.labelled,
        }
    }

    /// The plan of a single manifest.
    #[must_use]
    pub fn of_manifest(&self) -> Option<&TrainingPlan> {
        self.of_files()?.1
    }

    /// What files say that ran, and the plan of a single manifest.
    pub(super) fn of_files(&self) -> Option<(&CompletedRun, Option<&TrainingPlan>)> {
        match self {
            Self::Plan { .. } => None,
            Self::Files {
                completed, plan, ..
            } => Some((completed, plan.as_deref())),
        }
    }

    fn sampling(&self) -> Option<Sampling> {
        match self {
            Self::Plan { plan, .. } => plan.run.noisy().map(|noisy| *noisy.sampling),
            Self::Files { .. } => None,
        }
    }

    /// Adds to an accounting error the argument or file that caused it.
    ///
    /// # Errors
    /// Returns the error of `found`.
    pub fn blamed<T>(&self, found: reticent_accounting::Result<T>) -> Result<T> {
        match self {
            Self::Plan { .. } if self.sampling() != Some(Sampling::Poisson) => {
                found.context("--sampler")
            }
            Self::Plan { .. } => Ok(found?),
            Self::Files { names, .. } => found.with_context(|| names.join(", ")),
        }
    }
}

/// A mechanism with everything that is known about it before a question is asked.
#[derive(Debug, Clone)]
pub struct Source {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The run, as it was described.
    pub run: Run,
    /// What one record is, if the arguments or the files state it.
    pub unit: Option<UnitName>,
    /// Whether some of the files don't state the unit, which is then assumed to be that of the others.
    pub unit_open: bool,
    /// The neighbours, as asked or assumed.
    pub neighbours: Neighbours,
    /// Notes about what is not authenticated with its owner's key.
    pub caveats: Vec<String>,
    /// The number of records, if known; of several files the largest.
    pub records: Option<u64>,
    /// The δ of the promises of a file; of several files the smallest above zero.
    pub delta: Option<Delta>,
    /// The most records that differ if one canary does.
    pub canary_records: u64,
    /// Whether more may in an earlier run.
    pub canary_records_unknown: bool,
    /// The inputs recorded so far.
    pub inputs: Inputs,
}

impl Source {
    /// Describes what runs, by numbers or from one file.
    ///
    /// # Errors
    /// Returns an error if values contradict each other or the file describes no mechanism.
    pub fn of_run(run: &RunArgs, neighbours: Neighbours) -> Result<Self> {
        match &run.mechanism {
            Some(path) => Self::of_mechanism(path, neighbours),
            None => Self::of_request(&run.request(), neighbours),
        }
    }

    /// Describes what runs, from the file that `--mechanism` names.
    ///
    /// # Errors
    /// Returns an error if the file describes no mechanism.
    pub fn of_mechanism(path: &Path, neighbours: Neighbours) -> Result<Self> {
        let loaded = load(path, neighbours).context("--mechanism")?;
        Self::of_loaded(vec![loaded], neighbours)
    }

    /// Describes what runs, from the text of a document.
    ///
    /// # Errors
    /// Returns an error if the text describes no mechanism.
    pub fn of_text(name: &str, text: &str, neighbours: Neighbours) -> Result<Self> {
        let loaded = of_text(name, text, neighbours)?;
        Self::of_loaded(vec![loaded], neighbours)
    }

    /// Returns what runs as a completed run.
    #[must_use]
    pub fn completed(self) -> CompletedRun {
        match self.run {
            Run::Plan { plan, .. } => plan.completed(self.mechanism, None),
            Run::Files { completed, .. } => completed,
        }
    }

    /// Like [`Self::of_run`], for questions about one record: a run that promises less than that is refused.
    ///
    /// # Errors
    /// Returns an error as [`Self::of_run`] does, and for a run that promises less.
    pub fn of_records(run: &RunArgs, neighbours: Neighbours) -> Result<Self> {
        if run.sigma.is_none() && run.mechanism.is_none() {
            bail!("--sigma: is needed, in (0, inf), or --mechanism. For example 1.1");
        }
        let source = Self::of_run(run, neighbours)?;
        speaks_of_records(source.run.narrower())?;
        Ok(source)
    }

    /// Returns what the arguments of a plan describe, without a corpus.
    ///
    /// # Errors
    /// Returns an error as [`Source::of_run`] does.
    pub fn of_plan(arguments: &PlanArgs, neighbours: Neighbours) -> Result<Self> {
        if arguments.run.mechanism.is_some() {
            return Self::of_run(&arguments.run, neighbours);
        }
        let request = PlanRequest {
            // Questions about the plan are not part of what runs.
            secrets: SecretsRequest::default(),
            ..arguments.request()
        };
        Self::of_request(&request, neighbours)
    }

    /// Returns what a plan without a corpus releases.
    fn of_request(request: &PlanRequest, neighbours: Neighbours) -> Result<Self> {
        let plan = build(request, None)?;
        let inputs = run_inputs(request, &plan)?;
        let unit = (!plan.unit.is_assumed()).then(|| plan.unit.value.clone());
        let caveats = unauthenticated(&plan).into_iter().map(str::to_owned);
        let (canary_records, canary_records_unknown) = canary_records(&plan);
        Ok(Self {
            mechanism: plan.mechanism(),
            unit_open: unit.is_none(),
            unit,
            neighbours,
            records: request.records,
            delta: None,
            canary_records,
            canary_records_unknown,
            caveats: caveats.collect(),
            inputs,
            run: Run::Plan {
                plan: Box::new(plan),
                request: Box::new(request.clone()),
            },
        })
    }

    /// Returns the δ that was given and the one that is used: that of the question, otherwise that of a single file.
    /// Several files are asked at the default for their records, or at a smaller δ of one of them.
    #[must_use]
    pub fn delta(&self, given: Option<Delta>) -> (Option<Delta>, Delta) {
        let single = matches!(&self.run, Run::Files { names, .. } if names.len() == 1);
        let given = given.or(self.delta.filter(|_| single));
        let default = TrainingPlan::default_delta(self.records);
        let assumed = match self.delta {
            Some(delta) if delta < default => delta,
            _ => default,
        };
        (given, given.unwrap_or(assumed))
    }

    /// Returns the δ that is kept beside what runs, so that it is asked at the same when it is read back; `None` if no file
    /// has one.
    #[must_use]
    pub fn kept_delta(&self) -> Option<Delta> {
        self.delta.map(|_| self.delta(None).1)
    }

    /// Describes what runs, file after file.
    ///
    /// # Errors
    /// Returns an error if a file describes no mechanism, stdin is given twice, or two files are about different units.
    pub fn of_files(files: &[PathBuf], neighbours: Neighbours) -> Result<Self> {
        if files
            .iter()
            .filter(|path| crate::contract::is_stream(path))
            .count()
            > 1
        {
            bail!("FILE: stdin (-) can be read only once");
        }
        let loaded = files.iter().map(|path| load(path, neighbours));
        Self::of_loaded(loaded.collect::<Result<_>>()?, neighbours)
    }

    fn of_loaded(loaded: Vec<Loaded>, neighbours: Neighbours) -> Result<Self> {
        let mut units = loaded
            .iter()
            .filter_map(|file| Some((&file.name, file.document.unit.as_ref()?)));
        let unit = units.next();
        if let (Some((first, unit)), Some((other, odd))) =
            (unit, units.find(|(_, u)| Some(*u) != unit.map(|(_, u)| u)))
        {
            bail!(
                "FILE: one record is a {unit} in {first} and a {odd} in {other}: these runs cannot be composed"
            );
        }
        let unit = unit.map(|(_, unit)| unit.clone());
        let unit_open = loaded.iter().any(|file| file.document.unit.is_none());
        let names: Vec<String> = loaded.iter().map(|file| file.name.clone()).collect();
        let caveats: Vec<String> = loaded
            .iter()
            .filter_map(|file| Some(format!("{}: {}.", file.name, file.caveat.as_ref()?)))
            .collect();
        let unnamed = loaded.iter().any(|file| file.unnamed);
        let plan = match &loaded[..] {
            [only] => only.document.plan.clone().map(Box::new),
            _ => None,
        };
        let records = loaded.iter().filter_map(|file| file.document.records).max();
        let mut deltas = loaded.iter().filter_map(|file| file.document.delta);
        let delta = match loaded.len() {
            1 => deltas.next(),
            _ => deltas
                .filter(|delta| *delta > Delta::ZERO)
                .reduce(|least, delta| if delta < least { delta } else { least }),
        };
        let canary_records = loaded.iter().map(|file| file.document.canary_records);
        let canary_records = canary_records.max().unwrap_or(0);
        let canary_records_unknown =
            (loaded.iter()).any(|file| file.document.canary_records_unknown);
        let runs = loaded.into_iter().map(|file| file.document.completed());
        let completed = CompletedRun::sequence(runs.collect());
        let mut inputs = Inputs::new()
            .given("files", &names)?
            .given("dataset_size", records)?
            .given("held_out_public", completed.held_out_public.then_some(true))?
            .given(
                "canary_records",
                (canary_records > 0).then_some(canary_records),
            )?
            .given("canary_records_unknown", canary_records_unknown)?;
        if !caveats.is_empty() {
            inputs = inputs.given("not_authenticated", &caveats)?;
        }
        if unnamed {
            inputs = inputs.assumed("promise_neighbours", neighbours)?;
        }
        Ok(Self {
            mechanism: completed.mechanism.clone(),
            run: Run::Files {
                names,
                completed,
                plan,
            },
            unit,
            unit_open,
            neighbours,
            records,
            delta,
            canary_records,
            canary_records_unknown,
            caveats,
            inputs,
        })
    }
}

/// Refuses a run that promises nothing to the whole of one record.
///
/// # Errors
/// Returns an error for a recipe that promises less than differential privacy.
pub fn speaks_of_records(narrower: Option<Recipe>) -> Result<()> {
    match narrower {
        Some(Recipe::Protect) => bail!(
            "--mechanism: protect makes promises for secrets, not for records; account --mechanism shows them"
        ),
        Some(recipe) => bail!(
            "--mechanism: {recipe} trains on a part of its text without noise, so that nothing holds for the whole of one \
             record; account --mechanism says what its promise covers"
        ),
        None => Ok(()),
    }
}

/// Returns what one record is, and whether that was stated. The files decide, and no argument overrides them: the same
/// number promises more for a larger unit.
///
/// # Errors
/// Returns an error if an argument contradicts the files, or if only some of the files state the unit.
pub fn unit(
    given: Option<&UnitName>,
    of_files: Option<&UnitName>,
    open: bool,
) -> Result<(Option<UnitName>, UnitName)> {
    match (given, of_files) {
        (Some(given), Some(known)) if given != known => {
            bail!("--unit: must be {known}, what one record is in the file, got {given}")
        }
        (Some(unit), _) => Ok((Some(unit.clone()), unit.clone())),
        (None, Some(unit)) if open => bail!(
            "--unit: must be given: one record is a {unit} in one of the files, and another does not say what it is; {unit}, if it is the same"
        ),
        (None, Some(unit)) => Ok((Some(unit.clone()), unit.clone())),
        (None, None) => Ok((None, UnitName::new(UNIT)?)),
    }
}

impl Question {
    /// Checks the arguments against each other and fills in missing values.
    ///
    /// # Errors
    /// Returns an error that names values which contradict each other.
    pub fn new(arguments: &PlanArgs) -> Result<Self> {
        let question = &arguments.question;
        let neighbours = neighbours_of(question.neighbours, arguments.run.schedule.sampler);
        Self::about(Source::of_plan(arguments, neighbours)?, question)
    }

    /// Creates a question about something that runs.
    ///
    /// # Errors
    /// Returns an error that names values which contradict each other.
    pub fn about(source: Source, question: &QuestionArgs) -> Result<Self> {
        let (given, delta) = source.delta(question.delta);
        let (said, unit) = unit(
            question.unit.as_ref(),
            source.unit.as_ref(),
            source.unit_open,
        )?;
        let narrower = source.run.narrower();
        let request = PlanRequest {
            secrets: SecretsRequest {
                redaction: question.redaction.clone(),
                ..SecretsRequest::default()
            },
            ..PlanRequest::default()
        };
        // With a public side, both policies may have missed a secret.
        let redacted = redaction(&request, narrower.is_none())?;
        let said = match &redacted {
            Some(found) => found.unit(said, &request.name("labels"))?,
            None => said,
        };
        if let (Some(found), Some(group)) = (&redacted, question.group) {
            found.covers(group, &request.name("labels"), &request.name("records"))?;
        }
        let unit = said.clone().unwrap_or(unit);
        let neighbours = match question.neighbours {
            Some(_) => source.neighbours,
            None => source.run.own_neighbours().unwrap_or(source.neighbours),
        };
        if let (Some(recipe), Some(gdp)) = (narrower, question.gdp) {
            bail!(
                "--gdp: applies only to whole records, for which {recipe} promises less, got {gdp}"
            );
        }
        let inputs = match question.at_epsilon {
            Some(epsilon) => source.inputs.given("epsilon", epsilon)?,
            None => source.inputs.or_assumed("delta", given, delta)?,
        };
        let inputs = inputs
            .or_assumed("neighbours", question.neighbours, neighbours)?
            .or_assumed("unit", said, unit.clone())?
            .or_assumed("tolerance", question.tolerance, Tolerance::DEFAULT)?
            .given("group", question.group)?;
        if let (Some(recipe @ (Recipe::Sdp | Recipe::Jft | Recipe::Protect)), Some(redacted)) =
            (narrower, &redacted)
        {
            bail!(
                "--gamma: applies only to runs of dpsgd and crt, got {} for one of {recipe}",
                redacted.redaction.miss().get()
            );
        }
        let inputs = match &redacted {
            Some(found) => found.inputs(inputs)?,
            None => inputs,
        };
        let inputs = inputs
            .given("prior", question.prior)?
            .given("gdp", question.gdp)?;
        let mut plan = Plan::new(source.mechanism, unit, delta);
        plan.neighbours = neighbours;
        plan.group = question.group.unwrap_or(GroupSize::ONE);
        plan.prior = question.prior;
        plan.gaussian_slack = question.gdp;
        plan.tolerance = question.tolerance.unwrap_or(Tolerance::DEFAULT);
        if let Some(found) = &redacted {
            plan.redaction = Some(*found.redaction);
            plan.confidence = found.confidence.as_ref().map(|confidence| confidence.value);
        }
        Ok(Self {
            plan,
            run: source.run,
            epsilon: question.at_epsilon,
            redacted,
            caveats: source.caveats,
            inputs,
        })
    }
}

/// Returns the neighbours of the differential-privacy rows as given, or those assumed for a sampler.
pub fn neighbours_of(given: Option<Neighbours>, sampler: Option<Sampler>) -> Neighbours {
    given.unwrap_or_else(|| assumed_neighbours(sampler))
}

/// Returns the neighbours as given, or those assumed for a mechanism from files.
pub fn neighbours(given: Option<Neighbours>) -> Neighbours {
    given.unwrap_or(Neighbours::AddRemove)
}
