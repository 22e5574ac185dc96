//! Preparing a corpus in parts, by processes that share nothing but files, into the folder that one process writes,
//! byte for byte.
//!
//! The plan settles what depends on the corpus as a whole: documents held out, canaries, what a simulated policy
//! misses; and where each shard begins, with a keyed digest of its documents. Then
//!
//! | stage | for each | reads | writes |
//! |---|---|---|---|
//! | scan | shard | its documents | keyed digests of its units, in order, by part |
//! | group | part | one range of the digests of all shards | which units came before |
//! | write | shard | its documents, what group says of them | records, counts |
//! | join | – | what write left, in the order of the shards | the prepared folder |
//!
//! Where units are compared by more than their digests there is one part, which goes through all documents as a
//! single run does and leaves the same fates. Units are named by their places, never by the order in which they
//! come. A stage writes one file, whole or absent and sealed, and the same bytes whenever it runs.

mod fates;
mod plan;
mod sealed;
mod stages;

pub use plan::{ShardPlan, ShardStage, shard_plan_schema};
pub use stages::UnitDigests;
