//! Lists of names, and clusters of words that stand in like places.

use reticent_corpus::tagger::TaggerLexicon;
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::path::Path;

const LAST: u8 = 1;
const FIRST: u8 = 2;
const PLACE: u8 = 4;
const PART_OF_PLACE: u8 = 8;
/// Names of the census that are taken, the most frequent.
const MOST_NAMES: usize = 12_000;
/// Towns with fewer inhabitants are left out.
const LEAST_PEOPLE: u64 = 50_000;
/// A word seen less often has no cluster.
const LEAST_COUNT: usize = 10;
const CLUSTERS: [usize; 2] = [48, 250];
const ROUNDS: usize = 8;

/// Lists and clusters from `dist.all.last`, `dist.male.first`, `dist.female.first` (United States census),
/// `cities15000.json`, `us_states.json`, `countries.json` (GeoNames) and `wikitext.txt`.
pub(crate) fn lexicon(folder: &Path) -> Result<TaggerLexicon, Box<dyn Error>> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name));
    let mut lists: BTreeMap<String, u8> = BTreeMap::new();
    for (file, bit) in [
        ("dist.all.last", LAST),
        ("dist.male.first", FIRST),
        ("dist.female.first", FIRST),
    ] {
        for line in read(file)?.lines().take(MOST_NAMES) {
            let name = line.split_whitespace().next().unwrap_or_default();
            *lists.entry(name.to_lowercase()).or_default() |= bit;
        }
    }
    for file in ["cities15000.json", "us_states.json", "countries.json"] {
        let all: serde_json::Value = serde_json::from_str(&read(file)?)?;
        let places = all.as_object().ok_or("places that are no object")?;
        for place in places.values() {
            let people = place["population"].as_u64().unwrap_or(u64::MAX);
            if people < LEAST_PEOPLE {
                continue;
            }
            let name = place["name"]
                .as_str()
                .ok_or("a place without a name")?
                .to_lowercase();
            let words: Vec<&str> = name
                .split([' ', '-'])
                .filter(|w| w.chars().count() > 3)
                .collect();
            let bit = if name.contains([' ', '-']) {
                PART_OF_PLACE
            } else {
                PLACE
            };
            for word in words {
                *lists.entry(word.to_owned()).or_default() |= bit;
            }
        }
    }
    let text = read("wikitext.txt")?;
    let mut clusters: BTreeMap<String, [u8; 2]> = BTreeMap::new();
    for (at, many) in CLUSTERS.into_iter().enumerate() {
        for (word, cluster) in clustered(&text, many) {
            clusters.entry(word).or_default()[at] = cluster;
        }
    }
    Ok(TaggerLexicon { lists, clusters })
}

/// Clusters by the exchange algorithm (Kneser and Ney 1993): each word in turn goes where the bigrams of clusters are
/// likeliest.
fn clustered(text: &str, many: usize) -> Vec<(String, u8)> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for word in text.split_whitespace() {
        *counts.entry(word).or_default() += 1;
    }
    let mut words: Vec<(&str, usize)> = counts
        .into_iter()
        .filter(|(_, count)| *count >= LEAST_COUNT)
        .collect();
    words.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    // Word 0 stands for all that are rare, cluster 0 for it.
    let numbers: HashMap<&str, usize> = words
        .iter()
        .zip(1..)
        .map(|((word, _), n)| (*word, n))
        .collect();
    let mut of: Vec<usize> = (0..=words.len())
        .map(|n| if n == 0 { 0 } else { 1 + (n - 1) % (many - 1) })
        .collect();
    let mut next: Vec<HashMap<usize, usize>> = vec![HashMap::new(); of.len()];
    let mut previous = next.clone();
    let mut total = vec![0usize; of.len()];
    for line in text.lines() {
        let line: Vec<usize> = line
            .split_whitespace()
            .map(|w| numbers.get(w).copied().unwrap_or(0))
            .collect();
        for word in &line {
            total[*word] += 1;
        }
        for pair in line.windows(2) {
            *next[pair[0]].entry(pair[1]).or_default() += 1;
            *previous[pair[1]].entry(pair[0]).or_default() += 1;
        }
    }
    let sorted = |map: &HashMap<usize, usize>| -> Vec<(usize, usize)> {
        let mut all: Vec<_> = map.iter().map(|(word, count)| (*word, *count)).collect();
        all.sort_unstable();
        all
    };
    let next: Vec<Vec<(usize, usize)>> = next.iter().map(sorted).collect();
    let previous: Vec<Vec<(usize, usize)>> = previous.iter().map(sorted).collect();
    let mut pairs = vec![0usize; many * many];
    let mut size = vec![0usize; many];
    for (word, followers) in next.iter().enumerate() {
        size[of[word]] += total[word];
        for (follower, count) in followers {
            pairs[of[word] * many + of[*follower]] += count;
        }
    }
    let most = text.split_whitespace().count() + 1;
    let table: Vec<f64> = (0..=most)
        .map(|n| {
            if n == 0 {
                0.0
            } else {
                n as f64 * (n as f64).ln()
            }
        })
        .collect();
    let h = |n: usize| table[n.min(most)];
    for _ in 0..ROUNDS {
        for word in 1..of.len() {
            let mut right = vec![0usize; many];
            let mut left = vec![0usize; many];
            for (follower, count) in next[word].iter().filter(|(f, _)| *f != word) {
                right[of[*follower]] += count;
            }
            for (before, count) in previous[word].iter().filter(|(b, _)| *b != word) {
                left[of[*before]] += count;
            }
            let own = next[word]
                .iter()
                .find(|(f, _)| *f == word)
                .map_or(0, |(_, count)| *count);
            let old = of[word];
            pairs[old * many + old] -= own;
            for other in 0..many {
                pairs[old * many + other] -= right[other];
                pairs[other * many + old] -= left[other];
            }
            size[old] -= total[word];
            let rights: Vec<(usize, usize)> = right
                .iter()
                .copied()
                .enumerate()
                .filter(|(_, n)| *n > 0)
                .collect();
            let lefts: Vec<(usize, usize)> = left
                .iter()
                .copied()
                .enumerate()
                .filter(|(_, n)| *n > 0)
                .collect();
            let gain = |to: usize| -> f64 {
                let out: f64 = rights
                    .iter()
                    .map(|(c, n)| h(pairs[to * many + c] + n) - h(pairs[to * many + c]))
                    .sum();
                let into: f64 = lefts
                    .iter()
                    .map(|(c, n)| h(pairs[c * many + to] + n) - h(pairs[c * many + to]))
                    .sum();
                out + into - 2.0 * (h(size[to] + total[word]) - h(size[to]))
            };
            let new = (1..many)
                .map(|to| (to, gain(to)))
                .max_by(|a, b| a.1.total_cmp(&b.1))
                .map_or(old, |(to, _)| to);
            pairs[new * many + new] += own;
            for other in 0..many {
                pairs[new * many + other] += right[other];
                pairs[other * many + new] += left[other];
            }
            size[new] += total[word];
            of[word] = new;
        }
    }
    words
        .into_iter()
        .zip(1..)
        .map(|((word, _), n): (_, usize)| (word.to_owned(), of[n] as u8))
        .collect()
}
