//! The promise before a run is the promise after it: random plans of every recipe, from flags, from
//! a file, and (with the trainer) as they ran and as their manifests say.

use super::file::{Secrets, Training};
use super::{PlanRequest, TrainingFile, all_used, build};
use crate::account::args::Account;
use clap::{CommandFactory, Parser};
use reticent_accounting::training::{FirstPhase, Run, TrainingPlan};
use reticent_accounting::{Guarantee, Tolerance};
use std::fmt::Write;
use std::path::Path;

/// Rough ends: equal runs give equal numbers, however rough.
const ROUGH: f64 = 1e-3;

/// A small generator of our own: the cases stand for themselves (SplitMix64, Steele et al. 2014).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }
    fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
    fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len() as u64) as usize]
    }
}

/// The same plan in both spellings: flags, and sections of a plan file.
#[derive(Debug, Default)]
struct Spelled {
    flags: String,
    top: String,
    training: String,
    secrets: String,
    first_phase: String,
}

impl Spelled {
    fn training(&mut self, key: &str, value: &str) {
        let _ = write!(self.flags, " --{} {value}", key.replace('_', "-"));
        let quoted = value.parse::<f64>().is_err();
        let value = if quoted {
            format!("{value:?}")
        } else {
            value.to_owned()
        };
        let _ = writeln!(self.training, "{key} = {value}");
    }

    fn file(&self, recipe: &str, data: &str) -> String {
        format!(
            "schema = 1\nrecipe = \"{recipe}\"\n{}[data]\n{data}\n[training]\n{}[secrets]\n{}{}",
            self.top, self.training, self.secrets, self.first_phase
        )
    }
}

/// A plan of a recipe, for a corpus of so many records.
fn drawn(draw: &mut Draw, recipe: &str, records: u64, trained: bool) -> Spelled {
    let mut spelled = Spelled::default();
    if draw.chance(3) {
        spelled.flags.push_str(" --delta 1e-4");
        spelled.top.push_str("delta = 1e-4\n");
    }
    if recipe == "protect" {
        // More noise than was certified; batch and steps are those of the weights.
        if draw.chance(2) {
            spelled.training("sigma", "90");
        }
        if draw.chance(6) {
            spelled.training("seed", "7");
        }
        return spelled;
    }
    if recipe != "sgd" {
        let sigma = draw.one_of(&["0.7", "1.0", "1.5", "2.3"]);
        spelled.training("sigma", sigma);
        if draw.chance(2) {
            spelled.training("sample_rate", draw.one_of(&["0.11", "0.25", "0.4"]));
        } else {
            let batch = 1 + draw.below(records.div_ceil(3));
            spelled.training("batch_size", &batch.max(records.div_ceil(12)).to_string());
        }
    }
    if draw.chance(2) {
        spelled.training("steps", draw.one_of(&["1", "2", "5"]));
    } else {
        let epochs = if trained {
            &["1"][..]
        } else {
            &["1", "2", "2.5"][..]
        };
        spelled.training("epochs", draw.one_of(epochs));
    }
    let sampled = matches!(recipe, "dpsgd" | "crt" | "jft");
    if sampled && !trained && draw.chance(3) {
        spelled.training("sampler", draw.one_of(&["poisson", "balls-in-bins"]));
    }
    if sampled && draw.chance(3) {
        spelled.training("noise_decay", draw.one_of(&["0.8", "0.95"]));
        if draw.chance(2) {
            spelled.training("noise_decay_every", "2");
        }
    }
    match recipe {
        "crt" if draw.chance(2) => spelled.training("public_passes", "2"),
        "sdp" => spelled.training("state_sigma", draw.one_of(&["3", "5.5"])),
        "jft" => first_phase(draw, &mut spelled),
        _ => {}
    }
    if draw.chance(6) {
        spelled.training("seed", "7");
    }
    spelled
}

fn first_phase(draw: &mut Draw, spelled: &mut Spelled) {
    match draw.below(3) {
        0 => spelled
            .first_phase
            .push_str("[first_phase]\nkind = \"direct\"\n"),
        1 => {
            spelled
                .flags
                .push_str(" --first-phase light-noise --first-sigma 0.9 --token-miss 0.01,0.1");
            spelled.first_phase.push_str(
                "[first_phase]\nkind = \"light-noise\"\nsigma = 0.9\nmiss = [0.01, 0.1]\n",
            );
        }
        _ => {
            spelled.flags.push_str(
                " --first-phase conservative-light-noise --first-sigma 1.2 --first-epochs 2",
            );
            spelled.first_phase.push_str(
                "[first_phase]\nkind = \"conservative-light-noise\"\nsigma = 1.2\nepochs = 2\n",
            );
        }
    }
}

fn of_flags(line: &str) -> PlanRequest {
    let words = format!("account{line}");
    let parsed = Account::try_parse_from(words.split_whitespace());
    parsed
        .unwrap_or_else(|e| panic!("{line}: {e}"))
        .plan
        .request()
}

fn of_file(folder: &Path, text: &str) -> PlanRequest {
    let path = folder.join("training.toml");
    std::fs::write(&path, text).unwrap();
    TrainingFile::read(&path)
        .unwrap_or_else(|e| panic!("{text}: {e:#}"))
        .request()
}

fn ends(plan: &TrainingPlan) -> Vec<Guarantee> {
    plan.guarantees(Tolerance::new(ROUGH).unwrap()).unwrap()
}

/// Both plans release the same and promise the same, end by end.
fn same(one: &TrainingPlan, other: &TrainingPlan, said: &str) {
    assert_eq!(one.mechanism(), other.mechanism(), "{said}");
    assert_eq!(one.delta.value, other.delta.value, "{said}");
    assert_eq!(ends(one), ends(other), "{said}");
}

#[test]
fn only_a_folder_is_declared_public() {
    let request = of_flags(" --recipe dpsgd --sigma 1 --steps 5 --declared-public");
    let error = format!("{:#}", build(&request, None).unwrap_err());
    assert!(
        error.contains("--declared-public") && error.contains("--model"),
        "{error}"
    );
}

/// The share of tokens missed sizes light noise: the estimate takes less of it than a promise, which stays that of the full
/// rate.
#[test]
fn light_noise_is_found_at_the_estimated_rate() {
    let found = |first: &str| {
        let line =
            " --recipe jft --sigma 2 --sample-rate 0.05 --epochs 1 --first-epsilon 4 --first-phase";
        let plan = build(&of_flags(&format!("{line} {first}")), None).unwrap();
        let Run::Jft {
            first: FirstPhase::LightNoise { steps, .. },
            ..
        } = &plan.run
        else {
            panic!("{:?}", plan.run)
        };
        let promised = ends(&plan)[0].epsilon.unwrap().high().unwrap();
        (steps.noise_multiplier.get(), promised)
    };
    let full = found("conservative-light-noise");
    assert_eq!(found("light-noise --token-miss 0,1"), full);
    let estimated = found("light-noise --token-miss 0,0.1");
    assert!(estimated.0 < 0.9 * full.0, "{estimated:?} {full:?}");
    assert!(estimated.1 > full.1, "{estimated:?} {full:?}");
    let line = " --recipe jft --sigma 2 --sample-rate 0.05 --epochs 1 --first-epsilon 4 --first-phase light-noise --token-miss 0,0";
    let error = format!("{:#}", build(&of_flags(line), None).unwrap_err());
    assert!(error.starts_with("--token-miss: "), "{error}");
}

/// Each secret of protect has a prior of its own: another one would change nothing.
#[test]
fn protect_takes_no_prior() {
    let folder = tempfile::tempdir().unwrap();
    let flags =
        of_flags(" --recipe protect --prior 1e-3 --weights w.json --incidence i.csv --prepared p");
    let file = "schema = 1\nrecipe = \"protect\"\n[data]\nprepared = \"p\"\n[training]\n\
                weights = \"w.json\"\nincidence = \"i.csv\"\n[secrets]\nprior = 1e-3\n";
    for (request, said) in [
        (
            flags,
            "--prior: applies to no plan of the recipe protect, got 0.001: each secret has a prior of its own in --weights, ",
        ),
        (
            of_file(folder.path(), file),
            "secrets.prior: applies to no plan of the recipe protect, ",
        ),
    ] {
        let error = all_used(&request).unwrap_err().to_string();
        assert!(error.starts_with(said), "{error}");
        assert!(
            error.ends_with("account --mechanism manifest.json --prior asks about another"),
            "{error}"
        );
    }
}

/// Of two options that exclude each other, a plan file had dropped one, and the page answered with the other.
#[test]
fn a_file_refuses_the_pairs_that_the_command_line_refuses() {
    fn keys<T: schemars::JsonSchema>() -> Vec<String> {
        let schema = serde_json::to_value(schemars::schema_for!(T)).unwrap();
        let keys = schema["properties"].as_object().unwrap().keys();
        keys.cloned().collect()
    }
    let lines = [
        ("epochs", "training", "epochs = 2"),
        ("steps", "training", "steps = 3"),
        ("epoch_steps", "training", "epoch_steps = 100"),
        ("sample_rate", "training", "sample_rate = 0.1"),
        ("batch_size", "training", "batch_size = 5000"),
        ("labels", "secrets", "labels = \"labels.jsonl\""),
        ("gamma", "secrets", "gamma = 0.1"),
        ("joint_miss", "secrets", "joint_miss = 0"),
        ("first_sigma", "first_phase", "sigma = 1"),
        ("first_epsilon", "first_phase", "epsilon = 4"),
    ];
    let mut of_file_too = [keys::<Training>(), keys::<Secrets>()].concat();
    of_file_too.extend(["first_sigma", "first_epsilon"].map(str::to_owned));
    let folder = tempfile::tempdir().unwrap();
    let mut command = Account::command();
    command.build();
    let mut refused = 0;
    for option in command.get_arguments() {
        for other in command.get_arg_conflicts_with(option) {
            let pair = [option, other].map(|option| option.get_id().as_str());
            if !pair
                .iter()
                .all(|key| of_file_too.iter().any(|of_file| of_file == key))
            {
                continue;
            }
            let recipe = if pair[0].starts_with("first_") {
                "jft"
            } else {
                "crt"
            };
            let mut text = format!("schema = 1\nrecipe = \"{recipe}\"\n");
            for section in ["training", "secrets", "first_phase"] {
                let given = lines
                    .iter()
                    .filter(|(key, of, _)| *of == section && pair.contains(key));
                let given: Vec<&str> = given.map(|(.., line)| *line).collect();
                if !given.is_empty() {
                    let _ = write!(text, "[{section}]\n{}\n", given.join("\n"));
                }
            }
            let request = of_file(folder.path(), &text);
            let [one, two] = pair.map(|key| request.name(key));
            let error = all_used(&request).expect_err(&text).to_string();
            assert_eq!(
                error,
                format!("{one} and {two}: give one of them"),
                "{text}"
            );
            refused += 1;
        }
    }
    assert_eq!(refused, 6);
}

/// Seed 14, 120 plans without a corpus.
#[test]
fn flags_and_files_describe_the_same_plans() {
    let folder = tempfile::tempdir().unwrap();
    let mut draw = Draw(14);
    for number in 0..120 {
        let recipe = draw.one_of(&["sgd", "dpsgd", "crt", "sdp", "jft"]);
        let records = 40 + draw.below(400);
        let mut spelled = drawn(&mut draw, recipe, records, false);
        let mut data = format!("private = {records}");
        if recipe == "sgd" {
            data.clear();
        } else {
            let _ = write!(spelled.flags, " --dataset-size {records}");
        }
        if recipe == "sdp" {
            spelled.training("states", draw.one_of(&["0", "2", "6"]));
        }
        if matches!(recipe, "sdp" | "jft") && draw.chance(2) {
            spelled.flags.push_str(" --assume caught");
            spelled.training.push_str("assume = [\"caught\"]\n");
        }
        if draw.chance(2) {
            spelled.flags.push_str(" --group 3");
            spelled.secrets.push_str("records = 3\n");
        }
        if matches!(recipe, "dpsgd" | "crt") && draw.chance(2) {
            spelled.flags.push_str(" --gamma 0.1");
            spelled.secrets.push_str("gamma = 0.1\n");
        }
        let said = format!("{number}: {recipe}{}", spelled.flags);
        let flags = of_flags(&format!(" --recipe {recipe}{}", spelled.flags));
        let file = of_file(folder.path(), &spelled.file(recipe, &data));
        let (flags, file) = (build(&flags, None), build(&file, None));
        let (flags, file) = match (flags, file) {
            (Ok(flags), Ok(file)) => (flags, file),
            (flags, file) => panic!("{said}: {:?} {:?}", flags.err(), file.err()),
        };
        same(&flags, &file, &said);
        assert_eq!(
            flags.secrets.redaction.map(|r| r.value),
            file.secrets.redaction.map(|r| r.value),
            "{said}"
        );
    }
}

#[cfg(feature = "audit")]
mod trained {
    use super::*;
    use crate::account::args::Command;
    use crate::account::protect::args::Protect;
    use crate::plan::{PreparedFacts, record_rates};
    use reticent_accounting::training::Run;
    use reticent_accounting::{Neighbours, training};
    use reticent_backends::checkpoint::{Initial, Manifest};
    use reticent_backends::engine::lstm;
    use reticent_backends::model::LstmConfig;
    use reticent_backends::privacy::Clipping;
    use reticent_backends::run::{Surroundings, train_on};
    use reticent_backends::trainer::{Dropout, LearningRates, OptimizerSpec, Precision};
    use reticent_backends::{Corpus, Device, PrivateOptions, SecretRates, Sensitive, TrainOptions};
    use reticent_corpus::Document;
    use reticent_corpus::canary::CanaryOptions;
    use reticent_corpus::policy::{ConservativeOptions, PolicyChoice, PolicyOptions};
    use reticent_corpus::prepare::{PrepareOptions, Prepared, prepare};
    use reticent_corpus::simulate::simulate;
    use std::path::PathBuf;
    use std::sync::atomic::AtomicBool;

    fn corpora(folder: &Path) -> Vec<(PathBuf, Prepared, bool)> {
        let documents: Vec<Document> = simulate(3, 5).unwrap();
        let gold = |miss_rate: f64| PolicyOptions {
            policy: PolicyChoice::Gold,
            miss_rate,
            ..PolicyOptions::default()
        };
        let canaries = Some(CanaryOptions::new("2x3".parse().unwrap()));
        let raw = PrepareOptions {
            redact: false,
            deduplicate: false,
            policy: gold(0.0),
            ..PrepareOptions::default()
        };
        let all = [
            (
                "sorted",
                PrepareOptions {
                    conservative: Some(ConservativeOptions::default()),
                    policy: gold(0.2),
                    canaries: canaries.clone(),
                    ..PrepareOptions::default()
                },
            ),
            (
                "private",
                PrepareOptions {
                    policy: gold(0.3),
                    canaries,
                    ..PrepareOptions::default()
                },
            ),
            ("raw", raw.clone()),
            (
                "missed",
                PrepareOptions {
                    policy: gold(0.5),
                    ..raw
                },
            ),
        ];
        let made = all.into_iter().map(|(name, options)| {
            let prepared = prepare(&documents, &options).unwrap();
            let path = folder.join(name);
            let key = crate::audit::owner_key::made().unwrap();
            prepared.write(&path, false, key).unwrap();
            let redacted = options.redact;
            (path.clone(), Prepared::load(&path, key).unwrap(), redacted)
        });
        made.collect()
    }

    /// Runs `account protect`.
    fn protect(line: &str) -> anyhow::Result<()> {
        let words = format!("account protect {line}");
        let parsed = Account::try_parse_from(words.split_whitespace());
        let parsed = parsed.unwrap_or_else(|e| panic!("{line}: {e}"));
        crate::account::run(&parsed).map(drop)
    }

    /// Secrets in some of the records, and weights that are certified for them, as files.
    fn rates(draw: &mut Draw, path: &Path, facts: &PreparedFacts) -> (String, String) {
        let mut names: Vec<String> = facts.names().unwrap().into_keys().collect();
        names.sort_unstable();
        let mut incidence = format!("example,secret\n{},secret-0\n", names[0]);
        for name in &names {
            if draw.chance(5) {
                let _ = writeln!(incidence, "{name},secret-{}", draw.below(3));
            }
        }
        let file = path.with_extension("incidence.csv");
        std::fs::write(&file, incidence).unwrap();
        let (pairs, weights) = (file.display(), path.with_extension("weights.json"));
        let weights = weights.display().to_string();
        protect(&format!(
            "--incidence {pairs} --prior 1e-6 --posterior 1e-2 --dataset-size {} --batch-size {} \
             --steps {} --tolerance 0.01 --weights {weights} --force",
            names.len(),
            2 + draw.below(3),
            draw.one_of(&["20", "30"]),
        ))
        .unwrap();
        (weights, pairs.to_string())
    }

    /// Seed 16, 50 instances of 1 to 90 secrets, incidences, promises and capacities, each
    /// trained:
    /// the posterior of every secret in the certificate is that of the weights file, of the manifest
    /// and of its composition.
    #[test]
    fn every_secret_keeps_its_certificate_to_the_end() {
        use crate::account::{answer::answer, plan};
        let folder = tempfile::tempdir().unwrap();
        let corpora = corpora(folder.path());
        let mut draw = Draw(16);
        let mut many = 0;
        for number in 0..50u32 {
            let (path, prepared, _) = &corpora[draw.below(4) as usize];
            let facts = PreparedFacts::read(path).unwrap();
            let mut names: Vec<String> = facts.names().unwrap().into_keys().collect();
            names.sort_unstable();
            let count = match draw.chance(10) {
                true => 65 + draw.below(26),
                false => 1 + draw.below(30),
            };
            many += u32::from(count > 64);
            let (mut pairs, mut promises) = (
                "example,secret\n".to_owned(),
                "id,prior,posterior\n".to_owned(),
            );
            for secret in 0..count {
                let _ = writeln!(
                    promises,
                    "s{secret},1e-{},{}e-{}",
                    6 + draw.below(5),
                    1 + draw.below(9),
                    2 + draw.below(3)
                );
                for _ in 0..1 + draw.below(5) {
                    let name = &names[draw.below(names.len() as u64) as usize];
                    let _ = writeln!(pairs, "{name},s{secret}");
                }
            }
            let at = |name: &str| folder.path().join(name).display().to_string();
            std::fs::write(at("pairs.csv"), pairs).unwrap();
            std::fs::write(at("promises.csv"), promises).unwrap();
            let line = format!(
                "account protect --incidence {} --secrets {} --dataset-size {} --batch-size 2 \
                 --steps 30 --weights {}",
                at("pairs.csv"),
                at("promises.csv"),
                names.len(),
                at("weights.json"),
            );
            let parsed = Account::try_parse_from(line.split_whitespace()).unwrap();
            let Some(Command::Protect(wish)) = parsed.command else {
                panic!("protect is a command")
            };
            let certificate = certify(&wish, [1.0, 0.3, 0.1][draw.below(3) as usize]);
            assert_eq!(certificate.len() as u64, count, "{number}");
            let flags = format!(
                " --prepared {} --recipe protect --weights {} --incidence {}",
                path.display(),
                at("weights.json"),
                at("pairs.csv")
            );
            let request = of_flags(&flags);
            let planned = build(&request, Some(&facts)).unwrap();
            let manifest = manifest_of(&planned, &request, (prepared, &facts));
            let json = manifest.to_json().unwrap();
            std::fs::write(at("manifest.json"), &json).unwrap();
            let back = Manifest::from_json(&json).unwrap().plan;
            let line = ["account", "compose", &at("manifest.json")].map(str::to_owned);
            let Some(Command::Compose(wish)) = Account::parse_from(line).command else {
                panic!("compose is a command")
            };
            let source = plan::Source::of_files(&wish.files, Neighbours::AddRemove).unwrap();
            let composed = answer(&plan::Question::about(source, &wish.question).unwrap()).unwrap();
            let composed = composed.body.secrets.unwrap();
            assert_eq!(
                (composed.secrets, composed.kept),
                (count, count),
                "{number}"
            );
            let all = composed
                .classes
                .iter()
                .flat_map(|(secrets, _, prior, promised, found)| {
                    let row = [prior.get(), promised.get(), found.get().get()];
                    std::iter::repeat_n(row, *secrets as usize)
                });
            let composed = sorted(all.collect());
            // What is certified is the same in the plan and in the manifest, bit by bit.
            assert_eq!(back.run, planned.run, "{number}");
            assert_eq!(composed.len(), certificate.len(), "{number}");
            for (found, certified) in composed.iter().zip(&certificate) {
                for (found, certified) in found.iter().zip(certified) {
                    let apart = (found / certified - 1.0).abs();
                    assert!(apart <= 1e-6, "{number}: {found} {certified}");
                }
            }
        }
        assert!(many >= 2, "{many}");
    }

    /// More noise than the weights need leaves the certificate that their file holds, by which audit extract knows the file. Of more
    /// than 64 secrets it would be another one: the binding secret's cell promises too much at the least noise alone.
    #[test]
    fn more_noise_keeps_the_certificate_of_the_file() {
        use reticent_accounting::NoiseMultiplier;
        use reticent_accounting::protect::{Incidence, Protection};
        let folder = tempfile::tempdir().unwrap();
        let corpora = corpora(folder.path());
        let (path, ..) = &corpora[2];
        let facts = PreparedFacts::read(path).unwrap();
        let mut names: Vec<String> = facts.names().unwrap().into_keys().collect();
        names.sort_unstable();
        let mut pairs = "example,secret\n".to_owned();
        for secret in 0..90 {
            for record in 0..=secret % 5 {
                let name = &names[(7 * secret + record) % names.len()];
                let _ = writeln!(pairs, "{name},s{secret}");
            }
        }
        let at = |name: &str| folder.path().join(name);
        let (incidence, weights) = (at("pairs.csv"), at("weights.json"));
        std::fs::write(&incidence, pairs).unwrap();
        protect(&format!(
            "--incidence {} --prior 1.5e-6 --posterior 1e-3 --dataset-size {} --batch-size 2 --steps 30 \
             --tolerance 1e-6 --weights {}",
            incidence.display(),
            names.len(),
            weights.display()
        ))
        .unwrap();
        let request = of_flags(&format!(
            " --prepared {} --recipe protect --weights {} --incidence {}",
            path.display(),
            weights.display(),
            incidence.display()
        ));
        let found = record_rates(&request, &facts, (&weights, &incidence)).unwrap();
        let least = found.noise_multiplier;
        let twice = NoiseMultiplier::new(2.0 * least.get()).unwrap();
        let of_file = found.certified(Some(least)).unwrap();
        for noise in [Some(twice), None] {
            assert_eq!(found.certified(noise).unwrap(), of_file);
        }
        let pairs = (0u32..).zip(&found.secrets);
        let pairs = pairs.flat_map(|(secret, records)| records.iter().map(move |r| (*r, secret)));
        let incidence = Incidence::new(found.rates.len() as u32, 90, pairs.collect()).unwrap();
        let run = Protection {
            incidence: &incidence,
            secrets: &found.promises,
            rates: &found.rates,
            steps: found.steps,
        };
        assert_ne!(run.certified(Some(twice)).unwrap().classes, of_file);
    }

    /// Writes weights of this share of the capacity, with noise that keeps every promise; prior,
    /// promise and posterior of each secret.
    fn certify(wish: &Protect, share: f64) -> Vec<[f64; 3]> {
        use crate::account::protect::{input::Input, run::Chosen, weights};
        use reticent_accounting::protect::Training;
        let input = Input::gather(wish).unwrap();
        let secrets = input.secrets();
        let steps = reticent_accounting::Steps::new(wish.steps);
        let training = Training::new(&input.incidence, &secrets, wish.batch_size, steps).unwrap();
        let gap = Tolerance::new(1e-3).unwrap();
        let weigh = |share: f64| training.weigh(share * training.full_capacity(), gap, None);
        // A small constant may leave too little weight for a batch.
        let weighed = weigh(share).or_else(|_| weigh(1.0)).unwrap();
        let mut sigma = 0.7;
        let certified = loop {
            let noise = reticent_accounting::NoiseMultiplier::new(sigma).unwrap();
            let plan = training.protection(&weighed.rates);
            let found = plan.certified(Some(noise)).unwrap();
            let mut each = found.posteriors.iter().zip(&secrets);
            if each.all(|(found, promise)| *found <= promise.posterior().get()) {
                break found;
            }
            sigma *= 1.5;
        };
        let each = certified.posteriors.iter().zip(&secrets);
        let rows = each.map(|(found, p)| [p.prior().get(), p.posterior().get(), *found]);
        let rows = sorted(rows.collect());
        let chosen = Chosen {
            weighed,
            sigma: reticent_accounting::NoiseMultiplier::new(sigma).unwrap(),
            certified,
            posteriors: Vec::new(),
        };
        let file = wish.weights.as_deref().unwrap();
        let file = crate::contract::AtomicFile::create(file).unwrap();
        let batches = (wish.batch_size, wish.steps);
        weights::write(
            file,
            &input,
            &chosen,
            batches,
            &crate::contract::Inputs::new(),
        )
        .unwrap();
        rows
    }

    fn sorted(mut rows: Vec<[f64; 3]>) -> Vec<[f64; 3]> {
        rows.sort_by(|a, b| a.partial_cmp(b).unwrap());
        rows
    }

    /// A model of a few weights, trained by the plan; what its manifest says.
    fn manifest_of(
        plan: &TrainingPlan,
        request: &PlanRequest,
        (prepared, facts): (&Prepared, &PreparedFacts),
    ) -> Manifest {
        let config = LstmConfig {
            vocabulary: prepared.tokenizer.vocabulary_size(),
            embedding: 2,
            hidden: 2,
        };
        let optimizer = OptimizerSpec::Sgd {
            learning_rate: 1e-3,
            momentum: 0.0,
        };
        let alike = match &plan.run {
            Run::Jft {
                first: reticent_accounting::training::FirstPhase::Ordinary { alike, .. },
                ..
            } => alike.value,
            Run::Sdp { selective } => reticent_accounting::confidentiality::RedactedAlike {
                every_content_caught: *selective.every_content_caught,
                ..reticent_accounting::confidentiality::RedactedAlike::YES
            },
            _ => reticent_accounting::confidentiality::RedactedAlike::YES,
        };
        let mask = prepared.tokenizer.mask();
        let sensitive = Sensitive::marked(&prepared.training, mask, alike).unwrap();
        let files = &request.of_recipe;
        let rates = match (&plan.run, &files.weights, &files.incidence) {
            (Run::Protect { .. }, Some(weights), Some(incidence)) => {
                let found = record_rates(request, facts, (weights, incidence)).unwrap();
                let rates = SecretRates::new(found.rates, found.secrets).unwrap();
                Some(rates.promising(found.promises).unwrap())
            }
            _ => None,
        };
        let corpus = Corpus {
            sensitive: Some(&sensitive),
            rates: rates.as_ref(),
            ..Corpus::plain(&prepared.training)
        };
        let options = TrainOptions {
            plan: plan.clone(),
            batch_size: 16,
            optimizer,
            private: plan
                .run
                .recipe()
                .unwrap()
                .is_private()
                .then_some(PrivateOptions {
                    clipping_norm: 1.0,
                    clipping: Clipping::Flat,
                    optimizer,
                    clip_decay: None,
                    augmentations: 1,
                }),
            state_norm: matches!(plan.run, Run::Sdp { .. }).then_some(1.0),
            screened: None,
            precision: Precision::Single,
            dropout: Dropout::NONE,
            learning_rates: LearningRates::CONSTANT,
            average: None,
            initial_seed: 1,
            seed: request.of_recipe.seed,
        };
        let model = lstm(&config, config.starting_weights(1), Device::Cpu).unwrap();
        let stop = AtomicBool::new(false);
        let surroundings = Surroundings::in_memory(&stop);
        let trained = train_on(model, &options, &corpus, &surroundings, &mut |_| {}).unwrap();
        Manifest::of(prepared, &trained.ran, Initial::Random { seed: 1 }).unwrap()
    }

    /// Seed 15, 320 plans on four corpora of some forty records; every sixth is run.
    #[test]
    fn the_promise_before_is_the_promise_after() {
        let folder = tempfile::tempdir().unwrap();
        let corpora = corpora(folder.path());
        let mut draw = Draw(15);
        let mut ran = std::collections::BTreeMap::<&str, u32>::new();
        for number in 0..320u32 {
            let (path, prepared, redacted) = &corpora[draw.below(4) as usize];
            let recipes: &[&str] = match redacted {
                true => &["sgd", "dpsgd", "crt", "protect"],
                false => &["sdp", "jft", "dpsgd", "protect"],
            };
            let recipe = draw.one_of(recipes);
            let train = number % 6 == 0;
            let facts = PreparedFacts::read(path).unwrap();
            let noised = match recipe {
                "crt" => facts.sizes.private,
                _ => facts.sizes.private + facts.sizes.public,
            };
            let mut spelled = drawn(&mut draw, recipe, noised, train);
            if recipe == "protect" {
                let (weights, incidence) = rates(&mut draw, path, &facts);
                spelled.training("weights", &weights);
                spelled.training("incidence", &incidence);
            }
            let said = format!("{number}: {} {recipe}{}", path.display(), spelled.flags);
            let of_flags = of_flags(&format!(
                " --prepared {} --recipe {recipe}{}",
                path.display(),
                spelled.flags
            ));
            let data = format!("prepared = {:?}", path.display().to_string());
            let of_file = of_file(folder.path(), &spelled.file(recipe, &data));
            let planned = build(&of_flags, Some(&facts));
            let planned = planned.unwrap_or_else(|e| panic!("{said}: {e:#}"));
            same(&planned, &build(&of_file, Some(&facts)).unwrap(), &said);
            // A corpus in memory is the corpus in its folder, but for what only the folder has.
            if !matches!(recipe, "sdp" | "protect") {
                let in_memory = PreparedFacts::of_corpus(prepared).unwrap();
                same(
                    &planned,
                    &build(&of_flags, Some(&in_memory)).unwrap(),
                    &said,
                );
            }
            if !train {
                continue;
            }
            *ran.entry(recipe).or_default() += 1;
            let manifest = manifest_of(&planned, &of_flags, (prepared, &facts));
            assert_eq!(manifest.mechanism, planned.mechanism(), "{said}");
            let json = manifest.to_json().unwrap();
            let back = Manifest::from_json(&json).unwrap().plan;
            assert_eq!(back.mechanism(), planned.mechanism(), "{said}");
            assert_eq!(ends(&back)[0], ends(&planned)[0], "{said}");
            let composed = training::read(&json, Neighbours::AddRemove).unwrap();
            assert_eq!(composed.mechanism, planned.mechanism(), "{said}");
        }
        assert!(
            ran.len() == 6 && ran.values().all(|runs| *runs >= 3),
            "{ran:?}"
        );
    }
}

/// What a run says of its canaries covers the run that it goes on from; a number that nobody knows is none.
#[test]
fn inputs_name_the_canaries_of_earlier_runs() {
    use reticent_accounting::training::{CompletedRun, NoisySteps, Run, Stated, TrainingPlan};
    let request = PlanRequest {
        model: Some("before".into()),
        ..PlanRequest::default()
    };
    let private = NoisySteps::poisson(1.5, 0.1, 2).unwrap();
    let unit = reticent_accounting::UnitName::new("turn").unwrap();
    for (records, stated, unknown) in [(Some(7), Some(7.0), false), (None, None, true)] {
        let earlier = CompletedRun {
            canary_records: records,
            ..CompletedRun::of(private.mechanism())
        };
        let run = Run::Dpsgd {
            private: private.clone(),
        };
        let plan = TrainingPlan {
            continues: Some(Stated::given(earlier, "test")),
            ..TrainingPlan::new(run, unit.clone())
        };
        let inputs = super::run_inputs(&request, &plan).unwrap();
        assert_eq!(inputs.number("canary_records"), stated);
        assert_eq!(inputs.holds("canary_records_unknown"), unknown);
    }
}
