//! A real plan of the corpus crate, through tree, search and audit.

use crate::models::{Memoriser, Toy};
use crate::search::quiet;
use reticent_accounting::{Confidence, Delta};
use reticent_attacks::{
    Draw, Error, RankAudit, SearchOptions, flat_ranks, plan_targets, search_ranks,
};
use reticent_corpus::{
    CanaryOptions, CanaryPlan, CanaryTemplate, CandidateSpace, Tokenizer, Unit, simulate,
};

fn plan(template: &str) -> CanaryPlan {
    let options = CanaryOptions {
        template: template.parse::<CanaryTemplate>().unwrap(),
        ..CanaryOptions::new("4x3".parse().unwrap())
    };
    CanaryPlan::new(&options, Unit::Turn, &simulate(5, 0).unwrap()).unwrap()
}

#[test]
fn a_plan_is_searched_and_audited() {
    let plan = plan("My ID is: {digits:3}");
    let tokenizer = Tokenizer::characters();
    let space = CandidateSpace::new(&plan, &tokenizer).unwrap();
    let (tree, targets) = plan_targets(&plan, &space).unwrap();
    assert_eq!((tree.candidates(), targets.len()), (1_000, 4));
    let mut toy = Toy::new(Memoriser {
        vocabulary: 1_000,
        texts: targets
            .iter()
            .map(|t| [&t.context[..], &t.secret].concat())
            .collect(),
    });
    let options = SearchOptions::default();
    let found = search_ranks(&mut toy, &tree, &targets, &options, &mut quiet()).unwrap();
    assert_eq!(
        found.counts,
        flat_ranks(&mut toy, &tree, &targets, &options).unwrap()
    );
    assert!(found.counts.iter().all(|c| c.rank_max() <= 4));

    let audit = RankAudit::of_plan(
        &plan,
        3,
        Confidence::new(0.95).unwrap(),
        Delta::new(0.0).unwrap(),
    );
    assert_eq!(audit.draw, Draw::Distinct);
    assert_eq!(audit.thresholds, [4, 40, 400]);
    let bound = audit.bound(&found.counts).unwrap();
    assert_eq!((bound.hits, bound.threshold, bound.copies), (4, 4, 3));
    assert!(bound.lower.get().get() > 4.0);
}

#[test]
fn another_plans_space_is_refused() {
    let (three, four) = (plan("My ID is: {digits:3}"), plan("My ID is: {digits:4}"));
    let space = CandidateSpace::new(&three, &Tokenizer::characters()).unwrap();
    assert!(matches!(
        plan_targets(&four, &space),
        Err(Error::OutOfRange { .. })
    ));
}
