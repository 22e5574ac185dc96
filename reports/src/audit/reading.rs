//! Corpora as the commands read them.

use crate::audit::args::Reading;
use anyhow::Result;
use reticent_corpus::{Document, Error, read_readable};
use std::io::Write;
use std::path::Path;

/// A whole corpus. Without --skip-unreadable a file that cannot be read is an error that
/// names every such file; with it, stderr names them.
pub(in crate::audit) fn documents(path: &Path, reading: &Reading) -> Result<Vec<Document>> {
    let (documents, mut errors) = read_readable(path, &reading.options(None))?;
    if reading.skip_unreadable && !documents.is_empty() {
        errors.iter().for_each(warn);
        return Ok(documents);
    }
    match errors.pop() {
        None => Ok(documents),
        Some(only) if errors.is_empty() => Err(only.into()),
        Some(last) => {
            errors.push(last);
            Err(Error::Several(errors).into())
        }
    }
}

/// Says on stderr which file is left out, and why.
pub(in crate::audit) fn warn(error: &Error) {
    let _ = writeln!(std::io::stderr(), "left out: {error}");
}

/// The lines of a list of secrets; blank ones and copies are left out.
pub(in crate::audit) fn list(path: &Path) -> Result<Vec<String>> {
    use anyhow::{Context, ensure};
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut seen = std::collections::HashSet::new();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let out: Vec<String> = lines
        .filter(|line| seen.insert(*line))
        .map(str::to_owned)
        .collect();
    ensure!(!out.is_empty(), "{}: no secret in it", path.display());
    Ok(out)
}
