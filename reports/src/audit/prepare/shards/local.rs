//! Runs the stages of a plan as processes on this machine.

use super::program;
use crate::audit::grid::{Ended, ending_with_this, last_error};
use crate::contract::{Interrupt, Interrupted, Progress, note};
use anyhow::{Context, Result, bail};
use reticent_corpus::prepare::{ShardPlan, ShardStage};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How often a stage is started, at most, if its process is killed from outside.
const TRIES: u32 = 3;
/// The time between two checks of the processes.
const PAUSE: Duration = Duration::from_millis(10);

/// A process that runs a stage.
struct Running {
    stage: ShardStage,
    tries: u32,
    child: Ended,
    stderr: File,
}

/// Runs all stages but the last, up to `processes` at once; finished stages, and those of a finished plan, are skipped.
pub(super) fn run(
    plan: &ShardPlan,
    path: &Path,
    processes: usize,
    threads: u64,
    interrupt: &Interrupt,
) -> Result<()> {
    if plan.is_finished().context("--run")? {
        return Ok(());
    }
    let all: Vec<ShardStage> = plan.stages().collect();
    let line = Progress::of(all.len() as u64, "scanning", "stages");
    let kinds = all.chunk_by(|a, b| std::mem::discriminant(a) == std::mem::discriminant(b));
    for kind in kinds {
        match kind.first() {
            Some(ShardStage::Scan(_)) => {}
            Some(ShardStage::Group(_)) => line.say("finding repetitions"),
            Some(ShardStage::Write(_)) => line.say("preparing"),
            Some(ShardStage::Join) | None => break,
        }
        let mut waiting: Vec<(ShardStage, u32)> = Vec::new();
        for stage in kind.iter().rev() {
            if plan.has(*stage) {
                line.advance(1);
            } else {
                waiting.push((*stage, 1));
            }
        }
        let mut running: Vec<Running> = Vec::new();
        while !(waiting.is_empty() && running.is_empty()) {
            if interrupt.raised() {
                let resume = Some("the same --plan");
                return Err(Interrupted { resume }.into());
            }
            while running.len() < processes
                && let Some((stage, tries)) = waiting.pop()
            {
                running.push(start(path, stage, tries, threads)?);
            }
            let mut at = 0;
            while at < running.len() {
                let ended = running[at].child.0.try_wait();
                let Some(status) = ended.context("--run: cannot wait for a process")? else {
                    at += 1;
                    continue;
                };
                let mut process = running.swap_remove(at);
                let stage = process.stage;
                // Another process may have run the last stage meanwhile.
                let is_done = || -> Result<bool> {
                    Ok(plan.has(stage) || plan.is_finished().context("--run")?)
                };
                if status.success() && is_done()? {
                    line.advance(1);
                } else if status.code().is_some() {
                    let said = last_error(&mut process.stderr)
                        .unwrap_or_else(|| format!("it ended without saying why ({status})"));
                    bail!("--run: {stage}: {said}");
                } else if process.tries >= TRIES {
                    bail!("--run: {stage}: a signal ended its process {TRIES} times");
                } else {
                    note(&format!(
                        "note: {stage}: a signal ended its process; restarting it"
                    ));
                    waiting.push((stage, process.tries + 1));
                }
            }
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}

fn start(path: &Path, stage: ShardStage, tries: u32, threads: u64) -> Result<Running> {
    let stderr = tempfile::tempfile().context("--run: there is no folder for temporary files")?;
    let copy = stderr.try_clone();
    let copy = copy.context("--run: there is no folder for temporary files")?;
    let program = program()?;
    let child = ending_with_this(&mut Command::new(&program))
        .args(["prepare", "--config", "none", "--plan"])
        .arg(path)
        .args(stage.to_string().split_whitespace())
        .args(["--threads", &threads.to_string()])
        .stdout(Stdio::null())
        .stderr(copy)
        .spawn()
        .with_context(|| format!("--run: cannot start {}", program.display()))?;
    Ok(Running {
        stage,
        tries,
        child: Ended(child),
        stderr,
    })
}
