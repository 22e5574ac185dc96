//! Computes the document from the input.

use super::args::Protect;
use super::document::{Infeasible, Joint, KindRow, Own, Protection, Row, Setting, Sizes};
use super::input::Input;
use crate::contract::{Envelope, Inputs, note_to_terminal};
use crate::number::{described, rounded, shortest};
use anyhow::{Result, anyhow, ensure};
use reticent_accounting::protect::{
    Certified, Noise, Posterior, Proof, Secret, Solution, Training, WEIGHTS_TOO_LIGHT, Weighed,
};
use reticent_accounting::training::MOST_DRAWN;
use reticent_accounting::{Bounds, Lower, NoiseMultiplier, Probability, Steps, Tolerance, Upper};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The default relative gap and tolerance.
const DEFAULT: f64 = 1e-4;
/// The largest number of secrets for which each has its own row and noise.
const FEW: usize = 12;
/// The number of secrets shown otherwise, those nearest to their promise first.
const SHOWN: usize = 10;
/// The exponents of the sweep (Hush!, Fig. 1).
const EXPONENTS: std::ops::RangeInclusive<i32> = -6..=4;

/// The document, and what else can be written.
#[derive(Debug)]
pub(crate) struct Found {
    /// The answer.
    pub(crate) document: Envelope<Protection>,
    /// The recommended choice; absent for a sweep.
    pub(crate) chosen: Option<Chosen>,
}

/// The recommended choice.
#[derive(Debug)]
pub(crate) struct Chosen {
    /// The weights and rates.
    pub(crate) weighed: Weighed,
    /// The noise at which every promise is certified.
    pub(crate) sigma: NoiseMultiplier,
    /// The certificate of each secret at this noise.
    pub(crate) certified: Certified,
    /// The posterior of every secret.
    pub(crate) posteriors: Vec<Posterior>,
}

/// Computes weights, noise and posteriors.
///
/// # Errors
/// Returns an error if the sum of the weights is not above the batch size, if a gap doesn't close,
/// or if no noise keeps a promise.
pub(crate) fn protect(wish: &Protect, input: &Input) -> Result<Found> {
    let default = Tolerance::new(DEFAULT)?;
    let secrets = input.secrets();
    let steps = Steps::new(wish.steps);
    let work = Work {
        wish,
        input,
        training: Training::new(&input.incidence, &secrets, wish.batch_size, steps)?,
        secrets: &secrets,
        gap: wish.gap.unwrap_or(default),
        tolerance: wish.tolerance.unwrap_or(default),
    };
    let mut body = Protection {
        change: "arbitrary".into(),
        incidence: sizes(input),
        full_c: work.training.full_capacity(),
        settings: Vec::new(),
        infeasible: Vec::new(),
        secrets: Vec::new(),
        kinds: Vec::new(),
    };
    if wish.sweep {
        work.sweep(&mut body)?;
        return Ok(Found {
            document: Envelope::new("protection", work.inputs()?, body),
            chosen: None,
        });
    }
    let c = wish.c.unwrap_or(body.full_c.max(f64::MIN_POSITIVE));
    let found = work.setting(c, None, None);
    let (setting, weighed, noise) = found.map_err(|error| of_the_batch(error, wish.batch_size))?;
    body.settings.push(setting);
    let plan = work.training.protection(&weighed.rates);
    let certified = plan.certified(Some(noise.sigma))?;
    let posteriors = plan.posteriors(&certified, noise.sigma, work.tolerance)?;
    body.secrets = work.rows(&weighed, &noise, &posteriors)?;
    body.kinds = work.kinds(&posteriors)?;
    Ok(Found {
        document: Envelope::new("protection", work.inputs()?, body),
        chosen: Some(Chosen {
            weighed,
            sigma: noise.sigma,
            certified,
            posteriors,
        }),
    })
}

struct Work<'a> {
    wish: &'a Protect,
    input: &'a Input,
    training: Training<'a>,
    secrets: &'a [Secret],
    gap: Tolerance,
    tolerance: Tolerance,
}

impl Work<'_> {
    fn inputs(&self) -> Result<Inputs> {
        let wish = self.wish;
        let inputs = Inputs::new()
            .given_path("incidence", wish.incidence.as_deref())?
            .given("field", wish.field.clone())?
            .given_path("secrets", wish.secrets.as_deref())?
            .given("counts", (!wish.counts.is_empty()).then_some(&wish.counts))?
            .given("prior", wish.prior)?
            .given(
                "posterior",
                (!wish.posterior.is_empty()).then_some(&wish.posterior),
            )?
            .given("batch_size", wish.batch_size)?
            .given("steps", wish.steps)?
            .given("c", wish.c)?
            .given("sweep", wish.sweep)?
            .given("joint", wish.joint)?
            .given("discard_others", wish.discard_others.then_some(true))?;
        let examples = self.input.incidence.example_count() as u64;
        Ok(inputs
            .or_assumed("dataset_size", wish.dataset_size, examples)?
            .or_assumed("gap", wish.gap, self.gap)?
            .or_assumed("tolerance", wish.tolerance, self.tolerance)?)
    }

    /// Tries c = 2^k/2^4 times the least c that has no effect, so that 2^4 means no preprocessing.
    fn sweep(&self, body: &mut Protection) -> Result<()> {
        let unit = body.full_c / 16.0;
        let mut start: Option<Solution> = None;
        let began = Instant::now();
        for (done, exponent) in (1..).zip(EXPONENTS.rev()) {
            let c = unit * 2f64.powi(exponent);
            let (setting, weighed, _) = match self.setting(c, Some(exponent), start.as_ref()) {
                Ok(found) => found,
                Err(error) => match too_light(&error) {
                    Some(mass) if !body.settings.is_empty() => {
                        body.infeasible.push(Infeasible { exponent, c, mass });
                        continue;
                    }
                    _ => {
                        let place = format!("--sweep: at c = 2^{exponent} (c μ with c = {c:.4e})");
                        return Err(of_the_batch(error, self.wish.batch_size).context(place));
                    }
                },
            };
            note_to_terminal(&so_far(&setting, exponent, done, began.elapsed()));
            body.settings.push(setting);
            start = Some(weighed.solution);
        }
        body.settings.reverse();
        body.infeasible.reverse();
        Ok(())
    }

    /// Returns the weights at c, their noise by each proof, and what is recommended: the joint
    /// choice, if there is one.
    fn setting(
        &self,
        c: f64,
        exponent: Option<i32>,
        start: Option<&Solution>,
    ) -> Result<(Setting, Weighed, Noise)> {
        let weighed = self.training.weigh(c, self.gap, start)?;
        // The joint choice may draw fewer records.
        if !self.wish.joint {
            self.check_drawn(&weighed)?;
        }
        let noise = |proof| self.training.noise(&weighed, proof, self.tolerance);
        let tight = noise(Proof::BlowUp)?;
        let mut setting = Setting {
            exponent,
            c,
            kept: kept(&weighed),
            mass: Bounds::between(weighed.solution.mass, weighed.solution.most),
            gap: weighed.solution.gap(),
            sigma: ends(&tight),
            binding: tight.binding.map(|j| self.name(j)),
            kl_fano_sigma: in_reach(noise(Proof::KlFano))?,
            renyi_fano_sigma: in_reach(noise(Proof::RenyiFano))?,
            joint: None,
        };
        if !self.wish.joint {
            return Ok((setting, weighed, tight));
        }
        let (better, less) = self
            .training
            .jointly(&weighed, &tight, self.gap, self.tolerance)?;
        self.check_drawn(&better)?;
        setting.joint = Some(Joint {
            kept: kept(&better),
            mass: better.solution.mass,
            sigma: ends(&less),
            noise_saved: 1.0 - less.sigma.get() / tight.sigma.get(),
        });
        Ok((setting, better, less))
    }

    /// Refuses to write weights that `audit train` would refuse.
    fn check_drawn(&self, weighed: &Weighed) -> Result<()> {
        let drawn = |secret: usize| {
            let examples = self.input.incidence.examples_of(secret).iter();
            let rates = examples.map(|example| weighed.rates[*example as usize]);
            rates.filter(|rate| *rate > 0.0).count()
        };
        let most = (0..self.secrets.len()).map(drawn).max().unwrap_or(0);
        ensure!(
            self.wish.weights.is_none() || most <= MOST_DRAWN,
            "--weights: at most {MOST_DRAWN} records of a secret may be drawn, got {most}; remove some of its records \
             from the text and from --incidence"
        );
        Ok(())
    }

    fn name(&self, secret: usize) -> String {
        self.input.secrets.all()[secret].to_string()
    }

    /// Returns a row for each secret if they are few, otherwise for those nearest to their promise.
    fn rows(&self, weighed: &Weighed, noise: &Noise, posteriors: &[Posterior]) -> Result<Vec<Row>> {
        let few = self.secrets.len() <= FEW;
        let share = |j: &usize| posteriors[*j].blow_up / self.secrets[*j].posterior().get();
        let mut chosen: Vec<usize> = (0..self.secrets.len()).collect();
        if !few {
            chosen.sort_by(|a, b| share(b).total_cmp(&share(a)));
            chosen.truncate(SHOWN);
        }
        chosen
            .into_iter()
            .map(|j| {
                let own = few.then(|| self.own(j, weighed, noise)).transpose()?;
                self.row(j, weighed, posteriors[j], own)
            })
            .collect()
    }

    fn row(
        &self,
        secret: usize,
        weighed: &Weighed,
        at: Posterior,
        own: Option<Own>,
    ) -> Result<Row> {
        let promise = &self.input.promises[secret];
        let examples = self.input.incidence.examples_of(secret);
        let bound = |value: f64| Probability::new(value.min(1.0)).map(Upper::new);
        Ok(Row {
            id: self.name(secret),
            kind: (!promise.kind.is_empty()).then(|| promise.kind.clone()),
            prior: promise.secret.prior(),
            promise: promise.secret.posterior(),
            examples: examples.len() as u64,
            mean_draws: examples.iter().map(|e| weighed.rates[*e as usize]).sum(),
            blow_up: bound(at.blow_up)?,
            kl_fano: bound(at.kl_fano)?,
            renyi_fano: bound(at.renyi_fano)?,
            own,
        })
    }

    fn own(&self, secret: usize, weighed: &Weighed, all: &Noise) -> Result<Own> {
        let plan = self.training.protection(&weighed.rates);
        let noise = |proof| plan.noise_of(secret, proof, self.tolerance);
        // Slightly less is too little for the binding secret alone.
        let binds = all.binding == Some(secret) && all.too_small.is_some();
        let blow_up = match binds {
            true => ends(all),
            false => ends(&noise(Proof::BlowUp)?),
        };
        Ok(Own {
            blow_up,
            kl_fano: in_reach(noise(Proof::KlFano))?,
            renyi_fano: in_reach(noise(Proof::RenyiFano))?,
        })
    }

    fn kinds(&self, posteriors: &[Posterior]) -> Result<Vec<KindRow>> {
        let mut kinds: BTreeMap<&str, (u64, f64, f64)> = BTreeMap::new();
        for (promise, posterior) in self.input.promises.iter().zip(posteriors) {
            let row = kinds.entry(&promise.kind).or_default();
            row.0 += 1;
            row.1 = row.1.max(posterior.blow_up);
            row.2 = row
                .2
                .max(posterior.blow_up / promise.secret.posterior().get());
        }
        kinds
            .into_iter()
            .map(|(kind, (secrets, most, share))| {
                Ok(KindRow {
                    kind: kind.to_owned(),
                    secrets,
                    blow_up: Upper::new(Probability::new(most.min(1.0))?),
                    share_of_promise: share,
                })
            })
            .collect()
    }
}

/// Returns what a sweep has found at one c, and how long the others may take.
pub(super) fn so_far(setting: &Setting, exponent: i32, done: u32, elapsed: Duration) -> String {
    let all = EXPONENTS.count() as u32;
    let left = elapsed / done * (all - done);
    format!(
        "sweep {done}/{all}: sigma {} at c = 2^{exponent}; about {} s left",
        rounded(setting.recommended().upper, 5),
        left.as_secs()
    )
}

/// Returns the error in terms of the flag if the weights are too light for the batch size.
fn of_the_batch(error: anyhow::Error, batch: f64) -> anyhow::Error {
    match too_light(&error) {
        Some(sum) => anyhow!(
            "--batch-size: must be below the sum of the weights, {}; got {}",
            described(sum),
            shortest(batch)
        ),
        None => error,
    }
}

/// Returns the sum of weights if the error is that it is not above the batch size.
fn too_light(error: &anyhow::Error) -> Option<f64> {
    match error.downcast_ref::<reticent_accounting::Error>() {
        Some(reticent_accounting::Error::OutOfRange { what, value, .. })
            if *what == WEIGHTS_TOO_LIGHT =>
        {
            Some(*value)
        }
        _ => None,
    }
}

/// Returns the noise of a proof that is only compared; `None` if no noise in the considered range
/// suffices.
fn in_reach(found: reticent_accounting::Result<Noise>) -> Result<Option<Upper<NoiseMultiplier>>> {
    match found {
        Ok(noise) => Ok(Some(Upper::new(noise.sigma))),
        Err(reticent_accounting::Error::OutOfReach { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn kept(weighed: &Weighed) -> u64 {
    weighed.kept(f64::MIN_POSITIVE) as u64
}

fn ends(noise: &Noise) -> Bounds<NoiseMultiplier> {
    Bounds {
        lower: noise.too_small.map(Lower::new),
        upper: Some(Upper::new(noise.sigma)),
    }
}

fn sizes(input: &Input) -> Sizes {
    let incidence = &input.incidence;
    let per_example = (0..incidence.example_count()).map(|e| incidence.secrets_of(e).len() as u64);
    let per_secret = (0..incidence.secret_count()).map(|s| incidence.examples_of(s).len() as u64);
    Sizes {
        examples: incidence.example_count() as u64,
        with_secrets: per_example.clone().filter(|count| *count > 0).count() as u64,
        secrets: incidence.secret_count() as u64,
        in_no_example: per_secret.clone().filter(|count| *count == 0).count() as u64,
        pairs: incidence.pairs() as u64,
        most_secrets: per_example.max().unwrap_or(0),
        most_examples: per_secret.max().unwrap_or(0),
    }
}
