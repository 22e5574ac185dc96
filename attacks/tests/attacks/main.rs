//! The attacks crate against its oracles: enumeration, exact probabilities, published numbers.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests may"
)]

#[path = "../../../schemas/check.rs"]
mod check;

#[path = "../../examples/compared/simulated.rs"]
mod compared;

#[path = "../../examples/false_alarms/simulated.rs"]
mod simulated;

mod ceiling;
mod design;
mod evalue;
mod extract;
mod extraction;
mod finding;
mod lower_bounds;
mod membership;
mod models;
mod null;
mod null_attacks;
mod null_membership;
mod null_simulations;
mod own_engine;
mod paired;
mod perplexity;
mod plan;
mod rank_audit;
mod sampled;
mod search;
mod search_errors;
mod search_properties;
mod sequential;
mod traps;
mod vectors;
