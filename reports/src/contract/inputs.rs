//! The inputs of documents that are not the flags of the same name.

use crate::defaults::Configured;
use reticent_accounting::Neighbours;
use reticent_accounting::training::StepDecay;
use schemars::JsonSchema;
use serde_json::Value;

/// What a command was asked, defaults and assumptions included. Most inputs have the names of the flags that set them.
///
/// Values are recorded where they are read, as [`super::Inputs`]. This describes those that no flag sets, and those that
/// are recorded in another form than their flags take; the published schema adds the flags.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "the schema of `Inputs`, never a value")]
pub(super) struct OtherInputs {
    /// Names of inputs that were not given: the tool assumed them.
    assumed: Vec<String>,
    /// What was used from the project's `reticent.toml`; absent if nothing was.
    configured: Option<Configured>,
    /// Noise deviation over clipping norm.
    sigma: Option<f64>,
    /// Its decay over the steps.
    noise_decay: Option<StepDecay>,
    /// Expected records of a batch.
    batch_size: Option<f64>,
    /// The neighbouring relation of (ε, δ) promises of events, which do not name one: the requested one.
    promise_neighbours: Option<Neighbours>,
    /// Manifests and prepared folders not authenticated by their owners' keys; of files that say what ran, with the reason.
    not_authenticated: Option<Vec<String>>,
    /// Which tokens an audit scores, if training did not learn all of them.
    scored: Option<String>,
    /// The chance of guessing a secret before training; of `protect`, by kind.
    prior: Option<Value>,
    /// The chance of guessing a secret after training; of `protect`, by kind.
    posterior: Option<Value>,
    /// How many of them both policies miss.
    missed_by_both: Option<u64>,
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
    /// Maximum records with one planted secret, in earlier runs too.
    canary_records: Option<u64>,
    /// Whether more may have been in an earlier run.
    canary_records_unknown: Option<bool>,
    /// Passes over the private side.
    passes: Option<u64>,
    /// Expected records of a batch of that phase.
    expected_batch: Option<f64>,
    /// Its sampling rate.
    first_sample_rate: Option<f64>,
    /// Its steps.
    first_steps: Option<u64>,
    /// What is assumed of a first phase without noise.
    redacted_alike: Option<Value>,
    /// Assumed: the policy catches every content that a secret can have.
    every_content_caught: Option<bool>,
    /// Whether the held-out text is public.
    held_out_public: Option<bool>,
    /// Whether a fixed seed draws batches and noise: then nothing is promised.
    seeded: Option<bool>,
    /// Every setting of a pass or a run, defaults included; as in its own document.
    options: Option<Value>,
    /// Whether it has the customers' turns, each with its act, instead.
    turns: Option<bool>,
    /// SHA-256 of a policy without words and patterns of its owner's; in earlier versions of every policy.
    policy_sha256: Option<String>,
    /// HMAC-SHA256, under the owner's key, of a policy with words or patterns of its owner's.
    policy_hmac: Option<String>,
    /// SHA-256 of those secrets, one per line: in documents of earlier versions.
    list_sha256: Option<String>,
    /// HMAC-SHA256 of those secrets, one per line, under the owner's key.
    list_hmac: Option<String>,
    /// Whether copies are removed.
    deduplicate: Option<bool>,
    /// Which secrets neighbouring corpora differ in.
    selection: Option<Value>,
    /// Where it comes from: `given`, which draws the same again, or `system`.
    seed_origin: Option<String>,
    /// The file of the coins.
    coins: Option<String>,
    /// Where the neighbours of a record come from, of a membership attack: `digits`, `reference` or a file.
    neighbour_texts: Option<String>,
    /// The file of a grid.
    grid: Option<String>,
}
