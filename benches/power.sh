#!/usr/bin/env bash
# Which audits notice which planted bugs in training, and how often they cry without one.
#
#   benches/power.sh [REPETITIONS] > power.jsonl
#
# One JSON line per bug: how many of the repetitions (20) each audit noticed it in. The replay
# harness runs once per bug. Tiny models; a few minutes on two cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo build --quiet --release -p reticent-reports --example power >&2
"${CARGO_TARGET_DIR:-target}/release/examples/power" "${1:-20}"
