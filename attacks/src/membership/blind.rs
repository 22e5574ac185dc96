//! The blind baseline: distinguishing members from non-members without the model.

use super::area::Area;
use super::half::first_half;
use super::set::ScoreSet;
use crate::error::{Result, ranged};
use reticent_accounting::Confidence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};

/// What a blind baseline sees of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BlindFeatures {
    /// Its words and triples of adjacent characters, however many there are.
    #[default]
    Content,
    /// Its form: how long it is, to a fifth, its first and last characters, and how many digits it has.
    Form,
    /// How long it is: longer or shorter on one side.
    Length,
    /// Not the text but its class, which is half of a classifier's record.
    Class,
}

/// How well the texts alone distinguish the two sets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlindBaseline {
    /// What distinguishes them best.
    #[serde(default)]
    pub by: BlindFeatures,
    /// Its area on texts it was not fitted to.
    pub area: Area,
    /// Whether the interval lies above 1/2: the two sets differ in themselves, and an attack
    /// proves nothing until it beats this.
    pub shifted: bool,
    /// Texts it was judged on.
    pub judged: usize,
}

/// Computes three baselines: naive Bayes over words and triples of characters, naive Bayes over the form of a text
/// (both fitted to one random half of the groups and evaluated on the other), and the length of all texts, to which
/// nothing is fitted.
///
/// Each has a third of the failure probability. Of those that distinguish the sets, the one with the highest upper end
/// is returned; the first if none does.
///
/// The number beside each text is that of its group, for what texts share (a secret, an author): all texts of a group
/// are in the same half. Without anything shared, give each text its own number.
///
/// # Errors
/// Returns an error if there are fewer than four groups of a kind, or if fewer than ten groups are evaluated where
/// groups repeat.
pub fn blind_baseline<T: AsRef<str>>(
    members: &[(T, usize)],
    non_members: &[(T, usize)],
    confidence: Confidence,
    seed: u64,
) -> Result<BlindBaseline> {
    baseline_with_classes([members, non_members], None, confidence, seed)
}

/// Computes [`blind_baseline`] with a fourth baseline by the classes of the texts, if they have any, each with a quarter of
/// the failure probability. The classes are those of the texts, in order, with the same groups.
pub(super) fn baseline_with_classes<T: AsRef<str>>(
    [members, non_members]: [&[(T, usize)]; 2],
    classes: Option<[&[(T, usize)]; 2]>,
    confidence: Confidence,
    seed: u64,
) -> Result<BlindBaseline> {
    let names = |texts: &[(T, usize)]| -> BTreeSet<usize> { texts.iter().map(|t| t.1).collect() };
    let (inside, outside) = (names(members), names(non_members));
    let fewest = inside.len().min(outside.len());
    let what = "groups of texts of a kind, to fit a blind baseline";
    ranged(what, "[4, inf)", fewest, fewest >= 4)?;
    let fitted = first_half(&inside, &outside, seed);
    let each = confidence.shared_by(if classes.is_some() { 4 } else { 3 })?;
    let sides = [members, non_members];
    let content = judged(sides, &fitted, BlindFeatures::Content, each, seed)?;
    let form = judged(sides, &fitted, BlindFeatures::Form, each, seed)?;
    let length = by_length(sides, each, seed)?;
    let class = classes.map(|sides| judged(sides, &fitted, BlindFeatures::Class, each, seed));
    let class = class.transpose()?;
    let upper = |found: &BlindBaseline| found.area.bounds.upper.map_or(1.0, |u| u.get().get());
    let shifted = [content, form, length]
        .into_iter()
        .chain(class)
        .filter(|found| found.shifted);
    let highest = shifted.max_by(|a, b| upper(a).total_cmp(&upper(b)));
    Ok(highest.unwrap_or(content))
}

/// Returns the baseline by the lengths of all texts, whichever side has the longer ones.
fn by_length<T: AsRef<str>>(
    sides: [&[(T, usize)]; 2],
    confidence: Confidence,
    seed: u64,
) -> Result<BlindBaseline> {
    let of = |sign: f64| {
        let scores = sides.map(|texts| -> (Vec<f64>, Vec<usize>) {
            let each = texts.iter();
            each.map(|(text, group)| (sign * text.as_ref().chars().count() as f64, *group))
                .unzip()
        });
        baseline(BlindFeatures::Length, scores, confidence, seed)
    };
    let longer = of(1.0)?;
    if longer.area.estimate >= 0.5 {
        Ok(longer)
    } else {
        of(-1.0)
    }
}

/// Fits a baseline to the given groups and evaluates it on the others.
fn judged<T: AsRef<str>>(
    sides: [&[(T, usize)]; 2],
    fitted: &BTreeSet<usize>,
    by: BlindFeatures,
    confidence: Confidence,
    seed: u64,
) -> Result<BlindBaseline> {
    let mut bayes = Bayes::new(by);
    for (side, texts) in sides.into_iter().enumerate() {
        for (text, _) in texts.iter().filter(|t| fitted.contains(&t.1)) {
            bayes.learn(side, text.as_ref());
        }
    }
    let scores = sides.map(|texts| -> (Vec<f64>, Vec<usize>) {
        let rest = texts.iter().filter(|t| !fitted.contains(&t.1));
        rest.map(|(text, group)| (bayes.score(text.as_ref()), *group))
            .unzip()
    });
    baseline(by, scores, confidence, seed)
}

/// Returns the baseline for scores with their groups.
fn baseline(
    by: BlindFeatures,
    [inside, outside]: [(Vec<f64>, Vec<usize>); 2],
    confidence: Confidence,
    seed: u64,
) -> Result<BlindBaseline> {
    let count = inside.0.len() + outside.0.len();
    let distinct: BTreeSet<usize> = inside.1.iter().chain(&outside.1).copied().collect();
    let mut set = ScoreSet::new(inside.0, outside.0)?;
    if distinct.len() < count {
        let groups = [&inside.1, &outside.1].map(|side| side.iter().collect::<BTreeSet<_>>().len());
        let fewest = groups[0].min(groups[1]);
        let what = "groups of texts of a kind, to judge a blind baseline";
        ranged(what, "[10, inf)", fewest, fewest >= 10)?;
        set = set.with_groups(&inside.1, &outside.1)?;
    }
    let area = set.area(confidence, seed)?;
    Ok(BlindBaseline {
        by,
        area,
        shifted: area.bounds.lower.is_some_and(|l| l.get().get() > 0.5),
        judged: count,
    })
}

/// The counts of features in members (0) and non-members (1).
struct Bayes {
    by: BlindFeatures,
    counts: HashMap<String, [f64; 2]>,
    totals: [f64; 2],
}

impl Bayes {
    fn new(by: BlindFeatures) -> Self {
        Self {
            by,
            counts: HashMap::new(),
            totals: [0.0; 2],
        }
    }

    fn learn(&mut self, side: usize, text: &str) {
        for feature in self.by.of(text) {
            self.counts.entry(feature).or_default()[side] += 1.0;
            self.totals[side] += 1.0;
        }
    }

    /// Returns the mean log-odds of the text's features, with one half added to every count.
    fn score(&self, text: &str) -> f64 {
        let kinds = 0.5 * (self.counts.len() as f64 + 1.0);
        let odds = |feature: &String| {
            let [inside, outside] = self.counts.get(feature).copied().unwrap_or_default();
            if self.by == BlindFeatures::Form && inside + outside < 5.0 {
                // Most lengths occur in few texts; together they would drown out the other features.
                return 0.0;
            }
            ((inside + 0.5) / (self.totals[0] + kinds)).ln()
                - ((outside + 0.5) / (self.totals[1] + kinds)).ln()
        };
        let all = self.by.of(text);
        all.iter().map(odds).sum::<f64>() / all.len().max(1) as f64
    }
}

impl BlindFeatures {
    fn of(self, text: &str) -> Vec<String> {
        match self {
            Self::Content => {
                // Words in lower case, and triples of characters unchanged.
                let words = text.split(|c: char| !c.is_alphanumeric());
                let words = words
                    .filter(|w| !w.is_empty())
                    .map(|w| format!("w{}", w.to_lowercase()));
                let letters: Vec<char> = text.chars().collect();
                let triples = letters.windows(3).map(|t| t.iter().collect::<String>());
                words.chain(triples).collect()
            }
            Self::Form => {
                let length = text.chars().count();
                let digits = text.chars().filter(char::is_ascii_digit).count();
                let (first, last) = (text.chars().next(), text.chars().next_back());
                let one = |name: &str, c: Option<char>| c.map(|c| format!("{name}{c}"));
                let step = (4.0 * (1.0 + length as f64).log2()) as u32; // four to a factor of two
                let numbers = [
                    ("step", step as usize),
                    ("length", length),
                    ("digits", digits),
                ];
                let numbers = numbers.map(|(name, number)| Some(format!("{name}{number}")));
                let ends = [one("first", first), one("last", last)];
                numbers.into_iter().chain(ends).flatten().collect()
            }
            // Nothing is fitted to it.
            Self::Length => Vec::new(),
            Self::Class => vec![text.to_owned()],
        }
    }
}
