//! Articles that nobody marked, with the names a first model finds in them, so that a second one learns what articles
//! look like. A name is taken for the same kind throughout an article.

use reticent_corpus::tagger::{TaggedSentence, TaggerModel, WordTags, name_labels};
use std::collections::HashMap;

/// How sure the first model must be of a name's kind, over an article, and of a word that it is none.
const SURE_KIND: f32 = 0.6;
const SURE_PLAIN: f32 = 0.9;
/// The last word of a person's name stands for the person where it may well do so.
const LIKELY_PERSON: f32 = 0.25;
const PERSON: usize = 0;
const KINDS: usize = 4;

/// The sentences of each article: lines ` = Title = ` begin one, other headings are left out.
pub(crate) fn articles(text: &str) -> Vec<Vec<Vec<String>>> {
    let mut out: Vec<Vec<Vec<String>>> = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        let heading = line.starts_with("= ") && line.ends_with(" =");
        if heading && !line.starts_with("= = ") {
            out.push(Vec::new());
        }
        let Some(article) = out.last_mut().filter(|_| !heading && !line.is_empty()) else {
            continue;
        };
        let mut words: Vec<String> = Vec::new();
        let mut joins = false;
        for word in line.split(' ') {
            let mark = word
                .strip_prefix('@')
                .and_then(|w| w.strip_suffix('@'))
                .filter(|m| !m.is_empty());
            match (mark, words.last_mut()) {
                (Some(mark), Some(last)) => {
                    last.push_str(mark);
                    joins = true;
                    continue;
                }
                (None, Some(last)) if joins => last.push_str(word),
                _ => words.push(word.to_owned()),
            }
            joins = false;
            if matches!(word, "." | "!" | "?") {
                article.push(std::mem::take(&mut words));
            }
        }
        if !words.is_empty() {
            article.push(words);
        }
    }
    out
}

/// A run of words that the model takes for one name.
struct Found {
    first: usize,
    end: usize,
    kinds: [f32; KINDS],
}

fn found(tags: &[WordTags]) -> Vec<Found> {
    let mut out: Vec<Found> = Vec::new();
    for (at, label) in name_labels(tags).into_iter().enumerate() {
        let kinds = [1, 3, 5, 7].map(|label| tags[at].name[label] + tags[at].name[label + 1]);
        match out.last_mut() {
            _ if label == "O" => {}
            Some(last) if last.end == at && label.starts_with('I') => {
                last.end = at + 1;
                for (sum, kind) in last.kinds.iter_mut().zip(kinds) {
                    *sum += kind;
                }
            }
            _ => out.push(Found {
                first: at,
                end: at + 1,
                kinds,
            }),
        }
    }
    for name in &mut out {
        let words = (name.end - name.first) as f32;
        name.kinds = name.kinds.map(|kind| kind / words);
    }
    out
}

/// The sentences of an article with what the model says of them, agreed over the article.
pub(crate) fn labelled(model: &TaggerModel, sentences: &[Vec<String>]) -> Vec<TaggedSentence> {
    let mut kinds: HashMap<&[String], ([f32; KINDS], f32)> = HashMap::new();
    let mut tagged = Vec::new();
    for words in sentences {
        let forms: Vec<&str> = words.iter().map(String::as_str).collect();
        let of = model.tag_words(&forms);
        let names = found(&of);
        for name in &names {
            let sum = kinds.entry(&words[name.first..name.end]).or_default();
            for (sum, kind) in sum.0.iter_mut().zip(name.kinds) {
                *sum += kind;
            }
            sum.1 += 1.0;
        }
        tagged.push((words, of, names));
    }
    let mean = |words: &[String]| kinds.get(words).map(|(sum, count)| sum.map(|s| s / count));
    let best = |means: [f32; KINDS]| {
        (0..KINDS)
            .max_by(|a, b| means[*a].total_cmp(&means[*b]))
            .unwrap_or(0)
    };
    let mut persons: HashMap<&String, f32> = HashMap::new();
    for (words, (_, count)) in &kinds {
        let person =
            mean(words).is_some_and(|means| best(means) == PERSON && means[PERSON] >= SURE_KIND);
        if words.len() > 1 && person {
            *persons.entry(&words[words.len() - 1]).or_default() += count;
        }
    }
    tagged
        .into_iter()
        .map(|(words, of, names)| {
            let mut labels: Vec<u32> = of
                .iter()
                .map(|of| {
                    if of.name[0] >= SURE_PLAIN {
                        1
                    } else {
                        0b1_1111_1111
                    }
                })
                .collect();
            for name in names {
                let spelt = &words[name.first..name.end];
                let means = mean(spelt).unwrap_or(name.kinds);
                let alone = spelt.len() == 1
                    && means[PERSON] >= LIKELY_PERSON
                    && persons.contains_key(&spelt[0]);
                let kind = if alone { PERSON } else { best(means) };
                let sure = alone || means[kind] >= SURE_KIND;
                for (at, label) in labels[name.first..name.end].iter_mut().enumerate() {
                    let place = if at == 0 { 1 } else { 2 };
                    *label = if sure {
                        1 << (2 * kind + place)
                    } else {
                        (0..KINDS).map(|kind| 1 << (2 * kind + place)).sum()
                    };
                }
            }
            TaggedSentence {
                words: words.clone(),
                labels,
            }
        })
        .collect()
}
