//! What the fuzzing programs share: their arguments, and the loop in which inputs are drawn and judged,
//! and join the seeds where their outcome is of a new sort.

use super::mutation::{MOST, kept};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Memory that a campaign may take at most, in KiB.
const MEMORY: u64 = 1_000_000;

/// How many inputs, from which seed, where those of a new sort are kept, and which targets.
pub(crate) struct Campaign {
    length: Length,
    seed: u64,
    folder: Option<PathBuf>,
    only: Vec<String>,
}

/// How long a campaign is.
#[derive(Clone, Copy)]
enum Length {
    /// So many inputs: the same ones each time.
    Inputs(u64),
    /// So many seconds: of the same inputs, as many as the machine gets through. None is kept.
    Seconds(f64),
}

/// One format and its mutants.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) seeds: Vec<Vec<u8>>,
    /// Of the inputs, in percent.
    pub(crate) share: u64,
    /// An input that takes longer is a finding.
    pub(crate) patience: Duration,
    /// No more sorts of outcome than this are distinguished.
    pub(crate) sorts: usize,
}

impl Campaign {
    /// `COUNT|SECONDSs [SEED] [FOLDER] [TARGET …]`, as the command gives them. From here on panics are caught and
    /// say nothing.
    pub(crate) fn of_command() -> Result<Self, Box<dyn std::error::Error>> {
        let mut arguments = std::env::args().skip(1);
        let length = arguments.next().ok_or("how many inputs, or seconds?")?;
        let length = match length.strip_suffix('s') {
            Some(seconds) => Length::Seconds(seconds.parse()?),
            None => Length::Inputs(length.parse()?),
        };
        let seed = arguments.next().map_or(Ok(0), |s| s.parse())?;
        let folder = arguments.next().map(std::path::absolute).transpose()?;
        std::panic::set_hook(Box::new(|_| ()));
        Ok(Self {
            length,
            seed,
            folder,
            only: arguments.collect(),
        })
    }

    /// Whether a target is asked for.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// The seeds of a target as they are, then mutants: `mutant` draws one of the seeds so far, `files`
    /// makes what is judged of it, and `judge` gives the sort of outcome, with an E in front where it is
    /// an error, or what is wrong with it. How many findings there were.
    pub(crate) fn run(
        &self,
        number: u64,
        mut target: Target,
        mutant: impl Fn(&[Vec<u8>], &mut ChaCha8Rng) -> Vec<u8>,
        files: impl Fn(&[u8], &mut ChaCha8Rng) -> Vec<Vec<u8>>,
        judge: impl Fn(&[Vec<u8>]) -> Result<String, String>,
    ) -> std::io::Result<u64> {
        if !self.wants(target.name) {
            return Ok(0);
        }
        let mut random = ChaCha8Rng::seed_from_u64(self.seed.wrapping_add(number));
        let folder = self.folder.as_ref().map(|folder| folder.join(target.name));
        if let Some(folder) = &folder {
            target.seeds.extend(kept(folder)?);
        }
        let began = Instant::now();
        let mut sorts = BTreeSet::new();
        let (mut findings, mut refused, mut slowest) = (0, 0u64, Duration::ZERO);
        let known = target.seeds.len();
        let (most, within) = match self.length {
            Length::Inputs(inputs) => (inputs * target.share / 100, Duration::MAX),
            // One target alone has all of it.
            Length::Seconds(seconds) if self.only.len() == 1 => {
                (u64::MAX, Duration::from_secs_f64(seconds))
            }
            Length::Seconds(seconds) => (
                u64::MAX,
                Duration::from_secs_f64(seconds * target.share as f64 / 100.0),
            ),
        };
        let keeps = matches!(self.length, Length::Inputs(_));
        let mut count = 0;
        for input in 0..most {
            if began.elapsed() >= within {
                break;
            }
            count += 1;
            let bytes = match target.seeds[..known].get(input as usize) {
                Some(seed) => seed.clone(),
                None => mutant(&target.seeds, &mut random),
            };
            let files = files(&bytes, &mut random);
            let start = Instant::now();
            let outcome = catch_unwind(AssertUnwindSafe(|| judge(&files)));
            let took = start.elapsed();
            slowest = slowest.max(took);
            let finding = match outcome {
                Ok(Ok(_)) if took > target.patience => format!("{took:?}"),
                Ok(Ok(sort)) => {
                    refused += u64::from(sort.starts_with('E'));
                    let few = sorts.len() < target.sorts;
                    if few && sorts.insert(sort) && bytes.len() <= MOST {
                        let new = keeps && input as usize >= known;
                        if let Some(folder) = folder.as_ref().filter(|_| new) {
                            let name = format!("{:03}", target.seeds.len());
                            std::fs::write(folder.join(name), &bytes)?;
                        }
                        target.seeds.push(bytes);
                    }
                    continue;
                }
                Ok(Err(finding)) => finding,
                Err(_) => "panic".to_owned(),
            };
            findings += 1;
            let shown: Vec<_> = files.iter().map(|f| f.escape_ascii().to_string()).collect();
            eprintln!("{}: {finding}: {}", target.name, shown.join("\n"));
        }
        eprintln!(
            "{:14} {count:9} inputs, {refused:9} refused, {:3} sorts of outcome, {findings} findings, {:.0} a second, slowest {:.1} ms",
            target.name,
            sorts.len(),
            count as f64 / began.elapsed().as_secs_f64(),
            slowest.as_secs_f64() * 1e3,
        );
        Ok(findings)
    }
}

/// Fails when something was found, or when this process ever had more than a gigabyte of memory.
pub(crate) fn none_found(findings: u64) -> Result<(), Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak: Option<u64> =
        peak.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
    if let Some(peak) = peak {
        eprintln!("at most {} MB of memory", peak / 1000);
        if peak > MEMORY {
            return Err(format!("it took {peak} kB of memory, more than {MEMORY}").into());
        }
    }
    match findings {
        0 => Ok(()),
        some => Err(format!("{some} findings").into()),
    }
}
