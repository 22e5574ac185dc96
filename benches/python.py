"""Import, first ε and wheel size of Reticent for Python beside dp_accounting and Opake.

    python3 -m venv env && env/bin/pip install dp-accounting==0.6.0 opake-accounting==0.16.1 WHEEL
    env/bin/python benches/python.py WHEELS...

Every time is of a process of its own, the median of eleven after one that warms the disk's cache: what `import`
takes inside it, and what one ε takes after that (σ 1.1, rate 0.01, 10 000 steps, δ 1e-5; the first call, nothing
warmed).
"""

import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

SETTINGS = {
    "reticent": (
        "import reticent",
        "bounds = reticent.Plan(sigma=1.1, sample_rate=0.01, steps=10_000).epsilon(1e-5); epsilon = bounds.upper",
    ),
    "dp-accounting": (
        "import dp_accounting as d; from dp_accounting import pld",
        "epsilon = pld.PLDAccountant().compose(d.PoissonSampledDpEvent(0.01, d.GaussianDpEvent(1.1)), 10_000)"
        ".get_epsilon(1e-5)",
    ),
    # Its wheel asks for Python 3.11, but fails to import below 3.13 without this.
    "opake-accounting": (
        """import sys, dataclasses
if sys.version_info < (3, 13):
    plain = dataclasses.dataclass
    def without_slot(cls=None, /, **options):
        options.pop("weakref_slot", None)
        return plain(cls, **options) if cls is not None else lambda cls: plain(cls, **options)
    dataclasses.dataclass = without_slot
from opake.api.accounting.core import opake_accounting as o""",
        "epsilon = o.poisson_pld(o.gaussian_pld(1.1, o.DiscretizationConfig()), 0.01).self_compose(10_000).epsilon_at(1e-5)",
    ),
}
CODE = """
import time
start = time.perf_counter()
{load}
loaded = time.perf_counter()
{ask}
print(loaded - start, time.perf_counter() - loaded, epsilon)
"""


def main() -> None:
    print(f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for name, (load, ask) in SETTINGS.items():
        rows = []
        for _ in range(12):
            done = subprocess.run([sys.executable, "-c", CODE.format(load=load, ask=ask)], capture_output=True, text=True)
            if done.returncode != 0:
                print(f"{name}: the environment lacks it: {done.stderr.strip().splitlines()[-1]}")
                break
            rows.append([float(word) for word in done.stdout.split()])
        else:
            imported, answered = (1000 * statistics.median(column) for column in list(zip(*rows[1:]))[:2])
            print(f"{name}: import {imported:.1f} ms, first epsilon {answered:.2f} ms ({rows[-1][2]:.8f})")
    for wheel in map(Path, sys.argv[1:]):
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
