//! Every parameter that `account calibrate` solves for, under every promise: the answer keeps the
//! promise when the forward question is asked of it, and the other end of the bracket does not.
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use crate::common::account;
use serde_json::Value;
use std::path::Path;

/// What is given where it is not what to find.
const GIVEN: [(&str, &str, &str); 4] = [
    ("sigma", "--sigma", "1.5"),
    ("rate", "--sample-rate", "0.01"),
    ("steps", "--steps", "500"),
    ("group", "--group", "1"),
];

/// The promise, as `calibrate` is asked for it; what is allowed; the forward question.
const PROMISES: [(&str, f64, &str); 4] = [
    ("--epsilon 2 --delta 1e-5", 2.0, "--delta 1e-5"),
    (
        "--prior 1e-6 --posterior 1e-3",
        1e-3,
        "curve --what blow-up --at 1e-6",
    ),
    (
        "--tpr 0.05 --fpr 1e-3",
        0.05,
        "curve --what trade-off --at 1e-3",
    ),
    // A uniform secret of 2^10 candidates or more is found among the first with this chance.
    (
        "--max-exposure 10 --chance 0.01",
        0.01,
        "curve --what blow-up --at 0.0009765625",
    ),
];

fn json(line: &str) -> Value {
    account::json(Path::new("."), line)
}

/// The plan with this value in the place of what was to be found.
fn plan(solved: &str, value: f64) -> String {
    let words = GIVEN.iter().map(|(name, flag, given)| {
        if *name == solved {
            format!("{flag} {value}")
        } else {
            format!("{flag} {given}")
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The certified upper end of the forward question.
fn promised(question: &str, plan: &str) -> f64 {
    let said = json(&format!("{question} {plan}"));
    let value = if let Some(rows) = said["guarantees"].as_array() {
        // Of the group, where there is one: it comes after that of one record.
        let mut by_law = rows.iter().filter(|row| row["method"] == "pld");
        by_law.next_back().unwrap()["epsilon"].clone()
    } else {
        let point = said["points"][0].as_object().unwrap();
        point.values().find(|v| v.is_object()).unwrap().clone()
    };
    value["upper"].as_f64().unwrap_or(f64::INFINITY)
}

#[test]
fn every_parameter_is_solved_for_under_every_promise() {
    for (solved, _, _) in GIVEN {
        for (promise, allowed, question) in PROMISES {
            let others = GIVEN.iter().filter(|(name, _, _)| *name != solved);
            let given: Vec<String> = others
                .map(|(_, flag, value)| format!("{flag} {value}"))
                .collect();
            let line = format!("calibrate --solve {solved} {promise} {}", given.join(" "));
            let found = json(&line);
            let answer = found["answer"].as_f64().unwrap();
            let kept = promised(question, &plan(solved, answer));
            assert!(kept <= allowed, "{line}: {answer} gives {kept}");
            let said = found["promise"]["value"]["upper"].as_f64().unwrap();
            assert!(said <= allowed, "{line}: it says {said} itself");
            let Some(fails) = found["fails"].as_f64() else {
                assert!((answer - 1.0).abs() < 1e-12 && solved == "rate", "{line}");
                continue;
            };
            let broken = promised(question, &plan(solved, fails));
            assert!(broken > allowed, "{line}: {fails} gives {broken}");
        }
    }
}

/// Of truncated batches only bounds are known; the answer keeps what it says all the same.
#[test]
fn a_run_between_two_others_keeps_what_calibrate_says() {
    let batches =
        "--sampler truncated-poisson --dataset-size 10000 --max-batch 150 --sigma 1.5 --steps 500";
    let found = json(&format!(
        "calibrate --solve rate --epsilon 2 --delta 1e-5 {batches}"
    ));
    let (answer, fails) = (&found["answer"], &found["fails"]);
    let said = found["promise"]["value"]["upper"].as_f64().unwrap();
    let kept = promised("--delta 1e-5", &format!("{batches} --sample-rate {answer}"));
    let broken = promised("--delta 1e-5", &format!("{batches} --sample-rate {fails}"));
    // The forward question is answered to a tolerance of 1e-6.
    assert!(
        said <= 2.0 && kept <= 2.0 * (1.0 + 1e-6) && broken > 2.0,
        "{said} {kept} {broken}"
    );
}

/// JFT's printed epsilons: noise for 3 by Rényi at δ = 1/2N, then measured by the loss distribution. Batch
/// sizes and epochs from Li et al. 2022; the paper prints 2.75, 2.57 and 2.41.
#[test]
fn the_papers_noise_gives_their_printed_epsilons() {
    for (records, batch, steps, truth) in [
        (392_702.0f64, 6000, 1178, 2.749),
        (104_743.0, 2000, 314, 2.567),
        (67_349.0, 1000, 202, 2.405),
    ] {
        for by in ["renyi", "papers"] {
            let found = json(&format!(
                "calibrate --by {by} --epsilon 3 --delta {} --batch-size {batch} --dataset-size {records} --steps {steps}",
                1.0 / (2.0 * records)
            ));
            let rows = found["guarantees"].as_array().unwrap();
            let upper = |method: &str| {
                let row = rows.iter().find(|row| row["method"] == method).unwrap();
                row["epsilon"]["upper"].as_f64().unwrap()
            };
            assert!((upper("rdp") - 3.0).abs() < 1e-5);
            assert!(
                (upper("pld") - truth).abs() < 2e-3,
                "{by}: {}",
                upper("pld")
            );
            assert_eq!(found["inputs"]["by"], by);
        }
    }
}

/// Next to no noise leaves δ flat in ε: most runs lose nothing or far more than was asked about. The answer
/// was certified by δ, and then printed with ε <= 2.73778 where 1 was asked.
#[test]
fn a_promise_on_a_flat_profile_is_kept_in_print() {
    let said = json("calibrate --epsilon 1 --delta 0.401 --sample-rate 0.05 --steps 10");
    let rows = said["guarantees"].as_array().unwrap();
    for value in [&said["promise"]["value"], &rows[0]["epsilon"]] {
        let ends = |name: &str| value[name].as_f64().unwrap();
        assert!(ends("lower") <= ends("upper") && ends("upper") <= 1.0 + 1e-12);
        assert!(ends("lower") > 0.999, "{value}");
    }
}
