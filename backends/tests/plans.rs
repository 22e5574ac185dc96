//! A run is its plan: as many steps as it says, on the corpus it was made for, or none at all.

use crate::common::{
    MASK, direct, for_epochs, given, jft, light, model, noisy, options, options_on, run_until,
    secret_rates, set, spans, unseeded, weights, with_corpus,
};
use reticent_accounting::confidentiality::RedactedAlike;
use reticent_accounting::training::{FirstPhase, Run, Sizes, StepDecay};
use reticent_accounting::{Mechanism, MissRate, SamplingRate, Steps};
use reticent_backends::checkpoint::{Initial, Manifest, Phase};
use reticent_backends::run::{Surroundings, Trained, train_on};
use reticent_backends::{Corpus, Error, Recipe, Schedule, SecretRates, Sensitive, TrainOptions};
use reticent_corpus::Unit;
use reticent_corpus::prepare::{PrepareOptions, prepare};
use reticent_corpus::simulate::simulate;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// A run of the recurrent model; as [`run_until`].
fn run(settings: &TrainOptions, state: Option<&Path>, stop_at: u64) -> Result<Trained, Error> {
    run_until(model(), settings, state, stop_at)
}

/// The same plan with so many noisy steps (of the last phase).
fn for_steps(mut settings: TrainOptions, steps: u64) -> TrainOptions {
    let steps = Steps::new(steps);
    match &mut settings.plan.run {
        Run::Sdp { selective } => selective.steps.value = steps,
        Run::Protect { weighted } => weighted.steps.value = steps,
        run => run.noisy_mut().unwrap().steps.value = steps,
    }
    settings
}

/// Times of each part of a mechanism.
fn times(mechanism: &Mechanism) -> Vec<u64> {
    match mechanism {
        Mechanism::Sequence { parts } => parts.iter().flat_map(times).collect(),
        Mechanism::Repeat { times, .. } => vec![times.get()],
        other => panic!("{other:?}"),
    }
}

/// Noisy steps of each phase that has some.
fn counted(phases: &[Phase]) -> Vec<u64> {
    phases.iter().filter_map(Phase::private_steps).collect()
}

/// The phases of a run with another value of what its plan states too, or with one phase more, fewer or elsewhere.
fn altered(phases: &[Value]) -> Vec<Vec<Value>> {
    let mut found = vec![[phases, &phases[..1]].concat()];
    for (number, phase) in phases.iter().enumerate() {
        if phase["side"] != "public" {
            let others = phases.iter().enumerate().filter(|(at, _)| *at != number);
            found.push(others.map(|(_, phase)| phase.clone()).collect());
        }
        for (key, value) in phase.as_object().unwrap() {
            let is_noisy = phase.get("noise_multiplier").is_some();
            let other = match key.as_str() {
                "steps" if is_noisy => (value.as_u64().unwrap() + 1).into(),
                "passes" | "states" => (value.as_u64().unwrap() + 1).into(),
                "noise_multiplier" | "state_noise_multiplier" => {
                    (2.0 * value.as_f64().unwrap()).into()
                }
                "sampling_rate" => (0.5 * value.as_f64().unwrap()).into(),
                "secret_rates" => json!([]),
                "screened" => (!value.as_bool().unwrap()).into(),
                "alike" => {
                    let key = "every_content_caught";
                    let mut alike = value.clone();
                    alike[key] = (!alike[key].as_bool().unwrap()).into();
                    alike
                }
                _ => continue,
            };
            let mut phases = phases.to_vec();
            phases[number][key] = other;
            found.push(phases);
        }
        for (key, value) in [
            ("sampling", json!("balls-in-bins")),
            ("noise_decay", json!({"factor": 0.5, "every": 1})),
            ("miss", json!([0.125, 0.25])),
        ] {
            let has = match phase["side"].as_str().unwrap() {
                "private" => key != "miss",
                "light-noise" => key != "noise_decay",
                _ => false,
            };
            if has {
                let mut phases = phases.to_vec();
                phases[number][key] = value;
                found.push(phases);
            }
        }
    }
    if phases.len() > 1 {
        found.push(phases.iter().rev().cloned().collect());
    }
    found
}

/// Steps that are no multiple of an epoch are taken exactly, counted exactly, and the manifest says
/// so; an interrupted run takes as many.
#[test]
fn a_run_takes_exactly_the_steps_of_its_plan() {
    let prepared = prepare(&simulate(2, 1).unwrap(), &PrepareOptions::default()).unwrap();
    assert_eq!(prepared.training.unit, Unit::Turn);
    let mut phased = jft(light(), &set(4, 8, 1));
    if let Run::Jft {
        first: FirstPhase::LightNoise { steps, .. },
        ..
    } = &mut phased.plan.run
    {
        // 1/q = 3.25: four steps an epoch
        steps.steps = given(Steps::new(6));
    }
    // plan; ordinary steps; noisy steps, phase by phase; times of each part
    let cases = [
        // one epoch is five steps, as 13 / 3 = 4.3
        (for_steps(options(Recipe::Dpsgd), 7), 0, vec![7], vec![7]),
        (for_steps(options(Recipe::Dpsgd), 1), 0, vec![1], vec![1]),
        // three private steps an epoch after one public pass of a single step
        (for_steps(options(Recipe::Crt), 7), 3, vec![7], vec![7]),
        (for_steps(options(Recipe::Crt), 2), 1, vec![2], vec![2]),
        // four steps a pass: two passes begun, so two gradients and 2 × 2 states of a record
        (for_steps(options(Recipe::Sdp), 7), 0, vec![7], vec![2, 4]),
        // two passes of three ordinary steps over twelve redacted records
        (for_steps(options(Recipe::Jft), 7), 6, vec![7], vec![7]),
        (for_steps(phased, 8), 0, vec![6, 8], vec![6, 8]),
        (for_steps(options(Recipe::Protect), 7), 0, vec![7], vec![7]),
    ];
    for (settings, ordinary, noisy, parts) in cases {
        let what = format!("{:?}", settings.plan.run);
        let whole = run(&settings, None, u64::MAX).unwrap();
        assert_eq!(counted(&whole.ran.phases), noisy, "{what}");
        assert_eq!(whole.ran.plan, settings.plan, "{what}");
        assert_eq!(times(&unseeded(&whole.ran.plan)), parts, "{what}");
        let initial = Initial::Random { seed: 1 };
        let manifest = Manifest::of(&prepared, &whole.ran, initial).unwrap();
        assert_eq!(manifest.mechanism, settings.plan.mechanism(), "{what}");
        let json = manifest.to_json().unwrap();
        let again = Manifest::from_json(&json).unwrap();
        assert_eq!(again.plan.run, settings.plan.run, "{what}");
        let mut stated: Value = serde_json::from_str(&json).unwrap();
        for phases in altered(&stated["phases"].as_array().unwrap().clone()) {
            stated["phases"] = phases.into();
            let refused = Manifest::from_json(&stated.to_string()).unwrap_err();
            let expected = "phases: is not what its plan says: tampered with";
            assert_eq!(refused, expected, "{}", stated["phases"]);
        }

        let all = ordinary + noisy.iter().sum::<u64>();
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("out.state");
        let stops = BTreeSet::from([2, all - 1]);
        for stop_at in stops.into_iter().filter(|at| (1..all).contains(at)) {
            let end = run(&settings, Some(&state), stop_at);
            assert!(matches!(end, Err(Error::Interrupted { .. })), "{what}");
        }
        let resumed = run(&settings, Some(&state), u64::MAX).unwrap();
        assert_eq!(resumed.ran.phases, whole.ran.phases, "{what}");
        assert_eq!(resumed.ran.plan, whole.ran.plan, "{what}");
        assert_eq!(weights(&resumed), weights(&whole), "{what}");
        let ledger = std::fs::read_to_string(state.join("ledger.jsonl")).unwrap();
        let lines = ledger.lines().count() as u64 - 1;
        assert_eq!(lines, noisy.iter().sum::<u64>(), "{what}");
    }
}

/// The schedule has as many steps, ordinary ones included.
#[test]
fn a_schedule_has_the_steps_of_its_plan() {
    let set = set(4, 8, 1);
    let total = |settings: &TrainOptions| Schedule::new(settings, &set).unwrap().total();
    assert_eq!(total(&for_steps(options(Recipe::Dpsgd), 7)), 7);
    assert_eq!(total(&for_steps(options(Recipe::Crt), 7)), 3 + 7);
    let mut ordinary = options(Recipe::Sgd);
    if let Run::Sgd { steps, .. } = &mut ordinary.plan.run {
        *steps = Some(given(5));
    }
    assert_eq!(total(&ordinary), 5);
    let plan = Schedule::new(&for_steps(options(Recipe::Crt), 7), &set).unwrap();
    assert_eq!(plan.planned_private_steps(), 7);
}

/// What is refused before the first step, and leaves no state folder.
fn refused(settings: &TrainOptions, corpus: &Corpus<'_>) -> String {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("out.state");
    let stop = AtomicBool::new(false);
    let surroundings = Surroundings::resumable(state.clone(), &stop);
    let end = train_on(model(), settings, corpus, &surroundings, &mut |_| {
        panic!("it took a step");
    });
    assert!(!state.exists());
    match end {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    }
}

/// A clipping norm that would fall out of its range is refused before the first step, and not at the step where it does.
#[test]
fn a_clipping_norm_that_vanishes_is_refused_at_once() {
    with_corpus(|corpus| {
        for recipe in [Recipe::Dpsgd, Recipe::Crt, Recipe::Sdp, Recipe::Protect] {
            // C is 0.9 at first: 8e-12 in the third epoch, and 2e-17 in the fourth.
            let decayed = |epochs| {
                let mut settings = for_epochs(options(recipe), epochs);
                let every = settings.plan.run.steps_per_epoch().unwrap();
                if let Some(private) = &mut settings.private {
                    private.clip_decay = Some(StepDecay::new(3e-6, every).unwrap());
                }
                settings
            };
            assert!(Schedule::of(&decayed(3), corpus).is_ok(), "{recipe}");
            let error = refused(&decayed(4), corpus);
            for word in ["--clip-decay", "[1e-12, inf)"] {
                assert!(error.contains(word), "{recipe}: {error}");
            }
        }
    });
}

/// Clipping norms fall after so many epochs, which may have another number of steps in each phase.
#[test]
fn clipping_norms_fall_by_the_epochs_of_each_phase() {
    let first = FirstPhase::LightNoise {
        steps: noisy(0.4, 2, 13, 2),
        token_miss: Some((MissRate::ZERO, MissRate::ZERO)),
    };
    let mut settings = jft(first, &set(4, 8, 1));
    if let Some(private) = &mut settings.private {
        // After every second epoch of five steps.
        private.clip_decay = Some(StepDecay::new(0.5, 10).unwrap());
    }
    let whole = run(&settings, None, u64::MAX).unwrap();
    let falls = whole.ran.phases.iter().filter_map(|phase| match phase {
        Phase::LightNoise { clip_decay, .. } | Phase::Private { clip_decay, .. } => {
            clip_decay.map(|decay| decay.every())
        }
        _ => None,
    });
    assert_eq!(falls.collect::<Vec<_>>(), [14, 10]);
}

/// A plan that knows its sizes is for no other training set.
#[test]
fn a_plan_for_other_sizes_is_refused() {
    with_corpus(|corpus| {
        for recipe in Recipe::ALL {
            let planned = |public, private| {
                let mut settings = options(recipe);
                settings.plan.sizes = Some(given(Sizes { public, private }));
                settings
            };
            for (public, private) in [(4, 8), (4, 10), (5, 9), (9, 4), (0, 13)] {
                let error = refused(&planned(public, private), corpus);
                let said = format!("{public} public and {private} private");
                assert!(error.contains(&said), "{recipe}: {error}");
                assert!(error.contains("has 4 and 9"), "{recipe}: {error}");
            }
            assert!(Schedule::of(&planned(4, 9), corpus).is_ok(), "{recipe}");
        }
    });
}

/// `sdp`: fewer states, or fewer steps a pass, than the corpus has are refused; more are counted.
#[test]
fn a_plan_that_counts_too_little_of_selective_training_is_refused() {
    with_corpus(|corpus| {
        let planned = |states, pass| {
            let mut settings = options(Recipe::Sdp);
            if let Run::Sdp { selective } = &mut settings.plan.run {
                selective.states = given(states);
                selective.steps_per_epoch = pass;
            }
            settings
        };
        for states in [0, 1] {
            let error = refused(&planned(states, 4), corpus);
            assert!(error.contains("releases 2 states"), "{error}");
        }
        let error = refused(&planned(2, 3), corpus);
        assert!(error.contains("a pass has 4 steps"), "{error}");
        // what is on the safe side runs, and its manifest counts what was planned
        let mut careful = planned(6, 4);
        if let Run::Sdp { selective } = &mut careful.plan.run {
            selective.every_content_caught = given(false);
        }
        let prepared = prepare(&simulate(2, 1).unwrap(), &PrepareOptions::default()).unwrap();
        for settings in [planned(6, 4), careful] {
            let whole = run(&settings, None, u64::MAX).unwrap();
            let manifest =
                Manifest::of(&prepared, &whole.ran, Initial::Random { seed: 1 }).unwrap();
            assert_eq!(manifest.mechanism, settings.plan.mechanism());
        }
        let whole = run(&planned(6, 4), None, u64::MAX).unwrap();
        assert_eq!(times(&unseeded(&whole.ran.plan)), [2, 12]);
    });
}

/// `protect`: secrets that are drawn more often than the plan says are refused.
#[test]
fn a_plan_with_lower_rates_of_secrets_is_refused() {
    with_corpus(|corpus| {
        let most = secret_rates(12).dominating().to_vec();
        assert_eq!(most.len(), 3);
        let planned = |secret_rates: Vec<SamplingRate>| {
            let mut settings = options(Recipe::Protect);
            if let Run::Protect { weighted } = &mut settings.plan.run {
                weighted.secret_rates = given(secret_rates);
            }
            settings
        };
        for place in 0..3 {
            let mut lower = most.clone();
            lower[place] = SamplingRate::new(lower[place].get().next_down()).unwrap();
            let error = refused(&planned(lower), corpus);
            assert!(error.contains("more often"), "{place}: {error}");
        }
        // a secret has three records: a plan that knows of two is none
        assert!(refused(&planned(most[..2].to_vec()), corpus).contains("more often"));
        assert!(refused(&planned(vec![]), corpus).contains("more often"));
        // higher rates, and more records, are on the safe side
        let mut higher = most.clone();
        higher[0] = SamplingRate::new(0.9).unwrap();
        higher.push(SamplingRate::new(0.01).unwrap());
        assert!(Schedule::of(&planned(higher), corpus).is_ok());
        // rates of another corpus
        let often = SecretRates::new(vec![0.5; 12], vec![vec![3]]).unwrap();
        let other = Corpus {
            rates: Some(&often),
            ..*corpus
        };
        assert!(refused(&planned(most), &other).contains("more often"));
    });
}

/// `jft`: what the plan says of the policy is what the corpus says.
#[test]
fn a_plan_with_another_policy_is_refused() {
    let set = set(4, 8, 1);
    let missed = RedactedAlike {
        every_content_caught: false,
        ..RedactedAlike::YES
    };
    for (planned, found) in [(RedactedAlike::YES, missed), (missed, RedactedAlike::YES)] {
        let sensitive = Sensitive::new(&set, spans(&set), MASK, found).unwrap();
        let mut first = direct(2);
        if let FirstPhase::Ordinary { alike, .. } = &mut first {
            *alike = given(planned);
        }
        let corpus = Corpus {
            sensitive: Some(&sensitive),
            ..Corpus::plain(&set)
        };
        let error = refused(&jft(first, &set), &corpus);
        assert!(error.contains("what the policy catches"), "{error}");
    }
}

/// A plan of noisy steps is refused where nothing is on the private side, and one without them
/// where something is.
#[test]
fn a_plan_for_another_private_side_is_refused() {
    let (with, without) = (set(4, 8, 1), set(12, 0, 0));
    let planned = options_on(Recipe::Crt, &with);
    let error = refused(&planned, &Corpus::plain(&without));
    assert!(error.contains("no private record"), "{error}");
    let public_only = options_on(Recipe::Crt, &without);
    let error = refused(&public_only, &Corpus::plain(&with));
    assert!(error.contains("9 records"), "{error}");
    let mut run = public_only.seeded(None);
    run.batch_size = 12;
    assert_eq!(Schedule::new(&run, &without).unwrap().total(), 2);
}
