//! The published schemas, generated from the types that write and read the documents.

#[path = "../../../schemas/check.rs"]
mod check;

pub(crate) use check::{fits, problems};

use crate::account::answer::Guarantees;
#[cfg(feature = "audit")]
use crate::account::args::Account;
use crate::account::calibrate::Calibrated;
use crate::account::curve::Points;
use crate::account::explain::Explanation;
use crate::account::plan_page::PlanPage;
use crate::account::protect::document::Protection;
use crate::account::protect::weights::Weights;
#[cfg(feature = "audit")]
use crate::audit::args::Audit;
use crate::contract::{Envelope, SCHEMA};
use crate::defaults::ProjectFile;
use crate::generated;
use crate::plan::TrainingFile;
#[cfg(feature = "audit")]
use clap::{Arg, ArgAction, Command, CommandFactory};
use reticent_accounting::Mechanism;
use reticent_accounting::confidentiality::Label;
use reticent_accounting::training::TrainingPlan;
#[cfg(feature = "audit")]
use reticent_accounting::{
    Confidence, Delta, Epsilon, GroupSize, MissRate, NoiseMultiplier, Probability, SamplingRate,
    Tolerance,
};
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};
#[cfg(feature = "audit")]
use std::any::TypeId;
#[cfg(feature = "audit")]
use std::collections::BTreeMap;

/// A published schema.
struct Published {
    /// The name of its file, without `.schema.json`.
    name: &'static str,
    schema: Schema,
}

/// What every document has, and no more.
#[derive(JsonSchema)]
struct Anything {}

fn writing() -> SchemaGenerator {
    SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
}
fn reading() -> SchemaGenerator {
    SchemaSettings::draft2020_12()
        .for_deserialize()
        .into_generator()
}

impl Published {
    fn new(name: &'static str, title: &str, mut schema: Schema) -> Self {
        Tidy.transform(&mut schema);
        at_home(name, &mut schema);
        schema.insert("title".to_owned(), title.into());
        let text = schema.as_value().to_string();
        if text.contains(NUMBER) {
            let number = json!({
                "description": "A number that may be infinite.",
                "anyOf": [{ "type": "number" }, { "enum": ["inf", "-inf"] }]
            });
            let defs = schema
                .ensure_object()
                .entry("$defs")
                .or_insert_with(|| json!({}));
            defs["Number"] = number;
        }
        Self { name, schema }
    }
    /// Returns the schema of a document in its envelope, whose type is the name of the schema.
    fn envelope<B: JsonSchema>(name: &'static str, title: &str) -> Self {
        let schema = writing().into_root_schema_for::<Envelope<B>>();
        Self::new(name, title, schema).of_type(name)
    }
    /// Returns the schema of another document that we write.
    fn written<T: JsonSchema>(name: &'static str, title: &str) -> Self {
        Self::new(name, title, writing().into_root_schema_for::<T>())
    }
    /// Returns the schema of a document that users write.
    fn read<T: JsonSchema>(name: &'static str, title: &str) -> Self {
        Self::new(name, title, reading().into_root_schema_for::<T>())
    }
    /// Sets the values of `schema` and `type`.
    fn of_type(mut self, kind: &str) -> Self {
        if let Some(properties) = self.schema.get_mut("properties") {
            let typed = if kind.is_empty() {
                json!({ "type": "string" })
            } else {
                json!({ "const": kind })
            };
            properties["schema"] = json!({ "const": SCHEMA });
            properties["type"] = typed;
        }
        self
    }
    /// Replaces the description that comes from the type.
    fn about(mut self, description: &str) -> Self {
        self.schema
            .insert("description".to_owned(), description.into());
        self
    }
}

/// Types that many documents contain, each described in one file.
const HOMES: [(&str, &str, &str); 4] = [
    ("Inputs", "envelope", "#/$defs/Inputs"),
    ("Guarantee", "guarantees", "#/$defs/Guarantee"),
    ("Mechanism", "mechanism", "#"),
    ("TrainingPlan", "training-plan", "#"),
];

/// Replaces types that other files describe with references, and removes definitions that are no
/// longer referenced.
fn at_home(file: &str, schema: &mut Schema) {
    for (name, home, pointer) in HOMES.iter().filter(|(_, home, _)| *home != file) {
        let there = format!("{home}.schema.json{pointer}");
        let members = schema.ensure_object().values_mut();
        refer(members, &format!("#/$defs/{name}"), &there);
    }
    loop {
        let Some(Value::Object(defs)) = schema.get("$defs").cloned() else {
            return;
        };
        let whole = schema.as_value().to_string();
        let unused = |name: &&String| {
            let here = format!("\"#/$defs/{name}\"");
            let own = defs[name.as_str()].to_string();
            whole.matches(&here).count() == own.matches(&here).count()
        };
        let Some(name) = defs.keys().find(unused) else {
            return;
        };
        if let Some(Value::Object(defs)) = schema.get_mut("$defs") {
            defs.remove(name);
        }
    }
}

fn refer<'a>(values: impl Iterator<Item = &'a mut Value>, from: &str, to: &str) {
    for value in values {
        match value {
            Value::String(text) if text == from => to.clone_into(text),
            Value::Array(items) => refer(items.iter_mut(), from, to),
            Value::Object(members) => refer(members.values_mut(), from, to),
            _ => {}
        }
    }
}

/// The reference to the definition of a number.
const NUMBER: &str = "#/$defs/Number";

/// Adapts a schema to what we write: infinity is spelled, nothing is null, descriptions have no
/// links.
struct Tidy;

impl Transform for Tidy {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(members) = schema.as_object_mut() else {
            return;
        };
        if members.get("default").is_some_and(Value::is_null) {
            members.shift_remove("default");
        }
        if let Some(Value::String(text)) = members.get_mut("description") {
            *text = plain(text);
        }
        if members.get("format") == Some(&json!("double")) {
            members.shift_remove("type");
            members.insert("$ref".to_owned(), NUMBER.into());
        }
        members.shift_remove("format");
        let required = members.get("required").cloned().unwrap_or_default();
        if let Some(Value::Object(properties)) = members.get_mut("properties") {
            for (key, property) in properties {
                if !required
                    .as_array()
                    .is_some_and(|keys| keys.contains(&json!(key)))
                {
                    never_null(property);
                }
            }
        }
    }
}

/// Removes null: a key without a value is absent.
fn never_null(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::Array(kinds)) = members.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = &kinds[..] {
            let only = only.clone();
            members.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = members.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if let [Value::Object(only)] = &choices[..] {
            let only = only.clone();
            members.shift_remove("anyOf");
            for (key, value) in only {
                members.entry(key).or_insert(value);
            }
        }
    }
}

/// Returns the first paragraph of a documentation comment without line breaks and links.
fn plain(text: &str) -> String {
    let text = text.split("\n\n").next().unwrap_or(text);
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace("[`", "`").replace("`]", "`")
}

/// Returns the schema of the envelope. An input has the name of the flag that sets it; its type is that of the flag if all
/// commands agree on one, and its description the shortest of theirs.
#[cfg(feature = "audit")]
fn envelope() -> Schema {
    let mut flags = BTreeMap::new();
    for command in [Account::command(), Audit::command()] {
        collect(&command, &mut flags);
    }
    let mut schema = writing().into_root_schema_for::<Envelope<Anything>>();
    let inputs = schema.pointer_mut("/$defs/Inputs/properties").unwrap();
    for (name, (about, mut kind)) in flags {
        kind["description"] = about.into();
        inputs.as_object_mut().unwrap().entry(name).or_insert(kind);
    }
    schema
}

/// Collects the flags of a command and of those below it, each with its description and type.
#[cfg(feature = "audit")]
fn collect(command: &Command, flags: &mut BTreeMap<String, (String, Value)>) {
    for flag in command.get_arguments().filter(|flag| !flag.is_global_set()) {
        let help = flag.get_help().unwrap().to_string();
        let about = help.split(" [default").next().unwrap().to_owned();
        let kind = kind(flag);
        let new = || (about.clone(), kind.clone());
        let known = flags.entry(flag.get_id().to_string()).or_insert_with(new);
        if about.len() < known.0.len() {
            known.0 = about;
        }
        if kind != known.1 {
            known.1 = json!({});
        }
    }
    command
        .get_subcommands()
        .for_each(|below| collect(below, flags));
}

/// Returns the schema of a flag's value if its parser returns a number or a truth value.
#[cfg(feature = "audit")]
fn kind(flag: &Arg) -> Value {
    macro_rules! schemas {
        ($($kind:ty),+) => {
            [$((TypeId::of::<$kind>(), <$kind>::json_schema(&mut writing()))),+]
        };
    }
    let known = schemas![
        bool,
        u32,
        u64,
        f64,
        Confidence,
        Delta,
        Epsilon,
        GroupSize,
        MissRate,
        NoiseMultiplier,
        Probability,
        SamplingRate,
        Tolerance
    ];
    let parsed = flag.get_value_parser().type_id();
    let several = matches!(flag.get_action(), ArgAction::Append);
    let found = known
        .into_iter()
        .find(|(kind, _)| parsed == *kind && !several);
    found.map_or_else(|| json!({}), |(_, schema)| schema.to_value())
}

#[rustfmt::skip]
fn of_account() -> Vec<Published> {
    use Published as P;
    vec![
        P::envelope::<Guarantees>("guarantees", "Guarantees of a training plan: `account --format json`, `account compose --format json`")
            .about("Upper bounds with both certified ends. ε in nats."),
        P::envelope::<Calibrated>("calibration", "The last value of a parameter that keeps a promise: `account calibrate --format json`")
            .about("The least noise, or the highest rate, number of steps or group size."),
        P::envelope::<Points>("curve", "A curve of a plan: `account curve --format json`")
            .about("Every point with both certified ends."),
        P::envelope::<Explanation>("explanation", "How a number was obtained and what certifies it: `account explain --format json`"),
        P::envelope::<PlanPage>("plan", "The page of a training plan: `account plan` and `account --prepared`, `--format json`")
            .about("What is promised to whom, under which assumptions, and what would tighten it. Upper bounds; ε in nats."),
        P::envelope::<Protection>("protection", "Weights and noise that protect secrets: `account protect --format json`"),
        P::read::<Weights>("weights", "What a trainer needs to keep a certificate: `account protect --weights`, read by `audit train --recipe protect`").of_type("weights")
            .about("Rates of records, batch, steps and noise, and what is promised for each secret. It names secrets as the incidence does: keep it private."),
        P::read::<TrainingFile>("training", "A training plan: `training.toml`, read by `account plan` and `audit train --plan`")
            .about("As JSON Schema of the TOML document. Paths are relative to the file."),
        P::read::<ProjectFile>("defaults", "A project's defaults: `reticent.toml`, read by `account`, `audit` and Python")
            .about("As JSON Schema of the TOML document. Keys are flags; flags win, and an answer shows what it took."),
        P::written::<TrainingPlan>("training-plan", "A training plan as a manifest stores it")
            .about("What a run is: recipe, noise, batches, steps, each value with where it comes from."),
        P::read::<Label>("labels", "One line of a file of labelled secrets: `account --labels`")
            .about("A simple random sample of secrets within each kind, drawn before any policy was tuned on it. Several lines with one `secret` are one observation, missed where any of them is; label all places of a secret, each with its `place` and the number of `records`, for a promise about secrets in several."),
        P::read::<Mechanism>("mechanism", "Mechanism: `mechanism.json`, and `mechanism` in other documents")
            .about("What ran, as data. Neighbours, unit and group are arguments of the question and not in it. Read by `account compose` and `--mechanism`, written by `--export mechanism`."),
    ]
}

#[cfg(feature = "audit")]
#[rustfmt::skip]
fn of_audit() -> Vec<Published> {
    use crate::audit::{
        classify, coins, convert, demo, design, diff, epsilon, exposure, extract, figure, grid, incidence, membership, neighbours, perplexity, plant, policy,
        prepare, redact, report, reproduce, screen, simulate, tokenizer, train,
    };
    use Published as P;
    /// The first line of a sheet, and each other one.
    #[derive(JsonSchema)]
    #[schemars(untagged)]
    #[expect(dead_code, reason = "a schema, never a value")]
    enum SheetLine {
        Header(screen::Header),
        Line(screen::Line),
    }
    let [prepared, record, text] = reticent_corpus::prepared_schemas(&writing());
    vec![
        P::new("envelope", "Envelope of every JSON document", envelope()).of_type(""),
        P::read::<reticent_corpus::Document>("corpus", "One line of a corpus in JSON Lines")
            .about("A document with what is known about the secrets in it. Offsets count characters (Unicode scalar values) from 0; an end is exclusive; spans are in order and do not overlap."),
        P::written::<reticent_corpus::canary::CanaryPlan>("canaries", "Canary plan: `canaries.json`").of_type("canary-plan")
            .about("Which made-up secrets were planted, where, and what stands around them."),
        P::new("prepared", "Prepared corpus: `prepared.json`", prepared).of_type("preparation")
            .about("What a preparation was asked to do, and what it did. The numbers are functions of the private text."),
        P::new("prepared-record", "One line of `records.jsonl` or `held-out.jsonl` of a prepared corpus", record),
        P::new("prepared-text", "One line of `train.jsonl` or `test.jsonl` of a prepared corpus", text),
        P::envelope::<prepare::run::Body<'_>>("preparation", "What a preparation did: `audit prepare --format json`")
            .about("The folder itself has `prepared.json`."),
        P::new("shard-plan", "Plan of a preparation in shards: the file of `audit prepare --plan`", reticent_corpus::prepare::shard_plan_schema(&writing())).of_type("shard-plan")
            .about("What is prepared, what was chosen for the corpus as a whole, and where each shard begins. It is the owner's: whoever has it knows the options, and the sizes of the files."),
        P::envelope::<prepare::shards::Body>("preparation-shards", "What was done about a plan of shards: `audit prepare --plan FILE --format json`")
            .about("The last stage, and `--run local:N`, give `preparation.schema.json`."),
        P::envelope::<plant::Planted>("planting", "Planted canaries: `audit plant --format json`")
            .about("The file with canaries and its `canaries.json` lie in the folder."),
        P::envelope::<tokenizer::Vocabulary>("vocabulary", "A vocabulary from public text: `audit tokenizer --format json`"),
        P::envelope::<simulate::Simulated>("simulation", "A made-up corpus: `audit simulate --format json`")
            .about("The corpus itself is in the file, one document a line (`corpus.schema.json`)."),
        P::envelope::<neighbours::run::Body<'_>>("neighbours", "Which secrets are caught, and k: `audit neighbours --format json`")
            .about("prepare(D) against prepare(D'), D' having every marked occurrence of one secret masked."),
        P::envelope::<redact::run::Body<'_>>("redaction", "A redacted stream: `audit redact --format json`")
            .about("What was read, left out and masked."),
        P::envelope::<incidence::run::Body>("incidence", "Which record holds which secret, in numbers: `audit incidence --format json`")
            .about("The pairs themselves are in the file: columns example and secret, or keys example and secrets."),
        P::written::<reticent_backends::checkpoint::Manifest>("manifest", "Manifest of a checkpoint: `manifest.json`").of_type("checkpoint")
            .about("What ran, beside the weights it made. Nothing in it is an unaccounted function of the private text."),
        P::envelope::<train::run::Body>("training-run", "What a training run released: `audit train --format json`").of_type("training")
            .about("The manifest of the checkpoint has the same (`manifest.schema.json`)."),
        P::written::<train::log::Line>("training-log", "One line of `training.jsonl`, in the owner's folder of a checkpoint")
            .about("A step, or the end of an epoch with what its weights promise. No guarantee covers what it says about the text."),
        P::envelope::<reticent_backends::engine::Devices>("devices", "Devices for models on this machine: `audit devices --format json`"),
        P::envelope::<convert::run::Body>("conversion", "A converted model: `audit convert --format json`"),
        P::envelope::<exposure::ExposureReport>("exposure", "Exposure of canaries: `audit exposure --format json`")
            .about("Ranks of canaries among all candidates, summaries next to their nulls, a lower bound on ε. Exposures in bits, NLL and ε in nats."),
        P::envelope::<exposure::SampledReport>("sampled-exposure", "Exposure from a sample of the candidates: `audit exposure --sample N --format json`")
            .about("Intervals instead of ranks. All ends of all canaries hold together with the stated confidence. Exposures in bits, NLL in nats."),
        P::envelope::<exposure::SequentialReport>("sequential-exposure", "A promise tested canary by canary: `audit exposure --stop-at E --format json`")
            .about("The e-value against the promise after each canary. The promise is contradicted if it reached the threshold; nothing else is concluded."),
        P::written::<reticent_corpus::canary::CoinPlan>("coins", "Canaries and their coins: `coins.json`").of_type("coin-plan")
            .about("Which canaries were included, each by its own fair coin. It is the owner's: whoever trains must not see it."),
        P::envelope::<coins::CoinsReport>("coin-audit", "A lower bound on ε from coins of one run: `audit coins --format json`"),
        P::envelope::<design::DesignReport>("design", "Canaries for a token budget: `audit design --format json`")
            .about("What audits of several plans are expected to prove, by simulated scores. Estimates, and optimistic ones."),
        P::envelope::<membership::MembershipReport>("membership", "Membership inference from scores, or by attacks on a model: `audit membership --format json`")
            .about("What scores of members and non-members prove. A higher score indicates membership; with inputs.lower_is_member the signs were reversed, in thresholds too. Every interval holds with the stated confidence by itself."),
        P::envelope::<extract::ExtractReport>("extraction", "Extraction: `audit extract --format json`")
            .about("What a model reproduces verbatim after prompts from its training text, and secrets among their candidates. Rates are over passages with different suffixes; every interval holds with the stated confidence by itself."),
        P::envelope::<report::run::Document>("report", "Everything measured on a model: `audit report --format json`")
            .about("Each part is the body of the document of its own command: exposure.schema.json, membership.schema.json, extraction.schema.json."),
        P::envelope::<classify::ClassifyReport>("classification", "How well a classifier predicts classes: `audit classify --format json`")
            .about("The most probable class of each record compared with its own. The interval of the accuracy holds for records drawn at random."),
        P::envelope::<perplexity::PerplexityReport>("perplexity", "How well a model predicts a text: `audit perplexity --format json`"),
        P::envelope::<diff::DiffReport>("diff", "Two audits side by side: `audit diff --format json`")
            .about("Whether the new model leaks more than the old one, beyond noise. All rows share the level."),
        P::envelope::<figure::FigureReport>("figure", "Many audits as one figure: `audit figure --format json`"),
        P::read::<grid::GridFile>("grid-file", "A grid: `grid.toml`, read by `audit grid`")
            .about("As JSON Schema of the TOML document. Flags are those of the commands; axes are lists."),
        P::envelope::<grid::CellDocument>("grid-cell", "A cell of a grid: `cells/*.json` of `audit grid`")
            .about("Each part is the document of its own command: preparation.schema.json, training-run.schema.json, perplexity.schema.json, exposure.schema.json, membership.schema.json, extraction.schema.json."),
        P::envelope::<grid::GridReport>("grid", "All cells of a grid in a table: `audit grid --format json`"),
        P::envelope::<reproduce::Reproduction>("reproduction", "The claims of a paper and their results: `report.json` of `audit reproduce`")
            .about("A value for each run with the document that it comes from, the rule that was fixed beforehand, and the judgement."),
        P::read::<reticent_corpus::policy::PolicyChoice>("redaction-policy", "A redaction policy: a file for `--policy`, in JSON or TOML")
            .about("Names, detectors, patterns, dictionaries, JFT's levels, and what any, all or a given number of several find. A JSON list of rules alone is a policy of patterns."),
        P::envelope::<policy::PolicyReport>("policy", "What a policy does to a corpus: `audit policy --format json`")
            .about("Counts of all records; nothing is said about unmarked secrets."),
        P::written::<SheetLine>("screening-sheet", "One line of a sheet of a sample: `audit screen --sheet`")
            .about("The first line says how the sample was drawn and for which policy; each other line is a record. Write every secret of a record into `secrets` ([] for none) and leave everything else unchanged: the sample is drawn again and compared."),
        P::envelope::<screen::Waiting>("screening-open", "A sample not yet labelled: `audit screen --format json`")
            .about("The sheet was written, or some of its records are still without labels."),
        P::envelope::<screen::Screening>("screening", "Rates from a labelled sample: `audit screen --format json`")
            .about("Bounds are about records, which were drawn at random: a record counts as missed when one of its secrets is."),
        P::envelope::<epsilon::EpsilonReport>("epsilon", "Lower bounds on ε from counts: `audit epsilon --format json`")
            .about("The first bound assumes no family of mechanisms; those after it do and are compared with no promise. Each holds with its own confidence."),
        P::envelope::<demo::DemoReport>("demo", "`report.json` of `audit demo`"),
    ]
}
#[cfg(not(feature = "audit"))]
fn of_audit() -> Vec<Published> {
    Vec::new()
}

#[test]
fn the_published_schemas_are_those_of_the_types() {
    for published in of_account().into_iter().chain(of_audit()) {
        let path = check::folder().join(format!("{}.schema.json", published.name));
        let text = serde_json::to_string_pretty(&published.schema).unwrap() + "\n";
        generated::keep(&path, &text);
    }
}

/// Each schema is generated, and the page lists it by its title.
#[test]
#[cfg(feature = "audit")]
fn every_published_schema_is_generated() {
    let all: Vec<Published> = of_account().into_iter().chain(of_audit()).collect();
    let path = check::folder().join("README.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let rule = "|---|---|\n";
    let (before, table) = page.split_once(rule).unwrap();
    let (_, after) = table.split_once("\n\n").unwrap();
    let row = |published: &Published| {
        let title = published.schema.get("title").and_then(Value::as_str);
        let (title, name) = (title.unwrap(), published.name);
        format!("| {title} | `{name}.schema.json` |\n")
    };
    let rows: String = all.iter().map(row).collect();
    generated::keep(&path, &format!("{before}{rule}{rows}\n{after}"));
    for entry in std::fs::read_dir(check::folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let known = |p: &Published| name == format!("{}.schema.json", p.name);
        assert!(!name.ends_with(".json") || all.iter().any(known), "{name}");
    }
}
