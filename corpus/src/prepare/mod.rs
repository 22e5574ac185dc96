//! The preparation pipeline, in the order of CRT: split, tokenise, deduplicate, redact, and assign
//! sides.

mod context;
mod copies;
mod diff;
mod facts;
mod first_pass;
mod held_out;
mod neighbours;
mod options;
mod pace;
mod points;
mod preparer;
mod record_work;
mod resume;
mod run;
mod secrets;
mod shape;
mod shards;
mod sink;
mod source;
mod stability;
mod stream;
mod survey;
mod unit_work;

pub use copies::SecretCopies;
pub use diff::{NeighbourDiff, mask_secret, neighbour_diff};
pub use facts::{Facts, KindFacts, SecretFacts, SecretSource};
pub use neighbours::{NeighbourCounts, Neighbours, SecretDiff, Selection};
pub use options::{CanarySight, PrepareOptions, TokenizerChoice};
pub(crate) use pace::Pace;
pub use preparer::{Prepared, Preparer, prepare};
pub(crate) use record_work::{Work, found, shown, text_key};
pub use resume::RestartCause;
pub(crate) use resume::{Done, DoneNow, Identity};
pub(crate) use run::Put;
pub(crate) use shards::Key;
pub use shards::{ShardPlan, ShardStage, UnitDigests, shard_plan_schema};
pub use source::Phase;
pub(crate) use source::Seal;
pub use stream::{Preparation, PrepareFiles};

pub use crate::folder::seal_folder;

pub use stability::{ButFor, Copies, Stability, Stage, StageStability};
