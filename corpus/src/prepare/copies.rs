//! Counts the copies of each secret before and after deduplication.

use super::preparer::Preparer;
use super::record_work::Work;
use crate::dedup::{Deduplication, DuplicateIndex, Fate, Marks, fate};
use crate::error::Result;
use crate::split::units;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// In how many places a secret stands before and after deduplication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SecretCopies {
    /// Places in all units.
    pub before: u64,
    /// Places in the units that stay.
    pub after: u64,
    /// Units before.
    pub units_before: u64,
    /// Units after: deduplication removes copies of units, not of secrets.
    pub units_after: u64,
}

impl Preparer {
    /// Returns, for each marked secret string, its copies before and after deduplication. A copy of
    /// which a part is removed counts as removed.
    ///
    /// # Errors
    /// As for [`crate::prepare::prepare`].
    pub fn copies(&self) -> Result<BTreeMap<String, SecretCopies>> {
        let (mut keys, mut tokens) = (Vec::new(), Vec::new());
        for (number, document) in self.documents().iter().enumerate() {
            let units = units(document, number, self.context.options.unit)?;
            for unit in &units {
                let work = Work::new(unit, &self.context.tokenizer)?;
                keys.push(work.key());
                tokens.push(work.tokens(self.context.tokenizer.mask()));
            }
        }
        let options = &self.context.options;
        let by_key = matches!(
            options.duplicates,
            Deduplication::Exact | Deduplication::Bloom { .. }
        );
        let fates = if !options.deduplicate {
            vec![Fate::Keep; keys.len()]
        } else if by_key {
            let method = Some(&options.duplicates);
            let mut index = DuplicateIndex::new(method, keys.len(), options.seed);
            let new = |key| index.enter(key, &Marks::default());
            keys.iter().map(new).map(fate).collect()
        } else {
            options.duplicates.fates(&tokens, options.seed)?
        };
        let mut fates = fates.iter();
        let mut out: BTreeMap<String, SecretCopies> = BTreeMap::new();
        for (number, document) in self.documents().iter().enumerate() {
            let units = units(document, number, self.context.options.unit)?;
            // By their places, and whether every unit with a part of them keeps it.
            let mut copies: BTreeMap<usize, (&str, bool)> = BTreeMap::new();
            for unit in &units {
                let found = fates.next();
                let mut work = Work::new(unit, &self.context.tokenizer)?;
                if let Some(Fate::Cut(ranges)) = found {
                    work.hide(ranges)?;
                }
                let mut here: BTreeMap<&str, bool> = BTreeMap::new();
                for secret in &unit.secrets {
                    let stays = found != Some(&Fate::Drop) && !work.hides(&secret.range);
                    copies.entry(secret.at).or_insert((secret.text, true)).1 &= stays;
                    *here.entry(secret.text).or_default() |= stays;
                }
                for (text, stays) in here {
                    let copies = out.entry(text.to_owned()).or_default();
                    copies.units_before += 1;
                    copies.units_after += u64::from(stays);
                }
            }
            for (text, stays) in copies.into_values() {
                let copies = out.entry(text.to_owned()).or_default();
                copies.before += 1;
                copies.after += u64::from(stays);
            }
        }
        Ok(out)
    }
}
