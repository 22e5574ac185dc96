#!/usr/bin/env bash
# The whole acceptance of a device in one call. Ends with 2 where the device is not there, with 1 when
# norms, sums or memory are not as they must be.
#
#   benches/gpu.sh [--quick] [--small] [--device cuda:0|wgpu:0] [--binaries DIR] > gpu.json
#   benches/gpu.sh --build DIR [--device cuda:0|wgpu:0]
#
# Prints one JSON object: the device, equivalence with the processor, products in bf16 (no share of a
# sum beyond the clipping norm), memory over 500 Poisson batches, private and ordinary steps of GPT-2
# small at three shapes, of an LSTM and of an adapter on a Qwen2, in both precisions, scores, and the
# same steps of PyTorch and Opacus. Each part goes to the other stream as it ends.
#
# --build writes the program that the acceptance runs into a folder and ends; --binaries runs it, so
# that the machine with the device needs no compiler and no network. cuda needs an NVIDIA GPU with its
# driver and runtime compiler; wgpu any driver for Vulkan, Metal or DirectX 12. --quick runs fewer
# batches, steps and shapes. --small runs small models, and marks it: for drivers in software.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
quick=false size=full device=cuda:0 binaries= build=
while (($#)); do
    case $1 in
        --quick) quick=true ;;
        --small) size=small ;;
        --device | --binaries | --build)
            (($# > 1)) || { echo "error: $1 needs a value" >&2; exit 2; }
            declare "${1#--}=$2"
            shift
            ;;
        --help | -h) sed -n '2,18s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
        *) echo "error: unknown argument $1 (--quick, --small, --device, --binaries, --build, --help)" >&2; exit 2 ;;
    esac
    shift
done
kind=${device%%:*}
case $kind in
    cuda | wgpu) ;;
    *) echo "error: --device must be cuda:NUMBER or wgpu:NUMBER, got $device" >&2; exit 2 ;;
esac
export CUDARC_CUDA_VERSION=${CUDARC_CUDA_VERSION:-13000} NODEVICE_SELECT=1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
build() {
    mkdir -p "$1"
    cargo build --quiet --release -p reticent-backends --features "$kind" --example gpu >&2
    cp "${CARGO_TARGET_DIR:-target}/release/examples/gpu" "$1/gpu"
}
if [[ -n $build ]]; then
    build "$build"
    exit 0
fi
if [[ -z $binaries ]]; then
    binaries=$scratch
    build "$binaries"
fi
binaries=$(realpath "$binaries")
[[ -x $binaries/gpu ]] || { echo "error: --binaries: $binaries has no program gpu" >&2; exit 2; }
batches=500 steps=5
if $quick; then batches=40 steps=3; fi
# kernels that one part compiled are there for the next
mkdir "$scratch/run"
printf '[compilation]\ncache = "local"\n' >"$scratch/run/cubecl.toml"
run() { (cd "$scratch/run" && "$binaries/gpu" --device "$device" --size "$size" "$@"); }
part() { # the object that a part prints, or null where it did not end well
    local name=$1
    shift
    echo "$*" >&2
    { run "$@" || echo '{}'; } | sed -n "s/.*\"$name\":\({.*}\)}\$/\1/p" | grep . | tee >(cat >&2) || echo null
}
list() { local IFS=,; echo "[$*]"; }
shapes=("--model gpt2 --batch 32 --length 128")
if ! $quick; then
    shapes+=("--model gpt2 --batch 256 --length 128" "--model gpt2 --batch 32 --length 1024"
        "--model lstm --batch 256 --length 64" "--model qwen2-lora --batch 8 --length 512")
fi
if [[ $size == small ]]; then
    shapes=("--model gpt2 --model-width 64 --model-layers 2 --vocabulary 1000 --batch 16 --length 32")
fi
# its absence ends here, with the engine's own words
run --only nothing >/dev/null
equivalence=$(part equivalence --only equivalence)
half=$(part bf16 --only bf16 2>/dev/null)
memory=$(part memory --only memory --batches "$batches")
speed=()
for shape in "${shapes[@]}"; do
    for precision in single bf16; do
        # a device without bf16 is accepted without it
        [[ $precision == single || $half != null ]] || continue
        # shellcheck disable=SC2086
        speed+=("$(part speed --only speed --steps "$steps" --precision $precision $shape)")
    done
done
# shellcheck disable=SC2086
score=$(part score --only score --steps 3 ${shapes[0]})
peers=()
if [[ $kind == cuda && $size == full ]] && command -v python3 >/dev/null &&
    python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    peer() {
        echo "peer $*" >&2
        python3 benches/training_peers.py "$@" --steps "$steps" --device cuda 2>/dev/null | tee >(cat >&2) || echo null
    }
    opacus=false
    if python3 -c 'import opacus' 2>/dev/null; then opacus=true; fi
    for shape in "${shapes[@]}"; do
        read -r _ model _ batch _ length <<<"$shape"
        case $model in
            gpt2) sizes="--vocabulary 50257 --width 768 --layers 12 --heads 12" ;;
            lstm) sizes="--vocabulary 8000 --width 200" ;;
            *) continue ;;
        esac
        sizes="--model $model $sizes --batch $batch --length $length"
        # shellcheck disable=SC2086
        {
            peers+=("$(peer plain $sizes)")
            # compiling takes as long as all else
            if [[ $shape == "${shapes[0]}" ]]; then peers+=("$(peer plain $sizes --precision bf16 --compile)"); fi
            if $opacus; then peers+=("$(peer opacus-ghost $sizes)"); fi
        }
    done
fi
card=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -1 || true)
printf '{"schema":3,"type":"gpu-acceptance","device":"%s","card":"%s","size":"%s","date":"%s","equivalence":%s,"bf16":%s,"memory":%s,"speed":%s,"score":%s,"peers":%s}\n' \
    "$device" "$card" "$size" "$(date -u +%F)" "$equivalence" "$half" "$memory" "$(list "${speed[@]}")" "$score" "$(list ${peers[@]+"${peers[@]}"})"
# what must hold: norms and sums, no share beyond the clip, memory that does not grow
case "$equivalence $memory $half" in
    *'"passed":false'* | *'"flat":false'* | 'null '* | *' null '*)
        echo "error: not accepted; see \"passed\" and \"flat\"" >&2
        exit 1
        ;;
esac
