//! Beliefs about in/out coins from attack scores.

use super::belief::{Beliefs, Pool};
use super::{CanaryGuesses, Guess};
use crate::error::{Error, Result};

/// Slopes of the logistic curves that are averaged over, for scores in units of their spread.
const SLOPES: [f64; 7] = [1.0, 1.26, 1.59, 2.0, 2.52, 3.17, 4.0];

/// Guesses about coins: score of each canary (higher means in) and whether it was in.
///
/// The belief in "in" is logistic in the score, centred at the median of all scores and scaled by
/// their quartiles: scores of the release, not coins. Several slopes are averaged over.
///
/// # Errors
/// No score, another number of coins than scores, a score that is no number.
pub fn coin_beliefs(scores: &[f64], coins: &[bool]) -> Result<Vec<CanaryGuesses>> {
    if scores.len() != coins.len() {
        return Err(Error::WrongCount {
            what: "coins",
            got: coins.len(),
            wanted: scores.len(),
        });
    }
    if scores.is_empty() {
        return Err(Error::Empty("no canary was given"));
    }
    if let Some(bad) = scores.iter().find(|score| score.is_nan()) {
        return Err(Error::out_of_range("score", "[-inf, inf]", bad));
    }
    let mut sorted = scores.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted.get((share * (sorted.len() - 1) as f64) as usize);
    let (Some(&low), Some(&middle), Some(&high)) = (at(0.25), at(0.5), at(0.75)) else {
        return Err(Error::Empty("no canary was given"));
    };
    // Quartiles of a normal law lie 1.349 deviations apart.
    let spread = (high - low) / 1.349;
    let spread = if spread > 0.0 && spread.is_finite() {
        spread
    } else {
        1.0
    };
    let both = scores.iter().zip(coins);
    both.map(|(score, coin)| {
        let distance = (score - middle) / spread;
        // Two equal infinities differ by nothing.
        let distance = if distance.is_nan() { 0.0 } else { distance };
        SLOPES
            .iter()
            .map(|slope| guess(distance * slope, *coin))
            .collect()
    })
    .collect()
}

fn guess(log_odds: f64, coin: bool) -> Result<Guess> {
    let inside = 1.0 / (1.0 + (-log_odds).exp());
    let outside = 1.0 / (1.0 + log_odds.exp());
    // As with candidates, certainty is never complete.
    let [inside, outside] = [inside, outside].map(|p| 0.998 * p + 0.001);
    let beliefs = Beliefs::full(&[outside, inside], Pool::NONE)?;
    Ok(beliefs.guess(if coin { inside } else { outside }))
}
