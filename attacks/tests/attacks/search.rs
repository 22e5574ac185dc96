//! Pruned search against full enumeration.

use crate::models::{Bigram, Levels, Memoriser, Model, Recurrent, Toy, Uniform};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reticent_attacks::{
    CandidateTree, Exposure, RankCount, SearchOptions, Target, flat_ranks, rank_p_value,
    sample_flat, search_ranks,
};
use reticent_corpus::TokenId;
use std::ops::ControlFlow;

const VOCABULARY: usize = 6;

pub(crate) fn quiet() -> impl FnMut(&reticent_attacks::Progress) -> ControlFlow<()> {
    |_| ControlFlow::Continue(())
}

pub(crate) fn digits(count: usize) -> CandidateTree {
    let digit: Vec<Vec<TokenId>> = (0..10).map(|d| vec![d]).collect();
    CandidateTree::new(&vec![digit; count]).unwrap()
}

/// A random space (choices of one to three tokens, some the beginning of others), contexts and canaries.
#[derive(Debug, Clone)]
struct Case {
    positions: Vec<Vec<Vec<TokenId>>>,
    targets: Vec<Target>,
    options: SearchOptions,
    model: u8,
    seed: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let choice = prop::collection::vec(0..VOCABULARY as TokenId, 1..=3);
    let choices = prop::collection::btree_set(choice, 1..=8);
    let positions = prop::collection::vec(choices, 1..=4);
    let shape = (1_usize..=5, 1_usize..=3);
    let options = (1_usize..=300, prop_oneof![Just(0.0), Just(0.3), Just(2.0)]);
    (positions, shape, options, 0_u8..5, any::<u64>()).prop_map(
        |(positions, (canaries, contexts), (batch, tie_tolerance), model, seed)| {
            let positions: Vec<Vec<Vec<TokenId>>> = positions
                .into_iter()
                .map(|choices| choices.into_iter().collect())
                .collect();
            let tree = CandidateTree::new(&positions).unwrap();
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let targets = (0..canaries)
                .map(|i| Target {
                    context: vec![(i % contexts) as TokenId, 0],
                    secret: tree.candidate(random.random_range(0..tree.candidates())),
                })
                .collect();
            let options = SearchOptions {
                batch,
                tie_tolerance,
                budget: None,
            };
            Case {
                positions,
                targets,
                options,
                model,
                seed,
            }
        },
    )
}

fn with_model<R>(case: &Case, run: impl Run<R>) -> R {
    match case.model {
        0 => run.on(Bigram::random(VOCABULARY, Levels::Smooth, case.seed)),
        1 => run.on(Bigram::random(VOCABULARY, Levels::Coarse, case.seed)),
        2 => run.on(Bigram::random(VOCABULARY, Levels::Holes, case.seed)),
        3 => run.on(Recurrent::random(VOCABULARY, case.seed)),
        _ => run.on(Memoriser {
            vocabulary: VOCABULARY,
            texts: case
                .targets
                .iter()
                .map(|t| [&t.context[..], &t.secret].concat())
                .collect(),
        }),
    }
}

/// A closure that is generic over the model.
trait Run<R> {
    fn on<M: Model>(self, model: M) -> R;
}

struct SearchEqualsFlat<'c>(&'c Case);

impl Run<()> for SearchEqualsFlat<'_> {
    fn on<M: Model>(self, model: M) {
        let case = self.0;
        let tree = CandidateTree::new(&case.positions).unwrap();
        let mut toy = Toy::new(model);
        let flat = flat_ranks(&mut toy, &tree, &case.targets, &case.options).unwrap();
        let found =
            search_ranks(&mut toy, &tree, &case.targets, &case.options, &mut quiet()).unwrap();
        assert_eq!(found.counts, flat);
        assert_eq!(toy.alive(), 0, "states were kept");
        let contexts = case.targets.len() as u64;
        assert!(found.work.positions_scored <= found.work.positions_flat + contexts * 12);
    }
}

struct BudgetIsHonest<'c>(&'c Case, u64);

impl Run<()> for BudgetIsHonest<'_> {
    fn on<M: Model>(self, model: M) {
        let Self(case, budget) = self;
        let tree = CandidateTree::new(&case.positions).unwrap();
        let mut toy = Toy::new(model);
        let flat = flat_ranks(&mut toy, &tree, &case.targets, &case.options).unwrap();
        let options = SearchOptions {
            budget: Some(budget),
            ..case.options
        };
        let found = search_ranks(&mut toy, &tree, &case.targets, &options, &mut quiet()).unwrap();
        for (found, exact) in found.counts.iter().zip(&flat) {
            assert!(found.rank_min() <= exact.rank_min());
            assert!(found.rank_max() >= exact.rank_max());
            assert!(found.rank_max() <= tree.candidates());
            assert!(!found.is_exact() || found == exact);
            assert_eq!(found.rank_mid().is_some(), found.is_exact());
        }
        let own: usize = case
            .targets
            .iter()
            .map(|t| t.context.len() + t.secret.len())
            .sum();
        assert!(found.work.positions_scored <= budget.max(own as u64));
        assert_eq!(toy.alive(), 0, "states were kept");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Bit-equal costs and equal counts, over models with and without ties, zeros, memory;
    /// choices of several tokens, some the beginning of others; shared and separate contexts.
    #[test]
    fn search_equals_enumeration(case in case()) {
        with_model(&case, SearchEqualsFlat(&case));
    }

    /// What a budget leaves open is counted, and the true rank lies between the two ends.
    #[test]
    fn a_spent_budget_says_so(case in case(), budget in 1_u64..200) {
        with_model(&case, BudgetIsHonest(&case, budget));
    }

    /// A candidate's tokens are found in the tree; other tokens are not, unless they spell another.
    #[test]
    fn the_tree_holds_exactly_the_candidates(case in case()) {
        let tree = CandidateTree::new(&case.positions).unwrap();
        let product: usize = case.positions.iter().map(Vec::len).product();
        prop_assert_eq!(tree.candidates(), product as u64);
        let all: std::collections::HashSet<Vec<TokenId>> =
            (0..tree.candidates()).map(|i| tree.candidate(i)).collect();
        let tokens: usize = (0..tree.candidates()).map(|i| tree.candidate(i).len()).sum();
        prop_assert_eq!(tree.tokens(), tokens as u64);
        for secret in &all {
            prop_assert!(tree.contains(secret));
            let mut longer = secret.clone();
            longer.push(0);
            prop_assert_eq!(tree.contains(&longer), all.contains(&longer));
            prop_assert_eq!(tree.contains(&secret[1..]), all.contains(&secret[1..]));
        }
    }
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
