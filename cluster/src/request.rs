//! What an operator is asked to do, as it travels from the client over the scheduler to the executors.

use crate::owner_key::OwnerKey;
use anyhow::{Context, Result, ensure};
use datafusion::error::{DataFusionError, Result as FusionResult};
use reticent_corpus::{Error, ShardPlan, ShardStage};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The most characters of a stage's error that travel.
const LONGEST: usize = 400;
/// What our own errors begin with, so that the client finds them in what Ballista makes of them.
const OURS: &str = "audit-cluster: ";

/// Which stage an operator runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// Digests of each shard that it is told.
    Scan,
    /// Which units came before, of each part whose digests it gets.
    Group,
    /// Records of each shard that it is told.
    Write,
}

/// The stages of a plan that a query runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    /// The plan's file, under the same name on every machine.
    plan: PathBuf,
    /// The name of the folder of its stages, which has a code of the plan in it.
    folder: PathBuf,
    /// The shards that are worked on.
    pub(crate) shards: Vec<u64>,
}

impl Request {
    pub(crate) fn new(kind: Kind, path: &Path, plan: &ShardPlan, shards: Vec<u64>) -> Result<Self> {
        let absolute = std::path::absolute(path)
            .with_context(|| format!("--plan: {} has no absolute path", path.display()))?;
        ensure!(
            absolute.to_str().is_some(),
            "--plan: {} is no text in UTF-8, and cannot travel",
            path.display()
        );
        Ok(Self {
            kind,
            folder: named(plan),
            plan: absolute,
            shards,
        })
    }

    pub(crate) fn of_kind(&self, kind: Kind) -> Self {
        Self {
            kind,
            ..self.clone()
        }
    }

    /// The plan, when it is there and the one that is meant.
    pub(crate) fn plan(&self, owner: Option<OwnerKey>) -> FusionResult<ShardPlan> {
        let Some(owner) = owner else {
            return Err(failed(
                &"this process has no owner's key, and runs no stage",
            ));
        };
        let plan =
            ShardPlan::load(&self.plan, owner.0).map_err(|error| of_corpus("--plan", error))?;
        if named(&plan) != self.folder {
            return Err(failed(&format!(
                "{}: it is not the plan that the client read",
                self.plan.display()
            )));
        }
        Ok(plan)
    }
}

fn named(plan: &ShardPlan) -> PathBuf {
    plan.folder().file_name().unwrap_or_default().into()
}

/// An error that a repetition does not help, in one line.
pub(crate) fn failed(said: &dyn std::fmt::Display) -> DataFusionError {
    DataFusionError::Execution(short(said))
}

/// Why a stage failed. Where the system failed it, another try may not; all else is final. Errors of `corpus` have no
/// text of a corpus in them.
pub(crate) fn of_stage(stage: ShardStage, error: Error) -> DataFusionError {
    of_corpus(&stage.to_string(), error)
}

fn of_corpus(place: &str, error: Error) -> DataFusionError {
    let said = short(&format!("{place}: {error}"));
    match error {
        Error::Read { source, .. } | Error::Write { source, .. } => {
            DataFusionError::IoError(std::io::Error::new(source.kind(), said))
        }
        _ => DataFusionError::Execution(said),
    }
}

/// The error of a query as somebody can read it: ours, without what it was wrapped in on the way.
pub(crate) fn readable(error: &DataFusionError) -> String {
    let whole = error.strip_backtrace();
    let Some(at) = whole.rfind(OURS) else {
        return whole;
    };
    // In a string as Rust's Debug writes it.
    let (mut out, mut escaped) = (String::new(), false);
    for letter in whole[at + OURS.len()..].chars() {
        match letter {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => break,
            _ => {
                out.push(letter);
                escaped = false;
            }
        }
    }
    out
}

fn short(said: &dyn std::fmt::Display) -> String {
    let said = said.to_string();
    let words: Vec<&str> = said.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{OURS}{}…", &line[..end]),
        None => format!("{OURS}{line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_one_short_line() {
        let said = short(&format!("a\n  b{}", "é".repeat(500)));
        assert!(said.starts_with("audit-cluster: a bé"), "{said}");
        assert_eq!(said.chars().count(), OURS.len() + LONGEST + 1);
        let wrapped = format!("Job 7 failed: {:?}", failed(&"a \"b\" c"));
        let wrapped = DataFusionError::External(wrapped.into());
        assert_eq!(readable(&wrapped), "a \"b\" c");
        let io = Error::Read {
            path: "a".into(),
            source: std::io::ErrorKind::TimedOut.into(),
        };
        let error = of_stage(ShardStage::Scan(3), io);
        assert!(matches!(&error, DataFusionError::IoError(_)), "{error}");
        assert!(
            error.to_string().contains("--stage scan --shard 3: a"),
            "{error}"
        );
        let other = of_stage(ShardStage::Join, Error::Sharding("no".to_owned()));
        assert!(matches!(other, DataFusionError::Execution(_)));
    }
}
