"""reticent.toml: read by Python as by `account`, and shown wherever something was taken from it."""

import copy
import json
import os
import pickle
import subprocess
from pathlib import Path

import documents
import pytest
import reticent

PLAN = reticent.Plan(sigma=1.1, sample_rate=0.01, steps=1000)
FILE = 'schema = 1\ndelta = 1e-5\nneighbours = "replace"\ngroup = 2\nunit = "turn"\nprior = 1e-6\ntolerance = 1e-4\n'


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A repository with defaults, and a folder in it where people work."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "reticent.toml").write_text(FILE)
    work = tmp_path / "a" / "b"
    work.mkdir(parents=True)
    monkeypatch.chdir(work)
    return tmp_path


def account(*words: str, code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([os.environ["RETICENT_ACCOUNT"], *words], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


def test_found_in_a_parent_and_shown(project) -> None:
    found = reticent.defaults()
    assert found.file == "../../reticent.toml" and found.values["delta"] == 1e-5
    bound = PLAN.epsilon(defaults=found)
    assert bound == PLAN.epsilon(1e-5, neighbours="replace", group=2, tolerance=1e-4)
    assert bound.configured == {"delta": 1e-5, "group": 2, "neighbours": "replace", "tolerance": 1e-4}
    assert "from ../../reticent.toml: delta 1e-5, neighbours replace, group 2" in repr(bound)
    assert PLAN.epsilon(1e-5).configured == {}


def test_arguments_win_and_are_not_said_to_be_taken(project) -> None:
    bound = PLAN.epsilon(1e-7, neighbours="add-remove", group=1, tolerance=1e-6, defaults=reticent.defaults())
    assert bound == PLAN.epsilon(1e-7) and bound.configured == {} and "from" not in repr(bound)


def test_every_question_takes_what_it_has(project) -> None:
    found = reticent.defaults()
    assert PLAN.delta(2.0, defaults=found).configured.keys() == {"group", "neighbours", "tolerance"}
    assert PLAN.tpr(0.01, defaults=found).configured.keys() == {"group", "neighbours", "tolerance"}
    assert PLAN.posterior(defaults=found).configured.keys() == {"group", "prior", "tolerance"}
    assert PLAN.curve("trade-off", [0.1], defaults=found)[0][1].configured.keys() == {"group", "neighbours", "tolerance"}
    least = reticent.calibrate(epsilon=2, sample_rate=0.1, steps=100, defaults=found)
    assert least.configured["delta"] == 1e-5 and "from ../../reticent.toml" in repr(least)
    assert PLAN.report(defaults=found).epsilon.configured["unit"] == "turn"


def test_defaults_and_what_was_taken_are_kept(project, monkeypatch) -> None:
    found = reticent.defaults()
    monkeypatch.chdir(project)  # the file is not read again
    (project / "reticent.toml").unlink()
    for other in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert other == found and repr(other) == repr(found) and other.values == found.values
    assert reticent.defaults() == pickle.loads(pickle.dumps(reticent.defaults())) != found
    least = reticent.calibrate(epsilon=2, sample_rate=0.1, steps=100, defaults=found)
    assert pickle.loads(pickle.dumps(least)).configured == least.configured != {}


def test_a_posterior_takes_no_neighbours_of_a_project(project) -> None:
    guess = reticent.calibrate(prior=1e-9, posterior=1e-4, sample_rate=0.1, steps=10, defaults=reticent.defaults())
    assert guess.configured.keys() == {"group", "tolerance"}


def test_nothing_is_taken_unasked(project) -> None:
    with pytest.raises(ValueError, match="delta: must be given, or stand in the reticent.toml of defaults="):
        PLAN.epsilon()
    assert PLAN.epsilon(1e-5) == PLAN.epsilon(1e-5, neighbours="add-remove")


def test_the_command_says_the_same(project) -> None:
    said = json.loads(account("--sigma", "1.1", "--steps", "1000", "--format", "json").stdout)
    ours = PLAN.report(defaults=reticent.defaults())
    document = json.loads(ours.to_json())
    assert documents.problems("guarantees", ours.to_json()) == []
    taken = said["inputs"]["configured"]
    assert taken["file"] == "../../reticent.toml" and taken["values"].keys() == {
        "delta", "group", "neighbours", "prior", "tolerance", "unit",
    }  # fmt: skip
    assert document["inputs"]["configured"]["values"].keys() == taken["values"].keys() - {"prior"}
    rows = [{k: row[k] for k in ("notion", "unit", "neighbours", "delta", "epsilon")} for row in document["guarantees"][:2]]
    theirs = [{k: row[k] for k in ("notion", "unit", "neighbours", "delta", "epsilon")} for row in said["guarantees"][:2]]
    assert rows == theirs
    text = account("--sigma", "1.1", "--steps", "1000").stdout
    assert "from ../../reticent.toml: delta 1e-5, " in text
    assert "from ../../reticent.toml" in account("--sigma", "1.1", "--steps", "1000", "--format", "csv").stderr
    assert "from" not in account("--sigma", "1.1", "--steps", "1000", "--config", "none").stdout


def test_the_schema_may_be_left_out(project) -> None:
    (project / "reticent.toml").write_text("delta = 1e-4\n")
    assert reticent.defaults().values == {"delta": 1e-4}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("schema = 1\ndelta = 2\n", r"line 2, delta: delta must lie in \[0, 1\], got 2"),
        ("schema = 1\nsigma = 1\n", "line 2, sigma: unknown field `sigma`, expected one of"),
        ("schema = 7\n", "schema must be 1, got 7"),
        ('schema = "one"\n', "line 1, schema: "),
        ("schema = 1\n\nconfidence = 1.0\n", "line 3, confidence: "),
    ],
)
def test_a_wrong_file_is_one_line_for_both(project, text, words) -> None:
    (project / "reticent.toml").write_text(text)
    with pytest.raises(ValueError, match=words) as raised:
        reticent.defaults()
    said = account("--sigma", "1.1", code=2).stderr
    assert said == f"error: {raised.value}\n" and str(raised.value).startswith("../../reticent.toml")


def test_other_folders_are_nobodys(tmp_path, monkeypatch) -> None:
    (tmp_path / "reticent.toml").write_text(FILE)
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    nothing = reticent.defaults()
    assert nothing.file is None and nothing.values == {} and repr(nothing) == "Defaults(none)"
    assert reticent.defaults(tmp_path / "reticent.toml").values["group"] == 2
    with pytest.raises(ValueError, match="cannot read"):
        reticent.defaults("missing.toml")
    os.mkfifo("reticent.toml")
    with pytest.raises(ValueError, match="must be a file"):
        reticent.defaults()


def test_audits_take_theirs(tmp_path) -> None:
    place = tmp_path / "own.toml"
    place.write_text("schema = 1\nconfidence = 0.9\ndelta = 1e-4\nmax_exposure = 3\n")
    found = reticent.defaults(place)
    plan = reticent.canaries(["one line", "another"], "ID {digits:3}", n=4, copies=1)
    blind = lambda prefixes, wanted: [[-4.7 - token % 7 / 10 for token in wanted] for _ in prefixes]  # noqa: E731
    exposure = reticent.exposure(plan, blind, tokenizer="characters", defaults=found)
    assert exposure.configured == {"confidence": 0.9, "delta": 1e-4, "max_exposure": 3}
    assert exposure.document["epsilon"]["confidence"] == 0.9 and exposure.document["inputs"]["configured"]["values"]
    for shown in (repr(exposure), exposure.card, exposure.to_html()):
        assert f"from {place}" in shown
    scores = reticent.membership([0, 4, 6, 7], [1, 2, 3, 5], defaults=found)
    assert scores.document["confidence"] == 0.9 and f"from {place}: confidence 0.9" in repr(scores)
