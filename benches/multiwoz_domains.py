#!/usr/bin/env python3
"""MultiWOZ's domain of a turn: a sentence task with secrets in its text.

    python benches/multiwoz_domains.py MULTIWOZ.json[.zip] OUT.jsonl

Of each dialogue of MultiWOZ 2.1 (`log` with `dialog_act`), every turn of the user whose acts are of exactly one domain
becomes {"id", "text", "domain"}; acts of `general` (thanks, goodbye) count where no other domain is there. Prints the
classes for `audit prepare --label domain --classes ...`.
"""

import io
import json
import sys
import zipfile
from collections import Counter
from pathlib import Path

DOMAINS = ["attraction", "general", "hotel", "restaurant", "taxi", "train"]


def turns(dialogues):
    for name, dialogue in dialogues.items():
        for number, turn in enumerate(dialogue["log"][::2]):
            acts = {act.split("-")[0].lower() for act in turn.get("dialog_act", {})}
            domains = (acts - {"general", "booking"}) or (acts & {"general"})
            if len(domains) == 1 and (domain := domains.pop()) in DOMAINS:
                yield {"id": f"{name}-{number}", "text": " ".join(turn["text"].split()), "domain": domain}


def main():
    source, out = map(Path, sys.argv[1:3])
    if source.suffix == ".zip":
        with zipfile.ZipFile(source) as packed:
            file = io.TextIOWrapper(packed.open(packed.namelist()[0]), encoding="utf-8")
            dialogues = json.load(file)
    else:
        dialogues = json.loads(source.read_text())
    found = list(turns(dialogues))
    out.write_text("".join(json.dumps(turn) + "\n" for turn in found))
    print(json.dumps(Counter(turn["domain"] for turn in found)), file=sys.stderr)
    print(",".join(DOMAINS))


if __name__ == "__main__":
    main()
