//! All tests of the crate in one program: it is linked once, and its tests share the processors.
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

mod calibrate;
mod common;
mod divergences;
mod ends;
mod extremes;
mod golden;
mod golden_laws;
mod implied;
mod incommensurate;
mod laws;
mod layers;
mod narrow;
mod no_noise;
mod one_step;
mod oracle;
mod oracle_sweep;
mod own_pairs;
mod propositions;
mod protect;
mod redaction;
mod samplers;
mod stated;
mod tiny_rates;
mod trade_off;
mod undrawn;
