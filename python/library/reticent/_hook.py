"""`reticent-redact`: finds secrets in text files before they are committed (.pre-commit-hooks.yaml)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from reticent._reticent import Redactor


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 0 where the policy finds nothing, 1 where it finds something, 2 where a file can't be read.

    Says files and lines, never what was found. Policies miss secrets: 0 does not mean that there are none.
    """
    parser = argparse.ArgumentParser(prog="reticent-redact", description="Finds secrets line by line.")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument(
        "--policy", default="general", help="general, detectors, customers, names, or a policy document's file [general]"
    )
    parser.add_argument("--write", action="store_true", help="replace what is found by <MASK> in the files")
    asked = parser.parse_args(arguments)
    policy: str = asked.policy
    try:
        redactor = Redactor(Path(policy).read_text(encoding="utf-8") if policy.endswith(".json") else policy)
    except (OSError, ValueError) as error:
        print(f"--policy: {error}", file=sys.stderr)
        return 2
    code = 0
    for path in asked.files:
        try:
            # Bytes, so that line ends stay as they are.
            lines = path.read_bytes().decode("utf-8").splitlines(keepends=True)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is no UTF-8 text"
            print(f"{path}: {reason}", file=sys.stderr)
            code = 2
            continue
        masked = [redactor(line) for line in lines]
        found = [number for number, (a, b) in enumerate(zip(lines, masked), 1) if a != b]
        for number in found:
            print(f"{path}:{number}: {'masked' if asked.write else 'looks like a secret'}")
        if found:
            code = max(code, 1)
            if asked.write:
                path.write_bytes("".join(masked).encode("utf-8"))
    return code


if __name__ == "__main__":
    sys.exit(main())
