//! Runs the stages that are ready as concurrent processes, within a limit on their number and a memory budget.

use super::plan::{Plan, Stage, Work, content};
use crate::audit::train::args::{RANK, WORLD};
use crate::contract::{
    Envelope, Exit, Inputs, Interrupt, Interrupted, Progress, describe, in_one_line,
    read_named_text, without_content, write_file,
};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Set for processes that another one starts: they end when that one ends, for whatever reason.
const WITH_PARENT: &str = "RETICENT_ENDS_WITH_STDIN";
/// The time between two checks of the processes.
const PAUSE: Duration = Duration::from_millis(10);
/// How long interrupted processes may take to end; less than a command waits for its own safe point.
const FAREWELL: Duration = Duration::from_millis(1000);
const GIB: f64 = (1_u64 << 30) as f64;

/// The limits on the number of processes and on their total memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The most processes at once.
    pub jobs: usize,
    /// The memory budget in bytes.
    pub memory: Option<f64>,
}

impl Limits {
    /// Returns the limits that were requested.
    ///
    /// # Errors
    /// Returns an error for a memory budget if the memory of a process can't be read.
    pub fn of(jobs: Option<u64>, memory: Option<f64>) -> Result<Self> {
        let known = peak(std::process::id()).is_some();
        ensure!(
            memory.is_none() || known,
            "--memory: the memory of a process can't be read on this system"
        );
        Ok(Self {
            jobs: match jobs {
                Some(jobs) => usize::try_from(jobs).unwrap_or(usize::MAX),
                None => cores().div_ceil(2),
            },
            memory: memory.map(|gib| gib * GIB),
        })
    }

    /// Returns whether a process with this peak may start beside the running ones; the peak of a stage that never ran
    /// is unknown.
    fn admits(&self, running: &[Option<f64>], next: Option<f64>) -> bool {
        if running.len() >= self.jobs {
            return false;
        }
        let (Some(budget), false) = (self.memory, running.is_empty()) else {
            return true;
        };
        let all: Option<f64> = running.iter().copied().chain([next]).sum();
        all.is_some_and(|sum| sum <= budget)
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A finished stage, as stored beside its output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// The kind of work.
    pub work: Work,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The most memory that it used, in bytes, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<f64>,
    /// Whether it exited with 1: a promise is contradicted.
    pub exceeded: bool,
    /// Why it exited with 2 after its answer: a limit is left undecided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecided: Option<String>,
    /// The document that it answered.
    pub answer: Value,
}

/// The outcome of a stage.
pub(super) type Outcome = std::result::Result<Finished, String>;

/// A running process.
struct Running {
    stage: usize,
    child: Ended,
    since: Instant,
    peak: Option<f64>,
    stdout: File,
    stderr: File,
}

/// A process that is killed when this value is dropped.
pub(in crate::audit) struct Ended(pub(in crate::audit) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // This has no effect on a process that has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns everything that a process wrote to a temporary file.
fn written(file: &mut File) -> std::io::Result<String> {
    let mut text = String::new();
    file.rewind()
        .and_then(|()| file.read_to_string(&mut text))?;
    Ok(text)
}

/// Returns the last error that a process wrote to its stderr, in one line; `None` if it wrote none.
pub(in crate::audit) fn last_error(stderr: &mut File) -> Option<String> {
    let said = written(stderr).ok()?;
    let mut lines = said.lines().rev();
    let last = lines.find_map(|line| line.strip_prefix("error: "))?;
    Some(in_one_line(last, 300))
}

/// Runs every stage that is not finished yet.
///
/// If a stage fails, so do those that need it. `done` receives each outcome as it comes, and whether an earlier run had
/// it.
///
/// # Errors
/// Returns an error on an interruption, if the folder can't be written, or if a program can't be started.
pub(super) fn run(
    plan: &Plan,
    folder: &Path,
    limits: Limits,
    interrupt: &Interrupt,
    mut done: impl FnMut(bool, usize, &[Option<Outcome>]) -> Result<()>,
) -> Result<Vec<Outcome>> {
    let mut outcomes: Vec<Option<Outcome>> = vec![None; plan.stages.len()];
    let mut digests: Vec<Option<String>> = vec![None; plan.stages.len()];
    let builds = builds(plan)?;
    let mut peaks: HashMap<Work, f64> = HashMap::new();
    for (at, stage) in plan.stages.iter().enumerate() {
        if let Some(kept) = earlier(folder, stage, &digests, &builds) {
            learn(&mut peaks, &kept.finished);
            digests[at] = Some(kept.sha256);
            outcomes[at] = Some(Ok(kept.finished));
            done(true, at, &outcomes)?;
        }
    }
    let line = Progress::of(plan.stages.len() as u64, "grid", "stages");
    line.begins_at(outcomes.iter().flatten().count() as u64);
    let mut running: Vec<Running> = Vec::new();
    loop {
        if interrupt.raised() {
            leave(running);
            let resume = Some("the same arguments");
            return Err(Interrupted { resume }.into());
        }
        let mut still = Vec::new();
        for mut process in std::mem::take(&mut running) {
            process.peak = peak(process.child.0.id()).or(process.peak);
            let Some(status) = process
                .child
                .0
                .try_wait()
                .context("cannot wait for a process")?
            else {
                still.push(process);
                continue;
            };
            let at = process.stage;
            let mut outcome = ended(process, status, &plan.stages[at]);
            if let Ok(finished) = &outcome {
                learn(&mut peaks, finished);
                match keep(folder, &plan.stages[at], finished, &digests, &builds) {
                    Ok(digest) => digests[at] = Some(digest),
                    Err(error) => outcome = Err(describe(&error)),
                }
            }
            outcomes[at] = Some(outcome);
            done(false, at, &outcomes)?;
            line.advance(1);
        }
        running = still;
        for at in 0..plan.stages.len() {
            let stage = &plan.stages[at];
            if outcomes[at].is_some() || running.iter().any(|process| process.stage == at) {
                continue;
            }
            let mut failed = stage.needs.iter().find_map(|need| match &outcomes[*need] {
                Some(Err(why)) => Some(why.clone()),
                _ => None,
            });
            let ready = stage
                .needs
                .iter()
                .all(|need| matches!(outcomes[*need], Some(Ok(_))));
            let taken: Vec<Option<f64>> = running
                .iter()
                .map(|process| peaks.get(&plan.stages[process.stage].work).copied())
                .collect();
            let starts = ready && limits.admits(&taken, peaks.get(&stage.work).copied());
            if starts {
                let program = program(stage.work)?;
                failed = replaced(&program, builds.get(stage.work.program()))?;
                if failed.is_none() {
                    running.push(start(at, stage, limits.jobs, &program)?);
                }
            }
            if let Some(why) = failed {
                outcomes[at] = Some(Err(why));
                done(false, at, &outcomes)?;
                line.advance(1);
            }
        }
        if running.is_empty() {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    let missing = || Err("it was never run".to_owned());
    Ok(outcomes
        .into_iter()
        .map(|o| o.unwrap_or_else(missing))
        .collect())
}

/// Ctrl-C reaches the processes too, and they save what they can; those still running after that are killed.
fn leave(mut running: Vec<Running>) {
    let since = Instant::now();
    while since.elapsed() < FAREWELL
        && running
            .iter_mut()
            .any(|process| matches!(process.child.0.try_wait(), Ok(None)))
    {
        std::thread::sleep(PAUSE);
    }
}

fn learn(peaks: &mut HashMap<Work, f64>, finished: &Finished) {
    if let Some(memory) = finished.memory {
        let known = peaks.entry(finished.work).or_insert(memory);
        *known = known.max(memory);
    }
}

fn answer_of(folder: &Path, stage: &Stage) -> PathBuf {
    folder.join(format!("{}.json", stage.name))
}

/// The SHA-256 of each program that runs stages, by its name.
type Builds = HashMap<&'static str, String>;

/// Returns the builds of the programs of a plan; of one that is missing, and will not start, nothing.
fn builds(plan: &Plan) -> Result<Builds> {
    let mut all = Builds::new();
    for stage in &plan.stages {
        let name = stage.work.program();
        if !all.contains_key(name) {
            let path = program(stage.work).ok();
            let digest = path.map(|path| content(&path)).transpose()?;
            all.insert(name, digest.unwrap_or_default());
        }
    }
    Ok(all)
}

/// Returns why no stage starts if the program is no longer the build with which the run began, under whose digest results
/// are kept.
fn replaced(program: &Path, build: Option<&String>) -> Result<Option<String>> {
    let same = Some(&content(program)?) == build;
    Ok((!same).then(|| {
        format!(
            "{} was replaced during the run; give the same arguments again",
            program.display()
        )
    }))
}

/// Returns what an earlier run finished, if all its outputs, what they were made from and the program that made them are
/// still there and unchanged.
fn earlier(
    folder: &Path,
    stage: &Stage,
    digests: &[Option<String>],
    builds: &Builds,
) -> Option<Kept> {
    let path = answer_of(folder, stage);
    if !path.exists() {
        return None;
    }
    let read: Envelope<Kept> = serde_json::from_str(&read_named_text(&path).ok()?).ok()?;
    let again = Kept::of(stage, read.body.finished, digests, builds).ok()?;
    (again.sha256 == read.body.sha256).then_some(again)
}

/// The contents of a stage's document: a changed number, output or need no longer matches the digest.
#[derive(Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    finished: Finished,
    /// The SHA-256, in hexadecimal, of the stage's name, the stored result, the stage's output, the program that ran it
    /// and the digests of the stages that it needs: one that runs again has another output, because of noise without a
    /// seed, and another build may compute other numbers.
    sha256: String,
}

impl Kept {
    fn of(
        stage: &Stage,
        finished: Finished,
        digests: &[Option<String>],
        builds: &Builds,
    ) -> Result<Self> {
        let needs = stage.needs.iter().map(|need| digests[*need].as_ref());
        let needs: Option<Vec<&String>> = needs.collect();
        let needs = needs.context("a stage that it needs is not finished")?;
        let written = stage.written().map(|path| content(&path));
        let written = written.collect::<Result<Vec<_>>>()?;
        let build = builds.get(stage.work.program());
        let kept = serde_json::to_vec(&(&stage.name, &finished, written, needs, build))?;
        Ok(Self {
            finished,
            sha256: reticent_disk::hexadecimal(&Sha256::digest(kept)),
        })
    }
}

/// Stores what a stage finished and returns its digest.
fn keep(
    folder: &Path,
    stage: &Stage,
    finished: &Finished,
    digests: &[Option<String>],
    builds: &Builds,
) -> Result<String> {
    let kept = Kept::of(stage, finished.clone(), digests, builds)?;
    let digest = kept.sha256.clone();
    let text = Envelope::new("grid-stage", Inputs::new(), kept).to_text()?;
    write_file(&answer_of(folder, stage), text.as_bytes())?;
    Ok(digest)
}

fn start(at: usize, stage: &Stage, jobs: usize, program: &Path) -> Result<Running> {
    // The output is complete but a kill came before the answer, or its answer is no longer valid.
    for left in stage.written().filter(|left| left.exists()) {
        match left.is_dir() {
            true => reticent_disk::remove_folder(&left),
            false => reticent_disk::remove_file(&left),
        }
        .with_context(|| format!("cannot remove {}", left.display()))?;
    }
    let nowhere = || "there is no folder for temporary files";
    let (stdout, stderr) = (
        tempfile::tempfile().with_context(nowhere)?,
        tempfile::tempfile().with_context(nowhere)?,
    );
    // A stage trains by itself, whatever group of workers this process belongs to.
    let child = ending_with_this(Command::new(program).env_remove(RANK).env_remove(WORLD))
        .args(&stage.words)
        .env("RAYON_NUM_THREADS", (cores() / jobs).max(1).to_string())
        .stdout(stdout.try_clone().with_context(nowhere)?)
        .stderr(stderr.try_clone().with_context(nowhere)?)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    Ok(Running {
        stage: at,
        child: Ended(child),
        since: Instant::now(),
        peak: None,
        stdout,
        stderr,
    })
}

/// Returns the path of this program, or of the other one beside it.
fn program(work: Work) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find the path of this program")?;
    let name = format!("{}{}", work.program(), std::env::consts::EXE_SUFFIX);
    if own.file_name().is_some_and(|own| own == name.as_str()) {
        return Ok(own);
    }
    let other = own.with_file_name(&name);
    ensure!(
        other.exists(),
        "{name} must be next to audit, but is missing: build or install both"
    );
    Ok(other)
}

fn ended(mut process: Running, status: ExitStatus, stage: &Stage) -> Outcome {
    let seconds = process.since.elapsed().as_secs_f64();
    let work = stage.work.part();
    let answer = written(&mut process.stdout).map_err(|error| format!("{work}: {error}"))?;
    let answer: serde_json::Result<Value> = serde_json::from_str(&answer);
    let mut undecided = None;
    let exceeded = match status.code() {
        Some(0) => false,
        Some(1) => true,
        Some(code) => {
            let last = last_error(&mut process.stderr);
            let last = last.unwrap_or_else(|| "it did not say why".to_owned());
            let why = format!("{work}: {last}");
            // A limit that a run leaves open is an error after the answer.
            let answered = stage.output.is_none() && answer.is_ok();
            if code != i32::from(Exit::NOT_FINISHED) || !answered {
                return Err(why);
            }
            undecided = Some(why);
            false
        }
        None => return Err(format!("{work}: a signal ended the process")),
    };
    let answer =
        answer.map_err(|error| format!("{work}: {}", without_content(&error.to_string())))?;
    Ok(Finished {
        work: stage.work,
        seconds,
        memory: process.peak,
        exceeded,
        undecided,
        answer,
    })
}

/// Returns the most memory that a process has used so far, in bytes.
fn peak(process: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

/// Makes a command end when this process ends.
pub(in crate::audit) fn ending_with_this(command: &mut Command) -> &mut Command {
    command.env(WITH_PARENT, "1").stdin(Stdio::piped())
}

/// Ends a process of a grid, or of a preparation in shards, when the process that started it is gone, for whatever
/// reason. Has no effect in other processes.
pub fn end_with_parent() {
    if std::env::var_os(WITH_PARENT).is_none() {
        return;
    }
    std::thread::spawn(|| {
        let mut byte = [0];
        while matches!(std::io::stdin().read(&mut byte), Ok(1)) {}
        reticent_disk::drop_unfinished();
        std::process::exit(Exit::INTERRUPTED.into());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stages that another build ran were kept as those of the build before it, in one table with them.
    #[test]
    fn a_program_that_is_replaced_starts_no_stage() {
        let home = tempfile::tempdir().unwrap();
        let program = home.path().join("audit");
        let builds = ["one", "another"].map(|build| {
            std::fs::write(&program, build).unwrap();
            content(&program).unwrap()
        });
        let why = replaced(&program, Some(&builds[0])).unwrap().unwrap();
        assert!(why.ends_with("audit was replaced during the run; give the same arguments again"));
        assert_eq!(replaced(&program, Some(&builds[1])).unwrap(), None);
        assert!(replaced(&program, None).unwrap().is_some());
    }

    /// Results of a model that is gone, or that is another by now, are nobody's.
    #[test]
    fn an_earlier_result_counts_as_long_as_what_its_stage_wrote_is_the_same() {
        let home = tempfile::tempdir().unwrap();
        let stage = |work, name: &str, output, needs| Stage {
            work,
            name: name.to_owned(),
            words: Vec::new(),
            output,
            needs,
        };
        let output = home.path().join("model");
        let mut plan = Plan::new(home.path());
        plan.stages = vec![
            stage(Work::Train, "model", Some(output.clone()), vec![]),
            stage(Work::Perplexity, "perplexity", None, vec![0]),
        ];
        let write = |text: &str| {
            std::fs::create_dir_all(&output).unwrap();
            std::fs::write(output.join("weights"), text).unwrap();
        };
        let own = builds(&plan).unwrap();
        let by = |at: usize, digests: &[Option<String>], builds: &Builds| {
            let stage = &plan.stages[at];
            let finished = Finished {
                work: stage.work,
                seconds: 0.0,
                memory: None,
                exceeded: false,
                undecided: None,
                answer: Value::Null,
            };
            keep(home.path(), stage, &finished, digests, builds).unwrap()
        };
        let kept = |at, digests: &[Option<String>]| by(at, digests, &own);
        write("one");
        let trained = kept(0, &[None, None]);
        kept(1, &[Some(trained), None]);
        // Stops before anything is started, and gives how many were finished before.
        let before = || {
            let mut count = 0;
            let interrupt = Interrupt::default();
            let limits = Limits {
                jobs: 0,
                memory: None,
            };
            run(&plan, home.path(), limits, &interrupt, |_, _, _| {
                count += 1;
                Ok(())
            })
            .unwrap();
            count
        };
        assert_eq!(before(), 2);
        write("another");
        assert_eq!(before(), 0);
        std::fs::remove_dir_all(&output).unwrap();
        assert_eq!(before(), 0);
        write("one");
        assert_eq!(before(), 2);
        // Trained again and stopped before the attack: its answer is about the model before.
        write("another");
        kept(0, &[None, None]);
        assert_eq!(before(), 1);
        // Another build may train, attack and account otherwise: what it finished was taken for this one's.
        let other = own
            .keys()
            .map(|name| (*name, "of another build".to_owned()));
        by(0, &[None, None], &other.collect());
        assert_eq!(before(), 0);
    }

    /// Its numbers stand, while whether they pass the limit does not.
    #[cfg(unix)]
    #[test]
    fn an_answer_that_leaves_a_limit_undecided_is_kept() {
        let stage = |output| Stage {
            work: Work::Exposure,
            name: "exposure".to_owned(),
            words: Vec::new(),
            output,
            needs: Vec::new(),
        };
        let outcome = |script: &str, output| {
            let files = [tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()];
            let mut child = Command::new("sh")
                .args(["-c", script])
                .stdout(files[0].try_clone().unwrap())
                .stderr(files[1].try_clone().unwrap())
                .spawn()
                .unwrap();
            let status = child.wait().unwrap();
            let [stdout, stderr] = files;
            let process = Running {
                stage: 0,
                child: Ended(child),
                since: Instant::now(),
                peak: None,
                stdout,
                stderr,
            };
            ended(process, status, &stage(output))
        };
        let open = "echo '{\"outcome\": \"open\"}'; echo 'error: not known' >&2; exit";
        let (two, three) = (format!("{open} 2"), format!("{open} 3"));
        let finished = outcome(&two, None).unwrap();
        assert_eq!(finished.answer["outcome"], "open");
        assert_eq!(finished.undecided.unwrap(), "exposure: not known");
        assert!(!finished.exceeded);
        // Without an answer, with an output that may be half of one, or with another code it failed.
        let folder = Some(PathBuf::from("model"));
        for (script, output) in [
            ("echo 'error: not known' >&2; exit 2", None),
            (two.as_str(), folder),
            (three.as_str(), None),
        ] {
            let why = outcome(script, output).unwrap_err();
            assert_eq!(why, "exposure: not known", "{script}");
        }
    }

    #[test]
    fn a_budget_admits_what_is_known_to_fit() {
        let limits = |jobs, memory| Limits { jobs, memory };
        let one = [Some(3.0)];
        assert!(limits(2, None).admits(&one, None));
        assert!(!limits(1, None).admits(&one, Some(1.0)));
        assert!(limits(2, Some(4.0)).admits(&one, Some(1.0)));
        assert!(!limits(2, Some(4.0)).admits(&one, Some(2.0)));
        // What never ran runs alone, and nothing beside it.
        assert!(!limits(2, Some(4.0)).admits(&one, None));
        assert!(!limits(2, Some(4.0)).admits(&[None], Some(1.0)));
        assert!(limits(2, Some(4.0)).admits(&[], None));
        assert!(limits(2, Some(4.0)).admits(&[], Some(9.0)));
    }

    #[test]
    fn the_memory_of_a_process_is_read_where_there_is_proc() {
        let own = peak(std::process::id());
        assert_eq!(own.is_some(), Path::new("/proc/self/status").exists());
        assert!(own.is_none_or(|bytes| bytes > 1e6));
    }
}
