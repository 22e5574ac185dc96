//! The reference of the commands in the book, generated from their clap definitions.

use crate::account::args::Account;
use crate::generated;
use clap::{Arg, ArgAction, Command, CommandFactory};
use std::fmt::Write;
use std::path::{Path, PathBuf};

#[test]
fn the_reference_is_that_of_the_definitions() {
    generated::keep(&page("account"), &reference(Account::command()));
    #[cfg(feature = "audit")]
    generated::keep(
        &page("audit"),
        &reference(crate::audit::args::Audit::command()),
    );
}

fn page(command: &str) -> PathBuf {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/reference");
    book.join(format!("{command}.md"))
}

/// Returns a page: the command, and a section for each of its subcommands.
fn reference(mut command: Command) -> String {
    command.build();
    let mut out = String::new();
    describe(&command, 1, &mut out);
    out
}

fn describe(command: &Command, depth: usize, out: &mut String) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    writeln!(out, "{} {name}\n", "#".repeat(depth)).unwrap();
    let about = command.get_long_about().or(command.get_about());
    writeln!(out, "{}\n", sentences(about)).unwrap();
    writeln!(out, "```text\n{usage}\n```\n").unwrap();
    let shown = |arg: &&Arg| {
        let common = arg.is_global_set() && depth > 1;
        let generated = matches!(arg.get_action(), ArgAction::Help | ArgAction::Version);
        !arg.is_hide_set() && !common && !generated
    };
    let arguments: Vec<&Arg> = command.get_arguments().filter(shown).collect();
    for argument in &arguments {
        out.push_str(&line(argument));
    }
    if !arguments.is_empty() {
        out.push('\n');
    }
    if let Some(after) = command.get_after_long_help().or(command.get_after_help()) {
        for part in after.to_string().trim().split("\n\n") {
            let listing = part.contains("\n  ");
            match listing {
                true => writeln!(out, "```text\n{part}\n```\n").unwrap(),
                false => writeln!(out, "{}\n", escaped(&joined(part))).unwrap(),
            }
        }
    }
    let commands = command.get_subcommands().filter(|c| c.get_name() != "help");
    for inner in commands {
        describe(inner, depth + 1, out);
    }
    // The page ends in a single line break.
    let end = out.trim_end().len();
    out.truncate(end + 1);
    if depth > 1 {
        out.push('\n');
    }
}

/// Returns the line of an argument: its name, its meaning and its values.
fn line(argument: &Arg) -> String {
    let mut name = argument.to_string();
    if let Some(short) = argument.get_short() {
        name = format!("-{short}, {name}");
    }
    let mut said = sentences(argument.get_long_help().or(argument.get_help()));
    let takes = argument.get_action().takes_values();
    let default = argument.get_default_values().iter();
    let default: Vec<_> = default.map(|value| value.to_string_lossy()).collect();
    if takes && !default.is_empty() && !argument.is_hide_default_value_set() {
        said = format!("{said} \\[default: {}]", default.join(","));
    }
    let mut out = format!("- `{name}`: {said}.\n");
    let values = argument.get_possible_values();
    let shown = takes && !argument.is_hide_possible_values_set();
    for value in values.iter().filter(|value| shown && !value.is_hide_set()) {
        let help = value
            .get_help()
            .map(|help| format!(": {}", sentences(Some(help))));
        writeln!(
            out,
            "  - `{}`{}",
            value.get_name(),
            help.unwrap_or_default()
        )
        .unwrap();
    }
    out
}

fn sentences(text: Option<&clap::builder::StyledStr>) -> String {
    text.map_or_else(String::new, |text| escaped(&joined(&text.to_string())))
}

fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Escapes `<`, which would otherwise begin a tag; text between backticks stays unchanged.
fn escaped(text: &str) -> String {
    let parts = text
        .split('`')
        .enumerate()
        .map(|(number, part)| match number % 2 {
            0 => part.replace('<', "\\<").replace('[', "\\["),
            _ => part.to_owned(),
        });
    parts.collect::<Vec<_>>().join("`")
}
