//! The contour engine: inversion of the moment generating function of the privacy loss, with every
//! error bounded and added on the safe side.
//!
//! With L the loss of one step, K(s) = ln E_Q e^{sL} and T steps, δ(ε) = (1/2π) ∫ e^{T K(s) −
//! ε(s−1)} / (s(s−1)) dy along s = c + iy, c > 1 the saddle. The cost doesn't depend on T or δ.
//!
//! * [`partition`]: the line cut into cells with rigorous bounds, computed once per pair;
//! * [`strip`]: bounds off the real axis, hence the quadrature error of K;
//! * [`decay`]: the decay of the characteristic function;
//! * [`nodes`]: the trapezoid rule in x;
//! * [`laws`]: steps that aren't Gaussian mixtures;
//! * [`cumulants`]: K on the real axis, saddle points;
//! * [`kernel`]: the expectation that is inverted, and Chernoff's bound for it;
//! * [`inversion`]: the certified sum;
//! * [`window`]: the coarse path if that can't be certified.

pub(crate) mod cumulants;
mod decay;
mod divergence;
pub(crate) mod inversion;
pub(crate) mod kernel;
pub(crate) mod laws;
pub(crate) mod nodes;
pub(crate) mod partition;
#[cfg(test)]
mod samples;
pub(crate) mod strip;
mod window;
