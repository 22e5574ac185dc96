//! `audit-cluster`: the stages of a plan of shards on Apache DataFusion Ballista.

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use reticent_cluster::{Executor, Run, Scheduler, Trust};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

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
    /// Seconds after which a silent executor is given up, and its work dealt out again.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
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

fn main() -> ExitCode {
    let what = Command::parse().what;
    match run(what) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(what: What) -> Result<()> {
    // Rows that wait to be fetched lie in a folder that only this user can open, and that is removed at the end.
    let folder = tempfile::Builder::new()
        .prefix("audit-cluster-")
        .tempdir()
        .context("there is no place for temporary files")?;
    tempfile::env::override_temp_dir(folder.path())
        .map_err(|_| anyhow::anyhow!("temporary files have another place already"))?;
    let runtime = tokio::runtime::Runtime::new().context("no threads can be started")?;
    let made = runtime.block_on(async {
        tokio::select! {
            made = work(what) => made,
            _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted; the same command goes on with what is not done"),
        }
    });
    // A stage that still runs here would hold the process until its next look.
    runtime.shutdown_background();
    made
}

async fn work(what: What) -> Result<()> {
    match what {
        What::Prepare(args) => {
            let threads = usize::from(args.threads);
            let trust = args.network.trust();
            let made = reticent_cluster::prepare(&args.plan, &args.run, threads, trust).await?;
            let facts = made.facts;
            let said = writeln!(
                std::io::stdout(),
                "{}: prepared {} units, {} of them duplicates.",
                args.plan.display(),
                facts.units,
                facts.duplicates
            );
            said.context("standard output")
        }
        What::Scheduler(args) => {
            let scheduler = Scheduler {
                listen: args.listen,
                timeout: args.executor_timeout,
                trust: args.network.trust(),
            };
            scheduler.run().await
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
            executor.run().await
        }
    }
}
