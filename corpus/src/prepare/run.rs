//! One pass over a corpus: workers take units through the stages, and their results are combined in corpus order, so
//! that the number of workers does not affect the result.

use super::context::{Corpus, PreparationContext};
use super::facts::{Facts, SecretSource};
use super::first_pass::FirstPass;
use super::record_work::{Work, unit_key};
use super::resume::{Done, DoneNow};
use super::secrets::{SecretBook, SecretLine};
use super::sink::Sink;
use super::source::{Feed, Phase, Role, batches};
use super::stability::StageStability;
use super::unit_work::{CopyMade, KeptUnit, Recorded, UnitMade, Worker};
use crate::canary::{CopyFate, CopyReport, Preflight};
use crate::dedup::{Deduplication, DuplicateIndex, Marker, Marks};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::record::{Record, Side};
use crate::split::units;
use crate::unit::Unit;
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::path::Path;
use std::sync::{PoisonError, RwLock};

/// The destination of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    /// The training set, with the number of the record's unit and that of its document among the training documents.
    Training { point: u64, document: u64 },
    /// The held-out set, with the number of the record's document among the held-out ones.
    HeldOut { document: u64 },
}

/// The inputs of a pass.
pub(super) struct Pass<'a, F> {
    pub(super) context: &'a PreparationContext,
    pub(super) corpus: Corpus,
    pub(super) threads: usize,
    /// Opens the corpus; called each time the corpus has to be read.
    pub(super) open: &'a dyn Fn() -> Result<Feed<'a>>,
    /// The number of bytes of the corpus that have been read.
    pub(super) read: &'a Cell<u64>,
    /// The folder on whose disk something may lie that does not fit in memory; nothing of it stays.
    pub(super) scratch: Option<&'a Path>,
    /// Converts a record and its redacted text to the form that is kept; called by workers.
    pub(super) form: F,
}

/// A document after the workers' stages, with its number among those of its role.
enum DocumentMade<O> {
    Training(u64, Vec<UnitMade<O>>),
    HeldOut(u64, Vec<Recorded<O>>),
}

impl<O> DocumentMade<O> {
    /// Returns the units that are deduplicated.
    fn trained_on(&self) -> &[UnitMade<O>] {
        match self {
            Self::Training(_, units) => units,
            Self::HeldOut(..) => &[],
        }
    }
}

impl<O: Send, F: Fn(Record, Cow<'_, str>) -> Result<O> + Sync> Pass<'_, F> {
    /// Prepares a corpus, or what remains of it if `done` describes earlier work. Passes records to the sink in order.
    /// Returns `None` if the sink stops the pass.
    pub(super) fn run(&self, done: Option<Done>, sink: &mut impl Sink<O>) -> Result<Option<Facts>> {
        let Some(before) = FirstPass::look(self, &|passage| sink.go_on(passage))? else {
            return Ok(None);
        };
        let through = self.through(&before, done, sink)?;
        through
            .map(|(run, distinct)| run.finish(distinct))
            .transpose()
    }

    /// Prepares the corpus after the first pass, without the facts that only the whole corpus gives. Also returns the
    /// number of distinct units.
    pub(super) fn through(
        &self,
        before: &FirstPass,
        done: Option<Done>,
        sink: &mut impl Sink<O>,
    ) -> Result<Option<(Run<'_>, u64)>> {
        let context = self.context;
        let options = &context.options;
        let mut gate = before.gate(context);
        let marker = before.marker(context);
        let mut feed = (self.open)()?;
        let mut documents = 0;
        let mut run = Run::new(context, self.corpus);
        if let Some(done) = done {
            documents = done.documents;
            let mut left = documents;
            let mut first: Feed<'_> = Box::new(|| {
                if left == 0 {
                    return Ok(None);
                }
                left -= 1;
                feed()
            });
            let go_on = || sink.go_on(Phase::Resume);
            let entered = |_, _, _| Ok(());
            if !self.enter(&mut first, (&mut gate, &marker), &go_on, entered)? {
                return Ok(None);
            }
            drop(first);
            run.take_up(done, gate.distinct())?;
        }
        let gate = RwLock::new(gate);
        let worker = Worker {
            context,
            spreads: StageStability::spread(&options.stages(self.corpus.masked, 0)),
            marked: self.corpus.marked,
            marker: &marker,
            keyed: before.fates.is_none(),
            form: &self.form,
        };
        let drops = options.deduplicate && options.duplicates == Deduplication::Exact;
        let whole = batches(
            &mut feed,
            self.threads,
            self.read,
            |batch| {
                // Units of this batch; they are not in the index yet.
                let mut here = HashSet::new();
                let mut known = |key: &[u8; 20], marks: &mut Marks| {
                    let gate = || gate.read().unwrap_or_else(PoisonError::into_inner);
                    if drops {
                        !here.insert(*key) || gate().knows(key)
                    } else {
                        gate().has_near(marks)
                    }
                };
                let each = batch.iter();
                each.map(|(role, document)| made(&worker, before, *role, document, &mut known))
                    .collect::<Result<Vec<DocumentMade<O>>>>()
            },
            |batch| {
                documents += batch.len() as u64;
                // Locks the index once for the whole batch, since workers look up units meanwhile.
                let (stay, distinct) = {
                    let mut gate = gate.write().unwrap_or_else(PoisonError::into_inner);
                    let units = batch.iter().flat_map(DocumentMade::trained_on);
                    let stay = units.map(|unit| gate.enter(&unit.key, &unit.marks));
                    (stay.collect::<Vec<bool>>(), gate.distinct())
                };
                let mut stay = stay.into_iter();
                for document in batch {
                    match document {
                        DocumentMade::Training(number, units) => {
                            run.begin_document(units.is_empty());
                            for (unit, stays) in units.into_iter().zip(&mut stay) {
                                run.unit(unit, number, stays, sink)?;
                            }
                        }
                        DocumentMade::HeldOut(number, records) => {
                            for record in records {
                                run.held_out(record, number, sink)?;
                            }
                        }
                    }
                }
                let go_on = sink.go_on(Phase::Prepare);
                sink.between(&run.done(documents, distinct), !go_on)?;
                Ok(go_on)
            },
        )?;
        if !whole {
            return Ok(None);
        }
        let gate = gate.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Some((run, gate.distinct())))
    }

    /// Enters units into the duplicate index without preparing them. `entered` is called with each unit's document, its
    /// number in the document, and whether it is kept. Returns false if `go_on` returned false.
    pub(super) fn enter(
        &self,
        feed: &mut Feed<'_>,
        (gate, marker): (&mut DuplicateIndex, &Marker),
        go_on: &dyn Fn() -> bool,
        mut entered: impl FnMut(usize, usize, bool) -> Result<()>,
    ) -> Result<bool> {
        let context = self.context;
        batches(
            feed,
            self.threads,
            self.read,
            |batch| {
                let mut out = Vec::new();
                for (role, document) in batch {
                    if let Role::Training(number) = role {
                        let units = units(document, *number, context.options.unit)?;
                        for (at, unit) in units.iter().enumerate() {
                            let marks = if marker.reads_tokens() {
                                let work = Work::new(unit, &context.tokenizer)?;
                                marker.marks(&work.content(context.tokenizer.mask()))
                            } else {
                                Marks::default()
                            };
                            out.push((*number, at, unit_key(unit), marks));
                        }
                    }
                }
                Ok(out)
            },
            |made: Vec<(usize, usize, [u8; 20], Marks)>| {
                for (number, at, key, marks) in made {
                    entered(number, at, gate.enter(&key, &marks))?;
                }
                Ok(go_on())
            },
        )
    }
}

fn made<O, F: Fn(Record, Cow<'_, str>) -> Result<O>>(
    worker: &Worker<'_, F>,
    before: &FirstPass,
    role: Role,
    document: &Document,
    known: &mut impl FnMut(&[u8; 20], &mut Marks) -> bool,
) -> Result<DocumentMade<O>> {
    let unit = worker.context.options.unit;
    match role {
        Role::HeldOut(number) => {
            let units = units(document, 0, unit)?;
            let records = units
                .iter()
                .filter_map(|unit| worker.held_out(unit).transpose());
            let records = records.collect::<Result<_>>()?;
            Ok(DocumentMade::HeldOut(number as u64, records))
        }
        Role::Training(number) => {
            let units = units(document, number, unit)?;
            let mut made = Vec::with_capacity(units.len());
            for (at, unit) in units.iter().enumerate() {
                let copy = |key: &_, marks: &mut _| {
                    let drops = before.drops(number, at);
                    drops.unwrap_or_else(|| known(key, marks))
                };
                made.push(worker.unit(unit, &before.cut(number, at), copy)?);
            }
            Ok(DocumentMade::Training(number as u64, made))
        }
    }
}

/// Adds these counts of a part to those of the whole; all other fields must be named, too.
macro_rules! add {
    ($all:expr, $part:expr; $($count:ident),*; $($other:ident),*) => {
        let Facts { $($count,)* $($other: _,)* } = $part;
        $($all.$count += $count;)*
    };
}

/// The counts of a pass so far.
pub(super) struct Run<'a> {
    context: &'a PreparationContext,
    corpus: Corpus,
    book: SecretBook,
    /// Where the marked secrets begin that extend over several units of the current document.
    cut: HashSet<usize>,
    facts: Facts,
    /// Records written to the training set.
    records: u64,
    reports: Vec<CopyReport>,
}

impl<'a> Run<'a> {
    pub(super) fn new(context: &'a PreparationContext, corpus: Corpus) -> Self {
        let book = blank_book(corpus);
        Self {
            facts: blank(context, corpus, &book),
            context,
            corpus,
            book,
            cut: HashSet::new(),
            records: 0,
            reports: Vec::new(),
        }
    }

    /// Resumes, before the first unit, from the state of another run; `distinct` is the number of distinct units found when its units were read
    /// again.
    fn take_up(&mut self, done: Done, distinct: u64) -> Result<()> {
        if distinct != done.distinct {
            return Err(Error::Prepared {
                path: "what a stopped preparation left".into(),
                problem: format!(
                    "{} different units in what was done; there are {distinct}",
                    done.distinct
                ),
            });
        }
        self.book.join(done.secrets);
        self.facts = done.facts;
        self.records = done.records;
        self.reports = done.reports;
        Ok(())
    }

    /// Appends a part of the corpus that was prepared separately, but for its secrets. Returns the number of its first
    /// unit.
    pub(super) fn join(&mut self, done: Done) -> u64 {
        let first = self.facts.units;
        add!(self.facts, done.facts;
            blank_documents, units, duplicates, repeated, public, private, mask_only, redacted, flagged, truncated, escaped, cut_secrets,
            uncaught, unchecked, not_examined, loss_tokens, characters, unknown_characters, held_out_records, held_out_tokens;
            // Those of the whole corpus.
            unit, vocabulary, vocabulary_size, documents, held_out_documents, user_documents, distinct_units, secrets,
            stages, canaries
        );
        let before = self.records;
        self.reports.extend(done.reports.into_iter().map(|report| {
            let record = report.record.map(|number| before + number);
            let parts = report.parts.iter().map(|number| before + number).collect();
            CopyReport {
                record,
                parts,
                ..report
            }
        }));
        self.records += done.records;
        first
    }

    /// Takes the secrets so far out of the run.
    pub(super) fn take_secrets(&mut self) -> SecretBook {
        std::mem::replace(&mut self.book, blank_book(self.corpus))
    }

    /// Adds secrets of parts that were prepared separately, in the order of the parts. Whatever is entered later has
    /// other keys.
    pub(super) fn join_secrets<'l>(
        &mut self,
        parts: impl Iterator<Item = Result<Vec<SecretLine<'l>>>>,
    ) -> Result<()> {
        for lines in parts {
            self.book.join(lines?);
        }
        self.book.settle();
        Ok(())
    }

    /// Returns how far the run has come.
    pub(super) fn done(&self, documents: u64, distinct: u64) -> DoneNow<'_> {
        DoneNow {
            documents,
            distinct,
            facts: &self.facts,
            records: self.records,
            reports: &self.reports,
            secrets: &self.book,
        }
    }

    fn begin_document(&mut self, is_blank: bool) {
        self.facts.blank_documents += u64::from(is_blank);
        self.cut.clear();
        self.book.begin_document();
    }

    /// Adds the next unit in corpus order. `stays` is true if the unit is not a copy of an earlier one.
    fn unit<O>(
        &mut self,
        made: UnitMade<O>,
        document: u64,
        stays: bool,
        sink: &mut impl Sink<O>,
    ) -> Result<()> {
        let point = self.facts.units;
        self.facts.units += 1;
        let Some(kept) = made.kept.filter(|_| stays) else {
            self.facts.duplicates += 1;
            self.facts.mask_only += 1;
            for place in made.whole_canaries {
                let dropped = CopyMade {
                    place,
                    fate: CopyFate::Deduplicated,
                    in_context: false,
                    held: false,
                };
                self.report(&dropped, None);
            }
            return Ok(());
        };
        self.count(&kept);
        let record = kept.record.is_some().then_some((self.records, kept.side));
        for copy in &kept.canaries {
            self.report(copy, record);
        }
        let Some(record) = kept.record else {
            self.facts.mask_only += 1;
            return Ok(());
        };
        self.records += 1;
        self.facts.truncated += u64::from(record.truncated);
        self.facts.loss_tokens += record.loss;
        let [characters, unknown] = record.characters;
        self.facts.characters += characters;
        self.facts.unknown_characters += unknown;
        let side = match kept.side {
            Side::Public => &mut self.facts.public,
            Side::Private => &mut self.facts.private,
        };
        *side += 1;
        sink.put(Put::Training { point, document }, record.form)
    }

    fn count<O>(&mut self, kept: &KeptUnit<O>) {
        self.facts.repeated += u64::from(kept.repeated);
        self.facts.escaped += u64::from(kept.escaped);
        let cut = kept.cut_secrets.iter().filter(|at| self.cut.insert(**at));
        self.facts.cut_secrets += cut.count() as u64;
        self.facts.redacted += u64::from(kept.redacted);
        self.facts.flagged += u64::from(kept.flagged);
        self.facts.uncaught += kept.uncaught;
        self.facts.not_examined += u64::from(kept.not_examined);
        for secret in &kept.secrets {
            self.facts.unchecked += u64::from(secret.unchecked);
            self.book.enter(secret, kept.side, kept.flagged);
        }
    }

    fn held_out<O>(
        &mut self,
        record: Recorded<O>,
        document: u64,
        sink: &mut impl Sink<O>,
    ) -> Result<()> {
        self.facts.held_out_records += 1;
        self.facts.held_out_tokens += record.loss;
        sink.put(Put::HeldOut { document }, record.form)
    }

    /// Records what became of a canary copy, and the record that holds any of it.
    fn report(&mut self, copy: &CopyMade, record: Option<(u64, Side)>) {
        let held = record.filter(|_| copy.held);
        let number = held.map(|(number, _)| number);
        let is_kept = copy.fate == CopyFate::Kept;
        self.reports.push(CopyReport {
            canary: copy.place.canary as u64,
            copy: copy.place.copy as u64,
            fate: copy.fate,
            record: number.filter(|_| is_kept),
            parts: number.filter(|_| !is_kept).into_iter().collect(),
            side: held.map(|(_, side)| side),
            in_context: copy.in_context,
        });
    }

    /// Completes the facts.
    pub(super) fn finish(mut self, distinct: u64) -> Result<Facts> {
        if self.facts.units == 0 {
            return Err(nothing_to_train_on());
        }
        let options = &self.context.options;
        self.facts.distinct_units = distinct;
        self.facts.private += self.facts.mask_only;
        self.facts.secrets = self.book.facts();
        self.facts.stages = options.stages(self.corpus.masked, self.facts.units);
        let plan = self.context.plan.as_ref();
        self.facts.canaries = plan.map(|plan| Preflight {
            words: self.context.words.clone(),
            ..Preflight::new(plan, self.reports)
        });
        Ok(self.facts)
    }
}

/// Returns the book of no secrets.
fn blank_book(corpus: Corpus) -> SecretBook {
    SecretBook::new(if corpus.marked {
        SecretSource::Gold
    } else {
        SecretSource::Detected
    })
}

/// Returns the facts before the first unit.
fn blank(context: &PreparationContext, corpus: Corpus, book: &SecretBook) -> Facts {
    Facts {
        unit: context.options.unit,
        vocabulary: context.tokenizer.origin(),
        vocabulary_size: context.tokenizer.vocabulary_size(),
        documents: corpus.documents,
        held_out_documents: corpus.held_out,
        user_documents: match context.options.unit {
            Unit::User => corpus.joined,
            _ => 0,
        },
        secrets: book.facts(),
        ..Facts::default()
    }
}

/// Returns a feed of documents in memory: first the training documents, then the held-out ones.
pub(super) fn feed<'a>(training: &'a [Document], held_out: &'a [Document]) -> Feed<'a> {
    let training = training.iter().enumerate();
    let training = training.map(|(number, d)| (Role::Training(number), Cow::Borrowed(d)));
    let held_out = held_out.iter().enumerate();
    let held_out = held_out.map(|(number, d)| (Role::HeldOut(number), Cow::Borrowed(d)));
    let mut all = training.chain(held_out);
    Box::new(move || Ok(all.next()))
}

/// The error for a corpus whose training documents contain no text.
pub(super) fn nothing_to_train_on() -> Error {
    Error::Empty("no training document has text in it".to_owned())
}
