//! The log of a training run as JSON Lines: one line for each step, and one at the end of each epoch of the last
//! phase.
//!
//! How much was clipped and the loss of an ordinary batch are functions of the text that no guarantee covers.
//! Therefore the log is written in the state folder and ends up in the owner's.

use crate::contract::to_json;
use anyhow::{Context, Result};
use reticent_accounting::confidentiality::Standing;
use reticent_accounting::training::{Recipe, Subject, TrainingPlan};
use reticent_accounting::{Convention, Delta, Neighbours, Notion, Tolerance, UnitName};
use reticent_backends::checkpoint::Owner;
use reticent_backends::run::{Epoch, TrainProgress};
use reticent_disk::{DiskFile, WholeFile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// The name of the log in both folders.
pub(super) const LOG: &str = "training.jsonl";

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub(crate) enum Line {
    /// A step.
    Step {
        /// Its number, from 1, both sides.
        step: u64,
        /// The epoch it belongs to, from 1.
        epoch: u64,
        /// Mean loss of an ordinary batch, nats per token; of a classifier, per record.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        loss: Option<f64>,
        /// Records of a private batch.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        examples: Option<u64>,
        /// Those whose gradient exceeded the clipping norm.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        clipped: Option<u64>,
    },
    /// The end of an epoch of the last phase.
    Epoch {
        /// Steps finished.
        step: u64,
        /// The epoch that ended, from 1.
        ended: u64,
        /// What the weights after it promise about a record, by definition; nothing for a run without a promise.
        promises: Vec<Promised>,
        /// Perplexity of the held-out text.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        held_out_perplexity: Option<f64>,
        /// Of a classifier: the share of held-out records with the correct class.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        held_out_accuracy: Option<f64>,
        /// The mean of F1 over its classes.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        held_out_macro_f1: Option<f64>,
    },
}

/// What is promised about a record after an epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Promised {
    /// What kind of promise it is.
    notion: Notion,
    /// What one record of the promise is.
    unit: UnitName,
    /// Neighbouring relation.
    neighbours: Neighbours,
    /// Whether it holds between records of one class only.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    same_class: bool,
    /// δ.
    delta: Delta,
    /// The upper bound on ε.
    epsilon: f64,
}

impl Line {
    pub(super) fn of_step(at: &TrainProgress) -> Self {
        Self::Step {
            step: at.step,
            epoch: at.epoch,
            loss: at.loss,
            examples: at.added.map(|added| added.examples as u64),
            clipped: at.added.map(|added| added.clipped as u64),
        }
    }

    /// Returns the line for the end of an epoch, with what its weights promise.
    ///
    /// # Errors
    /// Returns an error if the plan can't be accounted.
    pub(super) fn of_epoch(epoch: &Epoch<'_>, tolerance: Tolerance) -> Result<Self> {
        let number = epoch.number as usize - 1;
        let classes = epoch.ran.classified.get(number);
        let held_out = epoch.ran.held_out.get(number);
        let held_out = held_out.filter(|_| classes.is_none());
        Ok(Self::Epoch {
            step: epoch.step,
            ended: epoch.number,
            promises: promises(&epoch.ran.plan, tolerance)?,
            held_out_perplexity: held_out.map(|loss| loss.exp()),
            held_out_accuracy: classes.map(|classes| classes.accuracy),
            held_out_macro_f1: classes.map(|classes| classes.macro_f1),
        })
    }

    /// Returns its numbers, named by their keys.
    pub(super) fn scalars(&self) -> Vec<(String, f64)> {
        let mut out = Vec::new();
        let mut add = |name: &str, value: Option<f64>| {
            out.extend(value.map(|value| (name.to_owned(), value)));
        };
        match self {
            Self::Step {
                loss,
                examples,
                clipped,
                ..
            } => {
                add("loss", *loss);
                add("examples", examples.map(|n| n as f64));
                let share = examples.zip(*clipped).filter(|(all, _)| *all > 0);
                add(
                    "clipped_share",
                    share.map(|(all, clipped)| clipped as f64 / all as f64),
                );
            }
            Self::Epoch {
                promises,
                held_out_perplexity,
                held_out_accuracy,
                held_out_macro_f1,
                ..
            } => {
                add("held_out_perplexity", *held_out_perplexity);
                add("held_out_accuracy", *held_out_accuracy);
                add("held_out_macro_f1", *held_out_macro_f1);
                for promise in promises {
                    add(&promise.name(), Some(promise.epsilon));
                }
            }
        }
        out
    }

    pub(super) const fn step(&self) -> u64 {
        match self {
            Self::Step { step, .. } | Self::Epoch { step, .. } => *step,
        }
    }
}

impl Promised {
    /// Returns the name of its ε among scalars: `epsilon/notion/unit/neighbours`.
    fn name(&self) -> String {
        let notion = to_json(&self.notion).unwrap_or_default();
        let notion = notion.as_str().unwrap_or_default();
        format!("epsilon/{notion}/{}/{}", self.unit, self.neighbours)
    }
}

/// Returns the finite promises about a record by definition. What the papers computed for other neighbours is no promise:
/// the presence of a record of which a part is trained on without noise is not protected. Nor is a redacted part promised
/// anything where the answer promises nothing: some secret may be trained on in the open.
fn promises(plan: &TrainingPlan, tolerance: Tolerance) -> Result<Vec<Promised>> {
    let splits = plan.run.recipe() == Some(Recipe::Crt);
    if splits && plan.worst_secret() == Some(Standing::Exposed) {
        return Ok(Vec::new());
    }
    let rows = plan.guarantees_about(Subject::Record, tolerance)?;
    let defined = rows
        .into_iter()
        .filter(|row| row.convention == Convention::Definition);
    let finite = defined.filter_map(|row| {
        let epsilon = row.epsilon?.upper?.get().get();
        epsilon.is_finite().then_some(Promised {
            notion: row.notion,
            unit: row.unit,
            neighbours: row.neighbours,
            same_class: row.same_class,
            delta: row.delta?,
            epsilon,
        })
    });
    Ok(finite.collect())
}

/// The log of a run in progress.
pub(super) struct Log {
    path: PathBuf,
    file: Option<DiskFile>,
}

impl Log {
    /// Creates a log in this folder, where one may exist from before an interruption.
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            path: folder.join(LOG),
            file: None,
        }
    }

    /// Appends a line. The first line determines where an interrupted run resumes: existing lines of that step and
    /// later belong to steps that are taken again.
    ///
    /// # Errors
    /// Returns an error if the file can't be read or written.
    pub(super) fn write(&mut self, line: &Line) -> std::io::Result<()> {
        if self.file.is_none() {
            self.file = Some(self.open(line.step())?);
        }
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        match &mut self.file {
            Some(file) => file.write_all(text.as_bytes()),
            None => Ok(()),
        }
    }

    /// The lines that are kept replace the file as a whole: a process that is killed meanwhile loses none of them. A link in
    /// its place is refused.
    fn open(&self, from: u64) -> std::io::Result<DiskFile> {
        let mut whole = WholeFile::create(&self.path, true)?;
        let mut kept = String::new();
        if let Ok(file) = File::open(&self.path) {
            for line in BufReader::new(file).lines() {
                let line = line?;
                match serde_json::from_str::<Line>(&line) {
                    Ok(earlier) if earlier.step() < from => kept.extend([line.as_str(), "\n"]),
                    // Stops at a line of a later step, or at one left incomplete by a killed process.
                    _ => break,
                }
            }
        }
        whole.write_all(kept.as_bytes())?;
        whole.finish()?;
        let mut file = DiskFile::again(&self.path)?;
        file.cut(kept.len() as u64)?;
        Ok(file)
    }

    /// Moves the log to its owner's folder.
    ///
    /// # Errors
    /// Returns an error if the file can't be read or written.
    pub(super) fn keep(self, owner: &Owner) -> Result<()> {
        let Self { path, file } = self;
        drop(file);
        if path.exists() {
            let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
            owner.keep_log(LOG, &bytes)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reticent_accounting::confidentiality::{CorpusFacts, Knowledge, Spread};
    use reticent_accounting::training::{NoisySteps, Run, Stated};
    use reticent_disk::failing;

    fn step(step: u64) -> Line {
        Line::Step {
            step,
            epoch: 1,
            loss: Some(step as f64),
            examples: None,
            clipped: None,
        }
    }

    /// Where every secret is caught or noised, a redacted part of a record is promised something, the presence of the
    /// record nothing: the public side is trained on without noise.
    #[test]
    fn what_papers_computed_is_not_logged_as_a_promise() {
        let noisy = || NoisySteps::poisson(2.0, 0.1, 2).unwrap();
        let crt = Run::Crt {
            private: Some(noisy()),
            epochs: 2,
            public_passes: Stated::given(1, "test"),
        };
        let dpsgd = Run::Dpsgd { private: noisy() };
        let tolerance = Tolerance::new(1e-3).unwrap();
        // Of three secrets, so many missed by the policy, and by both.
        let counted = |missed, by_both| {
            let spread = Spread::AtMost(1);
            CorpusFacts::new(3, missed, by_both, missed, spread, Knowledge::Counted).unwrap()
        };
        let redacted = &["epsilon/confidentiality/turn/replace"][..];
        for (run, facts, names) in [
            (crt.clone(), Some(counted(0, 0)), redacted),
            (crt.clone(), Some(counted(1, 0)), redacted),
            (crt.clone(), Some(counted(1, 1)), &[]),
            (crt, None, &[]),
            (
                dpsgd,
                None,
                &["epsilon/dp/turn/add-remove", "epsilon/dp/turn/replace"],
            ),
        ] {
            let mut plan = TrainingPlan::new(run, UnitName::new("turn").unwrap());
            plan.secrets.facts = facts;
            let found = promises(&plan, tolerance).unwrap();
            let found: Vec<String> = found.iter().map(Promised::name).collect();
            assert_eq!(found, names);
        }
    }

    #[test]
    fn a_run_that_goes_on_writes_every_step_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::new(folder.path());
        (1..=5).for_each(|n| log.write(&step(n)).unwrap());
        drop(log);
        // Killed while it wrote the sixth; the last snapshot is that of the third.
        let path = folder.path().join(LOG);
        let torn = std::fs::read_to_string(&path).unwrap() + "{\"step\":6,\"ep";
        std::fs::write(&path, torn).unwrap();
        let mut log = Log::new(folder.path());
        (4..=7).for_each(|n| log.write(&step(n)).unwrap());
        drop(log);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(parsed(&text), (1..=7).map(step).collect::<Vec<_>>());
    }

    fn parsed(text: &str) -> Vec<Line> {
        let lines = text.lines();
        lines.map(|l| serde_json::from_str(l).unwrap()).collect()
    }

    /// A full disk at any write is an error, and costs no line of steps that are not taken again.
    #[test]
    fn a_full_disk_leaves_the_lines_before() {
        let mut failures = 0;
        for writes in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(LOG);
            let mut log = Log::new(folder.path());
            (1..=3).for_each(|n| log.write(&step(n)).unwrap());
            drop(log);
            let mut log = Log::new(folder.path());
            failing::after(Some(writes));
            let end = (3..=4).try_for_each(|n| log.write(&step(n)));
            failing::after(None);
            drop(log);
            let Err(error) = end else { break };
            assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{writes}");
            failures += 1;
            let mut log = Log::new(folder.path());
            log.write(&step(3)).unwrap();
            drop(log);
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(parsed(&text), [1, 2, 3].map(step), "{writes}");
        }
        assert!(failures > 4, "{failures}");
    }

    /// Losses of single batches tell of private text.
    #[cfg(unix)]
    #[test]
    fn only_its_owner_reads_the_log_and_no_link_is_followed() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOG);
        let other = folder.path().join("other");
        std::fs::write(&other, "kept").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        let write = || Log::new(folder.path()).write(&step(1));
        assert!(write().unwrap_err().to_string().contains("link"));
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "kept");
        std::fs::remove_file(&path).unwrap();
        // As earlier versions left it.
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        for _ in 0..2 {
            write().unwrap();
            let mode = path.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
