//! The exposure of canaries as JSON, text and page.

pub mod args;
mod attack;
mod dose;
mod facts;
mod page;
mod pieces;
pub(super) mod promise;
#[cfg(feature = "audit")]
pub(super) mod run;
mod sampled;
mod sequential;

pub use attack::Attack;
pub(in crate::audit) use attack::false_alarm_of_each;
#[cfg(feature = "audit")]
pub(in crate::audit) use attack::{EARLIER_UNKNOWN, TESTS, tokens_to_rank};
pub use dose::Dose;
pub(in crate::audit) use facts::{of_delta, of_promise, of_reached, of_verdict};
pub(in crate::audit) use pieces::or_masked;
#[cfg(feature = "audit")]
pub(in crate::audit) use pieces::secrets;
pub use pieces::{Column, MASKED_SECRET, exposure_plot, summary_table};
pub use promise::PromisedBy;
pub use sampled::{SampledCanary, SampledReport};
pub use sequential::{SequentialCanary, SequentialReport};

use crate::audit::can_show_leak;
use crate::contract::{Envelope, Exit, Inputs};
use crate::number::shortest;
use crate::page::{Mood, Mute, Reach};
use crate::verdict::{Mistake, Verdict};
use reticent_accounting::Upper;
use reticent_attacks::exposure::{
    CeilingOutcome, CeilingTest, EpsilonMethod, ExposureFinding, ExposureSummary,
};
use reticent_attacks::search::RankCount;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Evidence that training saw the canaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Planting {
    /// The run itself says so, under its owner's key where it is a checkpoint of ours.
    Planted,
    /// No copy of them reached training.
    NoCopy,
    /// The run's plan did not include them.
    #[serde(rename = "not-told")]
    NotPlanned,
    /// The run's plan did not include them, and every copy occurs in the text that was given as its training text.
    #[serde(rename = "untold-text")]
    UnplannedText,
    /// The run's plan did not include them, and every copy occurs in the records on which it was trained, by its owner's key.
    TrainedRecords,
    /// Every copy occurs in the text that was given as what others trained on.
    GivenText,
    /// Every copy had a loss in the batches of others' trainer, which were looked at before it began.
    Supervised,
    /// Nothing: others trained the model.
    #[default]
    NotChecked,
}

impl Planting {
    /// Returns why ranks can't support a promise, although they can contradict one: nothing is known to have been
    /// learned about the canaries.
    const fn unplanted(self) -> Option<&'static str> {
        match self {
            Self::Planted | Self::GivenText | Self::Supervised | Self::NotChecked => None,
            Self::NoCopy => Some(
                "no copy of a canary reached training, so that the ranks say nothing about the promise",
            ),
            Self::NotPlanned | Self::UnplannedText | Self::TrainedRecords => Some(
                "the run's plan did not include these canaries, and which of its promises reach them is not known",
            ),
        }
    }

    /// Returns a caveat for when no leak is seen: training is not known to have met the canaries. They keep no limit, with a
    /// leak either, which does not show that it met them all, and of which one in twenty is seen by chance.
    const fn caveat(self) -> Option<&'static str> {
        match self {
            Self::Planted | Self::TrainedRecords | Self::GivenText | Self::Supervised => None,
            Self::NoCopy => self.unplanted(),
            Self::NotPlanned => Some(
                "the run's plan did not include these canaries, and which of its promises reach them is not known; that training met them was not checked either, and ranks of canaries that it never met are chance whatever the model leaks",
            ),
            Self::UnplannedText => Some(
                "the run's plan did not include these canaries; every copy occurs in the text of --training, but that this checkpoint was trained on it is not known, and ranks of canaries that it never met are chance whatever the model leaks",
            ),
            Self::NotChecked => Some(
                "that training met these canaries was not checked, and ranks of canaries that it never met are chance whatever the model leaks",
            ),
        }
    }

    /// What is known of them, where that is not all.
    const fn says(self) -> Option<&'static str> {
        match self {
            Self::GivenText => Some(
                "every copy occurs in the text of --training; that the model was trained on it is as you say",
            ),
            Self::TrainedRecords => Some(
                "every copy occurs in the records of --training, and that the model was trained on them its owner's key says",
            ),
            Self::Supervised => Some(
                "every copy had a loss in the batches of the training, which were looked at before it began",
            ),
            other => other.caveat(),
        }
    }

    /// What would decide a limit that is open as long as training is not known to have met the canaries.
    #[cfg(feature = "audit")]
    const fn remedy(self) -> &'static str {
        match self {
            Self::NoCopy => "; plant them again, where the policy leaves them",
            Self::UnplannedText => {
                "; give as --training the prepared folder that the checkpoint was trained on, with its owner's folder beside the checkpoint"
            }
            _ => "; give --training, the text that was trained on",
        }
    }
}

/// What the accountant promises about ranks, and whether the measured ones are compatible with it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Ceiling {
    /// The exposure, bits, that no canary exceeds with probability at least `level` under the promise.
    pub exposure_at_most: Upper<f64>,
    /// That probability.
    pub level: f64,
    /// The test of the measured ranks.
    pub test: CeilingTest,
    /// Mistakes that would explain a contradiction, the likeliest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suspects: Vec<Mistake>,
}

impl Ceiling {
    fn is_contradicted(&self) -> bool {
        self.test.outcome == CeilingOutcome::Contradicted
    }
}

/// The result of `audit exposure`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ExposureReport {
    /// Ranks, exposures, nulls, the lower bound on ε, and what it cost.
    #[serde(flatten)]
    pub finding: ExposureFinding,
    /// SHA-256 of what the canaries are, hexadecimal: other canaries have another one. Absent in documents of earlier
    /// versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary_digest: Option<String>,
    /// What was promised about ranks; absent without a mechanism.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Ceiling>,
    /// Promise and measurement of ε side by side; absent without a promise in the same terms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Why there is no verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_verdict: Option<String>,
    /// Why the model says nothing about some of its canaries.
    #[serde(skip)]
    pub silence: Option<Silence>,
    /// Whether the model says nothing about some of its canaries, and the ranks neither show a leak nor contradict a
    /// promise: then no number here says anything about a leak.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inconclusive: bool,
    /// That the manifest behind the promise is not authenticated; absent if it is, or if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// The file that the promise is taken from; absent if a checkpoint of ours states it, or without a promise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promised_by: Option<PromisedBy>,
    /// The canaries by their number of copies, where that differs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doses: Vec<Dose>,
    /// The same canaries in earlier checkpoints, in the order given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Checkpoint>,
    /// The secrets by canary; only with `--show-secrets`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets: Option<BTreeMap<String, String>>,
    /// The exposure, bits, above which the command ends with 1; it stands among the inputs.
    #[serde(skip)]
    pub limit: Option<f64>,
    /// Evidence that training saw the canaries.
    pub planting: Planting,
    /// The canaries that training met, where these are known to be fewer than were planted: only they can show a leak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached: Option<u64>,
    /// Whether the ranks prove an ε above 0 with confidence 0.95 or more, whatever that of the bound: that shows a leak, and so
    /// that training met the canaries.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub proves_leak: bool,
}

/// Why a model says nothing about some of its canaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// It gives one of them no finite perplexity.
    NoPerplexity,
    /// It gives all candidates of every canary the same likelihood.
    AllAlike,
    /// It ranks them lower than chance explains, which also distinguishes them from the others.
    Reversed,
}

impl Silence {
    /// Returns the reason in words.
    #[must_use]
    pub const fn why(self) -> &'static str {
        match self {
            Self::NoPerplexity => "the model gives some of its canaries no finite perplexity",
            Self::AllAlike => {
                "every candidate is as likely as the canary, so that the scores tell none from another"
            }
            Self::Reversed => {
                "the canaries rank lower than chance explains, as with scores of the opposite sign, or after unlearning"
            }
        }
    }
}

/// An earlier checkpoint, with the same canaries.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Checkpoint {
    /// Its folder.
    pub model: String,
    /// A remark if it is not known to be of the same training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Its exposures.
    pub summary: ExposureSummary,
}

impl ExposureReport {
    /// Creates a report of a finding without a promise.
    #[must_use]
    pub fn new(finding: ExposureFinding) -> Self {
        let bound = finding.bound();
        Self {
            proves_leak: can_show_leak(bound.confidence) && bound.lower.get().get() > 0.0,
            doses: dose::doses(&finding),
            finding,
            canary_digest: None,
            ceiling: None,
            verdict: None,
            no_verdict: None,
            silence: None,
            inconclusive: false,
            manifest: None,
            promised_by: None,
            earlier: Vec::new(),
            secrets: None,
            limit: None,
            planting: Planting::default(),
            reached: None,
        }
    }
    /// Removes what supports a promise if the model is silent about a canary, if the canaries are not known to have been
    /// planted, or if ranks were left open; a contradiction stays. A silence leaves nothing to conclude where nothing is
    /// contradicted and no leak is seen.
    pub(super) fn without_praise(&mut self, silence: Option<Silence>) {
        let unplanted = self.planting.unplanted();
        let untested = unplanted.or_else(|| pieces::left_open(&self.finding));
        if silence.is_some() || untested.is_some() {
            self.verdict = self.verdict.take().filter(Verdict::is_contradicted);
            self.ceiling = self.ceiling.take().filter(Ceiling::is_contradicted);
        }
        let silent = self.verdict.is_none() && self.ceiling.is_none() && !self.has_seen();
        self.silence = silence;
        self.inconclusive = silence.is_some() && silent;
        if self.verdict.is_some() {
            return;
        }
        match (silence, untested) {
            (Some(silence), _) if self.inconclusive => {
                self.no_verdict = Some(format!("nothing can be concluded: {}", silence.why()));
            }
            (silence, untested) => {
                let why = silence.map(Silence::why).or(untested).map(str::to_owned);
                self.no_verdict = self.no_verdict.take().or(why);
            }
        }
    }
    /// Returns the limit, if an exposure exceeds it. The limit is compared with the exposure with ties counted against
    /// the canary, so that only a certain excess counts.
    fn passed_limit(&self) -> Option<f64> {
        let largest = self.finding.summary.max().lower();
        self.limit.filter(|limit| largest > *limit)
    }
    /// Returns the limit, if it is unknown whether an exposure exceeds it.
    pub(super) fn open_limit(&self) -> Option<f64> {
        self.limit.filter(|_| self.limit_open_since().is_some())
    }
    /// Returns why it is unknown whether an exposure exceeds the limit: nothing can be concluded, or ranks were left
    /// open.
    pub(super) fn limit_open_since(&self) -> Option<&'static str> {
        let limit = self.limit?;
        if self.passed_limit().is_some() {
            return None;
        }
        if let Some(silence) = self.silence {
            return Some(silence.why());
        }
        let may_pass = self.finding.summary.max().upper() > limit;
        let cut_off = pieces::left_open(&self.finding).filter(|_| may_pass);
        self.planting.caveat().or(cut_off)
    }
    /// Returns why it is unknown whether the limit is exceeded.
    #[cfg(feature = "audit")]
    pub(in crate::audit) fn undecided(&self) -> Option<String> {
        let (limit, why) = (self.limit?, self.limit_open_since()?);
        let cut_off = self.finding.canaries.iter().any(|c| c.unresolved > 0);
        let remedy = match self.planting.caveat() {
            _ if self.silence.is_some() => "",
            Some(_) => self.planting.remedy(),
            None if cut_off => "; give a larger --budget",
            None => "",
        };
        Some(not_known(limit, why, remedy))
    }
    /// Returns the exit code: 1 if a promise is contradicted or the largest exposure exceeds the limit.
    #[must_use]
    pub fn exit(&self) -> Exit {
        let verdict = self.verdict.as_ref().map_or(Exit::Finished, Verdict::exit);
        let ceiling = self.ceiling.as_ref().is_some_and(Ceiling::is_contradicted);
        verdict
            .or(Exit::of(ceiling))
            .or(Exit::of(self.passed_limit().is_some()))
    }
    /// Returns whether the ranks show a leak.
    pub(super) fn has_seen(&self) -> bool {
        Leak::of(&self.finding.summary).is_seen() || self.proves_leak
    }
    /// Returns whether any exposure could exceed a limit.
    pub(super) fn could_pass(&self, limit: f64) -> bool {
        can_exceed(self.finding.candidates, limit)
    }
    /// Returns why ranks that show nothing say nothing, if the reason is the small number of canaries or candidates, a
    /// promise or a limit.
    pub(super) fn mute(&self) -> Option<String> {
        Some(match self.reach().mute()? {
            Mute::Leak => {
                "so few canaries of so few candidates could show no leak, whatever their ranks"
                    .to_owned()
            }
            Mute::Limit => never_above(self.limit.unwrap_or_default()),
            Mute::Promise => "no ranks could have contradicted what is promised".to_owned(),
        })
    }
    /// Returns what the ranks could have shown.
    fn reach(&self) -> Reach {
        Reach {
            leak: self.could_show(),
            promise: self.verdict.as_ref().map(Verdict::could_contradict),
            limit: self.limit.map(|limit| self.could_pass(limit)),
        }
    }
    /// Returns whether ranks of this many canaries among this many candidates could have shown a leak: those that training
    /// met on the first ranks, the others in the middle.
    pub(super) fn could_show(&self) -> bool {
        let finding = &self.finding;
        let candidates = finding.candidates;
        let reached = self.reached.unwrap_or(u64::MAX);
        let ranks = (1..=finding.canaries.len() as u64).map(|rank| match rank <= reached {
            true => rank.min(candidates),
            false => candidates.div_ceil(2),
        });
        let best: Vec<RankCount> = ranks
            .map(|rank| RankCount::of_ranks(candidates, rank, rank))
            .collect();
        let provable = finding.e_value.as_ref().map_or(0.0, |found| {
            let deciding = match found.decides {
                EpsilonMethod::EValue => &found.provable,
                _ => &found.provable_by_ranks,
            };
            deciding.get().get()
        });
        provable > 0.0
            || ExposureSummary::of(&best, finding.draw)
                .is_ok_and(|summary| Leak::of(&summary).is_seen())
    }
    /// Returns the mood. A promise or a limit judges a leak if it could be contradicted or exceeded; ranks that show
    /// nothing are open if they could not have shown anything.
    #[must_use]
    pub fn mood(&self) -> Mood {
        let unknown = pieces::left_open(&self.finding).is_some()
            || self.silence.is_some()
            || self.planting.caveat().is_some()
            || Leak::of(&self.finding.summary) == Leak::Undecided;
        let otherwise = match self.inconclusive || self.open_limit().is_some() {
            true => Mood::Open,
            false => Mood::of_leak(self.has_seen(), self.reach(), unknown),
        };
        Mood::of(self.exit(), otherwise)
    }
    /// Returns the JSON document.
    #[must_use]
    pub fn document(&self, inputs: Inputs) -> Envelope<&Self> {
        Envelope::new("exposure", inputs, self)
    }
}

/// Says that a limit, in bits, is left open, and what would decide it.
#[cfg(feature = "audit")]
fn not_known(limit: f64, why: &str, remedy: &str) -> String {
    let (what, why) = ("the largest exposure", format!("{why}{remedy}"));
    crate::contract::not_known("--max-exposure", what, &limit.to_string(), &why)
}

/// Describes why a limit, in bits, has no effect.
fn never_above(limit: f64) -> String {
    format!(
        "no exposure can be above the limit of {} bits",
        shortest(limit)
    )
}

/// Returns whether an exposure among this many candidates can exceed a limit, in bits.
fn can_exceed(candidates: u64, limit: f64) -> bool {
    limit < (candidates as f64).log2()
}

/// What the exposures of a set of canaries say about a leak, at 5 % false alarms in total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leak {
    /// The largest exposure is higher than chance explains.
    Single,
    /// No single exposure stands out, but together they are higher than chance explains.
    Together,
    /// One of maximum and mean is above the value that 95 % of models stay below that never saw the canaries; for one
    /// of two, this happens to more than 5 %.
    Undecided,
    /// Maximum and mean are as expected by chance.
    Unseen,
}

impl Leak {
    /// The p of maximum or mean below which there is a leak.
    pub(in crate::audit) const EACH: f64 = 0.025;

    /// Tests the maximum and the mean at 2.5 % each.
    #[must_use]
    pub fn of(summary: &ExposureSummary) -> Self {
        if summary.max().p_value() < Self::EACH {
            Self::Single
        } else if summary.mean().p_value() < Self::EACH {
            Self::Together
        } else if [summary.max(), summary.mean()]
            .iter()
            .any(|of| of.lower() > of.null_95())
        {
            Self::Undecided
        } else {
            Self::Unseen
        }
    }

    /// Returns whether there is a leak.
    #[must_use]
    pub const fn is_seen(self) -> bool {
        matches!(self, Self::Single | Self::Together)
    }
}

/// What exposure does not say, printed under every table of exposures.
pub const CAVEATS: [&str; 4] = [
    "Exposure near its null means that these canaries did not leak in this training run. It does not mean that nothing leaks.",
    "The maximum of several exposures is high by chance alone: read it against its own null, never alone.",
    "A canary stands for secrets inserted the same way and as often. A secret repeated more often, or in easier surroundings, can leak more.",
    "The lower bound on ε concerns all copies of one secret replaced at once; it is divided by the number of copies only under pure ε.",
];

#[cfg(test)]
mod tests;
