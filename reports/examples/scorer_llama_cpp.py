"""A scorer for `audit --scorer`: any GGUF model of llama.cpp, through llama-cpp-python.

    pip install llama-cpp-python numpy
    audit perplexity --scorer "command:python3 scorer_llama_cpp.py MODEL.gguf" --tokenizer tokenizer.json --data text.txt

tokenizer.json is that of the model before it was converted: the audit sends its token ids. schemas/scorer.md has the
protocol.
"""
import argparse
import json
import sys

import llama_cpp
import numpy as np

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("model")
arguments.add_argument("--context", type=int, default=0, help="tokens of a sequence (those that it was trained with)")
arguments.add_argument("--gpu-layers", type=int, default=0, help="layers on the device; -1: all")
args = arguments.parse_args()

model = llama_cpp.Llama(
    args.model, n_ctx=args.context, n_gpu_layers=args.gpu_layers, logits_all=True, verbose=False
)


def ln_p(sequence):
    """ln p of every next token behind every token."""
    model.reset()
    model.eval(sequence)
    logits = np.array(model.scores[: len(sequence)], dtype=np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def score(sequences):
    keys = ["log_probabilities", "means", "variances", "top_tokens", "top_log_probabilities"]
    answer = {key: [] for key in keys}
    for sequence in sequences:
        rows = ln_p(sequence)[:-1]
        places = np.arange(len(rows))
        p = np.exp(rows)
        mean = (p * rows).sum(axis=1)
        variance = (p * (rows - mean[:, None]) ** 2).sum(axis=1)
        top = rows.argmax(axis=1)
        for key, value in zip(keys, [rows[places, sequence[1:]], mean, variance, top, rows[places, top]]):
            answer[key].append(value.tolist())
    return answer


def say(line):
    print(json.dumps(line), flush=True)


say({
    "reticent_scorer": 1, "vocabulary": model.n_vocab(), "context": model.n_ctx(), "batch": 1,
    "statistics": True, "next": True,
})
for line in sys.stdin:
    question = json.loads(line)
    if "score" in question:
        say({"id": question["id"], **score(question["score"])})
    else:
        wanted = question["wanted"]
        say({"id": question["id"], "log_probabilities": [ln_p(prefix)[-1][wanted].tolist() for prefix in question["next"]]})
