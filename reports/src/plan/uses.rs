//! Which options a recipe uses. An option without effect is refused, since whoever gives it
//! believes that it has one.

use super::args::{Assumption, FirstPhaseKind, Sigma};
use super::optimization::DecayArg;
use super::request::PlanRequest;
use anyhow::{Result, bail};
use clap::ValueEnum;
use reticent_accounting::training::{
    Recipe,
    Recipe::{Crt, Dpsgd, Jft, Protect, Sdp, Sgd},
};

/// Recipes with clipped and noised steps.
pub const NOISED: &[Recipe] = &[Dpsgd, Crt, Sdp, Jft, Protect];
/// Recipes whose batches are set by options rather than by a file of weights.
const BATCHED: &[Recipe] = &[Dpsgd, Crt, Sdp, Jft];
/// Recipes with batches that a sampler draws at one rate.
const SAMPLED: &[Recipe] = &[Dpsgd, Crt, Jft];

/// Recipes whose promise to a redacted secret depends on how often the policy misses.
const MISSED: &[Recipe] = &[Dpsgd, Crt];

/// An option that not every recipe uses: its key, whether it was given, and the recipes that use
/// it.
pub type Use = (&'static str, bool, &'static [Recipe]);

/// Returns all such options but those of noise.
#[must_use]
pub fn by_recipe(request: &PlanRequest) -> Vec<Use> {
    let (schedule, more) = (&request.schedule, &request.of_recipe);
    let noise = &request.noise.decay;
    vec![
        ("noise_decay", noise.noise_decay.is_some(), SAMPLED),
        ("sample_rate", schedule.sample_rate.is_some(), BATCHED),
        ("batch_size", schedule.batch_size.is_some(), BATCHED),
        ("sampler", schedule.sampler.is_some(), SAMPLED),
        ("max_batch", schedule.max_batch.is_some(), SAMPLED),
        ("epoch_steps", schedule.epoch_steps.is_some(), SAMPLED),
        ("selected", schedule.selected.is_some(), SAMPLED),
        ("public_passes", more.public_passes.is_some(), &[Crt]),
        ("first_phase", more.first_phase.is_some(), &[Jft]),
        ("first_epochs", more.first_epochs.is_some(), &[Jft]),
        ("first_sigma", more.first_sigma.is_some(), &[Jft]),
        ("first_epsilon", more.first_epsilon.is_some(), &[Jft]),
        ("token_miss", !more.token_miss.is_empty(), &[Jft]),
        ("screened", more.screened.is_some(), &[Jft]),
        ("state_sigma", more.state_sigma.is_some(), &[Sdp]),
        ("state_norm", more.state_norm.is_some(), &[Sdp]),
        ("states", more.states.is_some(), &[Sdp]),
        ("weights", more.weights.is_some(), &[Protect]),
        ("incidence", more.incidence.is_some(), &[Protect]),
        ("assume", !more.assume.is_empty(), &[Jft, Sdp]),
    ]
}

/// Returns the options about miss rates, which `audit train` doesn't have.
fn by_redaction(request: &PlanRequest) -> [Use; 3] {
    let redaction = &request.secrets.redaction;
    [
        ("gamma", redaction.gamma.is_some(), MISSED),
        ("labelled", redaction.labelled.is_some(), MISSED),
        ("labels", redaction.labels.is_some(), MISSED),
    ]
}

/// Checks that every given option has an effect.
///
/// # Errors
/// Returns an error for the first option without effect, with the recipes that use it.
pub fn all_used(request: &PlanRequest) -> Result<()> {
    let recipe = request.recipe();
    let all = by_recipe(request).into_iter();
    for (key, given, users) in all.chain(by_redaction(request)) {
        if given && !users.contains(&recipe) {
            let instead = match (key, recipe) {
                ("batch_size", Sgd) => {
                    "; records of an ordinary step are --ordinary-batch-size of audit train"
                }
                _ => "",
            };
            bail!(request.said(&format!(
                "`{key}`: applies only to {}, got {recipe}{instead}",
                recipes(users)
            )));
        }
    }
    let noise = &request.noise;
    for (key, given) in [
        ("sigma", noise.sigma.is_some()),
        ("epsilon", noise.epsilon.is_some()),
    ] {
        if given && recipe == Sgd {
            bail!(request.said(&format!("`{key}`: the recipe sgd adds no noise")));
        }
    }
    if let (Some(prior), Protect) = (request.secrets.prior, recipe) {
        bail!(request.said(&format!(
            "`prior`: applies to no plan of the recipe protect, got {prior}: each secret has a prior \
             of its own in `weights`, which account protect --secrets sets; account --mechanism \
             manifest.json --prior asks about another"
        )));
    }
    if request.noise.sigma == Some(Sigma::Zero) && recipe != Protect {
        bail!(request.said("`sigma`: noise multiplier must lie in (0, inf), got 0"));
    }
    if request.of_recipe.held_out_is.is_some()
        && request.of_recipe.patience.is_none()
        && request.optimization.decay != Some(DecayArg::Plateau)
    {
        bail!(request.said(
            "`held_out_is`: applies only to `patience` or --decay plateau: without \
             them, held-out text has no effect"
        ));
    }
    by_first_phase(request)
}

/// Names recipes in words: `the recipe crt`, `the recipes sgd, crt and jft`.
#[must_use]
pub fn recipes(recipes: &[Recipe]) -> String {
    let names: Vec<&str> = recipes.iter().map(|recipe| recipe.name()).collect();
    match names.split_last() {
        Some((last, [])) => format!("the recipe {last}"),
        Some((last, others)) => format!("the recipes {} and {last}", others.join(", ")),
        None => "no recipe".to_owned(),
    }
}

/// Returns a value as it is spelled on the command line.
#[must_use]
pub fn value_name<V: ValueEnum>(value: V) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |v| v.get_name().to_owned())
}

/// Checks the options that only some first phases of jft use. With another recipe, those that are flags were not given.
fn by_first_phase(request: &PlanRequest) -> Result<()> {
    use FirstPhaseKind::{ConservativeLightNoise, LightNoise, Screened};
    let more = &request.of_recipe;
    let phase = more.first_phase.unwrap_or_default();
    let screening = more.assume.contains(&Assumption::Screening);
    let noised: &[FirstPhaseKind] = &[LightNoise, ConservativeLightNoise];
    let users: [(&str, &str, bool, &[FirstPhaseKind]); 7] = [
        ("first_epsilon", "", more.first_epsilon.is_some(), noised),
        ("first_sigma", "", more.first_sigma.is_some(), noised),
        ("first_rate", "", request.first_rate.is_some(), noised),
        ("first_steps", "", request.first_steps.is_some(), noised),
        ("token_miss", "", !more.token_miss.is_empty(), &[LightNoise]),
        ("screened", "", more.screened.is_some(), &[Screened]),
        ("assume", " screening", screening, &[Screened]),
    ];
    for (key, value, given, phases) in users {
        if given && !phases.contains(&phase) {
            let phases: Vec<String> = phases.iter().map(|p| value_name(*p)).collect();
            bail!(request.said(&format!(
                "`{key}`{value}: applies only to `first_phase` {} of the recipe jft, got {}",
                phases.join(" or "),
                value_name(phase)
            )));
        }
    }
    Ok(())
}
