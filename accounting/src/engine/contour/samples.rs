//! Shared data for the tests of this folder: pairs of every shape, and the characteristic function
//! by brute force.

use super::nodes::Nodes;
use crate::loss::{Mixture, Pair};

/// Sampled against none both ways round, a small rate, equals, and a group against itself.
pub(crate) fn pairs() -> Vec<Pair> {
    let with = Mixture::binomial(1, 0.1, 1.0).unwrap();
    let small = Mixture::binomial(1, 0.01, 2.0).unwrap();
    let group = Mixture::binomial(7, 0.05, 0.6).unwrap();
    let none = Mixture::point(0.0).unwrap();
    vec![
        Pair {
            first: with.clone(),
            second: none.clone(),
        },
        Pair {
            first: none.clone(),
            second: with.clone(),
        },
        Pair {
            first: small,
            second: none,
        },
        Pair {
            first: with.clone(),
            second: with,
        },
        Pair {
            first: group.clone(),
            second: group,
        },
    ]
}

/// φ(c+iy) by a trapezoid rule far finer than needed.
pub(crate) fn characteristic(pair: &Pair, c: f64, y: f64) -> (f64, f64) {
    let nodes = Nodes::new(pair, -20.0, 45.0, 1e-2).unwrap();
    nodes.transform(c, y)
}
