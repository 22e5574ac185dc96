"""The pre-commit hook."""

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from reticent._hook import _JSON, main


def test_finds_masks_and_never_quotes(tmp_path, capsys) -> None:
    clean, dirty = tmp_path / "clean.txt", tmp_path / "dirty.jsonl"
    clean.write_text("nothing here\n")
    row = json.dumps({"text": "write to ada@example.org"})
    dirty.write_bytes(f'{{"text": "fine"}}\r\n{row}\r\n'.encode())
    assert main([str(clean)]) == 0
    assert main([str(clean), str(dirty)]) == 1
    said = capsys.readouterr()
    assert f"{dirty}:2: looks like a secret" in said.out and "ada" not in said.out + said.err
    assert main(["--write", str(dirty)]) == 1
    assert dirty.read_bytes() == b'{"text": "fine"}\r\n{"text": "write to <MASK>"}\r\n'
    assert main([str(dirty)]) == 0


def test_what_is_no_text_is_an_error(tmp_path, capsys) -> None:
    binary = tmp_path / "binary.txt"
    binary.write_bytes(b"\xff\xfe")
    assert main([str(binary)]) == 2
    assert main([str(tmp_path / "missing.txt")]) == 2
    assert main(["--policy", "magic"]) == 2
    assert "must be one of" in capsys.readouterr().err


def test_pre_commit_passes_every_file_that_is_read_as_json() -> None:
    hooks = (Path(__file__).parents[2] / ".pre-commit-hooks.yaml").read_text()
    files = re.search(r"files: (.*)", hooks)[1]
    assert all(re.search(files, f"a{ending}") for ending in _JSON) and not re.search(files, "a.py")


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "A.NDJSON"])
def test_json_stays_json_and_escapes_hide_nothing(tmp_path, capsys, name) -> None:
    path = tmp_path / name
    rows = [
        r'{"text":"write to ada\u0040example.org",  "n":4111111111111111, "x": 1.50e3}',
        r'{"card": "4111 1111 1111 1111", "ok": "caf\u00e9 \ud83d\ude00 \/", "q": "\"é\""}',
        r'{"k": "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA1234567890abcdefABCDEF\n-----END RSA PRIVATE KEY-----\n"}',
    ]
    path.write_bytes("\r\n".join(rows).encode())
    assert main([str(path)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said == [f"{path}:{number}: looks like a secret" for number in (1, 2, 3)]
    assert main(["--write", str(path)]) == 1
    written = path.read_bytes().decode().split("\r\n")
    assert written[0] == '{"text":"write to <MASK>",  "n":"<MASK>", "x": 1.50e3}'
    assert written[1] == r'{"card": "<MASK>", "ok": "caf\u00e9 \ud83d\ude00 \/", "q": "\"é\""}'
    assert "MIIE" not in written[2] and json.loads(written[2])["k"].count("<MASK>") == 1
    assert main([str(path)]) == 0


def test_pretty_json_is_read_whole(tmp_path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"rows": [{"to": "ada@example.org"}, {"to": "nobody"}]}, indent=2))
    assert main(["--write", str(path)]) == 1
    assert json.loads(path.read_text()) == {"rows": [{"to": "<MASK>"}, {"to": "nobody"}]}


def test_a_key_is_reported_and_left(tmp_path, capsys) -> None:
    """Two keys that are masked would be one."""
    path = tmp_path / "a.json"
    text = r'{"ada\u0040example.org": 1, "bob@example.org": 2}'
    path.write_text(text)
    assert main(["--write", str(path)]) == 1
    assert path.read_text() == text and capsys.readouterr().out == f"{path}:1: looks like a secret in a key or across strings\n"


def test_what_is_no_json_is_not_written(tmp_path, capsys) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"to": "ada@example.org"}\n{"to": bob@example.org}\n')
    assert main([str(path)]) == 1
    assert capsys.readouterr().out.count("looks like a secret") == 2
    assert main(["--write", str(path)]) == 2
    assert "bob@example.org" in path.read_text() and "is no JSON" in capsys.readouterr().err


def test_lines_end_where_editors_end_them(tmp_path, capsys) -> None:
    path = tmp_path / "a.txt"
    text = "one\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029 still one\ntwo\rstill two\r\nwrite to ada@example.org\n"
    path.write_bytes(text.encode())
    assert main(["--write", str(path)]) == 1
    assert capsys.readouterr().out == f"{path}:3: masked\n"
    assert path.read_bytes() == text.replace("ada@example.org", "<MASK>").encode()


def test_a_file_that_cannot_be_written_whole_stays_as_it_was(tmp_path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("ada@example.org\n" * 20_000)
    before = path.read_bytes()
    limited = subprocess.run(
        [sys.executable, "-m", "reticent._hook", "--write", str(path)], capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
    )  # fmt: skip
    assert limited.returncode == 2 and limited.stderr == f"{path}: File too large\n"
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.txt"]


def test_writing_keeps_the_mode_and_the_link(tmp_path) -> None:
    path, link = tmp_path / "a.txt", tmp_path / "link.txt"
    path.write_text("ada@example.org\n")
    path.chmod(0o640)
    link.symlink_to("a.txt")
    assert main(["--write", str(link)]) == 1
    assert link.is_symlink() and path.read_text() == "<MASK>\n" and path.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "link.txt"]


def test_numbers_in_a_row_are_no_secret(tmp_path, capsys) -> None:
    path = tmp_path / "a.jsonl"
    rows = [
        '{"at": [52.5200, 13.4050]}',
        '{"input_ids": [50256, 3666, 4522, 318, 25, 220, 16, 17]}',
        '{"a": NaN, "m": "x"}',
    ]
    path.write_text("\n".join(rows))
    assert main(["--write", str(path)]) == 0 and capsys.readouterr().out == ""
    path.write_text('{"a": NaN, "m": "ada@example.org"}\n')
    assert main(["--write", str(path)]) == 1
    assert path.read_text() == '{"a": NaN, "m": "<MASK>"}\n' and capsys.readouterr().out == f"{path}:1: masked\n"
    path.write_text('{"ada@example.org": "bob@example.org"}\n')
    assert main(["--write", str(path)]) == 1
    assert path.read_text() == '{"ada@example.org": "<MASK>"}\n'
    assert capsys.readouterr().out == f"{path}:1: masked, and looks like a secret in a key or across strings\n"


def test_names_that_are_no_text_are_printed(tmp_path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.txt"
    with open(path, "w") as file:
        file.write("ada@example.org\n")
    said = subprocess.run(
        [sys.executable, "-m", "reticent._hook", path], capture_output=True, text=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert said.returncode == 1 and "\\udcff.txt:1: looks like a secret" in said.stdout and said.stderr == ""
