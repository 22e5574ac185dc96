//! Precision, recall and F1 on sentences nobody trained on.

use reticent_corpus::tagger::{
    NAME_LABELS, PARTS_OF_SPEECH, TaggedSentence, TaggerModel, WordTags, name_labels,
};
use std::collections::BTreeMap;

/// Found, right, and what there was to find.
#[derive(Default, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) found: usize,
    pub(crate) right: usize,
    pub(crate) gold: usize,
}

impl Counts {
    pub(crate) fn row(&self) -> String {
        let share = |of: usize| {
            if of == 0 {
                f64::NAN
            } else {
                self.right as f64 / of as f64
            }
        };
        let (p, r) = (share(self.found), share(self.gold));
        format!(
            "precision {p:.3}  recall {r:.3}  F1 {:.3}  ({} right, {} found, {} marked)",
            2.0 * p * r / (p + r),
            self.right,
            self.found,
            self.gold
        )
    }
}

fn tagged(model: &TaggerModel, sentence: &TaggedSentence) -> Vec<WordTags> {
    let words: Vec<&str> = sentence.words.iter().map(String::as_str).collect();
    model.tag_words(&words)
}

/// The spans of labels: kind, first word, end.
fn spans(labels: &[&str]) -> Vec<(String, usize, usize)> {
    let mut out: Vec<(String, usize, usize)> = Vec::new();
    for (at, label) in labels.iter().enumerate() {
        let Some((place, kind)) = label.split_once('-') else {
            continue;
        };
        match out.last_mut() {
            Some(last) if place == "I" && last.2 == at && last.0 == kind => last.2 = at + 1,
            _ => out.push((kind.to_owned(), at, at + 1)),
        }
    }
    out
}

/// Whole names with their kind, as CoNLL counts them; `kinds` are those that were marked.
pub(crate) fn names(
    model: &TaggerModel,
    sentences: &[TaggedSentence],
    kinds: &[&str],
) -> BTreeMap<String, Counts> {
    let mut out: BTreeMap<String, Counts> = BTreeMap::new();
    for sentence in sentences {
        let gold: Vec<&str> = sentence
            .labels
            .iter()
            .map(|l| NAME_LABELS[l.trailing_zeros() as usize])
            .collect();
        let tags = tagged(model, sentence);
        let found = name_labels(&tags);
        let keep = |of: Vec<(String, usize, usize)>| -> Vec<_> {
            of.into_iter().filter(|s| kinds.contains(&&*s.0)).collect()
        };
        let (gold, found) = (keep(spans(&gold)), keep(spans(&found)));
        for (list, which) in [(&gold, 0), (&found, 1)] {
            for span in list {
                for name in [&span.0, "all"] {
                    let counts = out.entry(name.to_owned()).or_default();
                    match which {
                        0 => counts.gold += 1,
                        _ => {
                            counts.found += 1;
                            counts.right += usize::from(gold.contains(span));
                        }
                    }
                }
            }
        }
    }
    out
}

/// Words in names of any kind, at a threshold: what redaction asks.
pub(crate) fn words(model: &TaggerModel, sentences: &[TaggedSentence], least: f32) -> Counts {
    let mut counts = Counts::default();
    for sentence in sentences {
        for (tags, label) in tagged(model, sentence).iter().zip(&sentence.labels) {
            let (gold, found) = (*label != 1, tags.in_name() >= least);
            counts.gold += usize::from(gold);
            counts.found += usize::from(found);
            counts.right += usize::from(gold && found);
        }
    }
    counts
}

/// Share of right parts of speech, and counts of each.
pub(crate) fn speech(
    model: &TaggerModel,
    sentences: &[TaggedSentence],
) -> (f64, BTreeMap<String, Counts>) {
    one_word(model, sentences, &PARTS_OF_SPEECH, WordTags::part_of_speech)
}

/// The same for one label a word.
pub(crate) fn one_word(
    model: &TaggerModel,
    sentences: &[TaggedSentence],
    labels: &[&str],
    of: impl Fn(&WordTags) -> &'static str,
) -> (f64, BTreeMap<String, Counts>) {
    let mut out: BTreeMap<String, Counts> = BTreeMap::new();
    let (mut right, mut all) = (0, 0);
    for sentence in sentences {
        for (tags, label) in tagged(model, sentence).iter().zip(&sentence.labels) {
            let (gold, found) = (labels[label.trailing_zeros() as usize], of(tags));
            all += 1;
            right += usize::from(gold == found);
            out.entry(gold.to_owned()).or_default().gold += 1;
            let counts = out.entry(found.to_owned()).or_default();
            counts.found += 1;
            counts.right += usize::from(gold == found);
        }
    }
    (
        f64::from(right as u32) / f64::from((all as u32).max(1)),
        out,
    )
}
