//! The owner's key, which the plan was written under. Every executor and the client read it for themselves: it never
//! travels.

use anyhow::{Context, Result, ensure};
use std::fmt::{self, Debug, Formatter};
use std::path::{Path, PathBuf};

/// The file of the key.
const VARIABLE: &str = "RETICENT_OWNER_KEY";

/// 32 bytes that nothing prints.
#[derive(Clone, Copy)]
pub(crate) struct OwnerKey(pub(crate) [u8; 32]);

impl Debug for OwnerKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerKey")
    }
}

impl OwnerKey {
    /// From the file that the variable names, else from the folder of configurations.
    pub(crate) fn read() -> Result<Self> {
        let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let settings = || {
            let settings = of("XDG_CONFIG_HOME").map(PathBuf::from);
            settings.or_else(|| Some(PathBuf::from(of("HOME")?).join(".config")))
        };
        let path = of(VARIABLE)
            .map(PathBuf::from)
            .or_else(|| Some(settings()?.join("reticent").join("owner.key")));
        let path = path.with_context(|| format!("{VARIABLE}: must name the file of the key"))?;
        Self::of_file(&path).with_context(|| {
            format!(
                "{VARIABLE}: {} (every process needs the key that the plan was written under)",
                path.display()
            )
        })
    }

    /// From 64 hexadecimal digits.
    fn of_file(path: &Path) -> Result<Self> {
        let text = reticent_disk::read_regular(path, 1024)?;
        let digits = text.trim_ascii();
        ensure!(
            digits.len() == 64 && digits.iter().all(u8::is_ascii_hexdigit),
            "must hold 64 hexadecimal digits"
        );
        let mut key = [0; 32];
        for (byte, digits) in key.iter_mut().zip(digits.as_chunks::<2>().0) {
            let value = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0) as u8;
            *byte = value(digits[0]) << 4 | value(digits[1]);
        }
        Ok(Self(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_64_hexadecimal_digits() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("key");
        std::fs::write(&path, format!("{}\n", "0aF1".repeat(16))).unwrap();
        let key = OwnerKey::of_file(&path).unwrap();
        assert_eq!(key.0[..2], [0x0a, 0xf1]);
        assert_eq!(format!("{key:?}"), "OwnerKey");
        std::fs::write(&path, "0aF").unwrap();
        assert!(OwnerKey::of_file(&path).is_err());
    }
}
