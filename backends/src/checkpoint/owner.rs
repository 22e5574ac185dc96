//! The folder of secrets that a model's owner keeps beside it and never publishes: the canary plan and the key that
//! seals it.

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

/// Maximum length of a plan or code, in bytes: 256 MiB.
const LARGEST: u64 = 256 << 20;

/// The file of the canary plan.
const PLAN: &str = "canaries.json";
/// The file of the authentication code of the checkpoint's manifest.
const CODE: &str = "manifest.code";
/// The purpose of that code.
const MANIFEST: &[u8] = b"manifest";
/// The file of the authentication code of the secrets for which a run of `protect` was certified.
const SECRETS: &str = "secrets.code";
/// The file of the authentication code of the training records.
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
    /// Checks the manifest of a checkpoint, as read.
    ///
    /// # Errors
    /// Returns [`Error::Checkpoint`] if the owner authenticated another manifest, or an error if the owner's key is
    /// damaged.
    pub fn of(checkpoint: &Path, manifest: &[u8]) -> Result<Self> {
        if !owner_folder(checkpoint).join("key").exists() {
            return Ok(Self::NoKey);
        }
        let owner = Owner::open(checkpoint)?;
        match owner.kept_code(CODE, MANIFEST, manifest)? {
            None => Ok(Self::NotAuthenticated),
            Some(true) => Ok(Self::Authenticated),
            Some(false) => Err(Error::checkpoint(
                checkpoint.join("manifest.json"),
                format!(
                    "not the one that its owner authenticated ({}): edited, or of another run",
                    owner.folder.join(CODE).display()
                ),
            )),
        }
    }

    /// Returns the caveat for a manifest that is not authenticated.
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

/// Returns the path of a checkpoint's owner's folder: beside the checkpoint, or beside the folder that `.` or a link
/// resolves to.
#[must_use]
pub fn owner_folder(checkpoint: &Path) -> PathBuf {
    let beside = sibling(checkpoint, "owner");
    match checkpoint.canonicalize() {
        Ok(resolved) if !beside.exists() => sibling(&resolved, "owner"),
        _ => beside,
    }
}

/// Returns the path of the state folder of a run into this checkpoint.
#[must_use]
pub fn state_folder(checkpoint: &Path) -> PathBuf {
    sibling(checkpoint, "state")
}

impl Owner {
    /// Opens the owner's folder of a checkpoint, or creates it with a key from the system.
    ///
    /// # Errors
    /// Returns an error if the folder can't be created or the key is damaged.
    pub fn open_or_create(checkpoint: &Path) -> Result<Self> {
        let folder = owner_folder(checkpoint);
        private_folder(&folder)?;
        if !folder.join("key").exists() {
            let key = crate::privacy::random::RunKey::from_system()?;
            write_whole(&folder.join("key"), hexadecimal(key.bytes()).as_bytes())?;
        }
        Self::open(checkpoint)
    }

    /// Like `open_or_create`, but a new folder takes the key of another checkpoint of the same run, if that has
    /// one, so that both share their seals.
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
    /// Returns an error if there is no such folder or the key is damaged.
    pub fn open(checkpoint: &Path) -> Result<Self> {
        let folder = owner_folder(checkpoint);
        let path = folder.join("key");
        let key = at(&path, read_key(&path))?;
        Ok(Self { folder, key })
    }

    /// Returns the path of the plan.
    #[must_use]
    pub fn plan_path(&self) -> PathBuf {
        self.folder.join(PLAN)
    }

    /// Checks that the owner's folder of a checkpoint has room for this plan: it holds no other one; with `None`, it
    /// holds none.
    ///
    /// # Errors
    /// Returns [`Error::Io`] (already exists) if it holds another plan, without which the model of that plan can't be
    /// audited.
    pub fn has_room_for(plan: Option<&CanaryPlan>, checkpoint: &Path) -> Result<()> {
        free_of_others(&owner_folder(checkpoint), plan)
    }

    /// Stores the plan and seals it for the manifest, with the numbers on how training met the canaries.
    ///
    /// # Errors
    /// As [`Owner::has_room_for`]; a file that can't be written, or a plan that is no plan.
    pub fn keep(
        &self,
        plan: &CanaryPlan,
        records: u32,
        on_public_side: u32,
        reached: u32,
    ) -> Result<CanarySeal> {
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
            reached,
            digest: self.digest(plan)?,
        })
    }

    /// Stores the code under this key that marks a manifest as the owner's.
    ///
    /// # Errors
    /// Returns an error if the file can't be written.
    pub(crate) fn authenticate(&self, manifest: &[u8]) -> Result<()> {
        self.keep_code(CODE, MANIFEST, manifest)
    }

    /// Stores the log of the run, which no guarantee covers.
    ///
    /// # Errors
    /// Returns an error if the file can't be written.
    pub fn keep_log(&self, name: &str, bytes: &[u8]) -> Result<()> {
        write_whole(&self.folder.join(name), bytes)
    }

    /// Stores a code under this key of the secrets for which the run was certified. Without the key nobody can use it
    /// to test a guess of their names.
    ///
    /// # Errors
    /// Returns an error if the file can't be written.
    pub fn keep_secrets(&self, names: &[u8]) -> Result<()> {
        self.keep_code(SECRETS, b"secrets", names)
    }

    /// Returns whether these are the stored secrets, or `None` if none were stored.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn kept_secrets(&self, names: &[u8]) -> Result<Option<bool>> {
        self.kept_code(SECRETS, b"secrets", names)
    }

    /// Stores a code under this key of the texts and tokens of the training records. Without the key nobody can use it
    /// to test a guess of them.
    ///
    /// # Errors
    /// Returns an error if the file can't be written.
    pub fn keep_records(&self, prepared: &Prepared) -> Result<()> {
        self.keep_code(RECORDS, b"records", &names(prepared))
    }

    /// Returns whether these are the training records, or `None` if none were stored.
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

    /// Returns the HMAC-SHA256 of a plan under this key, hexadecimal.
    ///
    /// # Errors
    /// Returns an error if the plan is invalid.
    pub fn digest(&self, plan: &CanaryPlan) -> Result<String> {
        let json = plan
            .to_json()
            .map_err(|e| Error::Unsuitable(e.to_string()))?;
        Ok(hexadecimal(&keyed_digest(&self.key, json.as_bytes())))
    }
}

/// Refuses an owner's folder that holds a plan other than this one.
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

/// Returns the ids of the records, which are digests of their texts and tokens, in order.
fn names(prepared: &Prepared) -> Vec<u8> {
    let mut names = Vec::new();
    for id in prepared.ids() {
        names.extend(id.into_bytes());
        names.push(b'\n');
    }
    names
}
