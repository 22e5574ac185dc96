#!/usr/bin/env bash
# The packing program at the paper's scale: ours against HiGHS' PDLP, in one run, to the same gap.
#
#   benches/protect.sh [FOLDER] [EXPONENT]
#
# 1.7 million examples, 100 000 secrets in 50 to 100 examples each. EXPONENT (0) is the sweep's:
# capacities c mu with c = 2^EXPONENT/2^4 of the least that binds nothing. Needs a python3 with
# highspy and numpy from PyPI (PYTHON=...). HiGHS is given its own relative gap as the stop; what
# it returns is certified here the same way as ours: weights made feasible, prices cut to y >= 0.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-target/protect}
exponent=${2:-0}
mkdir -p "$out"
cargo build --quiet --package reticent-accounting --example secrets_at_scale ${PROFILE:+--profile $PROFILE}
ours=${CARGO_TARGET_DIR:-target}/${PROFILE:-debug}/examples/secrets_at_scale
echo "== ours"
if [ -x /usr/bin/time ]; then
    /usr/bin/time -f "peak memory %M KiB, %e s in all" "$ours" "$out/program.bin" "$exponent"
else
    "$ours" "$out/program.bin" "$exponent"
fi
echo "== HiGHS PDLP"
"${PYTHON:-python3}" - "$out/program.bin" <<'PY'
import resource, sys, time
import highspy
import numpy as np

raw = open(sys.argv[1], "rb").read()
n, m, pairs = np.frombuffer(raw, "<u4", 3)
starts = np.frombuffer(raw, "<u4", int(m) + 1, 12).astype(np.int64)
examples = np.frombuffer(raw, "<u4", int(pairs), 12 + 4 * (int(m) + 1)).astype(np.int32)
capacities = np.frombuffer(raw, "<f8", int(m), 12 + 4 * (int(m) + 1 + int(pairs)))
n, m = int(n), int(m)
rows = np.repeat(np.arange(m), np.diff(starts))

lp = highspy.HighsLp()
lp.num_col_, lp.num_row_ = n, m
lp.sense_ = highspy.ObjSense.kMaximize
lp.col_cost_, lp.col_lower_, lp.col_upper_ = np.ones(n), np.zeros(n), np.ones(n)
lp.row_lower_, lp.row_upper_ = np.full(m, -highspy.kHighsInf), capacities
lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = starts.astype(np.int32), examples, np.ones(int(pairs))

def certified(weights, prices):
    w = np.clip(weights, 0, 1)
    used = np.bincount(rows, w[examples], m)
    share = np.minimum(1, capacities / np.maximum(used, 1e-300))
    scale = np.ones(n)
    np.minimum.at(scale, examples, share[rows])
    mass = (w * scale).sum()
    y = np.maximum(prices, 0)
    most = (capacities * y).sum() + np.maximum(0, 1 - np.bincount(examples, y[rows], n)).sum()
    return mass, most, (most - mass) / most

for tolerance in [float(t) for t in (sys.argv[2:] or ["1e-3", "1e-4"])]:
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("solver", "pdlp")
    highs.setOptionValue("threads", 2)
    highs.setOptionValue("pdlp_optimality_tolerance", tolerance)
    highs.setOptionValue("primal_feasibility_tolerance", tolerance)
    highs.setOptionValue("dual_feasibility_tolerance", tolerance)
    highs.setOptionValue("time_limit", 900.0)
    highs.passModel(lp)
    began = time.time()
    highs.run()
    seconds = time.time() - began
    solution = highs.getSolution()
    prices = np.asarray(solution.row_dual)
    prices = prices if prices.sum() >= 0 else -prices
    mass, most, gap = certified(np.asarray(solution.col_value), prices)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"HiGHS {highs.version()}, tolerance {tolerance:g}: {seconds:.1f} s, {highs.modelStatusToString(highs.getModelStatus())}, "
          f"mass {mass:.3f}, nothing above {most:.3f}, gap {gap:.2e}, peak memory {peak} KiB", flush=True)
    if gap <= 1e-4:
        break
PY
