//! Reports what certifies an answer.

use super::ladder::Source;
use super::solver::Solver;
use crate::engine::{Certificate, ErrorEnds, ErrorSource, ErrorTerm};
use crate::loss::PrivacyLoss;
use crate::numeric::interval::LnBounds;
use crate::quantity::bound::{Bounds, Lower, Upper};
use crate::quantity::error::Result;
use crate::quantity::{Epsilon, Tolerance};

impl PrivacyLoss {
    /// Evaluates δ(ε) of this direction once more and returns everything that certifies it.
    ///
    /// Bound: both ends. The errors are those of one evaluation at `epsilon`; ε(δ) is a search over such
    /// evaluations whose ends both hold.
    ///
    /// # Errors
    /// As [`PrivacyLoss::delta`].
    pub fn certificate(&self, epsilon: Epsilon, tolerance: Tolerance) -> Result<Certificate> {
        Solver::new(self).certificate(epsilon, 0.5 * tolerance.get())
    }
}

impl Solver {
    fn certificate(&mut self, epsilon: Epsilon, goal: f64) -> Result<Certificate> {
        let e = epsilon.get();
        let (ends, source) = self.ln_delta_by(None, e, goal)?;
        // For a run whose own law isn't known, the lower end is that of another run: the engine's work is
        // reported for the upper one.
        let own = if self.below.is_some() {
            self.ln_delta_of_pair(e, goal)?.0
        } else {
            ends
        };
        let mut found = self.of_pair((e, own, source), goal)?;
        if self.below.is_some() {
            found.ln_delta = outside(ends);
            let apart = -(ends.lower - ends.upper).min(0.0).exp_m1();
            found
                .errors
                .push(one(ErrorSource::UnknownLaw, ErrorEnds::Lower, apart));
        }
        Ok(found)
    }

    /// Returns the certificate of the ends that the pair itself has at an ε.
    fn of_pair(
        &mut self,
        (e, ends, source): (f64, LnBounds, Source),
        goal: f64,
    ) -> Result<Certificate> {
        let plain = Certificate {
            engine: source.engine(),
            epsilon: Epsilon::new(e)?,
            ln_delta: outside(ends),
            order: None,
            step: None,
            terms: None,
            nodes: None,
            spacing: None,
            cells: None,
            tilt: None,
            errors: Vec::new(),
        };
        let mut trimmed = None;
        if !self.needs_grid() {
            trimmed = self.trimmed_for(e, goal).unwrap_or(None);
        }
        let solver = trimmed.as_mut().unwrap_or(self);
        let mut cut = match source {
            Source::ContourOfCut | Source::GridOfCut => {
                let near = solver.cut_for(e, goal);
                near.or_else(|| solver.cut_below(ends.lower, goal))
            }
            _ => None,
        };
        let solver = cut.as_mut().unwrap_or(solver);
        match source {
            Source::Contour | Source::ContourOfCut => solver.by_contour(plain, ends, goal),
            Source::Grid | Source::GridOfCut => solver.by_grid(plain, ends, goal),
            Source::Closed | Source::FarHits => Ok(Certificate {
                errors: vec![both(ErrorSource::Formula, ends)],
                ..plain
            }),
            Source::OneStep | Source::Coarse => {
                let order = match source {
                    Source::OneStep => None,
                    _ if solver.loss.is_stated() => solver.ln_delta_of_stated(e)?.1,
                    _ => (solver.cumulants_for(e).ok()).map(|cumulants| cumulants.chernoff(e).1),
                };
                Ok(Certificate {
                    order,
                    errors: vec![both(ErrorSource::Coarseness, ends)],
                    ..plain
                })
            }
        }
    }

    /// Adds the finest grid that was needed and each of its errors; for a single step, its quadrature.
    fn by_grid(&mut self, plain: Certificate, ends: LnBounds, goal: f64) -> Result<Certificate> {
        let epsilon = plain.epsilon.get();
        let grid = self.grid_at(epsilon, goal)?.1;
        Ok(match grid {
            None => Certificate {
                errors: vec![both(ErrorSource::Formula, ends)],
                ..plain
            },
            Some(grid) => Certificate {
                spacing: Some(grid.spacing),
                cells: Some(grid.length as u64),
                tilt: Some(grid.order()),
                errors: grid.errors(epsilon),
                ..plain
            },
        })
    }

    /// Adds the contour that the size of the answer requires, and each of its errors.
    fn by_contour(&mut self, plain: Certificate, ends: LnBounds, goal: f64) -> Result<Certificate> {
        let epsilon = plain.epsilon.get();
        let size = if ends.lower.is_finite() {
            ends.lower
        } else {
            ends.upper
        };
        let contour = self.contour(epsilon, size + goal.ln())?;
        let read = self.read(&contour, epsilon);
        let pieces = contour.pieces(epsilon);
        // In units of the answer, which is the sum itself or one minus it; the error of the logarithm is
        // multiplied by the sum.
        let unit = (pieces.ln_front - read.middle).exp();
        let mut errors = vec![
            one(ErrorSource::Aliasing, ErrorEnds::Lower, pieces.alias * unit),
            one(ErrorSource::CutOff, ErrorEnds::Both, pieces.rest * unit),
            one(ErrorSource::Terms, ErrorEnds::Both, pieces.terms * unit),
            one(
                ErrorSource::Summation,
                ErrorEnds::Both,
                pieces.summation * unit,
            ),
            one(
                ErrorSource::Front,
                ErrorEnds::Both,
                pieces.front * pieces.middle * unit,
            ),
        ];
        let (least, most) = self.mass_beyond();
        let missing = most - least + contour.ln_quiet(epsilon).exp();
        if missing > 0.0 {
            errors.push(one(
                ErrorSource::Truncation,
                ErrorEnds::Upper,
                missing / read.middle.exp(),
            ));
        }
        // The search's ends may be tighter; both hold. A run that is only bounded by its pair has no lower
        // end.
        let met = read.meet(ends);
        let lower = if ends.lower.is_finite() {
            met.lower
        } else {
            ends.lower
        };
        Ok(Certificate {
            ln_delta: outside(LnBounds { lower, ..met }),
            order: Some(contour.order()),
            step: Some(contour.step()),
            terms: Some(contour.count() as u64),
            nodes: Some(contour.nodes() as u64),
            errors,
            ..plain
        })
    }
}

const fn one(source: ErrorSource, ends: ErrorEnds, relative: f64) -> ErrorTerm {
    ErrorTerm {
        source,
        ends,
        relative,
    }
}

/// Returns everything that separates two ends as one error, as a share of the upper end if they are far
/// apart; without a lower end, returns the slack of the upper one.
fn both(source: ErrorSource, ends: LnBounds) -> ErrorTerm {
    if ends.lower.is_finite() && ends.width() > 1.0 {
        one(source, ErrorEnds::Both, -(-ends.width()).exp_m1())
    } else if ends.lower.is_finite() || ends.upper == f64::NEG_INFINITY {
        one(source, ErrorEnds::Both, ends.width().exp_m1())
    } else {
        one(
            source,
            ErrorEnds::Upper,
            (ends.upper - ends.middle).exp_m1(),
        )
    }
}

fn outside(ends: LnBounds) -> Bounds<f64> {
    let finite = |end: f64| end.is_finite().then_some(end);
    Bounds {
        lower: finite(ends.lower).map(Lower::new),
        upper: finite(ends.upper).map(Upper::new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::loss::{Direction, Query};
    use crate::mechanism::{Mechanism, Sampling};
    use crate::quantity::neighbours::Neighbours;
    use crate::quantity::{GroupSize, NoiseMultiplier, SamplingRate, Steps};

    fn certificate(sigma: f64, q: f64, steps: u64, group: u32, epsilon: f64) -> Certificate {
        let sigma = NoiseMultiplier::new(sigma).unwrap();
        let run = Mechanism::dp_sgd(sigma, SamplingRate::new(q).unwrap(), Steps::new(steps));
        let query = Query {
            neighbours: Neighbours::AddRemove,
            group: GroupSize::new(group).unwrap(),
        };
        let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
        let tolerance = Tolerance::new(1e-6).unwrap();
        loss.certificate(Epsilon::new(epsilon).unwrap(), tolerance)
            .unwrap()
    }

    /// ln δ from both ends: lower, upper.
    fn ends(certificate: &Certificate) -> (f64, f64) {
        let bounds = certificate.ln_delta;
        (*bounds.lower.unwrap().get(), *bounds.upper.unwrap().get())
    }

    #[test]
    fn the_errors_account_for_the_distance_of_the_ends() {
        for (sigma, q, steps, group, epsilon) in [
            (1.1, 0.01, 10_000, 1, 5.192_583_445_878),
            (0.6, 0.001, 100_000, 1, 6.0),
            (2.0, 0.01, 1000, 5, 3.7),
            // Below the mean loss, where δ is near one.
            (1.0, 0.5, 100, 1, 0.5),
        ] {
            let found = certificate(sigma, q, steps, group, epsilon);
            assert_eq!(found.engine, Engine::Contour);
            let (low, high) = ends(&found);
            let sum = |side: ErrorEnds| -> f64 {
                let on = |e: &&ErrorTerm| e.ends == side || e.ends == ErrorEnds::Both;
                found.errors.iter().filter(on).map(|e| e.relative).sum()
            };
            // The meeting of two evaluations is at most as wide as this one's errors.
            let both = sum(ErrorEnds::Lower) + sum(ErrorEnds::Upper);
            assert!(
                high - low <= both * (1.0 + 1e-5) + 1e-14,
                "{low} {high} {found:?}"
            );
            assert!(both < 1e-5, "{found:?}");
            assert!(found.errors.iter().all(|e| e.relative >= 0.0));
        }
    }

    /// No contour and no grid is reported for a number that neither gave.
    #[test]
    fn what_a_single_step_decides_has_no_contour_to_tell_of() {
        let found = certificate(0.3, 1e-9, 1_000_000, 1, 0.72);
        let (low, high) = ends(&found);
        assert!(high - low <= 5e-3, "{found:?}");
        assert_eq!((found.terms, found.cells), (None, None));
        let [error] = found.errors[..] else {
            panic!("{found:?}")
        };
        assert_eq!(error.source, ErrorSource::Coarseness);
        assert!((error.relative - (high - low).exp_m1()).abs() < 1e-9);
    }

    #[test]
    fn the_certificate_is_of_the_number_it_goes_with() {
        // 45-digit arithmetic: δ(5.192583445878) = 1e-5.
        let (low, high) = ends(&certificate(1.1, 0.01, 10_000, 1, 5.192_583_445_883_1));
        assert!(low <= 1e-5f64.ln() + 1e-12 && 1e-5f64.ln() <= high + 1e-12);
    }

    #[test]
    fn the_errors_of_a_grid_account_for_the_distance_of_its_ends() {
        let each = Mechanism::Laplace {
            scale: NoiseMultiplier::new(5.0).unwrap(),
        };
        let run = Mechanism::Repeat {
            times: Steps::new(40),
            each: Box::new(each.clone()),
        };
        let query = Query::single(Neighbours::AddRemove);
        let tolerance = Tolerance::new(1e-6).unwrap();
        let ask = |run: &Mechanism, epsilon: f64| {
            let loss = PrivacyLoss::of(run, query, Direction::Remove).unwrap();
            loss.certificate(Epsilon::new(epsilon).unwrap(), tolerance)
                .unwrap()
        };
        for epsilon in [0.5, 2.0, 5.0] {
            let found = ask(&run, epsilon);
            assert_eq!(found.engine, Engine::Grid);
            assert!(
                found.cells.unwrap() > 100
                    && found.spacing.unwrap() > 0.0
                    && found.tilt.unwrap() > 0.0
            );
            let (low, high) = ends(&found);
            // Each error moves either end.
            let sum: f64 = found.errors.iter().map(|e| e.relative).sum();
            assert!(
                high - low <= 2.0 * sum * (1.0 + 1e-5) + 1e-13,
                "{low} {high} {found:?}"
            );
            assert!(sum < 1e-4, "{found:?}");
        }
        // One step is integrated, not laid on a grid.
        let single = ask(&each, 0.1);
        assert_eq!((single.engine, single.cells), (Engine::Grid, None));
    }

    #[test]
    fn what_a_pair_only_bounds_has_no_lower_end() {
        for (q, steps) in [(0.25, 8), (1e-3, 1000)] {
            let sigma = NoiseMultiplier::new(1.0).unwrap();
            let shuffled = Mechanism::Repeat {
                times: Steps::new(steps),
                each: Box::new(Mechanism::SubsampledGaussian {
                    noise_multiplier: sigma,
                    sampling_rate: SamplingRate::new(q).unwrap(),
                    sampling: Sampling::Shuffled,
                }),
            };
            // Beside Poisson batches the whole goes through the contour.
            let poisson =
                Mechanism::dp_sgd(sigma, SamplingRate::new(0.1).unwrap(), Steps::new(200));
            let both = Mechanism::Sequence {
                parts: vec![shuffled.clone(), poisson],
            };
            for run in [shuffled, both] {
                let loss =
                    PrivacyLoss::of(&run, Query::single(Neighbours::Replace), Direction::Remove)
                        .unwrap();
                let found = loss
                    .certificate(Epsilon::new(3.0).unwrap(), Tolerance::DEFAULT)
                    .unwrap();
                assert_eq!(found.ln_delta.lower, None, "{found:?}");
                assert!(
                    found.ln_delta.upper.is_some() && found.errors.iter().all(|e| e.relative < 1.0),
                    "{found:?}"
                );
            }
        }
    }

    /// Of shuffled batches only bounds are known: the upper end is a formula, exact to roundings, and what is
    /// not known is reported as that, a share of the upper end.
    #[test]
    fn what_lies_between_two_runs_is_reported_as_unknown() {
        let shuffled = Mechanism::Repeat {
            times: Steps::new(1000),
            each: Box::new(Mechanism::SubsampledGaussian {
                noise_multiplier: NoiseMultiplier::new(2.0).unwrap(),
                sampling_rate: SamplingRate::new(0.01).unwrap(),
                sampling: Sampling::Shuffled,
            }),
        };
        let sigma = NoiseMultiplier::new(1.0).unwrap();
        let poisson = Mechanism::dp_sgd(sigma, SamplingRate::new(0.01).unwrap(), Steps::new(500));
        let beside = Mechanism::Sequence {
            parts: vec![shuffled.clone(), poisson],
        };
        for run in [shuffled, beside] {
            let query = Query::single(Neighbours::ZeroOut);
            let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
            let at = Epsilon::new(7.5).unwrap();
            let delta = loss.delta(at, Tolerance::DEFAULT).unwrap().bounds;
            let found = loss.certificate(at, Tolerance::DEFAULT).unwrap();
            let (low, high) = ends(&found);
            let (least, most) = (
                delta.lower.unwrap().get().get().ln(),
                delta.upper.unwrap().get().get().ln(),
            );
            assert!(
                (low - least).abs() < 1e-5 * least.abs() && (high - most).abs() < 1e-5,
                "{low} {least} {high} {most}"
            );
            let (unknown, rest): (Vec<&ErrorTerm>, Vec<&ErrorTerm>) =
                (found.errors.iter()).partition(|e| e.source == ErrorSource::UnknownLaw);
            assert!(unknown.len() == 1 && (unknown[0].relative - 1.0).abs() < 1e-6);
            assert!(rest.iter().all(|e| e.relative < 1e-5), "{found:?}");
        }
    }

    #[test]
    fn a_single_step_is_a_formula_and_an_odd_one_is_coarse() {
        let closed = certificate(1.0, 1.0, 10, 1, 3.0);
        assert_eq!(closed.engine, Engine::Closed);
        assert_eq!((closed.order, closed.terms), (None, None));
        assert_eq!(closed.errors[0].source, ErrorSource::Formula);
        let coarse = certificate(0.5, 0.2, 3, 1, 1.0);
        if coarse.engine == Engine::Chernoff {
            assert_eq!(coarse.errors[0].source, ErrorSource::Coarseness);
        }
    }
}
