//! What becomes of each secret: masked, missed, missed by both.

use super::facts::{KindFacts, SecretFacts, SecretSource};
use super::record_work::Work;
use crate::canary::CANARY_KIND;
use crate::policy::Policy;
use crate::record::{Side, TokenId};
use crate::split::UnitText;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Counts secrets over the kept records.
#[derive(Debug)]
pub(super) struct SecretBook {
    source: SecretSource,
    /// Whether masking a secret can change records that do not hold it: then none counts as
    /// caught.
    spreads: bool,
    by_text: HashMap<String, Entry>,
}

#[derive(Debug, Default)]
struct Entry {
    kind: String,
    occurrences: u64,
    missed_records: u64,
    by_both: bool,
    public: bool,
}

/// The record a secret stands in, as it came out.
pub(super) struct Outcome<'a> {
    /// Tokens before any cutting to length.
    pub(super) tokens: &'a [TokenId],
    pub(super) side: Side,
    pub(super) flagged: bool,
    pub(super) mask: TokenId,
}

impl SecretBook {
    pub(super) fn new(source: SecretSource, spreads: bool) -> Self {
        Self {
            source,
            spreads,
            by_text: HashMap::new(),
        }
    }

    /// Enters the secrets of one kept unit. `before` is the unit before redaction, `base` the
    /// policy before simulated misses, `policy` the one that ran (none: no redaction).
    pub(super) fn enter(
        &mut self,
        unit: &UnitText<'_>,
        before: &Work<'_>,
        base: &dyn Policy,
        policy: Option<&dyn Policy>,
        outcome: &Outcome<'_>,
    ) {
        let mut missed_here: Vec<String> = Vec::new();
        for (range, kind) in self.known(unit, before, base) {
            let text = unit.text[range.clone()].to_owned();
            let missed = self.spreads || !caught(before, &range, policy, outcome);
            let entry = self.by_text.entry(text.clone()).or_insert_with(|| Entry {
                kind,
                ..Entry::default()
            });
            entry.occurrences += 1;
            if missed {
                entry.by_both |= !outcome.flagged;
                entry.public |= outcome.side == Side::Public;
                if !missed_here.contains(&text) {
                    entry.missed_records += 1;
                    missed_here.push(text);
                }
            }
        }
    }

    fn known(
        &self,
        unit: &UnitText<'_>,
        before: &Work<'_>,
        base: &dyn Policy,
    ) -> Vec<(Range<usize>, String)> {
        match self.source {
            SecretSource::Gold => unit
                .secrets
                .iter()
                .filter(|s| s.kind != CANARY_KIND && !before.hides(&s.range))
                .map(|s| (s.range.clone(), s.kind.to_owned()))
                .collect(),
            SecretSource::Detected => before
                .spans(base)
                .into_iter()
                .filter(|(_, kind)| kind.as_ref() != CANARY_KIND)
                .map(|(range, kind)| (range, kind.to_string()))
                .collect(),
        }
    }

    pub(super) fn facts(&self) -> SecretFacts {
        let mut all = KindFacts::default();
        let mut by_kind: BTreeMap<String, KindFacts> = BTreeMap::new();
        for entry in self.by_text.values() {
            entry.count(&mut all);
            entry.count(by_kind.entry(entry.kind.clone()).or_default());
        }
        let most = self.by_text.values().map(|e| e.missed_records).max();
        SecretFacts {
            source: self.source,
            all,
            by_kind,
            most_records: most.unwrap_or(0),
        }
    }
}

impl Entry {
    fn count(&self, facts: &mut KindFacts) {
        let missed = self.missed_records > 0;
        facts.distinct += 1;
        facts.occurrences += self.occurrences;
        facts.masked += u64::from(!missed);
        facts.missed += u64::from(missed);
        facts.missed_by_both += u64::from(self.by_both);
        facts.public += u64::from(self.public);
    }
}

/// Whether masking the secret beforehand gives the same record, byte for byte. Then the
/// record holds a mask, and so the side is the same too.
///
/// This runs the policy once more per secret: a policy may look at the whole record, so no
/// shorter way gives the same answer. A unit of very many secrets is slow.
fn caught(
    before: &Work<'_>,
    secret: &Range<usize>,
    policy: Option<&dyn Policy>,
    outcome: &Outcome<'_>,
) -> bool {
    let mut neighbour = before.clone();
    neighbour.replace(secret, outcome.mask);
    if let Some(policy) = policy {
        neighbour.redact(policy);
    }
    neighbour.tokens(outcome.mask) == outcome.tokens
}
