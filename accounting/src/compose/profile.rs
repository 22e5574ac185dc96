//! The privacy profile as a value: certified points, with convexity between them.

use super::curve::Curve;
use super::roots::ROOM;
use super::solver::Solver;
use crate::engine::Engine;
use crate::loss::{PrivacyLoss, Query, losses};
use crate::mechanism::Mechanism;
use crate::quantity::bound::{Bounds, Lower, Upper};
use crate::quantity::error::{Error, Result};
use crate::quantity::{Delta, Epsilon, Tolerance};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One certified point of a profile: δ_lower ≤ δ(ε) ≤ δ_upper.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfilePoint {
    /// ε in nats.
    pub epsilon: Epsilon,
    /// δ(ε) is at least this.
    pub delta_lower: Lower<Delta>,
    /// δ(ε) is at most this.
    pub delta_upper: Upper<Delta>,
}

/// The privacy profile ε ↦ δ(ε) of a finished run for one question, the larger of its
/// directions, as certified points in ascending order of ε.
///
/// δ is convex in e^ε: chords between upper ends lie above it, extensions of chords (tangents
/// from outside) below it. A profile is the end of accounting: nothing composes it further.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Profile {
    query: Query,
    /// The engine of the coarsest point.
    pub engine: Engine,
    points: Vec<ProfilePoint>,
}

impl Profile {
    /// Returns the profile of `mechanism` for `query`, exact to `tolerance` at each of `deltas`: both ends of ε(δ)
    /// become points.
    ///
    /// ```
    /// use reticent_accounting::{Delta, Mechanism, Neighbours, NoiseMultiplier, Query, SamplingRate, Steps, Tolerance};
    /// use reticent_accounting::pld::Profile;
    /// let run = Mechanism::dp_sgd(NoiseMultiplier::new(2.42632)?, SamplingRate::new(0.1)?, Steps::new(100));
    /// let query = Query::single(Neighbours::Replace);
    /// let delta = Delta::new(1e-5)?;
    /// let profile = Profile::at_deltas(&run, query, &[delta], Tolerance::new(1e-6)?)?;
    /// let epsilon = profile.epsilon(delta)?;
    /// assert!((epsilon.upper.unwrap().get().get() - 3.49540).abs() < 1e-5);
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] for a run without a finite ε at some δ, and [`Error::NotCertified`] if a point
    /// can't be certified.
    pub fn at_deltas(
        mechanism: &Mechanism,
        query: Query,
        deltas: &[Delta],
        tolerance: Tolerance,
    ) -> Result<Self> {
        let losses = losses(mechanism, query)?;
        let mut profile = Self {
            query,
            engine: Engine::Closed,
            points: Vec::new(),
        };
        let mut engine = Engine::Closed;
        let mut ends = |delta: f64| -> Result<(f64, f64)> {
            let (mut low, mut high) = (0.0f64, 0.0f64);
            for loss in &losses {
                let found = Solver::new(loss).epsilon(delta, tolerance.get())?;
                low = low.max(found.lower.unwrap_or(0.0));
                high = high.max(found.upper);
                engine = engine.coarser(found.engine);
            }
            Ok((low, high))
        };
        for delta in deltas {
            // Room for a few roundings of δ, where a smaller δ has a finite ε as well.
            let at_least = (delta.get() * (1.0 + ROOM)).min(1.0);
            let mut at_most = delta.get() * (1.0 - ROOM);
            let (low, _) = ends(at_least)?;
            let (_, mut high) = ends(at_most)?;
            if high == f64::INFINITY {
                at_most = delta.get();
                (_, high) = ends(at_most)?;
            }
            if high == f64::INFINITY {
                return Err(Error::Unsupported {
                    what: format!("the profile at delta {delta}"),
                    why: "epsilon is infinite there".into(),
                });
            }
            profile.add(&losses, low, (Some(at_least), None), tolerance)?;
            profile.add(&losses, high, (None, Some(at_most)), tolerance)?;
        }
        profile.engine = profile.engine.coarser(engine);
        profile.sort();
        Ok(profile)
    }

    /// Returns the profile of `mechanism` for `query` at given ε, with δ to a relative `tolerance`.
    ///
    /// # Errors
    /// Returns [`Error::NotCertified`] if a point can't be certified.
    pub fn at_epsilons(
        mechanism: &Mechanism,
        query: Query,
        epsilons: &[Epsilon],
        tolerance: Tolerance,
    ) -> Result<Self> {
        let losses = losses(mechanism, query)?;
        let mut profile = Self {
            query,
            engine: Engine::Closed,
            points: Vec::new(),
        };
        for epsilon in epsilons {
            profile.add(&losses, epsilon.get(), (None, None), tolerance)?;
        }
        profile.sort();
        Ok(profile)
    }

    /// Creates a profile that is known by other means (a finite mechanism, another tool's certificate): points in
    /// ascending order of ε whose δ falls.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if points are out of order, or if their ends cross or rise.
    pub fn from_points(query: Query, points: Vec<ProfilePoint>) -> Result<Self> {
        let crossed = |p: &ProfilePoint| p.delta_lower.get() > p.delta_upper.get();
        let rises = |pair: &[ProfilePoint]| {
            pair[0].epsilon >= pair[1].epsilon
                || pair[1].delta_lower.get() > pair[0].delta_upper.get()
        };
        if points.is_empty() || points.iter().any(crossed) || points.windows(2).any(rises) {
            return Err(Error::Unsupported {
                what: "a profile from these points".into(),
                why: "epsilon must ascend and delta fall, each lower end at most its upper".into(),
            });
        }
        Ok(Self {
            query,
            engine: Engine::Closed,
            points,
        })
    }

    /// Adds the point at `epsilon`, sharpened by what a search has certified about it.
    fn add(
        &mut self,
        losses: &[PrivacyLoss],
        epsilon: f64,
        known: (Option<f64>, Option<f64>),
        tolerance: Tolerance,
    ) -> Result<()> {
        let epsilon = Epsilon::new(epsilon)?;
        let (mut lower, mut upper) = (0.0f64, 0.0f64);
        for loss in losses {
            let answer = loss.delta(epsilon, tolerance)?;
            lower = lower.max(answer.bounds.lower.map_or(0.0, |end| end.get().get()));
            upper = upper.max(answer.bounds.upper.map_or(1.0, |end| end.get().get()));
            self.engine = self.engine.coarser(answer.engine);
        }
        // At ε = 0 the search may have stopped because nothing smaller exists.
        if let Some(at_least) = known.0.filter(|_| epsilon.get() > 0.0) {
            lower = lower.max(at_least);
        }
        if let Some(at_most) = known.1 {
            upper = upper.min(at_most);
        }
        self.points.push(ProfilePoint {
            epsilon,
            delta_lower: Lower::new(Delta::new(lower.min(upper))?),
            delta_upper: Upper::new(Delta::new(upper)?),
        });
        Ok(())
    }

    fn sort(&mut self) {
        self.points
            .sort_by(|a, b| a.epsilon.get().total_cmp(&b.epsilon.get()));
    }

    /// Returns what was asked.
    #[must_use]
    pub const fn query(&self) -> Query {
        self.query
    }

    /// Returns the certified points, in ascending order of ε.
    #[must_use]
    pub fn points(&self) -> &[ProfilePoint] {
        &self.points
    }

    /// Returns both ends of the smallest ε with δ(ε) ≤ `delta`, from points, chords and tangents.
    ///
    /// The upper end is absent if no point certifies such a small δ.
    ///
    /// # Errors
    /// None for a δ in range; kept for symmetry with the engines.
    pub fn epsilon(&self, delta: Delta) -> Result<Bounds<Epsilon>> {
        Curve::of(&self.points).epsilon(delta)
    }

    /// Returns both ends of δ at `epsilon`, from points, chords and tangents.
    ///
    /// # Errors
    /// None for an ε in range; kept for symmetry with the engines.
    pub fn delta(&self, epsilon: Epsilon) -> Result<Bounds<Delta>> {
        let curve = Curve::of(&self.points);
        let (lower, upper) = (curve.lower(epsilon.get()), curve.upper(epsilon.get()));
        Ok(Bounds::between(
            Delta::new(lower.min(upper))?,
            Delta::new(upper)?,
        ))
    }
}
