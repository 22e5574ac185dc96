//! The packing program and the noise at the scale of the paper: 1.7 million examples, 100 000
//! secrets in 50 to 100 examples each, a long tail in secrets per example.
//!
//!     cargo run --release -p reticent-accounting --example secrets_at_scale -- FILE [EXPONENT [EXAMPLES SECRETS]]
//!
//! FILE receives the program for other solvers: as little-endian u32 the counts of examples,
//! secrets and pairs, the pairs by secret (starts, then examples), and the capacities as f64.
//! `benches/protect.sh` gives it to HiGHS.
#![expect(clippy::print_stdout, reason = "a benchmark says what it measured")]

use reticent_accounting::protect::{Incidence, Packing, Proof, Secret, Training};
use reticent_accounting::{Probability, Steps, Tolerance};
use std::error::Error;
use std::io::Write;
use std::time::Instant;

/// SplitMix64: the instance is the same everywhere.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Secret j of m lies in 100/(1 + j/m) examples (words by rank), drawn in proportion to a Pareto
/// law of exponent 1.8 cut at 60: a few examples contain many secrets.
fn instance(examples: u32, secrets: u32) -> Result<(Incidence, Vec<Secret>), Box<dyn Error>> {
    let mut random = Random(1);
    let mut sum = 0.0;
    let cumulative: Vec<f64> = (0..examples)
        .map(|_| {
            sum += (1.0 - random.uniform()).powf(-1.0 / 1.8).min(60.0);
            sum
        })
        .collect();
    let mut pairs = Vec::new();
    for secret in 0..secrets {
        let count = (100.0 / (1.0 + f64::from(secret) / f64::from(secrets))) as usize;
        for _ in 0..count {
            let place = random.uniform() * sum;
            let example = cumulative.partition_point(|total| *total < place) as u32;
            pairs.push((example.min(examples - 1), secret));
        }
    }
    let promises = (0..secrets)
        .map(|_| {
            let posterior = Probability::new(2e-4 + 8e-4 * random.uniform())?;
            Secret::new(Probability::new(1e-10)?, posterior)
        })
        .collect::<Result<_, _>>()?;
    Ok((Incidence::new(examples, secrets, pairs)?, promises))
}

fn write(path: &str, incidence: &Incidence, capacities: &[f64]) -> Result<(), Box<dyn Error>> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    let mut start = 0u32;
    let mut word = |value: u32| file.write_all(&value.to_le_bytes());
    word(incidence.example_count() as u32)?;
    word(incidence.secret_count() as u32)?;
    word(incidence.pairs() as u32)?;
    word(0)?;
    for secret in 0..incidence.secret_count() {
        start += incidence.examples_of(secret).len() as u32;
        word(start)?;
    }
    for secret in 0..incidence.secret_count() {
        incidence
            .examples_of(secret)
            .iter()
            .try_for_each(|e| word(*e))?;
    }
    for capacity in capacities {
        file.write_all(&capacity.to_le_bytes())?;
    }
    Ok(file.flush()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, default: i64| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let path = arguments.first().ok_or("a FILE is needed")?;
    let exponent = number(1, 0)? as i32;
    let (examples, secrets) = (number(2, 1_700_000)? as u32, number(3, 100_000)? as u32);
    let began = Instant::now();
    let (incidence, promises) = instance(examples, secrets)?;
    let most = (0..incidence.example_count())
        .map(|e| incidence.secrets_of(e).len())
        .max();
    println!(
        "instance: {} pairs, at most {} secrets an example, {:.1} s",
        incidence.pairs(),
        most.unwrap_or(0),
        began.elapsed().as_secs_f64()
    );
    let batch = 2048.0 * f64::from(examples) / 1.7e6;
    let training = Training::new(&incidence, &promises, batch, Steps::new(2000))?;
    let c = training.full_capacity() / 16.0 * 2f64.powi(exponent);
    let capacities: Vec<f64> = promises
        .iter()
        .map(|secret| c * secret.divergence())
        .collect();
    write(path, &incidence, &capacities)?;
    let tolerance = Tolerance::new(1e-4)?;

    let began = Instant::now();
    let weighed = training.weigh(c, tolerance, None)?;
    let solution = &weighed.solution;
    let seconds = began.elapsed().as_secs_f64();
    let packing = Packing::new(&incidence, capacities)?;
    println!(
        "weights at c = 2^{exponent}: {seconds:.1} s, {} iterations, mass {:.3}, nothing above {:.3}, gap {:.2e}, feasible {}",
        solution.iterations,
        solution.mass,
        solution.most,
        solution.gap(),
        packing.is_feasible(&solution.weights)
    );
    for proof in [Proof::BlowUp, Proof::KlFano] {
        let began = Instant::now();
        let noise = training.noise(&weighed, proof, tolerance)?;
        println!(
            "noise by {proof:?}: {:.1} s, sigma {:.5}, too small {:.5}, {} of {} secrets checked on their own",
            began.elapsed().as_secs_f64(),
            noise.sigma.get(),
            noise.too_small.map_or(f64::NAN, |sigma| sigma.get()),
            noise.checked,
            promises.len()
        );
        if proof == Proof::BlowUp {
            let began = Instant::now();
            let plan = training.protection(&weighed.rates);
            let certified = plan.certified(Some(noise.sigma))?;
            let posteriors = plan.posteriors(&certified, noise.sigma, tolerance)?;
            let shares = posteriors
                .iter()
                .zip(&promises)
                .map(|(p, s)| p.blow_up / s.posterior().get());
            println!(
                "posteriors of all secrets: {:.1} s, largest share of a promise {:.5}",
                began.elapsed().as_secs_f64(),
                shares.fold(0.0, f64::max)
            );
        }
    }
    Ok(())
}
