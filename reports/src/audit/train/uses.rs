//! Which options of `audit train` a run uses beside those of its plan. One that would change nothing
//! is refused: whoever gives it believes that it does.

use crate::audit::args::{ModelArg, OptimizerArg, Train};
use crate::plan::args::FirstPhaseKind;
use crate::plan::{NOISED, PlanRequest, Use, recipes, value_name};
use anyhow::{Result, bail};
use reticent_accounting::training::Recipe::{Crt, Jft, Sdp, Sgd};

/// All of them.
pub(in crate::audit) fn by_recipe(train: &Train) -> Vec<Use> {
    let private = &train.private;
    vec![
        (
            "ordinary_batch_size",
            train.ordinary_batch_size.is_some(),
            &[Sgd, Crt, Jft],
        ),
        (
            "learning_rate",
            train.learning_rate.is_some(),
            &[Sgd, Crt, Sdp, Jft],
        ),
        ("clip", private.clip.is_some(), NOISED),
        ("clipping", private.clipping.is_some(), NOISED),
        (
            "private_learning_rate",
            private.private_learning_rate.is_some(),
            NOISED,
        ),
        (
            "private_optimizer",
            private.private_optimizer.is_some(),
            NOISED,
        ),
        ("weight_decay", private.weight_decay.is_some(), NOISED),
    ]
}

/// Whether every option that was given changes something.
///
/// # Errors
/// The first that does not, with where it belongs.
pub(super) fn all_used(train: &Train, request: &PlanRequest) -> Result<()> {
    // before anything is read
    crate::plan::all_used(request)?;
    let recipe = request.recipe();
    for (key, given, users) in by_recipe(train) {
        if given && !users.contains(&recipe) {
            bail!(
                "--{}: belongs to {}, got {recipe}",
                key.replace('_', "-"),
                recipes(users)
            );
        }
    }
    by_model(train)?;
    by_optimizer(train)?;
    by_first_phase(train, request)?;
    by_held_out(train, request)
}

/// Sizes are those of a fresh transformer; a folder has its own.
fn by_model(train: &Train) -> Result<()> {
    let start = &train.start;
    for (flag, given) in [
        ("--layers", start.layers.is_some()),
        ("--width", start.width.is_some()),
        ("--heads", start.heads.is_some()),
        ("--context", start.context.is_some()),
    ] {
        if given && start.model != ModelArg::Gpt2 {
            bail!("{flag}: belongs to --model gpt2, got {}", start.model);
        }
    }
    Ok(())
}

fn by_optimizer(train: &Train) -> Result<()> {
    let optimizer = train.private.private_optimizer.unwrap_or_default();
    if train.private.weight_decay.is_some() && optimizer != OptimizerArg::Adamw {
        bail!(
            "--weight-decay: belongs to --private-optimizer adamw, got {}",
            value_name(optimizer)
        );
    }
    Ok(())
}

/// A noised first phase has no ordinary steps.
fn by_first_phase(train: &Train, request: &PlanRequest) -> Result<()> {
    let phase = request.of_recipe.first_phase.unwrap_or_default();
    let ordinary = matches!(phase, FirstPhaseKind::Direct | FirstPhaseKind::Screened);
    if request.recipe() == Jft && train.ordinary_batch_size.is_some() && !ordinary {
        bail!(
            "--ordinary-batch-size: belongs to --first-phase direct or screened of the recipe jft, got {}",
            value_name(phase)
        );
    }
    Ok(())
}

/// Text that ends a run early has to be given.
fn by_held_out(train: &Train, request: &PlanRequest) -> Result<()> {
    let of_recipe = &request.of_recipe;
    for (key, given) in [
        ("patience", of_recipe.patience.is_some()),
        ("held_out_is", of_recipe.held_out_is.is_some()),
    ] {
        if given && train.course.held_out.is_none() {
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
    use reticent_accounting::training::Recipe::{self, Dpsgd, Protect};

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
    const VALUES: [(&str, &str); 25] = [
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
        ("--private-learning-rate", "0.1"),
        ("--private-optimizer", "adam"),
        ("--weight-decay", "0.1 --private-optimizer adamw"),
        ("--first-phase", "direct"),
        ("--first-epochs", "1"),
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
    ];

    /// Options that every recipe uses, or that are judged with the noise (the last three).
    const ALWAYS: [&str; 29] = [
        "config",
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
        "dropout",
        "decay",
        "warmup",
        "held-out",
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

    /// Every option that not every recipe uses, by its flag.
    fn listed() -> Vec<(String, &'static [Recipe])> {
        let train = unused();
        let request = train.request().unwrap();
        let all = by_recipe(&train)
            .into_iter()
            .chain(plan::by_recipe(&request));
        all.map(|(key, _, users)| (format!("--{}", key.replace('_', "-")), users))
            .collect()
    }

    fn unused() -> Box<Train> {
        let line = "audit train p --out o --recipe sgd";
        match Audit::try_parse_from(line.split_whitespace())
            .unwrap()
            .command
        {
            Command::Train(train) => train,
            other => panic!("{other:?}"),
        }
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
            "--recipe jft --sigma 1 --ordinary-batch-size 4 --assume caught",
            "--recipe jft --sigma 1 --first-phase screened --screened f --assume screening",
        ] {
            assert_eq!(judged(line), Ok(()), "{line}");
        }
    }
}
