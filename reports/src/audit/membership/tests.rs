use super::*;
use crate::audit::args::{Audit, Command};
use crate::page::View;
use crate::schema::problems;
use clap::Parser;
use std::path::Path;

fn args(arguments: &[&str]) -> MembershipArgs {
    let line = ["audit", "membership"].iter().chain(arguments);
    match Audit::try_parse_from(line).unwrap().command {
        Command::Membership(args) => args,
        other => panic!("{other:?}"),
    }
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn report(args: &MembershipArgs) -> Result<MembershipReport> {
    let confidence = Confidence::new(0.95).unwrap();
    MembershipReport::of(read::read(args)?, args, confidence)
}

/// 400 members half a unit above 400 non-members, evenly spread; group i/4, a text for each.
fn rows(columns: &str, shift: f64) -> String {
    let mut out = format!("{columns}\n");
    for i in 0..800 {
        let member = u32::from(i < 400);
        let place = f64::from(i * 37 % 400) / 200.0;
        let score = place + shift * f64::from(member);
        let line: Vec<String> = columns
            .split(',')
            .map(|column| match column {
                "id" => format!("r{i}"),
                "member" => member.to_string(),
                "score" => score.to_string(),
                "group" => format!("g{}", i / 4),
                "text" => format!("order {} of {}", i % 7, i % 11),
                _ => "other".to_owned(),
            })
            .collect();
        out.push_str(&line.join(","));
        out.push('\n');
    }
    out
}

#[test]
fn documents_fit_their_schema() {
    let folder = tempfile::tempdir().unwrap();
    for (index, (columns, extra)) in [
        ("id,member,score", vec![]),
        ("score,id,group,member,note", vec!["--fpr", "0.01,0.1"]),
        ("id,member,score,text", vec!["--threshold", "1"]),
        ("id,member,score,group,text", vec!["--lower-is-member"]),
    ]
    .into_iter()
    .enumerate()
    {
        let path = write(folder.path(), &format!("{index}.csv"), &rows(columns, 0.5));
        let mut line = vec!["--scores", &path];
        line.extend(extra);
        let args = args(&line);
        let report = report(&args).unwrap();
        assert_eq!(report.groups.is_some(), columns.contains("group"));
        assert_eq!(report.blind.is_some(), columns.contains("text"));
        let inputs = inputs(&args, report.confidence).unwrap();
        let text = Envelope::new("membership", inputs, &report)
            .to_text()
            .unwrap();
        assert_eq!(
            problems("membership.schema.json", &text),
            Vec::<String>::new(),
            "{columns}"
        );
    }
}

#[test]
fn the_signal_is_said_whichever_way_it_points() {
    let folder = tempfile::tempdir().unwrap();
    for (shift, lower, expected) in [
        (0.5, false, Signal::Leak),
        (0.5, true, Signal::Reversed),
        (-0.5, true, Signal::Leak),
        (0.0, false, Signal::Unseen),
    ] {
        let path = write(folder.path(), "scores.csv", &rows("id,member,score", shift));
        let mut line = vec!["--scores", &path];
        if lower {
            line.push("--lower-is-member");
        }
        let args = args(&line);
        let report = report(&args).unwrap();
        assert_eq!(report.signal, expected, "{shift} {lower}");
        let inputs = inputs(&args, report.confidence).unwrap();
        let text = page::page(&report, &args, Exit::Finished, &[], &inputs).unwrap();
        let text = text.to_text(View::full());
        assert!(text.contains("2\u{202f}995 non-members needed"), "{text}");
        assert!(
            text.contains("assumed: fpr [0.01,0.001], confidence 0.95"),
            "{text}"
        );
    }
}

/// Members are about something else: the texts tell as much as the scores.
#[test]
fn a_shifted_split_proves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let text = rows("id,member,score,text", 0.5);
    let shifted: String = text
        .lines()
        .map(|line| if line.contains(",1,") { line.replace("order", "invoice") } else { line.to_owned() } + "\n")
        .collect();
    let path = write(folder.path(), "scores.csv", &shifted);
    let report = report(&args(&["--scores", &path])).unwrap();
    assert!(report.blind.unwrap().shifted);
    assert_eq!(report.signal, Signal::ShiftedSplit);
}

#[test]
fn two_files_say_what_one_says() {
    let folder = tempfile::tempdir().unwrap();
    let all = rows("id,member,score", 0.5);
    let one = write(folder.path(), "all.csv", &all);
    let part = |member: &str| -> String {
        let kept = all.lines().filter_map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            (cells[1] == member || cells[1] == "member")
                .then(|| format!("{},{}\n", cells[0], cells[2]))
        });
        kept.collect()
    };
    let (a, b) = (
        write(folder.path(), "in.csv", &part("1")),
        write(folder.path(), "out.csv", &part("0")),
    );
    let together = report(&args(&["--scores", &one])).unwrap();
    let apart = report(&args(&["--members", &a, "--non-members", &b])).unwrap();
    assert_eq!(together, apart);
    let error = report(&args(&["--members", &a, "--non-members", &a])).unwrap_err();
    let said = crate::contract::describe(&error);
    assert!(
        said.starts_with("--non-members: ") && said.contains("ids must differ"),
        "{said}"
    );
}

#[test]
fn bad_rows_name_file_line_value_and_range() {
    let folder = tempfile::tempdir().unwrap();
    for (text, says) in [
        ("id,member\na,1\n", "line 1: no column score"),
        (
            "id,member,score\na,1,0.5\nb,2,0.5\n",
            "line 3: member must be 1 or 0",
        ),
        (
            "id,member,score\na,1,NaN\n",
            "line 2: score must be a number, inf or -inf",
        ),
        ("id,member,score\na,1,\n", "line 2: score must be a number"),
        (
            "id,member,score\na,1,1\na,0,2\n",
            "line 3: the id \"a\" is at",
        ),
        ("id,member,score\na,1\n", "line 2"),
        ("id,member,score\n,1,1\n", "the id must not be empty"),
        (
            "id,member,score,group\na,1,1,\n",
            "the group must not be empty",
        ),
        ("id,member,score\na,1,1\n", "no non-member was given"),
        ("id,member,score,group\na,1,1,g\nb,0,2,h\n", "[10, inf)"),
        ("", "line 1: no column id"),
    ] {
        let path = write(folder.path(), "scores.csv", text);
        let error = report(&args(&["--scores", &path])).unwrap_err();
        let said = crate::contract::describe(&error);
        assert!(said.contains(says), "{text:?}: {said}");
    }
    for (line, says) in [
        (
            vec!["--scores", "x", "--fpr", "0"],
            "must be a rate in [1e-15, 1), got \"0\"",
        ),
        (
            vec!["--scores", "x", "--members", "y"],
            "cannot be used with",
        ),
        (vec!["--members", "y"], "--non-members"),
        (vec![], "required"),
    ] {
        let line = ["audit", "membership"].into_iter().chain(line);
        let error = Audit::try_parse_from(line).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn infinite_scores_count_and_are_spelled() {
    let folder = tempfile::tempdir().unwrap();
    let text = rows("id,member,score", 0.5).replacen("r3,1,", "r3,1,inf\nr3b,1,", 1);
    let path = write(folder.path(), "scores.csv", &text);
    let report = report(&args(&["--scores", &path, "--threshold", "inf"])).unwrap();
    let text = Envelope::new("membership", Inputs::new(), &report)
        .to_text()
        .unwrap();
    assert!(text.contains("\"inf\"") && !text.contains("null"), "{text}");
}

#[test]
fn the_plot_has_curve_band_and_chance() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "scores.csv", &rows("id,member,score", 0.5));
    let svg = figure::roc(&report(&args(&["--scores", &path])).unwrap())
        .unwrap()
        .to_svg()
        .unwrap();
    assert!(
        svg.contains("<polygon") && svg.contains("chance") && svg.contains("95 % interval"),
        "{svg}"
    );
}
