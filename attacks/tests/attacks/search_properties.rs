//! Pruned search against full enumeration, on random spaces and models.

use crate::models::{Bigram, Levels, Memoriser, Model, Recurrent, Toy};
use crate::search::quiet;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reticent_attacks::search::{CandidateTree, SearchOptions, Target, flat_ranks, search_ranks};
use reticent_corpus::TokenId;

const VOCABULARY: usize = 6;

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
