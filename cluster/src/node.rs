//! The processes of a cluster: one scheduler, and executors that ask it for work.

use crate::codec::StageCodec;
use crate::driver;
use crate::guard::StagesOnly;
use crate::table::Process;
use crate::trust::Trust;
use anyhow::{Context, Result, anyhow};
use ballista_core::config::TaskSchedulingPolicy;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use std::net::SocketAddr;
use std::sync::Arc;

/// Seconds for an executor to find its scheduler.
const CONNECT: u16 = 60;
/// The least seconds after which a silent executor is given up: it asks for work every five.
const SILENT: u64 = 15;

/// The address without its port, as Ballista puts it before one.
fn host(address: &SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

/// Deals stages out to executors. It opens no file and needs no key.
#[derive(Debug, Clone)]
pub struct Scheduler {
    /// Where clients and executors reach it.
    pub listen: String,
    /// Seconds after which a silent executor is given up, and its work dealt out again.
    pub timeout: u64,
    /// Who reaches its network.
    pub trust: Trust,
}

impl Scheduler {
    /// Runs until the process is ended.
    ///
    /// # Errors
    /// An address that is not this machine's own, unless the network is trusted, or that is taken.
    pub async fn run(self) -> Result<()> {
        let address = self.trust.address("--listen", &self.listen)?;
        anyhow::ensure!(
            self.timeout >= SILENT,
            "--executor-timeout must be at least {SILENT}, got {}",
            self.timeout
        );
        let process = Arc::new(Process::planning()?);
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
            // Long enough for the client to fetch which stages were done.
            finished_job_data_clean_up_interval_seconds: 60,
            override_config_producer: Some(Arc::new(move || configuration.clone())),
            override_session_builder: Some(Arc::new(|config| Ok(driver::state(config)))),
            override_logical_codec: Some(codec.clone()),
            override_physical_codec: Some(codec),
            ..SchedulerConfig::default()
        };
        let cluster = BallistaCluster::new_from_config(&config).await;
        let cluster = cluster.map_err(|error| anyhow!("scheduler: {error}"))?;
        start_server(cluster, address, Arc::new(config))
            .await
            .map_err(|error| anyhow!("scheduler: {address}: {error}"))
    }
}

/// Runs stages. It needs the owner's key, and sees the files of the plan.
#[derive(Debug, Clone)]
pub struct Executor {
    /// The scheduler's address.
    pub scheduler: String,
    /// Where other executors and the client fetch what its stages gave.
    pub listen: String,
    /// The name under which they reach it, where that is not the address it listens on.
    pub advertise: Option<String>,
    /// Stages at once.
    pub tasks: usize,
    /// Of each stage.
    pub threads: usize,
    /// Who reaches its network.
    pub trust: Trust,
}

impl Executor {
    /// Runs until the process is ended.
    ///
    /// # Errors
    /// An address that is not this machine's own, unless the network is trusted, or that is taken; no key; no
    /// scheduler within a minute.
    pub async fn run(self) -> Result<()> {
        let scheduler = self.trust.address("--scheduler", &self.scheduler)?;
        let address = self.trust.address("--listen", &self.listen)?;
        let process = Arc::new(Process::working(self.threads)?);
        let codec = Arc::new(StageCodec::new(process.clone()));
        let configuration = driver::configuration(&process, 2);
        let folder = tempfile::tempdir().context("there is no place for temporary files")?;
        let place = folder.path().to_str().map(str::to_owned);
        let advertised = self.advertise.clone();
        let config = ExecutorProcessConfig {
            bind_host: host(&address),
            port: address.port(),
            external_host: Some(advertised.unwrap_or_else(|| host(&address))),
            scheduler_host: host(&scheduler),
            scheduler_port: scheduler.port(),
            scheduler_connect_timeout_seconds: CONNECT,
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
