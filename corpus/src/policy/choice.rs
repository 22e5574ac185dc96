//! Policies as data, for options and files.

use super::patterns::{PatternRule, Patterns};
use super::{Gold, Policy};
use crate::error::Result;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Which redaction policy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum PolicyChoice {
    /// Finds nothing.
    Nothing,
    /// Finds the marked secrets of the documents.
    Gold,
    /// Patterns for customer-service dialogues.
    #[default]
    Customers,
    /// Patterns of the user's own.
    Patterns {
        /// The patterns.
        rules: Vec<PatternRule>,
    },
}

impl PolicyChoice {
    /// The policy, ready to run.
    ///
    /// # Errors
    /// A pattern that does not compile.
    pub fn build(&self) -> Result<Arc<dyn Policy>> {
        Ok(match self {
            Self::Nothing => Arc::new(Patterns::new("nothing", &[])?),
            Self::Gold => Arc::new(Gold),
            Self::Customers => Arc::new(Patterns::customers()?),
            Self::Patterns { rules } => Arc::new(Patterns::new("patterns", rules)?),
        })
    }
}

/// A redaction policy with a simulated error rate.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyOptions {
    /// The policy.
    pub policy: PolicyChoice,
    /// γ: it misses exactly round(γ·m) of the m distinct strings it finds. From 0 to 1.
    pub miss_rate: f64,
    /// Share of the other words it masks as well. From 0 to 1.
    pub false_positive_rate: f64,
    /// Seed of both.
    pub seed: u64,
}
