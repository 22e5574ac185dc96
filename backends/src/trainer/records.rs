//! Records and batches of one side: an ordinary step can't be given a private one.

use crate::error::{Error, Result};
use crate::material::Sensitive;
use reticent_corpus::{Record, Side, TokenId, TrainingSet};

/// Records that private optimisation alone may see.
#[derive(Debug, Clone)]
pub struct PrivateRecords {
    tokens: Vec<Vec<TokenId>>,
    mask_only: u64,
}

/// Records that ordinary optimisation may see.
#[derive(Debug, Clone)]
pub struct PublicRecords {
    tokens: Vec<Vec<TokenId>>,
}

/// Splits a training set by side. The only way, besides [`unprotected`] and [`all_private`], to records that train.
#[must_use]
pub fn split(set: &TrainingSet) -> (PublicRecords, PrivateRecords) {
    let take = |side| set.side(side).map(|r| r.tokens.clone()).collect();
    (
        PublicRecords {
            tokens: take(Side::Public),
        },
        PrivateRecords {
            tokens: take(Side::Private),
            mask_only: set.mask_only,
        },
    )
}

/// Every record on the private side: the conservative policy that flags everything.
#[must_use]
pub fn all_private(set: &TrainingSet) -> PrivateRecords {
    PrivateRecords {
        tokens: all(set),
        mask_only: set.mask_only,
    }
}

/// Every record without any protection. The ledger then holds a non-private phase, and ε is infinite.
#[must_use]
pub fn unprotected(set: &TrainingSet) -> PublicRecords {
    PublicRecords { tokens: all(set) }
}

/// Redacted records for ordinary optimisation: all of them, or those that `only` names.
///
/// # Errors
/// [`Error::Unsuitable`] for a record that does not exist or is named twice.
pub(crate) fn redacted(
    set: &TrainingSet,
    sensitive: &Sensitive,
    only: Option<&[u32]>,
) -> Result<PublicRecords> {
    let everyone: Vec<u32> = (0..set.records.len() as u32).collect();
    let chosen = only.unwrap_or(&everyone);
    let mut seen = std::collections::HashSet::new();
    let mut tokens = Vec::with_capacity(chosen.len());
    for &number in chosen {
        let record = set.records.get(number as usize);
        match record {
            Some(record) if seen.insert(number) => {
                tokens.push(sensitive.redacted(number as usize, &record.tokens));
            }
            _ => {
                return Err(Error::Unsuitable(format!(
                    "screened records must be different numbers in [0, {}), got {number}",
                    set.records.len()
                )));
            }
        }
    }
    Ok(PublicRecords { tokens })
}

/// Every record, redacted, for private optimisation.
///
/// # Errors
/// As [`redacted`].
pub(crate) fn redacted_private(set: &TrainingSet, sensitive: &Sensitive) -> Result<PrivateRecords> {
    Ok(PrivateRecords {
        tokens: redacted(set, sensitive, None)?.tokens,
        mask_only: set.mask_only,
    })
}

fn all(set: &TrainingSet) -> Vec<Vec<TokenId>> {
    set.records
        .iter()
        .map(|r: &Record| r.tokens.clone())
        .collect()
}

impl PrivateRecords {
    /// Records with loss.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }
    /// Whether no record has loss.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }
    /// |D_pri|: records with loss plus points that are only `<MASK>`.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.tokens.len() as u64 + self.mask_only
    }
    /// The batch of these indices; an index out of range is ignored.
    #[must_use]
    pub fn batch(&self, indices: &[u32]) -> PrivateBatch<'_> {
        PrivateBatch(numbered(&self.tokens, indices))
    }
}

impl PublicRecords {
    /// Number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }
    /// The batch of these indices; an index out of range is ignored.
    #[must_use]
    pub fn batch(&self, indices: &[u32]) -> PublicBatch<'_> {
        PublicBatch(numbered(&self.tokens, indices))
    }
}

/// A batch wholly from the private side.
///
/// It can't be trained on without noise: there is no way from it to a public step.
///
/// ```compile_fail,E0308
/// # fn f(model: &mut dyn reticent_backends::Trainer, private: &reticent_backends::PrivateRecords) {
/// model.public_gradient(&private.batch(&[0])).unwrap(); // expected a PublicBatch
/// # }
/// ```
///
/// Nor can records of both sides meet in one batch: the records inside are not reachable.
///
/// ```compile_fail,E0616
/// # fn f(private: &reticent_backends::PrivateRecords, public: &reticent_backends::PublicRecords) {
/// let mut mixed = private.batch(&[0]);
/// mixed.0.extend(public.batch(&[0]).0); // private fields
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct PrivateBatch<'a>(pub(crate) Vec<Example<'a>>);

/// A batch wholly from the public side.
#[derive(Debug, Clone)]
pub struct PublicBatch<'a>(pub(crate) Vec<Example<'a>>);

/// A record of a batch, and its number among the records it was drawn from: what its dropout
/// masks are keyed by.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(feature = "cpu"),
    expect(dead_code, reason = "engines alone read them")
)]
pub(crate) struct Example<'a> {
    pub(crate) record: u32,
    /// Which of its augmentations it is, from 0: the masks are keyed by that too.
    pub(crate) augmentation: u32,
    pub(crate) tokens: &'a [TokenId],
}

impl AsRef<[TokenId]> for Example<'_> {
    fn as_ref(&self) -> &[TokenId] {
        self.tokens
    }
}

/// The windows in which a model of that context reads a sequence: each token but the first is predicted once, in the
/// first window that reaches it; a window begins with the last token of the one before.
pub(crate) fn windows(tokens: &[TokenId], context: Option<usize>) -> Vec<&[TokenId]> {
    match context {
        Some(context) if tokens.len() > context && context > 1 => (0..tokens.len() - 1)
            .step_by(context - 1)
            .map(|start| &tokens[start..tokens.len().min(start + context)])
            .collect(),
        _ => vec![tokens],
    }
}

impl<'a> Example<'a> {
    fn windows(self, context: Option<usize>) -> impl Iterator<Item = Self> + 'a {
        let parts = windows(self.tokens, context).into_iter();
        parts.map(move |tokens| Self { tokens, ..self })
    }
}

/// The records of these numbers; one that does not exist is ignored.
fn numbered<'a>(records: &'a [Vec<TokenId>], indices: &[u32]) -> Vec<Example<'a>> {
    let one = |&record: &u32| {
        let tokens = records.get(record as usize)?;
        Some(Example {
            record,
            augmentation: 0,
            tokens,
        })
    };
    indices.iter().filter_map(one).collect()
}

#[cfg(feature = "cpu")]
impl<'a> PrivateBatch<'a> {
    /// Sequences as they come, numbered from 0.
    pub(crate) fn in_order(sequences: Vec<&'a [TokenId]>) -> Self {
        Self(by_place(sequences))
    }
}

#[cfg(all(test, feature = "cpu"))]
impl<'a> PublicBatch<'a> {
    /// Sequences as they come, numbered from 0.
    pub(crate) fn in_order(sequences: Vec<&'a [TokenId]>) -> Self {
        Self(by_place(sequences))
    }
}

#[cfg(feature = "cpu")]
fn by_place(sequences: Vec<&[TokenId]>) -> Vec<Example<'_>> {
    (0..)
        .zip(sequences)
        .map(|(record, tokens)| Example {
            record,
            augmentation: 0,
            tokens,
        })
        .collect()
}

impl PublicBatch<'_> {
    /// The same with each record that is longer than a context in the windows it is read in.
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
    /// The records that are one sequence, and each of the others as the sequences it is read in: the windows of one that
    /// is longer than a context, in so many augmentations.
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

    /// Microbatches of at most `tokens` tokens each (at least one example each).
    pub(crate) fn microbatches(&self, tokens: usize) -> Vec<PrivateBatch<'a>> {
        let mut parts: Vec<PrivateBatch<'a>> = Vec::new();
        let mut used = usize::MAX;
        for &example in &self.0 {
            if used.saturating_add(example.tokens.len()) > tokens {
                parts.push(PrivateBatch(Vec::new()));
                used = 0;
            }
            if let Some(part) = parts.last_mut() {
                part.0.push(example);
            }
            used += example.tokens.len();
        }
        parts
    }
}
