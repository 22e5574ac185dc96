//! What is made of others' files and may run wild, in a process of its own with limits of memory and time.
//!
//! Such a process is this program, started again with one argument. Where the kernel has a system call filter it reaches
//! neither files nor the network. What goes beyond a limit ends that process, and is an error of the file.

mod frame;
mod limits;
mod process;

pub(crate) use frame::wrong;
pub(crate) use process::Worker;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// How this program is started again.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// What a worker does: it is made of files, and answers questions.
pub(crate) trait Work: Sized {
    /// The one argument of such a worker.
    const ARGUMENT: &'static str;
    /// Bytes of each of its files, at most.
    const FILES: &'static [u64];

    /// Made of its files.
    fn load(files: Vec<Vec<u8>>) -> Result<Self, Refusal>;
    /// What it says of itself.
    fn about(&self) -> Vec<String>;
    /// The answer to a question.
    fn answer(&self, question: Vec<u8>) -> Result<Vec<u8>, Refusal>;
}

/// Which of the files is not what it should be, and what is wrong with it.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) file: usize,
    pub(crate) problem: String,
}

impl Refusal {
    /// Of a process that ended: the first file is to blame.
    const fn of_process(problem: String) -> Self {
        Self { file: 0, problem }
    }
}

/// From now on token classifiers and chat templates that are loaded from files run in processes of their own.
///
/// `main` calls it before anything else: such a process is this program started again. True in that process,
/// which has done its work then and returns from `main`.
///
/// # Errors
/// A program that does not know where it lies.
pub fn isolate() -> std::io::Result<bool> {
    let mut arguments = std::env::args_os().skip(1);
    if let (Some(argument), None) = (arguments.next(), arguments.next()) {
        let served = |is: &str, serve: fn() -> std::io::Result<()>| {
            // Whoever started it is gone, or knows already.
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
    // The file may have another name by then, or none; Linux finds it nevertheless.
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
