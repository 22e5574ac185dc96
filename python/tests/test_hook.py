"""The pre-commit hook."""

import json

from reticent._hook import main


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
