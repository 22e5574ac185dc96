//! Prepares a corpus in parts, with processes that share nothing but files. The result is the same folder, byte for
//! byte, that a single process writes.
//!
//! The plan makes the choices that depend on the corpus as a whole (held-out documents, canaries, what a simulated
//! policy misses) and determines where each shard begins, with a keyed digest of its documents. The stages are:
//!
//! | stage | for each | reads | writes |
//! |---|---|---|---|
//! | scan | shard | its documents | keyed digests of its units, in order, by part |
//! | group | part | one range of the digests of all shards | which units are copies of earlier ones |
//! | write | shard | its documents, and the results of group for them | records, counts |
//! | join | – | the results of write, in the order of the shards | the prepared folder |
//!
//! If units are compared by more than their digests, there is only one part, which goes through all documents as a
//! single run does and determines the same fates. Units are identified by their places, never by the order in which
//! they arrive. Each stage writes one sealed file, whole or not at all, with the same bytes whenever it runs.

mod fates;
mod plan;
mod sealed;
mod stages;

pub use plan::{ShardPlan, ShardStage, shard_plan_schema};
pub(crate) use sealed::Key;
pub use stages::UnitDigests;
