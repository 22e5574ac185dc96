//! The first pass: what must be known about the units of the whole corpus before the first record.

use super::context::PreparationContext;
use super::record_work::Work;
use super::run::Pass;
use super::source::{Phase, Role, batches};
use crate::dedup::{Deduplication, DuplicateIndex, Fate, Marker, Repeats, Stretches};
use crate::error::Result;
use crate::record::TokenId;
use crate::split::units;
use std::collections::HashMap;
use std::ops::Range;

/// The results of the pass over the whole corpus that some deduplication methods need before the first record.
#[derive(Default)]
pub(super) struct FirstPass {
    /// The number of units, if a Bloom filter needs it.
    units: usize,
    /// The repeated stretches that are cut out, if deduplication removes substrings.
    repeats: Option<Repeats>,
    /// The number of the first unit of each document.
    starts: Vec<usize>,
    /// The fate of every unit, if it was determined beforehand.
    pub(super) fates: Option<Fates>,
}

/// A unit of a part of the corpus: the number of its document among the training documents of the part, and its own
/// number in the document.
pub(super) type UnitPlace = (u32, u32);

/// The fates of the units of a part of the corpus. Units that are not listed are kept whole.
#[derive(Debug, Default)]
pub(super) struct Fates {
    /// The number of the part's first document among the training documents.
    first: usize,
    /// Dropped units, sorted once all have been entered; eight bytes each.
    drops: Vec<UnitPlace>,
    cuts: HashMap<UnitPlace, Vec<Range<usize>>>,
}

impl Fates {
    pub(super) fn new(first: usize) -> Self {
        Self {
            first,
            ..Self::default()
        }
    }

    pub(super) fn enter(&mut self, place: UnitPlace, fate: Fate) {
        match fate {
            Fate::Keep => {}
            Fate::Drop => self.drops.push(place),
            Fate::Cut(ranges) => {
                self.cuts.insert(place, ranges);
            }
        }
    }

    fn place(&self, document: usize, unit: usize) -> Option<UnitPlace> {
        let document = u32::try_from(document.checked_sub(self.first)?).ok()?;
        Some((document, u32::try_from(unit).ok()?))
    }
}

impl FirstPass {
    pub(super) fn look<F>(
        pass: &Pass<'_, F>,
        go_on: &impl Fn(Phase) -> bool,
    ) -> Result<Option<Self>> {
        let context = pass.context;
        let options = &context.options;
        let mut out = Self::default();
        let mut stretches = match options.duplicates {
            _ if !options.deduplicate => return Ok(Some(out)),
            Deduplication::Exact | Deduplication::Near { .. } => return Ok(Some(out)),
            Deduplication::Bloom { .. } => None,
            Deduplication::Substring { length } => Some(Stretches::new(length, pass.scratch)),
        };
        let tokens = stretches.is_some();
        let mut feed = (pass.open)()?;
        let whole = batches(
            &mut feed,
            pass.threads,
            pass.read,
            |batch| {
                let training = batch.iter().filter_map(|(role, document)| match role {
                    Role::Training(number) => Some((*number, document)),
                    Role::HeldOut(_) => None,
                });
                let made = training.map(|(number, document)| {
                    let units = units(document, number, options.unit)?;
                    let mut made = Vec::new();
                    if tokens {
                        let tokenizer = &context.tokenizer;
                        let works = units.iter().map(|unit| Work::new(unit, tokenizer));
                        let each = works.map(|work| Ok(work?.tokens(tokenizer.mask())));
                        made = each.collect::<Result<_>>()?;
                    }
                    Ok((units.len(), made))
                });
                made.collect::<Result<Vec<_>>>()
            },
            |made: Vec<(usize, Vec<Vec<TokenId>>)>| {
                for (units, tokens) in made {
                    if let Some(stretches) = &mut stretches {
                        out.starts.push(out.units);
                        tokens.iter().try_for_each(|unit| stretches.push(unit))?;
                    }
                    out.units += units;
                }
                Ok(go_on(Phase::Duplicates))
            },
        )?;
        if !whole {
            return Ok(None);
        }
        if let Some(stretches) = stretches {
            let repeats = stretches.repeats(pass.threads, &|| go_on(Phase::Duplicates))?;
            if repeats.is_none() {
                return Ok(None);
            }
            out.repeats = repeats;
        }
        Ok(Some(out))
    }

    /// Uses fates that were determined beforehand.
    pub(super) fn of_fates(mut fates: Fates) -> Self {
        fates.drops.sort_unstable();
        Self {
            fates: Some(fates),
            ..Self::default()
        }
    }

    pub(super) fn gate(&self, context: &PreparationContext) -> DuplicateIndex {
        let options = &context.options;
        if self.fates.is_some() {
            return DuplicateIndex::unused();
        }
        let method = options.deduplicate.then_some(&options.duplicates);
        DuplicateIndex::new(method, self.units, options.seed)
    }

    /// Creates the marker for what units are compared by besides digests.
    pub(super) fn marker(&self, context: &PreparationContext) -> Marker {
        let options = &context.options;
        let looked_for = options.deduplicate && self.fates.is_none();
        Marker::new(looked_for.then_some(&options.duplicates), options.seed)
    }

    /// Returns whether a unit of a document is dropped, or `None` if the fates were not determined beforehand.
    pub(super) fn drops(&self, document: usize, unit: usize) -> Option<bool> {
        let fates = self.fates.as_ref()?;
        let place = fates.place(document, unit);
        Some(place.is_some_and(|place| fates.drops.binary_search(&place).is_ok()))
    }

    /// Returns the ranges that are cut out of a unit of a document.
    pub(super) fn cut(&self, document: usize, unit: usize) -> Vec<Range<usize>> {
        if let Some(fates) = &self.fates {
            let place = fates.place(document, unit);
            let ranges = place.and_then(|place| fates.cuts.get(&place));
            return ranges.cloned().unwrap_or_default();
        }
        let repeats = self.repeats.as_ref().zip(self.starts.get(document));
        repeats.map_or_else(Vec::new, |(repeats, start)| repeats.cut(start + unit))
    }
}
