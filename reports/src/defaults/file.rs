//! The defaults file: where it is looked for, and what it may contain.
//!
//! ```toml
//! schema = 1                   # may be left out
//! delta = 1e-6                 # the slack of every (epsilon, delta) promise
//! neighbours = "replace"       # add-remove, zero-out or replace
//! unit = "turn"                # what one record is
//! group = 3                    # records that one secret or person accounts for
//! prior = 1e-6                 # chance of guessing a secret beforehand
//! tolerance = 1e-6             # how far apart the two ends of an answer may be, relatively
//! confidence = 0.95            # of whatever is measured
//! max_epsilon = 8              # exit 1 above it
//! max_exposure = 10            # bits; exit 1 where a canary is certainly above
//! ```

use crate::contract::{in_words, read_toml, to_json, unmarked};
use anyhow::{Context, Result, bail, ensure};
use reticent_accounting::{
    Confidence, Delta, Epsilon, GroupSize, Neighbours, Probability, Tolerance, UnitName,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The name of the file.
const NAME: &str = "reticent.toml";

/// The largest size that is read, in bytes.
const LARGEST: u64 = 1 << 16;

/// What may stand in the file. The names are those of the flags that it stands in for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectFile {
    /// 1, also if absent.
    #[serde(default = "first")]
    pub schema: u32,
    /// The δ of every promise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta: Option<Delta>,
    /// Neighbouring relation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<Neighbours>,
    /// What one record is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<UnitName>,
    /// Group size: records of one secret or person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupSize>,
    /// Chance of guessing a secret before training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prior: Option<Probability>,
    /// Maximum relative gap between the two ends of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<Tolerance>,
    /// Confidence of what is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// The epsilon above which the exit code is 1.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "finite",
        default
    )]
    pub max_epsilon: Option<Epsilon>,
    /// The exposure in bits above which the exit code is 1.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "bits",
        default
    )]
    #[schemars(range(min = 0, max = 1074))]
    pub max_exposure: Option<f64>,
}

const fn first() -> u32 {
    1
}

fn bits<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let given = f64::deserialize(deserializer)?;
    let limit = crate::contract::exposure_limit(given).map_err(serde::de::Error::custom)?;
    Ok(Some(limit))
}

fn finite<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Epsilon>, D::Error> {
    let given = Epsilon::deserialize(deserializer)?;
    let limit = crate::contract::finite(given).map_err(serde::de::Error::custom)?;
    Ok(Some(limit))
}

/// A project's defaults and the name of their file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Project {
    name: String,
    file: ProjectFile,
}

impl Project {
    /// Finds the file in a folder or in the nearest parent that has one, up to the root of the repository
    /// that contains the folder (where `.git` is). Outside a repository, only the folder itself is searched.
    ///
    /// # Errors
    /// Returns an error if a file exists but can't be used, as [`Project::read`] does.
    pub fn find(folder: &Path) -> Result<Option<Self>> {
        let here = folder
            .canonicalize()
            .context("cannot find the working directory")?;
        let inside = here
            .ancestors()
            .position(|parent| parent.join(".git").exists());
        for (up, parent) in here.ancestors().take(inside.unwrap_or(0) + 1).enumerate() {
            let place = parent.join(NAME);
            if let Ok(kind) = place.symlink_metadata() {
                let name = format!("{}{NAME}", "../".repeat(up));
                // A link in a checkout may point to a file that an error must not quote.
                ensure!(!kind.is_symlink(), "{name}: must be a file, got a link");
                return Self::named(&place, name).map(Some);
            }
        }
        Ok(None)
    }

    /// Reads the file at a path.
    ///
    /// # Errors
    /// Returns an error if the file can't be read, is too large, is not TOML, or holds a key or a value that
    /// is not allowed. The message shows line, key, value and allowed range.
    pub fn read(path: &Path) -> Result<Self> {
        Self::named(path, path.display().to_string())
    }

    fn named(path: &Path, name: String) -> Result<Self> {
        let unread = || format!("cannot read {name}");
        let kind = path.metadata().with_context(unread)?;
        // Reading a pipe would block.
        ensure!(kind.is_file(), "{name}: must be a file");
        let mut text = String::new();
        let file = std::fs::File::open(path).with_context(unread)?;
        file.take(LARGEST + 1)
            .read_to_string(&mut text)
            .with_context(unread)?;
        if text.len() as u64 > LARGEST {
            bail!("{name}: must have at most {LARGEST} bytes");
        }
        let file: ProjectFile = read_toml(&unmarked(text), &name)?;
        if file.schema != 1 {
            bail!("{name}: schema must be 1, got {}", file.schema);
        }
        Ok(Self { name, file })
    }

    /// Returns the file's name, relative to the folder where it was looked for.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the contents.
    #[must_use]
    pub const fn file(&self) -> &ProjectFile {
        &self.file
    }

    /// Returns all values by key.
    ///
    /// # Errors
    /// Returns no error for values that JSON can represent.
    pub fn values(&self) -> Result<Map<String, Value>> {
        let Value::Object(mut values) = to_json(&self.file)? else {
            return Ok(Map::new());
        };
        values.shift_remove("schema");
        Ok(values)
    }

    /// Returns the values that an answer took from the file.
    ///
    /// # Errors
    /// Returns an error as [`Project::values`] does.
    pub fn took(&self, keys: &[&str]) -> Result<Configured> {
        let mut values = self.values()?;
        values.retain(|key, _| keys.contains(&key.as_str()));
        let from = (!values.is_empty()).then(|| self.name.clone());
        Ok(Configured {
            file: from.unwrap_or_default(),
            values,
        })
    }
}

/// What an answer used of a project's defaults.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Configured {
    /// The file.
    pub file: String,
    /// What was used from it, by key.
    pub values: Map<String, Value>,
}

impl Configured {
    /// Returns whether nothing was taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the line that lists the values taken, if any:
    /// `from reticent.toml: delta 1e-5, neighbours replace`.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        let said = self.values.iter().map(|(key, value)| {
            let value = in_words(value);
            format!("{} {value}", key.replace('_', " "))
        });
        let said: Vec<String> = said.collect();
        (!said.is_empty()).then(|| format!("from {}: {}", self.file, said.join(", ")))
    }
}

/// Where defaults come from, as given by `--config`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// From the working directory or its parents.
    Found,
    /// From this file.
    File(PathBuf),
    /// From nowhere.
    Nothing,
}

impl Wanted {
    pub(super) fn project(&self) -> Result<Option<Project>> {
        match self {
            Self::Found => Project::find(Path::new(".")),
            Self::File(path) => Project::read(path).context("--config").map(Some),
            Self::Nothing => Ok(None),
        }
    }
}
