//! A door for tests: one engine alone, whatever the chooser would take.

use super::compose::PrivacyLoss;
use super::solver::Solver;
use crate::bound::Bounds;
use crate::error::{Error, Result};
use crate::guarantee::Engine;
use crate::interval::LnBounds;
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
        let ends = ln_delta(&mut Solver::new(self), engine, epsilon.get(), goal)?;
        let lower = Delta::new(ends.lower.exp().clamp(0.0, 1.0))?;
        let upper = Delta::new((ends.upper.exp() * (1.0 + 4.0 * f64::EPSILON)).clamp(0.0, 1.0))?;
        Ok(Bounds::between(lower, upper))
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
        epsilon(&mut Solver::new(self), engine, delta.get(), tolerance.get())
    }
}

fn refused(why: &str) -> Error {
    Error::Unsupported {
        what: "an answer by one engine alone".into(),
        why: why.into(),
    }
}

fn ln_delta(solver: &mut Solver, engine: Engine, epsilon: f64, goal: f64) -> Result<LnBounds> {
    if solver.loss.unbounded || solver.loss.is_empty() || epsilon >= solver.largest_loss() {
        return Err(refused("nothing is left to compute"));
    }
    let mut ends = match engine {
        Engine::Contour => solver
            .ln_delta_by_contour(epsilon, goal)
            .ok_or_else(|| refused("the contour is out of reach"))?,
        Engine::Grid => solver.grid_ln_delta(epsilon, goal)?,
        _ => return Err(refused("there are two engines")),
    };
    if let Some(told) = &mut solver.told {
        let told = ln_delta(told, engine, epsilon, goal);
        ends.upper = told.map_or(ends.upper, |told| ends.upper.min(told.upper));
    }
    ends.lower = match &mut solver.below {
        Some(below) => {
            ln_delta(below, engine, epsilon, goal).map_or(f64::NEG_INFINITY, |below| below.lower)
        }
        None if solver.loss.bounds_only() => f64::NEG_INFINITY,
        None => ends.lower,
    };
    Ok(ends)
}

fn epsilon(solver: &mut Solver, engine: Engine, delta: f64, tolerance: f64) -> Result<(f64, f64)> {
    if solver.loss.unbounded || solver.loss.is_empty() {
        return Err(refused("nothing is left to compute"));
    }
    let found = match engine {
        Engine::Contour => solver.epsilon_by_contour(delta, tolerance)?,
        Engine::Grid => solver.grid_epsilon(delta, tolerance)?,
        _ => return Err(refused("there are two engines")),
    };
    let mut upper = found.upper;
    if let Some(told) = &mut solver.told {
        upper = epsilon(told, engine, delta, tolerance).map_or(upper, |told| upper.min(told.1));
    }
    let lower = match &mut solver.below {
        Some(below) => epsilon(below, engine, delta, tolerance).map_or(0.0, |below| below.0),
        None if solver.loss.bounds_only() => 0.0,
        None => found.lower.unwrap_or(0.0),
    };
    Ok((lower, upper))
}
