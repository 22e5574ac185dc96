#!/usr/bin/env python3
"""What the default policy does to five public sets, by kind: shares covered whole, and what it leaves alone.

    benches/policy.py AUDIT DATA [POLICY]

AUDIT is the built command. DATA is a folder of gzip-compressed sets: pii/presidio_synth_v2.json.gz (Presidio's
synthetic sentences), pii/wikigold.conll.gz, customersim/test.jsonl.gz, abcd/test.txt.gz, and, unpacked as JSON,
multiwoz/test.json.zip. Those that are not there are left out. POLICY is general unless it is given.
"""
import gzip
import json
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path


class Bench:
    def __init__(self, audit, data, policy, work):
        self.audit, self.data, self.policy, self.work = audit, Path(data), policy, Path(work)

    def judged(self, name, documents):
        """Marked secrets covered whole by their kind, and spans that touch one by ours."""
        file = self.work / f"{name}.jsonl"
        file.write_text("".join(json.dumps(d) + "\n" for d in documents), encoding="utf-8")
        line = [self.audit, "policy", file, "--policy", self.policy, "--unit", "document", "--format", "json"]
        return json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)

    def redacted(self, file, unit="turn"):
        line = [self.audit, "redact", file, "--policy", self.policy, "--unit", unit, "--no-deduplication", "--out", "-"]
        began = time.monotonic()
        out = subprocess.run(line, check=True, capture_output=True, text=True).stdout
        return [json.loads(each)["text"] for each in out.splitlines()], time.monotonic() - began


def conll(path):
    """Sentences with spans by character, from two columns of words and labels."""
    text, spans, last = "", [], None
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in [*lines, "\n"]:
            columns = line.split()
            if not columns or columns[0] == "-DOCSTART-":
                if text:
                    yield text, spans
                text, spans, last = "", [], None
                continue
            start = len(text) + bool(text)
            text += (" " if text else "") + columns[0]
            kind = columns[-1].split("-")[-1]
            if columns[-1] == "O":
                last = None
            elif last and last["kind"] == kind and columns[-1][0] != "B":
                last["end"] = len(text)
            else:
                last = {"start": start, "end": len(text), "kind": kind}
                spans.append(last)


def table(name, report):
    print(f"\n{name}: marked kind, places, covered whole")
    for kind, counts in report["marked"].items():
        print(f"  {kind:18} {counts['secrets']:5} {counts['recall']:.3f}")
    print("found kind, spans, share that touches a marked one")
    for kind, counts in report["found"].items():
        print(f"  {kind:18} {counts['spans']:5} {counts.get('precision') or 0:.3f}")


def main():
    audit, data = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2])
    policy = sys.argv[3] if len(sys.argv) > 3 else "general"
    with tempfile.TemporaryDirectory() as work:
        bench = Bench(audit, data, policy, work)
        presidio = data / "pii/presidio_synth_v2.json.gz"
        if presidio.exists():
            with gzip.open(presidio, "rt", encoding="utf-8") as file:
                sentences = json.load(file)
            documents = []
            for number, one in enumerate(sentences):
                spans = [{"start": s["start_position"], "end": s["end_position"], "kind": s["entity_type"]}
                         for s in one["spans"]]
                spans.sort(key=lambda span: span["start"])
                documents.append({"id": str(number), "text": one["full_text"], "secrets": spans})
            table("Presidio's synthetic set", bench.judged("presidio", documents))
        wikigold = data / "pii/wikigold.conll.gz"
        if wikigold.exists():
            documents = [{"id": str(n), "text": text, "secrets": spans}
                         for n, (text, spans) in enumerate(conll(wikigold))]
            table("WikiGold", bench.judged("wikigold", documents))
        for name in ["customersim/test.jsonl.gz", "abcd/test.txt.gz"]:
            if not (data / name).exists():
                continue
            file = Path(work) / Path(name).stem
            file.write_bytes(gzip.open(data / name).read())
            if file.suffix == ".jsonl":
                documents = [json.loads(line)["text"] for line in file.read_text(encoding="utf-8").splitlines()]
                turns = [turn for text in documents for turn in text.split("\n") if turn.strip()]
            else:
                turns = [line for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]
            out, seconds = bench.redacted(file)
            assert len(out) == len(turns)
            print(f"\n{name}: {len(turns)} turns in {seconds:.1f} s")
            checks = [
                ("speaker tags left as they are", r"(?:SYS|USR|ACT):", lambda old, new: new[:4] == old[:4]),
                ("turns with `may I` whose words stay", r".*\b[Mm]ay I\b", lambda old, new: "ay I" in new),
                ("turns with a state and a postcode that are masked", r".*\b[A-Z]{2} \d{5}\b", lambda old, new: "<MASK>" in new),
                ("turns with a number like 415-555-0123 that are masked", r".*\b\d{3}-\d{3}-\d{4}\b", lambda old, new: "<MASK>" in new),
                ("turns that say `name is` with a name that are masked", r".*\bname(?:'s| is) [A-Z][a-z]+ [A-Z][a-z]+", lambda old, new: "<MASK>" in new),
            ]
            for what, pattern, holds in checks:
                those = [(old, new) for old, new in zip(turns, out) if re.match(pattern, old)]
                if those:
                    print(f"  {what}: {sum(holds(*pair) for pair in those)} of {len(those)}")
        multiwoz = data / "multiwoz/test.json.zip"
        if multiwoz.exists():
            with zipfile.ZipFile(multiwoz) as packed:
                file = Path(work) / "multiwoz.json"
                file.write_bytes(packed.read(packed.namelist()[0]))
            out, seconds = bench.redacted(file)
            masks = sum(turn.count("<MASK>") for turn in out)
            numbers = sum(bool(re.search(r"\b\d{11}\b", turn)) for turn in out)
            print(f"\nmultiwoz: {masks} masks in {len(out)} turns, {numbers} turns keep a number of eleven digits, {seconds:.1f} s")


if __name__ == "__main__":
    main()
