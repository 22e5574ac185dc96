#!/usr/bin/env bash
# Exact exposure of 10x20 canaries over a million candidates on a GPT-2-shaped model (6 layers,
# 256 wide, byte-pair encoding, 50257 tokens), ours against batched flat scoring with transformers
# on the same cores.
#
#   benches/exposure.sh --peers PYTHON [--quick] [--keep DIR] > exposure.jsonl
#
# PYTHON has torch, transformers and tokenizers (pip install torch transformers). One JSON line per
# measurement: ours on a model that memorised the canaries and on one that did not, transformers'
# rate on 2 % of the candidates, both ranks in full on 10^4 candidates, and a memorised secret of
# 16 digits among 10^16. --quick: a tenth of the training and of the sample. --keep: the folder
# with the models, made once and used again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python='' quick='' keep=''
while (($#)); do
    case $1 in
        --peers) python=${2:?--peers needs an interpreter}; shift ;;
        --quick) quick=--quick ;;
        --keep) keep=${2:?--keep needs a folder}; shift ;;
        --help | -h) sed -n '2,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
        *) echo "error: unknown argument $1 (--peers PYTHON, --quick, --keep DIR, --help)" >&2; exit 2 ;;
    esac
    shift
done
[[ -n $python ]] || { echo "error: --peers PYTHON is needed" >&2; exit 2; }
if [[ -z ${AUDIT:-} ]]; then
    cargo build --quiet --release -p reticent-reports --bin audit >&2
    AUDIT=${CARGO_TARGET_DIR:-$PWD/target}/release/audit
fi
folder=$keep
if [[ -z $folder ]]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
fi
"$python" benches/exposure.py --audit "$AUDIT" --folder "$folder" $quick
