"""The work of `shards.py` with dask, by as many processes of one thread: reads JSON Lines, masks by eight regular
expressions, keeps one of equal turns, writes JSON Lines. `shards.py` runs it; it prints the peak memory of a worker in MiB.
"""
import hashlib
import json
import re
import resource
import sys

PATTERNS = {
    "EMAIL": r"[\w.+-]+@[\w-]+\.[\w.-]+",
    "URL": r"https?://\S+",
    "SSN": r"\b\d{3}-\d{2}-\d{4}\b",
    "CARD": r"\b(?:\d[ -]?){13,19}\b",
    "PHONE": r"(?:\+\d{1,3}[ .-]?)?(?:\(\d{3}\)|\b\d{3})[ .-]?\d{3}[ .-]?\d{4}\b",
    "IP": r"\b(?:\d{1,3}\.){3}\d{1,3}\b",
    "IBAN": r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}\b",
    "DIGITS": r"\b\d{5,}\b",
}
MASKS = [(re.compile(pattern), f"<{kind}>") for kind, pattern in PATTERNS.items()]


def masked(lines):
    rows = []
    for line in lines:
        record = json.loads(line)
        for text in record["text"].split("\n"):
            digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
            for pattern, mask in MASKS:
                text = pattern.sub(mask, text)
            rows.append({"id": record["id"], "text": text, "digest": digest})
    return rows


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    import dask
    import dask.bag
    from dask.distributed import Client, LocalCluster

    # The other way of shuffling fails on strings from a bag (2026.8.0).
    dask.config.set({"dataframe.shuffle.method": "tasks"})
    data, out, workers = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            rows = dask.bag.read_text(data, blocksize=2**24).map_partitions(masked)
            frame = rows.to_dataframe(meta={"id": str, "text": str, "digest": str})
            unique = frame.drop_duplicates(subset="digest", split_out=8)
            kept = unique.to_bag(format="dict").map(json.dumps).to_textfiles(f"{out}/*.jsonl", compute=False)
            dask.compute(kept)
            memory = max(client.run(peak).values())
    print(f"{memory:.0f}")


if __name__ == "__main__":
    main()
