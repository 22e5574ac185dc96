//! What tests compare engines and recipes with: a slow engine in f64, runs on neighbouring inputs, and model folders as
//! others write them.

mod exact;
mod hugging_face;
mod replay;

pub use exact::{exact, exact_logits};
pub use hugging_face::save_hugging_face;
pub use replay::{Replay, replay};
