//! The digest of the code, by which a plan and what a stopped preparation left are known.

#[path = "../build.rs"]
#[expect(dead_code, reason = "cargo runs the rest")]
mod build;

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
