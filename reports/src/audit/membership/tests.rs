use super::*;
use crate::audit::args::{Audit, Command};
use crate::audit::diff::DiffReport;
use crate::page::{Mood, View};
use crate::schema::fits;
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
                "text" => format!("order {} of {}", i * 7919 % 9973, i * 5309 % 8887),
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
        fits("membership", &text);
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
        let brief = text.to_text(View {
            verbose: false,
            width: 100,
        });
        assert!(brief.lines().count() <= 15, "{brief}");
        assert!(
            !brief.contains("plug-in") && !brief.contains("Defaults"),
            "{brief}"
        );
        let text = text.to_text(View::full());
        // A caption repeated the paragraph after it.
        let said = text.replace('\n', " ");
        assert_eq!(
            said.matches("each interval holds with probability").count(),
            1
        );
        assert!(text.contains("4\u{202f}380 non-members needed"), "{text}");
        assert!(text.contains("the same, plug-in 1 %"), "{text}");
        assert_eq!(
            text.contains("This attack found no trace"),
            expected == Signal::Unseen,
            "{text}"
        );
        assert!(
            text.contains("Defaults: fpr [0.01,0.001], confidence 0.95"),
            "{text}"
        );
    }
}

/// The card gave the share of members above the certified threshold, which none of 600 non-members passes: 0.8 % at a
/// false-positive rate of 1 %, less than a coin finds. It gives the interval, and what papers report with its name.
#[test]
fn the_card_gives_an_interval_and_no_share_at_a_stricter_threshold() {
    let folder = tempfile::tempdir().unwrap();
    // 31 of 600 members above all but 6 of 600 non-members, 5 of them above all.
    let scores = (0..600).map(|i| match i {
        0..5 => (1, 3),
        5..31 => (1, 1),
        _ => (1, 0),
    });
    let others = (0..600).map(|i| if i < 6 { (0, 2) } else { (0, 0) });
    let mut text = "id,member,score\n".to_owned();
    for (at, (member, score)) in scores.chain(others).enumerate() {
        text.push_str(&format!("{at},{member},{score}\n"));
    }
    let args = args(&[
        "--scores",
        &write(folder.path(), "scores.csv", &text),
        "--fpr",
        "0.01",
    ]);
    let report = report(&args).unwrap();
    let point = &report.at_fpr[0];
    assert_eq!(
        point.found.unwrap().tpr.estimate.to_bits(),
        (5.0f64 / 600.0).to_bits()
    );
    let inputs = inputs(&args, report.confidence).unwrap();
    let page = page::page(&report, &args, Exit::Finished, &[], &inputs).unwrap();
    let card = page.to_model_card("membership");
    let bounds = crate::audit::percents(&point.found.unwrap().tpr.bounds);
    let said = format!(
        "At a false-positive rate of at most 1 % it recognises {bounds} of members (as papers report it, without a certificate: 5.2 %)"
    );
    assert!(
        card.contains(&said) && !card.contains("recognises 0.8 %"),
        "{card}"
    );
}

/// Each of several attacks has a share of the headline's failure probability, so that it can show less.
#[test]
fn what_could_be_shown_names_its_confidence() {
    assert_eq!(
        page::provable(0.9409, 1),
        "Scores that distinguished them all would show an AUC of at least 0.940."
    );
    assert_eq!(
        page::provable(0.00624, 1),
        "Scores that distinguished them all would show no AUC above 0.5."
    );
    let shared = page::provable(0.9159, 7);
    assert!(
        shared.starts_with("At the headline's confidence, shared by 7 attacks, scores that"),
        "{shared}"
    );
}

/// So few records that nothing could have been shown, or that no limit could have been passed, conclude nothing.
#[test]
fn records_that_could_show_nothing_are_open() {
    let folder = tempfile::tempdir().unwrap();
    let few = "id,member,score\na,1,3\nb,1,2\nc,0,1\nd,0,0\n";
    let many = rows("id,member,score", 0.0);
    let leak = rows("id,member,score", 1.9);
    for (text, limit, mood, says) in [
        (
            few,
            None,
            Mood::Open,
            "So few records can show no membership",
        ),
        (few, Some("0.6"), Mood::Open, "So few records"),
        (&many, None, Mood::Plain, "No sign of membership"),
        (&many, Some("0.6"), Mood::Plain, "No sign of membership"),
        (
            &many,
            Some("0.999"),
            Mood::Plain,
            "The AUC is not certainly above the limit of 0.999 (--max-auc).",
        ),
        // It was "pass" of a leak, and without a limit "review".
        (&leak, None, Mood::Review, "better than chance explains"),
        (&leak, Some("1"), Mood::Review, "which judges nothing"),
    ] {
        let path = write(folder.path(), "scores.csv", text);
        let mut line = vec!["--scores", &path];
        line.extend(limit.iter().flat_map(|limit| ["--max-auc", limit]));
        let args = args(&line);
        let report = report(&args).unwrap();
        assert!(ends(&report.area.bounds).0 <= report.provable_area);
        let inputs = inputs(&args, report.confidence).unwrap();
        let exit = report.exit(args.max_auc);
        let page = page::page(&report, &args, exit, &[], &inputs).unwrap();
        assert_eq!((page.has_mood(), exit), (mood, Exit::Finished), "{limit:?}");
        assert!(page.said().contains(says), "{}", page.said());
        // What could not have been passed is not kept.
        let open = report.undecided(args.max_auc);
        assert_eq!(
            open.is_some(),
            limit.is_some() && mood == Mood::Open,
            "{open:?}"
        );
    }
}

/// Scores of the wrong sign keep no limit, and all of 1 is none.
#[test]
fn limits_are_not_kept_by_scores_that_say_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for (shift, says) in [(-0.5, "--lower-is-member"), (0.0, "")] {
        let path = write(folder.path(), "scores.csv", &rows("id,member,score", shift));
        let open = report(&args(&["--scores", &path]))
            .unwrap()
            .undecided(Some(0.6));
        assert_eq!(open.is_some(), !says.is_empty());
        assert!(open.unwrap_or_default().contains(says));
    }
    let alike = "id,member,score\n".to_owned()
        + &(0..80)
            .map(|i| format!("{i},{},1\n", i % 2))
            .collect::<String>();
    let path = write(folder.path(), "alike.csv", &alike);
    let report = report(&args(&["--scores", &path])).unwrap();
    let open = report.undecided(Some(0.6)).unwrap();
    assert!(open.contains("whether the AUC is above 0.6 is not known, since all scores are equal"));
    assert_eq!(report.undecided(Some(1.0)), None);
}

/// Scores that lie close together for their size are not equal if they separate the sets.
#[test]
fn an_interval_decides_before_rounding_does() {
    let folder = tempfile::tempdir().unwrap();
    let of = |lines: &str| {
        let path = write(folder.path(), "scores.csv", lines);
        report(&args(&["--scores", &path])).unwrap()
    };
    let close = |member: f64, non_member: f64| {
        (0..200).fold("id,member,score\n".to_owned(), |lines, i| {
            let (is_member, least) = if i % 2 == 0 {
                (1, member)
            } else {
                (0, non_member)
            };
            lines + &format!("{i},{is_member},{}\n", 1.0 - least * f64::from(i + 1))
        })
    };
    assert_eq!(of(&close(1e-15, 1e-12)).signal, Signal::Leak);
    assert_eq!(of(&close(1e-12, 1e-15)).signal, Signal::Reversed);
    assert_eq!(of(&close(1e-12, 1e-12)).signal, Signal::Alike);
}

/// What no scores could show is no trace that an attack failed to find, in a model card either.
#[test]
fn a_model_card_says_what_so_few_records_can_show() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "one.csv", "id,member,score\na,1,2\nb,0,1\n");
    let args = args(&["--scores", &path]);
    let report = report(&args).unwrap();
    let inputs = inputs(&args, report.confidence).unwrap();
    let page = page::page(&report, &args, Exit::Finished, &[], &inputs).unwrap();
    let text = page.to_text(View::full()).replace('\n', " ");
    assert_eq!(
        text.matches("So few records can show no membership")
            .count(),
        2,
        "{text}"
    );
    assert!(!text.contains("found no trace"), "{text}");
}

/// What is certain of some members, or of another attack, passes the limit too.
#[test]
fn a_limit_is_held_against_every_area() {
    let folder = tempfile::tempdir().unwrap();
    let of = |shift: f64| {
        let path = write(folder.path(), "scores.csv", &rows("id,member,score", shift));
        report(&args(&["--scores", &path])).unwrap()
    };
    let (mut quiet, loud) = (of(0.0), of(1.9));
    assert_eq!(quiet.exit(Some(0.6)), Exit::Finished);
    let lower = |report: &MembershipReport| ends(&report.area.bounds).0;
    assert_eq!(quiet.limit_ends, [(String::new(), lower(&quiet))]);
    let of = " of members with 10 copies or more".to_owned();
    quiet.limit_ends.push((of, lower(&loud)));
    assert_eq!(quiet.exit(Some(0.6)), Exit::Exceeded);
    let args = args(&["--scores", "x.csv", "--max-auc", "0.6"]);
    let inputs = inputs(&args, quiet.confidence).unwrap();
    let page = page::page(&quiet, &args, Exit::Exceeded, &[], &inputs).unwrap();
    let said = "The AUC of members with 10 copies or more is certainly above the limit of 0.6.";
    assert!(page.said().starts_with(said), "{}", page.said());
    assert_eq!(page.has_mood(), Mood::Alarm);
}

/// Several intervals that a limit meets share the confidence: one of them is above it by chance no more often than the one.
#[test]
fn a_limit_meets_intervals_that_hold_together() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = rows("id,member,score,text", 0.2);
    let again: Vec<String> = (1..40)
        .map(|i| lines.lines().nth(i).unwrap().to_owned())
        .collect();
    for copy in ["again", "more"] {
        for line in &again {
            lines.push_str(&format!("{copy}-{line}\n"));
        }
    }
    let path = write(folder.path(), "scores.csv", &lines);
    let report = report(&args(&["--scores", &path])).unwrap();
    let shown = [&report.area].into_iter();
    let shown = shown.chain(report.copies.iter().map(|stratum| &stratum.area));
    let shown: Vec<f64> = shown.map(|area| ends(&area.bounds).0).collect();
    assert_eq!(report.limit_ends.len(), shown.len());
    assert!(shown.len() > 1, "{shown:?}");
    for ((of, end), shown) in report.limit_ends.iter().zip(shown) {
        assert!(end < &shown, "{of}: {end} {shown}");
    }
}

/// A column of `--scores-out` is not believed, and not kept back.
#[test]
fn scores_say_what_their_file_says_of_the_texts() {
    let folder = tempfile::tempdir().unwrap();
    for said in ["apart", "alike"] {
        let lines = rows("id,member,score", 0.5);
        let lines = lines.lines().enumerate().map(|(i, line)| match i {
            0 => format!("{line},texts_alone\n"),
            _ => format!("{line},{said}\n"),
        });
        let path = write(folder.path(), "said.csv", &lines.collect::<String>());
        let why = report(&args(&["--scores", &path])).unwrap().no_blind;
        let why = why.unwrap();
        assert_eq!(why.contains("texts_alone says"), said == "apart", "{why}");
    }
    // Classes are looked at beside texts alone, and not dropped without a word.
    for (columns, is_named) in [("id,member,score,class", true), ("id,member,score", false)] {
        let path = write(folder.path(), "class.csv", &rows(columns, 0.5));
        let why = report(&args(&["--scores", &path])).unwrap().no_blind;
        let why = why.unwrap();
        assert_eq!(why.contains("their column class"), is_named, "{why}");
    }
}

/// Scores without their texts say that the sets may differ in themselves, in the headline, the document and the card.
#[test]
fn scores_without_texts_say_that_the_sets_were_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    for (columns, missing) in [("id,member,score", true), ("id,member,score,text", false)] {
        let path = write(folder.path(), "scores.csv", &rows(columns, 0.5));
        let args = args(&["--scores", &path]);
        let report = report(&args).unwrap();
        assert_eq!(report.no_blind.is_some(), missing);
        let inputs = inputs(&args, report.confidence).unwrap();
        let page = page::page(&report, &args, Exit::Finished, &[], &inputs).unwrap();
        let text = page.to_text(View::full()).replace('\n', " ");
        for said in [
            "Whether the texts alone distinguish them was not checked",
            "What the texts alone give was not checked.",
            "unless the two sets differ in themselves",
        ] {
            assert_eq!(text.contains(said), missing, "{text}");
        }
        let document = Envelope::new("membership", inputs, &report)
            .to_text()
            .unwrap();
        assert_eq!(
            document.contains("\"no_blind\": \"the scores come without texts"),
            missing
        );
    }
}

/// Neither a column that is there twice nor files that were exchanged are read one way or the other.
#[test]
fn columns_twice_and_exchanged_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let twice = write(
        folder.path(),
        "twice.csv",
        "id,member,score,Score\na,1,3,1\nb,0,1,3\n",
    );
    let said = report(&args(&["--scores", &twice])).unwrap_err();
    assert!(format!("{said:#}").contains("the column score occurs twice"));
    let own = write(folder.path(), "in.csv", "id,member,score\na,1,3\n");
    let other = write(folder.path(), "out.csv", "id,member,score\nb,0,1\n");
    for (members, others) in [(&own, &own), (&other, &own)] {
        let line = ["--members", members, "--non-members", others];
        let said = report(&args(&line)).unwrap_err();
        assert!(
            format!("{said:#}").contains("are the files swapped?"),
            "{said:#}"
        );
    }
}

/// The card names what was attacked as the title does, and counts repeats among what was not left out.
#[test]
fn the_card_names_the_adapter_and_repeats_are_of_those_that_are_left() {
    let folder = tempfile::tempdir().unwrap();
    let (inside, outside) = (sentences(0..30), sentences(20..60));
    let path = write(
        folder.path(),
        "scores.csv",
        &copied(&inside, &outside, 2, 1.0),
    );
    let args_of = |line: &[&str]| args(line);
    let scores = args_of(&["--scores", &path]);
    let report = report(&scores).unwrap();
    let inputs = inputs(&scores, report.confidence).unwrap();
    let text = |args: &MembershipArgs| {
        let page = page::page(&report, args, Exit::Finished, &[], &inputs).unwrap();
        page.to_text(View::full()).replace('\n', " ")
    };
    let said = text(&scores);
    let words = "Of 60 members, 20 are judged; left out: 20 whose texts stand on both sides, 20 that repeat another's text. Of ";
    assert!(said.contains(words), "{said}");
    assert!(said.contains("Membership inference with scores"), "{said}");
    let model = args_of(&[
        "--model",
        "qbase",
        "--adapter",
        "qlora",
        "--reference",
        "qbase",
        "--members",
        "a",
        "--non-members",
        "b",
    ]);
    let said = text(&model);
    let words =
        "Membership inference of qbase with the adapter qlora, with scores against qbase on";
    assert!(said.contains(words), "{said}");
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

/// A leak says so where the texts alone may distinguish the sets as well, which is not shown either.
#[test]
fn a_leak_names_what_the_texts_may_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(
        folder.path(),
        "scores.csv",
        &rows("id,member,score,text", 1.5),
    );
    let args = args(&["--scores", &path]);
    let mut report = report(&args).unwrap();
    let inputs = inputs(&args, report.confidence).unwrap();
    let said = |report: &MembershipReport| {
        let page = page::page(report, &args, Exit::Finished, &[], &inputs).unwrap();
        page.said()
            .contains("too few were judged to exclude it with confidence 0.95")
    };
    assert_eq!((report.signal, said(&report)), (Signal::Leak, false));
    let own = report.area;
    report.blind.as_mut().unwrap().area = own;
    assert!(said(&report));
}

/// A hundred pairs of letters, each number its own.
fn word(i: usize) -> String {
    let letter = |n: usize| char::from(b'a' + (n % 26) as u8);
    [i * 7919, i * 104_729 + 3, i * 1_299_709 + 7, i]
        .map(|n| format!("{}{}", letter(n), letter(n / 26)))
        .concat()
}

/// Rows of texts under ids of their own, `copies` times each; the members from `inside`, each
/// scored `gain` above the non-members from `outside`.
fn copied(inside: &[String], outside: &[String], copies: usize, gain: f64) -> String {
    let mut out = "id,member,score,text\n".to_owned();
    for (member, texts) in [(1, inside), (0, outside)] {
        for copy in 0..if member == 1 { copies } else { 1 } {
            for (i, text) in texts.iter().enumerate() {
                let score = (i * 37 % 101) as f64 / 100.0 + gain * f64::from(member);
                out.push_str(&format!("{member}-{i}-{copy},{member},{score},{text}\n"));
            }
        }
    }
    out
}

fn sentences(range: std::ops::Range<usize>) -> Vec<String> {
    let sentence = |i: usize| {
        (0..8)
            .map(|k| word(31 * i + k))
            .collect::<Vec<_>>()
            .join(" ")
    };
    range.map(sentence).collect()
}

/// Twenty texts, sixteen times each under different ids: the texts alone tell nothing, as each
/// stands on one half only. Memorised, they are a leak; not memorised, they are none.
#[test]
fn copies_of_a_text_are_one_piece_of_evidence() {
    let folder = tempfile::tempdir().unwrap();
    let (inside, outside) = (sentences(0..20), sentences(20..60));
    for (gain, expected) in [(5.0, Signal::Leak), (0.0, Signal::Unseen)] {
        let csv = copied(&inside, &outside, 16, gain);
        let path = write(folder.path(), "scores.csv", &csv);
        let args = args(&["--scores", &path]);
        let report = report(&args).unwrap();
        assert_eq!(report.signal, expected, "{:?}", report.area);
        assert_eq!(
            (report.members, report.non_members, report.groups),
            (20, 40, None)
        );
        let blind = report.blind.unwrap();
        assert!(!blind.shifted && blind.area.estimate < 0.95, "{blind:?}");
        let repeats = report.repeats.unwrap();
        let members = repeats.members;
        assert_eq!(
            (members.records, members.texts, members.repeated),
            (320, 20, 320)
        );
        assert_eq!(
            (repeats.non_members.texts, repeats.non_members.repeated),
            (40, 0)
        );
        let inputs = inputs(&args, report.confidence).unwrap();
        let page = page::page(&report, &args, Exit::Finished, &[], &inputs).unwrap();
        let text = page.to_text(View {
            verbose: false,
            width: 200,
        });
        // The headline speaks of them, so their row is not cut.
        assert!(text.contains("AUC, blind baseline"), "{text}");
        let said = "Of 320 members, 20 are judged; left out: 300 that repeat another's text.";
        assert!(text.replace('\n', " ").contains(said), "{text}");
        let document = Envelope::new("membership", inputs, &report)
            .to_text()
            .unwrap();
        fits("membership", &document);
    }
    // Near-copies, too: another sign, another case, a word of forty.
    let long = |from: usize| (from..from + 20).map(|i| sentences(5 * i..5 * i + 5).join(" "));
    let (inside, outside): (Vec<String>, Vec<String>) = (long(0).collect(), long(20).collect());
    let near = inside.iter().enumerate().flat_map(|(i, text)| {
        [
            text.to_uppercase(),
            text.replacen(&word(155 * i), "other", 1),
            format!("{text}!"),
        ]
    });
    let all: Vec<String> = near.chain(inside.clone()).collect();
    let path = write(folder.path(), "near.csv", &copied(&all, &outside, 1, 5.0));
    let report = report(&args(&["--scores", &path])).unwrap();
    assert_eq!(
        (report.members, report.repeats.unwrap().members.records),
        (20, 80)
    );
}

/// The same texts on both sides are no evidence: what is there twice is left out and counted,
/// and with nothing left there is no answer.
#[test]
fn texts_of_both_sides_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let texts = sentences(0..60);
    let path = write(folder.path(), "same.csv", &copied(&texts, &texts, 1, 1.0));
    let error = report(&args(&["--scores", &path])).unwrap_err();
    let said = crate::contract::describe(&error);
    assert!(
        said.contains("every text of the 60 members stands among the non-members, too"),
        "{said}"
    );
    let path = write(
        folder.path(),
        "some.csv",
        &copied(&texts, &sentences(40..110), 1, 1.0),
    );
    let args = args(&["--scores", &path]);
    let report = report(&args).unwrap();
    assert_eq!(
        (report.members, report.non_members, report.groups),
        (40, 50, None)
    );
    let repeats = report.repeats.unwrap();
    assert_eq!(
        (
            repeats.members.on_both_sides,
            repeats.non_members.on_both_sides
        ),
        (20, 20)
    );
    let inputs = inputs(&args, report.confidence).unwrap();
    let page = page::page(&report, &args, Exit::Finished, &[], &inputs).unwrap();
    let text = page
        .to_text(View {
            verbose: false,
            width: 200,
        })
        .replace('\n', " ");
    assert!(
        text.contains("left out: 20 whose texts stand on both sides")
            && text.matches("whose texts stand on both sides").count() == 2,
        "{text}"
    );
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
            "id;member;score\na;1;2\n",
            "commas (in .tsv by tabs), not by semicolons",
        ),
        (
            "id,member,score\r\na,2,0.5\r\n",
            "line 2: member must be 1 or 0",
        ),
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
            "line 3: its id is already that of",
        ),
        ("id,member,score\na,1\n", "line 2"),
        ("id,member,score\n,1,1\n", "the id must not be empty"),
        (
            "id,member,score,group\na,1,1,\n",
            "the group must not be empty",
        ),
        ("id,member,score\na,1,1\n", "no non-member was given"),
        ("", "line 1: no column id"),
    ] {
        let path = write(folder.path(), "scores.csv", text);
        let error = report(&args(&["--scores", &path])).unwrap_err();
        let said = crate::contract::describe(&error);
        assert!(said.contains(says), "{text:?}: {said}");
    }
    // Texts without their model.
    let texts = write(folder.path(), "in.jsonl", "{\"id\": 1, \"text\": \"a\"}\n");
    let error = report(&args(&["--members", &texts, "--non-members", &texts])).unwrap_err();
    let said = crate::contract::describe(&error);
    assert!(said.contains("with their --model or --scorer"), "{said}");
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

/// A document's confidence, interval and accuracy follow from its curve and counts: `audit diff` refuses one where they don't,
/// with the place.
#[test]
fn edited_documents_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = rows("id,member,score", 0.5);
    let some: Vec<&str> = text
        .lines()
        .enumerate()
        .filter(|(i, _)| *i == 0 || i % 8 == 3)
        .map(|(_, line)| line)
        .collect();
    let path = write(folder.path(), "scores.csv", &(some.join("\n") + "\n"));
    let args = args(&["--scores", &path, "--confidence", "0.99"]);
    let confidence = Confidence::new(0.99).unwrap();
    let report = MembershipReport::of(read::read(&args).unwrap(), &args, confidence).unwrap();
    assert_eq!((report.members, report.non_members), (50, 50));
    let inputs = inputs(&args, confidence).unwrap();
    let good = Envelope::new("membership", inputs, &report)
        .to_text()
        .unwrap();
    let good: serde_json::Value = serde_json::from_str(&good).unwrap();
    let level = 0.05;
    DiffReport::of(&good, &good, level).unwrap();
    let with = |edits: &[(&str, serde_json::Value)]| {
        let mut document = good.clone();
        for (place, value) in edits {
            *document.pointer_mut(place).unwrap() = value.clone();
        }
        document
    };
    let area = &good["area"];
    let half = |value: &serde_json::Value| (value.as_f64().unwrap() / 2.0).into();
    for (edits, said) in [
        (
            vec![("/confidence", 0.9999.into())],
            "confidence must be inputs.confidence, 0.99, got 0.9999",
        ),
        (
            vec![
                ("/confidence", 0.9999.into()),
                ("/inputs/confidence", 0.9999.into()),
            ],
            "as roc and confidence say",
        ),
        (
            vec![("/area", serde_json::Value::Null)],
            "area must be an object, got nothing",
        ),
        (
            vec![("/area/lower", half(&area["lower"]))],
            "area.lower must be",
        ),
        (
            vec![
                ("/area/lower", half(&area["lower"])),
                ("/roc", serde_json::Value::Null),
            ],
            "roc must be a list of corners",
        ),
        (
            vec![
                ("/confidence", 0.9999.into()),
                ("/inputs/confidence", 0.9999.into()),
                ("/non_members", 7.into()),
            ],
            "as accuracy.estimate and confidence say",
        ),
    ] {
        let refused = DiffReport::of(&good, &with(&edits), level);
        let refused = format!("{:#}", refused.unwrap_err());
        assert!(
            refused.starts_with("NEW: ") && refused.contains(said),
            "{refused}"
        );
    }
}
