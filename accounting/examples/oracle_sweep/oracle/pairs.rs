//! Pairs of laws of one step, cut into cells: their masses are differences of distribution functions.

use super::step::{Outcome, Step};

/// Deviations beyond the farthest mean after which cells end: 4e-36 of the mass is beyond.
const REACH: f64 = 12.5;

/// The shape of the noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noise {
    Gaussian,
    Laplace,
}

/// Σ weight·noise(x − place).
pub(crate) type Mixture = Vec<(f64, f64)>;

impl Noise {
    /// P(from < X < to) around zero, without cancellation in the tails.
    fn between(self, from: f64, to: f64) -> f64 {
        if from > 0.0 {
            self.above(from) - self.above(to)
        } else if to < 0.0 {
            self.above(-to) - self.above(-from)
        } else {
            1.0 - self.above(to) - self.above(-from)
        }
    }

    /// P(X > x).
    fn above(self, x: f64) -> f64 {
        match self {
            Self::Gaussian => 0.5 * libm::erfc(x * std::f64::consts::FRAC_1_SQRT_2),
            Self::Laplace if x > 0.0 => 0.5 * (-x).exp(),
            Self::Laplace => 1.0 - 0.5 * x.exp(),
        }
    }

    /// ln of the density but for a constant.
    fn ln_density(self, x: f64) -> f64 {
        match self {
            Self::Gaussian => -0.5 * x * x,
            Self::Laplace => -x.abs(),
        }
    }
}

fn mass(noise: Noise, law: &Mixture, scale: f64, from: f64, to: f64) -> f64 {
    let one = |(weight, place): &(f64, f64)| {
        weight * noise.between((from - place) / scale, (to - place) / scale)
    };
    law.iter().map(one).sum()
}

fn ln_density(noise: Noise, law: &Mixture, scale: f64, x: f64) -> f64 {
    let term = |(weight, place): &(f64, f64)| weight.ln() + noise.ln_density((x - place) / scale);
    let top = law.iter().map(term).fold(f64::NEG_INFINITY, f64::max);
    top + law.iter().map(|c| (term(c) - top).exp()).sum::<f64>().ln()
}

/// Ends of cells: about `count` of equal width, cut where a Laplace density has a kink; the outer two
/// cells are tails.
fn cuts(noise: Noise, places: &[f64], scale: f64, count: usize, reach: f64) -> Vec<f64> {
    let low = places.iter().copied().fold(f64::INFINITY, f64::min);
    let high = places.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (from, to) = match noise {
        Noise::Gaussian => (low - reach * scale, high + reach * scale),
        Noise::Laplace => (low, high),
    };
    let width = (to - from) / count as f64;
    let mut all: Vec<f64> = (0..=count).map(|i| from + width * i as f64).collect();
    all[count] = to;
    if noise == Noise::Laplace {
        all.extend(places);
        all.sort_by(f64::total_cmp);
        all.dedup();
    }
    all
}

/// P against Q where P lies to the right of Q, so that the loss rises with x; of any other two mixtures
/// good for lower ends only: whoever sees the cell sees less.
pub(crate) fn rising(noise: Noise, p: &Mixture, q: &Mixture, scale: f64, cells: usize) -> Step {
    let places: Vec<f64> = p.iter().chain(q).map(|(_, place)| *place).collect();
    let outcomes = cells_of(noise, p, q, scale, cells, (REACH, &places));
    Step::of(outcomes, 0.0, None)
}

/// Cells `reach` deviations beyond all of `places`.
pub(crate) fn cells_of(
    noise: Noise,
    p: &Mixture,
    q: &Mixture,
    scale: f64,
    cells: usize,
    (reach, places): (f64, &[f64]),
) -> Vec<Outcome> {
    let cuts = cuts(noise, places, scale, cells, reach);
    let loss = |x: f64| ln_density(noise, p, scale, x) - ln_density(noise, q, scale, x);
    let (first, last) = (cuts[0], cuts[cuts.len() - 1]);
    // Laplace densities have a constant ratio beyond their last kink.
    let (lowest, highest) = match noise {
        Noise::Gaussian => (f64::NEG_INFINITY, f64::INFINITY),
        Noise::Laplace => (loss(first), loss(last)),
    };
    let cell = |from: f64, to: f64, least: f64, most: f64| Outcome {
        p: mass(noise, p, scale, from, to),
        q: mass(noise, q, scale, from, to),
        least,
        most,
    };
    let mut outcomes = vec![cell(f64::NEG_INFINITY, first, lowest, loss(first))];
    let losses: Vec<f64> = cuts.iter().map(|x| loss(*x)).collect();
    for (ends, losses) in cuts.windows(2).zip(losses.windows(2)) {
        outcomes.push(cell(ends[0], ends[1], losses[0], losses[1]));
    }
    outcomes.push(cell(last, f64::INFINITY, loss(last), highest));
    outcomes
}

/// The pair whose δ is, at every ε ≥ 0, that of ((1−q)N(0) + qN(d), N(0)), and whose reverse has the
/// same: nothing that keeps those two bounds in both directions does worse.
///
/// Losses above 0 are those of the pair, losses below 0 those of its reverse, what is left over is
/// at 0.
pub(crate) fn both_ways(noise: Noise, rate: f64, distance: f64, scale: f64, cells: usize) -> Step {
    let with = vec![(1.0 - rate, 0.0), (rate, distance)];
    let with = with.into_iter().filter(|(w, _)| *w > 0.0).collect();
    let right = rising(noise, &with, &vec![(1.0, 0.0)], scale, cells);
    let above = |o: &&Outcome| o.least >= 0.0;
    let high: Vec<Outcome> = right.outcomes.iter().filter(above).copied().collect();
    let mut outcomes: Vec<Outcome> = high
        .iter()
        .map(|o| Outcome {
            p: o.q,
            q: o.p,
            least: -o.most,
            most: -o.least,
        })
        .collect();
    // What is left over has both masses equal; in the cell across zero some of it is not at 0.
    let across = right
        .outcomes
        .iter()
        .find(|o| o.least < 0.0 && o.most > 0.0);
    let (p, q): (f64, f64) = (
        high.iter().map(|o| o.p).sum(),
        high.iter().map(|o| o.q).sum(),
    );
    let rest = (1.0 - p - q).max(0.0);
    let most = across.map_or(0.0, |o| o.most);
    outcomes.push(Outcome {
        p: rest,
        q: rest,
        least: -most,
        most,
    });
    outcomes.extend(high);
    Step::of(outcomes, 0.0, None)
}
