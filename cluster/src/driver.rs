//! The client: runs the stages of a plan on a cluster, and the last one itself.

use crate::codec::StageCodec;
use crate::owner_key::OwnerKey;
use crate::request::{Kind, Request, Why, readable};
use crate::runs::BATCH;
use crate::table::{Process, StageTable};
use crate::trust::Trust;
use anyhow::{Context, Result, anyhow, bail, ensure};
use ballista::prelude::{SessionConfigExt, SessionContextExt};
use ballista_core::config::{BALLISTA_CLIENT_PULL, BALLISTA_SCHEDULER_MAX_PARTITIONS_PER_TASK};
use ballista_core::execution_plans::DistributedQueryExec;
use ballista_core::serde::protobuf::CancelJobParams;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::protobuf::LogicalPlanNode;
use reticent_corpus::prepare::{Preparation, ShardPlan, ShardStage};
use std::future::Future;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The scheme of a scheduler's address.
const SCHEME: &str = "ballista://";
/// The most partitions of the shuffle; the hash assigns parts to partitions.
const PARTITIONS: u64 = 256;
/// The most concurrent tasks of an embedded executor.
const MOST: usize = 256;
/// How often a query that Ballista gave up is submitted.
const TRIES: usize = 4;
/// How often, and at which interval, the folder of the stages is checked after an error.
const GONE: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);
/// How long the scheduler may take to accept the cancellation of a query.
const CANCEL: Duration = Duration::from_secs(3);

/// Where the stages run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Run {
    /// In this process, with this many tasks at once: an embedded scheduler and executor, for tests.
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

/// Runs all unfinished stages of a plan and returns what was prepared: the folder of a single run, byte for byte.
/// After an interruption, the same call resumes; of a finished plan, it returns what was prepared.
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
/// Returns an error if the plan or a key can't be read; if the scheduler is not on this machine and the network
/// is not trusted; if the scheduler or an executor is of another build; or if a stage failed, as
/// [`ShardPlan::run`] reports it.
pub async fn prepare(path: &Path, run: &Run, threads: usize, trust: Trust) -> Result<Preparation> {
    let made = prepare_until(path, run, threads, trust, std::future::pending());
    made.await?.context("--run: it was stopped")
}

/// Like [`prepare`], until `stop` completes: then the scheduler starts no more tasks of it, and `None` is
/// returned.
///
/// # Errors
/// Returns an error as [`prepare`] does.
pub async fn prepare_until(
    path: &Path,
    run: &Run,
    threads: usize,
    trust: Trust,
    stop: impl Future<Output = ()>,
) -> Result<Option<Preparation>> {
    let process = Arc::new(Process::working(threads, trust)?);
    let owner = process.owner.context("the owner's key")?;
    let plan = Arc::new(ShardPlan::load(path, owner.0).context("--plan")?);
    let scheduler = match run {
        Run::Standalone(_) => None,
        Run::Ballista(host) => Some(trust.address("--run", host)?),
    };
    if let Some(made) = plan.finished().context("--plan")? {
        return Ok(Some(made));
    }
    let driver = Driver {
        path,
        plan: &plan,
        process: &process,
        owner,
        scheduler,
        session: session(run, scheduler, &process, plan.parts()).await?,
        query: Mutex::default(),
    };
    tokio::select! {
        made = driver.everything(threads) => match made {
            // Another process may have finished the plan meanwhile.
            Err(error) => plan.finished().ok().flatten().map(Some).ok_or(error),
            Ok(made) => Ok(Some(made)),
        },
        () = stop => {
            driver.cancel().await;
            Ok(None)
        }
    }
}

/// A plan with the session in which its stages are requested.
struct Driver<'a> {
    path: &'a Path,
    plan: &'a Arc<ShardPlan>,
    process: &'a Arc<Process>,
    owner: OwnerKey,
    /// The scheduler's address; `None` for one in this process.
    scheduler: Option<SocketAddr>,
    session: SessionContext,
    /// The current query.
    query: Mutex<Option<Arc<dyn ExecutionPlan>>>,
}

impl Driver<'_> {
    async fn everything(&self, threads: usize) -> Result<Preparation> {
        let plan = self.plan;
        let (shards, parts) = (plan.shards(), plan.parts());
        // Grouping a part needs the digests of every shard.
        if !(0..parts).all(|part| plan.has(ShardStage::Group(part))) {
            let there = || self.missing(ShardStage::Group, parts).is_none();
            self.done(Kind::Group, (0..shards).collect(), there).await?;
        }
        self.all(ShardStage::Group, parts).await?;
        let left = (0..shards).filter(|shard| !plan.has(ShardStage::Write(*shard)));
        let left: Vec<u64> = left.collect();
        if !left.is_empty() {
            let there = || self.missing(ShardStage::Write, shards).is_none();
            self.done(Kind::Write, left, there).await?;
        }
        self.all(ShardStage::Write, shards).await?;
        let last = plan.clone();
        let join = move || last.run(ShardStage::Join, threads, &|_, _| true);
        let made = tokio::task::spawn_blocking(join).await;
        let made = made.context("--run: the last stage")?.context("--run")?;
        made.flatten()
            .context("--run: the last stage prepared nothing")
    }

    /// Runs a stage. `there` tells whether its files exist, which is what counts.
    async fn done(&self, kind: Kind, shards: Vec<u64>, there: impl Fn() -> bool) -> Result<()> {
        let request = Request::new(kind, self.path, self.plan, shards, self.owner)?;
        let name = self.scheduler.map(|address| address.to_string());
        let name = name.as_deref().unwrap_or("this process");
        let mut tried = 1;
        loop {
            let error = match self.rows(request.clone()).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let (why, said) = readable(&error, name);
            if why != Why::Stage && there() {
                return Ok(());
            }
            self.stays().await?;
            if why == Why::Stage {
                bail!("--run: {said}");
            }
            if why == Why::Other || tried == TRIES {
                bail!("--run: {said}");
            }
            self.reached().await?;
            tried += 1;
            let _ = writeln!(
                std::io::stderr(),
                "--run: {said}; tried again, {tried} of {TRIES}"
            );
        }
    }

    async fn rows(&self, request: Request) -> datafusion::error::Result<()> {
        let process = self.process.clone();
        let table = StageTable { request, process };
        let frame = self.session.read_table(Arc::new(table))?;
        let query = frame.create_physical_plan().await?;
        *self.current() = Some(query.clone());
        let rows = collect(query, self.session.task_ctx()).await;
        *self.current() = None;
        rows.map(drop)
    }

    fn current(&self) -> MutexGuard<'_, Option<Arc<dyn ExecutionPlan>>> {
        self.query.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn reached(&self) -> Result<()> {
        match self.scheduler {
            Some(address) => reached(address).await,
            None => Ok(()),
        }
    }

    /// Cancels the current query; tasks that were started end by themselves.
    async fn cancel(&self) {
        let query = self.current().clone();
        let job = query.and_then(|query| {
            let sent = query.downcast_ref::<DistributedQueryExec<LogicalPlanNode>>();
            sent?.job_id()
        });
        let (Some(address), Some(job)) = (self.scheduler, job) else {
            return;
        };
        let cancelled = async {
            let mut scheduler = SchedulerGrpcClient::connect(format!("http://{address}"))
                .await
                .ok()?;
            let job_id = job.to_string();
            scheduler.cancel_job(CancelJobParams { job_id }).await.ok()
        };
        if !matches!(tokio::time::timeout(CANCEL, cancelled).await, Ok(Some(_))) {
            let _ = writeln!(
                std::io::stderr(),
                "--run: the scheduler at {address} was not told, and goes on with the query"
            );
        }
    }

    fn missing(&self, stage: impl Fn(u64) -> ShardStage, count: u64) -> Option<ShardStage> {
        (0..count).map(stage).find(|stage| !self.plan.has(*stage))
    }

    /// Checks the files of a stage, which count, rather than the answer of an executor.
    async fn all(&self, stage: impl Fn(u64) -> ShardStage, count: u64) -> Result<()> {
        let Some(stage) = self.missing(stage, count) else {
            return Ok(());
        };
        self.stays().await?;
        bail!(
            "--run: {stage} is done, and its file is not in {}: executors and this process must see the same files",
            self.plan.folder().display()
        )
    }

    /// Checks that the folder of the stages still exists: another client's last stage renames and removes it, which is not
    /// seen at once in every file system.
    async fn stays(&self) -> Result<()> {
        let folder = self.plan.folder();
        for _ in 0..GONE {
            ensure!(
                folder.exists(),
                "--run: {} is gone: another process has run the last stage of this plan, which removes it",
                folder.display()
            );
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }
}

async fn reached(address: SocketAddr) -> Result<()> {
    let reached = tokio::net::TcpStream::connect(address).await;
    ensure!(
        reached.is_ok(),
        "--run: no scheduler listens at {address}; start one with audit-cluster scheduler"
    );
    Ok(())
}

/// Returns the configuration of every process: how batches and shuffles are partitioned.
pub(crate) fn configuration(process: &Arc<Process>, partitions: usize) -> SessionConfig {
    let codec = Arc::new(StageCodec::new(process.clone()));
    SessionConfig::new_with_ballista()
        .with_target_partitions(partitions)
        .with_batch_size(BATCH)
        .with_information_schema(false)
        // A slot runs one stage at a time, and a retry repeats one stage.
        .set_str(BALLISTA_SCHEDULER_MAX_PARTITIONS_PER_TASK, "1")
        // A client to which the status is pushed learns the job's name too late to cancel it.
        .set_str(BALLISTA_CLIENT_PULL, "true")
        .with_ballista_override_create_grpc_client_endpoint(process.trust.links())
        .with_ballista_logical_extension_codec(codec.clone())
        .with_ballista_physical_extension_codec(codec)
}

/// Returns a session state that plans and runs with this configuration.
pub(crate) fn state(configuration: SessionConfig) -> SessionState {
    SessionStateBuilder::new()
        .with_config(configuration)
        .with_default_features()
        .build()
}

async fn session(
    run: &Run,
    scheduler: Option<SocketAddr>,
    process: &Arc<Process>,
    parts: u64,
) -> Result<SessionContext> {
    let partitions = usize::try_from(parts.clamp(2, PARTITIONS)).unwrap_or(2);
    let configuration = configuration(process, partitions);
    let made = match (run, scheduler) {
        (Run::Standalone(tasks), _) => {
            let configuration = configuration.with_ballista_standalone_parallelism(*tasks);
            SessionContext::standalone_with_state(state(configuration)).await
        }
        (Run::Ballista(_), Some(address)) => {
            reached(address).await?;
            let url = format!("df://{address}");
            SessionContext::remote_with_state(&url, state(configuration)).await
        }
        (Run::Ballista(host), None) => bail!("--run: {host:?} has no address"),
    };
    made.map_err(|error| anyhow!("--run: {}", readable(&error, "this process").1))
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
