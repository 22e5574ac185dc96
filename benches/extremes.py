#!/usr/bin/env python3
"""Extreme questions to the `account` command: how long, how much memory, and whether any answer is no number.

    benches/extremes.py ACCOUNT [SEED [COUNT]]

ACCOUNT is the built command. COUNT (300) mechanisms of every type are drawn by SEED (1): noise from 0.01 to 1e4,
rates from 1e-9, steps to 1e9, sequences to depth three, delta to 1e-300, epsilon to 1e4, priors to 2^-256. Each is
one process. Printed are those that crash, take more than 50 MB or 5 s of the processor, or print a number that is
none; then a summary. Ends with 1 if there was one. Needs Linux and Python 3 alone.
"""

import json
import math
import os
import random
import subprocess
import sys
import tempfile

MEGABYTES = 50
SECONDS = 5
NEIGHBOURS = ["add-remove", "replace", "zero-out"]


class Draw:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.one_of = self.random.choice

    def between(self, least, most):
        """Log-uniform."""
        return math.exp(self.random.uniform(math.log(least), math.log(most)))

    def chance(self, share):
        return self.random.random() < share

    def noise(self):
        return self.one_of([0.01, 1e4, self.between(0.01, 1e4), self.between(0.3, 5), self.between(5e3, 1e4)])

    def rate(self):
        return self.one_of([1, self.between(1e-9, 1), self.between(1e-4, 1), self.between(1e-3, 0.3)])

    def steps(self):
        return int(self.one_of([1, 2, 1e9, self.between(1, 1e9), self.between(1, 100)]))

    def sampling(self):
        """A sampler and the rate that belongs to it."""
        rate = self.rate()
        kind = self.one_of(["poisson"] * 3 + ["without-replacement", "epochs", "allocation", "truncated"])
        if kind == "epochs":
            return self.one_of(["shuffled", "balls-in-bins"]), 1 / int(self.between(1, 1e5))
        if kind == "allocation":
            steps = int(self.between(1, 2000))
            selected = self.random.randint(1, min(steps, 20))
            return {"random-allocation": {"selected": selected, "steps": steps}}, selected / steps
        if kind == "truncated":
            records = int(self.between(10, 1e7))
            most = int(records * rate * self.one_of([0.5, 1, 1.1, 1.5, 3])) + self.one_of([1, 3])
            return {"truncated-poisson": {"max_batch": min(most, records), "records": records}}, rate
        return kind, rate

    def sensitivity(self):
        return self.one_of([1, 1, 2, 7, 100, 1000, 10000, int(self.between(1, 1e6))])

    def one(self):
        kind = self.one_of(
            ["gaussian", "subsampled-gaussian", "subsampled-gaussian", "subsampled-laplace", "laplace", "mixture"]
            + ["poisson-binomial", "discrete-gaussian", "discrete-laplace"] * 2
            + ["randomised-response", "exponential-mechanism", "pure-dp", "approx-dp"]
        )
        if kind == "gaussian":
            return {"type": kind, "noise_multiplier": self.noise()}
        if kind == "laplace":
            return {"type": kind, "scale": self.noise()}
        if kind.startswith("subsampled"):
            sampling, rate = self.sampling()
            noise = "scale" if kind.endswith("laplace") else "noise_multiplier"
            return {"type": kind, noise: self.noise(), "sampling_rate": rate, "sampling": sampling}
        if kind == "poisson-binomial":
            rates = [self.rate() for _ in range(self.one_of([1, 3, 20, 200, 1000]))]
            return {"type": "poisson-binomial-gaussian", "noise_multiplier": self.noise(), "rates": rates}
        if kind == "mixture":
            places = sorted({self.between(1e-3, 100) for _ in range(self.one_of([2, 3, 10, 50]))})
            weights = [self.between(1e-12, 1) for _ in places]
            shares = [weight / sum(weights) for weight in weights]
            kind = "mixture-of-gaussians"
            return {"type": kind, "noise_multiplier": self.noise(), "sensitivities": places, "probabilities": shares}
        if kind == "discrete-gaussian":
            return {"type": kind, "sigma": self.noise(), "sensitivity": self.sensitivity()}
        if kind == "discrete-laplace":
            return {"type": kind, "scale": self.noise(), "sensitivity": self.sensitivity()}
        if kind == "randomised-response":
            truth = self.one_of([0.5, 0.9, self.between(1e-6, 1), 1 - self.between(1e-9, 0.5)])
            return {"type": kind, "truth": truth, "categories": self.one_of([2, 3, 1000, 1000000])}
        epsilon = self.one_of([0, 1e4, self.between(1e-9, 1e4), self.between(0.01, 10)])
        promise = {"type": kind, "epsilon": epsilon, "neighbours": self.one_of(NEIGHBOURS)}
        if kind == "approx-dp":
            promise["delta"] = self.one_of([0, 1e-10, self.between(1e-300, 1e-3)])
        return promise

    def run(self, depth=0):
        share = self.random.random()
        if share < 0.3 or depth > 2:
            return self.one()
        if share < 0.75:
            each = self.one() if self.chance(0.8) else self.run(depth + 1)
            return {"type": "repeat", "times": self.steps(), "each": each}
        return {"type": "sequence", "parts": [self.run(depth + 1) for _ in range(self.one_of([2, 3, 5]))]}

    def question(self):
        words = ["--neighbours", self.one_of(NEIGHBOURS)]
        if self.chance(0.2):
            words += ["--group", str(self.one_of([2, 10, 100, 1000]))]
        command = self.one_of([[], [], [], ["explain"], ["curve"]])
        if command == ["curve"]:
            what = self.one_of(["profile", "epsilon", "trade-off", "renyi", "blow-up"])
            return command, words + ["--what", what, "--points", "5"]
        if self.chance(0.6):
            words += ["--delta", repr(self.one_of([1e-5, 1e-10, 1e-295, 1e-300, self.between(1e-300, 1e-2)]))]
        else:
            words += ["--at-epsilon", repr(self.one_of([0, 1e4, self.between(1e-6, 1e4), self.between(0.1, 10)]))]
        if command == [] and self.chance(0.3):
            words += ["--prior", repr(self.one_of([2.0**-256, 0.5, self.between(2**-256, 0.5)]))]
        if self.chance(0.2):
            words += ["--tolerance", self.one_of(["1e-9", "1e-3"])]
        return command, words


def no_number(value):
    """Infinity is spelled "inf" in the documents, and nothing else is."""
    if isinstance(value, dict):
        return any(map(no_number, value.values()))
    if isinstance(value, list):
        return any(map(no_number, value))
    return isinstance(value, float) and not math.isfinite(value) or str(value).lower() == "nan"


def measured(words):
    """Exit status, processor time, peak megabytes, what was said."""
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, said


def main():
    account = sys.argv[1]
    seed, count = (int(word) for word in (sys.argv[2:4] + ["1", "300"][len(sys.argv) - 2 :]))
    draw = Draw(seed)
    answered = refused = wrong = 0
    most_time = most_memory = 0.0
    with tempfile.NamedTemporaryFile("w+", suffix=".json") as file:
        for _ in range(count):
            mechanism = draw.run()
            file.seek(0)
            file.truncate()
            json.dump(mechanism, file)
            file.flush()
            command, words = draw.question()
            code, seconds, megabytes, said = measured(
                [account, *command, "--mechanism", file.name, "--format", "json", *words]
            )
            answered += code == 0
            refused += code == 2
            most_time, most_memory = max(most_time, seconds), max(most_memory, megabytes)
            problems = []
            if code not in (0, 2):
                problems.append(f"exit status {code}")
            if code == 0 and no_number(json.loads(said)):
                problems.append("a number that is none")
            if seconds > SECONDS:
                problems.append(f"{seconds:.1f} s")
            if megabytes > MEGABYTES:
                problems.append(f"{megabytes:.0f} MB")
            if problems:
                wrong += 1
                print(", ".join(problems), "|", *command, *words, "|", json.dumps(mechanism), "|", said[-200:])
    print(
        f"seed {seed}: {count} questions, {answered} answered, {refused} refused with a sentence, {wrong} with a problem; "
        f"at most {most_memory:.0f} MB and {most_time:.1f} s of the processor"
    )
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
