//! The pipeline, after the choices that depend on the corpus as a whole.

use super::context::{Corpus, PreparationContext};
use super::facts::Facts;
use super::options::PrepareOptions;
use super::run::{Pass, Put, feed};
use super::sink::All;
use super::source::{Role, Source, again};
use crate::canary::CanaryPlan;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::record::{Record, TrainingSet, record_id};
use crate::redaction::default_threads;
use crate::tokenize::Tokenizer;
use std::borrow::Cow;
use std::cell::Cell;

/// A prepared corpus: the records for training, and how they were made.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The training set.
    pub training: TrainingSet,
    /// For each record of the training set, the number of its unit among all units.
    pub points: Vec<u64>,
    /// For each record of the training set, the number of its document among the training documents; `None` if a folder of
    /// an earlier version was read, which doesn't say.
    pub documents: Option<Vec<u64>>,
    /// For each record of the training set, its redacted text.
    pub texts: Vec<String>,
    /// Held-out records, redacted in the same way but not deduplicated, without points that are only `<MASK>`.
    pub held_out: Vec<Record>,
    /// For each held-out record, the number of its document among the held-out documents; `None` if a folder of an
    /// earlier version was read, which doesn't say.
    pub held_out_documents: Option<Vec<u64>>,
    /// The redacted texts of the held-out records.
    pub held_out_texts: Vec<String>,
    /// What the preparation did, in numbers.
    pub facts: Facts,
    /// The options of the preparation.
    pub options: PrepareOptions,
    /// The canaries, if any were planted.
    pub plan: Option<CanaryPlan>,
    /// The tokenizer.
    pub tokenizer: Tokenizer,
    /// Whether this is what was prepared: prepared by this process, or read from a folder that is authenticated under the
    /// owner's key. Otherwise whoever could write the folder may have changed it consistently.
    pub authenticated: bool,
}

impl Prepared {
    /// Returns the id of each training record, as in `train.jsonl`: `unit-NUMBER-DIGEST`, the number of its unit
    /// and 64 bits of the SHA-256 of its content, as [`record_id`] says.
    pub fn ids(&self) -> impl Iterator<Item = String> {
        let each = self
            .points
            .iter()
            .zip(&self.texts)
            .zip(&self.training.records);
        let loss_on = self.options.loss_on;
        each.map(move |((point, text), record)| record_id(*point, text, record, loss_on))
    }
}

/// Prepares a corpus: split, tokenise, deduplicate, redact, and assign sides.
///
/// 1. A share of the documents is held out; canaries are planted in the others.
/// 2. Documents are split into whole units, and each unit into tokens.
/// 3. A copy of an earlier unit becomes a single `<MASK>`. Exact copies agree in their text, marked spans, class and
///    where loss is; equal tokens are not enough.
/// 4. Each span that the policy finds becomes one `<MASK>`; touching ones become one. No token reaches over the end of
///    a span, so that the text around it does not depend on its content.
/// 5. A record is private if it contains a `<MASK>`, or if the conservative policy flags its text **as it was before
///    redaction**; otherwise it is public.
///
/// Source: Zhao et al. 2022 (CRT), Algorithm 1 and appendix A.6.
///
/// ```
/// use reticent_corpus::prepare::{PrepareOptions, prepare};
/// use reticent_corpus::simulate::simulate;
/// let prepared = prepare(&simulate(20, 0)?, &PrepareOptions::default())?;
/// let facts = &prepared.facts;
/// assert_eq!(facts.public + facts.private, facts.units);
/// assert_eq!(facts.secrets.all.missed, 0);
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
///
/// # Errors
/// Returns an error if options are outside their range, spans do not fit, the corpus has no text, or the tokenizer, the
/// patterns or the canary plan are invalid.
pub fn prepare(documents: &[Document], options: &PrepareOptions) -> Result<Prepared> {
    Preparer::new(documents, options)?.run()
}

/// The error of a preparation that was interrupted, which never happens in memory.
fn interrupted() -> Error {
    Error::Empty("interrupted".to_owned())
}

/// The pipeline with all choices fixed that depend on the corpus as a whole: which documents are held out, where the
/// canaries are, and which secrets a simulated policy misses.
///
/// Use the same preparer for neighbouring corpora, because these choices are part of the mechanism.
#[derive(Debug)]
pub struct Preparer {
    pub(super) context: PreparationContext,
    documents: Vec<Document>,
    held_out: Vec<Document>,
}

impl Preparer {
    /// Holds documents out, plants canaries, and chooses what the policy misses.
    ///
    /// # Errors
    /// As for [`prepare`].
    pub fn new(documents: &[Document], options: &PrepareOptions) -> Result<Self> {
        Self::with_plan(documents, options, None)
    }

    /// Does the same with a given canary plan instead of the options' canaries.
    ///
    /// # Errors
    /// As for [`prepare`]; also returns an error if the plan is for another unit.
    pub fn with_plan(
        documents: &[Document],
        options: &PrepareOptions,
        plan: Option<CanaryPlan>,
    ) -> Result<Self> {
        let source = Source::Memory(documents);
        let threads = default_threads();
        let context = PreparationContext::new(source, options, plan, threads, &|_, _| true, None)?;
        let (context, _) = context.ok_or_else(interrupted)?;
        let read = Cell::new(0);
        let mut feed = again(source, &context.division, Some(&context.planted), &read)?;
        let (mut training, mut held_out) = (Vec::new(), Vec::new());
        while let Some((role, document)) = feed()? {
            match role {
                Role::Training(_) => training.push(document.into_owned()),
                Role::HeldOut(_) => held_out.push(document.into_owned()),
            }
        }
        drop(feed);
        Ok(Self {
            context,
            documents: training,
            held_out,
        })
    }

    /// Returns the training documents, with the canaries planted.
    #[must_use]
    pub fn documents(&self) -> &[Document] {
        &self.documents
    }

    /// Returns the held-out documents.
    #[must_use]
    pub fn held_out_documents(&self) -> &[Document] {
        &self.held_out
    }

    /// Prepares the training documents.
    ///
    /// # Errors
    /// As for [`prepare`].
    pub fn run(&self) -> Result<Prepared> {
        self.run_with(&self.documents, default_threads())
    }

    /// Prepares a neighbour of the training documents: the same documents with other spans
    /// masked, for instance by [`crate::prepare::mask_secret`].
    ///
    /// # Errors
    /// As for [`prepare`].
    pub fn run_on(&self, documents: &[Document]) -> Result<Prepared> {
        self.run_with(documents, 1)
    }

    fn run_with(&self, documents: &[Document], threads: usize) -> Result<Prepared> {
        let context = &self.context;
        let read = Cell::new(0);
        let pass = Pass {
            context,
            corpus: Corpus {
                masked: documents.iter().any(|d| !d.masked.is_empty()),
                ..context.corpus
            },
            threads,
            open: &|| Ok(feed(documents, &self.held_out)),
            read: &read,
            scratch: None,
            form: |record, text: Cow<'_, str>| Ok((record, text.into_owned())),
        };
        let (mut records, mut points, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        let (mut held_out, mut held_out_texts) = (Vec::new(), Vec::new());
        let (mut documents_of, mut held_out_documents) = (Vec::new(), Vec::new());
        let mut all = All(|put, (record, text)| {
            match put {
                Put::Training { point, document } => {
                    records.push(record);
                    points.push(point);
                    documents_of.push(document);
                    texts.push(text);
                }
                Put::HeldOut { document } => {
                    held_out.push(record);
                    held_out_documents.push(document);
                    held_out_texts.push(text);
                }
            }
            Ok(())
        });
        let facts = pass.run(None, &mut all)?;
        let facts = facts.ok_or_else(interrupted)?;
        Ok(Prepared {
            training: TrainingSet {
                unit: context.options.unit,
                records,
                mask_only: facts.mask_only,
            },
            points,
            documents: Some(documents_of),
            texts,
            held_out,
            held_out_documents: Some(held_out_documents),
            held_out_texts,
            facts,
            options: context.options.clone(),
            plan: context.plan.clone(),
            tokenizer: context.tokenizer.clone(),
            authenticated: true,
        })
    }
}
