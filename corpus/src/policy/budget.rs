//! The time limit of policies for one record. A record that takes longer is masked whole, so a hostile record, or a
//! pattern that is slow on it, costs no more than the limit and leaks nothing.
//!
//! The limit is processor time of the thread, where the system tells it: neither other threads and processes nor a pause of
//! the process make it end sooner.

use super::Span;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// The time limit for one record.
pub(crate) const LONGEST: Duration = Duration::from_secs(10);

/// The kind of the span over a record that exceeded the limit.
const UNREAD: &str = "not-examined";

/// The kind of the span over a record on which a classifier failed.
pub(crate) const NOT_CLASSIFIED: &str = "not-classified";

/// The end of the time for the current record.
#[derive(Clone, Copy)]
struct Deadline {
    /// Before this moment the time is not up, as a thread uses no more processor time than passes.
    moment: Instant,
    /// The processor time of the thread at which it is up.
    used: Duration,
}

thread_local! {
    static DEADLINE: Cell<Option<Deadline>> = const { Cell::new(None) };
    /// A moment, and the processor time that the thread had used by then.
    static READ: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
}

/// Returns whether the time for the current record is up. Loops over a text call this regularly, and stop.
pub(crate) fn is_spent() -> bool {
    DEADLINE.get().is_some_and(|deadline| {
        Instant::now() >= deadline.moment && processor_time() >= deadline.used
    })
}

/// Runs `look` with a time limit, and returns whether it finished in time. The limit of the outermost call applies to
/// nested ones.
pub(crate) fn within<T>(longest: Duration, look: impl FnOnce() -> T) -> (T, bool) {
    let outer = DEADLINE.get();
    DEADLINE.set(outer.or_else(|| deadline(longest)));
    let out = look();
    let enough = !is_spent();
    DEADLINE.set(outer);
    (out, enough)
}

/// Returns the end of a time that begins now, at most a 64th of it too early.
fn deadline(longest: Duration) -> Option<Deadline> {
    let now = Instant::now();
    // To read the processor time takes about as long as to look through a short record.
    let recent = |read: &(Instant, Duration)| now.duration_since(read.0) < longest / 64;
    let (_, used) = READ.get().filter(recent).unwrap_or_else(|| {
        let read = (now, processor_time());
        READ.set(Some(read));
        read
    });
    Some(Deadline {
        moment: now.checked_add(longest)?,
        used: used.checked_add(longest)?,
    })
}

/// Waits for something that others in this process are using; the waiting time does not count.
#[cfg(feature = "onnx")]
pub(crate) fn unbudgeted<T>(wait: impl FnOnce() -> T) -> T {
    let (began, before) = (Instant::now(), processor_time());
    let out = wait();
    let later = |deadline: Deadline| {
        Some(Deadline {
            moment: deadline.moment.checked_add(began.elapsed())?,
            used: deadline
                .used
                .checked_add(processor_time().saturating_sub(before))?,
        })
    };
    DEADLINE.set(DEADLINE.get().and_then(later));
    out
}

/// Returns the processor time that this thread has used or, if the system does not tell it, a time that passes.
fn processor_time() -> Duration {
    #[cfg(any(
        target_os = "linux",
        target_os = "android",
        target_os = "freebsd",
        target_vendor = "apple"
    ))]
    {
        use rustix::time::{ClockId, clock_gettime};
        Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
    }
    #[cfg(not(any(
        target_os = "linux",
        target_os = "android",
        target_os = "freebsd",
        target_vendor = "apple"
    )))]
    {
        static BEGAN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        BEGAN.elapsed()
    }
}

/// Returns the span over a record in which a policy's findings are not known.
pub(crate) fn unread(text: &str) -> Span {
    Span::new(0..text.len(), UNREAD, "policy", 1.0)
}

/// Returns whether a span says that a text could not be examined and is therefore masked whole.
pub(crate) fn is_unexamined(span: &Span, text: &str) -> bool {
    let kinds = [UNREAD, NOT_CLASSIFIED];
    (span.start, span.end) == (0, text.len()) && kinds.contains(&&*span.kind)
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

    /// As where the process is stopped meanwhile, or waits for a processor.
    #[test]
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    fn time_that_passes_otherwise_does_not_count() {
        let longest = Duration::from_millis(100);
        let wait = || std::thread::sleep(3 * longest);
        assert!(within(longest, wait).1);
    }

    #[test]
    fn a_quick_look_finds_what_it_finds() {
        let text = "ABC";
        let view = View { text, secrets: &[] };
        assert_eq!(resolved(&slow(), &view).len(), 3);
    }
}
