//! Samplers by flags: each is what its file would be, and none goes unsaid.

use crate::account::args::{Account, Command};
use crate::account::{answer, calibrate, plan};
use crate::page::View;
use crate::plan::PlanRequest;
use crate::plan::args::Schedule;
use crate::plan::sampler::Sampler;
use crate::plan::schedule::{Defaults, noisy_steps};
use crate::plan::value_name;
use crate::schema::problems;
use clap::{Parser, ValueEnum};
use reticent_accounting::training::Stated;
use reticent_accounting::{Mechanism, Neighbours, NoiseMultiplier, Sampling, Steps};

fn question(line: &str) -> anyhow::Result<plan::Question> {
    let words = format!("account {line}");
    let parsed = Account::try_parse_from(words.split_whitespace())?;
    plan::Question::new(&parsed.plan)
}

fn sampling(line: &str) -> (Sampling, f64, u64) {
    let run = question(line).unwrap().run;
    let noisy = run.noisy().unwrap();
    let (rate, steps) = (noisy.sampling_rate.get(), noisy.steps.get());
    (*noisy.sampling, rate, steps)
}

#[test]
fn every_sampler_is_what_it_says() {
    let ten = "--sigma 1 --sample-rate 0.1 --steps 50";
    for (line, expected) in [
        (ten.to_owned(), Sampling::Poisson),
        (format!("{ten} --sampler poisson"), Sampling::Poisson),
        (
            format!("{ten} --sampler without-replacement"),
            Sampling::WithoutReplacement,
        ),
        (
            format!("{ten} --sampler with-replacement"),
            Sampling::WithReplacement,
        ),
        (format!("{ten} --sampler shuffled"), Sampling::Shuffled),
        (
            format!("{ten} --sampler balls-in-bins"),
            Sampling::BallsInBins,
        ),
        (
            format!("{ten} --sampler truncated-poisson --max-batch 30 --dataset-size 200"),
            Sampling::TruncatedPoisson {
                max_batch: 30,
                records: 200,
            },
        ),
        (
            "--sigma 1 --steps 50 --sampler random-allocation --selected 2 --epoch-steps 20".into(),
            Sampling::RandomAllocation {
                selected: 2,
                steps: 20,
            },
        ),
    ] {
        let (found, rate, steps) = sampling(&line);
        assert_eq!(found, expected, "{line}");
        assert!((rate - 0.1).abs() < 1e-15 && steps == 50, "{line}");
        // Assumed only where nobody said it.
        let said = question(&line).unwrap().inputs.is_assumed("sampler");
        assert_eq!(said, !line.contains("--sampler"), "{line}");
    }
}

/// An epoch of shuffled batches costs one Gaussian, however many batches it has.
#[test]
fn shuffled_batches_are_not_amplified() {
    for (line, epochs) in [
        ("--batch-size 256 --dataset-size 60000 --epochs 20", 20),
        ("--epoch-steps 100 --steps 301", 4),
        ("--sample-rate 0.3 --epochs 2.5", 3),
        // Batches of 3 of 10 records: three or four an epoch, so as many epochs as there may be.
        ("--batch-size 3 --dataset-size 10 --steps 30", 10),
    ] {
        let found = question(&format!("--sigma 2 --sampler shuffled {line}")).unwrap();
        assert_eq!(found.plan.neighbours, Neighbours::ZeroOut);
        let plain = Mechanism::Repeat {
            times: Steps::new(epochs),
            each: Box::new(Mechanism::Gaussian {
                noise_multiplier: NoiseMultiplier::new(2.0).unwrap(),
            }),
        };
        let truth = plan::Question {
            plan: reticent_accounting::Plan {
                mechanism: plain,
                ..found.plan.clone()
            },
            ..found.clone()
        };
        let upper =
            |question: &plan::Question| question.plan.epsilon().unwrap().upper.unwrap().get().get();
        let (ours, exact) = (upper(&found), upper(&truth));
        assert!((ours / exact - 1.0).abs() < 3e-6, "{line}: {ours} {exact}");
    }
}

/// Our trainer draws each record into one of a whole number of bins: what is stated is the share of a bin. Of another
/// loader nothing but the rate is known.
#[test]
fn bins_have_the_share_that_is_drawn() {
    let request = PlanRequest {
        schedule: Schedule {
            sampler: Some(Sampler::BallsInBins),
            batch_size: Some(30),
            steps: Some(6),
            ..Schedule::default()
        },
        ..PlanRequest::default()
    };
    let sigma = Stated::given(NoiseMultiplier::new(2.0).unwrap(), "sigma");
    let steps = |defaults| noisy_steps(&request, sigma.clone(), Some(80), defaults).unwrap();
    for (defaults, rate) in [(Defaults::Corpus, 0.5), (Defaults::Question, 0.375)] {
        let found = steps(defaults);
        assert!((found.sampling_rate.get() - rate).abs() < 1e-15);
        assert_eq!((found.steps_per_epoch, found.steps.get()), (2, 6));
    }
}

/// Flags and plan files name the samplers as mechanisms do.
#[test]
fn a_sampler_has_one_name() {
    for sampler in Sampler::value_variants() {
        assert_eq!(Sampler::from(sampler.example()), *sampler);
        let (name, written) = (value_name(*sampler), serde_json::json!(sampler.example()));
        assert!(written == name || written.get(&name).is_some(), "{written}");
    }
}

#[test]
fn what_a_sampler_lacks_or_has_too_much_is_named() {
    for (line, said) in [
        ("--sampler truncated-poisson", "--max-batch: is needed"),
        (
            "--sampler truncated-poisson --max-batch 9",
            "--dataset-size: is needed",
        ),
        (
            "--max-batch 9",
            "--max-batch: applies only to --sampler truncated-poisson, got 9",
        ),
        (
            "--selected 2",
            "--selected: applies only to --sampler random-allocation, got 2",
        ),
        (
            "--sampler shuffled --selected 2",
            "--selected: applies only to",
        ),
        (
            "--epoch-steps 9",
            "--epoch-steps: applies only to --sampler shuffled",
        ),
        (
            "--sampler random-allocation --epoch-steps 9",
            "--selected: is needed",
        ),
        (
            "--sampler random-allocation --selected 10 --epoch-steps 9",
            "--selected: must lie in [1, 9] (the steps of an epoch), got 10",
        ),
        (
            "--sampler shuffled --sample-rate 0",
            "--sample-rate: must lie in (0, 1], got 0: at a rate of 0 there are no epochs",
        ),
        (
            "--sampler shuffled --epoch-steps 9 --sample-rate 0.1",
            "cannot be used with",
        ),
        ("--sampler urns", "invalid value 'urns'"),
        (
            "--mechanism m.json --sampler shuffled",
            "cannot be used with",
        ),
    ] {
        let sigma = if line.contains("mechanism") {
            ""
        } else {
            "--sigma 1 "
        };
        let error = format!("{:#}", question(&format!("{sigma}{line}")).unwrap_err());
        assert!(error.contains(said), "{line}: {error}");
    }
}

#[test]
fn what_no_sampler_answers_is_refused_by_name() {
    for (line, said) in [
        (
            "--sampler with-replacement",
            "sampling with replacement is not covered",
        ),
        (
            "--sampler shuffled --neighbours add-remove",
            "shuffled batches under add-remove",
        ),
        (
            "--sampler without-replacement --neighbours zero-out",
            "under zero-out is not covered",
        ),
    ] {
        let question = question(&format!("--sigma 1 {line}")).unwrap();
        let error = format!("{:#}", answer::answer(&question).unwrap_err());
        assert!(
            error.starts_with("--sampler: ") && error.contains(said),
            "{error}"
        );
    }
}

#[test]
fn documents_with_samplers_fit_their_schema_and_say_what_is_known() {
    for line in [
        "--sigma 2 --steps 40 --sampler shuffled --sample-rate 0.1 --gamma 0.1",
        "--sigma 2 --steps 40 --sampler without-replacement --sample-rate 0.1",
        "--sigma 2 --steps 40 --sampler truncated-poisson --max-batch 30 --dataset-size 200 --sample-rate 0.1",
        "--sigma 2 --epochs 4 --sampler random-allocation --selected 2 --epoch-steps 10",
    ] {
        let question = question(line).unwrap();
        let document = answer::answer(&question).unwrap();
        let json = document.to_text().unwrap();
        assert_eq!(
            problems("guarantees.schema.json", &json),
            Vec::<String>::new(),
            "{line}"
        );
        let shown = answer::guarantees(&question, &document, None).to_text(View::full());
        assert!(shown.contains("upper bound"), "{shown}");
    }
    let line = "account calibrate --epsilon 3 --delta 1e-5 --steps 40 --sampler shuffled --epoch-steps 10 --tolerance 1e-3";
    let Some(Command::Calibrate(wish)) = Account::parse_from(line.split_whitespace()).command
    else {
        panic!("{line}");
    };
    let found = calibrate::calibrate(&wish).unwrap();
    assert_eq!(
        problems("calibration.schema.json", &found.to_text().unwrap()),
        Vec::<String>::new()
    );
    // Four epochs of one Gaussian each, for which 3 at 1e-5 needs σ = 2 · 1.4255 or so.
    assert!(found.body.answer > 2.5 && found.body.fails.unwrap() < found.body.answer);
}

/// A rate of 0 and 0 steps are answered by flags as by files: nothing is released.
#[test]
fn a_rate_of_zero_and_no_steps_release_nothing() {
    let nothing = Mechanism::Sequence { parts: Vec::new() };
    for batches in [
        "--sample-rate 0 --steps 10",
        "--sample-rate 0 --steps 10 --sampler truncated-poisson --max-batch 30 --dataset-size 200",
        "--sample-rate 0 --steps 10 --sampler without-replacement",
        "--sample-rate 0.1 --steps 0",
        "--sample-rate 0.1 --steps 0 --sampler shuffled",
    ] {
        let line = format!("--sigma 1 {batches}");
        let question = question(&line).unwrap();
        assert!(question.plan.mechanism.is_same_run(&nothing), "{line}");
        let json = answer::answer(&question).unwrap().to_text().unwrap();
        assert_eq!(
            problems("guarantees.schema.json", &json),
            Vec::<String>::new(),
            "{line}"
        );
    }
}

#[test]
fn a_delta_that_protects_nobody_is_said() {
    let shown = |delta: &str| {
        let line = format!(
            "--sigma 2 --batch-size 100 --dataset-size 1000000 --steps 9000 --delta {delta}"
        );
        let question = question(&line).unwrap();
        answer::guarantees(&question, &answer::answer(&question).unwrap(), None)
            .to_text(View::full())
    };
    assert!(shown("1e-5").contains("not below one over the 1\u{202f}000\u{202f}000 records"));
    assert!(!shown("1e-7").contains("not below one over"));
}
