//! An entry point for tests: answers by one engine alone, whatever the solver would choose.

use super::found::Found;
use super::ladder::{Question, Source};
use super::search::EpsilonAt;
use super::solver::{DeltaAt, Solver};
use crate::engine::Engine;
use crate::loss::{Attained, PrivacyLoss};
use crate::numeric::interval::LnBounds;
use crate::quantity::bound::Bounds;
use crate::quantity::error::{Error, Result};
use crate::quantity::{Delta, Epsilon, Tolerance};

impl PrivacyLoss {
    /// Returns both ends of δ(ε) by the contour or by the grid alone.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if that engine has no answer.
    #[doc(hidden)]
    pub fn delta_by(
        &self,
        engine: Engine,
        epsilon: Epsilon,
        tolerance: Tolerance,
    ) -> Result<Bounds<Delta>> {
        let goal = 0.5 * tolerance.get();
        let (ends, _) = Solver::new(self).ln_delta_by(Some(of(engine)?), epsilon.get(), goal)?;
        let lower = Delta::new(ends.lower.exp().clamp(0.0, 1.0))?;
        let upper = Delta::new((ends.upper.exp() * (1.0 + 4.0 * f64::EPSILON)).clamp(0.0, 1.0))?;
        Ok(Bounds::between(lower, upper))
    }

    /// Returns the laws that the upper ends rest on, as if they were attained, if the run's own law isn't
    /// known. Upper ends have the requested precision if they have it relative to the smallest of these.
    #[doc(hidden)]
    #[must_use]
    pub fn dominating(&self) -> Vec<Self> {
        let alone = |loss: &Self| {
            let mut loss = Self {
                more_informed: None,
                below: None,
                overlap: None,
                only_bounding: false,
                ..loss.clone()
            };
            for (law, _) in &mut loss.laws {
                law.attained = Attained::Always;
            }
            loss
        };
        let own = std::iter::once(alone(self));
        own.chain(self.more_informed.as_deref().map(alone))
            .collect()
    }

    /// Returns both ends of ε(δ) by the contour or by the grid alone, the lower first; an upper end may be
    /// infinite.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if that engine has no answer.
    #[doc(hidden)]
    pub fn epsilon_by(
        &self,
        engine: Engine,
        delta: Delta,
        tolerance: Tolerance,
    ) -> Result<(f64, f64)> {
        let found =
            Solver::new(self).epsilon_by(Some(of(engine)?), delta.get(), tolerance.get())?;
        Ok((found.lower.unwrap_or(0.0), found.upper))
    }
}

fn refused(why: &str) -> Error {
    Error::Unsupported {
        what: "an answer by one engine alone".into(),
        why: why.into(),
    }
}

/// Returns the source with which an engine handles the whole run.
fn of(engine: Engine) -> Result<Source> {
    match engine {
        Engine::Contour => Ok(Source::Contour),
        Engine::Grid => Ok(Source::Grid),
        _ => Err(refused("there are two engines")),
    }
}

impl Solver {
    /// Returns ln δ(ε) of the pair itself.
    pub(super) fn ln_delta_alone(
        &mut self,
        source: Source,
        epsilon: f64,
        goal: f64,
    ) -> Result<LnBounds> {
        if self.loss.unbounded || self.loss.is_empty() || epsilon >= self.largest_loss() {
            return Err(refused("nothing is left to compute"));
        }
        DeltaAt::new(epsilon, goal).ask(self, source, None)
    }

    /// Returns ε(δ) of the pair itself.
    pub(super) fn epsilon_alone(
        &mut self,
        source: Source,
        delta: f64,
        tolerance: f64,
    ) -> Result<Found> {
        if self.loss.unbounded || self.loss.is_empty() {
            return Err(refused("nothing is left to compute"));
        }
        let found = EpsilonAt::new(delta, tolerance, f64::INFINITY).ask(self, source, None)?;
        let known = !self.loss.bounds_only();
        Ok(Found {
            lower: found.lower.filter(|_| known),
            ..found
        })
    }
}
