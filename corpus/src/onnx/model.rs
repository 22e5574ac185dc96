//! A token classifier in this process: from text to words with probabilities.

use super::guard;
use super::labels::{Labels, Said};
use super::pieces::Pieces;
use super::session::Session;
use super::{frame, windows};
use crate::policy::LEAST_SCORE;
use crate::quiet::quietly;
use crate::worker::{Refusal, Work};
use std::ops::Range;

/// The files of a folder, and the largest size of each in bytes.
pub(super) const FILES: [(&str, u64); 3] = [
    ("model.onnx", 2 << 30),
    ("config.json", 16 << 20),
    ("tokenizer.json", 256 << 20),
];

/// A loaded model.
#[derive(Debug)]
pub(crate) struct Model {
    pieces: Pieces,
    pub(super) labels: Labels,
    session: Session,
}

/// A word that may be part of an entity.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Word {
    pub(super) range: Range<usize>,
    pub(super) said: Said,
}

impl Work for Model {
    const ARGUMENT: &'static str = "classifier-worker";
    const FILES: &'static [u64] = &[FILES[0].1, FILES[1].1, FILES[2].1];

    /// Builds the model from its files, and runs it once on a short text.
    fn load(files: Vec<Vec<u8>>) -> Result<Self, Refusal> {
        let three: Result<[Vec<u8>; 3], _> = files.try_into();
        let [model, config, tokenizer] = three.map_err(|_| Refusal::first("not three files"))?;
        let (config, tokenizer) = (&*config, &*tokenizer);
        let labels = guarded(1, || Labels::from_config(config))?;
        let pieces = guarded(2, || Pieces::new(tokenizer, config))?;
        let session = guarded(0, || {
            guard::checked(&model)?;
            Session::new(model)
        })?;
        let new = Self {
            pieces,
            labels,
            session,
        };
        new.words("A test.")?;
        Ok(new)
    }

    /// Returns the kinds of its labels.
    fn about(&self) -> Vec<String> {
        self.labels.kinds.iter().map(ToString::to_string).collect()
    }

    fn answer(&self, text: Vec<u8>) -> Result<Vec<u8>, Refusal> {
        let text = String::from_utf8(text);
        let text = text.map_err(|_| Refusal::first("a text that is not UTF-8"))?;
        self.words(&text).map(|words| frame::words(&words))
    }
}

impl Model {
    /// Returns the words whose score reaches [`LEAST_SCORE`], in order.
    pub(super) fn words(&self, text: &str) -> Result<Vec<Word>, Refusal> {
        guarded(0, || self.classified(text))
    }

    fn classified(&self, text: &str) -> Result<Vec<Word>, String> {
        let pieces = self.pieces.cut(text)?;
        let mut said = Vec::with_capacity(pieces.len());
        for window in windows::windows(pieces.len(), self.pieces.window) {
            let ids: Vec<i32> = pieces[window.read.clone()].iter().map(|p| p.id).collect();
            let all = self.pieces.framed(&ids);
            let logits = self.session.run(&all, self.labels.count())?;
            let first = self.pieces.prefix.len() + window.kept.start - window.read.start;
            let rows = logits.chunks_exact(self.labels.count()).skip(first);
            said.extend(
                rows.take(window.kept.len())
                    .map(|row| self.labels.said(row)),
            );
        }
        let mut words: Vec<Word> = Vec::new();
        let mut number = None;
        for (piece, said) in pieces.iter().zip(said) {
            match words.last_mut() {
                // Several pieces of one character belong to one word.
                Some(word) if number == Some(piece.word) || piece.range.start < word.range.end => {
                    word.range.start = word.range.start.min(piece.range.start);
                    word.range.end = word.range.end.max(piece.range.end);
                    word.said = word.said.joined(said);
                }
                _ => words.push(Word {
                    range: piece.range.clone(),
                    said,
                }),
            }
            number = Some(piece.word);
        }
        words.retain(|word| word.said.score >= LEAST_SCORE && !word.range.is_empty());
        let in_order = |pair: &[Word]| pair[0].range.end <= pair[1].range.start;
        if words.windows(2).all(in_order) {
            Ok(words)
        } else {
            Err("the tokenizer cuts a text out of order".to_owned())
        }
    }
}

/// Calls a function that parses an untrusted file, and reports the libraries' panics as errors of
/// the file.
fn guarded<T>(file: usize, read: impl FnOnce() -> Result<T, String>) -> Result<T, Refusal> {
    let read = quietly(read).unwrap_or_else(|| Err("it contradicts itself".to_owned()));
    read.map_err(|problem| Refusal { file, problem })
}
