//! Extraction: does a prompt from the training text make the model produce the text that followed it?
//!
//! Greedy decoding of a prompt gives the true suffix exactly when the model's first choice is the true token at every
//! position of the suffix, given the prompt and the preceding true tokens. One teacher-forced pass therefore decides
//! [`Continuation::verbatim`] and gives the probability that a sampler draws the suffix; only near misses require
//! generation.

mod copies;
mod distance;
mod draws;
mod fresh;
mod generate;
mod reconstruct;
mod sampler;
mod study;

pub use copies::count_copies;
pub(crate) use copies::strata_of;
pub use distance::edit_distance;
pub use draws::{draws_needed, probability_of_extraction, recall_at_errors};
pub use fresh::SecretShape;
pub use generate::{SampledText, generate_greedily, sample_continuations};
pub use reconstruct::{PromiseTest, Reconstruction, SecretCase, reconstruct};
pub use sampler::{SamplerSettings, ln_drawn};
pub use study::{Contrast, PromptRates, Stratum, contrast, strata};

use crate::error::{Result, counted, given, going_on};
use crate::perplexity::check_speaks;
use crate::scoring::{each_row, nll};
use reticent_backends::{PrefixScorer, Scorer};
use reticent_corpus::TokenId;
use std::ops::ControlFlow;

/// A prompt from a record, and the tokens that followed it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Passage {
    /// The prompt's tokens, at least one.
    pub prompt: Vec<TokenId>,
    /// The tokens that followed it, at least one.
    pub suffix: Vec<TokenId>,
}

impl Passage {
    /// Returns the passage of a record (with its beginning-of-text first) that has a suffix of `suffix` tokens after a
    /// prompt of `prompt` tokens. The suffix starts where the longest of a study's `prompts` that fits ends, so that
    /// shorter prompts have the same suffix. Returns `None` if the record is too short. The longest prompt begins with
    /// the record and keeps its beginning-of-text: a model that was trained on whole records knows them from there.
    #[must_use]
    pub fn of_record(
        record: &[TokenId],
        prompt: usize,
        prompts: &[usize],
        suffix: usize,
    ) -> Option<Self> {
        let start = Self::suffix_start(record, prompts, suffix)?;
        let before = start - 1;
        if suffix == 0 || prompt == 0 || before < prompt {
            return None;
        }
        let from = if before == prompt { 0 } else { start - prompt };
        Some(Self {
            prompt: record[from..start].to_vec(),
            suffix: record[start..start + suffix].to_vec(),
        })
    }

    /// Returns where the suffix of a record's passages begins; `None` if the record is too short.
    #[must_use]
    pub fn suffix_start(record: &[TokenId], prompts: &[usize], suffix: usize) -> Option<usize> {
        let room = record.len().checked_sub(1)?.checked_sub(suffix)?;
        let before = prompts.iter().filter(|prompt| **prompt <= room).max()?;
        Some(1 + before)
    }

    /// Checks that there is a prompt and a suffix: an empty suffix would come out with probability 1.
    fn check(&self) -> Result<()> {
        given(
            !self.prompt.is_empty() && !self.suffix.is_empty(),
            "a passage without prompt or suffix",
        )
    }
}

/// The model's continuation of a passage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Continuation {
    /// Whether greedy decoding of the prompt gives the suffix, token by token.
    pub verbatim: bool,
    /// The least share of tokens to change to turn the greedy continuation into the suffix (edit distance over the
    /// suffix's length; 1 minus PrivacyGuard's edit similarity over the target's length, in tokens): 0 for verbatim;
    /// absent if nothing was generated.
    pub distance: Option<f64>,
    /// ln P(the sampler draws the suffix once), nats.
    pub ln_once: f64,
}

/// Determines in one teacher-forced pass over the passages which are verbatim, and the probability of each
/// suffix under plain sampling (temperature 1, no truncation).
///
/// # Errors
/// Returns an error if there is no passage, if a prompt or suffix is empty, if the model returns a value that is not a
/// log-probability, if it gives most passages no finite perplexity, if the engine fails, or
/// [`crate::Error::Interrupted`] if `progress` stops the run.
pub fn continuations<S: Scorer + ?Sized>(
    scorer: &mut S,
    passages: &[Passage],
    batch_tokens: usize,
    progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<Vec<Continuation>> {
    given(!passages.is_empty(), "no passage was given")?;
    passages.iter().try_for_each(Passage::check)?;
    let sequences: Vec<Vec<TokenId>> = passages
        .iter()
        .map(|p| p.prompt.iter().chain(&p.suffix).copied().collect())
        .collect();
    let mut found = vec![
        Continuation {
            verbatim: false,
            distance: None,
            ln_once: f64::NEG_INFINITY,
        };
        passages.len()
    ];
    each_row(scorer, &sequences, batch_tokens, progress, |index, row| {
        let suffix = &passages[index].suffix;
        // The row has a score for every token but the first; the suffix is at its end.
        let scores = &row[row.len() - suffix.len()..];
        let verbatim = scores.iter().zip(suffix).all(|(s, t)| s.top_token == *t);
        found[index] = Continuation {
            verbatim,
            distance: verbatim.then_some(0.0),
            ln_once: -nll(scores),
        };
        Ok(())
    })?;
    let losses = found.iter().zip(passages);
    let losses = losses.map(|(found, passage)| (-found.ln_once, passage.suffix.len()));
    check_speaks("passage", losses)?;
    Ok(found)
}

/// Generates a continuation for every passage that is not verbatim, and fills in its distance.
///
/// # Errors
/// As for [`generate_greedily`]; also returns an error if the number of continuations is not that of passages, if a
/// prompt or suffix is empty, or [`crate::Error::Interrupted`] if `progress` stops the run.
pub fn measure_distances<S: PrefixScorer + ?Sized>(
    scorer: &mut S,
    passages: &[Passage],
    found: &mut [Continuation],
    batch: usize,
    progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<()> {
    counted("continuations", found.len(), passages.len())?;
    passages.iter().try_for_each(Passage::check)?;
    let open: Vec<usize> = (0..found.len()).filter(|&i| !found[i].verbatim).collect();
    let mut done = found.len() - open.len();
    for group in open.chunks(batch.max(1)) {
        let prompts: Vec<Vec<TokenId>> =
            group.iter().map(|&i| passages[i].prompt.clone()).collect();
        let length = group.iter().map(|&i| passages[i].suffix.len()).max();
        let texts = generate_greedily(scorer, &prompts, length.unwrap_or(0))?;
        for (&index, text) in group.iter().zip(texts) {
            let suffix = &passages[index].suffix;
            let changed = edit_distance(&text[..suffix.len()], suffix) as f64;
            found[index].distance = Some(changed / suffix.len() as f64);
        }
        done += group.len();
        going_on(progress(done))?;
    }
    Ok(())
}
