//! The owner's key, which the plan was written under. Every executor and the client read it for themselves: it never
//! travels.

use anyhow::{Context, Result};
use reticent_disk::{OWNER_KEY as VARIABLE, owner_key_place, read_key};
use std::fmt::{self, Debug, Formatter};

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
