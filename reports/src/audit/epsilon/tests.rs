use super::*;
use crate::audit::args::{Audit, Command};
use crate::page::View;
use crate::schema::fits;
use clap::Parser;

fn args(line: &str) -> EpsilonArgs {
    match Audit::try_parse_from(line.split_whitespace())
        .unwrap()
        .command
    {
        Command::Epsilon(args) => args,
        other => panic!("{other:?}"),
    }
}

fn report(line: &str) -> (EpsilonReport, Inputs) {
    let args = args(line);
    let terms = terms(&args).unwrap();
    let report = EpsilonReport::of(counts(&args).unwrap(), &terms).unwrap();
    (report, inputs(&args, &terms).unwrap())
}

#[test]
fn documents_fit_their_schema() {
    for line in [
        "audit epsilon --counts 1000,100,95",
        "audit epsilon --counts 100,100,100 --delta 0 --unit turn --copies 20 --neighbours replace",
        "audit epsilon --rates 480,500,12,500 --delta 1e-6 --max-epsilon 1",
    ] {
        let (report, inputs) = report(line);
        let text = Envelope::new("epsilon", inputs, &report).to_text().unwrap();
        fits("epsilon", &text);
    }
}

fn text(line: &str) -> String {
    let (report, inputs) = report(line);
    let page = page::page(&report, &args(line), &inputs).unwrap();
    page.to_text(View::full())
}

/// The default is that of every audit.
#[test]
fn delta_has_one_default() {
    let args = args("audit epsilon --counts 1000,100,95");
    let terms = terms(&args).unwrap();
    assert_eq!(terms.delta, TrainingPlan::default_delta(None));
    let inputs = inputs(&args, &terms).unwrap();
    assert!(inputs.assumed_line().unwrap().contains("delta 1e-6"));
}

#[test]
fn a_pure_bound_says_that_it_is_one_and_has_no_gaussian_beside_it() {
    let line = "audit epsilon --counts 100,100,100 --delta 0";
    assert_eq!(report(line).0.bounds.len(), 1);
    let text = text(line);
    assert!(
        text.contains("3.492") && text.contains("it meets no ε of a positive δ"),
        "{text}"
    );
}

#[test]
fn what_was_assumed_is_said() {
    let text = text("audit epsilon --counts 1000,100,95 --delta 1e-5");
    assert!(text.contains("2.165") && text.contains("3.323"), "{text}");
    assert!(
        text.contains("Defaults: confidence 0.95, neighbours add-remove, unit record, copies 1"),
        "{text}"
    );
}

/// The limit meets the bound without a family, not the larger one that assumes a Gaussian.
#[test]
fn the_limit_meets_the_bound_that_assumes_nothing() {
    for (limit, exit) in [
        ("2.1", Exit::Exceeded),
        ("2.2", Exit::Finished),
        ("3", Exit::Finished),
    ] {
        let line = format!("audit epsilon --counts 1000,100,95 --max-epsilon {limit}");
        let (report, _) = report(&line);
        assert_eq!(report.exit(&args(&line)), exit, "{limit}");
    }
}

#[test]
fn impossible_counts_name_argument_value_and_range() {
    for (line, says) in [
        (
            "audit epsilon --counts 10,11,1",
            "r (guesses) must lie in [0, m], got 11 of m = 10",
        ),
        (
            "audit epsilon --counts 10,5",
            "must be 3 whole numbers m,r,v with v <= r <= m, got \"10,5\"",
        ),
        (
            "audit epsilon --rates 3,2,0,1",
            "tp (true positives) must lie in [0, n_in]",
        ),
        (
            "audit epsilon --counts 9,9,9 --delta 2",
            "delta must lie in [0, 1], got 2",
        ),
        (
            "audit epsilon --counts 9,9,9 --confidence 1",
            "confidence must lie in (0, 1), got 1",
        ),
        (
            "audit epsilon --counts 9,9,9 --neighbours both",
            "add-remove, zero-out, replace",
        ),
        (
            "audit epsilon --counts 9,9,9 --rates 1,1,1,1",
            "cannot be used with",
        ),
        ("audit epsilon", "required"),
    ] {
        let error = Audit::try_parse_from(line.split_whitespace())
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{line}: {error}");
    }
}

#[test]
fn the_page_says_what_the_text_says() {
    for (line, alarm) in [
        ("audit epsilon --counts 1000,100,95 --delta 1e-5", false),
        (
            "audit epsilon --counts 1000,100,95 --delta 1e-5 --max-epsilon 2",
            true,
        ),
        // A limit that is kept is mentioned too.
        (
            "audit epsilon --counts 1000,100,95 --delta 1e-5 --max-epsilon 3",
            false,
        ),
        ("audit epsilon --counts 1000,100,50", false),
    ] {
        let args = args(line);
        let (report, inputs) = report(line);
        let html = page::page(&report, &args, &inputs)
            .unwrap()
            .to_html()
            .unwrap();
        assert_eq!(html.contains("role=\"alert\""), alarm, "{line}");
        assert_eq!(html.contains("above the limit of 2"), alarm, "{line}");
        let kept = html.contains("ε is not certainly above the limit of 3 (--max-epsilon).");
        assert_eq!(kept, line.ends_with(" 3"), "{line}");
        let found = report.bounds[0].lower.get().get();
        let says = if found > 0.0 {
            "ε is at least 2.165."
        } else {
            "No positive ε is refuted."
        };
        assert!(html.contains(says) && html.contains("<svg"), "{line}");
    }
}

/// Trials that could not have refuted an ε, or passed the limit, say nothing where they refute none.
#[test]
fn what_could_not_have_been_shown_is_open() {
    for (line, mood, says) in [
        (
            "audit epsilon --counts 1000,100,50",
            Mood::Plain,
            "With every guess right",
        ),
        (
            "audit epsilon --counts 3,3,3",
            Mood::Open,
            "Nothing can be concluded: so few counts refute no positive ε at any δ",
        ),
        (
            "audit epsilon --counts 1000,100,50 --delta 0.5",
            Mood::Open,
            "Nothing can be concluded: at δ = 0.5 such counts",
        ),
        (
            "audit epsilon --counts 1000,100,50 --max-epsilon 4",
            Mood::Open,
            "No positive ε",
        ),
        (
            "audit epsilon --counts 1000,100,50 --max-epsilon 1",
            Mood::Plain,
            "No positive ε",
        ),
        (
            "audit epsilon --counts 1000,100,95",
            Mood::Review,
            "ε is at least",
        ),
        (
            "audit epsilon --counts 1000,100,95 --max-epsilon 2",
            Mood::Alarm,
            "above the limit of 2.",
        ),
        (
            "audit epsilon --counts 1000,1000,0 --max-epsilon 1",
            Mood::Open,
            "Nothing can be concluded: guesses are wrong",
        ),
        (
            "audit epsilon --rates 2,2,0,2",
            Mood::Open,
            "Nothing can be concluded",
        ),
    ] {
        let (report, inputs) = report(line);
        let page = page::page(&report, &args(line), &inputs).unwrap();
        assert_eq!(page.has_mood(), mood, "{line}");
        assert!(page.said().contains(says), "{line}: {}", page.said());
        assert!(report.found() <= report.provable.get().get());
    }
}
