//! Several processes of one model. Each takes the next question when it is free; the questions of a process
//! that ended go to the others. Each by itself has to answer the questions that are repeated at the end.

use super::BackendResult;
use super::process::Process;
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
    /// How many of the living processes come last for the next texts.
    turn: usize,
}

impl Pool {
    /// Starts the commands and compares them.
    ///
    /// # Errors
    /// Returns an error if a command doesn't start correctly or is another model than the first.
    pub(super) fn start(lines: &[String], limit: Duration, interrupt: &Interrupt) -> Result<Self> {
        // All of them load their model at the same time.
        let started = lines
            .iter()
            .map(|line| Worker::start(line, limit, interrupt));
        let started: Vec<Process> = started.collect::<Result<_>>()?;
        let met = lines
            .iter()
            .zip(started)
            .map(|(line, process)| Worker::meet(line, process, interrupt));
        let workers = met.collect::<Result<Vec<_>>>()?;
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
            turn: 0,
        };
        if pool.workers.len() > 1 {
            interrupt.unless_raised(pool.compare())?;
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

    /// Checks every process by itself, all at the same time.
    ///
    /// # Errors
    /// Returns the error of a process whose check failed, and not because it ended while others are left.
    pub(super) fn each(&mut self, check: &(dyn Fn(&mut Self) -> Result<()> + Sync)) -> Result<()> {
        let workers = std::mem::take(&mut self.workers);
        let alone = |(line, worker): (&String, Worker)| {
            let lived = worker.is_alive();
            let pool = Self {
                lines: vec![line.clone()],
                workers: vec![worker],
                hello: self.hello,
                turn: 0,
            };
            (pool, lived, Ok(()))
        };
        let mut each: Vec<(Self, bool, Result<()>)> =
            self.lines.iter().zip(workers).map(alone).collect();
        std::thread::scope(|scope| {
            for (pool, _, checked) in &mut each {
                scope.spawn(|| *checked = check(pool));
            }
        });
        let mut ended = Vec::new();
        for (pool, lived, checked) in each {
            let failure = pool.workers.iter().find_map(Worker::failure).cloned();
            self.workers.extend(pool.workers);
            match (checked, failure) {
                (Err(error), Some(Failure::Gone(words))) => ended.push((lived, words, error)),
                (checked, _) => checked?,
            }
        }
        let (left, of) = (self.living(), self.workers.len());
        for (lived, words, error) in ended {
            if left == 0 {
                return Err(error);
            }
            if lived {
                note(&format!("{words}; {left} of {of} continue"));
            }
        }
        Ok(())
    }

    fn living(&self) -> usize {
        let workers = self.workers.iter();
        workers.filter(|worker| worker.is_alive()).count()
    }

    /// Returns the scores of sequences. The process after the one that answered last begins.
    pub(super) fn score(
        &mut self,
        sequences: &[Vec<TokenId>],
    ) -> BackendResult<Vec<Vec<TokenScore>>> {
        let most = self.batch();
        let scores = self.share(sequences, most, &|worker, some| worker.score(some))?;
        self.turn += sequences.len().div_ceil(most);
        Ok(scores)
    }

    /// Returns ln p of the wanted tokens, of which there is at least one, after each prefix. One question alone goes to the
    /// first process, which may have kept the states that its prefixes go on from: another one would compute them again,
    /// with other last digits.
    pub(super) fn next(
        &mut self,
        prefixes: &[Vec<TokenId>],
        wanted: &[TokenId],
    ) -> BackendResult<Vec<Vec<f64>>> {
        let most = self.batch().min(ANSWERS / wanted.len()).max(1);
        self.turn = 0;
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
            let mut alive: Vec<&mut Worker> = alive.collect();
            let first = self.turn.checked_rem(alive.len()).unwrap_or(0);
            alive.rotate_left(first);
            alive.truncate(questions.len());
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
            let left = self.living();
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

#[cfg(test)]
mod tests {
    use super::super::CommandScorer;
    use super::*;
    use crate::contract::Interrupted;
    use reticent_backends::Scorer;
    use std::path::Path;
    use std::sync::atomic::Ordering;

    const LIMIT: Duration = Duration::from_secs(60);

    /// A scorer of two tokens that notes the questions in a file of its name, after this command.
    fn scorer(home: &Path, name: &str, before: &str) -> String {
        let file = home.join(name);
        let script = format!(
            "cd {}\n{before}\necho '{{\"reticent_scorer\":1,\"vocabulary\":2,\"context\":2}}'\n\
             while read q; do i=$((i+1)); echo \"$q\" >> {name}.log; \
             echo \"{{\\\"id\\\":$i,\\\"log_probabilities\\\":[[-1]]}}\"; done\n",
            home.display()
        );
        std::fs::write(&file, script).unwrap();
        format!("sh {}", file.display())
    }

    /// The second one was only compared with the first, unless a question was too long for one of them.
    #[test]
    fn single_texts_go_from_one_process_to_the_next() {
        let home = tempfile::tempdir().unwrap();
        let lines = ["one", "two"].map(|name| scorer(home.path(), name, ""));
        let mut pool = Pool::start(&lines, LIMIT, &Interrupt::default()).unwrap();
        let questions = || {
            ["one.log", "two.log"].map(|log| {
                let log = std::fs::read_to_string(home.path().join(log)).unwrap();
                log.lines().count()
            })
        };
        assert_eq!(questions(), [1, 1]);
        for expected in [[2, 1], [2, 2], [3, 2], [3, 3]] {
            pool.score(&[vec![0, 1]]).unwrap();
            assert_eq!(questions(), expected);
        }
        pool.each(&|pool| Ok(pool.score(&[vec![0, 1]]).map(drop)?))
            .unwrap();
        assert_eq!(questions(), [4, 4]);
    }

    /// One after another, each loaded its model while the others waited.
    #[test]
    fn all_are_started_before_the_first_is_ready() {
        let home = tempfile::tempdir().unwrap();
        let waits = "while [ ! -e there ]; do sleep 0.05; done";
        let lines = [("one", waits), ("two", "touch there")]
            .map(|(name, before)| scorer(home.path(), name, before));
        let limit = Duration::from_secs(20);
        assert!(Pool::start(&lines, limit, &Interrupt::default()).is_ok());
    }

    /// They ended as failures of the scorer.
    #[test]
    fn comparison_and_closing_check_end_as_interrupted() {
        let home = tempfile::tempdir().unwrap();
        let mute = "echo '{\"reticent_scorer\":1,\"vocabulary\":2,\"context\":2}'; touch up; exec sleep 60";
        let lines = [
            scorer(home.path(), "one", ""),
            scorer(home.path(), "two", mute),
        ];
        let interrupt = Interrupt::default();
        let stop = interrupt.clone();
        let up = home.path().join("up");
        let raised = std::thread::spawn(move || {
            while !up.exists() {
                std::thread::sleep(Duration::from_millis(10));
            }
            std::thread::sleep(Duration::from_millis(500));
            stop.flag().store(true, Ordering::SeqCst);
        });
        let error = Pool::start(&lines, LIMIT, &interrupt).err().unwrap();
        assert!(error.is::<Interrupted>(), "{error}");
        raised.join().unwrap();
        let interrupt = Interrupt::default();
        let mut scorer = CommandScorer::start(&lines[..1], LIMIT, &interrupt).unwrap();
        scorer.score(&[vec![0, 1]]).unwrap();
        interrupt.flag().store(true, Ordering::SeqCst);
        let error = scorer.check_steady().unwrap_err();
        assert!(error.is::<Interrupted>(), "{error}");
    }
}
