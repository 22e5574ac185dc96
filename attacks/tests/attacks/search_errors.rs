//! What the search refuses, and that it leaves the engine clean.

use crate::models::{Bigram, Broken, Levels, Toy, Uniform};
use crate::search::{digits, quiet};
use reticent_attacks::Error;
use reticent_attacks::search::{CandidateTree, SearchOptions, Target, flat_ranks, search_ranks};
use std::ops::ControlFlow;

fn target(secret: &[u32]) -> Target {
    Target {
        context: vec![0],
        secret: secret.to_vec(),
    }
}

#[test]
fn what_is_no_log_probability_is_an_error() {
    let tree = digits(2);
    for value in [f64::NAN, 0.5, f64::INFINITY] {
        let mut toy = Toy::new(Broken { value });
        let options = SearchOptions::default();
        let found = search_ranks(&mut toy, &tree, &[target(&[1, 2])], &options, &mut quiet());
        assert!(
            matches!(found, Err(Error::BadScore { token: 7, .. })),
            "{found:?}"
        );
        assert_eq!(toy.alive(), 0);
        let flat = flat_ranks(&mut toy, &tree, &[target(&[1, 2])], &options);
        assert!(matches!(flat, Err(Error::BadScore { token: 7, .. })));
    }
}

#[test]
fn rounding_above_zero_is_no_error() {
    let mut toy = Toy::new(Broken { value: 1e-7 });
    let options = SearchOptions::default();
    let found = search_ranks(
        &mut toy,
        &digits(2),
        &[target(&[7, 7])],
        &options,
        &mut quiet(),
    )
    .unwrap();
    assert_eq!(found.counts[0].rank_max(), 1);
    assert!(found.counts[0].nll.abs() < 1e-300);
}

#[test]
fn an_engine_that_fails_gets_its_states_back() {
    for calls in 0..12 {
        let mut toy = Toy::new(Bigram::random(10, Levels::Smooth, 1));
        toy.fail_after = Some(calls);
        let options = SearchOptions {
            batch: 3,
            ..SearchOptions::default()
        };
        let found = search_ranks(
            &mut toy,
            &digits(4),
            &[target(&[9, 9, 9, 9])],
            &options,
            &mut quiet(),
        );
        assert!(
            matches!(found, Err(Error::Engine(_))),
            "after {calls} calls: {found:?}"
        );
        assert_eq!(toy.alive(), 0, "after {calls} calls");
    }
}

#[test]
fn a_caller_can_stop_the_search() {
    let mut toy = Toy::new(Uniform::new(10));
    let mut seen = Vec::new();
    let found = search_ranks(
        &mut toy,
        &digits(5),
        &[target(&[1, 2, 3, 4, 5])],
        &SearchOptions::default(),
        &mut |progress| {
            seen.push(*progress);
            if seen.len() == 4 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        },
    );
    assert!(matches!(found, Err(Error::Interrupted)));
    assert_eq!((seen.len(), toy.alive()), (4, 0));
    assert!(seen.windows(2).all(|w| w[0].positions < w[1].positions));
    assert!(
        seen.windows(2)
            .all(|w| w[0].resolved <= w[1].resolved && w[1].resolved <= 1.0)
    );
}

#[test]
fn arguments_out_of_range_are_named() {
    let tree = digits(2);
    let mut toy = Toy::new(Uniform::new(10));
    let good = SearchOptions::default();
    let mut message = |options: &SearchOptions, targets: &[Target]| {
        search_ranks(&mut toy, &tree, targets, options, &mut quiet())
            .unwrap_err()
            .to_string()
    };
    let one = [target(&[1, 2])];
    let said = message(&SearchOptions { batch: 0, ..good }, &one);
    assert_eq!(said, "batch must lie in [1, inf), got 0");
    let said = message(
        &SearchOptions {
            tie_tolerance: f64::NAN,
            ..good
        },
        &one,
    );
    assert_eq!(said, "tie tolerance must lie in [0, inf) nats, got NaN");
    let said = message(
        &SearchOptions {
            budget: Some(0),
            ..good
        },
        &one,
    );
    assert_eq!(said, "budget must lie in [1, inf) positions, got 0");
    assert_eq!(message(&good, &[]), "nothing to score: no canary was given");
    let said = message(&good, &[target(&[1, 2]), target(&[1, 2, 3])]);
    assert_eq!(
        said,
        "canary 1: its secret is not one of the 100 candidates"
    );
    let no_context = Target {
        context: vec![],
        secret: vec![1, 2],
    };
    assert_eq!(
        message(&good, &[no_context]),
        "context length must lie in [1, inf) tokens, got 0"
    );
}

#[test]
fn spaces_that_cannot_be_searched_are_refused() {
    let said = |positions: &[Vec<Vec<u32>>]| CandidateTree::new(positions).unwrap_err().to_string();
    assert!(said(&[]).contains("at least one position"));
    assert!(said(&[vec![vec![1]], vec![]]).contains("position 1: at least one choice"));
    assert!(said(&[vec![vec![1], vec![]]]).contains("position 0: every choice needs"));
    assert!(said(&[vec![vec![1], vec![2], vec![1]]]).contains("same tokens"));
    let letters: Vec<Vec<u32>> = (0..26).map(|t| vec![t]).collect();
    assert!(said(&vec![letters; 16]).contains("position 13: more than 2^63"));
    let tree = digits(3);
    assert!(tree.spell(&[1, 2]).is_err());
    assert!(tree.spell(&[1, 2, 10]).is_err());
    assert_eq!(tree.spell(&[1, 2, 9]).unwrap(), [1, 2, 9]);
}
