"""Accounting vectors through Python.

vectors.json holds those of the project's accounting vectors that speak of quantities Python
shows, each with its own source. The crate's tests check the same vectors; that Python gives the
crate's very numbers is checked against the command `account` where it is built (RETICENT_ACCOUNT).
"""

import json
import math
import os
import subprocess
from pathlib import Path

import pytest
import reticent

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text())
BINARY = os.environ.get("RETICENT_ACCOUNT")


def gaussian(sigma: float, steps: int = 1) -> reticent.Plan:
    each = {"type": "gaussian", "noise_multiplier": sigma}
    return reticent.Plan.from_json(json.dumps({"type": "repeat", "times": steps, "each": each}))


def bounds(vector: dict) -> reticent.Bounds:
    """What Python says about a vector. Of one direction it says the larger, which is removal's."""
    x, name = vector["inputs"], vector["id"]
    tolerance = {"tolerance": 1e-12}
    if name.startswith("gauss_delta"):
        return gaussian(x["sigma"]).delta(x["eps"], **tolerance)
    if name.startswith("gauss_eps"):
        return gaussian(x["sigma"], x["T"]).epsilon(x["delta"], **tolerance)
    if name.startswith("gdp_blowup"):
        return gaussian(1 / x["mu"]).tpr(x["p"], tolerance=1e-11)
    if name.startswith("laplace_delta"):
        plan = reticent.Plan.from_json(json.dumps({"type": "laplace", "scale": x["b"]}))
        return plan.delta(x["eps"], **tolerance)
    if name.startswith("sgm_eps"):
        return reticent.Plan(sigma=x["sigma"], sample_rate=x["q"], steps=x["T"]).epsilon(x["delta"], tolerance=1e-9)
    if name == "sgm1_delta_rem":
        return reticent.Plan(sigma=x["sigma"], sample_rate=x["q"], steps=1).delta(x["eps"], **tolerance)
    if name == "sgm3_delta_fine":
        return reticent.Plan(sigma=x["sigma"], sample_rate=x["q"], steps=x["T"]).delta(x["eps"])
    if name == "group_gauss":
        return gaussian(x["sigma"]).delta(x["eps"], group=x["k"], **tolerance)
    if name.startswith("mog_blowup"):
        part, whole = map(float, x["rho"].split("/"))
        plan = reticent.Plan(sigma=x["sigma"], sample_rate=part / whole, steps=x["T"])
        return plan.posterior(x["p"], group=x["n"], tolerance=1e-9)
    if name == "epsdelta_compose":
        parts = [
            {"type": "approx-dp", "epsilon": e, "delta": d, "neighbours": "add-remove"}
            for e, d in zip(x["eps"], x["delta"])
        ]
        return reticent.Plan.from_json(json.dumps({"type": "sequence", "parts": parts})).delta(x["at"])
    raise AssertionError(f"no question for {name}")


def slack(vector: dict) -> float:
    kind, size = vector["tolerance"].split()[:2]
    expected = vector["expected"]
    return float(size) * (abs(expected) if kind == "rel" else 1.0)


@pytest.mark.parametrize("vector", [v for v in VECTORS if "sigma_" not in v["id"]], ids=lambda v: v["id"])
def test_vector(vector: dict) -> None:
    found, expected = bounds(vector), vector["expected"]
    # lower <= exact <= upper, within what the vector itself is good for
    assert found.lower <= expected + slack(vector)
    assert found.upper >= expected - slack(vector)
    assert found.upper - expected <= slack(vector) + 1e-6 * abs(expected)


@pytest.mark.parametrize("vector", [v for v in VECTORS if "gauss_sigma" in v["id"]], ids=lambda v: v["id"])
def test_calibrated(vector: dict) -> None:
    x = vector["inputs"]
    found = reticent.calibrate(
        epsilon=x["eps"], delta=x["delta"], sample_rate=1, steps=1, neighbours="add-remove", tolerance=1e-10
    )
    assert math.isclose(found.answer, vector["expected"], rel_tol=2e-9)


@pytest.mark.skipif(BINARY is None, reason="RETICENT_ACCOUNT names no binary")
@pytest.mark.parametrize("vector", [v for v in VECTORS if v["id"].startswith("sgm_eps")], ids=lambda v: v["id"])
def test_equal_to_the_command(vector: dict) -> None:
    x = vector["inputs"]
    plan = reticent.Plan(sigma=x["sigma"], sample_rate=x["q"], steps=x["T"])
    line = [BINARY, "--sigma", x["sigma"], "--sample-rate", x["q"], "--steps", x["T"], "--delta", x["delta"]]
    said = subprocess.run([*map(str, line), "--format", "json"], capture_output=True, text=True, check=True).stdout
    row = next(g for g in json.loads(said)["guarantees"] if g["notion"] == "dp" and g["method"] == "pld")
    found = plan.epsilon(x["delta"])
    assert (found.lower, found.upper) == (row["epsilon"]["lower"], row["epsilon"]["upper"])
