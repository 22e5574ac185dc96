#!/usr/bin/env bash
# The whole acceptance of a device in one call. Ends with 2 where the device is not there, with 1 when
# norms, sums or memory are not as they must be.
#
#   benches/gpu.sh [--quick] [--small] [--device cuda:0|wgpu:0] [--binaries DIR] > gpu.json
#   benches/gpu.sh --build DIR [--device cuda:0|wgpu:0]
#
# Prints one JSON object: the device, equivalence with the processor under fusion and autotune on and
# off, products in bf16 (no share of a sum beyond the clipping norm), memory over 500 Poisson batches,
# private and ordinary steps of GPT-2 small in both precisions, and PyTorch's and Opacus'.
#
# --build writes every program that the acceptance runs into a folder and ends; --binaries runs those,
# so that the machine with the device needs no compiler and no network. cuda needs an NVIDIA GPU with
# its driver and runtime compiler; wgpu, which is built in one way alone (without fusion and autotune),
# any driver for Vulkan, Metal or DirectX 12. --quick runs fewer batches and steps. --small runs small
# models, and marks it: for drivers in software.
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
    cuda) variants=(gpu gpu-neither gpu-autotune gpu-fusion) ;;
    wgpu) variants=(gpu) ;;
    *) echo "error: --device must be cuda:NUMBER or wgpu:NUMBER, got $device" >&2; exit 2 ;;
esac
export CUDARC_CUDA_VERSION=${CUDARC_CUDA_VERSION:-13000} NODEVICE_SELECT=1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
compile() { cargo build --quiet --release -p reticent-backends --features "$kind" --example gpu >&2; }
# Every variant, into a folder.
build_all() {
    local out=$1 variant features tree
    mkdir -p "$out"
    compile
    cp "${CARGO_TARGET_DIR:-target}/release/examples/gpu" "$out/gpu"
    for variant in "${variants[@]:1}"; do
        case $variant in
            gpu-neither) features='"std"' ;;
            gpu-autotune) features='"std", "autotune"' ;;
            gpu-fusion) features='"std", "fusion"' ;;
        esac
        # fusion and autotune are switches of the tensor library's build: a copy of the tree has others
        tree="$scratch/tree-$variant"
        mkdir "$tree"
        git ls-files -z | tar --create --null --files-from=- | tar --extract --directory="$tree"
        sed -i "s/^burn-cuda = .*/burn-cuda = { version = \"=0.21.0\", default-features = false, features = [$features] }/" "$tree/Cargo.toml"
        if (cd "$tree" && CARGO_TARGET_DIR="$scratch/target" compile); then
            cp "$scratch/target/release/examples/gpu" "$out/$variant"
        else
            echo "error: no build with the features $features" >&2
        fi
    done
}
if [[ -n $build ]]; then
    build_all "$build"
    exit 0
fi
if [[ -z $binaries ]]; then
    binaries=$scratch/binaries
    if [[ $kind == cuda ]]; then
        # the driver is asked first: its absence ends here, with the engine's own words
        compile
        "${CARGO_TARGET_DIR:-target}/release/examples/gpu" --device "$device" --only nothing >/dev/null
    fi
    build_all "$binaries"
fi
binaries=$(realpath "$binaries")
[[ -x $binaries/gpu ]] || { echo "error: --binaries: $binaries has no program gpu" >&2; exit 2; }
batches=500 steps=10
if $quick; then batches=40 steps=3; fi
speed=(--only speed --steps "$steps")
peer_sizes=(--vocabulary 50257 --width 768 --layers 12 --heads 12 --batch 32 --length 128)
if [[ $size == small ]]; then
    speed+=(--model-width 64 --model-layers 2 --vocabulary 1000 --batch 16 --length 32)
    peer_sizes=(--vocabulary 1000 --width 64 --layers 2 --heads 1 --batch 16 --length 32)
fi
# runs a variant, in a folder of its own, which may hold settings of the tensor library
run() {
    local variant=$1 folder=$2
    shift 2
    [[ -x $binaries/$variant ]] || { echo null; return; }
    mkdir -p "$scratch/$folder"
    (cd "$scratch/$folder" && "$binaries/$variant" --device "$device" --size "$size" "$@")
}
echo "equivalence" >&2
first=$(run gpu plain --only equivalence)
full=null neither=null tuned=null fused=null
if [[ $kind == cuda ]]; then
    echo "full autotune" >&2
    mkdir "$scratch/full"
    printf '[autotune]\nlevel = "full"\n' >"$scratch/full/cubecl.toml"
    full=$(run gpu full --only equivalence)
    echo "without fusion and autotune; autotune alone; fusion alone" >&2
    neither=$(run gpu-neither plain --only equivalence)
    tuned=$(run gpu-autotune plain --only equivalence)
    fused=$(run gpu-fusion plain --only equivalence)
fi
echo "$batches Poisson batches" >&2
memory=$(run gpu plain --only memory --batches "$batches")
echo "GPT-2, $size" >&2
single=$(run gpu plain "${speed[@]}")
# a device without bf16 says so, and is accepted without it
half_speed=null
if half=$(run gpu plain --only bf16); then
    half_speed=$(run gpu plain "${speed[@]}" --precision bf16)
else
    half=null
fi
peer=null plain=null
if [[ $kind == cuda ]] && command -v python3 >/dev/null && python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    peers() {
        python3 benches/training_peers.py "$1" --model gpt2 "${peer_sizes[@]}" --steps "$steps" --device cuda || echo null
    }
    plain=$(peers plain)
    if python3 -c 'import opacus' 2>/dev/null; then peer=$(peers opacus-ghost); fi
fi
card=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -1 || true)
printf '{"schema":2,"type":"gpu-acceptance","device":"%s","card":"%s","size":"%s","date":"%s","as_built":%s,"full_autotune":%s,"neither":%s,"autotune_alone":%s,"fusion_alone":%s,"memory":%s,"speed":%s,"bf16":%s,"bf16_speed":%s,"pytorch":%s,"opacus":%s}\n' \
    "$device" "$card" "$size" "$(date -u +%F)" "$first" "$full" "$neither" "$tuned" "$fused" "$memory" "$single" "$half" "$half_speed" "$plain" "$peer"
# what must hold: norms and sums everywhere, no share beyond the clip, memory that does not grow
case "$first $full $neither $tuned $fused $memory $half" in
    *'"passed":false'* | *'"flat":false'*)
        echo "error: not accepted; see \"passed\" and \"flat\"" >&2
        exit 1
        ;;
esac
