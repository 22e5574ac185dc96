//! Token classifiers of the user's own, in ONNX's format: a folder with `model.onnx`,
//! `config.json` and `tokenizer.json`, as `optimum-cli export onnx` writes it.
//!
//! Everything in the folder is untrusted. Sizes are bounded, models within models (branches
//! and loops) and weights in other files are refused, panics of the libraries are errors of
//! the file, and what comes out is checked. A model is a program nevertheless: one that asks
//! for more memory than there is, or for hours, is not stopped here.

mod guard;
mod labels;
mod pieces;
mod session;
mod windows;

use crate::error::{Error, Result};
use crate::policy::{Policy, Span, View, threshold};
use crate::quiet::quietly;
use labels::{Labels, Said};
use pieces::Pieces;
use session::Session;
use sha2::{Digest, Sha256};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The files of a folder, and how many bytes of each are read at most.
const FILES: [(&str, u64); 3] = [
    ("model.onnx", 2 << 30),
    ("config.json", 16 << 20),
    ("tokenizer.json", 256 << 20),
];

/// A word less likely to be part of an entity than this is not reported.
const FLOOR: f32 = 0.02;

/// A token classifier, ready to run: text in, words with probabilities out.
///
/// The text is cut by the folder's tokenizer and classified in windows that overlap by a
/// quarter; a piece counts where it has most context. Nothing but the text itself is looked
/// at, so a policy made of it is record-local.
///
/// A word's score is the probability that it is part of any entity, one minus that of the
/// label `O`, of the surest of its pieces; its kind is the likeliest one. Logits that are no
/// numbers count as sure: they mask rather than miss.
#[derive(Debug)]
pub struct TokenClassifier {
    pieces: Pieces,
    labels: Labels,
    session: Session,
    digest: String,
}

/// A word that may be part of an entity.
#[derive(Debug, Clone)]
struct Word {
    range: Range<usize>,
    said: Said,
}

impl TokenClassifier {
    /// Loads a folder and runs it once, on a short text.
    ///
    /// `config.json` needs `id2label`, from 0 without gaps, with labels `O`, and kinds with or
    /// without a prefix of BIO, BIOES or BILOU. The model needs an input `input_ids`, perhaps
    /// `attention_mask` and `token_type_ids`, and an output `logits` (or a single one), of shape
    /// [1, tokens, labels] and 32-bit floats.
    ///
    /// # Errors
    /// A file that is missing, too large, or not what it should be: its path and the place.
    pub fn load(folder: &Path) -> Result<Arc<Self>> {
        let read = |number: usize| {
            let (name, most) = FILES[number];
            read(&folder.join(name), most)
        };
        let (model, config, tokenizer) = (read(0)?, read(1)?, read(2)?);
        Self::from_bytes(folder, model, &config, &tokenizer)
    }

    /// The same from bytes in memory; `folder` stands in messages only. The same bytes are kept
    /// once, however often they are loaded.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn from_bytes(
        folder: &Path,
        model: Vec<u8>,
        config: &[u8],
        tokenizer: &[u8],
    ) -> Result<Arc<Self>> {
        static LOADED: Mutex<Vec<Weak<TokenClassifier>>> = Mutex::new(Vec::new());
        let digest = digest([&model, config, tokenizer]);
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.retain(|one| one.strong_count() > 0);
        let there = loaded.iter().filter_map(Weak::upgrade);
        if let Some(same) = there.into_iter().find(|one| one.digest == digest) {
            return Ok(same);
        }
        let at = |number: usize| folder.join(FILES[number].0);
        let labels = guarded(&at(1), || Labels::from_config(config))?;
        let pieces = guarded(&at(2), || Pieces::new(tokenizer, config))?;
        let session = guarded(&at(0), || {
            guard::checked(&model)?;
            Session::new(model)
        })?;
        let new = Arc::new(Self {
            pieces,
            labels,
            session,
            digest,
        });
        guarded(&at(0), || new.words("A test."))?;
        loaded.push(Arc::downgrade(&new));
        Ok(new)
    }

    /// SHA-256 of the three files, with their lengths, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The kinds of entities its labels name.
    #[must_use]
    pub fn kinds(&self) -> Vec<String> {
        self.labels.kinds.iter().map(ToString::to_string).collect()
    }

    /// The words that reach the floor, in order.
    fn words(&self, text: &str) -> std::result::Result<Vec<Word>, String> {
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
                Some(word) if number == Some(piece.word) => {
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
        words.retain(|word| word.said.score >= FLOOR && !word.range.is_empty());
        Ok(words)
    }

    /// The entities of a text whose words all score at least `least`, each as sure as its least
    /// sure word.
    ///
    /// # Errors
    /// What the library says of a model that fails on this text, or a result of a wrong shape.
    pub fn entities(&self, text: &str, least: f32) -> Result<Vec<Span>> {
        let words = guarded(Path::new("model.onnx"), || self.words(text))?;
        let source: Arc<str> = "onnx".into();
        let mut out: Vec<(Span, Said)> = Vec::new();
        for Word { range, said } in words.into_iter().filter(|w| w.said.score >= least) {
            let kind = self.labels.kind(said);
            match out.last_mut() {
                Some((last, before))
                    if last.kind == kind
                        && !before.ends
                        && !said.begins
                        && text[last.end..range.start].chars().all(|c| c == ' ') =>
                {
                    last.end = range.end;
                    last.score = last.score.min(said.score);
                    *before = said;
                }
                _ => {
                    let span = Span {
                        start: range.start,
                        end: range.end,
                        kind,
                        source: source.clone(),
                        score: said.score,
                    };
                    out.push((span, said));
                }
            }
        }
        Ok(out.into_iter().map(|(span, _)| span).collect())
    }
}

/// What a [`TokenClassifier`] finds with at least some probability: two thresholds over one
/// model make a redaction policy and a conservative one (Zhao et al. 2022, appendix A.4).
///
/// A text on which the model fails becomes one span of the kind `not-classified`.
#[derive(Debug, Clone)]
pub struct Classified {
    model: Arc<TokenClassifier>,
    least: f32,
}

impl Classified {
    /// Entities with at least this score.
    ///
    /// # Errors
    /// A threshold outside [0, 1].
    pub fn new(model: Arc<TokenClassifier>, least: f32) -> Result<Self> {
        Ok(Self {
            model,
            least: threshold(least)?,
        })
    }
}

impl Policy for Classified {
    fn find(&self, view: &View<'_>, spans: &mut Vec<Span>) {
        match self.model.entities(view.text, self.least) {
            Ok(found) => spans.extend(found),
            Err(_) => spans.push(Span {
                start: 0,
                end: view.text.len(),
                kind: labels::NOT_CLASSIFIED.into(),
                source: "onnx".into(),
                score: 1.0,
            }),
        }
    }
}

fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    crate::disk::read_regular(path, most).map_err(|source| Error::Read {
        path: path.to_path_buf(),
        source,
    })
}

fn digest(files: [&[u8]; 3]) -> String {
    let mut hash = Sha256::new();
    for bytes in files {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
    let bytes = hash.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs what reads a file made by somebody else; the libraries' panics are errors of the file.
fn guarded<T>(path: &Path, read: impl FnOnce() -> std::result::Result<T, String>) -> Result<T> {
    match quietly(read) {
        Some(read) => read.map_err(|problem| refused(path, &problem)),
        None => Err(refused(path, "it contradicts itself")),
    }
}

fn refused(path: &Path, problem: &str) -> Error {
    Error::Classifier {
        path: PathBuf::from(path),
        problem: problem.to_owned(),
    }
}
