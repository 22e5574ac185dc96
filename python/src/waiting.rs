//! Runs long computations so that Ctrl-C ends them.

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How often signals are checked.
const PAUSE: Duration = Duration::from_millis(100);

/// The stack size of the main thread where Python runs, since plans are trees.
const STACK: usize = 8 << 20;

/// Runs `work` on a separate thread, without the interpreter's lock, and at once raises what a signal
/// handler raises meanwhile (`KeyboardInterrupt`).
///
/// The engines can't be interrupted. A thread whose answer is no longer wanted holds no Python objects
/// and ends by itself: at its next check of the flag that it is given, or with its answer.
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
