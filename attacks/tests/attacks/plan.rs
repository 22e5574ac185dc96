//! A real plan of the corpus crate, through tree, search and audit.

use crate::models::{Memoriser, Recurrent, Toy};
use crate::search::quiet;
use reticent_accounting::{Confidence, Delta};
use reticent_attacks::exposure::RankAudit;
use reticent_attacks::search::{
    RankCount, SearchOptions, flat_ranks, plan_search, plan_targets, search_ranks,
};
use reticent_attacks::{Draw, Error};
use reticent_corpus::Unit;
use reticent_corpus::canary::{CanaryOptions, CanaryPlan, CandidateSpace, Carriers};
use reticent_corpus::simulate::simulate;
use reticent_corpus::tokenize::{Origin, Tokenizer};

fn plan(template: &str) -> CanaryPlan {
    let options = CanaryOptions {
        template: template.parse().unwrap(),
        ..CanaryOptions::new("4x3".parse().unwrap())
    };
    CanaryPlan::new(&options, Unit::Turn, &simulate(5, 0).unwrap()).unwrap()
}

/// Canaries that share more than half of the candidates, or all of them, have ranks that are audited, at thresholds below
/// N'. They were refused after training.
#[test]
fn canaries_that_share_most_candidates_are_audited() {
    let documents = simulate(5, 0).unwrap();
    for (distinct, canaries, thresholds) in [
        (true, 60, vec![40]),
        (false, 100, vec![99]),
        (true, 4, vec![4, 40]),
    ] {
        let options = CanaryOptions {
            template: "code {digits:2}".parse().unwrap(),
            distinct,
            ..CanaryOptions::new(format!("{canaries}x1").parse().unwrap())
        };
        let plan = CanaryPlan::new(&options, Unit::Turn, &documents).unwrap();
        let (level, delta) = (Confidence::new(0.95).unwrap(), Delta::new(0.0).unwrap());
        let audit = RankAudit::of_plan(&plan, 1, level, delta);
        assert_eq!(audit.thresholds, thresholds);
        let counts = vec![RankCount::of_ranks(100, 1, 1); canaries];
        audit.bound(&counts).unwrap();
        assert!(audit.provable(100, canaries as u64).is_ok());
    }
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
    assert_eq!(
        (bound.hits, bound.threshold, bound.copies),
        (Some(4), Some(4), 3)
    );
    assert!(bound.lower.get().get() > 4.0);
}

/// Canaries with contexts of their own do not compete: memorised together all have rank 1, the
/// first threshold is 1, and ε is bounded better than where they share a context.
#[test]
fn canaries_with_contexts_of_their_own_are_all_first() {
    let bound = |own_contexts: bool| {
        let options = CanaryOptions {
            own_contexts,
            template: "My ID is: {digits:3}".parse().unwrap(),
            ..CanaryOptions::new("4x3".parse().unwrap())
        };
        let plan = CanaryPlan::new(&options, Unit::Turn, &simulate(5, 0).unwrap()).unwrap();
        let (tree, targets) = plan_search(&plan, &Tokenizer::characters()).unwrap();
        let contexts: std::collections::HashSet<_> = targets.iter().map(|t| &t.context).collect();
        assert_eq!(contexts.len(), if own_contexts { 4 } else { 1 });
        let mut toy = Toy::new(Memoriser {
            vocabulary: 1_000,
            texts: targets
                .iter()
                .map(|t| [&t.context[..], &t.secret].concat())
                .collect(),
        });
        let options = SearchOptions::default();
        let found = search_ranks(&mut toy, &tree, &targets, &options, &mut quiet()).unwrap();
        let flat = flat_ranks(&mut toy, &tree, &targets, &options).unwrap();
        assert_eq!(found.counts, flat);
        let (level, delta) = (Confidence::new(0.95).unwrap(), Delta::new(0.0).unwrap());
        let audit = RankAudit::of_plan(&plan, 3, level, delta);
        assert_eq!(audit.thresholds[0], if own_contexts { 1 } else { 4 });
        let worst = found.counts.iter().map(|c| c.rank_max()).max();
        (worst, audit.bound(&found.counts).unwrap().lower.get().get())
    };
    let ((first, alone), (_, shared)) = (bound(true), bound(false));
    assert_eq!(first, Some(1));
    assert!(alone > shared + 1.0, "{alone} against {shared}");
}

#[test]
fn another_plans_space_is_refused() {
    let (three, four) = (plan("My ID is: {digits:3}"), plan("My ID is: {digits:4}"));
    let space = CandidateSpace::new(&three, &Tokenizer::characters()).unwrap();
    assert!(matches!(
        plan_targets(&four, &space),
        Err(Error::Unsuitable { .. })
    ));
}

/// A byte-pair encoding that merges digits across positions, and a digit with the space before it.
fn merging() -> Tokenizer {
    let merges = [
        ["1", "2"],
        ["12", "3"],
        ["4", "4"],
        ["0", "0"],
        ["Ġ", "7"],
        ["Ġ7", "7"],
        ["i", "s"],
    ];
    byte_pairs(&merges, true)
}

/// A byte-pair encoding, within words only or across them.
fn byte_pairs(merges: &[[&str; 2]], within_words: bool) -> Tokenizer {
    let mut names: Vec<String> = (33..127_u8).map(|b| char::from(b).to_string()).collect();
    names.push("Ġ".to_owned());
    names.extend(merges.iter().map(|m| m.concat()));
    names.push("<|endoftext|>".to_owned());
    let ids: serde_json::Map<String, serde_json::Value> = names
        .iter()
        .enumerate()
        .map(|(id, name)| (name.clone(), id.into()))
        .collect();
    let json = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": null, "post_processor": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": within_words},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null,
            "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
            "byte_fallback": false, "ignore_merges": false, "vocab": ids, "merges": merges},
    });
    Tokenizer::from_json(&json.to_string(), Origin::Pretrained).unwrap()
}

/// Digits that merge: every candidate has its canonical tokens (those of its line as a model is
/// trained on it), and the ranks are those of scoring every line as a whole.
#[test]
fn candidates_of_a_merging_tokenizer_keep_their_canonical_tokens() {
    let plan = plan("My ID is: {digits:3}");
    let tokenizer = merging();
    assert!(CandidateSpace::new(&plan, &tokenizer).is_err());
    let (tree, targets) = plan_search(&plan, &tokenizer).unwrap();
    assert_eq!((tree.candidates(), targets.len()), (1_000, 4));
    let context = &targets[0].context;
    let before = &plan.canaries[0].context;
    let mut lengths = std::collections::BTreeSet::new();
    for number in 0..1_000 {
        let line = tokenizer.frame(&format!("{before}{number:03}.")).unwrap();
        let candidate = tree.candidate(number);
        let spelled = [&context[..], &candidate].concat();
        assert!(line.starts_with(&spelled), "{number:03}");
        assert_eq!(line.len(), spelled.len() + 2, "the dot and the end follow");
        lengths.insert(candidate.len());
    }
    assert!(lengths.len() > 1, "{lengths:?}");
    let size = tokenizer.vocabulary_size();
    for seed in 0..5 {
        let mut model = Toy::new(Recurrent::random(size, seed));
        let options = SearchOptions {
            tie_tolerance: 1e-9,
            ..SearchOptions::default()
        };
        let found = search_ranks(&mut model, &tree, &targets, &options, &mut quiet()).unwrap();
        let flat = flat_ranks(&mut model, &tree, &targets, &options).unwrap();
        for (found, flat) in found.counts.iter().zip(&flat) {
            assert_eq!((found.below, found.ties), (flat.below, flat.ties));
        }
    }
    for (target, canary) in targets.iter().zip(&plan.canaries) {
        let number: u64 = canary.secret.parse().unwrap();
        assert_eq!(target.secret, tree.candidate(number));
    }
    // A tokenizer that keeps to positions is searched by position.
    let (tree, same) = plan_search(&plan, &Tokenizer::characters()).unwrap();
    assert_eq!(tree.tokens(), 3_000);
    assert_eq!(same[0].secret.len(), 3);
}

/// A token across the end of a secret is found by all candidates that have one, here a tenth, behind what the copies
/// have there: every tenth candidate was looked at, with a full stop behind it.
#[test]
fn tokens_across_the_end_of_a_secret_are_refused() {
    let plan = |carriers| {
        let documents = simulate(5, 0).unwrap();
        let mut plans = (0..100).map(|seed| {
            let options = CanaryOptions {
                template: "My ID is: {digits:4}".parse().unwrap(),
                carriers,
                seed,
                ..CanaryOptions::new("4x3".parse().unwrap())
            };
            CanaryPlan::new(&options, Unit::Turn, &documents).unwrap()
        });
        // No canary shows it.
        let sevens = |plan: &CanaryPlan| plan.canaries.iter().any(|c| c.secret.ends_with('7'));
        plans.find(|plan| !sevens(plan)).unwrap()
    };
    for (carriers, refused, fine) in [(Carriers::Vary, ",", "."), (Carriers::Same, ".", ",")] {
        let plan = plan(carriers);
        let tokenizer = |behind| byte_pairs(&[["7", behind], ["0", "0"]], false);
        let error = plan_search(&plan, &tokenizer(refused)).unwrap_err();
        assert!(matches!(error, Error::Unsuitable { .. }), "{error}");
        let (tree, _) = plan_search(&plan, &tokenizer(fine)).unwrap();
        assert_eq!(tree.candidates(), 10_000);
    }
}

#[test]
fn spaces_too_large_to_list_are_refused() {
    let error = plan_search(&plan("My ID is: {digits:8}"), &merging()).unwrap_err();
    assert!(error.to_string().contains("one token a digit"), "{error}");
    // A letter that merges with what stands behind the secret.
    let inside = plan_search(&plan("code {digits:2}s"), &Tokenizer::characters());
    assert!(inside.is_ok());
}
