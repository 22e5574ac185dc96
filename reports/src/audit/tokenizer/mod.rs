//! `audit tokenizer`: trains a vocabulary on public text.

pub mod args;

use crate::contract::{AtomicFile, Envelope, Exit, Inputs, Interrupt};
use crate::number::{count_of, grouped};
use crate::page::{Output, Page, Section};
use anyhow::{Context, Result, ensure};
use args::TokenizerArgs;
use reticent_corpus::read::{Documents, ReadOptions, corpus_files};
use reticent_corpus::tokenize::{Origin, Tokenizer, train_tokenizer};
use schemars::JsonSchema;
use serde::Serialize;

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Vocabulary {
    /// The file.
    out: String,
    /// Its tokens, without the mask that a preparation adds.
    tokens: usize,
    /// Documents read.
    documents: u64,
    /// Bytes of their text.
    bytes: u64,
}

/// Trains the tokenizer and writes it.
///
/// # Errors
/// Returns an error if the text is not declared public or can't be read, if the output can't be
/// written, or on an interruption.
pub fn run(args: &TokenizerArgs, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    ensure!(
        args.declared_public,
        "--declared-public: is needed: a vocabulary publishes the words it was built from, rare ones too"
    );
    let read = corpus_files(&args.data).context("DATA")?;
    let file = AtomicFile::create_new_or_stdout(&args.out, args.force, &read).context("--out")?;
    let size = usize::try_from(args.size).context("--size")?;
    let reading = ReadOptions {
        unmasked: true,
        ..args.reading.options(None)?
    };
    let mut texts = Vec::new();
    for document in Documents::with(&args.data, &reading).context("DATA")? {
        interrupt.check()?;
        texts.push(document.context("DATA")?.text);
    }
    let documents = texts.len() as u64;
    let bytes = texts.iter().map(|text| text.len() as u64).sum();
    let json = train_tokenizer(texts.into_iter(), size).context("DATA")?;
    interrupt.check()?;
    // A preparation adds its own mask token.
    let tokens = Tokenizer::from_json(&json, Origin::DeclaredPublic)?.vocabulary_size() - 1;
    file.finish_with(json).context("--out")?;
    let made = Vocabulary {
        out: args.out.display().to_string(),
        tokens,
        documents,
        bytes,
    };
    let inputs = Inputs::new()
        .given("data", args.data.display().to_string())?
        .given("size", args.size)?
        .given("declared_public", true)?;
    let mut said = format!(
        "{}: {} from {}.",
        made.out,
        count_of(made.tokens as u64, "token"),
        count_of(made.documents, "document")
    );
    if (made.tokens as u64) < args.size {
        said.push_str(" The text holds no more pairs that occur in it twice.");
    }
    let page = Page::new("Vocabulary", said).answer(Section::facts(
        "",
        [
            ("bytes of text", grouped(made.bytes)),
            (
                "next",
                format!(
                    "audit prepare DATA --tokenizer {} --vocabulary declared-public --out prepared/",
                    made.out
                ),
            ),
        ],
    ));
    output
        .aside_for(&args.out)
        .answer(&Envelope::new("vocabulary", inputs, &made), &page)
}
