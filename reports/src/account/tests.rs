//! Documents against their schemas, text against documents.

use super::cli::{Account, Command};
use super::{answer, calibration, figure, plan, text};
use crate::schema::problems;
use clap::Parser;
use reticent_accounting::{Convention, Notion};

fn asked(line: &str) -> plan::Asked {
    let arguments = Account::try_parse_from(line.split_whitespace()).unwrap();
    plan::Asked::new(&arguments.plan).unwrap()
}

fn refused(line: &str) -> String {
    let arguments = Account::try_parse_from(line.split_whitespace()).unwrap();
    plan::Asked::new(&arguments.plan).unwrap_err().to_string()
}

const LINES: [&str; 4] = [
    "account --sigma 1.1 --gamma 0.1",
    "account --sigma 1.1 --batch-size 256 --dataset-size 60000 --epochs 5 --group 3 --prior 1e-6 --unit turn",
    "account --sigma 2 --sample-rate 0.1 --steps 50 --labelled 200 --missed 20 --confidence 0.9 \
     --conservative-miss 0.01 --joint-miss 0 --neighbours replace --delta 1e-6 --tolerance 1e-4",
    "account --sigma 2 --gamma 0.1 --conservative-miss 0.5 --steps 20",
];

#[test]
fn every_document_fits_its_schema() {
    for line in LINES {
        let document = answer::answer(&asked(line)).unwrap();
        let json = document.to_text().unwrap();
        assert_eq!(
            problems("guarantees.schema.json", &json),
            Vec::<String>::new(),
            "{line}"
        );
        let back: crate::contract::Envelope<answer::Guarantees> =
            serde_json::from_str(&json).unwrap();
        assert_eq!(back.body, document.body, "{line}");
    }
    for line in [
        "account calibrate --epsilon 2 --sample-rate 0.1 --steps 100 --gamma 0.1",
        "account calibrate --prior 1e-6 --posterior 1e-3 --group 5 --steps 500 --tolerance 1e-3",
    ] {
        let arguments = Account::try_parse_from(line.split_whitespace()).unwrap();
        let Some(Command::Calibrate(wish)) = arguments.command else {
            panic!("{line} is no calibration");
        };
        let document = calibration::calibrate(&wish).unwrap();
        let json = document.to_text().unwrap();
        assert_eq!(
            problems("calibration.schema.json", &json),
            Vec::<String>::new(),
            "{line}"
        );
        assert!(text::calibration(&document).starts_with("sigma "));
    }
}

#[test]
fn the_papers_notebook_and_its_strict_reading() {
    // CRT's notebook: (2, 1e-5), q = 0.1, T = 100, gamma = 0.1.
    let document = answer::answer(&asked(
        "account --sigma 2.42632 --sample-rate 0.1 --steps 100 --delta 1e-5 --gamma 0.1",
    ))
    .unwrap();
    let upper = |convention, rdp: bool| {
        let row = document.body.guarantees.iter().find(|row| {
            row.notion == Notion::BayesianConfidentiality
                && row.convention == convention
                && (row.base == Some(reticent_accounting::Base::Rdp)) == rdp
        });
        row.unwrap().epsilon.unwrap().upper.unwrap().get().get()
    };
    assert!((upper(Convention::Paper, true) - 0.3729).abs() < 5e-5);
    assert!((upper(Convention::Paper, false) - 0.3049).abs() < 5e-5);
    assert!((upper(Convention::Definition, false) - 1.07937).abs() < 1e-5);
}

#[test]
fn text_says_every_assumption_and_rounds_to_the_safe_side() {
    let asked = asked(LINES[0]);
    let document = answer::answer(&asked).unwrap();
    let shown = text::guarantees(&asked, &document, None);
    for said in [
        "sample rate 0.01",
        "steps 1000",
        "delta 1e-5",
        "neighbours add-remove",
        "joint miss 0",
    ] {
        assert!(shown.contains(said), "{said}\n{shown}");
    }
    let first = document.body.guarantees[0].epsilon.unwrap();
    let printed: Vec<f64> = shown
        .lines()
        .find(|line| line.starts_with("differential privacy"))
        .unwrap()
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let (upper, lower) = (
        first.upper.unwrap().get().get(),
        first.lower.unwrap().get().get(),
    );
    assert!(printed[0] >= upper && printed[0] < upper + 2e-5);
    assert!(printed[1] <= lower && printed[1] > lower - 2e-5);
    assert!(shown.contains("planning") && shown.contains("Not covered"));
}

#[test]
fn a_limit_is_held_against_the_upper_end() {
    let document = answer::answer(&asked("account --sigma 1.1 --group 2 --steps 100")).unwrap();
    let row = answer::headline(&document.body.guarantees).unwrap();
    assert_eq!(row.notion, Notion::GroupDp);
    let upper = row.epsilon.unwrap().upper.unwrap().get().get();
    let epsilon = |value: f64| Some(reticent_accounting::Epsilon::new(value).unwrap());
    let passed = |allowed| answer::limit(&document.body, allowed).map(|limit| limit.passed);
    assert_eq!(passed(None), None);
    assert_eq!(passed(epsilon(upper)), Some(false));
    assert_eq!(passed(epsilon(upper * (1.0 - 1e-9))), Some(true));
}

#[test]
fn values_that_contradict_each_other_are_named() {
    for (line, said) in [
        (
            "account --sigma 1 --batch-size 11 --dataset-size 10",
            "--batch-size: must lie in [1, dataset size 10], got 11",
        ),
        (
            "account --sigma 1 --labelled 10 --missed 11",
            "--missed: must lie in [0, labelled 10], got 11",
        ),
        (
            "account --sigma 1 --joint-miss 0.1",
            "--joint-miss: needs a miss rate",
        ),
        (
            "account --sigma 1 --conservative-miss 0.1",
            "--conservative-miss: needs a miss rate",
        ),
        (
            "account --sigma 1 --gamma 0.1 --joint-miss 0.2",
            "--joint-miss: must lie in [0, 0.1]",
        ),
        (
            "account --sigma 1 --gamma 0.1 --conservative-miss 0.05 --joint-miss 0.07",
            "--joint-miss: must lie in [0, 0.05]",
        ),
        (
            "account --sigma 1 --epochs 1e300",
            "--epochs: must make at most 2^53 steps, got 1e300",
        ),
    ] {
        let why = refused(line);
        assert!(why.starts_with(said), "{line}: {why}");
    }
}

#[test]
fn the_joint_miss_is_the_most_it_can_be_when_nobody_says() {
    let joint = |line: &str| asked(line).plan.redaction.unwrap().missed_by_both().get();
    assert!(joint("account --sigma 1 --gamma 0.1") <= 0.0);
    assert!((joint("account --sigma 1 --gamma 0.1 --conservative-miss 0.03") - 0.03).abs() < 1e-15);
    assert!((joint("account --sigma 1 --gamma 0.1 --conservative-miss 0.3") - 0.1).abs() < 1e-15);
    assert!((joint("account --sigma 1 --gamma 0.1 --joint-miss 0.02") - 0.02).abs() < 1e-15);
}

#[test]
fn epochs_round_up_to_whole_steps() {
    let asked = asked("account --sigma 1 --batch-size 3 --dataset-size 10 --epochs 1");
    assert_eq!(asked.steps.get(), 4);
    assert!((asked.rate.get() - 0.3).abs() < 1e-15);
    assert!(!asked.inputs.is_assumed("sample_rate") && !asked.inputs.is_assumed("steps"));
}

#[test]
fn the_curve_shows_what_the_table_says() {
    let plan = asked(LINES[0]).plan;
    let svg = figure::privacy_curve(&plan).unwrap().to_svg().unwrap();
    assert!(svg.starts_with("<svg"));
    for said in ["add-remove", "planning only", "secret known"] {
        assert!(svg.contains(said), "{said}");
    }
}
