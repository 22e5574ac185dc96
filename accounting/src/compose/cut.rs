//! Runs without their rare large losses, so that the losses that matter can be inverted.
//!
//! The loss of a rarely sampled record is nearly log-normal: its moments of high order are dominated by outcomes far
//! less likely than any δ, and the saddle point lies where these set in. Outcomes beyond a point are cut off both laws.
//! What remains is a sub-measure, whose δ is no larger; adding the P-mass that was cut off, at most Σ T_i P_i(x > x_i),
//! gives an upper end.

use super::found::Found;
use super::solver::{LEAST_MASS, Solver, TRIM};
use crate::loss::{LossDistribution, Pair, PrivacyLoss};
use crate::numeric::interval::LnBounds;
use crate::quantity::error::Result;

/// The P-mass that is left out if nothing is known about the answer.
const FIRST: f64 = 1e-12;
/// Steps with more components than this aren't cut.
pub(super) const MOST_COMPONENTS: usize = 32;
/// The farthest outcome considered, in deviations beyond the farthest component.
const FARTHEST: f64 = 38.0;

impl PrivacyLoss {
    /// Returns the run without far outcomes of total P-mass at most `mass`; `None` if no step has such outcomes, or if
    /// a pair of mixtures has many components left, because groups reach far for other reasons.
    fn cut(&self, mass: f64) -> Option<Self> {
        let ln_share = mass.ln() - ((self.parts.len() + self.laws.len()) as f64).ln();
        let mut is_cut = !self.parts.is_empty();
        let mut laws = Vec::with_capacity(self.parts.len() + self.laws.len());
        for (law, times) in &self.laws {
            let cut = law.without_rare((ln_share - (*times as f64).ln()).exp());
            is_cut |= cut.is_some();
            laws.push((cut.unwrap_or_else(|| law.clone()), *times));
        }
        for (pair, times) in &self.parts {
            let ln_mass = ln_share - (*times as f64).ln();
            // If the second law is a mixture too, losses fall below zero as far as they rise above.
            let law = if pair.second.is_standard() {
                LossDistribution::of_pair_within(pair, None, end_for(pair, ln_mass)?)
            } else {
                let ln_half = ln_mass - std::f64::consts::LN_2;
                let from = start_for(pair, ln_half)?;
                LossDistribution::of_pair_within(pair, Some(from), end_for(pair, ln_half)?)
            };
            if law.components() > MOST_COMPONENTS {
                return None;
            }
            laws.push((law, *times));
        }
        is_cut.then(|| Self {
            laws,
            parts: Vec::new(),
            ..self.clone()
        })
    }
}

/// Returns a point beyond which at most e^`ln_mass` of the first law lies; `None` if it is out of reach.
fn end_for(pair: &Pair, ln_mass: f64) -> Option<f64> {
    let light = |x: f64| {
        let [(p, error), _] = pair.ln_tails(x);
        p + error <= ln_mass
    };
    least_light(light, (-FARTHEST, pair.first.farthest() + FARTHEST))
}

/// Returns a point below which at most e^`ln_mass` of either law lies; `None` if it is out of reach.
fn start_for(pair: &Pair, ln_mass: f64) -> Option<f64> {
    let light = |x: f64| (pair.ln_tails_below(-x).iter()).all(|(ln, error)| ln + error <= ln_mass);
    least_light(light, (-FARTHEST, pair.second.farthest() + FARTHEST)).map(|x| -x)
}

/// Returns the least point from which on everything is `light`; `None` if the highest isn't.
fn least_light(light: impl Fn(f64) -> bool, (mut low, mut high): (f64, f64)) -> Option<f64> {
    if !light(high) {
        return None;
    }
    while high - low > 1e-3 {
        let middle = 0.5 * (low + high);
        if light(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

impl Solver {
    /// Returns the solver without far outcomes whose mass doesn't matter at this ε.
    pub(super) fn cut_for(&self, epsilon: f64, goal: f64) -> Option<Self> {
        let mut mass = FIRST;
        for _ in 0..8 {
            let mut cut = self.derived(&self.loss.cut(mass)?);
            let ln_delta = cut.approximate(epsilon).ok()?;
            let wanted = (ln_delta + (TRIM * goal).ln()).exp().max(LEAST_MASS);
            if cut.mass_beyond().1 <= 1.01 * wanted {
                return Some(cut);
            }
            mass = wanted;
        }
        None
    }

    /// Returns the solver without far outcomes of mass at most a tenth of the `goal` of e^`ln_least`.
    pub(super) fn cut_below(&self, ln_least: f64, goal: f64) -> Option<Self> {
        let mass = (ln_least + (0.1 * goal).ln()).exp();
        let cut = (mass > 0.0).then(|| self.loss.cut(mass))??;
        Some(self.derived(&cut))
    }

    /// Returns ε(δ) by the contour, without far outcomes whose mass doesn't matter there.
    pub(super) fn epsilon_of_cut_by_contour(
        &mut self,
        delta: f64,
        tolerance: f64,
    ) -> Option<Found> {
        let mut fine = self.derived(&self.loss.cut(TRIM * tolerance * delta)?);
        fine.epsilon_by_contour(delta, tolerance).ok()
    }

    /// Returns the same on a grid.
    pub(super) fn epsilon_of_cut_on_grid(&mut self, delta: f64, tolerance: f64) -> Option<Found> {
        let mut rough = self.cut_below(delta.ln(), tolerance)?;
        let on_grid = rough.grid_epsilon(delta, tolerance).ok();
        self.finest |= rough.finest;
        on_grid
    }

    /// Computes ln B(x) by `find`, without far outcomes of a `share`: B(x) ≥ x, and far components of less mass are
    /// dropped first.
    pub(super) fn ln_blow_up_of_cut(
        &mut self,
        ln_x: f64,
        (goal, share): (f64, f64),
        find: impl Fn(&mut Self) -> Result<LnBounds>,
    ) -> Option<LnBounds> {
        let mass = (ln_x + (TRIM * goal).ln()).exp();
        let cut = if self.has_groups() && mass > 0.0 {
            self.without_components(mass).cut_below(ln_x, share)
        } else {
            self.cut_below(ln_x, share)
        };
        let mut cut = cut?;
        let ends = find(&mut cut).ok();
        self.finest |= cut.finest;
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{Direction, Query};
    use crate::mechanism::{Mechanism, Sampling};
    use crate::quantity::neighbours::Neighbours;
    use crate::quantity::{
        Delta, Epsilon, GroupSize, NoiseMultiplier, SamplingRate, Steps, Tolerance,
    };

    /// What is taken off counts in full from above, and as an error of the moments too: far more than may
    /// be dropped in silence.
    #[test]
    fn a_cut_run_lies_around_the_whole_one() {
        for (sigma, rate, steps, epsilon) in [(1.0, 0.01, 1000, 1.0), (2.0, 0.2, 2000, 6.0)] {
            let run = Mechanism::dp_sgd(
                NoiseMultiplier::new(sigma).unwrap(),
                SamplingRate::new(rate).unwrap(),
                Steps::new(steps),
            );
            for neighbours in [Neighbours::AddRemove, Neighbours::Replace] {
                let query = Query::single(neighbours);
                let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
                let truth = Solver::new(&loss)
                    .ln_delta_by_contour(epsilon, 1e-9)
                    .unwrap();
                for share in [1e-6, 0.01, 0.7] {
                    let mass = share * truth.middle.exp();
                    let mut cut = Solver::new(&loss.cut(mass).unwrap());
                    let ends = cut.ln_delta_by_contour(epsilon, 1e-9).unwrap();
                    assert!(ends.lower <= truth.upper && ends.upper >= truth.lower);
                    assert!(
                        share > 1e-3 || ends.width() <= 10.0 * share + 1e-6,
                        "{share} {ends:?}"
                    );
                    assert!(cut.mass_beyond().1 <= mass);
                }
            }
        }
    }

    fn laplace(
        scale: f64,
        rate: f64,
        steps: u64,
        (group, neighbours): (u32, Neighbours),
    ) -> PrivacyLoss {
        let run = Mechanism::Repeat {
            times: Steps::new(steps),
            each: Box::new(Mechanism::SubsampledLaplace {
                scale: NoiseMultiplier::new(scale).unwrap(),
                sampling_rate: SamplingRate::new(rate).unwrap(),
                sampling: Sampling::Poisson,
            }),
        };
        let query = Query {
            neighbours,
            group: GroupSize::new(group).unwrap(),
        };
        PrivacyLoss::of(&run, query, Direction::Remove).unwrap()
    }

    /// The same of Laplace noise, whose outcomes lie between kinks.
    #[test]
    fn a_run_without_rare_outcomes_lies_around_the_whole_one() {
        for neighbours in [Neighbours::AddRemove, Neighbours::Replace] {
            let loss = laplace(0.2, 0.01, 40, (9, neighbours));
            for epsilon in [10.0, 25.0] {
                let truth = Solver::new(&loss).ln_delta(epsilon, 1e-6).unwrap().0;
                for share in [1e-3, 0.3] {
                    let mass = share * truth.middle.exp();
                    let run = loss.cut(mass).unwrap();
                    assert!(run.laws[0].0.pieces.len() < loss.laws[0].0.pieces.len());
                    let mut cut = Solver::new(&run);
                    let ends = cut.grid_ln_delta(epsilon, 1e-6).unwrap();
                    assert!(
                        ends.lower <= truth.upper && ends.upper >= truth.lower,
                        "{share} {ends:?} {truth:?}"
                    );
                    assert!(ends.width() <= 2.0 * share + 1e-5, "{share} {ends:?}");
                    assert!(cut.mass_beyond().1 <= mass * (1.0 + 1e-9));
                }
            }
        }
        // What no outcome is rare enough for is left whole.
        assert!(
            laplace(0.5, 0.02, 40, (5, Neighbours::Replace))
                .cut(1e-300)
                .is_none()
        );
    }

    /// Hundreds of records of which two are drawn: ε was known to lie between 16 and 4e5. δ by a transform of the loss
    /// rounded to steps of 1e-4, up and down.
    #[test]
    fn large_groups_hardly_ever_drawn_are_known_closely() {
        let group = (632, Neighbours::Replace);
        let loss = laplace(
            0.061_180_438_157_487_93,
            2.775_721_434_232_034_7e-5,
            116,
            group,
        );
        let tolerance = Tolerance::new(1e-6).unwrap();
        let found = loss
            .epsilon(Delta::new(4.622_809_328_637_909e-6).unwrap(), tolerance)
            .unwrap();
        let (low, high) = (found.bounds.low().unwrap(), found.bounds.high().unwrap());
        assert!(high - low <= 1e-6 * high, "{found:?}");
        let known = [
            (100.0, 1.853_271e-4, 1.855_195e-4),
            (125.0, 5.137_340e-6, 5.145_218e-6),
            (160.0, 1.645_229e-8, 1.648_017e-8),
        ];
        for (epsilon, least, most) in known {
            let epsilon = Epsilon::new(epsilon).unwrap();
            let ends = loss.delta(epsilon, tolerance).unwrap().bounds;
            let (low, high) = (ends.low().unwrap(), ends.high().unwrap());
            assert!(
                low <= most && high >= least && high - low <= 1e-3 * high,
                "{ends:?}"
            );
        }
    }

    /// Hundreds of records replaced, of which a dozen matter on either side: densities of all of them were too steep for a
    /// grid, and δ was known to lie between 3e-4 and 8e-2. The truth by a transform of the loss rounded to steps of 0.01,
    /// down and up.
    #[test]
    fn components_that_have_nothing_of_what_is_left_are_left_out() {
        let run = Mechanism::dp_sgd(
            NoiseMultiplier::new(0.147_811_343_041_630_5).unwrap(),
            SamplingRate::new(0.001_111_533_242_064_374_5).unwrap(),
            Steps::new(10),
        );
        let query = Query {
            neighbours: Neighbours::Replace,
            group: GroupSize::new(311).unwrap(),
        };
        let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
        let pair = &loss.parts[0].0;
        let law = LossDistribution::of_pair_within(pair, Some(-60.0), 60.0);
        assert!(law.components() <= MOST_COMPONENTS && pair.second.components().count() == 312);
        let epsilon = Epsilon::new(440.167_052_459_754).unwrap();
        let ends = loss
            .delta(epsilon, Tolerance::new(1e-6).unwrap())
            .unwrap()
            .bounds;
        let (low, high) = (ends.low().unwrap(), ends.high().unwrap());
        assert!(low <= 3.854_61e-3 && high >= 3.847_57e-3, "{low} {high}");
        assert!(high - low <= 1e-5 * high, "{low} {high}");
    }
}
