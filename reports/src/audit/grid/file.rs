//! The file `grid.toml`.

use super::plan::model_name;
use crate::contract::read_toml;
use anyhow::{Context, Result, bail, ensure};
use reticent_accounting::training::Recipe;
use reticent_accounting::{Epsilon, MissRate, NoiseMultiplier, Probability};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Flags of a command by name. The value is a number or a text, `true` for a flag without a value, `false` for no flag,
/// or a list for values separated by commas.
pub type Flags = BTreeMap<String, Value>;

/// The most cells of a grid.
const LARGEST: usize = 10_000;

/// The file.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GridFile {
    /// 1.
    pub schema: u32,
    /// The corpus of all cells.
    pub data: Data,
    /// What perplexity, or the accuracy of a classifier, is measured on, and never trained on: of dialogues another seed,
    /// of a file other documents. The same file under another name is refused; documents that two different files share
    /// are not looked for. If absent, each preparation's own held-out text.
    pub test: Option<Data>,
    /// Number of seeds, from 0: of what is held out, missed and planted. Batches and noise are never seeded.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000))]
    pub seeds: u64,
    /// The shares of secrets that the policy is made to miss.
    #[serde(default)]
    pub miss_rates: Vec<MissRate>,
    /// The shares of canaries that the policy catches.
    #[serde(default)]
    pub canary_recalls: CanaryRecalls,
    /// Noise over clipping norm, of recipes that add noise.
    #[serde(default)]
    pub sigmas: Vec<NoiseMultiplier>,
    /// Instead of it, the ε to calibrate the noise to.
    #[serde(default)]
    pub epsilons: Vec<Epsilon>,
    /// What is trained: as `--model` of `audit train`.
    #[serde(default = "lstm")]
    pub models: Vec<String>,
    /// Flags of `audit prepare`.
    #[serde(default)]
    pub prepare: Flags,
    /// Flags of `audit train`.
    #[serde(default)]
    pub train: Flags,
    /// What is measured.
    #[serde(default)]
    pub attacks: Attacks,
    /// The ways of training that are compared.
    pub arms: Vec<Arm>,
}

/// The corpus: synthetic, or a file or folder.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Data {
    /// How many dialogues to generate.
    pub dialogues: Option<u64>,
    /// Their seed.
    pub seed: u64,
    /// Generate the customers' turns, each with its act, instead of dialogues.
    pub turns: bool,
    /// A file or folder, as for `audit prepare`; relative to the file.
    pub path: Option<PathBuf>,
    /// How many of its documents to take, from the start.
    pub documents: Option<u64>,
    /// How many documents to skip before them.
    pub skip: u64,
    /// The key or column that holds the text, where documents are taken.
    pub text_field: Option<String>,
}

impl Data {
    fn check(&self) -> Result<()> {
        match (self.dialogues, &self.path) {
            (Some(_), None) if self.documents.is_none() => {}
            (None, Some(_)) if !self.turns => {}
            _ => bail!(
                "must hold either dialogues, a number to generate, optionally with turns, or path, optionally with documents"
            ),
        }
        ensure!(
            self.documents.is_some() || self.skip == 0 && self.text_field.is_none(),
            "skip and text_field need documents, the number that is taken"
        );
        if let Some(documents) = self.documents {
            let fits = (1..=10_000_000).contains(&documents);
            ensure!(fits, "documents must lie in [1, 10000000], got {documents}");
        }
        Ok(())
    }
}

/// The shares of canaries that the policy catches.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CanaryRecalls {
    /// These.
    Listed(Vec<Probability>),
    /// `as-policy`: 1 − the miss rate.
    Named(AsPolicy),
}

/// The name of [`CanaryRecalls::Named`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AsPolicy {
    /// What the policy catches of other secrets.
    AsPolicy,
}

impl Default for CanaryRecalls {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

/// A way of training.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// Its name; the recipe's name if absent. Letters, digits and hyphens.
    pub name: Option<String>,
    /// The recipe.
    pub recipe: Recipe,
    /// Flags of `audit redact` on the corpus before it is prepared: its masks are text like any other then.
    #[serde(default)]
    pub redact: Flags,
    /// Flags of `audit plant` on the corpus before it is prepared: canaries for `audit exposure`, with `coins` for `audit coins` too.
    #[serde(default)]
    pub plant: Flags,
    /// Flags of `audit prepare` that replace or extend those of all arms.
    #[serde(default)]
    pub prepare: Flags,
    /// Flags of `audit train`, likewise. With its own `sigma` or `epsilon`, the arm has one noise level.
    #[serde(default)]
    pub train: Flags,
    /// Of `protect`: flags of `audit incidence` on the prepared corpus.
    #[serde(default)]
    pub incidence: Flags,
    /// Of `protect`: flags of `account protect`.
    #[serde(default)]
    pub protect: Flags,
}

impl Arm {
    /// Returns the name of the arm.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.recipe.name())
    }
}

/// What to measure on every model, with the flags of each command.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Attacks {
    /// `audit perplexity` on the test text; always, but for classifiers.
    pub perplexity: Flags,
    /// `audit classify` on the test text; if records have a class. Nothing else can be measured then.
    pub classify: Flags,
    /// `audit exposure`; wherever canaries are planted.
    pub exposure: Flags,
    /// `audit coins`; wherever coins put them in.
    pub coins: Flags,
    /// `audit membership` with the held-out text as non-members; with `lookalikes` on the corpus itself.
    pub membership: Option<Flags>,
    /// `audit extract` with the training text, in which it also looks for `secrets`.
    pub extract: Option<Flags>,
}

const fn one() -> u64 {
    1
}

fn lstm() -> Vec<String> {
    vec!["lstm".to_owned()]
}

impl GridFile {
    /// Reads and checks a file; the path of its data is relative to it.
    ///
    /// # Errors
    /// Returns an error if the file can't be read, is not TOML, or holds a key or value that is not allowed. The
    /// message shows line, key, value and allowed range.
    pub fn read(path: &Path) -> Result<Self> {
        let text = crate::contract::read_named_text(path)?;
        let mut file = Self::parse(&text, &path.display().to_string())?;
        let test = file.test.as_mut().and_then(|test| test.path.as_mut());
        for data in file.data.path.iter_mut().chain(test) {
            *data = path.parent().unwrap_or(Path::new("")).join(&*data);
        }
        Ok(file)
    }

    /// Reads the same from a text with a name.
    ///
    /// # Errors
    /// Returns an error as [`GridFile::read`] does.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let file: Self = read_toml(text, name)?;
        file.check().with_context(|| name.to_owned())?;
        Ok(file)
    }

    fn check(&self) -> Result<()> {
        ensure!(self.schema == 1, "schema: must be 1, got {}", self.schema);
        let seeds = self.seeds;
        ensure!(
            (1..=1000).contains(&seeds),
            "seeds: must lie in [1, 1000], got {seeds}"
        );
        self.data.check().context("data")?;
        if let Some(test) = &self.test {
            test.check().context("test")?;
        } else if self
            .prepare
            .get("held_out")
            .is_some_and(|share| share.as_f64().is_some_and(|share| share <= 0.0))
        {
            bail!(
                "prepare.held_out: must be above 0 where there is no test, got 0: each cell's perplexity is of held-out text"
            );
        }
        ensure!(
            self.sigmas.is_empty() || self.epsilons.is_empty(),
            "epsilons: one of sigmas and epsilons must give the noise"
        );
        ensure!(!self.models.is_empty(), "models: must name at least one");
        let mut models: Vec<(String, &str)> = self
            .models
            .iter()
            .map(|m| (model_name(m), &m[..]))
            .collect();
        models.sort_unstable();
        models.dedup();
        if let Some(alike) = models.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let ((name, one), (_, other)) = (&alike[0], &alike[1]);
            bail!(
                "models: {one} and {other} would both be {name} in the names of cells; rename one folder"
            );
        }
        ensure!(!self.arms.is_empty(), "arms: must contain at least one");
        let mut names: Vec<&str> = self.arms.iter().map(Arm::name).collect();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        for name in &names {
            let fits = (1..=40).contains(&name.len()) && name.chars().all(plain);
            ensure!(
                fits,
                "arms: a name must be 1 to 40 letters, digits and hyphens, got {name:?}"
            );
        }
        for arm in &self.arms {
            let of_protect = !arm.incidence.is_empty() || !arm.protect.is_empty();
            ensure!(
                arm.recipe == Recipe::Protect || !of_protect,
                "arms: incidence and protect belong to the recipe protect, got {}",
                arm.recipe
            );
        }
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            bail!("arms: two are named {}; rename one", twice[0]);
        }
        let axes = [
            self.miss_rates.len(),
            match &self.canary_recalls {
                CanaryRecalls::Listed(list) => list.len(),
                CanaryRecalls::Named(_) => 1,
            },
            self.sigmas.len().max(self.epsilons.len()),
            self.models.len(),
            self.arms.len(),
        ];
        let cells = axes.iter().fold(usize::try_from(seeds)?, |all, n| {
            all.saturating_mul((*n).max(1))
        });
        ensure!(
            cells <= LARGEST,
            "a grid has at most {LARGEST} cells, got {cells}"
        );
        Ok(())
    }
}

/// Merges flags with those of an arm, which take precedence, with hyphens between words.
pub(super) fn merged(of_all: &Flags, of_arm: &Flags) -> Flags {
    let named = |(key, value): (&String, &Value)| (key.replace('_', "-"), value.clone());
    of_all.iter().chain(of_arm).map(named).collect()
}

/// Returns flags as words of a command line.
pub(super) fn words(flags: &Flags) -> Result<Vec<String>> {
    let mut words = Vec::new();
    for (key, value) in flags {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        ensure!(
            key.chars().all(plain),
            "a flag must be lower-case letters, digits and hyphens, got {key:?}"
        );
        let text = match value {
            Value::Bool(false) => continue,
            Value::Bool(true) => {
                words.push(format!("--{key}"));
                continue;
            }
            Value::Array(items) => {
                let items: Result<Vec<String>> =
                    items.iter().map(|item| one_value(key, item)).collect();
                items?.join(",")
            }
            other => one_value(key, other)?,
        };
        words.push(format!("--{key}={text}"));
    }
    Ok(words)
}

fn one_value(key: &str, value: &Value) -> Result<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        _ => bail!("{key}: must be a number, a text, true, false, or a list of them"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "schema = 1\ndata = { dialogues = 5 }\n[[arms]]\nrecipe = \"sgd\"\n";

    #[test]
    fn flags_are_words() {
        let file = GridFile::parse(
            &format!("{SMALL}train = {{ batch_size = 2, force = true, rates = [\"x\", 0.5], verbose = false }}\n"),
            "g",
        )
        .unwrap();
        let flags = merged(&file.train, &file.arms[0].train);
        assert_eq!(
            words(&flags).unwrap(),
            ["--batch-size=2", "--force", "--rates=x,0.5"]
        );
    }

    #[test]
    fn what_does_not_belong_is_refused_with_its_place() {
        for (text, says) in [
            (SMALL.replace("= 1", "= 2"), "schema: must be 1, got 2"),
            (format!("seeds = 0\n{SMALL}"), "[1, 1000], got 0"),
            (format!("miss_rates = [2]\n{SMALL}"), "line 1, miss_rates"),
            (format!("seed = 1\n{SMALL}"), "line 1, seed"),
            (SMALL.replace("dialogues", "documents"), "data: must hold"),
            (
                format!("{SMALL}[[arms]]\nrecipe = \"sgd\"\n"),
                "two are named sgd",
            ),
            (format!("{SMALL}name = \"a/b\"\n"), "got \"a/b\""),
            (
                format!("models = [\"m1/base\", \"lstm\", \"m2/base\"]\n{SMALL}"),
                "models: m1/base and m2/base would both be base",
            ),
            (
                format!("sigmas = [1]\nepsilons = [1]\n{SMALL}"),
                "epsilons: one of",
            ),
            (
                format!("seeds = 1000\nmiss_rates = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]\n{SMALL}"),
                "got 11000",
            ),
        ] {
            let error = format!("{:#}", GridFile::parse(&text, "g.toml").unwrap_err());
            assert!(error.contains(says) && error.contains("g.toml"), "{error}");
        }
    }
}
