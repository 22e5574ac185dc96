//! Extreme configurations at random: finite, ordered, consistent, and how long they take.
//!
//! `cargo run --release -p reticent-accounting --example sweep [-- COUNT [SEED [KIND [SECONDS [NUMBERS]]]]]`
//! asks COUNT (default 3000) questions about runs of every mechanism and sampler (or of one KIND, see the
//! table that is printed; `all` for every one) with σ from 0.01 to 1e4, T to 1e9, q from 1e-9 to 1, groups to
//! 1000 and every relation: ε for δ down to 1e-300, δ for ε to 1e4, and the blow-up of priors down to 2^-256.
//! It ends early after SECONDS, and asks only those of the NUMBERS (7,35,…) that stand beside what was printed
//! before; runs of different seeds ask different questions, so that the tables of several short runs add up to
//! a long one's.
//! Of every third question the contour and the grid are asked alone: their ends must hold beside each other.
//! Prints what fails, slow answers, ends wider than asked and the most memory held. Exit code 1 when an answer is
//! not a number, not ordered, contradicts its inverse, or is wider than asked without saying why.
//!
//! `unknown` counts questions about runs whose own law is not known: their two ends are those of other
//! runs, or there is no lower one, so that no engine can bring them together. Of those the upper end is
//! asked to be close to the pair that it rests on, and they are counted as `wider` where it is not.
//! `tiny` counts answers too small for a number.
#![expect(clippy::print_stdout, reason = "a report for people and scripts")]

mod draw;

use draw::{Chance, Kind};
use reticent_accounting::pld::{Answer, Engine, Looseness};
use reticent_accounting::{
    Delta, Direction, Epsilon, Error, GroupSize, Mechanism, Neighbours, PrivacyLoss, Probability,
    Query, Result, Tolerance,
};
use std::time::Instant;

/// Seconds that no answer should take.
const SLOW: f64 = 5.0;

/// Answers below this are lost among the smallest numbers, whatever else keeps their ends apart.
const SMALLEST: f64 = 1e-290;

/// Of every so many questions both engines are asked alone too.
const ENGINES_OF: u64 = 3;

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

    /// Relative distance of the ends that is asked for.
    const fn tolerance(self) -> f64 {
        match self {
            Self::Epsilon { tolerance, .. } => tolerance,
            _ => 1e-6,
        }
    }

    /// Both ends as numbers, with what keeps them apart; the Rényi bound has one end.
    fn ends(self, loss: &PrivacyLoss) -> Result<Met> {
        let tolerance = Tolerance::new(self.tolerance())?;
        Ok(match self {
            Self::Epsilon { delta, .. } => {
                let answer = loss.epsilon(Delta::new(delta)?, tolerance)?;
                Met::of(&answer, |end| end.get(), f64::INFINITY)
            }
            Self::Delta { epsilon } => {
                let answer = loss.delta(Epsilon::new(epsilon)?, tolerance)?;
                Met::of(&answer, |end| end.get(), 1.0)
            }
            Self::BlowUp { prior } => {
                let answer = loss.blow_up(Probability::new(prior)?, tolerance)?;
                Met::of(&answer, |end| end.get(), 1.0)
            }
            Self::Rdp { delta } => {
                let high = loss.epsilon_by_rdp(Delta::new(delta)?)?.0.get().get();
                Met {
                    low: high,
                    high,
                    looseness: None,
                }
            }
        })
    }

    /// What is wrong with the answer.
    fn wrong(self, met: Met, unbounded: bool) -> Vec<String> {
        let Met {
            low,
            high,
            looseness,
        } = met;
        let least = match self {
            Self::BlowUp { prior } => prior * (1.0 - 1e-12),
            _ => 0.0,
        };
        let most = match self {
            Self::Epsilon { .. } | Self::Rdp { .. } if unbounded => f64::INFINITY,
            Self::Epsilon { .. } | Self::Rdp { .. } => f64::MAX,
            Self::Delta { .. } | Self::BlowUp { .. } => 1.0,
        };
        let mut wrong = Vec::new();
        if !(least <= low && low <= high && high <= most) {
            wrong.push(format!("ends {low:e} {high:e}"));
        }
        if high - low > self.tolerance() * high * (1.0 + 1e-6) && looseness.is_none() {
            wrong.push(format!("ends {low:e} {high:e}, and it does not say why"));
        }
        wrong
    }

    /// Relative distance of the ends; of a run whose own law is not known, of the upper end from what it
    /// rests on. Nothing where there is no upper end.
    fn width(self, loss: &PrivacyLoss, met: Met) -> Result<Option<f64>> {
        let mut low = met.low;
        if met.looseness == Some(Looseness::UnknownLaw) {
            for above in loss.dominating() {
                // Masses of a law that only dominates may add up to more than one: taken for attained, its ends may
                // contradict each other.
                let Ok(above) = self.ends(&above) else {
                    continue;
                };
                low = low.max(above.low.min(met.high));
                // Either of them may be the smaller one.
                if met.high - low <= self.tolerance() * met.high {
                    break;
                }
            }
        }
        let width = if met.high > 0.0 {
            (met.high - low) / met.high
        } else {
            0.0
        };
        Ok(met.high.is_finite().then_some(width))
    }

    /// Where the contour and the grid contradict each other about ε or δ, of the run or of a law that its upper end
    /// rests on.
    fn each_engine(self, loss: &PrivacyLoss) -> Result<Vec<String>> {
        let rough = Tolerance::new(1e-3)?;
        let mut wrong = Vec::new();
        for loss in std::iter::once(loss.clone()).chain(loss.dominating()) {
            let by = |engine| -> Option<(f64, f64)> {
                match self {
                    Self::Epsilon { delta, .. } => {
                        let delta = Delta::new(delta).ok()?;
                        loss.epsilon_by(engine, delta, rough).ok()
                    }
                    Self::Delta { epsilon } => {
                        let epsilon = Epsilon::new(epsilon).ok()?;
                        let ends = loss.delta_by(engine, epsilon, rough).ok()?;
                        let number = |end: Option<Delta>, other| end.map_or(other, Delta::get);
                        let low = ends.lower.map(|end| *end.get());
                        let high = ends.upper.map(|end| *end.get());
                        Some((number(low, 0.0), number(high, 1.0)))
                    }
                    _ => None,
                }
            };
            let Some(contour) = by(Engine::Contour) else {
                continue;
            };
            let Some(grid) = by(Engine::Grid) else {
                continue;
            };
            let (low, high) = (contour.0.max(grid.0), contour.1.min(grid.1));
            if low > high * (1.0 + 1e-9) {
                wrong.push(format!("contour {contour:?}, grid {grid:?}"));
            }
        }
        Ok(wrong)
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

/// The ends of an answer, and what keeps them apart.
#[derive(Debug, Clone, Copy)]
struct Met {
    low: f64,
    high: f64,
    looseness: Option<Looseness>,
}

impl Met {
    fn of<T: Copy>(answer: &Answer<T>, number: impl Fn(T) -> f64, most: f64) -> Self {
        let bounds = &answer.bounds;
        Self {
            low: bounds.lower.map_or(0.0, |end| number(*end.get())),
            high: bounds.upper.map_or(most, |end| number(*end.get())),
            looseness: answer.looseness,
        }
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
    questions: u64,
    wrong: u64,
    /// Not covered, and said so.
    refused: u64,
    /// Covered, but without an answer.
    failed: u64,
    /// Ends wider than asked.
    wide: u64,
    /// The own law is not known: the ends are not expected to meet.
    unknown: u64,
    /// Nothing but the smallest number tells them from zero.
    tiny: u64,
    /// There is no finite upper end.
    open: u64,
    /// The widest of the ends that met the tolerance, as a share of it.
    share: f64,
    slowest: f64,
}

impl Tally {
    fn count(&mut self, number: u64, case: &Case, question: Question) {
        self.questions += 1;
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
        let answer = question.ends(&loss);
        let spent = now(begun) - from;
        self.slowest = self.slowest.max(spent);
        if spent > SLOW {
            println!(
                "SLOW #{number} {:.1} ms  {case:?} {question:?}",
                spent * 1e3
            );
        }
        let found = answer.and_then(|met| Ok((met, question.width(&loss, met)?)));
        match found {
            Ok((met, width)) => {
                let mut wrong = question.wrong(met, unbounded);
                wrong.extend(question.invert(&loss).unwrap_or_default());
                if number.is_multiple_of(ENGINES_OF) {
                    wrong.extend(question.each_engine(&loss).unwrap_or_default());
                }
                if !wrong.is_empty() {
                    self.wrong += 1;
                    println!(
                        "WRONG #{number} {case:?} {question:?}: {}",
                        wrong.join("; ")
                    );
                }
                self.unknown += u64::from(met.looseness == Some(Looseness::UnknownLaw));
                self.open += u64::from(width.is_none());
                let share = width.unwrap_or(0.0) / question.tolerance();
                if met.looseness == Some(Looseness::SmallestNumbers) || met.high < SMALLEST {
                    self.tiny += 1;
                } else if share > 1.0 + 1e-6 {
                    self.wide += 1;
                    let Met {
                        low,
                        high,
                        looseness,
                    } = met;
                    let why =
                        looseness.map_or_else(|| "-".into(), |looseness| format!("{looseness:?}"));
                    println!(
                        "WIDE #{number} {why} {:.1e} [{low:e}, {high:e}] {case:?} {question:?}",
                        share * question.tolerance()
                    );
                } else {
                    self.share = self.share.max(share);
                }
            }
            Err(error) => {
                self.failed += 1;
                self.wrong += u64::from(error.to_string().contains("contradict"));
                println!("FAILED #{number} {case:?} {question:?}: {error}");
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
    let only: Option<Vec<u64>> = words
        .next()
        .map(|list| list.split(',').filter_map(|w| w.parse().ok()).collect());
    for number in 0..count {
        if begun.elapsed().as_secs_f64() > seconds {
            break;
        }
        let case = Case::draw(&mut chance, &kinds)?;
        let question = Question::draw(&mut chance);
        if only.as_ref().is_some_and(|only| !only.contains(&number)) {
            continue;
        }
        tallies[case.kind as usize].count(number, &case, question);
        if most_memory() > memory {
            memory = most_memory();
            println!("MEMORY {memory} kB  {case:?} {question:?}");
        }
    }
    let questions: u64 = tallies.iter().map(|tally| tally.questions).sum();
    println!("{questions} questions, seed {seed}");
    println!(
        "kind\tquestions\twrong\trefused\tfailed\twider\tunknown\ttiny\topen\twidest_share\tslowest_ms"
    );
    for (kind, tally) in Kind::ALL.iter().zip(&tallies) {
        let Tally {
            questions,
            wrong,
            refused,
            failed,
            wide,
            unknown,
            tiny,
            open,
            share,
            slowest,
        } = tally;
        let slowest = slowest * 1e3;
        println!(
            "{kind:?}\t{questions}\t{wrong}\t{refused}\t{failed}\t{wide}\t{unknown}\t{tiny}\t{open}\t{share:.2}\t{slowest:.1}"
        );
    }
    println!("most memory {} kB", most_memory());
    let wrong: u64 = tallies.iter().map(|tally| tally.wrong).sum();
    Ok(std::process::ExitCode::from(u8::from(wrong > 0)))
}
