//! Columns of treebanks and of named entities, as sentences to learn from.

use reticent_corpus::{NAME_LABELS, PARTS_OF_SPEECH, TaggedSentence};
use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// One word of a treebank.
struct Node {
    form: String,
    speech: u32,
    head: usize,
    relation: String,
}

/// Parts of speech, roles and a guess at names of a treebank in CoNLL-U.
#[derive(Default)]
pub(crate) struct Treebank {
    pub(crate) speech: Vec<TaggedSentence>,
    pub(crate) roles: Vec<TaggedSentence>,
    /// Proper nouns are names of an unknown kind, other words are none.
    pub(crate) names: Vec<TaggedSentence>,
}

pub(crate) fn treebank(path: &Path) -> Result<Treebank> {
    let text = std::fs::read_to_string(path)?;
    let mut out = Treebank::default();
    for block in text.split("\n\n") {
        let mut nodes = Vec::new();
        for line in block.lines().filter(|l| !l.starts_with('#')) {
            let columns: Vec<&str> = line.split('\t').collect();
            // Ranges (1-2) and empty nodes (1.1) are no words of their own.
            let [id, form, _, speech, _, _, head, relation, ..] = columns[..] else {
                continue;
            };
            if id.contains(['-', '.']) {
                continue;
            }
            let speech = PARTS_OF_SPEECH.iter().position(|p| *p == speech);
            nodes.push(Node {
                form: form.to_owned(),
                speech: speech.ok_or_else(|| {
                    format!("{}: unknown part of speech in {line:?}", path.display())
                })? as u32,
                head: head.parse()?,
                relation: relation.to_owned(),
            });
        }
        if nodes.is_empty() {
            continue;
        }
        let words: Vec<String> = nodes.iter().map(|n| n.form.clone()).collect();
        let sentence = |labels| TaggedSentence {
            words: words.clone(),
            labels,
        };
        out.speech
            .push(sentence(nodes.iter().map(|n| 1 << n.speech).collect()));
        out.roles.push(sentence(
            (0..nodes.len()).map(|i| 1 << role(&nodes, i, 0)).collect(),
        ));
        out.names.push(sentence(names(&nodes)));
    }
    Ok(out)
}

/// 1 for subjects, 2 for objects of verbs and of prepositions. A conjunct has the role of what
/// it is joined to.
fn role(nodes: &[Node], at: usize, depth: usize) -> u32 {
    let node = &nodes[at];
    let case = || {
        nodes
            .iter()
            .any(|n| n.head == at + 1 && n.relation == "case")
    };
    match node.relation.as_str() {
        r if r.starts_with("nsubj") => 1,
        "obj" | "iobj" => 2,
        r if (r.starts_with("obl") || r.starts_with("nmod")) && r != "nmod:poss" && case() => 2,
        "conj" if node.head > 0 && depth < 8 => role(nodes, node.head - 1, depth + 1),
        _ => 0,
    }
}

const ANY_NAME: u32 = 0b1_1111_1110;
const OTHER: u32 = 0b1_1000_0000;
const INSIDE: u32 = 0b1_0101_0100;
const DATES: &str = " monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september october november december christmas ";

fn names(nodes: &[Node]) -> Vec<u32> {
    let proper = |at: usize| {
        nodes
            .get(at)
            .is_some_and(|n| PARTS_OF_SPEECH[n.speech as usize] == "PROPN")
    };
    (0..nodes.len())
        .map(|at| {
            let node = &nodes[at];
            let date = DATES.contains(&format!(" {} ", node.form.to_lowercase()));
            let capital = node.form.starts_with(char::is_uppercase);
            if proper(at) && !date {
                ANY_NAME
            } else if at > 0 && proper(at - 1) && proper(at + 1) {
                // "of", "the", "-" inside a name
                1 | INSIDE
            } else if capital && at > 0 && PARTS_OF_SPEECH[node.speech as usize] == "ADJ" {
                // "American"
                OTHER | INSIDE
            } else if capital && at > 0 && PARTS_OF_SPEECH[node.speech as usize] != "PRON" {
                1 | ANY_NAME
            } else {
                1
            }
        })
        .collect()
}

/// The label, or those a word may have: other names where they were not marked, and user names,
/// which are persons to some annotators and nothing to others.
fn labels(label: usize, word: &str, misc: bool) -> u32 {
    match (label, misc) {
        (_, false) if word.starts_with('@') => 1 | 1 << label,
        (0, false) => 1 | OTHER,
        _ => 1 << label,
    }
}

/// Named entities in columns, the word first and the tag last; sentences end at blank lines.
/// `misc` says whether other names than persons, places and organisations were marked.
pub(crate) fn entities(path: &Path, misc: bool) -> Result<Vec<TaggedSentence>> {
    let text = std::fs::read_to_string(path)?;
    let kinds: HashMap<&str, &str> = [
        ("person", "PER"),
        ("location", "LOC"),
        ("group", "ORG"),
        ("corporation", "ORG"),
        ("product", "MISC"),
        ("creative-work", "MISC"),
        ("PER", "PER"),
        ("LOC", "LOC"),
        ("ORG", "ORG"),
        ("MISC", "MISC"),
    ]
    .into();
    let mut out = Vec::new();
    let mut sentence = TaggedSentence {
        words: Vec::new(),
        labels: Vec::new(),
    };
    let mut before = ("O", "");
    for line in text.lines().chain([""]) {
        let mut columns = line.split_whitespace();
        let (Some(word), Some(tag)) = (columns.next(), columns.next_back()) else {
            if !sentence.words.is_empty() {
                out.push(std::mem::replace(
                    &mut sentence,
                    TaggedSentence {
                        words: Vec::new(),
                        labels: Vec::new(),
                    },
                ));
            }
            before = ("O", "");
            continue;
        };
        let (place, kind) = tag.split_once('-').unwrap_or(("O", ""));
        let kind = if kind.is_empty() {
            ""
        } else {
            kinds
                .get(kind)
                .ok_or_else(|| format!("unknown kind {kind:?}"))?
        };
        // Where only I- is used, the first of a name begins it.
        let begins = place == "B" || before.0 == "O" || before.1 != kind;
        let label = match place {
            "O" => 0,
            _ => {
                let name = format!("{}-{kind}", if begins { "B" } else { "I" });
                NAME_LABELS
                    .iter()
                    .position(|l| *l == name)
                    .ok_or("unknown label")?
            }
        };
        before = (place, kind);
        sentence.words.push(word.to_owned());
        sentence.labels.push(labels(label, word, misc));
    }
    Ok(out)
}
