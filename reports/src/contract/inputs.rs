//! Every input that a document may record, by name: one name means one thing in all documents.

use crate::defaults::Configured;
use reticent_accounting::training::{Recipe, StepDecay};
use reticent_accounting::{Delta, Neighbours, Probability};
use schemars::JsonSchema;
use serde_json::Value;

/// What a command was asked, defaults and assumptions included.
///
/// Values are recorded where they are read, as [`super::Inputs`]; this describes them.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "the schema of `Inputs`, never a value")]
pub(super) struct KnownInputs {
    /// Names of inputs that were not given: the tool assumed them.
    assumed: Vec<String>,
    /// What was used from the project's `reticent.toml`; absent if nothing was.
    configured: Option<Configured>,

    // The run that is accounted for.
    /// Noise deviation over clipping norm.
    sigma: Option<f64>,
    /// Its decay over the steps.
    noise_decay: Option<StepDecay>,
    /// The probability that a record is in a batch.
    sample_rate: Option<f64>,
    /// Expected records of a batch.
    batch_size: Option<f64>,
    /// How batches are drawn.
    sampler: Option<String>,
    /// Maximum records in a batch; of `truncated-poisson`.
    max_batch: Option<u64>,
    /// Steps of an epoch, where they were given.
    epoch_steps: Option<u64>,
    /// In how many steps of an epoch each record is; of `random-allocation`.
    selected: Option<u64>,
    /// Records covered by noise.
    dataset_size: Option<u64>,
    /// Noisy steps.
    steps: Option<u64>,
    /// Epochs of the noisy phase.
    epochs: Option<f64>,
    /// Mechanisms from files, in order; instead of `sigma`, `sample_rate` and `steps`.
    files: Option<Vec<String>>,
    /// The neighbouring relation of (ε, δ) promises of events, which do not name one: the requested one.
    promise_neighbours: Option<Neighbours>,
    /// Manifests and prepared folders not authenticated by their owners' keys; of files that say what ran, with the reason.
    not_authenticated: Option<Vec<String>>,

    // What is asked of it.
    /// The δ of every promise.
    delta: Option<Delta>,
    /// The ε at which δ is computed, that is the target, or that the noise was calibrated to.
    epsilon: Option<f64>,
    /// The neighbouring relation.
    neighbours: Option<Neighbours>,
    /// Which tokens an audit scores, if training did not learn all of them.
    scored: Option<String>,
    /// What one record is.
    unit: Option<String>,
    /// Maximum relative gap between the two certified ends.
    tolerance: Option<f64>,
    /// Records changed together.
    group: Option<u32>,
    /// Slack of μ-GDP.
    gdp: Option<f64>,
    /// The chance of guessing a secret before training; of `protect`, by kind.
    prior: Option<Value>,
    /// The chance of guessing a secret after training; of `protect`, by kind.
    posterior: Option<Value>,
    /// The parameter that was solved for.
    solve: Option<String>,
    /// The accountant that proves ε, if not the loss distribution.
    by: Option<String>,
    /// Exposure limit in bits: the target, or above which the exit code is 1.
    max_exposure: Option<f64>,
    /// The probability with which `max_exposure` may be reached.
    chance: Option<Probability>,
    /// False-positive rate of a membership attack, or several.
    fpr: Option<Value>,
    /// True-positive rate that such an attack may reach.
    tpr: Option<f64>,
    /// The curve.
    what: Option<String>,
    /// The parameter that a curve varies, which is then not among the inputs.
    over: Option<String>,

    // The policy and the secrets.
    /// γ: the share of secrets that the policy misses.
    gamma: Option<Probability>,
    /// The share of secrets that the conservative policy misses.
    conservative_miss: Option<Probability>,
    /// η: the share that both miss.
    joint_miss: Option<Probability>,
    /// Labelled secrets.
    labelled: Option<u64>,
    /// How many of them the policy misses.
    missed: Option<u64>,
    /// How many of them both policies miss.
    missed_by_both: Option<u64>,
    /// The probability with which statistical bounds hold.
    confidence: Option<f64>,

    // The plan.
    /// How it is trained.
    recipe: Option<Recipe>,
    /// The folder of the prepared corpus.
    prepared: Option<String>,
    /// The plan file.
    plan: Option<String>,
    /// Records that one secret is trained on in; of a sheet, the records there are.
    records: Option<u64>,
    /// The same before deduplication.
    records_before: Option<u64>,
    /// Records on the private side.
    private_records: Option<u64>,
    /// Records on the public side.
    public_records: Option<u64>,
    /// Whether copies were removed.
    deduplicated: Option<bool>,
    /// Whether every record is trained on with noise.
    everything_private: Option<bool>,
    /// Secrets that were found or marked.
    distinct_secrets: Option<u64>,
    /// Secrets that the policy misses.
    missed_secrets: Option<u64>,
    /// Secrets that are trained on without noise.
    open_secrets: Option<u64>,
    /// Planted secrets; of an audit how many, by how many copies each (`10x20`).
    canaries: Option<CanaryCount>,
    /// Template of the planted canaries.
    canary_format: Option<String>,
    /// Key or column that holds the text.
    text_field: Option<String>,
    /// Maximum records with one planted secret, in earlier runs too.
    canary_records: Option<u64>,
    /// Whether more may have been in an earlier run.
    canary_records_unknown: Option<bool>,
    /// Contents that a secret can have.
    candidates: Option<u64>,
    /// Passes over the private side.
    passes: Option<u64>,
    /// Passes over the public side.
    public_passes: Option<u64>,
    /// The most states that one record releases in a pass; of `sdp`.
    states: Option<u64>,
    /// Noise of a state over its norm; of `sdp`.
    state_sigma: Option<f64>,
    /// Expected records of a batch of that phase.
    expected_batch: Option<f64>,
    /// What the first phase is; of `jft`.
    first_phase: Option<String>,
    /// Its noise.
    first_sigma: Option<f64>,
    /// Its sampling rate.
    first_sample_rate: Option<f64>,
    /// Its steps.
    first_steps: Option<u64>,
    /// Its epochs.
    first_epochs: Option<u64>,
    /// What is assumed of a first phase without noise.
    redacted_alike: Option<Value>,
    /// Assumed: the policy catches every content that a secret can have.
    every_content_caught: Option<bool>,
    /// Epochs without gain on held-out text after which training stops.
    patience: Option<u64>,
    /// Learning-rate schedule, if held-out text decides it.
    decay: Option<String>,
    /// Whether the held-out text is public.
    held_out_public: Option<bool>,
    /// Whether examples without a secret are never drawn; of `protect`.
    discard_others: Option<bool>,
    /// Whether a fixed seed draws batches and noise: then nothing is promised.
    seeded: Option<bool>,
    /// Whether all text behind the folder of `model` was declared public.
    declared_public: Option<bool>,

    // Training.
    /// Every setting of a pass or a run, defaults included; as in its own document.
    options: Option<Value>,
    /// Clipping norm.
    clip: Option<f64>,
    /// Learning rate of ordinary steps.
    learning_rate: Option<f64>,
    /// Learning rate of noisy steps.
    private_learning_rate: Option<f64>,
    /// Records of an ordinary step.
    ordinary_batch_size: Option<u64>,
    /// Optimiser of the demo's noisy steps.
    private_optimizer: Option<String>,
    /// Whether the demo was the quick one.
    quick: Option<bool>,

    // Corpora.
    /// The corpus.
    data: Option<String>,
    /// Tokens of a vocabulary.
    size: Option<u64>,
    /// Dialogues of a synthetic corpus.
    dialogues: Option<u64>,
    /// Whether it has the customers' turns, each with its act, instead.
    turns: Option<bool>,
    /// The field that holds a document's class.
    label: Option<String>,
    /// The redaction policy: as it was given, or in full.
    policy: Option<Value>,
    /// The conservative policy.
    conservative: Option<Value>,
    /// SHA-256 of a policy without words and patterns of its owner's; in earlier versions of every policy.
    policy_sha256: Option<String>,
    /// HMAC-SHA256, under the owner's key, of a policy with words or patterns of its owner's.
    policy_hmac: Option<String>,
    /// The file of the secrets.
    list: Option<String>,
    /// SHA-256 of those secrets, one per line: in documents of earlier versions.
    list_sha256: Option<String>,
    /// HMAC-SHA256 of those secrets, one per line, under the owner's key.
    list_hmac: Option<String>,
    /// The field that holds a document's text.
    field: Option<String>,
    /// Ranks of words that count as secrets, FIRST-LAST.
    words: Option<String>,
    /// Whether copies are removed.
    deduplicate: Option<bool>,
    /// Threads.
    threads: Option<u64>,
    /// Which secrets neighbouring corpora differ in.
    selection: Option<Value>,
    /// The seed of what is drawn.
    seed: Option<u64>,
    /// Where it comes from: `given`, which draws the same again, or `system`.
    seed_origin: Option<String>,
    /// Exact duplicates excluded before sampling.
    duplicates: Option<u64>,
    /// Records or candidates drawn at random.
    sample: Option<u64>,

    // Protection.
    /// Which record holds which secret.
    incidence: Option<String>,
    /// The file of the secrets.
    secrets: Option<String>,
    /// Synthetic secrets: how many are in each number of records.
    counts: Option<Vec<u64>>,
    /// The constant of the capacities.
    c: Option<f64>,
    /// Relative distance of what is found from the optimum.
    gap: Option<f64>,
    /// Whether weights and noise are chosen together.
    joint: Option<bool>,
    /// Whether all constants are tried.
    sweep: Option<bool>,

    // Audits.
    /// The model.
    model: Option<String>,
    /// The LoRA adapter that was merged into it.
    adapter: Option<String>,
    /// Its tokenizer.
    tokenizer: Option<String>,
    /// Its layout.
    from: Option<String>,
    /// The model that it is compared with.
    reference: Option<String>,
    /// The same, of extraction.
    baseline: Option<String>,
    /// Text that was trained on.
    members: Option<String>,
    /// Text that was not.
    non_members: Option<String>,
    /// Scores of both.
    scores: Option<String>,
    /// Whether a lower score indicates membership.
    lower_is_member: Option<bool>,
    /// Area under the curve above which the exit code is 1.
    max_auc: Option<f64>,
    /// ε above which the exit code is 1.
    max_epsilon: Option<f64>,
    /// Rate of extraction above which the exit code is 1.
    max_rate: Option<f64>,
    /// The threshold of membership.
    threshold: Option<f64>,
    /// Copies of each canary.
    copies: Option<u64>,
    /// E, at which a sequential test stops.
    stop_at: Option<f64>,
    /// The file with the plan of the canaries.
    canary_file: Option<String>,
    /// The file of the coins.
    coins: Option<String>,
    /// The file that says what ran.
    mechanism: Option<String>,
    /// Tokens that all copies of all canaries may take.
    tokens: Option<u64>,
    /// Tokens of a canary's line besides its secret.
    carrier_tokens: Option<u64>,
    /// Numbers of digits that are tried.
    digits: Option<Vec<u32>>,
    /// Numbers of copies that are tried.
    copies_tried: Option<Vec<u32>>,
    /// The seed of candidates.
    candidate_seed: Option<u64>,
    /// The text that the model was trained on, in which passages, coins, canaries and secrets are looked up.
    training: Option<String>,
    /// Where the neighbours of a record come from, of a membership attack: `digits`, `reference` or a file.
    neighbour_texts: Option<String>,
    /// The file of the certificate.
    weights: Option<String>,
    /// Words to continue.
    suffix: Option<u64>,
    /// The edit distance up to which a passage counts.
    near: Option<f64>,
    /// Of sampling.
    temperature: Option<f64>,
    /// Of sampling.
    top_k: Option<u64>,
    /// Of sampling.
    top_p: Option<f64>,
    /// Whether texts are scored without an end.
    without_end: Option<bool>,
    /// The text.
    file: Option<String>,
    /// The earlier audit.
    old: Option<String>,
    /// The later audit.
    new: Option<String>,
    /// The level of all comparisons together.
    level: Option<f64>,
    /// What a figure is over.
    x: Option<String>,
    /// What a figure shows.
    y: Option<String>,
    /// The file of a grid.
    grid: Option<String>,
    /// The folder of a grid.
    out: Option<String>,
    /// The paper whose claims are judged.
    paper: Option<String>,
    /// How large its reproduction is.
    scale: Option<String>,
    /// The requested claims.
    only: Option<String>,
}

/// How many secrets are planted, or how many and how often each, as `10x20`.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "the schema of an input, never a value")]
enum CanaryCount {
    /// How many.
    Planted(u64),
    /// As requested.
    Requested(String),
}
