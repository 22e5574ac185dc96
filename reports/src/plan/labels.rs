//! Reads labelled secrets from a JSON Lines file (`schemas/labels.schema.json`).

use crate::contract::{numbered_lines, read_json_line};
use anyhow::{Context, Result, ensure};
use reticent_accounting::confidentiality::{Label, LabelledSecrets};
use std::path::Path;

/// The longest line of a label, in bytes.
const LONGEST: u64 = 1 << 16;

/// Reads a file of labels, one JSON object per line; empty lines are skipped.
///
/// # Errors
/// Returns an error that names file, line and key if the file can't be read or a line is not a
/// label.
pub fn read(path: &Path) -> Result<LabelledSecrets> {
    let mut labels = Vec::new();
    for line in numbered_lines(path, LONGEST)? {
        let (number, line) = line?;
        if !line.trim().is_empty() {
            ensure!(
                number > 1 || !is_sheet(&line),
                "{}: a screening sheet, not labels; audit screen with this --sheet writes them to --labels",
                path.display()
            );
            labels.push(read_json_line::<Label>(path, number, &line)?);
        }
    }
    LabelledSecrets::gather(labels).with_context(|| path.display().to_string())
}

/// Returns whether a line begins a sheet of `audit screen`.
fn is_sheet(line: &str) -> bool {
    let line = serde_json::from_str::<serde_json::Value>(line);
    line.is_ok_and(|line| line["type"] == "screening-sheet")
}
