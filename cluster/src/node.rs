//! The processes of a cluster: one scheduler, and executors that ask it for work.

use crate::codec::StageCodec;
use crate::driver;
use crate::guard::{StagePlanner, StagesOnly};
use crate::table::Process;
use crate::trust::Trust;
use anyhow::{Context, Result, anyhow};
use ballista_core::config::TaskSchedulingPolicy;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use ballista_scheduler::scheduler_server::SchedulerServer;
use datafusion::execution::SessionStateBuilder;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};

/// How long an executor tries to reach its scheduler.
const CONNECT: Duration = Duration::from_secs(30);
/// The time between two tries.
const PAUSE: Duration = Duration::from_millis(500);
/// The allowed timeouts, in seconds, after which a silent executor may be given up: it asks for work every five
/// seconds.
pub const SILENT: std::ops::RangeInclusive<u64> = 15..=3600;
/// How often the scheduler checks its queries.
const LOOK: Duration = Duration::from_secs(1);
/// The time without a running or available task after which a query is given up; between two tasks there are
/// milliseconds.
const STILL: Duration = Duration::from_secs(10);

/// Returns the address without its port, in the form in which Ballista puts it before a port.
fn host(address: &SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

/// Assigns stages to executors. It opens no file and needs no key.
#[derive(Debug, Clone)]
pub struct Scheduler {
    /// The address at which clients and executors reach it.
    pub listen: String,
    /// The seconds after which a silent executor is given up and its work assigned again.
    pub timeout: u64,
    /// Who can reach its network.
    pub trust: Trust,
}

impl Scheduler {
    /// Runs until the process is ended.
    ///
    /// # Errors
    /// Returns an error if the address is not this machine's own and the network is not trusted, or if it is in
    /// use.
    pub async fn run(self) -> Result<()> {
        let address = self.trust.address("--listen", &self.listen)?;
        anyhow::ensure!(
            SILENT.contains(&self.timeout),
            "--executor-timeout must be from {} to {} seconds, got {}",
            SILENT.start(),
            SILENT.end(),
            self.timeout
        );
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("--listen: {address}"))?;
        let process = Arc::new(Process::planning(self.trust)?);
        let codec = Arc::new(StageCodec::new(process.clone()));
        let configuration = driver::configuration(&process, 2);
        let config = SchedulerConfig {
            bind_host: host(&address),
            bind_port: address.port(),
            external_host: host(&address),
            scheduling_policy: TaskSchedulingPolicy::PullStaged,
            executor_timeout_seconds: self.timeout,
            no_executors_grace_period_seconds: self.timeout.max(180),
            expire_dead_executor_interval_seconds: 5,
            // Long enough for the client to fetch which stages are done.
            finished_job_data_clean_up_interval_seconds: 60,
            override_config_producer: Some(Arc::new(move || configuration.clone())),
            override_session_builder: Some(Arc::new(|config| {
                let state = SessionStateBuilder::new_from_existing(driver::state(config));
                Ok(state.with_query_planner(Arc::new(StagePlanner)).build())
            })),
            override_logical_codec: Some(codec.clone()),
            override_physical_codec: Some(codec),
            ..SchedulerConfig::default()
        };
        let cluster = BallistaCluster::new_from_config(&config).await;
        let cluster = cluster.map_err(|error| anyhow!("scheduler: {error}"))?;
        let server = create_scheduler(cluster, Arc::new(config)).await;
        let server: Server = server.map_err(|error| anyhow!("scheduler: {address}: {error}"))?;
        let looked_at = server.clone();
        tokio::select! {
            ended = start_grpc_service_with_listener(listener, server) => {
                ended.map_err(|error| anyhow!("scheduler: {address}: {error}"))
            }
            () = give_up(looked_at) => Ok(()),
        }
    }
}

type Server = SchedulerServer<LogicalPlanNode, PhysicalPlanNode>;

/// Cancels queries that make no progress. When an executor is lost, Ballista 55 resets a stage that would read its
/// rows, and may then assign nothing more although executors ask for work; the client submits such a query again.
async fn give_up(server: Server) {
    let mut still: HashMap<String, Instant> = HashMap::new();
    loop {
        tokio::time::sleep(LOOK).await;
        let jobs = server.state.task_manager.get_running_job_cache();
        still.retain(|job, _| jobs.keys().any(|other| other.as_str() == job));
        for (job, info) in jobs.iter() {
            let graph = info.execution_graph.read().await;
            let name = job.as_str();
            let works = !graph.running_tasks().is_empty() || graph.available_tasks() > 0;
            if works || !server.is_ready() {
                still.remove(name);
                continue;
            }
            let since = still.entry(name.to_owned()).or_insert_with(Instant::now);
            if since.elapsed() > STILL {
                drop(graph);
                let _ = server.cancel_job(job.clone()).await;
            }
        }
    }
}

/// Waits for the scheduler, which may be started after its executors.
async fn reached(scheduler: SocketAddr) -> Result<()> {
    let found = async {
        while TcpStream::connect(scheduler).await.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
    };
    let found = tokio::time::timeout(CONNECT, found).await;
    let seconds = CONNECT.as_secs();
    found
        .map_err(|_| anyhow!("--scheduler: none listens at {scheduler}; waited {seconds} s for it"))
}

/// Runs stages. It needs the owner's key and access to the files of the plan.
#[derive(Debug, Clone)]
pub struct Executor {
    /// The scheduler's address.
    pub scheduler: String,
    /// The address at which other executors and the client fetch the results of its stages.
    pub listen: String,
    /// The name under which they reach it, if it is not the listening address.
    pub advertise: Option<String>,
    /// The number of concurrent stages.
    pub tasks: usize,
    /// The number of threads of each stage.
    pub threads: usize,
    /// Who can reach its network.
    pub trust: Trust,
}

impl Executor {
    /// Runs until the process is ended.
    ///
    /// # Errors
    /// Returns an error if an address is not this machine's own and the network is not trusted, if it is in use, if
    /// there is no key, or if no scheduler is reached within half a minute.
    pub async fn run(self) -> Result<()> {
        let scheduler = self.trust.address("--scheduler", &self.scheduler)?;
        let address = self.trust.address("--listen", &self.listen)?;
        let advertised = match &self.advertise {
            Some(host) => {
                let with_port = format!("{host}:{}", address.port());
                self.trust.address("--advertise", &with_port)?;
                host.clone()
            }
            None => host(&address),
        };
        let process = Arc::new(Process::working(self.threads, self.trust)?);
        // Ballista ends without a message if its address is in use.
        drop(
            TcpListener::bind(address)
                .await
                .with_context(|| format!("--listen: {address}"))?,
        );
        reached(scheduler).await?;
        let codec = Arc::new(StageCodec::new(process.clone()));
        let configuration = driver::configuration(&process, 2);
        let folder = tempfile::tempdir().context("there is no place for temporary files")?;
        let place = folder.path().to_str().map(str::to_owned);
        let config = ExecutorProcessConfig {
            bind_host: host(&address),
            port: address.port(),
            external_host: Some(advertised),
            scheduler_host: host(&scheduler),
            scheduler_port: scheduler.port(),
            vcores: self.tasks,
            task_scheduling_policy: TaskSchedulingPolicy::PullStaged,
            work_dir: Some(place.context("the folder of temporary files is no text in UTF-8")?),
            override_config_producer: Some(Arc::new(move || configuration.clone())),
            override_logical_codec: Some(codec.clone()),
            override_physical_codec: Some(codec),
            override_execution_engine: Some(Arc::new(StagesOnly::default())),
            ..ExecutorProcessConfig::default()
        };
        start_executor_process(Arc::new(config))
            .await
            .map_err(|error| anyhow!("executor: {address}: {error}"))
    }
}
