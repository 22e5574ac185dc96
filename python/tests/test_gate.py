"""scripts/gate, the gate of action.yml, over a stand-in for `audit`."""

import os
import subprocess
from pathlib import Path

import pytest

GATE = Path(__file__).parent.parent.parent / "scripts" / "gate"

def gate(folder: Path, report: int, diff: int, **environment: str):
    (folder / "bin").mkdir()
    audit = folder / "bin" / "audit"
    audit.write_text(
        "#!/bin/sh\n"
        'echo "$@" >> asked\n'
        f'case $1 in report) echo \'{{"says": "Exposure is at most 4 bits."}}\'; exit {report};; '
        f"diff) echo compared; exit {diff};; esac\n"
    )
    audit.chmod(0o755)
    path = f"{audit.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [GATE], cwd=folder, env={"PATH": path, "GITHUB_STEP_SUMMARY": str(folder / "summary"), **environment},
        capture_output=True, text=True,
    )  # fmt: skip
    summary = folder / "summary"
    asked = folder / "asked"
    return done.returncode, summary.read_text() if summary.exists() else "", asked.read_text() if asked.exists() else ""


def test_within_the_limits(tmp_path) -> None:
    code, summary, asked = gate(tmp_path, 0, 0, MODEL="my model", MAX_EXPOSURE="10", OLD="old.json")
    assert code == 0 and summary.count("within the limits") == 2 and "Exposure is at most 4 bits." in summary
    assert asked.splitlines() == [
        "report --model my model --max-exposure 10 --format json",
        "diff old.json reticent-report.json",
    ]


@pytest.mark.parametrize(("report", "diff", "ends"), [(1, 0, 1), (0, 1, 1), (2, 0, 2), (1, 2, 2)])
def test_the_worst_exit_code_fails_the_job(tmp_path, report, diff, ends) -> None:
    code, summary, _ = gate(tmp_path, report, diff, MODEL="m", OLD="old.json")
    assert code == ends
    assert ("nothing is known" in summary) == (2 in (report, diff))


def test_nothing_to_do_is_an_error(tmp_path) -> None:
    code, summary, asked = gate(tmp_path, 0, 0)
    assert (code, summary, asked) == (2, "", "")
