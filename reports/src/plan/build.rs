//! Builds a training plan from a request and the corpus that it names.

use super::args::{Assumption, FirstPhaseKind, Schedule, Sigma, Whose};
use super::optimization::DecayArg;
use super::prepared::PreparedFacts;
use super::redaction::redaction;
use super::request::{Origin, PlanRequest, unambiguous};
use super::schedule::{self, Defaults, epochs_without_records, noisy_steps, rate, steps};
use super::screened::screened_records;
use super::{UNIT, all_used, read_record_rates};
use crate::account::mechanism::{load, origin};
use crate::number::{count_of, rounded_up, shortest};
use anyhow::{Context, Result, bail, ensure};
use reticent_accounting::confidentiality::{CorpusFacts, Knowledge, Reach, RedactedAlike, Spread};
use reticent_accounting::redaction::Redaction;
use reticent_accounting::training::{
    Base, Canaries, CompletedRun, Document, FirstPhase, NoisySteps, Recipe, Run, Secrets,
    SelectiveSteps, Stated, Stopping, TrainingPlan, WeightedSteps, dominating_rates,
    steps_of_epochs,
};
use reticent_accounting::{
    Epsilon, GroupSize, Neighbours, NoiseMultiplier, Sampling, SamplingRate, Steps, UnitName,
};
use std::path::Path;

/// The file from which measured values of a corpus come.
const PREPARED: &str = "prepared.json";

/// Builds the plan that a request describes, with the facts of the corpus that it names.
///
/// # Errors
/// Returns an error that names the flag or key if a value is missing, is not used by the recipe, or contradicts
/// another value.
pub fn build(request: &PlanRequest, corpus: Option<&PreparedFacts>) -> Result<TrainingPlan> {
    all_used(request)?;
    if let (Some(_), Some(records)) = (corpus, request.records) {
        bail!(request.said(&format!(
            "`private`: comes from `prepared`, give one of them, got {records}"
        )));
    }
    if request.records == Some(0) {
        bail!(request.said("`private`: must be a positive whole number, got 0"));
    }
    Builder::new(request, corpus).plan()
}

/// Returns the noisy steps of a plan that [`build`] returned, at another sampling rate.
///
/// # Errors
/// Returns an error if the request allows no such rate.
pub fn at_rate(
    request: &PlanRequest,
    corpus: Option<&PreparedFacts>,
    noisy: &NoisySteps,
    rate: SamplingRate,
) -> Result<NoisySteps> {
    let builder = Builder::new(request, corpus);
    schedule::at_rate(request, noisy, rate, builder.records(), builder.defaults)
}

/// Returns the noisy steps of a plan that [`build`] returned, with half the sampling rate and as many passes over the
/// records.
///
/// # Errors
/// Returns an error if the request allows no such rate, or if there are more steps than can be counted.
pub fn at_half_the_rate(
    request: &PlanRequest,
    corpus: Option<&PreparedFacts>,
    noisy: &NoisySteps,
) -> Result<NoisySteps> {
    let rate = SamplingRate::new(0.5 * noisy.sampling_rate.get())?;
    let changed = at_rate(request, corpus, noisy, rate)?;
    let given = &request.schedule;
    let by_epochs = given.epochs.or(Builder::new(request, corpus)
        .defaults
        .epochs()
        .map(|n| n as f64));
    Ok(match (given.steps, by_epochs) {
        (None, Some(_)) => changed,
        _ => changed.with_steps(Steps::new(noisy.steps.get().saturating_mul(2))),
    })
}

struct Builder<'a> {
    request: &'a PlanRequest,
    corpus: Option<&'a PreparedFacts>,
    defaults: Defaults,
}

impl<'a> Builder<'a> {
    const fn new(request: &'a PlanRequest, corpus: Option<&'a PreparedFacts>) -> Self {
        Self {
            request,
            corpus,
            defaults: match (corpus, request.origin) {
                (Some(_), _) => Defaults::Corpus,
                (None, Origin::Flags) => Defaults::Question,
                (None, Origin::File) => Defaults::None,
            },
        }
    }

    fn name(&self, key: &str) -> String {
        self.request.name(key)
    }

    fn said(&self, message: &str) -> String {
        self.request.said(message)
    }

    fn given<T>(&self, value: T, key: &str) -> Stated<T> {
        Stated::given(value, self.name(key))
    }

    fn or_assumed<T>(&self, given: Option<T>, key: &str, default: T) -> Stated<T> {
        Stated::or_assumed(given, self.name(key), default)
    }

    /// Returns the number of records that are trained on with noise.
    fn records(&self) -> Option<u64> {
        match (self.corpus, self.request.recipe()) {
            (Some(corpus), Recipe::Crt) => Some(corpus.sizes.private),
            (Some(corpus), _) => Some(corpus.sizes.public + corpus.sizes.private),
            (None, _) => self.request.records,
        }
    }

    fn plan(&self) -> Result<TrainingPlan> {
        let request = self.request;
        let mut unit = self.unit()?;
        let continues = self.continues(&mut unit)?;
        let base = self.base()?;
        let all = self
            .corpus
            .map(|corpus| corpus.sizes.public + corpus.sizes.private);
        let delta = TrainingPlan::default_delta(all.or(request.records));
        let mut plan = TrainingPlan {
            run: self.run()?,
            unit,
            sizes: self
                .corpus
                .map(|corpus| Stated::counted(corpus.sizes.clone(), PREPARED)),
            delta: self.or_assumed(request.delta, "delta", delta),
            continues,
            base,
            vocabulary_leaks: self.corpus.is_some_and(|corpus| corpus.vocabulary_leaks),
            labelled: self.corpus.is_some_and(|corpus| corpus.labelled),
            unbounded_stability: self
                .corpus
                .is_some_and(|corpus| corpus.secrets.spread() == Spread::Unbounded),
            unauthenticated_corpus: self.corpus.is_some_and(|corpus| !corpus.authenticated),
            stopping: self.stopping()?,
            rates_by_public_text: self.rates_by_public_text(),
            seeded: request.of_recipe.seed.is_some(),
            noiseless: request.recipe() == Recipe::Protect
                && request.noise.sigma == Some(Sigma::Zero),
            secrets: Secrets::default(),
        };
        plan.secrets = self.secrets(&mut plan.unit)?;
        if let Some(epsilon) = request.of_recipe.first_epsilon {
            calibrate_first(&mut plan, epsilon, request)?;
        }
        if let Some(epsilon) = request.noise.epsilon {
            calibrate(&mut plan, epsilon, request)?;
        }
        Ok(plan)
    }

    fn unit(&self) -> Result<Stated<UnitName>> {
        Ok(match (&self.request.unit, self.corpus) {
            (Some(unit), Some(corpus)) if *unit != corpus.unit => bail!(
                "{}: must be that of the prepared corpus, {}, got {unit}",
                self.name("unit"),
                corpus.unit
            ),
            (_, Some(corpus)) => Stated::counted(corpus.unit.clone(), PREPARED),
            (Some(unit), None) => self.given(unit.clone(), "unit"),
            (None, None) => Stated::assumed(UnitName::new(UNIT)?),
        })
    }

    /// Returns σ as given; if an ε is given instead, a placeholder that the calibration replaces.
    fn sigma(&self) -> Result<Stated<NoiseMultiplier>> {
        let noise = &self.request.noise;
        match (noise.sigma.and_then(Sigma::noise), noise.epsilon) {
            (Some(_), Some(_)) => {
                bail!(self.said("`sigma`: is found for `epsilon`, give one of them"))
            }
            (Some(sigma), None) => Ok(self.given(sigma, "sigma")),
            (None, Some(_)) => Ok(self.given(NoiseMultiplier::new(1.0)?, "epsilon")),
            (None, None) => bail!(self.said(
                "`sigma`: is needed, in (0, inf), for every recipe but sgd; or `epsilon`. \
                 For example 1.1"
            )),
        }
    }

    fn noisy(&self) -> Result<NoisySteps> {
        noisy_steps(self.request, self.sigma()?, self.records(), self.defaults)
    }

    fn run(&self) -> Result<Run> {
        let of_recipe = &self.request.of_recipe;
        if self.request.first_given && self.request.recipe() != Recipe::Jft {
            bail!(self.said("`first_phase`: applies only to recipe \"jft\" and is needed there"));
        }
        Ok(match self.request.recipe() {
            Recipe::Sgd => self.sgd()?,
            Recipe::Dpsgd => Run::Dpsgd {
                private: self.noisy()?,
            },
            Recipe::Crt => {
                let empty = self.corpus.is_some_and(|corpus| corpus.sizes.private == 0);
                let private = if empty { None } else { Some(self.noisy()?) };
                Run::Crt {
                    epochs: match &private {
                        Some(private) => private.epochs(),
                        None => epochs_without_records(self.request, self.defaults)?,
                    },
                    private,
                    public_passes: self.or_assumed(of_recipe.public_passes, "public_passes", 1),
                }
            }
            Recipe::Sdp => Run::Sdp {
                selective: self.selective()?,
            },
            Recipe::Jft => {
                let second = self.noisy()?;
                Run::Jft {
                    first: self.first_phase(&second)?,
                    second,
                }
            }
            Recipe::Protect => Run::Protect {
                weighted: self.weighted()?,
            },
        })
    }

    fn sgd(&self) -> Result<Run> {
        let schedule = &self.request.schedule;
        ensure!(
            schedule.steps != Some(0),
            self.said("`steps`: must be a positive whole number, got 0")
        );
        let default = self.defaults.epochs().unwrap_or(1);
        let epochs = schedule.epochs.map(|epochs| epochs.ceil() as u64);
        Ok(Run::Sgd {
            epochs: self.or_assumed(epochs, "epochs", default),
            steps: schedule.steps.map(|steps| self.given(steps, "steps")),
        })
    }

    /// Requires that the corpus holds the text before redaction.
    fn unredacted(&self) -> Result<()> {
        ensure!(
            self.corpus.is_none_or(|corpus| !corpus.redacted),
            self.said(&format!(
                "`recipe`: {} trains on the original text too; prepare it with --no-redaction, \
                 so that the records keep what the policy found",
                self.request.recipe()
            ))
        );
        Ok(())
    }

    /// Returns whether the policy catches every content that a secret could have. Marked secrets are known to be
    /// found; what a policy that searches for patterns misses is unknown.
    fn caught(&self) -> Result<Stated<bool>> {
        let assumed = self.request.of_recipe.assume.contains(&Assumption::Caught);
        let stated = self
            .request
            .first_alike
            .map(|alike| alike.every_content_caught);
        if let Some(corpus) = self.corpus
            && (assumed || stated == Some(true))
            && corpus.uncaught > 0
        {
            bail!(
                "{}: the policy does not find {} of marked secrets{} in full, so it can't be assumed that it finds all",
                self.name(if assumed { "assume" } else { "first_phase" }),
                count_of(corpus.uncaught, "occurrence"),
                match corpus.canaries {
                    Some(_) => " and of planted canaries",
                    None => "",
                }
            );
        }
        if assumed && stated == Some(false) {
            bail!(self.said(
                "`assume`: caught, but `first_phase` states `every_content_caught` = false; give one of them"
            ));
        }
        Ok(match (self.corpus, assumed, stated) {
            (_, true, _) => self.given(true, "assume"),
            (_, false, Some(caught)) => self.given(caught, "first_phase"),
            (Some(corpus), false, None) => Stated::counted(corpus.marked, PREPARED),
            (None, false, None) => Stated::assumed(false),
        })
    }

    fn selective(&self) -> Result<SelectiveSteps> {
        self.unredacted()?;
        let of_recipe = &self.request.of_recipe;
        let noise_multiplier = self.sigma()?;
        if self.request.noise.epsilon.is_some() {
            bail!(
                self.said("`epsilon`: what sdp releases is no run of DP-SGD alone; give `sigma`")
            );
        }
        let Some(state_sigma) = of_recipe.state_sigma else {
            bail!(self.said(
                "`state_sigma`: the recipe sdp releases states; give their noise, in (0, inf)"
            ));
        };
        let sampling_rate = rate(self.request, self.records(), self.defaults)?;
        let share = sampling_rate.get();
        ensure!(
            share > 0.0,
            self.said("`sample_rate`: must lie in (0, 1] for the recipe sdp, got 0")
        );
        let (batch, steps_per_epoch) = match self.records() {
            Some(records) => {
                let batch = self.request.schedule.batch_size;
                let part = (share * records as f64 * (1.0 - 1e-12)).ceil().max(1.0) as u64;
                let batch = batch.unwrap_or(part);
                (batch, records.div_ceil(batch.max(1)))
            }
            None => (1, Steps::per_epoch(*sampling_rate).get()),
        };
        let states = match (of_recipe.states, self.corpus) {
            (Some(states), Some(corpus)) => {
                let found = corpus.most_states()?;
                ensure!(
                    states >= found,
                    self.said(&format!(
                        "`states`: must be at least {found}, what a record of the prepared corpus \
                         releases, got {states}"
                    ))
                );
                self.given(states, "states")
            }
            (Some(states), None) => self.given(states, "states"),
            (None, Some(corpus)) => Stated::counted(corpus.most_states()?, PREPARED),
            (None, None) => bail!(self.said(
                "`states`: is needed, the most states that one record releases in a pass; \
                 a prepared corpus has it"
            )),
        };
        Ok(SelectiveSteps {
            noise_multiplier,
            state_noise_multiplier: self.given(state_sigma, "state_sigma"),
            batch_size: sampling_rate.with(batch),
            steps_per_epoch,
            steps: steps(self.request, steps_per_epoch, self.defaults)?,
            states,
            every_content_caught: self.caught()?,
        })
    }

    fn first_phase(&self, second: &NoisySteps) -> Result<FirstPhase> {
        self.unredacted()?;
        let (request, of_recipe) = (self.request, &self.request.of_recipe);
        if self.corpus.is_none() && request.origin == Origin::File && !request.first_given {
            bail!(self.said("`first_phase`: applies only to recipe \"jft\" and is needed there"));
        }
        let kind = of_recipe.first_phase.unwrap_or_default();
        let screened = kind == FirstPhaseKind::Screened;
        if screened && of_recipe.screened.is_none() && self.corpus.is_some() {
            bail!(self.said("`screened`: `first_phase` screened needs the file of ids"));
        }
        if let (true, Some(path), Some(corpus)) = (screened, &of_recipe.screened, self.corpus) {
            let names = corpus.names()?;
            screened_records(path, |id| names.get(id).copied())
                .with_context(|| self.name("screened"))?;
        }
        match kind {
            FirstPhaseKind::Direct | FirstPhaseKind::Screened => {
                let caught = self.caught()?;
                let stated = request.first_alike;
                let screening = of_recipe.assume.contains(&Assumption::Screening);
                let alike = RedactedAlike {
                    every_content_caught: *caught,
                    // In a prepared corpus, every span is replaced by the same mask.
                    length_and_kind_hidden: stated
                        .map_or(self.corpus.is_some(), |alike| alike.length_and_kind_hidden),
                    screening_ignores_secrets: stated.map_or(!screened || screening, |alike| {
                        alike.screening_ignores_secrets
                    }),
                };
                Ok(FirstPhase::Ordinary {
                    epochs: self.or_assumed(of_recipe.first_epochs, "first_epochs", 1),
                    screened,
                    alike: caught.with(alike),
                })
            }
            FirstPhaseKind::LightNoise | FirstPhaseKind::ConservativeLightNoise => {
                self.light_noise(second, kind)
            }
        }
    }

    fn light_noise(&self, second: &NoisySteps, kind: FirstPhaseKind) -> Result<FirstPhase> {
        let (request, of_recipe) = (self.request, &self.request.of_recipe);
        let noise = match (of_recipe.first_sigma, of_recipe.first_epsilon) {
            (Some(sigma), _) => self.given(sigma, "first_sigma"),
            // A placeholder that the calibration replaces.
            (None, Some(_)) => self.given(NoiseMultiplier::new(1.0)?, "first_epsilon"),
            (None, None) => bail!(
                self.said("`first_sigma`: light noise needs it, in (0, inf), or `first_epsilon`")
            ),
        };
        let token_miss = match (kind, of_recipe.token_miss.as_slice()) {
            (FirstPhaseKind::LightNoise, &[low, high]) => {
                ensure!(
                    low.get() <= high.get(),
                    self.said(&format!(
                        "`token_miss`: must be LOW,HIGH with LOW at most HIGH, got {},{}",
                        low.get(),
                        high.get()
                    ))
                );
                Some((low, high))
            }
            (FirstPhaseKind::LightNoise, given) => bail!(self.said(&format!(
                "`token_miss`: light noise needs both ends of the miss rate, LOW,HIGH in \
                 [0, 1], got {} numbers",
                given.len()
            ))),
            _ => None,
        };
        let mut steps = NoisySteps {
            noise_multiplier: noise,
            noise_decay: None,
            ..second.clone()
        };
        if let Some(rate) = request.first_rate {
            let drawn = Schedule {
                epoch_steps: None,
                ..request.schedule.clone()
            };
            let (share, steps_per_epoch) = schedule::of_epoch(&drawn, rate, self.defaults)
                .with_context(|| self.name("first_rate"))?;
            steps.sampling_rate = self.given(share, "first_rate");
            steps.steps_per_epoch = steps_per_epoch;
        }
        let epochs = of_recipe.first_epochs;
        steps.steps = match (request.first_steps, epochs) {
            (Some(_), Some(_)) => {
                bail!(self.said("`first_steps` and `first_epochs`: give one of them"))
            }
            (Some(0), None) => {
                bail!(self.said("`first_steps`: must be a positive whole number, got 0"))
            }
            (Some(steps), None) => self.given(Steps::new(steps), "first_steps"),
            (None, _) => {
                let counted = steps_of_epochs(epochs.unwrap_or(1) as f64, steps.steps_per_epoch)
                    .with_context(|| self.name("first_epochs"))?;
                self.or_assumed(epochs.map(|_| counted), "first_epochs", counted)
            }
        };
        Ok(FirstPhase::LightNoise { steps, token_miss })
    }

    /// Returns batch, steps and noise as stated in the file of weights, or with another noise if one is given.
    fn weighted(&self) -> Result<WeightedSteps> {
        let (request, of_recipe) = (self.request, &self.request.of_recipe);
        let needed = |key: &str| self.said(&format!("`{key}`: the recipe protect needs it"));
        let weights = of_recipe.weights.as_deref();
        let weights = weights.with_context(|| needed("weights"))?;
        let incidence = of_recipe.incidence.as_deref();
        let incidence = incidence.with_context(|| needed("incidence"))?;
        let corpus = self.corpus.with_context(|| {
            self.said("`prepared`: the recipe protect needs it: its rates are those of records")
        })?;
        let (noise, schedule) = (&request.noise, &request.schedule);
        for (key, given) in [
            ("epsilon", noise.epsilon.is_some()),
            ("steps", schedule.steps.is_some()),
            ("epochs", schedule.epochs.is_some()),
        ] {
            ensure!(
                !given,
                self.said(&format!(
                    "`{key}`: for the recipe protect, it is given by `weights`"
                ))
            );
        }
        let found = record_rates(request, corpus, (weights, incidence))?;
        let noise_multiplier = match noise.sigma {
            Some(Sigma::Noise(sigma)) if sigma < found.noise_multiplier => {
                bail!(self.said(&format!(
                    "`sigma`: for the recipe protect, it must be 0 or at least that of \
                     `weights`, {}, got {}",
                    found.noise_multiplier.get(),
                    sigma.get()
                )))
            }
            Some(Sigma::Noise(sigma)) => self.given(sigma, "sigma"),
            Some(Sigma::Zero) | None => self.given(found.noise_multiplier, "weights"),
        };
        let dominating = dominating_rates(&found.rates, &found.secrets);
        let dominating = dominating.with_context(|| self.name("weights"))?;
        let secrets = match noise.sigma {
            Some(Sigma::Zero) => found.certified(None),
            _ => found.certified(Some(*noise_multiplier)),
        };
        let secrets = secrets.with_context(|| self.name("weights"))?;
        let records = found.rates.len() as f64;
        Ok(WeightedSteps {
            noise_multiplier,
            batch: self.given(found.batch, "weights"),
            steps_per_epoch: (records / found.batch).ceil().max(1.0) as u64,
            steps: self.given(found.steps, "weights"),
            secret_rates: self.given(dominating, "weights"),
            secrets: Some(secrets),
        })
    }

    fn stopping(&self) -> Result<Option<Stopping>> {
        let of_recipe = &self.request.of_recipe;
        let Some(patience) = of_recipe.patience else {
            return Ok(None);
        };
        ensure!(
            (1..=1_000_000).contains(&patience),
            self.said(&format!(
                "`patience`: must lie in [1, 1000000], got {patience}"
            ))
        );
        let public = of_recipe.held_out_is.map(|whose| whose == Whose::Public);
        Ok(Some(Stopping {
            patience: self.given(patience, "patience"),
            public: self.or_assumed(public, "held_out_is", false),
        }))
    }

    /// Returns whether the held-out text that lowers the learning rate is public; `None` without a decay on a plateau.
    fn rates_by_public_text(&self) -> Option<Stated<bool>> {
        let plateau = self.request.optimization.decay == Some(DecayArg::Plateau);
        let public = self.request.of_recipe.held_out_is;
        let public = public.map(|whose| whose == Whose::Public);
        plateau.then(|| self.or_assumed(public, "held_out_is", false))
    }

    /// Returns the status of a model whose own text no promise covers: a folder without one of our manifests, or one
    /// whose text is declared public.
    fn base(&self) -> Result<Option<Base>> {
        let Some(model) = self.request.folder() else {
            return Ok(None);
        };
        let declared_public = self.request.declared_public;
        if model.join("manifest.json").exists() {
            return Ok(declared_public.then_some(Base::DeclaredPublicRun));
        }
        let key = match declared_public {
            true => "declared_public",
            false => "model",
        };
        let base = origin(model, declared_public).with_context(|| self.name(key))?;
        Ok(Some(base))
    }

    /// Returns the earlier run, if this run starts from one of our checkpoints. If nothing states the unit, it is that of
    /// the earlier run.
    fn continues(&self, unit: &mut Stated<UnitName>) -> Result<Option<Stated<CompletedRun>>> {
        // A plan file's own folder was looked at when it was read.
        if let (Origin::Flags, Some(model)) = (self.request.origin, &self.request.model) {
            unambiguous(model, Path::new("")).with_context(|| self.name("model"))?;
        }
        let Some(model) = self.request.folder() else {
            ensure!(
                !self.request.declared_public,
                self.said("`declared_public`: applies only to a folder as `model`")
            );
            return Ok(None);
        };
        let manifest = model.join("manifest.json");
        if !manifest.exists() {
            return Ok(None);
        }
        // A manifest's promises are for adding or removing a record; none leaves its neighbours open.
        let before = load(&manifest, Neighbours::AddRemove).with_context(|| self.name("model"))?;
        if self.request.declared_public {
            self.set_aside(model, &before.document)?;
            return Ok(None);
        }
        let authenticated = before.caveat.is_none();
        let before = before.document;
        match (&before.unit, self.corpus) {
            (Some(known), _) if unit.is_assumed() => *unit = self.given(known.clone(), "model"),
            (Some(known), _) if *known == **unit => {}
            (Some(known), Some(corpus)) => bail!(
                "{}: must be of records of the unit {}, as the prepared corpus, got {known}",
                self.name("model"),
                corpus.unit
            ),
            (Some(known), None) => bail!(
                "{}: must be {known}, what one record is in the earlier run of {}, got {}",
                self.name("unit"),
                self.name("model"),
                **unit
            ),
            (None, _) => {}
        }
        let run = CompletedRun {
            authenticated,
            ..before.completed()
        };
        Ok(Some(self.given(run, "model")))
    }

    /// Checks that a manifest may be set aside because all text behind the weights is declared public: that of one run
    /// of sgd, which protected none of its text.
    fn set_aside(&self, model: &Path, before: &Document) -> Result<()> {
        let why = match (before.recipe, &before.plan) {
            (Some(Recipe::Sgd), None) => "it does not say where the run began".to_owned(),
            (Some(Recipe::Sgd), Some(plan)) if plan.continues.is_some() => {
                "the run continues from another one".to_owned()
            }
            (Some(Recipe::Sgd), Some(plan)) if plan.vocabulary_leaks => {
                "its vocabulary was built from private text".to_owned()
            }
            (Some(Recipe::Sgd), Some(_))
                if before.canaries.is_some_and(|found| found.records > 0) =>
            {
                "canaries were planted in its text".to_owned()
            }
            (Some(Recipe::Sgd), Some(_)) if before.canary_records_unknown => {
                "a run before it, whose manifest is missing, may have met canaries".to_owned()
            }
            (Some(Recipe::Sgd), Some(_)) => return Ok(()),
            (Some(recipe), _) => format!("the recipe {recipe} protects text that is not public"),
            (None, _) => "it names no recipe".to_owned(),
        };
        bail!(
            "{}: {} has a manifest.json, whose promise carries over: {why}; omit this option",
            self.name("declared_public"),
            model.display()
        )
    }

    /// Returns what is known about secrets. If nothing states the unit, it is that of the labels.
    fn secrets(&self, unit: &mut Stated<UnitName>) -> Result<Secrets> {
        let wish = &self.request.secrets;
        for (key, count) in [
            ("candidates", wish.candidates),
            ("canaries", wish.canaries),
            ("canary_copies", wish.canary_copies),
        ] {
            if count == Some(0) {
                bail!(self.said(&format!("`{key}`: must be a positive whole number, got 0")));
            }
        }
        if let (Some(after), Some(before)) = (wish.records, wish.records_before)
            && before < after
        {
            bail!(self.said(&format!(
                "`records_before`: must be at least {} (`records`), got {}",
                after.get(),
                before.get()
            )));
        }
        let canaries = self.canaries()?;
        if let (Some(before), None) = (wish.records_before, &canaries) {
            bail!(self.said(&format!(
                "`records_before`: applies only to `canaries`, got {}",
                before.get()
            )));
        }
        let everything_private = self.everything_private()?;
        let redacted = redaction(self.request, everything_private)?;
        let facts = self.corpus.map(|corpus| corpus.secrets);
        let labels = redacted.as_ref().and_then(|found| found.labels.as_ref());
        if let Some(labels) = labels.and_then(|labels| labels.sample.measured_for())
            && let Some(corpus) = self.corpus
            && let Some(prepared) = corpus.measured_for()?
            && let Some(problem) = labels.disagreement(&prepared)
        {
            bail!("{}: {problem}", self.name("labels"));
        }
        if let Some(found) = &redacted {
            let stated = (!unit.is_assumed()).then(|| unit.value.clone());
            let labels = self.name("labels");
            if let Some(known) = found.unit(stated, &labels)?
                && unit.is_assumed()
            {
                *unit = Stated::given(known, labels);
            }
        }
        if let (Some(found), Some(facts)) = (&redacted, &facts) {
            self.no_less_than_counted(&found.redaction, everything_private, facts)?;
        }
        let records = self.secret_records(facts.as_ref())?;
        // Where the secrets are counted, the rates were compared with all that was missed.
        let counted = facts.is_some_and(|facts| facts.knowledge() == Knowledge::Counted);
        if let (Some(found), Some(records), false) = (&redacted, &records, counted) {
            found.covers(**records, &self.name("labels"), &self.name("records"))?;
        }
        if let (Some(prior), Some(candidates)) = (wish.prior, wish.candidates) {
            // The likeliest of N contents has a chance of 1/N at least.
            ensure!(
                prior.get() * candidates as f64 >= 1.0 - 1e-12,
                self.said(&format!(
                    "`prior`: must be at least 1/{candidates}, the chance of a blind guess of \
                     one in `candidates`, got {}",
                    shortest(prior.get())
                ))
            );
        }
        Ok(Secrets {
            records,
            records_before: wish.records_before,
            redaction: redacted.as_ref().map(|found| found.redaction.clone()),
            everything_private,
            prior: wish.prior,
            candidates: wish.candidates,
            canaries,
            facts,
            labels: redacted.and_then(|found| found.labels),
        })
    }

    /// Checks that γ and η are not smaller than the shares of marked secrets that this corpus' policies missed; smaller
    /// rates would belong to other policies or another corpus. If every record is private, η does not matter.
    fn no_less_than_counted(
        &self,
        redaction: &Redaction,
        everything_private: bool,
        facts: &CorpusFacts,
    ) -> Result<()> {
        if facts.knowledge() != Knowledge::Counted {
            return Ok(());
        }
        let given = &self.request.secrets.redaction;
        let gamma = match (&given.labels, given.gamma) {
            (Some(_), _) => "labels",
            (None, Some(_)) => "gamma",
            (None, None) => "missed",
        };
        let joint = match (&given.labels, given.joint_miss, given.conservative_miss) {
            (None, Some(_), _) => "joint_miss",
            (None, None, Some(_)) => "conservative_miss",
            _ => gamma,
        };
        let missed_by_both = match everything_private {
            true => 0,
            false => facts.missed_by_both(),
        };
        let secrets = facts.secrets();
        for (key, whose, what, rate, missed) in [
            (
                gamma,
                "the policy",
                "its miss rate",
                redaction.miss(),
                facts.missed(),
            ),
            (
                joint,
                "both policies",
                "their joint miss rate",
                redaction.missed_by_both(),
                missed_by_both,
            ),
        ] {
            let share = missed as f64 / secrets.max(1) as f64;
            ensure!(
                rate.get() >= share * (1.0 - 1e-12),
                "{}: {whose} of the prepared corpus missed {missed} of its {secrets} marked secrets, so {what} must be at least \
                 {}, got {}",
                self.name(key),
                rounded_up(share, 4),
                rounded_up(rate.get(), 4)
            );
        }
        Ok(())
    }

    /// Returns whether no record is trained on without noise: by construction of the recipe, or because the corpus was
    /// sorted without a conservative policy.
    fn everything_private(&self) -> Result<bool> {
        let given = self.request.secrets.everything_private;
        let recipe = self.request.recipe();
        if matches!(recipe, Recipe::Dpsgd | Recipe::Protect) {
            return Ok(true);
        }
        let sorted = self.corpus.filter(|corpus| !corpus.everything_private);
        match (given, sorted) {
            (Some(true), Some(corpus)) => bail!(self.said(&format!(
                "`everything_private`: must be false, {} records of the prepared corpus \
                 are on the public side, got true",
                corpus.sizes.public
            ))),
            _ => Ok(given
                .or(self.corpus.map(|corpus| corpus.everything_private))
                .unwrap_or(false)),
        }
    }

    /// How many records one secret is trained on in: given, or counted where secrets are marked.
    fn secret_records(&self, facts: Option<&CorpusFacts>) -> Result<Option<Stated<GroupSize>>> {
        let counted = facts.filter(|facts| facts.knowledge() == Knowledge::Counted);
        let found = counted.and_then(|facts| match facts.missed_reach() {
            Reach::Records(records) => Some(records),
            Reach::Nothing | Reach::Open => None,
        });
        let given = self.request.secrets.records;
        if self.request.recipe() == Recipe::Protect {
            ensure!(
                given.is_none(),
                self.said("`records`: for the recipe protect, it is given by `incidence`")
            );
            return Ok(None);
        }
        if let (Some(given), Some(found)) = (given, found)
            && given < found
        {
            bail!(self.said(&format!(
                "`records`: must lie in [{}, 10000], what the prepared corpus holds, got {}",
                found.get(),
                given.get()
            )));
        }
        Ok(match (given, found) {
            (Some(given), _) => Some(self.given(given, "records")),
            (None, Some(found)) => Some(Stated::counted(found, PREPARED)),
            (None, None) => None,
        })
    }

    fn canaries(&self) -> Result<Option<Stated<Canaries>>> {
        let wish = &self.request.secrets;
        if let Some(planted) = self.corpus.and_then(|corpus| corpus.canaries) {
            for (key, given, found) in [
                ("canaries", wish.canaries, planted.count),
                ("canary_copies", wish.canary_copies, planted.records),
            ] {
                if let Some(given) = given.filter(|given| *given != found) {
                    bail!(self.said(&format!(
                        "`{key}`: must be {found}, as the corpus was prepared, got {given}"
                    )));
                }
            }
            let canaries = Canaries {
                candidates: planted
                    .candidates
                    .or(wish.candidates.map(|n| Canaries::candidates(n.into()))),
                ..planted
            };
            return Ok(Some(Stated::counted(canaries, PREPARED)));
        }
        let copies = wish.canary_copies;
        let Some(count) = wish.canaries else {
            if let Some(copies) = copies {
                bail!(self.said(&format!(
                    "`canary_copies`: applies only to `canaries`, got {copies}"
                )));
            }
            return Ok(None);
        };
        let records = copies.or(wish.records.map(|records| u64::from(records.get())));
        let Some(records) = records else {
            bail!(self.said("`canary_copies`: is needed with `canaries`, or `records`"));
        };
        GroupSize::new(u32::try_from(records).unwrap_or(u32::MAX))
            .with_context(|| self.name("canary_copies"))?;
        Ok(Some(self.given(
            Canaries {
                count,
                records,
                on_public_side: 0,
                candidates: wish.candidates.map(|n| Canaries::candidates(n.into())),
            },
            "canaries",
        )))
    }
}

/// Reads the rates and secrets of the records of a prepared corpus.
///
/// # Errors
/// Returns an error as [`read_record_rates`] does.
pub fn record_rates(
    request: &PlanRequest,
    corpus: &PreparedFacts,
    (weights, incidence): (&Path, &Path),
) -> Result<super::RecordRates> {
    let (first, second) = (request.name("weights"), request.name("incidence"));
    let names = corpus.names()?;
    read_record_rates((weights, &first), (incidence, &second), &names)
}

/// Sets the noise of the plan to the least with which its noisy steps keep ε.
fn calibrate(plan: &mut TrainingPlan, epsilon: Epsilon, request: &PlanRequest) -> Result<()> {
    if plan.run.recipe() == Some(Recipe::Crt) && plan.run.noisy().is_none() {
        bail!(request.said("`epsilon`: the private side is empty: there is nothing to calibrate"));
    }
    let sigma = calibrated(plan, epsilon).with_context(|| request.name("epsilon"))?;
    if let Some(noisy) = plan.run.noisy_mut() {
        noisy.noise_multiplier.value = sigma;
    }
    Ok(())
}

/// Sets the noise of the first phase of `jft` to the least with which that phase alone keeps ε: given the share of tokens
/// missed, by the paper's estimate of Poisson batches, at the rate times its upper end. What it promises is accounted for at
/// the full rate.
fn calibrate_first(plan: &mut TrainingPlan, epsilon: Epsilon, request: &PlanRequest) -> Result<()> {
    let Run::Jft {
        first: FirstPhase::LightNoise { steps, token_miss },
        ..
    } = &mut plan.run
    else {
        return Ok(());
    };
    let mut private = steps.clone();
    if let Some((_, high)) = *token_miss
        && *private.sampling == Sampling::Poisson
    {
        let rate = private.sampling_rate.get() * high.get();
        ensure!(
            rate > 0.0,
            request.said("`token_miss`: must not be 0 with `first_epsilon`: no noise is needed where nothing is missed")
        );
        let rate = SamplingRate::new(rate).with_context(|| request.name("token_miss"))?;
        private.sampling_rate.value = rate;
    }
    let alone = TrainingPlan {
        delta: plan.delta.clone(),
        ..TrainingPlan::new(Run::Dpsgd { private }, plan.unit.value.clone())
    };
    let sigma = calibrated(&alone, epsilon).with_context(|| request.name("first_epsilon"))?;
    steps.noise_multiplier.value = sigma;
    Ok(())
}

fn calibrated(plan: &TrainingPlan, epsilon: Epsilon) -> Result<NoiseMultiplier> {
    let sigma = plan.calibrated(epsilon, *plan.delta)?;
    // Rounded up to as many digits as are printed: more noise keeps the promise too.
    let sigma = rounded_up(sigma.get(), 8).parse().unwrap_or(sigma.get());
    Ok(NoiseMultiplier::new(sigma)?)
}
