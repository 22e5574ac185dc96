//! One step as a list of outcomes, and its losses moved to equidistant lines both ways.
//!
//! With X = dP/dQ, δ is the Q-mean of (X − e^ε)₊, which is convex in X: spreading an outcome to two
//! values with the same Q-mean raises δ, pooling outcomes lowers it, in one step and, step by step, in
//! every composition.

use super::finite::most_ln_moment;

/// What may come out: its probability under both laws, and between which values the losses of
/// all that is in it lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) p: f64,
    pub(crate) q: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Outcome {
    /// All of one loss.
    pub(crate) fn atom(p: f64, q: f64) -> Self {
        let loss = (p / q).ln();
        Self {
            p,
            q,
            least: loss,
            most: loss,
        }
    }

    /// The P-mass at `most`, relatively, when the outcome is spread to its two ends; all of it where
    /// an end is infinite.
    fn share_above(&self) -> f64 {
        let width = self.most - self.least;
        if width > 0.0 && width.is_finite() {
            let above = (self.loss() - self.least).max(0.0);
            ((-above).exp_m1() / (-width).exp_m1()).clamp(0.0, 1.0)
        } else {
            1.0
        }
    }

    /// The loss of the outcome as a whole.
    pub(crate) fn loss(&self) -> f64 {
        (self.p / self.q).ln()
    }
}

/// One step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Step {
    /// By ascending loss.
    pub(crate) outcomes: Vec<Outcome>,
    /// P-mass where Q has none.
    pub(crate) infinite: f64,
    /// The distance of losses, if they are equidistant.
    pub(crate) comb: Option<f64>,
    /// Moments are those of the worst two losses this far apart, which no one step attains at every ε.
    pub(crate) range: Option<f64>,
}

/// P-masses on the losses origin + index·spacing.
#[derive(Debug, Clone)]
pub(crate) struct Lines {
    pub(crate) origin: f64,
    pub(crate) spacing: f64,
    pub(crate) points: Vec<(i64, f64)>,
    pub(crate) infinite: f64,
}

/// Which side of the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Low,
    High,
}

impl Step {
    /// From outcomes in any order; those that are nothing are left out.
    pub(crate) fn of(outcomes: Vec<Outcome>, infinite: f64, comb: Option<f64>) -> Self {
        let mut step = Self {
            outcomes,
            infinite,
            comb,
            range: None,
        };
        step.outcomes.retain(|o| o.p > 0.0);
        let impossible = |o: &&Outcome| o.q <= 0.0;
        step.infinite += step
            .outcomes
            .iter()
            .filter(impossible)
            .map(|o| o.p)
            .sum::<f64>();
        step.outcomes.retain(|o| o.q > 0.0);
        step.outcomes.sort_by(|a, b| a.loss().total_cmp(&b.loss()));
        step
    }

    /// The same step with the laws exchanged; `without` is the Q-mass where P has none.
    pub(crate) fn swapped(&self, without: f64) -> Self {
        let turn = |o: &Outcome| Outcome {
            p: o.q,
            q: o.p,
            least: -o.most,
            most: -o.least,
        };
        Self::of(self.outcomes.iter().map(turn).collect(), without, self.comb)
    }

    /// ln E_P e^{λL}, mean and variance of L under P tilted by e^{λL}, over finite losses.
    pub(crate) fn moments(&self, tilt: f64) -> (f64, f64, f64) {
        let top = self.outcomes.iter().map(|o| o.p.ln() + tilt * o.loss());
        let top = top.fold(f64::NEG_INFINITY, f64::max);
        let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
        for o in &self.outcomes {
            let loss = o.loss();
            let weight = (o.p.ln() + tilt * loss - top).exp();
            sum += weight;
            first += weight * loss;
            second += weight * loss * loss;
        }
        let mean = first / sum;
        (top + sum.ln(), mean, (second / sum - mean * mean).max(0.0))
    }

    /// An end of δ(ε) of this step alone: outcomes as one, or at their ends.
    pub(crate) fn delta(&self, epsilon: f64, side: Side) -> f64 {
        let excess = |loss: f64| (-(epsilon - loss).exp_m1()).max(0.0);
        let of = |o: &Outcome| match side {
            Side::Low => o.p * excess(o.loss()),
            Side::High if o.most <= epsilon => 0.0,
            Side::High => {
                o.p * o.share_above() * excess(o.most)
                    + o.p * (1.0 - o.share_above()) * excess(o.least)
            }
        };
        self.infinite + self.outcomes.iter().map(of).sum::<f64>()
    }

    /// An end of ln E_P e^{(order−1)L}, which is convex in X: outcomes as one, or at their ends.
    pub(crate) fn ln_moment(&self, order: f64, side: Side) -> f64 {
        if self.infinite > 0.0 {
            return f64::INFINITY;
        }
        if let Some(range) = self.range {
            return most_ln_moment(range, order);
        }
        let ln = |mass: f64, loss: f64| mass.ln() + (order - 1.0) * loss;
        let of = |o: &Outcome| match side {
            Side::Low => [ln(o.p, o.loss()), f64::NEG_INFINITY],
            Side::High => {
                let share = o.share_above();
                [ln(o.p * share, o.most), ln(o.p * (1.0 - share), o.least)]
            }
        };
        let terms = || self.outcomes.iter().flat_map(of);
        let top = terms().fold(f64::NEG_INFINITY, f64::max);
        if top.is_infinite() {
            return top;
        }
        top + terms().map(|term| (term - top).exp()).sum::<f64>().ln()
    }

    /// The same step where only losses of at least `floor` matter: those below it left out, or raised to it.
    pub(crate) fn clipped(&self, floor: f64, side: Side) -> Self {
        let mut step = self.clone();
        step.outcomes.retain(|o| o.loss() >= floor);
        let kept: f64 = step.outcomes.iter().map(|o| o.p).sum();
        let left: f64 = self.outcomes.iter().map(|o| o.p).sum::<f64>() - kept;
        if side == Side::High && step.outcomes.len() < self.outcomes.len() {
            let p = left.max(0.0) + f64::EPSILON;
            let raised = Outcome {
                p,
                q: p * (-floor).exp(),
                least: floor,
                most: floor,
            };
            step.outcomes.insert(0, raised);
        }
        step
    }

    /// About the same step, of few outcomes: to see where it lies.
    pub(crate) fn thinned(&self) -> Self {
        let together = |some: &[Outcome]| Outcome {
            p: some.iter().map(|o| o.p).sum(),
            q: some.iter().map(|o| o.q).sum(),
            least: some[0].least,
            most: some[some.len() - 1].most,
        };
        let size = 1 + self.outcomes.len() / 200;
        Self {
            outcomes: self.outcomes.chunks(size).map(together).collect(),
            infinite: self.infinite,
            comb: self.comb,
            range: self.range,
        }
    }

    pub(crate) fn on_lines(&self, spacing: f64, side: Side) -> Lines {
        let origin = self.outcomes.first().map_or(0.0, Outcome::loss);
        let empty = Lines {
            origin,
            spacing,
            points: Vec::new(),
            infinite: self.infinite,
        };
        match side {
            Side::Low => self.pooled(empty),
            Side::High => self.spread(empty),
        }
    }

    /// Every outcome to the two lines around it, so that both masses stay.
    fn spread(&self, mut lines: Lines) -> Lines {
        for o in &self.outcomes {
            if o.most.is_infinite() {
                lines.infinite += o.p;
                continue;
            }
            let loss = o.loss();
            let (least, most) = (o.least.min(loss), o.most.max(loss));
            let high = lines.near(most).ceil();
            if least.is_infinite() {
                // Raised.
                lines.points.push((high as i64, o.p));
                continue;
            }
            let low = lines.near(least).floor();
            let width = (high - low) * lines.spacing;
            let share = if width > 0.0 {
                let above = loss - (lines.origin + low * lines.spacing);
                (-(-above).exp_m1() / -(-width).exp_m1()).clamp(0.0, 1.0)
            } else {
                1.0
            };
            lines.points.push((high as i64, o.p * share));
            lines.points.push((low as i64, o.p * (1.0 - share)));
        }
        lines
    }

    /// From the highest loss down: as many outcomes together, the last one in part, as have their
    /// common loss on a line. What is left at the lowest end is lowered.
    fn pooled(&self, mut lines: Lines) -> Lines {
        let mut rest = self.outcomes.iter().rev().copied();
        let mut next = rest.next();
        while let Some(start) = next {
            let index = lines.near(start.loss()).floor();
            let value = lines.origin + index * lines.spacing;
            // On the line within rounding, or above it: then lower ones join until it is met.
            let (mut p, mut q) = (start.p, start.q);
            next = rest.next();
            while (p / q).ln() > value + 1e-13 * (1.0 + value.abs()) {
                let Some(o) = next else { break };
                let ratio = value.exp();
                let part = (p - ratio * q) / (ratio * o.q - o.p);
                if (0.0..1.0).contains(&part) {
                    p += part * o.p;
                    next = Some(Outcome {
                        p: o.p * (1.0 - part),
                        q: o.q * (1.0 - part),
                        ..o
                    });
                    break;
                }
                p += o.p;
                q += o.q;
                next = rest.next();
            }
            lines.points.push((index as i64, p));
        }
        lines
    }
}

impl Lines {
    /// The position of a loss in lines; on a line if it is there but for rounding.
    fn near(&self, loss: f64) -> f64 {
        let place = (loss - self.origin) / self.spacing;
        let line = place.round();
        if (place - line).abs() * self.spacing <= 1e-13 * (1.0 + loss.abs()) {
            line
        } else {
            place
        }
    }
}
