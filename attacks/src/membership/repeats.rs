//! Handles repeated texts, each of which is one piece of evidence.

use super::blind::{BlindBaseline, baseline_with_classes};
use super::set::ScoreSet;
use crate::error::{Error, Result, counted};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use reticent_accounting::Confidence;
use reticent_corpus::dedup::same_texts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// How the texts of members and non-members repeat. Near-copies are copies: see
/// `same_texts` of the corpus crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Repeats {
    /// The members' texts.
    pub members: SideRepeats,
    /// The non-members' texts.
    pub non_members: SideRepeats,
}

/// How the texts of one side repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SideRepeats {
    /// Records that were given.
    pub records: usize,
    /// Of these, records that were left out, as their text stands on the other side, too.
    pub on_both_sides: usize,
    /// Of the others, records whose text another record of the side has, too.
    pub repeated: usize,
    /// The different texts of the others: copies and near-copies of a text are one group, of which
    /// one record, drawn at random, is judged.
    pub texts: usize,
}

impl Repeats {
    /// Returns whether any text repeats.
    #[must_use]
    pub const fn any(&self) -> bool {
        let [a, b] = [&self.members, &self.non_members];
        a.repeated + b.repeated + a.on_both_sides + b.on_both_sides > 0
    }
}

/// One record of each text, excluding texts that occur on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DistinctTexts {
    kept: [Vec<usize>; 2],
    copies: Vec<u64>,
    repeats: Repeats,
}

impl DistinctTexts {
    /// Finds copies and near-copies. One of a side's copies is kept, drawn by `seed`, so that a
    /// method that is fitted on one half and evaluated on the other never sees the same text in
    /// both, and a text counts once, however often it occurs. Texts that occur on both sides are
    /// omitted: whether or not such a record is a member, its score is that of its copy.
    ///
    /// ```
    /// use reticent_attacks::membership::DistinctTexts;
    /// let members = ["one", "two", "two", "three"].map(String::from);
    /// let others = ["Three.", "four"].map(String::from);
    /// let found = DistinctTexts::of(&members, &others, 0)?;
    /// let members = found.repeats().members;
    /// assert_eq!((members.texts, members.repeated, members.on_both_sides), (2, 2, 1));
    /// assert_eq!(found.kept()[1], [1]);
    /// # Ok::<(), reticent_attacks::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if no text of a side is left.
    pub fn of(members: &[String], non_members: &[String], seed: u64) -> Result<Self> {
        Self::of_classes([members, non_members], None, seed)
    }

    /// Does the same for texts with classes: a text in two classes is two records of a classifier, and neither is a copy of
    /// the other.
    fn of_classes(
        all: [&[String]; 2],
        classes: Option<&[Vec<String>; 2]>,
        seed: u64,
    ) -> Result<Self> {
        let numbers = same_texts(all);
        let mut texts: BTreeMap<(usize, &str), [Vec<usize>; 2]> = BTreeMap::new();
        for (side, numbers) in numbers.iter().enumerate() {
            for (record, number) in numbers.iter().enumerate() {
                let class = classes.map_or("", |classes| classes[side][record].as_str());
                texts.entry((*number, class)).or_default()[side].push(record);
            }
        }
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut kept = [Vec::new(), Vec::new()];
        let mut counts = BTreeMap::new();
        let mut sides = numbers.map(|numbers| SideRepeats {
            records: numbers.len(),
            on_both_sides: 0,
            repeated: 0,
            texts: 0,
        });
        for copies in texts.values() {
            let both = copies.iter().all(|copies| !copies.is_empty());
            for (side, copies) in copies.iter().enumerate() {
                let chosen = match copies[..] {
                    [] => continue,
                    _ if both => {
                        sides[side].on_both_sides += copies.len();
                        continue;
                    }
                    [only] => only,
                    _ => {
                        sides[side].repeated += copies.len();
                        copies[rng.random_range(0..copies.len())]
                    }
                };
                kept[side].push(chosen);
                if side == 0 {
                    counts.insert(chosen, copies.len() as u64);
                }
            }
        }
        let names = ["members", "non-members"];
        for side in [0, 1] {
            kept[side].sort_unstable();
            sides[side].texts = kept[side].len();
            if kept[side].is_empty() && sides[side].records > 0 {
                return Err(Error::SameTexts {
                    side: names[side],
                    other: names[1 - side],
                    records: sides[side].records,
                });
            }
        }
        let [members, non_members] = sides;
        Ok(Self {
            copies: counts.into_values().collect(),
            kept,
            repeats: Repeats {
                members,
                non_members,
            },
        })
    }

    /// Returns the indices of the records that are kept, members first, in order.
    #[must_use]
    pub const fn kept(&self) -> &[Vec<usize>; 2] {
        &self.kept
    }

    /// Returns, for each member that is kept, how many members have its text, itself included.
    #[must_use]
    pub fn copies(&self) -> &[u64] {
        &self.copies
    }

    /// Returns how texts repeat.
    #[must_use]
    pub const fn repeats(&self) -> Repeats {
        self.repeats
    }

    /// Selects the values of the kept records from a value for every record.
    #[must_use]
    pub fn keep<T: Clone>(&self, all: &[Vec<T>; 2]) -> [Vec<T>; 2] {
        [0, 1].map(|side: usize| {
            let kept = self.kept[side].iter();
            kept.map(|&i| all[side][i].clone()).collect()
        })
    }
}

/// Scores of members and non-members with what is known about their records. If texts are known,
/// one record of each text is evaluated.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredRecords {
    /// The scores, members first.
    pub scores: [Vec<f64>; 2],
    /// The group of each record; absent if every record is its own group.
    pub groups: Option<[Vec<String>; 2]>,
    /// The texts, if they are known.
    pub texts: Option<[Vec<String>; 2]>,
    /// The classes of the texts, if they are records of a classifier.
    pub classes: Option<[Vec<String>; 2]>,
    /// How the texts repeat.
    pub repeats: Option<Repeats>,
    /// How many of the given members have the text of each member; absent without texts.
    pub copies: Option<Vec<u64>>,
}

impl ScoredRecords {
    /// Keeps one record of each text, or of each text and class; see [`DistinctTexts`].
    ///
    /// # Errors
    /// Returns an error if the number of groups, texts or classes is not that of scores, or if no text of
    /// a side is left.
    pub fn of(
        scores: [Vec<f64>; 2],
        groups: Option<[Vec<String>; 2]>,
        texts: Option<[Vec<String>; 2]>,
        classes: Option<[Vec<String>; 2]>,
        seed: u64,
    ) -> Result<Self> {
        for (what, given) in [
            ("groups", &groups),
            ("texts", &texts),
            ("classes", &classes),
        ] {
            for (given, scores) in given.iter().flatten().zip(&scores) {
                counted(what, given.len(), scores.len())?;
            }
        }
        let Some(texts) = texts else {
            return Ok(Self {
                scores,
                groups,
                texts: None,
                classes: None,
                repeats: None,
                copies: None,
            });
        };
        let [members, non_members] = &texts;
        let distinct = DistinctTexts::of_classes([members, non_members], classes.as_ref(), seed)?;
        Ok(Self {
            scores: distinct.keep(&scores),
            groups: groups.map(|groups| distinct.keep(&groups)),
            texts: Some(distinct.keep(&texts)),
            classes: classes.map(|classes| distinct.keep(&classes)),
            repeats: Some(distinct.repeats()),
            copies: Some(distinct.copies().to_vec()),
        })
    }

    /// Returns the scores with their groups.
    ///
    /// # Errors
    /// As for [`ScoreSet::new`].
    pub fn set(&self) -> Result<ScoreSet> {
        let [members, others] = self.scores.clone();
        let set = ScoreSet::new(members, others)?;
        match &self.groups {
            Some([inside, outside]) => set.with_groups(inside, outside),
            None => Ok(set),
        }
    }

    /// Returns what the texts alone reveal; `None` if they are not known.
    ///
    /// # Errors
    /// As for [`blind_baseline`](super::blind_baseline).
    pub fn blind(&self, confidence: Confidence, seed: u64) -> Result<Option<BlindBaseline>> {
        let groups = self.groups.as_ref();
        let blind = |texts| blind_of(texts, self.classes.as_ref(), groups, confidence, seed);
        self.texts.as_ref().map(blind).transpose()
    }
}

/// Computes [`blind_baseline`](super::blind_baseline) for texts whose groups may be known.
///
/// # Errors
/// As for that function.
pub fn blind_baseline_of(
    texts: &[Vec<String>; 2],
    groups: Option<&[Vec<String>; 2]>,
    confidence: Confidence,
    seed: u64,
) -> Result<BlindBaseline> {
    blind_of(texts, None, groups, confidence, seed)
}

fn blind_of<'t>(
    texts: &'t [Vec<String>; 2],
    classes: Option<&'t [Vec<String>; 2]>,
    groups: Option<&[Vec<String>; 2]>,
    confidence: Confidence,
    seed: u64,
) -> Result<BlindBaseline> {
    let mut numbers: HashMap<&String, usize> = HashMap::new();
    let numbers = [0, 1].map(|side: usize| -> Vec<usize> {
        let number = |at: usize| match groups {
            Some(groups) => {
                let next = numbers.len();
                *numbers.entry(&groups[side][at]).or_insert(next)
            }
            None => side * texts[0].len() + at,
        };
        (0..texts[side].len()).map(number).collect()
    });
    let grouped = |all: &'t [Vec<String>; 2]| {
        [0, 1].map(|side: usize| -> Vec<(&'t str, usize)> {
            let each = all[side].iter().map(String::as_str);
            each.zip(numbers[side].iter().copied()).collect()
        })
    };
    let [inside, outside] = grouped(texts);
    let classes = classes.map(grouped);
    let classes = classes.as_ref().map(|[a, b]| [a.as_slice(), b.as_slice()]);
    let texts = [inside.as_slice(), outside.as_slice()];
    baseline_with_classes(texts, classes, confidence, seed)
}

#[cfg(test)]
mod tests {
    use super::super::blind::BlindFeatures;
    use super::*;

    fn texts(range: std::ops::Range<usize>) -> Vec<String> {
        range.map(|i| format!("text number {i}")).collect()
    }

    #[test]
    fn one_record_of_each_text_is_kept() {
        let members = [texts(0..6), texts(4..6), texts(8..10)].concat();
        let others = texts(8..14);
        let mut seen = std::collections::HashSet::new();
        for seed in 0..20 {
            let found = DistinctTexts::of(&members, &others, seed).unwrap();
            let [inside, outside] = found.kept();
            assert_eq!(outside, &[2, 3, 4, 5]);
            let mut kept: Vec<&String> = inside.iter().map(|i| &members[*i]).collect();
            kept.sort();
            assert_eq!(kept, texts(0..6).iter().collect::<Vec<_>>());
            assert_eq!(
                found.keep(&[members.clone(), others.clone()])[1],
                others[2..]
            );
            let expected = SideRepeats {
                records: 10,
                on_both_sides: 2,
                repeated: 4,
                texts: 6,
            };
            assert_eq!(found.repeats().members, expected);
            assert_eq!(found.repeats().non_members.on_both_sides, 2);
            assert!(found.repeats().any());
            let copies = found.copies().iter().zip(inside);
            assert!(
                copies
                    .clone()
                    .all(|(n, i)| *n == 1 + u64::from(texts(4..6).contains(&members[*i])))
            );
            assert_eq!(copies.count(), 6);
            seen.insert(inside.clone());
        }
        assert_eq!(seen.len(), 4, "each copy may be the one");
    }

    /// Sides of the same texts that differ in how frequent each class is.
    #[test]
    fn classes_tell_sides_apart_that_texts_do_not() {
        let same = [texts(0..150), texts(0..150)];
        let class = |side: usize| -> Vec<String> {
            let each = (0..150).map(|i| ["a", "b"][usize::from(i % 10 == 0) ^ side].to_owned());
            each.collect()
        };
        let level = Confidence::new(0.95).unwrap();
        let blind = |classes| blind_of(&same, classes, None, level, 0).unwrap();
        let classes = [class(0), class(1)];
        let found = blind(Some(&classes));
        assert!(
            found.shifted && found.by == BlindFeatures::Class && found.area.estimate > 0.8,
            "{found:?}"
        );
        assert!(!blind(None).shifted);
        // A text on both sides is no evidence unless it has another class there.
        let sides = [["one", "two"], ["one", "three"]].map(|side| side.map(String::from).to_vec());
        let kept = |classes| {
            let scores = [vec![1.0, 2.0], vec![3.0, 4.0]];
            let found = ScoredRecords::of(scores, None, Some(sides.clone()), classes, 0);
            found.unwrap().scores
        };
        assert_eq!(kept(None), [vec![2.0], vec![4.0]]);
        let classes = [vec!["a".to_owned(); 2], vec!["b".to_owned(); 2]];
        assert_eq!(kept(Some(classes)), [vec![1.0, 2.0], vec![3.0, 4.0]]);
    }

    #[test]
    fn texts_on_both_sides_are_no_evidence() {
        let same = texts(0..60);
        let said = |a: &[String], b: &[String]| {
            let error = DistinctTexts::of(a, b, 0).unwrap_err();
            error.to_string()
        };
        let all = said(&same, &same);
        assert!(
            all.starts_with("every text of the 60 members stands among the non-members"),
            "{all}"
        );
        let few = said(&same[..5], &same);
        assert!(few.contains("of the 5 members stands"), "{few}");
        let few = said(&same, &same[..5]);
        assert!(
            few.contains("of the 5 non-members stands among the members"),
            "{few}"
        );
    }
}
