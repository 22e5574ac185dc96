//! Compares the audited model with the model that its scores are compared with, to recognise a near copy.
#![cfg_attr(
    not(feature = "audit"),
    allow(
        dead_code,
        reason = "without an engine nothing is scored; the tests still ask"
    )
)]

use crate::number::{count_of, grouped, nearest};
use schemars::JsonSchema;
use serde::Serialize;

/// In nats a token: one hundredth of a token's probability. The value is a judgement, above the effect of rounded
/// weights and below what training is for.
const NEAR: f64 = 0.01;
/// With this many texts or more, differences are also compared with their median; with fewer, too many are near it
/// anyway.
const FEW: usize = 10;

/// How far apart two models are on the texts that both scored. Each text is compared by itself: one that is far off
/// says nothing about the others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Apart {
    /// Texts scored by both.
    pub texts: u64,
    /// Those whose mean log-likelihoods differ by at most 0.01 nats a token; of ten texts or more, by that from the median
    /// difference, where that makes more of them.
    pub near_texts: u64,
    /// The largest difference of a text's mean log-likelihoods, nats a token; absent where one of the models gives a text
    /// no likelihood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_difference: Option<f64>,
    /// Whether that is so of half of the texts or more: a copy of the audited model, or training changed hardly anything.
    pub near_copy: bool,
    /// Whether more texts are near once the median difference is taken away.
    #[serde(skip)]
    by_constant: bool,
}

impl Apart {
    /// Compares the mean log-likelihoods of each text under both models, in nats a token.
    pub(in crate::audit) fn of(pairs: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let difference = |(own, other): (f64, f64)| match own.is_finite() || other.is_finite() {
            true => own - other,
            // Neither model gives the text a likelihood.
            false => 0.0,
        };
        let mut differences: Vec<f64> = pairs.into_iter().map(difference).collect();
        differences.sort_by(f64::total_cmp);
        let texts = differences.len() as u64;
        let near_to = |centre: f64| {
            let near = differences.iter().filter(|d| (*d - centre).abs() <= NEAR);
            near.count() as u64
        };
        let mut near = near_to(0.0);
        let mut by_constant = false;
        if differences.len() >= FEW {
            // A copy but for a constant tells no text from another either.
            let beside = near_to(differences[differences.len() / 2]);
            by_constant = beside > near;
            near = near.max(beside);
        }
        let finite = differences.iter().all(|d| d.is_finite());
        let largest = differences
            .iter()
            .fold(0.0, |most: f64, d| most.max(d.abs()));
        Self {
            texts,
            near_texts: near,
            largest_difference: finite.then_some(largest),
            near_copy: near >= texts - near,
            by_constant,
        }
    }

    /// Returns a warning about a near copy, to follow a sentence.
    pub(in crate::audit) fn warning(self, what: &str) -> Option<String> {
        if !self.near_copy {
            return None;
        }
        let differs = match self.largest_difference {
            Some(largest) if self.near_texts == self.texts && !self.by_constant => format!(
                "no text's likelihood differs by more than {} nats a token",
                nearest(largest, 2)
            ),
            _ => format!(
                "the likelihoods of {} of {} differ by at most {NEAR} nats a token{}",
                grouped(self.near_texts),
                count_of(self.texts, "text"),
                if self.by_constant {
                    " from their median difference"
                } else {
                    ""
                }
            ),
        };
        Some(format!(
            " {what} is nearly the same model: {differs}. It is a copy of the audited model, or training hardly changed it, and a comparison with it shows nothing."
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_that_differ_in_a_bit_or_a_scale_are_told() {
        for (by, near) in [(0.0, true), (1e-7, true), (0.0099, true), (0.011, false)] {
            let apart = Apart::of([(-3.0 - by, -3.0), (-2.0 - by, -2.0)]);
            assert_eq!(apart.near_copy, near, "{by}");
            assert_eq!(apart.warning("The reference").is_some(), near);
        }
        // Texts that are far off hide nothing of the others, as long as they are no more than these.
        for far in [-9.0, f64::NEG_INFINITY, f64::NAN] {
            let pairs = |off: usize| {
                (0..20).map(move |i| {
                    if i < off {
                        (far - i as f64, -2.0)
                    } else {
                        (-2.0, -2.0)
                    }
                })
            };
            for (off, near) in [(1, true), (10, true), (11, false)] {
                let apart = Apart::of(pairs(off));
                assert_eq!((apart.texts, apart.near_texts), (20, 20 - off as u64));
                assert_eq!(apart.near_copy, near, "{far} {off}");
            }
            let said = Apart::of(pairs(1)).warning("The reference").unwrap();
            assert!(
                said.contains("likelihoods of 19 of 20 texts differ by at most 0.01"),
                "{said}"
            );
        }
        // A constant between the two changes nothing of what is distinguished.
        for (texts, near) in [(9, false), (10, true)] {
            let shifted = Apart::of((0..texts).map(|i| (f64::from(i), f64::from(i) - 0.5)));
            assert_eq!(shifted.near_copy, near, "{texts}");
        }
        let apart = Apart::of((0..20).map(|i| (f64::from(i) * 0.1, 0.0)));
        assert!(!apart.near_copy && apart.near_texts == 1);
        let none = f64::NEG_INFINITY;
        assert!(Apart::of([(none, none)]).near_copy);
        for pair in [(none, -1.0), (-1.0, none), (f64::NAN, -1.0)] {
            let apart = Apart::of([pair]);
            assert_eq!((apart.near_copy, apart.largest_difference), (false, None));
        }
    }
}
