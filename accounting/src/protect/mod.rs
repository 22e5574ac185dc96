//! Secret protection (Hush!): how likely each secret may become known, which examples to train on
//! to ensure it, and the noise that keeps the promise.

mod classes;
mod exact;
mod first_order;
mod incidence;
mod joint;
mod noise;
mod parallel;
mod program;
mod rates;
mod screen;
mod secret;
mod training;

pub use classes::{Certified, SecretClass, SecretClasses};
pub use incidence::Incidence;
pub use noise::{Noise, Posterior, Protection};
pub use program::{Packing, Solution};
pub(crate) use rates::rate_of;
pub use rates::{RateProfile, WEIGHTS_TOO_LIGHT, sampling_rates};
pub use secret::{Proof, Secret};
pub use training::{Training, Weighed};
