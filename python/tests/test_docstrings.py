"""Every example in a docstring is run; the stubs say what is there."""

import doctest
import inspect
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import reticent
import reticent.audit
import reticent.dp_accounting
from datasets import Dataset
from reticent import _reticent

BOOK = Path(__file__).parent.parent.parent / "docs" / "src" / "python.md"

def compiled() -> list[tuple[str, str]]:
    found = []
    for name, thing in vars(_reticent).items():
        if not name.startswith("_") and callable(thing):
            found.append((name, thing.__doc__ or ""))
            for inner, method in vars(thing).items() if inspect.isclass(thing) else ():
                if not inner.startswith("_"):
                    found.append((f"{name}.{inner}", getattr(method, "__doc__", None) or ""))
    return found


@pytest.mark.parametrize(("name", "text"), compiled(), ids=lambda x: x if len(x) < 40 else "")
def test_compiled(name: str, text: str) -> None:
    assert text.strip(), f"{name} has no docstring"
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test)
    assert runner.failures == 0


def test_enough_examples() -> None:
    assert sum(text.count(">>> import reticent") for _, text in compiled()) >= 8


@pytest.mark.parametrize("module", [reticent, reticent.audit, reticent.dp_accounting], ids=lambda m: m.__name__)
def test_python(module) -> None:
    found = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert found.attempted > 0 and found.failed == 0


def test_every_block_of_the_book_runs(tmp_path, monkeypatch) -> None:
    """One after the other, as they stand; a data set and a trainer are the reader's own."""
    dataset = Dataset.from_dict({"text": [f"record {number}" for number in range(400)]})
    names = {"dataset": dataset, "trainer": Mock()}
    (tmp_path / "reticent.toml").write_text('delta = 1e-5\nneighbours = "replace"\n')
    monkeypatch.chdir(tmp_path)
    blocks = BOOK.read_text().split("```python\n")[1:]
    assert len(blocks) == 5
    for block in blocks:
        exec(block.split("```")[0], names)
    names["trainer"].train.assert_called_once()


@pytest.fixture
def config(tmp_path) -> str:
    """mypy without a look into the large libraries."""
    path = tmp_path / "mypy.ini"
    path.write_text("[mypy]\n[mypy-torch.*,transformers.*,opacus.*,dp_accounting.*]\nfollow_imports = skip\n")
    return str(path)


def test_stubs_say_what_is_there(config) -> None:
    line = [sys.executable, "-m", "mypy.stubtest", "reticent._reticent", "--ignore-missing-stub"]
    line += ["--mypy-config-file", config]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_strictly_typed(config) -> None:
    """A user's line that takes a bound for a float is an error of the type checker."""
    code = "import reticent\nx: float = reticent.Plan(sigma=1.0, sample_rate=0.1, steps=1).epsilon(1e-5)\n"
    line = [sys.executable, "-m", "mypy", "--strict", "--config-file", config, "-c"]
    wrong = subprocess.run([*line, code], capture_output=True, text=True)
    assert "incompatible type" in wrong.stdout.lower(), wrong.stdout
    right = subprocess.run([*line, code.replace("(1e-5)", "(1e-5).upper")], capture_output=True, text=True)
    assert right.returncode == 0, right.stdout
    # Every name, from where users import it.
    named = f"from reticent import {', '.join(name for name in reticent.__all__ if name != '__version__')}\n"
    named += "reveal_type(canaries)\nreveal_type(Exposure.says)\n"
    every = subprocess.run([*line, named], capture_output=True, text=True)
    assert every.returncode == 0 and "-> reticent._reticent.CanaryPlan" in every.stdout, every.stdout


def test_everything_is_there() -> None:
    assert all(hasattr(reticent, name) for name in reticent.__all__)
    assert set(reticent.__all__) >= reticent._AUDIT
