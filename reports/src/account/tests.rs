//! Documents against their schemas, text against documents.

use super::args::{Account, Command};
use super::{answer, calibrate, curve, explain, plan};
use crate::page::View;
use crate::schema::fits;
use clap::Parser;
use reticent_accounting::{Convention, Method, Notion};
use serde_json::json;

fn question(line: &str) -> plan::Question {
    let arguments = Account::try_parse_from(line.split_whitespace()).unwrap();
    plan::Question::new(&arguments.plan).unwrap()
}

fn refused(line: &str) -> String {
    let arguments = Account::try_parse_from(line.split_whitespace()).unwrap();
    plan::Question::new(&arguments.plan)
        .unwrap_err()
        .to_string()
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
        let document = answer::answer(&question(line)).unwrap();
        let json = document.to_text().unwrap();
        fits("guarantees", &json);
        let back: crate::contract::Envelope<answer::Guarantees> =
            serde_json::from_str(&json).unwrap();
        assert_eq!(back.body, document.body, "{line}");
    }
    for line in [
        "account --sigma 1.1 --at-epsilon 1.5 --gamma 0.1 --group 2 --prior 1e-6",
        "account --sigma 1.1 --sample-rate 1 --steps 3 --at-epsilon 2 --neighbours replace",
        "account --sigma 1.1 --steps 100 --gdp=1e-6",
        "account --sigma 1.1 --sample-rate 1 --steps 3 --gdp",
    ] {
        let json = answer::answer(&question(line)).unwrap().to_text().unwrap();
        fits("guarantees", &json);
    }
}

/// Another assumption is what the command answers when it is given. 1e-3: rows are printed to four digits.
#[test]
fn another_sampling_rate_is_what_the_command_says_of_it() {
    for line in [
        "account --sigma 2 --noise-decay 0.9 --delta 1e-5",
        "account --sigma 1 --epochs 10",
        "account --sigma 2 --epochs 3 --noise-decay 0.8 --sampler balls-in-bins",
        "account --sigma 2 --sampler shuffled",
    ] {
        let rows = answer::answer(&question(line)).unwrap().body.what_if;
        let rows: Vec<_> = rows
            .iter()
            .filter(|row| row.changed == "sample_rate")
            .collect();
        assert_eq!(rows.len(), 3, "{line}");
        for row in rows {
            let given = question(&format!("{line} --sample-rate {}", row.to));
            let upper = |bounds: reticent_accounting::Bounds<reticent_accounting::Epsilon>| {
                bounds.upper.unwrap().get().get()
            };
            let (found, truth) = (upper(row.epsilon), upper(given.plan.epsilon().unwrap()));
            assert!(
                (found / truth - 1.0).abs() < 1e-3,
                "{line}, {}: {found} {truth}",
                row.to
            );
        }
    }
}

#[test]
fn gaussians_are_their_own_summary() {
    // Three steps at σ = 2 are μ = √3/2 without slack and regret.
    let document = answer::answer(&question(
        "account --sigma 2 --sample-rate 1 --steps 3 --gdp",
    ))
    .unwrap();
    let row = document.body.guarantees.last().unwrap();
    assert_eq!(
        (row.notion, row.delta.unwrap().get() > 0.0),
        (Notion::Gdp, false)
    );
    let mu = row.mu.unwrap();
    let (low, high) = (*mu.lower.unwrap().get(), *mu.upper.unwrap().get());
    assert!(low <= 0.75f64.sqrt() && 0.75f64.sqrt() <= high && high - low < 1e-14);
    let question = question("account --sigma 1.1 --steps 100 --gdp=1e-6");
    let document = answer::answer(&question).unwrap();
    let shown = answer::guarantees(&question, &document, None).to_text(View::full());
    assert!(
        shown.contains("Gaussian differential privacy, one record"),
        "{shown}"
    );
}

fn command(line: &str) -> Command {
    let words = line.split_whitespace();
    Account::try_parse_from(words).unwrap().command.unwrap()
}

#[test]
fn every_calibration_fits_its_schema_and_keeps_its_promise() {
    for (line, first) in [
        (
            "account calibrate --epsilon 2 --sample-rate 0.1 --steps 100 --gamma 0.1",
            "The least noise for",
        ),
        (
            "account calibrate --prior 1e-6 --posterior 1e-3 --group 5 --steps 500 --tolerance 1e-3",
            "The least noise for",
        ),
        (
            "account calibrate --tpr 0.05 --fpr 0.001 --tolerance 1e-3",
            "The least noise for",
        ),
        (
            "account calibrate --solve rate --epsilon 2 --sigma 1.1 --steps 500 --tolerance 1e-3",
            "The highest sampling rate for",
        ),
        (
            "account calibrate --solve steps --tpr 0.05 --fpr 0.001 --sigma 1.1 --tolerance 1e-3",
            "The most steps for",
        ),
        (
            "account calibrate --solve group --max-exposure 10 --chance 0.01 --sigma 2 --steps 500",
            "The largest group for",
        ),
    ] {
        let Command::Calibrate(wish) = command(line) else {
            panic!("{line} is no calibration");
        };
        let document = calibrate::calibrate(&wish).unwrap();
        let json = document.to_text().unwrap();
        fits("calibration", &json);
        let body = &document.body;
        assert!(
            body.promise.value.upper.unwrap().get().0 <= body.promise.allowed.0 * (1.0 + 1e-3),
            "{json}"
        );
        assert!(
            calibrate::page(&document)
                .to_text(View::full())
                .starts_with(first),
            "{line}"
        );
        assert_eq!(calibrate::csv(body).unwrap().lines().count(), 2);
    }
}

#[test]
fn every_curve_fits_its_schema_falls_or_rises_and_is_drawn() {
    for (line, rises) in [
        ("account curve --sigma 1.1 --points 9", false),
        (
            "account curve --sigma 1.1 --what epsilon --neighbours replace",
            false,
        ),
        (
            "account curve --sigma 1.1 --what trade-off --points 7 --group 2",
            true,
        ),
        ("account curve --sigma 1.1 --what renyi --points 7", true),
        (
            "account curve --sigma 1.1 --what blow-up --group 5 --at 1e-77,1e-9,0.5",
            true,
        ),
        (
            "account curve --sigma 1.1 --sample-rate 1 --steps 1 --what profile --at 0,1,inf",
            false,
        ),
        ("account curve --over sigma --points 5", false),
        (
            "account curve --over sample-rate --sigma 1.1 --epochs 2 --from 0.01 --to 0.5 --points 4",
            true,
        ),
        (
            "account curve --over steps --sigma 1.1 --to 1000 --points 5 --group 2 --delta 1e-5",
            true,
        ),
        ("account curve --over gamma --sigma 1.1 --at 0,0.01,1", true),
    ] {
        let Command::Curve(wish) = command(line) else {
            panic!("{line} is no curve");
        };
        let document = curve::curve(&wish).unwrap();
        let json = document.to_text().unwrap();
        fits("curve", &json);
        let points = &document.body.points;
        let ends = |p: &curve::CurvePoint| {
            (
                p.value.lower.unwrap().get().0,
                p.value.upper.unwrap().get().0,
            )
        };
        for pair in points.windows(2) {
            let (before, after) = (ends(&pair[0]), ends(&pair[1]));
            assert!(
                before.0 <= before.1 && pair[0].at.0 < pair[1].at.0,
                "{line}: {pair:?}"
            );
            let ordered = if rises {
                before.0 <= after.1
            } else {
                after.0 <= before.1
            };
            assert!(ordered, "{line}: {pair:?}");
        }
        assert!(
            curve::figure(&document).to_svg().unwrap().contains("<svg"),
            "{line}"
        );
        assert_eq!(
            curve::csv(&document.body).unwrap().lines().count(),
            1 + points.len()
        );
        let shown = curve::page(&document).to_text(View::full());
        assert!(shown.lines().all(|l| l == l.trim_end()), "{shown}");
    }
}

/// An ε of 3.5e-10 and the rounding of a crossing are of one size at this rate.
#[test]
fn a_curve_says_where_its_ends_are_wider_than_asked() {
    let shown = |at: &str| {
        let line = format!(
            "account curve --sigma 25.62 --sample-rate 1.126e-10 --steps 1 --what epsilon --at {at}"
        );
        let Command::Curve(wish) = command(&line) else {
            panic!("{line} is no curve");
        };
        let document = curve::curve(&wish).unwrap();
        let shown = curve::page(&document).to_text(View {
            verbose: false,
            width: 100,
        });
        shown.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let said = "farther apart than the tolerance of";
    assert!(shown("1e-300").contains(said), "{}", shown("1e-300"));
    assert!(!shown("1e-3").contains(said), "{}", shown("1e-3"));
}

#[test]
fn every_explanation_fits_its_schema_and_names_what_decides() {
    for (line, said) in [
        (
            "account explain --sigma 1.1 --prior 1e-6",
            "contour inversion",
        ),
        (
            "account explain --sigma 20 --sample-rate 1",
            "are one Gaussian whose means lie 1.58114",
        ),
        (
            "account explain --sigma 1.1 --gamma 0.1 --at-epsilon 2 --group 3",
            "K ~ Binomial(3, 0.01)",
        ),
        (
            "account explain --sigma 1.1 --neighbours replace",
            "its own mirror image",
        ),
        (
            "account explain --sigma 0.3 --sample-rate 0.3 --steps 3",
            "Engine",
        ),
    ] {
        let Command::Explain(wish) = command(line) else {
            panic!("{line} is no explanation");
        };
        let neighbours = plan::neighbours_of(wish.question.neighbours, wish.run.schedule.sampler);
        let source = plan::Source::of_run(&wish.run, neighbours).unwrap();
        let question = plan::Question::about(source, &wish.question).unwrap();
        let document = explain::explain(&question).unwrap();
        let json = document.to_text().unwrap();
        fits("explanation", &json);
        let back: crate::contract::Envelope<explain::Explanation> =
            serde_json::from_str(&json).unwrap();
        assert_eq!(back.body.steps, document.body.steps);
        let shown = explain::page(&question, &document).to_text(View {
            verbose: true,
            width: 100,
        });
        let flat = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(said), "{line}: {shown}");
        assert!(
            shown
                .lines()
                .all(|l| l == l.trim_end()
                    && (l.starts_with("Defaults: ") || l.chars().count() <= 110)),
            "{shown}"
        );
        // What decides comes first.
        let uppers: Vec<f64> = document
            .body
            .directions
            .iter()
            .map(|way| {
                let epsilon = way.epsilon.map(|b| b.upper.unwrap().get().get());
                epsilon.unwrap_or_else(|| way.delta.unwrap().upper.unwrap().get().get())
            })
            .collect();
        assert!(
            uppers.windows(2).all(|pair| pair[0] >= pair[1]),
            "{uppers:?}"
        );
    }
}

#[test]
fn nothing_and_everything_released_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    for (name, json, said) in [
        (
            "nothing.json",
            r#"{"type":"sequence","parts":[]}"#,
            "Nothing is released.",
        ),
        (
            "bare.json",
            r#"{"type":"non-private","why":"no noise"}"#,
            "no protection (no noise)",
        ),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, json).unwrap();
        let files = [path];
        let source =
            plan::Source::of_files(&files, reticent_accounting::Neighbours::AddRemove).unwrap();
        let Command::Explain(wish) = command("account explain --sigma 1") else {
            panic!("{name}")
        };
        let question = plan::Question::about(source, &wish.question).unwrap();
        let document = explain::explain(&question).unwrap();
        fits("explanation", &document.to_text().unwrap());
        let shown = explain::page(&question, &document).to_text(View::full());
        assert!(shown.contains(said), "{shown}");
        let document = answer::answer(&question).unwrap();
        fits("guarantees", &document.to_text().unwrap());
    }
}

#[test]
fn the_papers_notebook_and_its_strict_reading() {
    // CRT's notebook: (2, 1e-5), q = 0.1, T = 100, gamma = 0.1.
    let document = answer::answer(&question(
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
    let question = question(LINES[0]);
    let document = answer::answer(&question).unwrap();
    let shown = answer::guarantees(&question, &document, None).to_text(View::full());
    for said in [
        "sample rate 0.01",
        "steps 1000",
        "delta 1e-6",
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

/// The answer fits fifteen lines of a hundred columns, and every other line is one request away.
#[test]
fn the_answer_comes_first() {
    for line in LINES {
        let question = question(line);
        let document = answer::answer(&question).unwrap();
        let brief = View {
            verbose: false,
            width: 100,
        };
        let shown = answer::guarantees(&question, &document, None).to_text(brief);
        assert!(shown.lines().count() <= 15, "{shown}");
        assert!(shown.lines().all(|l| l.chars().count() <= 100), "{shown}");
        let flat = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            flat.contains(&super::words::says(&question, &document.body.guarantees)),
            "{shown}"
        );
        assert!(shown.contains("With -v: "), "{shown}");
    }
}

/// The ends of δ count where δ was asked for.
#[test]
fn ends_farther_apart_than_asked_are_said_of_delta_too() {
    let wide = |line: &str| {
        let question = question(line);
        let document = answer::answer(&question).unwrap();
        super::words::wide(&document.body.guarantees, question.plan.tolerance)
    };
    let far = "account --sigma 0.601 --sample-rate 2.3e-7 --steps 8030 --at-epsilon 2.976e-4";
    let said = wide(far).unwrap();
    assert!(said.contains("1e-6 was asked for"), "{said}");
    let near = "account --sigma 1.1 --sample-rate 0.01 --steps 1000 --at-epsilon 1";
    assert_eq!(wide(near), None);
}

#[test]
fn a_limit_is_held_against_the_upper_end() {
    let document = answer::answer(&question("account --sigma 1.1 --group 2 --steps 100")).unwrap();
    let row = answer::headline(&document.body.guarantees).unwrap();
    assert_eq!(row.notion, Notion::GroupDp);
    let upper = row.epsilon.unwrap().upper.unwrap().get().get();
    let epsilon = |value: f64| Some(reticent_accounting::Epsilon::new(value).unwrap());
    let passed = |allowed| answer::limit(&document, allowed).map(|limit| limit.passed);
    assert_eq!(passed(None), None);
    assert_eq!(passed(epsilon(upper)), Some(false));
    assert_eq!(passed(epsilon(upper * (1.0 - 1e-9))), Some(true));
}

/// The headline's ε is about half of the one that was asked for, which had no row.
#[test]
fn the_epsilon_that_chose_the_noise_has_a_row() {
    let document = answer::in_brief(&question("account --epsilon 2 --steps 100")).unwrap();
    let rows = &document.body.guarantees;
    assert_eq!(
        answer::headline(rows).unwrap().neighbours,
        reticent_accounting::Neighbours::AddRemove
    );
    let replaced = |row: &&reticent_accounting::Guarantee| {
        row.neighbours == reticent_accounting::Neighbours::Replace && row.method == Method::Pld
    };
    let row = rows.iter().find(replaced).unwrap();
    let upper = row.epsilon.unwrap().upper.unwrap().get().get();
    assert!(1.9 < upper && upper <= 2.0, "{upper}");
}

/// A row that promises secrets nothing leads, as it does on the page of the plan.
#[test]
fn a_limit_is_held_against_what_is_not_promised_to_secrets() {
    let mut document = answer::answer(&question("account --sigma 1.1 --steps 100")).unwrap();
    let mut row = document.body.guarantees[0].clone();
    row.notion = Notion::Confidentiality;
    row.about = Some(reticent_accounting::training::Subject::Secret);
    let infinite = reticent_accounting::Epsilon::new(f64::INFINITY).unwrap();
    row.epsilon = Some(reticent_accounting::Bounds {
        lower: None,
        upper: Some(reticent_accounting::Upper::new(infinite)),
    });
    document.body.guarantees.push(row);
    let allowed = Some(reticent_accounting::Epsilon::new(1e6).unwrap());
    let limit = answer::limit(&document, allowed).unwrap();
    assert!(limit.passed && limit.promised.is_infinite());
}

/// Where δ is flat, ε is certified a thousandth less closely than the δ that a calibration asks for.
#[test]
fn the_noise_of_a_calibration_is_within_its_limit() {
    let question = question(
        "account --sigma 0.41422855 --sample-rate 6.74e-6 --steps 72 --delta 1.95e-6 --neighbours replace",
    );
    let limit = Some(reticent_accounting::Epsilon::new(0.0376).unwrap());
    let alone = answer::in_brief(&question).unwrap();
    assert!(answer::limit(&alone, limit).unwrap().passed);
    let held = answer::held_to(&question, alone, limit).unwrap();
    assert!(!answer::limit(&held, limit).unwrap().passed);
    // A limit that nothing certifies stays passed.
    let limit = Some(reticent_accounting::Epsilon::new(0.03757).unwrap());
    let held = answer::held_to(&question, answer::in_brief(&question).unwrap(), limit).unwrap();
    assert!(answer::limit(&held, limit).unwrap().passed);
}

/// δ at the limit, a tenth of which a policy that misses a tenth leaves, is more than the manifest's own.
#[test]
fn a_limit_of_a_manifest_is_held_against_its_secrets_without_redaction() {
    let given = |value: serde_json::Value| json!({"value": value, "provenance": {"from": "given", "by": "x"}});
    let step = json!({"type": "subsampled-gaussian", "noise_multiplier": 5.0, "sampling_rate": 0.1,
        "sampling": "balls-in-bins"});
    let private = json!({"noise_multiplier": given(5.0.into()), "steps": given(20.into()),
        "sampling": given("balls-in-bins".into()), "sampling_rate": given(0.1.into()),
        "steps_per_epoch": 10});
    let secrets = json!({"records": given(1.into()), "everything_private": false});
    let manifest = json!({"schema": 1, "type": "checkpoint", "recipe": "dpsgd", "unit": "record",
        "vocabulary": "pretrained", "seeded": false, "neighbours": "add-remove",
        "mechanism": {"type": "repeat", "times": 20, "each": step},
        "plan": {"run": {"recipe": "dpsgd", "private": private}, "unit": given("record".into()),
            "delta": given(1e-6.into()), "secrets": secrets, "unauthenticated_corpus": true}});
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manifest.json");
    std::fs::write(&path, manifest.to_string()).unwrap();
    let limit = Some(reticent_accounting::Epsilon::new(2.4).unwrap());
    for redaction in ["", "--gamma 0.1"] {
        let question = question(&format!(
            "account --mechanism {} {redaction}",
            path.display()
        ));
        let document = answer::in_brief(&question).unwrap();
        let held = answer::held_to(&question, document, limit).unwrap();
        let answered = answer::limit(&held, limit).unwrap();
        assert!(answered.passed, "{redaction}: {}", answered.promised);
        assert!(
            (answered.promised - 2.58228).abs() < 1e-4,
            "{}",
            answered.promised
        );
        // What the redaction leaves to one who knows the secret stands beside the manifest's own row.
        let of_secrets = |row: &&reticent_accounting::Guarantee| {
            row.notion == Notion::Confidentiality && row.method == Method::Pld
        };
        let found: Vec<_> = held.body.guarantees.iter().filter(of_secrets).collect();
        let gammas = found.iter().map(|row| row.gamma.map(|gamma| gamma.get()));
        let expected: &[Option<f64>] = match redaction {
            "" => &[None],
            _ => &[None, Some(0.1)],
        };
        assert_eq!(gammas.collect::<Vec<_>>(), expected, "{redaction}");
    }
}

#[test]
fn values_that_contradict_each_other_are_named() {
    for (line, said) in [
        (
            "account --sigma 1 --batch-size 11 --dataset-size 10",
            "--batch-size: must lie in [1, 10] (the records that noise covers), got 11",
        ),
        (
            "account --sigma 1 --labelled 10 --missed 11",
            "--missed: must lie in [0, labelled 10], got 11",
        ),
        (
            "account --sigma 1 --joint-miss 0.1",
            "--joint-miss: needs --gamma, a miss rate",
        ),
        (
            "account --sigma 1 --conservative-miss 0.1",
            "--conservative-miss: needs --gamma, a miss rate",
        ),
        (
            "account --sigma 1 --gamma 0.1 --joint-miss 0.2",
            "--joint-miss: must lie in [0, 0.1]",
        ),
        (
            "account --sigma 1 --gamma 0.1 --conservative-miss 0.05 --joint-miss 0.07",
            "--joint-miss: must lie in [0, 0.05]",
        ),
        ("account --sigma 1 --epochs 1e300", "--epochs"),
    ] {
        let why = refused(line);
        assert!(why.starts_with(said), "{line}: {why}");
    }
}

#[test]
fn the_joint_miss_is_the_most_it_can_be_when_nobody_says() {
    let joint = |line: &str| {
        question(line)
            .plan
            .redaction
            .unwrap()
            .missed_by_both()
            .get()
    };
    assert!(joint("account --sigma 1 --gamma 0.1") <= 0.0);
    assert!((joint("account --sigma 1 --gamma 0.1 --conservative-miss 0.03") - 0.03).abs() < 1e-15);
    assert!((joint("account --sigma 1 --gamma 0.1 --conservative-miss 0.3") - 0.1).abs() < 1e-15);
    assert!((joint("account --sigma 1 --gamma 0.1 --joint-miss 0.02") - 0.02).abs() < 1e-15);
}

/// Labels of both policies left a joint miss that the same rates without labels have not: every record is trained on with
/// noise.
#[test]
fn labels_of_both_policies_leave_no_joint_miss_where_every_record_has_noise() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("labels.jsonl");
    let label = |i: u32| {
        let (missed, both) = (i < 10, i < 2);
        format!("{{\"kind\":\"a\",\"missed\":{missed},\"missed_by_conservative\":{both}}}\n")
    };
    std::fs::write(&path, (0..300).map(label).collect::<String>()).unwrap();
    let run = "--sigma 1.1 --steps 100";
    let rows = |more: &str| {
        let question = question(&format!("account {run} {more}"));
        let document = answer::answer(&question).unwrap();
        let text = answer::guarantees(&question, &document, None).to_text(View::full());
        let rows = document.body.guarantees.iter();
        let rows: Vec<_> = rows
            .filter(|row| row.gamma.is_some())
            .map(|row| (row.notion, row.convention, row.missed_by_both))
            .collect();
        (rows, text)
    };
    let (labelled, text) = rows(&format!("--labels {}", path.display()));
    assert!(labelled.len() > 2);
    assert_eq!(labelled, rows("--labelled 300 --missed 10").0);
    assert!(
        !text.contains('∞') && !text.contains("has to be proved smaller"),
        "{text}"
    );
}

#[test]
fn epochs_are_no_fewer_steps_than_any_loader_takes() {
    // One that keeps its last, smaller batch takes the most: 4 of 3, 3, 3 and 1 records.
    for (line, expected, rate) in [
        ("--batch-size 3 --dataset-size 10 --epochs 1", 4, 0.3),
        (
            "--batch-size 256 --dataset-size 60000 --epochs 20",
            4700,
            256.0 / 60000.0,
        ),
        ("--sample-rate 0.01 --epochs 3", 300, 0.01),
        (
            "--sampler shuffled --batch-size 3 --dataset-size 10 --epochs 7",
            21,
            0.3,
        ),
        (
            "--sampler balls-in-bins --epoch-steps 49 --epochs 2",
            98,
            1.0 / 49.0,
        ),
        ("--sample-rate 0.28 --epochs 10", 40, 0.28),
        ("--sample-rate 0.28 --epochs 0.3", 2, 0.28),
    ] {
        let question = question(&format!("account --sigma 1 {line}"));
        let noisy = question.run.noisy().unwrap();
        assert_eq!(noisy.steps.get(), expected, "{line}");
        assert!((noisy.sampling_rate.get() - rate).abs() < 1e-15);
        assert!(!question.inputs.is_assumed("sample_rate") && !question.inputs.is_assumed("steps"));
    }
}

/// A line between two points ran below the bounds there: δ = 0.0042 at ε = 2, where 0.0209 is certified.
#[test]
fn no_line_is_drawn_below_a_bound() {
    let svg = |line: &str| {
        let Command::Curve(wish) = command(line) else {
            panic!("{line} is no curve");
        };
        let document = curve::curve(&wish).unwrap();
        curve::figure(&document).to_svg().unwrap()
    };
    let noisy = "account curve --sigma 1 --sample-rate 1 --steps 1 --neighbours add-remove";
    // One of the marks is in the legend.
    let marks = svg(&format!("{noisy} --at 0,4"));
    let promised = |svg: &str, kind: &str| {
        let drawn = |line: &&str| line.starts_with(kind) && line.contains("#D55E00");
        svg.lines().filter(drawn).count()
    };
    assert_eq!(
        (promised(&marks, "<circle"), promised(&marks, "<polyline")),
        (3, 0)
    );
    // Steps hold the larger δ until the next ε: all of their parts are level or upright.
    let plan = question(LINES[0]).plan;
    let curve = answer::figure::privacy_curve(&plan)
        .unwrap()
        .to_svg()
        .unwrap();
    let drawn = |line: &&str| line.starts_with("<polyline") && line.contains("#D55E00");
    for line in curve.lines().filter(drawn) {
        let (_, points) = line.split_once(" points=\"").unwrap();
        let points = points.split('"').next().unwrap().split_whitespace();
        let points: Vec<(&str, &str)> =
            points.map(|point| point.split_once(',').unwrap()).collect();
        let straight = |pair: &[(&str, &str)]| pair[0].0 == pair[1].0 || pair[0].1 == pair[1].1;
        assert!(points.windows(2).all(straight), "{line}");
    }
    // What is for planning has no colour of promises, and says so on the axis.
    let planned = svg("account curve --over gamma --sigma 1.1 --at 0.001,0.1");
    assert!(planned.contains("(nats), planning only") && !planned.contains("#D55E00"));
}

/// Infinite ends were left out of the figure and its axis, and where nothing else was asked for the answer was lost.
#[test]
fn infinite_ends_are_drawn_as_arrows() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.json");
    let mechanism = r#"{"type":"approx-dp","epsilon":1,"delta":1e-5,"neighbours":"add-remove"}"#;
    std::fs::write(&file, mechanism).unwrap();
    let line = format!(
        "account curve --mechanism {} --what epsilon --at",
        file.display()
    );
    let figure = |at: &str| {
        let Command::Curve(wish) = command(&format!("{line} {at}")) else {
            panic!("{line} is no curve");
        };
        curve::figure(&curve::curve(&wish).unwrap())
    };
    let svg = figure("1e-7,1e-6,1e-5,1e-4").to_svg().unwrap();
    let arrows = |line: &&str| line.starts_with("<polyline") && line.contains("#D55E00");
    assert_eq!(svg.lines().filter(arrows).count(), 2, "{svg}");
    assert!(svg.contains("1e-7"), "the axis begins where was asked");
    assert!(figure("1e-7").to_svg().is_err());
}

#[test]
fn the_curve_shows_what_the_table_says() {
    let plan = question(LINES[0]).plan;
    let svg = answer::figure::privacy_curve(&plan)
        .unwrap()
        .to_svg()
        .unwrap();
    assert!(svg.starts_with("<svg"));
    for said in ["add-remove", "planning only", "secret known"] {
        assert!(svg.contains(said), "{said}");
    }
}

/// The same number promises more of a larger unit: a file's own is not overruled.
#[test]
fn a_unit_that_a_file_tells_is_kept() {
    use reticent_accounting::UnitName;
    let unit = |name: &str| UnitName::new(name).unwrap();
    let (turn, dialogue) = (unit("turn"), unit("dialogue"));
    let error = plan::unit(Some(&dialogue), Some(&turn), false).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("--unit: must be turn, what one record is in the file, got dialogue")
    );
    assert_eq!(
        plan::unit(Some(&turn), Some(&turn), false).unwrap(),
        (Some(turn.clone()), turn.clone())
    );
    // Of two files only one tells it: the other's may be smaller.
    let error = plan::unit(None, Some(&turn), true).unwrap_err();
    assert!(error.to_string().starts_with("--unit: must be given"));
    assert!(plan::unit(Some(&turn), Some(&turn), true).is_ok());
    assert_eq!(
        plan::unit(None, None, true).unwrap(),
        (None, unit("record"))
    );
}

/// What promises nothing to the whole of one record has no noise that would.
#[test]
fn a_narrower_run_is_not_calibrated() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("mechanism.json");
    let line = format!(
        "account calibrate --mechanism {} --solve group --epsilon 10",
        path.display()
    );
    let Command::Calibrate(wish) = command(&line) else {
        panic!("{line}");
    };
    let gaussian = r#"{"type": "gaussian", "noise_multiplier": 4}"#;
    for recipe in ["crt", "jft", "sdp", "protect"] {
        let document = format!(r#"{{"recipe": "{recipe}", "mechanism": {gaussian}}}"#);
        std::fs::write(&path, document).unwrap();
        let error = calibrate::calibrate(&wish).unwrap_err().to_string();
        assert!(
            error.contains("--mechanism: ") && error.contains(recipe),
            "{error}"
        );
    }
    std::fs::write(&path, gaussian).unwrap();
    assert!(calibrate::calibrate(&wish).is_ok());
}

/// A mechanism keeps the unit that was asked about, and its reader takes no other one.
#[test]
fn an_exported_mechanism_keeps_its_unit() {
    use super::mechanism::{Around, Export, export};
    use reticent_accounting::Neighbours;
    let gaussian = r#"{"type": "gaussian", "noise_multiplier": 4}"#;
    let read = |text: &str| reticent_accounting::training::read(text, Neighbours::AddRemove);
    let run = read(gaussian).unwrap().completed();
    let unit = reticent_accounting::UnitName::new("turn").unwrap();
    let export = |not_authenticated: &[String]| {
        let around = Around {
            unit: Some(&unit),
            records: Some(100_000_000),
            not_authenticated: not_authenticated.to_vec(),
            ..Around::default()
        };
        read(&export(&run, &around, Export::Mechanism, Neighbours::AddRemove).unwrap()).unwrap()
    };
    let bare = export(&[]);
    assert_eq!(bare.unit, Some(unit.clone()));
    assert_eq!(bare.mechanism, run.mechanism);
    assert_eq!((bare.records, bare.delta), (Some(100_000_000), None));
    // And that it is based on what nobody authenticated.
    assert!(!bare.not_authenticated && export(&["manifest.json".into()]).not_authenticated);
}

/// An exported mechanism keeps the δ of its files, and in how many records of them a canary was; so does an answer.
#[test]
fn what_is_kept_of_files_keeps_their_delta_and_canaries() {
    use super::mechanism::{Around, Export, export};
    use reticent_accounting::Neighbours;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for (name, document) in [
        (
            "one.json",
            r#"{"delta": 1e-8, "canary_records": 7, "mechanism": {"type": "gaussian", "noise_multiplier": 4}}"#,
        ),
        (
            "two.json",
            r#"{"canary_records": 3, "canary_records_unknown": true, "mechanism": {"type": "gaussian", "noise_multiplier": 4}}"#,
        ),
    ] {
        std::fs::write(path(name), document).unwrap();
    }
    for (names, expected) in [
        (&["one.json"][..], (7, false)),
        (&["one.json", "two.json"][..], (7, true)),
    ] {
        let files: Vec<_> = names.iter().map(|name| path(name)).collect();
        let of_files = || plan::Source::of_files(&files, Neighbours::AddRemove).unwrap();
        let source = of_files();
        let around = Around {
            delta: source.kept_delta(),
            canary_records: source.canary_records,
            canary_records_unknown: source.canary_records_unknown,
            ..Around::default()
        };
        let run = source.completed();
        let exported = export(&run, &around, Export::Mechanism, Neighbours::AddRemove).unwrap();
        let written: serde_json::Value = serde_json::from_str(&exported).unwrap();
        assert_eq!(written["canary_records_unknown"], expected.1, "{exported}");
        let line = format!("account compose {}", path(names[0]).display());
        let Command::Compose(wish) = command(&line) else {
            panic!("{line}");
        };
        let asked = plan::Question::about(of_files(), &wish.question).unwrap();
        let answered = answer::answer(&asked).unwrap().to_text().unwrap();
        for text in [exported, answered] {
            let back = reticent_accounting::training::read(&text, Neighbours::AddRemove).unwrap();
            assert_eq!(back.delta, Some(asked.plan.delta), "{text}");
            assert_eq!(back.delta_or_default().get().to_bits(), 1e-8_f64.to_bits());
            let canaries = (back.canary_records, back.canary_records_unknown);
            assert_eq!(canaries, expected, "{text}");
        }
    }
}

/// What is read back is asked at the δ of its document, or of as many records as it names; together with others at no
/// larger one. Where nothing ties δ to a number of records, the answer says so.
#[test]
fn a_plan_read_back_keeps_its_delta() {
    use super::mechanism::{Around, Export, export};
    use reticent_accounting::Neighbours;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let line = "account --sigma 1 --batch-size 256 --dataset-size 10000000 --steps 1000";
    let plan = question(line);
    let document = answer::answer(&plan).unwrap();
    std::fs::write(path("answer.json"), document.to_text().unwrap()).unwrap();
    let plan::Run::Plan { plan: run, .. } = &plan.run else {
        panic!("{line}");
    };
    let run = run.completed(run.mechanism(), None);
    for (name, records) in [("sized.json", Some(10_000_000)), ("bare.json", None)] {
        let around = Around {
            records,
            ..Around::default()
        };
        let text = export(&run, &around, Export::Mechanism, Neighbours::AddRemove).unwrap();
        std::fs::write(path(name), text).unwrap();
    }
    let composed = |names: &[&str], delta: Option<&str>| {
        let files: Vec<String> = names.iter().map(|name| path(name)).collect();
        let flag = delta.map_or_else(String::new, |delta| format!(" --delta {delta}"));
        let line = format!("account compose {}{flag}", files.join(" "));
        let Command::Compose(wish) = command(&line) else {
            panic!("{line}");
        };
        let source = plan::Source::of_files(&wish.files, Neighbours::AddRemove).unwrap();
        plan::Question::about(source, &wish.question).unwrap()
    };
    let said = |question: &plan::Question| {
        let document = answer::answer(question).unwrap();
        words(&answer::guarantees(question, &document, None))
    };
    let delta = |value: f64| reticent_accounting::Delta::new(value).unwrap();
    let open = "delta is not tied to a number of records";
    for name in ["answer.json", "sized.json"] {
        let found = composed(&[name], None);
        assert_eq!(found.plan.delta, delta(1e-8), "{name}");
        assert_eq!(found.plan.epsilon().unwrap(), plan.plan.epsilon().unwrap());
        assert!(!said(&found).contains(open), "{name}");
        assert_eq!(composed(&["bare.json", name], None).plan.delta, delta(1e-8));
        assert_eq!(composed(&[name], Some("1e-7")).plan.delta, delta(1e-7));
        let wish = format!(
            "account calibrate --solve steps --epsilon 8 --mechanism {}",
            path(name)
        );
        let Command::Calibrate(wish) = command(&wish) else {
            panic!("{name}");
        };
        let inputs = calibrate::calibrate(&wish).unwrap().inputs;
        assert_eq!(inputs.number("delta"), Some(1e-8), "{name}");
    }
    let bare = composed(&["bare.json"], None);
    assert_eq!(bare.plan.delta, delta(1e-6));
    assert!(said(&bare).contains(open));
    assert!(!said(&plan).contains(open) && said(&question("account --sigma 1")).contains(open));
    // A large δ of one file does not raise that of several.
    let loose = answer::answer(&question("account --sigma 1 --delta 0.01")).unwrap();
    std::fs::write(path("loose.json"), loose.to_text().unwrap()).unwrap();
    assert_eq!(composed(&["loose.json"], None).plan.delta, delta(0.01));
    let both = composed(&["loose.json", "bare.json"], None);
    assert_eq!(both.plan.delta, delta(1e-6));
}

fn words(page: &crate::page::Page) -> String {
    let brief = page.to_text(View::of_terminal(false));
    brief.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What each command answers, as a page.
fn shown(line: &str) -> crate::page::Page {
    let arguments = Account::try_parse_from(line.split_whitespace()).unwrap();
    match arguments.command {
        None if arguments.plan.is_page() => {
            let run = super::plan_page::of_request(&arguments.plan.request()).unwrap();
            let document = super::plan_page::sheet(&run).unwrap();
            super::plan_page::page(&run, &document, false).unwrap()
        }
        None => {
            let question = plan::Question::new(&arguments.plan).unwrap();
            answer::guarantees(&question, &answer::in_brief(&question).unwrap(), None)
        }
        Some(Command::Explain(wish)) => {
            let neighbours =
                plan::neighbours_of(wish.question.neighbours, wish.run.schedule.sampler);
            let source = plan::Source::of_records(&wish.run, neighbours).unwrap();
            let question = plan::Question::about(source, &wish.question).unwrap();
            explain::page(&question, &explain::explain(&question).unwrap())
        }
        Some(Command::Calibrate(wish)) => calibrate::page(&calibrate::calibrate(&wish).unwrap()),
        Some(Command::Curve(wish)) => curve::page(&curve::curve(&wish).unwrap()),
        Some(Command::Compose(wish)) => {
            let source =
                plan::Source::of_files(&wish.files, plan::neighbours(wish.question.neighbours));
            let question = plan::Question::about(source.unwrap(), &wish.question).unwrap();
            answer::guarantees(&question, &answer::in_brief(&question).unwrap(), None)
        }
        Some(other) => panic!("{other:?}"),
    }
}

/// Every page says what is wrong with a δ: most said nothing.
#[test]
fn a_delta_that_protects_nobody_is_said_on_every_page() {
    let run = "--sigma 1.1 --steps 100 --sample-rate 0.01";
    let pages = |delta: &str| {
        [
            format!("account {run} {delta}"),
            format!("account --recipe dpsgd {run} {delta}"),
            format!("account explain {run} {delta}"),
            format!("account curve --over sigma --at 1,2 --steps 100 --sample-rate 0.01 {delta}"),
            format!(
                "account calibrate --epsilon 0.5 --steps 100 --sample-rate 0.01 --tolerance 1e-3 {delta}"
            ),
        ]
    };
    for (delta, said) in [
        (
            "--delta 0.01",
            Some("delta 0.01 is large: publishing everything"),
        ),
        (
            "--delta 0.002 --dataset-size 500",
            Some("delta 0.002 is not below one over the 500 records"),
        ),
        (
            "--delta 0.0004 --dataset-size 500",
            Some("delta 0.0004 times the 500 records is 0.20"),
        ),
        (
            "--delta 1e-6 --dataset-size 900000",
            Some("delta 1e-6 times the"),
        ),
        // The default is well below one over the records.
        ("--dataset-size 90000000", None),
        ("--delta 1e-6 --dataset-size 500", None),
        ("--delta 1e-4", None),
    ] {
        for line in pages(delta) {
            let page = shown(&line);
            let all = [words(&page), page.to_model_card("x")];
            for text in all {
                match said {
                    Some(said) => assert_eq!(text.matches(said).count(), 1, "{line}\n{text}"),
                    None => assert!(!text.contains("keeps such a promise"), "{line}\n{text}"),
                }
            }
        }
    }
    for line in &pages("--delta 1")[..4] {
        let text = words(&shown(line));
        assert!(
            text.contains("A delta of 1 promises nothing"),
            "{line}\n{text}"
        );
    }
    for line in &pages("--delta 0")[..3] {
        let text = words(&shown(line));
        assert!(text.contains("At delta 0 noise"), "{line}\n{text}");
    }
    // Laplace noise has a finite ε there.
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("mechanism.json");
    std::fs::write(&path, r#"{"type": "laplace", "scale": 2}"#).unwrap();
    let line = format!("account --mechanism {} --delta 0", path.display());
    let text = words(&shown(&line));
    assert!(!text.contains("At delta 0"), "{text}");
}

/// A δ of 0.9 was below one over a single record, and an ε of 0 was a promise.
#[test]
fn a_delta_is_judged_as_that_of_two_records_at_least() {
    use super::words::promises_nothing;
    let line = "account --sigma 1 --dataset-size 1 --batch-size 1 --steps 1 --delta";
    let said = |delta: &str| promises_nothing(&question(&format!("{line} {delta}")).inputs);
    assert!(said("0.9").is_some_and(|why| why.contains("the 1 record is")));
    assert_eq!(said("0.4"), None);
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("mechanism.json");
    let text = r#"{"dataset_size": 1, "delta": 0.9, "mechanism": {"type": "gaussian", "noise_multiplier": 1}}"#;
    std::fs::write(&path, text).unwrap();
    let asked = question(&format!("account --mechanism {}", path.display()));
    assert!(promises_nothing(&asked.inputs).is_some());
}

#[test]
fn one_of_anything_is_no_plural() {
    let line =
        "account --recipe sdp --sigma 2 --state-sigma 5 --states 1 --epochs 1 --assume caught";
    let text = words(&shown(line));
    let said = "sigma 2, 1 pass, and sigma 5 on 1 state a record and pass";
    assert!(text.contains(said), "{text}");
}

#[test]
fn no_zero_is_negative() {
    let line = "account --sigma 1 --steps 10 --sample-rate -0 --delta -0";
    let text = words(&shown(line));
    assert!(
        text.contains("sampling rate 0, 10 steps, delta 0"),
        "{text}"
    );
    let json = answer::answer(&question(line)).unwrap().to_text().unwrap();
    assert!(!json.contains("-0.0"), "{json}");
}

/// Whether a guess is explained was decided by the name of the unit, which anybody may choose.
#[test]
fn a_unit_called_secret_is_a_unit() {
    let run = "--sigma 1.1 --sample-rate 0.01 --steps 100";
    let text = words(&shown(&format!("account {run} --unit secret")));
    assert!(
        text.contains("A secret that only one secret holds, guessed"),
        "{text}"
    );
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("mechanism.json");
    let text = r#"{"unit": "turn", "recipe": "protect", "mechanism": {"type": "gaussian", "noise_multiplier": 2}}"#;
    std::fs::write(&path, text).unwrap();
    let text = words(&shown(&format!("account --mechanism {}", path.display())));
    assert!(!text.contains("is guessed with chance"), "{text}");
}

/// Both columns were called by ε alone, and 10000 steps had a smaller one for another relation than for this one.
#[test]
fn another_assumption_names_the_relation_of_each_column() {
    let question = question("account --sigma 1.1 --gamma 0.1");
    let shown = answer::guarantees(&question, &answer::answer(&question).unwrap(), None);
    let text = shown.to_text(View::full());
    assert!(
        text.contains("for planning: redacted secret, this content or another"),
        "{text}"
    );
    let html = shown.to_html().unwrap();
    assert!(
        html.contains(
            "ε upper: present or absent, unless the neighbouring relation is what changes."
        ),
        "{html}"
    );
}

/// An answer names the run that it is about: noise was signed for one number of steps and used for another.
#[test]
fn a_calibration_names_its_run() {
    let line = "account calibrate --epsilon 1 --batch-size 10 --dataset-size 1000 --steps 100 --tolerance 1e-3";
    let page = shown(line);
    let run = "Inputs: batch size 10, dataset size 1000, sample rate 0.01, steps 100, solve sigma";
    for text in [words(&page), page.to_model_card("calibration")] {
        assert!(text.contains(run), "{text}");
    }
}

/// ε of `account calibrate` is of a record that is present or absent, that of `audit train` of a replacement: 3.87 here,
/// which nothing said.
#[test]
fn a_calibration_names_the_epsilon_of_a_replacement() {
    let run = "--delta 1e-5 --sample-rate 0.01 --steps 5000 --tolerance 1e-3";
    let text = |more: &str| {
        words(&shown(&format!(
            "account calibrate --epsilon 2 {run} {more}"
        )))
    };
    let said = "as for secrets and canaries and in audit train --epsilon, epsilon is at most";
    let found = text("");
    assert!(found.contains(&format!("{said} 3.8")), "{found}");
    assert!(text("--by papers").contains(said));
    for other in ["--neighbours replace", "--gamma 0.1"] {
        let text = text(other);
        assert!(!text.contains(said), "{text}");
    }
}

/// What δ bounds is said in one sentence, of events. It was "but for a chance of delta", which is not so: of one Gaussian
/// release with δ 1e-5 at ε 1 the loss exceeds 1 with chance 1.6e-4.
#[test]
fn delta_is_explained_by_events_on_every_page() {
    let run = "--sigma 2 --sample-rate 0.01 --steps 100";
    for line in [
        format!("account {run}"),
        format!("account {run} --at-epsilon 1"),
        format!("account curve {run} --what profile --at 0.1,1"),
        "account curve --over sigma --at 1,2 --sample-rate 0.01 --steps 100".to_owned(),
        "account calibrate --epsilon 1 --sample-rate 0.01 --steps 100 --tolerance 1e-3".to_owned(),
    ] {
        let text = shown(&line).to_text(View::full());
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            text.matches(super::words::PROMISED).count(),
            1,
            "{line}\n{text}"
        );
        assert!(!text.contains("but for"), "{line}\n{text}");
    }
}

/// The sentence says who is compared: card and SARIF have no table that would.
#[test]
fn the_sentence_names_the_neighbouring_relation() {
    let run = "--steps 100 --sample-rate 0.01";
    for (line, relation) in [
        (format!("account --sigma 1.1 {run}"), "present or absent"),
        (
            format!("account --sigma 1.1 {run} --neighbours replace"),
            "this content or another",
        ),
        (
            format!("account --sigma 1.1 {run} --neighbours zero-out --at-epsilon 1"),
            "contribution zeroed or not",
        ),
        (
            format!("account --recipe dpsgd --sigma 1.1 {run}"),
            "present or absent",
        ),
        (
            format!("account explain --sigma 1.1 {run} --neighbours replace"),
            "this content or another",
        ),
        (
            format!("account calibrate --epsilon 2 {run} --tolerance 1e-3 --neighbours replace"),
            "this content or another",
        ),
        (
            format!("account calibrate --epsilon 2 {run} --tolerance 1e-3 --gamma 0.1"),
            "this content or another",
        ),
        (
            format!("account calibrate --tpr 0.05 --fpr 0.01 {run} --tolerance 1e-3"),
            "present or absent",
        ),
    ] {
        let page = shown(&line);
        assert!(page.said().contains(relation), "{line}\n{}", page.said());
        let sarif = page.to_sarif("x", &crate::contract::Inputs::new());
        for text in [page.to_model_card("x"), sarif] {
            assert!(text.contains(page.said()), "{text}");
        }
    }
}

/// What several runs of crt promise holds of no secret on any public side, which no other format left to -v; and no file
/// counts secrets of a single manifest alone.
#[test]
fn composed_runs_say_what_they_take_for_granted() {
    let place = tempfile::tempdir().unwrap();
    let composed = |recipe: &str| {
        let path = place.path().join(recipe);
        let document = format!(
            r#"{{"unit": "turn", "recipe": "{recipe}", "mechanism": {{"type": "gaussian", "noise_multiplier": 4}}}}"#
        );
        std::fs::write(&path, document).unwrap();
        let page = shown(&format!("account compose {0} {0}", path.display()));
        (
            page.said().to_owned(),
            [
                page.to_text(View::full())
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" "),
                page.to_model_card("guarantees"),
            ],
            words(&page),
        )
    };
    let side = "no record is on the public side of any of these runs";
    let uncounted = "is not in any manifest: each row is about one turn";
    let (said, texts, brief) = composed("crt");
    assert!(said.starts_with("Nothing is promised"), "{said}");
    assert!(brief.contains(side), "{brief}");
    // The headline says why, and what says more.
    let why = "because secrets count as missed here; account --prepared FOLDER counts them.";
    assert!(said.ends_with(why), "{said}");
    let path = place.path().join("crt");
    for more in ["", " --group 20", " --at-epsilon 2"] {
        let page = shown(&format!("account compose {}{more}", path.display()));
        assert!(page.said().ends_with(why), "{}", page.said());
    }
    for text in &texts {
        assert!(text.contains(side) && text.contains(uncounted), "{text}");
    }
    // The runs may have been prepared by several policies.
    for (recipe, each) in [
        ("jft", "the policy of each of these runs redacts"),
        ("sdp", "the policy of each of these runs finds in full"),
    ] {
        let (_, texts, _) = composed(recipe);
        for text in &texts {
            assert!(
                text.contains(each) && text.contains(uncounted) && !text.contains(side),
                "{text}"
            );
        }
    }
    let (said, texts, _) = composed("dpsgd");
    assert!(said.contains("differential privacy, one turn"), "{said}");
    for text in &texts {
        assert!(
            !text.contains("Premise:") && !text.contains(uncounted),
            "{text}"
        );
    }
}

/// As `account` of the same words says it.
fn explained(words: &str) -> (plan::Question, explain::Explanation) {
    let Command::Explain(wish) = command(&format!("account explain {words}")) else {
        panic!("{words} is no explanation");
    };
    let neighbours = plan::neighbours_of(wish.question.neighbours, wish.run.schedule.sampler);
    let source = plan::Source::of_run(&wish.run, neighbours).unwrap();
    let question = plan::Question::about(source, &wish.question).unwrap();
    let body = explain::explain(&question).unwrap().body;
    (question, body)
}

fn point(words: &str) -> f64 {
    let Command::Curve(wish) = command(&format!("account curve {words}")) else {
        panic!("{words} is no curve");
    };
    let document = curve::curve(&wish).unwrap();
    document.body.points[0].value.upper.unwrap().get().0
}

/// A promise that names nobody is one to the same neighbours in `account` and in a curve of guesses.
#[test]
fn every_command_reads_an_event_for_the_same_neighbours() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("event.json");
    let event = json!({"class_name": "EpsilonDeltaDpEvent", "epsilon": 1, "delta": 1e-5});
    std::fs::write(&path, event.to_string()).unwrap();
    let files = format!("--mechanism {}", path.display());
    let Command::Curve(wish) = command(&format!("account curve {files} --what blow-up --at 0.1"))
    else {
        panic!("{files} is no curve");
    };
    let drawn = curve::curve(&wish).unwrap().body;
    assert_eq!(
        drawn.mechanism,
        question(&format!("account {files}")).plan.mechanism
    );
    assert_eq!(drawn.neighbours, reticent_accounting::Neighbours::AddRemove);
}

/// A group has one ε and one δ, by its law or by the lemma, whichever command is asked.
#[test]
fn every_command_says_the_same_of_a_group() {
    for (words, epsilon) in [
        (
            "--sigma 1.1 --sampler balls-in-bins --epoch-steps 10 --steps 10 --group 3",
            "9.8",
        ),
        (
            "--sigma 1.8480204 --sampler without-replacement --neighbours replace --steps 100 --sample-rate 0.01 --group 4",
            "10",
        ),
    ] {
        let answered = |more: &str| {
            let document = answer::answer(&question(&format!("account {words} {more}"))).unwrap();
            answer::headline(&document.body.guarantees).unwrap().clone()
        };
        let upper =
            |row: &reticent_accounting::Guarantee| row.epsilon.unwrap().upper.unwrap().get().get();
        let row = answered("--delta 1e-6");
        assert_eq!(row.method, Method::GroupLemma, "{words}");
        let (question, body) = explained(&format!("{words} --delta 1e-6"));
        assert_eq!(body.headline, row, "{words}");
        let way = body.directions[0].epsilon.unwrap();
        let way = way.upper.unwrap().get().get();
        assert_eq!(way.to_bits(), upper(&row).to_bits(), "{words}");
        assert!(
            body.engine.starts_with("the group lemma"),
            "{}",
            body.engine
        );
        // A single record at its share of ε, where the lemma holds with equality.
        let certificate = body.directions[0].certificate.as_ref().unwrap();
        let share = upper(&row) / f64::from(row.group.unwrap().get());
        assert!((certificate.epsilon.get() / share - 1.0).abs() < 1e-12);
        let shown = explain::page(
            &question,
            &crate::contract::Envelope::new("explanation", question.inputs.clone(), body),
        );
        let shown = shown.to_text(View::full());
        let flat = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains("by the group lemma"), "{shown}");
        assert!(flat.contains("delta of a single record lies"), "{shown}");
        let at = point(&format!("{words} --what epsilon --at 1e-6"));
        assert_eq!(at.to_bits(), upper(&row).to_bits(), "{words}");
        let delta = answered(&format!("--at-epsilon {epsilon}"))
            .delta
            .unwrap()
            .get();
        let at = point(&format!("{words} --what profile --at {epsilon}"));
        assert_eq!(at.to_bits(), delta.to_bits(), "{words}");
        let (_, body) = explained(&format!("{words} --at-epsilon {epsilon}"));
        let way = body.directions[0].delta.unwrap();
        let way = way.upper.unwrap().get().get();
        assert_eq!(way.to_bits(), delta.to_bits(), "{words}");
        assert!(
            answer::figure::privacy_curve(&question.plan).is_ok(),
            "{words}"
        );
    }
}

/// What is not known of guesses leaves the rest of the answer, and is said.
#[test]
fn a_posterior_that_is_not_covered_is_left_out_alone() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("mechanism.json");
    let mixture = r#"{"type": "mixture-of-gaussians", "noise_multiplier": 1, "sensitivities": [0, 1], "probabilities": [0.9, 0.1]}"#;
    std::fs::write(&path, mixture).unwrap();
    let question = question(&format!(
        "account --mechanism {} --neighbours replace --group 4 --prior 1e-6",
        path.display()
    ));
    let document = answer::answer(&question).unwrap();
    let rows = &document.body.guarantees;
    assert!(
        rows.iter()
            .all(|row| row.notion != Notion::SecretProtection)
    );
    assert!(rows.iter().any(|row| row.method == Method::GroupLemma));
    let shown = answer::guarantees(&question, &document, None).to_text(View::full());
    let flat = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains("No chance of guessing a secret is given: "),
        "{shown}"
    );
}

/// Where the lemma alone covers a group, a redacted secret has its rows by it, whichever command is asked; a statement about
/// zeroed records holds twice.
#[test]
fn redacted_groups_are_answered_where_the_lemma_alone_is_known() {
    for sampler in [
        "--sampler without-replacement --sample-rate 0.1",
        "--sampler truncated-poisson --max-batch 3 --dataset-size 20",
    ] {
        let run = format!("--sigma 4 {sampler} --steps 10 --group 2 --delta 1e-5");
        for more in ["", "--at-epsilon 5"] {
            let line = format!("account {run} --neighbours replace --gamma 0.1 {more}");
            let line = match more {
                "" => line,
                _ => line.replace("--delta 1e-5", ""),
            };
            let question = question(&line);
            let document = answer::answer(&question).unwrap();
            let rows = document.body.guarantees.iter();
            let methods: Vec<String> = rows
                .filter(|row| row.gamma.is_some())
                .map(super::words::method)
                .collect();
            let expected = ["Prop. 6 on the group lemma", "group lemma"];
            assert_eq!(methods, expected, "{line}");
            fits("guarantees", &document.to_text().unwrap());
            let shown = answer::guarantees(&question, &document, None).to_text(View::full());
            assert!(!shown.contains("No row of a redacted"), "{shown}");
        }
        assert!(point(&format!("{run} --over gamma --at 0.1")).is_finite());
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("event.json");
    let event = r#"{"type":"pure-dp","epsilon":1,"neighbours":"zero-out"}"#;
    std::fs::write(&path, event).unwrap();
    let neighbours = reticent_accounting::Neighbours::ZeroOut;
    let source = plan::Source::of_files(&[path], neighbours).unwrap();
    let line = "account explain --sigma 1 --neighbours zero-out --gamma 0.1";
    let Command::Explain(wish) = command(line) else {
        panic!("{line}")
    };
    let question = plan::Question::about(source, &wish.question).unwrap();
    let document = answer::answer(&question).unwrap();
    // Contents are exchanged by way of the zeroed record.
    let mut rows = document.body.guarantees.iter();
    assert!(rows.any(
        |row| row.gamma.is_some() && row.neighbours == reticent_accounting::Neighbours::Replace
    ));
}

/// The rows at a calibrated value keep what was asked, there and under `account --max-epsilon`.
#[test]
fn a_calibration_of_a_group_keeps_its_own_limit() {
    let run = "--sampler without-replacement --neighbours replace --steps 100 --sample-rate 0.01";
    for more in ["--group 4", "--group 2 --tolerance 1e-3"] {
        let Command::Calibrate(wish) =
            command(&format!("account calibrate --epsilon 10 {run} {more}"))
        else {
            panic!("no calibration");
        };
        let body = calibrate::calibrate(&wish).unwrap().body;
        let row = answer::headline(&body.guarantees).unwrap();
        assert_eq!(row.method, Method::GroupLemma);
        let upper = row.epsilon.unwrap().upper.unwrap().get().get();
        assert!(upper <= 10.0, "{more}: {upper}");
        let sigma = crate::number::rounded_up(body.answer, 8);
        let group = more.split(" --tolerance").next().unwrap();
        let question = question(&format!("account --sigma {sigma} {run} {group}"));
        let limit = reticent_accounting::Epsilon::new(10.0).unwrap();
        let document = answer::answer(&question).unwrap();
        let held = answer::held_to(&question, document, Some(limit)).unwrap();
        let limit = answer::limit(&held, Some(limit)).unwrap();
        assert!(!limit.passed, "{more}: {}", limit.promised);
    }
}

/// What runs so often is the file, whose own steps are not counted; one of something is singular.
#[test]
fn a_calibration_counts_runs_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.json");
    let json = r#"{"type":"repeat","times":1000,"each":{"type":"subsampled-gaussian","noise_multiplier":1.1,"sampling_rate":0.01,"sampling":"poisson"}}"#;
    std::fs::write(&path, json).unwrap();
    for (epsilon, said) in [
        ("2", "1 run of the file keeps epsilon"),
        ("8", " runs of the file keep epsilon"),
    ] {
        let line = format!(
            "account calibrate --solve steps --epsilon {epsilon} --mechanism {}",
            path.display()
        );
        let Command::Calibrate(wish) = command(&line) else {
            panic!("{line} is no calibration");
        };
        let document = calibrate::calibrate(&wish).unwrap();
        let shown = calibrate::page(&document).to_text(View::full());
        let flat = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(said), "{shown}");
        assert!(flat.starts_with("The most runs of the file"), "{shown}");
    }
}
