//! What has to be known of the units of a whole corpus before its first record.

use super::record_work::Work;
use super::run::Pass;
use super::settled::Settled;
use super::source::{Passage, Role};
use crate::dedup::{Deduplication, Fate, Gate, repeated};
use crate::error::Result;
use crate::record::TokenId;
use crate::split::units;
use std::ops::Range;

/// What duplicates take of a look at the whole corpus before the first record.
pub(super) struct Before {
    /// How many units there are, where a Bloom filter has to know.
    units: usize,
    /// What becomes of each unit, where stretches are cut out.
    fates: Vec<Fate>,
    /// The first unit of each document.
    starts: Vec<usize>,
}

impl Before {
    pub(super) fn look<F>(
        pass: &Pass<'_, F>,
        go_on: &impl Fn(Passage) -> bool,
    ) -> Result<Option<Self>> {
        let options = &pass.settled.options;
        let mut out = Self {
            units: 0,
            fates: Vec::new(),
            starts: Vec::new(),
        };
        let length = match options.duplicates {
            _ if !options.deduplicate => return Ok(Some(out)),
            Deduplication::Exact | Deduplication::Near { .. } => return Ok(Some(out)),
            Deduplication::Bloom { .. } => None,
            Deduplication::Substring { length } => Some(length),
        };
        let mut tokens = Vec::new();
        let mut feed = (pass.open)()?;
        while let Some((role, document)) = feed()? {
            let Role::Training(number) = role else {
                continue;
            };
            if !go_on(Passage::Duplicates) {
                return Ok(None);
            }
            let units = units(&document, number, options.unit)?;
            if length.is_some() {
                out.starts.push(out.units);
                tokens.extend(unit_tokens(pass.settled, &units)?);
            }
            out.units += units.len();
        }
        if let Some(length) = length {
            out.fates = repeated(&tokens, length);
        }
        Ok(Some(out))
    }

    pub(super) fn gate(&self, settled: &Settled) -> Gate {
        let options = &settled.options;
        if options.deduplicate {
            Gate::new(&options.duplicates, self.units, options.seed)
        } else {
            Gate::open()
        }
    }

    /// What is cut out of a unit of a document.
    pub(super) fn cut(&self, document: usize, unit: usize) -> &[Range<usize>] {
        let start = self.starts.get(document);
        match start.and_then(|start| self.fates.get(start + unit)) {
            Some(Fate::Cut(ranges)) => ranges,
            _ => &[],
        }
    }
}

/// The tokens of units before redaction.
pub(super) fn unit_tokens(
    settled: &Settled,
    units: &[crate::split::UnitText<'_>],
) -> Result<Vec<Vec<TokenId>>> {
    let mask = settled.tokenizer.mask();
    let works = units.iter().map(|unit| Work::new(unit, &settled.tokenizer));
    works.map(|work| Ok(work?.tokens(mask))).collect()
}
