//! Membership inference: scores of single records, and what a set of scores proves.
//!
//! Every score rises with membership. [`Scored`] computes the attacks of one record from one
//! cached table of token scores per model; [`ScoreSet`] evaluates scores of known members and
//! non-members, whatever computed them.

mod accuracy;
mod area;
mod blind;
mod bootstrap;
mod deflate;
mod group;
mod neighbours;
mod operating;
mod scored;
mod set;
mod shadow;
mod thresholds;

pub use accuracy::{Accuracy, AccuracyRule};
pub use area::{Area, AreaMethod};
pub use blind::{BlindBaseline, blind_baseline};
pub use deflate::{DEFLATE_ENGINE, zlib_bytes};
pub use group::{GroupRule, disjoint_groups, group_score, overlapping_groups_area};
pub use neighbours::digit_mutations;
pub use operating::{OperatingPoint, RocPoint, TruePositives, non_members_needed};
pub use scored::{Attack, Evidence, Scored, min_k};
pub use set::{Rate, ScoreSet};
pub use shadow::{Lira, Shadows, Spread, lira, logit_of_confidence, logit_of_logits, rmia};
pub use thresholds::ThresholdRule;
