//! Pruned search on chosen spaces: budgets, ties, memorised secrets.

use crate::models::{Bigram, Levels, Memoriser, Model, Toy, Uniform};
use reticent_attacks::exposure::{Exposure, rank_p_value};
use reticent_attacks::search::{
    CandidateTree, RankCount, SearchOptions, Target, sample_flat, search_ranks,
};
use reticent_corpus::TokenId;
use std::ops::ControlFlow;

pub(crate) fn quiet() -> impl FnMut(&reticent_attacks::search::Progress) -> ControlFlow<()> {
    |_| ControlFlow::Continue(())
}

pub(crate) fn digits(count: usize) -> CandidateTree {
    let digit: Vec<Vec<TokenId>> = (0..10).map(|d| vec![d]).collect();
    CandidateTree::new(&vec![digit; count]).unwrap()
}

/// The budget that a finished search needed gives the same result as none.
#[test]
fn a_sufficient_budget_changes_nothing() {
    let tree = digits(4);
    let targets = [Target {
        context: vec![0],
        secret: vec![4, 1, 9, 2],
    }];
    let mut toy = Toy::new(Bigram::random(10, Levels::Smooth, 3));
    let options = SearchOptions::default();
    let free = search_ranks(&mut toy, &tree, &targets, &options, &mut quiet()).unwrap();
    let options = SearchOptions {
        budget: Some(free.work.positions_scored),
        ..options
    };
    let bounded = search_ranks(&mut toy, &tree, &targets, &options, &mut quiet()).unwrap();
    assert_eq!(bounded.counts, free.counts);
}

/// A secret that is the beginning of other candidates is not among those below it: found by the
/// property test above, when the budget ran out just there.
#[test]
fn a_secret_that_begins_another_is_not_below_itself() {
    let tree = CandidateTree::new(&[vec![vec![0], vec![2, 2], vec![2, 2, 0], vec![3]]]).unwrap();
    let targets = [Target {
        context: vec![0],
        secret: vec![2, 2],
    }];
    let mut toy = Toy::new(Uniform::new(6));
    // The context, the canary's own path and one node: the third token stays open.
    let options = SearchOptions {
        batch: 1,
        budget: Some(3),
        tie_tolerance: 9.0,
    };
    let found = search_ranks(&mut toy, &tree, &targets, &options, &mut quiet()).unwrap();
    let count = &found.counts[0];
    assert_eq!((count.below, count.ties, count.unresolved), (0, 2, 1));
}

/// Trap T2: a constant model exposes nothing, whatever the canary. Golden: attack vectors
/// expo-06 (three tie policies) and trie-02 (111 111 inner nodes for six digits).
#[test]
fn a_constant_model_exposes_nothing() {
    let tree = digits(6);
    for secret in [[3, 4, 1, 7, 5, 2], [0, 0, 0, 0, 0, 0]] {
        let targets = [Target {
            context: vec![1],
            secret: secret.to_vec(),
        }];
        let mut toy = Toy::new(Uniform::new(10));
        let found = search_ranks(
            &mut toy,
            &tree,
            &targets,
            &SearchOptions::default(),
            &mut quiet(),
        )
        .unwrap();
        let count = &found.counts[0];
        assert_eq!((count.rank_min(), count.rank_max()), (1, 1_000_000));
        let exposure = Exposure::of(count);
        assert!(exposure.min.abs() < 1e-12);
        assert!((exposure.mid.unwrap() - 0.999_998_557_305_680_4).abs() < 1e-8);
        assert!((exposure.max - 19.931_568_569_324_174).abs() < 1e-12);
        assert!((rank_p_value(count) - 1.0).abs() < 1e-15);
        // The inner nodes below the context (111 110), the context itself, the canary's own path.
        assert_eq!(found.work.positions_scored, 111_110 + 1 + 5);
        assert_eq!(found.work.positions_flat, 6_000_000 + 1);
        assert_eq!(toy.rows, 111_111 + 6);
        // Depth first: a batch per level, not the whole frontier of 100 000.
        assert!(toy.peak <= 256 * 7, "{} states at once", toy.peak);
    }
}

/// Golden: attack vector expo-07, scores 1, 2, 2, 2, 5 with the canary among the twos.
#[test]
fn ties_of_a_short_list() {
    struct Listed;
    impl Model for Listed {
        type State = ();
        fn vocabulary(&self) -> usize {
            5
        }
        fn blank(&self) {}
        fn step(&self, (): &(), _: TokenId) {}
        fn log_probabilities(&mut self, (): &()) -> Vec<f64> {
            vec![-1.0, -2.0, -2.0, -2.0, -5.0]
        }
    }
    let choices: Vec<Vec<TokenId>> = (0..5).map(|t| vec![t]).collect();
    let tree = CandidateTree::new(&[choices]).unwrap();
    let targets = [Target {
        context: vec![0],
        secret: vec![2],
    }];
    let options = SearchOptions::default();
    let found = search_ranks(
        &mut Toy::new(Listed),
        &tree,
        &targets,
        &options,
        &mut quiet(),
    )
    .unwrap();
    let count = &found.counts[0];
    assert_eq!((count.rank_min(), count.rank_max()), (2, 4));
    assert!((count.rank_mid().unwrap() - 3.0).abs() < 1e-15);
    let exposure = Exposure::of(count);
    assert!((exposure.min - 0.321_928_094_887_362_2).abs() < 1e-12);
    assert!((exposure.mid.unwrap() - 0.736_965_594_166_206_1).abs() < 1e-12);
}

/// Golden: attack vector expo-18. The sum ranks A above B although B's mean per token is lower.
#[test]
fn ranks_are_by_the_sum_not_by_the_mean() {
    struct TwoPaths;
    impl Model for TwoPaths {
        type State = TokenId;
        fn vocabulary(&self) -> usize {
            3
        }
        fn blank(&self) -> TokenId {
            2
        }
        fn step(&self, _: &TokenId, token: TokenId) -> TokenId {
            token
        }
        fn log_probabilities(&mut self, _: &TokenId) -> Vec<f64> {
            vec![-3.0, -1.8, -9.0]
        }
    }
    let tree = CandidateTree::new(&[vec![vec![0, 0], vec![1, 1, 1, 1]]]).unwrap();
    let targets = [vec![0, 0], vec![1, 1, 1, 1]].map(|secret| Target {
        context: vec![2],
        secret,
    });
    let options = SearchOptions::default();
    let found = search_ranks(
        &mut Toy::new(TwoPaths),
        &tree,
        &targets,
        &options,
        &mut quiet(),
    )
    .unwrap();
    assert_eq!(
        [found.counts[0].rank_max(), found.counts[1].rank_max()],
        [1, 2]
    );
    assert!((found.counts[0].nll - 6.0).abs() < 1e-12);
    assert!((found.counts[1].nll - 7.2).abs() < 1e-12);
}

/// Ten memorised canaries in one context: one tree, ranks 1 to 10 together, hundreds of positions.
#[test]
fn ten_memorised_canaries_cost_one_small_tree() {
    let tree = digits(6);
    let targets: Vec<Target> = (0..10)
        .map(|i| Target {
            context: vec![10, 11],
            secret: tree.candidate(i * 99_991 + 7),
        })
        .collect();
    let mut toy = Toy::new(Memoriser {
        vocabulary: 12,
        texts: targets
            .iter()
            .map(|t| [&t.context[..], &t.secret].concat())
            .collect(),
    });
    let found = search_ranks(
        &mut toy,
        &tree,
        &targets,
        &SearchOptions::default(),
        &mut quiet(),
    )
    .unwrap();
    assert!(found.counts.iter().all(|c| c.rank_max() <= 10));
    assert!(
        found.work.positions_scored < 600,
        "{}",
        found.work.positions_scored
    );
}

/// A memorised secret of sixteen digits has its exact rank among 10^16 after a few hundred positions.
#[test]
fn a_memorised_secret_among_ten_to_the_sixteen() {
    let tree = digits(16);
    assert_eq!(tree.candidates(), 10_000_000_000_000_000);
    let targets = [Target {
        context: vec![10],
        secret: tree.candidate(4_147_203_688_210_055),
    }];
    let mut toy = Toy::new(Memoriser {
        vocabulary: 11,
        texts: vec![[&targets[0].context[..], &targets[0].secret].concat()],
    });
    let options = SearchOptions::default();
    let found = search_ranks(&mut toy, &tree, &targets, &options, &mut quiet()).unwrap();
    assert_eq!(
        (found.counts[0].rank_min(), found.counts[0].rank_max()),
        (1, 1)
    );
    assert!(found.work.positions_scored < 100);

    // Not memorised: the budget ends the search, and the result says what it does not know.
    let unknown = [Target {
        context: vec![9],
        secret: targets[0].secret.clone(),
    }];
    let options = SearchOptions {
        budget: Some(5_000),
        ..options
    };
    let found = search_ranks(&mut toy, &tree, &unknown, &options, &mut quiet()).unwrap();
    assert!(!found.counts[0].is_exact());
    assert!(found.counts[0].rank_max() > 9_990_000_000_000_000);
    assert!(found.work.positions_scored <= 5_000);
}

/// An engine with noise far below the tolerance gives the ranks of the exact one, and the
/// canary is never counted among its own rivals.
#[test]
fn noise_below_the_tolerance_does_not_matter() {
    let tree = digits(3);
    let targets = [Target {
        context: vec![1],
        secret: vec![5, 0, 7],
    }];
    for (tolerance, ranks) in [(1e-5, Some((1, 1000))), (0.0, None)] {
        let mut toy = Toy::new(Uniform::noisy(10, 1e-7));
        let options = SearchOptions {
            tie_tolerance: tolerance,
            ..SearchOptions::default()
        };
        let found = search_ranks(&mut toy, &tree, &targets, &options, &mut quiet()).unwrap();
        let count: &RankCount = &found.counts[0];
        assert!(count.rank_min() <= count.rank_max() && count.rank_max() <= 1000);
        if let Some(ranks) = ranks {
            assert_eq!((count.rank_min(), count.rank_max()), ranks);
        }
    }
}

/// The flat sample counts what flat scoring feeds in: context plus secret, less its last token.
#[test]
fn flat_sample_counts_positions() {
    let tree = digits(3);
    let mut toy = Toy::new(Uniform::new(10));
    let sample = sample_flat(&mut toy, &tree, &[1, 2], 100, 7).unwrap();
    assert_eq!((sample.candidates, sample.positions), (100, 400));
    let sample = sample_flat(&mut toy, &tree, &[1, 2], 5_000, 7).unwrap();
    assert_eq!(sample.candidates, 1_000);
}
