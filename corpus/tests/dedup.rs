//! Deduplication: what each way drops, how far a change spreads, what becomes of copies.

use proptest::prelude::*;
use reticent_corpus::dedup::{Deduplication, Fate};
use reticent_corpus::policy::{PolicyChoice, PolicyOptions};
use reticent_corpus::prepare::{
    Copies, PrepareOptions, Preparer, Selection, Stability, Stage, TokenizerChoice, mask_secret,
    neighbour_diff,
};
use reticent_corpus::{Answers, Document, Labels, LossOn, Masked, Unit};
use std::collections::HashSet;

const NEAR: Deduplication = Deduplication::Near {
    shingle: 3,
    bands: 32,
    rows: 2,
    similarity: 0.5,
};

fn options(duplicates: Deduplication) -> PrepareOptions {
    PrepareOptions {
        duplicates,
        policy: PolicyOptions {
            policy: PolicyChoice::Gold,
            ..PolicyOptions::default()
        },
        ..PrepareOptions::default()
    }
}

fn tokens(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

fn units() -> impl Strategy<Value = Vec<Vec<u32>>> {
    proptest::collection::vec(proptest::collection::vec(0u32..3, 1..9), 0..24)
}

/// The stretches of `length` tokens at each place that stand earlier, by comparing all pairs.
fn cut_slowly(units: &[Vec<u32>], length: usize) -> Vec<HashSet<usize>> {
    let mut earlier: Vec<&[u32]> = Vec::new();
    units
        .iter()
        .map(|unit| {
            let mut cut = HashSet::new();
            for (at, stretch) in unit.windows(length).enumerate() {
                if earlier.contains(&stretch) {
                    cut.extend(at..at + length);
                }
                earlier.push(stretch);
            }
            cut
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Exact keeps the first of each; Bloom and near-duplicates keep no more than that.
    #[test]
    fn no_duplicate_is_ever_kept(units in units(), bits in 2u32..20, seed in any::<u64>()) {
        let mut seen = HashSet::new();
        let new: Vec<bool> = units.iter().map(|u| seen.insert(u.clone())).collect();
        let exact = Deduplication::Exact.fates(&units, seed).unwrap();
        for (fate, new) in exact.iter().zip(&new) {
            prop_assert_eq!(fate == &Fate::Keep, *new);
        }
        for method in [Deduplication::Bloom { bits }, NEAR] {
            for (fate, new) in method.fates(&units, seed).unwrap().iter().zip(&new) {
                prop_assert!(*new || *fate == Fate::Drop, "{method:?}");
            }
        }
    }

    #[test]
    fn repeated_stretches_are_those_of_all_pairs(units in units(), length in 2usize..7) {
        let fates = Deduplication::Substring { length }.fates(&units, 0).unwrap();
        for ((fate, slow), unit) in fates.iter().zip(cut_slowly(&units, length)).zip(&units) {
            let cut: HashSet<usize> = match fate {
                Fate::Keep => HashSet::new(),
                Fate::Cut(ranges) => {
                    prop_assert!(ranges.windows(2).all(|w| w[0].end < w[1].start));
                    prop_assert!(ranges.iter().all(|r| r.end <= unit.len()));
                    ranges.iter().cloned().flatten().collect()
                }
                Fate::Drop => panic!("a stretch drops no unit"),
            };
            prop_assert_eq!(cut, slow);
        }
    }

    /// What is dropped as a near-duplicate is one of a unit that stays.
    #[test]
    fn near_duplicates_are_near(units in units(), seed in any::<u64>()) {
        let fates = NEAR.fates(&units, seed).unwrap();
        let set = |u: &[u32]| -> HashSet<Vec<u32>> {
            if u.len() <= 3 { HashSet::from([u.to_vec()]) } else { u.windows(3).map(<[u32]>::to_vec).collect() }
        };
        for (number, unit) in units.iter().enumerate().filter(|(n, _)| fates[*n] == Fate::Drop) {
            let near = (0..number).filter(|n| fates[*n] == Fate::Keep).any(|n| {
                let (a, b) = (set(unit), set(&units[n]));
                2 * a.intersection(&b).count() >= a.union(&b).count()
            });
            prop_assert!(near);
        }
    }
}

/// 400 units, each a copy of another but for one token of 40 (similarity 35/41 in trigrams at
/// the least), 32 bands of 2 rows: a pair is overlooked with probability below
/// (1 − 0.85²)^32 < 1e-17. Seed 1.
#[test]
fn near_duplicates_are_found() {
    let mut units = Vec::new();
    for number in 0..400u32 {
        let unit: Vec<u32> = (0..40).map(|i| number * 100 + i).collect();
        let mut other = unit.clone();
        other[20] = 99_999;
        units.extend([unit, other]);
    }
    let fates = NEAR.fates(&units, 1).unwrap();
    for pair in fates.chunks(2) {
        assert_eq!(pair, [Fate::Keep, Fate::Drop]);
    }
}

/// CRT's Proposition 7 with a single copy (math: {s, s} gives {s, M}, {s', s} gives {s', s}):
/// two records differ by exact deduplication and by a Bloom filter; with both copies one.
#[test]
fn a_single_copy_changes_two_records() {
    let both = [Document::new("d", "my pin is 12\nmy pin is 12")
        .with_secret(10, 12, "pin")
        .with_secret(23, 25, "pin")];
    let mut single = both.clone();
    single[0].masked = vec![Masked { start: 10, end: 12 }];
    let all = mask_secret(&both, "12");
    for duplicates in [Deduplication::Exact, Deduplication::Bloom { bits: 128 }] {
        // Nothing is redacted: the secret is missed.
        let options = PrepareOptions {
            redact: false,
            ..options(duplicates)
        };
        let preparer = Preparer::new(&both, &options).unwrap();
        let run = preparer.run().unwrap();
        let k = |documents: &[Document]| {
            neighbour_diff(&run, &preparer.run_on(documents).unwrap()).records
        };
        assert_eq!((k(&single), k(&all)), (2, 1), "{duplicates:?}");
    }
}

/// One unit that is near n others, which are not near each other: while it stays they go, and
/// when its secret is masked they stay. k grows with the corpus: no stability.
#[test]
fn near_duplicates_and_stretches_spread_without_bound() {
    for n in [3usize, 6, 12] {
        let parts: Vec<String> = (0..n)
            .map(|i| format!("{}{}", char::from(b'a' + i as u8), "xyzw"))
            .collect();
        // Every stretch of the first unit returns in a unit of its own.
        let hub = parts.join("");
        let lines: Vec<String> = std::iter::once(hub.clone())
            .chain(parts.iter().cloned())
            .collect();
        let text = lines.join("\n");
        let documents = [Document::new("d", text).with_secret(0, hub.len(), "k")];
        let duplicates = Deduplication::Substring { length: 5 };
        let preparer = Preparer::new(&documents, &options(duplicates)).unwrap();
        let run = preparer.run().unwrap();
        let neighbour = preparer.run_on(&mask_secret(&documents, &hub)).unwrap();
        assert_eq!(neighbour_diff(&run, &neighbour).records, n as u64, "{n}");
        assert_eq!(run.facts.stability(Copies::All), Stability::Unbounded);
        // The policy masks the secret in its own record, and still it counts as missed.
        assert_eq!(run.facts.secrets.all.missed, 1);
    }
    let near = Preparer::new(&[Document::new("d", "abc")], &options(NEAR))
        .unwrap()
        .run()
        .unwrap();
    assert_eq!(near.facts.stability(Copies::Single), Stability::Unbounded);
}

#[test]
fn a_near_duplicate_releases_every_unit_it_stood_for() {
    // The hub shares half of its trigrams with each other unit.
    let hub = tokens("abcdefgh");
    let left = tokens("abcdefXY");
    let right = tokens("UVcdefgh");
    let method = Deduplication::Near {
        shingle: 3,
        bands: 64,
        rows: 1,
        similarity: 0.5,
    };
    let with = method
        .fates(&[hub, left.clone(), right.clone()], 3)
        .unwrap();
    assert_eq!(with, [Fate::Keep, Fate::Drop, Fate::Drop]);
    let without = method.fates(&[tokens("________"), left, right], 3).unwrap();
    assert_eq!(without, [Fate::Keep, Fate::Keep, Fate::Keep]);
}

#[test]
fn a_bloom_filter_says_what_its_stability_rests_on() {
    let documents = [Document::new("d", "a\nb\na")];
    let run = |bits| {
        let options = options(Deduplication::Bloom { bits });
        Preparer::new(&documents, &options)
            .unwrap()
            .run()
            .unwrap()
            .facts
    };
    let facts = run(128);
    assert_eq!((facts.units, facts.duplicates), (3, 1));
    assert_eq!(facts.stability(Copies::All), Stability::Unbounded);
    let stage = facts
        .stages
        .iter()
        .find(|s| s.stage == Stage::Deduplicate)
        .unwrap();
    let rare = stage.but_for.unwrap();
    assert_eq!(
        (rare.all_copies, rare.single_copy),
        (Stability::Bounded(1), Stability::Bounded(2))
    );
    // 2 · 3 · (47/128)^47 = 2^-65.3.
    assert_eq!(rare.probability_bits, 64);
    assert!(run(8).stages[2].but_for.unwrap().probability_bits < 4);
}

#[test]
fn copies_of_a_secret_are_counted_before_and_after() {
    // Two copies in one unit, which comes twice, and one in another unit.
    let text = "12 and 12\n12 and 12\nonly 12";
    let mut document = Document::new("d", text);
    for (at, _) in text.match_indices("12") {
        document = document.with_secret(at, at + 2, "pin");
    }
    let documents = [document];
    let copies = |duplicates| {
        let preparer = Preparer::new(&documents, &options(duplicates)).unwrap();
        let copies = preparer.copies().unwrap()["12"];
        (
            (copies.before, copies.after),
            (copies.units_before, copies.units_after),
        )
    };
    assert_eq!(copies(Deduplication::Exact), ((5, 3), (3, 2)));
    assert_eq!(copies(Deduplication::Bloom { bits: 128 }), ((5, 3), (3, 2)));
    // " 12" comes again everywhere, the first "12" at the beginning of its unit does not.
    assert_eq!(
        copies(Deduplication::Substring { length: 3 }),
        ((5, 2), (3, 1))
    );
}

#[test]
fn numbers_out_of_range_are_named() {
    let near = |shingle, bands, rows, similarity| Deduplication::Near {
        shingle,
        bands,
        rows,
        similarity,
    };
    for (method, said) in [
        (
            Deduplication::Bloom { bits: 1 },
            "the bits per unit of a Bloom filter must be from 2 to 256, got 1",
        ),
        (
            near(0, 1, 1, 0.5),
            "the tokens of a shingle must be from 1 to 65536, got 0",
        ),
        (
            near(1, 0, 1, 0.5),
            "the bands of a signature must be from 1 to 256, got 0",
        ),
        (
            near(1, 1, 65, 0.5),
            "the rows of a band must be from 1 to 64, got 65",
        ),
        (
            near(1, 1, 1, f64::NAN),
            "the similarity of near-duplicates must be above 0 and at most 1, got NaN",
        ),
        (
            Deduplication::Substring { length: 1 },
            "the tokens of a repeated stretch must be from 2 to 16777216, got 1",
        ),
    ] {
        assert_eq!(options(method).validate().unwrap_err().to_string(), said);
        assert_eq!(method.fates(&[], 0).unwrap_err().to_string(), said);
    }
}

/// Which of two records with one text is there does not hang on what is marked in one of them, nor on characters that a
/// vocabulary does not distinguish.
#[test]
fn no_secret_decides_what_is_a_duplicate() -> reticent_corpus::Result<()> {
    let name =
        |id: &str, text: &str, start, end| Document::new(id, text).with_secret(start, end, "name");
    let text = "call Ann or Bob";
    let half_marked = [Document::new("a", text), name("b", text, 12, 15)];
    let unknown = [name("a", "code é end", 5, 6), name("b", "code è end", 5, 6)];
    for documents in [half_marked, unknown] {
        let preparer = Preparer::new(&documents, &options(Deduplication::Exact))?;
        assert_eq!(preparer.run()?.facts.duplicates, 0);
        let found = preparer.neighbours(Selection::All, &|_, _| true)?;
        assert_eq!(found.all.missed, 0, "{found:?}");
    }
    let both = [name("a", text, 12, 15), name("b", text, 12, 15)];
    let preparer = Preparer::new(&both, &options(Deduplication::Exact))?;
    assert_eq!(preparer.run()?.facts.duplicates, 1);
    Ok(())
}

/// Masking a secret beforehand may only make copies of what were copies: not of a mark of another kind, of touching marks, nor
/// of a text that holds the character for a mask. Where the input has masks, it may, and then no secret is caught.
#[test]
fn a_caught_secret_makes_no_copies() -> reticent_corpus::Result<()> {
    let marked = |kind: &str| Document::new(kind, "I am Bob ok").with_secret(5, 8, kind);
    let touching = Document::new("t", "I am BobBob ok")
        .with_secret(5, 8, "name")
        .with_secret(8, 11, "name");
    let literal = Document::new("l", "I am \u{fffc} ok");
    let masked = Document {
        masked: vec![Masked { start: 5, end: 8 }],
        ..Document::new("m", "I am Zed ok")
    };
    for (other, missed, duplicates) in [
        (marked("person"), 0, 1),
        (touching, 0, 0),
        (literal, 0, 0),
        (masked, 1, 0),
    ] {
        for documents in [
            [marked("name"), other.clone()],
            [other.clone(), marked("name")],
        ] {
            let preparer = Preparer::new(&documents, &options(Deduplication::Exact))?;
            let facts = preparer.run()?.facts;
            let found = preparer.neighbours(Selection::All, &|_, _| true)?;
            let counts = (facts.secrets.all.missed, facts.duplicates);
            assert_eq!(counts, (missed, duplicates), "{other:?}");
            assert_eq!(found.all.missed, missed, "{other:?}");
        }
    }
    Ok(())
}

/// Masking a secret makes copies of units that differ only in where an answer ends inside it; of others it makes none.
#[test]
fn a_secret_in_which_answers_end_is_not_caught() -> reticent_corpus::Result<()> {
    let options = PrepareOptions {
        unit: Unit::Document,
        loss_on: Some(LossOn::Assistant),
        ..options(Deduplication::Exact)
    };
    let answering = |end| Document {
        answers: Some(Answers {
            spans: std::iter::once(0..end).collect(),
            end: true,
        }),
        ..Document::new("d", "ab cdeffe gh")
            .with_secret(3, 7, "name")
            .with_secret(7, 9, "name")
    };
    for (ends, missed) in [([4, 6], 1), ([3, 7], 0), ([7, 9], 0), ([2, 12], 0)] {
        let preparer = Preparer::new(&ends.map(answering), &options)?;
        let facts = preparer.run()?.facts;
        assert_eq!(
            (facts.secrets.all.missed, facts.duplicates),
            (missed, 0),
            "{ends:?}"
        );
        let found = preparer.neighbours(Selection::All, &|_, _| true)?;
        assert_eq!(found.all.missed, missed, "{ends:?}");
    }
    // The two touch, and masking makes them one.
    let twice = |end| Document {
        answers: answering(end).answers,
        ..Document::new("d", "ab cdcd gh")
            .with_secret(3, 5, "name")
            .with_secret(5, 7, "name")
    };
    let preparer = Preparer::new(&[twice(5), twice(7)], &options)?;
    assert_eq!(preparer.run()?.facts.secrets.all.missed, 1);
    Ok(())
}

/// Records that differ in class or in what carries loss are no copies: another one in its place would be another record,
/// and the promise counts one.
#[test]
fn copies_leave_the_same_record_behind() -> reticent_corpus::Result<()> {
    let text = "my name is Ann";
    let classed = |class| Document {
        label: Some(class),
        ..Document::new("d", text)
    };
    let learned = |span: std::ops::Range<usize>, end| Document {
        answers: Some(Answers {
            spans: vec![span],
            end,
        }),
        ..Document::new("d", text)
    };
    let (labels, loss_on) = (
        Some(Labels::new("sentiment", ["good", "bad"])?),
        Some(LossOn::Assistant),
    );
    for duplicates in [Deduplication::Exact, Deduplication::Bloom { bits: 128 }] {
        let plain = PrepareOptions {
            unit: Unit::Document,
            ..options(duplicates)
        };
        let with_classes = PrepareOptions {
            labels: labels.clone(),
            ..plain.clone()
        };
        let with_loss = PrepareOptions {
            loss_on,
            ..plain.clone()
        };
        for (first, second, options) in [
            (classed(0), classed(1), &with_classes),
            (learned(0..7, true), learned(0..14, true), &with_loss),
            (learned(0..7, true), learned(0..7, false), &with_loss),
        ] {
            let facts = |second: &Document| -> reticent_corpus::Result<_> {
                let documents = [first.clone(), second.clone()];
                Ok(Preparer::new(&documents, options)?.run()?.facts.duplicates)
            };
            assert_eq!((facts(&first)?, facts(&second)?), (1, 0), "{second:?}");
        }
    }
    Ok(())
}

/// Stretches of bytes that end within a character.
#[test]
fn stretches_of_bytes_are_masked_as_whole_characters() -> reticent_corpus::Result<()> {
    for [first, second] in [["12345é", "12345è"], ["é12345", "©12345"]] {
        let documents = [Document::new("a", first), Document::new("b", second)];
        let options = PrepareOptions {
            tokenizer: TokenizerChoice::Bytes,
            ..options(Deduplication::Substring { length: 5 })
        };
        let prepared = Preparer::new(&documents, &options)?.run()?;
        assert_eq!(prepared.texts, [first]);
    }
    Ok(())
}
