//! Which options a recipe uses. An option without effect is refused, since whoever gives it
//! believes that it has one.

use super::args::{Assumption, EXCLUSIVE, FirstPhaseKind, Sigma};
use super::optimization::DecayArg;
use super::request::{Origin, PlanRequest};
use anyhow::{Result, bail};
use clap::ValueEnum;
use reticent_accounting::training::{
    Recipe,
    Recipe::{Crt, Dpsgd, Jft, Protect, Sdp, Sgd},
};

/// Recipes with clipped and noised steps.
const NOISED: &[Recipe] = &[Dpsgd, Crt, Sdp, Jft, Protect];
/// Recipes with steps without noise.
pub const ORDINARY: &[Recipe] = &[Sgd, Crt, Sdp, Jft];
/// Recipes whose batches are set by options rather than by a file of weights.
const BATCHED: &[Recipe] = &[Dpsgd, Crt, Sdp, Jft];
/// Recipes with batches that a sampler draws at one rate.
const SAMPLED: &[Recipe] = &[Dpsgd, Crt, Jft];
/// Recipes whose promise to a redacted secret depends on how often the policy misses.
const MISSED: &[Recipe] = &[Dpsgd, Crt];
/// Recipes whose model may be a transformer, to which an adapter can be added.
const ADAPTED: &[Recipe] = &[Sgd, Dpsgd, Crt, Jft, Protect];

/// The options that not every recipe uses, each with those that do, but for those of noise.
pub const USERS: [(&str, &[Recipe]); 39] = [
    ("noise_decay", SAMPLED),
    ("sample_rate", BATCHED),
    ("batch_size", BATCHED),
    ("sampler", SAMPLED),
    ("max_batch", SAMPLED),
    ("epoch_steps", SAMPLED),
    ("selected", SAMPLED),
    ("public_passes", &[Crt]),
    ("first_phase", &[Jft]),
    ("first_epochs", &[Jft]),
    ("first_sigma", &[Jft]),
    ("first_epsilon", &[Jft]),
    ("token_miss", &[Jft]),
    ("screened", &[Jft]),
    ("state_sigma", &[Sdp]),
    ("state_norm", &[Sdp]),
    ("states", &[Sdp]),
    ("weights", &[Protect]),
    ("incidence", &[Protect]),
    ("assume", &[Jft, Sdp]),
    ("gamma", MISSED),
    ("labelled", MISSED),
    ("labels", MISSED),
    ("everything_private", &[Crt]),
    ("ordinary_batch_size", &[Sgd, Crt, Jft]),
    ("optimizer", ORDINARY),
    ("learning_rate", ORDINARY),
    ("momentum", ORDINARY),
    ("clip", NOISED),
    ("clipping", NOISED),
    ("clip_decay", NOISED),
    ("augmentations", &[Dpsgd, Crt, Jft, Protect]),
    ("private_learning_rate", NOISED),
    ("private_optimizer", NOISED),
    ("private_momentum", NOISED),
    ("second_moment_floor", NOISED),
    ("lora_rank", ADAPTED),
    ("lora_alpha", ADAPTED),
    ("lora_targets", ADAPTED),
];

/// Checks that every given option has an effect.
///
/// # Errors
/// Returns an error for the first option without effect, with the recipes that use it.
pub fn all_used(request: &PlanRequest) -> Result<()> {
    let (recipe, given) = (request.recipe(), request.given());
    for (key, users) in USERS {
        if given.contains(&key) && !users.contains(&recipe) {
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
    for (key, others) in EXCLUSIVE {
        let other = others.iter().find(|other| given.contains(other));
        if let Some(other) = other.filter(|_| given.contains(&key)) {
            bail!(request.said(&format!("`{key}` and `{other}`: give one of them")));
        }
    }
    let decay = &request.noise.decay;
    if let (None, Some(every)) = (decay.noise_decay, decay.noise_decay_every) {
        bail!(request.said(&format!(
            "`noise_decay_every`: applies only to `noise_decay`, got {every}"
        )));
    }
    // Of a command, project defaults may set it whatever is measured.
    if let (Origin::File, Some(confidence)) = (request.origin, request.secrets.redaction.confidence)
        && !given.contains(&"labels")
    {
        bail!(request.said(&format!(
            "`confidence`: applies only to `labels`, got {}",
            confidence.get()
        )));
    }
    for key in ["sigma", "epsilon"] {
        if given.contains(&key) && recipe == Sgd {
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
    by_first_phase(request, &given)
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
fn by_first_phase(request: &PlanRequest, given: &[&str]) -> Result<()> {
    use FirstPhaseKind::{ConservativeLightNoise, LightNoise, Screened};
    let more = &request.of_recipe;
    let phase = more.first_phase.unwrap_or_default();
    let screening = more.assume.contains(&Assumption::Screening);
    let noised: &[FirstPhaseKind] = &[LightNoise, ConservativeLightNoise];
    let users: [(&str, &str, &[FirstPhaseKind]); 7] = [
        ("first_epsilon", "", noised),
        ("first_sigma", "", noised),
        ("first_rate", "", noised),
        ("first_steps", "", noised),
        ("token_miss", "", &[LightNoise]),
        ("screened", "", &[Screened]),
        ("assume", " screening", &[Screened]),
    ];
    for (key, value, phases) in users {
        let given = given.contains(&key) && (key != "assume" || screening);
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
