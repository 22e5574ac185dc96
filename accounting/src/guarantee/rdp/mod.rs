//! Rényi differential privacy: the loose but general fallback, computed by quadrature at any real
//! order, with the order optimised continuously.

mod convert;
mod curve;
mod zcdp;

pub use convert::{epsilon_by_renyi, epsilon_from_renyi, epsilon_from_renyi_classic};
pub use curve::RdpCurve;
pub(crate) use curve::{DROPPED, renyi_fano};
pub use zcdp::Zcdp;
