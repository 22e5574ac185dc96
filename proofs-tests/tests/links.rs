//! Checks `PROPOSITIONS.md` and `FAULTS.md` against the sources: every test, item and mutant they
//! name exists, every id is unique, every proposition is named by a mutant, and no mutant names
//! anything that doesn't exist.
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn document(name: &str) -> String {
    std::fs::read_to_string(root().join("proofs-tests").join(name)).unwrap()
}

/// Collects every Rust file below a folder, with its path from the root.
fn sources(folder: &Path, into: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                sources(&path, into);
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            into.push((path.strip_prefix(root()).unwrap().to_owned(), text));
        }
    }
}

/// The tests of the workspace: a function's name, with the folders and the file that contain it.
struct Tests(BTreeMap<String, Vec<Vec<String>>>);

impl Tests {
    fn of(sources: &[(PathBuf, String)]) -> Self {
        let mut tests = BTreeMap::<String, Vec<Vec<String>>>::new();
        for (path, text) in sources {
            let stem = path.with_extension("");
            let parts = stem.iter().map(|part| part.to_str().unwrap().to_owned());
            let place: Vec<String> = parts
                .filter(|part| part != "mod" && part != "main")
                .collect();
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            for (at, line) in lines.iter().enumerate() {
                let name = line.strip_prefix("fn ").and_then(|l| l.split_once('('));
                // The argument bounds of a property, or a comment, may be in between.
                let marked = lines[at.saturating_sub(3)..at].contains(&"#[test]");
                if let (Some((name, _)), true) = (name, marked) {
                    tests
                        .entry(name.to_owned())
                        .or_default()
                        .push(place.clone());
                }
            }
        }
        Self(tests)
    }

    /// Checks that `name`, or `module::name` if several modules have one, is exactly one test.
    fn one(&self, link: &str) -> Result<(), String> {
        let mut modules: Vec<&str> = link.split("::").collect();
        let name = modules.pop().unwrap_or_default();
        let of_name = self.0.get(name).map_or(&[][..], Vec::as_slice);
        let ends = |place: &&Vec<String>| {
            place
                .iter()
                .rev()
                .zip(modules.iter().rev())
                .all(|(a, b)| a == b)
        };
        match of_name.iter().filter(ends).count() {
            0 => Err(format!("there is no test {link}")),
            1 => Ok(()),
            several => Err(format!("{several} tests are called {link}")),
        }
    }
}

/// Checks for `path.rs::name` that the file defines the name.
fn defined(link: &str) -> Result<(), String> {
    let (path, name) = link
        .rsplit_once("::")
        .ok_or(format!("{link}: not path.rs::name"))?;
    let text = std::fs::read_to_string(root().join(path)).map_err(|e| format!("{path}: {e}"))?;
    let defines = |line: &str| {
        let kinds = ["fn", "struct", "enum", "const", "type", "trait"];
        kinds.iter().any(|kind| {
            line.find(&format!("{kind} {name}")).is_some_and(|at| {
                let after = line[at + kind.len() + 1 + name.len()..].chars().next();
                let before = line[..at].chars().last();
                let ends = !after.is_some_and(|c| c.is_alphanumeric() || c == '_');
                ends && before.is_none_or(char::is_whitespace)
            })
        })
    };
    let found = text.lines().any(defines);
    found
        .then_some(())
        .ok_or(format!("{path} defines no {name}"))
}

/// Returns the cells of each row of a document's tables, with the heading above the row.
fn rows(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut heading = "";
    let mut rows = Vec::new();
    for line in text.lines() {
        if let Some(new) = line.strip_prefix("## ") {
            heading = new;
        }
        let inside = line.strip_prefix("| ").and_then(|l| l.strip_suffix(" |"));
        let cells: Vec<&str> = inside.map(|i| i.split(" | ").collect()).unwrap_or_default();
        let names_columns = ["id", "fault", "---"];
        if cells
            .first()
            .is_some_and(|first| !names_columns.contains(first))
        {
            rows.push((heading, cells));
        }
    }
    rows
}

/// Returns the parts of a cell between backticks.
fn quoted<'a>(cells: &[&'a str], at: usize) -> Vec<&'a str> {
    cells.get(at).map_or_else(Vec::new, |cell| {
        cell.split('`').skip(1).step_by(2).collect()
    })
}

/// Returns the patches that prove each id: id → patches.
fn proved() -> BTreeMap<String, Vec<String>> {
    let mut named = BTreeMap::<String, Vec<String>>::new();
    for entry in std::fs::read_dir(root().join("mutants")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "patch") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let ids = text
            .lines()
            .filter_map(|line| line.strip_prefix("# proves: "));
        for id in ids.flat_map(str::split_whitespace) {
            let patch = path.file_stem().unwrap().to_string_lossy().into_owned();
            named.entry(id.to_owned()).or_default().push(patch);
        }
    }
    named
}

/// What is wrong with the ids of a document, and with the tests its rows name.
fn of_any_row<'a>(
    rows: impl Iterator<Item = (&'a str, Vec<&'a str>)>,
    tests: &Tests,
) -> (BTreeSet<&'a str>, Vec<String>) {
    let mut problems = Vec::new();
    let mut ids = BTreeSet::new();
    for (id, named) in rows {
        if !ids.insert(id) {
            problems.push(format!("{id}: twice"));
        }
        if named.is_empty() {
            problems.push(format!("{id}: no test"));
        }
        let wrong = named.into_iter().filter_map(|link| tests.one(link).err());
        problems.extend(wrong.map(|problem| format!("{id}: {problem}")));
    }
    (ids, problems)
}

fn of_propositions(
    text: &str,
    proved: &BTreeMap<String, Vec<String>>,
    tests: &Tests,
) -> Vec<String> {
    // Rows about traps and about numbers of audits name no code.
    let short = |heading: &str| heading.starts_with("Traps") || heading.starts_with("Numbers");
    let rows = rows(text);
    let each = rows
        .iter()
        .map(|(heading, cells)| (cells[0], quoted(cells, if short(heading) { 2 } else { 4 })));
    let (ids, mut problems) = of_any_row(each, tests);
    for (heading, cells) in &rows {
        let (id, wanted) = (cells[0], if short(heading) { 3 } else { 6 });
        if cells.len() != wanted {
            problems.push(format!("{id}: {} cells, not {wanted}", cells.len()));
        }
        if short(heading) {
            continue;
        }
        let code = quoted(cells, 3);
        if code.is_empty() {
            problems.push(format!("{id}: no code"));
        }
        if !proved.contains_key(id) {
            problems.push(format!("{id}: no mutant names it"));
        }
        let wrong = code.into_iter().filter_map(|link| defined(link).err());
        problems.extend(wrong.map(|problem| format!("{id}: {problem}")));
    }
    let unknown = proved.iter().filter(|(id, _)| !ids.contains(id.as_str()));
    problems.extend(unknown.map(|(id, by)| format!("{by:?} prove {id}, which is not listed")));
    problems
}

fn of_faults(text: &str, tests: &Tests) -> Vec<String> {
    let rows = rows(text);
    let each = rows.iter().map(|(_, cells)| (cells[0], quoted(cells, 2)));
    let (ids, mut problems) = of_any_row(each, tests);
    for (_, cells) in &rows {
        let mutants = quoted(cells, 3);
        if mutants.is_empty() {
            problems.push(format!("{}: no mutant", cells[0]));
        }
        let is_missing = |m: &&str| !root().join("mutants").join(format!("{m}.patch")).is_file();
        let missing = mutants.into_iter().filter(is_missing);
        problems.extend(missing.map(|m| format!("{}: there is no mutant {m}", cells[0])));
    }
    // Those of gradients, sampling, noise, ledger and recipes, and four of the checkpoint.
    let unlisted = (1..=26).filter(|fault| !ids.contains(fault.to_string().as_str()));
    problems.extend(unlisted.map(|fault| format!("{fault}: not listed")));
    problems
}

#[test]
fn every_link_of_the_documents_holds() {
    let mut found = Vec::new();
    for room in [
        "accounting",
        "attacks",
        "backends",
        "corpus",
        "proofs-tests",
        "reports",
    ] {
        sources(&root().join(room), &mut found);
    }
    let tests = Tests::of(&found);
    assert!(
        tests.0.len() > 1500,
        "only {} tests were found",
        tests.0.len()
    );
    let propositions = document("PROPOSITIONS.md");
    assert!(rows(&propositions).len() > 60);
    assert_eq!(
        of_propositions(&propositions, &proved(), &tests),
        Vec::<String>::new()
    );
    assert_eq!(
        of_faults(&document("FAULTS.md"), &tests),
        Vec::<String>::new()
    );
}

/// The files that a walkthrough names exist.
#[test]
fn every_file_that_contributing_names_is_there() {
    let mut files = Vec::new();
    sources(&root(), &mut files);
    let text = std::fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let quoted = text.split('`').skip(1).step_by(2);
    let named: Vec<&str> = quoted.filter(|name| name.ends_with(".rs")).collect();
    assert!(named.len() > 15, "{named:?}");
    let missing = |name: &&&str| !files.iter().any(|(path, _)| path.ends_with(name));
    let missing: Vec<&&str> = named.iter().filter(missing).collect();
    assert_eq!(missing, Vec::<&&str>::new());
}

/// Two links of PROPOSITIONS.md left out their `../`.
#[test]
fn every_file_that_a_page_links_to_is_there() {
    let mut links = 0;
    for folder in [
        ".",
        "benches/results",
        "cluster",
        "docs/src",
        "docs/src/papers",
        "docs/src/reference",
        "proofs-tests",
        "python",
        "schemas",
    ] {
        let folder = root().join(folder);
        for entry in std::fs::read_dir(&folder).unwrap() {
            let page = entry.unwrap().path();
            if page.extension().is_none_or(|end| end != "md") {
                continue;
            }
            let text = std::fs::read_to_string(&page).unwrap();
            for rest in text.split("](").skip(1) {
                let link = rest.split([')', '#']).next().unwrap_or_default();
                if !link.is_empty() && !link.starts_with("http") {
                    links += 1;
                    assert!(folder.join(link).exists(), "{}: {link}", page.display());
                }
            }
        }
    }
    assert!(links > 50, "only {links} links were found");
}

#[test]
fn a_missing_link_is_noticed() {
    let file = |path: &str, text: &str| (PathBuf::from(path), text.to_owned());
    let tests = Tests::of(&[
        file(
            "a/tests/one.rs",
            "fn none() {}\n#[test]\nfn alone() {}\n#[test]\nfn both() {}",
        ),
        file("a/tests/two/mod.rs", "    #[test]\n    fn both() {}"),
    ]);
    assert_eq!(tests.one("two::both"), Ok(()));
    assert_eq!(tests.one("both"), Err("2 tests are called both".into()));

    let code = "proofs-tests/tests/links.rs";
    let row =
        |id: &str, code: &str, test: &str| format!("| {id} | s | s | `{code}` | `{test}` | t |\n");
    let good = row("X-1", &format!("{code}::Tests"), "alone");
    let named = BTreeMap::from([("X-1".to_owned(), vec!["patch".to_owned()])]);
    assert_eq!(of_propositions(&good, &named, &tests), Vec::<String>::new());
    let wrong = |text: String, part: &str| {
        let found = of_propositions(&text, &named, &tests);
        assert!(found.iter().any(|p| p.contains(part)), "{part}: {found:?}");
    };
    wrong(good.clone() + &good, "twice");
    wrong(
        row("X-2", &format!("{code}::Tests"), "none"),
        "there is no test none",
    );
    wrong(row("X-2", "nowhere.rs::f", "alone"), "nowhere.rs");
    wrong(
        row("X-1", &format!("{code}::Tes"), "alone"),
        "defines no Tes",
    );
    wrong(row("X-2", "x.rs::f", "alone"), "no mutant names it");
    wrong("| X-1 | s | s |\n".into(), "3 cells");
    wrong(String::new(), "not listed");

    let row = |test: &str, mutant: &str| format!("| 5 | what | `{test}` | `{mutant}` |");
    let good = row("one::both", "no-clipping");
    let found =
        |text: &str, part: &str| of_faults(text, &tests).iter().any(|p| p.starts_with(part));
    assert!(!found(&good, "5:") && found(&good, "26: not listed"));
    assert!(found(&row("none", "no-clipping"), "5: there is no test"));
    assert!(found(
        &row("alone", "nothing"),
        "5: there is no mutant nothing"
    ));
    assert!(found(&format!("{good}\n{good}"), "5: twice"));
    assert!(found("| 5 | what |  | `no-clipping` |", "5: no test"));
    assert!(found("| 5 | what | `alone` |  |", "5: no mutant"));
}
