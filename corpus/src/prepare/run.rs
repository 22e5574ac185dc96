//! One pass over a corpus.

use super::facts::{Facts, SecretSource};
use super::options::PrepareOptions;
use super::preparer::{Prepared, Preparer};
use super::record_work::Work;
use super::secrets::{Outcome, SecretBook};
use super::stability::StageStability;
use crate::canary::{CANARY_KIND, CanaryPlace, CopyFate, CopyReport, Preflight};
use crate::dedup::{Deduplication, Fate, digest};
use crate::document::{Document, Offsets};
use crate::error::Result;
use crate::policy::Policy;
use crate::record::{Record, Side, TokenId, TrainingSet};
use crate::split::{UnitText, units};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// The state of a pass.
pub(super) struct Run<'a> {
    preparer: &'a Preparer,
    seen: HashSet<[u8; 20]>,
    /// What becomes of each unit, where that takes a look at the whole corpus first.
    fates: Option<std::vec::IntoIter<Fate>>,
    masked_input: bool,
    book: SecretBook,
    pub(super) facts: Facts,
    records: Vec<Record>,
    points: Vec<u64>,
    texts: Vec<String>,
    /// Copies of canaries by document and first byte.
    copies: HashMap<(usize, usize), CanaryPlace>,
    /// What each canary is scored in, without the beginning of text.
    contexts: Vec<Vec<TokenId>>,
    reports: Vec<CopyReport>,
}

/// A canary copy that reached a record.
struct Arrival {
    record: u64,
    side: Side,
    /// The content tokens before the secret.
    before: Vec<TokenId>,
}

impl<'a> Run<'a> {
    pub(super) fn new(preparer: &'a Preparer, documents: &[Document]) -> Result<Self> {
        let marked = |d: &Document| d.secrets.iter().any(|s| s.kind != CANARY_KIND);
        let source = if documents.iter().any(marked) {
            SecretSource::Gold
        } else {
            SecretSource::Detected
        };
        let book = SecretBook::new(source, spreads(&preparer.options));
        let contexts = match &preparer.plan {
            Some(plan) => plan
                .canaries
                .iter()
                .map(|c| preparer.tokenizer.encode(&c.context))
                .collect::<Result<_>>()?,
            None => Vec::new(),
        };
        Ok(Self {
            facts: blank(preparer, documents, &book),
            preparer,
            seen: HashSet::new(),
            fates: fates(preparer, documents)?.map(Vec::into_iter),
            masked_input: documents.iter().any(|d| !d.masked.is_empty()),
            book,
            records: Vec::new(),
            points: Vec::new(),
            texts: Vec::new(),
            copies: copies(&preparer.places, documents),
            contexts,
            reports: Vec::new(),
        })
    }

    /// Takes one unit through all stages.
    pub(super) fn unit(&mut self, unit: &UnitText<'_>) -> Result<()> {
        let preparer = self.preparer;
        let mask = preparer.tokenizer.mask();
        let point = self.facts.units;
        self.facts.units += 1;
        let mut work = Work::new(unit, &preparer.tokenizer)?;
        let new = self.seen.insert(digest(&work.tokens(mask)));
        self.facts.distinct_units += u64::from(new);
        let fate = match &mut self.fates {
            Some(fates) => fates.next().unwrap_or(Fate::Drop),
            None if !new && preparer.options.deduplicate => Fate::Drop,
            None => Fate::Keep,
        };
        if fate == Fate::Drop {
            self.facts.duplicates += 1;
            self.facts.mask_only += 1;
            self.report(unit, |_| Err(CopyFate::Deduplicated));
            return Ok(());
        }
        if let Fate::Cut(ranges) = &fate {
            work.hide(ranges);
            self.facts.repeated += 1;
        }
        let before = work.clone();
        let made = preparer.shape(&mut work);
        self.facts.escaped += u64::from(unit.escaped());
        self.facts.cut_secrets += unit.secrets.iter().filter(|s| s.cut).count() as u64;
        self.facts.redacted += u64::from(work.any_mask());
        self.facts.flagged += u64::from(made.flagged);
        let policy: &dyn Policy = &preparer.policy;
        self.book.enter(
            unit,
            &before,
            preparer.base.as_ref(),
            preparer.options.redact.then_some(policy),
            &Outcome {
                tokens: &made.tokens,
                side: made.side,
                flagged: made.flagged,
                mask,
            },
        );
        self.facts.uncaught += made.uncaught;
        let (side, whole) = (made.side, made.tokens.len() + 2);
        let Some(record) = preparer.record(made) else {
            self.facts.mask_only += 1;
            self.report(unit, |_| Err(CopyFate::Masked));
            return Ok(());
        };
        let length = record.tokens.len();
        self.facts.truncated += u64::from(length < whole);
        self.facts.loss_tokens += length as u64 - 1;
        let number = self.records.len() as u64;
        self.report(unit, |secret| {
            let touched = work.touched(secret);
            let end = touched.last().map_or(0, |t| t + 1);
            if work.hides(secret) {
                Err(CopyFate::Masked)
            } else if 1 + work.tokens_before(end, mask).len() > length {
                Err(CopyFate::Truncated)
            } else {
                let start = touched.first().copied().unwrap_or(0);
                Ok(Arrival {
                    record: number,
                    side,
                    before: work.tokens_before(start, mask),
                })
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
        fate: impl Fn(&Range<usize>) -> std::result::Result<Arrival, CopyFate>,
    ) {
        if self.copies.is_empty() {
            return;
        }
        let whole = |s: &&crate::split::MarkedSecret<'_>| s.kind == CANARY_KIND && !s.cut;
        for secret in unit.secrets.iter().filter(whole) {
            let Some(place) = self.copies.get(&(unit.document, secret.at)) else {
                continue;
            };
            let fate = fate(&secret.range);
            let arrived = fate.as_ref().ok();
            self.reports.push(CopyReport {
                canary: place.canary as u64,
                copy: place.copy as u64,
                fate: fate.as_ref().err().copied().unwrap_or(CopyFate::Kept),
                record: arrived.map(|a| a.record),
                side: arrived.map(|a| a.side),
                in_context: arrived
                    .is_some_and(|a| self.contexts.get(place.canary) == Some(&a.before)),
            });
        }
    }

    /// The finished corpus with its held-out part.
    pub(super) fn finish(mut self, held_out: (Vec<Record>, Vec<String>)) -> Prepared {
        let preparer = self.preparer;
        let training = TrainingSet {
            unit: preparer.options.unit,
            records: self.records,
            mask_only: self.facts.mask_only,
        };
        let (held_out, held_out_texts) = held_out;
        self.facts.public = training.public_size();
        self.facts.private = training.private_size();
        self.facts.held_out_records = held_out.len() as u64;
        self.facts.held_out_tokens = held_out.iter().map(|r| r.tokens.len() as u64 - 1).sum();
        self.facts.secrets = self.book.facts();
        let options = &preparer.options;
        self.facts.stages = StageStability::of(
            options.deduplicate.then_some(&options.duplicates),
            options.max_tokens.is_some(),
            self.masked_input,
            usize::try_from(self.facts.units).unwrap_or(usize::MAX),
        );
        self.facts.canaries = preparer
            .plan
            .as_ref()
            .map(|plan| Preflight::new(plan, self.reports));
        Prepared {
            training,
            points: self.points,
            texts: self.texts,
            held_out,
            held_out_texts,
            facts: self.facts,
            options: preparer.options.clone(),
            plan: preparer.plan.clone(),
            tokenizer: preparer.tokenizer.clone(),
        }
    }
}

/// Facts before the first unit.
fn blank(preparer: &Preparer, documents: &[Document], book: &SecretBook) -> Facts {
    let options = &preparer.options;
    Facts {
        unit: options.unit,
        vocabulary: preparer.tokenizer.origin(),
        vocabulary_size: preparer.tokenizer.vocabulary_size(),
        documents: documents.len() as u64,
        held_out_documents: preparer.held_out_documents().len() as u64,
        units: 0,
        distinct_units: 0,
        duplicates: 0,
        repeated: 0,
        public: 0,
        private: 0,
        mask_only: 0,
        redacted: 0,
        flagged: 0,
        truncated: 0,
        escaped: 0,
        cut_secrets: 0,
        uncaught: 0,
        loss_tokens: 0,
        held_out_records: 0,
        held_out_tokens: 0,
        secrets: book.facts(),
        stages: Vec::new(),
        canaries: None,
    }
}

fn copies(places: &[CanaryPlace], documents: &[Document]) -> HashMap<(usize, usize), CanaryPlace> {
    places
        .iter()
        .filter_map(|place| {
            let text = &documents.get(place.document)?.text;
            let at = Offsets::new(text).bytes(place.start, place.end)?.start;
            Some(((place.document, at), *place))
        })
        .collect()
}

/// Whether one unit can decide what becomes of others that hold no copy of it.
fn spreads(options: &PrepareOptions) -> bool {
    options.deduplicate && options.duplicates != Deduplication::Exact
}

/// The fates that take a look at the whole corpus first; none where one pass tells them.
fn fates(preparer: &Preparer, documents: &[Document]) -> Result<Option<Vec<Fate>>> {
    let options = &preparer.options;
    if !spreads(options) {
        return Ok(None);
    }
    let tokens = unit_tokens(preparer, documents)?;
    options.duplicates.fates(&tokens, options.seed).map(Some)
}

/// The tokens of every unit before redaction.
pub(super) fn unit_tokens(
    preparer: &Preparer,
    documents: &[Document],
) -> Result<Vec<Vec<TokenId>>> {
    let mut out = Vec::new();
    for (number, document) in documents.iter().enumerate() {
        for unit in units(document, number, preparer.options.unit)? {
            let work = Work::new(&unit, &preparer.tokenizer)?;
            out.push(work.tokens(preparer.tokenizer.mask()));
        }
    }
    Ok(out)
}
