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
/// Nine tenths of the texts of a near copy differ by no more than this, and so does their median: what training changes on
/// a part of the texts, such as those that it remembers, is more.
const FAR: f64 = 0.1;
/// With this many texts or more, differences are also compared with their median; with fewer, too many are near it
/// anyway.
const FEW: usize = 10;

/// How far apart two models are on the texts that both scored. Each text is compared by itself: one that is far off
/// says nothing about the others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Apart {
    /// Texts scored by both.
    pub texts: u64,
    /// Those whose mean log-likelihoods differ by at most 0.01 nats a token; of ten texts or more, by that from a median
    /// difference of 0.1 at most, where those are nine tenths and more of them.
    pub near_texts: u64,
    /// The largest difference of a text's mean log-likelihoods, nats a token; absent where one of the models gives a text
    /// no likelihood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_difference: Option<f64>,
    /// Whether that is so of half of the texts or more, nine tenths differ by at most 0.1 nats a token, and nothing that
    /// was measured tells the two models apart: a copy of the audited model, or training changed hardly anything.
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
        let within = |room: f64, centre: f64| {
            let near = differences.iter().filter(|d| (*d - centre).abs() <= room);
            near.count() as u64
        };
        let nearly_all = |count: u64| 10 * count >= 9 * texts;
        let mut near = within(NEAR, 0.0);
        let mut by_constant = false;
        if differences.len() >= FEW {
            // A copy but for a small constant tells no text from another either.
            let median = differences[differences.len() / 2];
            let beside = within(NEAR, median);
            by_constant = beside > near && median.abs() <= FAR && nearly_all(beside);
            if by_constant {
                near = beside;
            }
        }
        let near_copy = by_constant || near >= texts - near && nearly_all(within(FAR, 0.0));
        let finite = differences.iter().all(|d| d.is_finite());
        let largest = differences
            .iter()
            .fold(0.0, |most: f64, d| most.max(d.abs()));
        Self {
            texts,
            near_texts: near,
            largest_difference: finite.then_some(largest),
            near_copy,
            by_constant,
        }
    }

    /// Returns the same, unless a measurement distinguishes the two models: then neither is a copy of the other.
    pub(in crate::audit) const fn unless_distinguished(self, distinguished: bool) -> Self {
        Self {
            near_copy: self.near_copy && !distinguished,
            ..self
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

    /// Where training remembers a part of the texts, or all of them, by as much a token: half of the differences are equal,
    /// and the two models are nothing alike.
    #[test]
    fn a_model_that_remembers_is_no_copy() {
        for remembered in [90, 96, 100, 104, 110, 200] {
            let pairs = (0..200).map(|i| (if i < remembered { -0.01 } else { -2.3 }, -2.3));
            let apart = Apart::of(pairs);
            assert!(!apart.near_copy, "{remembered}");
            assert_eq!(apart.warning("The reference"), None);
        }
        // What is distinguished otherwise is no copy either.
        let near = Apart::of([(-1.0, -1.0), (-2.0, -2.0)]);
        assert!(near.near_copy && near.unless_distinguished(false).near_copy);
        assert!(!near.unless_distinguished(true).near_copy);
    }

    #[test]
    fn copies_that_differ_in_a_bit_or_a_scale_are_reported() {
        for (by, near) in [(0.0, true), (1e-7, true), (0.0099, true), (0.011, false)] {
            let apart = Apart::of([(-3.0 - by, -3.0), (-2.0 - by, -2.0)]);
            assert_eq!(apart.near_copy, near, "{by}");
            assert_eq!(apart.warning("The reference").is_some(), near);
        }
        // A few texts that are far off hide nothing of the others.
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
            for (off, near) in [(1, true), (2, true), (3, false), (10, false)] {
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
        // Half of the texts within 0.01, and the rest not far from it.
        for (rest, near) in [(0.05, true), (0.11, false)] {
            let pairs = (0..20).map(|i| (if i % 2 == 0 { rest } else { 0.0 }, 0.0));
            assert_eq!(Apart::of(pairs).near_copy, near, "{rest}");
        }
        // A small constant between the two changes nothing of what is distinguished; a large one is no copy.
        for (texts, by, near) in [(9, 0.05, false), (10, 0.05, true), (10, 0.5, false)] {
            let shifted = Apart::of((0..texts).map(|i| (f64::from(i), f64::from(i) - by)));
            assert_eq!(shifted.near_copy, near, "{texts} {by}");
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
