//! Cheap certified bounds for many secrets at once.
//!
//! A profile is rounded up to a cell: a count, a hazard and a prior, none of them smaller. The
//! binomial of the cell dominates the profile ([`RateProfile::hazard`]), so the cell's posterior
//! bounds that of every secret in it, and secrets can share cells.

use super::parallel;
use super::rates::{RateProfile, dominating_loss};
use super::secret::{Proof, Secret};
use crate::quantity::error::Result;
use crate::quantity::{NoiseMultiplier, Probability, Steps, Tolerance};
use std::collections::HashMap;

/// What a cell needs to know about a secret.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outline {
    count: u32,
    hazard: f64,
    prior: f64,
}

impl Outline {
    pub(crate) fn new(profile: &RateProfile, secret: Secret) -> Self {
        Self {
            count: profile.count() as u32,
            hazard: profile.hazard(),
            prior: secret.prior().get(),
        }
    }

    /// Returns whether an example of the secret can be drawn at all.
    pub(crate) fn is_drawn(&self) -> bool {
        self.count > 0
    }

    /// Returns a rough measure of the noise that the secret needs, used to start with the worst
    /// secret.
    pub(crate) fn pressure(&self, secret: Secret) -> f64 {
        self.hazard / secret.divergence()
    }
}

/// The fineness of cells at each level, in steps per doubling of counts, hazards and priors.
pub(crate) const LEVELS: [[f64; 3]; 7] = [
    [0.25, 1.0, 0.25],
    [1.0, 4.0, 1.0],
    [2.0, 16.0, 4.0],
    [4.0, 64.0, 16.0],
    [8.0, 256.0, 64.0],
    [16.0, 1024.0, 256.0],
    [64.0, 4096.0, 1024.0],
];

/// No cell's hazard is more than so many times that of a secret in it.
pub(crate) const WIDEST: f64 = 2.01;

/// A cell, identified by its upper ends; floats are stored as bits so that a cell can be a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Cell {
    count: u32,
    hazard: u64,
    prior: u64,
}

impl Cell {
    fn of(outline: &Outline, steps: [f64; 3]) -> Self {
        let count = up(f64::from(outline.count), steps[0]).floor().max(1.0) as u32;
        let prior = up(outline.prior, steps[2]).min(1.0);
        Self {
            count: count.max(outline.count),
            hazard: up(outline.hazard, steps[1]).max(outline.hazard).to_bits(),
            prior: prior.max(outline.prior).to_bits(),
        }
    }

    /// Returns the most records of a secret in the cell.
    pub(crate) const fn count(self) -> u32 {
        self.count
    }

    /// Returns the largest hazard of a secret in the cell.
    pub(crate) const fn hazard(self) -> f64 {
        f64::from_bits(self.hazard)
    }

    /// Returns the largest prior of a secret in the cell.
    pub(crate) const fn prior(self) -> f64 {
        f64::from_bits(self.prior)
    }

    fn posterior(self, proof: Proof, noise: NoiseMultiplier, steps: Steps) -> Result<f64> {
        let loss = dominating_loss(self.count, self.hazard(), noise, steps)?;
        let prior = Probability::new(self.prior())?;
        let ends = proof.posterior(&loss, prior, Tolerance::new(1e-3)?)?;
        Ok(ends.upper)
    }
}

/// Returns the most records that the cell of a secret in at most `count` records may have.
pub(crate) fn most_records(count: usize) -> u32 {
    let outline = Outline {
        count: u32::try_from(count).unwrap_or(u32::MAX),
        hazard: 0.0,
        prior: 0.0,
    };
    Cell::of(&outline, LEVELS[0]).count
}

/// Returns the smallest power of 2^(1/steps) that is no smaller than `value`.
fn up(value: f64, steps: f64) -> f64 {
    if value > 0.0 && value.is_finite() {
        ((value.log2() * steps).ceil() / steps).exp2()
    } else {
        value
    }
}

/// Returns the posterior of each outline's cell by one proof, with cells as fine as `budget`
/// allows.
pub(crate) fn posteriors(
    outlines: &[Outline],
    proof: Proof,
    noise: NoiseMultiplier,
    steps: Steps,
    budget: usize,
) -> Result<Vec<f64>> {
    grid(outlines, budget).posteriors(proof, noise, steps)
}

/// Returns the finest grid with no more than `budget` cells.
pub(crate) fn grid(outlines: &[Outline], budget: usize) -> Grid {
    let mut grid = Grid::new(outlines, LEVELS[0]);
    for cuts in &LEVELS[1..] {
        let finer = Grid::new(outlines, *cuts);
        if finer.distinct.len() > budget {
            break;
        }
        grid = finer;
    }
    grid
}

/// Outlines sorted into the cells of one level.
pub(crate) struct Grid {
    cells: Vec<Cell>,
    distinct: Vec<Cell>,
}

impl Grid {
    pub(crate) fn new(outlines: &[Outline], cuts: [f64; 3]) -> Self {
        let cells: Vec<Cell> = outlines.iter().map(|o| Cell::of(o, cuts)).collect();
        let mut distinct = cells.clone();
        distinct.sort_unstable();
        distinct.dedup();
        Self { cells, distinct }
    }

    /// Returns the cell of each outline.
    pub(crate) fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Returns the number of distinct cells.
    pub(crate) fn size(&self) -> usize {
        self.distinct.len()
    }

    /// Returns the posterior of each outline's cell.
    pub(crate) fn posteriors(
        &self,
        proof: Proof,
        noise: NoiseMultiplier,
        steps: Steps,
    ) -> Result<Vec<f64>> {
        let values = parallel::map(&self.distinct, |cell| cell.posterior(proof, noise, steps));
        let values: HashMap<Cell, f64> = self
            .distinct
            .iter()
            .zip(values)
            .map(|(cell, value)| value.map(|value| (*cell, value)))
            .collect::<Result<_>>()?;
        Ok(self.cells.iter().map(|cell| values[cell]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_covers_what_it_holds() {
        for steps in LEVELS {
            for (count, hazard, prior) in [(1, 1e-9, 1e-70), (37, 0.12, 1e-10), (5000, 7.3, 0.4)] {
                let outline = Outline {
                    count,
                    hazard,
                    prior,
                };
                let cell = Cell::of(&outline, steps);
                assert!(cell.count >= count && f64::from_bits(cell.hazard) >= hazard);
                assert!((prior..=1.0).contains(&f64::from_bits(cell.prior)));
                assert!(f64::from_bits(cell.hazard) <= hazard * 2f64.powf(1.01 / steps[1]));
                assert!(f64::from_bits(cell.hazard) <= hazard * WIDEST);
            }
        }
    }
}
