//! What the owner of a model keeps beside it and never publishes: the canary plan and the key that seals it.

use crate::error::{Error, Result, at};
use crate::files::{private_folder, write_whole};
use crate::manifest::{CanarySeal, hexadecimal};
use crate::random::keyed_digest;
use reticent_corpus::CanaryPlan;
use std::path::{Path, PathBuf};

/// The owner's folder of a checkpoint: `<checkpoint>.owner`, mode 0700.
#[derive(Debug, Clone)]
pub struct Owner {
    folder: PathBuf,
    key: [u8; 32],
}

/// Where the owner's folder of a checkpoint lies.
#[must_use]
pub fn owner_folder(checkpoint: &Path) -> PathBuf {
    sibling(checkpoint, "owner")
}

/// Where the state folder of a run into this checkpoint lies.
#[must_use]
pub fn state_folder(checkpoint: &Path) -> PathBuf {
    sibling(checkpoint, "state")
}

fn sibling(checkpoint: &Path, ending: &str) -> PathBuf {
    let mut name = checkpoint.file_name().unwrap_or_default().to_os_string();
    name.push(".");
    name.push(ending);
    checkpoint.with_file_name(name)
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
            let key = crate::random::RunKey::from_system()?;
            write_whole(&folder.join("key"), hexadecimal(key.bytes()).as_bytes())?;
        }
        Self::open(checkpoint)
    }

    /// Opens the owner's folder of a checkpoint.
    ///
    /// # Errors
    /// No such folder, or a key that is damaged.
    pub fn open(checkpoint: &Path) -> Result<Self> {
        let folder = owner_folder(checkpoint);
        let path = folder.join("key");
        let text = at(&path, std::fs::read_to_string(&path))?;
        let digits = text.trim();
        let bytes: Option<Vec<u8>> = (digits.len() == 64 && digits.is_ascii())
            .then(|| {
                (0..32)
                    .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).ok())
                    .collect()
            })
            .flatten();
        let key = bytes
            .and_then(|b| b.try_into().ok())
            .ok_or_else(|| Error::State {
                path: path.clone(),
                why: "must hold 64 hexadecimal digits".into(),
            })?;
        Ok(Self { folder, key })
    }

    /// Where the plan is kept.
    #[must_use]
    pub fn plan_path(&self) -> PathBuf {
        self.folder.join("canaries.json")
    }

    /// Keeps the plan and seals it for the manifest, with how training met the canaries.
    ///
    /// # Errors
    /// A file that can't be written, or a plan that is no plan.
    pub fn keep(&self, plan: &CanaryPlan, records: u32, on_public_side: u32) -> Result<CanarySeal> {
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
