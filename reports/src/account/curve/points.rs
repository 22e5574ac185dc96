//! Where a curve is evaluated if no points are given.

use super::CurveKind;
use super::run::Line;
use anyhow::Result;
use reticent_accounting::{Delta, Tolerance};

/// The least δ that is shown.
const LEAST: f64 = 1e-12;
/// The number of points of a curve on a linear axis.
const MANY: usize = 33;

impl Line<'_> {
    /// Returns arguments that show the curve.
    pub(super) fn default(&self, kind: CurveKind, count: Option<usize>) -> Result<Vec<f64>> {
        Ok(match (kind, count) {
            (CurveKind::Profile, count) => self.epsilons(count.unwrap_or(MANY))?,
            (CurveKind::Epsilon | CurveKind::BlowUp, None) => {
                (1..=12).rev().map(|k| decade(1.0, k)).collect()
            }
            (CurveKind::Epsilon | CurveKind::BlowUp, Some(count)) => spread(LEAST, 0.1, count),
            (CurveKind::TradeOff, None) => {
                let decades = (1..=6).rev();
                decades
                    .flat_map(|k| [1.0, 2.0, 5.0].map(|first| decade(first, k)))
                    .chain([0.8])
                    .collect()
            }
            (CurveKind::TradeOff, Some(count)) => spread(1e-6, 0.8, count),
            (CurveKind::Renyi, None) => {
                vec![
                    1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0,
                    128.0,
                ]
            }
            (CurveKind::Renyi, Some(count)) => {
                spread(0.25, 127.0, count).iter().map(|x| 1.0 + x).collect()
            }
            (CurveKind::Sigma | CurveKind::SampleRate | CurveKind::Steps | CurveKind::Gamma, _) => {
                Vec::new()
            }
        })
    }

    /// Returns round numbers from 0 to where δ leaves the plot.
    fn epsilons(&self, count: usize) -> Result<Vec<f64>> {
        let rough = Self {
            tolerance: Tolerance::new(1e-3)?,
            ..*self
        };
        let (ends, ..) = rough.epsilon(Delta::new(LEAST)?, false)?;
        let end = ends.high().filter(|end| end.is_finite() && *end > 0.0);
        let end = end.unwrap_or(1.0);
        let step = two_digits_up(end / (count - 1) as f64);
        Ok((0..count).map(|i| round(i as f64 * step)).collect())
    }
}

/// Returns first · 10^−k, as parsed from its decimal form.
fn decade(first: f64, k: i32) -> f64 {
    format!("{first}e-{k}")
        .parse()
        .unwrap_or_else(|_| first * 10f64.powi(-k))
}

/// Returns `count` numbers from low to high with equal ratios, rounded to four digits.
pub(super) fn spread(low: f64, high: f64, count: usize) -> Vec<f64> {
    let step = (high / low).ln() / (count - 1) as f64;
    (0..count)
        .map(|i| round(low * (step * i as f64).exp()))
        .collect()
}

fn round(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

fn two_digits_up(value: f64) -> f64 {
    crate::number::rounded_up(value, 2).parse().unwrap_or(value)
}
