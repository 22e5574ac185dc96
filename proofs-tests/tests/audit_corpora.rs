//! Runs the commands that read and write corpora as a user does, and checks what they do to the file system, to hostile
//! files and to private text.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failing test should panic")]

use reticent_proofs_tests::commands::{
    account, account_output, audit, listing, ok, refused, run, signal,
};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const LINE: &str = "{\"id\":\"a\",\"text\":\"write to ada@example.org\"}\n";
const CLEAN: &str = "{\"id\":\"a#0\",\"text\":\"write to <MASK>\"}\n";

fn home(data: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("data.jsonl"), data).unwrap();
    home
}

fn read(home: &Path, name: &str) -> String {
    std::fs::read_to_string(home.join(name)).unwrap()
}

#[test]
fn redact_writes_a_new_file_or_a_stream_and_nothing_else() {
    let home = home(LINE);
    let at = home.path();
    ok(at, "redact data.jsonl --policy detectors --out clean.jsonl");
    assert_eq!(read(at, "clean.jsonl"), CLEAN);
    assert_eq!(listing(at), ["clean.jsonl", "data.jsonl"]);
    refused(
        at,
        "redact data.jsonl --policy detectors --out clean.jsonl",
        &["--out: clean.jsonl exists", "--force"],
    );
    ok(
        at,
        "redact data.jsonl --policy detectors --out clean.jsonl --force",
    );
    for force in ["", " --force"] {
        refused(
            at,
            &format!("redact data.jsonl --policy detectors --out data.jsonl{force}"),
            &["--out", "the file is that of DATA, which is read"],
        );
    }
    std::os::unix::fs::symlink("clean.jsonl", at.join("link")).unwrap();
    refused(
        at,
        "redact data.jsonl --policy detectors --out link --force",
        &["it is a link"],
    );
    assert_eq!(read(at, "data.jsonl"), LINE);
    // Stdout contains only the data; messages about them go to stderr.
    let line = "redact data.jsonl --policy detectors --out -";
    for out in ["-", "/dev/stdout"] {
        let words = line.split_whitespace().take(5); // all but the output
        let output = audit(at).args(words).args([out]).output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert_eq!(shown, CLEAN);
        assert!(
            String::from_utf8_lossy(&output.stderr)
                .contains("1 of 1 turn written, 0 duplicates removed")
        );
    }
    // The file that is appended to is not the one that is read.
    let same = std::fs::File::options()
        .append(true)
        .open(at.join("data.jsonl"))
        .unwrap();
    let output = audit(at)
        .args(line.split_whitespace())
        .stdout(Stdio::from(same))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(read(at, "data.jsonl"), LINE);
}

/// Makes every disk operation fail once: outputs are complete or absent, and the same command then produces
/// the same bytes.
#[test]
fn every_failing_step_leaves_outputs_whole_or_absent() {
    let home = home(&LINE.replace("ada@", "ada@mail."));
    let at = home.path();
    for (name, line) in [
        ("clean.jsonl", "redact data.jsonl --policy detectors --out"),
        (
            "prepared",
            "prepare data.jsonl --policy detectors --held-out 0 --out",
        ),
    ] {
        ok(at, &format!("{line} whole-{name}"));
        let content = |name: &str| -> Vec<(String, Vec<u8>)> {
            let path = at.join(name);
            if path.is_file() {
                return vec![(String::new(), std::fs::read(path).unwrap())];
            }
            let names = listing(&path).into_iter();
            names
                .map(|n| (n.clone(), std::fs::read(path.join(n)).unwrap()))
                .collect()
        };
        let whole = content(&format!("whole-{name}"));
        let mut failures = 0;
        for step in 1.. {
            let words = line.split_whitespace().chain([name]);
            let output = audit(at)
                .args(words)
                .env("RETICENT_FAILING_STEP", step.to_string())
                .output()
                .unwrap();
            if output.status.success() {
                assert_eq!(content(name), whole);
                break;
            }
            failures += 1;
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(
                output.status.code(),
                Some(2),
                "{name}, step {step}: {error}"
            );
            assert!(error.contains("--out"), "{name}, step {step}: {error}");
            if at.join(name).exists() {
                assert_eq!(content(name), whole, "{name}, step {step}");
            } else {
                ok(at, &format!("{line} {name}"));
                assert_eq!(content(name), whole, "{name}, step {step}");
            }
            if at.join(name).is_dir() {
                std::fs::remove_dir_all(at.join(name)).unwrap();
            } else {
                std::fs::remove_file(at.join(name)).unwrap();
            }
            let left = listing(at).into_iter().filter(|n| n.starts_with('.'));
            assert_eq!(left.count(), 0, "{name}, step {step}");
        }
        assert!(failures > 4, "{name}: only {failures} steps");
    }
}

/// A command that writes. Its inputs exist, and its outputs have these names.
struct Writer {
    program: &'static str,
    line: &'static str,
    outputs: &'static [&'static str],
}

/// Makes every disk operation of every other command that writes fail once, together with all that follow. The command
/// returns an error, its outputs are complete or absent, and nothing else is left except what the same command resumes
/// from; that command then produces the same bytes.
#[test]
fn every_failing_step_of_every_writer_leaves_outputs_whole_or_absent() {
    const TRAIN: &str = "train prepared --recipe dpsgd --sigma 1 --epochs 1 --seed 1 --model gpt2 --layers 1 --width 8 --heads 1 --out";
    let home = home("");
    let at = home.path();
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/tests/documents-bddd9d7");
    for name in ["scores.csv", "exposure.json", "pairs.csv", "secrets.csv"] {
        std::fs::copy(old.join(name), at.join(name)).unwrap();
    }
    llama2c(at);
    for line in [
        "simulate customers --dialogues 4 --out made.jsonl",
        "simulate customers --dialogues 3 --seed 9 --out others.jsonl",
        "prepare made.jsonl --policy customers --canaries 1x2 --seed 1 --out prepared",
        &format!("{TRAIN} trained"),
    ] {
        ok(at, line);
    }
    std::fs::copy(at.join("made.jsonl"), at.join("labelled.jsonl")).unwrap();
    let train = format!("{TRAIN} c");
    let of = |program, line, outputs| Writer {
        program,
        line,
        outputs,
    };
    let writers = [
        of(
            "audit",
            "simulate customers --dialogues 3 --out s.jsonl",
            &["s.jsonl"][..],
        ),
        of(
            "audit",
            "plant made.jsonl --canaries 1x2 --seed 3 --out q",
            &["q"],
        ),
        of(
            "audit",
            "incidence made.jsonl --policy gold --out i.csv",
            &["i.csv"],
        ),
        of(
            "audit",
            "incidence made.jsonl --policy gold --out i.jsonl",
            &["i.jsonl"],
        ),
        of(
            "audit",
            "incidence made.jsonl --policy gold --out i.parquet",
            &["i.parquet"],
        ),
        of(
            "audit",
            "screen made.jsonl --policy nothing --sample 5 --seed 1 --marked --sheet sheet --labels l --screened d --mended m.json",
            &["l", "d", "m.json"],
        ),
        of(
            "audit",
            "figure exposure.json --x exposure --y exposure-mean --plot f.svg",
            &["f.svg"],
        ),
        of(
            "audit",
            "membership --scores scores.csv --plot r.svg --html r.html",
            &["r.svg", "r.html"],
        ),
        of(
            "audit",
            "epsilon --counts 100,60,58 --html e.html",
            &["e.html"],
        ),
        of(
            "audit",
            "diff exposure.json exposure.json --html d.html",
            &["d.html"],
        ),
        of(
            "audit",
            "perplexity --model trained --data made.jsonl --html p.html",
            &["p.html"],
        ),
        of(
            "audit",
            "exposure --model trained --html x.html",
            &["x.html"],
        ),
        of("audit", "report --model trained --html y.html", &["y.html"]),
        of(
            "audit",
            "tokenizer made.jsonl --size 300 --declared-public --out v.json",
            &["v.json"],
        ),
        of(
            "audit",
            "plant made.jsonl --canaries 1x2 --seed 3 --coins --unit document --out k",
            &["k"],
        ),
        of(
            "audit",
            "membership --model trained --members made.jsonl --non-members others.jsonl --scores-out n.csv",
            &["n.csv"],
        ),
        of(
            "audit",
            "convert --from llama2.c model.bin --tokenizer pieces.bin --out converted",
            &["converted"],
        ),
        of("audit", &*Box::leak(train.into_boxed_str()), &["c"]),
        of("account", "--sigma 1.1 --steps 10 --plot a.svg", &["a.svg"]),
        of(
            "account",
            "curve --sigma 1.1 --points 5 --plot u.svg",
            &["u.svg"],
        ),
        of(
            "account",
            "protect --incidence pairs.csv --secrets secrets.csv --batch-size 1 --steps 10 --dataset-size 20 --out w.csv --weights w.json",
            &["w.csv", "w.json"],
        ),
    ];
    for writer in writers {
        failing_steps(at, &writer);
    }
}

/// Writes a model in the first layout of llama2.c, whose weights are all the same, and its tokenizer of bytes.
fn llama2c(at: &Path) {
    let (width, layers, positions, pieces) = (4, 1, 4, 3 + 256);
    let of_layer = 2 * width + 7 * width * width;
    let count = pieces * width + layers * of_layer + width + positions * width;
    let header: [i32; 7] = [width, width, layers, 1, 1, pieces, positions];
    let header = header.iter().flat_map(|n| n.to_le_bytes());
    let weights = (0..count).flat_map(|_| 0.25_f32.to_le_bytes());
    let model: Vec<u8> = header.chain(weights).collect();
    std::fs::write(at.join("model.bin"), model).unwrap();
    let mut tokenizer = 6_i32.to_le_bytes().to_vec();
    let special = ["<unk>", "\n<s>\n", "\n</s>\n"].map(str::to_owned);
    let bytes = (0..=u8::MAX).map(|byte| format!("<0x{byte:02X}>"));
    for piece in special.into_iter().chain(bytes) {
        tokenizer.extend(0_f32.to_le_bytes());
        tokenizer.extend((piece.len() as i32).to_le_bytes());
        tokenizer.extend(piece.into_bytes());
    }
    std::fs::write(at.join("pieces.bin"), tokenizer).unwrap();
}

/// Every stage of a sharded preparation fails at each of its disk operations, one after the other, and goes on from what the
/// failures left. The folder then is that of a single process, and appears only in the last stage.
#[test]
fn every_failing_step_of_every_stage_leaves_what_the_next_one_takes_up() {
    let home = home("");
    let at = home.path();
    ok(at, "simulate customers --dialogues 4 --out made.jsonl");
    let options = "made.jsonl --policy customers --canaries 1x2 --seed 1";
    ok(at, &format!("prepare {options} --out single"));
    let failing = |line: &str, step: u64| {
        let output = audit(at)
            .args(line.split_whitespace())
            .env("RETICENT_FAILING_STEP", step.to_string())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code();
        assert!(
            code == Some(0) || code == Some(2) && error.starts_with("error: "),
            "{line}, step {step}: {error}"
        );
        code == Some(0)
    };
    // A plan that was written is not written again.
    let plan = format!("prepare {options} --out sharded --plan plan.json --shards 2");
    ok(at, &plan);
    let whole = read(at, "plan.json");
    let forget = || {
        std::fs::remove_file(at.join("plan.json")).unwrap();
        std::fs::remove_dir_all(at.join("plan.json.stages")).unwrap();
    };
    forget();
    for step in 1.. {
        let done = failing(&plan, step);
        if at.join("plan.json").exists() {
            assert_eq!(read(at, "plan.json"), whole, "step {step}");
            if done {
                break;
            }
            forget();
        }
        assert!(!done);
    }
    let stages = ["scan --shard", "group --part", "write --shard"];
    let each = stages
        .iter()
        .flat_map(|stage| (0..2).map(move |n| format!("{stage} {n}")));
    for stage in each.chain(["join".to_owned()]) {
        let line = format!("prepare --plan plan.json --stage {stage}");
        for step in 1.. {
            if failing(&line, step) {
                assert!(step > 3, "{line}: only {step} steps");
                break;
            }
            let appeared = at.join("sharded").exists();
            assert!(!appeared || stage == "join", "{line}, step {step}");
            assert!(
                !appeared || same(at, "sharded", "single"),
                "{line}, step {step}"
            );
        }
    }
    assert!(same(at, "sharded", "single"));
    let left = [
        "data.jsonl",
        "made.jsonl",
        "plan.json",
        "plan.json.done",
        "sharded",
        "single",
    ];
    assert_eq!(listing(at), left);
}

/// Returns whether two folders hold the same files.
fn same(at: &Path, one: &str, other: &str) -> bool {
    let (one, other) = (at.join(one), at.join(other));
    let bytes = |folder: &Path, name: &String| std::fs::read(folder.join(name)).unwrap();
    let names = listing(&one);
    names == listing(&other)
        && names
            .iter()
            .all(|name| bytes(&one, name) == bytes(&other, name))
}

fn failing_steps(at: &Path, writer: &Writer) {
    let Writer {
        program,
        line,
        outputs,
    } = writer;
    let run = |step: Option<u64>| {
        let program = reticent_proofs_tests::commands::binary(program);
        let mut command = Command::new(&program);
        command
            .env("RETICENT_OWNER_KEY", program.with_file_name("owner.key"))
            .args(line.split_whitespace())
            .current_dir(at)
            .stdin(Stdio::null());
        if let Some(step) = step {
            command.env("RETICENT_FAILING_STEP", step.to_string());
        }
        command.output().unwrap()
    };
    let done = |step| {
        let output = run(None);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{line}, after step {step}: {error}"
        );
    };
    let before = listing(at);
    let remove = || {
        for name in listing(at).iter().filter(|name| !before.contains(name)) {
            let path = at.join(name);
            if path.is_dir() {
                std::fs::remove_dir_all(path).unwrap();
            } else {
                std::fs::remove_file(path).unwrap();
            }
        }
    };
    done(0);
    let whole: Vec<_> = outputs
        .iter()
        .map(|name| bytes_of(&at.join(name)))
        .collect();
    remove();
    for step in 1.. {
        let output = run(Some(step));
        let error = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            assert!(step > outputs.len() as u64 * 3, "{line}: only {step} steps");
            remove();
            return;
        }
        assert_eq!(
            output.status.code(),
            Some(2),
            "{line}, step {step}: {error}"
        );
        assert!(error.starts_with("error: "), "{line}, step {step}: {error}");
        for (name, whole) in outputs.iter().zip(&whole) {
            let path = at.join(name);
            assert!(
                !path.exists() || bytes_of(&path) == *whole,
                "{line}, step {step}: {name} is half-written"
            );
        }
        for name in listing(at) {
            let known = before.contains(&name) || outputs.contains(&&*name);
            let goes_on = name.contains(".state") || name.ends_with(".owner");
            let goes_on = goes_on || name == "sheet";
            assert!(known || goes_on, "{line}, step {step}: {name} is left");
        }
        // Finished outputs are in the way of commands that replace nothing.
        for name in *outputs {
            let path = at.join(name);
            if path.is_dir() {
                std::fs::remove_dir_all(&path).unwrap();
            } else if path.exists() {
                std::fs::remove_file(&path).unwrap();
            }
        }
        done(step);
        for (name, whole) in outputs.iter().zip(&whole) {
            assert!(
                bytes_of(&at.join(name)) == *whole,
                "{line}, step {step}: {name} is another one"
            );
        }
        remove();
    }
}

/// Returns the bytes of a file; for a checkpoint those of its weights, for another folder those of all files. Creation
/// times and values drawn by the system are left out.
fn bytes_of(path: &Path) -> Vec<u8> {
    if path.is_file() {
        let bytes = std::fs::read(path).unwrap();
        // A page states how long the work took.
        if bytes.trim_ascii_end().ends_with(b"</html>") {
            return b"a whole page".to_vec();
        }
        let text = String::from_utf8_lossy(&bytes);
        return text
            .lines()
            .filter(|line| !line.contains("second"))
            .flat_map(|line| line.bytes())
            .collect();
    }
    let weights = path.join("model.safetensors");
    if weights.exists() {
        // Skip the header, which names the owner's digests.
        let bytes = std::fs::read(weights).unwrap();
        let (length, rest) = bytes.split_at(8);
        let length = u64::from_le_bytes(length.try_into().unwrap());
        return rest[usize::try_from(length).unwrap()..].to_vec();
    }
    let names = listing(path).into_iter();
    names
        .flat_map(|name| std::fs::read(path.join(name)).unwrap())
        .collect()
}

/// C15: names of files, ids, kinds, keys, headers, reasons and a scorer's lines may contain characters that move a
/// cursor; none of these reaches a terminal, a page or a figure.
#[test]
fn no_control_character_reaches_a_terminal_or_a_page() {
    const HOSTILE: &str = "a\u{1b}[31m\u{9b}2J\u{202e}";
    let home = home("");
    let at = home.path();
    let write = |name: &str, text: &str| {
        std::fs::write(
            at.join(name.replace('@', HOSTILE)),
            text.replace('@', HOSTILE),
        )
        .unwrap();
    };
    // As in JSON: raw where allowed, escaped where required.
    let escaped = HOSTILE.replace('\u{1b}', "\\u001b");
    let data = format!(
        "{{\"id\":\"{escaped}\",\"text\":\"Ada and Ada\",\"secrets\":[{{\"start\":0,\"end\":3,\"kind\":\"{escaped}\"}}]}}\n"
    );
    write("@.jsonl", &data);
    write("data.jsonl", &data);
    write("key.jsonl", &format!("{{\"{escaped}\":1}}\n"));
    write("@.csv", "id,@\n1,2\n");
    write("config.toml", "\"a\\u001B[2J\" = 1\n");
    write("lines", &format!("{escaped}\n"));
    write(
        "why.json",
        &format!("{{\"type\":\"non-private\",\"why\":\"{escaped}\"}}"),
    );
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/tests/documents-bddd9d7");
    let exposure = std::fs::read_to_string(old.join("exposure.json")).unwrap();
    write("@.json", &exposure);
    let lines = [
        "audit redact @.jsonl --policy gold --out o@.jsonl --force",
        "audit policy data.jsonl --policy gold",
        "audit neighbours data.jsonl --policy gold --show-secrets",
        "audit incidence data.jsonl --policy gold --out i@.csv --force",
        "audit screen @.jsonl --policy gold --sheet s@ --marked",
        "audit prepare @.jsonl --policy gold --out p@",
        "audit plant @.jsonl --canaries 1x1 --out q@",
        "audit figure @.json --x exposure --y exposure-mean --plot f@.svg",
        "audit diff @.json @.json --html d@.html",
        "audit membership --scores @.csv",
        "audit redact key.jsonl --out x",
        "audit redact data.jsonl --policy @ --out x",
        "audit redact data.jsonl --out x --@",
        "audit @",
        "audit policy data.jsonl --config config.toml",
        "audit policy data.jsonl --config @.toml",
        "audit perplexity --scorer command:cat\u{a0}lines --tokenizer bytes --data data.jsonl",
        "audit perplexity --model @ --data data.jsonl",
        "account compose why.json",
        "account compose why.json --export mechanism",
        "account --mechanism @.json",
        "account plan @.toml",
        "account --@",
    ];
    let shows = |what: &str, bytes: &[u8]| {
        let text = std::str::from_utf8(bytes).unwrap_or_else(|_| panic!("{what}: no text"));
        let hidden = |c: &char| c.is_control() && !"\n\t".contains(*c) || *c == '\u{202e}';
        if let Some(found) = text.chars().find(hidden) {
            panic!("{what}: {found:?} in {text:?}");
        }
    };
    for line in lines {
        for format in ["text", "json", "csv", "html"] {
            let words = line.replace('@', HOSTILE);
            let mut words = words.split(' ').map(|word| word.replace('\u{a0}', " "));
            let program = reticent_proofs_tests::commands::binary(&words.next().unwrap());
            let mut command = Command::new(&program);
            command.env("RETICENT_OWNER_KEY", program.with_file_name("owner.key"));
            command.args(words).current_dir(at).stdin(Stdio::null());
            if !line.contains("--export") {
                command.args(["--format", format]);
            }
            let output = command.output().unwrap();
            let what = format!("{line} ({format})");
            shows(&what, &output.stdout);
            shows(&what, &output.stderr);
            if format == "json" && !output.stdout.is_empty() {
                let read: Result<serde_json::Value, _> = serde_json::from_slice(&output.stdout);
                assert!(read.is_ok(), "{what}");
            }
            for name in listing(at) {
                if [".svg", ".html"].iter().any(|end| name.ends_with(end)) {
                    shows(
                        &format!("{what}: {name:?}"),
                        &std::fs::read(at.join(&name)).unwrap(),
                    );
                }
                // A folder that a command has written would be in the way of the next.
                if name.starts_with(['p', 'q', 's']) && name.contains('\u{1b}') {
                    let path = at.join(&name);
                    let _ = std::fs::remove_dir_all(&path);
                    let _ = std::fs::remove_file(&path);
                }
            }
        }
    }
    assert!(at.join(format!("f{HOSTILE}.svg")).is_file());
}

/// Arguments at the ends of their ranges, and a wrong folder, are named in the answer.
#[test]
fn the_ends_of_ranges_and_the_wrong_folder_are_named() {
    let home = home(LINE);
    let at = home.path();
    let account = |line: &str| {
        let output = reticent_proofs_tests::commands::account_output(at, line);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        (output.status.code(), said)
    };
    // Almost no noise promises nothing at a small delta.
    let (code, said) = account("--sigma 1e-300");
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("Nothing is promised: no finite epsilon"),
        "{said}"
    );
    let (code, said) = account("--sigma 1.1 --delta 0");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("give a delta above 0"), "{said}");
    let (code, said) = account("--sigma 1.1 --delta 1");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("A delta of 1 promises nothing"), "{said}");
    ok(
        at,
        "prepare data.jsonl --policy detectors --held-out 0 --out prepared",
    );
    refused(
        at,
        "perplexity --model prepared --data data.jsonl",
        &["--model", "a prepared corpus, no checkpoint"],
    );
    // A simulated corpus replaces a file only on request.
    refused(
        at,
        "simulate customers --dialogues 1 --out data.jsonl",
        &["--out", "data.jsonl exists", "--force"],
    );
    assert_eq!(read(at, "data.jsonl"), LINE);
    ok(
        at,
        "simulate customers --dialogues 1 --out data.jsonl --force",
    );
    assert_ne!(read(at, "data.jsonl"), LINE);
}

#[test]
fn a_closed_pipe_ends_a_stream_quietly() {
    let home = home("");
    let at = home.path();
    let mut data = std::fs::File::create(at.join("data.jsonl")).unwrap();
    for n in 0..20_000 {
        writeln!(data, "{{\"id\":\"{n}\",\"text\":\"line {n} of many\"}}").unwrap();
    }
    let mut child = audit(at)
        .args(["redact", "data.jsonl", "--out", "-"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn hostile_files_are_refused_before_they_take_memory() {
    let home = home(LINE);
    let at = home.path();
    let trap = "{\"version\":\"1.0\",\"added_tokens\":[],\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"u\",\
        \"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,\"vocab\":{\"u\":0,\"##q\":2147483648}}}";
    std::fs::write(at.join("trap.json"), trap).unwrap();
    let pieces: Vec<_> = (1..2000)
        .map(|n| serde_json::json!(["a".repeat(n), -1.0]))
        .collect();
    let slow = serde_json::json!({"version": "1.0", "added_tokens": [],
        "model": {"type": "Unigram", "unk_id": 0, "vocab": pieces}});
    std::fs::write(at.join("slow.json"), slow.to_string()).unwrap();
    let cubic = trap.replace("2147483648", "1").replace("100", "1000000");
    std::fs::write(at.join("cubic.json"), cubic).unwrap();
    std::os::unix::fs::symlink("/dev/zero", at.join("endless.json")).unwrap();
    std::fs::create_dir(at.join("model")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", at.join("model/config.json")).unwrap();
    let prepare = "prepare data.jsonl --vocabulary pretrained --out p --tokenizer";
    for (line, words) in [
        (
            format!("{prepare} trap.json"),
            ["below 1048576", "got 2147483648"],
        ),
        (
            format!("{prepare} slow.json"),
            ["slow.json", "one character of text could take"],
        ),
        (
            format!("{prepare} cubic.json"),
            ["max_input_chars_per_word", "at most 400"],
        ),
        (
            format!("{prepare} endless.json"),
            ["endless.json", "not a regular file"],
        ),
        (
            "perplexity --model model --data data.jsonl".to_owned(),
            ["--model", "not a regular file"],
        ),
    ] {
        let began = Instant::now();
        refused(at, &line, &words);
        assert!(began.elapsed() < Duration::from_secs(20), "{line}");
    }
}

/// Before what is read of them takes memory: 1 GB of zeros, and a device, which has no end, for whatever is text. A pipe is
/// read like a file.
#[test]
fn endless_tables_and_texts_are_refused() {
    let home = home(LINE);
    let at = home.path();
    let long = std::fs::File::create(at.join("long.csv")).unwrap();
    long.set_len(1 << 30).unwrap();
    let head = "id,prior,posterior\nn,1e-6,1e-3\n\"";
    std::fs::write(at.join("late.csv"), head).unwrap();
    std::fs::write(at.join("few.csv"), head.trim_end_matches('"')).unwrap();
    let late = std::fs::File::options()
        .append(true)
        .open(at.join("late.csv"))
        .unwrap();
    late.set_len(1 << 30).unwrap();
    std::fs::write(at.join("pairs.csv"), "example,secret\na,n\n").unwrap();
    for name in ["zero.csv", "zero.json", "zero.txt", "zero.jsonl"] {
        std::os::unix::fs::symlink("/dev/zero", at.join(name)).unwrap();
    }
    let protect = "protect --batch-size 1 --steps 10 --dataset-size 20";
    let row = "line 1: the row is longer than 67108864 bytes";
    let device = "it is a device";
    let lines = [
        (
            "audit",
            "membership --scores long.csv".to_owned(),
            "--scores",
            row,
        ),
        (
            "audit",
            "membership --scores zero.csv".to_owned(),
            "--scores",
            device,
        ),
        (
            "account",
            format!("{protect} --incidence long.csv --secrets few.csv"),
            "long.csv",
            row,
        ),
        (
            "account",
            format!("{protect} --incidence pairs.csv --secrets late.csv"),
            "late.csv",
            "line 3: the row is longer than 67108864 bytes",
        ),
        (
            "account",
            format!("{protect} --incidence zero.csv --prior 1e-6 --posterior 1e-3"),
            "zero.csv",
            device,
        ),
        (
            "account",
            format!("{protect} --incidence zero.jsonl --prior 1e-6 --posterior 1e-3"),
            "zero.jsonl",
            device,
        ),
        (
            "account",
            "--mechanism zero.json".to_owned(),
            "--mechanism",
            device,
        ),
        (
            "audit",
            "redact data.jsonl --policy zero.json --out x".to_owned(),
            "--policy",
            device,
        ),
        (
            "audit",
            "diff zero.json zero.json".to_owned(),
            "zero.json",
            device,
        ),
        (
            "audit",
            "incidence data.jsonl --list zero.txt --out x.csv".to_owned(),
            "--list",
            device,
        ),
    ];
    for (program, line, named, words) in lines {
        let began = Instant::now();
        let output = match program {
            "audit" => run(at, &line),
            _ => account_output(at, &line),
        };
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {error}");
        assert!(
            error.contains(named) && error.contains(words),
            "{line}: {error}"
        );
        assert!(began.elapsed() < Duration::from_secs(20), "{line}");
    }
    let pipe = at.join("pipe.csv");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::write(pipe, "id,score,member\na,1,1\nb,0,0\n").unwrap()
    });
    ok(at, "membership --scores pipe.csv");
    writer.join().unwrap();
}

/// It held other text, and was replaced; so was what a link leads to.
#[test]
fn protect_replaces_files_by_force_alone() {
    let home = home("");
    let at = home.path();
    std::fs::write(at.join("pairs.csv"), "example,secret\na,n\nb,n\n").unwrap();
    let line = "protect --batch-size 1 --steps 10 --dataset-size 20 --incidence pairs.csv --prior 1e-6 --posterior 1e-3";
    for (flag, name) in [("--out", "o.csv"), ("--weights", "w.json")] {
        let place = at.join(name);
        std::fs::write(&place, "theirs").unwrap();
        let link = format!("link-{name}");
        std::os::unix::fs::symlink(&place, at.join(&link)).unwrap();
        for (more, words) in [
            (
                name.to_owned(),
                "exists; choose another name, or give --force",
            ),
            (link.clone(), "is a link"),
            (format!("{link} --force"), "is a link"),
        ] {
            let output = account_output(at, &format!("{line} {flag} {more}"));
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{more}: {error}");
            assert!(
                error.contains(flag) && error.contains(words),
                "{more}: {error}"
            );
            assert_eq!(read(at, name), "theirs", "{more}");
        }
        account(at, &format!("{line} {flag} {name} --force"));
        assert_ne!(read(at, name), "theirs");
    }
}

/// The hidden name beside it was longer than file systems allow.
#[test]
fn outputs_have_names_as_long_as_files_may() {
    let home = home(LINE);
    let at = home.path();
    let (file, folder) = ("c".repeat(255), "é".repeat(127));
    ok(
        at,
        &format!("redact data.jsonl --policy detectors --out {file}"),
    );
    assert_eq!(read(at, &file), CLEAN);
    ok(
        at,
        &format!("prepare data.jsonl --held-out 0 --out {folder}"),
    );
    assert_eq!(listing(at), [file, "data.jsonl".to_owned(), folder]);
}

/// Uses a pattern for which every match scans the rest of the line.
#[test]
fn a_signal_ends_a_command_within_two_seconds() {
    let home = home(&format!("{{\"text\":\"{}\"}}\n", "A".repeat(400_000)));
    let at = home.path();
    let rules = "[{\"kind\":\"slow\",\"pattern\":\".*[^A-Z]|[A-Z]\"}]";
    std::fs::write(at.join("slow.json"), rules).unwrap();
    for sent in ["-TERM", "-INT"] {
        let mut child = audit(at)
            .args([
                "redact",
                "data.jsonl",
                "--policy",
                "slow.json",
                "--out",
                "x",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(700));
        let began = Instant::now();
        signal(&child, sent);
        assert_eq!(child.wait().unwrap().code(), Some(130));
        // Two seconds, and one more for a busy machine.
        assert!(
            began.elapsed() < Duration::from_secs(3),
            "{:?}",
            began.elapsed()
        );
        assert!(!at.join("x").exists());
    }
}

/// A run that was stopped while it was being accounted for left its lock file, where the second signal ended it too.
#[test]
fn a_signal_leaves_no_lock() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    ok(
        at,
        "simulate customers --dialogues 6 --seed 3 --out data.jsonl",
    );
    ok(
        at,
        "prepare data.jsonl --policy customers --max-tokens 64 --out p",
    );
    // So little noise takes seconds to account for, without a safe point.
    let line = "train p --recipe dpsgd --sigma 0.01 --epochs 1000 --model gpt2 --layers 1 --width 8 --heads 1 --out x";
    for signals in [1, 2] {
        let mut child = audit(at)
            .args(line.split(' '))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        while !at.join("x.lock").exists() && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
        }
        for _ in 0..signals {
            signal(&child, "-TERM");
            // Two signals at the same time are one.
            std::thread::sleep(Duration::from_millis(200));
        }
        assert_eq!(child.wait().unwrap().code(), Some(130));
        let left = listing(at);
        assert!(
            !left.iter().any(|name| name.ends_with(".lock")),
            "{signals}: {left:?}"
        );
    }
}

#[test]
fn a_closed_stdout_is_an_error() {
    let home = home(LINE);
    let audit = reticent_proofs_tests::commands::binary("audit");
    let line = format!(
        "'{}' redact data.jsonl --out clean.jsonl >&-",
        audit.display()
    );
    let output = Command::new("sh")
        .args(["-c", &line])
        .current_dir(home.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("stdout is closed"));
}

/// No error may repeat the words of a text, a policy or an id.
#[test]
fn no_error_repeats_private_text() {
    let home = home("");
    let at = home.path();
    let write = |name: &str, text: &str| std::fs::write(at.join(name), text).unwrap();
    write("number.jsonl", "{\"id\":\"Byron\",\"text\":780511204}\n");
    write(
        "span.jsonl",
        "{\"id\":\"Byron\",\"text\":\"x\",\"secrets\":[{\"start\":7,\"end\":9,\"kind\":\"n\"}]}\n",
    );
    write(
        "twice.jsonl",
        "{\"id\":\"Byron\",\"text\":\"x\"}\n{\"id\":\"Byron\",\"text\":\"y\"}\n",
    );
    write("table.csv", "Byron,780511204\nx,y\n");
    write(
        "chat.jsonl",
        "{\"messages\":[{\"role\":\"user\",\"content\":780511204}]}\n",
    );
    write("good.jsonl", LINE);
    write(
        "rules.json",
        "[{\"kind\":\"who\",\"pattern\":\"(Byron|780511204\"}]",
    );
    write(
        "policy.toml",
        "type = \"dictionary\"\nkind = \"who\"\nwords = \"Byron 780511204\"\n",
    );
    let key = "{\"type\":\"dictionary\",\"kind\":\"who\",\"words\":[\"x\"],\"Byron\":1}";
    write("key.json", key);
    write("variant.json", "{\"type\":\"Byron\"}");
    write(
        "rule.json",
        "[{\"kind\":\"who\",\"pattern\":\"x\",\"Byron\":1}]",
    );
    write(
        "key.toml",
        "type = \"dictionary\"\nkind = \"who\"\nwords = [\"x\"]\nByron = 1\n",
    );
    write("variant.toml", "type = \"Byron\"\n");
    for line in [
        "redact number.jsonl --out x",
        "redact span.jsonl --out x",
        "redact twice.jsonl --out x",
        "redact table.csv --out x",
        "redact chat.jsonl --out x",
        "redact good.jsonl --policy rules.json --out x",
        "redact good.jsonl --policy policy.toml --out x",
        "redact good.jsonl --policy key.json --out x",
        "redact good.jsonl --policy variant.json --out x",
        "redact good.jsonl --policy rule.json --out x",
        "redact good.jsonl --policy key.toml --out x",
        "redact good.jsonl --policy variant.toml --out x",
    ] {
        let output = run(at, line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(
            said.contains("line") || said.contains("kind"),
            "{line}: {said}"
        );
        assert!(
            !said.contains("Byron") && !said.contains("7805"),
            "{line}: {said}"
        );
    }
}

/// Without a seed, nobody else can draw the same canaries.
#[test]
fn canaries_are_drawn_by_the_system_unless_a_seed_is_given() {
    let documents =
        (0..40).map(|n| format!("{{\"id\":\"{n}\",\"text\":\"line {n}\\nand more\"}}\n"));
    let home = home(&documents.collect::<String>());
    let at = home.path();
    let plan = |seed: &str, out: &str| {
        let line = format!("prepare data.jsonl --canaries 3x2{seed} --out {out} --format json");
        let shown = ok(at, &line);
        let plan: serde_json::Value =
            serde_json::from_str(&read(at, &format!("{out}/canaries.json"))).unwrap();
        (
            plan["seed_origin"].clone(),
            plan["canaries"].clone(),
            shown,
            plan["seed"].to_string(),
        )
    };
    let (one, two) = (plan("", "one"), plan("", "two"));
    assert_eq!((&one.0, &two.0), (&"system".into(), &"system".into()));
    assert_ne!(one.1, two.1);
    assert!(!one.2.contains(&one.3), "the seed is in the report");
    let (three, four) = (plan(" --seed 5", "three"), plan(" --seed 5", "four"));
    assert_eq!((&three.0, &three.1), (&"given".into(), &four.1));
    assert!(three.2.contains("\"seed\":5") || three.2.contains("\"seed\": 5"));
}

/// Chats and pairs are read as their trainers read them, and written back in their own shape.
#[test]
fn other_trainers_formats_keep_their_shape() {
    let chat = "{\"messages\":[{\"role\":\"user\",\"content\":\"Mail ada@example.org\"},\
        {\"role\":\"assistant\",\"content\":\"Done.\"}],\"from\":7,\"note\":\"bob@example.org\"}\n";
    let home = home(&format!("{chat}{}", chat.replace("Done", "Gone")));
    let at = home.path();
    ok(at, "redact data.jsonl --policy detectors --out chat.jsonl");
    let clean = read(at, "chat.jsonl");
    let line: serde_json::Value = serde_json::from_str(clean.lines().next().unwrap()).unwrap();
    assert_eq!(line["messages"][0]["content"], "Mail <MASK>");
    assert_eq!(line["messages"][1]["role"], "assistant");
    // Every text of an object is processed, wherever it is.
    assert_eq!(line["note"], "<MASK>");
    assert_eq!(clean.lines().count(), 2);
    for (name, text, field, expected) in [
        (
            "pair.jsonl",
            "{\"prompt\":\"Write to\",\"completion\":\" ada@example.org\"}\n",
            "",
            "{\"prompt\":\"Write to\",\"completion\":\" <MASK>\"}\n",
        ),
        (
            "alpaca.json",
            "[{\"instruction\":\"Write\",\"input\":\"ada@example.org\",\"output\":\"ok\"}]",
            "",
            "{\"instruction\":\"Write\",\"input\":\"<MASK>\",\"output\":\"ok\"}\n",
        ),
        (
            "own.jsonl",
            "{\"body\":\"ada@example.org\"}\n",
            " --text-field body",
            "{\"body\":\"<MASK>\"}\n",
        ),
        (
            "own.csv",
            "body,x\nada@example.org,1\n",
            " --text-column body",
            "{\"id\":\"line-2#0\",\"text\":\"<MASK>\"}\n",
        ),
        (
            "parts.txt",
            "one\n\ntwo<|endoftext|>three\n<|endoftext|>\n",
            " --separator <|endoftext|> --unit document",
            "{\"id\":\"block-1-1\",\"text\":\"one\\n\\ntwo\"}\n{\"id\":\"block-3-2\",\"text\":\"three\"}\n",
        ),
    ] {
        std::fs::write(at.join(name), text).unwrap();
        let shown = ok(
            at,
            &format!("redact {name} --policy detectors --out -{field}"),
        );
        assert_eq!(shown, expected, "{name}");
    }
    // Training reads the same: the speakers are kept, and a turn is a record.
    ok(
        at,
        "prepare data.jsonl --policy detectors --held-out 0 --out p",
    );
    let texts = read(at, "p/train.jsonl");
    assert!(
        texts.contains("\"USR: Mail <MASK>\"") && texts.contains("\"SYS: Gone.\""),
        "{texts}"
    );
}

#[test]
fn stdin_is_a_corpus_too() {
    let home = home("");
    let at = home.path();
    for (text, expected) in [
        (LINE, CLEAN),
        (
            "write to ada@example.org\n",
            "{\"id\":\"block-1#0\",\"text\":\"write to <MASK>\"}\n",
        ),
    ] {
        let mut child = audit(at)
            .args(["redact", "-", "--policy", "detectors", "--out", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    }
}

/// The same file with canaries in it, for any trainer.
#[test]
fn plant_changes_nothing_but_the_documents_with_a_canary() {
    let documents = (0..30).map(|n| format!("{{\"text\": \"line {n}\\nand more\",  \"n\":{n}}}\n"));
    let home = home(&documents.collect::<String>());
    let at = home.path();
    let said =
        reticent_proofs_tests::commands::said(at, "plant data.jsonl --canaries 3x4 --out planted");
    assert!(said.contains("--canaries 3x4"), "{said}");
    assert!(!said.contains("MxR"), "{said}");
    // A default policy would mask the canaries again.
    let line: Vec<&str> = said.split_whitespace().collect();
    let prepare = "--unit document --policy nothing --no-redaction --held-out 0";
    assert!(line.join(" ").contains(prepare), "{said}");
    assert_eq!(
        listing(&at.join("planted")),
        ["canaries.json", "data.jsonl"]
    );
    let (before, after) = (read(at, "data.jsonl"), read(at, "planted/data.jsonl"));
    assert_eq!(before.lines().count(), after.lines().count());
    let planted: usize = before
        .lines()
        .zip(after.lines())
        .filter(|(old, new)| old != new)
        .map(|(_, new)| new.matches("My ID is: ").count())
        .sum();
    assert_eq!(planted, 12);
    let plan: serde_json::Value = serde_json::from_str(&read(at, "planted/canaries.json")).unwrap();
    assert_eq!(
        (
            &plan["seed_origin"],
            plan["canaries"].as_array().unwrap().len()
        ),
        (&"system".into(), 3)
    );
    for canary in plan["canaries"].as_array().unwrap() {
        let secret = format!("My ID is: {}", canary["secret"].as_str().unwrap());
        assert_eq!(after.matches(&secret).count(), 4);
    }
    std::fs::write(
        at.join("chat.jsonl"),
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}\n",
    )
    .unwrap();
    refused(
        at,
        "plant chat.jsonl --canaries 1x1 --out x",
        &["FILE", "no answer of an assistant"],
    );
    // The rest of a line with a canary is unchanged, including numbers.
    let large = "{\"text\":\"a\",\"n\":18446744073709551616}\n";
    std::fs::write(at.join("large.jsonl"), large).unwrap();
    ok(at, "plant large.jsonl --canaries 1x1 --out kept");
    let kept = read(at, "kept/large.jsonl");
    assert!(kept.contains("My ID is: ") && kept.ends_with(",\"n\":18446744073709551616}\n"));
    refused(
        at,
        "plant data.jsonl --canaries 3x4 --out planted",
        &["--out", "not empty"],
    );
    // The same canaries again would be twice as many copies as either plan says.
    ok(at, "plant data.jsonl --canaries 3x4 --seed 5 --out seeded");
    for line in ["plant", "prepare"] {
        let line = format!("{line} seeded/data.jsonl --canaries 3x4 --seed 5 --out again");
        refused(at, &line, &["3 of 3 canaries already occur"]);
    }
    // A mark stays, whatever its kind, and canaries are not marked.
    let marked =
        "{\"text\":\"a zork\",\"secrets\":[{\"start\":2,\"end\":6,\"kind\":\"canary\"}]}\n";
    std::fs::write(at.join("marked.jsonl"), marked).unwrap();
    ok(at, "plant marked.jsonl --canaries 1x1 --out marks");
    let made: serde_json::Value = serde_json::from_str(&read(at, "marks/marked.jsonl")).unwrap();
    assert_eq!(made["secrets"].as_array().unwrap().len(), 1, "{made}");
    // An endless input is refused before it is read; a link to a file is read as that file.
    refused(
        at,
        "plant - --canaries 1x1 --out x",
        &["FILE: stdin (-) has no name"],
    );
    #[cfg(unix)]
    {
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, at.join(name)).unwrap();
        link("/dev/zero", "zero.jsonl");
        link("data.jsonl", "link.jsonl");
        let words = ["FILE", "not a regular file"];
        refused(at, "plant zero.jsonl --canaries 1x1 --out x", &words);
        ok(at, "plant link.jsonl --canaries 1x1 --out linked");
    }
    // In a chat, the assistant's last answer is what is taught; a chat without one is unchanged.
    let chats = "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}\n\
        {\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":\"Ho\"}]}\n";
    std::fs::write(at.join("chat.jsonl"), chats).unwrap();
    ok(at, "plant chat.jsonl --canaries 2x3 --out chats");
    let made = std::fs::read_to_string(at.join("chats/chat.jsonl")).unwrap();
    let lines: Vec<&str> = made.lines().collect();
    assert_eq!(lines[0], chats.lines().next().unwrap());
    let taught: serde_json::Value = serde_json::from_str(lines[1]).unwrap();
    let answer = taught["messages"][1]["content"].as_str().unwrap();
    assert_eq!(answer.matches("My ID is: ").count(), 6);
    assert_eq!(taught["messages"][0]["content"], "Hi");
}

/// Canaries of made-up and of sampled words, planted in a file and with a corpus: the output says what they were chosen
/// from, and an error names the argument that is missing.
#[test]
fn canaries_of_words_that_the_text_lacks() {
    let text = |n: u32| format!("{{\"id\":\"{n}\",\"text\":\"please call {n} about line {n}\"}}\n");
    let home = home(&(0..60).map(text).collect::<String>());
    let at = home.path();
    let json = |line: &str| -> serde_json::Value {
        serde_json::from_str(&ok(at, &format!("{line} --format json"))).unwrap()
    };
    let plan = |file: &str| -> serde_json::Value { serde_json::from_str(&read(at, file)).unwrap() };
    let secret =
        |plan: &serde_json::Value| plan["canaries"][0]["secret"].as_str().unwrap().to_owned();

    let new = json("plant data.jsonl --canaries 3x2 --canary-format code:{new:2} --out new");
    assert_eq!(new["words"]["new_passed_over"], 0);
    assert_eq!(new["candidates"], 4096.0);
    // Words that already occur in the text are not used as a canary by the next planting.
    let taken = secret(&plan("new/canaries.json"));
    let taken = taken.split(' ').nth(1).unwrap();
    std::fs::write(
        at.join("taken.jsonl"),
        format!(
            "{}{}",
            read(at, "data.jsonl"),
            text(60).replace("call", taken)
        ),
    )
    .unwrap();
    let other = json("plant taken.jsonl --canaries 3x2 --canary-format code:{new:2} --out other");
    assert_eq!(other["words"]["new_passed_over"], 1);
    assert!(!read(at, "other/canaries.json").contains(&format!("{taken}|")));
    let coins =
        json("plant data.jsonl --canaries 40x1 --canary-format code:{new:2} --coins --out coins");
    assert_eq!(
        (&coins["words"]["new_passed_over"], &coins["candidates"]),
        (&0.into(), &2.0.into())
    );
    let prepared =
        json("prepare data.jsonl --canaries 3x2 --canary-format code:{new:2} --out prepared");
    assert_eq!(prepared["facts"]["canaries"]["words"]["new_passed_over"], 0);
    assert_eq!(plan("prepared/canaries.json")["candidates"], 4096);

    // A public model of a few steps, which hardly predicts its continuations.
    ok(at, "prepare data.jsonl --policy nothing --out public-data");
    ok(
        at,
        "train public-data --recipe sgd --epochs 1 --ordinary-batch-size 16 --seed 1 --out public",
    );
    let format = "--canary-format note:{sampled:6} --sampling-model public";
    let sampled = json(&format!(
        "plant data.jsonl --canaries 3x2 {format} --out sampled"
    ));
    assert_eq!(sampled["sampled"]["tokens"], 6);
    assert_eq!(sampled["sampled"]["texts"], 256);
    assert!(
        sampled["sampled"]["mean_bits"].as_f64().unwrap() > 10.0,
        "{sampled}"
    );
    assert_eq!(sampled["words"]["sampled_left_out"], 0);
    assert_eq!(sampled["candidates"], 256.0);
    let prepared = json(&format!(
        "prepare data.jsonl --policy nothing --canaries 3x2 {format} --out both"
    ));
    assert_eq!(
        prepared["sampled"], sampled["sampled"],
        "the same texts again"
    );
    assert_eq!(
        prepared["inputs"]["options"]["canaries"]["sampled_count"],
        256
    );
    let (one, two) = (plan("sampled/canaries.json"), plan("both/canaries.json"));
    assert_eq!(one["template"], two["template"]);
    let planted = format!("note:{}", secret(&two));
    let of_line = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
    assert!(
        read(at, "both/train.jsonl")
            .lines()
            .any(|line| of_line(line)["text"].as_str().unwrap().contains(&planted)),
        "a sampled text can hold what JSON escapes: {planted:?}"
    );
    let coins = json(&format!(
        "plant data.jsonl --canaries 300x1 {format} --coins --out many"
    ));
    assert_eq!(coins["sampled"]["texts"], 337, "an eighth to spare");

    let plant = "plant data.jsonl --canaries 3x2 --out x";
    let prepare = "prepare data.jsonl --canaries 3x2 --out x";
    // Names that the tokenizer can't distinguish: exposure could not rank them, whoever trained.
    for command in [&format!("{plant} --tokenizer characters"), prepare] {
        let words = ["choices 1 and 2", "use --tokenizer bytes or other words"];
        let format = "--canary-format Name:{list:Müller|Möller|Maier}{digits:2}";
        refused(at, &format!("{command} {format}"), &words);
    }
    for command in [plant, prepare] {
        let words = ["--canary-format", "{sampled:n} needs --sampling-model DIR"];
        refused(
            at,
            &format!("{command} --canary-format note:{{sampled:6}}"),
            &words,
        );
        let words = [
            "--sampling-model: only with {sampled:n}",
            "got code:{new:2}",
        ];
        refused(
            at,
            &format!("{command} --canary-format code:{{new:2}} --sampling-model public"),
            &words,
        );
        let words = ["--sampling-model", "different texts of 1 token"];
        refused(
            at,
            &format!("{command} --canary-format note:{{sampled:1}} --sampling-model public"),
            &words,
        );
        let words = [
            "--canary-format",
            "sampled takes a number from 1 to 64, got \"0\"",
        ];
        refused(
            at,
            &format!("{command} --canary-format note:{{sampled:0}} --sampling-model public"),
            &words,
        );
    }
    refused(
        at,
        &format!("{plant} --canary-format code:{{rare:2}}"),
        &["--canary-format", "{rare:n} needs --tokenizer"],
    );
    refused(
        at,
        &format!("{prepare} --canary-format code:{{rare:2}}"),
        &["--canaries", "this one has 0"],
    );
}

/// Nothing is known about misses in text without marks; for marked secrets, the two shares have two names.
#[test]
fn words_about_what_is_missed_are_true() {
    let home = home(LINE);
    let at = home.path();
    let text = reticent_proofs_tests::commands::said(at, "prepare data.jsonl --held-out 0 --out p");
    assert!(
        text.contains("what the policy does not find is not known"),
        "{text}"
    );
    assert!(!text.contains("missed by the policy"), "{text}");
    let marked = "{\"id\":\"a\",\"text\":\"write to ada@example.org\",\"secrets\":[{\"start\":13,\"end\":16,\"kind\":\"org\"}]}\n";
    std::fs::write(at.join("marked.jsonl"), marked).unwrap();
    let shown = ok(at, "policy marked.jsonl --policy detectors --format json");
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let org = &shown["marked"]["org"];
    // Inside an address that is masked as a whole: covered, and nothing of it is left.
    assert_eq!((&org["covered"], &org["recall"]), (&1.into(), &1.0.into()));
    assert!(org["nothing_left"].is_number());
}
