//! Engine B: the loss law on a grid, above and below, composed by FFT under an exponential tilt.
//!
//! For every law there is: atoms, few steps, heterogeneous steps, where the contour's integrand
//! does not decay.
//!
//! * [`quadrature`]: nodes on stretches that lie in one grid cell each;
//! * [`ruler`]: where cells end;
//! * [`cells`]: each cell's mass moved to grid lines, spread apart (above) or merged (below);
//! * [`moments`]: K of the law itself, to choose the tilt and the window;
//! * [`spectrum`]: the composed transform with a bound on its error;
//! * [`convolution`]: the composed law around the tilt, and δ(ε) from it;
//! * `renyi`, divergences;
//! * [`single`]: one step, by quadrature alone;
//! * [`solve`]: the questions.

pub(crate) mod cells;
pub(crate) mod convolution;
pub(crate) mod moments;
pub(crate) mod quadrature;
mod renyi;
pub(crate) mod ruler;
mod single;
mod solve;
mod spectrum;

#[cfg(test)]
mod tests;
