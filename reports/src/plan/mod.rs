//! From flags, a plan file or a prepared corpus to a training plan, with the provenance of every
//! value: one reading and one set of defaults for both commands.

pub mod args;
mod build;
mod file;
mod inputs;
pub mod labels;
mod optimization;
mod prepared;
mod redaction;
mod request;
pub mod schedule;
mod screened;
mod uses;
mod weights;

#[cfg(test)]
mod tests;

pub use build::{build, record_rates};
pub use file::TrainingFile;
pub use inputs::{
    granted_by, granted_line, inputs, run_inputs, taken_for_granted, unauthenticated,
};
pub use optimization::{ClippingArg, DecayArg, Optimization, OptimizerArg, PrivateOptimizerArg};
pub use prepared::PreparedFacts;
pub use redaction::{Redacted, redaction};
pub use request::{Origin, PlanRequest, SecretsRequest};
#[cfg(feature = "audit")]
pub(crate) use screened::screened_records;
pub use uses::{NOISED, Use, all_used, by_recipe, recipes, value_name};
pub use weights::{RecordRates, read_record_rates};

/// Assumed for measured miss rates.
pub const CONFIDENCE: f64 = 0.95;
/// What a record is called when nobody says.
pub const UNIT: &str = "record";
