//! Files of the repository that are generated from the code: the schemas and the reference of the
//! commands.
//!
//! Tests compare these files with the code; with `RETICENT_REGENERATE=1` they write them instead.

use std::path::Path;

/// Asserts that the file holds this text, or writes it there when regenerating.
pub(crate) fn keep(path: &Path, text: &str) {
    if std::env::var_os("RETICENT_REGENERATE").is_some() {
        std::fs::write(path, text).unwrap();
        return;
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        there == text,
        "{} is not what the code generates; run the test with RETICENT_REGENERATE=1 and look at the change",
        path.display()
    );
}
