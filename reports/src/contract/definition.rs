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

    fn page(subcommand: Option<&str>) -> Result<String> {
        let asked = ManualPage {
            subcommand: subcommand.map(str::to_owned),
        };
        let mut page = Vec::new();
        clap_mangen::Man::new(asked.find(Account::command())?).render(&mut page)?;
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
}
