//! The part of a unit's preparation that needs no other unit, done by workers.

use super::context::PreparationContext;
use super::record_work::Work;
use super::secrets::{CHECKED_TEXT, KnownSecret, Outcome, known_secrets};
use crate::canary::{CanaryPlace, CopyFate};
use crate::dedup::{Marker, Marks};
use crate::error::Result;
use crate::policy::Policy;
use crate::record::{Record, Side};
use crate::split::UnitText;
use std::ops::Range;

/// A unit after a worker's stages.
pub(super) struct UnitMade<O> {
    /// The digest of its text before redaction; zeros where nothing is compared by it.
    pub(super) key: [u8; 20],
    /// What it is compared by besides its digest.
    pub(super) marks: Marks,
    /// The copies of canaries that it contains whole.
    pub(super) canaries: Vec<CanaryPlace>,
    /// `None` for a copy of an earlier unit, of which nothing is kept.
    pub(super) kept: Option<KeptUnit<O>>,
}

/// The results for a unit that is kept.
pub(super) struct KeptUnit<O> {
    /// Whether a stretch that occurred earlier is masked in it.
    pub(super) repeated: bool,
    pub(super) escaped: bool,
    /// Where in the document the marked secrets begin of which the unit contains only part.
    pub(super) cut_secrets: Vec<usize>,
    pub(super) redacted: bool,
    pub(super) flagged: bool,
    pub(super) uncaught: u64,
    pub(super) side: Side,
    pub(super) secrets: Vec<KnownSecret>,
    /// `None` if it is only `<MASK>`.
    pub(super) record: Option<Recorded<O>>,
    /// The fate of each of its canaries.
    pub(super) fates: Vec<std::result::Result<InContext, CopyFate>>,
}

/// A record in the form that it is kept in.
pub(super) struct Recorded<O> {
    pub(super) form: O,
    /// The number of its tokens that carry loss.
    pub(super) loss: u64,
    /// How many of those stand for a character outside the vocabulary.
    pub(super) unknown: u64,
    /// Whether it was truncated.
    pub(super) truncated: bool,
}

/// Whether a canary copy that reached its record follows the context that it is scored in.
pub(super) struct InContext(pub(super) bool);

/// The shared state of workers.
pub(super) struct Worker<'a, F> {
    pub(super) settled: &'a PreparationContext,
    /// Whether masking a secret can change records that do not contain it.
    pub(super) spreads: bool,
    /// Whether the secrets are the marked spans; otherwise they are what the policy finds.
    pub(super) marked: bool,
    /// Computes what units are compared by besides digests.
    pub(super) marker: &'a Marker,
    /// Whether units are compared by their digests.
    pub(super) keyed: bool,
    /// Converts a record and its text to the form that is kept.
    pub(super) form: &'a F,
}

impl<O, F: Fn(Record, String) -> Result<O>> Worker<'_, F> {
    /// Takes a unit through the stages. `cut` lists stretches that occurred earlier; `copy` returns
    /// whether the unit is a copy of an earlier one, so that nothing of it is kept.
    pub(super) fn unit(
        &self,
        unit: &UnitText<'_>,
        cut: &[Range<usize>],
        copy: impl FnOnce(&[u8; 20], &mut Marks) -> bool,
    ) -> Result<UnitMade<O>> {
        let settled = self.settled;
        let mask = settled.tokenizer.mask();
        self.settled.fits(unit)?;
        let work = Work::new(unit, &settled.tokenizer)?;
        let tokens = work.content(mask);
        let key = if self.keyed { work.key() } else { [0; 20] };
        let mut marks = self.marker.marks(&tokens);
        let canaries = self.canaries(unit);
        let kept = if copy(&key, &mut marks) {
            None
        } else {
            Some(self.kept(unit, work, cut, &canaries)?)
        };
        Ok(UnitMade {
            key,
            marks,
            canaries: canaries.into_iter().map(|(place, _)| place).collect(),
            kept,
        })
    }

    fn kept(
        &self,
        unit: &UnitText<'_>,
        mut work: Work<'_>,
        cut: &[Range<usize>],
        canaries: &[(CanaryPlace, &Range<usize>)],
    ) -> Result<KeptUnit<O>> {
        let settled = self.settled;
        let mask = settled.tokenizer.mask();
        work.hide(cut)?;
        // Before the policy runs: the plan determines which canaries it catches.
        let caught = canaries.iter();
        let caught = caught.filter(|(place, _)| settled.catches(place.canary));
        let caught: Vec<Range<usize>> = caught.map(|(_, span)| (*span).clone()).collect();
        work.mask(&caught)?;
        let before = work.clone();
        // Those of which the unit holds only a part, too.
        let is_planted = |at| settled.planted_at(unit.document, at).is_some();
        let planted = unit.secrets.iter().filter(|s| is_planted(s.at));
        let planted: Vec<Range<usize>> = planted.map(|s| s.range.clone()).collect();
        let made = settled.shape(&mut work)?;
        let policy: &dyn Policy = &settled.policy;
        let secrets = known_secrets(
            unit,
            &before,
            (!self.marked).then_some(&made.found),
            settled.options.redact.then_some(policy),
            &Outcome {
                after: &work,
                tokens: &made.tokens,
                mask,
                salt: settled.division.seal.as_ref().map_or(&[], |seal| &seal[..]),
                spreads: self.spreads,
                planted: &planted,
                checked_text: CHECKED_TEXT,
            },
        )?;
        let (side, flagged, uncaught) = (made.side, made.flagged, made.uncaught);
        let whole = made.tokens.len() + 2;
        let record = settled.record(made, unit.label);
        let length = record.as_ref().map_or(0, |record| record.tokens.len());
        let fates = canaries.iter().map(|(place, span)| {
            if settled.catches(place.canary) {
                return Err(CopyFate::Caught);
            }
            if length == 0 {
                return Err(CopyFate::Masked);
            }
            self.arrival(&work, place, span, length)
        });
        Ok(KeptUnit {
            repeated: !cut.is_empty(),
            escaped: unit.escaped(),
            cut_secrets: (unit.secrets.iter().filter(|s| s.cut.is_some()))
                .map(|s| s.at)
                .collect(),
            redacted: work.any_mask(),
            flagged,
            uncaught,
            side,
            secrets,
            fates: fates.collect(),
            record: record
                .map(|record| self.recorded(record, whole, &work))
                .transpose()?,
        })
    }

    /// Checks that a secret is whole in a record of the given length, and whether the record begins with the tokens that
    /// it is scored in.
    fn arrival(
        &self,
        work: &Work<'_>,
        place: &CanaryPlace,
        secret: &Range<usize>,
        length: usize,
    ) -> std::result::Result<InContext, CopyFate> {
        if work.hides(secret) {
            return Err(CopyFate::Masked);
        }
        let mask = self.settled.tokenizer.mask();
        let line = work.tokens_before(work.touched(secret).end, mask);
        if 1 + line.len() > length {
            return Err(CopyFate::Truncated);
        }
        Ok(InContext(
            self.settled.lines.get(place.canary) == Some(&line),
        ))
    }

    /// Returns the canaries that a unit contains whole.
    fn canaries<'u>(&self, unit: &'u UnitText<'_>) -> Vec<(CanaryPlace, &'u Range<usize>)> {
        let whole = unit.secrets.iter().filter(|s| s.cut.is_none());
        whole
            .filter_map(|s| {
                let place = self.settled.planted_at(unit.document, s.at)?;
                Some((*place, &s.range))
            })
            .collect()
    }

    /// Prepares a held-out unit, without deduplication or counts.
    pub(super) fn held_out(&self, unit: &UnitText<'_>) -> Result<Option<Recorded<O>>> {
        self.settled.fits(unit)?;
        let mut work = Work::new(unit, &self.settled.tokenizer)?;
        let made = self.settled.shape(&mut work)?;
        let whole = made.tokens.len() + 2;
        let record = self.settled.record(made, unit.label);
        record
            .map(|record| self.recorded(record, whole, &work))
            .transpose()
    }

    /// Converts the record of a unit to the form that is kept; `whole` is its length before it was cut.
    fn recorded(&self, record: Record, whole: usize, work: &Work<'_>) -> Result<Recorded<O>> {
        let unknown = self.settled.tokenizer.unknown();
        Ok(Recorded {
            loss: record.loss_tokens(),
            unknown: unknown.map_or(0, |token| record.loss_on_token(token)),
            truncated: record.tokens.len() < whole,
            form: (self.form)(record, work.text())?,
        })
    }
}
