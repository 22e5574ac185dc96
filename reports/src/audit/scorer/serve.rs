//! `audit serve`: the other side of the protocol, for our own models.

use super::protocol::{Answer, Hello, Nats, Question, VERSION, read, write};
use crate::contract::Interrupt;
use anyhow::{Context, Result, bail};
use reticent_backends::{PrefixScorer, StateId};
use reticent_corpus::TokenId;
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, Write};

/// The number of prefixes whose states are kept for later questions.
const KEPT: usize = 2048;

/// The most bytes of their tokens' keys and values, beside those of one question: 2 GiB.
const BYTES: usize = 1 << 31;

/// Answers every line of `questions` until they end. `row` is the number of bytes that the model keeps for each token of a
/// prefix; states of a fixed size have 0.
///
/// # Errors
/// Returns an error, which the answer states too, if a line is not a question or the model fails.
pub(crate) fn serve(
    model: &mut dyn PrefixScorer,
    (context, row): (Option<usize>, usize),
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
    let mut kept = Kept::new(BYTES / row.max(1));
    for line in questions.lines() {
        interrupt.check()?;
        let question = match read::<Question>(&line.context("stdin")?) {
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

fn answer(model: &mut dyn PrefixScorer, question: Question, kept: &mut Kept) -> Result<Answer> {
    let mut answer = Answer {
        id: question.id,
        ..Answer::default()
    };
    match (question.score, question.next, question.wanted) {
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
        _ => bail!(
            "question {} must have score, or next with wanted",
            question.id
        ),
    }
    Ok(answer)
}

/// States by prefix: a prefix that extends a kept one by a token costs only one position.
struct Kept {
    states: HashMap<Vec<TokenId>, (StateId, u64)>,
    nodes: HashMap<StateId, Node>,
    /// The number of rows of all nodes, and the most that are kept.
    rows: usize,
    most: usize,
    clock: u64,
}

/// What a state adds to the one that it extends. It stays in memory as long as a state that goes on from it.
struct Node {
    parent: Option<StateId>,
    /// One for each token that it adds.
    rows: usize,
    /// The kept states and nodes that need it.
    users: usize,
}

impl Kept {
    fn new(most: usize) -> Self {
        Self {
            states: HashMap::new(),
            nodes: HashMap::new(),
            rows: 0,
            most,
            clock: 0,
        }
    }

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
        for (prefix, state) in fresh.into_iter().zip(begun) {
            self.keep(prefix, state, None);
        }
        let moves: Vec<(StateId, TokenId)> = steps.iter().map(|(step, _)| *step).collect();
        let extended = model.extend(&moves)?;
        for (((parent, _), prefix), state) in steps.into_iter().zip(extended) {
            self.keep(prefix, state, Some(parent));
        }
        let mut found = Vec::with_capacity(prefixes.len());
        for prefix in prefixes {
            if let Some((state, used)) = self.states.get_mut(prefix) {
                *used = self.clock;
                found.push(*state);
            }
        }
        Ok(found)
    }

    fn keep(&mut self, prefix: Vec<TokenId>, state: StateId, parent: Option<StateId>) {
        if let Some(node) = parent.and_then(|parent| self.nodes.get_mut(&parent)) {
            node.users += 1;
        }
        let node = Node {
            parent,
            rows: parent.map_or(prefix.len(), |_| 1),
            users: 1,
        };
        self.rows += node.rows;
        self.nodes.insert(state, node);
        self.states.insert(prefix, (state, 0));
    }

    /// Drops the states that were unused for longest, if there are too many of them or of their rows.
    fn forget(&mut self, model: &mut dyn PrefixScorer) {
        if self.states.len() <= 2 * KEPT && self.rows <= self.most {
            return;
        }
        let mut newest: Vec<_> = self.states.drain().collect();
        // Of equally old ones those that go on from others end first.
        newest.sort_unstable_by(|(one, (_, used)), (other, (_, later))| {
            later.cmp(used).then_with(|| one.cmp(other))
        });
        let mut gone = Vec::new();
        while newest.len() > KEPT || self.rows > self.most / 2 {
            let Some((_, (state, _))) = newest.pop() else {
                break;
            };
            self.leave(state);
            gone.push(state);
        }
        self.states.extend(newest);
        model.release(&gone);
    }

    /// Takes a user from a node, and with the last one the node and its use of others.
    fn leave(&mut self, state: StateId) {
        let mut next = Some(state);
        while let Some(id) = next.take() {
            let Some(node) = self.nodes.get_mut(&id) else {
                return;
            };
            node.users -= 1;
            if node.users == 0 {
                self.rows -= node.rows;
                next = node.parent;
                self.nodes.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reticent_backends::{Result as BackendResult, Scorer, TokenScore};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// The rows of a state, which those that extend it share, counted while they are in memory.
    struct Rows {
        _parent: Option<Arc<Self>>,
        count: usize,
        live: Arc<AtomicUsize>,
    }

    impl Drop for Rows {
        fn drop(&mut self) {
            self.live.fetch_sub(self.count, Ordering::Relaxed);
        }
    }

    #[derive(Default)]
    struct Counting {
        states: HashMap<u64, Arc<Rows>>,
        live: Arc<AtomicUsize>,
        next: u64,
    }

    impl Counting {
        fn add(&mut self, parent: Option<Arc<Rows>>, count: usize) -> StateId {
            self.live.fetch_add(count, Ordering::Relaxed);
            let rows = Rows {
                _parent: parent,
                count,
                live: self.live.clone(),
            };
            self.next += 1;
            self.states.insert(self.next, Arc::new(rows));
            StateId(self.next)
        }

        fn live(&self) -> usize {
            self.live.load(Ordering::Relaxed)
        }
    }

    impl Scorer for Counting {
        fn vocabulary_size(&self) -> usize {
            1 << 20
        }

        fn score(&mut self, _: &[Vec<TokenId>]) -> BackendResult<Vec<Vec<TokenScore>>> {
            Ok(Vec::new())
        }
    }

    impl PrefixScorer for Counting {
        fn start(&mut self, prefixes: &[Vec<TokenId>]) -> BackendResult<Vec<StateId>> {
            Ok(prefixes.iter().map(|p| self.add(None, p.len())).collect())
        }

        fn extend(&mut self, steps: &[(StateId, TokenId)]) -> BackendResult<Vec<StateId>> {
            let parents: Vec<_> = steps
                .iter()
                .map(|(s, _)| self.states[&s.0].clone())
                .collect();
            Ok(parents.into_iter().map(|p| self.add(Some(p), 1)).collect())
        }

        fn next_log_probabilities(
            &mut self,
            states: &[StateId],
            wanted: &[TokenId],
        ) -> BackendResult<Vec<f64>> {
            Ok(vec![-1.0; states.len() * wanted.len()])
        }

        fn release(&mut self, states: &[StateId]) {
            for state in states {
                self.states.remove(&state.0);
            }
        }
    }

    #[test]
    fn rows_of_unrelated_prefixes_stay_below_the_budget() {
        let (mut model, mut kept) = (Counting::default(), Kept::new(6400));
        for number in 0..3000 {
            let prefix = vec![number; 64];
            kept.states(&mut model, &[prefix]).unwrap();
            kept.forget(&mut model);
            assert_eq!(kept.rows, model.live());
            assert!(kept.rows <= 6400);
        }
        assert!(kept.states.len() >= 50 && kept.states.len() == model.states.len());
    }

    /// Rows that a released state shares with a kept one are still in memory.
    #[test]
    fn shared_rows_are_counted_once_and_until_the_last_state_goes() {
        let (mut model, mut kept) = (Counting::default(), Kept::new(300));
        for number in 0..200 {
            let mut prefix = vec![number / 10; 20];
            for token in 0..=number % 10 {
                prefix.push(token);
                kept.states(&mut model, std::slice::from_ref(&prefix))
                    .unwrap();
            }
            assert_eq!(kept.rows, model.live());
            kept.forget(&mut model);
            assert_eq!(kept.rows, model.live());
            assert!(kept.rows <= 300);
            assert_eq!(kept.nodes.is_empty(), kept.states.is_empty());
        }
        let states: Vec<StateId> = kept.states.values().map(|(state, _)| *state).collect();
        states.into_iter().for_each(|state| kept.leave(state));
        assert_eq!((kept.rows, kept.nodes.len()), (0, 0));
    }
}
