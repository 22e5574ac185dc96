"""`reticent-redact`: finds secrets in text files before they are committed (.pre-commit-hooks.yaml)."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from reticent._reticent import Redactor

_JSON = frozenset([".json", ".jsonl", ".ndjson"])

# The strings and numbers of a line of JSON. A string that is a key has a colon behind it.
_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"(?P<key>\s*:)?|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?')

# The strings of a line of JSON, and what stands between them but for numbers and words.
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"|[\s:,\[\]{}]')


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 0 where the policy finds nothing, 1 where it finds something, 2 where a file can't be read or written.

    Says files and lines, never what was found. Policies miss secrets: 0 does not mean that there are none.
    """
    parser = argparse.ArgumentParser(
        prog="reticent-redact",
        description="Finds secrets line by line; in JSON in the strings and numbers, however they are escaped.",
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument(
        "--policy", default="general", help="general, detectors, customers, names, or a policy document's file [general]"
    )
    parser.add_argument(
        "--write", action="store_true", help="replace what is found by <MASK> in the files; JSON stays JSON"
    )
    parsed = parser.parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files may be no text
    policy: str = parsed.policy
    try:
        redactor = Redactor(Path(policy).read_text(encoding="utf-8") if policy.endswith(".json") else policy)
    except (OSError, ValueError) as error:
        print(f"--policy: {error}", file=sys.stderr)
        return 2
    return max((_look(path, redactor, parsed.write) for path in parsed.files), default=0)


def _look(path: Path, redactor: Redactor, write: bool) -> int:
    """The exit code of one file."""
    try:
        # Bytes, so that line ends stay as they are.
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no UTF-8 text"
        print(f"{path}: {reason}", file=sys.stderr)
        return 2
    is_json = path.suffix.lower() in _JSON
    code, valid = 0, is_json and _is_json(text)
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        masked = _masked(line, redactor) if valid else redactor(line)
        # What stands in a key, or across strings, is left.
        left = valid and (_masked(masked, redactor, keys=True) != masked or _crosses(masked, redactor))
        if masked == line and not left:
            continue
        code = 1
        done = write and masked != line and (valid or not is_json)
        said = ["masked"] if done else ["looks like a secret"] if masked != line else []
        said += ["looks like a secret in a key or across strings"] if left and said != ["looks like a secret"] else []
        print(f"{path}:{number}: {', and '.join(said)}")
        lines[number - 1] = masked
    if not code or not write:
        return code
    if is_json and not valid:
        print(f"{path}: is no JSON and no JSON Lines, so that --write would not know what it changes", file=sys.stderr)
        return 2
    new = "\n".join(lines)
    try:
        if new != text:
            _replace(path, new.encode("utf-8"))
    except OSError as error:
        print(f"{path}: {error.strerror}", file=sys.stderr)
        return 2
    return code


def _replace(path: Path, content: bytes) -> None:
    """Whole or not at all, with the file's mode; of a link, what it leads to. A file that is read-only stays as it is."""
    path = path.resolve(strict=True)
    with path.open("r+b"):
        pass
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:32]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        shutil.copymode(path, part)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def _is_json(text: str) -> bool:
    """Whether it is one value, or one to a line."""
    text = text.removeprefix("\ufeff")
    for values in ([text], text.split("\n")):
        try:
            for value in values:
                if value.strip():
                    json.loads(value)
            return True
        except (ValueError, RecursionError):
            pass
    return False


def _crosses(line: str, redactor: Redactor) -> bool:
    """Whether something is found across strings. Numbers are looked at one by one: in a row they look like many things."""
    strings = "".join(_STRINGS.findall(line))
    return redactor(strings) != strings


def _masked(line: str, redactor: Redactor, *, keys: bool = False) -> str:
    """A line of JSON with what is found in its values (or in its keys, too) masked; a number becomes a string."""

    def literal(match: re.Match[str]) -> str:
        whole, key = match.group(), match.group("key") or ""
        said = whole.removesuffix(key)
        if key and not keys:
            return whole
        if not said.startswith('"'):
            return said if redactor(said) == said else json.dumps(redactor(said))
        # Half of a surrogate pair, which an escape may say, is no text.
        text = json.loads(said, strict=False).encode("utf-8", "replace").decode("utf-8")
        new = redactor(text)
        return whole if new == text else json.dumps(new, ensure_ascii=said.isascii()) + key

    return _LITERAL.sub(literal, line)


if __name__ == "__main__":
    sys.exit(main())
