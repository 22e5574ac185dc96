//! Mechanisms from files, and mechanisms in words. What a document may contain is defined by
//! [`reticent_accounting::training::read`] for all commands.

mod fold;
#[cfg(test)]
mod tests;
pub(crate) mod words;

pub(crate) use fold::{fold, times};

use anyhow::{Context, Result, bail};
use reticent_accounting::mechanism::to_event;
#[cfg(feature = "findings")]
use reticent_accounting::training::outside_text;
use reticent_accounting::training::{self, Base, CompletedRun, Document, TrainingPlan};
use reticent_accounting::{Delta, Neighbours, UnitName};
use std::io::Read;
use std::path::Path;

/// The largest size that is read, in bytes.
const LARGEST: u64 = 64 << 20;

/// A mechanism and its source.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Loaded {
    /// The file's name as given; `stdin` for `-`.
    pub(crate) name: String,
    /// The contents of the file.
    pub(crate) document: Document,
    /// Whether it holds a promise, such as (ε, δ) of an event, that doesn't state its neighbours.
    pub(crate) unnamed: bool,
    /// What is to be said of it if it is a manifest that isn't authenticated with the owner's key, or if what it was made
    /// from wasn't.
    pub(crate) caveat: Option<String>,
}

impl Loaded {
    /// Returns what is to be said of a promise that is taken from the file: that it is not authenticated, and what it
    /// does not cover.
    #[cfg(feature = "findings")]
    pub(crate) fn caveats(&self) -> Option<String> {
        let outside = outside_text(self.document.base, self.document.held_out_public);
        let outside = outside.map(|text| format!("not covered is {text}"));
        let said: Vec<String> = self.caveat.clone().into_iter().chain(outside).collect();
        (!said.is_empty()).then(|| format!("{}: {}", self.name, said.join("; ")))
    }
}

/// What is to be said of a manifest that no owner's folder is beside.
const AWAY: &str =
    "not authenticated: read away from its checkpoint; a consistent forgery would not be noticed";

/// What is to be said of an authenticated manifest whose corpus was not.
const OF_CORPUS: &str = "the prepared corpus of the run was not authenticated by its owner's key: the folder's facts were taken as they \
                         stood";

/// What is to be said of an authenticated manifest of a run that continues another.
const OF_EARLIER_RUN: &str = "the manifest of the earlier run, which this one continues, was not authenticated: a consistent forgery \
                              would not have been noticed";

/// What is to be said of a document that says it of itself.
const OF_FILES: &str =
    "made from files that were not authenticated: a consistent forgery would not have been noticed";

/// Returns what is to be said of a run whose own manifest is authenticated: what it was made from was not.
pub(crate) fn not_authenticated(plan: &TrainingPlan) -> Vec<&'static str> {
    let earlier = plan.continues.as_ref().filter(|run| !run.authenticated);
    let corpus = plan.unauthenticated_corpus.then_some(OF_CORPUS);
    let earlier = earlier.map(|_| OF_EARLIER_RUN);
    corpus.into_iter().chain(earlier).collect()
}

/// Whether the owner's key vouches for the manifest of a checkpoint, in its place there or as another file beside the weights.
#[cfg(feature = "audit")]
fn caveat(checkpoint: &Path, manifest: &str, in_place: bool) -> Result<Option<&'static str>> {
    use reticent_backends::checkpoint::{Authentication, Mark};
    let found = Authentication::of(checkpoint, manifest.as_bytes())?;
    if found == Authentication::NoKey && !in_place {
        return Ok(Some(AWAY));
    }
    Mark::compare(checkpoint, manifest)?;
    Ok(found.caveat())
}

#[cfg(not(feature = "audit"))]
#[expect(
    clippy::unnecessary_wraps,
    reason = "the build with the key's reader can refuse"
)]
const fn caveat(_: &Path, _: &str, in_place: bool) -> Result<Option<&'static str>> {
    Ok(Some(match in_place {
        true => "not authenticated: this build does not read owners' keys",
        false => AWAY,
    }))
}

/// Reads a mechanism from a file, or from stdin for `-`. An event that is only a promise (ε, δ) is taken to be for
/// `neighbours`.
///
/// # Errors
/// Returns an error that names file and key if the file can't be read, is too large, or describes no mechanism.
pub(crate) fn load(path: &Path, neighbours: Neighbours) -> Result<Loaded> {
    let name = if crate::contract::is_stream(path) {
        "stdin".to_owned()
    } else {
        path.display().to_string()
    };
    if path.is_dir() {
        bail!("{name} is a folder; a checkpoint's {name}/manifest.json says what ran");
    }
    if path.extension().is_some_and(|ending| ending == "toml") {
        bail!("{name}: must be JSON, with what runs; a plan file is for account plan");
    }
    let text = read(path).with_context(|| format!("cannot read {name}"))?;
    let in_place = path.file_name().is_some_and(|name| name == "manifest.json");
    loaded(name, &text, neighbours, |document| {
        match document.is_manifest() || in_place {
            true if crate::contract::is_stream(path) => Ok(Some(AWAY)),
            true => caveat(reticent_disk::parent_of(path), &text, in_place),
            false => Ok(None),
        }
    })
}

/// As [`load`], from a text that no checkpoint is beside.
///
/// # Errors
/// Returns an error that names the text and the key if it describes no mechanism.
pub(crate) fn of_text(name: &str, text: &str, neighbours: Neighbours) -> Result<Loaded> {
    loaded(name.to_owned(), text, neighbours, |document| {
        Ok(document.is_manifest().then_some(AWAY))
    })
}

/// Reads a mechanism from a text, of which `caveat` says whether it is authenticated itself.
fn loaded(
    name: String,
    text: &str,
    neighbours: Neighbours,
    caveat: impl FnOnce(&Document) -> Result<Option<&'static str>>,
) -> Result<Loaded> {
    let document = training::read(text, neighbours).with_context(|| name.clone())?;
    // The mechanism differs for other neighbours only if it takes them from the question.
    let others = match neighbours {
        Neighbours::AddRemove => Neighbours::Replace,
        _ => Neighbours::AddRemove,
    };
    let for_others = training::read(text, others).with_context(|| name.clone())?;
    let unnamed = for_others.mechanism != document.mechanism;
    let own = caveat(&document)?;
    let behind = document.plan.iter().flat_map(not_authenticated);
    let of_files = document.not_authenticated.then_some(OF_FILES);
    let said: Vec<&str> = own.into_iter().chain(behind).chain(of_files).collect();
    Ok(Loaded {
        name,
        caveat: (!said.is_empty()).then(|| said.join("; ")),
        document,
        unnamed,
    })
}

/// Returns the status of weights without a manifest as a base model. Our own weights promise nothing without their
/// manifest; only those of sgd, which promised nothing with it, may be declared public.
///
/// # Errors
/// Returns an error if the folder can't be read or holds other weights of ours.
#[cfg(feature = "audit")]
pub(crate) fn origin(folder: &Path, declared_public: bool) -> Result<Base> {
    let mark = reticent_backends::checkpoint::Mark::in_folder(folder)?;
    match (mark, declared_public) {
        (None, false) => Ok(Base::Unstated),
        (None, true) => Ok(Base::DeclaredPublic),
        (Some(mark), true) if !mark.is_private() => Ok(Base::DeclaredPublicUnknownRun),
        (Some(mark), _) => bail!(unknown_origin(folder, &mark)),
    }
}

/// As in the build that reads weights. This build can't tell whether they are our own, so it refuses them unless they are
/// declared public.
///
/// # Errors
/// Returns an error for weights that aren't declared public.
#[cfg(not(feature = "audit"))]
pub(crate) fn origin(folder: &Path, declared_public: bool) -> Result<Base> {
    if declared_public {
        return Ok(Base::DeclaredPublic);
    }
    bail!(
        "{} has no manifest.json, and this build does not read weights: whether they come from a Reticent run is unknown; give --declared-public if they don't, and all text behind them is public",
        folder.display()
    )
}

/// Formats the error for our own weights without their manifest.
#[cfg(feature = "audit")]
#[must_use]
pub(crate) fn unknown_origin(folder: &Path, mark: &reticent_backends::checkpoint::Mark) -> String {
    let instead = match mark.is_private() {
        true => "; --declared-public is only for those of sgd",
        false => ", or give --declared-public if all text behind them is public",
    };
    format!(
        "nothing is promised: {} holds weights that audit train wrote (recipe {:?}), and manifest.json, \
         which says what ran, is missing; put it back{instead}",
        folder.display(),
        mark.recipe
    )
}

fn read(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    // Reads one byte more than allowed, to tell a file that is too large from one that just fits.
    if crate::contract::is_stream(path) {
        std::io::stdin()
            .lock()
            .take(LARGEST + 1)
            .read_to_end(&mut bytes)?;
    } else {
        reticent_disk::open_file_or_pipe(path)?
            .take(LARGEST + 1)
            .read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > LARGEST {
        bail!("must have at most {} MiB", LARGEST >> 20);
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        anyhow::anyhow!(
            "must be UTF-8, byte {} is not",
            error.utf8_error().valid_up_to()
        )
    })?;
    Ok(crate::contract::unmarked(text))
}

/// Format in which a mechanism is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Export {
    /// Our own `mechanism.json`.
    Mechanism,
    /// An event of Google's dp_accounting for Python.
    DpEvent,
}

/// What an exported mechanism keeps beside the run; an event can't.
#[derive(Debug, Clone, Default)]
pub(crate) struct Around<'a> {
    /// What one record is, if known.
    pub(crate) unit: Option<&'a UnitName>,
    /// The number of records, if known.
    pub(crate) records: Option<u64>,
    /// The δ of its promises, if a file has one.
    pub(crate) delta: Option<Delta>,
    /// The most records that differ if one canary does.
    pub(crate) canary_records: u64,
    /// Whether more may in an earlier run.
    pub(crate) canary_records_unknown: bool,
    /// What was not authenticated.
    pub(crate) not_authenticated: Vec<String>,
}

/// Returns what ran as indented JSON. An event doesn't state its neighbours: its reader takes its promises to be for
/// the neighbours that are asked about, which must be `neighbours`.
///
/// # Errors
/// Returns an error if the other format can't describe the mechanism, or for an event of a run that promises less than
/// its mechanism.
pub(crate) fn export(
    run: &CompletedRun,
    around: &Around<'_>,
    format: Export,
    neighbours: Neighbours,
) -> Result<String> {
    let value = match (format, run.narrower()) {
        (Export::Mechanism, recipe) => {
            let (is, noted) = (serde_json::Value::from(true), &around.not_authenticated);
            let members = [
                ("unit", around.unit.map(|unit| serde_json::json!(unit))),
                ("recipe", recipe.map(|recipe| serde_json::json!(recipe))),
                ("dataset_size", around.records.map(Into::into)),
                ("delta", around.delta.map(|delta| serde_json::json!(delta))),
                (
                    "canary_records",
                    (around.canary_records > 0).then(|| around.canary_records.into()),
                ),
                ("labelled", run.labelled.then(|| is.clone())),
                ("base", run.base.map(|base| serde_json::json!(base))),
                ("held_out_public", run.held_out_public.then_some(is)),
                (
                    "not_authenticated",
                    (!noted.is_empty()).then(|| serde_json::json!(noted)),
                ),
            ];
            let members = members.into_iter();
            let members = members.filter_map(|(name, value)| Some((name.to_owned(), value?)));
            let mut members: serde_json::Map<_, _> = members.collect();
            let mechanism = crate::contract::to_json(&run.mechanism)?;
            if members.is_empty() && !around.canary_records_unknown {
                mechanism
            } else {
                let unknown = around.canary_records_unknown;
                members.insert("canary_records_unknown".to_owned(), unknown.into());
                members.insert("mechanism".to_owned(), mechanism);
                members.into()
            }
        }
        (Export::DpEvent, None) => {
            to_event(&run.mechanism, neighbours).context("--export dp-event")?
        }
        (Export::DpEvent, Some(recipe)) => bail!(
            "--export dp-event: {recipe} promises less than differential privacy, which an event can't say; \
             --export mechanism can"
        ),
    };
    Ok(serde_json::to_string_pretty(&value)?)
}
