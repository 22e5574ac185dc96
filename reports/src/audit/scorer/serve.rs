//! `audit serve`: the other side of the protocol, for our own models.

use super::protocol::{Answer, Hello, Nats, Question, VERSION, read, write};
use crate::contract::Interrupt;
use anyhow::{Result, bail};
use reticent_backends::{PrefixScorer, StateId};
use reticent_corpus::TokenId;
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, Write};

/// The number of prefixes whose states are kept for later questions.
const KEPT: usize = 2048;

/// Answers every line of `questions` until they end.
///
/// # Errors
/// Returns an error, which the answer states too, if a line is not a question or the model fails.
pub(crate) fn serve(
    model: &mut dyn PrefixScorer,
    context: Option<usize>,
    questions: impl BufRead,
    mut answers: impl Write,
    interrupt: &Interrupt,
) -> Result<()> {
    let hello = Hello {
        reticent_scorer: VERSION,
        vocabulary: model.vocabulary_size(),
        context,
        batch: Some(256),
        statistics: true,
        next: true,
    };
    answers.write_all(&write(&hello)?)?;
    answers.flush()?;
    let mut kept = Kept::default();
    for line in questions.lines() {
        interrupt.check()?;
        let question = match read::<Question>(&line?) {
            Ok(question) => question,
            Err(why) => bail!("stdin: {why}"),
        };
        let id = question.id;
        let answer = answer(model, question, &mut kept);
        let said = match &answer {
            Ok(answer) => write(answer)?,
            Err(error) => write(&Answer {
                id,
                error: Some(error.to_string()),
                ..Answer::default()
            })?,
        };
        answers.write_all(&said)?;
        answers.flush()?;
        answer?;
    }
    Ok(())
}

fn answer(model: &mut dyn PrefixScorer, asked: Question, kept: &mut Kept) -> Result<Answer> {
    let mut answer = Answer {
        id: asked.id,
        ..Answer::default()
    };
    match (asked.score, asked.next, asked.wanted) {
        (Some(sequences), None, None) => {
            let scores = model.score(&sequences)?;
            let nats = |of: fn(&reticent_backends::TokenScore) -> f64| -> Vec<Vec<Nats>> {
                let row = |row: &Vec<_>| row.iter().map(|s| Nats(of(s))).collect();
                scores.iter().map(row).collect()
            };
            answer.log_probabilities = nats(|s| s.log_probability);
            answer.means = nats(|s| s.mean);
            answer.variances = nats(|s| s.variance);
            answer.top_log_probabilities = nats(|s| s.top_log_probability);
            let tops = |row: &Vec<reticent_backends::TokenScore>| {
                row.iter().map(|s| s.top_token).collect()
            };
            answer.top_tokens = scores.iter().map(tops).collect();
        }
        (None, Some(prefixes), Some(wanted)) => {
            let states = kept.states(model, &prefixes)?;
            let found = model.next_log_probabilities(&states, &wanted)?;
            let rows = found.chunks(wanted.len().max(1));
            answer.log_probabilities = rows
                .map(|row| row.iter().map(|v| Nats(*v)).collect())
                .collect();
            kept.forget(model);
        }
        _ => bail!("question {} must have score, or next with wanted", asked.id),
    }
    Ok(answer)
}

/// States by prefix: a prefix that extends a kept one by a token costs only one position.
#[derive(Default)]
struct Kept {
    states: HashMap<Vec<TokenId>, (StateId, u64)>,
    clock: u64,
}

impl Kept {
    fn states(
        &mut self,
        model: &mut dyn PrefixScorer,
        prefixes: &[Vec<TokenId>],
    ) -> Result<Vec<StateId>> {
        self.clock += 1;
        let mut fresh: Vec<Vec<TokenId>> = Vec::new();
        let mut steps: Vec<((StateId, TokenId), Vec<TokenId>)> = Vec::new();
        let mut met: HashSet<&Vec<TokenId>> = HashSet::new();
        for prefix in prefixes {
            if self.states.contains_key(prefix) || !met.insert(prefix) {
                continue;
            }
            let parent = prefix
                .split_last()
                .and_then(|(last, rest)| Some((self.states.get(rest)?.0, *last)));
            match parent {
                Some(step) => steps.push((step, prefix.clone())),
                None => fresh.push(prefix.clone()),
            }
        }
        let begun = model.start(&fresh)?;
        let moves: Vec<(StateId, TokenId)> = steps.iter().map(|(step, _)| *step).collect();
        let extended = model.extend(&moves)?;
        let steps = steps.into_iter().map(|(_, prefix)| prefix);
        let new = fresh.into_iter().zip(begun).chain(steps.zip(extended));
        self.states
            .extend(new.map(|(prefix, state)| (prefix, (state, 0))));
        let mut found = Vec::with_capacity(prefixes.len());
        for prefix in prefixes {
            if let Some((state, used)) = self.states.get_mut(prefix) {
                *used = self.clock;
                found.push(*state);
            }
        }
        Ok(found)
    }

    /// Drops the states that were unused for longest.
    fn forget(&mut self, model: &mut dyn PrefixScorer) {
        if self.states.len() <= 2 * KEPT {
            return;
        }
        let mut ages: Vec<u64> = self.states.values().map(|(_, used)| *used).collect();
        ages.sort_unstable();
        let oldest = ages[ages.len() - KEPT];
        let mut gone = Vec::new();
        self.states.retain(|_, (state, used)| {
            let stays = *used >= oldest;
            if !stays {
                gone.push(*state);
            }
            stays
        });
        model.release(&gone);
    }
}
