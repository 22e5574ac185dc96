//! Measuring a policy by hand: a simple random sample of records, and what the policy does to
//! the secrets that a person marked in them.

mod judge;

pub use judge::{FoundSpan, Judged, PolicyJudge, SecretFate, Words};

use crate::document::{Document, Masked, Offsets, Secret};
use crate::error::{Result, range};
use crate::random::{Choices, Purpose};
use crate::split::units;
use crate::unit::Unit;

/// The records of a corpus as documents of their own, with their marked secrets: what
/// [`crate::prepare::prepare`] cuts documents into. A record is called as its document where it is all
/// of it, and `DOCUMENT:NUMBER` otherwise.
///
/// # Errors
/// Spans that do not fit their text.
pub fn screening_records(documents: &[Document], unit: Unit) -> Result<Vec<Document>> {
    let mut out = Vec::new();
    for (number, document) in documents.iter().enumerate() {
        for cut in units(document, number, unit)? {
            let offsets = Offsets::new(&cut.text);
            let whole = matches!(unit, Unit::Document | Unit::Dialogue | Unit::User);
            let id = if whole {
                document.id.clone()
            } else {
                format!("{}:{}", document.id, cut.index)
            };
            out.push(Document {
                id,
                secrets: cut
                    .secrets
                    .iter()
                    .map(|s| Secret {
                        start: offsets.character(s.range.start),
                        end: offsets.character(s.range.end),
                        kind: s.kind.to_owned(),
                    })
                    .collect(),
                masked: cut
                    .masked
                    .iter()
                    .map(|m| Masked {
                        start: offsets.character(m.start),
                        end: offsets.character(m.end),
                    })
                    .collect(),
                label: cut.label,
                answers: None,
                text: cut.text.into_owned(),
            });
        }
    }
    Ok(out)
}

/// A simple random sample without replacement: `count` of `total` records in random order.
/// It depends on these three numbers and on nothing else: on no text, no policy, no threshold.
///
/// Any part of the sample that is named beforehand, its first hundred for instance, is a simple
/// random sample too.
///
/// # Errors
/// No record to draw, or more than there are.
pub fn draw_sample(total: usize, count: usize, seed: u64) -> Result<Vec<usize>> {
    if !(1..=total).contains(&count) {
        return Err(range(
            "the size of the sample",
            count,
            format!("from 1 to {total}, the number of records"),
        ));
    }
    Ok(Choices::new(seed, Purpose::Labels).distinct(total, count))
}
