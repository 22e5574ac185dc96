//! The folders of this crate lie in layers: none imports from one to its right.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const LAYERS: [&str; 9] = [
    "quantity",
    "numeric",
    "mechanism",
    "loss",
    "engine",
    "compose",
    "guarantee",
    "protect",
    "training",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The code of a file that ships: without comments, and without the tests at its end.
fn shipped(text: &str) -> String {
    let ships = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
    let code = ships
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    code.collect::<Vec<_>>().join("\n")
}

/// The first names behind `crate::`, those of a group of imports included.
fn imported(code: &str) -> BTreeSet<String> {
    let name = |text: &str| -> String {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
        text[..end.unwrap_or(text.len())].to_owned()
    };
    let mut names = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            Some(group) => {
                let (mut depth, mut start) = (0, 0);
                for (i, c) in group.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => {
                            names.insert(name(group[start..i].trim_start()));
                            break;
                        }
                        '}' => depth -= 1,
                        ',' if depth == 0 => {
                            names.insert(name(group[start..i].trim_start()));
                            start = i + 1;
                        }
                        _ => {}
                    }
                }
            }
            None => {
                names.insert(name(rest));
            }
        }
    }
    names.remove("");
    names
}

#[test]
fn no_folder_imports_one_to_its_right() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = BTreeSet::new();
    let mut wrong = Vec::new();
    let mut files = Vec::new();
    sources(&root, &mut files);
    for file in files {
        let path = file.strip_prefix(&root).unwrap();
        let folder = path.iter().next().unwrap().to_str().unwrap();
        if folder == "lib.rs"
            || path
                .iter()
                .any(|part| part == "tests" || part == "tests.rs")
        {
            continue;
        }
        folders.insert(folder.to_owned());
        let own = LAYERS.iter().position(|layer| *layer == folder);
        for name in imported(&shipped(&std::fs::read_to_string(&file).unwrap())) {
            // What the root exports again hides which folder it is of.
            let of = LAYERS.iter().position(|layer| *layer == name);
            if of.is_none() || of > own {
                wrong.push(format!("{} imports crate::{name}", path.display()));
            }
        }
    }
    let layers: BTreeSet<String> = LAYERS.iter().map(|layer| (*layer).to_owned()).collect();
    assert_eq!(folders, layers);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The engines are leaves: the contour knows nothing of the grid.
#[test]
fn the_contour_knows_no_grid() {
    let contour = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine/contour");
    let mut files = Vec::new();
    sources(&contour, &mut files);
    assert!(files.len() > 5);
    for file in files {
        let code = shipped(&std::fs::read_to_string(&file).unwrap());
        assert!(!code.contains("engine::grid"), "{}", file.display());
    }
}

#[test]
fn imports_are_found_wherever_they_stand() {
    let code = "use crate::{loss::{A, B}, quantity};\nlet x = crate::engine::grid::y();";
    let names = imported(code);
    assert_eq!(
        names,
        ["engine", "loss", "quantity"].map(str::to_owned).into()
    );
    assert_eq!(shipped("a\n// crate::b\n#[cfg(test)]\nmod tests {\nc"), "a");
}
