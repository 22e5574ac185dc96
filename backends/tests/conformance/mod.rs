//! What every engine must do on every model, whatever it is made of.
//!
//! Tolerances: engines in single precision agree with the exact one to 2e-5 of the largest norm
//! (f32 products over a few dozen terms lose about 1e-6); the exact engine, whose sums leave it as
//! f32, to 1e-6. Isolation and round trips are bit by bit. Nothing here is random but starting
//! weights under fixed seeds.

mod dropout;
mod gradients;
mod isolation;
mod scores;
mod subjects;
