//! Records and batches of one side: an ordinary step can't be given a private record.

use crate::error::{Error, Result};
use crate::material::Sensitive;
use reticent_corpus::{Record, Side, TokenId, TrainingSet};
use std::ops::Range;

/// The part of a record that training reads.
#[derive(Debug, Clone)]
struct ReadRecord {
    tokens: Vec<TokenId>,
    label: Option<u32>,
    ignored: Vec<Range<usize>>,
}

impl ReadRecord {
    fn of(record: &Record) -> Self {
        Self {
            tokens: record.tokens.clone(),
            label: record.label,
            ignored: record.ignored.clone(),
        }
    }
}

/// Shortens those that have a class.
fn shorten_labelled(records: &mut [ReadRecord], context: Option<usize>) {
    for record in records.iter_mut().filter(|record| record.label.is_some()) {
        shorten(&mut record.tokens, context);
    }
}

/// Records that only private optimisation may see.
#[derive(Debug, Clone)]
pub struct PrivateRecords {
    records: Vec<ReadRecord>,
    mask_only: u64,
}

/// Records that ordinary optimisation may see.
#[derive(Debug, Clone)]
pub struct PublicRecords {
    records: Vec<ReadRecord>,
}

/// Splits a training set by side. Besides [`unprotected`] and [`all_private`], this is the only way to trainable
/// records.
#[must_use]
pub(crate) fn split(set: &TrainingSet) -> (PublicRecords, PrivateRecords) {
    let take = |side| set.side(side).map(ReadRecord::of).collect();
    (
        PublicRecords {
            records: take(Side::Public),
        },
        PrivateRecords {
            records: take(Side::Private),
            mask_only: set.mask_only,
        },
    )
}

/// Puts every record on the private side: the conservative policy that flags everything.
#[must_use]
pub fn all_private(set: &TrainingSet) -> PrivateRecords {
    PrivateRecords {
        records: all(set),
        mask_only: set.mask_only,
    }
}

/// Takes every record without any protection. The ledger then holds a non-private phase, and ε is infinite.
#[must_use]
pub fn unprotected(set: &TrainingSet) -> PublicRecords {
    PublicRecords { records: all(set) }
}

/// Redacts records for ordinary optimisation: all of them, or those listed in `only`.
///
/// # Errors
/// Returns [`Error::Unsuitable`] for a record that does not exist or is listed twice.
pub(crate) fn redacted(
    set: &TrainingSet,
    sensitive: &Sensitive,
    only: Option<&[u32]>,
) -> Result<PublicRecords> {
    let everyone: Vec<u32> = (0..set.records.len() as u32).collect();
    let chosen = only.unwrap_or(&everyone);
    let mut seen = std::collections::HashSet::new();
    let mut records = Vec::with_capacity(chosen.len());
    for &number in chosen {
        let record = set.records.get(number as usize);
        match record {
            Some(record) if seen.insert(number) => {
                let (tokens, ignored) = sensitive.redacted(number as usize, record);
                records.push(ReadRecord {
                    tokens,
                    ignored,
                    label: record.label,
                });
            }
            _ => {
                return Err(Error::Unsuitable(format!(
                    "screened records must be different numbers in [0, {}), got {number}",
                    set.records.len()
                )));
            }
        }
    }
    Ok(PublicRecords { records })
}

/// Redacts every record for private optimisation.
///
/// # Errors
/// As [`redacted`].
pub(crate) fn redacted_private(set: &TrainingSet, sensitive: &Sensitive) -> Result<PrivateRecords> {
    Ok(PrivateRecords {
        records: redacted(set, sensitive, None)?.records,
        mask_only: set.mask_only,
    })
}

fn all(set: &TrainingSet) -> Vec<ReadRecord> {
    set.records.iter().map(ReadRecord::of).collect()
}

impl PrivateRecords {
    /// Returns the number of records with loss.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }
    /// Shortens each record that has a class.
    pub(crate) fn shorten(&mut self, context: Option<usize>) {
        shorten_labelled(&mut self.records, context);
    }
    /// Returns whether no record has loss.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
    /// Returns |D_pri|: records with loss plus points that are only `<MASK>`.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.records.len() as u64 + self.mask_only
    }
    /// Returns the batch of these indices; an index out of range is ignored.
    #[must_use]
    pub fn batch(&self, indices: &[u32]) -> PrivateBatch<'_> {
        PrivateBatch(numbered(&self.records, indices))
    }
}

impl PublicRecords {
    /// Returns the number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }
    /// Shortens each record that has a class.
    pub(crate) fn shorten(&mut self, context: Option<usize>) {
        shorten_labelled(&mut self.records, context);
    }
    /// Returns whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
    /// Returns the batch of these indices; an index out of range is ignored.
    #[must_use]
    pub fn batch(&self, indices: &[u32]) -> PublicBatch<'_> {
        PublicBatch(numbered(&self.records, indices))
    }
}

/// A batch wholly from the private side.
///
/// It can't be trained on without noise: no function turns it into a public step.
///
/// ```compile_fail,E0308
/// # fn f(model: &mut dyn reticent_backends::trainer::Trainer, private: &reticent_backends::trainer::PrivateRecords) {
/// model.public_gradient(&private.batch(&[0])).unwrap(); // expected a PublicBatch
/// # }
/// ```
///
/// Records of both sides can't be mixed in one batch either: an engine reads them through [`Self::examples`], and no
/// function makes a batch of examples.
///
/// ```compile_fail,E0616
/// # fn f(private: &reticent_backends::trainer::PrivateRecords, public: &reticent_backends::trainer::PublicRecords) {
/// let mut mixed = private.batch(&[0]);
/// mixed.0.extend(public.batch(&[0]).0); // private fields
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct PrivateBatch<'a>(pub(crate) Vec<Example<'a>>);

/// A batch wholly from the public side.
#[derive(Debug, Clone)]
pub struct PublicBatch<'a>(pub(crate) Vec<Example<'a>>);

/// A record of a batch, or one of the sequences that a longer record is read in.
#[derive(Debug, Clone, Copy)]
pub struct Example<'a> {
    /// Its number among the records it was drawn from, which keys its dropout masks.
    pub(crate) record: u32,
    /// The number of its augmentation, from 0, which keys the masks too.
    pub(crate) augmentation: u32,
    pub(crate) tokens: &'a [TokenId],
    /// The class of the whole record, where records have one.
    pub(crate) label: Option<u32>,
    /// Which tokens of the whole record carry no loss.
    pub(crate) ignored: &'a [Range<usize>],
    /// The position in the record at which these tokens begin.
    pub(crate) start: usize,
}

impl<'a> Example<'a> {
    /// Returns a whole record in which every token carries loss.
    pub(crate) const fn whole(record: u32, tokens: &'a [TokenId]) -> Self {
        Self {
            record,
            augmentation: 0,
            tokens,
            label: None,
            ignored: &[],
            start: 0,
        }
    }

    /// Returns the tokens to read; every token but the first is predicted from those before it, unless it carries no
    /// loss ([`Self::unlearned`]) or the example has a class.
    #[must_use]
    pub const fn tokens(&self) -> &'a [TokenId] {
        self.tokens
    }

    /// Returns the class of the whole record, which is then its only loss; `None` where records have none.
    #[must_use]
    pub const fn label(&self) -> Option<u32> {
        self.label
    }

    /// Returns the positions among these tokens that carry no loss.
    pub fn unlearned(&self) -> impl Iterator<Item = usize> + '_ {
        let end = self.start + self.tokens.len();
        let inside = move |r: &Range<usize>| r.start.max(self.start)..r.end.min(end);
        self.ignored
            .iter()
            .flat_map(inside)
            .map(|at| at - self.start)
    }

    /// Splits it into sequences that a model of this context reads. A labelled one has one loss and stays whole: it was
    /// shortened.
    pub(crate) fn windows(self, context: Option<usize>) -> impl Iterator<Item = Self> + 'a {
        let parts = match self.label {
            Some(_) => vec![self.tokens],
            None => windows(self.tokens, context),
        };
        let mut next = self.start;
        parts.into_iter().map(move |tokens| {
            let start = next;
            next += tokens.len().saturating_sub(1);
            Self {
                tokens,
                start,
                ..self
            }
        })
    }
}

impl AsRef<[TokenId]> for Example<'_> {
    fn as_ref(&self) -> &[TokenId] {
        self.tokens
    }
}

/// Shortens a text with one class to the length that a model with this context reads at once: its beginning stays, and
/// its last token, which ends the text. Returns whether the text was longer.
///
/// ```
/// let mut tokens = vec![2, 7, 8, 9, 3];
/// assert!(reticent_backends::trainer::shorten(&mut tokens, Some(4)));
/// assert_eq!(tokens, [2, 7, 8, 3]);
/// assert!(!reticent_backends::trainer::shorten(&mut tokens, Some(4)));
/// ```
pub fn shorten(tokens: &mut Vec<TokenId>, context: Option<usize>) -> bool {
    let most = context.unwrap_or(usize::MAX).max(1);
    let longer = tokens.len() > most;
    if longer {
        tokens.drain(most - 1..tokens.len() - 1);
    }
    longer
}

/// Returns the windows in which a model with this context reads a sequence. Each token but the first is predicted once,
/// in the first window that reaches it; a window begins with the last token of the preceding one.
fn windows(tokens: &[TokenId], context: Option<usize>) -> Vec<&[TokenId]> {
    match context {
        Some(context) if tokens.len() > context && context > 1 => (0..tokens.len() - 1)
            .step_by(context - 1)
            .map(|start| &tokens[start..tokens.len().min(start + context)])
            .collect(),
        _ => vec![tokens],
    }
}

/// Returns the records with these numbers; a number that does not exist is ignored.
fn numbered<'a>(records: &'a [ReadRecord], indices: &[u32]) -> Vec<Example<'a>> {
    let one = |&record: &u32| {
        let read = records.get(record as usize)?;
        Some(Example {
            label: read.label,
            ignored: &read.ignored,
            ..Example::whole(record, &read.tokens)
        })
    };
    indices.iter().filter_map(one).collect()
}

#[cfg(all(test, feature = "cpu"))]
impl<'a> PrivateBatch<'a> {
    /// Takes sequences in their order, numbered from 0.
    pub(crate) fn in_order(sequences: Vec<&'a [TokenId]>) -> Self {
        Self(by_place(sequences))
    }
}

#[cfg(all(test, feature = "cpu"))]
impl<'a> PublicBatch<'a> {
    /// Takes sequences in their order, numbered from 0.
    pub(crate) fn in_order(sequences: Vec<&'a [TokenId]>) -> Self {
        Self(by_place(sequences))
    }
}

#[cfg(all(test, feature = "cpu"))]
fn by_place(sequences: Vec<&[TokenId]>) -> Vec<Example<'_>> {
    (0..)
        .zip(sequences)
        .map(|(record, tokens)| Example::whole(record, tokens))
        .collect()
}

impl<'a> PublicBatch<'a> {
    /// Takes held-out texts, numbered from `first`.
    pub(crate) fn held_out(first: u32, texts: &'a [Vec<TokenId>]) -> Self {
        let one = |(record, tokens): (u32, &'a Vec<TokenId>)| Example::whole(record, tokens);
        Self((first..).zip(texts).map(one).collect())
    }

    /// Returns the examples, for engines to read.
    pub fn examples(&self) -> impl Iterator<Item = Example<'a>> + '_ {
        self.0.iter().copied()
    }

    /// Splits each record that is longer than a context into its windows.
    #[must_use]
    pub fn in_windows(self, context: Option<usize>) -> Self {
        Self(
            self.0
                .into_iter()
                .flat_map(|e| e.windows(context))
                .collect(),
        )
    }
}

impl<'a> PrivateBatch<'a> {
    /// Returns the examples, for engines to read. [`Trainer::add`](super::Trainer::add) says what may leave an engine.
    pub fn examples(&self) -> impl Iterator<Item = Example<'a>> + '_ {
        self.0.iter().copied()
    }

    /// Returns the records that are read as one sequence, and for each of the others its sequences: the windows of a
    /// record longer than a context, or several augmentations, or both.
    pub(crate) fn by_sequences(
        &self,
        context: Option<usize>,
        augmentations: u32,
    ) -> (Self, Vec<Self>) {
        let fits = |e: &Example<'_>| context.is_none_or(|context| e.tokens.len() <= context);
        let (alone, several): (Vec<_>, Vec<_>) =
            self.0.iter().partition(|e| augmentations <= 1 && fits(e));
        let several = several.into_iter().map(|example: Example<'a>| {
            let each = (0..augmentations).map(|augmentation| Example {
                augmentation,
                ..example
            });
            Self(each.flat_map(|e| e.windows(context)).collect())
        });
        (Self(alone), several.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record with a class has one loss whatever its length, and clipping is by record.
    #[test]
    fn of_a_labelled_record_that_is_too_long_the_beginning_and_the_end_are_read_once() {
        let read = |label| {
            let record = Record {
                side: Side::Private,
                tokens: (0..9).collect(),
                sensitive: Vec::new(),
                label,
                ignored: Vec::new(),
            };
            let set = TrainingSet {
                unit: reticent_corpus::Unit::Document,
                records: vec![record],
                mask_only: 0,
            };
            let (mut public, mut private) = (unprotected(&set), all_private(&set));
            public.shorten(Some(4));
            private.shorten(Some(4));
            let public = public.batch(&[0]).in_windows(Some(4));
            let (alone, several) = private.batch(&[0]).by_sequences(Some(4), 1);
            let private = alone
                .0
                .iter()
                .chain(several.iter().flat_map(|batch| &batch.0));
            let tokens = |e: &Example<'_>| e.tokens.to_vec();
            let private: Vec<Vec<TokenId>> = private.map(tokens).collect();
            assert_eq!(public.0.iter().map(tokens).collect::<Vec<_>>(), private);
            private
        };
        assert_eq!(read(Some(1)), [[0, 1, 2, 8]]);
        let windows = [vec![0, 1, 2, 3], vec![3, 4, 5, 6], vec![6, 7, 8]];
        assert_eq!(read(None), windows);
    }

    /// Each token that carries no loss carries none in the one window that is asked for it.
    #[test]
    fn windows_keep_what_carries_no_loss() {
        let tokens: Vec<TokenId> = (0..9).collect();
        let ignored = [1..3, 5..7];
        let example = Example {
            ignored: &ignored,
            ..Example::whole(3, &tokens)
        };
        let read = PublicBatch(vec![example]).in_windows(Some(4));
        let learned = read.0.iter().flat_map(|window| {
            let unlearned: Vec<usize> = window.unlearned().collect();
            let learned = (1..window.tokens.len()).filter(move |at| !unlearned.contains(at));
            learned.map(|at| window.tokens[at])
        });
        assert_eq!(learned.collect::<Vec<TokenId>>(), [3, 4, 7, 8]);
    }
}
