//! Canaries: artificial secrets that are planted to measure what training memorises.

/// Lets serde keep a type as its text.
macro_rules! kept_as_text {
    ($type:ty) => {
        impl TryFrom<String> for $type {
            type Error = crate::error::Error;
            fn try_from(text: String) -> crate::error::Result<Self> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }
    };
}

mod carrier;
mod coins;
mod draw;
mod format;
mod insert;
mod places;
mod plan;
mod preflight;
mod space;
mod spec;
mod template;
mod words;

pub(crate) use draw::Draw;
pub(crate) use insert::{gaps, plant};
pub(crate) use places::{Ground, speaks};
pub(crate) use plan::Occurrences;

pub use coins::CoinPlan;
pub use format::{CanaryFormat, SampledPlace};
pub use insert::{CanaryPlace, insert};
pub use plan::{Canary, CanaryOptions, CanaryPlan, Carriers, Insertion, SeedOrigin};
pub use preflight::{CopyFate, CopyReport, Preflight};
pub use space::CandidateSpace;
pub use spec::Spec;
pub use template::{CanaryTemplate, Field};
pub use words::{CanaryWords, TokenCounts, WordFacts};
