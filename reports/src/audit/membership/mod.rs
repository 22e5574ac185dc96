//! `audit membership`: what scores of members and non-members prove.

pub mod args;
mod attacks;
mod figure;
mod page;
mod read;
#[cfg(feature = "audit")]
pub(super) mod run;
#[cfg(feature = "audit")]
pub(super) mod shadow;
mod shadows;
mod tables;

pub use attacks::{AttackRow, Attacks, GroupedArea, HeatLine, LeftOut};
#[cfg(feature = "audit")]
pub(super) use attacks::{Attacked, Records};
pub use shadows::{AttackSpread, ShadowTraining};

use super::args::MembershipArgs;
use super::{RecordsDigest, ends};
use crate::contract::{AtomicFile, Csv, Envelope, Exit, Inputs, Interrupt, open_limit};
use crate::page::Output;
use anyhow::{Context, Result};
use read::{TEXTS_ALONE, Table};
use reticent_accounting::Confidence;
use reticent_attacks::membership::{
    Accuracy, AccuracyRule, Area, BlindBaseline, CopyStratum, OperatingPoint, Repeats, RocPoint,
    ScoreSet, ScoredRecords,
};
use schemars::JsonSchema;
use serde::Serialize;

/// The number of points of the band, evenly spaced over the logarithm of the false-positive rate.
const BAND: usize = 48;
/// The most corners of the curve in a document.
pub(super) const CORNERS: usize = 400;

/// The band of the curve at one false-positive rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct BandPoint {
    /// The rate.
    pub fpr: f64,
    /// The true-positive rate is at least this.
    pub lower: f64,
    /// And at most this.
    pub upper: f64,
}

/// The result of `audit membership`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MembershipReport {
    /// Records that were in.
    pub members: usize,
    /// Records that were not.
    pub non_members: usize,
    /// Groups of records that are not independent evidence; absent if none were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<usize>,
    /// How the texts repeat; absent without texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Repeats>,
    /// Which records were judged; absent for scores without texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<RecordsDigest>,
    /// The conclusion.
    pub signal: Signal,
    /// The attack that shows it best, and the lower end of its area at the confidence of the conclusion; without a name for
    /// given scores.
    #[serde(skip)]
    pub shown_by: (String, f64),
    /// The area under the ROC curve.
    pub area: Area,
    /// The largest lower end of the area that so many records can show, whatever the scores: a sign of membership needs
    /// one above 1/2.
    pub provable_area: f64,
    /// The same at the confidence of the intervals that a limit meets.
    #[serde(skip)]
    pub passable_area: f64,
    /// What a limit meets: the lower ends of all areas, of which together none is wrong with the confidence, and what each is
    /// the area of: the attack that decides, another one, or the members with so many copies.
    #[serde(skip)]
    pub limit_ends: Vec<(String, f64)>,
    /// True positives at certified false-positive rates.
    pub at_fpr: Vec<OperatingPoint>,
    /// Accuracy at a threshold not chosen on these records; absent if they are too few.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<Accuracy>,
    /// The attack that decides by the members' number of copies in the training text (in --members where --training is not
    /// given); absent where every text stands there once, or without texts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CopyStratum>,
    /// What the texts alone show; absent without texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blind: Option<BlindBaseline>,
    /// Why it is unknown what the texts alone show, so a difference between the two sets would look like a leak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_blind: Option<String>,
    /// Corners of the curve, thinned to some hundreds.
    pub roc: Vec<RocPoint>,
    /// Its pointwise band.
    pub band: Vec<BandPoint>,
    /// The probability with which each interval holds.
    pub confidence: Confidence,
    /// Every attack run on a model, including the one above; absent for given scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attacks: Option<Attacks>,
}

/// What the scores say, at the stated confidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Signal {
    /// Members score higher than chance explains.
    Leak,
    /// They do, but the texts alone tell as much: the two sets themselves differ.
    ShiftedSplit,
    /// Members score lower: the sign of the scores is reversed.
    Reversed,
    /// Nothing beyond chance; not that nothing leaks.
    Unseen,
    /// All scores are equal up to rounding, and so distinguish no records.
    Alike,
}

/// Reads the scores, evaluates them and prints the report.
///
/// # Errors
/// Returns an error if files can't be read, scores are not numbers, or there are too few records.
pub fn run(args: &MembershipArgs, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    args.on.text.check(&[])?;
    let confidence = super::confidence(args.confidence)?;
    let outputs = Outputs::open(args, output)?;
    let table = read::read(args)?;
    interrupt.check()?;
    let report = MembershipReport::of(table, args, confidence)?;
    interrupt.check()?;
    outputs.finish(args, &report, &Details::default())
}

/// Output that accompanies the document of a report on a model.
#[derive(Debug, Default)]
pub(in crate::audit) struct Details {
    /// The heat map of the members with the highest scores.
    pub(in crate::audit) heat: Vec<HeatLine>,
    /// The scores of all records, as CSV.
    pub(in crate::audit) scores: String,
}

/// The output files, opened before the work so that an unwritable path is reported at once.
pub(super) struct Outputs {
    plot: Option<AtomicFile>,
    scores: Option<AtomicFile>,
    output: Output,
}

impl Outputs {
    pub(super) fn open(args: &MembershipArgs, output: Output) -> Result<Self> {
        let plot = args.plot.as_deref().map(AtomicFile::create);
        let scores = args.on.scores_out.as_deref();
        let scores = scores.map(|path| AtomicFile::create_new(path, args.on.force, &[]));
        Ok(Self {
            plot: plot.transpose().context("--plot")?,
            scores: scores.transpose().context("--scores-out")?,
            output: output.and_page(args.html.as_deref())?,
        })
    }

    /// Writes the files, prints the report and returns its exit code.
    pub(super) fn finish(
        self,
        args: &MembershipArgs,
        report: &MembershipReport,
        details: &Details,
    ) -> Result<Exit> {
        let inputs = inputs(args, report.confidence)?;
        if let Some(file) = self.plot {
            let svg = figure::roc(report)?.to_svg()?;
            file.finish_with(svg).context("--plot")?;
        }
        if let Some(file) = self.scores {
            file.finish_with(&details.scores).context("--scores-out")?;
        }
        let exit = report.exit(args.max_auc);
        self.output.answer_with_rows(
            &Envelope::new("membership", inputs.clone(), report),
            &page::page(report, args, exit, &details.heat, &inputs)?,
            || Ok(Csv::of_facts(report, &["roc", "band"])?),
        )?;
        open_limit(exit, report.undecided(args.max_auc))
    }
}

fn inputs(args: &MembershipArgs, confidence: Confidence) -> Result<Inputs> {
    let given = (!args.fpr.is_empty()).then(|| args.fpr.clone());
    let inputs = Inputs::new()
        .given_path("scores", args.scores.as_deref())?
        .given_path("members", args.members.as_deref())?
        .given_path("non_members", args.non_members.as_deref())?
        .given_path("training", args.on.training.as_deref())?
        .given("text_field", args.on.text.text_field.as_deref())?
        .given("lower_is_member", args.lower_is_member)?;
    Ok(args
        .on
        .of
        .given(inputs)?
        .given_shown("reference", args.on.reference.as_ref())?
        .given_shown("neighbour_texts", args.on.neighbours.as_ref())?
        .given("max_auc", args.max_auc)?
        .given("threshold", args.threshold)?
        .given("seed", args.seed)?
        .or_assumed("fpr", given, rates(args))?
        .or_assumed("confidence", args.confidence, confidence)?)
}

/// Returns the strata of members by copies; empty if every text occurs once.
fn by_copies(
    set: &ScoreSet,
    copies: &[u64],
    args: &MembershipArgs,
    confidence: Confidence,
) -> Result<Vec<CopyStratum>> {
    if copies.iter().all(|count| *count == 1) {
        return Ok(Vec::new());
    }
    Ok(set.by_copies(copies, &rates(args), confidence, args.seed)?)
}

/// Returns the lower end of the area if the scores separated all members from all non-members.
fn provable(set: &ScoreSet, confidence: Confidence, seed: u64) -> Result<f64> {
    let area = set.separated().area(confidence, seed)?;
    Ok(ends(&area.bounds).0)
}

/// Returns the option to name when a grouping is refused.
fn grouped_by(args: &MembershipArgs) -> &'static str {
    match (&args.on.group_by, &args.scores) {
        (Some(_), _) => "--group-by",
        (None, Some(_)) => "--scores",
        (None, None) => "--members and --non-members",
    }
}

fn rates(args: &MembershipArgs) -> Vec<f64> {
    if args.fpr.is_empty() {
        vec![0.01, 0.001]
    } else {
        args.fpr.clone()
    }
}

impl MembershipReport {
    pub(super) fn of(table: Table, args: &MembershipArgs, confidence: Confidence) -> Result<Self> {
        let digest = match &table.texts {
            Some([members, others]) => RecordsDigest::of(&[members, others])?,
            None => None,
        };
        let (said_apart, has_classes) = (table.said_apart, table.classes.is_some());
        let Table {
            scores,
            groups,
            texts,
            classes,
            ..
        } = table;
        let records = ScoredRecords::of(scores, groups, texts, classes, args.seed);
        let records = records.context("text")?;
        let set = records.set()?;
        let mut report = Self::of_set(&set, args, confidence)?;
        if let Some(copies) = &records.copies {
            report.copies = by_copies(&set, copies, args, confidence)?;
            report.meet_limit(&[("", &set)], copies, args)?;
        }
        report.records = digest;
        report.repeats = records.repeats;
        let blind = records.blind(confidence, args.seed);
        // With too few texts to fit and to judge, this is noted and the rest is still reported.
        let (blind, few) = match blind {
            Ok(blind) => (blind, None),
            Err(error) => (None, Some(error.to_string())),
        };
        report.blind = blind;
        match &report.blind {
            Some(blind) => report.signal = Signal::of(&set, &report.area, Some(blind)),
            None => {
                let without = match has_classes {
                    true => {
                        "the scores come without texts (a column text), which their column class needs too"
                    }
                    false => "the scores come without texts (a column text)",
                };
                report.no_blind = Some(match (few, said_apart) {
                    (Some(few), _) => few,
                    (None, true) => format!(
                        "{without}, and their column {TEXTS_ALONE} says that the texts alone do so too"
                    ),
                    (None, false) => without.to_owned(),
                });
            }
        }
        Ok(report)
    }

    /// Returns the report of a single set of scores.
    fn of_set(set: &ScoreSet, args: &MembershipArgs, confidence: Confidence) -> Result<Self> {
        let seed = args.seed;
        let area = set.area(confidence, seed).context("group")?;
        let provable_area = provable(set, confidence, seed).context("group")?;
        let points = rates(args).into_iter();
        let at_fpr = points
            .map(|fpr| set.true_positives_at(fpr, confidence, seed))
            .collect::<Result<_, _>>()?;
        // The threshold is compared with scores whose sign was changed.
        let turn = |t: f64| if args.lower_is_member { -t } else { t };
        let accuracy = match args.threshold {
            Some(threshold) => {
                let rule = AccuracyRule::Fixed(turn(threshold));
                Some(set.accuracy(rule, confidence, seed)?)
            }
            None => set.accuracy(AccuracyRule::Split, confidence, seed).ok(),
        };
        Ok(Self {
            members: set.members().len(),
            non_members: set.non_members().len(),
            groups: set.groups(),
            repeats: None,
            records: None,
            signal: Signal::of(set, &area, None),
            shown_by: (String::new(), ends(&area.bounds).0),
            area,
            provable_area,
            passable_area: provable_area,
            limit_ends: vec![(String::new(), ends(&area.bounds).0)],
            at_fpr,
            accuracy,
            copies: Vec::new(),
            blind: None,
            no_blind: None,
            roc: thinned(set.roc()),
            band: band(&set.thinned(seed), confidence)?,
            confidence,
            attacks: None,
        })
    }

    /// Returns the page of attacks on a model, for every format.
    #[cfg(feature = "audit")]
    pub(super) fn to_page(
        &self,
        args: &MembershipArgs,
        heat: &[HeatLine],
    ) -> Result<crate::page::Page> {
        let inputs = inputs(args, self.confidence)?;
        page::page(self, args, self.exit(args.max_auc), heat, &inputs)
    }

    /// Returns 1 if an AUC certainly exceeds the limit.
    pub(super) fn exit(&self, limit: Option<f64>) -> Exit {
        Exit::of(limit.is_some_and(|limit| self.above(limit).is_some()))
    }

    /// The first area that is certainly above a limit.
    pub(super) fn above(&self, limit: f64) -> Option<String> {
        let mut ends = self.limit_ends.iter();
        let found = ends.find(|(_, end)| *end > limit);
        found.map(|(of, _)| of.clone())
    }

    /// Computes the ends that are compared with a limit, each at its share of the failure probability: those of the
    /// attacks, of which the first decides, and those of its members by copies.
    pub(super) fn meet_limit(
        &mut self,
        attacks: &[(&str, &ScoreSet)],
        copies: &[u64],
        args: &MembershipArgs,
    ) -> Result<()> {
        let Some((_, first)) = attacks.first() else {
            return Ok(());
        };
        let intervals = attacks.len() + self.copies.len();
        let each = self.confidence.shared_by(intervals as u64)?;
        let mut found = Vec::new();
        for (number, (name, set)) in attacks.iter().enumerate() {
            let of = match number {
                0 => String::new(),
                _ => format!(" of {name}"),
            };
            found.push((of, ends(&set.area(each, args.seed)?.bounds).0));
        }
        for stratum in by_copies(first, copies, args, each)? {
            let of = format!(" of members with {} copies or more", stratum.from);
            found.push((of, ends(&stratum.area.bounds).0));
        }
        self.passable_area = provable(first, each, args.seed)?;
        self.limit_ends = found;
        Ok(())
    }

    /// Returns whether it is not excluded that the texts alone distinguish the two sets as well as what shows the signal.
    pub(super) fn may_be_the_texts(&self) -> bool {
        self.blind
            .is_some_and(|blind| reaches(&blind, self.shown_by.1))
    }

    /// Returns whether the texts alone distinguish the two sets.
    pub(super) fn is_shifted(&self) -> bool {
        self.blind.is_some_and(|blind| blind.shifted)
    }
}

impl Signal {
    /// The interval decides: scores that are equal up to rounding distinguish the sets where their area certainly differs
    /// from 1/2.
    pub(super) fn of(set: &ScoreSet, area: &Area, blind: Option<&BlindBaseline>) -> Self {
        let (lower, upper) = ends(&area.bounds);
        if upper < 0.5 {
            return Self::Reversed;
        }
        if lower <= 0.5 {
            return if set.is_alike() {
                Self::Alike
            } else {
                Self::Unseen
            };
        }
        match blind {
            Some(blind) if blind.shifted && reaches(blind, lower) => Self::ShiftedSplit,
            _ => Self::Leak,
        }
    }
}

/// Returns whether the texts alone may distinguish the two sets as well as an attack with this lower end of its area.
fn reaches(blind: &BlindBaseline, lower: f64) -> bool {
    ends(&blind.area.bounds).1 >= lower
}

/// Keeps at most some hundreds of corners: the first one of each step of a logarithmic grid.
fn thinned(roc: Vec<RocPoint>) -> Vec<RocPoint> {
    if roc.len() <= CORNERS {
        return roc;
    }
    let last = roc.len() - 1;
    let cell = |p: &RocPoint| {
        (
            (p.fpr.max(1e-9).ln() * 16.0).floor(),
            (p.tpr * 64.0).floor(),
        )
    };
    let mut kept: Vec<RocPoint> = Vec::new();
    for (index, point) in roc.into_iter().enumerate() {
        let new = kept
            .last()
            .is_none_or(|before| cell(before) != cell(&point));
        if new || index == last {
            kept.push(point);
        }
    }
    kept
}

fn band(set: &ScoreSet, confidence: Confidence) -> Result<Vec<BandPoint>> {
    let least = (0.5 / set.non_members().len() as f64).ln();
    (0..BAND)
        .map(|i| {
            let fpr = (least * (1.0 - i as f64 / BAND as f64)).exp();
            let (lower, upper) = set.roc_band(fpr, confidence, 0)?;
            Ok(BandPoint { fpr, lower, upper })
        })
        .collect()
}

#[cfg(test)]
mod tests;
