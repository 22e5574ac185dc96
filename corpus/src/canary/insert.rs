//! Inserts a plan's lines into documents.

use super::plan::CanaryPlan;
use crate::document::{Document, Offsets, joined};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The kind of the span of a planted secret. Marks of a corpus may have it too: its place says what was planted.
const CANARY_KIND: &str = "canary";

/// Where a copy of a canary was inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanaryPlace {
    /// Number of the canary in its plan.
    pub canary: usize,
    /// Number of the copy.
    pub copy: usize,
    /// Number of the document in the given list.
    pub document: usize,
    /// First character of the secret in the new text.
    pub start: usize,
    /// One past its last character.
    pub end: usize,
}

/// Inserts every line of a plan. Each secret becomes a marked span of kind `canary`.
///
/// Lines inserted at the same place keep the plan's order. Documents keep their order.
///
/// # Errors
/// Returns an error if a document of the plan is not in the list, or a line number is beyond its
/// end or inside a marked span.
pub fn insert(
    plan: &CanaryPlan,
    documents: &[Document],
) -> Result<(Vec<Document>, Vec<CanaryPlace>)> {
    let mut out = documents.to_vec();
    let (planted, places) = plant(plan, documents.iter().enumerate())?;
    for (number, document) in planted {
        out[number] = document;
    }
    Ok((out, places))
}

/// Returns the documents of a plan by number, with its lines inserted, and the places of the
/// copies.
///
/// # Errors
/// As for [`insert`].
pub(crate) fn plant<'d>(
    plan: &CanaryPlan,
    documents: impl Iterator<Item = (usize, &'d Document)>,
) -> Result<(HashMap<usize, Document>, Vec<CanaryPlace>)> {
    let by_id: HashMap<&str, (usize, &Document)> = documents
        .map(|(number, d)| (d.id.as_str(), (number, d)))
        .collect();
    let mut added: HashMap<&str, Vec<Added<'_>>> = HashMap::new();
    for (number, canary) in plan.canaries.iter().enumerate() {
        let before = canary.context.chars().count();
        for (copy, insertion) in canary.insertions.iter().enumerate() {
            let id = insertion.document.as_str();
            if !by_id.contains_key(id) {
                return Err(Error::Plan(format!(
                    "{}: the document of copy {} is not in this corpus",
                    canary.id,
                    copy + 1
                )));
            }
            added.entry(id).or_default().push(Added {
                canary: number,
                copy,
                line: insertion.line,
                text: &insertion.text,
                secret: before..before + canary.secret.chars().count(),
            });
        }
    }
    let mut places = Vec::new();
    let mut out = HashMap::new();
    for (id, mut lines) in added {
        // A stable sort keeps the plan's order at the same place.
        lines.sort_by_key(|a| a.line);
        if let Some(&(number, document)) = by_id.get(id) {
            out.insert(number, extend(document, number, &lines, &mut places)?);
        }
    }
    places.sort_by_key(|p| (p.canary, p.copy));
    Ok((out, places))
}

/// A line to be inserted into a document.
struct Added<'a> {
    canary: usize,
    copy: usize,
    line: u64,
    text: &'a str,
    secret: std::ops::Range<usize>,
}

/// Returns the line numbers before which a line may be inserted, which are not inside a marked
/// span.
pub(crate) fn gaps(document: &Document) -> Vec<u64> {
    let inside = |at: usize| {
        let secret = document.secrets.iter().any(|s| s.start < at && at < s.end);
        secret || document.masked.iter().any(|m| m.start < at && at < m.end)
    };
    line_starts(document)
        .into_iter()
        .enumerate()
        .filter(|&(_, at)| !inside(at))
        .map(|(line, _)| line as u64)
        .collect()
}

/// Returns the character at which each line begins, and last the end of the text.
fn line_starts(document: &Document) -> Vec<usize> {
    let offsets = Offsets::new(&document.text);
    std::iter::once(0)
        .chain(document.text.match_indices('\n').map(|(at, _)| at + 1))
        .map(|byte| offsets.character(byte))
        .chain(std::iter::once(offsets.character(document.text.len())))
        .collect()
}

fn extend(
    document: &Document,
    number: usize,
    lines: &[Added<'_>],
    places: &mut Vec<CanaryPlace>,
) -> Result<Document> {
    let allowed = gaps(document);
    if let Some(bad) = lines.iter().find(|a| !allowed.contains(&a.line)) {
        return Err(Error::Plan(format!(
            "document number {number} takes no line before line {}",
            bad.line
        )));
    }
    let starts = line_starts(document);
    let own: Vec<&str> = document.text.split('\n').collect();
    let mut text: Vec<&str> = Vec::with_capacity(own.len() + lines.len());
    let mut out = document.clone();
    let mut next = lines.iter().peekable();
    // The number of characters inserted before the current line.
    let mut shift = 0;
    let mut planted = Vec::new();
    let mut shifts = Vec::with_capacity(own.len());
    for (line, start) in starts.iter().enumerate() {
        while let Some(add) = next.next_if(|a| a.line == line as u64) {
            // After the last line, the new line follows its own line feed.
            let at = start + shift + usize::from(line == own.len());
            planted.push((add, at));
            shift += add.text.chars().count() + 1;
            text.push(add.text);
        }
        shifts.push((*start, shift));
        if let Some(line) = own.get(line) {
            text.push(line);
        }
    }
    out.text = text.join("\n");
    // A span moves by what was inserted before the line in which it begins.
    let moved = |at: usize| {
        let line = shifts[..own.len()].partition_point(|&(start, _)| start <= at);
        at + shifts.get(line.saturating_sub(1)).map_or(0, |&(_, s)| s)
    };
    for secret in &mut out.secrets {
        let by = moved(secret.start) - secret.start;
        secret.start += by;
        secret.end += by;
    }
    for masked in &mut out.masked {
        let by = moved(masked.start) - masked.start;
        masked.start += by;
        masked.end += by;
    }
    if let Some(answers) = &mut out.answers {
        // Planted lines are learned, wherever they are; a span around one includes it.
        let added = planted
            .iter()
            .map(|(add, at)| *at..at + add.text.chars().count());
        let own = std::mem::take(&mut answers.spans).into_iter();
        let own = own.map(|span| moved(span.start)..moved(span.end - 1) + 1);
        answers.spans = joined(own.chain(added).collect());
    }
    for (add, at) in planted {
        let (start, end) = (at + add.secret.start, at + add.secret.end);
        out = out.with_secret(start, end, CANARY_KIND);
        places.push(CanaryPlace {
            canary: add.canary,
            copy: add.copy,
            document: number,
            start,
            end,
        });
    }
    out.secrets.sort_by_key(|s| s.start);
    Ok(out)
}
