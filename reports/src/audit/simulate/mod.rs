//! `audit simulate`: made-up corpora as files.

pub mod args;

use super::args::Simulation;
use crate::contract::{AtomicFile, Envelope, Inputs, Interrupt, to_json};
use crate::number::count_of;
use crate::page::{Output, Page};
use anyhow::{Context, Result};
use reticent_corpus::simulate;
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Simulated {
    out: String,
    dialogues: usize,
    secrets: usize,
    bytes: u64,
}

/// Writes the corpus and says what is in it.
///
/// # Errors
/// A place that cannot be written, an interruption.
pub fn run(what: &Simulation, output: Output, interrupt: &Interrupt) -> Result<()> {
    let Simulation::Customers {
        dialogues,
        seed,
        out,
        force,
    } = what;
    let file = AtomicFile::create_new(out, *force, &[]).context("--out")?;
    let number = usize::try_from(*dialogues).context("--dialogues")?;
    let made = customers(file, out, number, *seed, interrupt)?;
    let inputs = Inputs::new()
        .given("dialogues", dialogues)?
        .given("seed", seed)?;
    let said = format!(
        "{}: {}, {}, {} marked.",
        made.out,
        count_of(made.dialogues as u64, "dialogue"),
        count_of(made.bytes, "byte"),
        count_of(made.secrets as u64, "secret"),
    );
    output.answer(
        &Envelope::new("simulation", inputs, &made),
        &Page::new("Simulated corpus", said),
    )
}

fn customers(
    mut file: AtomicFile,
    out: &Path,
    dialogues: usize,
    seed: u64,
    interrupt: &Interrupt,
) -> Result<Simulated> {
    let (mut bytes, mut secrets) = (0, 0);
    for document in simulate(dialogues, seed).context("--dialogues")? {
        interrupt.check()?;
        let mut line = to_json(&document)?.to_string();
        line.push('\n');
        file.write_all(line.as_bytes()).context("--out")?;
        bytes += line.len() as u64;
        secrets += document.secrets.len();
    }
    file.finish().context("--out")?;
    Ok(Simulated {
        out: out.display().to_string(),
        dialogues,
        secrets,
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use reticent_corpus::read_documents;

    #[test]
    fn what_is_written_reads_back_as_it_was_made() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("data.jsonl");
        let file = AtomicFile::create(&out).unwrap();
        let made = customers(file, &out, 5, 7, &Interrupt::default()).unwrap();
        assert_eq!(read_documents(&out).unwrap(), simulate(5, 7).unwrap());
        assert_eq!(made.bytes, out.metadata().unwrap().len());
    }

    #[test]
    fn an_interruption_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("data.jsonl");
        let interrupt = Interrupt::default();
        interrupt
            .flag()
            .store(true, std::sync::atomic::Ordering::SeqCst);
        let file = AtomicFile::create(&out).unwrap();
        assert!(customers(file, &out, 5, 7, &interrupt).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
