//! Owner's folders from outside: whose plan they hold, and what a run that ends early leaves in them.
#![cfg(feature = "audit")]

use crate::common::{KEY, audit};
use std::path::Path;

const MODEL: &str = "--model gpt2 --layers 1 --width 8 --heads 1 --recipe sgd --epochs 1";

fn run(folder: &Path, line: &str) -> (i32, String) {
    let (code, printed, said) = audit::ended(folder, line);
    (code, printed + &said)
}

fn ok(folder: &Path, line: &str) -> String {
    let (code, said) = run(folder, line);
    assert_eq!(code, 0, "{line}: {said}");
    said
}

fn refused(folder: &Path, line: &str, words: &[&str]) {
    let (code, said) = run(folder, line);
    assert_eq!(code, 2, "{line}: {said}");
    for words in words {
        assert_eq!(said.matches(words).count(), 1, "{line}: {words}: {said}");
    }
}

/// Two preparations with other canaries.
fn corpora(at: &Path) {
    ok(
        at,
        "simulate customers --dialogues 6 --seed 3 --out data.jsonl",
    );
    for seed in [0, 1] {
        let how = "--policy customers --unit turn --max-tokens 64 --canaries 3x2";
        ok(
            at,
            &format!("prepare data.jsonl {how} --seed {seed} --out p{seed}"),
        );
    }
}

#[test]
fn the_plan_of_another_model_is_never_replaced() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    corpora(at);
    let another = "the canary plan of another model";
    let plan = |name: &str| std::fs::read(at.join(name).join("canaries.json")).unwrap();
    ok(at, &format!("train p0 {MODEL} --out y"));
    let kept = plan("y.owner");
    std::fs::rename(at.join("y"), at.join("elsewhere")).unwrap();
    let line = format!("train p1 {MODEL} --out y");
    refused(at, &line, &["--out: y.owner/canaries.json: ", another]);
    assert!(plan("y.owner") == kept && !at.join("y.state").exists());
    // The same plan is no other.
    ok(at, &format!("train p0 {MODEL} --out y"));

    // An epoch that is kept only once the run goes on.
    std::fs::rename(at.join("y.owner"), at.join("x-epoch-1.owner")).unwrap();
    std::fs::create_dir_all(at.join("x.owner/manifest.code")).unwrap();
    let line = format!("train p1 {MODEL} --out x");
    refused(at, &line, &["manifest.code"]);
    assert!(at.join("x.state").exists());
    let place = "--keep-every: x-epoch-1.owner/canaries.json: ";
    refused(at, &format!("{line} --keep-every 1"), &[place, another]);
    assert_eq!(plan("x-epoch-1.owner"), kept);
}

/// No checkpoint has its name before its codes and its log are kept.
#[test]
fn a_run_that_cannot_keep_its_codes_goes_on_and_ends_whole() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    corpora(at);
    let line = format!("train p0 {MODEL} --out z");
    let code = at.join("z.owner/manifest.code");
    std::fs::create_dir_all(&code).unwrap();
    refused(at, &line, &["--out: z.owner/manifest.code: "]);
    assert!(!at.join("z").exists() && at.join("z.state").exists());
    // Another run does not go on there; what it was asked otherwise is named.
    let other = line.replace("--epochs 1", "--epochs 3");
    let named = [
        "--epochs: 3, the stopped run has 1",
        "(other plan.run.epochs.value)",
    ];
    refused(at, &other, &named);
    std::fs::remove_dir(&code).unwrap();
    ok(at, &line);
    assert!(!at.join("z.state").exists());
    for name in ["manifest.code", "records.code", "training.jsonl"] {
        assert!(at.join("z.owner").join(name).is_file(), "{name}");
    }
    assert!(!ok(at, "report --model z").contains("not authenticated"));
}

/// The key of the user's own reports is noticed where others can read it.
#[cfg(unix)]
#[test]
fn an_owners_key_that_others_can_read_is_said() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    std::fs::write(at.join("data.txt"), "My card is 4111 1111 1111 1111.\n").unwrap();
    let names = "type = \"dictionary\"\nkind = \"name\"\nwords = [\"Ada\"]\n";
    std::fs::write(at.join("names.toml"), names).unwrap();
    let key = at.join("key");
    std::fs::write(&key, "0a".repeat(32)).unwrap();
    for (mode, said) in [(0o644, true), (0o600, false)] {
        std::fs::set_permissions(&key, PermissionsExt::from_mode(mode)).unwrap();
        let output = audit::command(at)
            .args(["redact", "data.txt", "--policy", "names.toml"])
            .args(["--out", "redacted.jsonl", "--force"])
            .env(KEY[0], &key)
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{error}");
        assert_eq!(error.contains("others on this machine"), said, "{error}");
    }
}
