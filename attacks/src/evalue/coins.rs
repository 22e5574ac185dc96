//! Beliefs about in/out coins from attack scores.
//!
//! The coins are revealed from the middle of the scores outwards. A coin in the middle is no
//! evidence for a large ε, since no belief about it is strong enough, but it shows how scores
//! relate to coins. When the ends, where the evidence is, are reached, the belief about them has
//! been learned from all other coins. The order and the beliefs depend on scores (of the release)
//! and on coins revealed before, which the theorem allows.

use super::CanaryGuesses;
use super::belief::{Beliefs, Pool};
use crate::error::{Result, counted, given, numbers};

/// The slopes of the logistic curves that the revealed coins choose between, for scores in units of
/// their spread: from hardly any leak to certainty two spreads away.
const SLOPES: [f64; 14] = [
    0.0, 0.125, 0.25, 0.5, 0.75, 1.0, 1.25, 1.6, 2.0, 2.5, 3.2, 4.0, 5.6, 8.0,
];

/// The points where the curves are even, in units of the spread from the median.
const CENTRES: [f64; 5] = [-0.5, -0.25, 0.0, 0.25, 0.5];

/// The distance that the curves keep from certainty at each end.
const LAPSES: [f64; 3] = [0.001, 0.01, 0.05];

/// A logistic curve with truncated ends.
#[derive(Debug, Clone, Copy)]
struct Curve {
    slope: f64,
    centre: f64,
    lapse: f64,
}

impl Curve {
    fn all() -> Vec<Self> {
        let mut all = Vec::with_capacity(SLOPES.len() * CENTRES.len() * LAPSES.len());
        for slope in SLOPES {
            for centre in CENTRES {
                for lapse in LAPSES {
                    all.push(Self {
                        slope,
                        centre,
                        lapse,
                    });
                }
            }
        }
        all
    }

    /// Returns the probability of "in" at a score this far from the median.
    fn inside(self, distance: f64) -> f64 {
        let log_odds = if self.slope > 0.0 {
            self.slope * (distance - self.centre)
        } else {
            0.0
        };
        let logistic = 1.0 / (1.0 + (-log_odds).exp());
        self.lapse + (1.0 - 2.0 * self.lapse) * logistic
    }
}

/// The curves, each weighted by the probability that it gave the coins revealed so far.
struct Learned {
    curves: Vec<Curve>,
    weights: Vec<f64>,
    /// The probability of "in" by each curve at the distance asked last.
    chances: Vec<f64>,
}

impl Learned {
    fn nothing() -> Self {
        let curves = Curve::all();
        Self {
            weights: vec![1.0 / curves.len() as f64; curves.len()],
            chances: vec![0.0; curves.len()],
            curves,
        }
    }

    /// Returns the belief that a canary with a score at this distance is in.
    fn inside(&mut self, distance: f64) -> f64 {
        for (chance, curve) in self.chances.iter_mut().zip(&self.curves) {
            *chance = curve.inside(distance);
        }
        let both = self.weights.iter().zip(&self.chances);
        let inside = both.map(|(weight, chance)| weight * chance).sum::<f64>();
        inside.clamp(f64::MIN_POSITIVE, 1.0 - f64::EPSILON)
    }

    /// Learns the coin of that canary. It affects the beliefs about later coins only.
    fn reveal(&mut self, coin: bool) {
        for (weight, chance) in self.weights.iter_mut().zip(&self.chances) {
            *weight *= if coin { *chance } else { 1.0 - *chance };
        }
        let all: f64 = self.weights.iter().sum();
        self.weights.iter_mut().for_each(|weight| *weight /= all);
    }
}

/// Returns upper bounds on the belief in what each coin shows, in the order in which coins are revealed, whatever the
/// scores and coins: the beliefs where every canary is infinitely far from the median and in.
///
/// With a lapse λ, a curve gives a coin at most q = 1 − λ, or 1/2 if its slope is 0. Of two curves of one shape, or if
/// one of them has slope 0, the ratio of what they give is at most that of their q, which infinite distances attain for
/// every coin. So no coins move more weight to the larger q.
pub(super) fn largest_beliefs(coins: u64) -> Vec<f64> {
    let mut learned = Learned::nothing();
    let mut next = || {
        let belief = learned.inside(f64::INFINITY);
        learned.reveal(true);
        belief
    };
    (0..coins).map(|_| next()).collect()
}

/// Returns guesses about coins, in the order in which the coins are revealed, from the score of
/// each canary (a higher score means in) and whether the canary was in.
///
/// The belief about a coin is the mean of logistic curves in its score, each weighted by the
/// probability that it gave the coins revealed before. Scores are centred at their median and
/// scaled by their quartiles.
///
/// # Errors
/// Returns an error if there is no score, if the number of coins is not that of scores, or if a
/// score is NaN.
pub fn coin_beliefs(scores: &[f64], coins: &[bool]) -> Result<Vec<CanaryGuesses>> {
    counted("coins", coins.len(), scores.len())?;
    given(!scores.is_empty(), "no canary was given")?;
    numbers("score", "[-inf, inf]", scores)?;
    let distances = distances(scores);
    let mut order: Vec<usize> = (0..scores.len()).collect();
    // Equal distances keep the canaries' order, which does not depend on coins.
    order.sort_by(|a, b| distances[*a].abs().total_cmp(&distances[*b].abs()));
    let mut learned = Learned::nothing();
    order
        .into_iter()
        .map(|i| {
            let inside = learned.inside(distances[i]);
            let beliefs = Beliefs::full(&[1.0 - inside, inside], Pool::NONE)?;
            let coin = coins[i];
            learned.reveal(coin);
            let own = if coin { inside } else { 1.0 - inside };
            Ok(vec![beliefs.guess(own)?])
        })
        .collect()
}

/// Returns the scores' distances from their median, in units of their spread.
fn distances(scores: &[f64]) -> Vec<f64> {
    let mut sorted = scores.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted[(share * (sorted.len() - 1) as f64) as usize];
    let (low, middle, high) = (at(0.25), at(0.5), at(0.75));
    // The quartiles of a normal distribution are 1.349 standard deviations apart.
    let spread = (high - low) / 1.349;
    let spread = if spread > 0.0 && spread.is_finite() {
        spread
    } else {
        1.0
    };
    let each = scores.iter().map(|score| {
        let distance = (score - middle) / spread;
        // Two equal infinities have distance 0.
        if distance.is_nan() { 0.0 } else { distance }
    });
    each.collect()
}
