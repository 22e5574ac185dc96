//! Long computations that Ctrl-C ends.

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How often signals are looked at.
const PAUSE: Duration = Duration::from_millis(100);

/// As much as the main thread has where Python runs: plans are trees.
const STACK: usize = 8 << 20;

/// Runs `work` on a thread of its own, without the interpreter's lock, and raises at once what a signal's
/// handler raises meanwhile: `KeyboardInterrupt`.
///
/// The engines know no interruption. A thread whose answer nobody wants any more holds nothing of
/// Python, and ends by itself: at its next look at the flag that it is given, or with its answer.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
) -> PyResult<T> {
    let unwanted = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&unwanted);
    let (sender, mut answers) = channel();
    let worker = thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || drop(sender.send(work(&seen))))
        .map_err(|error| PyOSError::new_err(format!("no thread could be started: {error}")))?;
    loop {
        let came;
        (answers, came) = py.detach(move || {
            let came = answers.recv_timeout(PAUSE);
            (answers, came)
        });
        match came {
            Ok(found) => return Ok(found),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(raised) = py.check_signals() {
                    unwanted.store(true, Ordering::Relaxed);
                    return Err(raised);
                }
            }
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => return Err(crate::error::value_error("no answer")),
            },
        }
    }
}
