//! `PROPOSITIONS.md` against the sources: every item and test it names exists, every id is unique,
//! every proposition is named by a mutant, and no mutant names what isn't there.
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A row of the document: its id, the sources it names as code, the tests. Rows of traps and of
/// numbers of audits name no code.
#[derive(Debug)]
struct Row {
    id: String,
    cells: usize,
    code: Vec<String>,
    tests: Vec<String>,
    trap: bool,
}

/// The parts of a cell between backticks.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

fn rows(text: &str) -> Vec<Row> {
    let mut trap = false;
    let mut rows = Vec::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            trap = heading.starts_with("Traps") || heading.starts_with("Numbers");
        }
        let Some(inside) = line.strip_prefix("| ").and_then(|l| l.strip_suffix(" |")) else {
            continue;
        };
        let cells: Vec<&str> = inside.split(" | ").collect();
        if cells[0] == "id" {
            continue;
        }
        let (code, tests) = if trap { (1, 2) } else { (3, 4) };
        rows.push(Row {
            id: cells[0].to_owned(),
            cells: cells.len(),
            code: if trap {
                Vec::new()
            } else {
                quoted(cells.get(code).unwrap_or(&""))
            },
            tests: quoted(cells.get(tests).unwrap_or(&"")),
            trap,
        });
    }
    rows
}

/// `path.rs::name`: whether the file defines the name, as a test if it has to be one.
fn defined(link: &str, test: bool) -> Result<(), String> {
    let (path, name) = link
        .rsplit_once("::")
        .ok_or(format!("{link}: not path.rs::name"))?;
    let text = std::fs::read_to_string(root().join(path)).map_err(|e| format!("{path}: {e}"))?;
    let kinds: &[&str] = if test {
        &["fn"]
    } else {
        &["fn", "struct", "enum", "const", "type", "trait"]
    };
    let lines: Vec<&str> = text.lines().collect();
    let found = lines.iter().position(|line| {
        kinds.iter().any(|kind| {
            line.find(&format!("{kind} {name}")).is_some_and(|at| {
                let after = line[at + kind.len() + 1 + name.len()..].chars().next();
                let before = line[..at].chars().last();
                let ends = !after.is_some_and(|c| c.is_alphanumeric() || c == '_');
                ends && before.is_none_or(char::is_whitespace)
            })
        })
    });
    let at = found.ok_or(format!("{path} defines no {name}"))?;
    let marked = lines[at.saturating_sub(3)..at]
        .iter()
        .any(|line| line.trim() == "#[test]");
    if test && !marked {
        return Err(format!("{link} is no test"));
    }
    Ok(())
}

/// `# proves:` of every mutant: id → patches.
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

/// Everything that is wrong with the document.
fn problems(rows: &[Row], proved: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut ids = BTreeSet::new();
    for row in rows {
        let wanted = if row.trap { 3 } else { 6 };
        if row.cells != wanted {
            problems.push(format!("{}: {} cells, not {wanted}", row.id, row.cells));
        }
        if !ids.insert(row.id.clone()) {
            problems.push(format!("{}: twice", row.id));
        }
        if row.tests.is_empty() {
            problems.push(format!("{}: no test", row.id));
        }
        if !row.trap && row.code.is_empty() {
            problems.push(format!("{}: no code", row.id));
        }
        if !row.trap && !proved.contains_key(&row.id) {
            problems.push(format!("{}: no mutant names it", row.id));
        }
        let links = row.code.iter().map(|link| (link, false));
        for (link, test) in links.chain(row.tests.iter().map(|link| (link, true))) {
            if let Err(problem) = defined(link, test) {
                problems.push(format!("{}: {problem}", row.id));
            }
        }
    }
    for (id, patches) in proved {
        if !ids.contains(id) {
            problems.push(format!("{patches:?} prove {id}, which is not listed"));
        }
    }
    problems
}

#[test]
fn every_link_of_the_document_holds() {
    let text = std::fs::read_to_string(root().join("PROPOSITIONS.md")).unwrap();
    let rows = rows(&text);
    assert!(rows.len() > 60, "only {} rows were read", rows.len());
    assert_eq!(problems(&rows, &proved()), Vec::<String>::new());
}

#[test]
fn a_missing_link_is_noticed() {
    let row =
        |id: &str, code: &str, test: &str| format!("| {id} | s | s | `{code}` | `{test}` | t |\n");
    let here = "accounting/tests/propositions_links.rs";
    let good = row(
        "X-1",
        &format!("{here}::Row"),
        &format!("{here}::a_missing_link_is_noticed"),
    );
    let named = BTreeMap::from([("X-1".to_owned(), vec!["patch".to_owned()])]);
    assert_eq!(problems(&rows(&good), &named), Vec::<String>::new());
    let wrong = |text: String, part: &str| {
        let found = problems(&rows(&text), &named);
        assert!(found.iter().any(|p| p.contains(part)), "{part}: {found:?}");
    };
    wrong(good.clone() + &good, "twice");
    wrong(
        row("X-2", &format!("{here}::Row"), &format!("{here}::rows")),
        "is no test",
    );
    wrong(
        row("X-2", &format!("{here}::Row"), "nowhere.rs::f"),
        "nowhere.rs",
    );
    wrong(
        row(
            "X-1",
            &format!("{here}::Ro"),
            &format!("{here}::a_missing_link_is_noticed"),
        ),
        "defines no Ro",
    );
    wrong(row("X-2", "x.rs::f", "x.rs::f"), "no mutant names it");
    wrong("| X-1 | s | s |\n".into(), "3 cells");
    wrong(String::new(), "not listed");
}
