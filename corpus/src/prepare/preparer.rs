//! The pipeline with everything settled that depends on the corpus as a whole.

use super::facts::Facts;
use super::options::{CanarySight, PrepareOptions};
use super::record_work::Work;
use super::run::Run;
use crate::canary::{CanaryPlace, CanaryPlan, insert};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::policy::{
    Conservative, Policy, PolicyOptions, Simulated, Spare, missed_strings, resolved,
};
use crate::random::{Choices, Purpose};
use crate::record::{Record, Side, TokenId, TrainingSet};
use crate::split::units;
use crate::tokenize::Tokenizer;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// A prepared corpus: what training reads, and how it came about.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The training set.
    pub training: TrainingSet,
    /// For each record of the training set, the number of its unit among all units.
    pub points: Vec<u64>,
    /// For each record of the training set, its redacted text.
    pub texts: Vec<String>,
    /// Held-out records: redacted in the same way, not deduplicated, points that are only
    /// `<MASK>` left out.
    pub held_out: Vec<Record>,
    /// Their redacted texts.
    pub held_out_texts: Vec<String>,
    /// What was done, in numbers.
    pub facts: Facts,
    /// What was asked for.
    pub options: PrepareOptions,
    /// The canaries, if any were planted.
    pub plan: Option<CanaryPlan>,
    /// The tokenizer.
    pub tokenizer: Tokenizer,
}

/// Prepares a corpus: split, tokenise, deduplicate, redact, take sides.
///
/// 1. A share of the documents is held out; canaries are planted in the others.
/// 2. Documents are cut into whole units, and each unit into tokens.
/// 3. A unit whose tokens were there before becomes a single `<MASK>`.
/// 4. Spans of the policy, widened to whole tokens, become one `<MASK>` each; touching ones
///    become one.
/// 5. A record is private when it holds a `<MASK>`, or when the conservative policy flags it
///    **as it was before redaction**; else public.
///
/// Source: Zhao et al. 2022 (CRT), Algorithm 1 and appendix A.6.
///
/// ```
/// use reticent_corpus::{PrepareOptions, prepare, simulate};
/// let prepared = prepare(&simulate(20, 0)?, &PrepareOptions::default())?;
/// let facts = &prepared.facts;
/// assert_eq!(facts.public + facts.private, facts.units);
/// assert_eq!(facts.secrets.all.missed, 0);
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
///
/// # Errors
/// Options outside their range, spans that do not fit, a corpus without text, and whatever
/// the tokenizer, the patterns or the canary plan object to.
pub fn prepare(documents: &[Document], options: &PrepareOptions) -> Result<Prepared> {
    Preparer::new(documents, options)?.run()
}

/// The pipeline with everything fixed that depends on the corpus as a whole: which documents
/// are held out, where the canaries are, which secrets a simulated policy misses.
///
/// Neighbouring corpora are prepared by one preparer: these choices are part of the mechanism.
#[derive(Debug)]
pub struct Preparer {
    pub(super) options: PrepareOptions,
    pub(super) tokenizer: Tokenizer,
    /// The redaction policy before simulated errors.
    pub(super) base: Arc<dyn Policy>,
    /// The one that runs.
    pub(super) policy: Simulated,
    conservative: Conservative,
    documents: Vec<Document>,
    held_out: Vec<Document>,
    pub(super) plan: Option<CanaryPlan>,
    pub(super) places: Vec<CanaryPlace>,
}

impl Preparer {
    /// Holds documents out, plants canaries, settles what the policy misses.
    ///
    /// # Errors
    /// As [`prepare`].
    pub fn new(documents: &[Document], options: &PrepareOptions) -> Result<Self> {
        Self::with_plan(documents, options, None)
    }

    /// The same with a canary plan made elsewhere, instead of the options' canaries.
    ///
    /// # Errors
    /// As [`prepare`], and a plan for another unit.
    pub fn with_plan(
        documents: &[Document],
        options: &PrepareOptions,
        plan: Option<CanaryPlan>,
    ) -> Result<Self> {
        options.validate()?;
        let tokenizer = options.tokenizer.build()?;
        let (documents, held_out) = hold_out(documents, options);
        let base = options.policy.policy.build()?;
        // Before canaries are planted: they are not among the m secrets.
        let missed = missed(&documents, &held_out, options, base.as_ref(), &tokenizer)?;
        let plan = match (plan, &options.canaries) {
            (Some(plan), _) => Some(checked(plan, options)?),
            (None, Some(canaries)) => Some(CanaryPlan::new(canaries, options.unit, &documents)?),
            (None, None) => None,
        };
        let (documents, places) = match &plan {
            Some(plan) => insert(plan, &documents)?,
            None => (documents, Vec::new()),
        };
        let marks = plan.as_ref().map_or_else(Vec::new, CanaryPlan::marks);
        let spare = Spare::new(&marks)?;
        let sight = options.canary_sight;
        let by_policy = spare.clone().filter(|_| sight != CanarySight::Ordinary);
        let by_both = spare.filter(|_| sight == CanarySight::MissedByBoth);
        let rate = options.policy.false_positive_rate;
        Ok(Self {
            policy: Simulated::new(base.clone(), missed, rate, options.policy.seed)?
                .sparing(by_policy),
            conservative: Conservative::new(options.conservative.as_ref(), &base)?.sparing(by_both),
            options: options.clone(),
            tokenizer,
            base,
            documents,
            held_out,
            plan,
            places,
        })
    }

    /// The training documents, canaries in place.
    #[must_use]
    pub fn documents(&self) -> &[Document] {
        &self.documents
    }

    /// The documents held out.
    #[must_use]
    pub fn held_out_documents(&self) -> &[Document] {
        &self.held_out
    }

    /// Prepares the training documents.
    ///
    /// # Errors
    /// As [`prepare`].
    pub fn run(&self) -> Result<Prepared> {
        self.run_on(&self.documents)
    }

    /// Prepares a neighbour of the training documents: the same documents with other spans
    /// masked, for instance by [`crate::mask_secret`].
    ///
    /// # Errors
    /// As [`prepare`].
    pub fn run_on(&self, documents: &[Document]) -> Result<Prepared> {
        let mut run = Run::new(self, documents)?;
        for (number, document) in documents.iter().enumerate() {
            for unit in units(document, number, self.options.unit)? {
                run.unit(&unit)?;
            }
        }
        if run.facts.units == 0 {
            return Err(Error::Empty(
                "no training document has text in it".to_owned(),
            ));
        }
        Ok(run.finish(self.prepare_held_out(&self.held_out)?))
    }

    /// Prepares text for evaluation: the same steps without deduplication, points that are
    /// only `<MASK>` left out. Gives the records and their redacted texts.
    ///
    /// # Errors
    /// As [`prepare`].
    pub fn prepare_held_out(&self, documents: &[Document]) -> Result<(Vec<Record>, Vec<String>)> {
        let mut records = Vec::new();
        let mut texts = Vec::new();
        for (number, document) in documents.iter().enumerate() {
            for unit in units(document, number, self.options.unit)? {
                let mut work = Work::new(&unit, &self.tokenizer)?;
                let made = self.shape(&mut work);
                if let Some(record) = self.record(made) {
                    records.push(record);
                    texts.push(work.text());
                }
            }
        }
        Ok((records, texts))
    }

    /// Redacts one unit and takes its side.
    pub(super) fn shape(&self, work: &mut Work<'_>) -> Made {
        // Before redaction: what π has masked must not hide a record from π_c.
        let flagged = work.view(|view| self.conservative.flags(view));
        let (sensitive, uncaught) = if self.options.redact {
            work.redact(&self.policy);
            (Vec::new(), 0)
        } else {
            let found = work.found(&self.policy);
            (work.runs(&found), work.uncaught(&found))
        };
        let side = if flagged || work.any_mask() {
            Side::Private
        } else {
            Side::Public
        };
        Made {
            tokens: work.tokens(self.tokenizer.mask()),
            sensitive,
            uncaught,
            side,
            flagged,
        }
    }

    /// The record of a unit; none when it is only `<MASK>`.
    pub(super) fn record(&self, made: Made) -> Option<Record> {
        if made.tokens.is_empty() || made.tokens == [self.tokenizer.mask()] {
            return None;
        }
        let mut tokens = self.tokenizer.frame_tokens(made.tokens);
        if let Some(most) = self.options.max_tokens {
            tokens.truncate(most);
        }
        // behind the beginning of text, and no further than what is left of the record
        let framed = made.sensitive.into_iter().filter_map(|span| {
            let (start, end) = (span.start + 1, (span.end + 1).min(tokens.len()));
            (start < end).then_some(start..end)
        });
        Some(Record {
            side: made.side,
            sensitive: framed.collect(),
            tokens,
        })
    }
}

/// A unit after redaction.
pub(super) struct Made {
    /// Content tokens, before any cutting to length.
    pub(super) tokens: Vec<TokenId>,
    /// What the policy found in them, where it was not masked.
    pub(super) sensitive: Vec<Range<usize>>,
    /// Marked secrets outside of it.
    pub(super) uncaught: u64,
    pub(super) side: Side,
    /// By the conservative policy.
    pub(super) flagged: bool,
}

/// Which documents are trained on and which held out: by number only.
fn hold_out(documents: &[Document], options: &PrepareOptions) -> (Vec<Document>, Vec<Document>) {
    let count = (options.held_out * documents.len() as f64).round() as usize;
    let chosen: HashSet<usize> = Choices::new(options.seed, Purpose::HoldOut)
        .distinct(documents.len(), count)
        .into_iter()
        .collect();
    let (out, kept): (Vec<_>, Vec<_>) = documents
        .iter()
        .cloned()
        .enumerate()
        .partition(|(number, _)| chosen.contains(number));
    let strip = |list: Vec<(usize, Document)>| list.into_iter().map(|(_, d)| d).collect();
    (strip(kept), strip(out))
}

fn checked(plan: CanaryPlan, options: &PrepareOptions) -> Result<CanaryPlan> {
    plan.validate()?;
    if plan.unit == options.unit {
        Ok(plan)
    } else {
        Err(Error::Plan(format!(
            "it was made for the unit {}, this corpus is prepared by {}",
            plan.unit, options.unit
        )))
    }
}

/// Which strings the simulated policy misses: a share of those in training, and the same
/// share of those that are held out only.
fn missed(
    documents: &[Document],
    held_out: &[Document],
    options: &PrepareOptions,
    base: &dyn Policy,
    tokenizer: &Tokenizer,
) -> Result<HashSet<String>> {
    let PolicyOptions {
        miss_rate, seed, ..
    } = options.policy;
    if miss_rate <= 0.0 {
        return Ok(HashSet::new());
    }
    let strings = |list| found_strings(list, options, base, tokenizer);
    let (trained, other) = (strings(documents)?, strings(held_out)?);
    let only_held_out = other.difference(&trained).map(String::as_str);
    let mut out = missed_strings(only_held_out, miss_rate, seed)?;
    out.extend(missed_strings(
        trained.iter().map(String::as_str),
        miss_rate,
        seed,
    )?);
    Ok(out)
}

/// Every distinct string the policy finds in the units of some documents.
fn found_strings(
    documents: &[Document],
    options: &PrepareOptions,
    base: &dyn Policy,
    tokenizer: &Tokenizer,
) -> Result<HashSet<String>> {
    let mut found = HashSet::new();
    for (number, document) in documents.iter().enumerate() {
        for unit in units(document, number, options.unit)? {
            let work = Work::new(&unit, tokenizer)?;
            work.view(|view| {
                for span in resolved(base, view) {
                    found.insert(view.text[span.start..span.end].to_owned());
                }
            });
        }
    }
    Ok(found)
}
