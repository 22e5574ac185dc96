//! Computes all attacks on a list of records, from one table per model.

use super::neighbours::digit_mutations;
use super::scored::{Attack, Evidence, Scored};
use super::table::{ScoreTable, Scoring};
use crate::error::{Result, counted};
use reticent_backends::Scorer;
use reticent_corpus::TokenId;
use reticent_corpus::tokenize::lower_case;
use std::ops::ControlFlow;

/// What a panel scores in addition to the records themselves; each item costs further passes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Beside {
    /// Whether to score the texts in lower case.
    pub lower_case: bool,
    /// Neighbours of each record.
    pub neighbours: Option<Neighbours>,
}

/// Texts to compare with a record, which only the record's own wording sets apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Neighbours {
    /// `count` neighbours of each record with other digits.
    Digits {
        /// How many per record.
        count: usize,
        /// The seed of the draws.
        seed: u64,
    },
    /// Given neighbours of each record, from any source, tokenized for the model.
    Given(Vec<Vec<Vec<TokenId>>>),
}

/// Records under the audited model, and under a reference model if there is one.
///
/// The audited model scores everything in one pass, the reference scores the records in one pass.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    texts: Vec<String>,
    target: ScoreTable,
    reference: Option<ScoreTable>,
    lower_case: Option<ScoreTable>,
    neighbours: Option<Vec<Vec<f64>>>,
    without_digits: usize,
}

/// Turns a text into a record's tokens, as the audited model was trained to read it.
pub type Frame<'f> = &'f dyn Fn(&str) -> Result<Vec<TokenId>>;

impl Panel {
    /// Scores the texts, and what `beside` adds to them, in one pass of the audited model.
    ///
    /// If one text has no digit, neighbours by other digits are dropped for all texts: an attack
    /// that omits records would be evaluated on another sample than the others.
    ///
    /// # Errors
    /// As for [`ScoreTable::of`]. Also returns an error if `frame` fails, or if the given
    /// neighbours are for another number of texts.
    pub fn of<S: Scorer + ?Sized>(
        scorer: &mut S,
        texts: Vec<String>,
        frame: Frame<'_>,
        beside: Beside,
        scoring: Scoring,
        progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Self> {
        let framed = |texts: &[String]| -> Result<Vec<Vec<TokenId>>> {
            texts.iter().map(|text| frame(text)).collect()
        };
        let records = texts.len();
        let digitless = |t: &&String| !t.bytes().any(|b| b.is_ascii_digit());
        let without_digits = texts.iter().filter(digitless).count();
        let mut all = framed(&texts)?;
        if beside.lower_case {
            let lower: Vec<String> = texts.iter().map(|t| lower_case(t)).collect();
            all.extend(framed(&lower)?);
        }
        let mut sizes = Vec::new();
        match beside.neighbours {
            Some(Neighbours::Digits { count, seed }) if without_digits == 0 => {
                for (index, text) in texts.iter().enumerate() {
                    let near = digit_mutations(text, count, seed.wrapping_add(index as u64))?;
                    sizes.push(near.len());
                    all.extend(framed(&near)?);
                }
            }
            Some(Neighbours::Given(near)) => {
                counted("records with neighbours", near.len(), records)?;
                sizes.extend(near.iter().map(Vec::len));
                all.extend(near.into_iter().flatten());
            }
            _ => {}
        }
        let table = ScoreTable::of(scorer, all, scoring, progress)?;
        let (target, rest) = table.split_at(records);
        let (lower_case, near) = if beside.lower_case {
            let (lower, near) = rest.split_at(records);
            (Some(lower), near)
        } else {
            (None, rest)
        };
        Ok(Self {
            texts,
            target,
            reference: None,
            lower_case,
            neighbours: (!sizes.is_empty())
                .then(|| near.mean_nlls(&sizes))
                .transpose()?,
            without_digits,
        })
    }

    /// Adds a reference model, with one pass of it over the same tokens.
    ///
    /// # Errors
    /// As for [`ScoreTable::of`]; a reference with fewer tokens than the model refuses those that
    /// it does not know.
    pub fn with_reference<S: Scorer + ?Sized>(
        mut self,
        reference: &mut S,
        scoring: Scoring,
        progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Self> {
        let records = self.target.tokens().to_vec();
        self.reference = Some(ScoreTable::of(reference, records, scoring, progress)?);
        Ok(self)
    }

    /// Returns the table of the audited model.
    #[must_use]
    pub const fn target(&self) -> &ScoreTable {
        &self.target
    }

    /// Returns the table of the reference.
    #[must_use]
    pub const fn reference(&self) -> Option<&ScoreTable> {
        self.reference.as_ref()
    }

    /// Returns the number of texts without a digit; if it is not 0, neighbours by other digits are
    /// dropped for all.
    #[must_use]
    pub const fn without_digits(&self) -> usize {
        self.without_digits
    }

    /// Returns every record's score under an attack; `None` if the panel lacks what the attack
    /// needs.
    ///
    /// # Errors
    /// As for [`Attack::score`].
    pub fn scores(&self, attack: Attack) -> Result<Option<Vec<f64>>> {
        (0..self.texts.len())
            .map(|index| self.score(attack, index))
            .collect()
    }

    fn score(&self, attack: Attack, index: usize) -> Result<Option<f64>> {
        let evidence = Evidence {
            target: self.target.record(index)?,
            reference: optional(self.reference.as_ref(), index)?,
            lower_case: optional(self.lower_case.as_ref(), index)?,
            text: Some(&self.texts[index]),
            neighbours: self.neighbours.as_ref().map(|n| n[index].as_slice()),
        };
        attack.score(&evidence)
    }
}

fn optional(table: Option<&ScoreTable>, index: usize) -> Result<Option<Scored<'_>>> {
    table.map(|t| t.record(index)).transpose()
}

impl ScoreTable {
    fn split_at(mut self, records: usize) -> (Self, Self) {
        let rest = Self {
            tokens: self.tokens.split_off(records),
            scores: self.scores.split_off(records),
        };
        (self, rest)
    }

    /// Returns mean NLLs, `sizes[i]` of them for record i.
    fn mean_nlls(&self, sizes: &[usize]) -> Result<Vec<Vec<f64>>> {
        let mut at = 0;
        sizes
            .iter()
            .map(|&size| {
                let group = at..at + size;
                at = group.end;
                group.map(|i| Ok(self.record(i)?.mean_nll())).collect()
            })
            .collect()
    }
}
