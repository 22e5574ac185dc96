//! Neighbour-diff over random corpora: what is caught leaves no trace, what is missed spreads
//! no further than the stages say, and the recorded facts agree with the definition.

use proptest::prelude::*;
use reticent_corpus::dedup::Deduplication;
use reticent_corpus::policy::{
    ConservativeOptions, DetectorOptions, PatternRule, PolicyChoice, PolicyOptions,
};
use reticent_corpus::prepare::{
    Copies, PrepareOptions, Preparer, Selection, Stability, TokenizerChoice, mask_secret,
    neighbour_diff,
};
use reticent_corpus::tokenize::{Origin, train_tokenizer};
use reticent_corpus::{Document, Masked, Record, Side, TokenId, Unit};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::LazyLock;
use tempfile::TempDir;

/// Secrets: the policy knows numbers of three digits, in whole or in part, and no other.
const SECRETS: [&str; 5] = ["123", "777", "7-777", "xyz", "12 xyz"];
const BEFORE: [&str; 4] = ["", "pin ", "my pin is ", "So Ada "];
const AFTER: [&str; 3] = ["", ".", " and é <MASK>"];

/// A vocabulary whose tokens reach over the ends of secrets, where nothing keeps them from it.
static PAIRS: LazyLock<(TempDir, PathBuf)> = LazyLock::new(|| {
    let mut texts = Vec::new();
    for (before, after) in BEFORE.iter().flat_map(|b| AFTER.map(|a| (b, a))) {
        texts.extend(SECRETS.map(|secret| format!("{before}{secret}{after}").repeat(3)));
    }
    texts.push("ask Acme Inc., at noon we leave, thanks Co., Zara".repeat(3));
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("tokenizer.json");
    std::fs::write(&path, train_tokenizer(texts.into_iter(), 320).unwrap()).unwrap();
    (place, path)
});

fn pairs() -> TokenizerChoice {
    TokenizerChoice::File {
        path: PAIRS.1.clone(),
        origin: Origin::DeclaredPublic,
    }
}

/// A line: what stands before a secret, which one, what stands behind; or no secret.
type Line = (usize, Option<usize>, usize);

fn lines() -> impl Strategy<Value = Vec<Vec<Line>>> {
    let line = (
        0..BEFORE.len(),
        proptest::option::of(0..SECRETS.len()),
        0..AFTER.len(),
    );
    proptest::collection::vec(proptest::collection::vec(line, 1..5), 1..5)
}

fn documents(lines: &[Vec<Line>]) -> Vec<Document> {
    lines
        .iter()
        .enumerate()
        .map(|(number, lines)| {
            let mut document = Document::new(format!("d{number}"), "");
            for (i, &(before, secret, after)) in lines.iter().enumerate() {
                if i > 0 {
                    document.text.push('\n');
                }
                document.text.push_str(BEFORE[before]);
                if let Some(secret) = secret {
                    let start = document.text.chars().count();
                    document.text.push_str(SECRETS[secret]);
                    let end = document.text.chars().count();
                    document = document.with_secret(start, end, "k");
                }
                document.text.push_str(AFTER[after]);
            }
            document
        })
        .filter(|d| !d.text.trim().is_empty())
        .collect()
}

fn options() -> impl Strategy<Value = PrepareOptions> {
    (
        any::<[bool; 5]>(),
        prop_oneof![
            Just(TokenizerChoice::Bytes),
            Just(TokenizerChoice::Characters),
            Just(pairs()),
        ],
        prop_oneof![Just(Unit::Turn), Just(Unit::Sentence), Just(Unit::Document)],
        prop_oneof![Just(0.0), Just(0.3), Just(1.0)],
        prop_oneof![Just(0.0), Just(0.2)],
        proptest::option::of(3usize..20),
        any::<u64>(),
    )
        .prop_map(
            |(switches, tokenizer, unit, miss_rate, false_positive_rate, max_tokens, seed)| {
                let [deduplicate, redact, gold, screen, capitals] = switches;
                let rule = PatternRule {
                    kind: "code".to_owned(),
                    pattern: r"\d{3}".to_owned(),
                };
                let policy = if gold {
                    PolicyChoice::Gold
                } else {
                    PolicyChoice::Patterns { rules: vec![rule] }
                };
                PrepareOptions {
                    unit,
                    tokenizer,
                    deduplicate,
                    redact,
                    policy: PolicyOptions {
                        policy,
                        miss_rate,
                        false_positive_rate,
                        seed,
                    },
                    conservative: screen.then(|| ConservativeOptions {
                        capitals,
                        ..ConservativeOptions::default()
                    }),
                    max_tokens,
                    ..PrepareOptions::default()
                }
            },
        )
}

fn bound(stability: Stability) -> u64 {
    match stability {
        Stability::Bounded(factor) => factor,
        Stability::Unbounded => panic!("no stage here is unbounded"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Per secret: the diff is empty exactly when the facts count it as masked; it changes at
    /// most stability × (distinct units that hold it); it changes no side when π_c flags it.
    #[test]
    fn a_secret_spreads_no_further_than_the_stages_say(lines in lines(), options in options()) {
        let documents = documents(&lines);
        prop_assume!(!documents.is_empty());
        let preparer = Preparer::new(&documents, &options).unwrap();
        let run = preparer.run().unwrap();
        let factor = bound(run.facts.stability(Copies::All));
        let everything_private = options.conservative.is_none();
        let present: BTreeSet<&str> = documents
            .iter()
            .flat_map(|d| d.secrets.iter().map(|s| d.secret_text(s)))
            .collect();
        let (mut missed, mut most, mut public) = (0, 0, 0);
        for secret in &present {
            let diff = neighbour_diff(&run, &preparer.run_on(&mask_secret(&documents, secret)).unwrap());
            prop_assert!(diff.aligned);
            // A cut-off secret may differ in a record that no longer shows it.
            if options.max_tokens.is_none() && options.unit == Unit::Turn {
                missed += u64::from(!diff.identical());
                most = most.max(diff.records);
                public += u64::from(!diff.same_split);
            }
            let holds = units_with(&documents, secret, options.unit);
            let distinct: BTreeSet<&String> = holds.iter().collect();
            let most_units = if options.deduplicate { distinct.len() } else { holds.len() };
            prop_assert!(diff.records <= factor * most_units as u64, "{} > {factor} x {most_units}", diff.records);
            if everything_private {
                prop_assert!(diff.same_split && diff.same_counts);
            }
        }
        if options.max_tokens.is_none() && options.unit == Unit::Turn {
            let all = &run.facts.secrets.all;
            prop_assert_eq!(all.distinct, present.len() as u64);
            prop_assert_eq!((all.missed, run.facts.secrets.most_records), (missed, most));
            prop_assert_eq!(all.masked, all.distinct - all.missed);
            prop_assert_eq!(all.public, public);
        }
    }

    /// The report over all secrets is the definition, secret by secret, under every way to
    /// deduplicate, policy and unit; also where some occurrences are unmarked or masked
    /// beforehand.
    #[test]
    fn the_report_is_the_definition(
        lines in lines(),
        options in options(),
        method in prop_oneof![
            4 => Just(Deduplication::Exact),
            1 => Just(Deduplication::Bloom { bits: 2 }),
            1 => Just(Deduplication::Near { shingle: 2, bands: 16, rows: 1, similarity: 0.6 }),
            1 => Just(Deduplication::Substring { length: 6 }),
        ],
        unmarked in any::<u16>(),
        masked in any::<u16>(),
    ) {
        let mut documents = documents(&lines);
        prop_assume!(!documents.is_empty());
        let mut number = 0;
        for Document { secrets, masked: under, .. } in &mut documents {
            secrets.retain(|secret| {
                number += 1;
                let stays = unmarked >> (number % 16) & 1 == 0;
                if !stays && masked >> (number % 16) & 1 == 0 {
                    under.push(Masked { start: secret.start, end: secret.end });
                }
                stays
            });
        }
        let options = PrepareOptions { duplicates: method, ..options };
        let preparer = Preparer::new(&documents, &options).unwrap();
        let run = preparer.run().unwrap();
        let found = preparer.neighbours(Selection::All, &|_, _| true).unwrap();
        let present: BTreeSet<&str> = documents
            .iter()
            .flat_map(|d| d.secrets.iter().map(|s| d.secret_text(s)))
            .collect();
        let names: Vec<&str> = found.secrets.iter().map(|s| s.secret.as_str()).collect();
        prop_assert_eq!(names, present.iter().copied().collect::<Vec<_>>());
        let (mut missed, mut most) = (0, 0);
        for one in &found.secrets {
            let other = preparer.run_on(&mask_secret(&documents, &one.secret)).unwrap();
            let diff = neighbour_diff(&run, &other);
            prop_assert_eq!(diff, one.diff, "{}", one.secret);
            missed += u64::from(!diff.identical());
            most = most.max(diff.records);
        }
        prop_assert_eq!((found.all.missed, found.all.most_records), (missed, most));
        prop_assert_eq!(found.all.caught + missed, found.all.examined);
        prop_assert_eq!(found.by_records.values().sum::<u64>(), found.all.examined);
        let sample = Selection::Sample { count: 2, seed: 7 };
        let sampled = preparer.neighbours(sample, &|_, _| true).unwrap();
        prop_assert_eq!(sampled.all.examined, 2.min(present.len() as u64));
        prop_assert!(sampled.secrets.iter().all(|s| found.secrets.contains(s)));
    }

    /// One occurrence alone: at most the single-copy stability.
    #[test]
    fn one_occurrence_changes_at_most_two_records(lines in lines(), options in options(), pick in any::<proptest::sample::Index>()) {
        let documents = documents(&lines);
        let places: Vec<(usize, Masked)> = documents.iter().enumerate()
            .flat_map(|(i, d)| d.secrets.iter().map(move |s| (i, Masked { start: s.start, end: s.end })))
            .collect();
        prop_assume!(!places.is_empty());
        let preparer = Preparer::new(&documents, &options).unwrap();
        let run = preparer.run().unwrap();
        let (document, masked) = places[pick.index(places.len())];
        let mut neighbour = documents.clone();
        neighbour[document].masked = vec![masked];
        let diff = neighbour_diff(&run, &preparer.run_on(&neighbour).unwrap());
        prop_assert!(diff.records <= bound(run.facts.stability(Copies::Single)));
    }

    /// With a policy that knows every secret, all neighbours are identical.
    #[test]
    fn what_gold_redacts_leaves_no_trace(lines in lines(), unit in prop_oneof![Just(Unit::Turn), Just(Unit::Document)], alarms in prop_oneof![Just(0.0), Just(0.3)], seed in any::<u64>()) {
        let documents = documents(&lines);
        prop_assume!(!documents.is_empty());
        let policy = PolicyOptions { policy: PolicyChoice::Gold, false_positive_rate: alarms, seed, ..PolicyOptions::default() };
        let options = PrepareOptions { unit, policy, conservative: Some(ConservativeOptions::default()), ..PrepareOptions::default() };
        let preparer = Preparer::new(&documents, &options).unwrap();
        let run = preparer.run().unwrap();
        for secret in SECRETS {
            let diff = neighbour_diff(&run, &preparer.run_on(&mask_secret(&documents, secret)).unwrap());
            prop_assert!(diff.identical() && diff.same_split && diff.same_counts);
        }
        prop_assert_eq!(run.facts.secrets.all.missed, 0);
    }

    /// Counts fit together, sides follow their rule, and running again gives the same.
    #[test]
    fn counts_and_sides_fit_together(lines in lines(), options in options()) {
        let documents = documents(&lines);
        prop_assume!(!documents.is_empty());
        let preparer = Preparer::new(&documents, &options).unwrap();
        let run = preparer.run().unwrap();
        let facts = &run.facts;
        prop_assert_eq!(facts.units, facts.public + facts.private);
        prop_assert_eq!(facts.units, run.training.records.len() as u64 + facts.mask_only);
        prop_assert!(facts.duplicates <= facts.mask_only);
        if options.deduplicate {
            prop_assert_eq!(facts.units - facts.duplicates, facts.distinct_units);
        }
        prop_assert_eq!(run.points.len(), run.training.records.len());
        prop_assert!(run.points.windows(2).all(|w| w[0] < w[1]));
        let mask = run.tokenizer.mask();
        for (record, text) in run.training.records.iter().zip(&run.texts) {
            prop_assert!(!record.tokens.contains(&mask) || record.side == Side::Private);
            prop_assert_eq!(text.contains("<MASK>") && record.side == Side::Public, false);
            let redacted = redacted(record, mask);
            prop_assert!(options.max_tokens.is_none_or(|most| redacted.len() <= most));
        }
        let again = preparer.run().unwrap();
        prop_assert!(neighbour_diff(&run, &again).identical());
        prop_assert_eq!(&again.facts, facts);
    }
}

/// Secrets that extend over lines, some with lines in common, and one that is a line of others.
const CUT: [&str; 5] = ["123\nxyz", "777\nxyz", "xyz", "my\n123\nxyz", "xyz\nxyz"];

/// Documents of such secrets, which stand apart.
fn cut_documents(places: &[Vec<(usize, Option<usize>, usize)>]) -> Vec<Document> {
    let documents = places.iter().enumerate().map(|(number, places)| {
        let mut document = Document::new(format!("d{number}"), "");
        for &(before, secret, after) in places {
            document.text.push_str(BEFORE[before]);
            let start = document.text.chars().count();
            document
                .text
                .push_str(secret.map_or("plain", |secret| CUT[secret]));
            let end = document.text.chars().count();
            if secret.is_some() {
                document = document.with_secret(start, end, "k");
            }
            document.text.push_str(AFTER[after]);
            document.text.push('\n');
        }
        document
    });
    documents.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// A secret of several lines is one secret, and missed in as many records as masking all of it changes.
    #[test]
    fn a_secret_of_several_records_counts_as_its_neighbour_says(lines in lines(), options in options()) {
        let documents = cut_documents(&lines);
        let options = PrepareOptions { unit: Unit::Turn, max_tokens: None, ..options };
        let preparer = Preparer::new(&documents, &options).unwrap();
        let secrets = preparer.run().unwrap().facts.secrets;
        let found = preparer.neighbours(Selection::All, &|_, _| true).unwrap();
        prop_assert_eq!(secrets.all.distinct, found.distinct);
        prop_assert_eq!((secrets.all.missed, secrets.most_records), (found.all.missed, found.all.most_records));
    }
}

/// Marked secrets whose first letters are context words of the detectors (`case`, `id`), and numbers that these find only
/// behind a context word.
const CONTEXT: [(&str, bool); 5] = [
    ("Casey", true),
    ("Idris", true),
    ("4417823", false),
    ("4417824", true),
    ("and", false),
];

/// Options under which the policy finds the marked secrets and what the detectors find.
fn in_context(unit: Unit) -> PrepareOptions {
    let of = vec![
        PolicyChoice::Gold,
        PolicyChoice::Detectors(DetectorOptions::default()),
    ];
    PrepareOptions {
        unit,
        policy: PolicyOptions {
            policy: PolicyChoice::Any { of },
            ..PolicyOptions::default()
        },
        ..PrepareOptions::default()
    }
}

/// Either occurrence of the name is a context word for the number, so that only masking both of them shows that the record
/// depends on it.
#[test]
fn all_occurrences_of_a_secret_are_masked_together() {
    let document = Document::new("d", "Casey, Casey 4417823")
        .with_secret(0, 5, "name")
        .with_secret(7, 12, "name");
    let preparer = Preparer::new(&[document], &in_context(Unit::Document)).unwrap();
    let facts = preparer.run().unwrap().facts.secrets;
    let found = preparer.neighbours(Selection::All, &|_, _| true).unwrap();
    assert_eq!((facts.all.distinct, facts.all.missed), (1, 1));
    assert_eq!((found.all.missed, found.all.most_records), (1, 1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// The facts agree with the definition where what the policy finds depends on secrets that a record repeats.
    #[test]
    fn repeated_secrets_count_as_their_neighbours_say(
        words in proptest::collection::vec((0..CONTEXT.len(), 0..3usize), 1..10),
        document in any::<bool>(),
    ) {
        let mut corpus = Document::new("d", "");
        for (word, separator) in words {
            let (word, marked) = CONTEXT[word];
            let start = corpus.text.len();
            corpus.text.push_str(word);
            if marked {
                corpus = corpus.with_secret(start, start + word.len(), "k");
            }
            corpus.text.push_str([" ", ", ", "\n"][separator]);
        }
        let unit = if document { Unit::Document } else { Unit::Turn };
        let preparer = Preparer::new(&[corpus], &in_context(unit)).unwrap();
        let facts = preparer.run().unwrap().facts.secrets;
        let found = preparer.neighbours(Selection::All, &|_, _| true).unwrap();
        prop_assert_eq!(facts.all.distinct, found.distinct);
        prop_assert_eq!((facts.all.missed, facts.most_records), (found.all.missed, found.all.most_records));
    }
}

/// The tokens of a record with one mask for each run of sensitive content, as training on redacted text reads them.
fn redacted(record: &Record, mask: TokenId) -> Vec<TokenId> {
    let mut out = record.tokens.clone();
    for run in record.sensitive.iter().rev() {
        out.splice(run.clone(), [mask]);
    }
    out
}

/// Tokens that reach over the end of a secret would tell what it ends with, and a record that is cut to length how long it
/// is: neither the redacted text nor the public part of text that is not redacted may depend on it.
#[test]
fn what_is_not_secret_has_the_same_tokens_whatever_the_secret_is() {
    for (tokenizer, redact, max_tokens, unit) in [
        (pairs(), true, None, Unit::Document),
        (pairs(), false, None, Unit::Document),
        (pairs(), false, Some(7), Unit::Document),
        (TokenizerChoice::Characters, false, Some(12), Unit::Document),
        (TokenizerChoice::Bytes, false, Some(4), Unit::Turn),
    ] {
        let made = |secret: &str| {
            let text = format!("ask {secret}, at noon we leave");
            let end = 4 + secret.chars().count();
            let document = Document::new("a", text).with_secret(4, end, "name");
            let options = PrepareOptions {
                tokenizer: tokenizer.clone(),
                redact,
                max_tokens,
                unit,
                policy: PolicyOptions {
                    policy: PolicyChoice::Gold,
                    ..PolicyOptions::default()
                },
                ..PrepareOptions::default()
            };
            let run = Preparer::new(&[document], &options).unwrap().run().unwrap();
            redacted(&run.training.records[0], run.tokenizer.mask())
        };
        let acme = made("Acme");
        for other in ["Acme Inc.", "Quux", ",", " ", "Née of Ohio, Incorporated,"] {
            assert_eq!(made(other), acme, "{other:?} {redact} {max_tokens:?}");
        }
    }
}

/// The units that hold a marked secret, as text with the secret's place marked.
fn units_with(documents: &[Document], secret: &str, unit: Unit) -> Vec<String> {
    let mut out = Vec::new();
    for document in documents {
        if unit == Unit::Document {
            if document
                .secrets
                .iter()
                .any(|s| document.secret_text(s) == secret)
            {
                out.push(document.text.clone());
            }
            continue;
        }
        let mut start = 0;
        for line in document.text.split('\n') {
            let end = start + line.chars().count();
            let inside = document
                .secrets
                .iter()
                .any(|s| start <= s.start && s.end <= end && document.secret_text(s) == secret);
            if inside {
                out.push(line.to_owned());
            }
            start = end + 1;
        }
    }
    out
}

/// A missed secret whose unit, once masked, is a copy of one that was masked beforehand. The
/// earlier of both is what stays: where the secret comes first, the other one goes, and two
/// records change; where it comes last, it goes itself, and one does.
#[test]
fn masking_makes_a_unit_the_first_of_its_copies() {
    let options = PrepareOptions {
        policy: PolicyOptions {
            policy: PolicyChoice::Nothing,
            ..PolicyOptions::default()
        },
        ..PrepareOptions::default()
    };
    let text = "my pin is xyz";
    let secret = Document::new("secret", text).with_secret(10, 13, "k");
    let mut hidden = Document::new("hidden", text);
    hidden.masked = vec![Masked { start: 10, end: 13 }];
    for (documents, records) in [([secret.clone(), hidden.clone()], 2), ([hidden, secret], 1)] {
        let preparer = Preparer::new(&documents, &options).unwrap();
        let other = preparer.run_on(&mask_secret(&documents, "xyz")).unwrap();
        let diff = neighbour_diff(&preparer.run().unwrap(), &other);
        assert_eq!(diff.records, records);
        let found = preparer.neighbours(Selection::All, &|_, _| true).unwrap();
        assert_eq!(found.secrets[0].diff, diff);
    }
}

/// A record that the policy can't examine is masked whole, with and without the secret; another run may examine it.
#[test]
fn no_secret_of_a_record_that_was_not_examined_is_caught() {
    let rules = [("not-examined", "^slow.*$"), ("name", "Bob")];
    let rules = rules.map(|(kind, pattern)| PatternRule {
        kind: kind.to_owned(),
        pattern: pattern.to_owned(),
    });
    let documents = [
        // The two first are copies.
        Document::new("a", "slow Ada").with_secret(5, 8, "name"),
        Document::new("b", "slow Ada").with_secret(5, 8, "name"),
        Document::new("c", "here Bob").with_secret(5, 8, "name"),
    ];
    let near = Deduplication::Near {
        shingle: 2,
        bands: 16,
        rows: 1,
        similarity: 0.6,
    };
    for (duplicates, expected) in [(Deduplication::Exact, [1, 0]), (near, [1, 1])] {
        let options = PrepareOptions {
            duplicates,
            policy: PolicyOptions {
                policy: PolicyChoice::Patterns {
                    rules: rules.to_vec(),
                },
                ..PolicyOptions::default()
            },
            ..PrepareOptions::default()
        };
        let preparer = Preparer::new(&documents, &options).unwrap();
        let found = preparer.neighbours(Selection::All, &|_, _| true).unwrap();
        let records: Vec<u64> = found.secrets.iter().map(|one| one.diff.records).collect();
        assert_eq!(records, expected);
        let facts = preparer.run().unwrap().facts;
        assert_eq!(facts.not_examined, 1);
        let missed = expected.iter().sum::<u64>();
        assert_eq!(
            (found.all.missed, facts.secrets.all.missed),
            (missed, missed)
        );
    }
}

#[test]
fn a_report_ends_when_it_is_told_to() {
    let documents: Vec<Document> = (0..20)
        .map(|i| Document::new(format!("d{i}"), format!("x{i:02}")).with_secret(0, 3, "k"))
        .collect();
    let preparer = Preparer::new(&documents, &PrepareOptions::default()).unwrap();
    let found = preparer
        .neighbours(Selection::All, &|done, all| {
            assert_eq!(all, 20);
            done < 5
        })
        .unwrap();
    assert_eq!(found.distinct, 20);
    assert!(
        (5..20).contains(&found.all.examined),
        "{}",
        found.all.examined
    );
    let none = Selection::Sample { count: 0, seed: 0 };
    let error = preparer.neighbours(none, &|_, _| true).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the number of secrets must be at least 1, got 0"
    );
}
