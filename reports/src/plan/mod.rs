//! Turns flags, a plan file or a prepared corpus into a training plan and records where every value
//! comes from. Both commands share this reading and its defaults.

pub mod args;
mod build;
mod file;
mod inputs;
pub mod labels;
mod optimization;
mod prepared;
mod redaction;
mod request;
pub mod sampler;
pub mod schedule;
mod screened;
mod uses;
mod weights;

#[cfg(test)]
mod tests;

pub use build::{at_half_the_rate, at_rate, build, record_rates};
pub use file::TrainingFile;
pub use inputs::{
    canary_records, counted_line, granted_by, granted_line, inputs, run_inputs, taken_for_granted,
    unauthenticated,
};
pub use optimization::{ClippingArg, DecayArg, Optimization, OptimizerArg, PrivateOptimizerArg};
pub use prepared::PreparedFacts;
pub use redaction::{Redacted, redaction};
pub use request::{Origin, PlanRequest, SecretsRequest};
#[cfg(feature = "audit")]
pub(crate) use screened::screened_records;
pub use uses::{ORDINARY, USERS, all_used, recipes, value_name};
pub use weights::{RecordRates, read_record_rates};

/// The assumed confidence of measured miss rates.
pub const CONFIDENCE: f64 = 0.95;
/// The name of a record if none is given.
pub const UNIT: &str = "record";
