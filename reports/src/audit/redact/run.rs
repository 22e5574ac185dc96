//! `audit redact`: a corpus of any size, deduplicated and redacted as a stream.

use crate::audit::args::Redact;
use crate::audit::reading::warn;
use crate::contract::{Envelope, Exit, Inputs, Interrupt, Interrupted, Progress, write_file};
use crate::number::grouped;
use crate::page::{Output, Page, Section};
use anyhow::{Context, Result};
use reticent_corpus::{Documents, Redacted, Redaction, RedactionOptions, RedactionState, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A pass is taken up again after at most so much text: 64 MiB.
const CHECKPOINT: u64 = 64 << 20;

/// What a stopped pass leaves behind, besides the part of its output.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Stopped {
    options: RedactionOptions,
    data: PathBuf,
    /// Bytes of all its files.
    size: u64,
    state: RedactionState,
    /// Bytes of output that belong to it.
    written: u64,
}

/// The output while it grows.
struct PartialFile {
    file: BufWriter<File>,
    part: PathBuf,
    progress: PathBuf,
    stopped: Stopped,
    /// Bytes of text at the last checkpoint.
    saved: u64,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Body<'a> {
    out: String,
    #[serde(flatten)]
    state: &'a RedactionState,
    skipped: Vec<String>,
    seconds: f64,
    megabytes_per_second: f64,
}

pub(in crate::audit) fn run(args: &Redact, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    let options = RedactionOptions {
        unit: args.unit,
        policy: args.policy.choice().context("--policy")?,
        deduplicate: !args.no_deduplication,
    };
    let threads = usize::try_from(args.threads).unwrap_or(usize::MAX);
    let mut redaction = Redaction::new(&options, threads)?;
    let mut documents = Documents::with(&args.data, &args.reading.options(None)).context("DATA")?;
    let began = Instant::now();
    let sha256 = options.policy.sha256();
    let mut partial = PartialFile::open(args, options, documents.size()).context("--out")?;
    let before = partial.stopped.state.bytes;
    let state = partial.stopped.state.clone();
    redaction.resume(&mut documents, state).context("DATA")?;
    let progress = Progress::bytes(documents.size(), "redacting");
    let mut failed = None;
    redaction
        .run(&mut documents, |kept, state, read| {
            progress.at(read);
            let done = partial.enter(kept, state, interrupt.raised());
            let go_on = done.is_ok() && !interrupt.raised();
            failed = done.err();
            Ok(go_on)
        })
        .context("DATA")?;
    drop(progress);
    if let Some(error) = failed {
        return Err(error.context("--out"));
    }
    if interrupt.raised() {
        let resume = Some("the same --out".to_owned());
        return Err(Interrupted { resume }.into());
    }
    partial.finish(&args.out).context("--out")?;
    documents.skipped().iter().for_each(warn);
    let seconds = began.elapsed().as_secs_f64();
    let shown = Body {
        out: args.out.display().to_string(),
        state: redaction.state(),
        skipped: documents
            .skipped()
            .iter()
            .map(ToString::to_string)
            .collect(),
        seconds,
        megabytes_per_second: (redaction.state().bytes - before) as f64 / 1e6 / seconds.max(1e-9),
    };
    show(&shown, args, &sha256, output)?;
    Ok(Exit::Finished)
}

impl PartialFile {
    /// Goes on where the same command stopped, or begins.
    fn open(args: &Redact, options: RedactionOptions, size: u64) -> Result<Self> {
        let beside = |ending: &str| {
            let mut name = args.out.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        let (part, progress) = (beside(".part"), beside(".progress"));
        let fresh = Stopped {
            options,
            data: args.data.clone(),
            size,
            state: RedactionState::default(),
            written: 0,
        };
        let stopped = earlier(&progress, &part, &fresh).unwrap_or(fresh);
        let mut open = File::options();
        open.create(true).write(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut open, 0o600);
        let cannot = || format!("cannot write {}", part.display());
        let mut file = open.open(&part).with_context(cannot)?;
        file.set_len(stopped.written).with_context(cannot)?;
        file.seek(SeekFrom::End(0)).with_context(cannot)?;
        Ok(Self {
            file: BufWriter::with_capacity(1 << 18, file),
            saved: stopped.state.bytes,
            part,
            progress,
            stopped,
        })
    }

    /// Writes what stays of a document; now and then, and when it is the last, says so on disk.
    fn enter(&mut self, kept: &[Redacted], state: &RedactionState, last: bool) -> Result<()> {
        for unit in kept {
            let line = serde_json::to_string(&Line {
                id: &unit.id,
                text: &unit.text,
            })?;
            self.file.write_all(line.as_bytes())?;
            self.file.write_all(b"\n")?;
            self.stopped.written += line.len() as u64 + 1;
        }
        if last || state.bytes - self.saved >= CHECKPOINT {
            self.file.flush()?;
            self.file.get_ref().sync_data()?;
            self.saved = state.bytes;
            self.stopped.state = state.clone();
            write_file(&self.progress, &serde_json::to_vec(&self.stopped)?)?;
        }
        Ok(())
    }

    /// Gives the output its name.
    fn finish(mut self, out: &Path) -> Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        std::fs::rename(&self.part, out)?;
        if self.progress.exists() {
            std::fs::remove_file(&self.progress)?;
        }
        Ok(())
    }
}

#[derive(Serialize, JsonSchema)]
struct Line<'a> {
    id: &'a str,
    text: &'a str,
}

/// What the same command left behind; nothing when it was another one, or the data changed.
fn earlier(progress: &Path, part: &Path, fresh: &Stopped) -> Option<Stopped> {
    let stopped: Stopped = serde_json::from_slice(&std::fs::read(progress).ok()?).ok()?;
    let same = (&stopped.options, &stopped.data, stopped.size)
        == (&fresh.options, &fresh.data, fresh.size);
    let whole = std::fs::metadata(part).ok()?.len() >= stopped.written;
    (same && whole).then_some(stopped)
}

fn show(shown: &Body<'_>, args: &Redact, sha256: &str, output: Output) -> Result<()> {
    let inputs = Inputs::new()
        .given("data", args.data.display().to_string())?
        .given("unit", args.unit)?
        .given("policy", args.policy.to_string())?
        .given("policy_sha256", sha256)?
        .given("deduplicate", !args.no_deduplication)?
        .given("threads", args.threads)?;
    output.answer(
        &Envelope::new("redaction", inputs, shown),
        &page(shown, args.unit),
    )
}

fn page(shown: &Body<'_>, unit: Unit) -> Page {
    let state = shown.state;
    let said = format!(
        "{}: {} of {} {unit}s written, {} duplicates removed.",
        shown.out,
        grouped(state.units - state.duplicates),
        grouped(state.units),
        grouped(state.duplicates)
    );
    let kinds = state.spans.iter();
    let kinds: Vec<String> = kinds
        .map(|(kind, count)| format!("{kind} {}", grouped(*count)))
        .collect();
    let kinds = match kinds.as_slice() {
        [] => "nothing found".to_owned(),
        kinds => kinds.join(", "),
    };
    let redacted = format!("{} {unit}s with a mask: {kinds}", grouped(state.redacted));
    let throughput = format!(
        "{:.1} MB in {:.1} s, {:.1} MB/s",
        state.bytes as f64 / 1e6,
        shown.seconds,
        shown.megabytes_per_second
    );
    Page::new("Redaction", said).answer(Section::facts(
        "",
        [("redaction", redacted), ("throughput", throughput)],
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::args::{Audit, Command};
    use crate::contract::Format;
    use crate::page::View;
    use clap::Parser;
    use std::sync::atomic::Ordering;

    fn redact(data: &Path, out: &Path, interrupt: &Interrupt) -> Result<Exit> {
        let (data, out) = (data.display().to_string(), out.display().to_string());
        let line = [
            "audit",
            "redact",
            &data,
            "--policy",
            "customers",
            "--out",
            &out,
        ];
        let Command::Redact(args) = Audit::try_parse_from(line)?.command else {
            anyhow::bail!("another command");
        };
        run(&args, Output::new(Format::Json, View::full()), interrupt)
    }

    /// Stopped after one document, what is there and where it stopped stay; the same command
    /// then gives what it would have given at once. Other data start over.
    #[test]
    fn a_stopped_pass_goes_on_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let documents = reticent_corpus::simulate(20, 2).unwrap();
        let lines: Vec<String> = documents
            .iter()
            .map(|d| serde_json::to_string(d).unwrap() + "\n")
            .collect();
        std::fs::write(at("data.jsonl"), lines.concat()).unwrap();
        redact(&at("data.jsonl"), &at("whole.jsonl"), &Interrupt::default()).unwrap();
        let whole = std::fs::read(at("whole.jsonl")).unwrap();

        let raised = Interrupt::default();
        raised.flag().store(true, Ordering::SeqCst);
        assert!(redact(&at("data.jsonl"), &at("out.jsonl"), &raised).is_err());
        assert!(!at("out.jsonl").exists());
        let read = |name: &str| std::fs::read(at(name)).unwrap();
        let stopped: Stopped = serde_json::from_slice(&read("out.jsonl.progress")).unwrap();
        assert_eq!(stopped.state.documents, 1);
        // What was written after the last checkpoint is dropped.
        let mut part = read("out.jsonl.part");
        assert_eq!(part.len() as u64, stopped.written);
        part.extend(b"torn");
        std::fs::write(at("out.jsonl.part"), part).unwrap();
        redact(&at("data.jsonl"), &at("out.jsonl"), &Interrupt::default()).unwrap();
        assert_eq!(read("out.jsonl"), whole);
        assert!(!at("out.jsonl.part").exists() && !at("out.jsonl.progress").exists());

        assert!(redact(&at("data.jsonl"), &at("new.jsonl"), &raised).is_err());
        std::fs::write(at("data.jsonl"), lines[1..].concat()).unwrap();
        redact(&at("data.jsonl"), &at("new.jsonl"), &Interrupt::default()).unwrap();
        let new = read("new.jsonl");
        assert!(!new.starts_with(&whole[..40]) && !new.is_empty());
    }
}
