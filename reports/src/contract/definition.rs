//! Shell completions and manual pages, generated from a command's definition.

use super::print;
use anyhow::{Result, bail};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Arguments of `completions`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Completions {
    /// Shell to complete for.
    #[arg(value_enum)]
    pub shell: Shell,
}

impl Completions {
    /// Writes the completions of the command `C` to stdout.
    ///
    /// # Errors
    /// Returns an error if stdout can't be written.
    pub fn run<C: CommandFactory>(&self) -> std::io::Result<()> {
        let mut command = C::command();
        let name = command.get_name().to_owned();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        print(&String::from_utf8_lossy(&script))
    }
}

/// Arguments of `man`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ManualPage {
    /// Subcommand; the command itself if absent.
    #[arg(value_name = "COMMAND")]
    pub subcommand: Option<String>,
}

impl ManualPage {
    /// Writes the manual page of the command `C`, or of one of its subcommands, to stdout as roff.
    ///
    /// # Errors
    /// Returns an error if `C` has no such subcommand or stdout can't be written.
    pub fn run<C: CommandFactory>(&self) -> Result<()> {
        let mut page = Vec::new();
        clap_mangen::Man::new(self.find(C::command())?).render(&mut page)?;
        Ok(print(&String::from_utf8_lossy(&page))?)
    }

    fn find(&self, mut whole: clap::Command) -> Result<clap::Command> {
        whole.build(); // so that a subcommand knows the name it is called by and the global options
        let Some(wanted) = &self.subcommand else {
            return Ok(whole);
        };
        if let Some(found) = whole.find_subcommand(wanted) {
            return Ok(found.clone());
        }
        let names: Vec<&str> = whole
            .get_subcommands()
            .map(clap::Command::get_name)
            .collect();
        bail!(
            "COMMAND: must be one of {}, got {wanted:?}",
            names.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::args::Account;
    use clap::builder::ValueParser;
    use clap::error::ErrorKind;
    use clap::{Arg, Command};

    fn page(subcommand: Option<&str>) -> Result<String> {
        let wanted = ManualPage {
            subcommand: subcommand.map(str::to_owned),
        };
        let mut page = Vec::new();
        clap_mangen::Man::new(wanted.find(Account::command())?).render(&mut page)?;
        Ok(String::from_utf8(page)?)
    }

    #[test]
    fn every_command_has_a_page_with_its_options_and_its_example() {
        let whole = page(None).unwrap();
        assert!(whole.contains(".TH account 1") && whole.contains("\\-\\-sigma"));
        for command in Account::command().get_subcommands() {
            let name = command.get_name();
            assert!(whole.contains(&format!("account\\-{name}(1)")), "{name}");
            let own = page(Some(name)).unwrap();
            assert!(own.contains(&format!(".TH account-{name} 1")), "{own}");
            assert!(own.contains("Example"), "{name}");
        }
    }

    #[test]
    fn an_unknown_command_is_named_with_those_that_are_there() {
        let error = page(Some("curves")).unwrap_err().to_string();
        assert!(error.contains("curve, plan") && error.ends_with("got \"curves\""));
    }

    /// How a command takes these options, whatever their values, with nothing else required.
    fn taken(command: &Command, options: &[&Arg]) -> Option<ErrorKind> {
        let mut words = vec!["command".to_owned()];
        for option in options {
            words.extend(option.get_long().map(|long| format!("--{long}")));
            words.extend(option.get_action().takes_values().then(|| "x".to_owned()));
        }
        command
            .clone()
            .try_get_matches_from(words)
            .err()
            .map(|error| error.kind())
    }

    /// Where A requires B, and C excludes B, clap takes A and C without B: A is ignored. A has to exclude C as well.
    #[test]
    fn no_option_is_taken_without_what_it_requires() {
        let mut ignored = Vec::new();
        let mut commands = vec![Account::command()];
        #[cfg(feature = "audit")]
        commands.push(crate::audit::args::Audit::command());
        let subcommands = commands.iter().flat_map(Command::get_subcommands);
        for command in commands.iter().chain(subcommands) {
            let groups: Vec<_> = command.get_groups().cloned().collect();
            let mut command = command.clone().mut_args(|option| {
                let option = option.required(false);
                match option.get_action().takes_values() {
                    true => option.value_parser(ValueParser::string()),
                    false => option,
                }
            });
            for group in &groups {
                command = command.mut_group(group.get_id(), |group| group.required(false));
            }
            let together = |a: &Arg, b: &Arg| {
                groups.iter().any(|group| {
                    let has = |arg: &Arg| group.get_args().any(|id| id == arg.get_id());
                    !group.clone().is_multiple() && has(a) && has(b)
                })
            };
            let options: Vec<Arg> = command.get_arguments().cloned().collect();
            for option in &options {
                if taken(&command, &[option]) != Some(ErrorKind::MissingRequiredArgument) {
                    continue;
                }
                let enough: Vec<&Arg> = options
                    .iter()
                    .filter(|other| taken(&command, &[option, other]).is_none())
                    .collect();
                for (at, first) in enough.iter().enumerate() {
                    for second in &enough[at + 1..] {
                        let conflict =
                            taken(&command, &[first, second]) == Some(ErrorKind::ArgumentConflict);
                        // Both are what a plan is for.
                        let stages = option.get_id() == "plan" && first.get_id() == "stage";
                        if conflict && !together(first, second) && !stages {
                            ignored.push(format!(
                                "{}: {} with {} or {}",
                                command.get_name(),
                                option.get_id(),
                                first.get_id(),
                                second.get_id()
                            ));
                        }
                    }
                }
            }
        }
        assert!(ignored.is_empty(), "{ignored:#?}");
    }
}
