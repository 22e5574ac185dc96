//! What the owner of a model keeps beside it and never publishes: the canary plan and the key that seals it.

use crate::checkpoint::manifest::CanarySeal;
use crate::error::{Error, Result, at};
use crate::files::{private_folder, sibling, write_whole};
use crate::privacy::random::keyed_digest;
use reticent_corpus::canary::CanaryPlan;
use reticent_corpus::prepare::Prepared;
use reticent_disk::{hexadecimal, read_key, read_regular_text};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Longest plan or code, in bytes: 256 MiB.
const LARGEST: u64 = 256 << 20;

/// The file of the canary plan.
const PLAN: &str = "canaries.json";
/// The file of the authentication code of the checkpoint's manifest.
const CODE: &str = "manifest.code";
/// What it is a code of.
const MANIFEST: &[u8] = b"manifest";
/// The code of the secrets that a run of `protect` was certified for.
const SECRETS: &str = "secrets.code";
/// The code of the records that were trained on.
const RECORDS: &str = "records.code";

/// Whether a checkpoint's manifest is known to be the one that its owner wrote.
///
/// Whoever can rewrite all files of a checkpoint consistently can't be found out without the
/// owner's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Authentication {
    /// The code under the owner's key, which is at hand, is that of this manifest.
    Authenticated,
    /// The owner's key is at hand, and has authenticated no manifest.
    NotAuthenticated,
    /// The owner's folder is not beside the checkpoint.
    NoKey,
}

impl Authentication {
    /// Of the manifest of a checkpoint, as read.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] where the owner authenticated another manifest; an owner's key that
    /// is damaged.
    pub fn of(checkpoint: &Path, manifest: &[u8]) -> Result<Self> {
        if !owner_folder(checkpoint).join("key").exists() {
            return Ok(Self::NoKey);
        }
        let owner = Owner::open(checkpoint)?;
        match owner.kept_code(CODE, MANIFEST, manifest)? {
            None => Ok(Self::NotAuthenticated),
            Some(true) => Ok(Self::Authenticated),
            Some(false) => Err(Error::Checkpoint {
                path: checkpoint.join("manifest.json"),
                why: format!(
                    "not the one that its owner authenticated ({}): edited, or of another run",
                    owner.folder.join(CODE).display()
                ),
            }),
        }
    }

    /// What is to be said where it is not authenticated.
    #[must_use]
    pub const fn caveat(self) -> Option<&'static str> {
        match self {
            Self::Authenticated => None,
            Self::NotAuthenticated => Some(
                "not authenticated: the owner's key has no code of it; a consistent forgery would not be noticed",
            ),
            Self::NoKey => Some(
                "not authenticated: the owner's folder is not beside the checkpoint; a consistent forgery would not be noticed",
            ),
        }
    }
}

/// The owner's folder of a checkpoint: `<checkpoint>.owner`, mode 0700.
#[derive(Debug, Clone)]
pub struct Owner {
    folder: PathBuf,
    key: [u8; 32],
}

/// Where the owner's folder of a checkpoint lies: beside it, or beside the folder that `.` or a link stands for.
#[must_use]
pub fn owner_folder(checkpoint: &Path) -> PathBuf {
    let beside = sibling(checkpoint, "owner");
    match checkpoint.canonicalize() {
        Ok(resolved) if !beside.exists() => sibling(&resolved, "owner"),
        _ => beside,
    }
}

/// Where the state folder of a run into this checkpoint lies.
#[must_use]
pub fn state_folder(checkpoint: &Path) -> PathBuf {
    sibling(checkpoint, "state")
}

impl Owner {
    /// Opens the owner's folder of a checkpoint, or makes it with a key from the system.
    ///
    /// # Errors
    /// A folder that can't be made or a key that is damaged.
    pub fn open_or_create(checkpoint: &Path) -> Result<Self> {
        let folder = owner_folder(checkpoint);
        private_folder(&folder)?;
        if !folder.join("key").exists() {
            let key = crate::privacy::random::RunKey::from_system()?;
            write_whole(&folder.join("key"), hexadecimal(key.bytes()).as_bytes())?;
        }
        Self::open(checkpoint)
    }

    /// The same with the key of another checkpoint of the same run, where that has one: what one seals the other knows.
    ///
    /// # Errors
    /// As [`Owner::open_or_create`].
    pub fn open_or_create_beside(checkpoint: &Path, other: &Path) -> Result<Self> {
        let folder = owner_folder(checkpoint);
        if let (Ok(other), false) = (Self::open(other), folder.join("key").exists()) {
            private_folder(&folder)?;
            write_whole(&folder.join("key"), hexadecimal(&other.key).as_bytes())?;
        }
        Self::open_or_create(checkpoint)
    }

    /// Opens the owner's folder of a checkpoint.
    ///
    /// # Errors
    /// No such folder, or a key that is damaged.
    pub fn open(checkpoint: &Path) -> Result<Self> {
        let folder = owner_folder(checkpoint);
        let path = folder.join("key");
        let key = at(&path, read_key(&path))?;
        Ok(Self { folder, key })
    }

    /// Where the plan is kept.
    #[must_use]
    pub fn plan_path(&self) -> PathBuf {
        self.folder.join(PLAN)
    }

    /// Whether the owner's folder of a checkpoint has room for a run with this plan, or with none: it holds no other one.
    ///
    /// # Errors
    /// [`Error::Io`] (already exists) where it holds another plan, without which the model of that plan can't be audited.
    pub fn has_room_for(plan: Option<&CanaryPlan>, checkpoint: &Path) -> Result<()> {
        free_of_others(&owner_folder(checkpoint), plan)
    }

    /// Keeps the plan and seals it for the manifest, with how training met the canaries.
    ///
    /// # Errors
    /// As [`Owner::has_room_for`]; a file that can't be written, or a plan that is no plan.
    pub fn keep(&self, plan: &CanaryPlan, records: u32, on_public_side: u32) -> Result<CanarySeal> {
        free_of_others(&self.folder, Some(plan))?;
        let json = plan
            .to_json()
            .map_err(|e| Error::Unsuitable(e.to_string()))?;
        write_whole(&self.plan_path(), json.as_bytes())?;
        Ok(CanarySeal {
            canaries: plan.canaries.len() as u32,
            copies: plan.copies,
            records,
            on_public_side,
            digest: self.digest(plan)?,
        })
    }

    /// Writes down, under this key, that a manifest is the owner's.
    ///
    /// # Errors
    /// A file that can't be written.
    pub(crate) fn authenticate(&self, manifest: &[u8]) -> Result<()> {
        self.keep_code(CODE, MANIFEST, manifest)
    }

    /// Keeps the log of the run, which no guarantee covers.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn keep_log(&self, name: &str, bytes: &[u8]) -> Result<()> {
        write_whole(&self.folder.join(name), bytes)
    }

    /// Writes down, under this key, which secrets the run was certified for: nobody without the key can test a
    /// guess of their names by it.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn keep_secrets(&self, names: &[u8]) -> Result<()> {
        self.keep_code(SECRETS, b"secrets", names)
    }

    /// Whether these are the secrets that were kept; nothing where none were.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn kept_secrets(&self, names: &[u8]) -> Result<Option<bool>> {
        self.kept_code(SECRETS, b"secrets", names)
    }

    /// Writes down, under this key, which records were trained on, texts and tokens: nobody without the key can test a
    /// guess of them by it.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn keep_records(&self, prepared: &Prepared) -> Result<()> {
        self.keep_code(RECORDS, b"records", &names(prepared))
    }

    /// Whether these are the records that were trained on; nothing where they were not written down.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn kept_records(&self, prepared: &Prepared) -> Result<Option<bool>> {
        self.kept_code(RECORDS, b"records", &names(prepared))
    }

    fn keep_code(&self, file: &str, purpose: &[u8], bytes: &[u8]) -> Result<()> {
        let code = hexadecimal(&self.code_for(purpose, bytes));
        write_whole(&self.folder.join(file), code.as_bytes())
    }

    fn kept_code(&self, file: &str, purpose: &[u8], bytes: &[u8]) -> Result<Option<bool>> {
        let path = self.folder.join(file);
        if !path.exists() {
            return Ok(None);
        }
        let kept = at(&path, read_regular_text(&path, LARGEST))?;
        Ok(Some(
            kept.trim() == hexadecimal(&self.code_for(purpose, bytes)),
        ))
    }

    fn code_for(&self, purpose: &[u8], bytes: &[u8]) -> [u8; 32] {
        keyed_digest(&keyed_digest(&self.key, purpose), bytes)
    }

    /// HMAC-SHA256 of a plan under this key, hexadecimal.
    ///
    /// # Errors
    /// A plan that is no plan.
    pub fn digest(&self, plan: &CanaryPlan) -> Result<String> {
        let json = plan
            .to_json()
            .map_err(|e| Error::Unsuitable(e.to_string()))?;
        Ok(hexadecimal(&keyed_digest(&self.key, json.as_bytes())))
    }
}

/// Refuses an owner's folder that holds another plan than this.
fn free_of_others(folder: &Path, plan: Option<&CanaryPlan>) -> Result<()> {
    let path = folder.join(PLAN);
    let kept = match read_regular_text(&path, LARGEST) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        kept => at(&path, kept)?,
    };
    if CanaryPlan::from_json(&kept).is_ok_and(|kept| Some(&kept) == plan) {
        return Ok(());
    }
    let why = "the canary plan of another model, which can't be audited without it; move this folder to that model, or \
               remove it";
    at(
        &path,
        Err(std::io::Error::new(ErrorKind::AlreadyExists, why)),
    )
}

/// The ids of the records, which digest their texts and tokens, in order.
fn names(prepared: &Prepared) -> Vec<u8> {
    let mut names = Vec::new();
    for id in prepared.ids() {
        names.extend(id.into_bytes());
        names.push(b'\n');
    }
    names
}
