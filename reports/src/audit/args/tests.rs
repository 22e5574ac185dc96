use super::*;
use crate::plan::build;
use crate::plan::sampler::Sampler;
use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;
use reticent_accounting::training::TrainingPlan;
use reticent_corpus::policy::{PolicyChoice, PolicyOptions};
use reticent_corpus::prepare::{PrepareOptions, TokenizerChoice};

fn parse(line: &str) -> Result<Command, clap::Error> {
    Audit::try_parse_from(line.split_whitespace()).map(|audit| audit.command)
}

fn refused(line: &str) -> String {
    parse(line).unwrap_err().to_string()
}

#[test]
fn the_definition_is_consistent() {
    Audit::command().debug_assert();
}

#[test]
fn every_command_shows_an_example_that_parses() {
    let mut commands = vec![];
    collect(&Audit::command(), &mut commands);
    for command in commands {
        let help = command.get_after_help().map(ToString::to_string);
        let help = help.unwrap_or_else(|| panic!("{} shows no example", command.get_name()));
        let (_, examples) = help.split_once("Example").unwrap();
        let lines: Vec<&str> = examples
            .lines()
            .skip(1)
            .map(|line| line.split('>').next().unwrap_or(line).trim())
            .filter(|line| !line.is_empty())
            .collect();
        assert!(!lines.is_empty(), "{}", command.get_name());
        for line in lines {
            parse(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        }
    }
}

/// The command and everything below it that can be run as it stands.
fn collect(command: &clap::Command, into: &mut Vec<clap::Command>) {
    if !command.is_subcommand_required_set() || command.get_name() == "audit" {
        into.push(command.clone());
    }
    for sub in command.get_subcommands() {
        collect(sub, into);
    }
}

/// Samplers that are always refused are not offered, and training speaks of its own defaults.
#[test]
fn help_offers_what_can_be_used() {
    let help = |name: &str| {
        let mut command = Audit::command();
        let command = command.find_subcommand_mut(name).unwrap();
        command.render_long_help().to_string()
    };
    let train = help("train");
    for drawn in ["truncated-poisson", "balls-in-bins"] {
        assert!(train.contains(drawn), "{train}");
    }
    for other in [
        "without-replacement",
        "with-replacement",
        "shuffled",
        "random-allocation",
        "--selected",
        "else 0.01",
        "audit train.",
        "default: 1000",
    ] {
        assert!(!train.contains(other), "{other}: {train}");
    }
    let train = train.split_whitespace().collect::<Vec<_>>().join(" ");
    for own in [
        "the share of records in each batch [default: 0.1]",
        "[default: those of --epochs]",
        "[default: 8]",
    ] {
        assert!(train.contains(own), "{own}: {train}");
    }
    // They are still read, and refused with the reason, which names those that are offered.
    for sampler in Sampler::value_variants() {
        let shown = sampler.to_possible_value().unwrap();
        let name = shown.get_name();
        let line = format!("audit train p --recipe dpsgd --sigma 1 --sampler {name} --out o");
        assert!(parse(&line).is_ok(), "{line}");
    }
}

/// The samplers that the help of training shows are those that its refusal of another one names.
#[test]
fn the_samplers_that_are_offered_are_drawn() {
    use reticent_accounting::Sampling;
    use reticent_accounting::training::{NoisySteps, Run, Stated};
    let private = NoisySteps {
        sampling: Stated::given(Sampling::Shuffled, "sampler"),
        ..NoisySteps::poisson(1.0, 0.5, 1).unwrap()
    };
    let refused = Run::Dpsgd { private }.trainable().unwrap_err().to_string();
    let (_, named) = refused.split_once("draws batches by ").unwrap();
    let (named, _) = named.split_once(';').unwrap();
    let named: Vec<&str> = named.split([',', ' ']).collect();
    let audit = Audit::command();
    let train = audit.find_subcommand("train").unwrap();
    let option = train.get_arguments().find(|arg| arg.get_id() == "sampler");
    for value in option.unwrap().get_possible_values() {
        let name = value.get_name();
        assert_eq!(named.contains(&name), !value.is_hide_set(), "{name}");
    }
}

#[test]
fn an_unknown_recipe_is_refused_with_those_there_are() {
    assert!(
        refused("audit train p --out o --recipe scrub")
            .contains("[possible values: sgd, dpsgd, crt, sdp, jft, protect]")
    );
}

fn options(line: &str) -> anyhow::Result<PrepareOptions> {
    match parse(line).unwrap() {
        Command::Prepare(prepare) => prepare.how.options(Vec::new()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn prepare_without_options_asks_for_the_defaults_of_the_corpus() {
    let defaults = PrepareOptions {
        held_out: 0.1,
        policy: PolicyOptions {
            policy: PolicyChoice::General,
            ..PolicyOptions::default()
        },
        ..PrepareOptions::default()
    };
    assert_eq!(options("audit prepare d.jsonl --out o").unwrap(), defaults);
}

#[test]
fn prepare_fills_every_option() {
    let args = options(
        "audit prepare d.jsonl --out o --unit dialogue --policy gold --miss-rate 0.1 \
         --false-positive-rate 0.2 --conservative digits,policy --no-deduplication --no-redaction \
         --canaries 3x4 --canary-format Code:{digits:4} --same-carriers --own-carriers --independent-secrets \
         --canary-sight missed-by-both --tokenizer bytes --max-tokens 64 --held-out 0.5 --seed 9",
    )
    .unwrap();
    let canaries = args.canaries.clone().unwrap();
    assert_eq!(args.policy.policy, PolicyChoice::Gold);
    assert!(!args.deduplicate && !args.redact);
    assert_eq!(args.tokenizer, TokenizerChoice::Bytes);
    assert_eq!((canaries.spec.canaries(), canaries.spec.copies()), (3, 4));
    assert_eq!(canaries.template.to_string(), "Code:{digits:4}");
    assert!(!canaries.distinct && canaries.own_contexts);
    let conservative = args.conservative.unwrap();
    assert!(conservative.digits && conservative.policy && !conservative.capitals);
    assert_eq!((args.seed, args.policy.seed, canaries.seed), (9, 9, 9));
}

#[test]
fn a_tokenizer_file_must_say_where_its_vocabulary_comes_from() {
    let error = options("audit prepare d.jsonl --out o --tokenizer t.json").unwrap_err();
    assert!(error.to_string().starts_with("--vocabulary: must say"));
    let error = options("audit prepare d.jsonl --out o --vocabulary leaks").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("applies only to a tokenizer.json")
    );
    assert!(options("audit prepare d.jsonl --out o --tokenizer t.json --vocabulary leaks").is_ok());
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    for (line, says) in [
        (
            "audit prepare d --out o --miss-rate 1.5",
            "miss rate must lie in [0, 1], got 1.5",
        ),
        (
            "audit prepare d --out o --miss-rate -0.1",
            "miss rate must lie in [0, 1], got -0.1",
        ),
        (
            "audit prepare d --out o --canaries 10x0",
            "the number of copies of a canary must be from 1 to 10000, got 0",
        ),
        ("audit prepare d --out o --canaries ten", "10x20"),
        (
            "audit prepare d --out o --unit word",
            "must be one of turn, sentence, dialogue, document",
        ),
        (
            "audit train p --out o --recipe crt --sigma -1",
            "noise multiplier must lie in (0, inf), got -1",
        ),
        (
            "audit train p --out o --recipe crt --sample-rate 2",
            "sampling rate must lie in [0, 1], got 2",
        ),
        (
            "audit train p --out o --recipe crt --device gpu",
            "must be cpu, cuda:NUMBER or wgpu:NUMBER",
        ),
        (
            "audit train p --out o --recipe crt --epochs 0",
            "must be a number in (0, inf)",
        ),
        ("audit exposure --model m --max-exposure -1", "[0, 1074]"),
        ("audit exposure --model m --max-exposure 1075", "[0, 1074]"),
        (
            "audit exposure --model m --confidence 1",
            "confidence must lie in (0, 1), got 1",
        ),
        (
            "audit simulate customers --dialogues 0 --out o",
            "must be a whole number in [1, 10000000], got \"0\"",
        ),
    ] {
        let error = refused(line);
        assert!(error.contains(says), "{line}: {error}");
    }
}

fn plan(line: &str) -> Result<TrainingPlan, String> {
    match parse(line).unwrap() {
        Command::Train(train) => {
            let request = train.request().map_err(|e| e.to_string())?;
            build(&request, None).map_err(|e| e.to_string())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn noise_fits_the_recipe() {
    let base = "audit train p --out o --recipe";
    let sigma = |line: String| plan(&line).map(|plan| plan.run.noise_multiplier().map(|s| s.get()));
    assert_eq!(sigma(format!("{base} sgd")), Ok(None));
    assert_eq!(sigma(format!("{base} crt --sigma 1.1")), Ok(Some(1.1)));
    // Ten steps at a rate of a tenth, ε 2 at 1e-5 for replace.
    let rest = "--sample-rate 0.1 --steps 10 --delta 1e-5";
    let found = sigma(format!("{base} dpsgd --epsilon 2 {rest}"));
    assert!(found.unwrap().unwrap() > 1.0);
    for (line, said) in [
        (format!("{base} crt"), "--sigma"),
        (format!("{base} sgd --sigma 1"), "adds no noise"),
        (format!("{base} dpsgd --sigma 1 --epsilon 2"), "--epsilon"),
        (
            format!("{base} sdp --epsilon 2 --state-sigma 1 --states 2"),
            "no run of DP-SGD alone",
        ),
    ] {
        let error = plan(&line).unwrap_err();
        assert!(error.contains(said), "{line}: {error}");
    }
}

#[test]
fn completions_know_every_command() {
    let mut script = Vec::new();
    clap_complete::generate(Shell::Bash, &mut Audit::command(), "audit", &mut script);
    let script = String::from_utf8(script).unwrap();
    for command in Audit::command().get_subcommands() {
        assert!(script.contains(command.get_name()));
    }
}

/// A policy that a person writes: what detectors or a name list find, names from a low score on.
const PII: &str = r#"
type = "any"

[[of]]
type = "detectors"
kinds = ["email", "phone", "iban"]

[[of]]
type = "names"
least = 0.3

[[of]]
type = "patterns"
rules = [{ kind = "ticket", pattern = 'TICKET-(?<secret>\d+)' }]
"#;

fn policy(name: &str, text: &str) -> anyhow::Result<PolicyChoice> {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(name);
    std::fs::write(&path, text).unwrap();
    let policy: PolicyArg = path.display().to_string().parse().unwrap();
    policy.choice()
}

#[test]
fn a_policy_in_toml_is_the_same_in_json_and_fits_its_schema() {
    let choice = policy("pii.toml", PII).unwrap();
    choice.build().unwrap();
    let json = serde_json::to_string(&choice).unwrap();
    assert_eq!(policy("pii.json", &json).unwrap(), choice);
    crate::schema::fits("redaction-policy", &json);
    match choice {
        PolicyChoice::Any { of } => assert_eq!(of.len(), 3),
        other => panic!("{other:?}"),
    }
}

/// As on the command line; what is no count is refused with its key and range.
#[test]
fn a_count_of_a_policy_is_written_as_people_write_it() {
    let json = |count: &str| {
        let inner =
            format!("{{\"type\":\"at-least\",\"count\":{count},\"of\":[{{\"type\":\"gold\"}}]}}");
        let least = "{\"type\":\"names\",\"least\":0.5}";
        policy(
            "p.json",
            &format!("{{\"type\":\"any\",\"of\":[{least},{inner}]}}"),
        )
    };
    let toml = |count: &str| {
        let least = "[[of]]\ntype = \"names\"\nleast = 0.5\n";
        let inner =
            format!("[[of]]\ntype = \"at-least\"\ncount = {count}\nof = [{{ type = \"gold\" }}]\n");
        policy("p.toml", &format!("type = \"any\"\n{least}{inner}"))
    };
    assert_eq!(json("1e0").unwrap(), json("1").unwrap());
    assert_eq!(toml("1e0").unwrap(), json("1").unwrap());
    for count in ["1.5", "-3", "1e300"] {
        for read in [json(count), toml(count)] {
            let error = format!("{:#}", read.unwrap_err());
            let said = ": of.1.count: must be a whole number in [0, 18446744073709551615], got";
            assert!(error.ends_with(&format!("{said} {count}")), "{error}");
        }
    }
}

#[test]
fn a_policy_with_a_word_that_means_nothing_is_refused() {
    for (name, text, not, says) in [
        ("p.toml", PII.replace("least", "lest"), "lest", "`least`"),
        ("p.toml", PII.replace("kinds", "sorts"), "sorts", "`kinds`"),
        (
            "p.toml",
            PII.replace("pattern =", "patern ="),
            "patern",
            "`pattern`",
        ),
        (
            "p.toml",
            PII.replace("\"names\"", "\"nmaes\""),
            "nmaes",
            "`names`",
        ),
        ("p.toml", "rules = []".to_owned(), "rules", "type"),
        (
            "p.json",
            r#"{"type": "names", "lest": 0.1}"#.to_owned(),
            "lest",
            "`least`",
        ),
    ] {
        let error = format!("{:#}", policy(name, &text).unwrap_err());
        assert!(error.contains(says) && error.contains(name), "{error}");
        // A foreign word of the file may be private.
        assert!(!error.contains(not), "{error}");
    }
}
