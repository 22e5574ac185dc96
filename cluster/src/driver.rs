//! The client: asks a cluster for the stages of a plan, and runs the last one itself.

use crate::codec::StageCodec;
use crate::request::{Kind, Request, readable};
use crate::runs::BATCH;
use crate::table::{Process, StageTable};
use crate::trust::Trust;
use anyhow::{Context, Result, anyhow, bail, ensure};
use ballista::prelude::{SessionConfigExt, SessionContextExt};
use ballista_core::config::BALLISTA_SCHEDULER_MAX_PARTITIONS_PER_TASK;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use reticent_corpus::{Preparation, ShardPlan, ShardStage};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// How a scheduler is named.
const SCHEME: &str = "ballista://";
/// Most partitions of the shuffle; a partition has the parts that its hash gives it.
const PARTITIONS: u64 = 256;
/// Most tasks at once of an embedded executor.
const MOST: usize = 256;

/// Where the stages run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Run {
    /// In this process, so many at once: an embedded scheduler and executor, for tests.
    Standalone(usize),
    /// On the executors of the scheduler at this address.
    Ballista(String),
}

impl FromStr for Run {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let count = match text {
            "standalone" => Some(Ok(1)),
            _ => text.strip_prefix("standalone:").map(str::parse),
        };
        match (count, text.strip_prefix(SCHEME)) {
            (Some(Ok(count)), _) if (1..=MOST).contains(&count) => Ok(Self::Standalone(count)),
            (None, Some(host)) if !host.is_empty() && !host.contains('/') => {
                Ok(Self::Ballista(host.to_owned()))
            }
            _ => Err(format!(
                "must be {SCHEME}HOST:PORT, or standalone:N with N from 1 to {MOST}, got {text:?}"
            )),
        }
    }
}

/// Runs all stages of a plan that are not done, and gives what was prepared: the folder of a single run, byte for
/// byte. After an interruption the same call goes on.
///
/// ```no_run
/// # async fn example() -> anyhow::Result<()> {
/// use reticent_cluster::{Run, Trust, prepare};
/// let run: Run = "ballista://127.0.0.1:50050".parse().map_err(anyhow::Error::msg)?;
/// let made = prepare("plan.json".as_ref(), &run, 1, Trust::Loopback).await?;
/// assert!(made.facts.units > 0);
/// # Ok(()) }
/// ```
///
/// # Errors
/// A plan or a key that cannot be read; a scheduler that is not on this machine, unless the network is trusted; a
/// scheduler or an executor of another build; a stage that failed, as [`ShardPlan::run`] says it.
pub async fn prepare(path: &Path, run: &Run, threads: usize, trust: Trust) -> Result<Preparation> {
    let process = Arc::new(Process::working(threads)?);
    let key = process.owner.context("the owner's key")?;
    let plan = Arc::new(ShardPlan::load(path, key.0).context("--plan")?);
    let (shards, parts) = (plan.shards(), plan.parts());
    let asked = Asked {
        path,
        plan: &plan,
        process: &process,
        session: session(run, &process, parts, trust).await?,
    };
    // A part is grouped when the digests of every shard are there.
    if !(0..parts).all(|part| plan.has(ShardStage::Group(part))) {
        asked.done(Kind::Group, (0..shards).collect()).await?;
    }
    asked.all(ShardStage::Group, parts)?;
    let left = (0..shards).filter(|shard| !plan.has(ShardStage::Write(*shard)));
    let left: Vec<u64> = left.collect();
    if !left.is_empty() {
        asked.done(Kind::Write, left).await?;
    }
    asked.all(ShardStage::Write, shards)?;
    let last = plan.clone();
    let join = move || last.run(ShardStage::Join, threads, &|_, _| true);
    let made = tokio::task::spawn_blocking(join).await;
    let made = made.context("--run: the last stage")?.context("--run")?;
    made.flatten()
        .context("--run: the last stage prepared nothing")
}

/// A plan, and who is asked for its stages.
struct Asked<'a> {
    path: &'a Path,
    plan: &'a ShardPlan,
    process: &'a Arc<Process>,
    session: SessionContext,
}

impl Asked<'_> {
    async fn done(&self, kind: Kind, shards: Vec<u64>) -> Result<()> {
        let table = StageTable {
            request: Request::new(kind, self.path, self.plan, shards)?,
            process: self.process.clone(),
        };
        let rows = async {
            let frame = self.session.read_table(Arc::new(table))?;
            frame.collect().await
        };
        rows.await
            .map(drop)
            .map_err(|error| anyhow!("--run: {}", readable(&error)))
    }

    /// What is in the files counts, not what an executor said.
    fn all(&self, stage: impl Fn(u64) -> ShardStage, count: u64) -> Result<()> {
        let missing = (0..count).map(stage).find(|stage| !self.plan.has(*stage));
        match missing {
            Some(stage) => bail!(
                "--run: {stage} is done, and its file is not in {}: executors and this process must see the same files",
                self.plan.folder().display()
            ),
            None => Ok(()),
        }
    }
}

/// The configuration of every process: how batches and shuffles are cut.
pub(crate) fn configuration(process: &Arc<Process>, partitions: usize) -> SessionConfig {
    let codec = Arc::new(StageCodec::new(process.clone()));
    SessionConfig::new_with_ballista()
        .with_target_partitions(partitions)
        .with_batch_size(BATCH)
        .with_information_schema(false)
        // A slot runs one stage at a time, and what is tried again is one stage.
        .set_str(BALLISTA_SCHEDULER_MAX_PARTITIONS_PER_TASK, "1")
        .with_ballista_logical_extension_codec(codec.clone())
        .with_ballista_physical_extension_codec(codec)
}

/// A state that plans and runs with this configuration.
pub(crate) fn state(configuration: SessionConfig) -> SessionState {
    SessionStateBuilder::new()
        .with_config(configuration)
        .with_default_features()
        .build()
}

async fn session(
    run: &Run,
    process: &Arc<Process>,
    parts: u64,
    trust: Trust,
) -> Result<SessionContext> {
    let partitions = usize::try_from(parts.clamp(2, PARTITIONS)).unwrap_or(2);
    let configuration = configuration(process, partitions);
    let made = match run {
        Run::Standalone(tasks) => {
            let configuration = configuration.with_ballista_standalone_parallelism(*tasks);
            SessionContext::standalone_with_state(state(configuration)).await
        }
        Run::Ballista(host) => {
            let address = trust.address("--run", host)?;
            let reached = tokio::net::TcpStream::connect(address).await;
            ensure!(
                reached.is_ok(),
                "--run: no scheduler listens at {address}; start one with audit-cluster scheduler"
            );
            let url = format!("df://{address}");
            SessionContext::remote_with_state(&url, state(configuration)).await
        }
    };
    made.map_err(|error| anyhow!("--run: {}", readable(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_stages_run_is_a_scheduler_or_this_process() {
        let host = Run::Ballista("host:7".to_owned());
        assert_eq!("ballista://host:7".parse(), Ok(host));
        assert_eq!("standalone".parse(), Ok(Run::Standalone(1)));
        assert_eq!("standalone:3".parse(), Ok(Run::Standalone(3)));
        for text in [
            "standalone:0",
            "standalone:257",
            "standalone:x",
            "ballista://",
            "local:3",
            "",
        ] {
            let said = Run::from_str(text).unwrap_err();
            assert!(said.contains("from 1 to 256"), "{said}");
        }
    }
}
