//! Prepares a corpus on a cluster of Apache DataFusion Ballista.
//!
//! A plan of shards, as written by `audit prepare --plan … --shards N`, is run as two queries. The operators are the
//! stages of the plan ([`reticent_corpus::prepare::ShardPlan`]). They are part of this program, which is client,
//! scheduler and executor, so that no code is sent:
//!
//! ```text
//! scan (one partition a shard) → shuffle by part → group (writes the files of its parts)
//! write (one partition a shard)
//! ```
//!
//! The files that the stages write are the contract: the corpus, the plan and the folder of its stages must be visible
//! to every executor. The network carries keyed digests with the positions of units, from scan to group, and which
//! stages are done. The last stage, join, runs in the client.

mod build;
mod codec;
mod driver;
mod guard;
mod node;
mod operator;
mod owner_key;
mod request;
mod runs;
mod table;
mod trust;

pub use driver::{Run, prepare, prepare_until};
pub use node::{Executor, SILENT, Scheduler};
pub use trust::Trust;
