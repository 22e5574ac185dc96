#!/usr/bin/env python3
"""Preparation in shards: two processes against one, and the memory of each stage.

  benches/shards.py AUDIT [MEGABYTES [SHARDS [PYTHON]]]

AUDIT is the program, built for release. The corpus is made-up dialogues, copied under other ids until it is that
long (default 100 MB); every copy's text differs by a salt of letters but for every fourth, so that there are
duplicates far apart. PYTHON is an interpreter with dask (pip install "dask[dataframe,distributed]"), which does about
the same work beside; without it, it is left out. Everything is written to a folder that goes away at the end. Wall time says something on an
idle machine only; processor time and memory do on any.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

HOW = ["--policy", "customers", "--conservative", "digits,policy", "--seed", "1"]


def run(audit, home, *words, cores=None):
    return measured([audit, "prepare", "--config", "none", *words], home, cores)


def measured(words, home, cores=None):
    """Seconds, processor seconds and peak memory in MiB, of it and of what it started, on the first `cores` of the
    machine (all of them if `None`)."""
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    began = time.monotonic()
    process = subprocess.Popen(
        words,
        cwd=home,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, allowed),
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(words)}: status {status}")
    return time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def corpus(audit, home, megabytes):
    subprocess.run(
        [audit, "simulate", "customers", "--dialogues", "2000", "--seed", "1", "--out", "seed.jsonl"],
        cwd=home, stdout=subprocess.DEVNULL, check=True,
    )
    with open(f"{home}/seed.jsonl", encoding="utf-8") as file:
        seeds = [json.loads(line) for line in file]
    written = number = 0
    with open(f"{home}/data.jsonl", "w", encoding="utf-8") as out:
        while written < megabytes * 10**6:
            for seed in seeds:
                text = seed["text"]
                if number % 4:
                    salt = "".join(chr(97 + int(digit)) for digit in str(number // len(seeds)))
                    text = "\n".join(f"{line} q{salt}q" for line in text.split("\n"))
                # A salt at the end of a line moves what is marked behind it: the policy finds what there is.
                line = json.dumps({"id": f"d{number}", "text": text}, ensure_ascii=False) + "\n"
                number += 1
                written += len(line.encode())
                out.write(line)
    return os.path.getsize(f"{home}/data.jsonl") / 1e6


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    audit = os.path.abspath(sys.argv[1])
    megabytes = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    shards = sys.argv[3] if len(sys.argv) > 3 else "8"
    python = sys.argv[4] if len(sys.argv) > 4 else None
    with tempfile.TemporaryDirectory() as home:
        os.environ["RETICENT_OWNER_KEY"] = f"{home}/owner.key"
        size = corpus(audit, home, megabytes)
        print(f"{size:.0f} MB, {shards} shards, load {os.getloadavg()[0]:.1f}")
        print(f"{'':22} {'seconds':>8} {'cpu':>8} {'MiB':>6}")

        def say(name, took):
            print(f"{name:22} {took[0]:8.1f} {took[1]:8.1f} {took[2]:6.0f}", flush=True)
            return took

        # With a thread, a process reads ahead and writes behind on others: on one core, it is held to one.
        words = ["data.jsonl", *HOW, "--out", "single", "--threads", "1"]
        single = say("one, one core", run(audit, home, *words, cores=1))[0]
        walls = {}
        for count in [1, 2]:
            plan = f"plan{count}.json"
            words = ["data.jsonl", *HOW, "--out", f"out{count}", "--plan", plan, "--shards", shards, "--threads", "1"]
            planned = say("plan", run(audit, home, *words, cores=count))
            words = ["--plan", plan, "--run", f"local:{count}", "--threads", str(count)]
            ran = say(f"local:{count}, {count} core", run(audit, home, *words, cores=count))
            walls[count] = planned[0] + ran[0]
            same = subprocess.run(["diff", "-r", "single", f"out{count}"], cwd=home).returncode == 0
            print(f"  the folder of one process: {same}")
        ratios = f"{walls[1] / walls[2]:.2f}, against one {single / walls[2]:.2f}"
        print(f"local:2 on two cores against local:1 on one {ratios}")
        if python:
            peer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shards_peer.py")
            for count in [1, 2]:
                words = [python, peer, "data.jsonl", f"dask{count}", str(count)]
                say(f"dask, {count} core", measured(words, home, count))
        run(audit, home, "data.jsonl", *HOW, "--out", "staged", "--plan", "staged.json", "--shards", shards)
        for stage in ["scan", "group", "write"]:
            flag = "--part" if stage == "group" else "--shard"
            stages = [
                run(audit, home, "--plan", "staged.json", "--stage", stage, flag, str(n), "--threads", "1")
                for n in range(int(shards))
            ]
            seconds, processor = sum(s[0] for s in stages), sum(s[1] for s in stages)
            say(f"{stage}, all shards", (seconds, processor, max(s[2] for s in stages)))
        say("join", run(audit, home, "--plan", "staged.json", "--stage", "join"))


if __name__ == "__main__":
    main()
