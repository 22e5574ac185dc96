//! Running the pipeline.

use super::facts::{Facts, SecretSource};
use super::options::{CanarySight, PrepareOptions};
use super::record_work::Work;
use super::secrets::{Outcome, SecretBook};
use super::stability::StageStability;
use crate::canary::{
    CANARY_KIND, CanaryPlace, CanaryPlan, CopyFate, CopyReport, Preflight, insert,
};
use crate::document::{Document, Offsets};
use crate::error::{Error, Result};
use crate::policy::{Conservative, Policy, Simulated, Spare, missed_strings};
use crate::random::{Choices, Purpose};
use crate::record::{Record, Side, TokenId, TrainingSet};
use crate::split::{UnitText, units};
use crate::tokenize::Tokenizer;
use sha1::{Digest, Sha1};
use std::collections::{HashMap, HashSet};
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
    options: PrepareOptions,
    tokenizer: Tokenizer,
    base: Arc<dyn Policy>,
    policy: Simulated,
    conservative: Conservative,
    documents: Vec<Document>,
    held_out: Vec<Document>,
    plan: Option<CanaryPlan>,
    places: Vec<CanaryPlace>,
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
        let missed = if options.policy.miss_rate > 0.0 {
            let found = found_strings(&documents, options, base.as_ref(), &tokenizer)?;
            missed_strings(
                found.iter().map(String::as_str),
                options.policy.miss_rate,
                options.policy.seed,
            )?
        } else {
            HashSet::new()
        };
        let plan = match (plan, &options.canaries) {
            (Some(plan), _) if plan.unit != options.unit => {
                return Err(Error::Plan(format!(
                    "it was made for the unit {}, this corpus is prepared by {}",
                    plan.unit, options.unit
                )));
            }
            (Some(plan), _) => Some(plan),
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
        let unseen = |by_policy: bool| {
            let blind = match sight {
                CanarySight::Ordinary => false,
                CanarySight::MissedByPolicy => by_policy,
                CanarySight::MissedByBoth => true,
            };
            spare.clone().filter(|_| blind)
        };
        Ok(Self {
            policy: Simulated::new(
                base.clone(),
                missed,
                options.policy.false_positive_rate,
                options.policy.seed,
            )?
            .sparing(unseen(true)),
            conservative: Conservative::new(options.conservative.as_ref(), &base)?
                .sparing(unseen(false)),
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
        let mut run = Run::new(self, documents);
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
        run.finish()
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
                if let Some(record) = self.record(made.tokens, made.side) {
                    records.push(record);
                    texts.push(work.text());
                }
            }
        }
        Ok((records, texts))
    }

    /// Redacts one unit and takes its side.
    fn shape(&self, work: &mut Work<'_>) -> Made {
        // Before redaction: what π has masked must not hide a record from π_c.
        let flagged = work.view(|view| self.conservative.flags(view));
        if self.options.redact {
            work.redact(&self.policy);
        }
        let side = if flagged || work.any_mask() {
            Side::Private
        } else {
            Side::Public
        };
        Made {
            tokens: work.tokens(self.tokenizer.mask()),
            side,
            flagged,
        }
    }

    /// The record of content tokens; none when they are only `<MASK>`.
    fn record(&self, content: Vec<TokenId>, side: Side) -> Option<Record> {
        if content.is_empty() || content == [self.tokenizer.mask()] {
            return None;
        }
        let mut tokens = self.tokenizer.frame_tokens(content);
        if let Some(most) = self.options.max_tokens {
            tokens.truncate(most);
        }
        Some(Record { side, tokens })
    }
}

/// A unit after redaction.
struct Made {
    tokens: Vec<TokenId>,
    side: Side,
    flagged: bool,
}

/// One pass over a corpus.
struct Run<'a> {
    preparer: &'a Preparer,
    seen: HashSet<[u8; 20]>,
    book: SecretBook,
    facts: Facts,
    records: Vec<Record>,
    points: Vec<u64>,
    texts: Vec<String>,
    /// Copies of canaries by document and first byte.
    copies: HashMap<(usize, usize), CanaryPlace>,
    reports: Vec<CopyReport>,
}

impl<'a> Run<'a> {
    fn new(preparer: &'a Preparer, documents: &[Document]) -> Self {
        let options = &preparer.options;
        let marked = |d: &Document| d.secrets.iter().any(|s| s.kind != CANARY_KIND);
        let source = if documents.iter().any(marked) {
            SecretSource::Gold
        } else {
            SecretSource::Detected
        };
        let book = SecretBook::new(source);
        let masked_input = documents.iter().any(|d| !d.masked.is_empty());
        let facts = Facts {
            unit: options.unit,
            vocabulary: preparer.tokenizer.origin(),
            vocabulary_size: preparer.tokenizer.vocabulary_size(),
            documents: documents.len() as u64,
            held_out_documents: preparer.held_out.len() as u64,
            units: 0,
            distinct_units: 0,
            duplicates: 0,
            public: 0,
            private: 0,
            mask_only: 0,
            redacted: 0,
            flagged: 0,
            truncated: 0,
            escaped: 0,
            cut_secrets: 0,
            loss_tokens: 0,
            secrets: book.facts(),
            stages: StageStability::of(
                options.deduplicate,
                options.max_tokens.is_some(),
                masked_input,
            ),
            canaries: None,
        };
        let copies = preparer
            .places
            .iter()
            .filter_map(|place| {
                let text = &documents.get(place.document)?.text;
                let at = Offsets::new(text).bytes(place.start, place.end)?.start;
                Some(((place.document, at), *place))
            })
            .collect();
        Self {
            preparer,
            seen: HashSet::new(),
            book,
            facts,
            records: Vec::new(),
            points: Vec::new(),
            texts: Vec::new(),
            copies,
            reports: Vec::new(),
        }
    }

    fn unit(&mut self, unit: &UnitText<'_>) -> Result<()> {
        let preparer = self.preparer;
        let mask = preparer.tokenizer.mask();
        let point = self.facts.units;
        self.facts.units += 1;
        let mut work = Work::new(unit, &preparer.tokenizer)?;
        let new = self.seen.insert(digest(&work.tokens(mask)));
        self.facts.distinct_units += u64::from(new);
        if !new && preparer.options.deduplicate {
            self.facts.duplicates += 1;
            self.facts.mask_only += 1;
            self.report(unit, |_| (CopyFate::Deduplicated, None));
            return Ok(());
        }
        let before = work.clone();
        let made = preparer.shape(&mut work);
        self.facts.escaped += u64::from(matches!(unit.text, std::borrow::Cow::Owned(_)));
        self.facts.cut_secrets += unit.secrets.iter().filter(|s| s.cut).count() as u64;
        self.facts.redacted += u64::from(work.any_mask());
        self.facts.flagged += u64::from(made.flagged);
        let redacted: Option<&dyn Policy> = preparer
            .options
            .redact
            .then_some(&preparer.policy as &dyn Policy);
        self.book.enter(
            unit,
            &before,
            preparer.base.as_ref(),
            redacted,
            &Outcome {
                tokens: &made.tokens,
                side: made.side,
                flagged: made.flagged,
                mask,
            },
        );
        let whole = made.tokens.len() + 2;
        let side = made.side;
        let Some(record) = preparer.record(made.tokens, side) else {
            self.facts.mask_only += 1;
            self.report(unit, |_| (CopyFate::Masked, None));
            return Ok(());
        };
        let length = record.tokens.len();
        self.facts.truncated += u64::from(length < whole);
        self.facts.loss_tokens += length as u64 - 1;
        let number = self.records.len() as u64;
        self.report(unit, |range| {
            let touched = work.touched(range);
            let end = touched.last().map_or(0, |t| t + 1);
            if work.hides(range) {
                (CopyFate::Masked, None)
            } else if 1 + work.tokens_before(end, mask).len() > length {
                (CopyFate::Truncated, None)
            } else {
                (CopyFate::Kept, Some((number, side)))
            }
        });
        self.records.push(record);
        self.points.push(point);
        self.texts.push(work.text());
        Ok(())
    }

    /// Notes the fate of every canary copy in a unit.
    fn report(
        &mut self,
        unit: &UnitText<'_>,
        fate: impl Fn(&std::ops::Range<usize>) -> (CopyFate, Option<(u64, Side)>),
    ) {
        if self.copies.is_empty() {
            return;
        }
        for secret in unit.secrets.iter().filter(|s| s.kind == CANARY_KIND) {
            if let Some(place) = self.copies.get(&(unit.document, secret.at)) {
                let (fate, kept) = fate(&secret.range);
                self.reports.push(CopyReport {
                    canary: place.canary as u64,
                    copy: place.copy as u64,
                    fate,
                    record: kept.map(|(record, _)| record),
                    side: kept.map(|(_, side)| side),
                });
            }
        }
    }

    fn finish(mut self) -> Result<Prepared> {
        let preparer = self.preparer;
        let training = TrainingSet {
            unit: preparer.options.unit,
            records: self.records,
            mask_only: self.facts.mask_only,
        };
        self.facts.public = training.public_size();
        self.facts.private = training.private_size();
        self.facts.secrets = self.book.facts();
        self.facts.canaries = preparer
            .plan
            .as_ref()
            .map(|plan| Preflight::new(plan, self.reports));
        let (held_out, held_out_texts) = preparer.prepare_held_out(&preparer.held_out)?;
        Ok(Prepared {
            training,
            points: self.points,
            texts: self.texts,
            held_out,
            held_out_texts,
            facts: self.facts,
            options: preparer.options.clone(),
            plan: preparer.plan.clone(),
            tokenizer: preparer.tokenizer.clone(),
        })
    }
}

fn digest(tokens: &[TokenId]) -> [u8; 20] {
    let mut hash = Sha1::new();
    for token in tokens {
        hash.update(token.to_le_bytes());
    }
    hash.finalize().into()
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

/// Every distinct string the policy finds in the training documents.
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
                for span in crate::policy::resolved(base, view) {
                    found.insert(view.text[span.start..span.end].to_owned());
                }
            });
        }
    }
    Ok(found)
}
