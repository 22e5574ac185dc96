#!/usr/bin/env python3
"""The README's walk for a model that others trained, on folders that transformers makes.

    pip install torch transformers tokenizers
    python benches/own_model.py [--audit target/release/audit] [--steps 600]

Trains a small GPT-2 with transformers on 60 different lines of made-up words, six of them twenty times and six five times
in the text, its start on one pass, saves both with save_pretrained (weights, config.json, tokenizer.json), and asks
`audit membership`, `extract` and `report` as the README does. Ends with 1 where the answers are not what the text makes
them: copies counted, members told from non-members, the texts alone telling nothing, repeated lines extracted and single
ones not. Prints one JSON object.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, decoders, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

ROOT = Path(__file__).resolve().parent.parent
transformers.utils.logging.disable_progress_bar()
CONTEXT = 64
COPIES = [20] * 6 + [5] * 6 + [1] * 48


def line(number):
    letters = random.Random(number)
    return " ".join("".join(letters.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(5)) for _ in range(10))


def write(path, texts):
    with open(path, "w") as out:
        for number, text in enumerate(texts):
            out.write(json.dumps({"id": str(number), "text": text}) + "\n")


def tokenizer(texts):
    tokens = Tokenizer(models.BPE(unk_token=None))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokens.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokens, bos_token="<|endoftext|>", eos_token="<|endoftext|>",
                                   model_max_length=CONTEXT)


def train(model, encoded, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    order = torch.Generator().manual_seed(0)
    model.train()
    for _ in range(steps):
        batch = [encoded[i] for i in torch.randint(len(encoded), (8,), generator=order)]
        longest = max(len(tokens) for tokens in batch)
        ids = torch.tensor([tokens + [0] * (longest - len(tokens)) for tokens in batch])
        real = torch.tensor([[1] * len(tokens) + [0] * (longest - len(tokens)) for tokens in batch])
        labels = ids.masked_fill(real == 0, -100)
        loss = model(input_ids=ids, attention_mask=real, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audit", default=str(ROOT / "target/release/audit"))
    parser.add_argument("--steps", type=int, default=600)
    args = parser.parse_args()
    torch.manual_seed(0)
    wrong = []

    def check(fact, what):
        if not fact:
            wrong.append(what)

    with tempfile.TemporaryDirectory() as scratch:
        at = Path(scratch)
        different = [line(number) for number in range(60)]
        texts = [text for text, copies in zip(different, COPIES) for _ in range(copies)]
        write(at / "train-sample.jsonl", texts)
        write(at / "held-out.jsonl", [line(number) for number in range(1000, 1060)])
        tokens = tokenizer(different + [line(number) for number in range(2000, 2200)])
        encoded = [[tokens.bos_token_id, *tokens(text)["input_ids"], tokens.eos_token_id][:CONTEXT] for text in texts]
        config = GPT2Config(vocab_size=len(tokens), n_embd=64, n_layer=2, n_head=4, n_positions=CONTEXT,
                            bos_token_id=tokens.bos_token_id, eos_token_id=tokens.eos_token_id)
        model = GPT2LMHeadModel(config)
        losses = {}
        for name, steps in [("gpt2-base", len(texts) // 8), ("my-gpt2", args.steps)]:
            losses[name] = train(model, encoded, steps)
            model.save_pretrained(at / name)
            tokens.save_pretrained(at / name)

        def audit(command):
            began = time.monotonic()
            words = [str(Path(args.audit).resolve()), *command.split(), "--format", "json"]
            done = subprocess.run(words, cwd=at, capture_output=True, text=True)
            if done.returncode not in (0, 1):
                sys.exit(f"{command}: {done.stderr}")
            return json.loads(done.stdout), time.monotonic() - began

        sides = "--members train-sample.jsonl --non-members held-out.jsonl --reference gpt2-base"
        membership, first = audit(f"membership --model my-gpt2 {sides} --html page.html")
        repeats = membership["repeats"]["members"]
        check((repeats["records"], repeats["texts"]) == (198, 60), f"repeats {repeats}")
        strata = [stratum["members"] for stratum in membership["copies"]]
        check(strata == [48, 6, 6], f"strata {strata}")
        area = membership["area"]
        check(area["lower"] > 0.5, f"members are not told: {area}")
        check(not membership["blind"]["shifted"], "the texts alone tell members")

        def hits(document):
            longest = document["prompts"][-1]
            return [stratum["beyond_baseline"]["hits"] for stratum in longest["strata"]]

        extracted, second = audit("extract --model my-gpt2 --data train-sample.jsonl --baseline gpt2-base")
        found = hits(extracted)
        check(found[2] == 6 and found[0] <= 12, f"extracted {found} of 48, 6 and 6")
        report, third = audit(f"report --model my-gpt2 {sides} --html report.html")
        check(hits(report["extraction"]) == found, "report and extract differ")
        check(report["membership"]["area"]["estimate"] == area["estimate"], "report and membership differ")
        print(json.dumps({
            "torch": torch.__version__, "transformers": transformers.__version__,
            "final_loss": {name: round(loss, 3) for name, loss in losses.items()},
            "auc": area, "repeats": repeats, "strata": strata, "extracted": found,
            "suffix": extracted["suffix"], "prompt": extracted["prompts"][-1]["prompt"],
            "seconds": {"membership": round(first, 2), "extract": round(second, 2), "report": round(third, 2)},
            "wrong": wrong,
        }, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
