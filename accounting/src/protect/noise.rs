//! Computes σ = max_j σ_j without calibrating every secret.
//!
//! A secret whose promise already holds at σ needs no σ_j of its own. The search therefore calibrates one demanding
//! secret, excludes at its σ all secrets that their cells certify, and checks the others, worst first. If one fails, it
//! is calibrated instead and the search continues. Checks remain valid if σ rises.

use super::classes::Certified;
use super::rates::RateProfile;
use super::screen::{self, Grid, Outline};
use super::secret::{Ends, Proof, Secret};
use super::{Incidence, parallel};
use crate::guarantee::calibrate::search::{Trial, interpolate};
use crate::quantity::bound::Bounds;
use crate::quantity::error::{Error, Result};
use crate::quantity::{NoiseMultiplier, Probability, Steps, Tolerance};
use std::collections::HashMap;
use std::f64::consts::LN_2;

/// A plan whose secrets are to be protected: the sampling rates of the examples, and the number of steps.
#[derive(Debug, Clone, Copy)]
pub struct Protection<'a> {
    /// The secrets that each example contains.
    pub incidence: &'a Incidence,
    /// One promise per secret.
    pub secrets: &'a [Secret],
    /// The sampling rate of each example.
    pub rates: &'a [f64],
    /// Steps of training.
    pub steps: Steps,
}

/// The least noise that keeps every promise.
#[derive(Debug, Clone, PartialEq)]
pub struct Noise {
    /// Every promise is certified at this noise.
    pub sigma: NoiseMultiplier,
    /// A noise at which the binding secret's bound certainly exceeds its promise; absent if no secret binds, if it
    /// would be below the least noise considered, or if none of six attempts finds one.
    pub too_small: Option<NoiseMultiplier>,
    /// The secret that needs the most noise; absent if no secret needs any.
    pub binding: Option<usize>,
    /// The number of secrets whose own bound was computed; the others were excluded by their cells.
    pub checked: usize,
}

/// Bounds on the posterior of one secret at one noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Posterior {
    /// The bound by the blow-up.
    pub blow_up: f64,
    /// The bound by Fano's inequality for the Kullback–Leibler divergence.
    pub kl_fano: f64,
    /// The bound by Fano's inequality for Rényi divergences.
    pub renyi_fano: f64,
}

const LEAST: f64 = 1e-3;
const MOST: f64 = 1e7;
/// The numbers of cells per screening and per table of posteriors.
const SCREEN_CELLS: usize = 384;
pub(super) const TABLE_CELLS: [usize; 3] = [256, 128, 64];
/// Accuracy of a first evaluation.
const ROUGH: f64 = 1e-2;
/// Secrets checked side by side before the next look.
const BATCH: usize = 64;

impl Protection<'_> {
    /// Checks that there is one promise per secret and one rate per example.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] otherwise.
    pub(super) fn check(&self) -> Result<()> {
        let fits = self.secrets.len() == self.incidence.secret_count()
            && self.rates.len() == self.incidence.example_count();
        if fits {
            return Ok(());
        }
        Err(Error::out_of_range(
            "number of promises and rates",
            "[one per secret, one per example]",
            self.secrets.len() as f64,
        ))
    }

    pub(super) fn profile(&self, secret: usize) -> Result<RateProfile> {
        RateProfile::of(self.incidence, secret, self.rates)
    }

    /// Returns what a cell needs to know about each secret.
    pub(super) fn outlines(&self) -> Result<Vec<Outline>> {
        let profiles = (0..self.secrets.len()).map(|j| self.profile(j));
        let each = profiles.zip(self.secrets);
        each.map(|(profile, secret)| profile.map(|p| Outline::new(&p, *secret)))
            .collect()
    }

    /// Returns the bounds of one proof on a secret's posterior at a noise.
    fn ends(&self, secret: usize, proof: Proof, sigma: f64, tolerance: Tolerance) -> Result<Ends> {
        let loss = self
            .profile(secret)?
            .loss(NoiseMultiplier::new(sigma)?, self.steps)?;
        proof.posterior(&loss, self.secrets[secret].prior(), tolerance)
    }

    /// Returns both ends of the posterior of one secret, by the blow-up.
    ///
    /// # Errors
    /// Returns an error if the index is out of range or a rate lies outside [0, 1].
    pub fn posterior(
        &self,
        secret: usize,
        sigma: NoiseMultiplier,
        tolerance: Tolerance,
    ) -> Result<Bounds<Probability>> {
        self.checked(secret)?;
        let ends = self.ends(secret, Proof::BlowUp, sigma.get(), tolerance)?;
        Ok(Bounds::between(
            Probability::new(ends.lower)?,
            Probability::new(ends.upper)?,
        ))
    }

    /// Returns the least σ at which `proof` certifies every secret's promise, to a relative `tolerance`.
    ///
    /// Bound: the promises hold at [`Noise::sigma`]; at [`Noise::too_small`], if there is one, the bound of the binding
    /// secret certainly exceeds its promise.
    ///
    /// # Errors
    /// Returns [`Error::OutOfReach`] if no σ up to 1e7 suffices.
    pub fn least_noise(&self, proof: Proof, tolerance: Tolerance) -> Result<Noise> {
        self.check()?;
        let outlines = self.outlines()?;
        let pressure = |j: &usize| outlines[*j].pressure(self.secrets[*j]);
        let drawn = (0..outlines.len()).filter(|j| outlines[*j].is_drawn());
        let Some(first) = drawn.max_by(|a, b| pressure(a).total_cmp(&pressure(b))) else {
            return Ok(Noise {
                sigma: NoiseMultiplier::new(LEAST)?,
                too_small: None,
                binding: None,
                checked: 0,
            });
        };
        let mut search = Search {
            plan: self,
            outlines: &outlines,
            proof,
            tolerance,
            binding: first,
            ln_sigma: f64::NEG_INFINITY,
            cleared: vec![false; outlines.len()],
            checked: 0,
        };
        search.calibrate(first)?;
        while search.round()? {}
        let too_small = self.certainly_too_small(&search)?;
        Ok(Noise {
            sigma: NoiseMultiplier::new(search.sigma())?,
            too_small,
            binding: Some(search.binding),
            checked: search.checked,
        })
    }

    /// Returns the noise that one secret needs on its own.
    ///
    /// # Errors
    /// As [`Protection::least_noise`], and an error if the index is out of range.
    pub fn noise_of(&self, secret: usize, proof: Proof, tolerance: Tolerance) -> Result<Noise> {
        self.checked(secret)?;
        let rates: Vec<f64> = self
            .incidence
            .examples_of(secret)
            .iter()
            .map(|example| self.rates[*example as usize])
            .collect();
        let count = rates.len() as u32;
        let pairs = (0..count).map(|example| (example, 0)).collect();
        let alone = Protection {
            incidence: &Incidence::new(count, 1, pairs)?,
            secrets: &self.secrets[secret..=secret],
            rates: &rates,
            steps: self.steps,
        };
        alone
            .least_noise(proof, tolerance)
            .map_err(|error| match error {
                Error::OutOfReach { proof, most, .. } => Error::OutOfReach {
                    secret,
                    proof,
                    most,
                },
                other => other,
            })
    }

    fn checked(&self, secret: usize) -> Result<()> {
        self.check()?;
        self.incidence.check_secret(secret)
    }

    /// Returns a noise slightly below the found one at which the binding secret's bound certainly exceeds its promise, if one of
    /// six attempts finds it.
    fn certainly_too_small(&self, search: &Search<'_>) -> Result<Option<NoiseMultiplier>> {
        let promise = self.secrets[search.binding].posterior().get();
        let tolerance = fine(search.tolerance)?;
        let mut share = search.tolerance.get();
        for _ in 0..6 {
            let sigma = search.sigma() * (1.0 - share.min(0.9));
            if sigma < LEAST {
                return Ok(None);
            }
            // The law's own rounding errors are carried outwards; relatively, they are far below 1e-9.
            let lower = self
                .ends(search.binding, search.proof, sigma, tolerance)?
                .lower;
            if lower * (1.0 - 1e-9) > promise {
                return Ok(Some(NoiseMultiplier::new(sigma)?));
            }
            share *= 2.0;
        }
        Ok(None)
    }

    /// Returns upper bounds on the posterior of every secret at `sigma`, by all three proofs: by the blow-up the bounds
    /// that were certified there, by Fano's inequality those of cells if there are many secrets.
    ///
    /// # Errors
    /// As [`Protection::least_noise`].
    pub fn posteriors(
        &self,
        certified: &Certified,
        sigma: NoiseMultiplier,
        tolerance: Tolerance,
    ) -> Result<Vec<Posterior>> {
        self.check()?;
        let outlines = self.outlines()?;
        let all: Vec<usize> = (0..self.secrets.len()).collect();
        let mut columns = [Proof::KlFano, Proof::RenyiFano]
            .iter()
            .zip(&TABLE_CELLS[1..])
            .map(|(proof, cells)| screen::posteriors(&outlines, *proof, sigma, self.steps, *cells))
            .collect::<Result<Vec<_>>>()?;
        if self.secrets.len() <= TABLE_CELLS[2] {
            for (column, proof) in columns.iter_mut().zip([Proof::KlFano, Proof::RenyiFano]) {
                let own = self.each(&all, proof, sigma.get(), tolerance)?;
                for (bound, ends) in column.iter_mut().zip(own) {
                    *bound = bound.min(ends.upper);
                }
            }
        }
        let each = certified.posteriors.iter().zip(&all);
        Ok(each
            .map(|(blow_up, j)| Posterior {
                blow_up: *blow_up,
                kl_fano: columns[0][*j],
                renyi_fano: columns[1][*j],
            })
            .collect())
    }

    /// Returns the ends of several secrets; equal profiles with equal priors are computed once.
    fn each(
        &self,
        secrets: &[usize],
        proof: Proof,
        sigma: f64,
        tolerance: Tolerance,
    ) -> Result<Vec<Ends>> {
        let mut places: HashMap<Vec<u64>, usize> = HashMap::new();
        let mut firsts: Vec<usize> = Vec::new();
        let mut place = Vec::with_capacity(secrets.len());
        for &secret in secrets {
            let profile = self.profile(secret)?;
            let mut key = runs(profile.rates());
            key.push(self.secrets[secret].prior().get().to_bits());
            place.push(*places.entry(key).or_insert_with(|| {
                firsts.push(secret);
                firsts.len() - 1
            }));
        }
        let found = parallel::map(&firsts, |secret| {
            self.ends(*secret, proof, sigma, tolerance)
        });
        let found = found.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(place.into_iter().map(|at| found[at]).collect())
    }
}

/// Returns rates as (bits, count) pairs, so that equal profiles have equal keys.
fn runs(rates: &[f64]) -> Vec<u64> {
    let mut runs: Vec<u64> = Vec::new();
    for rate in rates {
        let bits = rate.to_bits();
        match runs.len().checked_sub(2) {
            Some(last) if runs[last] == bits => runs[last + 1] += 1,
            _ => runs.extend([bits, 1]),
        }
    }
    runs
}

/// Returns a finer tolerance, because posteriors move several times as fast as σ.
fn fine(tolerance: Tolerance) -> Result<Tolerance> {
    Tolerance::new((0.1 * tolerance.get()).max(1e-11))
}

struct Search<'a> {
    plan: &'a Protection<'a>,
    outlines: &'a [Outline],
    proof: Proof,
    tolerance: Tolerance,
    binding: usize,
    /// ln of the noise so far; −∞ before any.
    ln_sigma: f64,
    cleared: Vec<bool>,
    checked: usize,
}

impl Search<'_> {
    fn sigma(&self) -> f64 {
        self.ln_sigma.exp()
    }

    fn promise(&self, secret: usize) -> f64 {
        self.plan.secrets[secret].posterior().get()
    }

    /// Returns ln of the ratio of the posterior to the promise at σ = e^`x`, above zero unless the promise is certified
    /// there. A rough evaluation decides unless it is close.
    fn at(&self, secret: usize, x: f64) -> Result<Trial> {
        let promise = self.promise(secret);
        let mut margin = f64::INFINITY;
        for tolerance in [
            Tolerance::new(ROUGH)?,
            self.tolerance,
            fine(self.tolerance)?,
        ] {
            let ends = self.plan.ends(secret, self.proof, x.exp(), tolerance)?;
            margin = (0.5 * (ends.lower + ends.upper) / promise).ln();
            if ends.upper <= promise {
                let margin = margin.min(0.0);
                return Ok(Trial { x, margin });
            }
            if ends.lower > promise {
                break;
            }
        }
        let margin = margin.max(f64::MIN_POSITIVE);
        Ok(Trial { x, margin })
    }

    /// Makes `secret` the binding one and sets σ to the least value, from the present one on, at which its promise
    /// holds.
    fn calibrate(&mut self, secret: usize) -> Result<()> {
        self.checked += 1;
        self.binding = secret;
        self.cleared[secret] = true;
        let (mut low, mut high, stride) = if self.ln_sigma.is_finite() {
            let low = self.at(secret, self.ln_sigma)?;
            let next = self.at(secret, (self.ln_sigma + 1.02f64.ln()).min(MOST.ln()))?;
            (Some(low), next, 1.1f64.ln())
        } else {
            (None, self.at(secret, 0.0)?, LN_2)
        };
        while high.margin > 0.0 {
            low = Some(high);
            if high.x >= MOST.ln() {
                return Err(Error::OutOfReach {
                    secret,
                    proof: self.proof.name(),
                    most: MOST,
                });
            }
            high = self.at(secret, (high.x + stride).min(MOST.ln()))?;
        }
        let low = loop {
            match low {
                Some(low) if low.margin > 0.0 => break low,
                // The secret was refused at this σ, but holds there: σ needn't be raised.
                Some(low) => {
                    self.ln_sigma = low.x;
                    return Ok(());
                }
                None => {}
            }
            let next = high.x - stride;
            if next < LEAST.ln() {
                self.ln_sigma = high.x;
                return Ok(());
            }
            match self.at(secret, next)? {
                next if next.margin > 0.0 => low = Some(next),
                next => high = next,
            }
        };
        let at = |x: f64, _: f64| self.at(secret, x);
        let (_, safe) = interpolate(&at, low, high, 0.5 * self.tolerance.get())?;
        self.ln_sigma = safe.x;
        Ok(())
    }

    /// Clears the secrets that cells clear at the present σ, from coarse cells to fine ones. Returns the others with
    /// the ratio of their last cell's bound to their promise.
    fn screened(&mut self) -> Result<Vec<(f64, usize)>> {
        let noise = NoiseMultiplier::new(self.sigma())?;
        let mut left: Vec<(f64, usize)> = (0..self.outlines.len())
            .filter(|secret| !self.cleared[*secret])
            .map(|secret| (f64::INFINITY, secret))
            .collect();
        for (level, cuts) in screen::LEVELS.iter().enumerate() {
            let outlines: Vec<Outline> = left.iter().map(|(_, j)| self.outlines[*j]).collect();
            let grid = Grid::new(&outlines, *cuts);
            // Cells that hold few secrets each save no work.
            if level > 0 && (grid.size() > SCREEN_CELLS || 2 * grid.size() > left.len()) {
                break;
            }
            let bounds = grid.posteriors(self.proof, noise, self.plan.steps)?;
            for ((ratio, secret), bound) in left.iter_mut().zip(bounds) {
                *ratio = bound / self.plan.secrets[*secret].posterior().get();
                self.cleared[*secret] |= *ratio <= 1.0;
            }
            left.retain(|(ratio, _)| *ratio > 1.0);
        }
        Ok(left)
    }

    /// Screens and checks at the present σ; returns true if a secret failed and σ was raised.
    fn round(&mut self) -> Result<bool> {
        let mut left = self.screened()?;
        left.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        let left: Vec<usize> = left.into_iter().map(|(_, secret)| secret).collect();
        let coarse = Tolerance::new(1e-3)?;
        let mut done = 0;
        // The first batch is small, so that a σ that is far too small is noticed early.
        let mut size = 4;
        while done < left.len() {
            let batch = &left[done..(done + size).min(left.len())];
            let ends = self.plan.each(batch, self.proof, self.sigma(), coarse)?;
            self.checked += batch.len();
            let mut worst: Option<(f64, usize)> = None;
            for (secret, ends) in batch.iter().zip(ends) {
                let promise = self.promise(*secret);
                let holds = ends.upper <= promise
                    || ends.lower <= promise && self.at(*secret, self.ln_sigma)?.margin <= 0.0;
                if holds {
                    self.cleared[*secret] = true;
                } else if worst.is_none_or(|(ratio, _)| ends.upper / promise > ratio) {
                    worst = Some((ends.upper / promise, *secret));
                }
            }
            if let Some((_, secret)) = worst {
                self.calibrate(secret)?;
                return Ok(true);
            }
            done += batch.len();
            size = (2 * size).min(BATCH * 16);
        }
        Ok(false)
    }
}
