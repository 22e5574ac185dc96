//! Steps put together: the transform of tilted masses, with all that is left out counted.

use super::fourier::convolve;
use super::step::{Lines, Side, Step};

/// Roundings of all masses and exponentials, relatively, with room: a mass of a cell is known to
/// 1e-12, of some hundred steps 1e-9.
const ROUNDING: f64 = 1e-8;
/// Deviations that a window reaches, at most.
const REACH: f64 = 14.0;

/// A step's lines, its tilted masses, and how often it is run.
type Tilted = (Lines, Vec<(i64, f64)>, f64);

/// The law of the composed loss under P, tilted by e^{λ·loss} and scaled to one.
#[derive(Debug, Clone)]
pub(crate) struct Composed {
    side: Side,
    /// A single step needs no lines.
    alone: Option<Step>,
    /// The loss of the first entry.
    first: f64,
    spacing: f64,
    mass: Vec<f64>,
    tilt: f64,
    ln_scale: f64,
    /// How far any entry may be off.
    each: f64,
    /// Tilted mass beyond the window, and what wraps around.
    beyond: f64,
    /// P-mass of infinite loss.
    infinite: f64,
}

/// Where a composition is looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    tilt: f64,
    middle: f64,
    from: f64,
    spacing: f64,
    length: usize,
}

impl View {
    /// Tilted so that ε is in the middle, as wide as the composed loss spreads.
    pub(crate) fn at(parts: &[(Step, u64)], epsilon: f64, length: usize) -> Self {
        let all =
            |end: fn(&Step) -> f64| -> f64 { parts.iter().map(|(s, n)| end(s) * *n as f64).sum() };
        let lowest = all(|s| s.outcomes.first().map_or(0.0, |o| o.loss()));
        let highest = all(|s| s.outcomes.last().map_or(0.0, |o| o.loss()));
        let parts: Vec<(Step, u64)> = parts.iter().map(|(s, n)| (s.thinned(), *n)).collect();
        let parts = parts.as_slice();
        let total = |tilt: f64| {
            parts.iter().fold((0.0, 0.0), |sum, (step, times)| {
                let (_, mean, variance) = step.moments(tilt);
                let times = *times as f64;
                (sum.0 + times * mean, sum.1 + times * variance)
            })
        };
        // The mean rises with the tilt.
        let (mut low, mut high) = (0.0, 1.0);
        if total(0.0).0 < epsilon {
            while high < 1e3 && total(high).0 < epsilon {
                low = high;
                high *= 2.0;
            }
            for _ in 0..8 {
                let middle = 0.5 * (low + high);
                if total(middle).0 < epsilon {
                    low = middle;
                } else {
                    high = middle;
                }
            }
        }
        let tilt = low;
        let (mean, variance) = total(tilt);
        let reach = Self::reach(parts, tilt, mean, variance.sqrt());
        let (from, to) = (lowest.max(mean - reach), highest.min(mean + reach));
        let mut spacing = ((to - from) / (length as f64 - 8.0)).max(1e-9);
        if let Some(comb) = parts.iter().find_map(|(step, _)| step.comb) {
            let fitting = (comb / spacing).floor();
            // Losses all on lines need no finer ones.
            if fitting >= 1.0 {
                spacing = if parts.len() == 1 {
                    comb
                } else {
                    comb / fitting
                };
            }
        }
        Self {
            tilt,
            middle: mean,
            from,
            spacing,
            length,
        }
    }

    /// So far that Chernoff's bound for what is beyond is about 1e-14.
    fn reach(parts: &[(Step, u64)], tilt: f64, mean: f64, deviation: f64) -> f64 {
        let at = |tilt: f64| -> f64 {
            parts
                .iter()
                .map(|(step, times)| step.moments(tilt).0 * *times as f64)
                .sum()
        };
        let here = at(tilt);
        let mut reach = 0.0f64;
        for sign in [-1.0, 1.0] {
            let mut best = f64::INFINITY;
            for strength in [0.3, 1.0, 2.0, 4.0, REACH * 0.5] {
                let s = sign * strength / deviation.max(1e-9);
                best = best.min((at(tilt + s) - here + 33.0) / s.abs() - sign * mean);
            }
            reach = reach.max(best);
        }
        reach.max(4.0 * deviation)
    }
}

impl Composed {
    pub(crate) fn of(parts: &[(Step, u64)], view: View, side: Side) -> Self {
        let tilt = view.tilt;
        let alone = match parts {
            [(step, 1)] => Some(step.clone()),
            _ => None,
        };
        let parts = if alone.is_some() { &[] } else { parts };
        let mut ln_finite = 0.0;
        let (mut origin, mut ln_scale) = (0.0, 0.0);
        let (mut sums, mut lines) = (Vec::new(), Vec::new());
        for (step, times) in parts {
            let line = step.on_lines(view.spacing, side);
            let n = *times as f64;
            ln_finite += n * (-line.infinite).ln_1p();
            origin += n * line.origin;
            let (tilted, ln) = line.tilted(tilt);
            ln_scale += n * ln;
            let mut wrapped = vec![0.0; view.length];
            for (index, mass) in &tilted {
                wrapped[index.rem_euclid(view.length as i64) as usize] += mass;
            }
            sums.push((wrapped, *times));
            lines.push((line, tilted, n));
        }
        if let Some(step) = alone {
            return Self::alone(step, view, side);
        }
        let (raw, each) = convolve(&sums);
        // Entry `start` of the unwrapped sum is the first of the window.
        let start = ((view.from - origin) / view.spacing).floor() as i64 - 2;
        let mass: Vec<f64> = (0..view.length as i64)
            .map(|i| raw[(start + i).rem_euclid(view.length as i64) as usize])
            .collect();
        let first = origin + start as f64 * view.spacing;
        let last = first + view.length as f64 * view.spacing;
        Self {
            side,
            alone: None,
            first,
            spacing: view.spacing,
            mass,
            tilt,
            ln_scale,
            each,
            beyond: Self::beyond(&lines, view.middle, first)
                + Self::beyond(&lines, view.middle, last),
            infinite: -f64::exp_m1(ln_finite),
        }
    }

    fn alone(step: Step, view: View, side: Side) -> Self {
        Self {
            side,
            infinite: step.infinite,
            alone: Some(step),
            first: 0.0,
            spacing: view.spacing,
            mass: Vec::new(),
            tilt: 0.0,
            ln_scale: 0.0,
            each: 0.0,
            beyond: 0.0,
        }
    }

    /// Chernoff's bound for the tilted mass beyond `boundary`, seen from `middle`.
    fn beyond(lines: &[Tilted], middle: f64, boundary: f64) -> f64 {
        let sign = if boundary > middle { 1.0 } else { -1.0 };
        let (mut low, mut high) = (0.0, 0.0);
        for (line, tilted, n) in lines {
            let ends = tilted.iter().map(|(index, _)| *index);
            let value = |index: i64| line.origin + index as f64 * line.spacing;
            low += n * value(ends.clone().min().unwrap_or(0));
            high += n * value(ends.max().unwrap_or(0));
        }
        // Nothing is there.
        let room = 0.5 * lines[0].0.spacing;
        if sign > 0.0 && high < boundary - room || sign < 0.0 && low > boundary - room {
            return 0.0;
        }
        let mut best = 1.0f64;
        for strength in [12.0, 25.0, 37.0, 50.0, 80.0] {
            let s = strength / (boundary - middle);
            let ln: f64 = lines
                .iter()
                .map(|(line, tilted, n)| {
                    let of = |(index, mass): &(i64, f64)| {
                        mass * (s * (line.origin + *index as f64 * line.spacing)).exp()
                    };
                    n * tilted.iter().map(of).sum::<f64>().ln()
                })
                .sum();
            // Not a number bounds nothing.
            best = best.min((ln - s * boundary).exp());
        }
        best
    }

    fn loss(&self, index: usize) -> f64 {
        self.first + index as f64 * self.spacing
    }

    /// What is to be added or taken away, so that the end is certain.
    fn outward(&self, value: f64, error: f64) -> f64 {
        match self.side {
            Side::Low => ((value - error) * (1.0 - ROUNDING)).max(0.0),
            Side::High => ((value + error) * (1.0 + ROUNDING)).min(1.0),
        }
    }

    /// This end of δ(ε) = E_P (1 − e^{ε−L})₊.
    pub(crate) fn delta(&self, epsilon: f64) -> f64 {
        if let Some(step) = &self.alone {
            return self.outward(step.delta(epsilon, self.side), 0.0);
        }
        let (mut sum, mut weights) = (0.0, 0.0);
        for (index, mass) in self.mass.iter().enumerate() {
            let loss = self.loss(index);
            if loss > epsilon {
                let weight = (self.ln_scale - self.tilt * loss).exp() * -(epsilon - loss).exp_m1();
                sum += mass * weight;
                weights += weight;
            }
        }
        // The largest weight of any loss above ε.
        let tilt = self.tilt;
        let shape = if tilt > 0.0 {
            tilt * (tilt / (1.0 + tilt)).ln() - tilt.ln_1p()
        } else {
            0.0
        };
        let largest = (self.ln_scale - tilt * epsilon + shape).exp();
        let error = self.each * weights + self.beyond * largest;
        self.outward(sum + self.infinite, error)
    }

    /// An upper end of B(x) = max {P(E): Q(E) ≤ x}: δ(t) + e^t x at any t, here some near `near`.
    pub(crate) fn blow_up(&self, x: f64, near: f64) -> f64 {
        (-4..=4)
            .map(|i| near + f64::from(i) * 2.0 * self.spacing)
            .map(|t| self.delta(t) + t.exp() * x)
            .fold(1.0, f64::min)
    }

    /// A lower end of B(x): the event that the loss is above a line.
    pub(crate) fn best_event(&self, x: f64) -> f64 {
        let (mut p, mut q) = (self.infinite, 0.0);
        if let Some(step) = &self.alone {
            let highest = step.outcomes.iter().rev();
            for o in highest.take_while(|o| {
                q += o.q;
                q <= x
            }) {
                p += o.p;
            }
            return p * (1.0 - ROUNDING);
        }
        for (index, mass) in self.mass.iter().enumerate().rev() {
            let loss = self.loss(index);
            let weight = (self.ln_scale - self.tilt * loss).exp();
            let more = (mass + self.each) * weight * (-loss).exp();
            if q + more > x {
                break;
            }
            q += more;
            p += (mass - self.each) * weight;
        }
        // What wraps around may be taken for something of this kind: only where it is nothing.
        let wrapped = self.beyond * (self.ln_scale - self.tilt * self.first).exp();
        ((p - wrapped) * (1.0 - ROUNDING)).max(0.0)
    }
}

impl Lines {
    /// Masses times e^{λ·loss}, scaled to one, and the logarithm of the scale. Losses so far below
    /// that they underflow are nothing at all.
    fn tilted(&self, tilt: f64) -> (Vec<(i64, f64)>, f64) {
        let value = |index: i64| self.origin + index as f64 * self.spacing;
        let ln = |(index, mass): &(i64, f64)| mass.ln() + tilt * value(*index);
        let points = || self.points.iter().filter(|(_, mass)| *mass > 0.0);
        let top = points().map(ln).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = points().map(|point| (ln(point) - top).exp()).sum();
        let scale = top + sum.ln();
        let tilted = points()
            .map(|point| (point.0, (ln(point) - scale).exp()))
            .collect();
        (tilted, scale)
    }
}
