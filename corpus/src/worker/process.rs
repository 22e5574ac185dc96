//! Started again with one argument, this program is a worker that communicates over its stdin and stdout.

use super::frame;
use super::limits::{Limits, confine, take_processor};
use super::{Refusal, Work, program};
use crate::policy::{LONGEST, unbudgeted};
use std::io::{ErrorKind, Read};
use std::marker::PhantomData;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The largest size of an introduction or of a reason, in bytes.
const SHORT: u64 = 4 << 20;
/// A worker that ended this many times in a row is not started again: every further text is not classified.
const STARTS: u32 = 3;
/// How many times as long as the processor time of an answer is waited for it.
const PATIENCE: u32 = 10;
/// The environment variables passed to a worker.
const KEPT: [&str; 3] = ["LD_LIBRARY_PATH", "RAYON_NUM_THREADS", "RTEN_NUM_THREADS"];

/// Runs the worker's side: reads files, then questions, and writes answers, until the input ends.
pub(super) fn serve<W: Work>() -> std::io::Result<()> {
    let mut input = std::io::stdin().lock();
    let mut output = std::io::stdout().lock();
    let Some(limits) = frame::read(&mut input, 16)?.and_then(|b| Limits::from_bytes(&b)) else {
        return Ok(());
    };
    let unconfined = confine(limits);
    take_processor(limits.loading());
    let mut files = Vec::with_capacity(W::FILES.len());
    for most in W::FILES {
        let Some(bytes) = frame::read(&mut input, *most)? else {
            return Ok(());
        };
        files.push(bytes);
    }
    let work = match W::load(files) {
        Ok(work) => work,
        Err(refusal) => return frame::write(&mut output, &frame::answer(Err(refusal))),
    };
    let introduction = frame::introduction(unconfined.as_deref(), &work.about());
    frame::write(&mut output, &frame::answer(Ok(introduction)))?;
    while let Some(question) = frame::read(&mut input, u64::MAX)? {
        take_processor(LONGEST);
        frame::write(&mut output, &frame::answer(work.answer(question)))?;
    }
    Ok(())
}

/// Work done by a separate process.
#[derive(Debug)]
pub(crate) struct Worker<W> {
    pub(crate) unconfined: Option<String>,
    process: Mutex<Slot>,
    work: PhantomData<fn() -> W>,
}

#[derive(Debug)]
struct Slot {
    process: Option<Process>,
    /// How many times in a row it ended during a question.
    ended: u32,
}

impl<W: Work> Worker<W> {
    /// Starts a worker with these files, if [`isolate`](super::isolate) was called. Also returns what the work reports
    /// about itself.
    pub(crate) fn start(files: &[Vec<u8>]) -> Option<Result<(Self, Vec<String>), Refusal>> {
        let program = program()?;
        Some(Process::start::<W>(program, files).map(|started| {
            let (process, unconfined, about) = started;
            let worker = Self {
                unconfined,
                process: Mutex::new(Slot {
                    process: Some(process),
                    ended: 0,
                }),
                work: PhantomData,
            };
            (worker, about)
        }))
    }

    /// Asks a question, and returns the answer, of at most `most` bytes, as decoded by `read`. If the process ended, it
    /// is started again with the files that `again` returns.
    pub(crate) fn ask<T>(
        &self,
        question: &[u8],
        most: u64,
        again: impl FnOnce() -> Result<Vec<Vec<u8>>, Refusal>,
        read: impl FnOnce(Vec<u8>) -> std::io::Result<T>,
    ) -> Result<T, Refusal> {
        // Waiting for other questions does not count towards this one's time.
        let mut slot = unbudgeted(|| self.process.lock().unwrap_or_else(PoisonError::into_inner));
        if slot.process.is_none() {
            if slot.ended >= STARTS {
                return Err(Refusal::first(format!(
                    "its process ended {STARTS} times in a row"
                )));
            }
            let program = program().ok_or_else(|| Refusal::first("could not be started"))?;
            slot.process = Some(unbudgeted(|| {
                Process::start::<W>(program, &again()?).map(|(process, _, _)| process)
            })?);
        }
        let Some(process) = slot.process.as_mut() else {
            return Err(Refusal::first("could not be started"));
        };
        let answer = process.ask(question, SHORT + most, LONGEST);
        let answer = answer.and_then(|answer| match answer {
            Ok(bytes) => read(bytes)
                .map(Ok)
                .map_err(|error| Refusal::first(error.to_string())),
            Err(refusal) => Ok(Err(refusal)),
        });
        match answer {
            Ok(answer) => {
                slot.ended = 0;
                answer
            }
            Err(refusal) => {
                slot.process = None;
                slot.ended += 1;
                Err(refusal)
            }
        }
    }
}

/// What a worker sends; `None` at its end.
type Message = std::io::Result<Option<Vec<u8>>>;

/// A running worker.
#[derive(Debug)]
struct Process {
    child: Child,
    /// `None` when no more questions will be asked.
    questions: Option<ChildStdin>,
    answers: Receiver<Message>,
    /// The largest size of the next answer, in bytes.
    most: Arc<AtomicU64>,
    limits: Limits,
    files: usize,
}

/// An answer, or the refusal of the work.
type Answer = Result<Vec<u8>, Refusal>;

/// A worker that is ready, the limits that could not be imposed on it, and what its work reports about itself.
type Started = (Process, Option<String>, Vec<String>);

impl Process {
    fn start<W: Work>(program: &Path, files: &[Vec<u8>]) -> Result<Started, Refusal> {
        let bytes = files.iter().map(|file| file.len() as u64).sum();
        let limits = Limits::of(bytes);
        let mut process = Self::spawn(program, W::ARGUMENT, limits, files.len())
            .map_err(|error| Refusal::first(format!("cannot be started: {error}")))?;
        process.tell(&limits.to_bytes());
        for file in files {
            process.tell(file);
        }
        let loaded = process.answer(SHORT, limits.loading())??;
        let (unconfined, about) =
            frame::introduced(&loaded).map_err(|error| Refusal::first(error.to_string()))?;
        Ok((process, unconfined, about))
    }

    fn spawn(
        program: &Path,
        argument: &str,
        limits: Limits,
        files: usize,
    ) -> std::io::Result<Self> {
        let mut command = Command::new(program);
        command
            .arg(argument)
            .env_clear()
            .envs(
                KEPT.iter()
                    .filter_map(|name| Some((name, std::env::var_os(name)?))),
            )
            // Each further arena reserves address space that is not used.
            .env("MALLOC_ARENA_MAX", "2")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Ctrl-C goes to the program, which ends its workers.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let (sender, answers) = channel();
        let (hand_over, handed) = channel();
        let most = Arc::new(AtomicU64::new(SHORT));
        let allowed = Arc::clone(&most);
        // The reading thread also starts the process, because on Linux a process ends with the thread that started it.
        std::thread::spawn(move || {
            let started = command.spawn().and_then(|mut child| {
                let questions = child.stdin.take();
                let output = child.stdout.take().ok_or(ErrorKind::BrokenPipe)?;
                Ok((child, questions, output))
            });
            let mut output = match started {
                Ok((child, questions, output)) => {
                    if hand_over.send(Ok((child, questions))).is_err() {
                        return;
                    }
                    output
                }
                Err(error) => {
                    let _ = hand_over.send(Err(error));
                    return;
                }
            };
            loop {
                let mut first = [0];
                // The length is checked when a message arrives, so that the limit is that of the current question.
                let read = match output.read(&mut first) {
                    Ok(0) => Ok(None),
                    Ok(_) => frame::read(
                        &mut first.chain(&mut output),
                        allowed.load(Ordering::SeqCst),
                    ),
                    Err(error) => Err(error),
                };
                let last = !matches!(read, Ok(Some(_)));
                if sender.send(read).is_err() || last {
                    return;
                }
            }
        });
        let (child, questions) = handed.recv().map_err(|_| ErrorKind::BrokenPipe)??;
        Ok(Self {
            child,
            questions,
            answers,
            most,
            limits,
            files,
        })
    }

    /// Sends bytes. If the process has ended, nothing is sent, and the cause is found when reading the answer.
    fn tell(&mut self, bytes: &[u8]) {
        if let Some(questions) = &mut self.questions {
            let _ = frame::write(questions, bytes);
        }
    }

    fn ask(&mut self, question: &[u8], most: u64, within: Duration) -> Result<Answer, Refusal> {
        self.most.store(most, Ordering::SeqCst);
        self.tell(question);
        self.answer(most, within)
    }

    /// Waits for an answer. If there is none, the process has ended.
    fn answer(&mut self, most: u64, within: Duration) -> Result<Answer, Refusal> {
        self.most.store(most, Ordering::SeqCst);
        match self.wait(within) {
            Ok(Ok(Some(bytes))) => {
                frame::answered(bytes, self.files).map_err(|e| Refusal::first(e.to_string()))
            }
            Ok(Err(error)) => Err(Refusal::first(error.to_string())),
            Err(RecvTimeoutError::Timeout) => {
                let _ = self.child.kill();
                Err(Refusal::first(format!(
                    "takes longer than the {} s it may take",
                    within.as_secs()
                )))
            }
            Ok(Ok(None)) | Err(RecvTimeoutError::Disconnected) => Err(self.cause()),
        }
    }

    /// Waits for what the process sends until it has used that much processor time, and no less than that passed: neither a
    /// pause nor other processes make it end sooner. Where the system does not report it, time that passes counts.
    fn wait(&self, within: Duration) -> Result<Message, RecvTimeoutError> {
        let (began, before) = (Instant::now(), processor_time(self.child.id()));
        let mut left = within;
        while !left.is_zero() {
            match self.answers.recv_timeout(left) {
                Err(RecvTimeoutError::Timeout) => {}
                received => return received,
            }
            let now = processor_time(self.child.id()).zip(before);
            let used = now.map_or(within, |(now, before)| now.saturating_sub(before));
            let patience = (within * PATIENCE).saturating_sub(began.elapsed());
            left = within.saturating_sub(used).min(patience);
        }
        Err(RecvTimeoutError::Timeout)
    }

    /// Returns why the process ended.
    fn cause(&mut self) -> Refusal {
        self.questions = None;
        let Ok(status) = self.child.wait() else {
            return Refusal::first("its process ended");
        };
        let mut said = String::new();
        if let Some(stderr) = self.child.stderr.take() {
            let _ = stderr.take(4096).read_to_string(&mut said);
        }
        let out_of_memory = said.contains("memory allocation of");
        Refusal::first(of_status(status, out_of_memory, self.limits))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.questions = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the processor time that a process has used, where the system reports it.
fn processor_time(process: u32) -> Option<Duration> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name may contain anything; eleven fields after it come the times as user and as system, in hundredths of a second.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_millis(10 * (next()? + next()?)))
}

fn of_status(status: ExitStatus, out_of_memory: bool, limits: Limits) -> String {
    if out_of_memory {
        return format!(
            "needs more than the {} MiB of memory that one of its size may take",
            limits.memory >> 20
        );
    }
    #[cfg(unix)]
    {
        use rustix::process::Signal;
        use std::os::unix::process::ExitStatusExt;
        let signal = status.signal();
        if signal == Some(Signal::XCPU.as_raw()) {
            return "takes more processor time than it may take".to_owned();
        }
        if let Some(signal) = signal {
            return format!("its process was ended by signal {signal}");
        }
    }
    format!("its process ended without an answer ({status})")
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::io::Write;

    fn answer_of(script: &str, within: Duration) -> Result<Answer, Refusal> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(script.as_bytes()).unwrap();
        let path = file.path().to_str().unwrap();
        let process = Process::spawn(Path::new("/bin/sh"), path, Limits::of(0), 1);
        process.unwrap().ask(b"yes\0", SHORT, within)
    }

    /// A process that waits, as on a busy machine, has its answer taken; one that computes without end is ended.
    #[test]
    fn processor_time_ends_a_question() {
        let answer = answer_of("sleep 1.5; exec cat", Duration::from_secs(1));
        assert_eq!(answer.unwrap().unwrap(), b"yes");
        let refused = answer_of("while :; do :; done", Duration::from_millis(200));
        let problem = refused.unwrap_err().problem;
        assert!(problem.contains("takes longer than"), "{problem}");
    }
}
