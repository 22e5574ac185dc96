//! Finds the files that a corpus consists of.

use crate::error::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The endings of files in a folder that contain documents, without endings for compression.
const ENDINGS: [&str; 9] = [
    "jsonl", "ndjson", "json", "csv", "tsv", "parquet", "txt", "text", "md",
];

/// A file of a corpus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CorpusFile {
    pub(super) path: PathBuf,
    /// The prefix of generated ids of its documents: its path in the folder, or empty.
    pub(super) prefix: String,
    pub(super) bytes: u64,
}

/// Returns the file itself, or the files of a folder and its subfolders, in the order of their names. Hidden files,
/// links to folders, and files with other endings are skipped; a link to a file is read as that file.
pub(super) fn list(path: &Path) -> Result<Vec<CorpusFile>> {
    Ok(list_with_others(path)?.0)
}

/// Also returns what else is in a folder: files with other endings, links to folders, pipes.
pub(super) fn list_with_others(path: &Path) -> Result<(Vec<CorpusFile>, Vec<PathBuf>)> {
    let single = |bytes| {
        let file = CorpusFile {
            path: path.to_path_buf(),
            prefix: String::new(),
            bytes,
        };
        Ok((vec![file], Vec::new()))
    };
    if is_stdin(path) {
        return single(0);
    }
    let about = std::fs::metadata(path).map_err(Error::reading(path))?;
    if !about.is_dir() {
        return single(about.len());
    }
    let (mut files, mut others) = (Vec::new(), Vec::new());
    collect(path, path, &mut files, &mut others)?;
    if files.is_empty() {
        let problem = format!(
            "no file of documents in it; their names end in .{}, perhaps with .gz or .zst behind",
            ENDINGS.join(", .")
        );
        return Err(Error::place(path, "folder", problem));
    }
    Ok((files, others))
}

/// Returns a note on what is not read of a folder, so that nobody assumes that all files were read.
pub(super) fn left_out(folder: &Path, others: &[PathBuf]) -> Option<Error> {
    let first = others.first()?;
    let shown = first.strip_prefix(folder).unwrap_or(first).display();
    let why = match std::fs::metadata(first) {
        Ok(about) if about.is_dir() => "is a link to a folder".to_owned(),
        Ok(about) if !about.is_file() => "is neither a file nor a folder".to_owned(),
        _ => format!("does not end in .{}", ENDINGS.join(", .")),
    };
    let problem = match others.len() {
        1 => format!("{shown} {why}"),
        count => format!("{count} of its entries are not read; {shown}, the first, {why}"),
    };
    Some(Error::place(folder, "folder", problem))
}

/// Returns whether a path stands for stdin; a file of that name is `./-`.
pub(super) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns the files of a corpus: the file itself, or those of a folder and its subfolders.
///
/// # Errors
/// Returns an error if the path does not exist or a folder contains no documents.
pub fn corpus_files(path: &Path) -> Result<Vec<PathBuf>> {
    Ok(list(path)?.into_iter().map(|file| file.path).collect())
}

/// A file of the corpus.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PlannedFile {
    name: String,
    pub(crate) bytes: u64,
}

/// Returns the files of a corpus by their paths in it (a single file by its name), with their sizes in bytes.
///
/// # Errors
/// As for [`corpus_files`].
pub(crate) fn planned_files(path: &Path) -> Result<Vec<PlannedFile>> {
    let name = |file: &CorpusFile| match file.prefix.strip_suffix('/') {
        Some(place) => place.to_owned(),
        None => path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
    };
    let files = list(path)?.into_iter().map(|file| PlannedFile {
        name: name(&file),
        bytes: file.bytes,
    });
    Ok(files.collect())
}

/// Returns whether the corpus consists only of files that can be read twice.
///
/// # Errors
/// As for [`list`].
pub(crate) fn regular(path: &Path) -> Result<bool> {
    Ok(!is_stdin(path) && list(path)?.iter().all(|file| file.path.is_file()))
}

fn collect(
    root: &Path,
    folder: &Path,
    files: &mut Vec<CorpusFile>,
    others: &mut Vec<PathBuf>,
) -> Result<()> {
    let failed = Error::reading(folder);
    let mut entries: Vec<std::fs::DirEntry> = std::fs::read_dir(folder)
        .map_err(failed)?
        .collect::<std::io::Result<_>>()
        .map_err(failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if entry.file_type().map_err(failed)?.is_dir() {
            collect(root, &path, files, others)?;
        } else if ENDINGS.contains(&ending(&path).as_str()) {
            let bytes = match std::fs::metadata(&path) {
                Ok(about) if about.is_file() => about.len(),
                Ok(_) => {
                    others.push(path);
                    continue;
                }
                // A dangling link is kept, so that opening it reports the missing text.
                Err(_) => 0,
            };
            let place = path.strip_prefix(root).unwrap_or(&path);
            files.push(CorpusFile {
                prefix: format!("{}/", place.display()),
                bytes,
                path,
            });
        } else {
            others.push(path);
        }
    }
    Ok(())
}

/// Returns the ending of a name, without that of a compressed file.
pub(super) fn ending(path: &Path) -> String {
    let lower = |p: &Path| {
        let ending = p.extension().and_then(|e| e.to_str());
        ending.unwrap_or("").to_ascii_lowercase()
    };
    match lower(path).as_str() {
        "gz" | "zst" => path
            .file_stem()
            .map_or_else(String::new, |stem| lower(stem.as_ref())),
        other => other.to_owned(),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_read_of_a_folder_is_named() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::write(at("b.txt"), "a").unwrap();
        let said = || {
            let (files, others) = list_with_others(place.path()).unwrap();
            assert_eq!(files.len(), 1);
            let note = left_out(place.path(), &others);
            note.map_or_else(String::new, |note| note.to_string())
        };
        assert_eq!(said(), "");
        let socket = std::os::unix::net::UnixListener::bind(at("z.jsonl")).unwrap();
        let found = said();
        assert!(
            found.ends_with("z.jsonl is neither a file nor a folder"),
            "{found}"
        );
        std::os::unix::fs::symlink(".", at("link.txt")).unwrap();
        let found = said();
        let two = "2 of its entries are not read; link.txt, the first, is a link to a folder";
        assert!(found.ends_with(two), "{found}");
        std::fs::write(at("a.bin"), "a").unwrap();
        let found = said();
        assert!(
            found.contains("a.bin, the first, does not end in .jsonl, "),
            "{found}"
        );
        drop(socket);
    }
}
