//! The blind baseline: telling members from non-members without the model.

use super::area::Area;
use super::half::first_half;
use super::set::ScoreSet;
use crate::error::{Error, Result};
use reticent_accounting::Confidence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};

/// How well the texts alone tell the two sets apart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlindBaseline {
    /// Its area on texts it was not fitted to.
    pub area: Area,
    /// Whether the interval lies above 1/2: the two sets differ in themselves, and an attack
    /// proves nothing until it beats this.
    pub shifted: bool,
    /// Texts it was judged on.
    pub judged: usize,
}

/// Naive Bayes over words and letter triples, fitted to one random half of the texts and judged
/// on the other.
///
/// `groups` names what texts share (a secret, an author): a group falls into one half as a
/// whole. One name a text where nothing is shared.
///
/// # Errors
/// Another number of groups than texts, fewer than four groups of a kind, fewer than ten judged
/// groups where groups repeat.
pub fn blind_baseline<T: AsRef<str>>(
    members: &[(T, usize)],
    non_members: &[(T, usize)],
    confidence: Confidence,
    seed: u64,
) -> Result<BlindBaseline> {
    let names = |texts: &[(T, usize)]| -> BTreeSet<usize> { texts.iter().map(|t| t.1).collect() };
    let (inside, outside) = (names(members), names(non_members));
    let fewest = inside.len().min(outside.len());
    if fewest < 4 {
        let what = "groups of texts of a kind, to fit a blind baseline";
        return Err(Error::out_of_range(what, "[4, inf)", fewest));
    }
    let fitted = first_half(&inside, &outside, seed);
    let mut bayes = Bayes::default();
    for (side, texts) in [members, non_members].into_iter().enumerate() {
        for (text, _) in texts.iter().filter(|t| fitted.contains(&t.1)) {
            bayes.learn(side, text.as_ref());
        }
    }
    let judged = |texts: &[(T, usize)]| -> (Vec<f64>, Vec<usize>) {
        let rest = texts.iter().filter(|t| !fitted.contains(&t.1));
        rest.map(|(text, group)| (bayes.score(text.as_ref()), *group))
            .unzip()
    };
    let (scores, groups) = judged(members);
    let (other_scores, other_groups) = judged(non_members);
    let count = scores.len() + other_scores.len();
    let distinct: BTreeSet<usize> = groups.iter().chain(&other_groups).copied().collect();
    let mut set = ScoreSet::new(scores, other_scores)?;
    if distinct.len() < count {
        set = set.with_groups(&groups, &other_groups)?;
    }
    let area = set.area(confidence, seed)?;
    Ok(BlindBaseline {
        area,
        shifted: area.bounds.lower.is_some_and(|l| l.get().get() > 0.5),
        judged: count,
    })
}

/// Counts of features in members (0) and non-members (1).
#[derive(Default)]
struct Bayes {
    counts: HashMap<String, [f64; 2]>,
    totals: [f64; 2],
}

impl Bayes {
    fn learn(&mut self, side: usize, text: &str) {
        for feature in features(text) {
            self.counts.entry(feature).or_default()[side] += 1.0;
            self.totals[side] += 1.0;
        }
    }

    /// The mean log-odds of the text's features, one half added to every count.
    fn score(&self, text: &str) -> f64 {
        let kinds = 0.5 * (self.counts.len() as f64 + 1.0);
        let odds = |feature: &String| {
            let [inside, outside] = self.counts.get(feature).copied().unwrap_or_default();
            ((inside + 0.5) / (self.totals[0] + kinds)).ln()
                - ((outside + 0.5) / (self.totals[1] + kinds)).ln()
        };
        let all = features(text);
        all.iter().map(odds).sum::<f64>() / all.len().max(1) as f64
    }
}

/// Words in lower case, and triples of letters as they stand.
fn features(text: &str) -> Vec<String> {
    let words = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|w| !w.is_empty())
        .map(|w| format!("w{}", w.to_lowercase()));
    let letters: Vec<char> = text.chars().collect();
    let triples = letters.windows(3).map(|t| t.iter().collect::<String>());
    words.chain(triples).collect()
}
