//! A door for tests: one engine alone, whatever the chooser would take.

use super::found::Found;
use super::solver::Solver;
use crate::engine::Engine;
use crate::loss::{Attained, PrivacyLoss};
use crate::numeric::interval::LnBounds;
use crate::quantity::bound::Bounds;
use crate::quantity::error::{Error, Result};
use crate::quantity::{Delta, Epsilon, Tolerance};

impl PrivacyLoss {
    /// Both ends of δ(ε) by the contour or by the grid alone.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where that engine has no answer.
    #[doc(hidden)]
    pub fn delta_by(
        &self,
        engine: Engine,
        epsilon: Epsilon,
        tolerance: Tolerance,
    ) -> Result<Bounds<Delta>> {
        let goal = 0.5 * tolerance.get();
        let (ends, _) = Solver::new(self).ln_delta_by(Some(engine), epsilon.get(), goal)?;
        let lower = Delta::new(ends.lower.exp().clamp(0.0, 1.0))?;
        let upper = Delta::new((ends.upper.exp() * (1.0 + 4.0 * f64::EPSILON)).clamp(0.0, 1.0))?;
        Ok(Bounds::between(lower, upper))
    }

    /// The laws that the upper ends rest on, as if they were attained, where the run's own law is not known:
    /// upper ends are as close as asked where they are so to the smallest of them.
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

    /// Both ends of ε(δ) by the contour or by the grid alone, the lower first; an upper end may be
    /// infinite.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where that engine has no answer.
    #[doc(hidden)]
    pub fn epsilon_by(
        &self,
        engine: Engine,
        delta: Delta,
        tolerance: Tolerance,
    ) -> Result<(f64, f64)> {
        let found = Solver::new(self).epsilon_by(Some(engine), delta.get(), tolerance.get())?;
        Ok((found.lower.unwrap_or(0.0), found.upper))
    }
}

fn refused(why: &str) -> Error {
    Error::Unsupported {
        what: "an answer by one engine alone".into(),
        why: why.into(),
    }
}

impl Solver {
    /// ln δ(ε) of the pair itself.
    pub(super) fn ln_delta_alone(
        &mut self,
        engine: Engine,
        epsilon: f64,
        goal: f64,
    ) -> Result<LnBounds> {
        if self.loss.unbounded || self.loss.is_empty() || epsilon >= self.largest_loss() {
            return Err(refused("nothing is left to compute"));
        }
        match engine {
            Engine::Contour => self
                .ln_delta_by_contour(epsilon, goal)
                .ok_or_else(|| refused("the contour is out of reach")),
            Engine::Grid => self.grid_ln_delta(epsilon, goal),
            _ => Err(refused("there are two engines")),
        }
    }

    /// ε(δ) of the pair itself.
    pub(super) fn epsilon_alone(
        &mut self,
        engine: Engine,
        delta: f64,
        tolerance: f64,
    ) -> Result<Found> {
        if self.loss.unbounded || self.loss.is_empty() {
            return Err(refused("nothing is left to compute"));
        }
        let found = match engine {
            Engine::Contour => self.epsilon_by_contour(delta, tolerance)?,
            Engine::Grid => self.grid_epsilon(delta, tolerance)?,
            _ => return Err(refused("there are two engines")),
        };
        let known = !self.loss.bounds_only();
        Ok(Found {
            lower: found.lower.filter(|_| known),
            ..found
        })
    }
}
