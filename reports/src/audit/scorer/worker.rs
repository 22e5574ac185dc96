//! One process of a scorer: asks its questions and checks every answer.

use super::process::Process;
use super::protocol::{Answer, Hello, Nats, Question, VERSION, read, write};
use crate::audit::answers::{ROUNDING, all, is_log_probability, next_log_probabilities, shape};
use crate::contract::Interrupt;
use anyhow::{Context, Result, bail};
use reticent_backends::{AGREEMENT, TokenScore};
use reticent_corpus::TokenId;
use std::time::Duration;

/// The message for an answer with an error, whose wording is the scorer's own.
const ITS_ERROR: &str = "reports an error, whose words may quote texts and are not shown: they are in its last answer \
                         (sh -c 'COMMAND | tee FILE')";

/// Why a question has no answer, in words about the scorer.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    /// The process has ended, doesn't answer, or can't answer; another process may.
    Gone(String),
    /// The answer is invalid, or the user wants to stop; no other process is asked.
    Final(String),
}

impl Failure {
    pub(super) fn words(self) -> String {
        match self {
            Self::Gone(words) | Self::Final(words) => words,
        }
    }
}

/// A process that is asked one question at a time.
pub(super) struct Worker {
    line: String,
    process: Process,
    hello: Hello,
    last_id: u64,
    /// Why the process was ended, if it was.
    broken: Option<Failure>,
}

impl Worker {
    /// Starts the command; [`Self::meet`] reads its first line.
    ///
    /// # Errors
    /// Returns an error if the command can't be started.
    pub(super) fn start(line: &str, limit: Duration, interrupt: &Interrupt) -> Result<Process> {
        Process::start(line, limit, interrupt)
            .with_context(|| format!("can't start sh for `{line}`"))
    }

    /// Reads the first line of a started command.
    ///
    /// # Errors
    /// Returns an error if the command ends, doesn't answer in time, or speaks another protocol, and on an interruption.
    pub(super) fn meet(line: &str, mut process: Process, interrupt: &Interrupt) -> Result<Self> {
        let hello = process
            .listen()
            .and_then(|first| read::<Hello>(&first).map_err(answered));
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
            last_id: 0,
            broken: None,
        })
    }

    /// Returns what the scorer supports.
    pub(super) const fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Returns why the process was ended.
    pub(super) const fn failure(&self) -> Option<&Failure> {
        self.broken.as_ref()
    }

    pub(super) const fn is_alive(&self) -> bool {
        self.broken.is_none()
    }

    /// Ends the process; from then on every question fails with the same message.
    fn break_off(&mut self, why: &str, as_what: fn(String) -> Failure) -> Failure {
        self.process.kill();
        let failure = as_what(complaint(&self.line, why, &self.process));
        self.broken = Some(failure.clone());
        failure
    }

    fn ask(&mut self, question: Question) -> Result<Answer, Failure> {
        if let Some(failure) = &self.broken {
            return Err(failure.clone());
        }
        self.last_id += 1;
        let question = Question {
            id: self.last_id,
            ..question
        };
        let line = write(&question).map_err(|e| Failure::Final(e.to_string()))?;
        self.process.tell(line);
        let line = match self.process.listen() {
            Ok(line) => line,
            Err(why) if self.process.is_interrupted() => {
                return Err(self.break_off(&why, Failure::Final));
            }
            Err(why) => return Err(self.break_off(&why, Failure::Gone)),
        };
        match read::<Answer>(&line).map_err(answered) {
            Err(why) => Err(self.break_off(&why, Failure::Final)),
            Ok(answer) if answer.id != self.last_id => {
                let why = format!("answered question {}, expected {}", answer.id, self.last_id);
                Err(self.break_off(&why, Failure::Final))
            }
            Ok(Answer { error: Some(_), .. }) => Err(self.break_off(ITS_ERROR, Failure::Gone)),
            Ok(answer) => Ok(answer),
        }
    }

    /// Returns the scores of sequences of at least one token each.
    pub(super) fn score(
        &mut self,
        sequences: &[Vec<TokenId>],
    ) -> Result<Vec<Vec<TokenScore>>, Failure> {
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
        rows.map_err(|why| self.break_off(&why, Failure::Final))
    }

    /// Returns ln p of the wanted tokens after each prefix, if the scorer supports `next`.
    pub(super) fn next(
        &mut self,
        prefixes: &[Vec<TokenId>],
        wanted: &[TokenId],
    ) -> Result<Vec<Vec<f64>>, Failure> {
        let answer = self.ask(Question {
            id: 0,
            score: None,
            next: Some(prefixes.to_vec()),
            wanted: Some(wanted.to_vec()),
        })?;
        let values = |row: &Vec<Nats>| -> Vec<f64> { row.iter().map(|n| n.0).collect() };
        let rows = answer.log_probabilities.iter().map(values).collect();
        next_log_probabilities(rows, prefixes.len(), wanted, self.hello.vocabulary)
            .map_err(|why| self.break_off(&why, Failure::Final))
    }
}

fn complaint(line: &str, why: &str, process: &Process) -> String {
    // The scorer's own words may quote the text that it was given.
    let words = match process.complained() {
        false => "",
        // The exit status of a shell if the program was not found.
        true if why.contains("exit status: 127") => "; the program was not found",
        true => {
            "; what it wrote on stderr may quote texts and is not shown: send it to a file (sh -c 'COMMAND 2> FILE')"
        }
    };
    format!("the scorer `{line}` {why}{words}")
}

/// Returns the checked scores of sequences.
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
    for (row, tops) in tops.iter().enumerate() {
        let above = |place: &usize| scores[row][*place].0 > tops[*place].0 + AGREEMENT;
        if let Some(place) = (0..tops.len()).find(above) {
            return Err(format!(
                "answered {} at log_probabilities[{row}][{place}], above the most probable token's {}",
                scores[row][place].0, tops[place].0
            ));
        }
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

/// Describes a line that was no answer.
fn answered(why: String) -> String {
    format!("answered {why}")
}

/// Returns a score from a scorer without statistics. The commands don't run attacks that would read the
/// missing values.
const fn unknown(log_probability: f64) -> TokenScore {
    TokenScore {
        log_probability,
        mean: f64::NAN,
        variance: f64::NAN,
        top_token: TokenId::MAX,
        top_log_probability: f64::NAN,
    }
}
