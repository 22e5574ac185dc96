//! Which options of `audit train` a run uses besides those of its plan. An option without effect is
//! refused, since whoever gives it believes that it has one.

use crate::audit::args::{ModelArg, Train};
use crate::plan::args::FirstPhaseKind;
use crate::plan::{DecayArg, ORDINARY, OptimizerArg, PlanRequest, PrivateOptimizerArg, value_name};
use anyhow::{Result, bail, ensure};
use reticent_accounting::training::Recipe::Jft;

/// Checks that every given option has an effect.
///
/// # Errors
/// Returns an error for the first option without effect, with what uses it.
pub(super) fn all_used(train: &Train, request: &PlanRequest) -> Result<()> {
    // This check comes before anything is read.
    crate::plan::all_used(request)?;
    let given = request.given();
    by_model(train, request, &given)?;
    by_optimizer(request, &given)?;
    by_first_phase(request, &given)?;
    by_held_out(train, request, &given)
}

/// Checks the options of the model: sizes are for a fresh transformer; a folder has its own sizes
/// and weights.
fn by_model(train: &Train, request: &PlanRequest, given: &[&str]) -> Result<()> {
    let start = train.model_of(request);
    for key in ["layers", "width", "heads", "context"] {
        if given.contains(&key) && !matches!(start, ModelArg::Gpt2 | ModelArg::Bert) {
            bail!(
                "{}: applies only to --model gpt2 and bert, got {start}",
                request.name(key)
            );
        }
    }
    let folder = matches!(start, ModelArg::Folder(_));
    let adapts = given.contains(&"lora_rank");
    if given.contains(&"initial_seed") && folder && !adapts {
        bail!(
            "{}: applies only to a fresh model or adapter, got {start}",
            request.name("initial_seed")
        );
    }
    if adapts && !folder {
        bail!(
            "{}: applies only to a decoder's folder as --model, got {start}",
            request.name("lora_rank")
        );
    }
    for key in ["lora_alpha", "lora_targets"] {
        if given.contains(&key) && !adapts {
            bail!(
                "{}: applies only to {}",
                request.name(key),
                request.name("lora_rank")
            );
        }
    }
    Ok(())
}

fn by_optimizer(request: &PlanRequest, given: &[&str]) -> Result<()> {
    let ordinary = request.optimization.optimizer.unwrap_or_default();
    let private = request.optimization.private_optimizer.unwrap_or_default();
    let sgd = ordinary == OptimizerArg::Sgd;
    let decays = (ORDINARY.contains(&request.recipe()) && ordinary == OptimizerArg::Adamw)
        || (request.recipe().is_private() && private == PrivateOptimizerArg::Adamw);
    for (key, used, by) in [
        ("momentum", sgd, "--optimizer sgd"),
        (
            "private_momentum",
            private == PrivateOptimizerArg::Sgd,
            "--private-optimizer sgd",
        ),
        (
            "second_moment_floor",
            private == PrivateOptimizerArg::AdamBc,
            "--private-optimizer adam-bc",
        ),
        (
            "weight_decay",
            decays,
            "--optimizer adamw or --private-optimizer adamw",
        ),
    ] {
        if given.contains(&key) && !used {
            let (ordinary, private) = (value_name(ordinary), value_name(private));
            bail!(
                "{}: applies only to {by}, got {ordinary} for ordinary and {private} for private steps",
                request.name(key)
            );
        }
    }
    ensure!(
        !sgd || given.contains(&"learning_rate"),
        "{}: is needed with --optimizer sgd, in (0, inf); the LSTM of CRT takes 20",
        request.name("learning_rate")
    );
    Ok(())
}

/// Checks the options of the first phase: a noised one has no ordinary steps.
fn by_first_phase(request: &PlanRequest, given: &[&str]) -> Result<()> {
    let phase = request.of_recipe.first_phase.unwrap_or_default();
    let ordinary = matches!(phase, FirstPhaseKind::Direct | FirstPhaseKind::Screened);
    let given = given.contains(&"ordinary_batch_size");
    if request.recipe() == Jft && given && !ordinary {
        bail!(
            "{}: applies only to --first-phase direct or screened of the recipe jft, got {}",
            request.name("ordinary_batch_size"),
            value_name(phase)
        );
    }
    Ok(())
}

/// Checks that held-out text is given for the options that watch it.
fn by_held_out(train: &Train, request: &PlanRequest, given: &[&str]) -> Result<()> {
    let plateau = request.optimization.decay == Some(DecayArg::Plateau);
    for key in ["patience", "held_out_is", "decay"] {
        let watches = given.contains(&key) && (key != "decay" || plateau);
        if watches && train.held_out.is_none() {
            bail!("{}: needs --held-out, the text to watch", request.name(key));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::args::{Audit, Command};
    use crate::plan;
    use clap::{CommandFactory, Parser};
    use reticent_accounting::training::Recipe::{self, Crt, Dpsgd, Protect, Sdp, Sgd};

    /// What each recipe cannot do without.
    const RECIPES: [(Recipe, &[&str]); 6] = [
        (Sgd, &[]),
        (Dpsgd, &["--sigma 1"]),
        (Crt, &["--sigma 1"]),
        (Sdp, &["--sigma 1", "--state-sigma 1"]),
        (Jft, &["--sigma 1"]),
        (Protect, &["--weights w", "--incidence i"]),
    ];

    /// A value of every option that not every recipe uses, with what else it needs.
    const VALUES: [(&str, &str); 35] = [
        ("--batch-size", "4"),
        ("--ordinary-batch-size", "4"),
        ("--sampler", "poisson"),
        ("--max-batch", "4"),
        ("--epoch-steps", "4"),
        ("--selected", "2"),
        ("--states", "2"),
        ("--public-passes", "2"),
        ("--learning-rate", "0.1"),
        ("--sample-rate", "0.1"),
        ("--clip", "1"),
        ("--clipping", "flat"),
        ("--clip-decay", "0.9"),
        ("--noise-decay", "0.9"),
        ("--augmentations", "4"),
        ("--private-learning-rate", "0.1"),
        ("--private-optimizer", "adam"),
        ("--private-momentum", "0.5"),
        ("--second-moment-floor", "1e-6 --private-optimizer adam-bc"),
        ("--optimizer", "adam"),
        ("--momentum", "0.5 --optimizer sgd --learning-rate 1"),
        ("--first-phase", "direct"),
        ("--first-epochs", "1"),
        (
            "--first-epsilon",
            "1 --first-phase conservative-light-noise",
        ),
        ("--first-sigma", "1 --first-phase conservative-light-noise"),
        (
            "--token-miss",
            "0,0.1 --first-phase light-noise --first-sigma 1",
        ),
        ("--screened", "f --first-phase screened"),
        ("--state-sigma", "1"),
        ("--state-norm", "1"),
        ("--weights", "w"),
        ("--incidence", "i"),
        ("--assume", "caught"),
        ("--lora-rank", "4 --model ./f"),
        ("--lora-alpha", "8 --lora-rank 4 --model ./f"),
        ("--lora-targets", "q_proj,v_proj --lora-rank 4 --model ./f"),
    ];

    /// Options that every recipe uses, or that are judged with the noise (the last three).
    const ALWAYS: [&str; 38] = [
        "config",
        "worker-key",
        "worker-timeout",
        "out",
        "plan",
        "steps",
        "recipe",
        "model",
        "declared-public",
        "layers",
        "width",
        "heads",
        "context",
        "device",
        "precision",
        "epochs",
        "average",
        "initial-seed",
        "keep-every",
        "weight-decay",
        "dropout",
        "decay",
        "clip-decay-every",
        "noise-decay-every",
        "warmup",
        "held-out",
        "tensorboard",
        "held-out-is",
        "patience",
        "seed",
        "format",
        "verbose",
        "help",
        "version",
        "prepared",
        "sigma",
        "epsilon",
        "delta",
    ];

    fn judged(line: &str) -> Result<(), String> {
        let words = format!("audit train p --out o {line}");
        match Audit::try_parse_from(words.split_whitespace()).map(|a| a.command) {
            Ok(Command::Train(train)) => {
                let request = train.request().map_err(|e| e.to_string())?;
                plan::all_used(&request).map_err(|e| e.to_string())
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    /// Every option of the command that not every recipe uses, by its flag.
    fn listed() -> Vec<(String, &'static [Recipe])> {
        let command = Audit::command();
        let train = command.find_subcommand("train").unwrap();
        let has = |key: &str| {
            train
                .get_arguments()
                .any(|option| option.get_id().as_str() == key)
        };
        let listed = plan::USERS.into_iter().filter(|(key, _)| has(key));
        let named = listed.map(|(key, users)| (format!("--{}", key.replace('_', "-")), users));
        named.collect()
    }

    #[test]
    fn an_option_that_changes_nothing_is_refused_with_who_uses_it() {
        for (flag, users) in listed() {
            let (_, value) = VALUES.iter().find(|(f, _)| **f == flag).unwrap();
            for (recipe, needs) in RECIPES {
                let others = needs.iter().filter(|n| !n.starts_with(&flag));
                let needs = others.copied().collect::<Vec<_>>().join(" ");
                let line = format!("--recipe {} {needs} {flag} {value}", recipe.name());
                let said = judged(&line);
                if users.contains(&recipe) {
                    assert_eq!(said, Ok(()), "{line}");
                } else {
                    let error = said.unwrap_err();
                    let names = users.iter().all(|r| error.contains(r.name()));
                    let got = error.contains(&format!(", got {}", recipe.name()));
                    assert!(error.starts_with("--") && names && got, "{line}: {error}");
                }
            }
        }
    }

    /// A new option of the command is listed as everybody's or as someone's.
    #[test]
    fn every_option_of_the_command_is_known_here() {
        let mut command = Audit::command();
        command.build();
        let train = command.find_subcommand("train").unwrap();
        let listed = listed();
        for option in train.get_arguments() {
            let name = option
                .get_long()
                .unwrap_or_else(|| option.get_id().as_str());
            let someones = listed.iter().any(|(flag, _)| &flag[2..] == name);
            assert!(someones != ALWAYS.contains(&name), "{name}");
        }
    }

    #[test]
    fn what_depends_on_more_than_the_recipe() {
        for (line, parts) in [
            ("--recipe sgd --layers 2", ["--layers", "gpt2", "lstm"]),
            (
                "--recipe sgd --context 9 --model ./f",
                ["--context", "gpt2", "./f"],
            ),
            (
                "--recipe dpsgd --sigma 1 --weight-decay 0.1",
                ["--weight-decay", "adamw", "sgd"],
            ),
            (
                "--recipe sgd --weight-decay 0.1",
                ["--weight-decay", "--optimizer adamw", "got adam"],
            ),
            (
                "--recipe sgd --optimizer sgd",
                ["--learning-rate", "is needed", "--optimizer sgd"],
            ),
            (
                "--recipe sgd --momentum 0.5",
                ["--momentum", "--optimizer sgd", "got adam"],
            ),
            (
                "--recipe sgd --initial-seed 3 --model ./f",
                ["--initial-seed", "fresh", "./f"],
            ),
            (
                "--recipe sgd --lora-rank 4 --model gpt2",
                ["--lora-rank", "folder", "gpt2"],
            ),
            (
                "--recipe sgd --lora-alpha 4 --model ./f",
                ["--lora-alpha", "applies only to", "--lora-rank"],
            ),
            (
                "--recipe jft --sigma 1 --screened f",
                ["--screened", "screened", "got direct"],
            ),
            (
                "--recipe jft --sigma 1 --first-sigma 1",
                ["--first-sigma", "light-noise", "got direct"],
            ),
            (
                "--recipe jft --sigma 1 --token-miss 0,1 --first-phase screened",
                ["--token-miss", "light-noise", "got screened"],
            ),
            (
                "--recipe jft --sigma 1 --first-phase light-noise --ordinary-batch-size 4",
                [
                    "--ordinary-batch-size",
                    "direct or screened",
                    "got light-noise",
                ],
            ),
            (
                "--recipe sgd --batch-size 4",
                ["--batch-size", "--ordinary-batch-size", "got sgd"],
            ),
            (
                "--recipe crt --sigma 1 --patience 2",
                ["--patience", "--held-out", "watch"],
            ),
            (
                "--recipe sdp --sigma 1 --state-sigma 1 --assume screening",
                ["--assume", "screened", "jft"],
            ),
        ] {
            let error = judged(line).unwrap_err();
            assert!(
                parts.iter().all(|part| error.contains(part)),
                "{line}: {error}"
            );
        }
        for line in [
            "--recipe sgd --model gpt2 --layers 2 --width 8 --heads 2 --context 9",
            "--recipe sgd --optimizer adamw --weight-decay 0.1 --initial-seed 3 --average 0.99",
            "--recipe crt --sigma 1 --private-optimizer adamw --weight-decay 0.1",
            "--recipe jft --sigma 1 --ordinary-batch-size 4 --assume caught",
            "--recipe jft --sigma 1 --first-phase screened --screened f --assume screening",
            "--recipe dpsgd --sigma 1 --lora-rank 4 --initial-seed 3 --model ./f",
        ] {
            assert_eq!(judged(line), Ok(()), "{line}");
        }
    }
}
