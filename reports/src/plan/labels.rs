//! Reads labelled secrets from a JSON Lines file (`schemas/labels.schema.json`).

use crate::contract::json_problem;
use anyhow::{Context, Result, anyhow, bail};
use reticent_accounting::confidentiality::{Label, LabelledSecrets};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The longest line of a label, in bytes.
const LONGEST: u64 = 1 << 16;

/// Reads a file of labels, one JSON object per line; empty lines are skipped.
///
/// # Errors
/// Returns an error that names file, line and key if the file can't be read or a line is not a
/// label.
pub fn read(path: &Path) -> Result<LabelledSecrets> {
    let shown = path.display().to_string();
    let mut file = BufReader::new(std::fs::File::open(path).with_context(|| shown.clone())?);
    let mut labels = Vec::new();
    for number in 1u64.. {
        let mut line = String::new();
        let size = (&mut file)
            .take(LONGEST)
            .read_line(&mut line)
            .with_context(|| format!("{shown}: line {number}"))?;
        if size == 0 {
            break;
        }
        if size as u64 >= LONGEST {
            bail!("{shown}: line {number}: must be shorter than {LONGEST} bytes");
        }
        if line.trim().is_empty() {
            continue;
        }
        let label: Label = serde_json::from_str(&line)
            .map_err(|error| anyhow!("{shown}: line {number}: {}", json_problem(&error)))?;
        labels.push(label);
    }
    LabelledSecrets::gather(labels).with_context(|| shown)
}
