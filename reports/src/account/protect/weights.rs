//! The file that carries a certificate to the trainer: rates of records, batch, steps, noise, and the
//! promise for each secret ([schemas/weights.schema.json]).

use super::input::Input;
use super::run::Chosen;
use crate::contract::{AtomicFile, Inputs};
use anyhow::{Context, Result, ensure};
use reticent_accounting::protect::SecretClasses;
use reticent_accounting::{NoiseMultiplier, Probability};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

/// The type of the document.
const KIND: &str = "weights";

/// What a trainer needs, and what has to hold of what it trains on.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Weights {
    schema: u32,
    #[serde(rename = "type")]
    kind: String,
    #[serde(rename = "inputs")]
    #[schemars(with = "Inputs")]
    _inputs: serde::de::IgnoredAny,
    /// B: the expected records of a batch, and the divisor of its noised sum.
    pub(crate) batch_size: f64,
    /// T.
    pub(crate) steps: u64,
    /// σ.
    pub(crate) noise_multiplier: NoiseMultiplier,
    /// The constant of the capacities.
    #[serde(default)]
    pub(crate) c: Option<f64>,
    /// Id, weight and rate of each record that the incidence names.
    pub(crate) records: Vec<(String, f64, f64)>,
    /// How many other records there are; they hold no secret.
    pub(crate) other_records: u64,
    /// The rate of each of them.
    pub(crate) other_rate: f64,
    /// Id, prior, promised posterior and class of each secret: a number of the certificate's classes.
    pub(crate) secrets: Vec<(String, Probability, Probability, usize)>,
    /// What certified the promises.
    pub(crate) certified: SecretClasses,
}

impl Weights {
    /// Reads a file.
    ///
    /// # Errors
    /// Returns an error for another kind of document or a number out of its range.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let file = reticent_disk::open_file_or_pipe(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let read: std::result::Result<Self, serde_json::Error> =
            serde_json::from_reader(BufReader::new(file));
        // The text that serde_json quotes may be an id.
        let weights = read.map_err(|error| {
            anyhow::anyhow!(
                "{}, line {}, column {}: is not what `account protect --weights` writes",
                path.display(),
                error.line(),
                error.column()
            )
        })?;
        weights
            .checked()
            .with_context(|| path.display().to_string())
    }

    /// Returns the secrets by id, each with its promise and class, for which a run is certified.
    ///
    /// # Errors
    /// Returns no error for values that were read.
    pub(crate) fn assignment(&self) -> serde_json::Result<Vec<u8>> {
        let mut rows: Vec<_> = self.secrets.iter().collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        serde_json::to_vec(&rows)
    }

    fn checked(self) -> Result<Self> {
        ensure!(
            self.schema == 1 && self.kind == KIND,
            "must be weights of schema 1, got a {:?} of schema {}",
            self.kind,
            self.schema
        );
        ensure!(
            self.batch_size > 0.0 && self.batch_size.is_finite(),
            "batch_size: must lie in (0, inf), got {}",
            self.batch_size
        );
        ensure!(self.steps > 0, "steps: must be at least 1, got 0");
        let is_rate = |rate: f64| (0.0..=1.0).contains(&rate);
        for (number, (_, _, rate)) in (1..).zip(&self.records) {
            ensure!(
                is_rate(*rate),
                "rate of record {number}: must lie in [0, 1], got {rate}"
            );
        }
        ensure!(
            is_rate(self.other_rate),
            "other_rate: must lie in [0, 1], got {}",
            self.other_rate
        );
        let sum: f64 = self.records.iter().map(|(_, _, rate)| rate).sum();
        let sum = sum + self.other_records as f64 * self.other_rate;
        ensure!(
            (sum / self.batch_size - 1.0).abs() <= 1e-6,
            "batch_size: must be the sum of the rates, {sum}, got {}",
            self.batch_size
        );
        let mut left: Vec<u64> = self.certified.classes().iter().map(|c| c.secrets).collect();
        for (number, (_, prior, posterior, class)) in (1..).zip(&self.secrets) {
            let own = self.certified.classes().get(*class);
            ensure!(
                own.is_some_and(
                    |own| (own.promise.prior(), own.promise.posterior()) == (*prior, *posterior)
                ),
                "secret {number}: its promise is not the one that was certified; certify it again with \
                 account protect"
            );
            left[*class] = left[*class].wrapping_sub(1);
        }
        ensure!(
            left.iter().all(|left| *left == 0),
            "must name every certified secret exactly once"
        );
        Ok(self)
    }
}

/// A list that is serialised as it is iterated.
struct Listed<F>(F);

impl<F: Fn() -> I, I: Iterator<Item: Serialize>> Serialize for Listed<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// Writes what was certified.
///
/// # Errors
/// Returns an error if the disk is full, and for invented examples, which have no ids.
pub(crate) fn write(
    mut file: AtomicFile,
    input: &Input,
    chosen: &Chosen,
    (batch_size, steps): (f64, u64),
    inputs: &Inputs,
) -> Result<()> {
    #[derive(Serialize)]
    struct Written<'a, R, S> {
        schema: u32,
        #[serde(rename = "type")]
        kind: &'static str,
        inputs: &'a Inputs,
        batch_size: f64,
        steps: u64,
        noise_multiplier: NoiseMultiplier,
        #[serde(skip_serializing_if = "Option::is_none")]
        c: Option<f64>,
        records: R,
        other_records: u64,
        other_rate: f64,
        secrets: S,
        certified: &'a SecretClasses,
    }
    let named = input.examples.all();
    ensure!(
        !named.is_empty(),
        "synthetic secrets are in no record with an id; give --incidence"
    );
    let (weights, rates) = (&chosen.weighed.solution.weights, &chosen.weighed.rates);
    let others = &rates[named.len()..];
    let records = Listed(|| {
        let numbers = weights.iter().zip(rates);
        let each = named.iter().zip(numbers);
        each.map(|(id, (weight, rate))| (id, weight, rate))
    });
    let secrets = Listed(|| {
        let each = input.secrets.all().iter().zip(&input.promises);
        let each = each.zip(&chosen.certified.class_of);
        each.map(|((id, promise), class)| {
            let secret = promise.secret;
            (id, secret.prior(), secret.posterior(), class)
        })
    });
    let written = Written {
        schema: 1,
        kind: KIND,
        inputs,
        batch_size,
        steps,
        noise_multiplier: chosen.sigma,
        c: chosen.weighed.c,
        records,
        other_records: others.len() as u64 + input.discarded,
        other_rate: others.iter().copied().fold(0.0, f64::max),
        secrets,
        certified: &chosen.certified.classes,
    };
    let mut buffered = BufWriter::new(&mut file);
    serde_json::to_writer(&mut buffered, &written)?;
    buffered.write_all(b"\n")?;
    buffered.flush()?;
    drop(buffered);
    file.finish()
}
