//! Membership inference: scores of single records, and what a set of scores proves.
//!
//! Every score increases with membership. A [`Panel`] holds one table of token scores per model and
//! computes every [`Attack`] on every record from it; [`lira`] and [`rmia`] use shadow models.
//! [`ScoreSet`] evaluates scores of known members and non-members, whatever their source.

mod accuracy;
mod area;
mod blind;
mod bootstrap;
mod combined;
mod copies;
mod deflate;
mod group;
mod half;
mod lookalikes;
mod neighbours;
mod operating;
mod panel;
mod repeats;
mod scored;
mod set;
mod shadow;
mod table;

pub use accuracy::{Accuracy, AccuracyRule};
pub use area::{Area, AreaMethod};
pub use blind::{BlindBaseline, BlindFeatures, blind_baseline};
pub use combined::{Combined, combined};
pub use copies::{CopyStratum, copies_among};
pub use deflate::zlib_bytes;
pub use group::{GroupRule, chosen, disjoint_groups, group_score, overlapping_groups_area};
pub use lookalikes::lookalikes;
pub use neighbours::{digit_mutations, replacements};
pub use operating::{OperatingPoint, RocPoint, TruePositives, non_members_needed};
pub use panel::{Beside, Frame, Neighbours, Panel};
pub use repeats::{DistinctTexts, Repeats, ScoredRecords, SideRepeats, blind_baseline_of};
pub use scored::{Attack, Evidence, Need, Scored, min_k};
pub use set::{Rate, ScoreSet};
pub use shadow::{
    Instability, Lira, Shadows, Spread, instability, lira, logit_of_confidence, logit_of_logits,
    rmia,
};
pub use table::{ScoreTable, Scoring};
