use super::*;
use crate::audit::args::{Audit, Command};
use crate::page::View;
use crate::schema::fits;
use clap::Parser;
use std::path::Path;

fn args(folder: &Path, pattern: &str, more: &str) -> FigureArgs {
    let pattern = folder.join(pattern).display().to_string();
    let words = ["audit", "figure", &pattern]
        .into_iter()
        .chain(more.split_whitespace());
    match Audit::try_parse_from(words).unwrap().command {
        Command::Figure(args) => args,
        other => panic!("{other:?}"),
    }
}

fn write(folder: &Path, name: &str, max: f64, null: f64) {
    let text = format!(
        r#"{{"schema": 1, "type": "exposure", "inputs": {{}}, "summary": {{"max": {max}, "null_max_mean": {null}}}, "epsilon": {{"lower": 0.5}}}}"#
    );
    std::fs::write(folder.join(name), text).unwrap();
}

fn corpus() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for (name, max) in [
        ("sgd-0.5-0.json", 19.0),
        ("sgd-0.5-1.json", 18.0),
        ("sgd-0-0.json", 4.0),
        ("crt-0.5-0.json", 3.0),
        ("crt-0-0.json", 5.0),
    ] {
        write(home.path(), name, max, 4.2);
    }
    std::fs::write(home.path().join("notes.txt"), "no document").unwrap();
    home
}

/// A cell that failed, or that was asked for something else, takes no figure along, and is named.
#[test]
fn cells_without_the_quantity_are_left_out_and_named() {
    let home = corpus();
    let other = r#"{"schema": 1, "type": "grid-cell", "inputs": {}, "failed": "why"}"#;
    std::fs::write(home.path().join("bert-0-0.json"), other).unwrap();
    let of = |pattern| gathered(&args(home.path(), pattern, "--y exposure"));
    let whole = of("{line}-{x}-{}.json").unwrap();
    assert_eq!(whole.lines.len(), 2);
    let page = whole.to_page(false, false).unwrap();
    let says = "Left out, as failed or without such a number: 1 cell, ";
    assert!(page.said().contains(says) && page.said().contains("bert-0-0.json"));
    assert!(whole.plot(false, false).to_svg().unwrap().contains(says));
    // A misspelt quantity was called missing, without its name.
    let error = format!("{:#}", of("bert-{x}-{}.json").unwrap_err());
    let cause = "bert-0-0.json: --y: a document of type grid-cell holds no summary.max";
    assert!(error.starts_with("PATTERN: no document") && error.ends_with(cause));
    // Of other documents one that lacks it is an error.
    let other = other.replace("grid-cell", "exposure");
    std::fs::write(home.path().join("bert-0-0.json"), other).unwrap();
    let error = format!("{:#}", of("{line}-{x}-{}.json").unwrap_err());
    assert!(
        error.contains("a document of type exposure holds no summary.max"),
        "{error}"
    );
}

#[test]
fn repetitions_are_averaged_and_lines_told_apart() {
    let home = corpus();
    let args = args(
        home.path(),
        "{line}-{x}-{}.json",
        "--y exposure --x-label gamma",
    );
    let report = gathered(&args).unwrap();
    let shown: Vec<String> = report
        .lines
        .iter()
        .flat_map(|line| line.points.iter().map(move |point| (line, point)))
        .map(|(line, p)| format!("{} {} {} {}", line.line, p.x, p.mean, p.values.len()))
        .collect();
    assert_eq!(
        shown,
        ["crt 0 5 1", "crt 0.5 3 1", "sgd 0 4 1", "sgd 0.5 18.5 2"]
    );
    assert_eq!(report.without_a_leak, Some(4.2));
    let text = report.to_page(false, false).unwrap().to_text(View::full());
    assert!(
        text.contains("gamma") && text.contains("Without a leak it is 4.20 on average"),
        "{text}"
    );
    let svg = report.plot(false, false).to_svg().unwrap();
    assert!(svg.contains("sgd") && svg.contains("largest exposure (bits)"));
    let document = Envelope::new("figure", Inputs::new(), &report)
        .to_text()
        .unwrap();
    fits("figure", &document);
}

/// The table of a long run's log is thinned, unless everything is asked for.
#[test]
fn a_long_line_is_short_at_first() {
    let home = tempfile::tempdir().unwrap();
    let log: String = (1..=54)
        .map(|step| format!("{{\"step\":{step},\"loss\":{}}}\n", 60 - step))
        .collect();
    std::fs::write(home.path().join("sgd.jsonl"), log).unwrap();
    let args = args(home.path(), "{line}.jsonl", "--y loss --x step");
    let page = gathered(&args).unwrap().to_page(false, false).unwrap();
    let rows = |text: &str| text.lines().filter(|row| row.starts_with("sgd ")).count();
    let brief = View {
        verbose: false,
        width: 100,
    };
    let brief = page.to_text(brief);
    assert_eq!(rows(&brief), BRIEFLY, "{brief}");
    assert!(
        brief.contains("54 points") && brief.contains("\n6 of 54 points.\n"),
        "{brief}"
    );
    assert_eq!(rows(&page.to_text(View::full())), 54);
}

/// The pattern that `audit grid --help` prints, on an arm that it names: its 2 is no miss rate.
#[test]
fn numbers_in_the_name_of_an_arm_are_no_x() {
    let home = tempfile::tempdir().unwrap();
    let cell = |name: &str, kind: &str, arm: &str, max: f64| {
        let text = format!(
            r#"{{"schema": 1, "type": "{kind}", "inputs": {{}}, "arm": "{arm}", "exposure": {{"summary": {{"max": {max}}}}}, "summary": {{"max": {max}}}}}"#
        );
        std::fs::write(home.path().join(name), text).unwrap();
    };
    for (arm, rate, max) in [
        ("crt", "0", 1.0),
        ("crt-2", "0", 2.0),
        ("crt-2", "0.5", 3.0),
    ] {
        let name = format!("{arm}-{rate}-1-plain-lstm-seed0.json");
        cell(&name, "grid-cell", arm, max);
    }
    let drawn = |pattern: &str| -> Vec<String> {
        let found = gathered(&args(home.path(), pattern, "--y exposure")).unwrap();
        let lines = found.lines.iter().flat_map(|line| {
            let points = line.points.iter();
            points.map(move |point| format!("{} {} {}", line.line, point.x, point.mean))
        });
        lines.collect()
    };
    assert_eq!(
        drawn("{line}-{x}-{}.json"),
        ["crt 0 1", "crt-2 0 2", "crt-2 0.5 3"]
    );
    // A pattern that asks for another line gets it.
    assert_eq!(drawn("crt-2-{line}-{x}-{}.json"), ["0 1 2", "0.5 1 3"]);
    // Other documents have no arm that would tell.
    cell("sgd-2-0.5-a.json", "exposure", "sgd-2", 4.0);
    assert_eq!(drawn("s{line}-{x}-{}.json"), ["gd 2 4"]);
}

#[test]
fn x_may_stand_in_the_documents() {
    let home = corpus();
    let report = gathered(&args(
        home.path(),
        "{line}-{}.json",
        "--y exposure --x epsilon",
    ))
    .unwrap();
    assert_eq!(report.x, "ε at least");
    assert_eq!(report.lines[1].points.len(), 1, "{report:?}");
    assert_eq!(report.lines[1].points[0].values, [4.0, 19.0, 18.0]);
    // Two measured quantities: a line through two repetitions would look like a trend.
    assert!(
        !report.caption().contains("lines through"),
        "{}",
        report.caption()
    );
}

/// A setting had no line through its means, and one log joined what was measured in other documents.
#[test]
fn means_are_joined_unless_x_was_measured() {
    let home = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(home.path().join(name), text).unwrap();
    let drawn = |pattern: &str, x: &str| -> (Vec<bool>, bool) {
        let more = format!("--y summary.max --x {x}");
        let report = gathered(&args(home.path(), pattern, &more)).unwrap();
        let lines = report.lines.iter().map(|line| line.joined);
        let says = report.caption().contains("lines through their means");
        (lines.collect(), says)
    };
    for (name, kind) in [("sgd-0.json", "exposure"), ("cell.json", "grid-cell")] {
        let text = format!(
            r#"{{"schema": 1, "type": "{kind}", "inputs": {{"sigma": 1}}, "sigma": 1, "summary": {{"max": 3}}}}"#
        );
        write(name, &text);
    }
    assert_eq!(drawn("{line}-{}", "inputs.sigma"), (vec![true], true));
    assert_eq!(drawn("{line}-{}", "sigma"), (vec![false], false));
    assert_eq!(drawn("{line}.json", "sigma"), (vec![true, false], true));
    assert_eq!(drawn("c{line}.json", "summary.max"), (vec![false], false));
    write("crt-0.jsonl", r#"{"sigma": 1, "summary": {"max": 3}}"#);
    assert_eq!(drawn("{line}-{}", "sigma"), (vec![true, false], true));
}

/// A proved ε is not printed above what was proved, nor its mean.
#[test]
fn bounds_are_printed_on_their_side() {
    let home = tempfile::tempdir().unwrap();
    for (name, lower) in [("sgd-0-0.json", 1.2347), ("sgd-0-1.json", 1.2349)] {
        let text = format!(
            r#"{{"schema": 1, "type": "exposure", "inputs": {{}}, "epsilon": {{"lower": {lower}}}}}"#
        );
        std::fs::write(home.path().join(name), text).unwrap();
    }
    let report = gathered(&args(home.path(), "{line}-{x}-{}.json", "--y epsilon")).unwrap();
    let text = report.to_page(false, false).unwrap().to_text(View::full());
    // Mean, least and largest.
    assert_eq!(text.matches("1.234").count(), 3, "{text}");
    let svg = report.plot(false, false).to_svg().unwrap();
    assert!(svg.contains("sgd: from 1.23 to 1.23"), "{svg}");
    // A bound that errs in one of twenty audits is above 0 on average without any leak.
    assert_eq!(report.without_a_leak, None);
    assert!(
        report.caption().contains("at its own confidence"),
        "{}",
        report.caption()
    );
}

#[test]
fn a_null_that_documents_disagree_on_is_not_drawn() {
    let home = corpus();
    write(home.path(), "crt-1-0.json", 3.0, 3.9);
    let report = gathered(&args(home.path(), "{line}-{x}-{}.json", "--y exposure")).unwrap();
    assert_eq!(report.without_a_leak, None);
}

#[test]
fn what_cannot_be_drawn_is_refused_with_its_file() {
    let home = corpus();
    let refused = |pattern: &str, more: &str| {
        format!(
            "{:#}",
            gathered(&args(home.path(), pattern, more)).unwrap_err()
        )
    };
    for (pattern, more, says) in [
        ("{line}-{}.json", "--y exposure", "--x: must say"),
        (
            "{line}-{x}-{}.json",
            "--y exposure --x epsilon",
            "already contains {x}",
        ),
        ("{line}-{x}-{}.json", "--y auc", "crt-0-0.json: --y: "),
        ("none-{x}.json", "--y exposure", "none of the 6 entries"),
        ("missing/{x}.json", "--y exposure", "cannot read the folder"),
        (
            "notes{}",
            "--y exposure --x epsilon",
            "notes.txt is no JSON document",
        ),
    ] {
        let error = refused(pattern, more);
        assert!(error.contains(says), "{pattern} {more}: {error}");
    }
}

/// A log of a run: each line with both quantities is a point.
#[test]
fn logs_of_runs_are_drawn_line_by_line() {
    let home = tempfile::tempdir().unwrap();
    let log = concat!(
        "{\"step\":1,\"epoch\":1,\"loss\":3.5}\n",
        "{\"step\":2,\"epoch\":1,\"examples\":8,\"clipped\":6}\n",
        "{\"step\":3,\"epoch\":1,\"examples\":0,\"clipped\":0}\n",
        "{\"step\":3,\"ended\":1,\"promises\":[{\"neighbours\":\"replace\",\"delta\":1e-5,\"epsilon\":2.5}],",
        "\"held_out_perplexity\":20.25}\n",
    );
    std::fs::write(home.path().join("crt.jsonl"), log).unwrap();
    let drawn = |y: &str| {
        let more = format!("--x step --y {y}");
        gathered(&args(home.path(), "{line}.jsonl", &more)).map(|report| {
            let line = &report.lines[0];
            let point = &line.points[0];
            assert_eq!((line.line.as_str(), line.points.len()), ("crt", 1));
            (point.x, point.mean)
        })
    };
    assert_eq!(drawn("loss").unwrap(), (1.0, 3.5));
    assert_eq!(drawn("clipped-share").unwrap(), (2.0, 0.75));
    assert_eq!(drawn("promises.0.epsilon").unwrap(), (3.0, 2.5));
    assert_eq!(drawn("held_out_perplexity").unwrap(), (3.0, 20.25));
    let error = format!("{:#}", drawn("nothing").unwrap_err());
    assert!(
        error.contains("crt.jsonl") && error.contains("no line holds"),
        "{error}"
    );
}
