//! Simulates failing disks, in builds with debug assertions.

use std::io::{ErrorKind, Result};

/// The environment variable that makes a step of the process fail.
#[cfg(debug_assertions)]
const FAILING: &str = "RETICENT_FAILING_STEP";

#[cfg(debug_assertions)]
thread_local! {
    static LEFT: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

/// Lets the next `steps` steps of this thread succeed and all later ones fail; `None` lets all succeed.
#[cfg(debug_assertions)]
pub fn after(steps: Option<u64>) {
    LEFT.set(steps);
}

#[cfg(test)]
thread_local! {
    static SYNCED: std::cell::RefCell<Vec<std::path::PathBuf>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// Notes a folder that was synced.
#[cfg(test)]
pub(crate) fn note_synced(folder: &std::path::Path) {
    SYNCED.with_borrow_mut(|synced| synced.push(folder.to_path_buf()));
}

/// Returns the folders that this thread has synced since the last call, in order.
#[cfg(test)]
pub(crate) fn synced() -> Vec<std::path::PathBuf> {
    SYNCED.take()
}

/// Called before each step.
pub(crate) fn step() -> Result<()> {
    #[cfg(debug_assertions)]
    {
        use std::sync::OnceLock;
        use std::sync::atomic::{AtomicU64, Ordering};
        static FAILS_AT: OnceLock<Option<u64>> = OnceLock::new();
        static TAKEN: AtomicU64 = AtomicU64::new(0);
        let fails_at = FAILS_AT.get_or_init(|| std::env::var(FAILING).ok()?.parse().ok());
        if let Some(at) = fails_at
            && TAKEN.fetch_add(1, Ordering::SeqCst) + 1 >= *at
        {
            return Err(ErrorKind::StorageFull.into());
        }
        match LEFT.get() {
            None => {}
            Some(0) => return Err(ErrorKind::StorageFull.into()),
            Some(left) => LEFT.set(Some(left - 1)),
        }
    }
    #[cfg(not(debug_assertions))]
    let _ = ErrorKind::StorageFull;
    Ok(())
}
