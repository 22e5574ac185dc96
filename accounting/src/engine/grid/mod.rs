//! The grid engine: the loss law on a grid, from above and below, composed by FFT under an exponential
//! tilt.
//!
//! Handles every law: atoms, few steps, heterogeneous steps, and cases in which the contour's integrand
//! doesn't decay.
//!
//! * [`cells`]: each cell's mass moved to grid lines, spread apart (above) or merged (below);
//! * [`merge`]: how mass finds its partner on the other side of a line;
//! * [`moments`]: K of the law itself, to choose the tilt and the window;
//! * [`known`]: its nodes, kept for further questions;
//! * [`layout`]: the distance of lines;
//! * [`blocks`], [`spectrum`]: the composed transform with a bound on its error;
//! * [`decay`], [`band`]: cases in which its lowest frequencies suffice;
//! * [`side`]: one composed measure;
//! * [`convolution`]: the composed law around the tilt, and δ(ε) from it;
//! * `renyi`: divergences;
//! * [`single`]: one step, by quadrature alone.

mod band;
mod blocks;
pub(crate) mod cells;
pub(crate) mod convolution;
mod decay;
mod known;
mod layout;
mod merge;
pub(crate) mod moments;
pub(crate) mod renyi;
mod side;
pub(crate) mod single;
mod spectrum;

#[cfg(test)]
mod tests;
