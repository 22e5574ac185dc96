//! Computes independent sums of ratios, pair by pair of values.

use super::{Side, Sum};

/// Sums of pairs by the cell of the larger value, and the parts that go to the next cell.
pub(super) struct Cells {
    first: i64,
    here: Vec<f64>,
    next: Vec<f64>,
    here_moment: Vec<f64>,
    next_moment: Vec<f64>,
}

impl Cells {
    pub(super) fn new(first: i64, count: usize) -> Self {
        let empty = || vec![0.0; count];
        Self {
            first,
            here: empty(),
            next: empty(),
            here_moment: empty(),
            next_moment: empty(),
        }
    }

    fn both(here: &[f64], next: &[f64]) -> Vec<f64> {
        let mut sum = here.to_vec();
        for (i, more) in next.iter().enumerate() {
            if let Some(cell) = sum.get_mut(i + 1) {
                *cell += more;
            }
        }
        sum
    }

    pub(super) fn mass(&self) -> Vec<f64> {
        Self::both(&self.here, &self.next)
    }

    pub(super) fn moment(&self) -> Vec<f64> {
        Self::both(&self.here_moment, &self.next_moment)
    }
}

/// Returns, for values i of the larger and i − d of the smaller sum, the ranges of both and of the
/// cells that contain i + `offset`.
fn aligned(larger: &Sum, smaller: &Sum, d: i64, offset: i64, first: i64) -> Option<[usize; 4]> {
    let from = larger.first.max(smaller.first + d);
    let to = (larger.first + larger.mass.len() as i64)
        .min(smaller.first + smaller.mass.len() as i64 + d);
    // No cell lies below the first one: the larger value is at least the first of the larger sum.
    (to > from).then(|| {
        [
            (to - from) as usize,
            (from - larger.first) as usize,
            (from - d - smaller.first) as usize,
            (from + offset - first) as usize,
        ]
    })
}

/// Returns the distances d from `nearest` up to, but not including, `far` at which there are pairs.
fn distances(larger: &Sum, smaller: &Sum, (nearest, far): (i64, i64)) -> std::ops::Range<i64> {
    let least = larger.first - (smaller.first + smaller.mass.len() as i64 - 1);
    let most = larger.first + larger.mass.len() as i64 - smaller.first;
    nearest.max(least)..far.min(most)
}

/// Adds the pairs for the upper bound: e^{ih} + e^{(i−d)h} lies between the values at i + o and i +
/// o + 1.
pub(super) fn pairs_above(larger: &Sum, smaller: &Sum, between: (i64, i64), cells: &mut Cells) {
    let h = larger.spacing;
    for d in distances(larger, smaller, between) {
        let value = (-(d as f64) * h).exp();
        let offset = (value.ln_1p() / h).floor();
        let low = (offset * h).exp_m1();
        let share = ((value - low) / (((offset + 1.0) * h).exp_m1() - low)).clamp(0.0, 1.0);
        let Some([n, i, j, k]) = aligned(larger, smaller, d, offset as i64, cells.first) else {
            continue;
        };
        let (a, b) = (&larger.mass[i..i + n], &smaller.mass[j..j + n]);
        let here = &mut cells.here[k..k + n];
        let next = &mut cells.next[k..k + n];
        for (((a, b), here), next) in a.iter().zip(b).zip(here).zip(next) {
            let mass = a * b;
            *here += mass * (1.0 - share);
            *next += mass * share;
        }
    }
    far_pairs(larger, smaller, between.1, cells);
}

/// Adds all values at least `far` lines below the larger one at once: they don't reach the next
/// line.
fn far_pairs(larger: &Sum, smaller: &Sum, far: i64, cells: &mut Cells) {
    let h = larger.spacing;
    // The mass of the far values, and their first moment relative to the larger value.
    let (mut mass, mut moment) = (0.0, 0.0);
    let fall = (-h).exp();
    let mut seen = 0;
    for (n, a) in larger.mass.iter().enumerate() {
        let i = larger.first + n as i64;
        moment *= fall;
        while seen < smaller.mass.len() && smaller.first + (seen as i64) <= i - far {
            let value = ((smaller.first + seen as i64 - i) as f64 * h).exp();
            mass += smaller.mass[seen];
            moment += match larger.side {
                Side::Above => smaller.mass[seen] * value,
                Side::Below => smaller.moment[seen] * (-(i as f64) * h).exp(),
            };
            seen += 1;
        }
        let k = i - cells.first;
        if k < 0 || mass <= 0.0 {
            continue;
        }
        let k = k as usize;
        match larger.side {
            Side::Above => {
                let share = moment / h.exp_m1();
                cells.here[k] += a * (mass - share).max(0.0);
                cells.next[k] += a * share;
            }
            Side::Below => {
                cells.here[k] += a * mass;
                cells.here_moment[k] += larger.moment[n] * mass + a * moment * (i as f64 * h).exp();
            }
        }
    }
}

/// Adds the pairs for the lower bound: the means add up, and the cell only decides what is pooled.
pub(super) fn pairs_below(larger: &Sum, smaller: &Sum, between: (i64, i64), cells: &mut Cells) {
    let h = larger.spacing;
    let means = |sum: &Sum| -> Vec<f64> {
        let mean = |(moment, mass): (&f64, &f64)| if *mass > 0.0 { moment / mass } else { 0.0 };
        sum.moment.iter().zip(&sum.mass).map(mean).collect()
    };
    let (tall, small) = (means(larger), means(smaller));
    let boundaries: Vec<f64> = (0..=larger.mass.len())
        .map(|n| ((larger.first + n as i64) as f64 * h).exp())
        .collect();
    for d in distances(larger, smaller, between) {
        let value = (-(d as f64) * h).exp();
        let offset = (value.ln_1p() / h).floor();
        let boundary = ((offset + 1.0) * h).exp();
        let Some([n, i, j, k]) = aligned(larger, smaller, d, offset as i64, cells.first) else {
            continue;
        };
        for t in 0..n {
            let mass = larger.mass[i + t] * smaller.mass[j + t];
            let sum = tall[i + t] + small[j + t];
            if sum < boundaries[i + t] * boundary {
                cells.here[k + t] += mass;
                cells.here_moment[k + t] += mass * sum;
            } else {
                cells.next[k + t] += mass;
                cells.next_moment[k + t] += mass * sum;
            }
        }
    }
    far_pairs(larger, smaller, between.1, cells);
}
