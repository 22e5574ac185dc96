//! Characters outside a vocabulary: what is said of them, since a model distinguishes none of them.

use crate::number::nearest;
#[cfg(feature = "audit")]
use anyhow::Result;
use reticent_corpus::prepare::Facts;
#[cfg(feature = "audit")]
use reticent_corpus::tokenize::{MASK_TEXT, Tokenizer};
use schemars::JsonSchema;
use serde::Serialize;

/// Above this share of the characters, the first sentence says it.
const MUCH: f64 = 0.05;

/// The way out.
const REMEDY: &str = "`audit prepare --tokenizer bytes` reads every character, as does a tokenizer.json made for the language";

/// The characters of a text, and those of them outside the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Characters {
    /// Characters of the text, without masks.
    pub characters: u64,
    /// Those of them outside the vocabulary: they have no token, or one that stands for all such text (`<UNK>`). White space
    /// without a token is not counted.
    #[serde(skip_serializing_if = "crate::contract::is_zero")]
    pub unknown_characters: u64,
}

impl Characters {
    /// Counts those of prepared texts.
    #[cfg(feature = "audit")]
    pub(super) fn of(texts: &[String], tokenizer: &Tokenizer) -> Result<Self> {
        let mut found = Self::default();
        for text in texts {
            let pieces = text.split(MASK_TEXT);
            found.characters += pieces
                .map(|piece| piece.chars().count() as u64)
                .sum::<u64>();
            found.unknown_characters += tokenizer.unknown(text)?.characters;
        }
        Ok(found)
    }

    /// Returns what share of the characters is outside the vocabulary; `None` if none is.
    pub(super) fn says(self) -> Option<String> {
        (self.unknown_characters > 0).then(|| {
            format!(
                "{} of the characters are outside the vocabulary (they have no token, or <UNK>), and the model can't distinguish them",
                percent(self.unknown_characters as f64 / self.characters.max(1) as f64)
            )
        })
    }
}

/// A share in percent.
fn percent(share: f64) -> String {
    format!("{} %", nearest(100.0 * share, 3))
}

/// Of a prepared corpus with any.
pub(super) fn fact(facts: &Facts) -> Option<String> {
    let characters = Characters {
        characters: facts.characters,
        unknown_characters: facts.unknown_characters,
    };
    characters.says().map(|said| format!("{said}; {REMEDY}"))
}

/// Behind the first sentence, where they are many.
pub(super) fn warning(facts: &Facts) -> String {
    match facts.unknown_share() > MUCH {
        true => format!(
            " The model can't distinguish {} of the characters, which are outside the vocabulary: its perplexity, what is extracted from it, and duplicates say little about this text ({REMEDY}).",
            percent(facts.unknown_share())
        ),
        false => String::new(),
    }
}
