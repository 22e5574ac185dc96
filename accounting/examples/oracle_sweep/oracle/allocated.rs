//! Epochs in which a record has places drawn for it alone, all others zero.

use super::pairs::{Noise, cells_of};
use super::step::{Outcome, Step};

/// Deviations beyond the farthest mean after which cells end: 2e-19 of the mass is beyond.
const REACH: f64 = 9.0;
/// Cells of one step, and of a sum of some.
const SINGLE: usize = 900;
const BETWEEN: usize = 1200;
const LAST: usize = 4000;

/// Part of what a sum of ratios may be: its mass and the sum's mean under Q, and between which values the
/// sum lies.
#[derive(Debug, Clone, Copy)]
struct Part {
    mass: f64,
    moment: f64,
    least: f64,
    most: f64,
    /// With an end of a law in it: next to no mass, and between values far apart.
    tail: bool,
}

/// A record in one of `bins` steps against none: dP/dQ is the mean of the steps' ratios, which are
/// independent under Q. Parts of close values are put together; between which values they lie stays known.
pub(crate) fn one_of(noise: Noise, scale: f64, bins: u64) -> Step {
    let cells = cells_of(
        noise,
        &vec![(1.0, 1.0)],
        &vec![(1.0, 0.0)],
        scale,
        SINGLE,
        (REACH, &[0.0, 1.0]),
    );
    let part = |o: &Outcome| Part {
        mass: o.q,
        moment: o.p,
        least: o.least.exp(),
        most: o.most.exp(),
        tail: o.least.is_infinite() || o.most.is_infinite(),
    };
    let mut power: Vec<Part> = cells.iter().map(part).collect();
    let mut sum: Option<Vec<Part>> = None;
    let mut left = bins;
    while left > 0 {
        let size = if left <= 1 { LAST } else { BETWEEN };
        if left & 1 == 1 {
            sum = Some(match sum {
                Some(sum) => added(&sum, &power, size),
                None => power.clone(),
            });
        }
        left >>= 1;
        if left > 0 {
            let last = left == 1 && sum.is_none();
            power = added(&power, &power, if last { LAST } else { BETWEEN });
        }
    }
    let count = bins as f64;
    let outcome = |part: &Part| Outcome {
        p: part.moment / count,
        q: part.mass,
        least: (part.least / count).ln(),
        most: (part.most / count).ln(),
    };
    let outcomes = sum.unwrap_or_default().iter().map(outcome).collect();
    Step::of(outcomes, 0.0, None)
}

/// The sum of two independent ones, in about `count` parts and as many of tails.
fn added(a: &[Part], b: &[Part], count: usize) -> Vec<Part> {
    let mean = |part: &Part| part.moment / part.mass;
    let ends = |of: &[Part]| {
        of.iter()
            .map(mean)
            .fold((f64::INFINITY, 0.0f64), |(low, high), x| {
                (low.min(x), high.max(x))
            })
    };
    let ((a_low, a_high), (b_low, b_high)) = (ends(a), ends(b));
    let (from, to) = ((a_low + b_low).ln(), (a_high + b_high).ln());
    let width = (to - from) / (count as f64 - 1.0);
    let nothing = Part {
        mass: 0.0,
        moment: 0.0,
        least: f64::INFINITY,
        most: 0.0,
        tail: false,
    };
    let mut all = vec![nothing; 2 * count];
    for x in a {
        for y in b {
            let mass = x.mass * y.mass;
            let moment = x.moment * y.mass + x.mass * y.moment;
            let tail = x.tail || y.tail;
            let place = (((mean(x) + mean(y)).ln() - from) / width) as usize;
            let part = &mut all[place.min(count - 1) + if tail { count } else { 0 }];
            part.mass += mass;
            part.moment += moment;
            part.least = part.least.min(x.least + y.least);
            part.most = part.most.max(x.most + y.most);
            part.tail = tail;
        }
    }
    all.retain(|part| part.mass > 0.0);
    all
}

/// A record in `selected` of `bins` steps, drawn for it alone, against none (or against the opposite
/// record in such steps, where outcomes are good for lower ends only): all products of cells, those of
/// its own steps averaged. The ratio rises with every coordinate.
pub(crate) fn some_of(
    noise: Noise,
    scale: f64,
    bins: usize,
    selected: usize,
    replace: bool,
) -> Step {
    let cells = match (noise, bins) {
        (Noise::Laplace, 2) => 80,
        (Noise::Laplace, 3) => 24,
        (_, 2) => 170,
        (_, 3) => 36,
        (_, 4) => 14,
        _ => 8,
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
    let subsets = choose(bins, selected);
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

fn choose(all: usize, some: usize) -> f64 {
    (0..some)
        .map(|k| (all - k) as f64 / (k + 1) as f64)
        .product()
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

/// One epoch of Gaussian noise in which a record has `selected` of at most four `bins`: its δ as an
/// integral over all steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Epoch {
    pub(crate) scale: f64,
    pub(crate) bins: usize,
    pub(crate) selected: usize,
    /// Whether the law with the record comes first.
    pub(crate) with_first: bool,
}

impl Epoch {
    /// Both ends of δ(ε) = E_Q(e_k(X)/C − e^ε)₊, or of its reverse: convex in each step's ratio, so cells of
    /// all steps but the last are pooled from below and spread to their ends from above; the last one is in
    /// closed form.
    pub(crate) fn delta(&self, epsilon: f64) -> (f64, f64) {
        let count = [0, 3000, 300, 60][self.bins - 1];
        let (with, without) = (vec![(1.0, 1.0)], vec![(1.0, 0.0)]);
        let places = (REACH, &[0.0, 1.0][..]);
        let cells = cells_of(Noise::Gaussian, &with, &without, self.scale, count, places);
        let pooled: Vec<(f64, f64)> = cells.iter().map(|o| (o.p / o.q, o.q)).collect();
        let mut spread = Vec::new();
        for o in &cells {
            let (least, most) = (o.least.exp(), o.most.exp());
            let above = ((o.p - least * o.q) / (most - least)).clamp(0.0, o.q);
            spread.push((least, o.q - above));
            if most.is_finite() {
                spread.push((most, above));
            }
        }
        let mut sums = vec![0.0; self.selected + 1];
        sums[0] = 1.0;
        let low = self.over(&pooled, 1, self.bins - 1, &sums, epsilon);
        let high = self.over(&spread, 1, self.bins - 1, &sums, epsilon);
        // The spread tail without an end, of P-mass 1e-19 a step, and roundings.
        (low * (1.0 - 1e-10), high * (1.0 + 1e-10) + 1e-15)
    }

    /// The mean over all but the last step; `sums` are the elementary symmetric sums of those before.
    fn over(
        &self,
        ratios: &[(f64, f64)],
        at: usize,
        last: usize,
        sums: &[f64],
        epsilon: f64,
    ) -> f64 {
        if at > last {
            return self.last_step(sums, epsilon);
        }
        let mut total = 0.0;
        for (ratio, weight) in ratios {
            let mut next = sums.to_vec();
            for k in (1..next.len()).rev() {
                next[k] += next[k - 1] * ratio;
            }
            total += weight * self.over(ratios, at + 1, last, &next, epsilon);
        }
        total
    }

    /// With A + B·X for C subsets: E(A + BX − Cα)₊/C, or α E(C/α − A − BX)₊/C.
    fn last_step(&self, sums: &[f64], epsilon: f64) -> f64 {
        let subsets = choose(self.bins, self.selected);
        let (a, b) = (sums[self.selected], sums[self.selected - 1]);
        let (alpha, shift) = (epsilon.exp(), 1.0 / self.scale);
        let above = |x: f64| 0.5 * libm::erfc(x * std::f64::consts::FRAC_1_SQRT_2);
        let place = |strike: f64| strike.ln() / shift + 0.5 * shift;
        if self.with_first {
            let strike = (subsets * alpha - a) / b;
            let excess = if strike <= 0.0 {
                1.0 - strike
            } else {
                above(place(strike) - shift) - strike * above(place(strike))
            };
            b * excess / subsets
        } else {
            let strike = (subsets / alpha - a) / b;
            let lack = if strike <= 0.0 {
                0.0
            } else {
                strike * above(-place(strike)) - above(shift - place(strike))
            };
            alpha * b * lack / subsets
        }
    }
}
