//! How a number was certified: the engine's work and each error that was added, as data.

use crate::engine::Engine;
use crate::quantity::Epsilon;
use crate::quantity::bound::Bounds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What certifies δ(ε) in one direction: what the engine did, and every error that it bounded
/// and added on the safe side. Absent fields do not apply to the engine.
///
/// ```
/// use reticent_accounting::{Direction, Epsilon, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss, Query, SamplingRate, Steps, Tolerance};
/// use reticent_accounting::pld::Engine;
/// let run = Mechanism::dp_sgd(NoiseMultiplier::new(1.1)?, SamplingRate::new(0.01)?, Steps::new(1000));
/// let loss = PrivacyLoss::of(&run, Query::single(Neighbours::AddRemove), Direction::Remove)?;
/// let certificate = loss.certificate(Epsilon::new(1.5)?, Tolerance::new(1e-6)?)?;
/// assert_eq!(certificate.engine, Engine::Contour);
/// assert!(certificate.terms.unwrap() > 10 && certificate.order.unwrap() > 1.0);
/// let (low, high) = (certificate.ln_delta.lower.unwrap(), certificate.ln_delta.upper.unwrap());
/// assert!(high.get() - low.get() < 1e-6);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// Which engine.
    pub engine: Engine,
    /// Where δ was computed.
    pub epsilon: Epsilon,
    /// ln δ(ε), both ends; a δ of zero has no lower end.
    pub ln_delta: Bounds<f64>,
    /// The order c of the contour (its saddle), or of Chernoff's bound.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub order: Option<f64>,
    /// Distance η of the terms along the contour.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub step: Option<f64>,
    /// Terms summed along the contour, from the real axis upwards.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub terms: Option<u64>,
    /// Quadrature nodes in the outcome, of all kinds of steps together.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub nodes: Option<u64>,
    /// Distance of the grid's losses.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub spacing: Option<f64>,
    /// Cells of the grid.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cells: Option<u64>,
    /// Exponential tilt of the grid.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tilt: Option<f64>,
    /// Every error that was bounded.
    pub errors: Vec<ErrorTerm>,
}

/// One error: its origin, the ends that it moved, and a bound on its size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorTerm {
    /// Where it comes from.
    pub source: ErrorSource,
    /// Which ends it moved.
    pub ends: ErrorEnds,
    /// A bound on it, relative to δ (infinite where δ is zero); relative to its upper end where the
    /// ends are farther apart than a factor of e.
    pub relative: f64,
}

/// Where an error comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorSource {
    /// A sum stands for an integral. Along the contour: all aliases are positive.
    Aliasing,
    /// Terms beyond the last one.
    CutOff,
    /// Quadrature and rounding inside the terms.
    Terms,
    /// Adding the terms up.
    Summation,
    /// The leading moment K(c): its quadrature and rounding.
    Front,
    /// Mixture components and tails that were dropped.
    Truncation,
    /// Losses moved to the points of a grid.
    Discretisation,
    /// Fast Fourier transform: rounding.
    Transform,
    /// Fast Fourier transform: what wraps around.
    WrapAround,
    /// The evaluation of a formula.
    Formula,
    /// A bound that is not tight, instead of a computation.
    Coarseness,
    /// The run's own law is not known: the ends are those of two runs, one that it is sure to be no worse
    /// than and one that it is sure to be no better than.
    UnknownLaw,
}

/// The ends of an answer that an error moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorEnds {
    /// Only the lower end goes down.
    Lower,
    /// Only the upper end goes up.
    Upper,
    /// Both move outwards.
    Both,
}
