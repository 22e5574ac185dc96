//! Reconstruction bounds from indistinguishability: how likely a guess is after training, given how likely it
//! was before.
//!
//! Let Q be the run with the records of one secret zeroed, and P_i the run in which the secret is i. With
//! priors π_i ≤ p, Σ π_i P_i(guess = i) ≤ B(p): the Q-probabilities of disjoint guesses add up to at most one,
//! and B is concave. The blow-up of the zero-out pair, mixture first, therefore bounds reconstruction without a
//! factor of two, and content may change arbitrarily.
//!
//! * [`blow_up`](crate::PrivacyLoss::blow_up): the exact bound B(p) of the dominating pair;
//! * [`fano`], [`chi_square`], [`total_variation`], [`closed`]: weaker bounds from divergences, or from (ε, δ);
//! * [`ceiling`]: the resulting ceilings on ranks and exposures;
//! * [`several`]: contents dominated by different pairs;
//! * [`membership`]: the area under the ROC curve of membership attacks;
//! * [`redacted`]: guessing a secret that is redacted most of the time.

pub mod ceiling;
pub mod chi_square;
pub mod closed;
pub mod fano;
pub mod membership;
pub mod redacted;
pub mod several;
pub mod total_variation;
