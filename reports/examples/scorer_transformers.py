"""A scorer for `audit --scorer`: any causal language model of transformers, quantised ones too.

    pip install torch transformers            # accelerate for --device-map, bitsandbytes for --bits
    audit perplexity --scorer "command:python3 scorer_transformers.py MODEL" --tokenizer MODEL/tokenizer.json --data text.txt

MODEL is a folder or a name on the hub. schemas/scorer.md has the protocol. Sequences of a question are padded behind
their ends, where causal attention doesn't look; an answer may still differ with the batch and with the length of a
sequence, in half precision by more than the 0.01 nats that an audit allows: --dtype float32 helps. At its end an audit
asks some texts and prefixes again, the first half of each text, and by `score` for a token behind each prefix.
"""
import argparse
import json
import sys

import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("model")
arguments.add_argument("--batch", type=int, default=8, help="sequences at once (8)")
arguments.add_argument("--bits", type=int, choices=[4, 8], help="quantise by bitsandbytes")
arguments.add_argument("--device-map", help="where layers go, as from_pretrained takes it, such as auto")
arguments.add_argument("--dtype", default="auto", help="precision of the weights (auto)")
arguments.add_argument("--trust-remote-code", action="store_true", help="run the model's own code")
args = arguments.parse_args()

how = {"dtype": args.dtype, "trust_remote_code": args.trust_remote_code}
if args.device_map:
    how["device_map"] = args.device_map
if args.bits:
    how["quantization_config"] = BitsAndBytesConfig(load_in_4bit=args.bits == 4, load_in_8bit=args.bits == 8)
model = AutoModelForCausalLM.from_pretrained(args.model, **how).eval()
config = model.config.get_text_config()


@torch.inference_mode()
def ln_p(sequences):
    """ln p of every next token behind every token: one matrix a sequence."""
    longest = max(map(len, sequences))
    ids = torch.zeros(len(sequences), longest, dtype=torch.long, device=model.device)
    mask = torch.zeros_like(ids)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = torch.tensor(sequence)
        mask[row, : len(sequence)] = 1
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
    for row, sequence in zip(logits, sequences):
        yield torch.log_softmax(row[: len(sequence)].double(), dim=-1)


def score(sequences):
    keys = ["log_probabilities", "means", "variances", "top_tokens", "top_log_probabilities"]
    answer = {key: [] for key in keys}
    for sequence, all_rows in zip(sequences, ln_p(sequences)):
        rows = all_rows[:-1]
        taken = torch.tensor(sequence[1:], device=rows.device).unsqueeze(1)
        p = rows.exp()
        # p ln p is 0 where p is.
        mean = torch.where(p > 0, p * rows, 0.0).sum(1)
        variance = torch.where(p > 0, p * (rows - mean.unsqueeze(1)) ** 2, 0.0).sum(1)
        top, token = rows.max(1)
        for key, value in zip(keys, [rows.gather(1, taken).squeeze(1), mean, variance, token, top]):
            answer[key].append(finite(value))
    return answer


def finite(values):
    """ln 0 is the string "-inf"."""
    return [value if value != float("-inf") else "-inf" for value in values.tolist()]


def looks_ahead():
    """Whether later tokens change an earlier prediction, as in an encoder: it has no ln p of a next token."""
    one, other = ln_p([[0] * 8, [0] + [1] * 7])
    near = 1e-4 if model.dtype == torch.float32 else 0.05
    return bool((one[0] - other[0]).abs().max() > near)


def say(line):
    print(json.dumps(line), flush=True)


if looks_ahead():
    sys.exit(f"{args.model}: what follows a token changes how it is predicted, as in an encoder (BERT, XLM-R); "
             "these are no probabilities of a next token, and no audit can use them")

said = {"reticent_scorer": 1, "vocabulary": config.vocab_size, "batch": args.batch, "statistics": True, "next": True}
if getattr(config, "max_position_embeddings", None):
    said["context"] = config.max_position_embeddings
say(said)
for line in sys.stdin:
    question = json.loads(line)
    if "score" in question:
        say({"id": question["id"], **score(question["score"])})
    else:
        wanted = torch.tensor(question["wanted"], device=model.device)
        rows = [finite(rows[-1][wanted]) for rows in ln_p(question["next"])]
        say({"id": question["id"], "log_probabilities": rows})
