//! Laws of finitely many outcomes, and the worst of a bounded range.

use super::step::{Outcome, Step};

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

/// The pair whose δ is, at every ε, the largest of any [`two_losses`] of this range r: the supremum over t is
/// H(α) = (1 − √(αe^{−r}))²/(1 − e^{−r}), losses above l have Q-mass −H'(e^l) = (e^{−(r+l)/2} − e^{−r})/(1 − e^{−r})
/// and P-mass H − e^l H' = (1 − e^{(l−r)/2})/(1 − e^{−r}).
pub(crate) fn any_two_losses(range: f64, cells: usize) -> Step {
    let width = 2.0 * range / cells as f64;
    let whole = -(-range).exp_m1();
    let outcomes = (0..cells)
        .map(|i| {
            let (from, to) = (i as f64 * width - range, (i + 1) as f64 * width - range);
            Outcome {
                p: (0.5 * (from - range)).exp() * (0.5 * width).exp_m1() / whole,
                q: (-0.5 * (from + range)).exp() * -(-0.5 * width).exp_m1() / whole,
                least: from,
                most: to,
            }
        })
        .collect();
    Step {
        range: Some(range),
        ..Step::of(outcomes, 0.0, None)
    }
}

/// ln of the largest E_P e^{(order−1)L} = Q₁e^{order·t} + Q₂e^{order(t−r)} of any [`two_losses`] of this
/// range: by trying a mesh, and then closer around the best.
pub(crate) fn most_ln_moment(range: f64, order: f64) -> f64 {
    let at = |t: f64| {
        let high = (range - t).exp_m1() / range.exp_m1();
        (order * t) + (high + (1.0 - high) * (-order * range).exp()).ln()
    };
    let (mut best, mut place, mut width) = (at(0.5 * range), 0.5 * range, range / 64.0);
    for _ in 0..8 {
        let from = place - 32.0 * width;
        for i in 0..=64 {
            let t = (from + width * f64::from(i)).clamp(0.0, range);
            if at(t) > best {
                (best, place) = (at(t), t);
            }
        }
        width /= 16.0;
    }
    best
}
