//! The owner's key, under which the plan was written. Every executor and the client read it themselves; it is never
//! sent.

use anyhow::{Context, Result};
use reticent_disk::{OWNER_KEY as VARIABLE, owner_key_place, read_key};
use std::fmt::{self, Debug, Formatter};

/// The 32 bytes of the key, which are never printed.
#[derive(Clone, Copy)]
pub(crate) struct OwnerKey(pub(crate) [u8; 32]);

impl Debug for OwnerKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerKey")
    }
}

impl OwnerKey {
    /// Reads the key from the file that the variable names, otherwise from the configuration folder.
    pub(crate) fn read() -> Result<Self> {
        let place = owner_key_place();
        let (path, _) =
            place.with_context(|| format!("{VARIABLE}: must name the file of the key"))?;
        read_key(&path).map(Self).with_context(|| {
            format!(
                "{VARIABLE}: {} (every process needs the key that the plan was written under)",
                path.display()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_printed() {
        assert_eq!(format!("{:?}", OwnerKey([7; 32])), "OwnerKey");
    }
}
