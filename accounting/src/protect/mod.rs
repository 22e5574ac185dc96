//! Secret protection: how likely each secret may become known, which examples to train on for
//! it, and the noise that keeps the promise (Hush!).

mod exact;
mod first_order;
mod incidence;
mod program;
mod rates;

pub use incidence::Incidence;
pub use program::{Packing, Solution};
pub use rates::{RateProfile, sampling_rates};
