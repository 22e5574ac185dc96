//! The book's page of the numbers that the papers print, each beside what its command says today.
//!
//! `RETICENT_REGENERATE=1` writes the page; without it the page is compared.

#[path = "../../src/generated.rs"]
mod generated;

use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

fn json(line: &str) -> Value {
    super::json(Path::new("."), line)
}

/// The upper end of the guarantee that has all of these.
fn upper(found: &Value, keys: &[(&str, &str)]) -> f64 {
    let rows = found["guarantees"].as_array().unwrap();
    let all = |row: &&Value| keys.iter().all(|(key, value)| row[key] == **value);
    let row = rows.iter().find(all).unwrap();
    row["epsilon"]["upper"].as_f64().unwrap()
}

/// σ rounded up to six digits: the last ones differ between machines.
fn shown(sigma: &Value) -> f64 {
    (sigma.as_f64().unwrap() * 1e6).ceil() / 1e6
}

/// Formats an upper bound with so many decimals, rounded up.
fn up(value: f64, decimals: i32) -> String {
    let unit = 10f64.powi(decimals);
    format!("{:.*}", decimals as usize, (value * unit).ceil() / unit)
}

#[test]
fn bounds_of_the_page_are_rounded_up() {
    assert_eq!(up(4.586_810_1, 4), "4.5869");
    assert_eq!(up(2.068_432_98, 4), "2.0685");
    assert_eq!(up(30.991_177, 3), "30.992");
    assert_eq!(up(0.25, 4), "0.2500");
}

/// A number of the page: where it stands and what is printed, the Rényi bound, the tight bound for the paper's
/// neighbours and for those of the definition.
struct Row {
    place: &'static str,
    printed: &'static str,
    renyi: f64,
    tight: f64,
    defined: f64,
    commands: Vec<String>,
}

/// CRT's ε′: printed for a record that is present or absent, defined by a replacement. `sigmas`: the noise that the
/// Rényi bound is for, and that of the tight ones.
fn redacted(place: &'static str, printed: &'static str, sigmas: [f64; 2], plan: &str) -> Row {
    let mut commands = sigmas
        .map(|sigma| format!("--sigma {sigma} {plan} --gamma 0.1"))
        .to_vec();
    let [by_renyi, found] = [&commands[0], &commands[1]].map(|command| json(command));
    commands.dedup();
    let bayesian = ("notion", "bayesian-confidentiality");
    let base = ("method", "proposition-6");
    let paper = ("convention", "paper");
    Row {
        place,
        printed,
        renyi: upper(&by_renyi, &[bayesian, base, paper, ("base", "rdp")]),
        tight: upper(&found, &[bayesian, paper, ("method", "pld")]),
        defined: upper(
            &found,
            &[bayesian, ("convention", "definition"), ("method", "pld")],
        ),
        commands,
    }
}

/// JFT's ε of a whole record, whose noise was found by Rényi for 3.
fn fine_tuned(place: &'static str, printed: &'static str, plan: &str) -> Row {
    let command = format!("calibrate --by papers --epsilon 3 {plan}");
    let found = json(&command);
    let sigma = shown(&found["answer"]);
    let replaced = format!("--sigma {sigma} {plan} --neighbours replace");
    Row {
        place,
        printed,
        renyi: upper(&found, &[("method", "rdp")]),
        tight: upper(&found, &[("method", "pld")]),
        defined: upper(&json(&replaced), &[("notion", "dp"), ("method", "pld")]),
        commands: vec![command, replaced],
    }
}

/// Hush!'s least noise for a posterior.
fn noise(group: u32, posterior: f64) -> (f64, f64, String) {
    let command = format!(
        "calibrate --prior 1e-10 --posterior {posterior} --group {group} --batch-size 2048 --dataset-size 1700000 --steps 2000"
    );
    let found = json(&command);
    let end = |key: &str| found[key].as_f64().unwrap();
    (end("kl_fano"), end("answer"), command)
}

#[test]
fn the_book_says_what_the_papers_print_and_what_holds() {
    let single = "--sample-rate 1 --steps 1 --delta 8e-5";
    // Each proof gets the noise that it asks for: the paper states ε = 1, and no noise.
    let gaussian = ["--by papers ", ""]
        .map(|by| shown(&json(&format!("calibrate {by}--epsilon 1 {single}"))["answer"]));
    let mut confidentiality = vec![
        redacted(
            "CRT, the authors' notebook, ε′ at γ = 0.1",
            "0.374388",
            [2.42632; 2],
            "--sample-rate 0.1 --steps 100 --delta 1e-5",
        ),
        redacted(
            "CRT, Figure 6, ε′ at γ = 0.1 of a Gaussian with ε = 1",
            "0.12",
            gaussian,
            single,
        ),
    ];
    for (task, printed, plan) in [
        (
            "JFT, Table 2, MNLI",
            "2.75",
            "--delta 1.2732e-6 --batch-size 6000 --dataset-size 392702 --steps 1178",
        ),
        (
            "JFT, Table 2, QQP",
            "2.75",
            "--delta 1.3742e-6 --batch-size 6000 --dataset-size 363846 --steps 1091",
        ),
        (
            "JFT, Table 2, QNLI",
            "2.57",
            "--delta 4.7736e-6 --batch-size 2000 --dataset-size 104743 --steps 314",
        ),
        (
            "JFT, Table 2, SST-2",
            "2.41",
            "--delta 7.424e-6 --batch-size 1000 --dataset-size 67349 --steps 202",
        ),
    ] {
        confidentiality.push(fine_tuned(task, printed, plan));
    }
    let mut page = String::from(
        "# What the papers print, and what holds

Every number is the answer of the command under it, computed when this page was made; a test compares them.

## Privacy parameters

*Printed* stands in the paper. *Rényi* is the Rényi curve's bound at the best order, by today's conversion to ε: CRT's proof. Of JFT it
is the 3 that the noise was found for; the paper prints what the loss distribution gives at that noise.
*Tight* is the exact loss distribution, first for a record that is present or absent, as the papers compute, then for the
replacement of a record's content, which their definitions speak of. Only the last one is promised.
Bounds are rounded up.

| where | printed | Rényi | tight | tight, as defined |
|---|---|---|---|---|
",
    );
    // The paper's own proof doesn't exceed what it prints: at the tight accountant's noise it was 0.1366.
    assert!(
        confidentiality[1].renyi <= 0.12,
        "{}",
        confidentiality[1].renyi
    );
    for row in &confidentiality {
        assert!(
            row.tight <= row.renyi && row.tight <= row.defined,
            "{}",
            row.place
        );
        writeln!(
            page,
            "| {} | {} | {} | {} | {} |",
            row.place,
            row.printed,
            up(row.renyi, 4),
            up(row.tight, 4),
            up(row.defined, 4)
        )
        .unwrap();
    }
    page.push_str("\n```console\n");
    for command in confidentiality.iter().flat_map(|row| &row.commands) {
        writeln!(page, "$ account {command} --verbose").unwrap();
    }
    page.push_str(
        "```

Figure 6's noise is `account calibrate --epsilon 1 --sample-rate 1 --steps 1 --delta 8e-5` for the tight bounds and, with `--by papers`,
for Rényi, whose ε = 1 needs more noise. JFT's batches and epochs are those of Li et al. 2022, whose code it runs: noise for ε = 3 by
Rényi at δ = 1/2N, then measured by the loss distribution. For WikiText-2 (2.58) and ABCD (2.65, 2.71) the paper prints only the
ranges that it searched.

## Noise for a secret

Hush! asks for noise that keeps the chance of guessing a secret of prior 1e-10 below a posterior, and finds it by the
Kullback–Leibler divergence and Fano's inequality; its Figure 1 draws such noise, and says that tight bounds could not
be computed. They can: the paper has batches of 2 048 out of 1.7 million records and 2 000 steps.

| records with the secret | posterior | σ by the paper's proof | σ by the tight bound | factor |
|---|---|---|---|---|
",
    );
    let mut commands = String::new();
    for (group, posterior) in [(50, 2e-4), (50, 1e-3), (100, 2e-4), (100, 1e-3)] {
        let (proof, tight, command) = noise(group, posterior);
        writeln!(
            page,
            "| {group} | {posterior} | {} | {} | {:.1} |",
            up(proof, 3),
            up(tight, 4),
            proof / tight
        )
        .unwrap();
        writeln!(commands, "$ account {command}").unwrap();
    }
    write!(
        page,
        "\n```console\n{commands}```

Readings of the papers that do not hold, each with a counterexample in a test, are the traps of
[PROPOSITIONS.md](../../../proofs-tests/PROPOSITIONS.md).
"
    )
    .unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    generated::keep(&root.join("docs/src/papers/printed.md"), &page);
}
