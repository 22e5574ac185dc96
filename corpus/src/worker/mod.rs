//! Runs code that works on untrusted files and could get out of control in separate processes with memory and time
//! limits.
//!
//! Such a process is this program, started again with one argument. If the kernel has a system call filter, it can
//! neither open nor change a file, and can't reach the network or other processes. Exceeding a limit ends the process,
//! and is reported as an error of the file.

mod frame;
mod limits;
mod process;

pub(crate) use frame::wrong;
pub(crate) use process::Worker;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The path by which this program is started again.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// The work of a worker: it is built from files, and answers questions.
pub(crate) trait Work: Sized {
    /// The argument with which such a worker is started.
    const ARGUMENT: &'static str;
    /// The largest size of each of its files, in bytes.
    const FILES: &'static [u64];

    /// Builds the work from its files.
    fn load(files: Vec<Vec<u8>>) -> Result<Self, Refusal>;
    /// Returns the strings that the work reports about itself.
    fn about(&self) -> Vec<String>;
    /// Answers a question.
    fn answer(&self, question: Vec<u8>) -> Result<Vec<u8>, Refusal>;
}

/// The file that is invalid, and what is wrong with it.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) file: usize,
    pub(crate) problem: String,
}

impl Refusal {
    /// Creates a refusal that blames the first file, as where a process ended.
    pub(crate) fn first(problem: impl Into<String>) -> Self {
        let (file, problem) = (0, problem.into());
        Self { file, problem }
    }
}

/// Makes token classifiers and chat templates that are loaded from files from now on run in separate processes.
///
/// `main` must call it before anything else, because such a process is this program started again. Returns true in such
/// a process, which has then done its work and must return from `main`.
///
/// # Errors
/// Returns an error if the program cannot determine its own path.
pub fn isolate() -> std::io::Result<bool> {
    let mut arguments = std::env::args_os().skip(1);
    if let (Some(argument), None) = (arguments.next(), arguments.next()) {
        let served = |is: &str, serve: fn() -> std::io::Result<()>| {
            // The starting program is gone, or already knows of the error.
            (argument == is).then(|| drop(serve()))
        };
        let done = served(
            crate::read::Rendering::ARGUMENT,
            process::serve::<crate::read::Rendering>,
        );
        #[cfg(feature = "onnx")]
        let done = done.or_else(|| {
            served(
                crate::onnx::Model::ARGUMENT,
                process::serve::<crate::onnx::Model>,
            )
        });
        if done.is_some() {
            return Ok(true);
        }
    }
    // The file may have been renamed or removed by then; Linux still finds it.
    let program = if cfg!(target_os = "linux") {
        PathBuf::from("/proc/self/exe")
    } else {
        std::env::current_exe()?
    };
    let _ = PROGRAM.set(program);
    Ok(false)
}

fn program() -> Option<&'static Path> {
    PROGRAM.get().map(PathBuf::as_path)
}
