//! Keys and digests in hexadecimal, and the location of the user's own key.

use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// The environment variable that names the file with the user's key.
pub const OWNER_KEY: &str = "RETICENT_OWNER_KEY";

/// Encodes bytes in lower-case hexadecimal.
///
/// ```
/// assert_eq!(reticent_disk::hexadecimal(&[0x0a, 0xf1]), "0af1");
/// ```
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes a text that consists only of hexadecimal digits.
#[must_use]
pub fn from_hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let byte = |[high, low]: &[u8; 2]| Some(value(*high)? << 4 | value(*low)?);
    pairs.iter().map(byte).collect()
}

/// Reads a key of 32 bytes from a regular file of 64 hexadecimal digits; surrounding white space is ignored.
///
/// # Errors
/// Returns an error if the file can't be read; [`ErrorKind::InvalidData`] if it contains anything else, or only zeros.
pub fn read_key(path: &Path) -> Result<[u8; 32]> {
    let text = crate::read_regular(path, 1024)?;
    let key = from_hexadecimal(text.trim_ascii()).and_then(|key| key.try_into().ok());
    let problem = match key {
        Some(key) if key == [0; 32] => "holds zeros, which is no secret",
        Some(key) => return Ok(key),
        None => "must hold 64 hexadecimal digits",
    };
    Err(Error::new(ErrorKind::InvalidData, problem))
}

/// Returns whether users other than the one who runs the process can read a key. Its owner is not known where no file can
/// be created beside it.
#[must_use]
pub fn read_by_others(path: &Path) -> bool {
    crate::shared(path, crate::parent_of(path)).is_ok_and(|why| why.is_some())
}

/// Returns where the user's key lies and whether the location was named: the file that [`OWNER_KEY`] names, else
/// `reticent/owner.key` in the user's configuration folder. Returns `None` if there is neither.
#[must_use]
pub fn owner_key_place() -> Option<(PathBuf, bool)> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = of(OWNER_KEY) {
        return Some((path.into(), true));
    }
    let settings = of("XDG_CONFIG_HOME").map(PathBuf::from);
    let settings = settings.or_else(|| Some(PathBuf::from(of("HOME")?).join(".config")))?;
    Some((settings.join("reticent").join("owner.key"), false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_64_hexadecimal_digits() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("key");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_key(&path)
        };
        let key = read(&format!("{}\n", "0aF1".repeat(16))).unwrap();
        assert_eq!(key[..3], [0x0a, 0xf1, 0x0a]);
        assert_eq!(hexadecimal(&key), "0af1".repeat(16));
        // A sign is no digit, whatever the standard library's parser says.
        let signed = format!("+a{}", "0a".repeat(31));
        let zeros = "0".repeat(64);
        for other in [
            "",
            "0aF",
            &"0a".repeat(33),
            &"0g".repeat(32),
            &signed,
            &zeros,
        ] {
            assert_eq!(read(other).unwrap_err().kind(), ErrorKind::InvalidData);
        }
    }
}
