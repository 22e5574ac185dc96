//! The common part of two runs, whatever the noise: the run in which none of the records in question is ever
//! drawn.

use super::mechanisms::ln_chances;
use super::sampling::chance_of_a_hit;
use crate::loss::{Direction, Mixture, Pair, Query};
use crate::mechanism::{Mechanism, Sampling};
use crate::quantity::neighbours::Neighbours;

/// Relative room for the rounding errors of a sum of logarithms of one sign.
const ROOM: f64 = 1e-12;
/// The error of the logarithms of a mixture's weights, per unit of one plus their size.
const WEIGHT_ROOM: f64 = 1e-14;
/// Rounding error of the few operations of each bound.
const SLACK: f64 = 8.0 * f64::EPSILON;

/// A common part of two laws: P ≥ aR and Q ≥ bR as measures for one law R, stored as ln a and ln b.
///
/// Composed runs have the products, adaptive ones too. With P = aR + (1 − a)P' and Q = bR + (1 − b)Q', for
/// every α ≥ 0
///
///   H_α(P‖Q) ≤ (1 − a) + (a − αb)₊,
///
/// and so B(x) ≤ min(1, 1 − a + xa/b), at α = 0 and at α = a/b.
///
/// Records that are drawn independently, none of them with probability c, give (a, b) = (c, 1) for present
/// against absent, (1, c) for absent against present, and (c, c) if neither run is the one without the
/// records: for a replacement, or for a record that takes another one's place in a batch even if it
/// contributes nothing. Of k records in batches of fixed size, a share q each, c ≥ 1 − kq.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Overlap {
    ln_first: f64,
    ln_second: f64,
}

impl Overlap {
    /// The common part of equal laws.
    pub(crate) const WHOLE: Self = Self {
        ln_first: 0.0,
        ln_second: 0.0,
    };

    /// Returns the common part for guesses of a content, whatever relation the pair is for. Given that no
    /// record is drawn, the run is the same for every content, so all contents have the part cR in common,
    /// and a guess with prior p is correct with probability at most 1 − c(1 − p).
    pub(crate) const fn of_guesses(self) -> Self {
        Self {
            ln_second: 0.0,
            ..self
        }
    }

    /// Creates a common part from (a, b) as logarithms; `None` if one of them is zero.
    fn new(ln_first: f64, ln_second: f64) -> Option<Self> {
        (ln_first.is_finite() && ln_second.is_finite()).then_some(Self {
            ln_first,
            ln_second,
        })
    }

    /// Returns the common part if the records aren't drawn with probability e^`ln_unseen`, in which case the
    /// runs with and without them are the same.
    fn of_presence(ln_unseen: f64, query: Query, direction: Direction) -> Option<Self> {
        match (query.neighbours, direction) {
            (Neighbours::Replace, _) => Self::new(ln_unseen, ln_unseen),
            (_, Direction::Remove) => Self::new(ln_unseen, 0.0),
            (_, Direction::Add) => Self::new(0.0, ln_unseen),
        }
    }

    /// Returns the common part of one run of a mechanism without structure; `None` if none is known.
    ///
    /// Samplers that are certain to draw the record have none.
    pub(crate) fn of(mechanism: &Mechanism, query: Query, direction: Direction) -> Option<Self> {
        let records = f64::from(query.group.get());
        match mechanism {
            Mechanism::SubsampledGaussian {
                sampling_rate,
                sampling,
                ..
            }
            | Mechanism::SubsampledLaplace {
                sampling_rate,
                sampling,
                ..
            } => {
                let ln_unseen = records * (-sampling_rate.get()).ln_1p();
                let draw = sampling.draw();
                match sampling {
                    _ if draw.epoch.is_some() || !draw.distinct => None,
                    // A record that is drawn takes the place of another one, zeroed or not.
                    Sampling::TruncatedPoisson { max_batch, records }
                        if query.neighbours == Neighbours::ZeroOut && max_batch < records =>
                    {
                        Self::new(ln_unseen, ln_unseen)
                    }
                    // A batch of fixed size holds none of several records less often than under independent
                    // draws.
                    _ if draw.fixed_size => {
                        let ln_unseen = (-chance_of_a_hit(query, *sampling_rate)).ln_1p();
                        Self::new(ln_unseen, ln_unseen)
                    }
                    Sampling::TruncatedPoisson { .. } | Sampling::Poisson => {
                        Self::of_presence(ln_unseen, query, direction)
                    }
                    _ => None,
                }
            }
            Mechanism::PoissonBinomialGaussian { rates, .. } => {
                let sum: f64 = rates.iter().map(|rate| (-rate.get()).ln_1p()).sum();
                let rounded = sum * (1.0 + rates.len() as f64 * f64::EPSILON);
                Self::of_presence(rounded, query, direction)
            }
            Mechanism::MixtureOfGaussians {
                sensitivities,
                probabilities,
                ..
            } if sensitivities.first().is_some_and(|first| *first <= 0.0) => {
                let ln_none = ln_chances(probabilities).0.first().copied()?;
                Self::of_presence(ln_none, query, direction)
            }
            _ => None,
        }
    }

    /// Returns the common part of one step of a pair of mixtures: the component at position zero.
    pub(crate) fn of_pair(pair: &Pair) -> Option<Self> {
        let still = |side: &Mixture| {
            let ln = side.ln_nearest_weight();
            let lowered = ln - WEIGHT_ROOM * (1.0 + ln.abs());
            (side.nearest() <= 0.0).then(|| if side.is_standard() { 0.0 } else { lowered })
        };
        Self::new(still(&pair.first)?, still(&pair.second)?)
    }

    /// Returns the common part of this one and another part of the same run that occurs `times` times.
    pub(crate) fn then(self, next: Self, times: u64) -> Self {
        let times = times as f64;
        Self {
            ln_first: self.ln_first + times * next.ln_first,
            ln_second: self.ln_second + times * next.ln_second,
        }
    }

    /// Returns ln a and ln b, rounded down: a smaller common part is also valid.
    fn logarithms(&self) -> (f64, f64) {
        (self.ln_first * (1.0 + ROOM), self.ln_second * (1.0 + ROOM))
    }

    /// Returns ln of the bound on H_{e^t}(P‖Q), for any real t.
    pub(crate) fn ln_excess(&self, t: f64) -> f64 {
        let (a, b) = self.logarithms();
        let beyond = t + b - a - SLACK * (t.abs() + a.abs() + b.abs());
        let shared = if beyond < 0.0 {
            a.exp() * -beyond.exp_m1()
        } else {
            0.0
        };
        let bound = (-a.exp_m1() + shared) * (1.0 + SLACK);
        if bound <= 0.0 {
            return f64::NEG_INFINITY;
        }
        let ln = bound.ln();
        (ln + SLACK * ln.abs()).min(0.0)
    }

    /// Returns an ε ≥ 0 at which the bound is at most `delta`; infinite if there is none.
    pub(crate) fn epsilon(&self, delta: f64) -> f64 {
        let (a, b) = self.logarithms();
        if delta >= 1.0 {
            return 0.0;
        }
        if -a.exp_m1() * (1.0 + SLACK) > delta {
            return f64::INFINITY;
        }
        // 1 − a ≤ δ, so that (1 − δ)/b ≤ a/b is where the two lines add up to δ.
        let ln_kept = (-delta).ln_1p();
        let epsilon = ln_kept - b + SLACK * (ln_kept.abs() + b.abs());
        epsilon.max(0.0)
    }

    /// Returns the bound on B(x).
    pub(crate) fn blow_up(&self, x: f64) -> f64 {
        let (a, b) = self.logarithms();
        let line = x * (a - b).exp() * (1.0 + SLACK * (1.0 + a.abs() + b.abs()));
        ((line - a.exp_m1()) * (1.0 + SLACK)).clamp(x, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::{GroupSize, NoiseMultiplier, SamplingRate, Steps};
    use proptest::prelude::*;

    /// Outcomes of one step, for each set of drawn records.
    type Kernel = Vec<Vec<f64>>;

    const OUTCOMES: usize = 4;

    /// The law of one step when each record is drawn by its own coin.
    fn sampled(kernel: &Kernel, rates: &[f64]) -> Vec<f64> {
        let mut law = vec![0.0; OUTCOMES];
        for (drawn, outcomes) in kernel.iter().enumerate() {
            let coin = |(i, q): (usize, &f64)| if drawn >> i & 1 == 1 { *q } else { 1.0 - q };
            let chance: f64 = rates.iter().enumerate().map(coin).product();
            for (sum, p) in law.iter_mut().zip(outcomes) {
                *sum += chance * p;
            }
        }
        law
    }

    fn composed(step: &[f64], steps: u32) -> Vec<f64> {
        let mut law = vec![1.0];
        for _ in 0..steps {
            law = law
                .iter()
                .flat_map(|a| step.iter().map(move |b| a * b))
                .collect();
        }
        law
    }

    fn hockey_stick(p: &[f64], q: &[f64], alpha: f64) -> f64 {
        p.iter().zip(q).map(|(p, q)| (p - alpha * q).max(0.0)).sum()
    }

    /// B(x) by the best tests: outcomes by falling ratio, the last one in part.
    fn blow_up(p: &[f64], q: &[f64], x: f64) -> f64 {
        let mut order: Vec<usize> = (0..p.len()).collect();
        // A quotient: products that underflow are equal to each other and to no order.
        order.sort_by(|i, j| (p[*j] / q[*j]).total_cmp(&(p[*i] / q[*i])));
        let (mut hits, mut left) = (0.0, x);
        for i in order {
            let share = if q[i] > left { left / q[i] } else { 1.0 };
            hits += share * p[i];
            left -= share * q[i];
        }
        hits
    }

    /// Every statement of an overlap about a pair of laws; equal to what is true where `attained`.
    fn check(overlap: Overlap, p: &[f64], q: &[f64], attained: bool) {
        for t in [-2.0f64, -0.5, 0.0, 0.1, 0.7, 2.0, 6.0] {
            let (truth, bound) = (hockey_stick(p, q, t.exp()), overlap.ln_excess(t).exp());
            assert!(truth <= bound + 1e-12, "{t}: {truth} {bound} {overlap:?}");
            assert!(!attained || bound <= truth + 1e-11, "{t}: {truth} {bound}");
        }
        for x in [1e-6, 0.01, 0.1, 0.4, 0.9] {
            let (truth, bound) = (blow_up(p, q, x), overlap.blow_up(x));
            assert!(truth <= bound + 1e-12, "{x}: {truth} {bound} {overlap:?}");
            assert!(!attained || bound <= truth + 1e-11, "{x}: {truth} {bound}");
        }
        for delta in [0.0, 1e-6, 0.01, 0.2, 0.7] {
            let epsilon = overlap.epsilon(delta);
            if epsilon.is_finite() {
                assert!(hockey_stick(p, q, epsilon.exp()) <= delta + 1e-12);
            } else {
                assert!(!attained || hockey_stick(p, q, 1e9) > delta);
            }
        }
    }

    fn query(neighbours: Neighbours, records: u32) -> Query {
        Query {
            neighbours,
            group: GroupSize::new(records).unwrap(),
        }
    }

    fn coins(rates: &[f64]) -> Mechanism {
        Mechanism::PoissonBinomialGaussian {
            noise_multiplier: NoiseMultiplier::new(1.0).unwrap(),
            rates: rates
                .iter()
                .map(|q| SamplingRate::new(*q).unwrap())
                .collect(),
        }
    }

    /// A kernel from random weights; with `singular` ones the drawn sets never look alike, nor like
    /// those of the other content.
    fn kernel(weights: &[f64], records: usize, without: &[f64]) -> Kernel {
        let mut rows: Kernel = weights
            .chunks(OUTCOMES)
            .take(1 << records)
            .map(|row| {
                let total: f64 = row.iter().sum();
                row.iter().map(|w| w / total).collect()
            })
            .collect();
        rows[0] = without.to_vec();
        rows
    }

    proptest! {
        #[test]
        fn undrawn_records_bound_every_mechanism(
            weights in proptest::collection::vec(0.0f64..1.0, 3 * 4 * OUTCOMES),
            rates in proptest::collection::vec(0.01f64..0.95, 2),
            records in 1usize..=2,
            steps in 1u32..=3,
        ) {
            let sharp: Vec<f64> = weights.iter().map(|w| w.powi(6) + 1e-9).collect();
            let total: f64 = sharp[..OUTCOMES].iter().sum();
            let without: Vec<f64> = sharp[..OUTCOMES].iter().map(|w| w / total).collect();
            let rates = &rates[..records];
            let run = |from: usize| {
                let kernel = kernel(&sharp[from * 4 * OUTCOMES..], records, &without);
                composed(&sampled(&kernel, rates), steps)
            };
            let (one, other) = (run(1), run(2));
            let none = composed(&without, steps);
            for (neighbours, direction, p, q) in [
                (Neighbours::AddRemove, Direction::Remove, &one, &none),
                (Neighbours::ZeroOut, Direction::Add, &none, &one),
                (Neighbours::Replace, Direction::Remove, &one, &other),
                (Neighbours::Replace, Direction::Add, &other, &one),
            ] {
                let each = Overlap::of(&coins(rates), query(neighbours, 1), direction).unwrap();
                check(Overlap::WHOLE.then(each, steps.into()), p, q, false);
            }
        }
    }

    /// Contents that leave marks of their own, and none of them like no content: every bound is attained.
    #[test]
    fn contents_that_are_recognised_attain_it() {
        let mark = |outcome: usize| {
            let mut law = vec![0.0; OUTCOMES];
            law[outcome] = 1.0;
            law
        };
        for (q, steps) in [(0.05, 10u64), (0.5, 1), (0.3, 4)] {
            let c = f64::powi(1.0 - q, steps as i32);
            // Whether it was ever drawn is all there is to know.
            let law = |with: usize| sampled(&vec![mark(0), mark(with)], &[1.0 - c]);
            for (neighbours, direction, p, q_law) in [
                (Neighbours::AddRemove, Direction::Remove, law(1), mark(0)),
                (Neighbours::AddRemove, Direction::Add, mark(0), law(1)),
                (Neighbours::Replace, Direction::Remove, law(1), law(2)),
            ] {
                let run = Mechanism::SubsampledGaussian {
                    noise_multiplier: NoiseMultiplier::new(1.0).unwrap(),
                    sampling_rate: SamplingRate::new(q).unwrap(),
                    sampling: Sampling::Poisson,
                };
                let each = Overlap::of(&run, query(neighbours, 1), direction).unwrap();
                check(Overlap::WHOLE.then(each, steps), &p, &q_law, true);
            }
        }
    }

    /// Batches of at most one of two records: zeroed, the first still keeps the second out, so the
    /// zeroed run is not the one without it.
    #[test]
    fn a_zeroed_record_keeps_others_out() {
        // Nothing, the second record, the first.
        let with = [0.25, 0.375, 0.375, 0.0];
        let zeroed = [0.625, 0.375, 0.0, 0.0];
        let run = Mechanism::SubsampledGaussian {
            noise_multiplier: NoiseMultiplier::new(1.0).unwrap(),
            sampling_rate: SamplingRate::new(0.5).unwrap(),
            sampling: Sampling::TruncatedPoisson {
                max_batch: 1,
                records: 2,
            },
        };
        let of = |direction| Overlap::of(&run, query(Neighbours::ZeroOut, 1), direction).unwrap();
        check(of(Direction::Remove), &with, &zeroed, false);
        check(of(Direction::Add), &zeroed, &with, false);
    }

    /// Whatever is certainly drawn has none. Groups have one coin for each record, but in batches of fixed size.
    #[test]
    fn each_sampler_has_its_own() {
        let ln_both = |sampling, records: u32| {
            let run = Mechanism::SubsampledLaplace {
                scale: NoiseMultiplier::new(1.0).unwrap(),
                sampling_rate: SamplingRate::new(0.25).unwrap(),
                sampling,
            };
            Overlap::of(&run, query(Neighbours::Replace, records), Direction::Remove)
                .map(|overlap| (overlap.ln_first, overlap.ln_second))
        };
        let coin = 0.75f64.ln();
        assert_eq!(
            ln_both(Sampling::Poisson, 3),
            Some((3.0 * coin, 3.0 * coin))
        );
        assert_eq!(ln_both(Sampling::WithoutReplacement, 1), Some((coin, coin)));
        // Of four records, a batch of one has none of three with chance 1/4, and certainly one of four.
        let of_three = ln_both(Sampling::WithoutReplacement, 3).unwrap().0;
        assert!((of_three / 0.25f64.ln() - 1.0).abs() < 1e-14 && of_three <= 0.25f64.ln());
        assert_eq!(ln_both(Sampling::WithoutReplacement, 4), None);
        for certain in [
            Sampling::Shuffled,
            Sampling::BallsInBins,
            Sampling::WithReplacement,
            Sampling::RandomAllocation {
                selected: 1,
                steps: 4,
            },
        ] {
            assert_eq!(ln_both(certain, 1), None);
        }
        let always = Mechanism::dp_sgd(
            NoiseMultiplier::new(1.0).unwrap(),
            SamplingRate::new(1.0).unwrap(),
            Steps::new(3),
        );
        let Mechanism::Repeat { each, .. } = always else {
            panic!("a run is repeated")
        };
        assert_eq!(
            Overlap::of(&each, query(Neighbours::AddRemove, 1), Direction::Remove),
            None
        );
    }
}
