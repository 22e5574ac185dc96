//! `audit-mpi`: the `audit` command, with training shared by MPI ranks.
//!
//! `mpirun -n 4 audit-mpi train …` runs `audit train …` with four workers. Any other command, and a single rank,
//! runs as `audit`.

use anyhow::{Result, ensure};
use reticent_backends::Collective;
use reticent_mpi::Started;
use reticent_reports::audit::args::{Audit, Command, GREETING};
use reticent_reports::contract::{Exit, Interrupt, describe, main as run, note};
use std::process::ExitCode;

/// Set to 1 to confirm that only parties who may see and change the traffic can reach the ranks' network.
const TRUSTED: &str = "RETICENT_TRUST_NETWORK";

fn main() -> ExitCode {
    if reticent_reports::audit::begin() {
        return ExitCode::SUCCESS;
    }
    run(GREETING, |audit: Audit| {
        let started = Started::new()?;
        let workers = started.workers();
        let (rank, world) = (workers.rank(), workers.world());
        let made = shared(&audit, world).and_then(|()| {
            if world > 1 {
                reticent_reports::audit::train::join(Box::new(workers));
            }
            reticent_reports::audit::run(&audit, &Interrupt::listen()?)
        });
        if let (Err(error), true) = (&made, world > 1) {
            // The others would wait for this rank, so MPI ends them.
            note(&format!("error: rank {rank}: {}", describe(error)));
            started.abort(Exit::NOT_FINISHED);
        }
        made
    })
}

/// Checks whether these ranks may run the command together.
fn shared(audit: &Audit, world: usize) -> Result<()> {
    ensure!(
        world == 1 || matches!(audit.command, Command::Train(_)),
        "audit-mpi: {world} ranks share audit train alone"
    );
    // The run's key and sums before noise are sent in the clear.
    ensure!(
        world == 1 || std::env::var(TRUSTED).is_ok_and(|value| value == "1"),
        "{TRUSTED}: must be 1 for {world} ranks: MPI neither encrypts nor authenticates what passes between them, which are \
         the run's key and sums of gradients before noise"
    );
    Ok(())
}
