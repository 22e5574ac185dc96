//! Canary plan and scorer in, finding (a lower bound) out.
//!
//! [`search_ranks`] gives the exact rank of each canary among all candidates;
//! [`ExposureSummary`] says what the ranks mean beside the null; [`RankAudit`] turns them into a
//! lower bound on ε; [`ceiling_test`] holds them against a promise. [`ExposureFinding`] is all
//! of it as data for a report.

mod ceiling;
mod draw;
mod error;
mod exposure;
mod finding;
mod null;
mod perplexity;
mod plan;
mod rank_audit;
mod search;
mod spelled;
mod statistics;

pub use ceiling::{
    CeilingAt, CeilingOutcome, CeilingPoint, CeilingTest, ceiling_test, exposure_ceiling,
    prior_mass,
};
pub use draw::Draw;
pub use error::{Error, Result};
pub use exposure::{Exposure, ExposureSummary, Rank, Statistic, rank_p_value};
pub use finding::{CanaryFinding, ExposureFinding};
pub use null::ExposureNull;
pub use perplexity::{Perplexity, RecordCost, perplexity};
pub use plan::plan_targets;
pub use rank_audit::{Assumption, EpsilonBound, EpsilonMethod, RankAudit, hit_probability, hits};
pub use search::{
    CandidateTree, FlatSample, Progress, RankCount, Ranking, SearchOptions, Target, Work,
    flat_ranks, sample_flat, search_ranks,
};
