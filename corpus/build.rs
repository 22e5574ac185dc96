//! Computes the digest of a crate's code, as the environment variable `RETICENT_CODE` of its compilation.

use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::{Result, Write as _};
use std::path::{Path, PathBuf};

/// What is digested, relative to the package; what does not exist is left out.
const PARTS: [&str; 6] = [
    "Cargo.toml",
    "src",
    "disk",
    "models",
    "../Cargo.toml",
    "../Cargo.lock",
];

fn main() -> Result<()> {
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut cargo = std::io::stdout();
    for part in PARTS.iter().filter(|part| package.join(part).exists()) {
        writeln!(cargo, "cargo::rerun-if-changed={part}")?;
    }
    writeln!(
        cargo,
        "cargo::rustc-env=RETICENT_CODE={}",
        digest(&package)?
    )
}

/// Returns the SHA-256 of the names and contents of all files, in hexadecimal: the same on every system.
pub(crate) fn digest(package: &Path) -> Result<String> {
    let mut files = Vec::new();
    for part in PARTS {
        collect(package, part, &mut files)?;
    }
    let mut hash = Sha256::new();
    // The compiler's library decides what is a letter.
    let (major, minor, micro) = char::UNICODE_VERSION;
    hash.update([major, minor, micro]);
    for name in files {
        let content = std::fs::read(package.join(&name))?;
        for part in [name.as_bytes(), &content[..]] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    let mut out = String::new();
    for byte in hash.finalize() {
        // Writing to a string does not fail.
        let _ = write!(out, "{byte:02x}");
    }
    Ok(out)
}

/// Appends the files below a name in the order of their names, but hidden ones.
fn collect(package: &Path, name: &str, files: &mut Vec<String>) -> Result<()> {
    let path = package.join(name);
    if path.is_file() {
        files.push(name.to_owned());
    } else if path.is_dir() {
        let entries = std::fs::read_dir(path)?;
        let entries = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let mut entries: Vec<String> = entries.collect::<Result<_>>()?;
        entries.retain(|entry| !entry.starts_with('.'));
        entries.sort();
        for entry in entries {
            collect(package, &format!("{name}/{entry}"), files)?;
        }
    }
    Ok(())
}
