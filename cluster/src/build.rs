//! Identifies the build of this program.

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The path at which Linux keeps the running file, even if it was replaced since.
const RUNNING: &str = "/proc/self/exe";

/// Returns the SHA-256 of this program in hexadecimal: operators belong to this build and are sent
/// to no other.
pub(crate) fn of_this_program() -> Result<String> {
    let running = Path::new(RUNNING);
    let path = match running.exists() {
        true => running.to_path_buf(),
        false => std::env::current_exe().context("this program does not know where it lies")?,
    };
    let place = || format!("{}: cannot be read", path.display());
    let mut file = File::open(&path).with_context(place)?;
    let (mut digest, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        let read = file.read(&mut buffer).with_context(place)?;
        if read == 0 {
            break;
        }
        digest.update(&buffer[..read]);
    }
    Ok(reticent_disk::hexadecimal(&digest.finalize()))
}
