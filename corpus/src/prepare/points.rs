//! Neighbours under exact deduplication, without preparing the whole corpus again: the outcome of a
//! point depends on its own text, and on whether it is the first of its copies.

use super::diff::{NeighbourDiff, mask_secret};
use super::preparer::Preparer;
use super::record_work::Work;
use crate::document::Document;
use crate::error::Result;
use crate::record::{Record, Side};
use crate::split::units;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// The digest of the text before redaction. Copies have the same key.
type Key = [u8; 20];

/// A unit on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct UnitOutcome {
    key: Key,
    /// The digest of its record, and its side; `None` if the unit is only `<MASK>`.
    out: Out,
    /// Whether the policy could not examine it.
    not_examined: bool,
}

type Out = Option<(Key, Side)>;

/// The points that masking a secret changes.
#[derive(Debug, Default)]
struct Changed {
    /// The changed points by number, in their new state.
    points: BTreeMap<usize, UnitOutcome>,
    /// For every key that appears or disappears, the number of its first copy in the new state.
    firsts: HashMap<Key, Option<usize>>,
}

/// Every unit of a corpus, and which units are copies of each other.
#[derive(Debug)]
pub(super) struct Points {
    points: Vec<UnitOutcome>,
    /// Where each document's points begin, and the total number of points.
    starts: Vec<usize>,
    /// The numbers of the points with each key, ascending. Empty without deduplication.
    copies: HashMap<Key, Vec<usize>>,
}

impl Points {
    pub(super) fn new(preparer: &Preparer) -> Result<Self> {
        let mut out = Self {
            points: Vec::new(),
            starts: vec![0],
            copies: HashMap::new(),
        };
        for (number, document) in preparer.documents().iter().enumerate() {
            out.points.extend(points(preparer, document, number)?);
            out.starts.push(out.points.len());
        }
        if preparer.context.options.deduplicate {
            for (number, point) in out.points.iter().enumerate() {
                out.copies.entry(point.key).or_default().push(number);
            }
        }
        Ok(out)
    }

    /// Returns what masking a secret in these documents changes.
    pub(super) fn diff(
        &self,
        preparer: &Preparer,
        secret: &str,
        documents: &BTreeSet<usize>,
    ) -> Result<NeighbourDiff> {
        let mut changed = Changed::default();
        for &number in documents {
            let document = std::slice::from_ref(&preparer.documents()[number]);
            for masked in mask_secret(document, secret) {
                let new = points(preparer, &masked, number)?;
                let numbers = self.starts[number]..;
                let differ = numbers
                    .zip(new)
                    .filter(|(at, new)| self.points[*at] != *new);
                changed.points.extend(differ);
            }
        }
        self.find_firsts(&mut changed);
        let (mut records, mut sides) = (0, 0);
        let (mut public_before, mut public_after) = (0u64, 0u64);
        for at in self.touched(&changed) {
            let kept = [self.before(at), self.after(at, &changed)];
            // Masked whole, whatever it holds; another run may examine it, and find otherwise.
            let unknown = kept[0] != kept[1] && kept.iter().flatten().any(|unit| unit.not_examined);
            let [old, new] = kept.map(|unit| unit.and_then(|unit| unit.out));
            let (old_side, new_side) = (side(old), side(new));
            records += u64::from(unknown || old != new);
            sides += u64::from(old_side != new_side);
            public_before += u64::from(old_side == Side::Public);
            public_after += u64::from(new_side == Side::Public);
        }
        Ok(NeighbourDiff {
            records,
            sides,
            same_split: sides == 0,
            same_counts: public_before == public_after,
            aligned: true,
        })
    }

    /// Finds the first copy of every key that appears or disappears.
    fn find_firsts(&self, changed: &mut Changed) {
        if self.copies.is_empty() {
            return;
        }
        for at in changed.points.keys() {
            let key = self.points[*at].key;
            changed.firsts.entry(key).or_insert_with(|| {
                let mut copies = self.copies.get(&key)?.iter();
                copies.find(|at| !changed.points.contains_key(at)).copied()
            });
        }
        // Points are in order, so the first new copy is the lowest.
        for (at, point) in &changed.points {
            let stays = || self.copies.get(&point.key)?.first().copied();
            let first = changed.firsts.entry(point.key).or_insert_with(stays);
            *first = Some(first.map_or(*at, |stays| stays.min(*at)));
        }
    }

    /// Returns the changed points, and the points that become or cease to be the first of their
    /// copies.
    fn touched(&self, changed: &Changed) -> BTreeSet<usize> {
        let mut out: BTreeSet<usize> = changed.points.keys().copied().collect();
        for (key, after) in &changed.firsts {
            out.extend(self.first(key));
            out.extend(after);
        }
        out
    }

    fn first(&self, key: &Key) -> Option<usize> {
        self.copies.get(key)?.first().copied()
    }

    /// Returns the point, unless it is dropped as a copy.
    fn before(&self, at: usize) -> Option<UnitOutcome> {
        let point = self.points[at];
        let kept = self.copies.is_empty() || self.first(&point.key) == Some(at);
        kept.then_some(point)
    }

    fn after(&self, at: usize, changed: &Changed) -> Option<UnitOutcome> {
        let point = *changed.points.get(&at).unwrap_or(&self.points[at]);
        let kept = self.copies.is_empty() || changed.firsts.get(&point.key) == Some(&Some(at));
        kept.then_some(point)
    }
}

/// A point that is only `<MASK>` is private.
fn side(out: Out) -> Side {
    out.map_or(Side::Private, |(_, side)| side)
}

fn points(preparer: &Preparer, document: &Document, number: usize) -> Result<Vec<UnitOutcome>> {
    units(document, number, preparer.context.options.unit)?
        .iter()
        .map(|unit| {
            let mut work = Work::new(unit, &preparer.context.tokenizer)?;
            let key = work.key();
            let made = preparer.context.shape(&mut work)?;
            let not_examined = made.not_examined;
            let record = preparer.context.record(made, unit.label);
            Ok(UnitOutcome {
                key,
                not_examined,
                out: record
                    .as_ref()
                    .map(|record| (of_record(record), record.side)),
            })
        })
        .collect()
}

fn of_record(record: &Record) -> Key {
    // A 0 separates the two lists; no range begins with it.
    let numbers = |span: &Range<usize>| [span.start as u64, span.end as u64];
    let spans = record.sensitive.iter().flat_map(numbers);
    let ignored = record.ignored.iter().flat_map(numbers);
    let between = (!record.ignored.is_empty()).then_some(0);
    let spans = spans.chain(between).chain(ignored);
    let bytes: Vec<u8> = (record.tokens.len() as u64)
        .to_le_bytes()
        .into_iter()
        .chain(record.tokens.iter().flat_map(|token| token.to_le_bytes()))
        .chain(spans.flat_map(u64::to_le_bytes))
        .collect();
    crate::random::digest(&bytes)
}
