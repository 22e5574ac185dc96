//! Reads the list of records that someone screened.

use anyhow::{Context, Result, ensure};
use std::path::Path;

/// Returns the numbers, in ascending order, of the records whose ids a file lists, one a line; `number` maps
/// an id to its number.
///
/// # Errors
/// Returns an error if the file can't be read, an id is not a record's, or no id is listed.
pub(crate) fn screened_records(
    path: &Path,
    number: impl Fn(&str) -> Option<u32>,
) -> Result<Vec<u32>> {
    let text = crate::contract::read_named_text(path)?;
    let mut records = Vec::new();
    for (line, id) in (1..).zip(text.lines()) {
        let id = id.trim();
        if id.is_empty() {
            continue;
        }
        records.push(number(id).with_context(|| {
            format!(
                "{}, line {line}: is not a record of PREPARED; use ids from its train.jsonl. A record in which another policy finds \
                 something else has another id with the same number (unit-NUMBER-...); without it, the list would depend on secrets",
                path.display()
            )
        })?);
    }
    ensure!(!records.is_empty(), "{}: lists no record", path.display());
    records.sort_unstable();
    records.dedup();
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_records_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ids.txt");
        let number = |id: &str| id.strip_prefix('r')?.parse().ok();
        for (text, found) in [
            ("r7\n\n r2\nr7\n", Ok(vec![2, 7])),
            ("\n", Err("lists no record")),
            ("r1\nx\n", Err("line 2: is not a record of PREPARED")),
            ("x\n", Err("has another id with the same number")),
        ] {
            std::fs::write(&path, text).unwrap();
            match (screened_records(&path, number), found) {
                (Ok(records), Ok(expected)) => assert_eq!(records, expected),
                (Err(error), Err(said)) => assert!(error.to_string().contains(said), "{error}"),
                (records, _) => panic!("{text:?}: {records:?}"),
            }
        }
    }
}
