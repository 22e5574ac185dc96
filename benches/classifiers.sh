#!/usr/bin/env bash
# Encoders and classifiers on real text, from grid files: JFT against DP-SGD at one epsilon, BERT-Tiny by masked tokens.
#
#   benches/classifiers.sh MULTIWOZ [FOLDER]     MULTIWOZ: a folder with test.json.zip and val.json.zip of MultiWOZ 2.1
#
# The turns of the test dialogues are trained on, those of the validation dialogues make the vocabulary and are measured
# on. PYTHON needs tokenizers, torch and transformers, which draw a RoBERTa at random. A grid goes on where it was stopped.
set -euo pipefail
cd "$(dirname "$0")/.."
source=$(realpath "${1:?a folder with MultiWOZ}")
out=${2:-target/classifiers}
python=${PYTHON:-python3}
cargo build --quiet --package reticent-reports --bins
audit=$(realpath "${CARGO_TARGET_DIR:-target}/debug/audit")
mkdir -p "$out"
"$python" benches/multiwoz_domains.py "$source/test.json.zip" "$out/train.jsonl"
"$python" benches/multiwoz_domains.py "$source/val.json.zip" "$out/test.jsonl"
[ -d "$out/roberta" ] || "$python" benches/classifiers/roberta.py "$out/test.jsonl" "$out/roberta"
cp benches/classifiers/*.toml "$out"
cd "$out"
for grid in domains masked; do
    "$audit" grid "$grid.toml" --out "$grid" --jobs 1
done
