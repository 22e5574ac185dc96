//! `audit-cluster`: runs the stages of a plan of shards on Apache DataFusion Ballista.

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use reticent_cluster::{Executor, Run, SILENT, Scheduler, Trust};
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long an executor may take to tell its scheduler that it ends, and to finish what it runs.
const LEAVE: Duration = Duration::from_secs(10);
/// How long stages that still run here may take to check whether their result is awaited.
const LOOK: Duration = Duration::from_secs(1);

/// Prepares a corpus on a cluster: a scheduler, executors, and a client that follows a plan of audit prepare --shards.
///
/// All three are this program, and must be one build of it.
#[derive(Parser)]
#[command(name = "audit-cluster", version)]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Run all stages of a plan, and write the prepared folder.
    Prepare(Prepare),
    /// Deal stages out to executors; needs neither the owner's key nor the files.
    Scheduler(SchedulerArgs),
    /// Run stages; needs the owner's key, the plan, the corpus and the folder of the stages.
    Executor(ExecutorArgs),
}

#[derive(Args)]
struct Network {
    /// Only those reach the network who may see and change what passes: links are neither encrypted nor authenticated.
    #[arg(long)]
    trust_network: bool,
}

impl Network {
    const fn trust(&self) -> Trust {
        if self.trust_network {
            Trust::Network
        } else {
            Trust::Loopback
        }
    }
}

#[derive(Args)]
struct Prepare {
    /// The plan, which audit prepare --plan FILE --shards N wrote.
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// ballista://HOST:PORT of a scheduler; standalone:N runs N stages at once in this process.
    #[arg(long, value_name = "WHERE")]
    run: Run,
    /// Threads of each stage that runs in this process.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    #[command(flatten)]
    network: Network,
}

#[derive(Args)]
struct SchedulerArgs {
    /// Where clients and executors reach it.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    listen: String,
    /// Seconds after which a silent executor is given up, and its work dealt out again: 15 to 3600.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = seconds)]
    executor_timeout: u64,
    #[command(flatten)]
    network: Network,
}

#[derive(Args)]
struct ExecutorArgs {
    /// The scheduler.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    scheduler: String,
    /// Where other executors and the client fetch what its stages gave.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50051")]
    listen: String,
    /// The name under which they reach it, where that is not what it listens on.
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,
    /// Stages at once.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    tasks: u16,
    /// Threads of each stage.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    #[command(flatten)]
    network: Network,
}

fn seconds(text: &str) -> Result<u64, String> {
    let given = text.parse().ok();
    given.filter(|given| SILENT.contains(given)).ok_or_else(|| {
        format!(
            "must be from {} to {} seconds, got {text:?}",
            SILENT.start(),
            SILENT.end()
        )
    })
}

fn main() -> ExitCode {
    let what = Command::parse().what;
    match run(what) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {}", sentence(&error));
            ExitCode::from(2)
        }
    }
}

/// Formats an error with its causes; a cause whose text is already included is not repeated.
fn sentence(error: &anyhow::Error) -> String {
    let mut said = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

/// The signals that end a process from outside.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for a signal and returns the exit status of a command that it ended.
    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
        }
    }
}

fn run(what: What) -> Result<u8> {
    let runtime = tokio::runtime::Runtime::new().context("no threads can be started")?;
    let within = runtime.enter();
    let signals = Signals::listen().context("signals cannot be listened to")?;
    drop(within);
    // Rows that wait to be fetched lie in a folder that only this user can open and that is removed at the end.
    let folder = tempfile::Builder::new()
        .prefix("audit-cluster-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .context("there is no place for temporary files")?;
    tempfile::env::override_temp_dir(folder.path())
        .map_err(|_| anyhow::anyhow!("temporary files have another place already"))?;
    let ended = runtime.block_on(work(what, signals));
    runtime.shutdown_timeout(LOOK);
    ended
}

async fn work(what: What, mut signals: Signals) -> Result<u8> {
    match what {
        What::Prepare(args) => prepare(args, signals).await,
        What::Scheduler(args) => {
            let scheduler = Scheduler {
                listen: args.listen,
                timeout: args.executor_timeout,
                trust: args.network.trust(),
            };
            tokio::select! {
                ended = scheduler.run() => ended.map(|()| 0),
                _ = signals.next() => Ok(0),
            }
        }
        What::Executor(args) => {
            let executor = Executor {
                scheduler: args.scheduler,
                listen: args.listen,
                advertise: args.advertise,
                tasks: args.tasks.into(),
                threads: args.threads.into(),
                trust: args.network.trust(),
            };
            let mut running = std::pin::pin!(executor.run());
            tokio::select! {
                ended = &mut running => {
                    // Ballista receives the signal too.
                    let signal = tokio::time::timeout(Duration::ZERO, signals.next()).await;
                    ended?;
                    anyhow::ensure!(signal.is_ok(), "executor: it ended without a signal");
                }
                _ = signals.next() => {
                    let _ = tokio::time::timeout(LEAVE, running).await;
                }
            }
            Ok(0)
        }
    }
}

async fn prepare(args: Prepare, mut signals: Signals) -> Result<u8> {
    let (threads, trust) = (usize::from(args.threads), args.network.trust());
    let mut status = 0;
    let stop = async { status = signals.next().await };
    let made = reticent_cluster::prepare_until(&args.plan, &args.run, threads, trust, stop).await?;
    let Some(made) = made else {
        let _ = writeln!(
            std::io::stderr(),
            "error: interrupted; the same command goes on with what is not done"
        );
        return Ok(status);
    };
    let facts = made.facts;
    let said = writeln!(
        std::io::stdout(),
        "{}: prepared {} units, {} of them duplicates.",
        args.plan.display(),
        facts.units,
        facts.duplicates
    );
    said.context("standard output")?;
    Ok(0)
}
