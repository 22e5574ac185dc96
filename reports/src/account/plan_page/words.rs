//! What a page assumes and what it does not cover, in sentences.

use super::PlannedRun;
use crate::account::words::about_delta;
use crate::number::{capital, count_of, nearest, plural, rounded, rounded_up, shortest};
use crate::plan::sampler::words;
use crate::plan::taken_for_granted;
use reticent_accounting::confidentiality::{
    Knowledge, LabelledSecrets, MeasuredFor, MeasuredRates, Reach, Standing,
};
use reticent_accounting::redaction::Redaction;
use reticent_accounting::statistics::labels_needed;
use reticent_accounting::training::{
    FirstPhase, LabelledRates, Recipe, Run, outside_text, uncovered,
};
use reticent_accounting::{Delta, MissRate};

/// Returns the assumptions under which the promises hold.
#[must_use]
pub(super) fn assumptions(run: &PlannedRun) -> Vec<String> {
    let plan = &run.plan;
    let unit = &plan.unit.value;
    let mut said = Vec::new();
    let recipe = plan.run.recipe();
    if let Some(noisy) = plan.run.noisy() {
        said.push(format!(
            "{}; each {unit}'s gradient is clipped, the noise comes from a cryptographic generator, and the sum is \
             divided by a fixed number.",
            words(*noisy.sampling, *noisy.sampling_rate, unit.as_str()).loader
        ));
    }
    said.extend(taken_for_granted(plan).into_iter().map(str::to_owned));
    match &plan.run {
        Run::Crt { .. } => said.extend(screening(run)),
        Run::Jft {
            first: FirstPhase::LightNoise { .. },
            ..
        } => said.push(
            "The first phase's noise is accounted for in full; the share of missed tokens lowers nothing.".into(),
        ),
        Run::Protect { .. } => said.push(format!(
            "Which {unit} holds which secret is taken from the incidence, and taken as public."
        )),
        Run::Sdp { .. } => said.push(
            "Nothing is amplified by sampling: ordinary gradients show which batch a record is in.".to_owned(),
        ),
        _ => {}
    }
    match plan.secret_records() {
        Some(records) if recipe != Some(Recipe::Sgd) => said.push(format!(
            "One secret is trained on in at most {} {unit}{}{}. A secret in more of them, or in another spelling, is not covered.",
            records.get(),
            if records.get() > 1 { "s" } else { "" },
            if plan.continues.as_ref().is_some_and(|earlier| earlier.secret_records.is_none()) {
                ", by the text of this run: how many hold it in the text of the earlier one is not known"
            } else {
                ""
            },
        )),
        None if plan.continues.is_none()
            && recipe == Some(Recipe::Dpsgd)
            && run.counted().is_some_and(|facts| facts.missed_reach() == Reach::Nothing) =>
        {
            said.push(format!(
                "No marked secret of this corpus is trained on unmasked, and each promise is about one {unit}."
            ));
        }
        None if !matches!(recipe, Some(Recipe::Sgd | Recipe::Protect))
            && plan.worst_secret() != Some(Standing::Caught) =>
        {
            said.push(format!(
            "In how many {} one secret occurs is not known{}, so each promise is about one {unit}. \
             The number is counted where secrets are marked, else given with --group or secrets.records.",
            plural(unit.as_str()),
            if plan.continues.is_some() {
                " for the earlier run"
            } else {
                ""
            },
        ));
        }
        _ => {}
    }
    if let Some(facts) = &plan.secrets.facts
        && facts.knowledge() == Knowledge::Detected
    {
        said.push("The secrets of the corpus are those that the policy found: what it misses can't be counted, only labelled.".into());
    }
    if let Some(redaction) = run.redaction() {
        match run.labels() {
            Some(labels) => said.extend(measured(&labels.sample, &labels.rates, run.corpus.is_some())),
            None => said.push(format!(
                "The policies miss at most the shares {} and {} (both) of secrets: assumed, not measured.",
                shortest(redaction.miss().get()),
                shortest(redaction.missed_by_both().get()),
            )),
        }

        said.push("The rows for planning suppose that each carrier of a secret has the same miss rate; where carriers differ they do not hold.".into());
    }
    if let Err(why) = plan.run.trainable() {
        said.push(format!("audit train can't run this plan: {why}."));
    }
    if let Some(why) = plan.unprotected() {
        said.push(format!("Nothing is promised, because {why}."));
    }
    said
}

fn screening(run: &PlannedRun) -> Vec<String> {
    let mut said = vec![
        "The text is split before it is redacted and never packed across records afterwards; whatever holds a mask is private.".to_owned(),
    ];
    said.push(match run.plan.secrets.everything_private {
        true => format!(
            "Every {} is trained on with noise; none is on the public side, whatever the policies find.",
            run.plan.unit.value
        ),
        false => "Public records are trained on without noise: a secret that both policies miss there has no protection at all.".into(),
    });
    said
}

/// What an answer says of labels that may have been measured for another policy than that of the corpus: those that
/// name none, and those that were not compared with a corpus.
#[must_use]
pub(crate) fn about_the_labels(labels: Option<&LabelledRates>, compared: bool) -> Option<String> {
    match labels?.sample.measured_for() {
        None => Some("The labels do not say which policy they were measured for: their rates hold for that policy alone.".to_owned()),
        Some(measured) => (!compared).then(|| same_policy(measured, compared)),
    }
}

/// Returns what the rates of labels suppose of the sample.
#[must_use]
pub(crate) fn about_the_sample(sample: &LabelledSecrets) -> Vec<String> {
    let seed = sample.measured_for().and_then(|measured| measured.seed);
    let seed = seed.map(|seed| {
        format!("The labels' sample was drawn with a given seed, {seed}: it could be foreseen, or chosen among several.")
    });
    let premise = "Premise: the labels are those of a random sample of this corpus, as they were measured. Their file has no code \
                   under the owner's key, and does not say the corpus.";
    let said = std::iter::once(premise.to_owned());
    said.chain(seed).chain(of_labelled_places(sample)).collect()
}

/// Returns what the rates of labels suppose of secrets that were not labelled in all their records.
fn of_labelled_places(sample: &LabelledSecrets) -> Option<String> {
    let places = sample.fewest_places()?;
    let (who, places) = match (places == 1, sample.labelled() == sample.places()) {
        (true, true) => ("Each secret", "one place".to_owned()),
        (true, false) => ("A secret", "one place alone".to_owned()),
        (false, _) => ("A secret", format!("{} alone", count_of(places, "place"))),
    };
    Some(format!(
        "{who} was labelled in {places}: the rates are those of the places that were labelled, and a secret in several records is missed \
         where any of them shows it."
    ))
}

/// Returns what is assumed of a corpus whose miss rates labels state, if it was not compared with them.
fn same_policy(measured: &MeasuredFor, compared: bool) -> String {
    let said = format!(
        "corpus is prepared with the policy that the labels were measured for, {}.",
        named(measured)
    );
    match compared {
        true => format!("The {said}"),
        false => {
            let unit = &measured.unit;
            format!("Premise: the {said} One record is a {unit}, as the labels say.")
        }
    }
}

/// Names a policy: one that is composed of others by its digest, since its type alone reads as any policy.
fn named(measured: &MeasuredFor) -> String {
    let (policy, digest) = (&measured.policy, &measured.digest);
    match (policy.as_str(), digest) {
        ("any" | "all" | "at-least" | "threshold", Some(digest)) => {
            let digest: String = digest.chars().take(24).collect();
            format!("one of type {policy:?} with digest {digest}…")
        }
        _ => policy.clone(),
    }
}

fn measured(sample: &LabelledSecrets, found: &MeasuredRates, compared: bool) -> Vec<String> {
    let mut said = vec![format!(
        "{} of {} labelled secrets were missed{}. With confidence {} the shares are at most {} (redaction) and {} (both); \
         what was seen is {}. It holds for a random sample drawn before anybody tuned a policy on it, and with its chance of \
         being wrong the promises that use it do not hold.",
        sample.missed(),
        sample.labelled(),
        if sample.conservative_labelled() {
            format!(", {} of them by both policies", sample.missed_by_both())
        } else {
            ", and nobody labelled the conservative policy".into()
        },
        shortest(found.confidence.get()),
        rounded(found.gamma, 3),
        rounded(found.eta, 3),
        nearest(sample.missed() as f64 / sample.labelled().max(1) as f64, 3),
    )];
    said.extend(
        sample
            .measured_for()
            .map(|measured| same_policy(measured, compared)),
    );
    said.extend(about_the_sample(sample));
    if found.stratified {
        said.push(format!(
            "{} kinds are bounded apart and weighted by their sizes; each single bound has confidence {}.",
            found.by_kind.len(),
            nearest(found.each.get(), 4),
        ));
    }
    said
}

/// Returns how many labels a promise at δ would need: η ≤ δ without a joint miss. None are needed where the η that is used
/// is that small, or zero since every record is trained on with noise.
#[must_use]
pub(crate) fn labels_for(delta: Delta, used: &Redaction, found: &MeasuredRates) -> Option<String> {
    let used = used.missed_by_both().get();
    if used == 0.0 || used < delta.get() {
        return None;
    }
    let eta = found.eta.get().get();
    let wish = MissRate::new(delta.get()).ok()?;
    let alone = labels_needed(wish, found.confidence)?;
    let shared = match labels_needed(wish, found.each)? {
        shared if shared == alone => String::new(),
        shared => format!(" for this rate alone, {shared} with the confidence shared as here"),
    };
    Some(format!(
        "With delta {} the share missed by both has to be proved smaller than {}: that takes {alone} labelled secrets \
         without a joint miss at confidence {}{shared}; these labels prove {}.",
        shortest(delta.get()),
        shortest(delta.get()),
        shortest(found.confidence.get()),
        rounded_up(eta, 3),
    ))
}

/// Returns what no number on the page covers.
#[must_use]
pub(super) fn not_covered(run: &PlannedRun) -> Vec<String> {
    let outside = outside_text(run.plan.base(), run.plan.held_out_public());
    let draws = run.corpus.as_ref().is_some_and(|corpus| corpus.draws);
    let list = outside.chain(uncovered(run.plan.run.recipe(), draws));
    let mut said: Vec<String> = list.map(|text| capital(text) + ".").collect();
    said.extend(about_delta(&run.inputs));
    said
}
