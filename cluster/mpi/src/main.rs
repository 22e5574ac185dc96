//! `audit-mpi`: the `audit` command, whose training is shared by the ranks of an MPI.
//!
//! `mpirun -n 4 audit-mpi train …` is `audit train …` by four workers. Everything else, and one rank, is `audit`.

use anyhow::{Result, ensure};
use reticent_backends::Collective;
use reticent_mpi::Started;
use reticent_reports::audit::args::{Audit, Command, GREETING};
use reticent_reports::contract::{Exit, Interrupt, describe, main as run, note};
use std::process::ExitCode;

/// Set to 1 to say that only those reach the network of the ranks who may see and change what passes.
const TRUSTED: &str = "RETICENT_TRUST_NETWORK";

fn main() -> ExitCode {
    reticent_reports::audit::grid::end_with_parent();
    run(GREETING, |audit: Audit| {
        let started = Started::new()?;
        let workers = started.workers();
        let (rank, world) = (workers.rank(), workers.world());
        let made = shared(&audit, world).and_then(|()| {
            reticent_reports::audit::train::join(Box::new(workers));
            reticent_reports::audit::run(&audit, &Interrupt::listen()?)
        });
        if let (Err(error), true) = (&made, world > 1) {
            // The others would wait for this rank: MPI ends them.
            note(&format!("error: rank {rank}: {}", describe(error)));
            started.abort(Exit::NOT_FINISHED);
        }
        made
    })
}

/// Whether these ranks may do it together.
fn shared(audit: &Audit, world: usize) -> Result<()> {
    ensure!(
        world == 1 || matches!(audit.command, Command::Train(_)),
        "audit-mpi: {world} ranks share audit train alone"
    );
    // The run's key and sums before noise pass in the clear.
    ensure!(
        world == 1 || std::env::var(TRUSTED).is_ok_and(|value| value == "1"),
        "{TRUSTED}: must be 1 for {world} ranks: MPI neither encrypts nor authenticates what passes between them, which are \
         the run's key and sums of gradients before noise"
    );
    Ok(())
}
