//! Bounds on membership attacks: the trade-off between their error rates, their best accuracy, and
//! one number μ for the whole curve.
//!
//! A test E of P (the record is present) against Q (it is not) has FPR Q(E) and TPR P(E). With
//! B(x) = max{P(E) : Q(E) ≤ x} the trade-off curve is f(α) = 1 − B(α), the smallest false-negative
//! rate at a given false-positive rate. Every number here comes with both ends; the upper end of a
//! TPR, of an accuracy and of an advantage is the promise.

mod curve;
mod gaussian;
mod membership;
mod samples;

pub use curve::{TradeOff, TradeOffCurve, TradeOffPoint};
pub use gaussian::{GaussianFit, central_limit_distance};
pub use membership::{advantage, membership_accuracy, true_positive_rate};
