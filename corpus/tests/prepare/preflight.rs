//! What becomes of canaries.

use reticent_corpus::canary::{CanaryOptions, Carriers, CopyFate};
use reticent_corpus::policy::{ConservativeOptions, PatternRule, PolicyChoice};
use reticent_corpus::prepare::{CanarySight, PrepareOptions, Preparer, TokenizerChoice, prepare};
use reticent_corpus::simulate::simulate;
use reticent_corpus::tokenize::{Origin, train_tokenizer};
use reticent_corpus::{Side, Unit};
fn canaries(spec: &str, carriers: Carriers, sight: CanarySight) -> PrepareOptions {
    let planned = CanaryOptions {
        carriers,
        ..CanaryOptions::new(spec.parse().unwrap())
    };
    PrepareOptions {
        canaries: Some(planned),
        canary_sight: sight,
        ..PrepareOptions::default()
    }
}

#[test]
fn copies_with_varying_carriers_survive_and_others_do_not() {
    let documents = simulate(50, 0).unwrap();
    let varied = prepare(
        &documents,
        &canaries("3x20", Carriers::Vary, CanarySight::default()),
    )
    .unwrap();
    let preflight = varied.facts.canaries.as_ref().unwrap();
    assert!(preflight.passes());
    assert_eq!(preflight.to_string(), "60 of 60 copies survive");
    assert!((0..3).all(|canary| preflight.survivors(canary) == 20));
    assert_eq!(preflight.reached(), 3);
    let plan = varied.plan.as_ref().unwrap();
    for copy in &preflight.copies {
        assert!(copy.in_context);
        assert_eq!(copy.side, Some(Side::Private));
        let canary = &plan.canaries[copy.canary as usize];
        let record = &varied.training.records[copy.record.unwrap() as usize];
        let text = varied.tokenizer.decode(&record.tokens).unwrap();
        assert_eq!(text, canary.insertions[copy.copy as usize].text);
    }
    let same = prepare(
        &documents,
        &canaries("3x20", Carriers::Same, CanarySight::default()),
    )
    .unwrap();
    let preflight = same.facts.canaries.as_ref().unwrap();
    assert!(!preflight.passes());
    assert_eq!(
        preflight.to_string(),
        "3 of 60 copies survive; 57 removed by deduplication"
    );
    assert!((0..3).all(|canary| preflight.survivors(canary) == 1));
}

#[test]
fn the_pre_flight_names_the_stage_that_removed_a_copy() {
    let documents = simulate(50, 0).unwrap();
    let rule = PatternRule {
        kind: "id".to_owned(),
        pattern: r"\b\d{6}\b".to_owned(),
    };
    let mut seen = canaries("2x5", Carriers::Vary, CanarySight::Ordinary);
    seen.policy.policy = PolicyChoice::Patterns { rules: vec![rule] };
    let preflight = prepare(&documents, &seen).unwrap().facts.canaries.unwrap();
    assert_eq!(
        preflight.to_string(),
        "0 of 10 copies survive; 10 masked by the redaction policy"
    );

    let mut unseen = seen.clone();
    unseen.canary_sight = CanarySight::MissedByPolicy;
    assert!(
        prepare(&documents, &unseen)
            .unwrap()
            .facts
            .canaries
            .unwrap()
            .passes()
    );

    let mut short = canaries("2x5", Carriers::Vary, CanarySight::default());
    short.max_tokens = Some(20);
    let preflight = prepare(&documents, &short).unwrap().facts.canaries.unwrap();
    assert_eq!(preflight.count(CopyFate::Truncated), 10);
    // "USR: My ID is: " and six digits behind the beginning of text.
    short.max_tokens = Some(22);
    assert!(
        prepare(&documents, &short)
            .unwrap()
            .facts
            .canaries
            .unwrap()
            .passes()
    );

    // A boundary inside the secret.
    let mut split = canaries("1x3", Carriers::Vary, CanarySight::default());
    split.unit = Unit::Sentence;
    split.canaries.as_mut().unwrap().template = "Say {digits:2}. Then {digits:2}".parse().unwrap();
    let preflight = prepare(&documents, &split).unwrap().facts.canaries.unwrap();
    assert_eq!(
        preflight.to_string(),
        "0 of 3 copies survive; 3 cut apart by a unit's boundary"
    );

    // In a dialogue other text stands before the canary.
    let mut dialogue = canaries("1x3", Carriers::Vary, CanarySight::default());
    dialogue.unit = Unit::Dialogue;
    let preflight = prepare(&documents, &dialogue)
        .unwrap()
        .facts
        .canaries
        .unwrap();
    assert!(preflight.passes());
    assert_eq!(
        preflight.to_string(),
        "3 of 3 copies survive, 3 of them behind other text than they are scored behind"
    );
}

/// A plan speaks of the copies that it plants, so there must be no others in the text.
#[test]
fn canaries_that_occur_in_the_text_already_are_refused() {
    let mut options = canaries("2x3", Carriers::Vary, CanarySight::default());
    let preparer = Preparer::new(&simulate(20, 0).unwrap(), &options).unwrap();
    let said = prepare(preparer.documents(), &options).unwrap_err();
    let said = said.to_string();
    assert!(said.contains("2 of 2 canaries already occur"), "{said}");
    options.canaries.as_mut().unwrap().seed = 1;
    assert!(prepare(preparer.documents(), &options).is_ok());
}

/// A record with any token of a secret belongs to the group of its promise, whatever became of the copy.
#[test]
fn records_with_a_part_of_a_canary_count() {
    let documents = simulate(50, 0).unwrap();
    let of = |change: &dyn Fn(&mut PrepareOptions)| {
        let mut options = canaries("2x5", Carriers::Vary, CanarySight::Ordinary);
        options.policy.policy = PolicyChoice::Nothing;
        change(&mut options);
        prepare(&documents, &options).unwrap()
    };
    // Behind the beginning of text, "USR: My ID is: " and so many digits.
    for (digits, records) in [(0, 0), (1, 5), (5, 5), (6, 5)] {
        let prepared = of(&|options| options.max_tokens = Some(16 + digits));
        let preflight = prepared.facts.canaries.unwrap();
        assert_eq!(preflight.survivors(0), records, "{digits} digits");
        let kept = if digits == 6 { 10 } else { 0 };
        assert_eq!(preflight.count(CopyFate::Kept), kept);
    }
    for (pattern, records) in [(r"\d{6}", 0), (r"\d{5}", 5)] {
        let rule = PatternRule {
            kind: "id".to_owned(),
            pattern: pattern.to_owned(),
        };
        let policy = PolicyChoice::Patterns { rules: vec![rule] };
        let prepared = of(&|options| options.policy.policy = policy.clone());
        let preflight = prepared.facts.canaries.unwrap();
        assert_eq!(preflight.count(CopyFate::Masked), 10);
        assert_eq!(preflight.survivors(0), records, "{pattern}");
    }
    let split = of(&|options| {
        options.unit = Unit::Sentence;
        let planted = options.canaries.as_mut().unwrap();
        planted.template = "Say {digits:6}. Then {digits:6}".parse().unwrap();
    });
    let preflight = split.facts.canaries.as_ref().unwrap();
    assert_eq!(preflight.count(CopyFate::Lost), 10);
    for (number, canary) in (0..).zip(&split.plan.as_ref().unwrap().canaries) {
        let (first, second) = canary.secret.split_once(". Then ").unwrap();
        let holds = |text: &&String| text.contains(first) || text.contains(second);
        let records = split.texts.iter().filter(holds).count() as u64;
        assert!(records >= 2);
        assert_eq!(preflight.survivors(number), records, "{}", canary.id);
    }
}

#[test]
fn canaries_can_be_missed_by_both_policies() {
    let documents = simulate(50, 0).unwrap();
    for conservative in [None, Some(ConservativeOptions::default())] {
        for (sight, side) in [
            (CanarySight::MissedByPolicy, Side::Private),
            (CanarySight::MissedByBoth, Side::Public),
        ] {
            let options = PrepareOptions {
                conservative: conservative.clone(),
                ..canaries("2x5", Carriers::Vary, sight)
            };
            let prepared = prepare(&documents, &options).unwrap();
            let preflight = prepared.facts.canaries.as_ref().unwrap();
            assert!(preflight.passes());
            assert!(
                preflight.copies.iter().all(|c| c.side == Some(side)),
                "{sight:?}"
            );
            // Canaries are not among the secrets that are counted.
            assert_eq!(prepared.facts.secrets.all.missed, 0);
        }
    }
}

/// A recall of the canaries is a number of them, whose every copy is masked; which ones has nothing to do with what they
/// are, and the others are planted as without it.
#[test]
fn a_policy_catches_as_many_canaries_as_the_plan_says() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("tokenizer.json");
    let texts = simulate(50, 0).unwrap().into_iter().map(|d| d.text);
    std::fs::write(&path, train_tokenizer(texts, 400).unwrap()).unwrap();
    let origin = Origin::DeclaredPublic;
    caught_as_planned(&TokenizerChoice::Characters);
    caught_as_planned(&TokenizerChoice::File { path, origin });
}

fn caught_as_planned(tokenizer: &TokenizerChoice) {
    let mut documents = simulate(50, 0).unwrap();
    // Bytes, characters and tokens are no longer counted alike.
    for document in &mut documents {
        document.text = document.text.replace('e', "é");
    }
    let of = |caught, seed| {
        let mut options = canaries("5x4", Carriers::Vary, CanarySight::MissedByPolicy);
        options.tokenizer = tokenizer.clone();
        let planted = options.canaries.as_mut().unwrap();
        (planted.caught, planted.seed) = (caught, seed);
        prepare(&documents, &options)
    };
    let without = of(0, 0).unwrap().plan.unwrap();
    let mut chosen = std::collections::HashSet::new();
    for seed in 0..12 {
        let prepared = of(2, seed).unwrap();
        let preflight = prepared.facts.canaries.as_ref().unwrap();
        assert!(preflight.passes());
        assert_eq!(
            preflight.to_string(),
            "12 of 20 copies survive; 8 caught, as planned"
        );
        let mut plan = prepared.plan.unwrap();
        let texts: Vec<String> = prepared
            .training
            .records
            .iter()
            .map(|r| prepared.tokenizer.decode(&r.tokens).unwrap())
            .collect();
        for (number, canary) in (0..).zip(&mut plan.canaries) {
            let trained = texts.iter().filter(|t| t.contains(&canary.secret)).count();
            assert_eq!(trained, if canary.caught { 0 } else { 4 });
            assert_eq!(preflight.survivors(number), trained as u64);
            chosen.extend(canary.caught.then_some(number));
            canary.caught = false;
        }
        if seed == 0 {
            assert_eq!(plan.with_digest(), without);
        }
    }
    // 12 draws of two out of five leave one out with a chance of 5 (3/5)^12 = 1 %; the seeds are fixed.
    assert_eq!(chosen.len(), 5);
    assert!(of(6, 0).unwrap_err().to_string().contains("at most 5"));
}

/// Marked secrets, sentences and false alarms: canaries are left alone in each.
#[test]
fn canaries_survive_every_policy_that_is_told_to_miss_them() {
    let documents = simulate(50, 0).unwrap();
    for policy in [PolicyChoice::Gold, PolicyChoice::Customers] {
        for unit in [Unit::Turn, Unit::Sentence] {
            let mut options = canaries("2x5", Carriers::Vary, CanarySight::MissedByPolicy);
            options.unit = unit;
            options.policy.policy = policy.clone();
            options.policy.false_positive_rate = 1.0;
            let preflight = prepare(&documents, &options)
                .unwrap()
                .facts
                .canaries
                .unwrap();
            assert_eq!(preflight.to_string(), "10 of 10 copies survive");
        }
    }
}
