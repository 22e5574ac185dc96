#!/usr/bin/env python3
"""Memory of `audit redact` and `audit prepare` over corpora of any size.

    benches/streams.py AUDIT              bytes of memory for each further record and document
    benches/streams.py AUDIT records 10e6 ten million records of 20 bytes, none repeated
    benches/streams.py AUDIT bytes 5e9    five gigabytes of ordinary text, none repeated

AUDIT is a built command. Peaks are those of the process (wait4). Corpora and outputs lie in a temporary folder (TMPDIR)
and are removed.
"""
import os
import random
import subprocess
import sys
import tempfile
import time

WORDS = "the of and to in is was for on that with as by at from his it an were are which this also be had".split()


def measured(program, line, home):
    """Peak memory in bytes and processor seconds of a command that must succeed."""
    began = time.perf_counter()
    child = subprocess.Popen([program, *line.split()], cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = child.stderr.read().decode()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"audit {line}: {child.returncode}: {said}")
    return usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime, time.perf_counter() - began


LETTERS = str.maketrans("0123456789", "abcdefghij")


def lines(path, count, last=1000):
    """So many records of 20 bytes, all different: a line each, a thousand a document. Letters, which no policy masks."""
    with open(path, "w") as out:
        for number in range(count):
            out.write(f"record {number:012d}\n".translate(LETTERS) + ("\n" if number % last == last - 1 else ""))


def documents(path, count):
    """So many documents of one record of 20 bytes."""
    lines(path, count, 1)


def text(path, size):
    """So many bytes of words in lines of about 100, all different, one to twenty lines a document."""
    draw = random.Random(0)
    ends = ["\n", "\n", "\n", "\n\n"]
    tails = [
        f" {' '.join(draw.choices(WORDS, k=20))}. mail u{draw.randrange(10**9)}@example.org{draw.choice(ends)}"
        for _ in range(4096)
    ]
    written = number = 0
    with open(path, "w") as out:
        while written < size:
            block = "".join(f"{number + at:x}{tail}" for at, tail in enumerate(tails))
            number += len(tails)
            out.write(block)
            written += len(block)


def slopes(program, home):
    commands = {
        "redact, a record": ("redact data.txt --policy detectors --out out.jsonl", lines),
        "redact, a document": ("redact data.txt --policy detectors --out out.jsonl", documents),
        "prepare, a record": ("prepare data.txt --policy detectors --out out", lines),
        "prepare, a document": ("prepare data.txt --policy detectors --out out", documents),
    }
    for name, (line, make) in commands.items():
        peaks = []
        for count in (500_000, 2_000_000):
            make(os.path.join(home, "data.txt"), count)
            peaks.append(measured(program, line, home)[0])
            subprocess.run(["rm", "-rf", "out", "out.jsonl"], cwd=home, check=True)
        print(f"{name}: {(peaks[1] - peaks[0]) / 1_500_000:.0f} bytes; at 2 million {peaks[1] / 1e6:.0f} MB", flush=True)


def main():
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as home:
        if len(sys.argv) == 2:
            slopes(program, home)
            return
        data = os.path.join(home, "data.txt")
        amount = int(float(sys.argv[3]))
        (lines if sys.argv[2] == "records" else text)(data, amount)
        print(f"{os.path.getsize(data) / 1e6:.0f} MB of text", flush=True)
        for line in ("redact data.txt --policy detectors --out out.jsonl", "prepare data.txt --policy detectors --out out"):
            peak, processor, clock = measured(program, line, home)
            print(f"{line}: at most {peak / 1e6:.0f} MB; {processor:.0f} s of the processor, {clock:.0f} s", flush=True)
            subprocess.run(["rm", "-rf", "out", "out.jsonl"], cwd=home, check=True)


main()
