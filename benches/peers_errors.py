#!/usr/bin/env python3
"""Errors of the peers beside their times, as a table in Markdown: who says less than is true, and by how much.

    benches/peers_errors.py ACCOUNT [PEER…]

ACCOUNT is the built command. ε of a Poisson-subsampled Gaussian, the larger of both directions, at several δ: ours with
both certified ends (tolerance 1e-8), each peer's number, its relative distance from the truth between our ends, and its
seconds of the processor in one run, imports outside. Peers that are not installed are left out by name; PEERs choose
some (prv-accountant takes up to a minute a row). In bold: below
our lower end, which no valid upper bound can be.

Peers: dp-accounting==0.6.0 (PLD, mesh 1e-4; RDP), prv-accountant==0.2.0 (upper end, error 0.01), autodp==0.2.3.1,
opake-accounting==0.16.1, all in one environment. opake's wheel asks for Python 3.11 but fails to import below 3.13
(`weakref_slot` on an abstract base class); that option of dataclasses is dropped here below 3.13, which changes no number.
"""

import dataclasses
import importlib.metadata as metadata
import json
import os
import platform
import resource
import subprocess
import sys
import time
import warnings

warnings.filterwarnings("ignore")

ROWS = [
    (0.01, 1.1, 10_000),
    (0.001, 0.6, 100_000),
    (0.001, 0.5, 100_000),
    (0.5, 8.0, 2_000),
    (1e-4, 0.5, 1_000_000),
    (1e-4, 0.7, 1_000_000),
]
DELTAS = (1e-5, 1e-8, 1e-10)


def ours(account, rate, sigma, steps, delta):
    words = [account, "--sigma", str(sigma), "--sample-rate", str(rate), "--steps", str(steps)]
    def used():
        return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])

    begun = used()
    text = subprocess.run([*words, "--delta", str(delta), "--tolerance", "1e-8", "--format", "json"],
                          check=True, capture_output=True, text=True).stdout
    spent = used() - begun
    row = next(row for row in json.loads(text)["guarantees"] if row["method"] == "pld")
    return row["epsilon"]["lower"], row["epsilon"]["upper"], spent


def dp_accounting():
    import dp_accounting as dp
    from dp_accounting.pld import privacy_loss_distribution as pld
    from dp_accounting.rdp import RdpAccountant

    def by_pld(rate, sigma, steps, delta):
        one = pld.from_gaussian_mechanism(sigma, sampling_prob=rate, value_discretization_interval=1e-4)
        return one.self_compose(steps).get_epsilon_for_delta(delta)

    def by_rdp(rate, sigma, steps, delta):
        accountant = RdpAccountant()
        accountant.compose(dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma)), steps))
        return accountant.get_epsilon(delta)

    return {"dp-accounting PLD": by_pld, "dp-accounting RDP": by_rdp}


def prv_accountant():
    from prv_accountant import Accountant

    def upper(rate, sigma, steps, delta):
        accountant = Accountant(noise_multiplier=sigma, sampling_probability=rate, delta=delta, eps_error=0.01,
                                max_compositions=steps)
        return accountant.compute_epsilon(num_compositions=steps)[2]

    return {"prv-accountant": upper}


def opake():
    if sys.version_info < (3, 13):
        plain = dataclasses.dataclass

        def without_slot(cls=None, /, **options):
            options.pop("weakref_slot", None)
            return plain(cls, **options) if cls is not None else lambda cls: plain(cls, **options)

        dataclasses.dataclass = without_slot
    # The wheel with the mechanisms needs PyTorch; they are calls of this one.
    from opake.api.accounting.core import opake_accounting as native

    def default(rate, sigma, steps, delta):
        config = native.DiscretizationConfig()
        step = native.poisson_pld(native.gaussian_pld(sigma, config), rate)
        return step.self_compose(steps).epsilon_at(delta)

    return {"opake": default}


def autodp():
    from autodp import rdp_acct, rdp_bank

    def by_rdp(rate, sigma, steps, delta):
        accountant = rdp_acct.anaRDPacct()
        accountant.compose_poisson_subsampled_mechanisms(
            lambda order: rdp_bank.RDP_gaussian({"sigma": sigma}, order), rate, coeff=steps)
        return accountant.get_eps(delta)

    return {"autodp": by_rdp}


def main():
    account = sys.argv[1]
    peers, absent = {}, []
    for name, package in [("dp-accounting", dp_accounting), ("prv-accountant", prv_accountant), ("autodp", autodp),
                          ("opake-accounting", opake)]:
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        try:
            peers.update(package())
        except Exception as error:  # absent, or not for this Python
            absent.append(f"{name} ({type(error).__name__}: {str(error)[:80]})")
    versions = []
    for name in ("dp-accounting", "prv-accountant", "autodp", "opake-accounting", "numpy", "scipy"):
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            pass
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
                 platform.processor())
    print(f"{time.strftime('%Y-%m-%d')}; {model}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start; "
          f"Python {platform.python_version()}, {', '.join(versions)}."
          + (f" Left out: {', '.join(absent)}." if absent else "") + "\n")
    print("| q, σ, T | δ | ours | s | " + " | ".join(f"{name} | s" for name in peers) + " |")
    print("|" + "---|" * (4 + 2 * len(peers)))
    worst = {name: (0.0, 0, 0) for name in peers}
    for rate, sigma, steps in ROWS:
        for delta in DELTAS:
            low, high, seconds = ours(account, rate, sigma, steps, delta)
            cells = [f"{rate:g}, {sigma:g}, {steps:g}", f"{delta:g}", f"{low:.6f} … {high:.6f}", f"{seconds:.3f}"]
            for name, peer in peers.items():
                begun = time.process_time()
                try:
                    found = float(peer(rate, sigma, steps, delta))
                except Exception as error:  # its own checks refuse some rows
                    cells += [type(error).__name__, "–"]
                    continue
                seconds = time.process_time() - begun
                apart = found / (0.5 * (low + high)) - 1
                said = f"{found:.6f} ({apart:+.1e})"
                below, under, rows = worst[name]
                if found < low:
                    said = f"**{said}**"
                    worst[name] = (min(below, found / low - 1), under + 1, rows + 1)
                else:
                    worst[name] = (below, under, rows + 1)
                cells += [said, f"{seconds:.2f}"]
            print("| " + " | ".join(cells) + " |", flush=True)
    print()
    for name, (below, under, rows) in worst.items():
        print(f"- {name}: says too little in {under} of {rows}" + (f", by {-below:.1e} at most" if under else "") + ".")


main()
