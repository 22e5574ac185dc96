#!/usr/bin/env bash
# The whole acceptance of the CUDA engine in one call. Needs an NVIDIA GPU with its driver and
# the CUDA runtime compiler; without them it says so and ends with 2. Ends with 1 when norms, sums
# or memory are not as they must be.
#
#   benches/gpu.sh [--quick] > gpu.json
#
# Prints one JSON object: the card, equivalence with the processor under fusion and autotune on
# and off, products in bf16 (no share of a sum beyond the clipping norm), memory over 500 Poisson
# batches, private and ordinary steps of GPT-2 small in both precisions, and PyTorch's and Opacus'.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
quick=false
while (($#)); do
    case $1 in
        --quick) quick=true ;;
        --help | -h) sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
        *) echo "error: unknown argument $1 (--quick, --help)" >&2; exit 2 ;;
    esac
    shift
done
export CUDARC_CUDA_VERSION=${CUDARC_CUDA_VERSION:-13000}
build() { cargo build --quiet --release -p reticent-backends --features cuda --example gpu >&2; }
build
gpu=${CARGO_TARGET_DIR:-target}/release/examples/gpu
batches=500 steps=10
if $quick; then batches=40 steps=3; fi

# the driver is asked first: its absence ends here, with the engine's own words
first=$("$gpu" --only equivalence)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp "$gpu" "$scratch/gpu"
echo "full autotune" >&2
mkdir "$scratch/full"
printf '[autotune]\nlevel = "full"\n' >"$scratch/full/cubecl.toml"
full=$(cd "$scratch/full" && "$scratch/gpu" --only equivalence)
# fusion and autotune are switches of the tensor library's build: a copy of the tree has other ones
switches() {
    local tree="$scratch/tree-$1"
    mkdir "$tree"
    git ls-files -z | tar --create --null --files-from=- | tar --extract --directory="$tree"
    sed -i "s/^burn-cuda = .*/burn-cuda = { version = \"=0.21.0\", default-features = false, features = [$2] }/" "$tree/Cargo.toml"
    if (cd "$tree" && CARGO_TARGET_DIR="$scratch/target" build); then
        "$scratch/target/release/examples/gpu" --only equivalence
    else
        echo "error: no build with the features $2" >&2
        echo null
    fi
}
echo "without fusion and autotune" >&2
neither=$(switches neither '"std"')
echo "autotune alone" >&2
tuned=$(switches autotune '"std", "autotune"')
echo "fusion alone" >&2
fused=$(switches fusion '"std", "fusion"')
echo "$batches Poisson batches" >&2
memory=$("$scratch/gpu" --only memory --batches "$batches")
echo "GPT-2 small" >&2
speed=$("$scratch/gpu" --only speed --steps "$steps")
# a card without bf16 says so, and is accepted without it
half=null half_speed=null
if half=$("$scratch/gpu" --only bf16); then
    half_speed=$("$scratch/gpu" --only speed --precision bf16 --steps "$steps")
else
    half=null
fi
peer=null plain=null
if command -v python3 >/dev/null && python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    peers() {
        python3 benches/training_peers.py "$1" --model gpt2 --vocabulary 50257 --width 768 --layers 12 --heads 12 \
            --batch 32 --length 128 --steps "$steps" --device cuda || echo null
    }
    plain=$(peers plain)
    if python3 -c 'import opacus' 2>/dev/null; then peer=$(peers opacus-ghost); fi
fi
card=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)
printf '{"schema":1,"type":"gpu-acceptance","card":"%s","date":"%s","fusion_and_autotune":%s,"full_autotune":%s,"neither":%s,"autotune_alone":%s,"fusion_alone":%s,"memory":%s,"speed":%s,"bf16":%s,"bf16_speed":%s,"pytorch":%s,"opacus":%s}\n' \
    "$card" "$(date -u +%F)" "$first" "$full" "$neither" "$tuned" "$fused" "$memory" "$speed" "$half" "$half_speed" "$plain" "$peer"
# what must hold: norms and sums everywhere, no share beyond the clip, memory that does not grow
case "$first $full $neither $tuned $fused $memory $half" in
    *'"passed":false'* | *'"flat":false'*)
        echo "error: not accepted; see \"passed\" and \"flat\"" >&2
        exit 1
        ;;
esac
