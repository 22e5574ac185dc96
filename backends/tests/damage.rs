//! A campaign of damage: state and checkpoint folders of every recipe, altered at random. Whatever
//! is altered, the outcome is an error that names a file, "unauthenticated, ε ≤ ∞", or the same
//! numbers as before; never a smaller ε, never more trust.
//!
//! `scripts/damage COUNT [SEED]` runs more of it.

use crate::common::{adapted, jft, light, options, run_until, scheduled, set, weights};
use rand::RngExt;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use reticent_accounting::training::Base;
use reticent_backends::checkpoint::{
    Authentication, Checkpoint, Initial, Manifest, Owner, Phase, Pretrained, owner_folder,
    weights_digest,
};
use reticent_backends::engine::open;
use reticent_backends::hugging_face::Beside;
use reticent_backends::model::{Family, Head, LstmConfig, Model, TransformerConfig};
use reticent_backends::oracle::save_hugging_face;
use reticent_backends::run::Trained;
use reticent_backends::trainer::Trainer;
use reticent_backends::{Device, Error, Recipe, TrainOptions};
use reticent_corpus::prepare::{PrepareOptions, Prepared, prepare};
use reticent_corpus::simulate::simulate;
use reticent_corpus::tokenize::{Origin, Tokenizer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files of a home folder by relative path.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A run, its interrupted state, its finished checkpoint, and what both give undamaged.
struct Subject {
    name: String,
    made: Made,
    options: TrainOptions,
    state: Files,
    checkpoint: Files,
    phases: Vec<Phase>,
    bits: Vec<u32>,
    loaded: Loaded,
}

/// What a run trains: a fresh model, or an adapter on it.
#[derive(Clone)]
enum Made {
    Whole(Model),
    Adapted(Model),
}

impl Made {
    fn trainer(&self) -> Box<dyn Trainer> {
        match self {
            Self::Whole(model) => open(model, model.starting_weights(1), Device::Cpu).unwrap(),
            Self::Adapted(model) => adapted(model, 1),
        }
    }
}

/// What an undamaged checkpoint says.
struct Loaded {
    model: Model,
    bits: Vec<u32>,
    manifest: Manifest,
}

impl From<Checkpoint> for Loaded {
    fn from(checkpoint: Checkpoint) -> Self {
        let weights = checkpoint.weights.iter().flatten();
        Self {
            model: checkpoint.model,
            bits: weights.map(|w| w.to_bits()).collect(),
            manifest: checkpoint.manifest,
        }
    }
}

fn train(
    (made, options): (&Made, &TrainOptions),
    state: Option<&Path>,
    stop_at: u64,
) -> Result<Trained, Error> {
    run_until(made.trainer(), options, state, stop_at)
}

fn read_all(home: &Path, folder: &Path, files: &mut Files) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_all(home, &path, files);
        } else {
            let name = path.strip_prefix(home).unwrap().to_path_buf();
            files.insert(name, std::fs::read(&path).unwrap());
        }
    }
}

fn written(files: &Files) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = home.path().join(name);
        let folder = path.parent().unwrap();
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(&path, bytes).unwrap();
        #[cfg(unix)]
        for (path, mode) in [(folder, 0o700), (path.as_path(), 0o600)] {
            let private = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(path, private).unwrap();
        }
    }
    home
}

fn subject(name: &str, (made, mut options): (Made, TrainOptions), prepared: &Prepared) -> Subject {
    if let Made::Adapted(_) = made {
        options.plan.base = Some(Base::Unstated);
    }
    let whole = train((&made, &options), None, u64::MAX).unwrap();
    let home = tempfile::tempdir().unwrap();
    let stopped = train((&made, &options), Some(&home.path().join("out.state")), 3);
    assert!(matches!(stopped, Err(Error::Interrupted { .. })));
    let mut state = Files::new();
    read_all(home.path(), home.path(), &mut state);
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("out");
    save((&made, &whole), prepared, home.path());
    let loaded = Checkpoint::load(&out).unwrap();
    assert_eq!(loaded.authentication, Authentication::Authenticated);
    let mut checkpoint = Files::new();
    read_all(home.path(), home.path(), &mut checkpoint);
    Subject {
        name: name.to_owned(),
        made,
        options,
        state,
        checkpoint,
        bits: weights(&whole),
        phases: whole.ran.phases,
        loaded: loaded.into(),
    }
}

/// The checkpoint of a run as `out`; an adapter's base lies beside it.
fn save((made, run): (&Made, &Trained), prepared: &Prepared, home: &Path) {
    let (out, trained) = (home.join("out"), run.trainer.weights());
    let owner = Owner::open_or_create(&out).unwrap();
    let manifest = |initial| Manifest::of(prepared, &run.ran, initial).unwrap();
    match made {
        Made::Whole(model) => {
            let manifest = manifest(Initial::Random { seed: 1 });
            Checkpoint::save(
                &out,
                model,
                trained,
                &prepared.tokenizer,
                &Beside::default(),
                manifest,
                Some(&owner),
            )
            .unwrap();
        }
        Made::Adapted(model) => {
            let Model::Transformer(config) = model else {
                panic!("an LSTM takes no adapter");
            };
            let json = prepared.tokenizer.to_json().unwrap();
            let tokenizer = Tokenizer::from_json(&json, Origin::Pretrained).unwrap();
            let base = model.starting_weights(1);
            save_hugging_face(&home.join("base"), config, &base, Some(&tokenizer)).unwrap();
            let manifest = manifest(Initial::Pretrained {
                weights: weights_digest(&base),
                declared_public: false,
                has_manifest: false,
                manifest_missing: false,
            });
            let on = (model, run.trainer.adapter().unwrap(), "base");
            let (beside, owner) = (Beside::default(), Some(&owner));
            Checkpoint::save_adapter(&out, on, trained, &tokenizer, &beside, manifest, owner)
                .unwrap();
        }
    }
}

/// Every recipe on an LSTM, and all but `sdp` on a GPT-2; `jft` on an encoder, a classifier and an adapter too.
fn subjects() -> Vec<Subject> {
    let corpus = PrepareOptions::default();
    let prepared = prepare(&simulate(2, 1).unwrap(), &corpus).unwrap();
    let vocabulary = prepared.tokenizer.vocabulary_size();
    let lstm = Model::from(LstmConfig {
        vocabulary,
        embedding: 4,
        hidden: 4,
    });
    let gpt2 = Model::from(TransformerConfig::new(
        Family::Gpt2,
        vocabulary,
        8,
        1,
        2,
        16,
    ));
    let headed = |family, head| {
        Model::from(TransformerConfig {
            head,
            ..TransformerConfig::new(family, vocabulary, 8, 1, 2, 16)
        })
    };
    let light = jft(light(), &set(4, 8, 1));
    let mut recipes: Vec<(Recipe, TrainOptions)> = [
        Recipe::Sgd,
        Recipe::Dpsgd,
        Recipe::Crt,
        Recipe::Sdp,
        Recipe::Jft,
        Recipe::Protect,
    ]
    .map(|recipe| (recipe, options(recipe)))
    .into();
    recipes.push((Recipe::Jft, light));
    recipes.push((Recipe::Dpsgd, scheduled()));
    let mut all = Vec::new();
    for (recipe, options) in recipes {
        let with = |model: &Model| (Made::Whole(model.clone()), options.clone());
        all.push(subject(&format!("lstm, {recipe}"), with(&lstm), &prepared));
        if recipe != Recipe::Sdp {
            all.push(subject(&format!("gpt2, {recipe}"), with(&gpt2), &prepared));
        }
    }
    for (name, model) in [
        ("bert", headed(Family::Bert, Head::MaskedToken)),
        ("gpt2 classes", headed(Family::Gpt2, Head::Classes(2))),
    ] {
        let with = (Made::Whole(model), options(Recipe::Jft));
        all.push(subject(&format!("{name}, jft"), with, &prepared));
    }
    let llama = TransformerConfig::new(Family::Llama, vocabulary, 8, 1, 2, 16);
    for (recipe, model) in [(Recipe::Jft, llama.into()), (Recipe::Dpsgd, gpt2)] {
        let with = (Made::Adapted(model), options(recipe));
        all.push(subject(&format!("adapter, {recipe}"), with, &prepared));
    }
    all
}

/// Changes one leaf of a JSON text, in one of its lines where it has several.
fn edited(bytes: &[u8], random: &mut ChaCha20Rng) -> Option<Vec<u8>> {
    let text = String::from_utf8(bytes.to_vec()).ok()?;
    let by_line = serde_json::from_str::<serde_json::Value>(&text).is_err();
    let mut lines: Vec<String> = if by_line {
        text.lines().map(str::to_owned).collect()
    } else {
        vec![text.clone()]
    };
    let count = lines.len();
    let line = lines.get_mut(random.random::<u32>() as usize % count.max(1))?;
    let mut value: serde_json::Value = serde_json::from_str(line).ok()?;
    let mut leaf = &mut value;
    loop {
        let size = match leaf {
            serde_json::Value::Object(map) => map.len(),
            serde_json::Value::Array(list) => list.len(),
            _ => 0,
        };
        if size == 0 {
            break;
        }
        let at = random.random::<u32>() as usize % size;
        leaf = match leaf {
            serde_json::Value::Object(map) => map.values_mut().nth(at)?,
            serde_json::Value::Array(list) => &mut list[at],
            _ => break,
        };
    }
    *leaf = match leaf {
        serde_json::Value::Bool(b) => (!*b).into(),
        serde_json::Value::Number(n) if n.is_u64() => (n.as_u64()? / 2 + 3).into(),
        serde_json::Value::Number(n) => (n.as_f64()? * 8.0 + 0.5).into(),
        serde_json::Value::String(s) => format!("{s}0").into(),
        _ => 1.into(),
    };
    *line = if by_line {
        value.to_string()
    } else {
        serde_json::to_string_pretty(&value).ok()?
    };
    let end = if by_line { "\n" } else { "" };
    Some((lines.join("\n") + end).into_bytes())
}

/// One alteration: which file, and its new content (none: deleted); in words.
fn altered(
    files: &Files,
    other: &Files,
    random: &mut ChaCha20Rng,
) -> (String, PathBuf, Option<Vec<u8>>) {
    loop {
        let at = random.random::<u32>() as usize % files.len();
        let (name, bytes) = files.iter().nth(at).unwrap();
        let bit = random.random::<u64>() as usize % (8 * bytes.len()).max(1);
        let (kind, new) = match random.random::<u32>() % 6 {
            0 | 1 => {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                ("bit", Some(flipped))
            }
            2 => ("truncated", Some(bytes[..bit / 8].to_vec())),
            3 => ("deleted", None),
            4 => ("swapped", other.get(name).cloned()),
            _ => ("edited", edited(bytes, random)),
        };
        if kind != "deleted" && (new.is_none() || new.as_ref() == Some(bytes)) {
            continue;
        }
        let what = format!("{kind} {} at bit {bit}", name.display());
        return (what, name.clone(), new);
    }
}

fn apply(files: &Files, name: &Path, new: Option<Vec<u8>>) -> Files {
    let mut files = files.clone();
    match new {
        Some(bytes) => files.insert(name.to_path_buf(), bytes),
        None => files.remove(name),
    };
    files
}

/// What became of an altered folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Named,
    Unauthenticated,
    Same,
}

/// An error must name a file or folder of the home it concerns.
fn outcome_of(error: &Error, home: &Path, what: &str) -> Outcome {
    let text = error.to_string();
    let named = text.contains(&home.display().to_string());
    assert!(named, "{what}: {text}");
    // An error may list the fields of a document too.
    let said = text.replace("unauthenticated_corpus", "");
    if said.contains("unauthenticated") {
        assert!(text.contains("ε ≤ ∞"), "{what}: {text}");
        return Outcome::Unauthenticated;
    }
    Outcome::Named
}

fn resumed(subject: &Subject, files: &Files, what: &str) -> Outcome {
    let home = written(files);
    let state = home.path().join("out.state");
    match train((&subject.made, &subject.options), Some(&state), u64::MAX) {
        Err(error) => outcome_of(&error, home.path(), what),
        Ok(run) => {
            assert_eq!(run.ran.phases, subject.phases, "{what}");
            assert_eq!(weights(&run), subject.bits, "{what}");
            Outcome::Same
        }
    }
}

fn loaded(subject: &Subject, files: &Files, own: bool, what: &str) -> Outcome {
    let home = written(files);
    let out = home.path().join("out");
    // what audits take: weights without their manifest are recognised and promise nothing
    if let Ok(model) = Pretrained::load(&out) {
        match &model.manifest {
            Some(manifest) => assert_eq!(manifest, &subject.loaded.manifest, "{what}"),
            None => assert!(model.mark.is_some(), "{what}: its mark is lost"),
        }
    }
    match Checkpoint::load(&out) {
        Err(error) => outcome_of(&error, home.path(), what),
        Ok(checkpoint) => {
            assert!(
                !own,
                "{what}: a file of the checkpoint was altered, and nobody noticed"
            );
            let trusted = checkpoint.authentication == Authentication::Authenticated;
            let (loaded, expected) = (Loaded::from(checkpoint), &subject.loaded);
            assert_eq!(loaded.manifest, expected.manifest, "{what}");
            assert_eq!(loaded.bits, expected.bits, "{what}");
            assert_eq!(loaded.model, expected.model, "{what}");
            let owner = owner_folder(Path::new("out"));
            let code = files.contains_key(&owner.join("manifest.code"));
            assert!(!trusted || code, "{what}");
            Outcome::Same
        }
    }
}

/// Seed 23, 300 alterations unless the environment says otherwise.
#[test]
fn no_alteration_gains_budget_or_trust() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().unwrap())
    };
    let count = number("RETICENT_DAMAGE_COUNT", 300);
    let seed = number("RETICENT_DAMAGE_SEED", 23);
    let subjects = subjects();
    let mut random = ChaCha20Rng::seed_from_u64(seed);
    let mut outcomes: BTreeMap<(&str, Outcome), u64> = BTreeMap::new();
    for number in 0..count {
        let subject = &subjects[number as usize % subjects.len()];
        let other = &subjects[random.random::<u32>() as usize % subjects.len()];
        let in_state = random.random::<bool>();
        let (mine, others) = if in_state {
            (&subject.state, &other.state)
        } else {
            (&subject.checkpoint, &other.checkpoint)
        };
        let (what, name, new) = altered(mine, others, &mut random);
        let what = format!("{number}: {}: {what}", subject.name);
        let mut files = apply(mine, &name, new);
        // in a quarter of the cases something else is lost as well
        let also_lost = random.random::<u32>() % 4 == 0;
        if also_lost {
            let (_, lost, _) = altered(mine, others, &mut random);
            files.remove(&lost);
        }
        let (where_, outcome) = if in_state {
            ("state", resumed(subject, &files, &what))
        } else {
            let own = name.starts_with("out");
            ("checkpoint", loaded(subject, &files, own, &what))
        };
        *outcomes.entry((where_, outcome)).or_default() += 1;
    }
    eprintln!("{count} alterations, seed {seed}: {outcomes:?}");
    assert!(outcomes.len() >= 4 || count < 100, "{outcomes:?}");
}

/// A checkpoint whose owner's folder was lost, or never authenticated it, still loads, and says so.
#[test]
fn what_is_not_authenticated_says_so() {
    let subject = &subjects()[1];
    let of = |without: &[&str]| {
        let kept = |name: &Path| without.iter().all(|w| !name.starts_with(w));
        let files: Files = subject.checkpoint.clone();
        let files = files.into_iter().filter(|(name, _)| kept(name)).collect();
        let home = written(&files);
        Checkpoint::load(&home.path().join("out"))
            .unwrap()
            .authentication
    };
    assert_eq!(of(&[]), Authentication::Authenticated);
    assert_eq!(
        of(&["out.owner/manifest.code"]),
        Authentication::NotAuthenticated
    );
    assert_eq!(of(&["out.owner"]), Authentication::NoKey);
    for state in [Authentication::NotAuthenticated, Authentication::NoKey] {
        assert!(state.caveat().unwrap().starts_with("not authenticated"));
    }
}
