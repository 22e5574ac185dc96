//! The order in which engines are tried for a question until both ends are close enough.

use super::solver::Solver;
use crate::engine::Engine;
use crate::engine::contour::cumulants::CumulantFunction;
use crate::quantity::error::Result;

/// From this many steps of laws on, the rounding errors of a grid exceed those of the contour.
const MANY: u64 = 1000;
/// With fewer steps than this, no characteristic function of a law decays enough for the contour.
const SEVERAL: u64 = 20;
/// With more atoms than this, a contour isn't tried.
const MOST_ATOMS: usize = 1 << 14;
/// Up to this many steps of pairs, grids are tried before single steps that may decide.
const FEW_STEPS: u64 = 1000;
/// Ends as close as this on the finest available grid are as good as those of any other grid.
pub(crate) const AS_CLOSE: f64 = 1e-3;

/// The source of both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A closed form.
    Closed,
    /// Sums over the draws of a run in which each draw shows itself.
    FarHits,
    /// The contour.
    Contour,
    /// The contour for the run without far outcomes.
    ContourOfCut,
    /// A grid for the run without far outcomes: far losses of records that are hardly ever drawn tilt a grid of
    /// the whole run towards them, and refining it is in vain.
    GridOfCut,
    /// A grid.
    Grid,
    /// A single step that decides the answer.
    OneStep,
    /// Bounds without any of these.
    Coarse,
}

impl Source {
    /// Returns the engine to report.
    pub(crate) const fn engine(self) -> Engine {
        match self {
            Self::Closed | Self::FarHits => Engine::Closed,
            Self::Contour | Self::ContourOfCut | Self::OneStep => Engine::Contour,
            Self::GridOfCut | Self::Grid => Engine::Grid,
            Self::Coarse => Engine::Chernoff,
        }
    }
}

/// Both ends of an answer.
pub(super) trait Ends: Copy {
    /// Returns the tighter of two statements about the same number.
    fn met(self, other: Self) -> Self;
    /// Returns the distance of the ends.
    fn apart(&self) -> f64;
    /// Returns whether the ends are no farther apart than a `share` of the number.
    fn within(&self, share: f64) -> bool;
}

/// A question about a composed loss.
pub(super) trait Question {
    type Ends: Ends;

    /// Returns both ends by one source, given what is `known` already.
    ///
    /// # Errors
    /// Returns an error if the source has no answer.
    fn ask(
        &mut self,
        solver: &mut Solver,
        source: Source,
        known: Option<Self::Ends>,
    ) -> Result<Self::Ends>;

    /// Returns the distance at which ends are close enough, after this source was used.
    fn enough(&self, source: Source, ends: &Self::Ends) -> f64;
}

impl Solver {
    /// Returns both ends, using as many sources as necessary, and the most informative source.
    ///
    /// # Errors
    /// Returns the error of the last source if none has an answer.
    pub(super) fn climb<Q: Question>(&mut self, question: &mut Q) -> Result<(Q::Ends, Source)> {
        let mut best: Option<(Q::Ends, Source)> = None;
        let mut refused = None;
        let first = self.far_hits().map(|_| Source::FarHits);
        for source in first.into_iter().chain(self.sources().iter().copied()) {
            if source == Source::GridOfCut && !self.needs_grid() {
                // Contours may have used grids of their own.
                self.finest = false;
            }
            let ends = match question.ask(self, source, best.map(|(ends, _)| ends)) {
                Ok(ends) => ends,
                Err(error) => {
                    refused = Some(error);
                    continue;
                }
            };
            let (ends, by) = match best {
                Some((before, by)) if before.apart() <= ends.apart() => (before.met(ends), by),
                Some((before, _)) => (before.met(ends), source),
                None => (ends, source),
            };
            best = Some((ends, by));
            if ends.within(question.enough(source, &ends).max(self.as_good(source))) {
                break;
            }
        }
        best.ok_or_else(|| refused.unwrap_or_else(CumulantFunction::out_of_reach))
    }

    /// Returns the order in which sources are used.
    fn sources(&self) -> &'static [Source] {
        use Source::{Coarse, Contour, ContourOfCut, Grid, GridOfCut, OneStep};
        let steps = self.loss.steps();
        if !self.needs_grid() {
            // For few steps, grids see everything and take less time than one step that decides; for many, that
            // step avoids the grids, which see no farther.
            return if steps <= FEW_STEPS {
                &[Contour, ContourOfCut, Coarse, GridOfCut, Grid, OneStep]
            } else {
                &[Contour, ContourOfCut, Coarse, OneStep, GridOfCut, Grid]
            };
        }
        let laws = || self.loss.laws.iter().map(|(law, _)| law);
        // Atoms alone never decay, and very many take too long.
        let decays = self.loss.gaussian > 0.0
            || !self.loss.parts.is_empty()
            || laws().any(|law| !law.pieces.is_empty());
        let atoms: usize = laws().map(|law| law.atoms.len()).sum();
        // Ends that are apart for want of the law itself stay so.
        let cut = !self.loss.bounds_only() && self.below.is_none();
        match (!decays || atoms > MOST_ATOMS || steps < SEVERAL, cut) {
            (true, false) => &[Grid, Coarse],
            (true, true) => &[Grid, Coarse, GridOfCut],
            (false, false) if steps < MANY => &[Grid, Contour, Coarse],
            (false, true) if steps < MANY => &[Grid, Contour, Coarse, ContourOfCut, GridOfCut],
            (false, false) => &[Contour, Grid, Coarse],
            (false, true) => &[Contour, Grid, Coarse, ContourOfCut, GridOfCut],
        }
    }

    /// Returns the distance at which ends are as good as those of any later source.
    fn as_good(&self, source: Source) -> f64 {
        match source {
            Source::Grid if !self.needs_grid() => AS_CLOSE,
            Source::GridOfCut if self.finest => AS_CLOSE,
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{Direction, PrivacyLoss, Query};
    use crate::mechanism::Mechanism;
    use crate::numeric::interval::LnBounds;
    use crate::quantity::neighbours::Neighbours;
    use crate::quantity::{NoiseMultiplier, SamplingRate, Steps};

    /// Answers as given, in the order in which they are asked for.
    struct Scripted {
        answers: Vec<(Source, Option<(f64, f64)>)>,
        enough: f64,
    }

    impl Question for Scripted {
        type Ends = LnBounds;

        fn ask(&mut self, _: &mut Solver, source: Source, _: Option<LnBounds>) -> Result<LnBounds> {
            let (expected, ends) = self.answers.remove(0);
            assert_eq!(source, expected);
            let (lower, upper) = ends.ok_or_else(CumulantFunction::out_of_reach)?;
            let middle = 0.5 * (lower + upper);
            Ok(LnBounds {
                lower,
                middle,
                upper,
            })
        }
        fn enough(&self, _: Source, _: &LnBounds) -> f64 {
            self.enough
        }
    }

    fn climbed(steps: u64, answers: &[(Source, Option<(f64, f64)>)]) -> Result<(LnBounds, Source)> {
        let run = Mechanism::dp_sgd(
            NoiseMultiplier::new(1.0).unwrap(),
            SamplingRate::new(0.1).unwrap(),
            Steps::new(steps),
        );
        let query = Query::single(Neighbours::AddRemove);
        let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
        let mut question = Scripted {
            answers: answers.to_vec(),
            enough: 0.1,
        };
        let found = Solver::new(&loss).climb(&mut question);
        assert_eq!(question.answers, [], "sources that were not asked");
        found
    }

    #[test]
    fn sources_are_asked_until_what_they_say_together_is_enough() {
        use Source::{Coarse, Contour, ContourOfCut, Grid, GridOfCut, OneStep};
        // Neither says enough, and both together do.
        let found = climbed(
            10,
            &[
                (Contour, Some((-4.0, -2.0))),
                (ContourOfCut, Some((-2.05, 0.0))),
            ],
        );
        let (ends, by) = found.unwrap();
        assert_eq!((ends.lower, ends.upper, by), (-2.05, -2.0, Contour));
        // What fails is passed over.
        let grids = [
            (GridOfCut, Some((-3.0, -2.9999))),
            (Grid, Some((-3.0, -2.0))),
        ];
        let before = [
            (Contour, None),
            (ContourOfCut, None),
            (Coarse, Some((-9.0, 0.0))),
        ];
        let found = climbed(10, &[&before[..], &grids[..1]].concat());
        assert_eq!(found.unwrap().1, GridOfCut);
        // Of many steps one that decides goes before the grids.
        let one = [(OneStep, Some((-5.0, -1.0)))];
        let found = climbed(10_000, &[&before[..], &one, &grids[..1]].concat());
        assert_eq!(found.unwrap().1, GridOfCut);
        let wide = [(GridOfCut, None), (Grid, Some((-8.0, -1.0)))];
        let found = climbed(10, &[&before[..], &wide, &one].concat());
        assert_eq!(found.unwrap().1, OneStep);
        let nothing = [Contour, ContourOfCut, Coarse, GridOfCut, Grid, OneStep];
        assert!(climbed(10, &nothing.map(|source| (source, None))).is_err());
    }
}
