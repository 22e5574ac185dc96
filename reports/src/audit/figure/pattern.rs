//! Patterns of file names that tell what a document stands for.

use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A path whose file name has placeholders: `runs/{line}-{x}-{}.json`.
///
/// `{x}` is a number, as long as possible; `{line}` and `{}` are any non-empty text, as short as
/// the rest allows.
///
/// ```
/// use reticent_reports::audit::figure::Pattern;
/// let pattern: Pattern = "runs/{line}-{x}-{}.json".parse()?;
/// let name = pattern.read("dp-sgd-0.1-seed3.json").ok_or("no match")?;
/// assert_eq!((name.line.as_str(), name.x), ("dp-sgd", Some(0.1)));
/// assert!(pattern.read("notes.txt").is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    folder: PathBuf,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Line,
    X,
    Any,
}

/// The values of a file name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Name {
    /// The line of the figure; empty if the pattern has none.
    pub line: String,
    /// The position on the horizontal axis.
    pub x: Option<f64>,
}

impl FromStr for Pattern {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let path = Path::new(text);
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or("must end in a file name")?;
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        if folder.to_string_lossy().contains(['{', '}']) {
            return Err("{line}, {x} and {} belong in the file name, not in a folder's".into());
        }
        let mut parts = Vec::new();
        let mut rest = name;
        while let Some((before, after)) = rest.split_once('{') {
            let (inside, after) = after.split_once('}').ok_or("a { is not closed")?;
            if !before.is_empty() {
                parts.push(Part::Text(before.into()));
            }
            parts.push(match inside {
                "line" => Part::Line,
                "x" => Part::X,
                "" => Part::Any,
                other => {
                    return Err(format!(
                        "must hold {{line}}, {{x}} and {{}} only, got {{{other}}}"
                    ));
                }
            });
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.into()));
        }
        for (part, named) in [(Part::Line, "{line}"), (Part::X, "{x}")] {
            if parts.iter().filter(|p| **p == part).count() > 1 {
                return Err(format!("{named} may occur in it once"));
            }
        }
        Ok(Self { folder, parts })
    }
}

impl Pattern {
    /// Returns whether names contain the position on the horizontal axis.
    #[must_use]
    pub fn names_x(&self) -> bool {
        self.parts.contains(&Part::X)
    }

    /// Returns the values of a file name; `None` if it doesn't match.
    #[must_use]
    pub fn read(&self, name: &str) -> Option<Name> {
        fit(&self.parts, name, None, &mut BTreeSet::new())
    }

    /// Returns the values of a file name in which `{line}` is a known text; `None` if it doesn't match so.
    ///
    /// ```
    /// use reticent_reports::audit::figure::Pattern;
    /// let pattern: Pattern = "runs/{line}-{x}-{}.json".parse()?;
    /// let name = pattern.read_line("crt-2-0.1-seed3.json", "crt-2").ok_or("no match")?;
    /// assert_eq!((name.line.as_str(), name.x), ("crt-2", Some(0.1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn read_line(&self, name: &str, line: &str) -> Option<Name> {
        fit(&self.parts, name, Some(line), &mut BTreeSet::new())
    }

    /// Returns the files that match, in the order of their names.
    ///
    /// # Errors
    /// Returns an error if the folder can't be read or nothing in it matches.
    pub fn files(&self) -> Result<Vec<(PathBuf, Name)>> {
        let here = Path::new(".");
        let folder = if self.folder.as_os_str().is_empty() {
            here
        } else {
            &self.folder
        };
        let entries = std::fs::read_dir(folder)
            .with_context(|| format!("PATTERN: cannot read the folder {}", folder.display()))?;
        let mut found = Vec::new();
        let mut others = 0_u64;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
            let name = entry.file_name();
            match name.to_str().and_then(|name| self.read(name)) {
                Some(name) => found.push((self.folder.join(entry.file_name()), name)),
                None => others += 1,
            }
        }
        if found.is_empty() {
            bail!(
                "PATTERN: none of the {others} entries of {} matches",
                folder.display()
            );
        }
        ensure!(
            found.len() <= LARGEST,
            "PATTERN: matches {} files, at most {LARGEST} are read",
            found.len()
        );
        found.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(found)
    }
}

/// The most documents in a figure.
const LARGEST: usize = 100_000;

/// Matches the rest of a name with the rest of the pattern, with `{line}` as this text if given. `dead` holds how many parts
/// and bytes were left where nothing matched: each such place is tried once, whatever the number of placeholders.
fn fit(
    parts: &[Part],
    name: &str,
    known: Option<&str>,
    dead: &mut BTreeSet<(usize, usize)>,
) -> Option<Name> {
    let place = (parts.len(), name.len());
    if dead.contains(&place) {
        return None;
    }
    let found = fit_here(parts, name, known, dead);
    if found.is_none() {
        dead.insert(place);
    }
    found
}

fn fit_here(
    parts: &[Part],
    name: &str,
    known: Option<&str>,
    dead: &mut BTreeSet<(usize, usize)>,
) -> Option<Name> {
    let Some((part, rest)) = parts.split_first() else {
        return name.is_empty().then(Name::default);
    };
    let ends = || name.char_indices().map(|(at, c)| at + c.len_utf8());
    match part {
        Part::Text(text) => fit(rest, name.strip_prefix(text.as_str())?, known, dead),
        Part::Any => ends().find_map(|end| fit(rest, &name[end..], known, dead)),
        Part::Line => ends().find_map(|end| {
            let line = &name[..end];
            if known.is_some_and(|known| known != line) {
                return None;
            }
            fit(rest, &name[end..], known, dead).map(|found| Name {
                line: line.to_owned(),
                ..found
            })
        }),
        Part::X => {
            let longest = name.find(|c: char| !"+-.0123456789eE".contains(c));
            let longest = longest.unwrap_or(name.len());
            (1..=longest).rev().find_map(|end| {
                let x: f64 = name[..end].parse().ok().filter(|x: &f64| x.is_finite())?;
                fit(rest, &name[end..], known, dead).map(|found| Name {
                    x: Some(x),
                    ..found
                })
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pattern: &str, name: &str) -> Option<(String, Option<f64>)> {
        let found = pattern.parse::<Pattern>().unwrap().read(name)?;
        Some((found.line, found.x))
    }

    #[test]
    fn names_are_read_as_people_write_them() {
        let cases = [
            ("{line}-{x}-{}.json", "crt-0.5-1.json", ("crt", Some(0.5))),
            (
                "{line}-{x}-{}.json",
                "dp-sgd-1e-3-7.json",
                ("dp-sgd", Some(1e-3)),
            ),
            (
                "{line}_{x}.json",
                "no_dedup_10.json",
                ("no_dedup", Some(10.0)),
            ),
            ("g{x}-{line}.json", "g01-crt.json", ("crt", Some(1.0))),
            ("{line}.json", "sgd.json", ("sgd", None)),
            ("{x}.json", "-2.json", ("", Some(-2.0))),
            ("é{line}.json", "éü.json", ("ü", None)),
        ];
        for (pattern, name, (line, x)) in cases {
            assert_eq!(read(pattern, name), Some((line.into(), x)), "{name}");
        }
        for (pattern, name) in [
            ("{line}-{x}.json", "crt-many.json"),
            ("{line}-{x}.json", "-0.1.json"),
            ("{line}-{x}.json", "crt-0.1.json.bak"),
            ("{x}.json", "inf.json"),
            ("a.json", "b.json"),
        ] {
            assert_eq!(read(pattern, name), None, "{name}");
        }
    }

    /// Every placeholder multiplied the ways to try by the length of the name: this took minutes.
    #[test]
    fn a_name_that_does_not_match_is_given_up_at_once() {
        let name = "a-".repeat(120);
        assert_eq!(read("{}-{}-{}-{}-{}-{}-{line}-{x}.json", &name), None);
        let named = format!("{name}b-3.json");
        let found = read("{}-{}-{}-{}-{}-{}-{line}-{x}.json", &named).unwrap();
        assert_eq!(found.1, Some(3.0));
    }

    #[test]
    fn patterns_that_mean_nothing_are_refused() {
        for (pattern, says) in [
            ("{y}.json", "{y}"),
            ("{line.json", "not closed"),
            ("{x}-{x}.json", "once"),
            ("runs-{x}/a.json", "folder"),
            ("..", "file name"),
        ] {
            let error = pattern.parse::<Pattern>().unwrap_err();
            assert!(error.contains(says), "{pattern}: {error}");
        }
    }
}
