//! Extreme configurations at random: finite, ordered, consistent, and how long they take.
//!
//! `cargo run --release -p reticent-accounting --example sweep [-- COUNT [SEED [KIND [SECONDS]]]]` asks
//! COUNT (default 3000) questions about runs of every mechanism and sampler (or of one KIND, see the
//! table that is printed; `all` for every one) with σ from 0.01 to 1e4, T to 1e9, q from 1e-9 to 1, groups to 1000 and
//! every relation: ε for δ down to 1e-300, δ for ε to 1e4, and the blow-up of priors down to 2^-256.
//! It ends early after SECONDS; runs of different seeds ask different questions, so that the tables
//! of several short runs add up to a long one's.
//! Prints what fails, slow answers, ends wider than asked and the most memory held. Exit code 1 when an answer is
//! not a number, not ordered or contradicts its inverse.
#![expect(clippy::print_stdout, reason = "a report for people and scripts")]

mod draw;

use draw::{Chance, Kind};
use reticent_accounting::{
    Delta, Direction, Epsilon, Error, GroupSize, Mechanism, Neighbours, PrivacyLoss, Probability,
    Query, Result, Tolerance,
};
use std::time::Instant;

/// Seconds that no answer should take.
const SLOW: f64 = 5.0;

/// Resident memory that no answer should need, in kB.
const MOST_MEMORY: u64 = 50_000;

#[derive(Debug, Clone)]
struct Case {
    kind: Kind,
    run: Mechanism,
    group: u32,
    neighbours: Neighbours,
    direction: Direction,
}

#[derive(Debug, Clone, Copy)]
enum Question {
    Epsilon { delta: f64, tolerance: f64 },
    Delta { epsilon: f64 },
    BlowUp { prior: f64 },
    Rdp { delta: f64 },
}

impl Case {
    fn draw(chance: &mut Chance, kinds: &[Kind]) -> Result<Self> {
        let kind = chance.choose(kinds);
        let group = chance.decades(0.0, 3.0) as u32;
        let neighbours = chance.choose(&[
            Neighbours::AddRemove,
            Neighbours::ZeroOut,
            Neighbours::Replace,
        ]);
        let steps = chance.decades(0.0, 9.0) as u64;
        Ok(Self {
            kind,
            run: kind.run(chance, neighbours, steps)?,
            group: chance.choose(&[1, 1, group]),
            neighbours,
            direction: chance.choose(&Direction::BOTH),
        })
    }

    fn loss(&self) -> Result<PrivacyLoss> {
        let query = Query {
            neighbours: self.neighbours,
            group: GroupSize::new(self.group)?,
        };
        PrivacyLoss::of(&self.run, query, self.direction)
    }
}

impl Question {
    fn draw(chance: &mut Chance) -> Self {
        let delta = chance.decades(-300.0, 0.0);
        let usual = chance.decades(-12.0, 0.0);
        let delta = chance.choose(&[delta, usual]);
        match chance.word() % 8 {
            0..=2 => Self::Epsilon {
                delta,
                tolerance: chance.choose(&[1e-3, 1e-6, 1e-6, 1e-9]),
            },
            3..=4 => Self::Delta {
                epsilon: chance.decades(-6.0, 4.0),
            },
            5..=6 => Self::BlowUp {
                prior: chance.between(-256.0, -0.01).exp2(),
            },
            _ => Self::Rdp { delta },
        }
    }

    /// What is wrong with the answer, and how far apart its ends are.
    fn ask(self, loss: &PrivacyLoss, unbounded: bool) -> Result<(Vec<String>, Met)> {
        let mut wrong = Vec::new();
        let met = match self {
            Self::Epsilon { delta, tolerance } => {
                let answer = loss.epsilon(Delta::new(delta)?, Tolerance::new(tolerance)?)?;
                let low = answer.bounds.lower.map_or(0.0, |end| end.get().get());
                let high = answer
                    .bounds
                    .upper
                    .map_or(f64::INFINITY, |end| end.get().get());
                if !(low <= high && (high.is_finite() || unbounded)) {
                    wrong.push(format!("ends {low:e} {high:e}"));
                }
                Met::of(low, high, tolerance)
            }
            Self::Delta { epsilon } => {
                let answer = loss.delta(Epsilon::new(epsilon)?, Tolerance::new(1e-6)?)?;
                let low = answer.bounds.lower.map_or(0.0, |end| end.get().get());
                let high = answer.bounds.upper.map_or(1.0, |end| end.get().get());
                if low.is_nan() || high.is_nan() || low > high {
                    wrong.push(format!("ends {low:e} {high:e}"));
                }
                Met::of(low, high, 1e-6)
            }
            Self::BlowUp { prior } => {
                let answer = loss.blow_up(Probability::new(prior)?, Tolerance::new(1e-6)?)?;
                let low = answer.bounds.lower.map_or(0.0, |end| end.get().get());
                let high = answer.bounds.upper.map_or(1.0, |end| end.get().get());
                if !(prior * (1.0 - 1e-12) <= low && low <= high && high <= 1.0) {
                    wrong.push(format!("ends {low:e} {high:e}"));
                }
                Met::of(low, high, 1e-6)
            }
            Self::Rdp { delta } => {
                let (upper, _) = loss.epsilon_by_rdp(Delta::new(delta)?)?;
                if !(upper.get().get().is_finite() || unbounded) {
                    wrong.push(format!("{upper:?}"));
                }
                Met::of(0.0, 0.0, 0.0)
            }
        };
        Ok((wrong, met))
    }

    /// δ at both ends of ε must lie on both sides of δ.
    fn invert(self, loss: &PrivacyLoss) -> Result<Vec<String>> {
        let Self::Epsilon { delta, tolerance } = self else {
            return Ok(Vec::new());
        };
        let bounds = loss
            .epsilon(Delta::new(delta)?, Tolerance::new(tolerance)?)?
            .bounds;
        let mut wrong = Vec::new();
        let loose = Tolerance::new(1e-3)?;
        if let Some(end) = bounds.upper {
            let back = loss.delta(*end.get(), loose)?.bounds.lower;
            let back = back.map_or(0.0, |end| end.get().get());
            if back > delta * (1.0 + 1e-9) {
                wrong.push(format!("delta at {end:?} is at least {back:e}"));
            }
        }
        if let Some(end) = bounds.lower.filter(|end| end.get().get() > 0.0) {
            let back = loss.delta(*end.get(), loose)?.bounds.upper;
            let back = back.map_or(1.0, |end| end.get().get());
            if back < delta * (1.0 - 1e-9) {
                wrong.push(format!("delta at {end:?} is at most {back:e}"));
            }
        }
        Ok(wrong)
    }
}

/// How far apart the ends of an answer are, relatively; nothing where one of them is unknown.
#[derive(Debug, Clone, Copy)]
struct Met {
    width: Option<f64>,
    tolerance: f64,
}

impl Met {
    fn of(low: f64, high: f64, tolerance: f64) -> Self {
        let known = high.is_finite() && (low > 0.0 || high <= 0.0);
        Self {
            width: known.then(|| if high > 0.0 { (high - low) / high } else { 0.0 }),
            tolerance,
        }
    }

    fn wide(self) -> bool {
        self.width.is_some_and(|width| width > self.tolerance)
    }
}

/// Seconds of processor time so far, where the system tells them, so that other work does not count.
fn now(begun: Instant) -> f64 {
    let spent = std::fs::read_to_string("/proc/self/schedstat").ok();
    spent
        .as_deref()
        .and_then(|text| text.split(' ').next())
        .and_then(|word| word.parse::<f64>().ok())
        .map_or_else(
            || begun.elapsed().as_secs_f64(),
            |nanoseconds| nanoseconds * 1e-9,
        )
}

/// The most memory held so far, in kB, where the system tells.
fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let word = line.and_then(|line| line.split_whitespace().nth(1));
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// What came of the questions about one kind.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    asked: u64,
    wrong: u64,
    /// Not covered, and said so.
    refused: u64,
    /// Covered, but without an answer.
    failed: u64,
    /// Ends wider than asked.
    wide: u64,
    /// An end is not known.
    open: u64,
    /// The widest of the ends that met the tolerance, as a share of it.
    share: f64,
    slowest: f64,
}

impl Tally {
    fn count(&mut self, case: &Case, question: Question) {
        self.asked += 1;
        let begun = Instant::now();
        let from = now(begun);
        let unbounded = case.kind.may_be_unbounded();
        let loss = match case.loss() {
            Ok(loss) => loss,
            Err(Error::Unsupported { .. }) => {
                self.refused += 1;
                return;
            }
            Err(error) => {
                self.failed += 1;
                return println!("FAILED {case:?}: {error}");
            }
        };
        let answer = question.ask(&loss, unbounded);
        let spent = now(begun) - from;
        self.slowest = self.slowest.max(spent);
        if spent > SLOW {
            println!("SLOW {:9.1} ms  {case:?} {question:?}", spent * 1e3);
        }
        match answer {
            Ok((mut wrong, met)) => {
                wrong.extend(question.invert(&loss).unwrap_or_default());
                if !wrong.is_empty() {
                    self.wrong += 1;
                    println!("WRONG {case:?} {question:?}: {}", wrong.join("; "));
                }
                if met.wide() {
                    self.wide += 1;
                    let width = met.width.unwrap_or(f64::NAN);
                    println!("WIDE {width:.1e}  {case:?} {question:?}");
                }
                self.open += u64::from(met.width.is_none());
                if let Some(width) = met.width.filter(|_| met.tolerance > 0.0 && !met.wide()) {
                    self.share = self.share.max(width / met.tolerance);
                }
            }
            Err(error) => {
                self.failed += 1;
                println!("FAILED {case:?} {question:?}: {error}");
            }
        }
    }
}

fn main() -> Result<std::process::ExitCode> {
    let mut words = std::env::args().skip(1);
    let count = words.next().and_then(|w| w.parse().ok()).unwrap_or(3000);
    let seed = words.next().and_then(|w| w.parse().ok()).unwrap_or(1);
    let kinds: Vec<Kind> = match words.next() {
        Some(word) => Kind::ALL
            .into_iter()
            .filter(|kind| word == "all" || format!("{kind:?}") == word)
            .collect(),
        None => Kind::ALL.to_vec(),
    };
    let seconds = words
        .next()
        .and_then(|w| w.parse().ok())
        .unwrap_or(f64::INFINITY);
    let begun = Instant::now();
    let mut chance = Chance(seed);
    let mut tallies = vec![Tally::default(); Kind::ALL.len()];
    let mut memory = MOST_MEMORY;
    for _ in 0..count {
        if begun.elapsed().as_secs_f64() > seconds {
            break;
        }
        let case = Case::draw(&mut chance, &kinds)?;
        let question = Question::draw(&mut chance);
        tallies[case.kind as usize].count(&case, question);
        if most_memory() > memory {
            memory = most_memory();
            println!("MEMORY {memory} kB  {case:?} {question:?}");
        }
    }
    let asked: u64 = tallies.iter().map(|tally| tally.asked).sum();
    println!("{asked} questions, seed {seed}");
    println!("kind\tasked\twrong\trefused\tfailed\twider\topen\twidest_share\tslowest_ms");
    for (kind, tally) in Kind::ALL.iter().zip(&tallies) {
        let Tally {
            asked,
            wrong,
            refused,
            failed,
            wide,
            open,
            share,
            slowest,
        } = tally;
        let slowest = slowest * 1e3;
        println!(
            "{kind:?}\t{asked}\t{wrong}\t{refused}\t{failed}\t{wide}\t{open}\t{share:.2}\t{slowest:.1}"
        );
    }
    println!("most memory {} kB", most_memory());
    let wrong: u64 = tallies.iter().map(|tally| tally.wrong).sum();
    Ok(std::process::ExitCode::from(u8::from(wrong > 0)))
}
