//! Arguments for how a corpus is read.

use anyhow::{Context, Error, Result};
use clap::Args;
use reticent_corpus::read::{ChatTemplate, LINE_LIMIT, ReadOptions};
use std::path::PathBuf;

/// How a corpus is read, for every command that reads one.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Reading {
    /// Maximum size of a line, row, block or dialogue, in bytes; a longer one is an error.
    #[arg(long, value_name = "BYTES", default_value_t = LINE_LIMIT, value_parser = clap::value_parser!(u64).range(1..))]
    pub longest: u64,
    /// Key or column with the text [default: text; in JSON also messages, conversations, prompt and completion,
    /// instruction, input and output]. With it, stdin is read as CSV unless it is JSON; plain text has none.
    #[arg(long, alias = "text-column", value_name = "KEY")]
    pub text_field: Option<String>,
    /// Chat template that turns messages into text: a model's folder, chat_template.jinja or tokenizer_config.json,
    /// as read by transformers' apply_chat_template; the beginning- and end-of-text tokens that it puts around the
    /// whole are not repeated. A record with its own text is refused. With --unit document [default: a line for each
    /// message].
    #[arg(long, value_name = "PATH", conflicts_with = "text_field")]
    pub chat_template: Option<PathBuf>,
    /// Separator between documents of plain text, such as <|endoftext|> [default: blank lines]; refused if no file is
    /// plain text.
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub separator: Option<String>,
    /// Skip files that cannot be read, and list them.
    #[arg(long)]
    pub skip_unreadable: bool,
}

impl Reading {
    /// Returns the options of the corpus crate.
    ///
    /// # Errors
    /// Returns an error if a chat template can't be read or is not one.
    pub fn options(&self, field: Option<&str>) -> Result<ReadOptions> {
        let chat = self.chat_template.as_deref().map(|path| {
            let chat = ChatTemplate::load(path).map_err(Error::msg)?;
            if let Some(why) = chat.unconfined() {
                crate::contract::note(&format!("--chat-template: {why}"));
            }
            Ok::<_, Error>(chat)
        });
        Ok(ReadOptions {
            longest: self.longest,
            text: self.text_field.clone(),
            chat: chat.transpose().context("--chat-template")?,
            separator: self.separator.clone(),
            field: field.map(str::to_owned),
            skip_unreadable: self.skip_unreadable,
            ..ReadOptions::default()
        })
    }
}
