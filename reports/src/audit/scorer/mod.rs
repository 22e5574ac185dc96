//! `--scorer command:…`: a model of any kind, in any language, behind a process that answers
//! questions about log-probabilities.
//!
//! Nothing that it says is trusted: every answer is checked for its number, its counts and its
//! ranges, and the first wrong one ends the process and the command.

mod process;
mod protocol;
mod serve;

pub(crate) use serve::serve;

use crate::contract::Interrupt;
use anyhow::{Context, Result, bail};
use process::Process;
use protocol::{Answer, Hello, Nats, Question, VERSION, read, write};
use reticent_backends::{Error, PrefixScorer, Scorer, StateId, TokenScore};
use reticent_corpus::TokenId;
use std::collections::HashMap;
use std::time::Duration;

/// Sequences or prefixes of one question, where the scorer does not say.
const BATCH: usize = 64;

/// Numbers that one question may ask for.
const ANSWERS: usize = 1 << 20;

/// Log-softmaxes in single precision may round to slightly above zero.
const ROUNDING: f64 = 1e-4;

/// Tokens that may be tried one by one where `next` is not answered.
const TRIED: usize = 4096;

type Told<T> = reticent_backends::Result<T>;

/// A model behind a process.
pub(crate) struct CommandScorer {
    line: String,
    process: Process,
    hello: Hello,
    asked: u64,
    /// The process was ended, and why.
    broken: Option<String>,
    states: HashMap<u64, Vec<TokenId>>,
    next_state: u64,
}

impl CommandScorer {
    /// Starts the command and reads its first line.
    ///
    /// # Errors
    /// A command that can't be started, ends, says nothing in time, or speaks another protocol.
    pub(crate) fn start(line: &str, limit: Duration, interrupt: &Interrupt) -> Result<Self> {
        let mut process = Process::start(line, limit, interrupt)
            .with_context(|| format!("can't start sh for `{line}`"))?;
        let hello = process.listen().and_then(|first| read::<Hello>(&first));
        let hello = match hello {
            Ok(hello) => hello,
            Err(why) => {
                interrupt.check()?;
                process.kill();
                bail!("{}", complaint(line, &why, &process));
            }
        };
        let wrong = if hello.reticent_scorer != VERSION {
            Some(format!(
                "speaks version {} of the protocol, and this audit speaks {VERSION}",
                hello.reticent_scorer
            ))
        } else if hello.vocabulary < 2 {
            Some(format!(
                "says vocabulary {}; it must be at least 2",
                hello.vocabulary
            ))
        } else if hello.context.is_some_and(|c| c < 2) || hello.batch == Some(0) {
            Some("says a context below 2 or a batch of 0".to_owned())
        } else {
            None
        };
        if let Some(why) = wrong {
            process.kill();
            bail!("{}", complaint(line, &why, &process));
        }
        Ok(Self {
            line: line.to_owned(),
            process,
            hello,
            asked: 0,
            broken: None,
            states: HashMap::new(),
            next_state: 0,
        })
    }

    /// What it can do.
    pub(crate) const fn hello(&self) -> &Hello {
        &self.hello
    }

    fn batch(&self) -> usize {
        self.hello.batch.unwrap_or(BATCH)
    }

    /// Ends the process; from now on every question is answered with the same words.
    fn break_off(&mut self, why: &str) -> Error {
        self.process.kill();
        let said = complaint(&self.line, why, &self.process);
        self.broken = Some(said.clone());
        Error::Outside(said)
    }

    fn ask(&mut self, question: Question) -> Told<Answer> {
        if let Some(why) = &self.broken {
            return Err(Error::Outside(why.clone()));
        }
        self.asked += 1;
        let question = Question {
            id: self.asked,
            ..question
        };
        let line = write(&question).map_err(|e| Error::Outside(e.to_string()))?;
        self.process.tell(line);
        let answer = self.process.listen().and_then(|line| read::<Answer>(&line));
        match answer {
            Err(why) => Err(self.break_off(&why)),
            Ok(answer) if answer.id != self.asked => {
                let why = format!("answered question {}, asked was {}", answer.id, self.asked);
                Err(self.break_off(&why))
            }
            Ok(Answer {
                error: Some(error), ..
            }) => Err(self.break_off(&format!("reports an error: {error}"))),
            Ok(answer) => Ok(answer),
        }
    }

    fn known(&self, tokens: &[TokenId]) -> Told<()> {
        let size = self.hello.vocabulary;
        match tokens.iter().find(|t| **t as usize >= size) {
            Some(&token) => Err(Error::UnknownToken { token, size }),
            None => Ok(()),
        }
    }

    fn short_enough(&self, index: usize, length: usize) -> Told<()> {
        match self.hello.context {
            Some(most) if length > most => Err(Error::TooLong {
                index,
                length,
                most,
            }),
            _ => Ok(()),
        }
    }

    fn score_some(&mut self, sequences: &[Vec<TokenId>]) -> Told<Vec<Vec<TokenScore>>> {
        let answer = self.ask(Question {
            id: 0,
            score: Some(sequences.to_vec()),
            next: None,
            wanted: None,
        })?;
        let lengths: Vec<usize> = sequences.iter().map(|s| s.len() - 1).collect();
        let rows = rows(
            &answer,
            &lengths,
            self.hello.statistics,
            self.hello.vocabulary,
        );
        rows.map_err(|why| self.break_off(&why))
    }

    fn next_some(&mut self, prefixes: &[Vec<TokenId>], wanted: &[TokenId]) -> Told<Vec<f64>> {
        if self.hello.next {
            let answer = self.ask(Question {
                id: 0,
                score: None,
                next: Some(prefixes.to_vec()),
                wanted: Some(wanted.to_vec()),
            })?;
            let lengths = vec![wanted.len(); prefixes.len()];
            let checked =
                shape("log_probabilities", &answer.log_probabilities, &lengths).and_then(|()| {
                    all(
                        &answer.log_probabilities,
                        "log_probabilities",
                        is_log_probability,
                    )
                });
            return match checked {
                Ok(()) => Ok(flat(&answer.log_probabilities)),
                Err(why) => Err(self.break_off(&why)),
            };
        }
        if wanted.len() > TRIED {
            return Err(Error::Outside(format!(
                "the scorer `{}` does not answer `next`, and trying {} tokens one by one behind every prefix takes too long",
                self.line,
                wanted.len()
            )));
        }
        let tried: Vec<Vec<TokenId>> = prefixes
            .iter()
            .flat_map(|p| wanted.iter().map(move |t| [p.as_slice(), &[*t]].concat()))
            .collect();
        let rows = self.score(&tried)?;
        let last = rows.iter().filter_map(|row| row.last());
        Ok(last.map(|s| s.log_probability).collect())
    }

    fn prefix(&self, state: StateId) -> Told<&Vec<TokenId>> {
        self.states
            .get(&state.0)
            .ok_or(Error::UnknownState(state.0))
    }

    fn keep(&mut self, prefix: Vec<TokenId>) -> StateId {
        self.next_state += 1;
        self.states.insert(self.next_state, prefix);
        StateId(self.next_state)
    }
}

impl Scorer for CommandScorer {
    fn vocabulary_size(&self) -> usize {
        self.hello.vocabulary
    }

    fn score(&mut self, sequences: &[Vec<TokenId>]) -> Told<Vec<Vec<TokenScore>>> {
        for (index, sequence) in sequences.iter().enumerate() {
            if sequence.is_empty() {
                return Err(Error::TooShort {
                    index,
                    length: 0,
                    least: 1,
                });
            }
            self.known(sequence)?;
            self.short_enough(index, sequence.len())?;
        }
        let mut scores = Vec::with_capacity(sequences.len());
        for some in sequences.chunks(self.batch()) {
            scores.extend(self.score_some(some)?);
        }
        Ok(scores)
    }
}

impl PrefixScorer for CommandScorer {
    fn start(&mut self, prefixes: &[Vec<TokenId>]) -> Told<Vec<StateId>> {
        for (index, prefix) in prefixes.iter().enumerate() {
            if prefix.is_empty() {
                return Err(Error::TooShort {
                    index,
                    length: 0,
                    least: 1,
                });
            }
            self.known(prefix)?;
            self.short_enough(index, prefix.len())?;
        }
        Ok(prefixes.iter().map(|p| self.keep(p.clone())).collect())
    }

    fn extend(&mut self, steps: &[(StateId, TokenId)]) -> Told<Vec<StateId>> {
        let mut grown = Vec::with_capacity(steps.len());
        for (index, &(state, token)) in steps.iter().enumerate() {
            self.known(&[token])?;
            let prefix = [self.prefix(state)?.as_slice(), &[token]].concat();
            self.short_enough(index, prefix.len())?;
            grown.push(prefix);
        }
        Ok(grown.into_iter().map(|p| self.keep(p)).collect())
    }

    fn next_log_probabilities(&mut self, states: &[StateId], wanted: &[TokenId]) -> Told<Vec<f64>> {
        self.known(wanted)?;
        let prefixes = states
            .iter()
            .map(|&state| self.prefix(state).cloned())
            .collect::<Told<Vec<_>>>()?;
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let most = self.batch().min(ANSWERS / wanted.len()).max(1);
        let mut found = Vec::with_capacity(states.len() * wanted.len());
        for some in prefixes.chunks(most) {
            found.extend(self.next_some(some, wanted)?);
        }
        Ok(found)
    }

    fn release(&mut self, states: &[StateId]) {
        for state in states {
            self.states.remove(&state.0);
        }
    }
}

fn complaint(line: &str, why: &str, process: &Process) -> String {
    // Its own words may quote the text that it was given.
    let words = match process.complained() {
        false => "",
        // What a shell answers where there is no such program.
        true if why.contains("exit status: 127") => "; the program was not found",
        true => {
            "; what it wrote on stderr may quote texts and is not shown: send it to a file (sh -c 'COMMAND 2> FILE')"
        }
    };
    format!("the scorer `{line}` {why}{words}")
}

fn flat(rows: &[Vec<Nats>]) -> Vec<f64> {
    rows.iter().flatten().map(|n| n.0.min(0.0)).collect()
}

/// Whether the rows have these lengths.
fn shape<T>(what: &str, rows: &[Vec<T>], lengths: &[usize]) -> std::result::Result<(), String> {
    if rows.len() != lengths.len() {
        return Err(format!(
            "answered with {} rows of {what} for {} sequences",
            rows.len(),
            lengths.len()
        ));
    }
    for (index, (row, &wanted)) in rows.iter().zip(lengths).enumerate() {
        if row.len() != wanted {
            return Err(format!(
                "answered with {} {what} in row {index}, {wanted} were asked for",
                row.len()
            ));
        }
    }
    Ok(())
}

fn all(rows: &[Vec<Nats>], what: &str, fits: fn(f64) -> bool) -> std::result::Result<(), String> {
    for (index, row) in rows.iter().enumerate() {
        if let Some(place) = row.iter().position(|n| !fits(n.0)) {
            return Err(format!(
                "answered {} at {what}[{index}][{place}]; it must lie in {}",
                row[place].0,
                if what == "variances" {
                    "[0, inf)"
                } else {
                    "[-inf, 0]"
                }
            ));
        }
    }
    Ok(())
}

fn is_log_probability(value: f64) -> bool {
    value <= ROUNDING
}

/// The checked scores of sequences.
fn rows(
    answer: &Answer,
    lengths: &[usize],
    statistics: bool,
    vocabulary: usize,
) -> std::result::Result<Vec<Vec<TokenScore>>, String> {
    let scores = &answer.log_probabilities;
    shape("log_probabilities", scores, lengths)?;
    all(scores, "log_probabilities", is_log_probability)?;
    if !statistics {
        let plain = |n: &Nats| unknown(n.0.min(0.0));
        return Ok(scores
            .iter()
            .map(|row| row.iter().map(plain).collect())
            .collect());
    }
    let tops = &answer.top_log_probabilities;
    for (what, rows) in [("means", &answer.means), ("top_log_probabilities", tops)] {
        shape(what, rows, lengths)?;
        all(rows, what, |v| v <= ROUNDING && v.is_finite())?;
    }
    shape("variances", &answer.variances, lengths)?;
    all(&answer.variances, "variances", |v| {
        v >= -ROUNDING && v.is_finite()
    })?;
    shape("top_tokens", &answer.top_tokens, lengths)?;
    if let Some(token) = answer
        .top_tokens
        .iter()
        .flatten()
        .find(|t| **t as usize >= vocabulary)
    {
        return Err(format!(
            "names {token} as most probable token, of {vocabulary}"
        ));
    }
    let one = |row: usize, place: usize| TokenScore {
        log_probability: scores[row][place].0.min(0.0),
        mean: answer.means[row][place].0.min(0.0),
        variance: answer.variances[row][place].0.max(0.0),
        top_token: answer.top_tokens[row][place],
        top_log_probability: tops[row][place].0.min(0.0),
    };
    let rows = lengths.iter().enumerate();
    Ok(rows
        .map(|(row, &length)| (0..length).map(|place| one(row, place)).collect())
        .collect())
}

/// A score of a scorer without statistics. The commands ask it for no attack that would read what
/// is missing here.
const fn unknown(log_probability: f64) -> TokenScore {
    TokenScore {
        log_probability,
        mean: f64::NAN,
        variance: f64::NAN,
        top_token: TokenId::MAX,
        top_log_probability: f64::NAN,
    }
}
