//! Canary plan and scorer in, finding (a lower bound) out.
//!
//! [`search_ranks`] gives the exact rank of each canary among all candidates;
//! [`ExposureSummary`] says what the ranks mean beside the null; [`RankAudit`] turns them into a
//! lower bound on ε, and so does [`EValueAudit`] from the model's beliefs; [`ceiling_test`] holds them against a promise. [`ExposureFinding`] is all
//! of it as data for a report.

mod audit_bound;
mod ceiling;
mod draw;
mod error;
mod evalue;
mod exposure;
mod extract;
mod extraction;
mod finding;
mod listed;
mod membership;
mod normal;
mod null;
mod one_run;
mod paired;
mod perplexity;
mod plan;
mod rank_audit;
mod rates;
mod sampled;
mod scoring;
mod search;
mod skew_normal;
mod spelled;
mod statistics;

pub use audit_bound::{AuditBound, AuditTerms};
pub use ceiling::{
    CeilingAt, CeilingOutcome, CeilingPoint, CeilingTest, ceiling_test, exposure_ceiling,
    prior_mass,
};
pub use draw::Draw;
pub use error::{Error, Result};
pub use evalue::{
    Beliefs, CanaryGuesses, EValueAudit, EValueProcess, EValueTest, Guess, PlannedAudit, Pool,
    Prediction, SequentialTest, Temper, coin_beliefs, coin_bound, coin_power, coin_provable,
    coin_test,
};
pub use exposure::{Exposure, ExposureSummary, Rank, Statistic, rank_p_value};
pub use extract::{
    Continuation, Contrast, Passage, PromiseTest, PromptRates, Reconstruction, SampledText,
    SamplerSettings, SecretCase, SecretShape, Stratum, continuations, contrast, count_copies,
    edit_distance, generate_greedily, ln_drawn, measure_distances, reconstruct,
    sample_continuations, strata,
};
pub use extraction::{draws_needed, probability_of_extraction, recall_at_errors};
pub use finding::{CanaryFinding, EValueFinding, ExposureFinding};
pub use membership::{
    Accuracy, AccuracyRule, Area, AreaMethod, Attack, Beside, BlindBaseline, Combined, CopyStratum,
    DistinctTexts, Evidence, Frame, GroupRule, Instability, Lira, Need, Neighbours, OperatingPoint,
    Panel, Rate, Repeats, RocPoint, ScoreSet, ScoreTable, Scored, ScoredRecords, Scoring, Shadows,
    SideRepeats, Spread, ThresholdRule, TruePositives, blind_baseline, blind_baseline_of, chosen,
    combined, copies_among, digit_mutations, disjoint_groups, group_score, instability, lira,
    logit_of_confidence, logit_of_logits, lookalikes, min_k, non_members_needed,
    overlapping_groups_area, replacements, rmia, zlib_bytes,
};
pub use null::ExposureNull;
pub use one_run::OneRunCounts;
pub use paired::{Crossings, ExposurePair, PairedEValue};
pub use perplexity::{Perplexity, RecordCost, perplexity, pseudo_perplexity};
pub use plan::{plan_search, plan_targets};
pub use rank_audit::{Assumption, EpsilonBound, EpsilonMethod, RankAudit, hit_probability, hits};
pub use rates::{RateCounts, RatioMethod, Sides, accuracy_ceiling};
pub use sampled::{SampledExposure, Sampling, sampled_exposures};
pub use scoring::windows;
pub use search::{
    CandidateTree, FlatSample, Progress, RankCount, Ranking, SearchOptions, Target, Work,
    flat_ranks, sample_flat, search_beliefs, search_ranks,
};
pub use skew_normal::SkewNormal;
pub use statistics::sign_test;
