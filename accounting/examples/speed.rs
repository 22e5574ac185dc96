//! How long certified answers take, in this process: a table of tab-separated values.
//!
//! `cargo run --release -p reticent-accounting --example speed [-- RUNS]` times ε(δ) at relative
//! tolerance 1e-6 on the rows of the published comparison, the larger of both directions and the
//! remove direction alone, and the blow-up of a secret in 100 examples. Each time is the median of
//! RUNS runs (default 101), each from the mechanism: nothing is kept between runs.
#![expect(clippy::print_stdout, reason = "a table for people and scripts")]

use reticent_accounting::pld::Answer;
use reticent_accounting::{
    Bounds, Delta, Direction, Epsilon, GroupSize, Mechanism, Neighbours, NoiseMultiplier,
    PrivacyLoss, Probability, Query, Result, SamplingRate, Steps, Tolerance,
};
use std::hint::black_box;
use std::time::Instant;

/// (q, σ, T): Poisson-subsampled Gaussian.
const ROWS: [(f64, f64, u64); 6] = [
    (0.01, 1.1, 10_000),
    (0.001, 0.6, 100_000),
    (0.1, 1.1, 1_000),
    (0.5, 8.0, 2_000),
    (1.0, 50.0, 10_000),
    (1e-4, 0.5, 1_000_000),
];

fn main() -> Result<()> {
    let runs = std::env::args()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .unwrap_or(101usize);
    println!("quantity\tq\tsigma\tsteps\tat\tlower\tupper\tmedian_us\tleast_us");
    let tolerance = Tolerance::new(1e-6)?;
    let both: &[Direction] = &Direction::BOTH;
    for (rate, sigma, steps) in ROWS {
        let run = Mechanism::dp_sgd(
            NoiseMultiplier::new(sigma)?,
            SamplingRate::new(rate)?,
            Steps::new(steps),
        );
        for delta in [1e-5, 1e-10] {
            let each = [("epsilon", both), ("epsilon-remove", &both[..1])];
            for (name, directions) in each {
                let (ends, times) = timed(runs, || {
                    larger(&run, directions, Delta::new(delta)?, tolerance)
                })?;
                row(name, (rate, sigma, steps), delta, ends, &times);
            }
            // Both δ of one run, both directions: what one dp-accounting build answers.
            if delta < 1e-5 {
                let (ends, times) = timed(runs, || {
                    larger(&run, both, Delta::new(1e-5)?, tolerance)?;
                    larger(&run, both, Delta::new(delta)?, tolerance)
                })?;
                row("epsilon-twice", (rate, sigma, steps), delta, ends, &times);
            }
        }
    }
    blow_ups(runs, tolerance)
}

/// A secret in 100 examples at rate 20480/1.7e7 over 2000 steps.
fn blow_ups(runs: usize, tolerance: Tolerance) -> Result<()> {
    let rate = 20480.0 / 1.7e7;
    for sigma in [1.5, 2.0, 10.0] {
        let run = Mechanism::dp_sgd(
            NoiseMultiplier::new(sigma)?,
            SamplingRate::new(rate)?,
            Steps::new(2000),
        );
        for prior in [1e-10, (-64.0f64).exp2()] {
            let (ends, times) = timed(runs, || {
                let answer = blow_up(&run, 100, Probability::new(prior)?, tolerance)?;
                Ok((
                    answer.bounds.lower.map_or(0.0, |end| end.get().get()),
                    answer.bounds.upper.map_or(1.0, |end| end.get().get()),
                ))
            })?;
            row("blow-up-100", (rate, sigma, 2000), prior, ends, &times);
        }
    }
    // One record: the true-positive rate of a membership test at a false-positive rate.
    let (rate, sigma, steps) = ROWS[0];
    let run = Mechanism::dp_sgd(
        NoiseMultiplier::new(sigma)?,
        SamplingRate::new(rate)?,
        Steps::new(steps),
    );
    for prior in [1e-2, 1e-5] {
        let (ends, times) = timed(runs, || {
            let answer = blow_up(&run, 1, Probability::new(prior)?, tolerance)?;
            Ok((
                answer.bounds.lower.map_or(0.0, |end| end.get().get()),
                answer.bounds.upper.map_or(1.0, |end| end.get().get()),
            ))
        })?;
        row("tpr", (rate, sigma, steps), prior, ends, &times);
    }
    Ok(())
}

fn blow_up(
    run: &Mechanism,
    group: u32,
    prior: Probability,
    tolerance: Tolerance,
) -> Result<Answer<Probability>> {
    let query = Query {
        neighbours: Neighbours::ZeroOut,
        group: GroupSize::new(group)?,
    };
    PrivacyLoss::of(run, query, Direction::Remove)?.blow_up(prior, tolerance)
}

/// Both ends of the largest ε over the directions.
fn larger(
    run: &Mechanism,
    directions: &[Direction],
    delta: Delta,
    tolerance: Tolerance,
) -> Result<(f64, f64)> {
    let mut ends = (0.0f64, 0.0f64);
    for direction in directions {
        let query = Query::single(Neighbours::AddRemove);
        let loss = PrivacyLoss::of(black_box(run), query, *direction)?;
        let Bounds { lower, upper } = loss.epsilon(delta, tolerance)?.bounds;
        let value = |end: Epsilon| end.get();
        ends.0 = ends.0.max(lower.map_or(0.0, |end| value(*end.get())));
        ends.1 = ends
            .1
            .max(upper.map_or(f64::INFINITY, |end| value(*end.get())));
    }
    Ok(ends)
}

/// What `answer` says, and how many microseconds each of `runs` took, in ascending order.
fn timed<T>(runs: usize, mut answer: impl FnMut() -> Result<T>) -> Result<(T, Vec<f64>)> {
    let last = answer()?;
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let begun = Instant::now();
        black_box(answer()?);
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok((last, times))
}

fn row(name: &str, run: (f64, f64, u64), at: f64, ends: (f64, f64), times: &[f64]) {
    println!(
        "{name}\t{:e}\t{}\t{}\t{at:e}\t{:.12e}\t{:.12e}\t{:.1}\t{:.1}",
        run.0,
        run.1,
        run.2,
        ends.0,
        ends.1,
        times[times.len() / 2],
        times[0]
    );
}
