//! Draws, places, carriers, files.

use super::{options, plan};
use proptest::prelude::*;
use reticent_corpus::canary::{
    CanaryOptions, CanaryPlan, CanaryTemplate, Carriers, SeedOrigin, Spec, insert,
};
use reticent_corpus::simulate::simulate;
use reticent_corpus::{Document, Error, Unit};
use statrs::distribution::{ChiSquared, ContinuousCDF};
use std::collections::{HashMap, HashSet};

/// Pearson's statistic against equal cells, and its critical value at a false-alarm rate.
fn chi_square(counts: &[u64], alarm: f64) -> (f64, f64) {
    let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    let statistic = counts
        .iter()
        .map(|&c| (c as f64 - expected).powi(2) / expected)
        .sum();
    let law = ChiSquared::new(counts.len() as f64 - 1.0).unwrap();
    (statistic, law.inverse_cdf(1.0 - alarm))
}

#[test]
fn too_few_candidates_are_an_error() {
    let documents = simulate(2, 0).unwrap();
    let text = CanaryPlan::new(&options("11x1", "PIN {digits:1}"), Unit::Turn, &documents)
        .unwrap_err()
        .to_string();
    assert_eq!(
        text,
        "the number of distinct canaries must be at most 10, the number of candidates of template PIN {digits:1}, got 11"
    );
    let all = CanaryPlan::new(&options("10x1", "PIN {digits:1}"), Unit::Turn, &documents).unwrap();
    let said = all.check_ranks().unwrap_err().to_string();
    assert!(
        said.contains("10 canaries take all 10 candidates"),
        "{said}"
    );
    let nine = CanaryPlan::new(&options("9x1", "PIN {digits:1}"), Unit::Turn, &documents).unwrap();
    assert!(nine.check_ranks().is_ok());
    let secrets: HashSet<&str> = all.canaries.iter().map(|c| c.secret.as_str()).collect();
    assert_eq!(secrets.len(), 10);
    let repeated = CanaryOptions {
        distinct: false,
        ..options("11x1", "PIN {digits:1}")
    };
    assert!(CanaryPlan::new(&repeated, Unit::Turn, &documents).is_ok());
    assert!(CanaryPlan::new(&options("1x1", "PIN {digits:1}"), Unit::Turn, &[]).is_err());
}

/// 10 000 draws with replacement over 100 candidates, seed 4; false-alarm rate 1e-6.
#[test]
fn secrets_with_replacement_are_uniform() {
    let drawn = CanaryOptions {
        distinct: false,
        seed: 4,
        ..options("10000x1", "PIN {digits:2}")
    };
    let plan = CanaryPlan::new(&drawn, Unit::Turn, &simulate(5, 0).unwrap()).unwrap();
    let mut counts = [0u64; 100];
    for canary in &plan.canaries {
        counts[canary.secret.parse::<usize>().unwrap()] += 1;
    }
    let (statistic, critical) = chi_square(&counts, 1e-6);
    assert!(statistic < critical, "{statistic} against {critical}");
}

/// Twenty canaries of at most ten secrets share some: a text with every copy lacks none, whatever their contexts. Without
/// one copy of a shared secret, every canary that shares it lacks one.
#[test]
fn canaries_of_one_secret_are_counted_together() {
    let documents = simulate(5, 0).unwrap();
    for own_contexts in [false, true] {
        let drawn = CanaryOptions {
            distinct: false,
            own_contexts,
            ..options("20x2", "PIN {digits:1}")
        };
        let plan = CanaryPlan::new(&drawn, Unit::Turn, &documents).unwrap();
        let sharing = |secret: &str| plan.canaries.iter().filter(|c| c.secret == secret).count();
        let (planted, _) = insert(&plan, &documents).unwrap();
        let texts: Vec<&str> = planted.iter().map(|d| d.text.as_str()).collect();
        let found = plan.occurrences(texts.iter().copied());
        for (canary, found) in plan.canaries.iter().zip(&found) {
            assert_eq!(*found, 2 * sharing(&canary.secret) as u64);
        }
        assert_eq!(plan.lacking(&found), 0);
        assert_eq!(plan.most_copies(&found), 2);
        // In a text of two epochs, what is beyond the plan may be copies of any canary of the secret.
        let twice: Vec<u64> = found.iter().map(|count| 2 * count).collect();
        let most = plan
            .canaries
            .iter()
            .map(|c| sharing(&c.secret))
            .max()
            .unwrap() as u64;
        assert_eq!(plan.most_copies(&twice), 2 + 2 * most);
        let shared = plan
            .canaries
            .iter()
            .find(|c| sharing(&c.secret) > 1)
            .unwrap();
        let lines: Vec<String> = texts
            .iter()
            .map(|text| text.replacen(&shared.insertions[1].text, "", 1))
            .collect();
        let found = plan.occurrences(lines.iter().map(String::as_str));
        assert_eq!(plan.lacking(&found), sharing(&shared.secret));
        assert_eq!(plan.lacking(&plan.occurrences([])), 20);
    }
}

/// Where half of all candidates are in the text, no seed has canaries that are uniform on all; one of a million is no matter.
#[test]
fn candidates_in_the_text_are_refused_whatever_the_seed() {
    let line = |number: usize| format!("code {number:02}");
    let text: Vec<String> = (0..100).step_by(2).map(line).collect();
    let documents = simulate(2, 0).unwrap();
    let check = |template: &str, seed, text: &str| {
        let drawn = CanaryOptions {
            seed,
            ..options("2x1", template)
        };
        let plan = CanaryPlan::new(&drawn, Unit::Turn, &documents).unwrap();
        plan.check_absent([text])
    };
    for seed in 0..20 {
        let said = check("code {digits:2}", seed, &text.join("\n")).unwrap_err();
        let said = said.to_string();
        assert!(said.contains("already occur in the text"), "{said}");
        assert!(!said.contains("code 0"), "{said}");
        check("code {digits:2}", seed, "code of 12, code 1").unwrap();
        check("code {digits:6}", seed, "code x, code 000000").unwrap();
    }
}

/// Ordered pairs of two distinct secrets out of five, seeds 0 to 3999; false-alarm rate 1e-6.
#[test]
fn distinct_secrets_are_uniform_over_ordered_pairs() {
    let documents = [Document::new("d", "a")];
    let mut counts: HashMap<(String, String), u64> = HashMap::new();
    for seed in 0..4000 {
        let options = CanaryOptions {
            seed,
            ..options("2x1", "PIN {list:a|b|c|d|e}")
        };
        let plan = CanaryPlan::new(&options, Unit::Turn, &documents).unwrap();
        let pair = (
            plan.canaries[0].secret.clone(),
            plan.canaries[1].secret.clone(),
        );
        *counts.entry(pair).or_default() += 1;
    }
    assert_eq!(counts.len(), 20);
    let counts: Vec<u64> = counts.into_values().collect();
    let (statistic, critical) = chi_square(&counts, 1e-6);
    assert!(statistic < critical, "{statistic} against {critical}");
}

/// Documents of 1, 2 and 3 lines have 2 + 3 + 4 = 9 gaps. 9 000 copies, seed 1; false-alarm
/// rate 1e-6.
#[test]
fn places_are_uniform_over_all_gaps_of_the_corpus() {
    let documents: Vec<Document> = ["a", "a\nb", "a\nb\nc"]
        .iter()
        .enumerate()
        .map(|(i, text)| Document::new(i.to_string(), *text))
        .collect();
    let options = CanaryOptions {
        seed: 1,
        ..CanaryOptions::new("1x9000".parse().unwrap())
    };
    let plan = CanaryPlan::new(&options, Unit::Turn, &documents).unwrap();
    let mut counts: HashMap<(&str, u64), u64> = HashMap::new();
    for insertion in &plan.canaries[0].insertions {
        *counts
            .entry((&insertion.document, insertion.line))
            .or_default() += 1;
    }
    assert_eq!(counts.len(), 9);
    let counts: Vec<u64> = counts.into_values().collect();
    let (statistic, critical) = chi_square(&counts, 1e-6);
    assert!(statistic < critical, "{statistic} against {critical}");
}

#[test]
fn canaries_are_user_turns_in_dialogues_and_plain_lines_elsewhere() {
    assert_eq!(plan("1x1").canaries[0].context, "USR: My ID is: ");
    let text = [Document::new("d", "Some text.\nUSR is no speaker here.")];
    let options = CanaryOptions::new("1x1".parse().unwrap());
    let plain = CanaryPlan::new(&options, Unit::Sentence, &text).unwrap();
    assert_eq!(plain.canaries[0].context, "My ID is: ");
}

#[test]
fn varying_carriers_differ_after_the_secret_only() {
    let plan = plan("3x1500");
    for canary in &plan.canaries {
        let start = format!("{}{}", canary.context, canary.secret);
        let texts: HashSet<&str> = canary.insertions.iter().map(|i| i.text.as_str()).collect();
        assert_eq!(texts.len(), 1500);
        assert!(texts.iter().all(|t| t.starts_with(&start)));
        assert_eq!(
            canary.insertions[0].text,
            format!("{start}{}", canary.after)
        );
        assert!(canary.after.starts_with(", ") && canary.after.ends_with('.'));
    }
    let documents = simulate(5, 0).unwrap();
    let same = CanaryOptions {
        carriers: Carriers::Same,
        ..options("1x4", "PIN {digits:4} ok")
    };
    let plan = CanaryPlan::new(&same, Unit::Turn, &documents).unwrap();
    let texts: HashSet<&str> = plan.canaries[0]
        .insertions
        .iter()
        .map(|i| i.text.as_str())
        .collect();
    assert_eq!(texts.len(), 1);
    assert_eq!(plan.canaries[0].after, " ok.");
}

/// Contexts of their own: different for each canary, the same in all its copies, and nothing else of
/// the plan changes.
#[test]
fn own_contexts_stand_before_the_template() {
    let documents = simulate(50, 0).unwrap();
    let spec = "40x3".parse().unwrap();
    let shared = CanaryOptions::new(spec);
    let own = CanaryOptions {
        own_contexts: true,
        ..shared.clone()
    };
    let draw = |options: &CanaryOptions| CanaryPlan::new(options, Unit::Turn, &documents).unwrap();
    let (shared, own) = (draw(&shared), draw(&own));
    let contexts: HashSet<&str> = own.canaries.iter().map(|c| c.context.as_str()).collect();
    assert_eq!(contexts.len(), 40);
    for (one, other) in own.canaries.iter().zip(&shared.canaries) {
        assert!(one.context.starts_with("USR: ") && one.context.ends_with(", My ID is: "));
        let start = format!("{}{}", one.context, one.secret);
        assert!(one.insertions.iter().all(|i| i.text.starts_with(&start)));
        assert_eq!((&one.secret, &one.after), (&other.secret, &other.after));
        let places = |c: &reticent_corpus::canary::Canary| -> Vec<(String, u64)> {
            let each = c.insertions.iter();
            each.map(|i| (i.document.clone(), i.line)).collect()
        };
        assert_eq!(places(one), places(other));
    }
    assert_eq!(CanaryPlan::from_json(&own.to_json().unwrap()).unwrap(), own);
}

/// The same in another corpus, and another for another secret, context, seed or template.
#[test]
fn an_identity_is_that_of_what_is_measured() {
    let plan = |dialogues, format| {
        let documents = simulate(dialogues, 0).unwrap();
        CanaryPlan::new(&options("9x2", format), Unit::Turn, &documents).unwrap()
    };
    let own = plan(3, "PIN {digits:3}");
    let identity = own.identity().unwrap();
    assert_eq!(identity.len(), 64);
    let elsewhere = plan(4, "PIN {digits:3}");
    assert_ne!(own.canaries[0].insertions, elsewhere.canaries[0].insertions);
    assert_eq!(elsewhere.identity().unwrap(), identity);
    let changes: [fn(&mut CanaryPlan); 3] = [
        |plan| plan.canaries[8].secret = "000".into(),
        |plan| plan.canaries[8].context.push(' '),
        |plan| plan.seed += 1,
    ];
    for change in changes {
        let mut other = own.clone();
        change(&mut other);
        assert_ne!(other.identity().unwrap(), identity);
    }
    assert_ne!(plan(3, "PIN {digits:4}").identity().unwrap(), identity);
}

#[test]
fn plans_depend_on_their_seed_and_survive_their_file() {
    let one = plan("10x20");
    assert_eq!(one, plan("10x20"));
    let json = one.to_json().unwrap();
    assert_eq!(CanaryPlan::from_json(&json).unwrap(), one);
    assert_eq!(one.spec().unwrap().to_string(), "10x20");
    let documents = simulate(50, 0).unwrap();
    let other = CanaryOptions {
        seed: 1,
        ..CanaryOptions::new("10x20".parse().unwrap())
    };
    let other = CanaryPlan::new(&other, Unit::Turn, &documents).unwrap();
    assert_ne!(one.canaries[0].secret, other.canaries[0].secret);
}

#[test]
fn large_candidate_counts_are_strings_in_the_file() {
    let documents = simulate(2, 0).unwrap();
    let plan =
        CanaryPlan::new(&options("1x1", "key {letters:20}"), Unit::Turn, &documents).unwrap();
    let json = plan.to_json().unwrap();
    assert!(json.contains("\"candidates\": \"19928148895209409152340197376\""));
    assert_eq!(CanaryPlan::from_json(&json).unwrap(), plan);
}

#[test]
fn a_tampered_plan_is_refused() {
    let json = plan("2x3").to_json().unwrap();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    type Change = fn(&mut serde_json::Value);
    let cases: [(Change, &str); 12] = [
        (
            |v| v["schema"] = 2.into(),
            "schema 1 of type \"canary-plan\" is read",
        ),
        (
            |v| v["type"] = "x".into(),
            "schema 1 of type \"canary-plan\" is read",
        ),
        (
            |v| v["candidates"] = 7.into(),
            "7 candidates; template My ID is: {digits:6} has 1000000",
        ),
        (
            |v| v["copies"] = 2.into(),
            "canary-0: 3 insertions; the plan has 2 copies of it",
        ),
        (
            |v| v["copies"] = 0.into(),
            "the number of copies of a canary must be from 1 to 10000, got 0",
        ),
        (
            |v| v["canaries"] = serde_json::json!([]),
            "the number of canaries must be from 1 to 10000, got 0",
        ),
        (
            |v| v["canaries"][1] = v["canaries"][0].clone(),
            "two canaries are called canary-0",
        ),
        (
            |v| {
                let copy = v["canaries"][0].clone();
                v["canaries"][1] = copy;
                v["canaries"][1]["id"] = "canary-1".into();
            },
            "canary-1 has the secret of another canary in a plan of distinct secrets",
        ),
        (
            |v| v["canaries"][0]["secret"] = "12345x".into(),
            "canary-0: its secret does not fit template",
        ),
        (
            |v| v["canaries"][0]["context"] = "USR: ".into(),
            "its context does not end with the template's text",
        ),
        (
            |v| v["canaries"][0]["after"] = ".".into(),
            "the text of insertion 0 is not its context, secret and ending",
        ),
        (
            |v| v["canaries"][1]["insertions"][2]["text"] = "x".into(),
            "canary-1: the text of insertion 2 is not",
        ),
    ];
    for (change, message) in cases {
        let mut changed = value.clone();
        change(&mut changed);
        let text = CanaryPlan::from_json(&changed.to_string())
            .unwrap_err()
            .to_string();
        assert!(text.contains(message), "{text} does not say {message}");
    }
    // Canaries that were left out, and secrets that were chosen for how likely they are.
    let plan = plan("3x2");
    let mut cut = plan.clone();
    cut.canaries.remove(1);
    cut.canaries[1].id = "canary-1".to_owned();
    let mut chosen = plan;
    let first = &mut chosen.canaries[0];
    let other = if first.secret == "123456" {
        "654321"
    } else {
        "123456"
    };
    for insertion in &mut first.insertions {
        insertion.text = insertion.text.replace(&first.secret, other);
    }
    first.secret = other.to_owned();
    for (edited, message) in [(cut, "1 of 2 secrets"), (chosen, "1 of 3 secrets")] {
        edited.validate().unwrap();
        let text = CanaryPlan::from_json(&edited.to_json().unwrap())
            .unwrap_err()
            .to_string();
        assert!(text.contains(message), "{text} does not say {message}");
    }
    // Fewer canaries, and fewer copies of each, of the seed's own.
    let (mut fewer, mut copies) = (self::plan("3x2"), self::plan("3x2"));
    fewer.canaries.truncate(1);
    copies.copies = 1;
    for canary in &mut copies.canaries {
        canary.insertions.truncate(1);
    }
    for edited in [fewer, copies] {
        edited.validate().unwrap();
        let read = |plan: &CanaryPlan| CanaryPlan::from_json(&plan.to_json().unwrap());
        let text = read(&edited).unwrap_err().to_string();
        assert!(text.contains("cut or edited"), "{text}");
        assert!(read(&edited.with_digest()).is_ok());
    }
    for junk in ["", "{}", "[]", &json[..json.len() / 2]] {
        assert!(matches!(CanaryPlan::from_json(junk), Err(Error::Plan(_))));
    }
    // Within a schema keys may be added.
    let mut more = value;
    more["later"] = true.into();
    assert!(CanaryPlan::from_json(&more.to_string()).is_ok());
}

#[test]
fn a_plan_is_refused_by_another_corpus() {
    let plan = plan("2x3");
    let text = insert(&plan, &simulate(1, 5).unwrap())
        .unwrap_err()
        .to_string();
    // An id may be a person's name.
    let ids = plan.canaries.iter().flat_map(|canary| &canary.insertions);
    let ids: Vec<&str> = ids.map(|insertion| &*insertion.document).collect();
    let quotes = |text: &str| ids.iter().any(|id| text.contains(id));
    assert!(
        text.contains("of copy ") && text.ends_with("is not in this corpus"),
        "{text}"
    );
    assert!(!quotes(&text), "{text}");
    let mut far = plan.clone();
    far.canaries[0].insertions[0].line = 1000;
    let text = insert(&far, &simulate(50, 0).unwrap())
        .unwrap_err()
        .to_string();
    assert!(text.contains("takes no line before line 1000"), "{text}");
    assert!(!quotes(&text), "{text}");
}

prop_compose! {
    fn corpus()(texts in proptest::collection::vec(("[aé\n]{0,12}", 0usize..12, 1usize..4), 1..5)) -> Vec<Document> {
        texts.into_iter().enumerate().map(|(i, (text, at, length))| {
            let document = Document::new(format!("d{i}"), text.clone());
            let count = text.chars().count();
            if at + length <= count { document.with_secret(at, at + length, "k") } else { document }
        }).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Inserting moves spans with their text, marks every copy, and taking the lines out again
    /// gives back the documents.
    #[test]
    fn insertion_moves_spans_and_can_be_undone(documents in corpus(), seed in any::<u64>()) {
        let options = CanaryOptions { seed, ..options("2x3", "ID {digits:4}") };
        let plan = CanaryPlan::new(&options, Unit::Turn, &documents).unwrap();
        let (planted, places) = insert(&plan, &documents).unwrap();
        prop_assert_eq!(places.len(), 6);
        for place in &places {
            let text: String = planted[place.document].text.chars().skip(place.start).take(place.end - place.start).collect();
            prop_assert_eq!(&text, &plan.canaries[place.canary].secret);
        }
        let lines: HashSet<&str> = plan.canaries.iter().flat_map(|c| &c.insertions).map(|i| i.text.as_str()).collect();
        for (before, after) in documents.iter().zip(&planted) {
            prop_assert!(after.validate().is_ok());
            let left: Vec<&str> = after.text.split('\n').filter(|l| !lines.contains(l)).collect();
            prop_assert_eq!(left.join("\n"), before.text.clone());
            let texts = |d: &Document| -> Vec<String> {
                d.secrets.iter().filter(|s| s.kind == "k").map(|s| d.secret_text(s).to_owned()).collect()
            };
            prop_assert_eq!(texts(before), texts(after));
        }
    }

    #[test]
    fn parsers_never_panic(text in "\\PC{0,40}", near in "[x{}:|digtsle0-9]{0,20}") {
        for text in [text, near] {
            let _ = text.parse::<CanaryTemplate>();
            let _ = text.parse::<Spec>();
            let _ = CanaryPlan::from_json(&text);
        }
    }
}

/// Canaries take the doses in turn; a plan says so, reads itself back, and refuses another count.
#[test]
fn doses_are_taken_in_turn() {
    let documents = simulate(20, 0).unwrap();
    let dosed = |doses: &[u32]| CanaryOptions {
        doses: doses.to_vec(),
        ..options("7x20", "PIN {digits:4}")
    };
    let plan = CanaryPlan::new(&dosed(&[1, 5, 20]), Unit::Turn, &documents).unwrap();
    let copies: Vec<usize> = plan.canaries.iter().map(|c| c.insertions.len()).collect();
    assert_eq!(copies, [1, 5, 20, 1, 5, 20, 1]);
    assert_eq!(plan.spec().unwrap().copies(), 20);
    assert_eq!(
        CanaryPlan::from_json(&plan.to_json().unwrap()).unwrap(),
        plan
    );
    let mut other = plan.clone();
    other.canaries.swap(0, 1);
    assert!(other.validate().is_err());
    let mut forgotten = plan;
    forgotten.doses.clear();
    assert!(forgotten.validate().is_err());
    for (doses, says) in [
        (&[1, 5][..], "the largest dose of copies must be 20"),
        (&[1, 21], "the largest dose of copies must be 20"),
        (&[0, 20], "a dose of copies must be from 1 to 20, got 0"),
    ] {
        let error = CanaryPlan::new(&dosed(doses), Unit::Turn, &documents).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

/// Two seeds of the system are equal with a chance of 2^-64.
#[test]
fn a_seed_of_the_system_is_another_each_time() {
    let drawn = || options("2x3", "ID {digits:4}").with_system_seed().unwrap();
    let (one, two) = (drawn(), drawn());
    assert_ne!(one.seed, two.seed);
    assert_eq!(one.seed_origin, SeedOrigin::System);
    let documents = simulate(4, 0).unwrap();
    let plan = CanaryPlan::new(&one, Unit::Turn, &documents).unwrap();
    assert_eq!(
        (plan.seed, plan.seed_origin),
        (one.seed, SeedOrigin::System)
    );
}
