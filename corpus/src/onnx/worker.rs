//! A model in a process of its own: this program, started again with one argument, that talks over its stdin and
//! stdout. It may take so much memory and time; what goes beyond ends that process, and is an error of the model.

use super::frame;
use super::limits::{Limits, confine, take_processor};
use super::model::{FILES, Model, Refusal, Word};
use super::{Files, digest, read_files};
use crate::policy::{LONGEST, unbudgeted};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The one argument of a worker.
const ARGUMENT: &str = "classifier-worker";
/// Bytes of an introduction, or of a reason.
const SHORT: u64 = 4 << 20;
/// A worker that ended so often in a row is not started again: every further text is not classified.
const STARTS: u32 = 3;
/// Variables that a worker sees.
const KEPT: [&str; 3] = ["LD_LIBRARY_PATH", "RAYON_NUM_THREADS", "RTEN_NUM_THREADS"];

/// How this program is started again.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// From now on [`TokenClassifier::load`](super::TokenClassifier::load) runs models in processes of their own.
///
/// `main` calls it before anything else: such a process is this program started again. True in that process,
/// which has done its work then and returns from `main`.
///
/// # Errors
/// A program that does not know where it lies.
pub fn isolate_classifiers() -> std::io::Result<bool> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|word| word == ARGUMENT) && arguments.next().is_none() {
        // Whoever started it is gone, or knows already.
        let _ = serve();
        return Ok(true);
    }
    // The file may have another name by then, or none; Linux finds it nevertheless.
    let program = if cfg!(target_os = "linux") {
        PathBuf::from("/proc/self/exe")
    } else {
        std::env::current_exe()?
    };
    let _ = PROGRAM.set(program);
    Ok(false)
}

pub(super) fn program() -> Option<&'static Path> {
    PROGRAM.get().map(PathBuf::as_path)
}

/// The other side: files in, then texts in and words out, until the input ends.
fn serve() -> std::io::Result<()> {
    let mut input = std::io::stdin().lock();
    let mut output = std::io::stdout().lock();
    let Some(limits) = frame::read(&mut input, 16)?.and_then(|b| Limits::from_bytes(&b)) else {
        return Ok(());
    };
    let unconfined = confine(limits);
    take_processor(limits.loading());
    let mut files: Files = Default::default();
    for (file, (_, most)) in files.iter_mut().zip(FILES) {
        let Some(bytes) = frame::read(&mut input, most)? else {
            return Ok(());
        };
        *file = bytes;
    }
    let [model, config, tokenizer] = files;
    let model = match Model::new(model, &config, &tokenizer) {
        Ok(model) => model,
        Err(refusal) => return frame::write(&mut output, &frame::answer(Err(refusal))),
    };
    drop((config, tokenizer));
    let introduction = frame::introduction(unconfined.as_deref(), &model.labels.kinds);
    frame::write(&mut output, &frame::answer(Ok(introduction)))?;
    while let Some(text) = frame::read(&mut input, u64::MAX)? {
        take_processor(LONGEST);
        let words = match String::from_utf8(text) {
            Ok(text) => model.words(&text).map(|words| frame::words(&words)),
            Err(_) => return Ok(()),
        };
        frame::write(&mut output, &frame::answer(words))?;
    }
    Ok(())
}

/// A model that runs in a process of its own.
#[derive(Debug)]
pub(super) struct Worker {
    program: &'static Path,
    folder: PathBuf,
    digest: String,
    pub(super) unconfined: Option<String>,
    process: Mutex<Slot>,
}

#[derive(Debug)]
struct Slot {
    process: Option<Process>,
    /// How often in a row it ended over a text.
    ended: u32,
}

impl Worker {
    /// Starts it and loads the model; the kinds that its labels name.
    pub(super) fn start(
        program: &'static Path,
        folder: &Path,
        digest: &str,
        files: &Files,
    ) -> Result<(Self, Vec<Arc<str>>), Refusal> {
        let (process, unconfined, kinds) = Process::start(program, files)?;
        let worker = Self {
            program,
            folder: folder.to_path_buf(),
            digest: digest.to_owned(),
            unconfined,
            process: Mutex::new(Slot {
                process: Some(process),
                ended: 0,
            }),
        };
        Ok((worker, kinds))
    }

    /// The words of a text that may be part of an entity.
    pub(super) fn words(&self, text: &str) -> Result<Vec<Word>, Refusal> {
        // Others' texts come first: that is no time of this one.
        let mut slot = unbudgeted(|| self.process.lock().unwrap_or_else(PoisonError::into_inner));
        if slot.process.is_none() {
            if slot.ended >= STARTS {
                let problem = format!("its process ended {STARTS} times in a row");
                return Err(Refusal { file: 0, problem });
            }
            slot.process = Some(unbudgeted(|| self.again())?);
        }
        let Some(process) = slot.process.as_mut() else {
            return Err(ended("could not be started"));
        };
        let most = SHORT + (text.len() as u64 + 1) * frame::WORD as u64;
        let answer = process.ask(text.as_bytes(), most, LONGEST);
        let words = answer.and_then(|answer| match answer {
            Ok(bytes) => frame::words_of(text, &bytes)
                .map(Ok)
                .map_err(|error| ended(&error.to_string())),
            Err(refusal) => Ok(Err(refusal)),
        });
        match words {
            Ok(words) => {
                slot.ended = 0;
                words
            }
            Err(refusal) => {
                slot.process = None;
                slot.ended += 1;
                Err(refusal)
            }
        }
    }

    /// The same model in a new process.
    fn again(&self) -> Result<Process, Refusal> {
        let files = read_files(&self.folder).map_err(|error| ended(&error.to_string()))?;
        if digest(&files) != self.digest {
            return Err(ended("cannot start again: the files changed"));
        }
        Process::start(self.program, &files).map(|(process, _, _)| process)
    }
}

/// A worker at work.
#[derive(Debug)]
struct Process {
    child: Child,
    /// None when nothing more is asked.
    questions: Option<ChildStdin>,
    answers: Receiver<std::io::Result<Option<Vec<u8>>>>,
    /// Bytes of the next answer, at most.
    most: Arc<AtomicU64>,
    limits: Limits,
}

/// An answer, or the model's refusal.
type Answer = Result<Vec<u8>, Refusal>;

/// A worker with its model read, what does not confine it, and the model's kinds.
type Started = (Process, Option<String>, Vec<Arc<str>>);

impl Process {
    fn start(program: &Path, files: &Files) -> Result<Started, Refusal> {
        let bytes = files.iter().map(|file| file.len() as u64).sum();
        let limits = Limits::of(bytes);
        let mut process = Self::spawn(program, limits)
            .map_err(|error| ended(&format!("cannot be started: {error}")))?;
        process.tell(&limits.to_bytes());
        for file in files {
            process.tell(file);
        }
        let loaded = process.answer(SHORT, limits.loading())??;
        let (unconfined, kinds) =
            frame::introduced(&loaded).map_err(|error| ended(&error.to_string()))?;
        Ok((process, unconfined, kinds))
    }

    fn spawn(program: &Path, limits: Limits) -> std::io::Result<Self> {
        let mut command = Command::new(program);
        command
            .arg(ARGUMENT)
            .env_clear()
            .envs(
                KEPT.iter()
                    .filter_map(|name| Some((name, std::env::var_os(name)?))),
            )
            // Each further arena reserves address space that nobody uses.
            .env("MALLOC_ARENA_MAX", "2")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Ctrl-C is for the program, which ends its workers.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let (sender, answers) = channel();
        let (hand_over, handed) = channel();
        let most = Arc::new(AtomicU64::new(SHORT));
        let allowed = Arc::clone(&most);
        // The thread that reads starts it too: on Linux a process ends with the thread that started it.
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
                // The length is looked at when there is one: the limit is that of the question at hand.
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
        })
    }

    /// Sends bytes. One that ended takes none; what it ended of is seen by the answer.
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

    /// Waits for an answer; without one this process has ended.
    fn answer(&mut self, most: u64, within: Duration) -> Result<Answer, Refusal> {
        self.most.store(most, Ordering::SeqCst);
        match self.answers.recv_timeout(within) {
            Ok(Ok(Some(bytes))) => frame::answered(bytes).map_err(|e| ended(&e.to_string())),
            Ok(Err(error)) => Err(ended(&error.to_string())),
            Err(RecvTimeoutError::Timeout) => {
                let _ = self.child.kill();
                Err(ended(&format!(
                    "takes longer than the {} s it may take",
                    within.as_secs()
                )))
            }
            Ok(Ok(None)) | Err(RecvTimeoutError::Disconnected) => Err(self.cause()),
        }
    }

    /// Why it ended.
    fn cause(&mut self) -> Refusal {
        self.questions = None;
        let Ok(status) = self.child.wait() else {
            return ended("its process ended");
        };
        let mut said = String::new();
        if let Some(stderr) = self.child.stderr.take() {
            let _ = stderr.take(4096).read_to_string(&mut said);
        }
        let out_of_memory = said.contains("memory allocation of");
        ended(&of_status(status, out_of_memory, self.limits))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.questions = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ended(problem: &str) -> Refusal {
    Refusal {
        file: 0,
        problem: problem.to_owned(),
    }
}

fn of_status(status: ExitStatus, out_of_memory: bool, limits: Limits) -> String {
    if out_of_memory {
        return format!(
            "needs more than the {} MiB of memory that a model of its size may take",
            limits.memory >> 20
        );
    }
    #[cfg(unix)]
    {
        use rustix::process::Signal;
        use std::os::unix::process::ExitStatusExt;
        let signal = status.signal();
        if signal == Some(Signal::XCPU.as_raw()) {
            return "takes more processor time than a model may take".to_owned();
        }
        if let Some(signal) = signal {
            return format!("its process was ended by signal {signal}");
        }
    }
    format!("its process ended without an answer ({status})")
}
