//! Numerical tools: intervals, sums, special functions, quadrature, searches, values kept, and statistics of
//! counts.

pub(crate) mod interval;
pub(crate) mod latest;
pub(crate) mod quadrature;
pub(crate) mod search;
pub(crate) mod special;
pub mod statistics;
pub(crate) mod sum;
