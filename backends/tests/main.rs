//! All tests of the crate in one program: it is linked once, and its tests share the processors.
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

mod adapters;
#[path = "../../schemas/check.rs"]
mod check;
mod checkpoint;
mod common;
mod conformance;
mod course;
mod damage;
#[cfg(any(feature = "cuda", feature = "wgpu"))]
mod device_work;
mod faults;
mod hugging_face_files;
mod hugging_face_golden;
mod kills;
mod llama2c;
mod plans;
mod privacy;
mod provenance;
mod recipes;
mod replay;
mod resume;
mod state;
#[cfg(feature = "tcp")]
mod together;
