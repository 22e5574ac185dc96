#!/usr/bin/env bash
# Accounting beside its peers, in one run, as tables in Markdown on stdout.
#
#   benches/accounting.sh [REPEATS [PRV_REPEATS]]
#
# Builds ours in release mode, creates a Python environment under target/peers, installs the peers at
# pinned versions from the configured package index, and times both (benches/accounting_peers.py).
# REPEATS (default 5) is how often each peer is run; prv-accountant, which is slower, PRV_REPEATS (1; 0
# leaves it out). Needs python3 with venv and pip, and memory of several gigabytes for the peers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

peers=(dp-accounting==0.6.0 prv-accountant==0.2.0 riskcal==1.5.1 numpy scipy)

fail() { echo "error: $1" >&2; exit 2; }

command -v python3 >/dev/null || fail "python3 is not installed"
python3 -c 'import venv, ensurepip' 2>/dev/null || fail "python3 has no venv or no pip (on Debian: apt install python3-venv)"
target=${CARGO_TARGET_DIR:-target}
home=$target/peers
mkdir -p "$target"
if [[ ! -e $home/installed ]]; then
    rm -rf "$home"
    python3 -m venv "$home"
    "$home/bin/python" -m pip install --quiet "${peers[@]}" >&2 ||
        fail "pip could not install ${peers[*]}: is a package index configured and reachable?"
    touch "$home/installed"
fi

cargo build --release --quiet --package reticent-accounting --example speed
cargo build --release --quiet --package reticent-reports --no-default-features --bin account

exec "$home/bin/python" benches/accounting_peers.py \
    "$target/release/examples/speed" "$target/release/account" "${1:-5}" "${2:-1}"
