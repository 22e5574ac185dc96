use super::*;
use crate::page::View;
use crate::verdict::{Measurement, Promise, judge};
use reticent_accounting::{
    Confidence, Delta, GroupSize, Neighbours, NoiseMultiplier, Probability, SamplingRate, Steps,
    Upper,
};
use reticent_attacks::Draw;
use reticent_attacks::exposure::{CeilingAt, ExposureFinding, RankAudit, ceiling_test};
use reticent_attacks::search::{RankCount, Ranking, Work};
use reticent_corpus::Unit;
use reticent_corpus::canary::{CanaryOptions, Spec};
use reticent_corpus::prepare::{PrepareOptions, prepare};
use reticent_corpus::simulate::simulate;

/// Better candidates of ten canaries that a model memorised.
pub(crate) const LEAKING: [u64; 10] = [0, 0, 2, 5, 0, 11, 0, 26, 0, 3];
/// Of ten canaries that a model never saw.
pub(crate) const QUIET: [u64; 10] = [
    301_110, 51_999, 709_999, 498_999, 88_122, 929_999, 609_999, 243_999, 800_000, 376_999,
];

fn counts(below: [u64; 10], unresolved: u64) -> Vec<RankCount> {
    below
        .map(|below| RankCount {
            candidates: 1_000_000,
            nll: 3.25,
            below,
            ties: 0,
            unresolved,
        })
        .to_vec()
}

/// Ten canaries with these numbers of better candidates, of a search that left so many candidates open.
pub(crate) fn finding(
    below: [u64; 10],
    unresolved: u64,
    thresholds: &[u64],
    confidence: f64,
) -> ExposureFinding {
    let ranking = Ranking {
        counts: counts(below, unresolved),
        work: Work {
            positions_scored: 3_000,
            positions_flat: 60_000_000,
            seconds: 0.5,
        },
    };
    let names: Vec<_> = (0..10).map(|i| (format!("canary-{i}"), 20)).collect();
    let audit = RankAudit {
        thresholds: thresholds.to_vec(),
        confidence: Confidence::new(confidence).unwrap(),
        delta: Delta::new(1e-5).unwrap(),
        draw: Draw::Distinct,
        unit: Unit::Turn,
        copies: 20,
    };
    ExposureFinding::new(&ranking, &names, &audit, 0.0).unwrap()
}

fn guarantee(convention: Convention, group: Option<u32>, epsilon: f64) -> Guarantee {
    Guarantee {
        notion: group.map_or(Notion::Dp, |_| Notion::GroupDp),
        neighbours: match convention {
            Convention::Definition => Neighbours::Replace,
            Convention::Paper => Neighbours::AddRemove,
        },
        convention,
        epsilon: Some(Bounds::at_most(Epsilon::new(epsilon).unwrap())),
        group: group.map(|k| GroupSize::new(k).unwrap()),
        ..crate::verdict::tests::guarantee()
    }
}

/// An arm with ε of one record, in the papers' convention, and of all copies.
fn arm(name: &str, below: [u64; 10], epsilon: Option<[f64; 3]>, perplexity: f64) -> Arm {
    let [one, paper, all] = epsilon.unwrap_or([f64::INFINITY; 3]);
    let guarantees = vec![
        guarantee(Convention::Definition, None, one),
        guarantee(Convention::Paper, None, paper),
        guarantee(Convention::Definition, Some(20), all),
    ];
    let mut exposure = ExposureReport::new(finding(below, 0, &[1, 10, 100], 0.999));
    if epsilon.is_some() {
        let promise = Promise::of(name, &guarantees[2]).unwrap();
        let measured = Measurement {
            terms: promise.terms.clone(),
            at_least: exposure.finding.epsilon.lower,
            false_alarm: Probability::new(1e-3).unwrap(),
            provable: Upper::new(Epsilon::new(300.0).unwrap()),
            power: Vec::new(),
        };
        exposure.verdict = Some(judge(&promise, &measured).unwrap());
        let at = CeilingAt {
            threshold: 10,
            bounds: vec![Upper::new(Probability::new(0.01).unwrap()); 10],
        };
        exposure.ceiling = Some(super::super::exposure::Ceiling {
            exposure_at_most: Upper::new(14.5),
            level: 0.95,
            test: ceiling_test(&counts(below, 0), &[at], 1e-3).unwrap(),
            suspects: Vec::new(),
        });
    }
    Arm {
        name: name.into(),
        describes: format!("A made-up arm called {name}."),
        recipe: match name {
            "CRT" => "crt",
            "DP-SGD" => "dpsgd",
            _ => "sgd",
        }
        .into(),
        mechanism: match epsilon {
            Some(_) => Mechanism::dp_sgd(
                NoiseMultiplier::new(0.9).unwrap(),
                SamplingRate::new(0.004).unwrap(),
                Steps::new(1200),
            ),
            None => Mechanism::NonPrivate {
                why: "no noise".into(),
            },
        },
        private_phase: epsilon.map(|_| PrivatePhase {
            noise_multiplier: 0.9,
            sampling_rate: 0.004,
            steps: 1200,
        }),
        guarantees,
        claimed: Vec::new(),
        records_of_a_canary: 20,
        perplexity,
        exposure,
        seconds: 41.3,
    }
}

pub(crate) fn report() -> DemoReport {
    let options = PrepareOptions {
        canaries: Some(CanaryOptions::new(Spec::new(10, 20).unwrap())),
        held_out: 0.1,
        ..PrepareOptions::default()
    };
    let prepared = prepare(&simulate(60, 0).unwrap(), &options).unwrap();
    DemoReport {
        source: Source::Simulated {
            dialogues: 60,
            seed: 0,
        },
        model: "LSTM, one layer of 200".into(),
        preparation: prepared.facts,
        planted: Planted {
            canaries: 10,
            copies: 20,
            template: "My ID is: {digits:6}".into(),
            seed: 0,
        },
        trigram_perplexity: 3.41,
        arms: vec![
            arm("SGD", LEAKING, None, 1.71),
            arm("SGD, deduplicated", LEAKING, None, 1.83),
            arm("DP-SGD", QUIET, Some([3.2, 1.7, 21.4]), 3.9),
            arm("CRT", QUIET, Some([3.1, 1.6, 20.9]), 2.2),
        ],
        seconds: 203.0,
        secrets: None,
    }
}

#[test]
fn the_document_carries_infinity_and_no_secret() {
    let text = report().document(Inputs::new()).to_text().unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["type"], "demo");
    assert_eq!(json["arms"][0]["guarantees"][0]["epsilon"]["upper"], "inf");
    assert!(!text.contains(": null"), "an unknown key is absent");
    assert!(json.get("secrets").is_none());
}

#[test]
fn every_arm_has_a_row_in_both_tables() {
    let text = report().to_page().unwrap().to_text(View::full());
    for name in ["SGD", "SGD, deduplicated", "DP-SGD", "CRT"] {
        let rows = text
            .lines()
            .filter(|l| l.starts_with(&format!("{name} ")))
            .count();
        assert!(rows >= 2, "{name} in\n{text}");
    }
    assert!(text.contains("not contradicted") && text.contains("nothing promised"));
    assert!(text.contains("7.61"), "the null of the maximum");
    // The bounds of the table and the verdict hold at different levels.
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for level in [
        "Each ε ≥ holds with confidence 0.999.",
        "A verdict has a false-alarm rate of 0.0010 instead, at which ε = 300.0 for all copies",
    ] {
        assert!(flat.contains(level), "{text}");
    }
    assert!(text.contains("trigram"));
}

/// The README shows a run whose verdicts each have their share of the report's false-alarm rate.
#[cfg(feature = "audit")]
#[test]
fn the_run_in_the_readme_has_the_rate_of_a_verdict() {
    use crate::verdict::{FALSE_ALARM, split};
    let rate = split(Probability::new(FALSE_ALARM).unwrap(), super::run::TESTS);
    let rate = crate::number::nearest(rate.get(), 2);
    let readme = include_str!("../../../../README.md");
    for said in [
        format!("A verdict has a false-alarm rate of {rate} instead"),
        format!("a contradiction requires p below {rate}."),
    ] {
        assert!(readme.contains(&said), "{said}");
    }
}

/// The README's tables had no captions when texts already did.
#[test]
fn the_run_in_the_readme_has_the_captions_of_its_tables() {
    let brief = View {
        verbose: false,
        width: 100,
    };
    let text = report().to_page().unwrap().to_text(brief);
    let readme = include_str!("../../../../README.md");
    let tables = text.split("\n\n").collect::<Vec<_>>();
    let captions = tables.windows(2).filter(|pair| pair[0].contains("---"));
    let captions: Vec<&str> = captions.map(|pair| pair[1]).collect();
    assert_eq!(captions.len(), 2, "{text}");
    for caption in captions {
        assert!(readme.contains(caption), "{caption}");
    }
}

#[test]
fn a_promise_is_rounded_up_and_a_measurement_down() {
    let mut report = report();
    report.arms[3].guarantees[0] = guarantee(Convention::Definition, None, 3.1001);
    let text = report.to_page().unwrap().to_text(View::full());
    assert!(text.contains("3.11") && !text.contains("3.10 "), "{text}");
}

#[test]
fn the_page_says_what_happened_and_masks_the_secrets() {
    let mut report = report();
    let html = report.to_page().unwrap().to_html().unwrap();
    assert!(html.contains("SGD puts 8 of 10 secrets among its ten best guesses"));
    assert!(html.contains("CRT, with ε ≤ 3.10 for one record, shows no more than chance"));
    assert!(html.contains("••••••"));
    report.secrets = Some(BTreeMap::from([("canary-0".into(), "341752".into())]));
    assert!(
        report
            .to_page()
            .unwrap()
            .to_html()
            .unwrap()
            .contains("341752")
    );
}

#[test]
fn an_empty_promise_gets_no_verdict_and_no_ceiling() {
    let mut report = report();
    report.arms = vec![report.arms.remove(3)];
    report.arms[0].guarantees[2] = guarantee(Convention::Definition, Some(20), f64::INFINITY);
    let text = report.to_page().unwrap().to_text(View::full());
    assert!(
        text.contains("nothing promised") && !text.contains("14.5"),
        "{text}"
    );
}

/// An arm whose noise was left out, held against what its plan would promise.
fn noiseless(below: [u64; 10]) -> Arm {
    // Better than every arm that promises something: it must not pass for one of them.
    let claimed = arm("CRT, no noise", below, Some([0.2, 0.1, 3.9]), 1.9);
    Arm {
        claimed: claimed.guarantees.clone(),
        guarantees: arm("", below, None, 1.9).guarantees,
        mechanism: Mechanism::NonPrivate {
            why: "no noise was added".into(),
        },
        ..claimed
    }
}

/// It promises nothing itself, in every format, and a contradiction of what was claimed is no alarm: it
/// was planted.
#[test]
fn an_arm_without_noise_promises_nothing_and_is_caught() {
    let mut report = report();
    report.arms.push(noiseless(LEAKING));
    assert_eq!(report.exit(), Exit::Finished);
    let text = report.to_page().unwrap().to_text(View::full());
    let rows: Vec<&str> = text
        .lines()
        .filter(|l| l.starts_with("CRT, no noise "))
        .collect();
    assert!(rows[0].contains("∞") && !rows[0].contains("3.9"), "{text}");
    assert!(rows[1].contains("contradicted"), "{text}");
    assert!(!rows[1].contains("nothing promised"), "{text}");
    let found = &report.says();
    assert!(
        found.contains("CRT, no noise, a planted bug, is caught"),
        "{found}"
    );
    assert!(
        found.contains("CRT, with ε ≤ 3.10 for one record"),
        "{found}"
    );
    assert!(!found.contains("A promise is contradicted"), "{found}");
    let json: serde_json::Value =
        serde_json::from_str(&report.document(Inputs::new()).to_text().unwrap()).unwrap();
    assert_eq!(json["arms"][4]["guarantees"][2]["epsilon"]["upper"], "inf");
    assert_eq!(json["arms"][4]["claimed"][2]["epsilon"]["upper"], 3.9);
    assert!(json["arms"][3].get("claimed").is_none());
    // nothing found is said as what it is
    report.arms[4] = noiseless(QUIET);
    assert!(
        report
            .says()
            .contains("a planted bug, is not caught by this audit")
    );
    assert!(
        report
            .to_page()
            .unwrap()
            .to_html()
            .unwrap()
            .contains("is not caught by this audit")
    );
}

#[test]
fn a_contradicted_arm_ends_with_one_and_an_alarm() {
    let mut report = report();
    assert_eq!(report.exit(), Exit::Finished);
    report.arms[3] = arm("CRT", [0; 10], Some([3.1, 1.6, 2.5]), 2.2);
    assert_eq!(report.exit(), Exit::Exceeded);
    assert!(
        report
            .to_page()
            .unwrap()
            .to_html()
            .unwrap()
            .contains("A promise is contradicted")
    );
    assert!(
        report
            .to_page()
            .unwrap()
            .to_text(View::full())
            .contains("contradicted: noise is missing")
    );
}
