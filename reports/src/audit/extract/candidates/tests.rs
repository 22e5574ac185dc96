use super::*;
use reticent_accounting::protect::{Incidence, Protection};
use reticent_accounting::training::{Stated, WeightedSteps, dominating_rates};
use reticent_accounting::{Lower, Steps};
use reticent_attacks::exposure::CeilingOutcome;

fn probability(p: f64) -> Probability {
    Probability::new(p).unwrap()
}

fn promise(prior: f64, posterior: f64) -> Secret {
    Secret::new(probability(prior), probability(posterior)).unwrap()
}

/// One full batch of so many records, each with a secret of its own, at σ = 2: what a secret leaves is
/// N(1/2, 1) against N(0, 1).
fn plan(promises: &[Secret], sigma: f64) -> TrainingPlan {
    plan_in(promises, &vec![1; promises.len()], sigma)
}

/// The same with so many records of each secret.
fn plan_in(promises: &[Secret], records: &[u32], sigma: f64) -> TrainingPlan {
    let rates = vec![1.0; records.iter().sum::<u32>() as usize];
    plan_at(promises, records, &rates, sigma)
}

/// The same where a step draws each record at its own rate.
fn plan_at(promises: &[Secret], records: &[u32], rates: &[f64], sigma: f64) -> TrainingPlan {
    let mut of_secrets: Vec<Vec<u32>> = Vec::new();
    let mut count = 0;
    for records in records {
        of_secrets.push((count..count + records).collect());
        count += records;
    }
    let pairs = (0..).zip(&of_secrets);
    let pairs = pairs.flat_map(|(secret, records)| records.iter().map(move |r| (*r, secret)));
    let incidence = Incidence::new(count, promises.len() as u32, pairs.collect()).unwrap();
    let noise = NoiseMultiplier::new(sigma).unwrap();
    let run = Protection {
        incidence: &incidence,
        secrets: promises,
        rates,
        steps: Steps::new(1),
    };
    let weighted = WeightedSteps {
        noise_multiplier: Stated::given(noise, "test"),
        batch: Stated::given(f64::from(count), "test"),
        steps_per_epoch: 1,
        steps: Stated::given(Steps::new(1), "test"),
        secret_rates: Stated::given(dominating_rates(rates, &of_secrets).unwrap(), "test"),
        secrets: Some(run.certified(Some(noise)).unwrap().classes),
    };
    TrainingPlan::new(Run::Protect { weighted }, UnitName::new("turn").unwrap())
}

/// So many secrets whose classes are not known.
fn no_class(secrets: u64) -> Vec<Option<usize>> {
    vec![None; secrets as usize]
}

fn hits(bound: &Bound, secrets: u64, hits: u64) -> PromiseTest {
    let alpha = FALSE_ALARM;
    PromiseTest {
        prior: bound.prior.get(),
        posterior: bound.at_most.get().get(),
        secrets,
        hits,
        p_value: 1.0,
        false_alarm: alpha,
        at_least: Lower::new(probability(alpha * hits as f64 / secrets as f64)),
        provable: Upper::new(probability(alpha)),
        alike: false,
    }
}

/// Φ(Φ⁻¹(0.01) + 1/2) = 0.033 899 (erfc, bisected in double precision), where p is 0.01 and where it is
/// less and a guess names one of a hundred: what holds of a rarer guess does not hold of that one.
#[test]
fn a_certificate_is_asked_at_the_mass_of_the_guess() {
    for prior in [0.01, 1e-6] {
        let promises = [promise(prior, 0.05); 3];
        let plan = plan(&promises, 2.0);
        let bound = Bound::of(promises[0], Some(100), 3, &plan).unwrap();
        assert_eq!(bound.source, Source::Certified);
        assert!((bound.prior.get() - 0.01).abs() < 1e-15);
        let at_most = bound.at_most.get().get();
        assert!((at_most - GOLDEN).abs() < 1e-4 * GOLDEN, "{at_most}");
        // An upper bound lies above.
        assert!(at_most >= GOLDEN - 1e-9, "{at_most}");
    }
    // More candidates than 1/p: the guess is as large as the promise allows.
    let promises = [promise(0.01, 0.05)];
    let bound = Bound::of(promises[0], Some(1000), 1, &plan(&promises, 2.0)).unwrap();
    assert!((bound.prior.get() - 0.01).abs() < 1e-15);
}

/// Secrets of one promise in one and in two records: Φ(Φ⁻¹(0.01) + 1/2) and Φ(Φ⁻¹(0.01) + 1) = 0.092362. Where
/// the class is known a secret is held against its own bound, otherwise against the larger.
#[test]
fn a_secret_is_held_against_its_own_certificate() {
    let promises = [promise(0.01, 0.1); 2];
    let plan = plan_in(&promises, &[1, 2], 2.0);
    let bound = Bound::of(promises[0], Some(100), 2, &plan).unwrap();
    assert_eq!(bound.records, 2);
    let of = |class| bound.of_class(class).get().get();
    let mut own = [of(Some(0)), of(Some(1))];
    own.sort_by(f64::total_cmp);
    for (found, exact) in own.into_iter().zip([GOLDEN, 0.092_362]) {
        assert!((found / exact - 1.0).abs() < 1e-4, "{found} {exact}");
    }
    assert_eq!(of(None).to_bits(), own[1].to_bits());
}

/// Φ(Φ⁻¹(0.01) + 1/2).
const GOLDEN: f64 = 0.033_898_939;

/// A model that gives every secret away contradicts what a certificate allows one time in ten thousand,
/// one that gives none away doesn't, and where the certificate allows more than the false-alarm rate no
/// audit of this kind could have.
#[test]
fn ranks_meet_the_certificate_of_the_manifest() {
    let promises = [promise(1e-5, 1e-3); 20];
    let quiet = plan(&promises, 4.0);
    let bound = Bound::of(promises[0], Some(200_000), 20, &quiet).unwrap();
    let met = |count| {
        let test = hits(&bound, 20, count);
        met(&test, (&bound, &no_class(20)), Some(&quiet), "ckpt").unwrap()
    };
    let caught = met(20);
    let verdict = caught.verdict.as_ref().unwrap();
    assert!(verdict.is_contradicted(), "{verdict}");
    assert_eq!(verdict.terms().prior, Some(probability(1e-5)));
    assert_eq!(verdict.suspects()[0], Mistake::NoiseOrClipping);
    assert_eq!(caught.promised, [(probability(1e-5), probability(1e-3))]);
    let kept = met(0).verdict.unwrap();
    assert!(kept.could_contradict() && !kept.is_contradicted());
    assert_eq!(kept.outcome(), CeilingOutcome::NotContradicted.says());
    let power: Vec<f64> = kept.power().iter().map(|p| p.chance.get().get()).collect();
    assert!((power[0] - 1.0).abs() < 1e-12, "{power:?}");
    assert!(power.is_sorted_by(|a, b| a >= b), "{power:?}");
    let loud = plan(&promises[..3], 2.0);
    let loose = Bound::of(promises[0], Some(100), 3, &loud).unwrap();
    let test = hits(&loose, 3, 3);
    let found = super::met(&test, (&loose, &no_class(3)), Some(&loud), "ckpt").unwrap();
    let verdict = found.verdict.unwrap();
    assert!(!verdict.could_contradict() && verdict.power().is_empty());
}

/// Advice names no more candidates than the secrets can have. At σ = 4 a guess of mass 1e-4 is right with
/// chance Φ(Φ⁻¹(1e-4) + 1/4) = 2.5e-4, below what the test proves, 1e-3, and one of mass 1e-3 with 2.3e-3.
#[test]
fn advice_can_be_followed() {
    let promises = [promise(1e-5, 1e-2); 3];
    let plan = plan(&promises, 4.0);
    for (most, says) in [
        (1_000_000, "with 10 000 candidates"),
        (1000, "no number of candidates that these secrets can have"),
    ] {
        let bound = Bound {
            most,
            ..Bound::of(promises[0], Some(100), 3, &plan).unwrap()
        };
        let test = hits(&bound, 3, 3);
        let found = met(&test, (&bound, &no_class(3)), Some(&plan), "ckpt").unwrap();
        let advice = found.advice.unwrap().replace('\u{202f}', " ");
        assert!(advice.contains(says), "{advice}");
        // No verdict on canaries is about this certificate.
        assert!(!advice.contains("canaries"), "{advice}");
    }
}

/// What no plan states is advised on as what one does: only where the test can't contradict it. "No number of candidates"
/// was said beside a test that can prove 1e-3 and a promise of 5e-4.
#[test]
fn a_stated_promise_gets_advice_where_nothing_contradicts_it() {
    for (posterior, advised) in [(5e-4, false), (1e-3, true), (2e-3, true)] {
        let promise = promise(2e-4, posterior);
        let bound = Bound {
            most: 1_000_000,
            ..Bound::stated(promise)
        };
        let test = hits(&bound, 3, 0);
        let found = met(&test, (&bound, &no_class(3)), None, "m").unwrap();
        assert_eq!(found.verdict.unwrap().could_contradict(), !advised);
        assert_eq!(found.advice.is_some(), advised, "{posterior}");
    }
}

/// Ranks of secrets that training is not known to have met, and those that all tie, let no promise stand. They contradict
/// one, and could not have, as others do.
#[test]
fn secrets_that_training_may_not_have_met_let_no_promise_stand() {
    let known = Inclusion::TrainedRecords;
    let hardly = Met {
        occur: 20,
        drawn: 19,
    };
    let promises = [promise(1e-5, 1e-3); 20];
    let bound = Bound::of(promises[0], Some(200_000), 20, &plan(&promises, 4.0)).unwrap();
    let said = leaves_standing(known, hardly, &hits(&bound, 20, 0), true).unwrap();
    assert!(
        said.contains(
            "1 of them are not known to have a record drawn with probability 0.5 or more"
        ),
        "{said}"
    );
    for (inclusion, included, ours, alike, why) in [
        (known, 20, true, false, None),
        (
            known,
            20,
            true,
            true,
            Some("each secret ties with all its candidates"),
        ),
        (
            known,
            19,
            true,
            false,
            Some("1 of them don't occur behind their contexts"),
        ),
        (Inclusion::GivenText, 20, false, false, None),
        (
            Inclusion::GivenText,
            20,
            true,
            false,
            Some("it is not known that this checkpoint"),
        ),
        (
            Inclusion::NotChecked,
            0,
            false,
            false,
            Some("give --training"),
        ),
    ] {
        let promises = [promise(1e-5, 1e-3); 20];
        for (sigma, candidates, hit) in [(4.0, 200_000, 0), (4.0, 200_000, 20), (2.0, 100, 0)] {
            let plan = plan(&promises, sigma);
            let bound = Bound::of(promises[0], Some(candidates), 20, &plan).unwrap();
            let test = PromiseTest {
                alike,
                ..hits(&bound, 20, hit)
            };
            let included = Met {
                occur: included,
                drawn: included,
            };
            let said = leaves_standing(inclusion, included, &test, ours);
            assert_eq!(said.is_some(), why.is_some(), "{inclusion:?} {included:?}");
            assert!(said.iter().zip(why).all(|(said, why)| said.contains(why)));
            let withheld = why.is_some() && sigma > 3.0 && hit == 0;
            let found = met(&test, (&bound, &no_class(20)), Some(&plan), "ckpt").unwrap();
            let found = found.unsupported(said.clone());
            assert_eq!(found.verdict.is_none(), withheld, "{inclusion:?} {hit}");
            assert_eq!(found.no_verdict, said.filter(|_| withheld));
        }
    }
}

/// A secret whose only record has a rounding residue for a weight is not met, nor is one whose class is not known beside it.
#[test]
fn a_secret_that_is_hardly_ever_drawn_is_not_met() {
    let promises = [promise(1e-6, 1e-3); 2];
    let plan = plan_at(&promises, &[1, 1], &[1e-9, 1.0], 4.0);
    let bound = Bound::of(promises[0], Some(100), 2, &plan).unwrap();
    let drawn = [Some(0), Some(1), None].map(|class| bound.is_drawn(class));
    let of = |class| bound.of_class(class).get().get();
    assert!(of(Some(0)) < of(Some(1)));
    assert_eq!(drawn, [false, true, false]);
    assert!(Bound::stated(promises[0]).is_drawn(None));
}

/// Nothing is held against a run that promises nothing, and a promise that the run never made is no
/// promise of its.
#[test]
fn what_no_run_promises_gets_no_verdict() {
    let promises = [promise(0.01, 0.05); 2];
    let kept = plan(&promises, 2.0);
    let noiseless = TrainingPlan {
        noiseless: true,
        ..kept.clone()
    };
    let seeded = TrainingPlan {
        seeded: true,
        ..kept.clone()
    };
    for open in [noiseless, seeded] {
        let bound = Bound::of(promises[0], Some(100), 2, &open).unwrap();
        assert_eq!(bound.source, Source::Nothing);
        assert_eq!(bound.at_most.get().get().to_bits(), 1.0_f64.to_bits());
        let test = hits(&bound, 2, 2);
        let found = met(&test, (&bound, &no_class(2)), Some(&open), "ckpt").unwrap();
        assert!(found.verdict.is_none());
        assert!(
            found
                .no_verdict
                .unwrap()
                .starts_with("nothing was promised")
        );
    }
    for (args, secrets, says) in [
        (
            promise(0.01, 0.06),
            1,
            "1 secret with the promise (0.01, 0.06), and the run has 0 such secrets",
        ),
        (
            promises[0],
            3,
            "3 secrets with the promise (0.01, 0.05), and the run has 2 such secrets",
        ),
    ] {
        let error = Bound::of(args, Some(100), secrets, &kept).err().unwrap();
        assert_eq!(error.to_string(), says);
    }
}

#[test]
fn a_promise_is_that_of_the_weights_or_of_the_line() {
    let line = |prior: Option<f64>, posterior: Option<f64>| Line {
        id: "a".into(),
        context: "My ID is: ".into(),
        secret: "12".into(),
        candidates: None,
        shape: Some("{digits:2}".into()),
        prior,
        posterior,
    };
    let of = |prior, posterior, class| Promised {
        promise: promise(prior, posterior),
        class,
    };
    let certified = HashMap::from([("a".to_owned(), of(0.01, 0.05, Some(3)))]);
    let found = super::promised(&line(None, None), Some(&certified)).unwrap();
    assert_eq!(found, of(0.01, 0.05, Some(3)));
    let found = super::promised(&line(Some(0.1), Some(0.2)), None).unwrap();
    assert_eq!(found, of(0.1, 0.2, None));
    let other = HashMap::from([("b".to_owned(), of(0.01, 0.05, None))]);
    for (line, weights, says) in [
        (line(None, None), None, "are missing"),
        (line(Some(0.1), None), None, "both be given"),
        (line(None, None), Some(&other), "is no secret of --weights"),
        (
            line(Some(0.01), Some(0.06)),
            Some(&certified),
            "not those of --weights",
        ),
        (line(Some(0.5), Some(0.2)), None, "posterior"),
    ] {
        let error = super::promised(&line, weights).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let without = Line {
        shape: None,
        ..line(None, None)
    };
    assert!(super::candidates(&without, 10, 0).is_err());
}
