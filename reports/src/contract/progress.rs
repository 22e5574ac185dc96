//! Progress on stderr, shown only on a terminal.

use super::{Interrupt, printable};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::Duration;

const BYTES: &str =
    "{msg}  [{bar:30}] {binary_bytes}/{binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";

/// A progress line with the time left; silent if stderr is not a terminal. The line is removed when
/// the value is dropped.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// Shows work of known length: `training CRT  [=====>   ] 120/400 steps, 34s left`.
    #[must_use]
    pub fn of(length: u64, what: &str, unit: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(length), target());
        let template = format!("{{msg}}  [{{bar:30}}] {{pos}}/{{len}} {unit}, {{eta}} left");
        bar.set_style(style(&template).progress_chars("=> "));
        bar.set_message(printable(what));
        Self(bar)
    }
    /// Shows bytes read: `redacting  [=====>   ] 1.2 GiB/4 GiB, 105 MiB/s, 27s left`.
    #[must_use]
    pub fn bytes(length: u64, what: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(length), target());
        bar.set_style(style(BYTES).progress_chars("=> "));
        bar.set_message(printable(what));
        Self(bar)
    }
    /// Sets the position at which this run starts: the work before it was done earlier and doesn't
    /// count for the rate.
    pub fn begins_at(&self, position: u64) {
        self.0.set_position(position);
        self.0.reset_eta();
    }
    /// Shows work of unknown length.
    #[must_use]
    pub fn spinner(what: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, target());
        bar.set_style(style("{spinner} {msg}, {elapsed}"));
        bar.set_message(printable(what));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }
    /// Sets the total amount of work.
    pub fn length(&self, length: u64) {
        self.0.set_length(length);
    }
    /// Sets the amount of work done in total.
    pub fn at(&self, position: u64) {
        self.0.set_position(position);
    }
    /// Adds to the amount of work done.
    pub fn advance(&self, by: u64) {
        self.0.inc(by);
    }
    /// Replaces the message on the line.
    pub fn say(&self, what: &str) {
        self.0.set_message(printable(what));
    }
    /// Returns a callback that shows how much is done, and stops the work on an interruption.
    pub fn watched(self, interrupt: &Interrupt) -> impl FnMut(usize) -> ControlFlow<()> {
        move |done| {
            self.at(done as u64);
            interrupt.flow()
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn target() -> ProgressDrawTarget {
    if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    }
}

// The lines carry no colour, so NO_COLOR has no effect.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_well_formed() {
        for template in [
            "{msg}  [{bar:30}] {pos}/{len} steps, {eta} left",
            "{spinner} {msg}, {elapsed}",
            BYTES,
        ] {
            assert!(ProgressStyle::with_template(template).is_ok());
        }
    }

    #[test]
    fn without_a_terminal_it_is_silent_and_still_counts() {
        let bar = Progress::of(10, "training", "steps");
        bar.advance(3);
        bar.at(7);
        assert_eq!(bar.0.position(), 7);
    }
}
