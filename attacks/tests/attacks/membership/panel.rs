//! All attacks from one table per model.

use super::close;
use crate::models::{Bigram, Levels, Memoriser, Toy, Uniform};
use reticent_attacks::Error;
use reticent_attacks::membership::{
    Attack, Beside, Need, Neighbours, Panel, ScoreTable, Scoring, digit_mutations, replacements,
};
use reticent_backends::{PrefixScorer, Scorer, TokenScore};
use std::ops::ControlFlow;

/// Letters a to j as tokens 1 to 10 behind a beginning 0; digits as 11 to 20.
fn frame(text: &str) -> reticent_attacks::Result<Vec<u32>> {
    let tokens = text.chars().map(|c| match c {
        '0'..='9' => 11 + c as u32 - '0' as u32,
        _ => 1 + (c.to_ascii_lowercase() as u32 - 'a' as u32) % 10 + u32::from(c.is_uppercase()),
    });
    Ok(std::iter::once(0).chain(tokens).collect())
}

fn go(_: usize) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

const SCORING: Scoring = Scoring {
    context: None,
    batch_tokens: 64,
};

fn attack(name: &str) -> Attack {
    Attack::named(name).unwrap()
}

fn texts() -> Vec<String> {
    ["abc12", "Aji9", "hgfedcba40", "cc1"]
        .map(str::to_owned)
        .to_vec()
}

/// A scorer that counts the sequences and tokens it is asked for.
struct Counted<S> {
    inner: S,
    sequences: usize,
}

impl<S: Scorer> Scorer for Counted<S> {
    fn vocabulary_size(&self) -> usize {
        self.inner.vocabulary_size()
    }
    fn score(&mut self, sequences: &[Vec<u32>]) -> reticent_backends::Result<Vec<Vec<TokenScore>>> {
        self.sequences += sequences.len();
        self.inner.score(sequences)
    }
}

/// Every attack of the panel is the attack on the record scored by itself.
#[test]
fn a_panel_says_what_single_records_say() {
    let mut model = Counted {
        inner: Toy::new(Bigram::random(25, Levels::Smooth, 3)),
        sequences: 0,
    };
    let mut base = Counted {
        inner: Toy::new(Bigram::random(25, Levels::Smooth, 4)),
        sequences: 0,
    };
    let beside = Beside {
        lower_case: true,
        neighbours: Some(Neighbours::Digits { count: 3, seed: 9 }),
    };
    let panel = Panel::of(&mut model, texts(), &frame, beside, SCORING, &mut go)
        .unwrap()
        .with_reference(&mut base, SCORING, &mut go)
        .unwrap();
    assert_eq!(model.sequences, 4 + 4 + 12, "texts, lower case, neighbours");
    assert_eq!(base.sequences, 4, "the reference sees the records alone");
    assert_eq!(panel.target().scored_tokens(), 5 + 4 + 10 + 3);
    let nll = |scorer: &mut dyn Scorer, text: &str| -> f64 {
        let rows = scorer.score(&[frame(text).unwrap()]).unwrap();
        let sum: f64 = rows[0].iter().map(|s| s.log_probability).sum();
        -sum / rows[0].len() as f64
    };
    for (index, text) in texts().iter().enumerate() {
        let score = |attack| panel.scores(attack).unwrap().unwrap()[index];
        let own = nll(&mut model, text);
        close(score(attack("loss")), -own, 1e-12);
        close(
            score(attack("reference")),
            nll(&mut base, text) - own,
            1e-12,
        );
        let lower = nll(&mut model, &text.to_lowercase());
        close(score(attack("lower-case")), lower / own, 1e-12);
        let near =
            reticent_attacks::membership::digit_mutations(text, 3, 9 + index as u64).unwrap();
        let near: f64 = near.iter().map(|t| nll(&mut model, t)).sum::<f64>() / near.len() as f64;
        close(score(attack("neighbourhood")), near - own, 1e-12);
    }
    for attack in Attack::ALL {
        assert_eq!(panel.scores(attack).unwrap().unwrap().len(), 4);
        assert_eq!(Attack::named(attack.name), Some(attack));
    }
}

/// Neighbours that are given count as those that the panel draws do; their number must be that of the texts.
#[test]
fn given_neighbours_are_those_of_the_panel() {
    let near = texts().into_iter().enumerate().map(|(i, text)| {
        let near = digit_mutations(&text, 3, 9 + i as u64).unwrap();
        near.iter().map(|t| frame(t).unwrap()).collect::<Vec<_>>()
    });
    let near: Vec<_> = near.collect();
    let panel = |neighbours| {
        let beside = Beside {
            lower_case: false,
            neighbours: Some(neighbours),
        };
        let mut model = Toy::new(Bigram::random(25, Levels::Smooth, 1));
        Panel::of(&mut model, texts(), &frame, beside, SCORING, &mut go)
    };
    let drawn = panel(Neighbours::Digits { count: 3, seed: 9 }).unwrap();
    let given = panel(Neighbours::Given(near.clone())).unwrap();
    assert_eq!(
        drawn.scores(attack("neighbourhood")).unwrap(),
        given.scores(attack("neighbourhood")).unwrap()
    );
    assert!(matches!(
        panel(Neighbours::Given(near[1..].to_vec())),
        Err(Error::WrongCount {
            got: 3,
            wanted: 4,
            ..
        })
    ));
    let none = panel(Neighbours::Given(vec![Vec::new(); 4])).unwrap();
    assert!(
        none.scores(attack("neighbourhood")).is_err(),
        "no neighbour, no score"
    );
}

/// One token of each neighbour is another one, at places and with chances as said. Seed 3, 20 000 neighbours of one
/// record: a count of n·p lies within five standard deviations but for one run in 5e5 or so (93 counts, 6e-7 each).
#[test]
fn replacements_follow_the_model() {
    let record = [0, 4, 7, 2, 0];
    let model = Bigram::random(25, Levels::Smooth, 8);
    let mut model = Toy::new(model);
    let near = replacements(&mut model, &record, 20_000, None, 3).unwrap();
    let mut counts = std::collections::BTreeMap::new();
    for text in &near {
        let changed: Vec<usize> = (0..5).filter(|&i| text[i] != record[i]).collect();
        assert!(
            changed.len() == 1 && (1..4).contains(&changed[0]),
            "{text:?}"
        );
        *counts
            .entry((changed[0], text[changed[0]]))
            .or_insert(0_u32) += 1;
    }
    for at in 1..4 {
        let states = model.start(&[record[..at].to_vec()]).unwrap();
        let all: Vec<u32> = (0..25).collect();
        let row = model.next_log_probabilities(&states, &all).unwrap();
        let allowed = |t: &u32| *t != 0 && *t != record[at];
        let whole: f64 = all
            .iter()
            .filter(|t| allowed(t))
            .map(|t| row[*t as usize].exp())
            .sum();
        for token in all.iter().filter(|t| allowed(t)) {
            let p = row[*token as usize].exp() / whole / 3.0;
            let got = f64::from(counts.get(&(at, *token)).copied().unwrap_or(0));
            let spread = (20_000.0 * p * (1.0 - p)).sqrt();
            assert!(
                (got - 20_000.0 * p).abs() <= 5.0 * spread + 1.0,
                "{at} {token}: {got}"
            );
        }
        model.release(&states);
    }
    assert_eq!(
        near,
        replacements(&mut model, &record, 20_000, None, 3).unwrap()
    );
    // A context of two tokens leaves one place.
    let short = replacements(&mut model, &record, 50, Some(2), 1).unwrap();
    assert!(
        short
            .iter()
            .all(|text| text[1] != 4 && text[2..] == record[2..])
    );
    assert!(replacements(&mut model, &[0, 0], 1, None, 0).is_err());
    // A model that expects nothing but the record still proposes something.
    let mut heart = Toy::new(Memoriser {
        vocabulary: 25,
        texts: vec![record.to_vec()],
    });
    let near = replacements(&mut heart, &record, 50, None, 0).unwrap();
    assert!(near.iter().all(|text| text[..] != record));
}

/// What the panel lacks is said, and no attack leaves single records out.
#[test]
fn what_lacks_evidence_gives_no_scores() {
    let mut model = Toy::new(Uniform::new(25));
    let mut few = texts();
    few.push("abc".to_owned());
    let beside = Beside {
        lower_case: false,
        neighbours: Some(Neighbours::Digits { count: 3, seed: 0 }),
    };
    let panel = Panel::of(&mut model, few, &frame, beside, SCORING, &mut go).unwrap();
    assert_eq!(panel.without_digits(), 1);
    for attack in Attack::ALL {
        let able = attack.needs == Need::Nothing;
        assert_eq!(panel.scores(attack).unwrap().is_some(), able, "{attack:?}");
    }
}

/// T13: batches change nothing, and windows predict every token once: a record longer than the
/// model reads has as many scores as tokens behind the first.
#[test]
fn batches_and_windows_lose_no_token() {
    let mut model = Toy::new(Bigram::random(25, Levels::Smooth, 5));
    let records: Vec<Vec<u32>> = (2..30_u32)
        .map(|n| (0..n).map(|i| (i * n) % 25).collect())
        .collect();
    let table = |model: &mut Toy<Bigram>, context, batch_tokens| {
        let scoring = Scoring {
            context,
            batch_tokens,
        };
        ScoreTable::of(model, records.clone(), scoring, &mut go).unwrap()
    };
    let whole = table(&mut model, None, 1);
    assert_eq!(whole, table(&mut model, None, 100_000));
    // Two tokens are all that a bigram model looks at: windows of four lose only the first
    // prediction of each window.
    let cut = table(&mut model, Some(4), 64);
    assert_eq!(cut.scored_tokens(), whole.scored_tokens());
    for index in 0..records.len() {
        let pairs = whole.record(index).unwrap();
        let same = pairs
            .each()
            .zip(cut.record(index).unwrap().each())
            .enumerate()
            .filter(|(place, _)| place % 3 != 0);
        for (place, ((token, a), (other, b))) in same {
            assert!(token == other && a == b, "record {index}, place {place}");
        }
    }
    assert!(whole.record(records.len()).is_err());
}

/// A member that is known by heart has the highest score under every attack that can see it.
#[test]
fn a_memorised_record_stands_out() {
    let heart = frame("hgfedcba40").unwrap();
    let mut model = Toy::new(Memoriser {
        vocabulary: 25,
        texts: vec![heart],
    });
    let mut base = Toy::new(Uniform::new(25));
    let beside = Beside {
        lower_case: false,
        neighbours: Some(Neighbours::Digits { count: 5, seed: 1 }),
    };
    let panel = Panel::of(&mut model, texts(), &frame, beside, SCORING, &mut go)
        .unwrap()
        .with_reference(&mut base, SCORING, &mut go)
        .unwrap();
    for name in [
        "loss",
        "reference",
        "zlib",
        "min-k",
        "neighbourhood",
        "ez",
        "wbc",
    ] {
        let scores = panel.scores(attack(name)).unwrap().unwrap();
        let best = (0..4).max_by(|a, b| scores[*a].total_cmp(&scores[*b]));
        assert_eq!(best, Some(2), "{name}: {scores:?}");
    }
}

#[test]
fn what_cannot_be_scored_is_refused() {
    let mut model = Toy::new(Uniform::new(25));
    let empty = ScoreTable::of(&mut model, vec![], SCORING, &mut go);
    assert!(matches!(empty, Err(Error::Empty(_))));
    let short = ScoreTable::of(&mut model, vec![vec![0, 1], vec![0]], SCORING, &mut go);
    assert!(matches!(short, Err(Error::Empty(_))));
    let mut stop = |_: usize| ControlFlow::Break(());
    let stopped = ScoreTable::of(&mut model, vec![vec![0, 1]], SCORING, &mut stop);
    assert!(matches!(stopped, Err(Error::Interrupted)));
    // A state that a failed call would leave behind.
    assert_eq!(model.start(&[vec![0]]).unwrap().len(), 1);
}
