//! Arguments for how a corpus is read.

use crate::contract::{is_prepared, positive};
use anyhow::{Context, Error, Result, ensure};
use clap::Args;
use reticent_corpus::read::{ChatTemplate, LINE_LIMIT, ReadOptions};
use std::path::{Path, PathBuf};

/// Where the text of a document is, for every command that reads texts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct TextField {
    /// Key or column of the texts that this command reads [default: text; in JSON also messages, conversations, prompt and
    /// completion, instruction, input and output]. Where they come from stdin, that is then CSV unless it is JSON; plain
    /// text has none.
    #[arg(long, alias = "text-column", value_name = "KEY")]
    pub text_field: Option<String>,
}

impl TextField {
    /// Returns the options of the corpus crate.
    #[must_use]
    pub fn options(&self) -> ReadOptions {
        ReadOptions {
            text: self.text_field.clone(),
            ..ReadOptions::default()
        }
    }

    /// Refuses a key where no text is read.
    ///
    /// # Errors
    /// Returns an error if there is a key, and each path that is given is a folder that `audit prepare` made.
    pub fn check(&self, given: &[Option<&Path>]) -> Result<()> {
        let mut given = given.iter().flatten();
        ensure!(
            self.text_field.is_none() || given.any(|path| !is_prepared(path)),
            "--text-field: no text is read that could have this key (a folder that `audit prepare` made has its own); omit it"
        );
        Ok(())
    }
}

/// How a corpus is read, for every command that reads one.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Reading {
    /// Maximum size of a line, row, block or dialogue, in bytes; a longer one is an error.
    #[arg(long, value_name = "BYTES", default_value_t = LINE_LIMIT, value_parser = positive)]
    pub longest: u64,
    /// The key of the text.
    #[command(flatten)]
    pub text: TextField,
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
            chat: chat.transpose().context("--chat-template")?,
            separator: self.separator.clone(),
            field: field.map(str::to_owned),
            skip_unreadable: self.skip_unreadable,
            ..self.text.options()
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::audit::args::Audit;
    use clap::CommandFactory;

    /// `audit plant` had a flag of its own, without the name for columns.
    #[test]
    fn the_key_of_texts_has_both_names_everywhere() {
        let audit = Audit::command();
        let keys = audit.get_subcommands().flat_map(|command| {
            let own = command.get_arguments();
            own.filter(|arg| arg.get_id() == "text_field")
                .map(move |arg| (command.get_name(), arg.get_all_aliases()))
        });
        let keys: Vec<_> = keys.collect();
        assert!(keys.iter().any(|(command, _)| *command == "plant"));
        for (command, names) in keys {
            assert_eq!(names, Some(vec!["text-column"]), "{command}");
        }
    }
}
