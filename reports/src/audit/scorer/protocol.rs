//! The lines exchanged between `audit` and a scorer; `schemas/scorer.md` describes them.

use crate::contract::json_problem;
use reticent_corpus::TokenId;
use serde::de::{Error as _, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The version of the protocol.
pub(crate) const VERSION: u64 = 1;

/// The scorer's first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// The protocol version of the scorer.
    pub(crate) reticent_scorer: u64,
    /// The number of tokens that it knows, counted from 0.
    pub(crate) vocabulary: usize,
    /// The most tokens of a sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) context: Option<usize>,
    /// The most sequences or prefixes of one question; 64 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) batch: Option<usize>,
    /// Whether answers to `score` include statistics of the whole vocabulary.
    #[serde(default)]
    pub(crate) statistics: bool,
    /// Whether it supports `next`.
    #[serde(default)]
    pub(crate) next: bool,
}

/// A question. Exactly one of `score` and `next` is present.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Question {
    /// The number of the question, which the answer repeats.
    pub(crate) id: u64,
    /// The sequences to score, except for their first tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) score: Option<Vec<Vec<TokenId>>>,
    /// The prefixes whose next token is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<Vec<Vec<TokenId>>>,
    /// The tokens that may come next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wanted: Option<Vec<TokenId>>,
}

/// An answer, with one row for each sequence or prefix, in order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// The number of the question.
    pub(crate) id: u64,
    /// Why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// ln p in nats of every token but the first, or of every wanted token.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) log_probabilities: Vec<Vec<Nats>>,
    /// Σ p ln p over the vocabulary at each position.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) means: Vec<Vec<Nats>>,
    /// Σ p (ln p)² − mean² at each position.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) variances: Vec<Vec<Nats>>,
    /// The most probable token at each position; of equally probable ones, the smallest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) top_tokens: Vec<Vec<TokenId>>,
    /// The ln p of the most probable tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) top_log_probabilities: Vec<Vec<Nats>>,
}

/// A number in nats; −∞ is the string `"-inf"`, as in all our documents.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Nats(pub(crate) f64);

impl From<Nats> for f64 {
    fn from(nats: Nats) -> Self {
        nats.0
    }
}

impl Serialize for Nats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 == f64::NEG_INFINITY {
            serializer.serialize_str("-inf")
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Nats {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Nats;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number or \"-inf\"")
            }
            fn visit_f64<E>(self, value: f64) -> Result<Nats, E> {
                Ok(Nats(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Nats, E> {
                Ok(Nats(value as f64))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Nats, E> {
                Ok(Nats(value as f64))
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Nats, E> {
                match text {
                    "-inf" => Ok(Nats(f64::NEG_INFINITY)),
                    other => Err(E::invalid_value(Unexpected::Str(other), &self)),
                }
            }
        }
        deserializer.deserialize_any(Number)
    }
}

/// Parses a line; error messages are for the scorer's author.
pub(crate) fn read<T: for<'de> Deserialize<'de>>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| {
        let bare = ["NaN", "Infinity"].iter().any(|word| line.contains(word));
        let why = if bare && error.is_syntax() {
            format!(
                "NaN and Infinity are no JSON; a token that is ruled out is \"-inf\"; line {} column {}",
                error.line(),
                error.column()
            )
        } else {
            json_problem(&error)
        };
        format!(
            "{} bytes that are no line of the protocol ({why}); the line may quote text and is not shown",
            line.len()
        )
    })
}

/// Serialises a message as a line. Returns an error if `serde_json` can't write a number.
pub(crate) fn write<T: Serialize>(message: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    if line.len() > 1 << 30 {
        return Err(serde_json::Error::custom("a line above 1 GiB"));
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every line of the documentation is one of the protocol, and is read as it was meant.
    #[test]
    fn the_documented_lines_are_read() {
        let page = include_str!("../../../../schemas/scorer.md");
        let lines: Vec<&str> = page.lines().filter(|l| l.starts_with('{')).collect();
        assert_eq!(lines.len(), 5);
        let hello: Hello = read(lines[0]).unwrap();
        assert_eq!((hello.vocabulary, hello.context), (50_257, Some(1024)));
        assert!(hello.statistics && hello.next && hello.reticent_scorer == VERSION);
        for pair in lines[1..].chunks(2) {
            let (question, answer): (Question, Answer) =
                (read(pair[0]).unwrap(), read(pair[1]).unwrap());
            assert_eq!(question.id, answer.id);
            let lengths: Vec<usize> = match (&question.score, &question.next, &question.wanted) {
                (Some(sequences), None, None) => sequences.iter().map(|s| s.len() - 1).collect(),
                (None, Some(prefixes), Some(wanted)) => vec![wanted.len(); prefixes.len()],
                _ => Vec::new(),
            };
            let rows: Vec<usize> = answer.log_probabilities.iter().map(Vec::len).collect();
            assert_eq!(rows, lengths);
        }
        let last: Answer = read(lines[4]).unwrap();
        let ruled_out = last.log_probabilities[0][2].0;
        assert!(ruled_out.is_infinite() && ruled_out < 0.0);
        let round: Answer = read(&String::from_utf8(write(&last).unwrap()).unwrap()).unwrap();
        assert_eq!(round, last);
    }
}
