"""A scorer for `audit --scorer` in plain Python: a smoothed bigram model of the bytes of a text.

    audit perplexity --scorer "command:python3 scorer.py train.txt" --tokenizer bytes --data text.txt

Replace `distribution` by your model. schemas/scorer.md has the protocol.
"""
import json
import math
import sys
from collections import Counter, defaultdict

VOCABULARY = 260  # 256 bytes and the four tokens of `--tokenizer bytes`
following = defaultdict(Counter)
with open(sys.argv[1], "rb") as file:
    text = file.read()
for one, two in zip(text, text[1:]):
    following[one][two] += 1


def distribution(prefix):
    """ln p of every token behind a prefix."""
    counts = following[prefix[-1]]
    total = sum(counts.values()) + VOCABULARY
    return [math.log((counts[token] + 1) / total) for token in range(VOCABULARY)]


def score(sequences):
    keys = ["log_probabilities", "means", "variances", "top_tokens", "top_log_probabilities"]
    answer = {key: [] for key in keys}
    for sequence in sequences:
        rows = [[] for _ in keys]
        for place in range(1, len(sequence)):
            ln_p = distribution(sequence[:place])
            mean = sum(math.exp(v) * v for v in ln_p)
            variance = sum(math.exp(v) * (v - mean) ** 2 for v in ln_p)
            top = max(range(VOCABULARY), key=ln_p.__getitem__)
            for row, value in zip(rows, [ln_p[sequence[place]], mean, variance, top, ln_p[top]]):
                row.append(value)
        for key, row in zip(keys, rows):
            answer[key].append(row)
    return answer


def say(line):
    print(json.dumps(line), flush=True)


say({"reticent_scorer": 1, "vocabulary": VOCABULARY, "statistics": True, "next": True})
for line in sys.stdin:
    question = json.loads(line)
    if "score" in question:
        say({"id": question["id"], **score(question["score"])})
    else:
        rows = [distribution(prefix) for prefix in question["next"]]
        wanted = question["wanted"]
        say({"id": question["id"], "log_probabilities": [[row[t] for t in wanted] for row in rows]})
