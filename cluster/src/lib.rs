//! Preparing a corpus on a cluster of Apache DataFusion Ballista.
//!
//! A plan of shards, which `audit prepare --plan … --shards N` writes, is run as two queries. The operators are the
//! stages of the plan ([`reticent_corpus::prepare::ShardPlan`]); they are part of this program, which is client, scheduler and
//! executor, so that no code travels:
//!
//! ```text
//! scan (one partition a shard) → shuffle by part → group (writes the files of its parts)
//! write (one partition a shard)
//! ```
//!
//! What the stages leave in files is the contract: the corpus, the plan and the folder of its stages lie where every
//! executor sees them. Over the network go keyed digests with the places of units, from scan to group, and which
//! stage was done. The last stage, join, runs in the client.

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
