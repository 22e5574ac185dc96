//! Exit code 2 with argument, value and range.

use super::folder;
use crate::common::{account, stderr};

#[test]
fn bad_input_is_two_with_argument_value_and_range() {
    let folder = folder();
    let at = folder.path();
    for (line, said) in [
        (
            "curve --sigma 1.1 --at -1",
            "--at: must be a number in [0, inf], got \"-1\"",
        ),
        (
            "curve --sigma 1.1 --at 1,NaN",
            "--at: must be a number in [0, inf], got \"NaN\"",
        ),
        (
            "curve --sigma 1.1 --what trade-off --at 2",
            "--at: probability must lie in [0, 1], got 2",
        ),
        (
            "curve --sigma 1.1 --what renyi --at 1",
            "--at: order must lie in (1, inf), got 1",
        ),
        (
            "curve --sigma 1.1 --points 1",
            "--points: must be a whole number in [2, 1000], got \"1\"",
        ),
        (
            "curve --sigma 1.1 --group 0",
            "--group: must be a whole number in [1, 10000], got \"0\"",
        ),
        (
            "curve --sigma 1.1 --tolerance 2",
            "--tolerance: tolerance must lie in [1e-12, 0.5], got 2",
        ),
        (
            "curve --sigma 1.1 --what posterior --neighbours replace",
            "--neighbours: the posterior is for zero-out, got replace",
        ),
        (
            "curve --sigma 1.1 --what profile --delta 1e-5",
            "the argument '--what <WHAT>' cannot be used with '--delta <D>'",
        ),
        (
            "curve --over sigma --sigma 1.1",
            "--sigma: is what --over varies; omit one of them",
        ),
        (
            "curve --over sample-rate --sigma 1.1 --batch-size 5 --dataset-size 50",
            "--batch-size: is what --over varies",
        ),
        (
            "curve --over steps --mechanism plain.json",
            "--mechanism: for a mechanism from a file, only gamma can vary",
        ),
        (
            "curve --over steps --sigma 1.1 --at 2.5",
            "--at: steps must be a whole number in [1, 9007199254740991], got 2.5",
        ),
        (
            "curve --over steps --sigma 1.1 --from 0.4 --to 10",
            "--from: steps must be a whole number in [1, 9007199254740991], got 0.4",
        ),
        (
            "curve --over steps --sigma 1.1 --from 1 --to 9.6",
            "--to: steps must be a whole number in [1, 9007199254740991], got 9.6",
        ),
        // They have no recipe and no --epsilon.
        (
            "curve",
            "--sigma: is needed, in (0, inf), or --mechanism. For example 1.1",
        ),
        (
            "explain",
            "--sigma: is needed, in (0, inf), or --mechanism. For example 1.1",
        ),
        (
            "compose training.toml",
            "training.toml: must be JSON, with what runs; a plan file is for account plan",
        ),
        (
            "compose plain.json --export dp-event --format html",
            "--format: --export writes JSON, got html",
        ),
        (
            "--sigma 1.1 --export mechanism --format csv",
            "--format: --export writes JSON, got csv",
        ),
        (
            "calibrate --epsilon inf",
            "--epsilon: a limit must be finite, got inf",
        ),
        (
            "curve --over sample-rate --sigma 1.1 --to 2",
            "--to: sampling rate must lie in [0, 1], got 2",
        ),
        (
            "curve --over sigma --from 3 --to 2",
            "--from: must lie above 0 and below --to, got 3 and 2",
        ),
        (
            "curve --over gamma --sigma 1.1 --at 1.5",
            "--at: miss rate must lie in [0, 1], got 1.5",
        ),
        (
            "curve --over gamma --sigma 1.1 --neighbours add-remove",
            "--neighbours: redaction compares contents, replace, got add-remove",
        ),
        (
            "curve --sigma 1.1 --plot no/such/x.svg",
            "--plot: cannot write no/such/x.svg",
        ),
        ("compose none.json", "cannot read none.json: No such file"),
        (
            "compose .",
            ". is a folder; a checkpoint's ./manifest.json says what ran",
        ),
        (
            "compose bytes.json",
            "cannot read bytes.json: must be UTF-8, byte 9 is not",
        ),
        (
            "compose broken.json",
            "broken.json: each.noise_multiplier: noise multiplier must lie in (0, inf), got -1",
        ),
        (
            "compose twice.json",
            "twice.json: key \"noise_multiplier\" appears twice",
        ),
        ("compose nan.json", "nan.json: not JSON: "),
        (
            "compose flip.json",
            "flip.json: PermuteAndFlipDpEvent has no counterpart here",
        ),
        ("compose - -", "FILE: stdin (-) can be read only once"),
        (
            "compose manifest.json dialogues.json",
            "FILE: one record is a turn in manifest.json and a dialogue in dialogues.json",
        ),
        (
            "compose plain.json --at-epsilon -1",
            "--at-epsilon: epsilon must lie in [0, inf], got -1",
        ),
        (
            "compose fixed.json --export dp-event",
            "--export dp-event: dp_accounting has no event for batches of fixed size",
        ),
        (
            "--mechanism broken.json",
            "--mechanism: broken.json: each.noise_multiplier: ",
        ),
        (
            "calibrate --max-exposure 0 --chance 0.1",
            "--max-exposure: must be a number of bits in (0, 1074], got \"0\"",
        ),
        (
            "calibrate --max-exposure 5 --chance 2",
            "--chance: probability must lie in [0, 1], got 2",
        ),
        (
            "calibrate --tpr 2 --fpr 0.1",
            "--tpr: probability must lie in [0, 1], got 2",
        ),
        (
            "calibrate --tpr 0.1 --fpr -1",
            "--fpr: probability must lie in [0, 1], got -1",
        ),
        (
            "calibrate --epsilon 2 --sigma 1",
            "--sigma: leaves nothing to find with --solve sigma",
        ),
        (
            "calibrate --epsilon 2 --solve rate",
            "--sigma: is needed with --solve rate",
        ),
        (
            "calibrate --epsilon 2 --solve rate --sigma 1 --sample-rate 0.1",
            "--sample-rate: leaves nothing to find",
        ),
        (
            "calibrate --epsilon 2 --solve steps --sigma 1 --steps 5",
            "--steps: leaves nothing to find",
        ),
        (
            "calibrate --epsilon 2 --solve group --sigma 1 --group 5",
            "--group: leaves nothing to find",
        ),
        (
            "calibrate --epsilon 2 --solve rate --mechanism plain.json",
            "--mechanism: leaves nothing to find",
        ),
    ] {
        let output = account::run(at, line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(output.stdout.is_empty(), "{line}");
        assert!(
            stderr(&output).starts_with(&format!("error: {said}")),
            "{line}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn usage_errors_name_the_arguments() {
    let folder = folder();
    for (line, said) in [
        ("curve", "--sigma"),
        ("curve --sigma 1 --mechanism plain.json", "--mechanism"),
        ("curve --mechanism plain.json --steps 5", "--mechanism"),
        ("curve --sigma 1 --what rainbow", "--what"),
        ("curve --sigma 1 --at 1 --points 5", "--points"),
        ("curve --sigma 1 --delta 1e-5", "--over"),
        ("curve --over sigma --at 1 --from 1", "--from"),
        ("curve --over steps --sigma 1 --what renyi", "--what"),
        ("compose", "FILE"),
        (
            "compose plain.json --delta 1e-5 --at-epsilon 1",
            "--at-epsilon",
        ),
        ("compose plain.json --export yaml", "--export"),
        (
            "compose plain.json --export mechanism --delta 0.1",
            "--export",
        ),
        (
            "compose plain.json --export mechanism --gamma 0.1",
            "--export",
        ),
        (
            "compose plain.json --at-epsilon 1 --max-epsilon 2",
            "--max-epsilon",
        ),
        ("explain", "--sigma"),
        (
            "explain --sigma 1 --at-epsilon 1 --delta 0.1",
            "--at-epsilon",
        ),
        ("calibrate --tpr 0.1", "--fpr"),
        ("calibrate --max-exposure 5", "--chance"),
        ("calibrate --tpr 0.1 --fpr 0.01 --epsilon 1", "--epsilon"),
        ("calibrate --tpr 0.1 --fpr 0.01 --gamma 0.1", "--gamma"),
        (
            "calibrate --max-exposure 5 --chance 0.1 --neighbours replace",
            "--neighbours",
        ),
        ("calibrate --epsilon 1 --solve everything", "--solve"),
    ] {
        let output = account::run(folder.path(), line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(output.stdout.is_empty(), "{line}");
        assert!(
            stderr(&output).contains(said),
            "{line}: {}",
            stderr(&output)
        );
    }
}
