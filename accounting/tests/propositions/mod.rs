//! Propositions as tests: random finite mechanisms or the Gaussian oracle, a tight case, and the
//! traps of the theory as counterexamples. `proofs-tests/PROPOSITIONS.md` lists them.
//!
//! Properties draw cases by the seed in .cargo/config.toml; every case must hold, there is no false-alarm rate.
//! Simulations state seed, size and false-alarm rate where they stand.

mod dominance;
mod engines;
mod finite;
mod golden;
mod groups;
mod labels;
mod ranks;
mod reconstruction;
mod redaction;
mod selective;
