#!/usr/bin/env python3
"""Training on two workers over TCP against one process held to one thread: time of a step, and whether the weights are equal.

  benches/workers.py AUDIT [LAYERS [WIDTH [CONTEXT]]]

AUDIT is the program, built for release. The model is a GPT-2 of LAYERS (4), WIDTH (128), CONTEXT (64), the text is
made up. Each worker is held to a core. A run of few steps is subtracted from one of more, so that start and end do
not count. Wall time says something on an idle machine only; processor time does on any.
"""
import os
import socket
import subprocess
import sys
import tempfile
import time

FEW, MORE = 2, 8


def started(audit, home, words, core, environment):
    return subprocess.Popen(
        [audit, *words, "--config", "none"], cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, **environment}, preexec_fn=lambda: os.sched_setaffinity(0, [core]),
    )


def trained(audit, home, model, steps, out, workers):
    """Seconds, and processor seconds of the slower worker. Without `workers`, an ordinary run."""
    words = ["train", "prepared", "--recipe", "dpsgd", "--sigma", "1", "--batch-size", "32", "--seed", "4", *model]
    words += ["--steps", str(steps), "--out", out]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    cores = sorted(os.sched_getaffinity(0))
    began = time.monotonic()
    ranks = [
        started(audit, home, words, cores[rank], {
            "RANK": str(rank), "WORLD_SIZE": str(workers), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
        } if workers else {})
        for rank in range(workers or 1)
    ]
    used = []
    for rank in ranks:
        _, status, resources = os.wait4(rank.pid, 0)
        if status:
            for other in ranks:
                other.kill()
            sys.exit(f"audit {' '.join(words)}: status {status}")
        used.append(resources.ru_utime + resources.ru_stime)
    return time.monotonic() - began, max(used)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    audit = os.path.abspath(sys.argv[1])
    layers, width, context = [*sys.argv[2:], *["4", "128", "64"][len(sys.argv) - 2:]]
    model = ["--model", "gpt2", "--layers", layers, "--width", width, "--heads", "4", "--context", context]
    with tempfile.TemporaryDirectory() as home:
        os.environ["RETICENT_OWNER_KEY"] = f"{home}/owner.key"
        quiet = {"cwd": home, "stdout": subprocess.DEVNULL, "check": True}
        subprocess.run([audit, "simulate", "customers", "--dialogues", "600", "--seed", "1", "--out", "data.jsonl"], **quiet)
        prepare = "prepare data.jsonl --policy nothing --unit dialogue --seed 1 --out prepared --config none"
        subprocess.run([audit, *prepare.split()], **quiet)
        print(f"GPT-2 of {layers} layers, {width} wide, T = {context}, batches of 32, load {os.getloadavg()[0]:.1f}")
        print(f"{'a step of':12} {'seconds':>8} {'cpu':>8}")
        steps = {}
        for name, workers in [("one process", 0), ("one worker", 1), ("two workers", 2)]:
            runs = [trained(audit, home, model, count, f"out{workers}-{count}", workers) for count in (FEW, MORE)]
            steps[workers] = [(more - few) / (MORE - FEW) for few, more in zip(*runs)]
            print(f"{name:12} {steps[workers][0]:8.2f} {steps[workers][1]:8.2f}", flush=True)
        same = ["cmp", "-s", f"out1-{MORE}/model.safetensors", f"out2-{MORE}/model.safetensors"]
        equal = subprocess.run(same, cwd=home).returncode == 0
        print(f"the weights of one worker and two are equal: {equal}")
        ratios = [f"{one / two:.2f}" for one, two in zip(steps[0], steps[2])]
        print(f"two workers against one process: {ratios[0]} by the clock, {ratios[1]} by the processor of the slower")
        return not equal


if __name__ == "__main__":
    sys.exit(main())
