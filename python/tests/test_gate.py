"""scripts/gate, the gate of action.yml, over a stand-in for `audit`."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
GATE = ROOT / "scripts" / "gate"

SAYS = json.dumps({"says": "Exposure is at most 4 bits.", "outcome": "pass", "inputs": {"max_exposure": 10}})


PASSES = json.dumps({"outcome": "pass"})


def gate(
    folder: Path, report: int, diff: int, *, says: str = SAYS, compared: str = PASSES, version: str = "audit 0 (Reticent)", **environment: str
):  # fmt: skip
    (folder / "bin").mkdir()
    (folder / "says").write_text(says)
    (folder / "compared").write_text(compared)
    (folder / "old.json").write_text("{}")
    audit = folder / "bin" / "audit"
    audit.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = --version ]; then echo "{version}"; exit; fi\n'
        'echo "$@" >> called\n'
        f"case $1:$4 in report:*) cat says; exit {report};; "
        f"diff:--format) cat compared; exit {diff};; "
        f"diff:*) echo compared; exit {diff};; esac\n"
    )
    audit.chmod(0o755)
    path = f"{audit.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [GATE], cwd=folder, env={"PATH": path, "GITHUB_STEP_SUMMARY": str(folder / "summary"), **environment},
        capture_output=True, text=True,
    )  # fmt: skip
    summary = folder / "summary"
    called = folder / "called"
    return done.returncode, summary.read_text() if summary.exists() else "", called.read_text() if called.exists() else ""


def test_within_the_limits(tmp_path) -> None:
    code, summary, called = gate(tmp_path, 0, 0, MODEL="my model", MAX_EXPOSURE="10", OLD="old.json")
    assert code == 0 and "Audit: within the limits" in summary and "before: no more leaks seen" in summary and "Exposure is at most 4 bits." in summary
    assert called.splitlines() == [
        "report --model my model --max-exposure 10 --format json",
        "diff old.json reticent-report.json",
        "diff old.json reticent-report.json --format json",
    ]


@pytest.mark.parametrize(
    ("outcome", "limits", "old", "ends", "heading"),
    [
        ("pass", {}, False, 0, "no limit was set"),
        ("pass", {"max_auc": 0.6}, False, 0, "within the limits"),
        ("open", {}, False, 2, "**nothing can be concluded**; no limit was set"),
        ("open", {}, True, 0, "**nothing can be concluded**; no limit was set"),
        ("open", {"max_exposure": 10}, False, 0, "within the limits; **nothing else can be concluded**"),
        ("review", {}, False, 2, "**a leak for review**; no limit and no promise judges it"),
        ("review", {}, True, 0, "**a leak for review**; no limit and no promise judges it"),
    ],
)
def test_the_heading_is_that_of_the_outcome(tmp_path, outcome, limits, old, ends, heading) -> None:
    """A leak that nothing judged was "within the limits" and passed, and what the audit could not have contradicted was left
    out."""
    verdict = {"outcome": "could-not-contradict", "says": "this audit could not have contradicted the promise"}
    document = {"says": "The model leaks.", "outcome": outcome, "inputs": limits, "exposure": {"verdict": verdict}}
    compared = {"OLD": "old.json"} if old else {}
    code, summary, _ = gate(tmp_path, 0, 0, MODEL="m", says=json.dumps(document), **compared)
    assert code == ends and summary.startswith(f"### Audit: {heading}\n")
    assert f"\nThe model leaks.\nVerdict of exposure: {verdict['says']}\n" in summary
    assert ("set max-exposure" in summary) == (ends == 2)


@pytest.mark.parametrize("outcome", [{}, {"outcome": "fail"}, {"outcome": "other"}])
def test_an_outcome_that_does_not_end_with_0_passes_nothing(tmp_path, outcome) -> None:
    code, summary, _ = gate(tmp_path, 0, 0, MODEL="m", says=json.dumps({"says": "a", **outcome}))
    assert code == 2 and "Audit: **nothing is known**" in summary


@pytest.mark.parametrize(("report", "diff", "ends"), [(1, 0, 1), (0, 1, 1), (2, 0, 2), (1, 2, 2)])
def test_the_worst_exit_code_fails_the_job(tmp_path, report, diff, ends) -> None:
    code, summary, _ = gate(tmp_path, report, diff, MODEL="m", OLD="old.json")
    assert code == ends
    assert ("nothing is known" in summary) == (2 in (report, diff))


@pytest.mark.parametrize("compared", ['{"outcome": "open"}', "{}", ""])
def test_what_is_not_compared_passes_nothing(tmp_path, compared) -> None:
    code, summary, _ = gate(tmp_path, 0, 0, MODEL="m", OLD="old.json", compared=compared)
    assert code == 2 and "no more leaks seen" not in summary and "before: **nothing is known**" in summary


@pytest.mark.parametrize("model", [{}, {"MODEL": "m"}])
def test_the_report_does_not_replace_the_old_one(tmp_path, model) -> None:
    old = tmp_path / "reticent-report.json"
    old.write_text("old")
    assert gate(tmp_path, 0, 0, OLD=str(old), **model) == (2, "", "")
    assert old.read_text() == "old"


@pytest.mark.parametrize("old", ["missing.json", "reticent-report.json"])
def test_an_old_report_that_is_missing_is_an_error(tmp_path, old) -> None:
    assert gate(tmp_path, 0, 0, MODEL="m", OLD=old) == (2, "", "")


@pytest.mark.parametrize("ignored", ["CANARY_FILE", "MAX_EXPOSURE", "ARGUMENTS"])
def test_limits_without_an_audit_are_an_error(tmp_path, ignored) -> None:
    """A step that gives no model left its limits unread, beside a report of before."""
    (tmp_path / "reticent-report.json").write_text(SAYS)
    assert gate(tmp_path, 0, 0, OLD="old.json", MODEL="", **{ignored: "10"}) == (2, "", "")


@pytest.mark.parametrize(
    ("says", "ends"),
    [
        ({"outcome": "pass"}, 0),
        ({"outcome": "fail"}, 1),
        ({}, 2),
        ({"outcome": "open"}, 0),
        ({"outcome": "open", "inputs": {"max_exposure": 10}}, 2),
    ],
)
def test_a_report_of_before_says_how_it_ended(tmp_path, says, ends) -> None:
    """An undecided limit makes a report open, which ends with 2 when it is written."""
    (tmp_path / "reticent-report.json").write_text(json.dumps({"says": "a", **says}))
    code, summary, called = gate(tmp_path, 0, 0, OLD="old.json")
    assert code == ends and summary.count("###") == 2 and "report --model" not in called


def test_nothing_to_do_is_an_error(tmp_path) -> None:
    code, summary, called = gate(tmp_path, 0, 0)
    assert (code, summary, called) == (2, "", "")


@pytest.mark.parametrize("code", [0, 1])
def test_a_report_that_cannot_be_written_is_an_error(tmp_path, code) -> None:
    ends, summary, called = gate(tmp_path, code, 0, MODEL="m", REPORT="missing/report.json")
    assert ends == 2 and "nothing is known" in summary and "over the limit" not in summary and called == ""


@pytest.mark.parametrize("code", [0, 1, 2])
@pytest.mark.parametrize("says", ["", "no JSON", "[]", "{}"])
def test_what_is_no_report_is_an_error(tmp_path, says, code) -> None:
    ends, summary, _ = gate(tmp_path, code, 0, MODEL="m", says=says)
    assert ends == 2 and "nothing is known" in summary


def test_another_program_of_the_same_name_is_an_error(tmp_path) -> None:
    assert gate(tmp_path, 0, 0, MODEL="m", version="audit version 3.1.2") == (2, "", "")


def test_what_is_said_stays_in_its_fence(tmp_path) -> None:
    words = "a\n````\n# Everything is fine\n``````\nb"
    _, summary, _ = gate(tmp_path, 0, 0, MODEL="m", says=json.dumps({"says": words, "outcome": "pass"}))
    fence = re.search("^(`+)text$", summary, re.M).group(1)
    assert summary.split(f"{fence}text\n")[1].split(f"\n{fence}\n")[0] == words


def test_every_documented_step_sets_a_limit_and_inputs_that_exist() -> None:
    """Without a limit a leak ends with 2, and without --training so does a limit on another trainer's model."""
    inputs = set(re.findall(r"^  ([a-z-]+):$", (ROOT / "action.yml").read_text().split("\nruns:")[0], re.M))
    page = (ROOT / "docs" / "src" / "pipeline.md").read_text()
    assert "without a limit and without `old`" in page and "`python3`" in page
    steps = page.split("```yaml\n")[1].split("```")[0].split("- uses: ")[1:]
    assert len(steps) == 2
    for step in steps:
        given = set(re.findall(r"^    ([a-z-]+):", step, re.M))
        assert "max-exposure" in given and given <= inputs, step
        assert ("canary-file" in given) == ("--training\n" in step), step
