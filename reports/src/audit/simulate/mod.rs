//! `audit simulate`: writes simulated corpora to files.

pub mod args;

use super::args::Simulation;
use crate::contract::{AtomicFile, Envelope, Exit, Inputs, Interrupt, to_json};
use crate::number::count_of;
use crate::page::{Output, Page};
use anyhow::{Context, Result};
use reticent_corpus::Document;
use reticent_corpus::simulate::{simulate, simulate_turns};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Simulated {
    out: String,
    dialogues: usize,
    /// Turns with their acts; absent where dialogues were written.
    #[serde(skip_serializing_if = "Option::is_none")]
    turns: Option<usize>,
    secrets: usize,
    bytes: u64,
}

/// Writes the corpus and describes its contents.
///
/// # Errors
/// Returns an error if the path can't be written or the command is interrupted.
pub fn run(what: &Simulation, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    let Simulation::Customers {
        dialogues,
        seed,
        turns,
        out,
        force,
    } = what;
    let file = AtomicFile::create_new_or_stdout(out, *force, &[]).context("--out")?;
    let number = usize::try_from(*dialogues).context("--dialogues")?;
    let lines: Vec<Line> = match turns {
        true => simulate_turns(number, *seed).map(|made| made.into_iter().map(acted).collect()),
        false => simulate(number, *seed).map(|made| made.into_iter().map(plain).collect()),
    }
    .context("--dialogues")?;
    let made = Simulated {
        turns: turns.then_some(lines.len()),
        ..written(file, out, number, &lines, interrupt)?
    };
    let inputs = Inputs::new()
        .given("dialogues", dialogues)?
        .given("seed", seed)?
        .given("turns", turns.then_some(true))?;
    let what = match made.turns {
        Some(turns) => count_of(turns as u64, "turn"),
        None => count_of(made.dialogues as u64, "dialogue"),
    };
    let said = format!(
        "{}: {what}, {}, {} marked.",
        made.out,
        count_of(made.bytes, "byte"),
        count_of(made.secrets as u64, "secret"),
    );
    output.aside_for(out).answer(
        &Envelope::new("simulation", inputs, &made),
        &Page::new("Simulated corpus", said),
    )
}

/// The content of a line: a document, and its dialogue act if it is a single turn.
type Line = (Document, Option<&'static str>);

fn plain(document: Document) -> Line {
    (document, None)
}

fn acted((turn, act): (Document, &'static str)) -> Line {
    (turn, Some(act))
}

fn written(
    mut file: AtomicFile,
    out: &Path,
    dialogues: usize,
    lines: &[Line],
    interrupt: &Interrupt,
) -> Result<Simulated> {
    let (mut bytes, mut secrets) = (0, 0);
    for (document, act) in lines {
        interrupt.check()?;
        let mut object = to_json(document)?;
        if let Some(act) = act {
            object["act"] = (*act).into();
        }
        let mut line = object.to_string();
        line.push('\n');
        file.write_all(line.as_bytes()).context("--out")?;
        bytes += line.len() as u64;
        secrets += document.secrets.len();
    }
    file.finish().context("--out")?;
    Ok(Simulated {
        out: out.display().to_string(),
        dialogues,
        turns: None,
        secrets,
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use reticent_corpus::read::read_documents;

    #[test]
    fn what_is_written_reads_back_as_it_was_made() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("data.jsonl");
        let file = AtomicFile::create(&out).unwrap();
        let dialogues = simulate(5, 7).unwrap();
        let lines: Vec<Line> = dialogues.iter().cloned().map(plain).collect();
        let made = written(file, &out, 5, &lines, &Interrupt::default()).unwrap();
        assert_eq!(read_documents(&out).unwrap(), dialogues);
        assert_eq!(made.bytes, out.metadata().unwrap().len());
    }

    #[test]
    fn a_turn_has_its_act_and_its_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("turns.jsonl");
        let file = AtomicFile::create(&out).unwrap();
        let turns = simulate_turns(5, 7).unwrap();
        let lines: Vec<Line> = turns.iter().cloned().map(acted).collect();
        written(file, &out, 5, &lines, &Interrupt::default()).unwrap();
        let text = std::fs::read_to_string(&out).unwrap();
        let acts = text
            .lines()
            .filter(|line| line.contains("\"act\":\"identify\""));
        assert_eq!(
            acts.count(),
            turns.iter().filter(|(_, act)| *act == "identify").count()
        );
        // The same secrets as in the dialogues' own lines of the customers.
        let dialogues = simulate(5, 7).unwrap();
        for (turn, _) in &turns {
            for secret in &turn.secrets {
                let own = turn.secret_text(secret);
                let known = dialogues.iter().any(|dialogue| {
                    let mut all = dialogue.secrets.iter();
                    all.any(|s| s.kind == secret.kind && dialogue.secret_text(s) == own)
                });
                assert!(known, "{own}");
            }
        }
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
        let lines: Vec<Line> = simulate(5, 7).unwrap().into_iter().map(plain).collect();
        assert!(written(file, &out, 5, &lines, &interrupt).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
