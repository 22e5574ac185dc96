//! Token classifiers supplied by the user in ONNX format: a folder with `model.onnx`, `config.json` and
//! `tokenizer.json`, as written by `optimum-cli export onnx`.
//!
//! Everything in the folder is untrusted. Sizes are bounded, models within models (branches and loops) and weights in
//! other files are rejected, panics of the libraries are reported as errors of the file, and results are checked. A
//! model is nevertheless a program. In a program whose `main` calls [`isolate`](crate::isolate), it runs in a separate
//! process with memory and time limits and, if the kernel has a system call filter, without files and network.

mod frame;
mod guard;
mod labels;
mod model;
mod pieces;
mod session;
mod windows;

pub(crate) use model::Model;

use crate::error::{Error, Result};
use crate::policy::{Policy, Span, View, threshold};
use crate::tokenize::check_settings;
use crate::worker::{Refusal, Work, Worker};
use labels::Said;
use model::{FILES, Word};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A loaded token classifier: from text to words with probabilities.
///
/// The text is tokenised with the folder's tokenizer and classified in windows that overlap by a quarter; the result
/// for a piece is taken from the window in which it has most context. The classifier depends only on the text itself,
/// so a policy made from it is record-local.
///
/// A word's score is the probability that it is part of any entity, that is, one minus the probability of the label
/// `O`, of the piece with the highest score; its kind is the most likely one. NaN logits count as sure: better to mask
/// than to miss.
#[derive(Debug)]
pub struct TokenClassifier {
    runs: Runs,
    kinds: Vec<Arc<str>>,
    digest: String,
}

/// Where the model runs.
#[derive(Debug)]
enum Runs {
    /// In this process: the files are trusted not to use all memory or run for hours.
    Here(Box<Model>),
    /// In a separate process, which may be restarted with the files of this folder.
    There(Worker<Model>, PathBuf),
}

/// The contents of a folder's files.
type Files = Vec<Vec<u8>>;

/// Loaded classifiers by digest: the same files are kept only once, however often they are loaded.
static LOADED: Mutex<Vec<Weak<TokenClassifier>>> = Mutex::new(Vec::new());

impl TokenClassifier {
    /// Loads a folder, and runs the model once on a short text.
    ///
    /// `config.json` needs `id2label`, from 0 without gaps, with labels `O` and kinds with or without a prefix of BIO,
    /// BIOES or BILOU. The model needs an input `input_ids`, and optionally `attention_mask` and `token_type_ids`, and
    /// an output `logits` (or a single one) of shape [1, tokens, labels] and 32-bit floats.
    ///
    /// # Errors
    /// Returns an error with the path and the place if a file is missing, too large or invalid, or contradicts a setting of
    /// a `tokenizer_config.json` beside it. In a separate process, also if the model needs more memory or time than its
    /// size allows.
    pub fn load(folder: &Path) -> Result<Arc<Self>> {
        let files = read_files(folder)?;
        if let Ok(json) = std::str::from_utf8(&files[2]) {
            check_settings(folder, FILES[2].0, json)?;
        }
        Self::cached(&files, |digest, files| {
            let Some(started) = Worker::start(files) else {
                return Self::here(folder, digest, files);
            };
            let (worker, kinds) = started.map_err(|refusal| refused(folder, refusal))?;
            Ok(Self {
                runs: Runs::There(worker, folder.to_path_buf()),
                kinds: kinds.into_iter().map(Arc::from).collect(),
                digest: digest.to_owned(),
            })
        })
    }

    /// Loads a classifier from bytes in memory, always in this process; `folder` is only used in messages.
    ///
    /// # Errors
    /// As for [`Self::load`].
    pub fn from_bytes(
        folder: &Path,
        model: Vec<u8>,
        config: &[u8],
        tokenizer: &[u8],
    ) -> Result<Arc<Self>> {
        let files = vec![model, config.to_vec(), tokenizer.to_vec()];
        Self::cached(&files, |digest, files| Self::here(folder, digest, files))
    }

    fn here(folder: &Path, digest: &str, files: &Files) -> Result<Self> {
        let model = Model::load(files.clone()).map_err(|refusal| refused(folder, refusal))?;
        Ok(Self {
            kinds: model.labels.kinds.clone(),
            runs: Runs::Here(Box::new(model)),
            digest: digest.to_owned(),
        })
    }

    fn cached(files: &Files, make: impl FnOnce(&str, &Files) -> Result<Self>) -> Result<Arc<Self>> {
        let digest = digest(files);
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.retain(|one| one.strong_count() > 0);
        let there = loaded.iter().filter_map(Weak::upgrade);
        if let Some(same) = there.into_iter().find(|one| one.digest == digest) {
            return Ok(same);
        }
        let new = Arc::new(make(&digest, files)?);
        loaded.push(Arc::downgrade(&new));
        Ok(new)
    }

    /// Returns the SHA-256 of the three files with their lengths, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the kinds of entities that its labels name.
    #[must_use]
    pub fn kinds(&self) -> Vec<String> {
        self.kinds.iter().map(ToString::to_string).collect()
    }

    /// Returns a sentence for the user on which limits this system cannot impose on the model, if any.
    #[must_use]
    pub fn unconfined(&self) -> Option<String> {
        match &self.runs {
            Runs::Here(_) => {
                Some("the model runs in this process, without limits of memory and time".to_owned())
            }
            Runs::There(worker, _) => worker.unconfined.clone(),
        }
    }

    /// Returns the entities of a text, all of whose words score at least `least`. An entity has the score of its word
    /// with the lowest score.
    ///
    /// # Errors
    /// Returns an error if the model fails on this text (with the library's message), returns a result of the wrong
    /// shape, or exceeds a limit.
    pub fn entities(&self, text: &str, least: f32) -> Result<Vec<Span>> {
        let words = match &self.runs {
            Runs::Here(model) => model.words(text),
            Runs::There(worker, folder) => worker.ask(
                text.as_bytes(),
                (text.len() as u64 + 1) * frame::WORD as u64,
                || self.files_again(folder),
                |bytes| frame::words_of(text, &bytes),
            ),
        };
        let words = words.map_err(|refusal| refused(Path::new(""), refusal))?;
        let source: Arc<str> = "onnx".into();
        let mut out: Vec<(Span, Said)> = Vec::new();
        for Word { range, said } in words.into_iter().filter(|w| w.said.score >= least) {
            let kind = self.kind(said);
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
                    out.push((Span::new(range, kind, source.clone(), said.score), said));
                }
            }
        }
        Ok(out.into_iter().map(|(span, _)| span).collect())
    }

    /// Reads the loaded files again.
    fn files_again(&self, folder: &Path) -> std::result::Result<Files, Refusal> {
        let files = read_files(folder).map_err(|error| Refusal::first(error.to_string()))?;
        if digest(&files) == self.digest {
            Ok(files)
        } else {
            Err(Refusal::first("cannot start again: the files changed"))
        }
    }

    fn kind(&self, said: Said) -> Arc<str> {
        let named = said.kind.and_then(|at| self.kinds.get(at));
        named.map_or_else(|| labels::NOT_CLASSIFIED.into(), Arc::clone)
    }
}

/// The policy of what a [`TokenClassifier`] finds with at least some probability. Two thresholds over one model make a
/// redaction policy and a conservative one (Zhao et al. 2022, appendix A.4).
///
/// A text on which the model fails becomes one span of the kind `not-classified`.
#[derive(Debug, Clone)]
pub struct Classified {
    model: Arc<TokenClassifier>,
    least: f32,
}

impl Classified {
    /// Finds entities with at least this score.
    ///
    /// # Errors
    /// As for [`threshold`].
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
            Err(_) => {
                let all = 0..view.text.len();
                spans.push(Span::new(all, labels::NOT_CLASSIFIED, "onnx", 1.0));
            }
        }
    }
}

fn read_files(folder: &Path) -> Result<Files> {
    let read = |number: usize| {
        let (name, most) = FILES[number];
        let path = folder.join(name);
        reticent_disk::read_regular(&path, most).map_err(|source| Error::Read { path, source })
    };
    (0..FILES.len()).map(read).collect()
}

fn digest(files: &Files) -> String {
    let mut hash = Sha256::new();
    for bytes in files {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
    reticent_disk::hexadecimal(&hash.finalize())
}

fn refused(folder: &Path, refusal: Refusal) -> Error {
    Error::Classifier {
        path: PathBuf::from(folder).join(FILES[refusal.file].0),
        problem: refusal.problem,
    }
}
