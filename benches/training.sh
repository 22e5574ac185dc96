#!/usr/bin/env bash
# Private training steps against our own ordinary ones, and against the Python libraries.
#
#   benches/training.sh [--quick] [--dev] [--peers PYTHON] > training.jsonl
#
# One JSON line per measurement. "only":"both" alternates private and ordinary steps in one
# process ("ratio" of the medians), as "beside" does with private steps of two models; "only":"private" and "public" run one kind, so that
# "peak_bytes" is its own; "recipe":"sdp" are selective steps. With --peers, the interpreter that
# has PyTorch and Opacus (on a tuned BLAS) runs benches/training_peers.py at the same sizes; FASTDP
# and PRIVATE_TRANSFORMERS may name checkouts of those two. --dev takes the development profile,
# whose dependencies and kernels are optimised too, and is built sooner.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
steps=10 python= profile=release
while (($#)); do
    case $1 in
        --quick) steps=3 ;;
        --dev) profile=debug ;;
        --peers) python=${2:?--peers needs an interpreter}; shift ;;
        --help | -h) sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
        *) echo "error: unknown argument $1 (--quick, --dev, --peers PYTHON, --help)" >&2; exit 2 ;;
    esac
    shift
done
as=(--release)
[[ $profile == release ]] || as=()
cargo build --quiet "${as[@]}" -p reticent-backends --features cpu --example throughput >&2
ours=${CARGO_TARGET_DIR:-target}/$profile/examples/throughput

measure() { "$ours" --steps "$steps" "$@"; }
small=(--model gpt2 --vocabulary 8000 --width 256 --layers 4 --heads 8 --batch 8)
for length in 64 256; do
    for only in both public private; do
        measure "${small[@]}" --length "$length" --only "$only"
    done
done
paper=(--model lstm --width 200 --batch 64 --length 40)
for vocabulary in 98 15000; do
    measure "${paper[@]}" --vocabulary "$vocabulary"
done
measure "${paper[@]}" --vocabulary 15000 --recipe sdp
measure "${paper[@]}" --vocabulary 15000 --dropout 0.2
measure "${small[@]}" --length 64 --dropout 0.1
large=(--model gpt2 --vocabulary 50257 --width 384 --layers 6 --heads 6 --batch 8 --length 64)
measure "${large[@]}"
measure "${large[@]}" --beside lora:16
for family in mistral qwen2 qwen3 gemma gemma2 gemma3 phi phi3 gpt-neox gpt-neo opt olmo2 granite smollm3 stablelm starcoder2 gpt-bigcode; do
    measure --model llama "${small[@]:2}" --length 64 --beside "$family"
done
bert=(--model bert --vocabulary 8000 --width 128 --layers 2 --heads 2 --batch 32 --length 64)
measure "${bert[@]}" --only private --classes 6
measure "${bert[@]}" --only private --masked true

[[ -n $python ]] || exit 0
peer() { "$python" benches/training_peers.py "$@" --steps "$steps" || echo "error: $* did not run" >&2; }
for vocabulary in 98 15000; do
    peer opacus "${paper[@]}" --vocabulary "$vocabulary"
done
peer plain "${large[@]}"
# ghost clipping came with Opacus 1.5; before, it keeps per-example gradients
ghost=opacus-ghost
"$python" -c 'from opacus.grad_sample import GradSampleModuleFastGradientClipping' 2>/dev/null || ghost=opacus
peer "$ghost" "${large[@]}"
for peer in opacus "$ghost"; do
    peer "$peer" "${bert[@]}" --classes 6
    peer "$peer" "${bert[@]}"
done
[[ -z ${FASTDP:-} ]] || peer fastdp "${large[@]}" --source "$FASTDP"
[[ -z ${PRIVATE_TRANSFORMERS:-} ]] || peer private-transformers "${large[@]}" --source "$PRIVATE_TRANSFORMERS"
