"""Runs under benches/exposure.sh: models by transformers, ranks by ours and by flat scoring."""

import argparse
import json
import math
import random
import subprocess
import sys
import time
from pathlib import Path

import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

hf.utils.logging.set_verbosity_error()
VOCABULARY, LAYERS, WIDTH, HEADS, CONTEXT = 50257, 6, 256, 8, 64
BATCH = 256


def say(**line):
    print(json.dumps(line), flush=True)


class Bench:
    def __init__(self, audit, folder, quick):
        self.audit, self.folder, self.quick = Path(audit).resolve(), Path(folder), quick
        self.folder.mkdir(parents=True, exist_ok=True)

    def run(self, line, capture=False):
        done = subprocess.run([self.audit, *line.split()], cwd=self.folder, text=True,
                              stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout) if capture else None

    def tokenizer(self):
        """Byte-level byte pairs from the corpus and from numbers, so that digits merge."""
        path = self.folder / "tokenizer.json"
        if path.exists():
            return Tokenizer.from_file(str(path))
        own = Tokenizer(models.BPE())
        own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        own.decoder = decoders.ByteLevel()
        texts = [json.loads(l)["text"] for l in (self.folder / "data.jsonl").read_text().splitlines()]
        draw = random.Random(0)
        texts += [f"My number is {draw.randrange(10 ** draw.randint(1, 6))}." for _ in range(60_000)]
        trainer = trainers.BpeTrainer(vocab_size=6000, special_tokens=["<|endoftext|>"],
                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
        own.train_from_iterator(texts, trainer)
        own.save(str(path))
        return own

    def prepare(self, name, template, spec):
        if not (self.folder / name).exists():
            # The template holds a space, so no splitting by words here.
            subprocess.run([self.audit, "prepare", "data.jsonl", "--policy", "nothing", "--canaries", spec,
                            "--canary-format", template, "--tokenizer", "tokenizer.json",
                            "--vocabulary", "pretrained", "--seed", "0", "--out", name],
                           cwd=self.folder, check=True, stdout=subprocess.DEVNULL)
        return json.loads((self.folder / name / "canaries.json").read_text())

    def model(self, name, tokenizer, plan, memorise):
        """Trained on the canaries' lines, or on the same lines with other numbers each time."""
        folder = self.folder / name
        if (folder / "model.safetensors").exists():
            return hf.GPT2LMHeadModel.from_pretrained(folder).eval()
        torch.manual_seed(0)
        end = tokenizer.token_to_id("<|endoftext|>")
        config = hf.GPT2Config(vocab_size=VOCABULARY, n_layer=LAYERS, n_embd=WIDTH, n_head=HEADS,
                               n_positions=CONTEXT, bos_token_id=end, eos_token_id=end,
                               resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
        model = hf.GPT2LMHeadModel(config)
        lines = [(i["text"], c["secret"]) for c in plan["canaries"] for i in c["insertions"]]
        draw = random.Random(1)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        steps = 60 if self.quick else 150
        for step in range(steps):
            batch = []
            for text, secret in draw.sample(lines, 20):
                if not memorise:
                    text = text.replace(secret, f"{draw.randrange(10 ** len(secret)):0{len(secret)}}")
                batch.append([end, *tokenizer.encode(text).ids, end][:CONTEXT])
            width = max(map(len, batch))
            ids = torch.tensor([b + [end] * (width - len(b)) for b in batch])
            labels = torch.tensor([b + [-100] * (width - len(b)) for b in batch])
            for group in optimizer.param_groups:
                group["lr"] = 1e-3 * (1 - step / steps)
            loss = model(input_ids=ids, labels=labels).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if step % 50 == 0:
                print(f"{name}: step {step} of {steps}, loss {loss.item():.3f}", file=sys.stderr)
        model.eval().save_pretrained(folder)
        tokenizer.save(str(folder / "tokenizer.json"))
        return model

    def exposure(self, model, plan_folder, extra=""):
        began = time.perf_counter()
        found = self.run(f"exposure --model {model} --canary-file {plan_folder}/canaries.json "
                         f"--format json {extra}", capture=True)
        return found, time.perf_counter() - began


def sequences(tokenizer, before, secrets):
    """Canonical tokens of each line up to the secret's end, and where the secret begins."""
    end = tokenizer.token_to_id("<|endoftext|>")
    all_ids = [[end, *e.ids] for e in tokenizer.encode_batch([before + s for s in secrets])]
    first = tokenizer.encode(before + secrets[0])
    start = next(i for i, (_, stop) in enumerate(first.offsets) if stop > len(before)) + 1
    return all_ids, start


@torch.inference_mode()
def flat(model, ids, start):
    """Summed NLL of each secret span, in batches of equal length."""
    costs = torch.empty(len(ids))
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    at = 0
    while at < len(order):
        length = len(ids[order[at]])
        chunk = [i for i in order[at:at + BATCH] if len(ids[i]) == length]
        batch = torch.tensor([ids[i] for i in chunk])
        logits = model(input_ids=batch[:, :-1]).logits[:, start - 1:]
        picked = logits.log_softmax(-1).gather(-1, batch[:, start:, None]).squeeze(-1)
        costs[chunk] = -picked.sum(-1)
        at += len(chunk)
    return costs.double()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--audit", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    bench = Bench(arguments.audit, arguments.folder, arguments.quick)
    if not (bench.folder / "data.jsonl").exists():
        bench.run("simulate customers --dialogues 300 --seed 0 --out data.jsonl")
    tokenizer = bench.tokenizer()
    million = bench.prepare("million", "My ID is: {digits:6}", "10x20")
    small = bench.prepare("small", "My ID is: {digits:4}", "10x20")
    networks = {
        "memorised": bench.model("memorised", tokenizer, million, True),
        "not-memorised": bench.model("not-memorised", tokenizer, million, False),
    }

    # flat scoring, 2 % of the candidates, drawn at random: their tokens differ in number
    before = million["canaries"][0]["context"]
    draw = random.Random(2)
    share = 2_000 if arguments.quick else 20_000
    secrets = [f"{n:06}" for n in draw.sample(range(1_000_000), share)]
    began = time.perf_counter()
    ids, start = sequences(tokenizer, before, secrets)
    encoding = time.perf_counter() - began
    flat(networks["memorised"], ids[:512], start)
    began = time.perf_counter()
    flat(networks["memorised"], ids, start)
    seconds = time.perf_counter() - began
    rate = share / seconds
    say(what="transformers, flat", candidates=share, seconds=round(seconds, 2),
        per_second=round(rate, 1), encoding_seconds=round(encoding, 2),
        million_seconds=round(1e6 / rate), torch=torch.__version__, transformers=hf.__version__)

    for name, goal in [("memorised", 500), ("not-memorised", 20)]:
        found, wall = bench.exposure(name, "million")
        work = found["work"]
        say(what=f"ours, {name}", ranks=[c["rank"]["max"] for c in found["canaries"]],
            seconds=round(work["seconds"], 3), process_seconds=round(wall, 2),
            positions=work["positions_scored"], positions_flat=work["positions_flat"],
            times_faster=round(1e6 / rate / work["seconds"], 1),
            times_faster_whole_process=round(1e6 / rate / wall, 1), goal=goal)

    # both in full on ten thousand
    before = small["canaries"][0]["context"]
    secrets = [f"{n:04}" for n in range(10_000)]
    ids, start = sequences(tokenizer, before, secrets)
    for name, network in networks.items():
        costs = flat(network, ids, start)
        found, _ = bench.exposure(name, "small")
        differ, ties, largest = 0, 0, 0.0
        for canary, planned in zip(found["canaries"], small["canaries"]):
            own = costs[int(planned["secret"])].item()
            # f32 sums of either side: whoever lies this close may stand on either side
            close = ((costs - own).abs() <= 1e-4 * max(1.0, own)).sum().item() - 1
            rank = 1 + (costs < own).sum().item()
            differ += not (canary["rank"]["min"] - close <= rank <= canary["rank"]["max"] + close)
            ties += close
            largest = max(largest, abs(canary["nll"] - own) / own)
        say(what=f"ranks among 10000, {name}", differ=differ, within_rounding=ties,
            largest_relative_nll_difference=largest)

    # ten to the sixteen, one token a digit: characters
    if not (bench.folder / "long").exists():
        subprocess.run([bench.audit, "simulate", "customers", "--dialogues", "8", "--out", "few.jsonl"],
                       cwd=bench.folder, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([bench.audit, "prepare", "few.jsonl", "--policy", "customers", "--seed", "0", "--canaries", "1x60", "--canary-format",
                        "My card is: {digits:16}", "--out", "long-prepared"],
                       cwd=bench.folder, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([bench.audit, "train", "long-prepared", "--recipe", "sgd", "--model", "gpt2",
                        "--layers", "2", "--width", "128", "--heads", "4", "--context", "256",
                        "--epochs", "12", "--ordinary-batch-size", "8", "--learning-rate", "0.002", "--out", "long"],
                       cwd=bench.folder, check=True, stdout=subprocess.DEVNULL)
    began = time.perf_counter()
    found = bench.run("exposure --model long --budget 2000000 --format json", capture=True)
    wall = time.perf_counter() - began
    canary = found["canaries"][0]
    say(what="16 digits among 1e16", rank=canary["rank"], unresolved=canary["unresolved"],
        exposure=canary["exposure"], positions=found["work"]["positions_scored"],
        seconds=round(found["work"]["seconds"], 2), process_seconds=round(wall, 2),
        ceiling_bits=math.log2(1e16))


if __name__ == "__main__":
    main()
