use super::*;
use crate::audit::coins::Inclusion;
use crate::page::View;
use crate::schema::fits;
use crate::verdict::{Measurement, Promise, Terms, judge};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reticent_accounting::{Delta, Lower, Neighbours, Notion, Probability, UnitName, Upper};
use reticent_attacks::exposure::CeilingOutcome;
use reticent_attacks::extract::{PromiseTest, Reconstruction, contrast, strata};

fn level() -> Confidence {
    Confidence::new(0.95).unwrap()
}

/// One of two secrets hit, at a false-alarm rate of 1e-3: a mean chance of 5e-4 at least.
fn secrets(at_most: f64) -> SecretsReport {
    let probability = |p: f64| Probability::new(p).unwrap();
    let test = PromiseTest {
        prior: 0.01,
        posterior: at_most,
        secrets: 2,
        hits: 1,
        p_value: (2.0 * at_most).min(1.0),
        false_alarm: 1e-3,
        at_least: Lower::new(probability(5e-4)),
        provable: Upper::new(probability(1e-3)),
        alike: false,
    };
    let terms = Terms {
        released: "m".into(),
        notion: Notion::SecretProtection,
        neighbours: Neighbours::ZeroOut,
        unit: UnitName::new("secret").unwrap(),
        delta: Delta::new(0.0).unwrap(),
        group: 3,
        prior: Some(probability(0.01)),
    };
    let promise = Promise {
        terms: terms.clone(),
        at_most: Upper::new(probability(at_most)),
        mistakes: Vec::new(),
    };
    let measured = Measurement {
        terms,
        at_least: test.at_least,
        false_alarm: probability(test.false_alarm),
        provable: test.provable,
        power: Vec::new(),
    };
    SecretsReport {
        ranks: None,
        found: Reconstruction {
            ranks: vec![("a".into(), 1), ("b".into(), 4)],
            hits: 1,
            expected_blindly: 0.02,
            expected_at_most: 2.0 * at_most,
            least_p_value: at_most,
            p_value: test.p_value,
            alpha: 1e-3,
            outcome: CeilingOutcome::NotContradicted,
            promises: vec![test],
            repeated: 0,
            repeated_hits: 0,
        },
        drawn: Some(Drawn {
            candidates: 100,
            seed: 7,
        }),
        by_promise: vec![PromisedSecrets {
            advice: None,
            promised: vec![(probability(1e-3), probability(1e-2))],
            source: Source::Certified,
            test,
            verdict: Some(judge(&promise, &measured).unwrap()),
            no_verdict: None,
        }],
        manifest: None,
        inclusion: Inclusion::TrainedRecords,
        included: Some(2),
    }
}

/// 40 passages, 12 of which come out, 2 of the baseline; copies 1 and 20.
fn report(baseline: bool) -> ExtractReport {
    let ours: Vec<bool> = (0..40).map(|i| i < 12).collect();
    let theirs: Vec<bool> = (0..40).map(|i| i < 2).collect();
    let copies: Vec<u64> = (0..40).map(|i| if i < 20 { 20 } else { 1 }).collect();
    let base = baseline.then_some(theirs.as_slice());
    let rate = |hits| Rate::of(hits, 40, level()).unwrap();
    ExtractReport {
        passages: 40,
        merged: Merged::default(),
        suffix: 50,
        context: None,
        near_at_most: Some(0.1),
        prompts: vec![PromptRates {
            prompt: 50,
            verbatim: rate(12),
            near: Some(rate(15)),
            strata: strata(&ours, base, &copies, level()).unwrap(),
            contrast: base.map(|b| contrast(&ours, b, level()).unwrap()),
        }],
        draws: vec![WithinDraws {
            prompt: 50,
            draws: 100.0,
            rate: rate(20),
            strata: strata(&ours, base, &copies, level()).unwrap(),
        }],
        baseline,
        baseline_apart: baseline.then(|| Apart::of([(-1.0, -2.0)])),
        records: RecordsDigest::of(&[&[]]).unwrap(),
        secrets: Some(secrets(6e-4)),
        confidence: level(),
    }
}

#[test]
fn documents_fit_their_schema() {
    for baseline in [true, false] {
        let text = report(baseline).document(Inputs::new()).to_text().unwrap();
        fits("extraction", &text);
    }
}

/// The limit meets the certified end of what the model alone gives: 10 of 40 with the baseline
/// beside it (at least 12.6 %), 12 of 40 without (at least 16.5 %).
#[test]
fn a_limit_is_passed_by_what_is_certain() {
    assert_eq!(report(true).exit(Some(0.12)), Exit::Exceeded);
    assert_eq!(report(true).exit(Some(0.13)), Exit::Finished);
    assert_eq!(report(false).exit(Some(0.13)), Exit::Exceeded);
    assert_eq!(report(false).exit(None), Exit::Finished);
    // Exit code 1 has its sentence.
    let above =
        "The rate after 50-token prompts is certainly above the limit of 0.13 (--max-rate).";
    for (baseline, exceeded) in [(false, true), (true, false)] {
        let page = report(baseline).to_page("m", Some(0.13)).unwrap();
        assert_eq!(page.said().starts_with(above), exceeded, "{}", page.said());
    }
    // A baseline that is the model itself gives the same, and takes nothing from the rate.
    let mut copy = report(true);
    let ours: Vec<bool> = (0..40).map(|i| i < 12).collect();
    copy.prompts[0].contrast = Some(contrast(&ours, &ours, level()).unwrap());
    copy.baseline_apart = Some(Apart::of([(-1.0, -1.0)]));
    for limit in [0.13, 0.16] {
        assert_eq!(copy.exit(Some(limit)), Exit::Exceeded, "{limit}");
    }
    assert_eq!(copy.exit(Some(0.17)), Exit::Finished);
    let mut broken = report(true);
    broken.secrets = Some(secrets(4e-4));
    assert_eq!(broken.exit(None), Exit::Exceeded);
}

#[test]
fn text_and_page_say_the_same() {
    let with = report(true);
    let text = with.to_page("m", None).unwrap().to_text(View::full());
    let text = text.split([' ', '\n']).collect::<Vec<_>>().join(" ");
    for said in [
        "12 are reproduced verbatim after 50-token prompts",
        "10 of them from this model alone: it remembers",
        "1 of 2 secrets",
        "beside the manifest's certificate: not contradicted (measured at least 5.000e-4, promised at most 6.000e-4",
        "Candidates: 100 of each secret that has a shape",
        "drawn from it with seed 7",
        "Premise: each secret is any of its candidates with the same chance",
        "10 to 99",
        "by sampling and number of copies",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(
        report(false)
            .to_page("m", None)
            .unwrap()
            .to_text(View::full())
            .contains("Without --baseline")
    );
    let html = with.to_page("ckpt", None).unwrap().to_html().unwrap();
    assert!(html.contains("<svg") && html.contains("it remembers its training text"));
}

/// Two alike models over four lengths of prompt, 60 passages each, a rate of 0.3: "it remembers" is
/// said of at most one pair in twenty. 1000 pairs, seed 31; 78 and more would come once in 1e4. Each
/// length at the full level would say it of more.
#[test]
fn many_lengths_share_their_false_alarms() {
    let mut rng = ChaCha8Rng::seed_from_u64(31);
    let (mut remembered, mut unshared) = (0, 0);
    for _ in 0..1000 {
        let mut with = report(true);
        let row = with.prompts[0].clone();
        with.prompts = (0..4)
            .map(|_| {
                let mut draw = || (0..60).map(|_| rng.random_bool(0.3)).collect::<Vec<_>>();
                let (ours, theirs) = (draw(), draw());
                let hits = ours.iter().filter(|hit| **hit).count() as u64;
                PromptRates {
                    verbatim: Rate::of(hits, 60, level()).unwrap(),
                    contrast: Some(contrast(&ours, &theirs, level()).unwrap()),
                    ..row.clone()
                }
            })
            .collect();
        remembered += u32::from(tables::says(&with).contains("it remembers"));
        let p = |row: &PromptRates| row.contrast.is_some_and(|c| c.p_value <= 0.05);
        unshared += u32::from(with.prompts.iter().any(p));
    }
    assert!((5..78).contains(&remembered), "{remembered}");
    assert!(unshared > 80, "{unshared}");
}

/// A limit that is the truth is passed by at most one model in twenty, whatever the number of
/// lengths. 1000 models, four lengths, 60 passages each, a rate of 0.3, seed 32.
#[test]
fn a_limit_that_is_kept_is_rarely_passed() {
    let mut rng = ChaCha8Rng::seed_from_u64(32);
    let mut passed = 0;
    for _ in 0..1000 {
        let mut without = report(false);
        let row = without.prompts[0].clone();
        without.prompts = (0..4)
            .map(|_| {
                let hits = (0..60).filter(|_| rng.random_bool(0.3)).count() as u64;
                PromptRates {
                    verbatim: Rate::of(hits, 60, level()).unwrap(),
                    ..row.clone()
                }
            })
            .collect();
        passed += u32::from(without.exit(Some(0.3)) == Exit::Exceeded);
    }
    assert!(passed < 78, "{passed}");
}

/// Passages that none came out of conclude nothing against a limit that all of them could not have passed, and secrets
/// nothing where no promise of theirs could have been contradicted.
#[test]
fn what_could_not_have_come_out_is_open() {
    let quiet = |passages| {
        let mut report = report(false);
        report.prompts[0].verbatim = Rate::of(0, passages, level()).unwrap();
        report.secrets = None;
        report
    };
    for (passages, limit, mood) in [
        (40, None, Mood::Plain),
        (40, Some(0.5), Mood::Plain),
        // All intervals lie below it, which exit code 0 says too.
        (40, Some(0.99), Mood::Plain),
        (40, Some(1.0), Mood::Plain),
        (1, Some(0.5), Mood::Open),
        (1, None, Mood::Open),
        // Four of four against none: p = 1/16.
        (4, None, Mood::Open),
        (4, Some(0.1), Mood::Open),
        (5, None, Mood::Plain),
    ] {
        let report = quiet(passages);
        assert_eq!(report.mood(limit), mood, "{passages} {limit:?}");
        let said = report.to_page("m", limit).unwrap();
        let why = "can show no memory, whatever comes out: 5 are needed at least.";
        assert_eq!(said.said().contains(why), passages < 5, "{passages}");
        let kept = said.said().contains("(--max-rate)");
        let decided = limit.is_some_and(|limit| report.decides(limit));
        assert_eq!(kept, decided, "{}", said.said());
    }
    // Four lengths share the 5 %.
    let mut lengths = quiet(6);
    lengths.prompts = vec![lengths.prompts[0].clone(); 4];
    assert_eq!(lengths.passages_needed(), Some(7));
    let mut beside = quiet(40);
    for (at_most, mood) in [(6e-4, Mood::Plain), (2e-3, Mood::Open)] {
        beside.secrets = Some(SecretsReport {
            found: Reconstruction {
                hits: 0,
                ..secrets(at_most).found
            },
            ..secrets(at_most)
        });
        assert_eq!(beside.mood(None), mood, "{at_most}");
    }
    // The rates stand beside the baseline's, and stood in a table of their own too.
    for baseline in [true, false] {
        // With room for all of the answer.
        let page = report(baseline).to_page("m", None).unwrap().lines(60);
        let rates = |view| page.to_text(view).contains("Greedy decoding");
        let found = (rates(View::of_terminal(false)), rates(View::full()));
        assert_eq!(found, (!baseline, true));
    }
    assert_eq!(report(false).mood(Some(0.99)), Mood::Review);
    assert_eq!(report(false).mood(Some(1.0)), Mood::Review);
}

/// Ranks without a leak say nothing where training is not known to have met the secrets, or where all candidates tie. A
/// scorer that never saw the secret passed as "not contradicted".
#[test]
fn secrets_that_training_may_not_have_met_are_open() {
    let quiet = || {
        let all = secrets(6e-4);
        SecretsReport {
            found: Reconstruction {
                hits: 0,
                ..all.found
            },
            ..all
        }
    };
    for (inclusion, included, mood, says) in [
        (Inclusion::TrainedRecords, Some(2), Mood::Plain, None),
        (
            Inclusion::TrainedRecords,
            Some(1),
            Mood::Open,
            Some("Of these, 1 don't occur behind their contexts in the text of --training."),
        ),
        (
            Inclusion::GivenText,
            Some(2),
            Mood::Open,
            Some("That the model was trained on the text of --training is not known."),
        ),
        (
            Inclusion::NotChecked,
            None,
            Mood::Open,
            Some("It was not checked that training met them."),
        ),
    ] {
        let mut found = SecretsReport {
            inclusion,
            included,
            ..quiet()
        };
        assert_eq!(found.mood(), mood, "{inclusion:?} {included:?}");
        let said = found.says();
        assert!(says.is_none_or(|says| said.contains(says)), "{said}");
        // A leak shows that it met some, and may be luck: it lets no promise of the others stand.
        found.found.hits = 2;
        let leaked = match mood {
            Mood::Plain => Mood::Plain,
            _ => Mood::Review,
        };
        assert_eq!(found.mood(), leaked, "{inclusion:?} {included:?}");
        assert!(says.is_none_or(|says| !found.says().contains(says)));
    }
    let mut alike = quiet();
    alike.by_promise[0].test.alike = true;
    assert_eq!(alike.mood(), Mood::Open);
}

/// Secrets that are hit more often than chance explains are a leak: ten of ten where 0.1 are expected were "open", beside
/// a promise that nothing could contradict and beside none.
#[test]
fn secrets_that_come_out_are_for_review() {
    let of = |at_most: f64, hits: u64, expected_blindly: f64| {
        let all = secrets(at_most);
        SecretsReport {
            found: Reconstruction {
                hits,
                expected_blindly,
                ..all.found
            },
            ..all
        }
    };
    for (at_most, hits, expected, mood) in [
        (2e-3, 1, 0.02, Mood::Review),
        (2e-3, 1, 0.2, Mood::Open),
        (2e-3, 2, 0.1, Mood::Review),
        (2e-3, 0, 0.02, Mood::Open),
        // A promise that could have been contradicted judges them.
        (6e-4, 1, 0.02, Mood::Plain),
    ] {
        let mut found = of(at_most, hits, expected);
        assert_eq!(found.mood(), mood, "{at_most} {hits} {expected}");
        let reveals = found.says().contains("it reveals secrets");
        assert_eq!(reveals, mood != Mood::Open, "{}", found.says());
        found.by_promise[0].verdict = None;
        let none = if reveals { Mood::Review } else { Mood::Open };
        assert_eq!(found.mood(), none, "nothing is promised");
    }
    let said = of(2e-3, 1, 0.02).says();
    let words = "Without it so many are hit with probability 0.020 at most: it reveals secrets.";
    assert!(said.contains(words), "{said}");
    // Two places of one secret are one hit, with 0.1 at most, and no leak.
    let mut twice = of(2e-3, 2, 0.1);
    assert_eq!(twice.mood(), Mood::Review);
    (twice.found.repeated, twice.found.repeated_hits) = (1, 1);
    assert_eq!(twice.mood(), Mood::Open);
    twice.found.expected_blindly = 0.02;
    let words = "so many, each secret counted once, are hit with probability 0.020 at most";
    assert!(twice.says().contains(words), "{}", twice.says());
    // A limit on passages judges no secret.
    let mut report = report(false);
    report.secrets = Some(of(2e-3, 1, 0.02));
    assert_eq!(report.mood(Some(0.5)), Mood::Review);
}
