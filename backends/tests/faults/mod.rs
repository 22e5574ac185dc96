//! Faults that such systems have had, one test each; `proofs-tests/FAULTS.md` lists them with their mutants.

mod folders;
mod steps;
