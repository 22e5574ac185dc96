//! Deduplication and redaction of a corpus as a stream.

use super::{checked_threads, found, name, pass};
use crate::document::Document;
use crate::error::Result;
use crate::policy::{Policy, PolicyChoice, Span, View, resolved};
use crate::prepare::Work;
use crate::random::digest;
use crate::read::Documents;
use crate::split::{UnitText, units};
use crate::tokenize::{MASK_TEXT, Tokenizer};
use crate::unit::Unit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// What a streaming pass does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedactionOptions {
    /// What one record is.
    pub unit: Unit,
    /// The policy whose spans become `<MASK>`.
    pub policy: PolicyChoice,
    /// Whether later copies of a unit are left out.
    pub deduplicate: bool,
}

/// What a pass has done so far.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct RedactionState {
    /// Documents read.
    pub documents: u64,
    /// Units cut from them.
    pub units: u64,
    /// Units left out because they were there before.
    pub duplicates: u64,
    /// Units with a mask, among those that stay.
    pub redacted: u64,
    /// Bytes of text read.
    pub bytes: u64,
    /// Masked spans by kind, in units that stay.
    pub spans: BTreeMap<String, u64>,
}

/// One unit that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted {
    /// The document's id; with the unit's number behind a `#` where units are parts of
    /// documents.
    pub id: String,
    /// The text, with `<MASK>` where the policy found something.
    pub text: String,
}

/// A pass that can stop after any document and go on later.
#[derive(Debug)]
pub struct Redaction {
    unit: Unit,
    deduplicate: bool,
    policy: Arc<dyn Policy>,
    threads: usize,
    seen: HashSet<[u8; 20]>,
    state: RedactionState,
}

/// What a worker makes of a unit.
struct Made {
    /// What copies have in common; none where they stay.
    key: Option<[u8; 20]>,
    redacted: Redacted,
    kinds: Vec<Arc<str>>,
}

/// What a worker makes of a document.
struct MadeDocument {
    bytes: u64,
    units: Vec<Made>,
}

impl Redaction {
    /// Builds the policy.
    ///
    /// # Errors
    /// A policy that does not build; threads outside 1 to 1024.
    pub fn new(options: &RedactionOptions, threads: usize) -> Result<Self> {
        Ok(Self {
            unit: options.unit,
            deduplicate: options.deduplicate,
            policy: options.policy.build()?,
            threads: checked_threads(threads)?,
            seen: HashSet::new(),
            state: RedactionState::default(),
        })
    }

    /// What was done so far.
    #[must_use]
    pub const fn state(&self) -> &RedactionState {
        &self.state
    }

    /// Takes up a pass where it stopped: the documents that were done then are read again for
    /// their duplicates, and nothing else.
    ///
    /// # Errors
    /// What [`Documents`] gives, and a corpus that has fewer documents than were done.
    pub fn resume(&mut self, documents: &mut Documents, state: RedactionState) -> Result<()> {
        for _ in 0..state.documents {
            let Some(document) = documents.next().transpose()? else {
                return Err(crate::error::range(
                    "the documents done before",
                    state.documents,
                    "at most as many as there are",
                ));
            };
            if self.deduplicate {
                for unit in units(&document, 0, self.unit)? {
                    self.seen.insert(key(&unit)?);
                }
            }
        }
        self.state = state;
        Ok(())
    }

    /// Runs to the end. `emit` is given the units that stay, in order, document by document,
    /// with the state after them and how many bytes of the files have been read; when it says
    /// no, the pass stops there.
    ///
    /// Units are compared by SHA-1 of their text before redaction, 20 bytes for each kept in
    /// memory (about 40 with what a hash table takes).
    ///
    /// # Errors
    /// What [`Documents`] and `emit` give.
    pub fn run(
        &mut self,
        documents: &mut Documents,
        mut emit: impl FnMut(&[Redacted], &RedactionState, u64) -> Result<bool>,
    ) -> Result<()> {
        let (unit, policy, threads) = (self.unit, self.policy.clone(), self.threads);
        let deduplicate = self.deduplicate;
        pass(
            documents,
            threads,
            |batch| {
                let each = batch.iter();
                each.map(|(document, _)| made(document, unit, policy.as_ref(), deduplicate))
                    .collect::<Result<Vec<MadeDocument>>>()
            },
            |made, read| {
                for document in made {
                    let kept = self.enter(document);
                    if !emit(&kept, &self.state, read)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            },
        )
    }

    /// Decides which units stay.
    fn enter(&mut self, document: MadeDocument) -> Vec<Redacted> {
        self.state.documents += 1;
        self.state.bytes += document.bytes;
        let mut kept = Vec::with_capacity(document.units.len());
        for made in document.units {
            self.state.units += 1;
            if made.key.is_some_and(|key| !self.seen.insert(key)) {
                self.state.duplicates += 1;
                continue;
            }
            self.state.redacted += u64::from(!made.kinds.is_empty());
            for kind in made.kinds {
                match self.state.spans.get_mut(&*kind) {
                    Some(count) => *count += 1,
                    None => {
                        self.state.spans.insert(kind.to_string(), 1);
                    }
                }
            }
            kept.push(made.redacted);
        }
        kept
    }
}

/// Of the text before redaction: masking must not make copies.
fn key(unit: &UnitText<'_>) -> Result<[u8; 20]> {
    Ok(if unit.masked.is_empty() {
        digest(unit.text.as_bytes())
    } else {
        digest(Work::new(unit, &Tokenizer::bytes())?.text().as_bytes())
    })
}

/// A text alone, with `<MASK>` where the policy finds something, as a pass would redact it.
///
/// ```
/// use reticent_corpus::{PolicyChoice, redacted_text};
/// let policy = PolicyChoice::Detectors(Default::default()).build()?;
/// assert_eq!(redacted_text(policy.as_ref(), "write to ada@example.org"), "write to <MASK>");
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
#[must_use]
pub fn redacted_text(policy: &dyn Policy, text: &str) -> String {
    let view = View { text, secrets: &[] };
    masked(text, &resolved(policy, &view))
}

/// The text with one `<MASK>` for each run of touching spans, which are in order.
fn masked(text: &str, spans: &[Span]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from: Option<usize> = None;
    for span in spans {
        if from.is_none_or(|end| span.start > end) {
            out.push_str(&text[from.unwrap_or(0)..span.start]);
            out.push_str(MASK_TEXT);
        }
        from = Some(span.end);
    }
    out.push_str(&text[from.unwrap_or(0)..]);
    out
}

fn made(
    document: &Document,
    unit: Unit,
    policy: &dyn Policy,
    deduplicate: bool,
) -> Result<MadeDocument> {
    let units = units(document, 0, unit)?;
    let each = units.iter().map(|cut| {
        let id = name(document, unit, cut.index);
        redacted(cut, id, policy, deduplicate)
    });
    Ok(MadeDocument {
        bytes: document.text.len() as u64,
        units: each.collect::<Result<_>>()?,
    })
}

fn redacted(
    unit: &UnitText<'_>,
    id: String,
    policy: &dyn Policy,
    deduplicate: bool,
) -> Result<Made> {
    if unit.masked.is_empty() {
        let spans = found(unit, policy);
        let text = masked(&unit.text, &spans);
        return Ok(Made {
            key: deduplicate.then(|| digest(unit.text.as_bytes())),
            redacted: Redacted { id, text },
            kinds: spans.into_iter().map(|span| span.kind).collect(),
        });
    }
    // What lies under a mask is hidden from the policy and the key too.
    let mut work = Work::new(unit, &Tokenizer::bytes())?;
    let key = deduplicate.then(|| digest(work.text().as_bytes()));
    let kinds = work.redact(policy);
    let text = work.text();
    Ok(Made {
        key,
        redacted: Redacted { id, text },
        kinds,
    })
}
