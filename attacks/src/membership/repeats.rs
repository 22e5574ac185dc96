//! What makes several records one piece of evidence: ties, and texts that repeat.

use super::blind::{BlindBaseline, blind_baseline};
use super::set::ScoreSet;
use crate::error::{Error, Result};
use reticent_accounting::Confidence;
use reticent_corpus::same_texts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};

/// How the texts of members and non-members repeat. Near-copies are copies: see
/// [`reticent_corpus::same_texts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Repeats {
    /// Members that were judged, and the different texts that they are.
    pub members: SideRepeats,
    /// Non-members, likewise.
    pub non_members: SideRepeats,
}

/// How the texts of one side repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SideRepeats {
    /// Different texts among the records that were judged: one is one piece of evidence.
    pub texts: usize,
    /// Records that were judged whose text another record of the side has, too.
    pub repeated: usize,
    /// Records that were left out, as their text stands on the other side, too.
    pub on_both_sides: usize,
}

/// Records whose texts are known: which of them are judged, and which are copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextCopies {
    kept: [Vec<usize>; 2],
    numbers: [Vec<usize>; 2],
    on_both_sides: [usize; 2],
}

impl TextCopies {
    /// Finds copies and near-copies, and leaves out texts of which both sides have one: whether
    /// such a record is a member or not, its score is that of its copy.
    ///
    /// ```
    /// use reticent_attacks::TextCopies;
    /// let members = ["one", "two", "two", "three"].map(String::from);
    /// let others = ["Three.", "four"].map(String::from);
    /// let found = TextCopies::of(&members, &others)?;
    /// assert_eq!(found.kept(), &[vec![0, 1, 2], vec![1]]);
    /// let members = found.repeats().members;
    /// assert_eq!((members.texts, members.repeated, members.on_both_sides), (2, 2, 1));
    /// # Ok::<(), reticent_attacks::Error>(())
    /// ```
    ///
    /// # Errors
    /// No text of a side is left.
    pub fn of(members: &[String], non_members: &[String]) -> Result<Self> {
        let all = same_texts([members, non_members]);
        let [inside, outside] =
            [0, 1].map(|side: usize| -> HashSet<usize> { all[side].iter().copied().collect() });
        let both: HashSet<usize> = inside.intersection(&outside).copied().collect();
        let kept = [0, 1].map(|side: usize| -> Vec<usize> {
            let numbers = &all[side];
            let own = (0..numbers.len()).filter(|&i| !both.contains(&numbers[i]));
            own.collect()
        });
        let names = ["members", "non-members"];
        for side in [0, 1] {
            if kept[side].is_empty() && !all[side].is_empty() {
                return Err(Error::SameTexts {
                    side: names[side],
                    other: names[1 - side],
                    records: all[side].len(),
                });
            }
        }
        Ok(Self {
            numbers: [0, 1].map(|side: usize| kept[side].iter().map(|&i| all[side][i]).collect()),
            on_both_sides: [0, 1].map(|side: usize| all[side].len() - kept[side].len()),
            kept,
        })
    }

    /// The records that are judged, members first, in order.
    #[must_use]
    pub const fn kept(&self) -> &[Vec<usize>; 2] {
        &self.kept
    }

    /// Judges only some of the records that would be, by their places among them.
    #[must_use]
    pub fn only(&self, chosen: &[Vec<usize>; 2]) -> Self {
        let at = |all: &[Vec<usize>; 2]| {
            [0, 1].map(|side: usize| chosen[side].iter().map(|&i| all[side][i]).collect())
        };
        Self {
            kept: at(&self.kept),
            numbers: at(&self.numbers),
            on_both_sides: self.on_both_sides,
        }
    }

    /// What is kept of something that every record has.
    #[must_use]
    pub fn keep<T: Clone>(&self, all: &[Vec<T>; 2]) -> [Vec<T>; 2] {
        [0, 1].map(|side: usize| {
            let kept = self.kept[side].iter();
            kept.map(|&i| all[side][i].clone()).collect()
        })
    }

    /// The ties of the records that are judged, with that of their text.
    #[must_use]
    pub fn tied(&self, mut ties: [Vec<Vec<String>>; 2]) -> [Vec<Vec<String>>; 2] {
        for (ties, numbers) in ties.iter_mut().zip(&self.numbers) {
            for (ties, number) in ties.iter_mut().zip(numbers) {
                ties.push(format!("text {number}"));
            }
        }
        ties
    }

    /// What is said of the records that are judged.
    #[must_use]
    pub fn repeats(&self) -> Repeats {
        let [members, non_members] = [0, 1].map(|side: usize| {
            let mut copies: HashMap<usize, usize> = HashMap::new();
            for number in &self.numbers[side] {
                *copies.entry(*number).or_default() += 1;
            }
            SideRepeats {
                texts: copies.len(),
                repeated: copies.values().filter(|count| **count > 1).sum(),
                on_both_sides: self.on_both_sides[side],
            }
        });
        Repeats {
            members,
            non_members,
        }
    }
}

impl Repeats {
    /// Whether a text repeats or was left out.
    #[must_use]
    pub const fn any(&self) -> bool {
        let [a, b] = [&self.members, &self.non_members];
        a.repeated + b.repeated + a.on_both_sides + b.on_both_sides > 0
    }
}

/// One number for all records that are tied to each other, directly or through others, on both
/// sides; records without a tie stand for themselves.
///
/// ```
/// let members = vec![vec!["document 1", "text 7"], vec!["document 2"]];
/// let others = vec![vec!["text 7"]];
/// assert_eq!(reticent_attacks::tied_groups(&[members, others]), [vec![0, 1], vec![0]]);
/// ```
#[must_use]
pub fn tied_groups<T: Ord>(sides: &[Vec<Vec<T>>; 2]) -> [Vec<usize>; 2] {
    fn root(parents: &mut [usize], mut at: usize) -> usize {
        while parents[at] != at {
            parents[at] = parents[parents[at]];
            at = parents[at];
        }
        at
    }
    let records: Vec<&Vec<T>> = sides.iter().flatten().collect();
    let mut parents: Vec<usize> = (0..records.len()).collect();
    let mut first: BTreeMap<&T, usize> = BTreeMap::new();
    for (number, record) in records.iter().enumerate() {
        for tie in *record {
            let other = *first.entry(tie).or_insert(number);
            let (a, b) = (root(&mut parents, number), root(&mut parents, other));
            parents[a.max(b)] = a.min(b);
        }
    }
    let mut names = HashMap::new();
    let mut all: Vec<usize> = Vec::with_capacity(records.len());
    for number in 0..records.len() {
        let next = names.len();
        all.push(*names.entry(root(&mut parents, number)).or_insert(next));
    }
    let others = all.split_off(sides[0].len());
    [all, others]
}

/// Scores of members and non-members with what is known of their records: only those are judged
/// whose text stands on one side.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredRecords {
    /// The scores, members first.
    pub scores: [Vec<f64>; 2],
    /// The group of each record; absent where every record stands for itself.
    pub groups: Option<[Vec<usize>; 2]>,
    /// The texts, where they are known.
    pub texts: Option<[Vec<String>; 2]>,
    /// How they repeat.
    pub repeats: Option<Repeats>,
}

impl ScoredRecords {
    /// Records of one named group, and copies and near-copies of one text, are one group.
    ///
    /// # Errors
    /// Another number of names or texts than scores; no text of a side is left.
    pub fn of(
        scores: [Vec<f64>; 2],
        names: Option<[Vec<String>; 2]>,
        texts: Option<[Vec<String>; 2]>,
    ) -> Result<Self> {
        for (what, given) in [("groups", &names), ("texts", &texts)] {
            for (given, scores) in given.iter().flatten().zip(&scores) {
                if given.len() != scores.len() {
                    return Err(Error::WrongCount {
                        what,
                        got: given.len(),
                        wanted: scores.len(),
                    });
                }
            }
        }
        let named = names.is_some();
        let ties = match names {
            Some(names) => names.map(|side| {
                let tie = |name| vec![format!("group {name}")];
                side.into_iter().map(tie).collect::<Vec<_>>()
            }),
            None => [0, 1].map(|side: usize| vec![Vec::new(); scores[side].len()]),
        };
        let Some(texts) = texts else {
            return Ok(Self {
                groups: named.then(|| tied_groups(&ties)),
                scores,
                texts: None,
                repeats: None,
            });
        };
        let copies = TextCopies::of(&texts[0], &texts[1])?;
        let ties = copies.tied(copies.keep(&ties));
        let grouped = named || copies.repeats().any();
        Ok(Self {
            scores: copies.keep(&scores),
            groups: grouped.then(|| tied_groups(&ties)),
            texts: Some(copies.keep(&texts)),
            repeats: Some(copies.repeats()),
        })
    }

    /// The scores with their groups.
    ///
    /// # Errors
    /// As [`ScoreSet::new`].
    pub fn set(&self) -> Result<ScoreSet> {
        let [members, others] = self.scores.clone();
        let set = ScoreSet::new(members, others)?;
        match &self.groups {
            Some([inside, outside]) => set.with_groups(inside, outside),
            None => Ok(set),
        }
    }

    /// What the texts alone tell; nothing where they are not known.
    ///
    /// # Errors
    /// As [`blind_baseline`].
    pub fn blind(&self, confidence: Confidence, seed: u64) -> Result<Option<BlindBaseline>> {
        let blind = |texts| blind_baseline_of(texts, self.groups.as_ref(), confidence, seed);
        self.texts.as_ref().map(blind).transpose()
    }
}

/// [`blind_baseline`] of texts whose groups may be known.
///
/// # Errors
/// As there.
pub fn blind_baseline_of(
    texts: &[Vec<String>; 2],
    groups: Option<&[Vec<usize>; 2]>,
    confidence: Confidence,
    seed: u64,
) -> Result<BlindBaseline> {
    let first = texts[0].len();
    let [inside, outside] = [0, 1].map(|side: usize| -> Vec<(&str, usize)> {
        let number = |at: usize| groups.map_or(side * first + at, |groups| groups[side][at]);
        let each = texts[side].iter().enumerate();
        each.map(|(at, text)| (text.as_str(), number(at))).collect()
    });
    blind_baseline(&inside, &outside, confidence, seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(range: std::ops::Range<usize>) -> Vec<String> {
        range.map(|i| format!("text number {i}")).collect()
    }

    #[test]
    fn texts_on_both_sides_are_left_out_and_counted() {
        let members = [texts(0..6), texts(4..6), texts(8..10)].concat();
        let others = texts(8..14);
        let found = TextCopies::of(&members, &others).unwrap();
        assert_eq!(
            found.kept(),
            &[(0..8).collect::<Vec<_>>(), (2..6).collect()]
        );
        assert_eq!(found.numbers[0], [0, 1, 2, 3, 4, 5, 4, 5]);
        let side = |texts, repeated, on_both_sides| SideRepeats {
            texts,
            repeated,
            on_both_sides,
        };
        let expected = Repeats {
            members: side(6, 4, 2),
            non_members: side(4, 0, 2),
        };
        assert_eq!(found.repeats(), expected);
        assert!(found.repeats().any());
        assert_eq!(found.keep(&[members, others.clone()])[1], others[2..]);
        let some = found.only(&[vec![4, 6], vec![0]]).repeats();
        assert_eq!(
            (some.members, some.non_members),
            (side(1, 2, 2), side(1, 0, 2))
        );
    }

    #[test]
    fn one_text_on_both_sides_is_no_evidence() {
        let same = texts(0..60);
        let said = TextCopies::of(&same, &same).unwrap_err().to_string();
        assert!(
            said.starts_with("every text of the 60 members stands among the non-members"),
            "{said}"
        );
        // The members' are all there, non-members have others.
        let said = TextCopies::of(&same[..5], &same).unwrap_err().to_string();
        assert!(said.contains("of the 5 members"), "{said}");
        let said = TextCopies::of(&same, &same[..5]).unwrap_err().to_string();
        assert!(
            said.contains("of the 5 non-members stands among the members"),
            "{said}"
        );
    }

    /// Records hang together through documents, through secrets, and across the two sides.
    #[test]
    fn ties_are_followed_to_their_end() {
        let inside = vec![vec!["a", "x"], vec!["b"], vec!["c", "y", "x"]];
        let outside = vec![vec!["d"], vec!["e", "y"], vec!["b"], vec![]];
        let groups = tied_groups(&[inside, outside]);
        assert_eq!(groups, [vec![0, 1, 0], vec![2, 0, 1, 3]]);
    }
}
