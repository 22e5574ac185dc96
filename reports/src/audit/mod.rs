//! What `audit` parses and shows.

pub mod cli;
pub mod demo;
pub mod diff;
pub mod epsilon;
pub mod exposure;
pub mod extract;
pub mod figure;
pub mod membership;
pub mod perplexity;
pub mod policy;
mod published;
#[cfg(feature = "audit")]
mod scorer;
pub mod screen;
pub mod simulate;
pub mod work;

use reticent_accounting::{Bounds, Probability};

/// The ends of a probability; 0 and 1 where they are not known.
fn ends(bounds: &Bounds<Probability>) -> (f64, f64) {
    (
        bounds.lower.map_or(0.0, |l| l.get().get()),
        bounds.upper.map_or(1.0, |u| u.get().get()),
    )
}

#[cfg(test)]
mod schema;
