//! Sheets, labels and bounds.

use super::ask::{Answer, ask};
use super::measure::{judge, labels, students};
use super::outputs::mended;
use super::*;
use crate::page::View;
use crate::schema::fits;
use reticent_accounting::statistics::clopper_pearson_upper;
use reticent_corpus::policy::{ConservativeOptions, PatternRule, PolicyChoice};
use reticent_corpus::screening::FoundSpan;
use reticent_corpus::simulate::simulate;
use reticent_corpus::{Secret, Unit};
use std::collections::BTreeSet;
use std::path::Path;

/// Finds `found-NN`, and no other secret.
fn policy() -> PolicyChoice {
    PolicyChoice::Patterns {
        rules: vec![PatternRule {
            kind: "code".to_owned(),
            pattern: "found-[0-9]+".to_owned(),
        }],
    }
}

/// 300 records: every third holds a secret, every fifth of these one that is missed.
fn records() -> Vec<Document> {
    (0..300)
        .map(|i| {
            let word = if i % 15 == 0 { "hidden" } else { "found" };
            let document = Document::new(format!("r{i}"), format!("see {word}-{i:03} there"));
            match i % 3 {
                0 => document.with_secret(4, 4 + word.len() + 4, "code"),
                _ => Document::new(format!("r{i}"), "nothing to see"),
            }
        })
        .collect()
}

fn draw(sample: Option<u64>, near: u64, conservative: Option<ConservativeOptions>) -> Draw {
    Draw {
        unit: Unit::Document,
        sample,
        duplicates: 0,
        seed: 4,
        seed_origin: SeedOrigin::Given,
        near,
        policy: policy(),
        conservative,
    }
}

fn marked(sample: Option<u64>, conservative: Option<ConservativeOptions>) -> Sheet {
    let mut sheet = Sheet::draw(&records(), &draw(sample, 0, conservative)).unwrap();
    mark(&mut sheet, &records());
    sheet
}

fn screening(sheet: &Sheet) -> Screening {
    screening_of(sheet, &records())
}

fn screening_of(sheet: &Sheet, records: &[Document]) -> Screening {
    let of = PolicyJudge::new(&sheet.header.policy, sheet.header.conservative.as_ref()).unwrap();
    let seen = judge(sheet, &of, records).unwrap();
    let words = Words {
        all: 1000,
        redacted: 250,
        missed: 0,
    };
    let confidence = Confidence::new(0.95).unwrap();
    Screening::of(sheet, &seen, &labels(&seen, None), confidence, words).unwrap()
}

/// The counts by hand, and the one-sided bounds: 0.95 for a kind by itself, 0.975 for each of
/// γ and η together.
#[test]
fn bounds_count_missed_records_over_records_with_secrets() {
    let digits = ConservativeOptions {
        digits: false,
        capitals: false,
        policy: true,
        names: None,
        onnx: None,
        patterns: Vec::new(),
    };
    let sheet = marked(Some(200), Some(digits));
    let with: Vec<&Line> = sheet
        .lines
        .iter()
        .filter(|l| l.text.contains('-'))
        .collect();
    let hidden = with.iter().filter(|l| l.text.contains("hidden")).count() as u64;
    let with = with.len() as u64;
    assert!(with > 40 && hidden > 5);
    let screening = screening(&sheet);
    assert_eq!(
        (screening.sample, screening.with_secrets, screening.missed),
        (200, with, hidden)
    );
    let upper =
        |level| clopper_pearson_upper(hidden, with, Confidence::new(level).unwrap()).unwrap();
    let row = &screening.kinds["code"];
    assert_eq!(
        (row.records, row.missed, row.missed_by_both),
        (with, hidden, Some(hidden))
    );
    assert_eq!(row.gamma, upper(0.95));
    assert_eq!((row.secrets, row.caught), (with, with - hidden));
    let rates = screening.rates.unwrap();
    assert!((rates.gamma.get().get() - upper(0.975).get().get()).abs() < 1e-12);
    assert!((rates.eta.get().get() - upper(0.975).get().get()).abs() < 1e-12);
    let found = &screening.found["code"];
    assert_eq!((found.spans, found.right), (with - hidden, with - hidden));
}

/// What was looked at because the policy was nearly sure shows misses and changes no bound.
#[test]
fn records_near_the_threshold_bound_nothing() {
    let names = PolicyChoice::Names { least: 0.9 };
    let mut records = records();
    for i in 0..20 {
        records.push(Document::new(
            format!("n{i}"),
            "they called olaf and mary at riverside",
        ));
    }
    let how = Draw {
        policy: names,
        near: 10,
        ..draw(Some(100), 10, None)
    };
    let mut sheet = Sheet::draw(&records, &how).unwrap();
    let near: Vec<&Line> = sheet
        .lines
        .iter()
        .filter(|l| l.drawn == Drawn::NearThreshold)
        .collect();
    assert!(near.len() == 10 && near.iter().all(|l| l.text.contains("olaf")));
    // The random part does not know of the others, nor of the policy.
    let plain = Sheet::draw(
        &records,
        &Draw {
            near: 0,
            policy: policy(),
            ..how.clone()
        },
    )
    .unwrap();
    let ids = |sheet: &Sheet| {
        sheet
            .lines
            .iter()
            .filter(|l| l.drawn == Drawn::Random)
            .map(|l| l.record.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&sheet), ids(&plain));
    for line in &mut sheet.lines {
        line.secrets = Some(match line.text.find("olaf") {
            Some(start) => vec![Secret {
                start,
                end: start + 4,
                kind: "name".to_owned(),
            }],
            None => Vec::new(),
        });
    }
    let with_near = screening_of(&sheet, &records);
    assert_eq!((with_near.near, with_near.near_missed), (10, 10));
    sheet.lines.retain(|l| l.drawn == Drawn::Random);
    let without = screening_of(&sheet, &records);
    assert_eq!(with_near.rates, without.rates);
    assert_eq!(with_near.kinds, without.kinds);
    assert_eq!(with_near.found, without.found);
    assert_eq!(with_near.with_secrets, without.with_secrets);
}

#[test]
fn a_sheet_that_was_changed_is_refused() {
    let sheet = marked(Some(20), None);
    let records = records();
    assert!(sheet.verify(&records, &policy(), None).is_ok());
    let refused = |sheet: &Sheet, policy: &PolicyChoice| {
        sheet
            .verify(&records, policy, None)
            .unwrap_err()
            .to_string()
    };
    assert!(refused(&sheet, &PolicyChoice::Customers).contains("another policy"));
    let mut gone = sheet.clone();
    gone.lines.remove(3);
    assert!(refused(&gone, &policy()).contains("gaps"));
    // The beginning of the sample is the sample of another header, which nobody sealed.
    let mut beginning = sheet.clone();
    beginning.lines.truncate(10);
    beginning.header.sample = 10;
    for seal in [sheet.header.seal.clone(), None] {
        beginning.header.seal = seal;
        assert!(refused(&beginning, &policy()).contains("line 1 does not have the seal"));
    }
    // What differs is reported by its line, without the text or the id, which may name a person.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sheet.jsonl");
    let edited = |change: &dyn Fn(&mut Line)| {
        let mut edited = sheet.clone();
        change(&mut edited.lines[1]);
        std::fs::write(&path, edited.to_text().unwrap().replacen('\n', "\n\n", 1)).unwrap();
        refused(&Sheet::read(&path).unwrap(), &policy())
    };
    let same = "is not that of the record that was drawn there";
    let text = edited(&|line| line.text.push_str(" for ada@x.org"));
    assert_eq!(text, format!("line 4: its text {same}"));
    let id = edited(&|line| line.record = "ada@x.org".to_owned());
    assert_eq!(id, format!("line 4: its id {same}"));
    let mut seed = sheet.clone();
    seed.header.seed = 5;
    assert!(refused(&seed, &policy()).contains("was drawn"));
    assert!(
        sheet
            .verify(&records[1..], &policy(), None)
            .unwrap_err()
            .to_string()
            .contains("300 records")
    );
}

#[test]
fn a_sheet_reads_back_as_it_was_written_and_fits_its_schema() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sheet.jsonl");
    let mut sheet = marked(Some(5), None);
    sheet.lines[0].secrets = None;
    let text = sheet.to_text().unwrap();
    std::fs::write(&path, &text).unwrap();
    for (line, number) in sheet.lines.iter_mut().zip(2..) {
        line.number = number;
    }
    assert_eq!(Sheet::read(&path).unwrap(), sheet);
    assert_eq!(sheet.open(), 1);
    for line in text.lines() {
        fits("screening-sheet", line);
    }
    sheet.lines[1].secrets = Some(vec![Secret {
        start: 400,
        end: 401,
        kind: "code".to_owned(),
    }]);
    let outside = sheet.to_text().unwrap();
    for (wrong, said) in [
        ("", "empty"),
        ("{}", "line 1"),
        (
            &*text.replacen("screening-sheet", "sheet", 1),
            "must be a screening-sheet",
        ),
        (&*outside, "line 3"),
    ] {
        std::fs::write(&path, wrong).unwrap();
        let error = format!("{:#}", Sheet::read(&path).unwrap_err());
        assert!(error.contains(said), "{error}");
    }
}

/// Ten samples of 0.01 %, at least one record each. By hand: m of the samples, Student's
/// interval with 2.262157 (tables), recall 1 − m/Pct with Pct a quarter.
#[test]
fn jfts_missing_rate_is_an_estimate_from_ten_samples() {
    let sheet = marked(None, None);
    assert_eq!((sheet.header.sample, sheet.header.samples), (10, 10));
    let screening = screening(&sheet);
    let rate = screening.missing_rate.unwrap();
    let expected: Vec<f64> = sheet
        .lines
        .iter()
        .map(|l| {
            if l.text.contains("hidden") {
                1.0 / 3.0
            } else {
                0.0
            }
        })
        .collect();
    assert_eq!(rate.samples, expected);
    let mean = expected.iter().sum::<f64>() / 10.0;
    let deviation = (expected.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / 9.0).sqrt();
    let half = 2.262157 * deviation / 10f64.sqrt();
    let (low, high) = match deviation > 0.0 {
        true => ((mean - half).max(0.0), mean + half),
        false => (0.0, 1.0),
    };
    assert!((rate.high.get() - high).abs() < 1e-6);
    assert!((rate.low.get() - low).abs() < 1e-6);
    assert!((rate.recall_low.get() - (1.0 - rate.high.get() / 0.25).max(0.0)).abs() < 1e-12);
    assert!((rate.recall_high.get() - (1.0 - rate.low.get() / 0.25)).abs() < 1e-12);
    assert!(screening.rates.is_none() || screening.with_secrets > 0);
}

/// Ten records without a miss don't show a recall of 1.000 to 1.000.
#[test]
fn equal_samples_have_no_interval() {
    for equal in [0.0, 0.25] {
        assert_eq!(students(&[equal; 10]), (0.0, 1.0));
    }
}

#[test]
fn screenings_fit_their_schema_and_say_what_they_bound() {
    for sheet in [
        marked(Some(100), Some(ConservativeOptions::default())),
        marked(None, None),
    ] {
        let screening = screening(&sheet);
        let inputs = Inputs::new().given("seed", 4).unwrap();
        let json = Envelope::new("screening", inputs, &screening)
            .to_text()
            .unwrap();
        fits("screening", &json);
        let text = screening
            .to_page(
                &sheet.header,
                Confidence::new(0.95).unwrap(),
                Path::new("s.jsonl"),
                Some(Path::new("l.jsonl")),
            )
            .to_text(View::full());
        assert!(
            text.contains("drawn at random") && text.contains("account --labels l.jsonl"),
            "{text}"
        );
        assert!(text.contains("The seed, 4, was given"), "{text}");
        assert_eq!(
            text.contains("--token-miss"),
            screening.missing_rate.is_some()
        );
    }
}

/// One label for a record, whatever it holds: it is the record that was drawn.
#[test]
fn a_record_is_one_label_and_missed_where_any_secret_is() {
    let mut sheet = marked(Some(30), None);
    sheet.lines.truncate(2);
    sheet.lines[0].text = "found-1 found-2 and Ada".to_owned();
    sheet.lines[0].secrets = Some(vec![
        Secret {
            start: 0,
            end: 7,
            kind: "code".to_owned(),
        },
        Secret {
            start: 8,
            end: 15,
            kind: "code".to_owned(),
        },
        Secret {
            start: 20,
            end: 23,
            kind: "name".to_owned(),
        },
    ]);
    sheet.lines[1].text = "nothing".to_owned();
    sheet.lines[1].secrets = Some(Vec::new());
    let of = PolicyJudge::new(&policy(), None).unwrap();
    let labels = labels(&judge(&sheet, &of, &records()).unwrap(), None);
    assert_eq!(labels.len(), 1);
    assert_eq!(
        (
            labels[0].kind.as_str(),
            labels[0].missed,
            labels[0].missed_by_conservative
        ),
        ("code+name", true, None)
    );
}

/// 900 records with one phone number, each in other words, and ten with a secret of their own that is missed: it is not
/// one in ninety that is missed, but ten of eleven.
#[test]
fn a_secret_counts_once_in_the_record_that_brings_it() {
    let phone = "995-992-2045";
    let policy = PolicyChoice::Patterns {
        rules: vec![PatternRule {
            kind: "phone".to_owned(),
            pattern: phone.to_owned(),
        }],
    };
    let caught = (0..900).map(|i| {
        let text = format!("call {i} me on {phone}");
        let at = text.len() - phone.len();
        Document::new(format!("c{i}"), &*text).with_secret(at, text.len(), "phone")
    });
    let missed = (0..10).map(|i| {
        Document::new(format!("m{i}"), format!("hidden-{i:03} there")).with_secret(0, 10, "code")
    });
    let records: Vec<Document> = caught.chain(missed).collect();
    let how = |sample| Draw {
        policy: policy.clone(),
        ..draw(Some(sample), 0, None)
    };
    let mut sheet = Sheet::draw(&records, &how(910)).unwrap();
    mark(&mut sheet, &records);
    let all = screening_of(&sheet, &records);
    assert_eq!((all.with_secrets, all.missed), (910, 10));
    assert_eq!((all.bringing, all.bringing_missed), (11, 10));
    let phones = &all.kinds["phone"];
    assert_eq!((phones.records, phones.missed, phones.caught), (1, 0, 900));
    assert_eq!(
        (phones.covered, phones.recall, phones.nothing_left),
        (900, 1.0, 1.0)
    );
    // Of a part of the records: a phone that another one brings counts nowhere.
    let mut sheet = Sheet::draw(&records, &how(300)).unwrap();
    mark(&mut sheet, &records);
    let drawn = |id: &str| {
        sheet
            .lines
            .iter()
            .filter(|l| l.record.starts_with(id))
            .count() as u64
    };
    let first = u64::from(sheet.lines.iter().any(|l| l.record == "c0"));
    let hidden = drawn("m");
    let part = screening_of(&sheet, &records);
    assert_eq!((part.with_secrets, part.missed), (300, hidden));
    assert_eq!(
        (part.bringing, part.bringing_missed),
        (hidden + first, hidden)
    );
    assert_eq!(part.kinds["phone"].records, first);
    if first == 0 {
        assert!(part.kinds["phone"].gamma.get().get() >= 1.0);
    }
}

/// It is missed where it is missed in any record of the sample, and by both where that one is not flagged.
#[test]
fn a_secret_is_missed_where_any_of_its_places_is() {
    let records = [
        Document::new("a", "found-1 by Ada").with_secret(11, 14, "name"),
        Document::new("b", "9 for Ada").with_secret(6, 9, "name"),
        Document::new("c", "Adam was here").with_secret(0, 4, "name"),
    ];
    let digits = ConservativeOptions {
        capitals: false,
        ..ConservativeOptions::default()
    };
    let policy = PolicyChoice::Patterns {
        rules: ["by (?<secret>Ada)", "Adam"]
            .map(|pattern| PatternRule {
                kind: "name".to_owned(),
                pattern: pattern.to_owned(),
            })
            .to_vec(),
    };
    let how = Draw {
        policy,
        ..draw(Some(3), 0, Some(digits))
    };
    let mut sheet = Sheet::draw(&records, &how).unwrap();
    mark(&mut sheet, &records);
    let of = PolicyJudge::new(&sheet.header.policy, sheet.header.conservative.as_ref()).unwrap();
    let mut labels = labels(&judge(&sheet, &of, &records).unwrap(), None);
    labels.sort_by_key(|l| l.secret.clone());
    let said: Vec<_> = labels
        .iter()
        .map(|l| {
            (
                l.secret.as_deref().unwrap(),
                l.missed,
                l.missed_by_conservative,
            )
        })
        .collect();
    // Ada in Adam is another word.
    assert_eq!(said, [("a", true, Some(false)), ("c", false, Some(false))]);
}

/// What was fitted to a sample misses nothing in it.
#[test]
fn a_mended_policy_is_not_screened_with_a_seed_that_is_given() {
    let how = Draw {
        policy: mended(&policy(), ["hidden-000".to_owned()].into()),
        ..draw(Some(20), 0, None)
    };
    let said = format!("{:#}", Sheet::draw(&records(), &how).unwrap_err());
    assert!(
        said.contains("--seed: the seed 4 was given") && said.contains("omit --seed"),
        "{said}"
    );
    let drawn = Draw {
        seed_origin: SeedOrigin::System,
        ..how.clone()
    };
    let mut sheet = Sheet::draw(&records(), &drawn).unwrap();
    assert!(sheet.verify(&records(), &how.policy, None).is_ok());
    sheet.header.seed_origin = SeedOrigin::Given;
    assert!(sheet.verify(&records(), &how.policy, None).is_err());
    assert_ne!(system_seed().unwrap(), system_seed().unwrap());
}

#[test]
fn answers_in_the_terminal_become_labels() {
    let line = || Line {
        record: "r".to_owned(),
        drawn: Drawn::Random,
        text: "é Ada met Bob, and Ada left\u{1b}[2J".to_owned(),
        found: vec![FoundSpan {
            start: 10,
            end: 13,
            kind: "name".to_owned(),
            score: 1.0,
        }],
        secrets: None,
        number: 0,
    };
    let args = |said: &str| {
        let (mut line, mut out) = (line(), Vec::new());
        let answer = ask(&mut line, "1 of 1", &mut said.as_bytes(), &mut out).unwrap();
        let spans = line.secrets.map(|s| {
            s.into_iter()
                .map(|s| (s.start, s.end, s.kind))
                .collect::<Vec<_>>()
        });
        (answer, spans, String::from_utf8(out).unwrap())
    };
    let span = |start, end, kind: &str| (start, end, kind.to_owned());
    assert_eq!(args("\n").1, Some(vec![span(10, 13, "name")]));
    assert_eq!(args("none\n").1, Some(vec![]));
    let (answer, spans, shown) = args("person: Ada\n-3\n-9\nx\nname: Zoe\n-2\n\n");
    assert_eq!(
        (answer, spans),
        (Answer::Labelled, Some(vec![span(2, 5, "person")]))
    );
    assert!(shown.contains("[1:Bob (name)]") && shown.contains("[1:Ada (person)]"));
    assert!(shown.contains("must be -1 to -2") && shown.contains("does not occur"));
    assert!(!shown.contains('\u{1b}'));
    // The end of the input agrees to nothing.
    for said in ["", "q\n", "person: Ada\n"] {
        assert_eq!(args(said).0, Answer::Stop);
        assert_eq!(args(said).1, None);
    }
}

#[test]
fn a_mended_policy_finds_what_was_missed() {
    let made = mended(&policy(), ["Ada".to_owned()].into());
    let of = PolicyJudge::new(&made, None).unwrap();
    let record = Document::new("r", "Ada has found-1").with_secret(0, 3, "name");
    assert!(of.judge(&record).unwrap().fates[0].caught);
    assert_eq!(mended(&policy(), BTreeSet::new()), policy());
}

#[test]
fn the_simulated_corpus_is_measured_without_a_person() {
    let records = screening_records(&simulate(40, 2).unwrap(), Unit::Turn).unwrap();
    assert!(labelled(&records, Unit::Turn).is_ok());
    let records: Vec<Document> = records.into_iter().map(|r| r.document).collect();
    let how = Draw {
        unit: Unit::Turn,
        policy: PolicyChoice::Customers,
        ..draw(Some(150), 0, None)
    };
    let mut sheet = Sheet::draw(&records, &how).unwrap();
    mark(&mut sheet, &records);
    let screening = screening_of(&sheet, &records);
    assert_eq!(screening.missed, 0);
    assert!(screening.with_secrets > 20 && screening.bringing > 10);
}

/// Every secret is marked in one record and stands unmarked in another before it: all of them are missed, and each counts
/// where it is marked.
#[test]
fn an_unmarked_twin_takes_no_label_away() {
    let documents: Vec<Document> = (0..40)
        .flat_map(|i| {
            let text = format!("case {i:02} is of hidden-{i:03}");
            let twin = Document::new(format!("a{i}"), &*text);
            let marked = Document::new(format!("b{i}"), &*text).with_secret(14, 24, "code");
            [twin, marked]
        })
        .collect();
    let records = screening_records(&documents, Unit::Document).unwrap();
    let (records, dropped) = distinct_records(records);
    assert_eq!((records.len(), dropped), (80, 0));
    let records: Vec<Document> = records.into_iter().map(|r| r.document).collect();
    for sample in [80, 40] {
        let mut sheet = Sheet::draw(&records, &draw(Some(sample), 0, None)).unwrap();
        mark(&mut sheet, &records);
        let drawn = sheet.lines.iter().filter(|l| l.record.starts_with('b'));
        let drawn = drawn.count() as u64;
        let found = screening_of(&sheet, &records);
        assert_eq!((found.with_secrets, found.missed), (drawn, drawn));
        assert_eq!((found.bringing, found.bringing_missed), (drawn, drawn));
    }
}

/// Labels one secret in each record, as a reader does.
fn by_hand(sheet: &mut Sheet, find: impl Fn(&str) -> (usize, usize)) {
    for line in &mut sheet.lines {
        let (start, end) = find(&line.text);
        let kind = "code".to_owned();
        line.secrets = Some(vec![Secret { start, end, kind }]);
    }
}

/// Half of all secrets are missed, each in one record, and the text of each of them is part of a secret that is caught in
/// an earlier record. Where that record was not drawn, the miss was thrown away: gamma was at most 0.2.
#[test]
fn a_miss_whose_text_stands_in_another_secret_counts() {
    let caught =
        (0..1000).map(|i| Document::new(format!("c{i}"), format!("write to user{i}@x.org today")));
    let missed = (0..1000).map(|i| Document::new(format!("m{i}"), format!("then user{i} agreed")));
    let records: Vec<Document> = caught.chain(missed).collect();
    let digits = ConservativeOptions {
        capitals: false,
        ..ConservativeOptions::default()
    };
    let policy = PolicyChoice::Patterns {
        rules: vec![PatternRule {
            kind: "email".to_owned(),
            pattern: "user[0-9]+@x[.]org".to_owned(),
        }],
    };
    for seed in 0..20 {
        let how = Draw {
            seed,
            policy: policy.clone(),
            ..draw(Some(200), 0, Some(digits.clone()))
        };
        let mut sheet = Sheet::draw(&records, &how).unwrap();
        by_hand(&mut sheet, |text| {
            let start = text.find("user").unwrap();
            let length = text[start..].find(' ').unwrap();
            (start, start + length)
        });
        let drawn: BTreeSet<&str> = sheet.lines.iter().map(|line| &*line.record).collect();
        let missed: Vec<&str> = drawn.iter().filter_map(|id| id.strip_prefix('m')).collect();
        let alone = |id: &&&str| !drawn.contains(&*format!("c{id}"));
        let alone = missed.iter().filter(alone).count() as u64;
        let found = screening_of(&sheet, &records);
        let counts = (found.bringing, found.bringing_missed);
        assert_eq!(counts, (200, missed.len() as u64));
        // The conservative policy flags all, but a record that may introduce nothing makes eta no smaller.
        assert_eq!(found.kinds["code"].missed_by_both, Some(alone));
        assert!(found.rates.unwrap().gamma.get().get() >= 0.4);
    }
}

/// Every secret is caught in two records: the second introduces none, and counts nowhere if the first was not drawn.
#[test]
fn a_catch_that_an_earlier_record_may_introduce_does_not_count() {
    let texts = (0..100).flat_map(|i| {
        [
            (format!("a{i}"), format!("see found-{i:03} there")),
            (format!("b{i}"), format!("and found-{i:03} again")),
        ]
    });
    let records: Vec<Document> = texts.map(|(id, text)| Document::new(id, text)).collect();
    let mut sheet = Sheet::draw(&records, &draw(Some(80), 0, None)).unwrap();
    by_hand(&mut sheet, |_| (4, 13));
    let first = sheet.lines.iter().filter(|l| l.record.starts_with('a'));
    let first = first.count() as u64;
    let found = screening_of(&sheet, &records);
    assert_eq!((found.bringing, found.bringing_missed), (first, 0));
}

/// Who accepts what the policy found labels one of two places: the other still shows the secret. Part of a word does not.
#[test]
fn a_text_that_stands_in_another_place_is_missed() {
    let policy = PolicyChoice::Patterns {
        rules: vec![PatternRule {
            kind: "code".to_owned(),
            pattern: "first (?<secret>code-1)".to_owned(),
        }],
    };
    for (text, missed) in [
        ("first code-1 then code-1", 1),
        ("first code-1 then code-12", 0),
        ("first code-1は、次のcode-1です", 1),
    ] {
        let records = [Document::new("r", text)];
        let how = Draw {
            policy: policy.clone(),
            ..draw(Some(1), 0, None)
        };
        let mut sheet = Sheet::draw(&records, &how).unwrap();
        by_hand(&mut sheet, |_| (6, 12));
        let found = screening_of(&sheet, &records);
        assert_eq!((found.bringing, found.bringing_missed), (1, missed));
        let row = &found.kinds["code"];
        assert_eq!((row.covered, row.caught), (1, 1 - missed));
    }
}

/// Of ten of eleven records, drawn without replacement, Clopper and Pearson's bound was 0.974 at a confidence of 0.75: a
/// population of 39 with 38 such records is left below it in 28 %. The same from the other end.
#[test]
fn bounds_by_kind_cover_finitely_many_records() {
    let records: Vec<Document> = (0..11)
        .map(|i| {
            let word = if i == 0 { "found" } else { "hidden" };
            let text = format!("see {word}-{i:03} there");
            let length = word.len() + 4;
            Document::new(format!("r{i}"), text).with_secret(4, 4 + length, "code")
        })
        .collect();
    let mut sheet = Sheet::draw(&records, &draw(Some(11), 0, None)).unwrap();
    mark(&mut sheet, &records);
    let of = PolicyJudge::new(&policy(), None).unwrap();
    let seen = judge(&sheet, &of, &records).unwrap();
    let level = Confidence::new(0.75).unwrap();
    let labels = labels(&seen, None);
    let found = Screening::of(&sheet, &seen, &labels, level, Words::default()).unwrap();
    let row = &found.kinds["code"];
    assert_eq!((row.records, row.missed), (11, 10));
    assert_eq!(
        (row.gamma.get().get(), row.records_all_caught.get().get()),
        (1.0, 0.0)
    );
}

/// Of a secret in three records, a sample of records shows parts alone.
#[test]
fn marks_that_extend_over_records_are_no_labels() {
    let text = "at 12 Zork Lane\nFlat 9\nQX1 9ZZ";
    let documents = [Document::new("a", text).with_secret(3, text.len(), "address")];
    let of = |unit| labelled(&screening_records(&documents, unit).unwrap(), unit);
    let said = of(Unit::Turn).unwrap_err().to_string();
    assert_eq!(
        said,
        "--marked: of 1 secret marked in DATA a turn contains only part; give a larger --unit"
    );
    assert!(of(Unit::Document).is_ok());
}
