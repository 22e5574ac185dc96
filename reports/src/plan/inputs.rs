//! Records the given and assumed inputs of a plan for a document.

use super::redaction::Redacted;
use super::request::PlanRequest;
use super::sampler::Sampler;
use crate::contract::Inputs;
use crate::number::plural;
use reticent_accounting::confidentiality::{CorpusFacts, Knowledge, Standing};
use reticent_accounting::training::{FirstPhase, NoisySteps, Recipe, Run, Stated, TrainingPlan};

type Result<T> = serde_json::Result<T>;

fn noisy(inputs: Inputs, steps: &NoisySteps) -> Result<Inputs> {
    let sampler = steps.sampling.with(Sampler::from(*steps.sampling));
    inputs
        .stated("sigma", &steps.noise_multiplier)?
        .given("noise_decay", steps.noise_decay)?
        .stated("sampler", &sampler)?
        .stated("sample_rate", &steps.sampling_rate)?
        .stated("steps", &steps.steps)
}

/// The note for an earlier run whose manifest is not authenticated.
const EARLIER_RUN: &str = "What the earlier run released is taken from its manifest, which is not authenticated: a \
                           consistent forgery would not be noticed.";

/// The note for a prepared folder that is not authenticated.
const CORPUS: &str = if cfg!(feature = "findings") {
    "The prepared corpus is not authenticated: the owner's key is not here; the folder's facts are taken as they stand."
} else {
    "The prepared corpus is not authenticated: this build does not read owners' keys; the folder's facts are taken as they stand."
};

/// Whether the plan goes on from a run whose manifest is not authenticated.
fn of_unknown_run(plan: &TrainingPlan) -> bool {
    (plan.continues.as_ref()).is_some_and(|run| !run.authenticated)
}

/// Returns the notes for what a plan rests on and no owner's key authenticates.
#[must_use]
pub fn unauthenticated(plan: &TrainingPlan) -> Vec<&'static str> {
    let run = of_unknown_run(plan).then_some(EARLIER_RUN);
    let corpus = plan.unauthenticated_corpus.then_some(CORPUS);
    run.into_iter().chain(corpus).collect()
}

/// The assumption of jft when its first phase is ordinary training.
const OF_JFT: &str = "The first phase sees the same text for every content of a secret: all of it redacted, length and kind hidden, \
                      screened without looking. One exception and nothing is promised.";

/// The assumption of sdp.
const OF_SDP: &str = "The policy finds every secret in full, whatever its content: one that it misses is trained on without noise.";

/// The assumption for runs of crt whose plan is unknown: whether a policy missed a secret is not published, and a
/// public side is trained on without noise.
const OF_CRT: &str = "The promise is to a secret of which no record is on the public side of any of these runs: in each of them the \
                      two policies together miss none of its copies. One exception and nothing is promised.";

/// As [`OF_JFT`], for runs whose plans are unknown.
const OF_JFT_RUNS: &str = "The promise is to a secret that the policy of each of these runs redacts: the first phase of each sees the \
                           same text for every content of it, all of it redacted, length and kind hidden, screened without looking, \
                           or steps with noise. One exception and nothing is promised.";

/// As [`OF_SDP`], for runs whose plans are unknown.
const OF_SDP_RUNS: &str = "The promise is to a secret that the policy of each of these runs finds in full, whatever its content: one \
                           that any of them misses is trained on without noise.";

/// The assumption of crt for another content of a secret that was missed: what was counted is its mask.
const STILL_PRIVATE: &str =
    "No content of a secret is missed by both policies: its records would be on the public side.";

/// Another content could make two records equal and so change how many are trained on without noise.
const NO_DUPLICATE: &str =
    "No content of a secret makes its record a duplicate, which deduplication would leave out.";

/// The assumption for secrets that were counted where they are marked.
const ONLY_MARKED: &str = "A secret occurs only where it is marked, in one spelling: other occurrences of it are outside the promise.";

/// The assumption for a manifest that doesn't say how many records a secret was in.
const NO_MORE_BEFORE: &str =
    "No secret was in more records of an earlier run than the answer speaks of.";

/// Returns what the promises of a plan assume about secrets that can't be checked on a corpus.
#[must_use]
pub fn taken_for_granted(plan: &TrainingPlan) -> Vec<&'static str> {
    let mut granted = match &plan.run {
        Run::Crt { .. } => match plan.worst_secret() {
            Some(Standing::Caught) => vec![NO_DUPLICATE],
            Some(Standing::Missed { .. }) if !plan.secrets.everything_private => {
                vec![STILL_PRIVATE, NO_DUPLICATE]
            }
            _ => Vec::new(),
        },
        Run::Jft {
            first: FirstPhase::Ordinary { .. },
            ..
        } => vec![OF_JFT, NO_DUPLICATE],
        Run::Sdp { .. } => vec![OF_SDP, NO_DUPLICATE],
        _ => Vec::new(),
    };
    let counted = |facts: CorpusFacts| facts.knowledge() == Knowledge::Counted;
    if plan.secrets.facts.is_some_and(counted)
        && !matches!(
            plan.run,
            Run::Sgd { .. } | Run::Protect { .. } | Run::Mechanism { .. }
        )
        && !matches!(plan.worst_secret(), None | Some(Standing::Exposed))
    {
        granted.push(ONLY_MARKED);
    }
    let before = plan.continues.as_ref();
    if plan.secret_records().is_some() && before.is_some_and(|run| run.secret_records.is_none()) {
        granted.push(NO_MORE_BEFORE);
    }
    granted
}

/// Returns these assumptions as a line of an answer; `None` if nothing is promised.
#[must_use]
pub fn granted_line(plan: &TrainingPlan) -> Option<String> {
    let granted = plan
        .unprotected()
        .is_none()
        .then(|| taken_for_granted(plan));
    line(&granted?)
}

/// Returns what to say of the counts that the promises to secrets show: they were counted in the private text.
#[must_use]
pub fn counted_line(plan: &TrainingPlan) -> Option<String> {
    let secrets = &plan.secrets;
    let records = secrets.records.as_ref().is_some_and(Stated::is_measured);
    let caught = plan.run.recipe() == Some(Recipe::Crt)
        && (secrets.facts).is_some_and(|facts| facts.knowledge() == Knowledge::Counted);
    let private = plan.run.recipe().is_some_and(Recipe::is_private);
    (private && (records || caught)).then(|| {
        format!(
            "No guarantee covers what was counted in the private text: how many {} hold a secret, and whether the policy \
             catches it.",
            plural(plan.unit.as_str())
        )
    })
}

/// Returns the assumptions of runs of which only the recipe is known.
#[must_use]
pub fn granted_by(recipe: Option<Recipe>) -> Option<String> {
    match recipe {
        Some(Recipe::Crt) => line(&[OF_CRT, NO_DUPLICATE]),
        Some(Recipe::Jft) => line(&[OF_JFT_RUNS, NO_DUPLICATE]),
        Some(Recipe::Sdp) => line(&[OF_SDP_RUNS, NO_DUPLICATE]),
        _ => None,
    }
}

fn line(granted: &[&str]) -> Option<String> {
    (!granted.is_empty()).then(|| format!("Premise: {}", granted.join(" ")))
}

/// Returns the most records that differ if one canary of the run, or of a run that it goes on from, does, and whether more may
/// in an earlier one.
#[must_use]
pub fn canary_records(plan: &TrainingPlan) -> (u64, bool) {
    let own = plan.secrets.canaries.as_ref().map(|c| c.value.records);
    let before = plan.earlier_canary_records();
    let most = own.max(before).unwrap_or(0);
    (most, before.is_none())
}

/// Returns the inputs that describe the run, with what was assumed.
///
/// # Errors
/// Returns no error for values that JSON can represent.
pub fn run_inputs(request: &PlanRequest, plan: &TrainingPlan) -> Result<Inputs> {
    let schedule = &request.schedule;
    let mut inputs = Inputs::new()
        .given("recipe", request.recipe)?
        .given_path("prepared", request.prepared.as_deref())?
        .given_path("model", request.model.as_deref())?
        .given("declared_public", request.declared_public.then_some(true))?
        .given("epsilon", request.noise.epsilon)?
        .given("batch_size", schedule.batch_size)?
        .given("dataset_size", request.records)?
        .given("epochs", schedule.epochs)?
        .given("max_batch", schedule.max_batch)?
        .given("selected", schedule.selected)?
        .given("epoch_steps", schedule.epoch_steps)?;
    let (most, unknown) = canary_records(plan);
    if request.model.is_some() {
        inputs = inputs.given("canary_records_unknown", unknown)?;
    }
    if most > 0 {
        inputs = inputs.given("canary_records", most)?;
    }
    let model = request.folder().filter(|_| of_unknown_run(plan));
    let prepared = request.prepared.as_deref();
    let prepared = prepared.filter(|_| plan.unauthenticated_corpus);
    let unknown = model.map(|folder| folder.join("manifest.json"));
    let unknown = unknown
        .into_iter()
        .chain(prepared.map(|folder| folder.join("prepared.json")));
    let unknown: Vec<_> = unknown.collect();
    if !unknown.is_empty() {
        inputs = inputs.given("not_authenticated", unknown)?;
    }
    inputs = of_run(inputs, plan)?;
    if let Run::Crt {
        private: None,
        epochs,
        ..
    } = plan.run
    {
        // Steps are those of private records, and there are none: what was given says how long the run is.
        inputs = inputs.given("steps", schedule.steps)?;
        if schedule.steps.is_none() && schedule.epochs.is_none() {
            inputs = inputs.assumed("epochs", epochs)?;
        }
    }
    if let Some(stopping) = &plan.stopping {
        inputs = inputs.stated("patience", &stopping.patience)?;
    }
    let by_text = plan.rates_by_public_text.as_ref();
    inputs = inputs.given("decay", by_text.map(|_| "plateau"))?;
    let stopping = plan.stopping.as_ref();
    inputs = match stopping.map(|rule| &rule.public).or(by_text) {
        Some(public) => inputs.stated("held_out_public", public)?,
        // An earlier run may rest on such text.
        None => inputs.given("held_out_public", plan.held_out_public().then_some(true))?,
    };
    inputs.given("seeded", plan.seeded.then_some(true))
}

/// Returns every value of a plan that its promises depend on, with what was assumed.
///
/// # Errors
/// Returns no error for values that JSON can represent.
pub fn inputs(
    request: &PlanRequest,
    plan: &TrainingPlan,
    redacted: Option<&Redacted>,
) -> Result<Inputs> {
    let mut inputs = run_inputs(request, plan)?
        .stated("delta", &plan.delta)?
        .stated("unit", &plan.unit)?;
    if let Some(sizes) = &plan.sizes {
        let noised = match plan.run.recipe() {
            Some(Recipe::Crt) => sizes.private,
            _ => sizes.private + sizes.public,
        };
        inputs = inputs
            .given("private_records", noised)?
            .given("public_records", sizes.public)?;
    }
    of_secrets(inputs, plan, redacted)
}

fn of_run(inputs: Inputs, plan: &TrainingPlan) -> Result<Inputs> {
    match &plan.run {
        Run::Sgd { epochs, steps } => inputs
            .stated("passes", epochs)?
            .given("steps", steps.as_ref().map(|steps| steps.value)),
        Run::Dpsgd { private } => noisy(inputs, private),
        Run::Crt {
            private,
            public_passes,
            ..
        } => {
            let inputs = inputs.stated("public_passes", public_passes)?;
            private.iter().try_fold(inputs, noisy)
        }
        Run::Sdp { selective } => inputs
            .stated("sigma", &selective.noise_multiplier)?
            .stated("state_sigma", &selective.state_noise_multiplier)?
            .stated("states", &selective.states)?
            .stated("steps", &selective.steps)?
            .given("passes", selective.passes())?
            .stated("every_content_caught", &selective.every_content_caught),
        Run::Jft { first, second } => noisy(first_phase(inputs, first)?, second),
        Run::Protect { weighted } => {
            let inputs = match plan.noiseless {
                true => inputs.given("sigma", 0.0)?,
                false => inputs.stated("sigma", &weighted.noise_multiplier)?,
            };
            inputs
                .stated("expected_batch", &weighted.batch)?
                .stated("steps", &weighted.steps)
        }
        Run::Mechanism { .. } => Ok(inputs),
    }
}

fn first_phase(inputs: Inputs, first: &FirstPhase) -> Result<Inputs> {
    match first {
        FirstPhase::Ordinary { epochs, alike, .. } => inputs
            .given("first_phase", "ordinary")?
            .stated("first_epochs", epochs)?
            .stated("redacted_alike", alike),
        FirstPhase::LightNoise { steps, .. } => inputs
            .given("first_phase", "light-noise")?
            .stated("first_sigma", &steps.noise_multiplier)?
            .stated("first_sample_rate", &steps.sampling_rate)?
            .stated("first_steps", &steps.steps),
    }
}

fn of_secrets(inputs: Inputs, plan: &TrainingPlan, redacted: Option<&Redacted>) -> Result<Inputs> {
    let secrets = &plan.secrets;
    let of_crt = plan.run.recipe() == Some(Recipe::Crt);
    let mut inputs = inputs
        .given("records", secrets.records.as_ref().map(|r| r.value))?
        .given("records_before", secrets.records_before)?
        .given(
            "everything_private",
            of_crt.then_some(secrets.everything_private),
        )?;
    if let Some(found) = redacted {
        inputs = found.inputs(inputs)?;
    }
    let canaries = secrets.canaries.as_ref().map(|canaries| &canaries.value);
    let facts = secrets.facts.as_ref();
    // Of secrets that the policy found, nobody knows which ones it misses elsewhere.
    let counted = facts.filter(|facts| facts.knowledge() == Knowledge::Counted);
    inputs
        .given("prior", secrets.prior)?
        .given("candidates", secrets.candidates)?
        .given("canaries", canaries.map(|c| c.count))?
        .given("distinct_secrets", facts.map(|facts| facts.secrets()))?
        .given("missed_secrets", counted.map(|facts| facts.missed()))?
        .given("open_secrets", counted.map(|facts| facts.missed_by_both()))
}

impl Redacted {
    /// Adds the miss rates, with what was assumed.
    ///
    /// # Errors
    /// Returns no error for values that JSON can represent.
    pub fn inputs(&self, inputs: Inputs) -> Result<Inputs> {
        let sample = self.sample.as_ref();
        let both = self.both_labelled();
        let mut inputs = inputs
            .given("labelled", sample.map(|sample| sample.labelled))?
            .given("missed", sample.map(|sample| sample.missed))?
            .given(
                "missed_by_both",
                both.map(|labels| labels.sample.missed_by_both()),
            )?;
        if let Some(confidence) = &self.confidence {
            inputs = inputs.stated("confidence", confidence)?;
        }
        inputs = inputs.given("gamma", self.redaction.miss())?;
        let joint = self.redaction.missed_by_both();
        if self.joint_assumed {
            inputs.assumed("joint_miss", joint)
        } else {
            inputs.given("joint_miss", joint)
        }
    }
}
