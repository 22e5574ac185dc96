//! Columns of treebanks and of named entities, as sentences to learn from.

use reticent_corpus::tagger::{NAME_LABELS, PARTS_OF_SPEECH, TaggedSentence};
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

/// Parts of speech and roles of a treebank in CoNLL-U.
#[derive(Default)]
pub(crate) struct Treebank {
    pub(crate) speech: Vec<TaggedSentence>,
    pub(crate) roles: Vec<TaggedSentence>,
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

/// The label, or those a word may have: other names, which were not marked, and user names, which are persons to some
/// annotators and nothing to others.
fn labels(label: usize, word: &str) -> u32 {
    match label {
        _ if word.starts_with('@') => 1 | 1 << label,
        0 => 1 | OTHER,
        _ => 1 << label,
    }
}

/// Named entities in columns, the word first and the tag last; sentences end at blank lines.
pub(crate) fn entities(path: &Path) -> Result<Vec<TaggedSentence>> {
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
        let line = if line.starts_with("-DOCSTART-") {
            ""
        } else {
            line
        };
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
        sentence.labels.push(1 << label);
    }
    Ok(out)
}

/// Names by their places in articles: `12.3 17 PER:0-2` says of the fourth sentence of the thirteenth article that it has 17
/// words, of which the first two are a person.
pub(crate) fn marked(marks: &str, articles: &[Vec<Vec<String>>]) -> Result<Vec<TaggedSentence>> {
    let mut out = Vec::new();
    for line in marks.lines() {
        let mut parts = line.split(' ');
        let mut numbers = |mark: char| -> Result<(usize, usize)> {
            let part = parts.next().unwrap_or_default();
            let (one, two) = part.split_once(mark).unwrap_or((part, "0"));
            Ok((one.parse()?, two.parse()?))
        };
        let (article, sentence) = numbers('.')?;
        let (length, _) = numbers(' ')?;
        let words = articles
            .get(article)
            .and_then(|article| article.get(sentence))
            .filter(|words| words.len() == length)
            .ok_or_else(|| format!("no sentence for {line:?}: another version of the text"))?;
        let mut labels = vec![1u32; length];
        for part in parts {
            let wrong = || format!("{part:?} is no name in {line:?}");
            let (kind, place) = part.split_once(':').ok_or_else(wrong)?;
            let (first, end) = place.split_once('-').ok_or_else(wrong)?;
            let begins = NAME_LABELS
                .iter()
                .position(|label| label.strip_prefix("B-") == Some(kind));
            let begins = begins.ok_or_else(wrong)?;
            let of = labels
                .get_mut(first.parse()?..end.parse()?)
                .ok_or_else(wrong)?;
            for (at, label) in of.iter_mut().enumerate() {
                *label = 1 << (begins + usize::from(at > 0));
            }
        }
        out.push(TaggedSentence {
            words: words.clone(),
            labels,
        });
    }
    Ok(out)
}

/// Names in the columns of Universal NER: number, word, tag. Other names than persons, places and organisations
/// were not marked.
pub(crate) fn universal(path: &Path) -> Result<Vec<TaggedSentence>> {
    let text = std::fs::read_to_string(path)?;
    let mut out = Vec::new();
    for block in text.split("\n\n") {
        let (mut words, mut sets) = (Vec::new(), Vec::new());
        for line in block.lines().filter(|line| !line.starts_with('#')) {
            let mut columns = line.split('\t');
            let (Some(_), Some(word), Some(tag)) = (columns.next(), columns.next(), columns.next())
            else {
                continue;
            };
            let label = match tag {
                "B-OTH" | "I-OTH" => 0,
                tag => NAME_LABELS
                    .iter()
                    .position(|label| *label == tag)
                    .ok_or_else(|| format!("unknown tag {tag:?}"))?,
            };
            sets.push(labels(label, word));
            words.push(word.to_owned());
        }
        if !words.is_empty() {
            out.push(TaggedSentence {
                words,
                labels: sets,
            });
        }
    }
    Ok(out)
}

/// One entity of GUM: what it is, its first and last word, and the word that heads it.
struct Mention {
    kind: &'static str,
    first: usize,
    last: usize,
    head: usize,
}

impl Mention {
    fn holds(&self, at: usize) -> bool {
        (self.first..=self.last).contains(&at)
    }
}

/// The entities of a sentence by the marks at its words: `(1-person-giv:act-1-coref-Name` opens one, `1)` closes it.
fn mentions(nodes: &[Node], marks: &[String]) -> Vec<Mention> {
    let mut open: Vec<(String, &'static str, usize)> = Vec::new();
    let mut out = Vec::new();
    let mut close = |entity: Option<(String, &'static str, usize)>, last: usize| {
        let Some((_, kind, first)) = entity else {
            return;
        };
        let outside =
            |at: &usize| nodes[*at].head == 0 || !(first + 1..=last + 1).contains(&nodes[*at].head);
        let head = (first..=last).find(outside).unwrap_or(first);
        out.push(Mention {
            kind,
            first,
            last,
            head,
        });
    };
    for (at, mark) in marks.iter().enumerate() {
        let mut rest = mark.as_str();
        while !rest.is_empty() {
            if let Some(opened) = rest.strip_prefix('(') {
                let end = opened.find(['(', ')']).unwrap_or(opened.len());
                let mut parts = opened[..end].split('-');
                let id = parts.next().unwrap_or_default().to_owned();
                let kind = match parts.next() {
                    Some("person") => "PER",
                    Some("place") => "LOC",
                    Some("organization") => "ORG",
                    Some("time") => "",
                    Some("event") => "MISC",
                    _ => "?",
                };
                open.push((id, kind, at));
                rest = &opened[end..];
                if let Some(after) = rest.strip_prefix(')') {
                    close(open.pop(), at);
                    rest = after;
                }
            } else {
                let end = rest.find(')').unwrap_or(rest.len());
                let place = open.iter().rposition(|(id, ..)| *id == rest[..end]);
                close(place.map(|place| open.remove(place)), at);
                rest = rest.get(end + 1..).unwrap_or_default();
            }
        }
    }
    out
}

const TITLES: &str = " mr. mrs. ms. dr. prof. professor president senator sen. governor gov. minister secretary king queen \
    prince princess pope sir lord lady captain general gen. colonel sergeant judge justice mayor emperor bishop archbishop \
    cardinal saint st. count duke earl baron representative rep. chancellor ambassador ";

/// Names in GUM: its entities that are headed by proper nouns, with sets of labels where CoNLL's
/// annotators would draw other borders.
pub(crate) fn gum(path: &Path) -> Result<Vec<TaggedSentence>> {
    let text = std::fs::read_to_string(path)?;
    let mut out = Vec::new();
    for block in text.split("\n\n") {
        let (mut nodes, mut marks) = (Vec::new(), Vec::new());
        for line in block.lines().filter(|l| !l.starts_with('#')) {
            let columns: Vec<&str> = line.split('\t').collect();
            let [id, form, _, speech, _, _, head, relation, _, misc] = columns[..] else {
                continue;
            };
            if id.contains(['-', '.']) {
                continue;
            }
            let speech = PARTS_OF_SPEECH.iter().position(|p| *p == speech);
            nodes.push(Node {
                form: form.to_owned(),
                speech: speech.ok_or_else(|| format!("unknown part of speech in {line:?}"))? as u32,
                head: head.parse()?,
                relation: relation.to_owned(),
            });
            let mark = misc
                .split('|')
                .find_map(|part| part.strip_prefix("Entity="));
            marks.push(mark.unwrap_or_default().to_owned());
        }
        if !nodes.is_empty() {
            let labels = named(&nodes, &mentions(&nodes, &marks));
            out.push(TaggedSentence {
                words: nodes.into_iter().map(|node| node.form).collect(),
                labels,
            });
        }
    }
    Ok(out)
}

fn first_label(kind: &str) -> u32 {
    match kind {
        "PER" => 1 << 1,
        "LOC" => 1 << 3,
        "ORG" => 1 << 5,
        "MISC" => 1 << 7,
        _ => 1,
    }
}

fn named(nodes: &[Node], mentions: &[Mention]) -> Vec<u32> {
    let proper = |at: usize| PARTS_OF_SPEECH[nodes[at].speech as usize] == "PROPN";
    let capital = |at: usize| nodes[at].form.starts_with(char::is_uppercase);
    let heads = |mention: &&Mention| proper(mention.head);
    // The entity whose name a proper noun is part of: the innermost, or one around it that it modifies.
    let of = |at: usize| -> Option<usize> {
        let mut around: Vec<usize> = (0..mentions.len())
            .filter(|m| mentions[*m].holds(at) && heads(&&mentions[*m]))
            .collect();
        around.sort_by_key(|m| mentions[*m].last - mentions[*m].first);
        let mut found = *around.first()?;
        for outer in &around[1..] {
            let node = &nodes[mentions[found].head];
            let modifies = matches!(
                &*node.relation,
                "compound" | "flat" | "amod" | "nmod:unmarked"
            );
            if modifies && node.head == mentions[*outer].head + 1 {
                found = *outer;
            }
        }
        Some(found)
    };
    let whose: Vec<Option<usize>> = (0..nodes.len())
        .map(|at| proper(at).then(|| of(at)).flatten())
        .collect();
    let mut labels = vec![1u32; nodes.len()];
    for at in 0..nodes.len() {
        let Some(mention) = whose[at] else {
            let date = DATES.contains(&format!(" {} ", nodes[at].form.to_lowercase()));
            labels[at] = if date {
                1
            } else if proper(at) {
                1 | ANY_NAME
            } else if capital(at) && at > 0 && PARTS_OF_SPEECH[nodes[at].speech as usize] == "ADJ" {
                OTHER | INSIDE
            } else if capital(at) && at > 0 && PARTS_OF_SPEECH[nodes[at].speech as usize] != "PRON"
            {
                1 | ANY_NAME
            } else {
                1
            };
            continue;
        };
        if mentions[mention].kind == "?" {
            labels[at] = 1 | OTHER;
            continue;
        }
        let first = first_label(mentions[mention].kind);
        let (inside, before) = (first << u32::from(first > 1), at.checked_sub(1));
        let title = |at: usize| TITLES.contains(&format!(" {} ", nodes[at].form.to_lowercase()));
        labels[at] = if !capital(at) && first > 1 {
            1 | first | inside
        } else if before.is_some_and(|b| whose[b] == Some(mention)) {
            let titled = before.is_some_and(title);
            inside
                | if titled && mentions[mention].kind == "PER" {
                    first
                } else {
                    0
                }
        } else if title(at) && mentions[mention].kind == "PER" {
            1 | first
        } else {
            first
        };
        // `University of Michigan`: one name to some, two to others.
        let head = &nodes[mentions[mention].head];
        let parent = head
            .head
            .checked_sub(1)
            .filter(|p| head.relation == "nmod" && *p < at);
        if let Some((parent, outer)) = parent.and_then(|p| Some((p, whose[p]?))) {
            let from = mentions[mention].first;
            if from > parent && from - parent <= 4 && mentions[outer].kind != "PER" {
                let further = first_label(mentions[outer].kind);
                let further = further << u32::from(further > 1);
                for label in &mut labels[parent + 1..from] {
                    *label |= further;
                }
                labels[at] |= further;
            }
        }
    }
    // Words and numbers between or right behind the words of one name.
    for at in 1..nodes.len() {
        if whose[at].is_some() {
            continue;
        }
        let Some(mention) = whose[..at].iter().rev().take(4).find_map(|w| *w) else {
            continue;
        };
        let inside = first_label(mentions[mention].kind);
        let inside = inside << u32::from(inside > 1);
        let goes_on = whose[at..].iter().take(4).any(|w| *w == Some(mention));
        let number =
            whose[at - 1] == Some(mention) && PARTS_OF_SPEECH[nodes[at].speech as usize] == "NUM";
        if mentions[mention].holds(at) && (goes_on || number) {
            labels[at] |= inside;
        }
    }
    labels
}
