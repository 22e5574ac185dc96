//! The exposure of canaries, as JSON, text and page.

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
pub use dose::Dose;
pub use pieces::{Column, MASKED_SECRET, exposure_plot, summary_table};
pub use sampled::{SampledCanary, SampledReport};
pub use sequential::{SequentialCanary, SequentialReport};

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
use serde::Serialize;
use std::collections::BTreeMap;

/// Evidence that training saw the canaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Planting {
    /// The run itself says so, under its owner's key where it is a checkpoint of ours.
    Planted,
    /// No copy of them reached training.
    NoCopy,
    /// The run does not know of them.
    NotTold,
    /// The run does not know of them, and every copy stands in the text that was given as its training text.
    UntoldText,
    /// Every copy stands in the text that was given as what others trained on.
    GivenText,
    /// Nothing: others trained the model.
    #[default]
    NotChecked,
}

impl Planting {
    /// Why ranks cannot speak for a promise: nothing is known to have been learned of the canaries. They can contradict
    /// one.
    const fn unplanted(self) -> Option<&'static str> {
        match self {
            Self::Planted | Self::GivenText | Self::NotChecked => None,
            Self::NoCopy => Some(
                "no copy of a canary reached training, so that the ranks say nothing about the promise",
            ),
            Self::NotTold | Self::UntoldText => Some(
                "the run was not told of these canaries, and which of its promises reach them is not known",
            ),
        }
    }

    /// What is to be said where no leak is seen.
    const fn caveat(self) -> Option<&'static str> {
        match self {
            Self::Planted | Self::UntoldText | Self::GivenText => None,
            Self::NoCopy => self.unplanted(),
            Self::NotTold => Some(
                "the run was not told of these canaries, and which of its promises reach them is not known; that training met them was not checked either, and ranks of canaries that it never met are chance whatever the model leaks",
            ),
            Self::NotChecked => Some(
                "that training met these canaries was not checked, and ranks of canaries that it never met are chance whatever the model leaks",
            ),
        }
    }

    /// What is known of them, where that is not all.
    const fn says(self) -> Option<&'static str> {
        match self {
            Self::UntoldText | Self::GivenText => Some(
                "every copy stands in the text of --training; that the model was trained on it is as you say",
            ),
            other => other.caveat(),
        }
    }

    /// What would decide a limit that is open as long as training is not known to have met the canaries.
    #[cfg(feature = "audit")]
    const fn remedy(self) -> &'static str {
        match self {
            Self::NoCopy => "; plant them again, where the policy leaves them",
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
    /// Whether the model reveals nothing about its canaries: then no number here says anything about a leak.
    #[serde(serialize_with = "as_bool", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<bool>")]
    pub inconclusive: Option<Silence>,
    /// That the manifest behind the promise is not authenticated; absent if it is, or if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
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
}

/// Why a model says nothing of its canaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// It gives one of them no finite perplexity.
    NoPerplexity,
    /// It gives every candidate of every canary the same.
    AllAlike,
    /// It ranks them lower than chance explains, which tells them from others too.
    Reversed,
}

impl Silence {
    /// In words.
    #[must_use]
    pub const fn why(self) -> &'static str {
        match self {
            Self::NoPerplexity => "the model gives its canaries no finite perplexity",
            Self::AllAlike => {
                "every candidate is as likely as the canary, so that the scores tell none from another"
            }
            Self::Reversed => {
                "the canaries rank lower than chance explains, as with scores of the opposite sign, or after unlearning"
            }
        }
    }
}

#[expect(clippy::ref_option, reason = "what serde asks for")]
fn as_bool<S: serde::Serializer>(
    silence: &Option<Silence>,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_bool(silence.is_some())
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
    /// A finding without a promise beside it.
    #[must_use]
    pub fn new(finding: ExposureFinding) -> Self {
        Self {
            doses: dose::doses(&finding),
            finding,
            canary_digest: None,
            ceiling: None,
            verdict: None,
            no_verdict: None,
            inconclusive: None,
            manifest: None,
            earlier: Vec::new(),
            secrets: None,
            limit: None,
            planting: Planting::default(),
        }
    }
    /// Takes back what speaks for a promise where the canaries are not known to have been planted; a contradiction stays.
    pub(super) fn without_praise(&mut self) {
        let Some(why) = self.planting.unplanted() else {
            return;
        };
        if self.verdict.as_ref().is_some_and(|v| !v.is_contradicted()) {
            self.verdict = None;
        }
        let contradicted = |c: &Ceiling| c.test.outcome == CeilingOutcome::Contradicted;
        if !self.ceiling.as_ref().is_some_and(contradicted) {
            self.ceiling = None;
        }
        if self.verdict.is_none() && self.no_verdict.is_none() {
            self.no_verdict = Some(why.to_owned());
        }
    }
    /// The limit, where an exposure is above it. It meets the exposure with ties counted against the
    /// canary, so that it is passed only by what is certain.
    fn passed_limit(&self) -> Option<f64> {
        let largest = self.finding.summary.max().lower();
        self.limit
            .filter(|limit| self.inconclusive.is_none() && largest > *limit)
    }
    /// The limit, where it is not known whether an exposure is above it.
    pub(super) fn open_limit(&self) -> Option<f64> {
        self.limit.filter(|_| self.limit_open_since().is_some())
    }
    /// Why it is not known whether an exposure is above the limit: nothing can be concluded, training is not known to have
    /// met the canaries, or ranks were left open.
    pub(super) fn limit_open_since(&self) -> Option<&'static str> {
        let limit = self.limit?;
        if let Some(silence) = self.inconclusive {
            return Some(silence.why());
        }
        if self.passed_limit().is_some() {
            return None;
        }
        let may_pass = self.finding.summary.max().upper() > limit;
        let cut_off = pieces::left_open(&self.finding).filter(|_| may_pass);
        self.unmet().or(cut_off)
    }
    /// Why ranks that show nothing keep no limit: training is not known to have met the canaries. A leak shows that it did.
    fn unmet(&self) -> Option<&'static str> {
        self.planting.caveat().filter(|_| !self.has_seen())
    }
    /// Why it is not known whether the limit is passed.
    #[cfg(feature = "audit")]
    pub(in crate::audit) fn undecided(&self) -> Option<String> {
        let (limit, why) = (self.limit?, self.limit_open_since()?);
        let cut_off = self.finding.canaries.iter().any(|c| c.unresolved > 0);
        let remedy = match self.unmet() {
            _ if self.inconclusive.is_some() => "",
            Some(_) => self.planting.remedy(),
            None if cut_off => "; give a larger --budget",
            None => "",
        };
        Some(format!(
            "--max-exposure: whether the largest exposure is above {limit} is not known, since {why}{remedy}"
        ))
    }
    /// The exit code: 1 when a promise is contradicted, or when the largest exposure is above the limit.
    #[must_use]
    pub fn exit(&self) -> Exit {
        let verdict = self.verdict.as_ref().map_or(Exit::Finished, Verdict::exit);
        let ceiling = match &self.ceiling {
            Some(c) if c.test.outcome == CeilingOutcome::Contradicted => Exit::Exceeded,
            _ => Exit::Finished,
        };
        let limit = match self.passed_limit() {
            Some(_) => Exit::Exceeded,
            None => Exit::Finished,
        };
        verdict.or(ceiling).or(limit)
    }
    /// Whether the ranks show a leak.
    pub(super) fn has_seen(&self) -> bool {
        Leak::of(&self.finding.summary).is_seen() || self.finding.bound().lower.get().get() > 0.0
    }
    /// Whether any exposure could be above a limit.
    pub(super) fn could_pass(&self, limit: f64) -> bool {
        can_exceed(self.finding.candidates, limit)
    }
    /// Why ranks that show nothing say nothing either, where so few canaries or candidates, a promise or a limit are the
    /// reason.
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
    /// What the ranks could have said.
    fn reach(&self) -> Reach {
        Reach {
            leak: self.could_show(),
            promise: self.verdict.as_ref().map(Verdict::could_contradict),
            limit: self.limit.map(|limit| self.could_pass(limit)),
        }
    }
    /// Whether ranks of so many canaries among so many candidates could have shown a leak.
    pub(super) fn could_show(&self) -> bool {
        let finding = &self.finding;
        let ranks = 0..finding.canaries.len() as u64;
        let best: Vec<RankCount> = ranks
            .map(|below| RankCount {
                candidates: finding.candidates,
                nll: 0.0,
                below: below.min(finding.candidates - 1),
                ties: 0,
                unresolved: 0,
            })
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
    /// How the page is set off. A promise or a limit speaks of a leak where it could be contradicted or passed, and ranks
    /// that show nothing are open where they say nothing either.
    #[must_use]
    pub fn mood(&self) -> Mood {
        let unknown = pieces::left_open(&self.finding).is_some()
            || self.planting.caveat().is_some()
            || Leak::of(&self.finding.summary) == Leak::Undecided;
        let otherwise = match self.inconclusive.is_some() || self.open_limit().is_some() {
            true => Mood::Open,
            false => Mood::of_leak(self.has_seen(), self.reach(), unknown),
        };
        Mood::of(self.exit(), otherwise)
    }
    /// The JSON document.
    #[must_use]
    pub fn document(&self, inputs: Inputs) -> Envelope<&Self> {
        Envelope::new("exposure", inputs, self)
    }
    /// A paragraph to be copied into a model card.
    #[must_use]
    pub fn card(&self) -> String {
        page::card(self)
    }
    /// What the ranks prove, beside what was promised.
    #[must_use]
    pub fn what_follows(&self) -> crate::page::Section {
        page::what_follows(self)
    }
    /// What was found, in a sentence: the same in every format.
    #[must_use]
    pub fn says(&self) -> String {
        page::summary(self)
    }
    /// The page, for every format.
    ///
    /// # Errors
    /// A plot without anything to show.
    pub fn to_page(&self, released: &str) -> anyhow::Result<crate::page::Page> {
        page::page(self, released)
    }
}

/// Why a limit, in bits, is of no use.
fn never_above(limit: f64) -> String {
    format!(
        "no exposure can be above the limit of {} bits",
        shortest(limit)
    )
}

/// Whether an exposure among so many candidates can be above a limit, in bits.
fn can_exceed(candidates: u64, limit: f64) -> bool {
    limit < (candidates as f64).log2()
}

/// What the exposures of a set of canaries say about a leak, at 5 % false alarms in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leak {
    /// The largest exposure is more than chance.
    Single,
    /// No single one stands out, but together they are more than chance.
    Together,
    /// One of the two is above what 95 % of models show that never saw them, which of two happens to more than 5 %.
    Undecided,
    /// Maximum and mean are what chance gives.
    Unseen,
}

impl Leak {
    /// Asks the maximum and the mean, 2.5 % each.
    #[must_use]
    pub fn of(summary: &ExposureSummary) -> Self {
        const EACH: f64 = 0.025;
        if summary.max().p_value() < EACH {
            Self::Single
        } else if summary.mean().p_value() < EACH {
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

    /// Whether there is one.
    #[must_use]
    pub const fn is_seen(self) -> bool {
        matches!(self, Self::Single | Self::Together)
    }
}

/// What exposure does not say; printed under every table of it.
#[must_use]
pub fn caveats() -> Vec<String> {
    [
        "Exposure near its null means that these canaries did not leak in this training run. It does not mean that nothing leaks.",
        "The maximum of several exposures is high by chance alone: read it against its own null, never alone.",
        "A canary stands for secrets inserted the same way and as often. A secret repeated more often, or in easier surroundings, can leak more.",
        "The lower bound on ε concerns all copies of one secret replaced at once; it is divided by the number of copies only under pure ε.",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests;
