//! Samples for labelling, and what a policy does to marked secrets.

use reticent_corpus::policy::{
    ConservativeOptions, DetectorOptions, DictionaryOptions, PatternRule, PolicyChoice,
};
use reticent_corpus::prepare::{PrepareOptions, prepare};
use reticent_corpus::screening::{
    PolicyJudge, Words, distinct_records, draw_sample, first_records, screening_records,
};
use reticent_corpus::simulate::simulate;
use reticent_corpus::{Document, Unit};
use statrs::distribution::{ChiSquared, ContinuousCDF};

fn patterns(rules: &[(&str, &str)]) -> PolicyChoice {
    let rule = |(kind, pattern): &(&str, &str)| PatternRule {
        kind: (*kind).to_owned(),
        pattern: (*pattern).to_owned(),
    };
    PolicyChoice::Patterns {
        rules: rules.iter().map(rule).collect(),
    }
}

fn judge(policy: &PolicyChoice) -> PolicyJudge {
    PolicyJudge::new(policy, None).unwrap()
}

/// A record that the policy can't examine is masked whole, with and without the secret; another run may examine it.
#[test]
fn nothing_is_caught_in_a_record_that_was_not_examined() {
    let policy = judge(&patterns(&[("not-examined", "^slow.*$|ada")]));
    for (text, caught) in [("slow ada", false), ("here ada", true)] {
        let record = Document::new("r", text).with_secret(5, 8, "name");
        let fate = &policy.judge(&record).unwrap().fates[0];
        assert_eq!((fate.caught, fate.covered), (caught, true), "{text}");
    }
}

/// Every record is as likely as every other, in the whole sample and at its first place.
/// Seeds 0..4000, samples of 3 of 12: chi-square, false-alarm rate 1e-6 each; nothing here is
/// drawn from entropy, so the test passes always or never.
#[test]
fn a_sample_is_simple_and_random() {
    let (mut drawn, mut first) = ([0f64; 12], [0f64; 12]);
    for seed in 0..4000 {
        let sample = draw_sample(12, 3, seed).unwrap();
        assert_eq!(sample.len(), 3);
        assert!(sample[0] != sample[1] && sample[1] != sample[2] && sample[0] != sample[2]);
        first[sample[0]] += 1.0;
        for at in sample {
            drawn[at] += 1.0;
        }
    }
    let limit = ChiSquared::new(11.0).unwrap().inverse_cdf(1.0 - 1e-6);
    for (counts, expected) in [(drawn, 1000.0), (first, 4000.0 / 12.0)] {
        let statistic: f64 = counts
            .iter()
            .map(|c| (c - expected) * (c - expected) / expected)
            .sum();
        assert!(statistic < limit, "{statistic}");
    }
    assert_eq!(
        draw_sample(12, 3, 5).unwrap(),
        draw_sample(12, 3, 5).unwrap()
    );
    // A smaller sample is the beginning of a larger one.
    assert_eq!(
        draw_sample(12, 3, 5).unwrap()[..],
        draw_sample(12, 7, 5).unwrap()[..3]
    );
    for wrong in [0, 13] {
        assert!(
            draw_sample(12, wrong, 0)
                .unwrap_err()
                .to_string()
                .contains("from 1 to 12")
        );
    }
}

/// Of equal records the first stays; a text counts where it is first a word of its own.
#[test]
fn duplicates_are_dropped_and_texts_have_one_first_record() {
    let records = [
        ("a", "call Adam"),
        ("b", "call Ada, 12"),
        ("c", "call Adam"),
        ("d", "Ada again"),
    ];
    let records = records.map(|(id, text)| Document::new(id, text)).to_vec();
    let (records, dropped) = distinct_records(screening_records(&records, Unit::Document).unwrap());
    let records: Vec<Document> = records.into_iter().map(|r| r.document).collect();
    let ids: Vec<&str> = records.iter().map(|r| &*r.id).collect();
    assert_eq!((&ids[..], dropped), (&["a", "b", "d"][..], 1));
    let first = |texts: &[&str]| {
        let texts: Vec<String> = texts.iter().map(|t| (*t).to_owned()).collect();
        first_records(&records, &texts)
    };
    let said = first(&["Ada", "Adam", "again", "dam"]).unwrap();
    assert_eq!(said, [Some(1), Some(0), Some(2), None]);
    assert!(first(&[]).unwrap().is_empty());
    assert!(first(&["Ada", " "]).is_err());
}

/// A sample has as many records as preparation keeps, whatever it tells them apart by.
#[test]
fn duplicates_are_those_of_preparation() {
    let text = "call Zork now";
    let plain = |id: &str| Document::new(id, text);
    let documents = [
        plain("a"),
        plain("b").with_secret(5, 9, "name"),
        plain("c").with_secret(5, 9, "name"),
        plain("d").with_secret(5, 9, "word"),
        plain("e"),
        Document::new("f", "Ada\nByron").with_secret(0, 9, "name"),
        Document::new("g", "Bob\nByron").with_secret(0, 9, "name"),
        Document::new("h", "Bob\nByron").with_secret(0, 9, "name"),
    ];
    let prepared = prepare(&documents, &PrepareOptions::default()).unwrap();
    let records = screening_records(&documents, PrepareOptions::default().unit).unwrap();
    let (records, dropped) = distinct_records(records);
    assert_eq!(records.len() as u64, prepared.facts.distinct_units);
    assert_eq!((dropped, prepared.facts.duplicates), (5, 5));
    let ids: Vec<&str> = records.iter().map(|r| &*r.document.id).collect();
    // The kinds of marks tell nothing apart.
    assert_eq!(ids, ["a:0", "b:0", "f:0", "f:1", "g:0", "g:1"]);
    let last = &records[5].marked[0];
    assert_eq!(
        (&*last.text, last.place, last.cut),
        ("Bob\nByron", (6, 0), true)
    );
}

#[test]
fn records_are_cut_as_they_are_prepared_with_their_secrets() {
    let documents = simulate(20, 3).unwrap();
    let records = |unit| -> Vec<Document> {
        let records = screening_records(&documents, unit).unwrap();
        records.into_iter().map(|record| record.document).collect()
    };
    assert_eq!(records(Unit::Dialogue), documents);
    let turns = records(Unit::Turn);
    assert!(turns.len() > 100 && turns[0].id.ends_with(":0"));
    let texts = |documents: &[Document]| -> Vec<String> {
        documents
            .iter()
            .flat_map(|d| d.secrets.iter().map(|s| d.secret_text(s).to_owned()))
            .collect()
    };
    assert_eq!(texts(&turns), texts(&documents));
}

/// Caught is what leaves no trace: a part, a mask for each word, or a mask that reaches over
/// only because of the secret, are misses.
#[test]
fn a_secret_is_caught_only_if_the_redacted_record_has_no_trace_of_it() {
    let record = Document::new("r", "call Ada Byron now").with_secret(5, 14, "name");
    let fate = |rules: &[(&str, &str)]| {
        let judged = judge(&patterns(rules)).judge(&record).unwrap();
        (judged.fates[0].caught, judged.fates[0].covered)
    };
    assert_eq!(fate(&[("name", "Ada Byron")]), (true, true));
    assert_eq!(fate(&[("name", "Ada")]), (false, false));
    assert_eq!(fate(&[("name", "Ada|Byron")]), (false, false));
    // Two spans that touch are one mask.
    assert_eq!(fate(&[("name", "Ada "), ("name", "Byron")]), (true, true));
    // `now` goes because of the name before it.
    assert_eq!(fate(&[("name", "Ada Byron now")]), (false, true));
    assert_eq!(fate(&[]), (false, false));
}

#[test]
fn a_secret_that_stands_twice_is_masked_in_both_places_of_the_neighbour() {
    let record = Document::new("r", "Ada, yes Ada")
        .with_secret(0, 3, "name")
        .with_secret(9, 12, "name");
    let both = judge(&patterns(&[("name", "Ada")])).judge(&record).unwrap();
    assert!(both.fates.iter().all(|f| f.caught && f.covered));
    let one = judge(&patterns(&[("name", "^Ada")]))
        .judge(&record)
        .unwrap();
    assert!(one.fates.iter().all(|f| !f.caught));
    assert!(one.fates[0].covered && !one.fates[1].covered);
}

#[test]
fn what_is_found_is_right_where_it_touches_a_secret_and_words_are_counted() {
    let record = Document::new("r", "é Ada has 12 and 345")
        .with_secret(2, 5, "name")
        .with_secret(17, 20, "order");
    let judged = judge(&patterns(&[("name", "Ada has"), ("order", r"\b12\b")]))
        .judge(&record)
        .unwrap();
    let found: Vec<_> = judged
        .found
        .iter()
        .map(|(s, right)| (s.start, s.end, s.kind.as_str(), *right))
        .collect();
    assert_eq!(found, [(2, 9, "name", true), (10, 12, "order", false)]);
    assert_eq!(
        judged.words,
        Words {
            all: 6,
            redacted: 3,
            missed: 1
        }
    );
    assert_eq!(judged.flagged, None);
    let options = ConservativeOptions {
        digits: true,
        capitals: false,
        policy: false,
        names: None,
        onnx: None,
        patterns: Vec::new(),
    };
    let both = PolicyJudge::new(&patterns(&[]), Some(&options)).unwrap();
    assert_eq!(both.judge(&record).unwrap().flagged, Some(true));
    let mut masked = record;
    masked
        .masked
        .push(reticent_corpus::Masked { start: 0, end: 1 });
    assert!(
        both.judge(&masked)
            .unwrap_err()
            .to_string()
            .contains("masked beforehand")
    );
}

#[test]
fn doubt_is_the_highest_score_below_the_threshold() {
    let names = PolicyChoice::Names { least: 0.9 };
    let any = PolicyChoice::Any {
        of: vec![
            names.clone(),
            PolicyChoice::Dictionary(DictionaryOptions {
                kind: "word".to_owned(),
                words: vec!["olaf".to_owned()],
                case_sensitive: false,
                whole_words: true,
            }),
        ],
    };
    let record = Document::new("r", "they called olaf and mary at riverside");
    let doubt = judge(&any).doubt(&record).unwrap().unwrap();
    assert!(doubt > 0.0 && doubt < 0.9, "{doubt}");
    // A policy without scores has no doubts.
    assert_eq!(
        judge(&patterns(&[("k", "olaf")])).doubt(&record).unwrap(),
        None
    );
    assert_eq!(names.loosened(), PolicyChoice::Names { least: 0.0 });
    // A number without the word beside it that would make it an order.
    let detectors = PolicyChoice::Detectors(DetectorOptions {
        kinds: vec!["reference".to_owned()],
        ..DetectorOptions::default()
    });
    let record = Document::new("r", "it weighs 734156 grams");
    let doubt = judge(&detectors).doubt(&record).unwrap().unwrap();
    assert!(doubt > 0.0 && doubt < 0.5, "{doubt}");
    // What a policy never looks for is not below its threshold.
    let PolicyChoice::Any { of } = PolicyChoice::General.loosened() else {
        panic!("another policy");
    };
    let kinds = of.iter().find_map(|policy| match policy {
        PolicyChoice::Detectors(options) => Some(&options.kinds),
        _ => None,
    });
    let has = |kind: &str| kinds.unwrap().iter().any(|other| other == kind);
    assert!(has("date") && has("phone") && !has("time") && !has("money"));
}
