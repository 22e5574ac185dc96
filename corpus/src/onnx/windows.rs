//! Splits long texts into overlapping windows.

use std::ops::Range;

/// A stretch that is processed together, and the part of it whose results are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) read: Range<usize>,
    pub(super) kept: Range<usize>,
}

/// Returns windows of at most `most` pieces (at least 1) over `length` pieces. Neighbouring windows
/// share a quarter of a window, and each keeps the half for which it has more context.
pub(super) fn windows(length: usize, most: usize) -> Vec<Window> {
    let most = most.max(1);
    let step = most - most / 4;
    let mut out: Vec<Window> = Vec::new();
    let mut kept = 0;
    let mut from = 0;
    while kept < length {
        let read = from..(from + most).min(length);
        let end = if read.end == length {
            length
        } else {
            read.end - (most / 4) / 2
        };
        out.push(Window {
            kept: kept..end,
            read,
        });
        kept = end;
        from += step;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::windows;

    /// Whatever the length: every piece is kept once, in order, inside what is read, and with an
    /// eighth of a window on both sides unless the text ends there.
    #[test]
    fn every_piece_is_kept_once_with_context() {
        for most in 1..40 {
            for length in 0..150 {
                let mut next = 0;
                for window in windows(length, most) {
                    assert_eq!(window.kept.start, next);
                    assert!(window.kept.end > next && window.read.len() <= most);
                    assert!(window.read.start <= window.kept.start);
                    assert!(window.kept.end <= window.read.end && window.read.end <= length);
                    let context = most / 4 / 2;
                    let (before, after) = (
                        window.kept.start - window.read.start,
                        window.read.end - window.kept.end,
                    );
                    assert!(window.read.start == 0 || before >= context);
                    assert!(window.read.end == length || after >= context);
                    next = window.kept.end;
                }
                assert_eq!(next, length);
            }
        }
    }
}
