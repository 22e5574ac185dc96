//! Two ranks, of which one panics while the other waits for it: `scripts/mpi` checks that both end.

use anyhow::Result;
use reticent_backends::Collective;
use reticent_mpi::Started;

fn main() -> Result<()> {
    let started = Started::new()?;
    let mut workers = started.workers();
    assert!(workers.rank() == 0, "as this rank is meant to");
    workers.exchange(&[])?;
    Ok(())
}
