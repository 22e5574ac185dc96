//! Digests of private words in reports. Nobody can test guessed words with the report alone; the holder of the owner's
//! key can tell whether two reports used the same words.
//!
//! The key is the user's: 32 bytes in hexadecimal, in the file that `RETICENT_OWNER_KEY` names, otherwise in
//! `reticent/owner.key` in the configuration folder. It is drawn from the system's randomness when it is first needed.

use crate::contract::{Inputs, note};
use anyhow::{Context, Result, bail, ensure};
use reticent_accounting::UnitName;
use reticent_accounting::confidentiality::MeasuredFor;
use reticent_backends::privacy::{RunKey, keyed_digest};
use reticent_corpus::policy::{ConservativeOptions, PolicyChoice};
use reticent_corpus::prepare::Prepared;
use reticent_disk::{OWNER_KEY as VARIABLE, hexadecimal, read_by_others, read_key};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Adds the digest that identifies the policy: a plain one, or one under the owner's key if the policy contains words
/// or patterns of its owner. Without a place for a key, there is no digest.
pub(super) fn with_policy(inputs: Inputs, policy: &PolicyChoice) -> Result<Inputs> {
    if is_private(policy) {
        return Ok(inputs.given("policy_hmac", policy_hmac(policy)?)?);
    }
    Ok(inputs.given("policy_sha256", policy.sha256())?)
}

/// What labels were measured for, or a corpus was prepared with.
pub(crate) fn measured_for(
    policy: &PolicyChoice,
    conservative: Option<&ConservativeOptions>,
    unit: UnitName,
) -> Result<MeasuredFor> {
    let digest = |is_private: bool, purpose: &str, sha256: String| -> Result<Option<String>> {
        match is_private {
            true => Ok(hmac(purpose, sha256.as_bytes())?.map(|digest| format!("hmac:{digest}"))),
            false => Ok(Some(format!("sha256:{sha256}"))),
        }
    };
    let conservative = conservative
        .map(|options| {
            let is_private = !options.patterns.is_empty();
            digest(is_private, "conservative", options.sha256())
        })
        .transpose()?;
    let kind = serde_json::to_value(policy)?;
    Ok(MeasuredFor {
        policy: kind["type"].as_str().unwrap_or("policy").to_owned(),
        digest: digest(is_private(policy), "policy", policy.sha256())?,
        conservative: conservative.flatten(),
        unit,
        seed: None,
    })
}

/// Of a policy as data.
pub(super) fn policy_hmac(policy: &PolicyChoice) -> Result<Option<String>> {
    hmac("policy", policy.sha256().as_bytes())
}

/// Which records an audit measured: under one key, two documents have the same digest exactly if they are of the same
/// records, whatever their file names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RecordsDigest {
    /// HMAC-SHA256 of the texts, in any order, under the owner's key.
    hmac: String,
    /// Which key that is: digests under different keys are not comparable.
    key: String,
}

impl RecordsDigest {
    /// Returns the digest of texts of several kinds, such as members and non-members; `None` without a place for a
    /// key.
    ///
    /// # Errors
    /// Returns an error if the key is damaged or can't be made.
    pub(super) fn of(kinds: &[&[String]]) -> Result<Option<Self>> {
        let mut lines = Vec::new();
        for (kind, texts) in kinds.iter().enumerate() {
            for text in *texts {
                let Some(digest) = self::hmac("record", text.as_bytes())? else {
                    return Ok(None);
                };
                lines.push(format!("{kind} {digest}\n"));
            }
        }
        lines.sort_unstable();
        let (Some(hmac), Some(key)) = (
            self::hmac("records", lines.concat().as_bytes())?,
            self::hmac("key", b"")?,
        ) else {
            return Ok(None);
        };
        Ok(Some(Self { hmac, key }))
    }
}

/// Returns whether a policy contains words or patterns of its owner.
fn is_private(policy: &PolicyChoice) -> bool {
    match policy {
        PolicyChoice::Patterns { .. } | PolicyChoice::Dictionary(_) => true,
        PolicyChoice::Any { of } | PolicyChoice::All { of } | PolicyChoice::AtLeast { of, .. } => {
            of.iter().any(is_private)
        }
        PolicyChoice::Threshold { of, .. } => is_private(of),
        PolicyChoice::Nothing
        | PolicyChoice::Gold
        | PolicyChoice::General
        | PolicyChoice::Customers
        | PolicyChoice::Detectors(_)
        | PolicyChoice::Level { .. }
        | PolicyChoice::Names { .. }
        | PolicyChoice::Onnx(_) => false,
    }
}

pub(super) fn hmac(purpose: &str, bytes: &[u8]) -> Result<Option<String>> {
    Ok(made()?.map(|key| {
        let digest = keyed_digest(&keyed_digest(&key, purpose.as_bytes()), bytes);
        hexadecimal(&digest)
    }))
}

/// Returns the key, which is made if missing; `None` without a place for one.
pub(crate) fn made() -> Result<Option<[u8; 32]>> {
    let Some((path, named)) = place() else {
        return Ok(None);
    };
    match key(&path) {
        Ok(key) => Ok(Some(key)),
        // A home folder that can't be written to is no place for a key.
        Err(_) if !named && !path.exists() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a prepared folder, which the owner's key must authenticate if it is on this machine. Never makes a key.
///
/// # Errors
/// A key that can't be read; otherwise as [`Prepared::load`].
pub(crate) fn load_prepared(folder: &Path) -> Result<Prepared> {
    let facts = folder.join("prepared.json");
    // A file holds no other.
    let is_there = match folder.is_file() {
        true => Ok(false),
        false => facts.try_exists(),
    };
    ensure!(
        is_there.with_context(|| facts.display().to_string())?,
        "{}: a prepared corpus is a folder with prepared.json, as audit prepare writes it",
        facts.display()
    );
    Ok(Prepared::load(folder, present()?)?)
}

/// As [`load_prepared`], for texts beside the corpus of a plan: notes a folder that is not authenticated.
///
/// # Errors
/// As [`load_prepared`].
#[cfg(feature = "audit")]
pub(crate) fn load_texts(folder: &Path) -> Result<Prepared> {
    let prepared = load_prepared(folder)?;
    if !prepared.authenticated {
        note(&format!(
            "{} is not authenticated: the owner's key is not here; the folder's texts are taken as they stand",
            folder.display()
        ));
    }
    Ok(prepared)
}

/// Returns the key if it is on this machine. Notes a file that was named and isn't there.
fn present() -> Result<Option<[u8; 32]>> {
    match place() {
        Some((path, _)) if path.try_exists().with_context(|| VARIABLE)? => key(&path).map(Some),
        Some((path, true)) => {
            note(&format!("{VARIABLE}: there is no {}", path.display()));
            Ok(None)
        }
        _ => Ok(None),
    }
}

/// Returns the key itself, for work shared by several processes. `made`: whether a missing key is made.
pub(super) fn shared(made: bool) -> Result<[u8; 32]> {
    let Some((path, _)) = place() else {
        bail!(
            "{VARIABLE}: must name the file of the owner's key, which authenticates data passed between processes"
        );
    };
    ensure!(
        made || path.exists(),
        "{VARIABLE}: there is no {}; every process needs the key under which the plan was written",
        path.display()
    );
    key(&path)
}

/// Returns the path of the key, and whether the user named it.
fn place() -> Option<(PathBuf, bool)> {
    if cfg!(test) {
        return Some((
            std::env::temp_dir().join("reticent-owner-of-tests.key"),
            true,
        ));
    }
    reticent_disk::owner_key_place()
}

/// Returns the key of a file, which is made if missing.
fn key(path: &Path) -> Result<[u8; 32]> {
    static KEY: OnceLock<[u8; 32]> = OnceLock::new();
    if let Some(key) = KEY.get() {
        return Ok(*key);
    }
    let place = || format!("{VARIABLE}: {}", path.display());
    if !path.exists() {
        make(path).with_context(place)?;
    }
    let key = read_key(path).with_context(place)?;
    if read_by_others(path) {
        note(&format!(
            "the owner's key, {}, can be read by others on this machine; own it and restrict it with chmod 600",
            path.display()
        ));
    }
    Ok(*KEY.get_or_init(|| key))
}

fn make(path: &Path) -> Result<()> {
    use std::io::Write;
    reticent_disk::private_folder(reticent_disk::parent_of(path))?;
    let made = RunKey::from_system()?;
    let mut file = reticent_disk::WholeFile::create(path, false)?;
    writeln!(file, "{}", hexadecimal(made.bytes()))?;
    match file.finish() {
        // Another process made a key in the meantime, which is used.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reticent_corpus::policy::{DictionaryOptions, PatternRule};

    /// The order of the records says nothing, their texts and sides do.
    #[test]
    fn records_are_identified_under_the_key() {
        let texts = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        let of = |members: &[&str], others: &[&str]| {
            RecordsDigest::of(&[&texts(members), &texts(others)])
                .unwrap()
                .unwrap()
        };
        let one = of(&["a", "b"], &["c"]);
        assert_eq!(one, of(&["b", "a"], &["c"]));
        for other in [
            of(&["a", "c"], &["b"]),
            of(&["a", "b", "b"], &["c"]),
            of(&["a"], &["c"]),
            of(&["a\nb"], &["c"]),
        ] {
            assert_eq!(one.key, other.key);
            assert_ne!(one.hmac, other.hmac);
        }
        assert_ne!(one.hmac, one.key);
    }

    /// Short words can be tried out against a plain digest.
    #[test]
    fn private_words_are_digested_under_the_key() {
        let words = |word: &str| {
            let options = DictionaryOptions {
                kind: "people".to_owned(),
                words: vec![word.to_owned()],
                case_sensitive: false,
                whole_words: true,
            };
            PolicyChoice::Any {
                of: vec![PolicyChoice::General, PolicyChoice::Dictionary(options)],
            }
        };
        let (one, other) = (words("Ada"), words("Bob"));
        let digest = policy_hmac(&one).unwrap().unwrap();
        assert_eq!(digest.len(), 64);
        assert_ne!(digest, one.sha256());
        assert_ne!(Some(digest.clone()), policy_hmac(&other).unwrap());
        assert_eq!(Some(digest), policy_hmac(&one).unwrap());
        assert_ne!(
            hmac("list", one.sha256().as_bytes()).unwrap(),
            policy_hmac(&one).unwrap(),
            "one purpose says nothing of another"
        );
        let rules = vec![PatternRule {
            kind: "a".to_owned(),
            pattern: "b".to_owned(),
        }];
        assert!(is_private(&PolicyChoice::Patterns { rules }));
        assert!(!is_private(&PolicyChoice::General));
    }
}
