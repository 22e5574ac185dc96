//! Pairs of models, and what is said of them.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reticent_attacks::Draw;
use reticent_attacks::exposure::{Exposure, ExposureNull, ExposurePair, PairedEValue};
use reticent_attacks::search::RankCount;

/// N.
pub(crate) const CANDIDATES: u64 = 1_000_000;

/// Half of .05.
const EACH: f64 = 0.025;

/// m.
pub(crate) const CANARIES: [usize; 6] = [5, 12, 20, 50, 100, 1_000];

/// Copies of the first canary, the second one and so on, over and over.
pub(crate) const DOSES: [&[u64]; 2] = [&[20], &[1, 5, 20]];

/// Two models: by how many standard deviations the score of a secret in the most copies is above those of the other
/// candidates, which are normal. Secrets in fewer copies do not leak.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pair {
    /// In words.
    pub(crate) name: &'static str,
    old: f64,
    new: f64,
}

const fn pair(name: &'static str, old: f64, new: f64) -> Pair {
    Pair { name, old, new }
}

/// Columns of the table.
pub(crate) const PAIRS: [Pair; 6] = [
    pair("none, none", 0.0, 0.0),
    pair("2, 2", 2.0, 2.0),
    pair("3, 2", 3.0, 2.0),
    pair("none, 2", 0.0, 2.0),
    pair("none, 4", 0.0, 4.0),
    pair("1, 3", 1.0, 3.0),
];

/// Shares of the runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rates {
    /// "More", by the paired e-value.
    pub(crate) more: f64,
    /// "More", or the new model rejects chance where the old one does not.
    pub(crate) said: f64,
}

impl std::fmt::Display for Rates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.4}, {:.4}", self.more, self.said)
    }
}

/// What is said of so many pairs of such models.
pub(crate) fn rates(pair: Pair, canaries: usize, copies: &[u64], runs: u32, seed: u64) -> Rates {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let most = copies.iter().max().copied().unwrap();
    let dose = |i: usize| copies[i % copies.len()];
    let (mut more, mut said) = (0_u32, 0_u32);
    for _ in 0..runs {
        let mut model = |by: f64| -> Vec<RankCount> {
            let of = |i| count(if dose(i) == most { by } else { 0.0 }, &mut random);
            (0..canaries).map(of).collect()
        };
        let (old, new) = (model(pair.old), model(pair.new));
        let pairs: Vec<ExposurePair> = (0..canaries)
            .map(|i| ExposurePair {
                copies: dose(i),
                first: Exposure::of(&old[i]),
                second: Exposure::of(&new[i]),
            })
            .collect();
        let paired = PairedEValue::of(&pairs, CANDIDATES, Draw::Independent).unwrap();
        let is_more = paired.p_value() <= EACH;
        let leaks = |model: &[RankCount]| by_chance(model, copies) <= EACH;
        more += u32::from(is_more);
        said += u32::from(is_more || (leaks(&new) && !leaks(&old)));
    }
    Rates {
        more: f64::from(more) / f64::from(runs),
        said: f64::from(said) / f64::from(runs),
    }
}

/// Rank of a secret whose score is N(by, 1) among a million of N(0, 1).
fn count(by: f64, random: &mut ChaCha8Rng) -> RankCount {
    let (u, v): (f64, f64) = (random.random(), random.random());
    let normal = (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos();
    let above = 0.5 * libm::erfc((by + normal) / std::f64::consts::SQRT_2);
    RankCount {
        candidates: CANDIDATES,
        nll: 1.0,
        below: ((above * CANDIDATES as f64) as u64).min(CANDIDATES - 1),
        ties: 0,
        unresolved: 0,
    }
}

/// p of a model against chance: maximum, mean and the mean of each number of copies, at Bonferroni's price.
fn by_chance(model: &[RankCount], copies: &[u64]) -> f64 {
    let null = |counts: &[RankCount]| {
        ExposureNull::new(CANDIDATES, counts.len() as u64, Draw::Independent).unwrap()
    };
    let mean = |counts: &[RankCount]| {
        let bits: f64 = counts.iter().map(|c| Exposure::of(c).min).sum();
        null(counts).mean_p_value(bits / counts.len() as f64)
    };
    let best = model.iter().map(RankCount::rank_max).min().unwrap();
    let mut all = vec![null(model).order_p_value(1, best), mean(model)];
    if copies.len() > 1 {
        all.extend((0..copies.len()).map(|dose| {
            let own = model.iter().copied().skip(dose).step_by(copies.len());
            mean(&own.collect::<Vec<_>>())
        }));
    }
    let least = all.iter().copied().fold(1.0, f64::min);
    least * all.len() as f64
}
