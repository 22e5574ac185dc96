//! Names the options in which a run differs from the stopped run that it would resume.

use crate::plan::PlanRequest;
use reticent_backends::checkpoint::Difference;
use serde_json::Value;

/// Values of a plan that options set: the path in the plan, without the phase that the noisy steps belong to, the key
/// of the option, and the keys of options that set it in its place.
const SET_BY: [(&str, &str, &[&str]); 14] = [
    ("delta", "delta", &[]),
    ("run.recipe", "recipe", &[]),
    ("run.epochs", "epochs", &[]),
    ("run.steps", "steps", &["epochs"]),
    ("run.noise_multiplier", "sigma", &["epsilon"]),
    (
        "run.sampling_rate",
        "sample_rate",
        &["batch_size", "epoch_steps"],
    ),
    ("run.sampling", "sampler", &[]),
    ("run.public_passes", "public_passes", &[]),
    ("run.state_noise_multiplier", "state_sigma", &[]),
    ("run.states", "states", &[]),
    ("run.first.epochs", "first_epochs", &[]),
    ("run.first.steps.steps", "first_epochs", &[]),
    (
        "run.first.steps.noise_multiplier",
        "first_sigma",
        &["first_epsilon"],
    ),
    ("stopping.patience", "patience", &[]),
];

/// The phases whose noisy steps the options of the whole run set. Those of `protect` come from its weights.
const PHASES: [&str; 3] = ["private", "second", "selective"];

/// Returns the options that differ, with both values; `None` if no option of the plan does.
pub(super) fn other_options(request: &PlanRequest, differ: &[Difference]) -> Option<String> {
    let mut named: Vec<&str> = Vec::new();
    let mut said = Vec::new();
    let of = |path: &str| differ.iter().find(|differ| of_plan(&differ.name) == path);
    let all_given = request.given();
    let other_recipe = of("run.recipe").is_some();
    for (path, key, instead) in SET_BY {
        let Some((ours, theirs)) = of(path).and_then(|found| found.values.as_ref()) else {
            continue;
        };
        // Another recipe, or another kind of first phase, has the same options in other places of its plan, or not at all.
        let elsewhere = path.starts_with("run.first.") && (ours.is_null() || theirs.is_null());
        if elsewhere || other_recipe && path.starts_with("run.") && path != "run.recipe" {
            continue;
        }
        let (Some(ours), Some(theirs)) = (shown(ours), shown(theirs)) else {
            continue;
        };
        let given = is_given(&all_given, key);
        let other = instead.iter().find(|other| is_given(&all_given, other));
        let flag = match other {
            Some(other) if !given => *other,
            _ => key,
        };
        // The number of steps follows from other options unless one of its own is given.
        if named.contains(&flag) || key == "steps" && !given && follows(differ) {
            continue;
        }
        named.push(flag);
        let what = match flag == key {
            true => String::new(),
            false => format!("{} ", key.replace('_', " ")),
        };
        said.push(format!(
            "{}: {what}{ours}, the stopped run has {what}{theirs}",
            request.name(flag)
        ));
    }
    (!said.is_empty()).then(|| said.join("; "))
}

/// Returns whether a difference is none in how a value was given, which says nothing beside the value itself.
pub(super) fn is_no_provenance(differ: &Difference) -> bool {
    !differ.name.contains(".provenance.")
}

/// Returns whether epochs have another number of steps, so that a difference in steps may be due to that alone.
fn follows(differ: &[Difference]) -> bool {
    differ
        .iter()
        .any(|differ| of_plan(&differ.name) == "run.steps_per_epoch")
}

/// Returns the path of a value in the plan, without the phase.
fn of_plan(name: &str) -> String {
    let path = name.strip_prefix("plan.").unwrap_or_default();
    let path = path.strip_suffix(".value").unwrap_or(path);
    let parts = path.split('.').filter(|part| !PHASES.contains(part));
    parts.collect::<Vec<_>>().join(".")
}

/// Returns whether a value is requested by this key, if several keys can set it.
fn is_given(given: &[&str], key: &str) -> bool {
    match key {
        // What is left when a number of steps is not given; by default there are some epochs.
        "epochs" => !given.contains(&"steps"),
        key => given.contains(&key),
    }
}

/// Returns a single value in words; `None` of a value of several parts.
fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("none".to_owned()),
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(yes) => Some(yes.to_string()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::args::Sigma;
    use reticent_accounting::NoiseMultiplier;
    use serde_json::json;

    fn of(name: &str, ours: Value, theirs: Value) -> Difference {
        Difference {
            name: name.to_owned(),
            values: Some((ours, theirs)),
        }
    }

    #[test]
    fn an_option_of_another_run_is_named_with_both_values() {
        let mut request = PlanRequest::default();
        let epochs = [of("plan.run.epochs.value", json!(3), json!(6))];
        assert_eq!(
            other_options(&request, &epochs).unwrap(),
            "--epochs: 3, the stopped run has 6"
        );
        let noisy = [
            of(
                "plan.run.private.noise_multiplier.value",
                json!(1.5),
                json!(2.0),
            ),
            of("plan.run.private.steps.value", json!(30), json!(60)),
        ];
        assert_eq!(
            other_options(&request, &noisy).unwrap(),
            "--epochs: steps 30, the stopped run has steps 60; --sigma: 1.5, the stopped run has 2.0"
        );
        request.schedule.steps = Some(30);
        request.noise.sigma = Some(Sigma::Noise(NoiseMultiplier::new(1.5).unwrap()));
        assert_eq!(
            other_options(&request, &noisy).unwrap(),
            "--steps: 30, the stopped run has 60; --sigma: 1.5, the stopped run has 2.0"
        );
        // Steps that follow from another rate are not those of --epochs.
        request.schedule.steps = None;
        let rate = [
            of(
                "plan.run.second.sampling_rate.value",
                json!(0.1),
                json!(0.2),
            ),
            of("plan.run.second.steps.value", json!(80), json!(40)),
            of("plan.run.second.steps_per_epoch", json!(10), json!(5)),
        ];
        assert_eq!(
            other_options(&request, &rate).unwrap(),
            "--sample-rate: 0.1, the stopped run has 0.2"
        );
        let by = "plan.run.second.sampling_rate.provenance.by";
        let by = of(by, json!("--sample-rate"), json!("--batch-size"));
        assert!(!is_no_provenance(&by) && is_no_provenance(&rate[0]));
        // Of another recipe, what is missing in one plan was not therefore left out.
        let recipe = [
            of("plan.run.recipe", json!("crt"), json!("dpsgd")),
            of("plan.run.epochs", json!(60), json!(null)),
        ];
        assert_eq!(
            other_options(&request, &recipe).unwrap(),
            "--recipe: crt, the stopped run has dpsgd"
        );
        let first = [of("plan.run.first.epochs.value", json!(3), json!(null))];
        assert_eq!(other_options(&request, &first), None);
        // What no option of the plan sets is named by the error alone.
        let rest = [
            of("plan.sizes.value.private", json!(7), json!(9)),
            of("optimizer", json!("sgd"), json!("adam")),
        ];
        assert_eq!(other_options(&request, &rest), None);
    }
}
