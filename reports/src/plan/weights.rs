//! Rates by record and the secrets that they protect, for the recipe `protect`.

use crate::account::protect::read::Gathered;
use crate::account::protect::weights::Weights;
use crate::number::{count_of, nearest, rounded_up};
use anyhow::{Context, Result, bail, ensure};
use reticent_accounting::protect::{Incidence, Protection, Secret, SecretClasses};
use reticent_accounting::{NoiseMultiplier, Steps};
use std::collections::HashMap;
use std::path::Path;

/// What `protect` needs about the records of a corpus.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordRates {
    /// The rates by position in the training set.
    pub rates: Vec<f64>,
    /// The records of each secret.
    pub secrets: Vec<Vec<u32>>,
    /// The promise for each secret.
    pub promises: Vec<Secret>,
    /// The batch size B.
    pub batch: f64,
    /// The number of steps T.
    pub steps: Steps,
    /// The noise multiplier σ.
    pub noise_multiplier: NoiseMultiplier,
    /// The certificate of the promises from when the weights were found.
    certificate: SecretClasses,
    /// The class of each secret in the certificate.
    class_of: Vec<usize>,
    /// The secrets by id, for the owner of the run.
    pub assignment: Vec<u8>,
}

/// Reads both files and matches them with the names of the records.
///
/// # Errors
/// Returns an error if a file can't be read, if a name is not a record's, or if only one of the files or the corpus
/// knows a record or a secret.
pub fn read_record_rates(
    (weights, weights_name): (&Path, &str),
    (incidence, incidence_name): (&Path, &str),
    names: &HashMap<String, u32>,
) -> Result<RecordRates> {
    let file = Weights::read(weights).with_context(|| weights_name.to_owned())?;
    let assignment = file.assignment()?;
    let mut rates: Vec<Option<f64>> = vec![None; names.len()];
    for (number, (id, _, rate)) in (1..).zip(&file.records) {
        let Some(record) = names.get(id) else {
            bail!("{weights_name}: {}", unknown(weights, number));
        };
        let own = &mut rates[*record as usize];
        ensure!(
            own.is_none(),
            "{weights_name}: {}: record {number} occurs twice",
            weights.display()
        );
        *own = Some(*rate);
    }
    let others = rates.iter().filter(|rate| rate.is_none()).count() as u64;
    ensure!(
        others == file.other_records,
        "{weights_name}: {}: was certified for {} records besides those it names, the prepared \
         corpus has {others}; account protect takes --dataset-size {}",
        weights.display(),
        file.other_records,
        names.len()
    );
    let mut found = secrets(incidence, names).with_context(|| incidence_name.to_owned())?;
    let unweighed = found.iter().flat_map(|(_, records)| records);
    if let Some(record) = unweighed
        .into_iter()
        .find(|i| rates[**i as usize].is_none())
    {
        let name = names.iter().find(|(_, place)| *place == record);
        bail!(
            "{weights_name}: record {} holds a secret, but has no rate there",
            name.map_or("", |(name, _)| name)
        );
    }
    let mut promised: HashMap<&str, (usize, Secret, usize)> = HashMap::new();
    for (number, (id, prior, posterior, class)) in (1..).zip(&file.secrets) {
        let promise = Secret::new(*prior, *posterior)
            .with_context(|| format!("{weights_name}: secret {number}"))?;
        promised.insert(id, (number, promise, *class));
    }
    let mut promises = Vec::with_capacity(found.len());
    let mut class_of = Vec::with_capacity(found.len());
    for (number, (id, _)) in (1..).zip(&found) {
        match promised.remove(&**id) {
            Some((_, promise, class)) => {
                promises.push(promise);
                class_of.push(class);
            }
            None => bail!(
                "{incidence_name}: {}: secret {number} has no promise in {}",
                incidence.display(),
                weights.display()
            ),
        }
    }
    // A secret in no record keeps its prior. Certifying again shows whether it was promised as such.
    let mut absent: Vec<_> = promised.into_iter().collect();
    absent.sort_unstable_by_key(|(_, (number, ..))| *number);
    for (id, (_, promise, class)) in absent {
        found.push((id.into(), Vec::new()));
        promises.push(promise);
        class_of.push(class);
    }
    let rest = file.other_rate;
    Ok(RecordRates {
        rates: rates.into_iter().map(|rate| rate.unwrap_or(rest)).collect(),
        secrets: found.into_iter().map(|(_, records)| records).collect(),
        promises,
        batch: file.batch_size,
        steps: Steps::new(file.steps),
        noise_multiplier: file.noise_multiplier,
        certificate: file.certified,
        class_of,
        assignment,
    })
}

impl RecordRates {
    /// Certifies each promise at this noise, which is at least that of the weights, and returns their certificate: what dominates
    /// the rates of a secret does so whatever the noise, and whoever has the file can compare it. Without noise nothing is promised.
    ///
    /// # Errors
    /// Returns an error if a promise is not kept.
    pub fn certified(&self, noise: Option<NoiseMultiplier>) -> Result<SecretClasses> {
        let count = |n: usize| u32::try_from(n).context("more than 2^32 records or secrets");
        let pairs = (0u32..).zip(&self.secrets);
        let pairs = pairs.flat_map(|(secret, records)| records.iter().map(move |r| (*r, secret)));
        let (examples, secrets) = (count(self.rates.len())?, count(self.secrets.len())?);
        let incidence = Incidence::new(examples, secrets, pairs.collect())?;
        let run = Protection {
            incidence: &incidence,
            secrets: &self.promises,
            rates: &self.rates,
            steps: self.steps,
        };
        let certified = run.certified(Some(self.noise_multiplier))?;
        ensure!(
            certified.classes == self.certificate && certified.class_of == self.class_of,
            "the weights were certified for another run: the certificate in the file is not that of its noise and steps with \
             the secrets in these records; certify them again with account protect"
        );
        let mut posteriors = certified.posteriors;
        if let Some(more) = noise.filter(|noise| *noise != self.noise_multiplier) {
            let found = certified.classes.posteriors(more, self.steps)?;
            let each = certified.class_of.iter();
            posteriors = each.map(|class| found[*class].get().get()).collect();
        }
        if noise.is_some() {
            let kept = posteriors.iter().zip(&self.promises);
            let broken: Vec<(usize, f64)> = kept
                .enumerate()
                .filter(|(_, (found, promise))| **found > promise.posterior().get())
                .map(|(secret, (found, _))| (secret, *found))
                .collect();
            if let Some((secret, found)) = broken.first() {
                bail!(
                    "the promises of {} of {secrets} secrets do not hold for this corpus: secret {}, \
                     in {}, may be guessed with probability {}, promised {}; certify them \
                     again with account protect",
                    broken.len(),
                    secret + 1,
                    count_of(incidence.examples_of(*secret).len() as u64, "record"),
                    rounded_up(*found, 4),
                    nearest(self.promises[*secret].posterior().get(), 4)
                );
            }
        }
        Ok(certified.classes)
    }
}

/// Formats the error for an unknown example without its name, which may be private in a file that uses other names.
fn unknown(path: &Path, number: usize) -> String {
    format!(
        "{}: example {number} is no record of the prepared corpus; examples must be ids of its train.jsonl, \
         such as unit-0-85ab0c1b2f7de9a4: audit incidence PREPARED writes them",
        path.display()
    )
}

/// Reads the name and the records of each secret.
fn secrets(path: &Path, names: &HashMap<String, u32>) -> Result<Vec<(Box<str>, Vec<u32>)>> {
    let mut gathered = Gathered::new(None, false);
    gathered.read(path, None)?;
    let examples = gathered.examples.all();
    let mut records = Vec::with_capacity(examples.len());
    for (number, name) in (1..).zip(examples) {
        match names.get(&**name) {
            Some(record) => records.push(*record),
            None => bail!("{}", unknown(path, number)),
        }
    }
    let incidence = gathered.incidence(None)?;
    let all = gathered.secrets.all();
    ensure!(
        !all.is_empty(),
        "{}: contains no secret, and the recipe protect promises nothing else",
        path.display()
    );
    let of = |secret: usize| {
        let examples = incidence.examples_of(secret).iter();
        examples.map(|e| records[*e as usize]).collect()
    };
    Ok(all
        .iter()
        .cloned()
        .enumerate()
        .map(|(s, name)| (name, of(s)))
        .collect())
}
