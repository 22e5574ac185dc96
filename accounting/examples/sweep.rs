//! Extreme configurations at random: finite, ordered, consistent, and how long they take.
//!
//! `cargo run --release -p reticent-accounting --example sweep [-- COUNT [SEED]]` asks COUNT
//! (default 3000) questions about runs with σ from 0.01 to 1e4, T to 1e9, q from 1e-9 to 1, groups
//! to 1000 and every relation: ε for δ down to 1e-300, δ for ε to 1e4, and the blow-up of priors
//! down to 2^-256. Prints what fails, the slowest answers and the most memory held. Exit code 1
//! when an answer is not finite, not ordered or contradicts its inverse.
#![expect(clippy::print_stdout, reason = "a report for people and scripts")]

use reticent_accounting::{
    Delta, Direction, Epsilon, GroupSize, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss,
    Probability, Query, Result, SamplingRate, Steps, Tolerance,
};
use std::time::Instant;

/// Weyl's sequence, mixed: enough for a sweep.
struct Chance(u64);

impl Chance {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    /// Uniform on [low, high).
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// 10 to a uniform power.
    fn decades(&mut self, low: f64, high: f64) -> f64 {
        10f64.powf(self.between(low, high))
    }
    fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[(self.word() % from.len() as u64) as usize]
    }
}

/// Seconds that no answer should take.
const SLOW: f64 = 5.0;

#[derive(Debug, Clone, Copy)]
struct Case {
    sigma: f64,
    rate: f64,
    steps: u64,
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
    fn draw(chance: &mut Chance) -> Self {
        let rate = chance.decades(-9.0, 0.0);
        let group = chance.decades(0.0, 3.0) as u32;
        Self {
            sigma: chance.decades(-2.0, 4.0),
            rate: chance.choose(&[rate, rate, rate, rate, rate.powf(0.2), 1.0]),
            steps: chance.decades(0.0, 9.0) as u64,
            group: chance.choose(&[1, 1, group]),
            neighbours: chance.choose(&[
                Neighbours::AddRemove,
                Neighbours::ZeroOut,
                Neighbours::Replace,
            ]),
            direction: chance.choose(&Direction::BOTH),
        }
    }

    fn loss(&self) -> Result<PrivacyLoss> {
        let run = Mechanism::dp_sgd(
            NoiseMultiplier::new(self.sigma)?,
            SamplingRate::new(self.rate)?,
            Steps::new(self.steps),
        );
        let query = Query {
            neighbours: self.neighbours,
            group: GroupSize::new(self.group)?,
        };
        PrivacyLoss::of(&run, query, self.direction)
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

    /// What is wrong with the answer, and whether its ends met the tolerance.
    fn ask(self, loss: &PrivacyLoss) -> Result<(Vec<String>, bool)> {
        let mut wrong = Vec::new();
        let met = match self {
            Self::Epsilon { delta, tolerance } => {
                let answer = loss.epsilon(Delta::new(delta)?, Tolerance::new(tolerance)?)?;
                let low = answer.bounds.lower.map_or(0.0, |end| end.get().get());
                let high = answer
                    .bounds
                    .upper
                    .map_or(f64::INFINITY, |end| end.get().get());
                if !(low <= high && high.is_finite()) {
                    wrong.push(format!("ends {low:e} {high:e}"));
                }
                high - low <= tolerance * high
            }
            Self::Delta { epsilon } => {
                let answer = loss.delta(Epsilon::new(epsilon)?, Tolerance::new(1e-6)?)?;
                let low = answer.bounds.lower.map_or(0.0, |end| end.get().get());
                let high = answer.bounds.upper.map_or(1.0, |end| end.get().get());
                if low.is_nan() || high.is_nan() || low > high {
                    wrong.push(format!("ends {low:e} {high:e}"));
                }
                high - low <= 1e-6 * high
            }
            Self::BlowUp { prior } => {
                let answer = loss.blow_up(Probability::new(prior)?, Tolerance::new(1e-6)?)?;
                let low = answer.bounds.lower.map_or(0.0, |end| end.get().get());
                let high = answer.bounds.upper.map_or(1.0, |end| end.get().get());
                if !(prior * (1.0 - 1e-12) <= low && low <= high && high <= 1.0) {
                    wrong.push(format!("ends {low:e} {high:e}"));
                }
                high - low <= 1e-6 * high
            }
            Self::Rdp { delta } => {
                let (upper, _) = loss.epsilon_by_rdp(Delta::new(delta)?)?;
                if !upper.get().get().is_finite() {
                    wrong.push(format!("{upper:?}"));
                }
                true
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

fn main() -> std::process::ExitCode {
    let mut words = std::env::args().skip(1);
    let count = words.next().and_then(|w| w.parse().ok()).unwrap_or(3000);
    let seed = words.next().and_then(|w| w.parse().ok()).unwrap_or(1);
    let mut chance = Chance(seed);
    let mut times: Vec<(f64, Case, Question)> = Vec::new();
    let (mut bad, mut refused, mut wide, mut wide_though_long) = (0, 0, 0, 0);
    let begun = Instant::now();
    for _ in 0..count {
        let (case, question) = (Case::draw(&mut chance), Question::draw(&mut chance));
        let from = now(begun);
        let answer = case.loss().and_then(|loss| question.ask(&loss));
        let spent = now(begun) - from;
        if spent > SLOW {
            println!("SLOW {:9.1} ms  {case:?} {question:?}", spent * 1e3);
        }
        times.push((spent, case, question));
        let inverse = case.loss().and_then(|loss| question.invert(&loss));
        match answer {
            Ok((mut wrong, met)) => {
                wrong.extend(inverse.unwrap_or_default());
                if !wrong.is_empty() {
                    bad += 1;
                    println!("WRONG {case:?} {question:?}: {}", wrong.join("; "));
                }
                wide += usize::from(!met);
                wide_though_long += usize::from(!met && case.steps >= 1000);
            }
            Err(error) => {
                refused += 1;
                println!("REFUSED {case:?} {question:?}: {error}");
            }
        }
    }
    times.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("{count} questions, seed {seed}: {bad} wrong, {refused} refused");
    println!(
        "{wide} with ends wider than asked, {wide_though_long} of them with 1000 steps or more"
    );
    println!("median {:.2} ms; slowest:", times[times.len() / 2].0 * 1e3);
    for (seconds, case, question) in times.iter().take(12) {
        println!("{:9.1} ms  {case:?} {question:?}", seconds * 1e3);
    }
    if let Ok(status) = std::fs::read_to_string("/proc/self/status")
        && let Some(line) = status.lines().find(|line| line.starts_with("VmHWM"))
    {
        println!("{line}");
    }
    std::process::ExitCode::from(u8::from(bad > 0))
}
