//! The time limit of policies for one record. A record that takes longer is masked whole, so a hostile record, or a
//! pattern that is slow on it, costs no more than the limit and leaks nothing.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// The time limit for one record.
pub(crate) const LONGEST: Duration = Duration::from_secs(10);

/// The kind of the span over a record that exceeded the limit.
pub(crate) const UNREAD: &str = "not-examined";

thread_local! {
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Returns whether the time for the current record is up. Loops over a text call this regularly, and stop.
pub(crate) fn is_spent() -> bool {
    DEADLINE
        .get()
        .is_some_and(|deadline| Instant::now() >= deadline)
}

/// Runs `look` with a time limit, and returns whether it finished in time. The limit of the outermost call applies to
/// nested ones.
pub(crate) fn within<T>(longest: Duration, look: impl FnOnce() -> T) -> (T, bool) {
    let outer = DEADLINE.get();
    let own = Instant::now().checked_add(longest);
    DEADLINE.set(outer.or(own));
    let out = look();
    let enough = !is_spent();
    DEADLINE.set(outer);
    (out, enough)
}

/// Waits for something that others in this process are using; the waiting time does not count.
#[cfg(feature = "onnx")]
pub(crate) fn unbudgeted<T>(wait: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let out = wait();
    if let Some(deadline) = DEADLINE.get() {
        DEADLINE.set(deadline.checked_add(began.elapsed()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{PatternRule, Patterns, Policy, View, resolved};

    /// Each match of this pattern looks at the rest of the line.
    fn slow() -> Patterns {
        let rule = PatternRule {
            kind: "slow".to_owned(),
            pattern: ".*[^A-Z]|[A-Z]".to_owned(),
        };
        Patterns::new("patterns", &[rule]).unwrap()
    }

    #[test]
    fn a_look_that_takes_too_long_masks_the_whole_record() {
        let text = "A".repeat(200_000);
        let view = View {
            text: &text,
            secrets: &[],
        };
        let began = Instant::now();
        let (found, enough) = within(Duration::from_millis(20), || {
            let mut spans = Vec::new();
            slow().find(&view, &mut spans);
            spans.len()
        });
        assert!(!enough && found < 200_000);
        // The same by the door that every policy goes through.
        let (spans, _) = within(Duration::from_millis(20), || resolved(&slow(), &view));
        assert_eq!(spans.len(), 1);
        assert_eq!((spans[0].start, spans[0].end), (0, text.len()));
        assert_eq!(&*spans[0].kind, UNREAD);
        assert!(began.elapsed() < Duration::from_secs(60));
        assert!(!is_spent());
    }

    #[test]
    fn a_quick_look_finds_what_it_finds() {
        let text = "ABC";
        let view = View { text, secrets: &[] };
        assert_eq!(resolved(&slow(), &view).len(), 3);
    }
}
