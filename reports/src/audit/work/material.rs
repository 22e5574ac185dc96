//! What single recipes need to know about a prepared corpus: its sensitive tokens, its rates.

use crate::account::protect::read::{Gathered, read_rates};
use crate::audit::cli::{Assumption, FirstPhaseArg, Recipe, Train};
use anyhow::{Context, Result, bail, ensure};
use reticent_accounting::confidentiality::RedactedAlike;
use reticent_backends::{Corpus, SecretRates, Sensitive, TrainOptions};
use reticent_corpus::{PolicyChoice, Prepared, TokenId};
use std::collections::HashMap;
use std::path::Path;

/// Sensitive tokens and rates, where the recipe needs them.
#[derive(Default)]
pub(super) struct Material {
    sensitive: Option<Sensitive>,
    rates: Option<SecretRates>,
    held_out: Option<Vec<Vec<TokenId>>>,
}

impl Material {
    /// What the recipe needs.
    pub(super) fn of(asked: &Train, options: &TrainOptions, prepared: &Prepared) -> Result<Self> {
        let mut material = Self {
            held_out: held_out(asked, prepared)?,
            ..Self::default()
        };
        match asked.recipe {
            Recipe::Sgd | Recipe::Dpsgd | Recipe::Crt => {}
            Recipe::Sdp | Recipe::Jft => material.sensitive = Some(sensitive(asked, prepared)?),
            Recipe::Protect => material.rates = Some(rates(asked, options, prepared)?),
        }
        Ok(material)
    }

    /// Together with the records.
    pub(super) fn corpus<'a>(&'a self, prepared: &'a Prepared) -> Corpus<'a> {
        Corpus {
            sensitive: self.sensitive.as_ref(),
            rates: self.rates.as_ref(),
            held_out: self.held_out.as_deref(),
            ..Corpus::plain(&prepared.training)
        }
    }
}

/// The records of --held-out, which must be cut into the same tokens.
fn held_out(asked: &Train, prepared: &Prepared) -> Result<Option<Vec<Vec<TokenId>>>> {
    let Some(folder) = &asked.course.held_out else {
        return Ok(None);
    };
    let held_out = Prepared::load(folder).context("--held-out")?;
    ensure!(
        super::opened::same_tokenizer(&held_out.tokenizer, &prepared.tokenizer)?,
        "--held-out: {} has another tokenizer than PREPARED",
        folder.display()
    );
    let records = held_out.training.records.into_iter().map(|r| r.tokens);
    let records: Vec<Vec<TokenId>> = records.filter(|tokens| tokens.len() > 1).collect();
    ensure!(
        !records.is_empty(),
        "--held-out: {} has no record with a token to predict",
        folder.display()
    );
    Ok(Some(records))
}

fn sensitive(asked: &Train, prepared: &Prepared) -> Result<Sensitive> {
    ensure!(
        !prepared.options.redact,
        "--recipe: {} trains on the original text too; prepare it with --no-redaction, \
         so that the records keep what the policy found",
        asked.recipe.name()
    );
    let uncaught = prepared.facts.uncaught;
    let assumed = |what| asked.of_recipe.assume.contains(&what);
    if assumed(Assumption::Caught) && uncaught > 0 {
        bail!(
            "--assume: the policy does not find {uncaught} marked secrets from end to end, \
             so it can't be taken for granted that it finds all"
        );
    }
    // What is marked is found; of a policy that looks for patterns nobody knows what it misses.
    let marked = prepared.options.policy.policy == PolicyChoice::Gold && uncaught == 0;
    let screened = asked.of_recipe.first_phase == Some(FirstPhaseArg::Screened);
    let alike = RedactedAlike {
        every_content_caught: marked || assumed(Assumption::Caught),
        length_and_kind_hidden: true, // one mask for every span
        screening_ignores_secrets: !screened || assumed(Assumption::Screening),
    };
    let mask = prepared.tokenizer.mask();
    Ok(Sensitive::marked(&prepared.training, mask, alike)?)
}

/// The names of the records in `train.jsonl`.
pub(super) fn names(prepared: &Prepared) -> HashMap<String, u32> {
    let points = (0u32..).zip(&prepared.points);
    points
        .map(|(i, point)| (format!("unit-{point}"), i))
        .collect()
}

/// Rates by record, and the records of each secret. Records that the file does not name hold
/// no secret: together they make up what is missing to the expected batch.
fn rates(asked: &Train, options: &TrainOptions, prepared: &Prepared) -> Result<SecretRates> {
    let given = &asked.of_recipe;
    let needed = |flag: &str| format!("{flag}: the recipe protect needs it");
    let weights = given
        .weights
        .as_deref()
        .with_context(|| needed("--weights"))?;
    let incidence = given
        .incidence
        .as_deref()
        .with_context(|| needed("--incidence"))?;
    let named = read_rates(weights).context("--weights")?;
    let names = names(prepared);
    let known = |(name, rate): (&String, &f64)| names.get(name).map(|i| (*i, *rate));
    let of_record: HashMap<u32, f64> = named.iter().filter_map(known).collect();
    ensure!(
        !of_record.is_empty(),
        "--weights: none of its examples is a record of PREPARED; they must be ids of its train.jsonl, such as unit-0"
    );
    let others = names.len() - of_record.len();
    let batch = options.private.map_or(0.0, |p| p.batch_size as f64);
    let left = (batch - of_record.values().sum::<f64>()).max(0.0);
    let rest = (left / others.max(1) as f64).min(1.0);
    let rates = (0..names.len() as u32).map(|i| of_record.get(&i).copied().unwrap_or(rest));
    let secrets = secrets(incidence, &names).context("--incidence")?;
    let unweighed = secrets
        .iter()
        .flatten()
        .find(|i| !of_record.contains_key(i));
    if let Some(record) = unweighed {
        let point = prepared.points[*record as usize];
        bail!("--weights: record unit-{point} holds a secret, but has no rate there");
    }
    Ok(SecretRates::new(rates.collect(), secrets)?)
}

/// The records of each secret.
fn secrets(path: &Path, names: &HashMap<String, u32>) -> Result<Vec<Vec<u32>>> {
    let mut gathered = Gathered::new(None);
    gathered.read(path, None)?;
    let incidence = gathered.incidence(None)?;
    let record = |example: &u32| {
        names
            .get(&*gathered.examples.all()[*example as usize])
            .copied()
    };
    let secrets = 0..gathered.secrets.all().len();
    let secrets = secrets.map(|secret| {
        let examples = incidence.examples_of(secret).iter();
        examples.filter_map(record).collect::<Vec<u32>>()
    });
    Ok(secrets.filter(|records| !records.is_empty()).collect())
}

/// Numbers of the records whose ids a file lists, one a line.
pub(super) fn screened(path: &Path, prepared: &Prepared) -> Result<Vec<u32>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let names = names(prepared);
    let mut records = Vec::new();
    for (line, id) in (1..).zip(text.lines()) {
        let id = id.trim();
        if id.is_empty() {
            continue;
        }
        let record = names.get(id).with_context(|| {
            format!(
                "{}, line {line}: {id:?} is no record of PREPARED; ids are those of its train.jsonl",
                path.display()
            )
        })?;
        records.push(*record);
    }
    records.sort_unstable();
    records.dedup();
    Ok(records)
}
