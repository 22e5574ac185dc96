//! Neighbouring corpora for many secrets: which secrets are caught, and how many records the others
//! affect.

use super::diff::{NeighbourDiff, mask_secret, neighbour_diff};
use super::points::Points;
use super::preparer::Preparer;
use crate::dedup::Deduplication;
use crate::document::Offsets;
use crate::error::{Result, range};
use crate::random::{Choices, Purpose};
use crate::redaction::{default_threads, until};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Which secrets are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Selection {
    /// Every one.
    All,
    /// A simple random sample of the distinct secrets, without replacement.
    Sample {
        /// How many, at least 1; all of them if there are fewer.
        count: usize,
        /// The same seed takes the same ones.
        seed: u64,
    },
}

/// What masking one secret beforehand changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretDiff {
    /// The secret.
    pub secret: String,
    /// Its kind, where it is marked first.
    pub kind: String,
    /// Documents it is marked in.
    pub documents: u64,
    /// prepare(D) against prepare(D′).
    pub diff: NeighbourDiff,
}

/// Numbers of secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct NeighbourCounts {
    /// How many were taken.
    pub examined: u64,
    /// Nothing differs.
    pub caught: u64,
    /// Something does, or may in another run: the policy could not examine a record.
    pub missed: u64,
    /// Of the missed ones, those after which some record is on the other side.
    pub other_side: u64,
    /// The largest k.
    pub most_records: u64,
}

impl NeighbourCounts {
    fn enter(&mut self, diff: &NeighbourDiff) {
        self.examined += 1;
        self.caught += u64::from(diff.identical());
        self.missed += u64::from(!diff.identical());
        self.other_side += u64::from(!diff.same_split);
        self.most_records = self.most_records.max(diff.records);
    }
}

/// Neighbour-diff of the secrets taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Neighbours {
    /// Distinct marked secrets in the corpus; canaries are not among them.
    pub distinct: u64,
    /// All kinds together.
    pub all: NeighbourCounts,
    /// By kind.
    pub by_kind: BTreeMap<String, NeighbourCounts>,
    /// How many secrets change how many records.
    pub by_records: BTreeMap<u64, u64>,
    /// One by one, in alphabetical order.
    pub secrets: Vec<SecretDiff>,
}

impl Preparer {
    /// Compares prepare(D) with prepare(D′) for many secrets, where D′ is D with every marked
    /// occurrence of one secret masked. This defines which secrets are caught, and k.
    ///
    /// If deduplication is exact or disabled, only the documents that contain the secret are
    /// prepared again; the effect on other copies of their units follows from the first copy of
    /// each. Otherwise, the whole corpus is prepared once per secret.
    ///
    /// Records that the policy could not examine are masked whole, and another run may examine them: they count as
    /// differing if the secret is in them, or, where the whole corpus is prepared, whatever they hold.
    ///
    /// `progress` is called with the number of secrets that are done and their total, in their order. If it returns
    /// false, the comparison ends with the results so far.
    ///
    /// ```
    /// use reticent_corpus::Document;
    /// use reticent_corpus::prepare::{PrepareOptions, Preparer, Selection};
    /// let text = "USR: my number is 415-555-0123 .";
    /// let known = Document::new("a", text).with_secret(18, 30, "phone");
    /// let other = Document::new("b", "USR: the name is Zork .").with_secret(17, 21, "name");
    /// let preparer = Preparer::new(&[known, other], &PrepareOptions::default())?;
    /// let found = preparer.neighbours(Selection::All, &|_, _| true)?;
    /// assert_eq!((found.all.examined, found.all.missed), (2, 1));
    /// assert_eq!(found.by_kind["name"].most_records, 1);
    /// # Ok::<(), reticent_corpus::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`crate::prepare::prepare`]; also returns an error for a sample of 0 secrets.
    pub fn neighbours(
        &self,
        selection: Selection,
        progress: &dyn Fn(u64, u64) -> bool,
    ) -> Result<Neighbours> {
        let places = self.places_of_secrets();
        let taken = taken(&places, selection)?;
        let local = !self.context.options.deduplicate
            || self.context.options.duplicates == Deduplication::Exact;
        let diffs = if local {
            let points = Points::new(self)?;
            each(&taken, progress, |(secret, (_, documents))| {
                points.diff(self, secret, documents)
            })?
        } else {
            let whole = self.run()?;
            each(&taken, progress, |(secret, _)| {
                let other = self.run_on(&mask_secret(self.documents(), secret))?;
                let diff = neighbour_diff(&whole, &other);
                let unknown = whole.facts.not_examined.max(other.facts.not_examined);
                Ok(NeighbourDiff {
                    records: diff.records + unknown,
                    ..diff
                })
            })?
        };
        let mut out = Neighbours {
            distinct: places.len() as u64,
            all: NeighbourCounts::default(),
            by_kind: BTreeMap::new(),
            by_records: BTreeMap::new(),
            secrets: Vec::with_capacity(diffs.len()),
        };
        for ((secret, (kind, documents)), diff) in taken.into_iter().zip(diffs) {
            out.all.enter(&diff);
            out.by_kind.entry(kind.clone()).or_default().enter(&diff);
            *out.by_records.entry(diff.records).or_default() += 1;
            out.secrets.push(SecretDiff {
                secret: secret.clone(),
                kind: kind.clone(),
                documents: documents.len() as u64,
                diff,
            });
        }
        Ok(out)
    }

    /// Returns every marked secret except canaries, with its first kind and its documents.
    fn places_of_secrets(&self) -> BTreeMap<String, SecretDocuments> {
        let mut places: BTreeMap<String, SecretDocuments> = BTreeMap::new();
        for (number, document) in self.documents().iter().enumerate() {
            if document.secrets.is_empty() {
                continue;
            }
            let offsets = Offsets::new(&document.text);
            for secret in &document.secrets {
                let range = offsets.bytes(secret.start, secret.end).unwrap_or(0..0);
                if self.context.planted_at(number, range.start).is_some() {
                    continue;
                }
                let (_, documents) = places
                    .entry(document.text[range].to_owned())
                    .or_insert_with(|| (secret.kind.clone(), BTreeSet::new()));
                documents.insert(number);
            }
        }
        places
    }
}

/// The kind and the documents of a secret.
type SecretDocuments = (String, BTreeSet<usize>);
type Taken<'a> = (&'a String, &'a SecretDocuments);

fn taken(
    places: &BTreeMap<String, SecretDocuments>,
    selection: Selection,
) -> Result<Vec<Taken<'_>>> {
    let all: Vec<Taken<'_>> = places.iter().collect();
    Ok(match selection {
        Selection::All => all,
        Selection::Sample { count: 0, .. } => {
            return Err(range("the number of secrets", 0, "at least 1"));
        }
        Selection::Sample { count, seed } => {
            let mut chosen = Choices::new(seed, Purpose::Neighbours).distinct(all.len(), count);
            chosen.sort_unstable();
            chosen.into_iter().map(|i| all[i]).collect()
        }
    })
}

/// Runs `work` on all cores. The items behind the one at which `progress` returned false are left out.
fn each<T: Sync, R: Send>(
    items: &[T],
    progress: &dyn Fn(u64, u64) -> bool,
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let (mut left, mut results) = (items.iter(), Vec::with_capacity(items.len()));
    until(
        default_threads(),
        || Ok(left.next().map(|item| (item, ()))),
        work,
        |result, ()| {
            results.push(result);
            Ok(progress(results.len() as u64, items.len() as u64))
        },
    )?;
    Ok(results)
}
