//! The candidate space as tokens, for searches that expand prefixes.

use super::plan::CanaryPlan;
use super::template::CanaryTemplate;
use crate::error::{Error, Result};
use crate::random::{Choices, Purpose};
use crate::record::TokenId;
use crate::tokenize::Tokenizer;
use std::collections::HashMap;
use std::ops::Range;

/// Every candidate secret of a plan as tokens: one choice per position, concatenated.
///
/// ```
/// use reticent_corpus::Unit;
/// use reticent_corpus::canary::{CandidateSpace, CanaryOptions, CanaryPlan};
/// use reticent_corpus::simulate::simulate;
/// use reticent_corpus::tokenize::Tokenizer;
/// let plan = CanaryPlan::new(&CanaryOptions::new("2x3".parse()?), Unit::Turn, &simulate(5, 0)?)?;
/// let space = CandidateSpace::new(&plan, &Tokenizer::characters())?;
/// assert_eq!(space.candidates(), 1_000_000);
/// assert_eq!(space.secret(341_752), "341752");
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CandidateSpace {
    /// The beginning of text and the canary's line up to the secret.
    pub context: Vec<TokenId>,
    /// The choices at each position, each consisting of one or more tokens.
    pub positions: Vec<Vec<Vec<TokenId>>>,
    /// The same choices as text.
    texts: Vec<Vec<String>>,
}

/// The number of random candidates on which the tokenizer is checked, in addition to every choice
/// at every position.
const SAMPLES: usize = 1000;

impl CandidateSpace {
    /// Creates the space of a plan for a tokenizer.
    ///
    /// Compositionality is checked on every choice at every position (the others fixed), on 1000
    /// random candidates, and on every insertion of every canary.
    ///
    /// # Errors
    /// Returns [`Error::NotCompositional`] if the tokens of a candidate in its line are not the
    /// context's tokens followed by one sequence per position.
    pub fn new(plan: &CanaryPlan, tokenizer: &Tokenizer) -> Result<Self> {
        let first = plan
            .canaries
            .first()
            .ok_or_else(|| Error::Plan("it has no canary".to_owned()))?;
        if let Some(other) = plan.canaries.iter().find(|c| c.context != first.context) {
            return Err(Error::Plan(format!(
                "{} has another context than {}",
                other.id, first.id
            )));
        }
        let probe = Probe {
            tokenizer,
            context: &first.context,
            after: &first.after,
            texts: plan.template.positions(),
        };
        let space = probe.space()?;
        probe.check_samples(&space, &plan.template)?;
        for canary in &plan.canaries {
            let tokens = space.tokens(&canary.secret)?;
            for insertion in &canary.insertions {
                let real = tokenizer.frame(&insertion.text)?;
                space.check(&real, &tokens, &canary.secret)?;
            }
        }
        Ok(space)
    }

    /// Checks that no two choices of a position have the same tokens in their line: no model could rank them. Tokenizers
    /// that are not compositional are checked the same way.
    ///
    /// # Errors
    /// [`Error::Plan`] with the place of two such choices, without their texts, which may be words of the corpus.
    pub fn check_choices(plan: &CanaryPlan, tokenizer: &Tokenizer) -> Result<()> {
        let Some(first) = plan.canaries.first() else {
            return Ok(());
        };
        let probe = Probe {
            tokenizer,
            context: &first.context,
            after: &first.after,
            texts: plan.template.positions(),
        };
        for (at, choices) in probe.texts.iter().enumerate() {
            let mut seen = HashMap::new();
            for choice in 0..choices.len() {
                let tokens = tokenizer.encode(&probe.line(at, choice).0)?;
                if let Some(before) = seen.insert(tokens, choice) {
                    return Err(Error::Plan(format!(
                        "choices {} and {} at position {} of the secret have the same tokens, so that no model distinguishes them: use --tokenizer bytes or other words",
                        before + 1,
                        choice + 1,
                        at + 1
                    )));
                }
            }
        }
        Ok(())
    }

    /// Returns the number of candidates.
    #[must_use]
    pub fn candidates(&self) -> u128 {
        self.texts.iter().map(|c| c.len() as u128).product()
    }

    /// Returns the text of candidate `number`; the last position varies fastest. Numbers wrap.
    #[must_use]
    pub fn secret(&self, number: u128) -> String {
        self.digits(number)
            .iter()
            .zip(&self.texts)
            .map(|(&digit, choices)| choices[digit].as_str())
            .collect()
    }

    /// Returns the tokens of candidate `number`. Numbers wrap.
    #[must_use]
    pub fn candidate(&self, number: u128) -> Vec<TokenId> {
        self.spelled(&self.digits(number))
    }

    fn spelled(&self, choices: &[usize]) -> Vec<TokenId> {
        let each = choices.iter().zip(&self.positions);
        each.flat_map(|(&at, choices)| choices[at].iter().copied())
            .collect()
    }

    fn digits(&self, number: u128) -> Vec<usize> {
        let mut rest = number;
        let mut out: Vec<usize> = self
            .texts
            .iter()
            .rev()
            .map(|choices| {
                let digit = (rest % choices.len() as u128) as usize;
                rest /= choices.len() as u128;
                digit
            })
            .collect();
        out.reverse();
        out
    }

    /// Returns a secret's choice at each position.
    ///
    /// # Errors
    /// Returns an error if the text is not a candidate.
    pub fn choices(&self, secret: &str) -> Result<Vec<usize>> {
        let mut rest = secret;
        let out: Option<Vec<usize>> = self
            .texts
            .iter()
            .map(|choices| {
                let (at, after) = choices
                    .iter()
                    .enumerate()
                    .find_map(|(i, c)| Some((i, rest.strip_prefix(c.as_str())?)))?;
                rest = after;
                Some(at)
            })
            .collect();
        out.filter(|_| rest.is_empty())
            .ok_or_else(|| Error::Plan(format!("{secret:?} is not a candidate of the template")))
    }

    /// Returns the tokens of a secret.
    ///
    /// # Errors
    /// Returns an error if the text is not a candidate.
    pub fn tokens(&self, secret: &str) -> Result<Vec<TokenId>> {
        Ok(self.spelled(&self.choices(secret)?))
    }

    fn check(&self, real: &[TokenId], secret: &[TokenId], text: &str) -> Result<()> {
        let found = real
            .strip_prefix(self.context.as_slice())
            .is_some_and(|rest| rest.starts_with(secret));
        if found {
            Ok(())
        } else {
            Err(Error::NotCompositional(format!(
                "the tokens of candidate {text:?} in its line are not those of its context and of its positions"
            )))
        }
    }
}

/// Determines how a tokenizer splits candidates.
struct Probe<'a> {
    tokenizer: &'a Tokenizer,
    context: &'a str,
    after: &'a str,
    texts: Vec<Vec<String>>,
}

impl Probe<'_> {
    fn space(&self) -> Result<CandidateSpace> {
        let mut context = self.tokenizer.encode(self.context)?;
        context.insert(0, self.tokenizer.bos());
        let positions = (0..self.texts.len())
            .map(|at| {
                (0..self.texts[at].len())
                    .map(|choice| self.at(at, choice))
                    .collect::<Result<_>>()
            })
            .collect::<Result<Vec<Vec<Vec<TokenId>>>>>()?;
        for (choices, texts) in positions.iter().zip(&self.texts) {
            check_distinct(choices, texts)?;
        }
        Ok(CandidateSpace {
            context,
            positions,
            texts: self.texts.clone(),
        })
    }

    /// A line with one choice at one position, the others at their first choice, and where the choice is in it.
    fn line(&self, position: usize, choice: usize) -> (String, Range<usize>) {
        let mut text = self.context.to_owned();
        let mut span = 0..0;
        for (at, choices) in self.texts.iter().enumerate() {
            let start = text.len();
            text.push_str(&choices[if at == position { choice } else { 0 }]);
            if at == position {
                span = start..text.len();
            }
        }
        text.push_str(self.after);
        (text, span)
    }

    /// The tokens of one choice at one position, the others at their first choice.
    fn at(&self, position: usize, choice: usize) -> Result<Vec<TokenId>> {
        let (text, span) = self.line(position, choice);
        let encoded = self.tokenizer.encode_with_offsets(&text)?;
        let mut tokens = Vec::new();
        for (&token, offset) in encoded.tokens.iter().zip(&encoded.offsets) {
            if offset.end <= span.start || offset.start >= span.end {
                continue;
            }
            if offset.start < span.start || offset.end > span.end {
                return Err(Error::NotCompositional(format!(
                    "one token covers {:?}, across the border of {:?}",
                    &text[offset.clone()],
                    &text[span]
                )));
            }
            tokens.push(token);
        }
        if tokens.is_empty() {
            return Err(Error::NotCompositional(format!(
                "{:?} has no token of its own",
                &text[span]
            )));
        }
        Ok(tokens)
    }

    /// Checks random candidates in their line.
    fn check_samples(&self, space: &CandidateSpace, template: &CanaryTemplate) -> Result<()> {
        let mut choices = Choices::new(0, Purpose::Verify);
        for _ in 0..SAMPLES {
            let secret = template.draw(&mut choices);
            let line = format!("{}{secret}{}", self.context, self.after);
            let real = self.tokenizer.frame(&line)?;
            space.check(&real, &space.tokens(&secret)?, &secret)?;
        }
        Ok(())
    }
}

/// Checks that no choice's tokens begin another's; otherwise, two candidates could have the same
/// tokens.
fn check_distinct(choices: &[Vec<TokenId>], texts: &[String]) -> Result<()> {
    for (i, one) in choices.iter().enumerate() {
        for (j, other) in choices.iter().enumerate() {
            if i != j && other.starts_with(one) {
                return Err(Error::NotCompositional(format!(
                    "the tokens of {:?} begin those of {:?}",
                    texts[i], texts[j]
                )));
            }
        }
    }
    Ok(())
}
