//! Certificates for every secret of a run, small enough to be stored in a manifest.
//!
//! A secret is certified by a profile that dominates its own: by the rates of its records or, if there are many
//! secrets, by the ends of a cell of counts, hazards and priors ([`super::screen`]). The certificate, the manifest and
//! any later reader evaluate the same profiles and get the same numbers.

use super::noise::{Protection, TABLE_CELLS};
use super::parallel;
use super::rates::{RateProfile, dominating_loss};
use super::screen::{self, Grid};
use super::secret::{Ends, Proof, Secret};
use crate::numeric::special::ROUND;
use crate::quantity::bound::{Lower, Upper};
use crate::quantity::error::{Error, Result};
use crate::quantity::{NoiseMultiplier, Probability, SamplingRate, Steps, Tolerance};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// Accuracies of a secret's own bound. The later ones are used if the earlier ones don't show a promise that a search
/// for the least noise has shown.
const OWN: [f64; 5] = [1e-6, 1e-2, 1e-4, 1e-5, 1e-7];
/// Accuracy of a cell's bound, which lies a few percent above the bounds of its secrets.
const CELL: f64 = 1e-3;
/// Up to this many secrets are certified by their own rates.
const FEW: usize = TABLE_CELLS[2];

/// What the secrets of a run are certified by, and how many share a promise and a profile.
///
/// ```
/// use reticent_accounting::protect::{Incidence, Protection, Secret};
/// use reticent_accounting::{NoiseMultiplier, Probability, Steps};
/// let incidence = Incidence::new(4, 2, vec![(0, 0), (1, 0), (2, 1), (3, 1)])?;
/// let promise = Secret::new(Probability::new(1e-6)?, Probability::new(1e-2)?)?;
/// let (secrets, rates) = ([promise; 2], [0.01; 4]);
/// let run = Protection { incidence: &incidence, secrets: &secrets, rates: &rates, steps: Steps::new(100) };
/// let sigma = NoiseMultiplier::new(2.0)?;
/// let certified = run.certified(Some(sigma))?;
/// // Two secrets of equal rates and promises are one class.
/// assert_eq!(certified.classes.classes().len(), 1);
/// let again = certified.classes.posteriors(sigma, run.steps)?;
/// assert!(again[0].get().get() == certified.posteriors[0]);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Written", into = "Written")]
pub struct SecretClasses {
    profiles: Vec<Dominating>,
    classes: Vec<SecretClass>,
}

/// Secrets with one promise that one profile certifies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SecretClass {
    /// The number of secrets.
    pub secrets: u64,
    /// The promise for each of them.
    pub promise: Secret,
    /// The index of the profile that certifies them.
    profile: usize,
}

/// A profile of rates with a prior, at least as large as those of every secret that it certifies.
#[derive(Debug, Clone, PartialEq)]
enum Dominating {
    /// The rates of a secret's records, the largest first, each with the number of records that have it.
    Own { prior: f64, rates: Vec<(f64, u32)> },
    /// At most this many records, with at most this Σ −ln(1 − ρ).
    Cell {
        prior: f64,
        records: u32,
        hazard: f64,
    },
}

/// The secrets of a run, each with its bound.
#[derive(Debug, Clone, PartialEq)]
pub struct Certified {
    /// The classes that bound the secrets.
    pub classes: SecretClasses,
    /// The class of each secret.
    pub class_of: Vec<usize>,
    /// Upper bounds on the probability of guessing each secret after training; 1 without noise.
    pub posteriors: Vec<f64>,
}

impl Protection<'_> {
    /// Returns the certificates of all secrets at this noise, and the resulting posteriors.
    ///
    /// Bound: each posterior is an upper one. Up to 64 secrets have bounds of their own; if there are more, secrets
    /// share the bounds of their cells unless these would exceed a promise.
    ///
    /// # Errors
    /// Returns an error if the numbers of promises and rates don't fit the incidence, or if a rate lies outside [0, 1].
    pub fn certified(&self, noise: Option<NoiseMultiplier>) -> Result<Certified> {
        self.check()?;
        let count = self.secrets.len();
        let mut cells: Vec<Option<Dominating>> = vec![None; count];
        if count > FEW {
            let outlines = self.outlines()?;
            let grid = screen::grid(&outlines, TABLE_CELLS[0]);
            cells = self.cells_that_hold(&grid, noise)?;
        }
        let mut found: BTreeMap<Vec<u64>, (Dominating, Vec<usize>)> = BTreeMap::new();
        for (secret, cell) in cells.into_iter().enumerate() {
            let profile = match cell {
                Some(cell) => cell,
                None => Dominating::own(&self.profile(secret)?, self.secrets[secret].prior()),
            };
            let entry = found
                .entry(profile.key())
                .or_insert_with(|| (profile, Vec::new()));
            entry.1.push(secret);
        }
        let mut profiles = Vec::with_capacity(found.len());
        let mut classes: Vec<SecretClass> = Vec::new();
        let mut class_of = vec![0; count];
        for (profile, mut secrets) in found.into_values() {
            let promise = |secret: usize| {
                let promise = self.secrets[secret];
                (promise.prior(), promise.posterior())
            };
            let order = |a: &usize, b: &usize| {
                let (a, b) = (promise(*a), promise(*b));
                a.0.get()
                    .total_cmp(&b.0.get())
                    .then(a.1.get().total_cmp(&b.1.get()))
            };
            secrets.sort_by(order);
            for secret in secrets {
                let new = SecretClass {
                    secrets: 0,
                    promise: self.secrets[secret],
                    profile: profiles.len(),
                };
                match classes.last_mut() {
                    Some(last) if last.profile == new.profile && last.promise == new.promise => {}
                    _ => classes.push(new),
                }
                if let Some(class) = classes.last_mut() {
                    class.secrets += 1;
                }
                class_of[secret] = classes.len() - 1;
            }
            profiles.push(profile);
        }
        let classes = SecretClasses { profiles, classes };
        let posteriors = match noise {
            Some(noise) => {
                let of_classes = classes.posteriors(noise, self.steps)?;
                let each = class_of.iter().map(|class| of_classes[*class].get().get());
                each.collect()
            }
            None => vec![1.0; count],
        };
        Ok(Certified {
            classes,
            class_of,
            posteriors,
        })
    }

    /// Returns the cell of each secret whose promise the cell certifies.
    fn cells_that_hold(
        &self,
        grid: &Grid,
        noise: Option<NoiseMultiplier>,
    ) -> Result<Vec<Option<Dominating>>> {
        let posteriors = match noise {
            Some(noise) => grid.posteriors(Proof::BlowUp, noise, self.steps)?,
            None => vec![0.0; self.secrets.len()],
        };
        let each = grid.cells().iter().zip(posteriors).zip(self.secrets);
        let cells = each.map(|((cell, posterior), secret)| {
            let holds = posterior <= secret.posterior().get() && cell.hazard().is_finite();
            holds.then(|| Dominating::Cell {
                prior: cell.prior(),
                records: cell.count(),
                hazard: cell.hazard(),
            })
        });
        Ok(cells.collect())
    }
}

impl Dominating {
    fn own(profile: &RateProfile, prior: Probability) -> Self {
        let mut rates: Vec<(f64, u32)> = Vec::new();
        for rate in profile.rates() {
            match rates.last_mut() {
                Some((last, count)) if last.to_bits() == rate.to_bits() => *count += 1,
                _ => rates.push((*rate, 1)),
            }
        }
        Self::Own {
            prior: prior.get(),
            rates,
        }
    }

    /// Returns a key that is equal for equal profiles and orders profiles independently of the order of secrets.
    fn key(&self) -> Vec<u64> {
        match self {
            Self::Own { prior, rates } => {
                let runs = rates
                    .iter()
                    .flat_map(|(rate, count)| [rate.to_bits(), u64::from(*count)]);
                [0, prior.to_bits()].into_iter().chain(runs).collect()
            }
            Self::Cell {
                prior,
                records,
                hazard,
            } => vec![1, prior.to_bits(), u64::from(*records), hazard.to_bits()],
        }
    }

    const fn prior(&self) -> f64 {
        match self {
            Self::Own { prior, .. } | Self::Cell { prior, .. } => *prior,
        }
    }

    fn profile(rates: &[(f64, u32)]) -> Result<RateProfile> {
        RateProfile::new(each_rate(rates))
    }

    /// Returns whether this profile dominates the given rates.
    fn covers(&self, profile: &RateProfile) -> bool {
        match self {
            Self::Own { rates, .. } => {
                let mut each = profile.rates().iter().zip(each_rate(rates));
                profile.count() as u64 <= records_of(rates) && each.all(|(a, b)| *a <= b)
            }
            Self::Cell {
                records, hazard, ..
            } => profile.count() <= *records as usize && profile.hazard() <= *hazard,
        }
    }

    /// Returns the posterior from this prior, by the blow-up. `promise` is what a search has shown.
    fn posterior(
        &self,
        prior: Probability,
        promise: Option<f64>,
        noise: NoiseMultiplier,
        steps: Steps,
    ) -> Result<f64> {
        match self {
            Self::Own { rates, .. } => {
                let loss = Self::profile(rates)?.loss(noise, steps)?;
                let mut least = 1.0_f64;
                for tolerance in OWN {
                    let Ends { upper, .. } =
                        Proof::BlowUp.posterior(&loss, prior, Tolerance::new(tolerance)?)?;
                    least = least.min(upper);
                    if promise.is_none_or(|promise| least <= promise) {
                        break;
                    }
                }
                Ok(least)
            }
            Self::Cell {
                records, hazard, ..
            } => {
                let loss = dominating_loss(*records, *hazard, noise, steps)?;
                let ends = Proof::BlowUp.posterior(&loss, prior, Tolerance::new(CELL)?)?;
                Ok(ends.upper)
            }
        }
    }

    /// Returns the posterior from this prior that holds whatever the noise: 1 − (1 − p) e^(−T Σ −ln(1 − ρ)), since a
    /// secret of which no record is drawn is guessed as before.
    fn posterior_without_noise(&self, prior: Probability, steps: Steps) -> Result<f64> {
        let drawn = drawn(self.hazard()?, steps);
        Ok(prior.get() + (1.0 - prior.get()) * drawn)
    }

    fn hazard(&self) -> Result<f64> {
        match self {
            Self::Own { rates, .. } => Ok(Self::profile(rates)?.hazard()),
            Self::Cell { hazard, .. } => Ok(*hazard),
        }
    }
}

/// Returns the probability that some step draws a record of a secret with this hazard.
fn drawn(hazard: f64, steps: Steps) -> f64 {
    match steps.get() {
        // The hazard of a record that every step draws is infinite, and no step draws none.
        0 => 0.0,
        steps => -(-(steps as f64) * hazard).exp_m1(),
    }
}

/// Returns the rate of each record from rates with the number of records that have each.
fn each_rate(rates: &[(f64, u32)]) -> impl Iterator<Item = f64> {
    let each = rates.iter();
    each.flat_map(|(rate, count)| std::iter::repeat_n(*rate, *count as usize))
}

fn records_of(rates: &[(f64, u32)]) -> u64 {
    rates.iter().map(|(_, count)| u64::from(*count)).sum()
}

impl SecretClasses {
    /// Returns the classes, in an order that doesn't depend on the order of the secrets.
    #[must_use]
    pub fn classes(&self) -> &[SecretClass] {
        &self.classes
    }

    /// Returns the number of secrets.
    #[must_use]
    pub fn secrets(&self) -> u64 {
        self.classes.iter().map(|class| class.secrets).sum()
    }

    /// Returns whether these rates, the largest first, dominate the secrets: at each place they must be no less than
    /// any secret's rate, and equal to that of some secret. Of a secret that is known by the ends of its cell alone, the
    /// cell must allow that: the k-th of its rates is this large only if its hazard is at least that of k such rates. The
    /// records of a cell are at most as many as the rates, rounded up to the coarsest cell. In a file that states both,
    /// one of them may have been edited.
    #[must_use]
    pub fn are_dominated_by(&self, rates: &[SamplingRate]) -> bool {
        let mut most: Vec<f64> = Vec::new();
        // The largest hazard of the cells whose last place is this one, or beyond the last of all.
        let mut hazards = vec![f64::NEG_INFINITY; rates.len()];
        let rates_there = rates.len() as u64;
        let most_of_a_cell = screen::most_records(rates.len());
        for profile in &self.profiles {
            let rates = match profile {
                Dominating::Own { rates, .. } => rates,
                Dominating::Cell {
                    records, hazard, ..
                } if *records <= most_of_a_cell => {
                    let places = hazards.len().min(*records as usize);
                    if let Some(most) = hazards[..places].last_mut() {
                        *most = most.max(*hazard);
                    }
                    continue;
                }
                Dominating::Cell { .. } => return false,
            };
            let records = records_of(rates);
            // Checked before the vector grows to a size that an edited file may state.
            if records > rates_there {
                return false;
            }
            most.resize(most.len().max(records as usize), 0.0);
            for (most, own) in most.iter_mut().zip(each_rate(rates)) {
                *most = most.max(own);
            }
        }
        let dominated = most.iter().zip(rates).all(|(m, r)| *m <= r.get());
        let mut hazard = f64::NEG_INFINITY;
        let mut places = rates.iter().enumerate().zip(hazards).rev();
        let attained = places.all(|((place, rate), of_cells)| {
            hazard = hazard.max(of_cells);
            let rate = rate.get();
            let least = -(place as f64 + 1.0) * (-rate).ln_1p();
            // A cell's hazard is rounded up.
            let by_a_cell = hazard >= least * (1.0 - 8.0 * ROUND);
            by_a_cell || most.get(place).is_some_and(|own| *own >= rate)
        });
        !self.classes.is_empty() && dominated && attained
    }

    /// Returns the most records that hold a secret of a class and are drawn: a weight of 0 leaves a record out.
    #[must_use]
    pub fn records_drawn(&self, class: &SecretClass) -> u64 {
        match &self.profiles[class.profile] {
            Dominating::Own { rates, .. } => records_of(rates),
            Dominating::Cell { records, .. } => u64::from(*records),
        }
    }

    /// Returns lower bounds on the probability that these steps draw some record of a secret of each class: a weight may be so small
    /// that training never meets the secret.
    ///
    /// # Errors
    /// None for profiles that were certified.
    pub fn drawn_at_least(&self, steps: Steps) -> Result<Vec<Lower<Probability>>> {
        let each = self.classes.iter().map(|class| {
            let profile = &self.profiles[class.profile];
            let hazard = profile.hazard()?;
            let least = match profile {
                // A hazard is rounded up.
                Dominating::Own { rates, .. } => {
                    hazard * (1.0 - 4.0 * ROUND * (records_of(rates) as f64 + 4.0))
                }
                Dominating::Cell { .. } => hazard / screen::WIDEST,
            };
            Probability::new(drawn(least.max(0.0), steps)).map(Lower::new)
        });
        each.collect()
    }

    /// Returns upper bounds on the probability of guessing a secret of each class after training.
    ///
    /// # Errors
    /// None for profiles that were certified.
    pub fn posteriors(
        &self,
        noise: NoiseMultiplier,
        steps: Steps,
    ) -> Result<Vec<Upper<Probability>>> {
        let mut promises = vec![f64::INFINITY; self.profiles.len()];
        for class in &self.classes {
            let promise = &mut promises[class.profile];
            *promise = promise.min(class.promise.posterior().get());
        }
        let wanted: Vec<(&Dominating, f64)> = self.profiles.iter().zip(promises).collect();
        let found = parallel::map(&wanted, |(profile, promise)| {
            let prior = Probability::new(profile.prior())?;
            let bound = profile.posterior(prior, Some(*promise), noise, steps)?;
            Probability::new(bound.min(1.0)).map(Upper::new)
        });
        let found = found.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(self.classes.iter().map(|c| found[c.profile]).collect())
    }

    /// Returns upper bounds on the probability of guessing a secret of each class after training, if it was guessed
    /// with probability at most `prior` before training; without noise, those that hold whatever the noise.
    ///
    /// # Errors
    /// None for profiles that were certified.
    pub fn posteriors_at(
        &self,
        prior: Probability,
        noise: Option<NoiseMultiplier>,
        steps: Steps,
    ) -> Result<Vec<Upper<Probability>>> {
        let mut places: HashMap<Vec<u64>, usize> = HashMap::new();
        let mut distinct: Vec<&Dominating> = Vec::new();
        let mut place_of = Vec::with_capacity(self.profiles.len());
        for profile in &self.profiles {
            let mut key = profile.key();
            key[1] = 0;
            let place = *places.entry(key).or_insert_with(|| {
                distinct.push(profile);
                distinct.len() - 1
            });
            place_of.push(place);
        }
        let found = parallel::map(&distinct, |profile| {
            let bound = match noise {
                Some(noise) => profile.posterior(prior, None, noise, steps)?,
                None => profile.posterior_without_noise(prior, steps)?,
            };
            Probability::new(bound.clamp(prior.get(), 1.0)).map(Upper::new)
        });
        let found = found.into_iter().collect::<Result<Vec<_>>>()?;
        let of = |class: &SecretClass| found[place_of[class.profile]];
        Ok(self.classes.iter().map(of).collect())
    }

    /// Returns the index of the first of these secrets that no class with the same promise covers.
    ///
    /// # Errors
    /// Returns an error if a rate lies outside [0, 1].
    pub fn first_uncovered(
        &self,
        secrets: impl IntoIterator<Item = (Secret, Result<RateProfile>)>,
    ) -> Result<Option<usize>> {
        let key = |promise: &Secret| {
            let (prior, posterior) = (promise.prior(), promise.posterior());
            [prior.get().to_bits(), posterior.get().to_bits()]
        };
        let mut of_promise: HashMap<[u64; 2], Vec<&Dominating>> = HashMap::new();
        for class in &self.classes {
            let profiles = of_promise.entry(key(&class.promise)).or_default();
            profiles.push(&self.profiles[class.profile]);
        }
        for (place, (promise, profile)) in secrets.into_iter().enumerate() {
            let profile = profile?;
            let by = of_promise.get(&key(&promise));
            if !by.is_some_and(|by| by.iter().any(|by| by.covers(&profile))) {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }
}

/// As it is written: lists instead of objects, of which a document may hold a hundred thousand.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    /// [prior, [[rate, records], …]].
    own: Vec<(f64, Vec<(f64, u32)>)>,
    /// [prior, records, hazard].
    cells: Vec<(f64, u32, f64)>,
    /// [secrets, prior, posterior, profile]: a number of `own`, then of `cells`.
    classes: Vec<(u64, f64, f64, usize)>,
}

impl From<SecretClasses> for Written {
    fn from(classes: SecretClasses) -> Self {
        let (mut own, mut cells) = (Vec::new(), Vec::new());
        for profile in classes.profiles {
            match profile {
                Dominating::Own { prior, rates } => own.push((prior, rates)),
                Dominating::Cell {
                    prior,
                    records,
                    hazard,
                } => cells.push((prior, records, hazard)),
            }
        }
        let each = classes.classes.into_iter().map(|class| {
            let (prior, posterior) = (class.promise.prior(), class.promise.posterior());
            (class.secrets, prior.get(), posterior.get(), class.profile)
        });
        Self {
            own,
            cells,
            classes: each.collect(),
        }
    }
}

impl TryFrom<Written> for SecretClasses {
    type Error = Error;
    fn try_from(written: Written) -> Result<Self> {
        let bad = |what, range, value| Err(Error::out_of_range(what, range, value));
        let mut profiles = Vec::with_capacity(written.own.len() + written.cells.len());
        for (prior, rates) in written.own {
            let mut last = 1.0;
            for (rate, count) in &rates {
                if !(*rate > 0.0 && *rate <= last) {
                    return bad("rate of a record", "(0, 1], the largest first", *rate);
                }
                if *count == 0 {
                    return bad("records of a rate", "[1, 2^32)", 0.0);
                }
                last = *rate;
            }
            let records = records_of(&rates);
            if records > u64::from(u32::MAX) {
                return bad("records of a secret", "[0, 2^32)", records as f64);
            }
            Probability::new(prior)?;
            profiles.push(Dominating::Own { prior, rates });
        }
        for (prior, records, hazard) in written.cells {
            if records == 0 {
                return bad("records of a secret", "[1, 2^32)", 0.0);
            }
            if !(hazard >= 0.0 && hazard.is_finite()) {
                return bad("hazard", "[0, inf)", hazard);
            }
            Probability::new(prior)?;
            profiles.push(Dominating::Cell {
                prior,
                records,
                hazard,
            });
        }
        let mut classes = Vec::with_capacity(written.classes.len());
        let mut certifies = vec![false; profiles.len()];
        let mut total = 0u64;
        for (secrets, prior, posterior, profile) in written.classes {
            let promise = Secret::new(Probability::new(prior)?, Probability::new(posterior)?)?;
            let Some(by) = profiles.get(profile) else {
                return bad("profile of a class", "one that is listed", profile as f64);
            };
            if prior > by.prior() {
                return bad("prior of a class", "at most that of its profile", prior);
            }
            if secrets == 0 {
                return bad("secrets of a class", "[1, inf)", 0.0);
            }
            let Some(sum) = total.checked_add(secrets) else {
                return bad(
                    "secrets of all classes",
                    "[0, 2^64)",
                    total as f64 + secrets as f64,
                );
            };
            total = sum;
            certifies[profile] = true;
            classes.push(SecretClass {
                secrets,
                promise,
                profile,
            });
        }
        if certifies.contains(&false) {
            return bad("classes of a profile", "[1, inf)", 0.0);
        }
        Ok(Self { profiles, classes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protect::Incidence;

    fn promise(prior: f64, posterior: f64) -> Secret {
        let [prior, posterior] = [prior, posterior].map(|p| Probability::new(p).unwrap());
        Secret::new(prior, posterior).unwrap()
    }

    /// 90 secrets, the j-th in j mod 5 + 1 examples of rates between 0.002 and 0.02.
    fn many() -> (Incidence, Vec<Secret>, Vec<f64>) {
        let pairs = (0..90u32).flat_map(|j| (0..=j % 5).map(move |i| ((7 * j + i) % 100, j)));
        let incidence = Incidence::new(100, 90, pairs.collect()).unwrap();
        let secrets = (0..90).map(|j| promise(1e-9, 1e-4 * f64::from(1 + j % 7)));
        let rates = (0..100).map(|i| 0.002 * f64::from(1 + i % 10)).collect();
        (incidence, secrets.collect(), rates)
    }

    /// What dominates three secrets of two kinds: rates below one of theirs, beyond all of theirs or of no secret are others.
    #[test]
    fn rates_that_do_not_dominate_the_secrets_are_others() {
        let written = |own: &str, cells: &str, classes: &str| -> SecretClasses {
            let text = format!(r#"{{"own":[{own}],"cells":[{cells}],"classes":[{classes}]}}"#);
            serde_json::from_str(&text).unwrap()
        };
        let (one, two) = ("[1e-6,[[0.5,1]]]", "[1e-6,[[0.2,2],[0.1,1]]]");
        let (first, second) = ("[2,1e-6,1e-3,0]", "[1,1e-6,1e-3,1]");
        let all = written(&format!("{one},{two}"), "", &format!("{first},{second}"));
        let with_cell = written(one, "[1e-6,4,2.0]", &format!("{first},{second}"));
        let rates = |all: &[f64]| -> Vec<SamplingRate> {
            all.iter().map(|r| SamplingRate::new(*r).unwrap()).collect()
        };
        let dominating = rates(&[0.5, 0.2, 0.1]);
        assert!(all.are_dominated_by(&dominating));
        for others in [
            &[0.4, 0.2, 0.1][..],
            &[0.5, 0.2],
            &[0.5, 0.2, 0.1, 0.1],
            &[0.5, 0.3, 0.1],
            &[],
        ] {
            assert!(!all.are_dominated_by(&rates(others)), "{others:?}");
        }
        assert!(with_cell.are_dominated_by(&dominating));
        assert!(!with_cell.are_dominated_by(&rates(&[0.4, 0.2, 0.1])));
        // Numbers of records are rounded up to powers of 16 at most.
        let with_cell = |records: u32| {
            let cell = format!("[1e-6,{records},2.0]");
            written(one, &cell, &format!("{first},{second}"))
        };
        assert!(with_cell(16).are_dominated_by(&dominating));
        assert!(!with_cell(17).are_dominated_by(&dominating));
        assert!(!written("", "", "").are_dominated_by(&[]));
        // Two rates of 0.1 have a hazard of 0.2107.
        let by_cell = |own: &str, cell: &str, classes: &str| {
            written(own, cell, classes).are_dominated_by(&rates(&[0.1, 0.1]))
        };
        assert!(by_cell("", "[1e-6,2,0.211]", "[1,1e-6,1e-3,0]"));
        assert!(by_cell("", "[1e-6,16,0.211]", "[1,1e-6,1e-3,0]"));
        for cell in ["[1e-6,16,0.21]", "[1e-6,1,0.211]", "[1e-6,16,1e-9]"] {
            assert!(!by_cell("", cell, "[1,1e-6,1e-3,0]"), "{cell}");
        }
        let beside = "[1,1e-6,1e-3,0],[1,1e-6,1e-3,1]";
        let little = "[1e-6,[[0.0001,1]]]";
        assert!(!by_cell(little, "[1e-6,1,0.0]", beside));
        // The first place by a secret of its own, the second by a cell; a smaller cell beside it takes nothing away.
        let first = "[1e-6,[[0.1,1]]]";
        assert!(!by_cell(first, "[1e-6,2,0.11]", beside));
        let three = "[1,1e-6,1e-3,0],[1,1e-6,1e-3,1],[1,1e-6,1e-3,2]";
        assert!(by_cell(first, "[1e-6,2,0.211],[1e-6,1,1e-9]", three));
    }

    #[test]
    fn what_is_written_certifies_the_same_when_read_and_covers_its_secrets() {
        let (incidence, secrets, rates) = many();
        let run = Protection {
            incidence: &incidence,
            secrets: &secrets,
            rates: &rates,
            steps: Steps::new(200),
        };
        let sigma = NoiseMultiplier::new(1.0).unwrap();
        let certified = run.certified(Some(sigma)).unwrap();
        let classes = &certified.classes;
        assert_eq!(classes.secrets(), 90);
        let of_secrets = (0..90).map(|j| incidence.examples_of(j).to_vec());
        let of_secrets: Vec<Vec<u32>> = of_secrets.collect();
        let dominating = crate::training::dominating_rates(&rates, &of_secrets).unwrap();
        assert!(classes.are_dominated_by(&dominating));
        let written = serde_json::to_string(classes).unwrap();
        let read: SecretClasses = serde_json::from_str(&written).unwrap();
        assert_eq!(&read, classes);
        let found = read.posteriors(sigma, run.steps).unwrap();
        for (j, posterior) in certified.posteriors.iter().enumerate() {
            let class = certified.class_of[j];
            assert_eq!(read.classes()[class].promise, secrets[j]);
            assert!(
                (found[class].get().get() - posterior).abs() < f64::MIN_POSITIVE,
                "{j}"
            );
            // Never below what the secret's own rates certainly allow.
            let own = run
                .posterior(j, sigma, Tolerance::new(1e-4).unwrap())
                .unwrap();
            assert!(own.lower.unwrap().get().get() <= *posterior, "{j}");
        }
        let each = |scale: f64, more: usize| {
            let (run, secrets) = (run, secrets.clone());
            (0..90).map(move |j| {
                let own = run.profile(j).unwrap();
                let rates = own.rates().iter().map(|rate| rate * scale);
                let more = std::iter::repeat_n(1e-6, more);
                let profile = RateProfile::new(rates.chain(more).collect::<Vec<_>>());
                (secrets[j], profile)
            })
        };
        assert_eq!(read.first_uncovered(each(1.0, 0)).unwrap(), None);
        // Much higher rates, more records than any secret has, and a promise that nobody made.
        assert!(read.first_uncovered(each(9.0, 0)).unwrap().is_some());
        assert!(read.first_uncovered(each(1.0, 9)).unwrap().is_some());
        let other = [(promise(1e-9, 0.5), run.profile(0))];
        assert_eq!(read.first_uncovered(other).unwrap(), Some(0));
        // Any prior's posterior is at least that of each secret from its own prior.
        let all = read
            .posteriors_at(Probability::new(1e-9).unwrap(), Some(sigma), run.steps)
            .unwrap();
        for (class, own) in certified.class_of.iter().zip(&certified.posteriors) {
            // Both are upper ends; those of cells are computed to 1e-3.
            let all = all[*class].get().get();
            assert!(all >= own * (1.0 - 2e-3), "{all} {own}");
        }
    }

    /// A secret in two records that each of ten steps draws with probability 1/100 is drawn at all with probability
    /// 1 − .99^20, and guessed as before otherwise: no noise is so small that it is guessed more often.
    #[test]
    fn without_noise_a_secret_is_seen_if_it_is_drawn() {
        let incidence = Incidence::new(2, 1, vec![(0, 0), (1, 0)]).unwrap();
        let secrets = [promise(1e-3, 1e-2)];
        let run = Protection {
            incidence: &incidence,
            secrets: &secrets,
            rates: &[0.01, 0.01],
            steps: Steps::new(10),
        };
        let classes = run.certified(None).unwrap().classes;
        let prior = Probability::new(1e-3).unwrap();
        let at = |noise| {
            let found = classes.posteriors_at(prior, noise, run.steps).unwrap();
            found[0].get().get()
        };
        // At all, 1 − .99^20.
        let drawn = |classes: &SecretClasses| {
            let found = classes.drawn_at_least(run.steps).unwrap();
            found[0].get().get()
        };
        let all = 1.0 - 0.99_f64.powi(20);
        assert!(drawn(&classes) <= all && drawn(&classes) > all * (1.0 - 1e-12));
        // A cell's hazard may be twice that of its secrets.
        let cell = r#"{"own":[],"cells":[[1e-3,2,0.0402]],"classes":[[1,1e-3,1e-2,0]]}"#;
        let cell = drawn(&serde_json::from_str(cell).unwrap());
        assert!(cell < all && cell > 0.4 * all, "{cell}");
        let exact = 1.0 - 0.99_f64.powi(20) * 0.999;
        assert!((at(None) - exact).abs() < 1e-12, "{}", at(None));
        let little = at(Some(NoiseMultiplier::new(0.02).unwrap()));
        assert!(little <= exact * (1.0 + 1e-9) && little > 0.99 * exact);
    }

    /// Without noise nothing is promised, and few secrets have bounds of their own.
    #[test]
    fn few_secrets_are_certified_by_their_own_rates_and_none_without_noise() {
        let incidence = Incidence::new(3, 2, vec![(0, 0), (1, 0), (2, 1)]).unwrap();
        let secrets = [promise(1e-6, 1e-2); 2];
        let run = Protection {
            incidence: &incidence,
            secrets: &secrets,
            rates: &[0.5, 0.5, 0.25],
            steps: Steps::new(10),
        };
        let certified = run.certified(None).unwrap();
        assert!(certified.posteriors.iter().all(|p| *p >= 1.0));
        let written = serde_json::to_value(&certified.classes).unwrap();
        assert_eq!(
            written["own"],
            serde_json::json!([[1e-6, [[0.25, 1]]], [1e-6, [[0.5, 2]]]])
        );
        assert_eq!(written["cells"], serde_json::json!([]));
        // One record more, or a higher rate, is not covered.
        let covers = |rates: &[f64]| {
            let secret = (secrets[0], RateProfile::new(rates.to_vec()));
            certified
                .classes
                .first_uncovered([secret])
                .unwrap()
                .is_none()
        };
        assert!(covers(&[0.5, 0.5]) && covers(&[0.5]) && covers(&[]));
        assert!(!covers(&[0.5, 0.5, 1e-9]) && !covers(&[0.50001, 0.1]));
    }

    #[test]
    fn what_certifies_nothing_is_refused() {
        let good = serde_json::json!({
            "own": [[1e-6, [[0.5, 2], [0.25, 1]]]], "cells": [[1e-3, 4, 0.1]],
            "classes": [[3, 1e-6, 1e-2, 0], [1, 1e-6, 1e-2, 1]]
        });
        let read = |value: &serde_json::Value| -> Option<SecretClasses> {
            serde_json::from_value(value.clone()).ok()
        };
        assert!(read(&good).is_some());
        for (at, bad) in [
            ("/own/0/1/0/0", serde_json::json!(0.1)), // not the largest first
            ("/own/0/1/0/0", 1.5.into()),
            ("/own/0/1/1/1", 0.into()),
            ("/cells/0/1", 0.into()),
            ("/cells/0/2", serde_json::json!(-1.0)),
            ("/classes/0/0", 0.into()),
            ("/classes/0/0", u64::MAX.into()), // more secrets than are counted
            ("/classes/0/1", 1e-5.into()),     // a prior above that of its profile
            ("/classes/0/2", 1e-7.into()),     // a promise below the prior
            ("/classes/1/3", 2.into()),        // a profile that is not there
            ("/classes/1/3", 0.into()),        // a profile of no class
        ] {
            let mut value = good.clone();
            *value.pointer_mut(at).unwrap() = bad.clone();
            assert!(read(&value).is_none(), "{at} {bad}");
        }
    }
}
