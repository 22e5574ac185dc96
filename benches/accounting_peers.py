"""Times the peers that benches/accounting.sh installs, beside ours, and prints tables in Markdown.

python3 accounting_peers.py SPEED ACCOUNT REPEATS PRV_REPEATS, with SPEED the example of reticent-accounting,
ACCOUNT the command. Peers get their best: whatever numpy uses by itself, imports outside every in-process
figure, the median of several runs.
"""

import csv
import importlib.metadata as metadata
import io
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
import warnings

warnings.filterwarnings("ignore")

ROWS = [
    (0.01, 1.1, 10_000),
    (0.001, 0.6, 100_000),
    (0.1, 1.1, 1_000),
    (0.5, 8.0, 2_000),
    (1.0, 50.0, 10_000),
    (1e-4, 0.5, 1_000_000),
]
SECRET = (20480 / 1.7e7, 2000, 100)

PROCESS = """
from dp_accounting.pld import privacy_loss_distribution as pld
one = pld.from_gaussian_mechanism(1.1, sampling_prob=0.01, value_discretization_interval=1e-4)
print(one.self_compose(10000).get_epsilon_for_delta(1e-5))
"""


def timed(work, repeats):
    """The last value and the median of the seconds: on the clock or of the processor, whichever is less, so
    that other work on the machine does not count against a peer."""
    seconds = []
    for _ in range(repeats):
        begun, spent = time.perf_counter(), time.process_time()
        value = work()
        seconds.append(min(time.perf_counter() - begun, time.process_time() - spent))
    return value, statistics.median(seconds)


def processes(command, repeats):
    """What a whole process prints, and its median seconds on the clock and of the processor."""
    def used():
        return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])

    clocks, processors = [], []
    for _ in range(repeats + 1):
        begun, spent = time.perf_counter(), used()
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        clocks.append(time.perf_counter() - begun)
        processors.append(used() - spent)
    # The first run reads files that the others find in memory.
    return text, statistics.median(clocks[1:]), statistics.median(processors[1:])


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def short(seconds):
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def our_rows(speed, runs):
    text = subprocess.run([speed, str(runs)], check=True, capture_output=True, text=True).stdout
    found = {}
    for row in csv.DictReader(io.StringIO(text), delimiter="\t"):
        key = (row["quantity"], float(row["q"]), float(row["sigma"]), int(row["steps"]), float(row["at"]))
        found[key] = (float(row["lower"]), float(row["upper"]), float(row["median_us"]) * 1e-6)
    return found


def epsilons(ours, repeats, prv_repeats):
    from dp_accounting.pld import privacy_loss_distribution as pld
    from prv_accountant import Accountant

    rows = []
    for rate, sigma, steps in ROWS:
        for delta in (1e-5, 1e-10):
            def peer():
                one = pld.from_gaussian_mechanism(sigma, sampling_prob=rate, value_discretization_interval=1e-4)
                return one.self_compose(steps).get_epsilon_for_delta(delta)

            value, seconds = timed(peer, repeats)
            low, high, ours_both = ours["epsilon", rate, sigma, steps, delta]
            ours_remove = ours["epsilon-remove", rate, sigma, steps, delta][2]
            prv, prv_seconds = "–", "–"
            if prv_repeats and delta == 1e-5:
                def other():
                    accountant = Accountant(noise_multiplier=sigma, sampling_probability=rate, delta=delta,
                                            eps_error=0.01, max_compositions=steps)
                    return accountant.compute_epsilon(num_compositions=steps)

                try:
                    found, took = timed(other, prv_repeats)
                    prv, prv_seconds = f"{found[0]:.4f} … {found[2]:.4f}", f"{short(took)} ({took / ours_both:.0f}×)"
                except Exception as error:  # its own checks refuse some rows
                    prv, prv_seconds = type(error).__name__, "–"
            rows.append([f"{rate:g}, {sigma:g}, {steps:g}", f"{delta:g}", f"{low:.8f} … {high:.8f}",
                         short(ours_both), short(ours_remove), f"{value:.6f}", short(seconds),
                         f"**{seconds / ours_both:.0f}×**", prv, prv_seconds])
    print("ε of a Poisson-subsampled Gaussian, the larger of both directions. Ours: relative tolerance 1e-6, both ends, "
          "everything anew for each direction and δ. dp-accounting: connect-the-dots with mesh 1e-4, build, compose "
          "and ε; one build serves both directions. prv-accountant: ε error 0.01, one direction.\n")
    table(["q, σ, T", "δ", "ours", "both directions", "remove alone", "dp-accounting", "its time", "ratio",
           "prv-accountant", "its time"], rows)


def blow_ups(ours, repeats):
    from dp_accounting.pld import privacy_loss_distribution as pld
    import numpy as np
    from scipy import stats

    rate, steps, count = SECRET
    rows = []
    for sigma, mesh in ((2.0, 1e-3), (2.0, 1e-4)):
        weights = stats.binom.pmf(np.arange(count + 1), count, rate)
        kept = weights > 1e-25

        def peer():
            one = pld.from_mixture_gaussian_mechanism(
                standard_deviation=sigma, sensitivities=np.arange(count + 1)[kept],
                sampling_probs=weights[kept] / weights[kept].sum(), value_discretization_interval=mesh)
            remove = one.self_compose(steps)._pmf_remove.to_dense_pmf()
            losses = (np.arange(remove.size) + remove._lower_loss) * mesh
            # From the top: P- and Q-mass of ever larger sets until Q's reaches the prior.
            mass = remove._probs[::-1]
            without = np.cumsum(np.exp(-losses[::-1]) * mass)
            return float(np.cumsum(mass)[np.searchsorted(without, 1e-10)] + remove._infinity_mass)

        try:
            value, seconds = timed(peer, 1 if mesh < 1e-3 else repeats)
            value = f"{value:.6e}"
        except Exception as error:
            value, seconds = type(error).__name__, float("nan")
        low, high, took = ours["blow-up-100", rate, sigma, steps, 1e-10]
        rows.append([f"{sigma:g}", f"{low:.8e} … {high:.8e}", short(took), f"{mesh:g}", value, short(seconds),
                     f"**{seconds / took:.0f}×**"])
    print(f"The posterior of a secret in {count} examples at rate 20480/1.7e7 over {steps} steps, prior 1e-10: our "
          "blow-up against dp-accounting's mixture PLD, summed from its top (it has no such call).\n")
    table(["σ", "ours", "time", "mesh", "dp-accounting", "its time", "ratio"], rows)


def rates(ours, repeats):
    from dp_accounting.pld import privacy_loss_distribution as pld
    from riskcal.analysis import get_beta_from_pld

    rate, sigma, steps = ROWS[0]
    rows = []
    for false_positives in (1e-2, 1e-5):
        def peer():
            one = pld.from_gaussian_mechanism(sigma, sampling_prob=rate, value_discretization_interval=1e-4)
            return 1 - float(get_beta_from_pld(one.self_compose(steps), alpha=false_positives))

        value, seconds = timed(peer, repeats)
        low, high, took = ours["tpr", rate, sigma, steps, false_positives]
        rows.append([f"{false_positives:g}", f"{low:.9f} … {high:.9f}", short(took), f"{value:.9f}", short(seconds),
                     f"**{seconds / took:.0f}×**"])
    print(f"True-positive rate of membership inference at a false-positive rate, q = {rate:g}, σ = {sigma:g}, "
          f"T = {steps}, the direction with the record first; riskcal's beta from dp-accounting's PLD with mesh 1e-4, "
          "which takes the worse of both directions.\n")
    table(["FPR", "ours", "time", "riskcal", "its time", "ratio"], rows)


def whole(account, repeats):
    arguments = ["--sigma", "1.1", "--sample-rate", "0.01", "--steps", "10000", "--delta", "1e-5",
                 "--tolerance", "1e-6"]
    text, ours, ours_spent = processes([account, *arguments, "--format", "json"], 10 * repeats)
    dp = next(row for row in json.loads(text)["guarantees"] if row["notion"] == "dp" and row["method"] == "pld")
    printed, theirs, theirs_spent = processes([sys.executable, "-c", PROCESS], repeats)
    print("Whole processes, start to end: `account` with all its rows (both directions, Rényi, the replaced record of "
          "the what-if table) against a Python that prints the one number.\n")
    table(["", "ε", "on the clock", "of the processor"],
          [["`account " + " ".join(arguments) + "`",
            f"{dp['epsilon']['lower']:.8f} … {dp['epsilon']['upper']:.8f}", short(ours), short(ours_spent)],
           ["Python, dp-accounting, mesh 1e-4", printed.strip(), short(theirs), short(theirs_spent)],
           ["ratio", "", f"**{theirs / ours:.0f}×**", f"**{theirs_spent / ours_spent:.0f}×**"]])


def main():
    speed, account, repeats, prv_repeats = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    load = "/".join(f"{part:.1f}" for part in os.getloadavg())
    versions = ", ".join(f"{name} {metadata.version(name)}"
                         for name in ("dp-accounting", "prv-accountant", "riskcal", "numpy", "scipy"))
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
                 platform.processor()) if os.path.exists("/proc/cpuinfo") else platform.processor()
    print(f"{time.strftime('%Y-%m-%d')}; {model}, {os.cpu_count()} cores, load {load} at the start; "
          f"Python {platform.python_version()}, {versions}; threads of the peers: "
          f"{os.environ.get('OPENBLAS_NUM_THREADS', 'as many as they like')}. Medians of {repeats} runs "
          f"(prv-accountant {prv_repeats}), ours of 101. A peer's time is that on the clock or that of the processor, "
          "whichever is less; ours is on the clock.\n")
    ours = our_rows(speed, 101)
    whole(account, repeats)
    epsilons(ours, repeats, prv_repeats)
    blow_ups(ours, repeats)
    rates(ours, repeats)
    print(f"Load at the end: {'/'.join(f'{part:.1f}' for part in os.getloadavg())}.")


main()
