//! Which options of `audit train` a run uses. One that would change nothing is refused: whoever
//! gives it believes that it does.

use super::{
    Assumption, FirstPhaseArg, ModelArg, OptimizerArg, Recipe,
    Recipe::{Crt, Dpsgd, Jft, Protect, Sdp, Sgd},
    Train,
};
use anyhow::{Result, bail};
use clap::ValueEnum;

/// Recipes with clipped and noised steps.
const NOISED: &[Recipe] = &[Dpsgd, Crt, Sdp, Jft, Protect];

/// An option that not every recipe uses: its name, whether it was given, and who uses it.
pub(super) type Use = (&'static str, bool, &'static [Recipe]);

/// All of them. `--sigma`, `--epsilon` and `--delta` are judged with the noise.
pub(super) fn by_recipe(asked: &Train) -> Vec<Use> {
    let more = &asked.of_recipe;
    vec![
        ("--batch-size", asked.batch_size.is_some(), &[Sgd, Crt, Jft]),
        ("--public-passes", asked.public_passes.is_some(), &[Crt]),
        (
            "--learning-rate",
            asked.learning_rate.is_some(),
            &[Sgd, Crt, Sdp, Jft],
        ),
        ("--sample-rate", asked.sample_rate.is_some(), NOISED),
        ("--clip", asked.clip.is_some(), NOISED),
        ("--clipping", more.clipping.is_some(), NOISED),
        (
            "--private-learning-rate",
            asked.private_learning_rate.is_some(),
            NOISED,
        ),
        (
            "--private-optimizer",
            more.private_optimizer.is_some(),
            NOISED,
        ),
        ("--weight-decay", more.weight_decay.is_some(), NOISED),
        ("--first-phase", more.first_phase.is_some(), &[Jft]),
        ("--first-epochs", more.first_epochs.is_some(), &[Jft]),
        ("--first-sigma", more.first_sigma.is_some(), &[Jft]),
        ("--token-miss", !more.token_miss.is_empty(), &[Jft]),
        ("--screened", more.screened.is_some(), &[Jft]),
        ("--state-sigma", more.state_sigma.is_some(), &[Sdp]),
        ("--state-norm", more.state_norm.is_some(), &[Sdp]),
        ("--weights", more.weights.is_some(), &[Protect]),
        ("--incidence", more.incidence.is_some(), &[Protect]),
        ("--assume", !more.assume.is_empty(), &[Jft, Sdp]),
    ]
}

/// Whether every option that was given changes something.
///
/// # Errors
/// The first that does not, with where it belongs.
pub(super) fn all_used(asked: &Train) -> Result<()> {
    for (flag, given, users) in by_recipe(asked) {
        if given && !users.contains(&asked.recipe) {
            bail!(
                "{flag}: belongs to {}, got {}",
                said(users),
                asked.recipe.name()
            );
        }
    }
    by_model(asked)?;
    by_optimizer(asked)?;
    by_first_phase(asked)
}

/// `the recipe crt`, `the recipes sgd, crt and jft`.
fn said(recipes: &[Recipe]) -> String {
    let names: Vec<&str> = recipes.iter().map(|r| r.name()).collect();
    match names.split_last() {
        Some((last, [])) => format!("the recipe {last}"),
        Some((last, others)) => format!("the recipes {} and {last}", others.join(", ")),
        None => "no recipe".to_owned(),
    }
}

fn name<V: ValueEnum>(value: V) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |v| v.get_name().to_owned())
}

/// Sizes are those of a fresh transformer; a folder has its own.
fn by_model(asked: &Train) -> Result<()> {
    let start = &asked.start;
    if start.declared_public && !matches!(start.model, ModelArg::Folder(_)) {
        bail!(
            "--declared-public: belongs to a folder as --model, got {}",
            start.model
        );
    }
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

fn by_optimizer(asked: &Train) -> Result<()> {
    let optimizer = asked.of_recipe.private_optimizer.unwrap_or_default();
    if asked.of_recipe.weight_decay.is_some() && optimizer != OptimizerArg::Adamw {
        bail!(
            "--weight-decay: belongs to --private-optimizer adamw, got {}",
            name(optimizer)
        );
    }
    Ok(())
}

/// What only some first phases of jft use. With another recipe none of it is given.
fn by_first_phase(asked: &Train) -> Result<()> {
    use FirstPhaseArg::{ConservativeLightNoise, Direct, LightNoise, Screened};
    let more = &asked.of_recipe;
    let phase = more.first_phase.unwrap_or_default();
    let ordinary_batch = asked.recipe == Jft && asked.batch_size.is_some();
    let screening = more.assume.contains(&Assumption::Screening);
    let users: [(&str, bool, &[FirstPhaseArg]); 5] = [
        (
            "--first-sigma",
            more.first_sigma.is_some(),
            &[LightNoise, ConservativeLightNoise],
        ),
        ("--token-miss", !more.token_miss.is_empty(), &[LightNoise]),
        ("--screened", more.screened.is_some(), &[Screened]),
        ("--batch-size", ordinary_batch, &[Direct, Screened]),
        ("--assume screening", screening, &[Screened]),
    ];
    for (flag, given, phases) in users {
        if given && !phases.contains(&phase) {
            let phases: Vec<String> = phases.iter().map(|p| name(*p)).collect();
            bail!(
                "{flag}: belongs to --first-phase {} of the recipe jft, got {}",
                phases.join(" or "),
                name(phase)
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Audit, Command};
    use super::*;
    use clap::{CommandFactory, Parser};

    /// What each recipe cannot do without.
    const RECIPES: [(Recipe, &[&str]); 6] = [
        (Sgd, &[]),
        (Dpsgd, &["--sigma 1"]),
        (Crt, &["--sigma 1"]),
        (Sdp, &["--sigma 1", "--state-sigma 1"]),
        (Jft, &["--sigma 1"]),
        (Protect, &["--sigma 1", "--weights w", "--incidence i"]),
    ];

    /// A value of every option that not every recipe uses, with what else it needs.
    const VALUES: [(&str, &str); 19] = [
        ("--batch-size", "4"),
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
    const ALWAYS: [&str; 25] = [
        "out",
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
            Ok(Command::Train(train)) => train.noise().map(|_| ()).map_err(|e| e.to_string()),
            other => panic!("{line}: {other:?}"),
        }
    }

    fn unused() -> Train {
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
        for (flag, _, users) in by_recipe(&unused()) {
            let (_, value) = VALUES.iter().find(|(f, _)| *f == flag).unwrap();
            for (recipe, needs) in RECIPES {
                let others = needs.iter().filter(|n| !n.starts_with(flag));
                let needs = others.copied().collect::<Vec<_>>().join(" ");
                let line = format!("--recipe {} {needs} {flag} {value}", recipe.name());
                let said = judged(&line);
                if users.contains(&recipe) {
                    assert_eq!(said, Ok(()), "{line}");
                } else {
                    let error = said.unwrap_err();
                    let names = users.iter().all(|r| error.contains(r.name()));
                    let got = error.ends_with(&format!(", got {}", recipe.name()));
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
        let listed = by_recipe(&unused());
        for option in train.get_arguments() {
            let name = option
                .get_long()
                .unwrap_or_else(|| option.get_id().as_str());
            let someones = listed.iter().any(|(flag, _, _)| &flag[2..] == name);
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
                "--recipe sgd --declared-public",
                ["--declared-public", "folder", "lstm"],
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
                "--recipe jft --sigma 1 --first-phase light-noise --batch-size 4",
                ["--batch-size", "direct or screened", "got light-noise"],
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
            "--recipe jft --sigma 1 --batch-size 4 --assume caught",
            "--recipe jft --sigma 1 --first-phase screened --screened f --assume screening",
        ] {
            assert_eq!(judged(line), Ok(()), "{line}");
        }
    }
}
