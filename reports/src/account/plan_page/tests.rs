//! The page: documents against their schema, numbers against the accountant, bad input by name.

use super::ceilings::Ceiling;
use super::promises::{Adversary, judged};
use super::{PlanPage, PlannedRun, of_file, page, sheet, show};
use crate::contract::Envelope;
use crate::contract::{Exit, Format};
use crate::page::{Output, View};
#[cfg(feature = "findings")]
use crate::plan::PreparedFacts;
use crate::plan::{TrainingFile, labels};
use crate::schema::fits;
use reticent_accounting::confidentiality::{CorpusFacts, Knowledge, Spread};
use reticent_accounting::redaction::Redaction;
use reticent_accounting::{
    Convention, Delta, Direction, Epsilon, GroupSize, Mechanism, Neighbours, NoiseMultiplier,
    Notion, PrivacyLoss, Query, SamplingRate, Steps, Tolerance,
};
use std::path::{Path, PathBuf};

const TRAINING: &str = "[training]\nsigma = 1.1\nbatch_size = 256\nepochs = 2\n";

fn read(run: &PlannedRun, document: &Envelope<PlanPage>) -> String {
    page(run, document, false).unwrap().to_text(View::full())
}

/// A folder with a plan, labels and a prepared corpus.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }
    /// `labelled` secrets, each in two places, the first `missed` of them missed by the redaction policy, the first
    /// `both` by both.
    fn labels(&self, labelled: u32, missed: u32, both: u32) {
        let lines: String = (0..2 * labelled)
            .map(|place| (place % labelled, place))
            .map(|(i, place)| {
                format!(
                    "{{\"kind\":\"phone\",\"missed\":{},\"missed_by_conservative\":{},\"secret\":\"{i}\",\"place\":\"{place}\"}}\n",
                    i < missed,
                    i < both
                )
            })
            .collect();
        self.write("labels.jsonl", &lines);
    }
    /// A corpus of 20000 private points and, with a conservative policy, 40000 public ones.
    #[cfg(feature = "findings")]
    fn prepared(&self, missed: u32, public: u32, conservative: &str) {
        let conservative = (conservative != "null").then(Default::default);
        let made = sized_corpus(missed.into(), public.into(), conservative);
        let key = crate::audit::owner_key::made().unwrap();
        made.write(&self.0.path().join("prepared"), true, key)
            .unwrap();
    }
    /// The same, of which this build reads one file.
    #[cfg(not(feature = "findings"))]
    fn prepared(&self, missed: u32, public: u32, conservative: &str) {
        // Without a conservative policy every record is private.
        let records = if conservative == "null" { 0 } else { 40000 };
        let units = records + 20000;
        let masked = 1000 - missed;
        let most = 2 * missed.min(1);
        let counts = format!(
            r#"{{"distinct":1000,"occurrences":1500,"masked":{masked},
                 "missed":{missed},"missed_by_both":{public},"public":{public}}}"#
        );
        let text = format!(
            r#"{{"schema":1,"type":"preparation",
               "options":{{"deduplicate":true,"duplicates":{{"type":"exact"}},"conservative":{conservative}}},
               "facts":{{"unit":"turn","vocabulary":"bytes","units":{units},"public":{records},"private":20000,
                 "stages":[{{"stage":"deduplicate","all_copies":1,"single_copy":2}}],
                 "secrets":{{"source":"gold","all":{counts},"by_kind":{{"phone":{counts}}},"most_records":{most}}},
                 "canaries":{{"copies":[{{"canary":0,"copy":0,"fate":"kept","in_context":true}},
                   {{"canary":0,"copy":1,"fate":"masked","in_context":true}}]}}}},
               "stability":{{"all_copies":1,"single_copy":2}}}}"#
        );
        self.write("prepared/prepared.json", &text);
    }
    fn plan(&self, text: &str) -> PathBuf {
        self.write("training.toml", text)
    }
    /// The run of this plan.
    fn run(&self, text: &str) -> PlannedRun {
        of_file(&self.plan(text)).unwrap()
    }
    /// What the page of this plan says.
    fn body(&self, text: &str) -> PlanPage {
        sheet(&self.run(text)).unwrap().body
    }
}

/// A corpus with these numbers: a small one, and points that are only masks or public records without text.
#[cfg(feature = "findings")]
fn sized_corpus(
    missed: u64,
    public: u64,
    conservative: Option<reticent_corpus::policy::ConservativeOptions>,
) -> reticent_corpus::prepare::Prepared {
    use reticent_corpus::canary::CanaryOptions;
    use reticent_corpus::prepare::{KindFacts, PrepareOptions, TokenizerChoice, prepare};
    use reticent_corpus::{Record, Side};
    let records = if conservative.is_some() { 40000 } else { 0 };
    let options = PrepareOptions {
        canaries: Some(CanaryOptions::new("1x1".parse().unwrap())),
        tokenizer: TokenizerChoice::Bytes,
        conservative,
        ..PrepareOptions::default()
    };
    let documents = reticent_corpus::simulate::simulate(5, 0).unwrap();
    let mut made = prepare(&documents, &options).unwrap();
    let facts = &mut made.facts;
    let blank = Record {
        side: Side::Public,
        tokens: vec![made.tokenizer.bos(), made.tokenizer.eos()],
        sensitive: Vec::new(),
        label: None,
        ignored: Vec::new(),
    };
    for point in (facts.units..).take(records - facts.public as usize) {
        facts.loss_tokens += blank.loss_tokens();
        made.points.push(point);
        made.texts.push(String::new());
        if let Some(documents) = &mut made.documents {
            documents.push(facts.documents - 1);
        }
        made.training.records.push(blank.clone());
    }
    facts.public = records as u64;
    facts.mask_only += 20000 - facts.private;
    facts.private = 20000;
    facts.units = facts.public + facts.private;
    let counts = KindFacts {
        distinct: 1000,
        occurrences: 1500,
        masked: 1000 - missed,
        missed,
        missed_by_both: public,
        public,
    };
    facts.secrets.all = counts;
    facts.secrets.by_kind = [("phone".to_owned(), counts)].into();
    facts.secrets.most_records = 2 * missed.min(1);
    made
}

fn refused(text: &str) -> String {
    let folder = Folder::new();
    folder.labels(10, 1, 0);
    folder.prepared(3, 0, "null");
    format!("{:#}", of_file(&folder.plan(text)).unwrap_err())
}

fn replaced(sigma: f64, rate: f64, steps: u64, records: u32, delta: f64) -> f64 {
    let run = Mechanism::dp_sgd(
        NoiseMultiplier::new(sigma).unwrap(),
        SamplingRate::new(rate).unwrap(),
        Steps::new(steps),
    );
    let query = Query {
        neighbours: Neighbours::Replace,
        group: GroupSize::new(records).unwrap(),
    };
    let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
    let found = loss
        .epsilon(Delta::new(delta).unwrap(), Tolerance::new(1e-6).unwrap())
        .unwrap();
    found.bounds.upper.unwrap().get().get()
}

/// However many canaries there are, what is allowed after training is not below the chance before it; draws that are
/// distinct cost more than independent ones.
#[test]
fn ceilings_of_canaries_grow_with_their_number() {
    let folder = Folder::new();
    let of = |quantity: &str, canaries: f64, candidates: f64| {
        let text = format!(
            "schema = 1\nrecipe = \"dpsgd\"\n[training]\nsigma = 4.0\nsteps = 100\nsample_rate = 0.01\n[secrets]\n\
             canary_copies = 1\ncandidates = {candidates:.0}\ncanaries = {canaries:.0}\n"
        );
        let run = of_file(&folder.write("plan.toml", &text)).unwrap();
        let document = serde_json::to_value(sheet(&run).unwrap()).unwrap();
        let rows = document["ceilings"].as_array().unwrap();
        let ranked = rows.iter().find(|row| row["quantity"] == quantity).unwrap();
        let number = |key: &str| ranked[key].as_f64().unwrap();
        (number("before"), number("at_most"))
    };
    let ranked = |canaries, candidates| of("any-ranked-first", canaries, candidates);
    // What `audit exposure` says of 10 canaries without a leak: 95 % below 7.61 bits.
    let (before, _) = of("best-exposure", 10.0, 1e6);
    assert!((before - 7.6107).abs() < 1e-3, "{before}");
    for canaries in [1e6, 4e6, 6.4e7] {
        let (before, most) = ranked(canaries, 1e12);
        assert!(
            before < most && most < 2.0 * before,
            "{canaries}: {before:e} {most:e}"
        );
    }
    // 50 of 100 contents, each drawn once: the last one had 51 left.
    let (_, most) = ranked(50.0, 100.0);
    assert!(most > 50.0 / 51.0, "{most}");
}

/// A sampler that knows no zeroed record has another content as its reference. Guesses and canaries were left out under it,
/// and nothing said so.
#[test]
fn fixed_batches_have_ceilings_and_say_which_are_unknown() {
    let folder = Folder::new();
    let text = "schema = 1\nrecipe = \"dpsgd\"\ndelta = 1e-5\n[data]\nprivate = 20000\n[training]\nsigma = 1.0\n\
                steps = 100\nsample_rate = 0.01\nsampler = \"without-replacement\"\n[secrets]\nrecords = 1\n\
                prior = 1e-3\ncandidates = 1000\ncanaries = 3\ncanary_copies = 1\n";
    let body = folder.body(text);
    let found: Vec<_> = body.ceilings.iter().map(|row| row.quantity).collect();
    let wanted = [
        Ceiling::FirstGuess,
        Ceiling::BestExposure,
        Ceiling::AnyRankedFirst,
    ];
    assert_eq!(found, wanted);
    let guess = &body.ceilings[0];
    assert!(guess.before.unwrap() < *guess.at_most.get() && *guess.at_most.get() < 1.0);
    let unknown = "No upper bound is known on attacks on membership.";
    assert!(body.not_covered.iter().any(|said| said == unknown));
}

/// They assume equally likely contents: a secret guessed with 0.1 beforehand was guessed with 1e-5 afterwards.
#[test]
fn redacted_secrets_of_unequal_contents_have_no_ceiling() {
    let folder = Folder::new();
    let rows = |prior: &str, candidates: u32| {
        let text = format!(
            "schema = 1\nrecipe = \"crt\"\ndelta = 1e-5\n[data]\nprivate = 20000\n{TRAINING}[secrets]\nrecords = 3\n\
             gamma = 0.1\njoint_miss = 0\nprior = {prior}\ncandidates = {candidates}\n"
        );
        let body = folder.body(&text);
        let said = body
            .not_covered
            .iter()
            .any(|said| said.contains("likelier than others"));
        (body.ceilings.len(), said)
    };
    assert_eq!(rows("1e-3", 1000), (3, false));
    assert_eq!(rows("0.1", 1_000_000), (1, true));
}

/// What it says of a secret in one record is what holds of it: a row about one record took its place, 1.515 for 2.560.
#[test]
fn fewer_copies_are_compared_by_the_row_that_leads() {
    let folder = Folder::new();
    let text = "schema = 1\nrecipe = \"dpsgd\"\ndelta = 1e-6\n[data]\nprivate = 60000\n[training]\nsigma = 1.1\n\
                batch_size = 256\nepochs = 20\n[secrets]\nrecords = 2\n";
    let body = folder.body(text);
    let mut rows = body.tighten.iter();
    let row = rows.find(|row| row.change.ends_with("in 1 instead of 2"));
    let truth = replaced(1.1, 256.0 / 60000.0, 4700, 1, 1e-6);
    let found = row.unwrap().epsilon.get().get();
    assert!((found / truth - 1.0).abs() < 1e-3, "{found} {truth}");
}

/// The JSON listed changes that left ε as it was among those that tighten it.
#[test]
fn only_changes_that_lower_the_headline_tighten_it() {
    let folder = Folder::new();
    let text = "schema = 1\nrecipe = \"crt\"\n[data]\nprivate = 60000\n[training]\nsigma = 1.1\nbatch_size = 256\n\
                epochs = 2\n";
    let document = sheet(&of_file(&folder.plan(text)).unwrap()).unwrap();
    let body = &document.body;
    assert!(body.headline.get().get().is_infinite());
    let changes: Vec<&str> = body.tighten.iter().map(|row| row.change.as_str()).collect();
    assert_eq!(changes, ["treat every record as private, same rate"]);
    assert!(body.tighten[0].epsilon.get().get().is_finite());
    assert!(
        body.no_help
            .iter()
            .any(|change| change == "sigma +10 % (1.21)")
    );
    let text = super::page::no_help(body).unwrap();
    assert!(
        text.starts_with("No help alone: ") && text.contains("half the steps"),
        "{text}"
    );
}

/// A population of labelled secrets alone has none to label.
#[test]
fn no_more_labels_are_advised_than_there_are_secrets() {
    let folder = Folder::new();
    let plan = format!(
        "schema = 1\nrecipe = \"crt\"\ndelta = 1e-5\n[data]\nprivate = 20000\n{TRAINING}[secrets]\nrecords = 1\n\
         labels = \"labels.jsonl\"\neverything_private = true\n"
    );
    for (population, advised) in [
        (200, &[][..]),
        (250, &["label 50 more secrets"][..]),
        (
            100_000,
            &["label 200 more secrets", "label 1800 more secrets"][..],
        ),
    ] {
        let label = |i: u32| {
            let missed = i < 20;
            format!(
                "{{\"kind\":\"phone\",\"missed\":{missed},\"secret\":\"{i}\",\"population\":{population}}}\n"
            )
        };
        folder.write("labels.jsonl", &(0..200).map(label).collect::<String>());
        let body = folder.body(&plan);
        let changes = body.tighten.iter().map(|row| row.change.as_str());
        let changes = changes.chain(body.no_help.iter().map(String::as_str));
        let mut found: Vec<_> = changes.filter(|said| said.starts_with("label ")).collect();
        found.sort_by_key(|said| said.len());
        assert_eq!(found, advised, "{population}");
    }
}

fn plans() -> Vec<String> {
    let head = |recipe: &str| format!("schema = 1\nrecipe = \"{recipe}\"\ndelta = 1e-5\n");
    let secrets = "[secrets]\nrecords = 2\nrecords_before = 5\nprior = 1e-3\ncandidates = 1000\ncanaries = 3\n";
    let data = "[data]\nprivate = 20000\n";
    vec![
        format!(
            "{}[data]\nprepared = \"prepared\"\n{TRAINING}[secrets]\nlabels = \"labels.jsonl\"\n",
            head("crt")
        ),
        format!(
            "{}{data}{TRAINING}{secrets}gamma = 0.1\njoint_miss = 0\n",
            head("crt")
        ),
        format!(
            "{}{data}{TRAINING}{secrets}labels = \"labels.jsonl\"\neverything_private = true\n",
            head("crt")
        ),
        format!("{}{data}{TRAINING}{secrets}", head("dpsgd")),
        format!(
            "{}{data}{TRAINING}state_sigma = 5.0\nstates = 4\nassume = [\"caught\"]\n{secrets}",
            head("sdp")
        ),
        format!("{}{secrets}", head("sgd")),
        format!(
            "{}{data}{TRAINING}[first_phase]\nevery_content_caught = true\nlength_and_kind_hidden = true\nscreening_ignores_secrets = true\n",
            head("jft")
        ),
        format!(
            "{}{data}{TRAINING}[first_phase]\nsigma = 1.0\nsample_rate = 0.01\nsteps = 50\nmiss = [0.05, 0.2]\n",
            head("jft")
        ),
        // Groups have the lemma alone.
        format!(
            "{}{data}{TRAINING}sampler = \"truncated-poisson\"\nmax_batch = 400\n{secrets}",
            head("dpsgd")
        ),
        format!(
            "{}{data}{TRAINING}noise_decay = 0.9\nnoise_decay_every = 4\n{secrets}",
            head("dpsgd")
        ),
    ]
}

/// What was assumed stood beside its opposite, and won.
#[test]
fn an_assumption_that_the_first_phase_denies_is_refused() {
    let folder = Folder::new();
    let plan = |assumed: &str, caught: bool| {
        let text = format!(
            "schema = 1\nrecipe = \"jft\"\ndelta = 1e-5\n[data]\nprivate = 20000\n{TRAINING}{assumed}[first_phase]\n\
             every_content_caught = {caught}\nlength_and_kind_hidden = true\nscreening_ignores_secrets = true\n"
        );
        of_file(&folder.plan(&text)).map(drop)
    };
    let assumed = "assume = [\"caught\"]\n";
    let error = format!("{:#}", plan(assumed, false).unwrap_err());
    assert!(error.contains("give one of them"), "{error}");
    assert!(plan(assumed, true).is_ok() && plan("", false).is_ok());
}

#[test]
fn every_page_fits_its_schema_and_says_what_it_must() {
    for plan in plans() {
        let folder = Folder::new();
        folder.labels(200, 20, 0);
        folder.prepared(100, 0, "null");
        let subject = folder.run(&plan);
        let document = sheet(&subject).unwrap();
        let json = document.to_text().unwrap();
        fits("plan", &json);
        let back: crate::contract::Envelope<super::PlanPage> = serde_json::from_str(&json).unwrap();
        assert_eq!(back.body.promises, document.body.promises);
        let page = page(&subject, &document, true).unwrap();
        let html = page.to_html().unwrap();
        let page = page.to_text(View::full());
        for said in [
            "guarantees",
            "under these assumptions",
            "not covered",
            "Signature",
        ] {
            assert!(page.contains(said), "{said}\n{page}");
        }
        assert!(page.lines().all(|line| line == line.trim_end()), "{page}");
        assert!(html.contains("Not covered") && !html.contains("<script"));
        // The last sheet may hold the signature alone.
        let signature = html.split("Signed").last().unwrap();
        assert!(
            signature.contains("Privacy plan: ")
                && (signature.contains("Epsilon is at most") || signature.contains("is promised")),
            "{signature}"
        );
        // What guarantees nothing is not among the guarantees.
        let planned = document.body.promises.iter().any(|row| row.for_planning);
        assert_eq!(page.contains("\nfor planning only\n"), planned, "{page}");
        let signed = page.split("\nfor planning only\n").next().unwrap();
        assert!(!signed.contains("(planning only)"), "{signed}");
        // δ bounds no chance that a promise fails.
        assert!(!html.contains("promise fails"));
        // Only the definition's own neighbours are to be signed.
        for promised in &document.body.promises {
            let row = &promised.guarantee;
            assert!(promised.for_planning || row.convention == Convention::Definition);
            assert!(promised.for_planning == (promised.adversary == Adversary::IgnoresTheSecret));
            assert!(row.notion != Notion::BayesianConfidentiality || promised.for_planning);
        }
        assert_eq!(
            document.body.promises[0]
                .guarantee
                .epsilon
                .unwrap()
                .upper
                .unwrap(),
            document.body.headline
        );
    }
}

/// γ = 0.3 had the colour of promises in a figure that promises nothing, and where a point was missing another one was
/// called this plan.
#[test]
fn the_figure_for_planning_promises_nothing_and_marks_the_plan_alone() {
    use crate::plot::{Layer, Tone};
    let folder = Folder::new();
    let plan = format!(
        "schema = 1\nrecipe = \"dpsgd\"\n[data]\nprivate = 60000\n{TRAINING}[secrets]\ngamma = 0.1\n"
    );
    let run = folder.run(&plan);
    let mut curves = sheet(&run).unwrap().body.amplification;
    assert_eq!(curves.len(), 4);
    let marked = |curves: &[super::figure::Amplified]| {
        let drawn = super::figure::amplification(&run, curves);
        let own = |layer: &Layer| matches!(layer, Layer::Points { .. });
        for layer in &drawn.layers {
            if let Layer::Line { tone, name, .. } = layer {
                assert!(![Tone::PROMISED, Tone::MEASURED].contains(tone), "{name}");
            }
        }
        drawn.layers.iter().filter(|layer| own(layer)).count()
    };
    assert_eq!(marked(&curves), 1);
    for curve in &mut curves {
        curve.points.remove(0);
    }
    assert_eq!(marked(&curves), 0);
}

/// That everything is private carries the first promise, as the same plan without it shows. The page omitted it, and how long
/// and on how much text the run is.
#[test]
fn a_page_states_that_everything_is_private_and_every_input() {
    let folder = Folder::new();
    let shown = |key: &str| {
        let plan = format!(
            "schema = 1\nrecipe = \"crt\"\nunit = \"turn\"\n[data]\nprivate = 60000\n{TRAINING}[secrets]\nrecords = 3\ngamma = 0.1\n{key}"
        );
        let run = folder.run(&plan);
        let document = sheet(&run).unwrap();
        let shown = page(&run, &document, false).unwrap();
        let text = shown.to_text(View::full());
        let inputs = document.inputs.given_line().unwrap();
        assert!(shown.to_model_card("plan").contains(&inputs), "{inputs}");
        for said in [
            "batch size 256",
            "dataset size 60000",
            "epochs 2",
            "sigma 1.1",
        ] {
            assert!(inputs.contains(said), "{inputs}");
        }
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let premise = "Every turn is trained on with noise; none is on the public side";
    let private = shown("everything_private = true\n");
    assert!(private.starts_with("Privacy plan") && private.contains("Epsilon is at most"));
    assert!(
        private.contains(premise) && private.contains("everything private true"),
        "{private}"
    );
    let split = shown("");
    assert!(
        split.contains("Nothing is promised") && !split.contains(premise),
        "{split}"
    );
}

/// Half the batch is the plan with half the batch: as many epochs, after which the noise falls.
#[test]
fn half_the_batch_is_the_plan_with_half_the_batch() {
    let folder = Folder::new();
    let plan = |batch: u32, run: &str| {
        let text = format!(
            "schema = 1\nrecipe = \"dpsgd\"\n[data]\nprivate = 25600\n[training]\nsigma = 2.0\nbatch_size = {batch}\n{run}"
        );
        folder.body(&text)
    };
    for (run, halved) in [
        (
            "epochs = 10\nnoise_decay = 0.9\n",
            "epochs = 10\nnoise_decay = 0.9\n",
        ),
        (
            "steps = 1000\nnoise_decay = 0.9\n",
            "steps = 2000\nnoise_decay = 0.9\n",
        ),
        ("epochs = 2.5\n", "epochs = 2.5\n"),
    ] {
        let rows = plan(256, run).tighten;
        let row = rows
            .iter()
            .find(|row| row.change.starts_with("half the batch"));
        let found = row.unwrap().epsilon.get().get();
        let truth = plan(128, halved).headline.get().get();
        assert!((found / truth - 1.0).abs() < 1e-3, "{run}: {found} {truth}");
    }
}

#[test]
fn a_prepared_corpus_gives_sizes_copies_and_misses() {
    let folder = Folder::new();
    folder.prepared(100, 0, "null");
    let plan = format!("schema = 1\nrecipe = \"crt\"\n[data]\nprepared = \"prepared\"\n{TRAINING}");
    let subject = folder.run(&plan);
    assert_eq!(subject.records().get(), 2);
    let described = &subject.plan;
    assert_eq!(described.unit.as_str(), "turn");
    let canaries = described.secrets.canaries.as_ref().unwrap();
    assert!(described.secrets.everything_private && canaries.count == 1 && canaries.records == 1);
    // An epoch has ⌈1/q⌉ = 79 steps, as training runs it.
    let noisy = described.run.noisy().unwrap();
    assert_eq!(noisy.steps.get(), 158);
    assert!((noisy.sampling_rate.get() - 256.0 / 20000.0).abs() < 1e-15);
    let document = sheet(&subject).unwrap();
    let truth = replaced(1.1, 256.0 / 20000.0, 158, 2, 1e-6);
    assert!((document.body.headline.get().get() - truth).abs() < 1e-5);
    // The card names a count of private text, and says that no guarantee covers it.
    let counted = "No guarantee covers what was counted in the private text";
    let card = page(&subject, &document, false).unwrap();
    let card = card.to_model_card("plan");
    assert!(card.contains("2 turns") && card.contains(counted), "{card}");
    // What is counted, and so promised, is what is marked.
    let unmarked = "other occurrences of it are outside the promise";
    let full = |subject: &PlannedRun, document: &Envelope<PlanPage>| {
        let page = page(subject, document, false).unwrap();
        let text = page.to_text(View::full());
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let said = full(&subject, &document);
    assert!(
        said.contains("for each secret marked in this corpus") && said.contains(unmarked),
        "{said}"
    );
    // What was counted is the secret and its mask: another content may be on the public side, where there is one.
    let outside = "No content of a secret is missed by both policies";
    assert!(!said.contains(outside), "{said}");
    folder.prepared(100, 0, "{}");
    let granted = crate::plan::granted_line(&folder.run(&plan).plan).unwrap();
    assert!(granted.contains(outside), "{granted}");
    // Every secret caught: nothing of them is left in the run.
    folder.prepared(0, 0, "null");
    let subject = folder.run(&plan);
    let document = sheet(&subject).unwrap();
    assert!(document.body.headline.get().get() <= 0.0);
    let said = full(&subject, &document);
    // By the count alone: what another content would have become takes a premise, as in the other recipes.
    for part in [
        "each marked occurrence caught (",
        "), this content or its mask, whatever",
        "Premise: No content of a secret makes its record a duplicate",
        unmarked,
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains("any other content would be"), "{said}");
    // What is not promised first is shown all the same, as training does.
    folder.prepared(0, 0, "{}");
    let subject = folder.run(&plan);
    let document = sheet(&subject).unwrap();
    assert!(document.body.headline.get().get() <= 0.0);
    let said = full(&subject, &document);
    for row in &document.body.guarantees {
        let upper = row.epsilon.unwrap().upper;
        let printed = [5, 6].map(|digits| crate::number::rounded(upper, digits));
        assert!(printed.iter().any(|text| said.contains(text)), "{said}");
    }
    assert!(
        said.contains("present or absent (as in the papers)"),
        "{said}"
    );
    // One missed by both and public: nothing is promised.
    folder.prepared(100, 1, "{}");
    let subject = folder.run(&plan);
    let document = sheet(&subject).unwrap();
    assert!(document.body.headline.get().get().is_infinite());
    assert!(read(&subject, &document).contains("Nothing is promised"));
    let helps = &document.body.tighten[0];
    assert!(helps.change.contains("private") && (helps.epsilon.get().get() - truth).abs() < 1e-2);
}

/// A limit is held against the first promise: that of the most records that are known to belong together, counted in the
/// corpus or asked about.
#[test]
fn a_group_that_was_asked_about_or_counted_comes_first() {
    let folder = Folder::new();
    folder.prepared(100, 0, "null");
    let plan =
        format!("schema = 1\nrecipe = \"dpsgd\"\n[data]\nprepared = \"prepared\"\n{TRAINING}");
    let first = |plan: &str| {
        let subject = folder.run(plan);
        let body = sheet(&subject).unwrap().body;
        (body.headline.get().get(), body.promises[0].guarantee.group)
    };
    let (two, group) = first(&plan);
    assert_eq!(group.map(|group| group.get()), Some(2), "counted");
    let (three, group) = first(&format!("{plan}[secrets]\nrecords = 3\n"));
    assert_eq!(group.map(|group| group.get()), Some(3));
    folder.prepared(0, 0, "null");
    let (one, group) = first(&plan);
    assert!(
        group.is_none() && 2.0 * one < two && two < three,
        "{one} {two} {three}"
    );
    // That none is missed was counted too: the page said that it is not known.
    let subject = folder.run(&plan);
    let page = read(&subject, &sheet(&subject).unwrap());
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        page.contains("No marked secret of this corpus is trained on unmasked"),
        "{page}"
    );
    assert!(!page.contains("one secret occurs is not known"), "{page}");
    // A limit between the two is kept by one record alone.
    folder.prepared(100, 0, "null");
    let subject = folder.run(&plan);
    let ends = |limit| {
        let output = Output::new(Format::Text, View::full());
        show(&subject, Some(Epsilon::new(limit).unwrap()), output).unwrap()
    };
    assert_eq!(ends(f64::midpoint(one, two)), Exit::Exceeded);
    assert_eq!(ends(1.001 * two), Exit::Finished);
}

/// The first promise alone, ε ≤ 0 for the secrets that a policy catches, keeps any limit at any noise.
#[test]
fn a_limit_is_held_against_what_is_promised_to_a_record() {
    let folder = Folder::new();
    folder.prepared(0, 0, "{}");
    let plan = format!("schema = 1\nrecipe = \"crt\"\n[data]\nprepared = \"prepared\"\n{TRAINING}");
    let subject = folder.run(&plan);
    let record = replaced(1.1, 256.0 / 20000.0, 158, 1, 1e-6);
    let largest = sheet(&subject).unwrap().body.largest_epsilon.unwrap();
    let largest = largest.get().get();
    assert!((largest - record).abs() < 1e-5, "{largest} {record}");
    // The first promise is 0, and its row may be all that the short text has room for.
    let brief = |subject: &PlannedRun| {
        let page = page(subject, &sheet(subject).unwrap(), false).unwrap();
        let text = page.to_text(View {
            verbose: false,
            width: 100,
        });
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let said = brief(&subject);
    let larger = format!(": {}.", crate::number::rounded_up(largest, 6));
    assert!(
        said.contains("Epsilon is at most 0 at") && said.contains(" It is larger for "),
        "{said}"
    );
    assert!(
        said.contains(&larger) && said.contains("Defaults: "),
        "{said}"
    );
    let ends = |limit| {
        let output = Output::new(Format::Text, View::full());
        show(&subject, Some(Epsilon::new(limit).unwrap()), output).unwrap()
    };
    assert_eq!(ends(0.99 * record), Exit::Exceeded);
    assert_eq!(ends(1.01 * record), Exit::Finished);
    // Canaries belong to nobody, and a record's other relation has another ε: both are named.
    let plan = format!(
        "schema = 1\nrecipe = \"dpsgd\"\nunit = \"turn\"\n[data]\nprivate = 20000\n{TRAINING}[secrets]\ncanaries = 10\ncanary_copies = 20\n"
    );
    let subject = folder.run(&plan);
    let body = sheet(&subject).unwrap().body;
    let found = judged(&subject, &body.promises, &body.guarantees);
    let largest = found.largest;
    assert_eq!((found.to, largest), (None, body.headline.get().get()));
    let named: Vec<&str> = found.others.iter().map(|(what, _)| what.as_str()).collect();
    assert_eq!(
        named,
        [
            "the secret of a planted canary (20 turns together)",
            "differential privacy, one turn, this content or another"
        ]
    );
    assert!(found.others.iter().all(|(_, epsilon)| *epsilon > largest));
    let said = brief(&subject);
    let canary = "It is larger for the secret of a planted canary (20 turns together): ";
    assert!(said.contains(canary), "{said}");
}

/// DP-SGD has noise on every record, so a secret drawn at random has a promise also where both policies may miss it.
#[test]
fn a_random_secret_has_the_promise_of_any_other_where_noise_covers_all() {
    let folder = Folder::new();
    let random = |rates: &str| {
        let plan = format!(
            "schema = 1\nrecipe = \"dpsgd\"\nunit = \"turn\"\n[data]\nprivate = 20000\n{TRAINING}[secrets]\n{rates}"
        );
        let body = folder.body(&plan);
        let mut signed = body.promises.iter().filter(|row| !row.for_planning);
        let random = signed.find(|row| row.to.contains("drawn at random"));
        let epsilon = random.unwrap().guarantee.epsilon.unwrap().high().unwrap();
        let largest = body.largest_epsilon.as_ref().map(|end| end.get().get());
        assert_eq!(largest, Some(epsilon));
        epsilon
    };
    let of = |delta: f64| replaced(1.1, 256.0 / 20000.0, 158, 1, delta);
    for (rates, delta) in [
        ("gamma = 0.1\njoint_miss = 0.05\n", 1e-6),
        ("gamma = 0.1\njoint_miss = 1e-6\n", 1e-6),
        ("gamma = 0.1\n", 1e-5),
    ] {
        let (found, expected) = (random(rates), of(delta));
        assert!((found - expected).abs() < 1e-5, "{rates}{found} {expected}");
    }
}

/// A guess of N contents is right with a chance of 1/N at least.
#[test]
fn a_prior_below_a_blind_guess_is_refused() {
    let plan = |prior: &str| {
        let head = "schema = 1\nrecipe = \"dpsgd\"\n[data]\nprivate = 20000\n";
        format!("{head}{TRAINING}[secrets]\ncandidates = 1000\nprior = {prior}\n")
    };
    let said = refused(&plan("1e-6"));
    assert!(
        said.contains("secrets.prior: must be at least 1/1000, the chance of a blind guess")
            && said.contains("secrets.candidates, got 1e-6"),
        "{said}"
    );
    let folder = Folder::new();
    assert!(of_file(&folder.plan(&plan("1e-3"))).is_ok());
}

/// No rate is smaller than what was counted: γ of the policy, η of both.
#[test]
fn rates_below_those_of_the_corpus_are_refused() {
    let folder = Folder::new();
    folder.prepared(100, 1, "{}");
    let of = |recipe: &str, rates: &str| {
        let plan = format!(
            "schema = 1\nrecipe = \"{recipe}\"\n[data]\nprepared = \"prepared\"\n{TRAINING}[secrets]\n{rates}"
        );
        let found = of_file(&folder.plan(&plan)).map(drop);
        found.map_or_else(|error| format!("{error:#}"), |()| String::new())
    };
    for (rates, key, said) in [
        (
            "gamma = 0.09\n",
            "gamma",
            "the policy of the prepared corpus missed 100 of its 1000",
        ),
        (
            "gamma = 0.1\njoint_miss = 0\n",
            "joint_miss",
            "both policies of the prepared corpus missed 1 of its 1000",
        ),
        (
            "gamma = 0.1\njoint_miss = 9e-4\n",
            "joint_miss",
            "marked secrets, so their joint miss rate must be at least",
        ),
    ] {
        let error = of("crt", rates);
        assert!(
            error.contains(&format!("secrets.{key}: ")) && error.contains(said),
            "{error}"
        );
    }
    assert_eq!(of("crt", "gamma = 0.1\njoint_miss = 1e-3\n"), "");
    assert_eq!(of("crt", "gamma = 0.1\n"), "");
    // Noise on every record: nothing is trained on without it.
    assert_eq!(of("dpsgd", "gamma = 0.1\njoint_miss = 0\n"), "");
}

#[test]
fn the_random_secrets_promise_is_the_formula() {
    let folder = Folder::new();
    let plan = &plans()[1];
    let subject = folder.run(plan);
    let document = sheet(&subject).unwrap();
    let redaction = Redaction::single_policy(reticent_accounting::MissRate::new(0.1).unwrap());
    let base = redaction.base_delta(Delta::new(1e-5).unwrap()).unwrap();
    let truth = replaced(1.1, 256.0 / 20000.0, 158, 2, base.get());
    assert!((document.body.headline.get().get() - truth).abs() < 1e-5);
    // The most effective change comes first, and each is what the accountant says.
    let sorted = document
        .body
        .tighten
        .windows(2)
        .all(|w| w[0].epsilon.get() <= w[1].epsilon.get());
    assert!(sorted);
    let louder = document
        .body
        .tighten
        .iter()
        .find(|t| t.change.starts_with("sigma"))
        .unwrap();
    let truth = replaced(1.21, 256.0 / 20000.0, 158, 2, base.get());
    assert!((louder.epsilon.get().get() / truth - 1.0).abs() < 2e-4);
    // γ = 1 amplifies nothing.
    let whole = &document.body.amplification[0];
    assert!((whole.gamma.get() - 1.0).abs() < 1e-15);
    assert!(
        whole
            .points
            .iter()
            .all(|(base, after)| (after / base - 1.0).abs() < 5e-3)
    );
}

#[test]
fn labels_that_cannot_support_delta_say_how_many_would() {
    let folder = Folder::new();
    folder.labels(200, 20, 0);
    let plan = format!(
        "schema = 1\nrecipe = \"crt\"\ndelta = 8e-5\n[data]\nprivate = 20000\n{TRAINING}[secrets]\nlabels = \"labels.jsonl\"\n"
    );
    let subject = folder.run(&plan);
    let document = sheet(&subject).unwrap();
    assert!(document.body.headline.get().get().is_infinite());
    let wanted = document.body.labels_wanted.clone().unwrap();
    assert!(wanted.contains("37446"), "{wanted}");
    assert!(read(&subject, &document).contains("0.0183"));
    let rates = document.body.rates.unwrap();
    assert!((rates.eta.get().get() - 0.018275).abs() < 1e-6);
}

#[test]
fn a_limit_ends_as_it_must() {
    let folder = Folder::new();
    let subject = folder.run(&plans()[5]);
    let shown = |limit| {
        let output = Output::new(Format::Csv, View::full());
        show(&subject, limit, output).unwrap()
    };
    assert_eq!(shown(None), Exit::Finished);
    let limit = Epsilon::new(1e-3).unwrap();
    assert_eq!(shown(Some(limit)), Exit::Exceeded);
    assert!(sheet(&subject).unwrap().body.tighten.is_empty());
}

#[test]
fn errors_name_key_value_and_range() {
    let plan = |body: &str| format!("schema = 1\nrecipe = \"crt\"\n{body}");
    let training = "[training]\nsigma = 1\nsample_rate = 0.1\nsteps = 1\n";
    let secrets = |body: &str| plan(&format!("{training}[secrets]\n{body}"));
    let jft =
        |first: &str| format!("schema = 1\nrecipe = \"jft\"\n{training}[first_phase]\n{first}");
    for (body, said) in [
        (
            plan("[training]\nsigma = 0\n"),
            "noise multiplier must lie in (0, inf), got 0",
        ),
        (
            plan("[training]\nsigma = -1\n"),
            "training.toml, line 4, sigma: noise multiplier must lie in (0, inf), got -1",
        ),
        (plan("[training]\nsgima = 1\n"), "sgima"),
        (
            plan("[data]\nprivate = 0\n[training]\nsigma = 1\nsample_rate = 0.1\nsteps = 1\n"),
            "data.private: must be a positive whole number, got 0",
        ),
        (plan(""), "training.sigma: is needed"),
        (
            plan("[training]\nsigma = 1\n"),
            "training.batch_size: is needed",
        ),
        (
            plan("[data]\nprivate = 10\n[training]\nsigma = 1\nbatch_size = 11\nsteps = 1\n"),
            "training.batch_size: must lie in [1, 10] (the records that noise covers), got 11",
        ),
        (
            plan("[training]\nsigma = 1\nbatch_size = 11\nsteps = 1\n"),
            "data.private: is needed",
        ),
        (
            plan("[training]\nsigma = 1\nsample_rate = 0\nepochs = 1\n"),
            "training.sample_rate: must lie in (0, 1], got 0: at a rate of 0 there are no epochs",
        ),
        (
            plan("[training]\nsigma = 1\nsample_rate = 0.1\nepochs = -2.0\n"),
            "training.epochs: epochs must lie in (0, inf), of at most 2^53 steps, got -2",
        ),
        (
            plan("[training]\nsigma = 1\nsample_rate = 0.1\nepochs = 1e300\n"),
            "at most 2^53 steps",
        ),
        (
            secrets("gamma = 0.1\nlabels = \"labels.jsonl\"\n"),
            "secrets.labels and secrets.gamma: give one of them",
        ),
        (
            secrets("gamma = 0.1\njoint_miss = 0.2\n"),
            "secrets.joint_miss",
        ),
        (secrets("labels = \"nowhere.jsonl\"\n"), "nowhere.jsonl"),
        (secrets("records = 20000\n"), "[1, 10000]"),
        (
            secrets("canaries = 0\n"),
            "secrets.canaries: must be a positive whole number",
        ),
        (
            secrets("canary_copies = 3\n"),
            "secrets.canary_copies: applies only to secrets.canaries, got 3",
        ),
        (
            secrets("canaries = 2\ncanary_copies = 10001\n"),
            "secrets.canary_copies: group size must lie in [1, 10000]",
        ),
        (
            secrets("records = 3\nrecords_before = 2\n"),
            "secrets.records_before: must be at least 3",
        ),
        (
            secrets("records_before = 2\n"),
            "secrets.records_before: applies only to secrets.canaries, got 2",
        ),
        (
            secrets("gamma = 0.1\nconfidence = 0.9\n"),
            "secrets.confidence: applies only to secrets.labels, got 0.9",
        ),
        (
            format!(
                "schema = 1\nrecipe = \"dpsgd\"\n{TRAINING}[secrets]\neverything_private = false\n"
            ),
            "secrets.everything_private: applies only to the recipe crt, got dpsgd",
        ),
        (
            "schema = 1\nrecipe = \"sgd\"\n[training]\nnoise_decay_every = 2\n".into(),
            "training.noise_decay_every: applies only to training.noise_decay, got 2",
        ),
        // The page promised what the batch size alone does not.
        (
            plan(
                "[training]\nsigma = 1\nsampler = \"balls-in-bins\"\nepoch_steps = 100\nbatch_size = 5000\nepochs = 2\n",
            ),
            "training.epoch_steps and training.batch_size: give one of them",
        ),
        (
            secrets("labels = \"labels.jsonl\"\njoint_miss = 0\n"),
            "secrets.labels and secrets.joint_miss: give one of them",
        ),
        (
            plan("[data]\nprepared = \"nowhere\"\n[training]\nsigma = 1\n"),
            "prepared.json",
        ),
        // A rate below what was counted was believed, beside a row about the secrets that were missed.
        (
            plan(
                "[data]\nprepared = \"prepared\"\n[training]\nsigma = 1\n[secrets]\ngamma = 0.002\n",
            ),
            "secrets.gamma: the policy of the prepared corpus missed 3 of its 1000 marked secrets, so its miss rate must be at least 0.003",
        ),
        (
            "schema = 1\nrecipe = \"jft\"\n[training]\nsigma = 1\nsample_rate = 0.1\nsteps = 1\n"
                .into(),
            "first_phase",
        ),
        (
            jft("kind = \"direct\"\nsteps = 500\n"),
            "first_phase.steps: applies only to first_phase light-noise or conservative-light-noise of the recipe jft, got direct",
        ),
        (
            jft("kind = \"direct\"\nsample_rate = 0.5\n"),
            "first_phase.sample_rate: applies only to first_phase light-noise",
        ),
        (
            jft("sigma = 1.0\nepochs = 7\nsteps = 500\n"),
            "first_phase.steps and first_phase.epochs: give one of them",
        ),
        (
            jft("sigma = 1.0\nsteps = 0\n"),
            "first_phase.steps: must be a positive whole number, got 0",
        ),
        // `audit train` refused it, and the page had been signed by then.
        (
            format!("schema = 1\nrecipe = \"dpsgd\"\n{TRAINING}[optimizer]\nlearning_rate = 1\n"),
            "optimizer.learning_rate: applies only to the recipes sgd, crt, sdp and jft, got dpsgd",
        ),
        (
            "schema = 2\nrecipe = \"crt\"\n".into(),
            "schema must be 1, got 2",
        ),
        ("schema = 1\nrecipe = \"crtt\"\n".into(), "crtt"),
        ("schema = ".into(), "training.toml"),
    ] {
        let why = refused(&body);
        assert!(why.contains(said), "{body}\n{why}");
        assert!(why.contains("training.toml"), "{why}");
    }
    let odd = format!(
        "schema = 1\nrecipe = \"crt\"\nunit = \"document\"\n[data]\nprepared = \"prepared\"\n{TRAINING}"
    );
    assert!(
        refused(&odd).contains("unit: must be that of the prepared corpus, turn, got document")
    );
    let few = format!(
        "schema = 1\nrecipe = \"crt\"\n[data]\nprepared = \"prepared\"\n{TRAINING}[secrets]\nrecords = 1\n"
    );
    assert!(refused(&few).contains("secrets.records: must lie in [2, 10000]"));
}

/// A unit called secret was taken for the secrets of an incidence.
#[test]
fn only_protect_speaks_of_an_incidence() {
    let folder = Folder::new();
    let plan = format!(
        "schema = 1\nrecipe = \"dpsgd\"\nunit = \"secret\"\n[data]\nprivate = 60000\n{TRAINING}"
    );
    let run = folder.run(&plan);
    let document = sheet(&run).unwrap();
    assert_eq!(
        document.body.promises[0].to,
        "one secret (a person in more secrets is not covered)"
    );
    assert!(!read(&run, &document).contains("incidence names"));
}

/// A rate of single places is none of secrets in several records.
/// The signature had the promise without the warning that it promises nothing.
#[test]
fn what_is_signed_says_what_its_delta_is_worth() {
    let folder = Folder::new();
    let plan = format!(
        "schema = 1\nrecipe = \"dpsgd\"\ndelta = 0.01\n[data]\nprivate = 20000\n{TRAINING}"
    );
    let run = folder.run(&plan);
    let page = page(&run, &sheet(&run).unwrap(), false).unwrap();
    let warning = "delta 0.01 is not below one over the 20\u{202f}000 records";
    assert!(page.said().starts_with(warning), "{}", page.said());
    let html = page.to_html().unwrap();
    let signature = html.split("Signed").last().unwrap();
    assert!(signature.contains(warning), "{signature}");
}

#[test]
fn labels_of_one_place_say_nothing_of_secrets_in_several_records() {
    let folder = Folder::new();
    let plan = |records: u32| {
        let plan = format!(
            "schema = 1\nrecipe = \"crt\"\n[data]\nprivate = 20000\n{TRAINING}[secrets]\nrecords = {records}\n\
             labels = \"labels.jsonl\"\neverything_private = true\n"
        );
        of_file(&folder.plan(&plan))
    };
    let labels = |places: usize, records: &str| {
        let label = |i: usize| {
            let (secret, place) = (i / places, i % places);
            format!(
                "{{\"kind\":\"phone\",\"missed\":false,\"secret\":\"{secret}\",\"place\":\"{place}\"{records}}}\n"
            )
        };
        let lines: String = (0..200 * places).map(label).collect();
        folder.write("labels.jsonl", &lines);
    };
    let supposed = "Each secret was labelled in one place";
    labels(1, "");
    let why = format!("{:#}", plan(3).unwrap_err());
    let said = "secrets.records: must be 1 with secrets.labels";
    assert!(why.contains(said) && why.contains("got 3"), "{why}");
    let one = sheet(&plan(1).unwrap()).unwrap();
    assert!(
        one.body
            .assumptions
            .iter()
            .any(|said| said.starts_with(supposed))
    );
    labels(2, "");
    let why = format!("{:#}", plan(3).unwrap_err());
    assert!(
        why.contains("must lie in [1, 2] with secrets.labels")
            && why.ends_with("secrets.records 2 asks about secrets in 2 records alone"),
        "{why}"
    );
    // Every answer says the premises of the labels, short ones too: Markdown and model cards left them out.
    let run = plan(2).unwrap();
    let several = sheet(&run).unwrap();
    let shown = page(&run, &several, false).unwrap();
    for said in [shown.to_markdown(), shown.to_model_card("plan")] {
        let premise = "the labels are those of a random sample of this corpus";
        let places = "was labelled in 2 places alone";
        assert_eq!(said.matches(premise).count(), 1, "{said}");
        assert_eq!(said.matches(places).count(), 1, "{said}");
    }
    // The premises do not take the place of the guarantees.
    let brief = shown.to_text(View {
        verbose: false,
        width: 100,
    });
    assert!(brief.contains("ε upper"), "{brief}");
    let said = |supposed: &str| {
        let mut said = several.body.assumptions.iter();
        said.any(|said| said.starts_with(supposed))
    };
    assert!(said("A secret was labelled in 2 places alone") && !said(supposed));
    assert!(said(
        "Premise: the labels are those of a random sample of this corpus"
    ));
    // All of its records.
    labels(2, ",\"records\":2");
    let all = sheet(&plan(3).unwrap()).unwrap();
    let mut said = all.body.assumptions.iter();
    assert!(!said.any(|said| said.contains("was labelled in")));
    labels(2, ",\"records\":3");
    assert!(plan(3).is_err());
}

#[test]
fn labels_are_refused_by_line() {
    let folder = Folder::new();
    for (text, said) in [
        ("{\"kind\":\"a\",\"missed\":true}\nnot json\n", "line 2"),
        ("{\"kind\":\"a\"}\n", "missed"),
        (
            "{\"kind\":\"a\",\"missed\":true,\"odd\":1}\n",
            "expected one of",
        ),
        ("\n\n", "number of labels"),
    ] {
        let path = folder.write("labels.jsonl", text);
        let why = format!("{:#}", labels::read(&path).unwrap_err());
        assert!(why.contains(said) && why.contains("labels.jsonl"), "{why}");
    }
    let long = format!("{{\"kind\":\"{}\",\"missed\":true}}\n", "x".repeat(1 << 17));
    let path = folder.write("labels.jsonl", &long);
    assert!(format!("{:#}", labels::read(&path).unwrap_err()).contains("line 1"));
}

#[test]
fn the_documented_example_is_read() {
    // The example of the module and of --help, without its comments.
    let help = include_str!("../../plan/file.rs");
    let toml: String = help
        .lines()
        .skip_while(|line| !line.contains("```toml"))
        .skip(1)
        .take_while(|line| !line.contains("```"))
        .map(|line| format!("{}\n", line.trim_start_matches("//!")))
        .collect();
    let mut file: TrainingFile = toml::from_str(&toml).unwrap();
    file.data.private = None;
    assert_eq!(file.secrets.records, GroupSize::new(3).ok());
    assert_eq!(file.data.prepared.as_deref(), Some(Path::new("prepared/")));
    let facts = CorpusFacts::new(1, 0, 0, 0, Spread::AtMost(1), Knowledge::Counted);
    assert!(facts.is_ok());
}

/// What the corpus crate writes is what the light reader reads.
#[cfg(feature = "findings")]
#[test]
fn a_real_preparation_is_read() {
    use reticent_corpus::canary::CanaryOptions;
    use reticent_corpus::policy::PolicyOptions;
    use reticent_corpus::prepare::{PrepareOptions, prepare};
    use reticent_corpus::simulate::simulate;
    let options = PrepareOptions {
        canaries: Some(CanaryOptions::new("2x3".parse().unwrap())),
        policy: PolicyOptions {
            miss_rate: 0.1,
            ..PolicyOptions::default()
        },
        ..PrepareOptions::default()
    };
    let made = prepare(&simulate(30, 0).unwrap(), &options).unwrap();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("prepared");
    let key = crate::audit::owner_key::made().unwrap();
    made.write(&folder, false, key).unwrap();
    let found = PreparedFacts::read(&folder).unwrap();
    let facts = &made.facts;
    assert_eq!(found.unit.as_str(), facts.unit.to_string());
    let sizes = &found.sizes;
    assert_eq!((sizes.public, sizes.private), (facts.public, facts.private));
    let mut in_memory = PreparedFacts::of_corpus(&made).unwrap();
    in_memory.folder.clone_from(&found.folder);
    assert_eq!(in_memory, found);
    assert_eq!(found.secrets.secrets(), facts.secrets.all.distinct);
    assert_eq!(found.secrets.missed(), facts.secrets.all.missed);
    assert_eq!(found.secrets.missed_by_both(), facts.secrets.all.public);
    assert_eq!(found.secrets.most_records(), facts.secrets.most_records);
    assert_eq!(found.secrets.spread(), Spread::AtMost(1));
    assert_eq!(
        found.everything_private,
        made.options.conservative.is_none()
    );
    let canaries = found.canaries.unwrap();
    assert_eq!((canaries.count, canaries.candidates), (2, Some(1e6)));
    assert!(!found.vocabulary_leaks && found.deduplicated == made.options.deduplicate);
    assert!(found.draws && made.options.draws());
}

/// A digest that is missing is not taken for the same one.
#[cfg(not(feature = "findings"))]
#[test]
fn labels_that_were_compared_by_type_alone_say_so() {
    let folder = Folder::new();
    folder.prepared(3, 0, "null");
    let path = folder.0.path().join("prepared/prepared.json");
    let unsaid = std::fs::read_to_string(&path).unwrap();
    let policy = |kind: &str| {
        let said =
            format!(r#""policy":{{"policy":{{"type":"{kind}"}},"miss_rate":0}},"deduplicate""#);
        std::fs::write(&path, unsaid.replace("\"deduplicate\"", &said)).unwrap();
    };
    let labels = |measured_for: &str| {
        let line = |i: u32| {
            let missed = i < 20;
            format!(
                "{{\"kind\":\"phone\",\"missed\":{missed},\"secret\":\"{i}\",\"measured_for\":{measured_for}}}\n"
            )
        };
        folder.write("labels.jsonl", &(0..200).map(line).collect::<String>());
    };
    let plan = folder.plan(&format!(
        "schema = 1\nrecipe = \"dpsgd\"\n[data]\nprepared = \"prepared\"\n{TRAINING}[secrets]\nlabels = \"labels.jsonl\"\n"
    ));
    let said = || {
        let run = of_file(&plan).unwrap();
        let text = read(&run, &sheet(&run).unwrap());
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let by_type = "The labels were compared with the corpus' policy by its type alone";
    labels(r#"{"policy":"general"}"#);
    let text = said();
    assert!(
        text.contains(
            "The prepared folder does not say its policy: the labels, measured for general,"
        ),
        "{text}"
    );
    policy("general");
    let text = said();
    assert!(text.contains(&format!("{by_type}, general: ")), "{text}");
    // Of a version that has other policies.
    policy("of-tomorrow");
    labels(r#"{"policy":"of-tomorrow","digest":"sha256:00"}"#);
    let text = said();
    assert!(text.contains(by_type), "{text}");
}

/// Labels that were measured for the policy of the corpus, by its digest, are compared with nothing left to say; labels that
/// do not say what one record is are refused.
#[cfg(feature = "findings")]
#[test]
fn labels_of_the_policy_of_the_corpus_are_compared() {
    let folder = Folder::new();
    folder.prepared(3, 0, "null");
    let corpus = PreparedFacts::read(&folder.0.path().join("prepared")).unwrap();
    let same = serde_json::to_string(&corpus.measured_for().unwrap().unwrap()).unwrap();
    let unit = format!(r#","unit":"{}""#, corpus.unit);
    let unitless = same.replace(&unit, "");
    assert_ne!(unitless, same);
    let plan = folder.plan(&format!(
        "schema = 1\nrecipe = \"dpsgd\"\n[data]\nprepared = \"prepared\"\n{TRAINING}[secrets]\nlabels = \"labels.jsonl\"\n"
    ));
    let labels = |measured_for: &str| {
        let line = |i: u32| {
            let missed = i < 20;
            format!(
                "{{\"kind\":\"phone\",\"missed\":{missed},\"secret\":\"{i}\",\"measured_for\":{measured_for}}}\n"
            )
        };
        folder.write("labels.jsonl", &(0..200).map(line).collect::<String>());
    };
    labels(&same);
    let run = of_file(&plan).unwrap();
    let text = read(&run, &sheet(&run).unwrap());
    assert!(
        !text.contains("by its type alone") && !text.contains("not compared"),
        "{text}"
    );
    labels(&unitless);
    let error = format!("{:#}", of_file(&plan).unwrap_err());
    assert!(error.contains("unit"), "{error}");
}

#[cfg(not(feature = "findings"))]
#[test]
fn a_prepared_corpus_that_was_edited_is_refused() {
    let folder = Folder::new();
    folder.labels(200, 20, 0);
    let plan = |extra: &str| {
        let text = format!(
            "schema = 1\nrecipe = \"crt\"\n[data]\nprepared = \"prepared\"\n{TRAINING}{extra}"
        );
        of_file(&folder.plan(&text)).map_err(|error| format!("{error:#}"))
    };
    folder.prepared(10, 3, "{}");
    assert!(plan("").is_ok());
    let error = plan("[secrets]\neverything_private = true\n").unwrap_err();
    assert!(
        error.contains("everything_private: must be false, 40000 records of the prepared corpus are on the public side, got true"),
        "{error}"
    );
    let path = folder.0.path().join("prepared/prepared.json");
    let whole = std::fs::read_to_string(&path).unwrap();
    for (from, to, said) in [
        (
            "\"vocabulary\":\"bytes\"",
            "\"vocabulary\":\"Leaks\"",
            "expected one of `bytes`",
        ),
        (
            "\"fate\":\"kept\"",
            "\"fate\":\"Kept\"",
            "expected one of `kept`",
        ),
        (",\"conservative\":{}", "", "missing field `conservative`"),
        (
            "\"private\":20000",
            "\"private\":20000,\"private\":90000",
            "duplicate field `private`",
        ),
        (
            "\"masked\":990",
            "\"masked\":900",
            "masked 900 and missed 10 must add up to distinct 1000",
        ),
        (
            "\"by_kind\":{\"phone\"",
            "\"by_kind\":{\"email\":{\"distinct\":1,\"masked\":1,\"missed\":0,\"public\":0},\"phone\"",
            "is not the sum over the kinds",
        ),
        (
            "\"most_records\":2",
            "\"most_records\":0",
            "facts.secrets.most_records: got 0 with 10 missed secrets",
        ),
        (
            "\"private\":20000",
            "\"private\":1118000",
            "do not add up to 60000 units",
        ),
        (
            "{\"type\":\"exact\"}",
            "{\"type\":\"near\"}",
            "its stability is not that of the options",
        ),
        (
            "\"all_copies\":1",
            "\"all_copies\":2",
            "facts.secrets.all.masked: must be 0 with these stages, got 990",
        ),
        (
            "\"stability\":{\"all_copies\":1",
            "\"stability\":{\"all_copies\":2",
            "not the product of its stages'",
        ),
    ] {
        assert!(whole.contains(from), "{from}");
        std::fs::write(&path, whole.replace(from, to)).unwrap();
        let error = plan("").unwrap_err();
        assert!(error.contains(said), "{error}");
    }
}

/// The page names the sampler that is accounted for, wherever it is read, and assumes nothing of another one: it assumed
/// Poisson subsampling of every plan.
#[test]
fn the_page_assumes_the_sampler_of_the_plan() {
    let of_poisson = "every record on its own with the stated sampling rate";
    let plan = |keys: &str| {
        let text = format!(
            "schema = 1\nrecipe = \"dpsgd\"\n[data]\nprivate = 1000\n[training]\nsigma = 4.0\nsteps = 100\n{keys}"
        );
        let folder = Folder::new();
        let run = folder.run(&text);
        let document = sheet(&run).unwrap();
        let shown = page(&run, &document, false).unwrap();
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let assumed = document.body.assumptions.join(" ");
        (
            flat(&shown.to_text(View::full())),
            shown.to_model_card("plan"),
            assumed,
        )
    };
    let (full, card, assumed) = plan("sample_rate = 0.01\n");
    assert!(assumed.contains(of_poisson), "{assumed}");
    assert!(
        full.contains("Batches that are drawn otherwise than stated"),
        "{full}"
    );
    assert!(!card.contains("batches"), "{card}");
    for (keys, title, condition, note) in [
        (
            "sampler = \"balls-in-bins\"\nepoch_steps = 100\n",
            "batches by balls in bins, a share 0.01 each",
            "every record is in one noisy batch",
            "the mean of the likelihood ratios",
        ),
        (
            "sampler = \"shuffled\"\nepoch_steps = 100\n",
            "shuffled batches, a share 0.01 each",
            "the records are in random order",
            "Poisson accounting would promise too much",
        ),
        (
            "sampler = \"truncated-poisson\"\nmax_batch = 40\nsample_rate = 0.01\n",
            "cut down to 40 of 1000 records",
            "a batch of more than 40 is cut down",
            "learns when a batch was full",
        ),
        (
            "sampler = \"without-replacement\"\nsample_rate = 0.01\n",
            "batches of fixed size",
            "a fresh subset of fixed size",
            "fixed-size batches keep their size",
        ),
        (
            "sampler = \"random-allocation\"\nselected = 2\nepoch_steps = 50\n",
            "batches by random allocation",
            "In each epoch of 50 noisy batches every record is in 2",
            "a part of the epoch for each time",
        ),
    ] {
        let (full, card, assumed) = plan(keys);
        for text in [&full, &card] {
            assert!(text.contains(title) && text.contains(note), "{keys}{text}");
        }
        assert!(
            assumed.contains(condition) && full.contains(condition),
            "{assumed}"
        );
        let poisson = keys.contains("truncated-poisson");
        assert_eq!(full.contains(of_poisson), poisson, "{full}");
        assert!(!full.contains("shuffled, cut to size"), "{full}");
    }
}

/// That some choice is drawn over all documents is said of a folder in which one was; it was said of every folder.
#[cfg(not(feature = "findings"))]
#[test]
fn a_choice_of_records_is_said_where_one_was_drawn() {
    let folder = Folder::new();
    folder.prepared(0, 0, "null");
    let path = folder.0.path().join("prepared/prepared.json");
    let whole: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let plan =
        format!("schema = 1\nrecipe = \"dpsgd\"\n[data]\nprepared = \"prepared\"\n{TRAINING}");
    let plan = folder.plan(&plan);
    for (held_out, planted) in [(0.0, false), (0.1, false), (0.0, true), (0.1, true)] {
        let mut stated = whole.clone();
        stated["options"]["held_out"] = held_out.into();
        if !planted {
            let facts = stated["facts"].as_object_mut().unwrap();
            facts.remove("canaries").unwrap();
        }
        std::fs::write(&path, stated.to_string()).unwrap();
        let not_covered = sheet(&of_file(&plan).unwrap()).unwrap().body.not_covered;
        let said = |what: &str| not_covered.iter().any(|said| said.starts_with(what));
        assert!(said("The number of records: "), "{not_covered:?}");
        assert_eq!(
            said("The choice of records: "),
            held_out > 0.0 || planted,
            "{held_out} {planted}: {not_covered:?}"
        );
    }
}

/// Labels are said to be taken for those of the corpus where no corpus tells; where one does, only among the assumptions.
#[cfg(not(feature = "findings"))]
#[test]
fn labels_that_no_corpus_was_compared_with_are_noted() {
    let folder = Folder::new();
    let label =
        r#"{"kind":"phone","missed":false,"measured_for":{"policy":"elsewhere","unit":"turn"}}"#;
    folder.write("labels.jsonl", &format!("{label}\n").repeat(200));
    folder.prepared(0, 0, "null");
    let path = folder.0.path().join("prepared/prepared.json");
    let unnamed = std::fs::read_to_string(&path).unwrap();
    let named = unnamed.replace(
        r#""deduplicate":true"#,
        r#""deduplicate":true,"policy":{"policy":{"type":"elsewhere"}}"#,
    );
    assert_ne!(named, unnamed);
    let assumed =
        "The corpus is prepared with the policy that the labels were measured for, elsewhere.";
    let prepared = "prepared = \"prepared\"\n";
    for (data, text, compared) in [
        ("private = 20000\n", &unnamed, false),
        // The answer says that the folder doesn't name its policy.
        (prepared, &unnamed, true),
        (prepared, &named, true),
    ] {
        std::fs::write(&path, text).unwrap();
        let plan = format!(
            "schema = 1\nrecipe = \"crt\"\n[data]\n{data}{TRAINING}[secrets]\nlabels = \"labels.jsonl\"\n\
             everything_private = true\n"
        );
        let run = folder.run(&plan);
        let document = sheet(&run).unwrap();
        let assumed = match compared {
            true => assumed.to_owned(),
            false => {
                let premise = assumed.replace("The corpus", "Premise: the corpus");
                format!("{premise} One record is a turn, as the labels say.")
            }
        };
        assert!(
            document
                .body
                .assumptions
                .iter()
                .any(|said| *said == assumed)
        );
        let shown = page(&run, &document, false).unwrap();
        let times = |text: &str| {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            text.matches(&assumed).count()
        };
        assert_eq!(
            [
                times(&shown.to_model_card("plan")),
                times(&shown.to_text(View::full()))
            ],
            [usize::from(!compared), 1],
            "{data}"
        );
    }
}
