//! All tests in one program, which is linked once and whose tests share the processors.

mod audit_answers;
mod audit_attacks;
mod audit_classifiers;
mod audit_corpora;
mod audit_flow;
mod audit_own_model;
mod audit_plan;
mod audit_recipes;
mod audit_secrets;
mod audit_shadows;
mod audit_state;
mod links;
mod readme;
mod recipes;

use std::path::Path;

/// A file that no program includes would never be run.
#[test]
fn every_file_is_among_the_tests() {
    for room in [
        "accounting",
        "backends",
        "corpus",
        "proofs-tests",
        "reports",
    ] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let program = root.join(room).join("tests/main.rs");
        let named = std::fs::read_to_string(&program).unwrap();
        for entry in program.parent().unwrap().read_dir().unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            let holds_tests =
                path.extension().is_some_and(|end| end == "rs") || path.join("mod.rs").is_file();
            let is_named = named.contains(&format!("mod {name};\n"));
            assert!(
                !holds_tests || name == "main" || is_named,
                "{}",
                path.display()
            );
        }
    }
}
