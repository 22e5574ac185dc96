//! Reads the files that state which example contains which secret and what is promised for each. Files are
//! streamed and treated as untrusted input.

mod csv;
mod jsonl;
#[cfg(feature = "parquet")]
mod parquet;
mod secrets;

pub(crate) use secrets::{Promise, read_secrets};

use anyhow::{Result, bail};
use reticent_accounting::protect::Incidence;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::path::Path;

/// Names in the order of first appearance, each with its index.
#[derive(Debug, Default)]
pub(crate) struct Names {
    indices: HashMap<Box<str>, u32>,
    names: Vec<Box<str>>,
    /// Whether spellings of a value are one name, the first of them.
    folds: bool,
}

impl Names {
    /// No names yet. With a field they are values that people typed, which case, accents and spaces don't distinguish.
    #[must_use]
    pub(crate) fn of(field: Option<&str>) -> Self {
        Self {
            folds: field.is_some(),
            ..Self::default()
        }
    }

    /// What a name is recognised by.
    fn key<'n>(&self, name: &'n str) -> Cow<'n, str> {
        match self.folds {
            true => reticent_disk::folded_word(name, true).into(),
            false => name.into(),
        }
    }

    /// The index of a name, new or known.
    ///
    /// # Errors
    /// Returns an error at 2^32 names.
    pub(crate) fn index(&mut self, name: &str) -> Result<u32> {
        let key = self.key(name);
        if let Some(index) = self.indices.get(&*key) {
            return Ok(*index);
        }
        let Ok(index) = u32::try_from(self.names.len()) else {
            bail!("more than 2^32 names");
        };
        self.indices.insert((*key).into(), index);
        self.names.push(name.into());
        Ok(index)
    }

    /// Returns the index of a known name.
    #[must_use]
    pub(crate) fn get(&self, name: &str) -> Option<u32> {
        self.indices.get(&*self.key(name)).copied()
    }

    /// Returns all names by index.
    #[must_use]
    pub(crate) fn all(&self) -> &[Box<str>] {
        &self.names
    }
}

/// A file format, by the extension of the file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Comma-separated, with a header.
    Csv,
    /// One JSON object per line.
    JsonLines,
    /// Apache Parquet.
    Parquet,
}

impl Kind {
    /// # Errors
    /// Returns an error for an unknown extension.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        Ok(match ending.to_ascii_lowercase().as_str() {
            "csv" => Self::Csv,
            "jsonl" | "ndjson" | "json" => Self::JsonLines,
            "parquet" => Self::Parquet,
            _ => bail!(
                "{}: the name must end in .csv, .jsonl or .parquet, got {ending:?}",
                path.display()
            ),
        })
    }
}

/// A place in a file, for messages.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    path: &'a Path,
    /// The line or row, counted from 1.
    line: u64,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}", self.path.display(), self.line)
    }
}

/// A column of a table or a key of objects, by its names: the first of them that is there is read.
#[derive(Debug)]
struct Column<'n> {
    names: &'n [&'n str],
    /// Whether a table without it is refused; of objects, some may lack it.
    needed: bool,
}

/// What a row has in a column.
#[derive(Debug)]
enum Cell<'r> {
    /// There is no such column or key.
    Absent,
    /// Text or a whole number, which may be a name.
    Name(Cow<'r, str>),
    /// Any other number.
    Number(String),
    /// A list; of null, an empty one.
    List(Vec<Cell<'r>>),
    /// Anything else.
    Other,
}

/// What a name may be, in words.
const NAME: &str = "text or a whole number of at most 64 bits (write any other number as text)";

/// Calls a function for each row of a file with the cells of these columns.
fn rows<const N: usize>(
    path: &Path,
    columns: &[Column<'_>; N],
    each: impl FnMut(Place<'_>, [Cell<'_>; N]) -> Result<()>,
) -> Result<()> {
    match Kind::of(path)? {
        Kind::Csv => csv::rows(path, columns, each),
        Kind::JsonLines => jsonl::rows(path, columns, each),
        #[cfg(feature = "parquet")]
        Kind::Parquet => parquet::rows(path, columns, each),
        #[cfg(not(feature = "parquet"))]
        Kind::Parquet => bail!(no_parquet(path)),
    }
}

/// The contents of an incidence file, with secrets known beforehand or found in it.
#[derive(Debug)]
pub(crate) struct Gathered {
    /// Examples by name; an example without a name is named after its line.
    pub(crate) examples: Names,
    /// Secrets by name.
    pub(crate) secrets: Names,
    pairs: Vec<(u32, u32)>,
    /// The line of each record, by name: if rows are records, two with one name would count as one.
    records: HashMap<Box<str>, u64>,
    /// Whether secrets outside the table are refused.
    closed: bool,
    /// Whether examples without a secret are skipped.
    discards: bool,
}

impl Gathered {
    /// Creates an empty collection. With a table of secrets, only those may occur; `discards` skips examples
    /// without a secret.
    #[must_use]
    pub(crate) fn new(table: Option<Names>, discards: bool) -> Self {
        Self {
            discards,
            examples: Names::default(),
            closed: table.is_some(),
            secrets: table.unwrap_or_default(),
            pairs: Vec::new(),
            records: HashMap::new(),
        }
    }

    /// Reads a whole file.
    ///
    /// # Errors
    /// Returns an error, with file, line and value, if the content is unreadable or malformed or a secret is
    /// not in the table.
    pub(crate) fn read(&mut self, path: &Path, field: Option<&str>) -> Result<()> {
        self.secrets.folds = field.is_some();
        // An object of pairs has a list of secrets, and may call its example id.
        let pairs = field.is_none();
        let objects = Kind::of(path)? == Kind::JsonLines;
        let secret = [field.unwrap_or("secret")];
        let column = |names, needed| Column { names, needed };
        let columns = [
            column(&secret[..], true),
            column(if pairs && objects { &["secrets"] } else { &[] }, false),
            match pairs && !objects {
                true => column(&["example"], true),
                false => column(&["example", "id"], false),
            },
        ];
        rows(path, &columns, |place, [secret, secrets, example]| {
            let given = match example {
                Cell::Absent if pairs => bail!("{place}: no key \"example\""),
                Cell::Absent => None,
                Cell::Name(name) if name.is_empty() => {
                    bail!("{place}: the example has no name; it must not be empty")
                }
                Cell::Name(name) => Some(name),
                _ => bail!("{place}: example must be {NAME}"),
            };
            let example = self.name(given.as_deref(), !pairs, place)?;
            let found = match (secret, secrets) {
                (Cell::Absent, Cell::Absent) if pairs => bail!("{place}: no key \"secrets\""),
                (found, Cell::Absent) | (Cell::Absent, found) => found,
                _ => bail!("{place}: has both keys \"secrets\" and \"secret\"; give one of them"),
            };
            self.enter(&example, None, place)?;
            let list = match found {
                Cell::Absent => Vec::new(),
                Cell::List(list) => list,
                one => vec![one],
            };
            for secret in list {
                match secret {
                    Cell::Name(secret) => self.enter(&example, Some(&secret), place)?,
                    _ => bail!(
                        "{place}: {} must be a list of names or one: {NAME}",
                        field.unwrap_or("secrets")
                    ),
                }
            }
            Ok(())
        })
    }

    /// Returns the name of an example: the given one, or one made from its line. A record's name must be its
    /// own.
    ///
    /// # Errors
    /// Returns an error if a record has the name of another one.
    fn name<'n>(
        &mut self,
        given: Option<&'n str>,
        is_record: bool,
        place: Place<'_>,
    ) -> Result<Cow<'n, str>> {
        let name = given.map_or_else(|| format!("line-{}", place.line).into(), Cow::Borrowed);
        if is_record && let Some(before) = self.records.insert((*name).into(), place.line) {
            match given {
                Some(_) => {
                    bail!("{place}: its id is already that of line {before}; ids must be unique")
                }
                None => bail!(
                    "{place}: it has no id, and {name}, after its line, is that of line {before}; ids must be unique"
                ),
            }
        }
        Ok(name)
    }

    /// Adds one example that contains one secret, or none.
    fn enter(&mut self, example: &str, secret: Option<&str>, place: Place<'_>) -> Result<()> {
        let secret = secret.filter(|secret| !self.secrets.key(secret).is_empty());
        if self.discards && secret.is_none() {
            return Ok(());
        }
        let example = self.examples.index(example)?;
        let Some(secret) = secret else {
            return Ok(());
        };
        let secret = match self.secrets.get(secret) {
            Some(index) => index,
            None if self.closed => {
                bail!("{place}: its secret is not in the table of secrets")
            }
            None => self.secrets.index(secret)?,
        };
        self.pairs.push((example, secret));
        Ok(())
    }

    /// Returns how many of `all` examples are not named.
    ///
    /// # Errors
    /// Returns an error if `all` is less than the number of examples read.
    pub(crate) fn others(&self, all: u64) -> Result<u64> {
        let named = self.examples.all().len() as u64;
        match all.checked_sub(named) {
            Some(others) => Ok(others),
            None => bail!(
                "--dataset-size: must be at least {named}, the examples of the incidence, got {all}"
            ),
        }
    }

    /// Returns the incidence of at least `examples` examples.
    ///
    /// # Errors
    /// Returns an error if fewer examples are allowed than were read.
    pub(crate) fn incidence(&mut self, examples: Option<u64>) -> Result<Incidence> {
        let named = self.examples.all().len() as u64;
        let all = examples.unwrap_or(named);
        self.others(all)?;
        let Ok(all) = u32::try_from(all) else {
            bail!("--dataset-size: must be below 2^32, got {all}");
        };
        let secrets = self.secrets.all().len() as u32;
        Ok(Incidence::new(
            all,
            secrets,
            std::mem::take(&mut self.pairs),
        )?)
    }
}

#[cfg(not(feature = "parquet"))]
pub(super) fn no_parquet(path: &Path) -> String {
    format!(
        "{}: this build has no Parquet; build it with the feature parquet, or use .csv or .jsonl",
        path.display()
    )
}
