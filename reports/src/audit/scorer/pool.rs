//! Several processes of one model. Each takes the next question when it is free; the questions of a process
//! that ended go to the others.

use super::BackendResult;
use super::protocol::Hello;
use super::worker::{Failure, Worker};
use crate::audit::answers::disagreement;
use crate::contract::{Interrupt, note};
use anyhow::{Result, bail, ensure};
use reticent_backends::{Error, TokenScore};
use reticent_corpus::TokenId;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The number of sequences or prefixes of one question, if the scorer doesn't set it.
const BATCH: usize = 64;

/// The most numbers that one question may ask for.
const ANSWERS: usize = 1 << 20;

/// The number of tokens of the sequence on which several scorers must agree, where their context allows it.
const PROBE: usize = 512;

/// Asks a worker about texts; returns a row for each.
type Ask<'a, R> = &'a (dyn Fn(&mut Worker, &[Vec<TokenId>]) -> Result<Vec<R>, Failure> + Sync);

/// A pool of at least one process.
pub(super) struct Pool {
    lines: Vec<String>,
    workers: Vec<Worker>,
    hello: Hello,
}

impl Pool {
    /// Starts the commands one after another and compares them.
    ///
    /// # Errors
    /// Returns an error if a command doesn't start correctly or is another model than the first.
    pub(super) fn start(lines: &[String], limit: Duration, interrupt: &Interrupt) -> Result<Self> {
        let started = lines
            .iter()
            .map(|line| Worker::start(line, limit, interrupt));
        let workers = started.collect::<Result<Vec<_>>>()?;
        let Some(first) = workers.first() else {
            bail!("no command is given");
        };
        let mut hello = *first.hello();
        for (line, worker) in lines.iter().zip(&workers) {
            let other = worker.hello();
            ensure!(
                (other.vocabulary, other.context) == (hello.vocabulary, hello.context)
                    && (other.statistics, other.next) == (hello.statistics, hello.next),
                "the scorer `{line}` reports a different vocabulary, context, statistics or next from the first; all must be the same model"
            );
            // Questions have the same size for all processes, so that it doesn't matter which one answers.
            let least = other
                .batch
                .unwrap_or(BATCH)
                .min(hello.batch.unwrap_or(BATCH));
            hello.batch = Some(least);
        }
        let mut pool = Self {
            lines: lines.to_vec(),
            workers,
            hello,
        };
        if pool.workers.len() > 1 {
            pool.compare()?;
        }
        Ok(pool)
    }

    /// Asks all processes about one sequence and compares the answers.
    fn compare(&mut self) -> Result<()> {
        let length = self.hello.context.unwrap_or(PROBE).min(PROBE);
        // Tokens from all over the vocabulary, in no order that a text has.
        let token = |place: usize| (place.wrapping_mul(0x9e37_79b1) >> 7) % self.hello.vocabulary;
        let probe = vec![
            (0..length)
                .map(|place| token(place) as TokenId)
                .collect::<Vec<_>>(),
        ];
        let mut first: Option<Vec<f64>> = None;
        for (line, worker) in self.lines.iter().zip(&mut self.workers) {
            let rows = match worker.score(&probe) {
                Ok(rows) => rows,
                Err(failure) => bail!("{}", failure.words()),
            };
            let found: Vec<f64> = rows.iter().flatten().map(|s| s.log_probability).collect();
            let first = first.get_or_insert_with(|| found.clone());
            ensure!(
                disagreement(first, &found).is_none(),
                "the scorer `{line}` gives a sequence of {length} tokens different log-probabilities from the first; all must be the same model, and compute alike to 0.01 nats"
            );
        }
        Ok(())
    }

    /// Returns what all processes support.
    pub(super) const fn hello(&self) -> &Hello {
        &self.hello
    }

    fn batch(&self) -> usize {
        self.hello.batch.unwrap_or(BATCH)
    }

    pub(super) fn lines(&self) -> &[String] {
        &self.lines
    }

    pub(super) fn first_line(&self) -> &str {
        self.lines.first().map_or("", String::as_str)
    }

    /// Returns the scores of sequences.
    pub(super) fn score(
        &mut self,
        sequences: &[Vec<TokenId>],
    ) -> BackendResult<Vec<Vec<TokenScore>>> {
        let most = self.batch();
        self.share(sequences, most, &|worker, some| worker.score(some))
    }

    /// Returns ln p of the wanted tokens, of which there is at least one, after each prefix.
    pub(super) fn next(
        &mut self,
        prefixes: &[Vec<TokenId>],
        wanted: &[TokenId],
    ) -> BackendResult<Vec<Vec<f64>>> {
        let most = self.batch().min(ANSWERS / wanted.len()).max(1);
        self.share(prefixes, most, &|worker, some| worker.next(some, wanted))
    }

    /// Splits `texts` into questions of at most `most` texts, which the processes answer in parallel, each one
    /// question at a time. The answers are returned in order.
    ///
    /// # Errors
    /// Returns an error if an answer is wrong or no process is left.
    fn share<R: Send>(
        &mut self,
        texts: &[Vec<TokenId>],
        most: usize,
        ask: Ask<'_, R>,
    ) -> BackendResult<Vec<R>> {
        let questions: Vec<&[Vec<TokenId>]> = texts.chunks(most).collect();
        let open: Mutex<VecDeque<usize>> = Mutex::new((0..questions.len()).collect());
        let answers: Mutex<Vec<Option<Vec<R>>>> =
            Mutex::new(questions.iter().map(|_| None).collect());
        let wrong: Mutex<Option<String>> = Mutex::new(None);
        while !held(&open).is_empty() {
            let gone: Mutex<Vec<String>> = Mutex::new(Vec::new());
            let work = |worker: &mut Worker| {
                loop {
                    // The lock must not be held while the process answers.
                    let next = held(&open).pop_front();
                    let Some(number) = next else { return };
                    match ask(worker, questions[number]) {
                        Ok(rows) => held(&answers)[number] = Some(rows),
                        Err(failure) => {
                            match failure {
                                Failure::Gone(words) => {
                                    held(&open).push_front(number);
                                    held(&gone).push(words);
                                }
                                Failure::Final(words) => {
                                    held(&open).clear();
                                    held(&wrong).get_or_insert(words);
                                }
                            }
                            return;
                        }
                    }
                }
            };
            let alive = self.workers.iter_mut().filter(|worker| worker.is_alive());
            let mut alive: Vec<&mut Worker> = alive.take(questions.len()).collect();
            if alive.is_empty() {
                let failures = self.workers.iter().rev().find_map(Worker::failure);
                let words = failures.cloned().map_or_else(String::new, Failure::words);
                return Err(Error::Outside(words));
            }
            match alive.as_mut_slice() {
                [only] => work(only),
                several => std::thread::scope(|scope| {
                    for worker in several {
                        scope.spawn(|| work(worker));
                    }
                }),
            }
            if let Some(words) = held(&wrong).take() {
                return Err(Error::Outside(words));
            }
            let left = self
                .workers
                .iter()
                .filter(|worker| worker.is_alive())
                .count();
            for words in held(&gone).iter().filter(|_| left > 0) {
                note(&format!(
                    "{words}; {left} of {} continue",
                    self.workers.len()
                ));
            }
        }
        let answers = std::mem::take(&mut *held(&answers));
        Ok(answers.into_iter().flatten().flatten().collect())
    }
}

/// Locks shared data. If a thread panicked while holding the lock, the data are still consistent: no change is
/// made halfway.
fn held<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
