//! The input of the files or arguments: examples, secrets and promises.

use super::args::Protect;
use super::read::{Gathered, Names, Promise, read_secrets};
use anyhow::{Context, Result, anyhow, bail};
use reticent_accounting::Probability;
use reticent_accounting::protect::{Incidence, Secret};

/// Examples, secrets, and the promise for each secret.
#[derive(Debug)]
pub(crate) struct Input {
    /// Which example contains which secret.
    pub(crate) incidence: Incidence,
    /// The names of the examples that have one.
    pub(crate) examples: Names,
    /// The names of the secrets.
    pub(crate) secrets: Names,
    /// One promise per secret.
    pub(crate) promises: Vec<Promise>,
    /// The number of examples without a secret, which are never drawn.
    pub(crate) discarded: u64,
}

impl Input {
    /// Reads the files, or invents secrets for --counts.
    ///
    /// # Errors
    /// Returns an error if files are unreadable or malformed, if no example contains a secret, or if a promise leaves
    /// no room above its prior.
    pub(crate) fn gather(wish: &Protect) -> Result<Self> {
        match &wish.incidence {
            Some(path) => {
                let field = wish.field.as_deref();
                let table = wish
                    .secrets
                    .as_ref()
                    .map(|path| read_secrets(path, field))
                    .transpose()
                    .context("--secrets")?;
                let (names, promises) = match table {
                    Some((names, promises)) => (Some(names), Some(promises)),
                    None => (None, None),
                };
                let mut gathered = Gathered::new(names, wish.discard_others);
                gathered.read(path, field).context("--incidence")?;
                let discarded = match (wish.discard_others, wish.dataset_size) {
                    (true, Some(all)) => gathered.others(all)?,
                    _ => 0,
                };
                let all = wish.dataset_size.map(|all| all - discarded);
                let incidence = gathered.incidence(all)?;
                // A table alone has secrets, but nothing to be protected.
                match field {
                    _ if incidence.pairs() > 0 => {}
                    Some(field) => bail!(
                        "--field: no record of {} has a value under {field:?}",
                        path.display()
                    ),
                    None => bail!("--incidence: {} contains no secret", path.display()),
                }
                let promises = match promises {
                    Some(promises) => promises,
                    None => vec![one_promise(wish)?; gathered.secrets.all().len()],
                };
                Ok(Self {
                    incidence,
                    examples: gathered.examples,
                    secrets: gathered.secrets,
                    promises,
                    discarded,
                })
            }
            None => made_up(wish),
        }
    }

    /// Returns the promises without their kinds.
    #[must_use]
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        self.promises.iter().map(|promise| promise.secret).collect()
    }
}

fn prior(wish: &Protect) -> Result<Probability> {
    wish.prior
        .ok_or_else(|| anyhow!("--secrets or --prior and --posterior are needed"))
}

fn one_promise(wish: &Protect) -> Result<Promise> {
    let [posterior] = wish.posterior.as_slice() else {
        bail!(
            "--posterior: one value is needed with --incidence, got {}",
            wish.posterior.len()
        );
    };
    promise(prior(wish)?, *posterior)
}

fn promise(prior: Probability, posterior: Probability) -> Result<Promise> {
    let secret = Secret::new(prior, posterior).map_err(|error| {
        let flag = match prior.get() > 0.0 {
            true => "--posterior",
            false => "--prior",
        };
        anyhow!("{flag}: {error}")
    })?;
    Ok(Promise {
        secret,
        kind: String::new(),
    })
}

/// Invents one secret for every count and every posterior, each in examples of its own.
fn made_up(wish: &Protect) -> Result<Input> {
    let prior = prior(wish)?;
    let mut secrets = Names::default();
    let mut promises = Vec::new();
    let mut pairs = Vec::new();
    let mut example = 0u32;
    let all = wish.dataset_size.unwrap_or(0);
    for count in &wish.counts {
        for posterior in &wish.posterior {
            let name = format!("{count} examples, {posterior}");
            let secret = secrets.index(&name)?;
            if secret as usize != promises.len() {
                bail!("--counts, --posterior: {name} is given twice");
            }
            promises.push(promise(prior, *posterior)?);
            for _ in 0..*count {
                if u64::from(example) >= all {
                    bail!("--dataset-size: must hold the examples of all --counts, got {all}");
                }
                pairs.push((example, secret));
                example += 1;
            }
        }
    }
    let Ok(all) = u32::try_from(all) else {
        bail!("--dataset-size: must be below 2^32, got {all}");
    };
    Ok(Input {
        incidence: Incidence::new(all, secrets.all().len() as u32, pairs)?,
        examples: Names::default(),
        secrets,
        promises,
        discarded: 0,
    })
}
