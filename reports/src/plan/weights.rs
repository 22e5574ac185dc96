//! Rates by record, and the records of each secret: for the recipe `protect`.

use crate::account::protect::read::{Gathered, read_rates};
use anyhow::{Context, Result, bail, ensure};
use std::collections::HashMap;
use std::path::Path;

/// What `protect` needs to know of the records.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordRates {
    /// By place in the training set.
    pub rates: Vec<f64>,
    /// The records of each secret.
    pub secrets: Vec<Vec<u32>>,
}

/// Reads both files against the names of the records. Records that the weights do not name hold no
/// secret: together they make up what is missing to the expected batch.
///
/// # Errors
/// A file that can't be read, a name that is no record, a secret without records, and a record that
/// holds a secret but has no rate.
pub fn read_record_rates(
    (weights, weights_name): (&Path, &str),
    (incidence, incidence_name): (&Path, &str),
    names: &HashMap<String, u32>,
    batch: Option<f64>,
) -> Result<RecordRates> {
    let named = read_rates(weights).with_context(|| weights_name.to_owned())?;
    let mut of_record: HashMap<u32, f64> = HashMap::new();
    for (name, rate) in &named {
        let Some(record) = names.get(name) else {
            bail!("{weights_name}: {}", unknown(weights, name));
        };
        of_record.insert(*record, *rate);
    }
    let sum: f64 = named.values().sum();
    let others = names.len() - of_record.len();
    let left = (batch.unwrap_or(sum) - sum).max(0.0);
    let rest = (left / others.max(1) as f64).min(1.0);
    let count = u32::try_from(names.len()).context("more than 2^32 records")?;
    let rates = (0..count).map(|i| of_record.get(&i).copied().unwrap_or(rest));
    let secrets = secrets(incidence, names).with_context(|| incidence_name.to_owned())?;
    let unweighed = secrets
        .iter()
        .flatten()
        .find(|i| !of_record.contains_key(i));
    if let Some(record) = unweighed {
        let name = names.iter().find(|(_, place)| *place == record);
        bail!(
            "{weights_name}: record {} holds a secret, but has no rate there",
            name.map_or("", |(name, _)| name)
        );
    }
    Ok(RecordRates {
        rates: rates.collect(),
        secrets,
    })
}

fn unknown(path: &Path, name: &str) -> String {
    format!(
        "{}: {name:?} is no record of the prepared corpus; examples must be ids of its train.jsonl, such as unit-0",
        path.display()
    )
}

/// The records of each secret.
fn secrets(path: &Path, names: &HashMap<String, u32>) -> Result<Vec<Vec<u32>>> {
    let mut gathered = Gathered::new(None);
    gathered.read(path, None)?;
    let examples = gathered.examples.all();
    let mut records = Vec::with_capacity(examples.len());
    for name in examples {
        match names.get(&**name) {
            Some(record) => records.push(*record),
            None => bail!("{}", unknown(path, name)),
        }
    }
    let incidence = gathered.incidence(None)?;
    let mut secrets = Vec::new();
    for secret in 0..gathered.secrets.all().len() {
        let own: Vec<u32> = incidence
            .examples_of(secret)
            .iter()
            .map(|example| records[*example as usize])
            .collect();
        ensure!(
            !own.is_empty(),
            "{}: secret {} is in no record",
            path.display(),
            secret + 1
        );
        secrets.push(own);
    }
    Ok(secrets)
}
