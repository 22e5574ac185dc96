//! Examples of the help.

use super::{fine, folder};

#[test]
fn help_shows_examples_that_run() {
    let folder = folder();
    let at = folder.path();
    for (from, to) in [
        ("plain.json", "mechanism.json"),
        ("plain.json", "first.json"),
        ("steps.json", "second.json"),
    ] {
        std::fs::copy(at.join(from), at.join(to)).unwrap();
    }
    std::fs::create_dir(at.join("ckpt")).unwrap();
    std::fs::copy(at.join("manifest.json"), at.join("ckpt/manifest.json")).unwrap();
    let mut seen = 0;
    for command in ["", "curve", "compose", "explain", "calibrate"] {
        let help = fine(at, &format!("{command} --help"));
        for example in help
            .lines()
            .filter_map(|line| line.strip_prefix("  account "))
        {
            // A plan and a prepared corpus are tried where they are tested.
            if example.starts_with("plan ") || example.contains("prepared/") {
                continue;
            }
            fine(at, example);
            seen += 1;
        }
    }
    assert!(seen >= 13, "{seen} examples");
    let script = fine(at, "completions bash");
    assert!(
        ["curve", "compose", "explain", "--max-exposure", "--export"]
            .iter()
            .all(|word| script.contains(word))
    );
}
