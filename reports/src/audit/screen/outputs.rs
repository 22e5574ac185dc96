//! The files that `audit screen` writes: the sheet, and what follows from its labels.

use super::measure::Seen;
use super::sheet::SCREENED;
use super::{Drawn, Screen, Sheet};
use crate::contract::{AtomicFile, to_json};
use anyhow::{Context, Result, ensure};
use reticent_accounting::confidentiality::Label;
use reticent_corpus::policy::{DictionaryOptions, PolicyChoice};
use reticent_corpus::read::corpus_files;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The requested output files, opened before anybody labels.
pub(super) struct Outputs {
    labels: Option<AtomicFile>,
    screened: Option<AtomicFile>,
    mended: Option<AtomicFile>,
}

impl Outputs {
    /// Opens the files. None may be a file that is read, the sheet, or another output.
    pub(super) fn open(args: &Screen) -> Result<Self> {
        let mut read = read(args)?;
        if args.sheet.exists() && (args.label || args.marked) {
            // Finds out before the first answer whether the sheet can be written.
            AtomicFile::create_new(&args.sheet, true, &read).context("--sheet")?;
        }
        read.push(args.sheet.clone());
        let mut taken = vec![&args.sheet];
        let [labels, screened, mended] = [
            ("--labels", &args.labels),
            ("--screened", &args.screened),
            ("--mended", &args.mended),
        ]
        .map(|(flag, path)| -> Result<Option<AtomicFile>> {
            let Some(path) = path else {
                return Ok(None);
            };
            ensure!(
                !taken.contains(&path),
                "{flag}: {} is the file of another option; choose another output",
                path.display()
            );
            taken.push(path);
            let file = AtomicFile::create_new(path, args.force, &read).context(flag)?;
            Ok(Some(file))
        });
        Ok(Self {
            labels: labels?,
            screened: screened?,
            mended: mended?,
        })
    }

    /// Writes the requested files.
    pub(super) fn write(self, sheet: &Sheet, seen: &[Seen<'_>], labels: &[Label]) -> Result<()> {
        // Nothing could read a file without a label.
        ensure!(
            self.labels.is_none() || !labels.is_empty(),
            "--labels: no record of the sample introduces a secret, so there is no label; omit --labels, or draw a larger sample into another --sheet (--sample)"
        );
        let missed: BTreeSet<String> = seen.iter().flat_map(Seen::missed_texts).collect();
        // Which records were screened must not depend on their contents, so these are all that were
        // drawn.
        ensure!(
            self.screened.is_none() || missed.is_empty() || self.mended.is_some(),
            "--screened: the policy misses {} secrets of these records; give --mended too, prepare again with that policy and the same seed, replace each id by the one of that train.jsonl with the same number (unit-NUMBER-...), and train on that",
            missed.len()
        );
        if let Some(file) = self.labels {
            let mut out = String::new();
            for label in labels {
                out.push_str(&format!("{}\n", to_json(label)?));
            }
            file.finish_with(out).context("--labels")?;
        }
        if let Some(file) = self.mended {
            let mended = mended(&sheet.header.policy, missed);
            file.finish_with(format!("{}\n", to_json(&mended)?))
                .context("--mended")?;
        }
        if let Some(file) = self.screened {
            let random = sheet.lines.iter().filter(|l| l.drawn == Drawn::Random);
            let ids: String = random.map(|l| format!("{}\n", l.record)).collect();
            file.finish_with(ids).context("--screened")?;
        }
        Ok(())
    }
}

/// Writes the sheet over the one that was read.
pub(super) fn keep(args: &Screen, sheet: &Sheet) -> Result<()> {
    let file = AtomicFile::create_new(&args.sheet, true, &read(args)?);
    let text = sheet.to_text()?;
    file.and_then(|file| file.finish_with(text))
        .context("--sheet")
}

/// Returns the files that are read besides the sheet.
fn read(args: &Screen) -> Result<Vec<PathBuf>> {
    let mut read = corpus_files(&args.measured.data).context("DATA")?;
    read.extend(args.measured.policy.file().map(Path::to_path_buf));
    Ok(read)
}

/// Returns the policy extended by a dictionary of what it misses.
pub(super) fn mended(policy: &PolicyChoice, missed: BTreeSet<String>) -> PolicyChoice {
    let words: Vec<String> = missed
        .into_iter()
        .filter(|word| !word.trim().is_empty())
        .collect();
    if words.is_empty() {
        return policy.clone();
    }
    let dictionary = PolicyChoice::Dictionary(DictionaryOptions {
        kind: SCREENED.to_owned(),
        words,
        case_sensitive: true,
        whole_words: false,
    });
    PolicyChoice::Any {
        of: vec![policy.clone(), dictionary],
    }
}
