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
fn cells_of(
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

/// A record in `selected` of `bins` steps, drawn for it alone, against none (or against the opposite
/// record in such steps, where outcomes are good for lower ends only): all products of cells, those of
/// its own steps averaged. The ratio rises with every coordinate.
pub(crate) fn allocated(
    noise: Noise,
    scale: f64,
    bins: usize,
    selected: usize,
    replace: bool,
) -> Step {
    let cells = match (noise, bins) {
        (Noise::Laplace, 2) => 80,
        (Noise::Laplace, _) => 24,
        (_, 2) => 170,
        _ => 36,
    };
    let zero = if replace { -1.0 } else { 0.0 };
    let one = |place: f64| -> Vec<Outcome> {
        cells_of(
            noise,
            &vec![(1.0, place)],
            &vec![(1.0, 0.0)],
            scale,
            cells,
            (8.5, &[-1.0, 0.0, 1.0][usize::from(!replace)..]),
        )
    };
    let (with, against) = (one(1.0), one(zero));
    // Sums over subsets, as (P-mass, Q-mass, least and most ratio): entry k has k of its steps so far.
    let mut all: Vec<Vec<[f64; 4]>> = vec![start(selected)];
    for _ in 0..bins {
        let longer = |sums: &Vec<[f64; 4]>| -> Vec<Vec<[f64; 4]>> {
            with.iter()
                .zip(&against)
                .map(|(a, b)| extended(sums, a, b))
                .collect()
        };
        all = all.iter().flat_map(longer).collect();
    }
    let subsets: f64 = (0..selected)
        .map(|k| (bins - k) as f64 / (k + 1) as f64)
        .product();
    let outcomes = all.iter().map(|sums| {
        let [p, q, least, most] = sums[selected];
        let without = sums[0][1];
        Outcome {
            p: p / subsets,
            q: if replace { q / subsets } else { without },
            least: (least / subsets).ln(),
            most: (most / subsets).ln(),
        }
    });
    Step::of(outcomes.collect(), 0.0, None)
}

fn start(selected: usize) -> Vec<[f64; 4]> {
    let mut sums = vec![[0.0; 4]; selected + 1];
    sums[0] = [1.0; 4];
    sums
}

/// One step more: not the record's own, or its own.
fn extended(sums: &[[f64; 4]], with: &Outcome, against: &Outcome) -> Vec<[f64; 4]> {
    let own = [with.p, against.p, with.least.exp(), with.most.exp()];
    let other = [with.q, with.q, 1.0, 1.0];
    (0..sums.len())
        .map(|k| {
            std::array::from_fn(|i| {
                let before = if k > 0 { sums[k - 1][i] * own[i] } else { 0.0 };
                sums[k][i] * other[i] + before
            })
        })
        .collect()
}

/// Noise on the integers with P(x) ∝ e^{ln(x)}, against itself `shift` further left. What is beyond
/// `reach` is less than a rounding of what is not; to high Rényi orders it matters, and then the last
/// outcome's losses are `beyond`.
pub(crate) fn on_integers(
    ln: impl Fn(f64) -> f64,
    shift: f64,
    (reach, beyond): (f64, Option<f64>),
    comb: f64,
) -> Step {
    let count = reach.ceil() as i64;
    let whole: f64 = (-count..=count).map(|x| ln(x as f64).exp()).sum();
    let last = count + shift as i64;
    let outcomes = (-count..=last)
        .map(|x| {
            let (far, near) = (ln(x as f64 - shift), ln(x as f64));
            Outcome {
                p: far.exp() / whole,
                q: near.exp() / whole,
                least: far - near,
                most: beyond.filter(|_| x == last).unwrap_or(far - near),
            }
        })
        .collect();
    Step::of(outcomes, 0.0, Some(comb))
}

/// Truth with probability `truth`, otherwise any of the other categories.
pub(crate) fn response(truth: f64, categories: f64) -> Step {
    let other = (1.0 - truth) / (categories - 1.0);
    let mut outcomes = vec![Outcome::atom(truth, other), Outcome::atom(other, truth)];
    if categories > 2.0 {
        let rest = (categories - 2.0) * other;
        outcomes.push(Outcome::atom(rest, rest));
    }
    let comb = (truth / other).ln().abs();
    Step::of(outcomes, 0.0, (comb > 0.0).then_some(comb))
}

/// The worst of all mechanisms with `steps` neighbours between the two inputs, each pair of them
/// (ε, δ)-indistinguishable: whoever has Q-mass x has P-mass at most G(x) one neighbour
/// further, G(x) = min(1, δ + e^ε x, 1 − e^{−ε}(1 − δ − x)), and at most G(…G(x)) in all; laws with
/// G as their distribution functions attain that (Dong, Roth and Su 2019, Theorem 2.14).
pub(crate) fn chain(epsilon: f64, delta: f64, steps: usize) -> Step {
    let up = |x: f64| {
        (delta + epsilon.exp() * x)
            .min(1.0 - (-epsilon).exp() * (1.0 - delta - x))
            .min(1.0)
    };
    let far = |x: f64| (0..steps).fold(x, |x, _| up(x));
    // Where some step turns from one line to the next: its kinks, pulled back.
    let kink = (1.0 - delta) / (1.0 + epsilon.exp());
    let back = |y: f64| {
        // The least x with up(x) ≥ y.
        let steep = (y - delta) * (-epsilon).exp();
        let flat = 1.0 - delta - (1.0 - y) * epsilon.exp();
        steep.max(flat)
    };
    let mut cuts = vec![0.0, 1.0];
    for start in [kink, 1.0 - delta] {
        let mut x = start;
        for _ in 0..steps {
            cuts.push(x);
            x = back(x);
        }
    }
    cuts.retain(|x| (0.0..=1.0).contains(x));
    cuts.sort_by(f64::total_cmp);
    cuts.dedup_by(|a, b| (*a - *b).abs() < 1e-15);
    let mut outcomes = Vec::new();
    for ends in cuts.windows(2) {
        let (p, q) = (far(ends[1]) - far(ends[0]), ends[1] - ends[0]);
        // Slopes are whole powers of e^ε.
        let power = ((p / q).ln() / epsilon).round();
        outcomes.push(Outcome {
            p: q * (power * epsilon).exp() * f64::from(u8::from(p > 1e-14 * q)),
            q,
            least: power * epsilon,
            most: power * epsilon,
        });
    }
    Step::of(outcomes, far(0.0), Some(epsilon))
}

/// Two outcomes, of loss t and t − ε.
pub(crate) fn two_losses(t: f64, epsilon: f64) -> Step {
    let q = (t - epsilon).exp_m1() / ((t - epsilon).exp() - t.exp());
    let outcomes = vec![
        Outcome::atom(q * t.exp(), q),
        Outcome::atom((1.0 - q) * (t - epsilon).exp(), 1.0 - q),
    ];
    Step::of(outcomes, 0.0, Some(epsilon))
}
