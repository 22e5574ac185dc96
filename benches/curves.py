#!/usr/bin/env python3
"""Loss curves of `audit train` beside PyTorch and Opacus at the same settings.

    benches/curves.py AUDIT [--seeds 3] [--epochs 4] [--out FILE.svg]

AUDIT is the built command. Models: the papers' LSTM, and a GPT-2 of two layers. Steps: ordinary and private, by gradient descent
and by Adam. Both sides start from the same weights, drawn by `audit train` (a seed each), and draw batches of their own; each
curve is the perplexity of held-out text after every epoch. Private steps of the LSTM are Opacus' (DPLSTM, DPOptimizer); those of
GPT-2, whose weights are tied and which Opacus refuses, are DP-SGD written out in PyTorch, one record at a time.

Agreement of a setting: at every epoch the mean losses are apart by at most the sum of both sides' largest distances from their
mean, or by 2 %. Ends with 1 where a setting does not agree. Needs torch, opacus, transformers and safetensors.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file

SIGMA, CLIP, BATCH = 0.6, 1.0, 16
RATES = {("lstm", "sgd"): (5.0, 0.5), ("lstm", "adam"): (0.004, 0.004),
         ("gpt2", "sgd"): (0.3, 0.1), ("gpt2", "adam"): (0.001, 0.001)}
SIZES = ["--layers", "2", "--width", "64", "--heads", "4", "--context", "256"]


class Lstm(torch.nn.Module):
    """One bias, as ours: PyTorch's second one would double its step."""

    def __init__(self, weights, recurrent):
        super().__init__()
        vocabulary, width = weights["embedding.weight"].shape
        self.embedding = torch.nn.Embedding(vocabulary, width)
        self.lstm = recurrent(width, weights["lstm.recurrent_weight"].shape[0], batch_first=True)
        self.head = torch.nn.Linear(width, vocabulary)
        names = dict(self.lstm.named_parameters())
        with torch.no_grad():
            self.embedding.weight.copy_(weights["embedding.weight"])
            self.head.weight.copy_(weights["head.weight"].T)
            self.head.bias.copy_(weights["head.bias"])
            for name, parameter in names.items():
                if name.endswith("ih_l0") or name.endswith("ih.weight") or name.endswith("ih.bias"):
                    parameter.copy_(weights["lstm.bias"] if "bias" in name else weights["lstm.input_weight"].T)
                elif "bias" in name:
                    parameter.zero_()
                    parameter.requires_grad_(False)
                else:
                    parameter.copy_(weights["lstm.recurrent_weight"].T)

    def forward(self, tokens):
        return self.head(self.lstm(self.embedding(tokens))[0])


class Gpt2(torch.nn.Module):
    def __init__(self, folder):
        super().__init__()
        from transformers import GPT2LMHeadModel

        self.model = GPT2LMHeadModel.from_pretrained(folder)

    def forward(self, tokens):
        return self.model(tokens).logits


def losses(model, records):
    """The summed loss of each record, and how many tokens each predicts."""
    longest = max(map(len, records))
    tokens = torch.zeros(len(records), longest, dtype=torch.long)
    mask = torch.zeros(len(records), longest - 1)
    for row, record in enumerate(records):
        tokens[row, : len(record)] = torch.tensor(record)
        mask[row, : len(record) - 1] = 1
    logits = model(tokens[:, :-1])
    each = torch.nn.functional.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")
    return (each * mask).sum(1), mask.sum(1)


def held_out_loss(model, records):
    model.eval()
    total = count = 0.0
    with torch.no_grad():
        for start in range(0, len(records), 64):
            loss, tokens = losses(model, records[start : start + 64])
            total, count = total + loss.sum().item(), count + tokens.sum().item()
    model.train()
    return total / count


def optimizer_of(model, name, rate):
    parameters = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.SGD(parameters, lr=rate) if name == "sgd" else torch.optim.Adam(parameters, lr=rate)


def by_torch(model, optimizer, private, opacus, records, held_out, epochs, seed):
    draw = torch.Generator().manual_seed(seed)
    curve = []
    rate = BATCH / len(records)
    for _ in range(epochs):
        if not private:
            order = torch.randperm(len(records), generator=draw).tolist()
            for start in range(0, len(order), BATCH):
                optimizer.zero_grad()
                loss, tokens = losses(model, [records[i] for i in order[start : start + BATCH]])
                (loss.sum() / tokens.sum()).backward()
                optimizer.step()
        else:
            for _ in range(math.ceil(1 / rate)):
                chosen = (torch.rand(len(records), generator=draw) < rate).nonzero().flatten().tolist()
                batch = [records[i] for i in chosen]
                if opacus:
                    optimizer.zero_grad()
                    if batch:
                        losses(model, batch)[0].mean().backward()
                        optimizer.step()
                    continue
                parameters = [p for p in model.parameters() if p.requires_grad]
                sums = [torch.zeros_like(p) for p in parameters]
                for record in batch:
                    model.zero_grad()
                    losses(model, [record])[0].sum().backward()
                    norm = math.sqrt(sum(p.grad.double().pow(2).sum().item() for p in parameters))
                    for total, p in zip(sums, parameters):
                        total += p.grad * min(1.0, CLIP / norm)
                for p, total in zip(parameters, sums):
                    noise = torch.randn(p.shape, generator=draw) * SIGMA * CLIP
                    p.grad = (total + noise) / (rate * len(records))
                optimizer.step()
        curve.append(held_out_loss(model, held_out))
    return curve


def main():
    p = argparse.ArgumentParser()
    p.add_argument("audit")
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--epochs", type=int, default=4)
    args = p.parse_args()
    audit = Path(args.audit).resolve()
    home = Path(tempfile.mkdtemp())

    def run(line):
        subprocess.run([audit, *line.split()], cwd=home, check=True, stdout=subprocess.DEVNULL)

    def records(folder):
        lines = (home / folder / "records.jsonl").read_text().splitlines()
        tokens = [json.loads(line)["tokens"] for line in lines]
        return [t for t in tokens if len(t) > 1]

    for name, seed, dialogues in [("train", 1, 40), ("other", 2, 15)]:
        run(f"simulate customers --dialogues {dialogues} --seed {seed} --out {name}.jsonl")
        run(f"prepare {name}.jsonl --policy gold --no-deduplication --held-out 0 --max-tokens 200 --out {name}")
    ours_and_theirs = records("train"), records("other")
    print(f"{len(ours_and_theirs[0])} records, {len(ours_and_theirs[1])} held out, {args.seeds} seeds, sigma {SIGMA}, batches of {BATCH}")
    print("| model | steps | optimiser | ours, perplexity by epoch | PyTorch, Opacus | agrees |\n|---|---|---|---|---|---|")
    failed = 0
    for (model, optimizer), rates in RATES.items():
        for private in (False, True):
            curves = [[], []]
            for seed in range(args.seeds):
                out = f"{model}-{optimizer}-{private}-{seed}"
                fresh = ["--model", model, "--initial-seed", str(seed), *(SIZES if model == "gpt2" else [])]
                start = f"train train --recipe sgd --steps 1 --learning-rate 1e-30 --out start-{out} " + " ".join(fresh)
                run(start)
                line = f"train train --epochs {args.epochs} --decay constant --held-out other --out {out} " + " ".join(fresh)
                if private:
                    momentum = "--private-momentum 0" if optimizer == "sgd" else ""
                    run(f"{line} --recipe dpsgd --sigma {SIGMA} --clip {CLIP} --batch-size {BATCH} "
                        f"--private-optimizer {optimizer} --private-learning-rate {rates[1]} {momentum}")
                else:
                    run(f"{line} --recipe sgd --optimizer {optimizer} --learning-rate {rates[0]} --ordinary-batch-size {BATCH}")
                log = (home / f"{out}.owner" / "training.jsonl").read_text().splitlines()
                ends = [json.loads(line) for line in log if "ended" in line]
                curves[0].append([math.log(end["held_out_perplexity"]) for end in ends])
                folder = home / f"start-{out}"
                opacus = private and model == "lstm"
                if model == "gpt2":
                    net = Gpt2(folder)
                else:
                    from opacus.layers import DPLSTM

                    net = Lstm(load_file(folder / "model.safetensors"), DPLSTM if opacus else torch.nn.LSTM)
                net.eval() if model == "gpt2" else net.train()
                torch.manual_seed(seed)
                if opacus:
                    from opacus.grad_sample import GradSampleModule
                    from opacus.optimizers import DPOptimizer

                    net = GradSampleModule(net, batch_first=True, loss_reduction="mean")
                    step = DPOptimizer(optimizer_of(net, optimizer, rates[1]), noise_multiplier=SIGMA, max_grad_norm=CLIP,
                                       expected_batch_size=BATCH, loss_reduction="mean")
                else:
                    step = optimizer_of(net, optimizer, rates[private])
                curves[1].append(by_torch(net, step, private, opacus, *ours_and_theirs, args.epochs, seed))
            agrees = True
            for epoch in range(args.epochs):
                sides = [[curve[epoch] for curve in side] for side in curves]
                means = [sum(side) / len(side) for side in sides]
                spread = sum(max(abs(x - mean) for x in side) for side, mean in zip(sides, means))
                agrees &= abs(means[0] - means[1]) <= max(spread, math.log(1.02))
            failed += not agrees
            shown = [", ".join(f"{math.exp(sum(c[e] for c in side) / len(side)):.3g}" for e in range(args.epochs)) for side in curves]
            print(f"| {model} | {'private' if private else 'ordinary'} | {optimizer} | {shown[0]} | {shown[1]} | {'yes' if agrees else 'NO'} |",
                  flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
