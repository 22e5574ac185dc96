//! The neighbouring relation: part of the question, kept apart from the mechanism.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The relation between the two inputs that the adversary tries to distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbours {
    /// One record more or less.
    AddRemove,
    /// A record's contribution replaced by zero; who contains which secret is public.
    ZeroOut,
    /// A record's content replaced (secret against secret, or secret against `<MASK>`).
    Replace,
}

impl std::fmt::Display for Neighbours {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::AddRemove => "add-remove",
            Self::ZeroOut => "zero-out",
            Self::Replace => "replace",
        })
    }
}
