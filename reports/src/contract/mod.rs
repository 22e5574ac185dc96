//! The contract that both commands keep.
//!
//! Data goes to stdout, everything else to stderr. A command ends with [`Exit`] (0 or 1) or
//! with an error (2, or 130 after an interruption). A file it writes is whole or absent.

mod csv;
mod definition;
mod envelope;
mod exit;
mod failure;
mod files;
mod folder;
mod format;
mod inputs;
#[cfg(feature = "findings")]
mod interrupt;
mod json;
mod outputs;
mod parse;
#[cfg(feature = "findings")]
mod progress;
mod spelled;
mod stdout;
mod table;
mod toml_place;
mod values;

/// What `--version` prints after the command's name, since other programs are called `audit` too.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (Reticent)");

pub use csv::Csv;
pub(crate) use csv::{TableFile, csv_line, csv_problem, open_table};
pub use definition::{Completions, ManualPage};
pub use envelope::{Envelope, Inputs, SCHEMA};
pub use exit::Exit;
#[cfg(feature = "findings")]
pub(crate) use exit::{judges, kept};
pub(crate) use exit::{not_known, open_limit};
pub use failure::{Interrupted, describe, fail};
#[cfg(feature = "findings")]
pub use files::read_regular_text;
pub use files::{
    AtomicFile, is_stdout, is_stream, no_stream, read_named_text, read_text, write_file,
};
pub(crate) use files::{is_prepared, unmarked};
pub use folder::OutputFolder;
pub use format::Format;
#[cfg(feature = "findings")]
pub use interrupt::Interrupt;
pub(crate) use json::is_zero;
#[cfg(feature = "findings")]
pub(crate) use json::{counted, without_content};
pub use json::{json_problem, numbered_lines, read_json, read_json_line};
pub(crate) use outputs::MARK;
#[cfg(feature = "findings")]
pub(crate) use parse::usage_error;
pub use parse::{main, parse_from};
#[cfg(feature = "findings")]
pub use progress::Progress;
pub(crate) use spelled::in_words;
pub use spelled::{Number, to_json};
#[cfg(feature = "findings")]
pub use stdout::{JsonStream, Screen};
pub(crate) use stdout::{in_one_line, note_to_terminal};
pub use stdout::{note, print, print_json, printable, printable_json};
pub(crate) use table::dash;
pub use table::{Align, Rows, Table};
pub use toml_place::read_toml;
#[cfg(feature = "findings")]
pub use toml_place::{toml_line, toml_with_counts};
#[cfg(feature = "findings")]
pub(crate) use values::EXPOSURE_LIMIT;
pub(crate) use values::finite;
pub use values::{
    exposure_limit, limit, number_within, positive, positive_number, quantity, step_count,
    steps_if_any, whole_within,
};
