//! The part of a unit's preparation that needs no other unit, done by workers.

use super::context::PreparationContext;
use super::record_work::{Work, unit_key};
use super::secrets::{CHECKED_TEXT, KnownSecret, Outcome, known_secrets};
use crate::canary::{CanaryPlace, CopyFate};
use crate::dedup::{Marker, Marks};
use crate::error::Result;
use crate::policy::Policy;
use crate::record::{Record, Side};
use crate::split::{MarkedSecret, UnitText};
use std::borrow::Cow;
use std::ops::Range;

/// A unit after a worker's stages.
pub(super) struct UnitMade<O> {
    /// The digest of its text before redaction; zeros where nothing is compared by it.
    pub(super) key: [u8; 20],
    /// What it is compared by besides its digest.
    pub(super) marks: Marks,
    /// The copies of canaries that it contains whole.
    pub(super) whole_canaries: Vec<CanaryPlace>,
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
    pub(super) not_examined: bool,
    pub(super) side: Side,
    pub(super) secrets: Vec<KnownSecret>,
    /// `None` if it is only `<MASK>`.
    pub(super) record: Option<Recorded<O>>,
    /// What became of the canaries that it contains, whole or in part.
    pub(super) canaries: Vec<CopyMade>,
}

/// A copy of a canary, or the part of one that a unit contains.
pub(super) struct CopyMade {
    pub(super) place: CanaryPlace,
    pub(super) fate: CopyFate,
    /// Whether the record begins with the tokens that the canary is scored in, if the copy is kept.
    pub(super) in_context: bool,
    /// Whether the record holds any token of the secret.
    pub(super) held: bool,
}

/// A record in the form that it is kept in.
pub(super) struct Recorded<O> {
    pub(super) form: O,
    /// The number of its tokens that carry loss.
    pub(super) loss: u64,
    /// The characters of its text, and how many of them are outside the vocabulary.
    pub(super) characters: [u64; 2],
    /// Whether it was truncated.
    pub(super) truncated: bool,
}

/// The shared state of workers.
pub(super) struct Worker<'a, F> {
    pub(super) context: &'a PreparationContext,
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

impl<O, F: Fn(Record, Cow<'_, str>) -> Result<O>> Worker<'_, F> {
    /// Takes a unit through the stages. `cut` lists stretches that occurred earlier; `copy` returns
    /// whether the unit is a copy of an earlier one, so that nothing of it is kept.
    pub(super) fn unit(
        &self,
        unit: &UnitText<'_>,
        cut: &[Range<usize>],
        copy: impl FnOnce(&[u8; 20], &mut Marks) -> bool,
    ) -> Result<UnitMade<O>> {
        let context = self.context;
        let mask = context.tokenizer.mask();
        self.context.fits(unit)?;
        let key = if self.keyed { unit_key(unit) } else { [0; 20] };
        let cut_into_tokens = || Work::new(unit, &context.tokenizer);
        // A unit that is compared by its digest alone has tokens only if it is kept.
        let work = self.marker.reads_tokens().then(cut_into_tokens);
        let work = work.transpose()?;
        let mut marks = (work.as_ref()).map_or_else(Marks::default, |work| {
            self.marker.marks(&work.content(mask))
        });
        let canaries = self.canaries(unit);
        let kept = if copy(&key, &mut marks) {
            None
        } else {
            let work = work.map_or_else(cut_into_tokens, Ok)?;
            Some(self.kept(unit, work, cut, &canaries)?)
        };
        let whole = canaries.iter().filter(|(_, secret)| secret.cut.is_none());
        Ok(UnitMade {
            key,
            marks,
            whole_canaries: whole.map(|(place, _)| *place).collect(),
            kept,
        })
    }

    fn kept(
        &self,
        unit: &UnitText<'_>,
        mut work: Work<'_>,
        cut: &[Range<usize>],
        canaries: &[(CanaryPlace, &MarkedSecret<'_>)],
    ) -> Result<KeptUnit<O>> {
        let context = self.context;
        let mask = context.tokenizer.mask();
        work.hide(cut)?;
        // Before the policy runs: the plan determines which canaries it catches.
        let caught = canaries.iter();
        let caught = caught.filter(|(place, _)| context.catches(place.canary));
        let caught: Vec<Range<usize>> = caught.map(|(_, secret)| secret.range.clone()).collect();
        work.mask(&caught)?;
        let before = work.clone();
        let planted = canaries.iter().map(|(_, secret)| secret.range.clone());
        let planted: Vec<Range<usize>> = planted.collect();
        let made = context.shape(&mut work)?;
        let policy: &dyn Policy = &context.policy;
        let secrets = known_secrets(
            unit,
            &before,
            (!self.marked).then_some(&made.found),
            context.options.redact.then_some(policy),
            &Outcome {
                after: &work,
                tokens: &made.tokens,
                mask,
                salt: context.division.seal.as_ref().map_or(&[], |seal| &seal[..]),
                none_caught: self.spreads || made.not_examined,
                deduplicate: context.options.deduplicate,
                planted: &planted,
                checked_text: CHECKED_TEXT,
            },
        )?;
        let (side, flagged, uncaught) = (made.side, made.flagged, made.uncaught);
        let not_examined = made.not_examined;
        let whole = made.tokens.len() + 2;
        let record = context.record(made, unit.label);
        let length = record.as_ref().map_or(0, |record| record.tokens.len());
        let canaries = canaries.iter();
        let canaries = canaries.map(|(place, secret)| self.arrival(&work, place, secret, length));
        Ok(KeptUnit {
            repeated: !cut.is_empty(),
            escaped: unit.escaped(),
            cut_secrets: (unit.secrets.iter().filter(|s| s.cut.is_some()))
                .map(|s| s.at)
                .collect(),
            redacted: work.any_mask(),
            flagged,
            uncaught,
            not_examined,
            side,
            secrets,
            canaries: canaries.collect(),
            record: record
                .map(|record| self.recorded(record, whole, &work))
                .transpose()?,
        })
    }

    /// Determines how a secret, or a part of one, reached a record of the given length.
    fn arrival(
        &self,
        work: &Work<'_>,
        place: &CanaryPlace,
        secret: &MarkedSecret<'_>,
        length: usize,
    ) -> CopyMade {
        let mask = self.context.tokenizer.mask();
        let touched = work.touched(&secret.range);
        let line = work.tokens_before(touched.end, mask);
        let fate = if self.context.catches(place.canary) {
            CopyFate::Caught
        } else if secret.cut.is_some() {
            CopyFate::Lost
        } else if length == 0 || work.hides(&secret.range) {
            CopyFate::Masked
        } else if 1 + line.len() > length {
            CopyFate::Truncated
        } else {
            CopyFate::Kept
        };
        // Behind the beginning of text.
        let first = touched.clone().find(|token| !work.is_masked(*token));
        let first = first.map(|token| 1 + work.tokens_before(token, mask).len());
        CopyMade {
            place: *place,
            fate,
            in_context: fate == CopyFate::Kept
                && self.context.lines.get(place.canary) == Some(&line),
            held: first.is_some_and(|first| first < length),
        }
    }

    /// Returns the canaries that a unit contains, whole or in part.
    fn canaries<'u>(&self, unit: &'u UnitText<'_>) -> Vec<(CanaryPlace, &'u MarkedSecret<'u>)> {
        if self.context.copies.is_empty() {
            return Vec::new();
        }
        let placed = unit.secrets.iter().filter_map(|secret| {
            let place = self.context.planted_at(unit.document, secret.at)?;
            Some((*place, secret))
        });
        placed.collect()
    }

    /// Prepares a held-out unit, without deduplication or counts.
    pub(super) fn held_out(&self, unit: &UnitText<'_>) -> Result<Option<Recorded<O>>> {
        self.context.fits(unit)?;
        let mut work = Work::new(unit, &self.context.tokenizer)?;
        let made = self.context.shape(&mut work)?;
        let whole = made.tokens.len() + 2;
        let record = self.context.record(made, unit.label);
        record
            .map(|record| self.recorded(record, whole, &work))
            .transpose()
    }

    /// Converts the record of a unit to the form that is kept; `whole` is its length before it was cut.
    fn recorded(&self, record: Record, whole: usize, work: &Work<'_>) -> Result<Recorded<O>> {
        Ok(Recorded {
            loss: record.loss_tokens(),
            characters: work.characters(),
            truncated: record.tokens.len() < whole,
            form: (self.form)(record, work.text())?,
        })
    }
}
