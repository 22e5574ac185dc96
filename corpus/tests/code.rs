//! The digest of the code, by which a plan and what a stopped preparation left are known.

#[path = "../build.rs"]
#[expect(dead_code, reason = "cargo runs the rest")]
mod build;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

#[test]
fn the_code_is_that_of_these_sources() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert_eq!(build::digest(package).unwrap(), reticent_corpus::CODE);
}

/// Whatever decides what is found: a source, a model, a version or a feature of a dependency.
#[test]
fn each_file_changes_the_code() {
    let place = tempfile::tempdir().unwrap();
    let package = place.path().join("package");
    let files = [
        "Cargo.toml",
        "src/lib.rs",
        "src/policy/rules.rs",
        "disk/src/lib.rs",
        "models/tagger.bin",
        "../Cargo.toml",
        "../Cargo.lock",
    ];
    for name in files {
        let path = package.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "password").unwrap();
    }
    let first = build::digest(&package).unwrap();
    for name in files {
        std::fs::write(package.join(name), "passwxrd").unwrap();
        assert_ne!(build::digest(&package).unwrap(), first, "{name}");
        std::fs::write(package.join(name), "password").unwrap();
    }
    assert_eq!(build::digest(&package).unwrap(), first);
    std::fs::rename(package.join("src/lib.rs"), package.join("src/main.rs")).unwrap();
    assert_ne!(build::digest(&package).unwrap(), first);
}

/// The digest holds the versions of one lock file, by which not every command is built.
#[test]
fn all_workspaces_build_with_the_same_versions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for package in ["reticent-corpus", "reticent-backends"] {
        let own = built_with(&root.join("Cargo.lock"), package);
        assert!(own.len() > 50, "{package}: {own:?}");
        for other in ["cluster", "cluster/mpi", "python"] {
            for (name, versions) in built_with(&root.join(other).join("Cargo.lock"), package) {
                let here = own.get(&name);
                assert!(
                    here.is_none_or(|here| versions.is_subset(here)),
                    "{other}: {name} {versions:?}, here {here:?}"
                );
            }
        }
    }
}

/// Returns the versions of each crate that a package is built with; none if the lock file lacks the package.
fn built_with(lock: &Path, package: &str) -> BTreeMap<String, BTreeSet<String>> {
    let lock: toml::Table = toml::from_str(&std::fs::read_to_string(lock).unwrap()).unwrap();
    let packages = lock["package"].as_array().unwrap();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut next = vec![package];
    while let Some(dependency) = next.pop() {
        // With a version where there are several.
        let (name, only) = dependency
            .split_once(' ')
            .map_or((dependency, None), |(name, version)| (name, Some(version)));
        for package in packages {
            let field = |key: &str| package[key].as_str().unwrap();
            let version = field("version");
            if field("name") == name
                && only.is_none_or(|only| only == version)
                && found
                    .entry(name.to_owned())
                    .or_default()
                    .insert(version.to_owned())
            {
                let all = package.get("dependencies").and_then(toml::Value::as_array);
                next.extend(all.into_iter().flatten().filter_map(toml::Value::as_str));
            }
        }
    }
    found
}
