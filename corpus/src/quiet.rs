//! Turns panics of libraries that parse untrusted files into errors. Nothing is printed to stderr, where the library
//! would quote the file.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `read`; returns `None` if it panics.
pub(crate) fn quietly<T>(read: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                before(panic);
            }
        }));
    });
    let outer = QUIET.replace(true);
    let out = catch_unwind(AssertUnwindSafe(read));
    QUIET.set(outer);
    out.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_none_and_the_next_one_is_heard_again() {
        assert_eq!(quietly(|| 1), Some(1));
        let none: Option<()> = quietly(|| std::panic::panic_any("inside"));
        assert!(none.is_none() && !QUIET.get());
    }
}
