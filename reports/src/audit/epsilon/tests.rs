use super::*;
use crate::audit::args::{Audit, Command};
use crate::page::View;
use crate::schema::problems;
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
        assert_eq!(
            problems("epsilon.schema.json", &text),
            Vec::<String>::new(),
            "{text}"
        );
    }
}

fn text(report: &EpsilonReport, inputs: &Inputs) -> String {
    let page = page::page(report, None, Exit::Finished, inputs).unwrap();
    page.to_text(View::full())
}

#[test]
fn a_pure_bound_says_that_it_is_one_and_has_no_gaussian_beside_it() {
    let (report, inputs) = report("audit epsilon --counts 100,100,100 --delta 0");
    assert_eq!(report.bounds.len(), 1);
    let text = text(&report, &inputs);
    assert!(
        text.contains("3.492") && text.contains("it meets no ε of a positive δ"),
        "{text}"
    );
}

#[test]
fn what_was_assumed_is_said() {
    let (report, inputs) = report("audit epsilon --counts 1000,100,95 --delta 1e-5");
    let text = text(&report, &inputs);
    assert!(text.contains("2.165") && text.contains("3.323"), "{text}");
    assert!(
        text.contains("assumed: confidence 0.95, neighbours add-remove, unit record, copies 1"),
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
        ("audit epsilon --counts 1000,100,50", false),
    ] {
        let args = args(line);
        let (report, inputs) = report(line);
        let limit = args.max_epsilon.map(Epsilon::get);
        let exit = report.exit(&args);
        let html = page::page(&report, limit, exit, &inputs)
            .unwrap()
            .to_html()
            .unwrap();
        assert_eq!(html.contains("role=\"alert\""), alarm, "{line}");
        assert_eq!(html.contains("above the limit of 2"), alarm, "{line}");
        let found = report.bounds[0].lower.get().get();
        let says = if found > 0.0 {
            "ε is at least 2.165."
        } else {
            "No positive ε is refuted."
        };
        assert!(html.contains(says) && html.contains("<svg"), "{line}");
    }
}
