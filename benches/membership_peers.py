#!/usr/bin/env python3
"""Our membership scores against those of the peers' own code, on the same weights, tokens and texts.

    pip install torch transformers numpy scipy scikit-learn tqdm nltk datasets simple-parsing peft
    cargo build --release -p reticent-reports --bin audit
    cargo build --release -p reticent-attacks --example shadow_scores
    python benches/membership_peers.py --audit target/release/audit --shadow-scores target/release/examples/shadow_scores \\
        --source mimir=CHECKOUT --source privacy_meter=CHECKOUT --source wbc=CHECKOUT --source ez=CHECKOUT \\
        --source tensorflow_privacy=CHECKOUT

Checkouts: iamgroot42/mimir, privacytrustlab/ml_privacy_meter, Stry233/WBC, JetBrains-Research/ez-mia, tensorflow/privacy. A peer
without --source is computed from its formula, written here anew, and the table says so. Packages that a peer imports
but that are not installed are replaced by empty ones: the functions that are called here use none of them.

A GPT-2 of transformers with random texts is trained on half of them; its base is the reference. Both folders go to `audit
membership --scores-out` as they are. The peers get the same weights through transformers and the same token ids. Largest
differences over all records are absolute, in the units of the score.
"""

import argparse
import csv
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import random
import subprocess
import sys
import tempfile
import types
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

hf.utils.logging.set_verbosity_error()
hf.utils.logging.disable_progress_bar()
CONTEXT, NEIGHBOURS, SHARE = 64, 6, 0.2
WINDOWS = [2, 3, 4, 6, 9, 13, 18, 25, 32, 40]
WORDS = "order send please number table mail green house river call late early north paper seven train old Friday".split()


class Empty(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a package that is not installed: every name in it is an empty class."""

    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__path__, module.__all__ = [], []
        module.__getattr__ = lambda name: type(name, (), {})
        return module

    def exec_module(self, module):
        pass


def texts(count, seed):
    draw = random.Random(seed)
    line = lambda: " ".join(draw.choices(WORDS, k=draw.randint(4, 22))) + f" {draw.randrange(10**6):06}."
    return [line() for _ in range(count)]


def tokenizer(all_texts):
    own = Tokenizer(models.BPE())
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.decoder = decoders.ByteLevel()
    own.train_from_iterator(all_texts, trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    return own


def fresh(end, seed=0):
    torch.manual_seed(seed)
    return hf.GPT2LMHeadModel(hf.GPT2Config(
        vocab_size=600, n_layer=2, n_embd=64, n_head=4, n_positions=CONTEXT, bos_token_id=end, eos_token_id=end,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))


def train(model, records, steps, seed):
    draw = random.Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(steps):
        batch = draw.sample(records, min(16, len(records)))
        width = max(map(len, batch))
        ids = torch.tensor([b + [0] * (width - len(b)) for b in batch])
        labels = torch.tensor([b + [-100] * (width - len(b)) for b in batch])
        optimizer.zero_grad()
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
    return model.eval()


@torch.inference_mode()
def ln_p(model, ids):
    """ln p of every token but the first, and of the whole vocabulary at its place."""
    all_ln_p = model(input_ids=torch.tensor([ids])).logits[0, :-1].double().log_softmax(-1)
    return all_ln_p.gather(-1, torch.tensor(ids[1:])[:, None])[:, 0], all_ln_p


class Fixed:
    """A tokenizer that knows the ids of the texts at hand, for peers that insist on one."""

    pad_token_id, eos_token_id = 0, 0

    def __init__(self, encode):
        self.encode_one = encode

    def __call__(self, batch, padding=False, max_length=None, **_):
        rows = [self.encode_one(text) for text in ([batch] if isinstance(batch, str) else batch)]
        width = max_length if padding == "max_length" else max(map(len, rows))
        ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
        return hf.BatchEncoding({"input_ids": ids, "attention_mask": mask})

    batch_encode_plus = __call__


class Mimir:
    """The attacks of mimir on a model that is at hand."""

    def __init__(self, checkout, target, reference, encode):
        sys.path.insert(0, str(checkout))
        models_of = importlib.import_module("mimir.models")
        attack = lambda file, name: getattr(importlib.import_module(f"mimir.attacks.{file}"), name)
        config = SimpleNamespace(env_config=SimpleNamespace(cache_dir=None), openai_config=None, pretokenized=False)

        def given(model, kind):
            own = kind.__new__(kind)
            torch.nn.Module.__init__(own)
            own.config, own.model, own.name, own.device, own.tokenizer = config, model, "given", "cpu", Fixed(encode)
            own.max_length = own.stride = 2 * CONTEXT
            return own

        self.target = given(target, models_of.LanguageModel)
        self.reference = given(reference, models_of.LanguageModel)
        self.loss = attack("loss", "LOSSAttack")(config, self.target)
        self.min_k = attack("min_k", "MinKProbAttack")(config, self.target)
        self.min_kpp = attack("min_k_plus_plus", "MinKPlusPlusAttack")(config, self.target)
        self.zlib = attack("zlib", "ZLIBAttack")(config, self.target)
        self.calibrated = attack("reference", "ReferenceAttack")(config, self.target, self.reference)
        kind = attack("neighborhood", "NeighborhoodAttack")
        self.neighbourhood = kind.__new__(kind)
        self.neighbourhood.config, self.neighbourhood.target_model = config, self.target

    def scores(self, text, ids, near):
        tokens = np.array(ids)
        probs, all_probs = self.target.get_probabilities(text, tokens=tokens, return_all_probs=True)
        return {
            "loss": -self.loss._attack(text, probs, tokens),
            "min-k": -self.min_k._attack(text, probs, tokens, k=SHARE),
            "min-k++": -self.min_kpp._attack(text, probs, tokens, k=SHARE, all_probs=all_probs),
            "zlib": -self.zlib._attack(text, probs, tokens),
            "reference": -self.calibrated._attack(text, None, tokens),
            # Theirs is a difference for each neighbour.
            "neighbourhood": -np.mean(self.neighbourhood._attack(text, probs, tokens, substr_neighbors=near)),
        }


class MimirAnew:
    """The same formulas, written anew."""

    def __init__(self, _, target, reference, encode):
        self.target, self.reference, self.encode = target, reference, encode

    def scores(self, text, ids, near):
        own, row = ln_p(self.target, ids)
        mean = (row.exp() * row).sum(-1)
        z = (own - mean) / ((row.exp() * row**2).sum(-1) - mean**2).sqrt()
        lowest = lambda values: values.sort().values[: int(SHARE * len(values))].mean().item()
        loss = -own.mean().item()
        others = [-ln_p(self.target, self.encode(n))[0].mean().item() for n in near]
        return {
            "loss": -loss, "min-k": lowest(own), "min-k++": lowest(z),
            "zlib": -loss / len(zlib.compress(text.encode())),
            "reference": -ln_p(self.reference, ids)[0].mean().item() - loss,
            "neighbourhood": np.mean(others) - loss,
        }


class Wbc:
    def __init__(self, checkout, target, reference, encode):
        sys.path.insert(0, str(checkout))
        kind = importlib.import_module("attacks.wbc").WbcAttack
        self.attack = kind.__new__(kind)
        self.losses = importlib.import_module("attacks.misc.utils").compute_per_token_losses
        self.models, self.tokens = (target, reference), Fixed(encode)

    def scores(self, text, ids, near):
        kept = []
        for model in self.models:
            losses, valid = self.losses(model, self.tokens, [text], "cpu", CONTEXT)
            kept.append(losses[0][valid[0]])
        return {"wbc": np.mean([self.attack._compute_window_score(*kept, w) for w in WINDOWS])}


class WbcAnew:
    def __init__(self, _, target, reference, encode):
        self.models = target, reference

    def scores(self, text, ids, near):
        own, other = (-ln_p(m, ids)[0].numpy() for m in self.models)
        sums = lambda row, w: np.convolve(row, np.ones(min(w, len(row))), "valid")
        return {"wbc": np.mean([np.mean(sums(other, w) > sums(own, w)) for w in WINDOWS])}


class Ez:
    def __init__(self, checkout, target, reference, encode):
        spec = importlib.util.spec_from_file_location("ez_score", checkout / "mia" / "ez_score.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.ratio, self.models = module.error_zone_pos_neg_sum_ratio, (target, reference)

    def scores(self, text, ids, near):
        (own, row), (other, _) = (ln_p(m, ids) for m in self.models)
        mask = torch.ones(len(own))
        # Without their rule for the first token: here it is the text's own, behind the marker.
        return {"ez": self.ratio(own, other, row.argmax(-1), torch.tensor(ids[1:]), mask, ignore_bos=False)}


class EzAnew:
    def __init__(self, _, target, reference, encode):
        self.models = target, reference

    def scores(self, text, ids, near):
        (own, row), (other, _) = (ln_p(m, ids) for m in self.models)
        wrong = row.argmax(-1) != torch.tensor(ids[1:])
        gain = (own - other)[wrong]
        lost = -gain[gain < 0].sum().item()
        return {"ez": 0.0 if wrong.sum() < 2 or lost == 0 else gain[gain > 0].sum().item() / lost}


def lira_of(checkout):
    """compute_score_lira of tensorflow/privacy with its sign turned, or its formula."""
    if checkout is not None:
        sys.path.insert(0, str(checkout))
        for name in ("tensorflow_privacy", "tensorflow_privacy.privacy"):
            # Their __init__ import tensorflow, which this module does not use.
            package = types.ModuleType(name)
            package.__path__ = [str(checkout / name.replace(".", "/"))]
            sys.modules[name] = package
        base = "tensorflow_privacy.privacy.privacy_tests"
        for name in (base, f"{base}.membership_inference_attack"):
            package = types.ModuleType(name)
            package.__path__ = [str(checkout / name.replace(".", "/"))]
            sys.modules[name] = package
        own = importlib.import_module(f"{base}.membership_inference_attack.advanced_mia").compute_score_lira

        def scores(targets, inside, outside, option, shared):
            column = lambda all_of: [np.array(row)[:, None] for row in all_of]
            return -own(np.array(targets)[:, None], column(inside), column(outside), option=option, fix_variance=shared)

        return scores

    def scores(targets, inside, outside, option, shared):
        from scipy.stats import norm
        total = 0.0
        for kind, sign in ((inside, 1), (outside, -1)):
            if kind is outside and option == "in":
                continue
            kind = np.array(kind)
            centre = np.median(kind, axis=1)
            spread = np.std(kind - centre[:, None]) if shared else np.std(kind, axis=1)
            total = total + sign * norm.logpdf(targets, centre, spread)
        return total

    return scores


def rmia_of(checkout):
    if checkout is not None:
        spec = importlib.util.spec_from_file_location("rmia", checkout / "modules/mia/attacks/rmia.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)

        def scores(targets, inside, outside, a):
            signals = np.hstack([inside, outside])
            seen = np.hstack([np.ones_like(inside, dtype=bool), np.zeros_like(outside, dtype=bool)])
            # All records are the population; they are OUT of its reference models.
            return module.run_rmia(targets, signals, seen, targets, outside, a, outside.shape[1])

        return scores

    def scores(targets, inside, outside, a):
        ratio = targets / ((1 + a) / 2 * outside.mean(1) + (1 - a) / 2)
        return np.mean(ratio[:, None] / ratio > 1.0, axis=1)

    return scores


def row(peer, how, attack, records, largest, scale, note=""):
    print(f"| {peer} | {how} | {attack} | {records} | {largest:.1e} | {scale:.3g} | {note} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audit", required=True, type=Path)
    parser.add_argument("--shadow-scores", required=True, type=Path)
    parser.add_argument("--source", action="append", default=[], metavar="PEER=CHECKOUT")
    parser.add_argument("--records", type=int, default=120, help="a side")
    arguments = parser.parse_args()
    sources = dict(given.split("=", 1) for given in arguments.source)
    known = {"mimir", "privacy_meter", "wbc", "ez", "tensorflow_privacy"}
    if unknown := set(sources) - known:
        parser.error(f"--source: peers are {', '.join(sorted(known))}, not {', '.join(sorted(unknown))}")
    sources = {name: Path(path).resolve() for name, path in sources.items()}
    wanted = ("openai", "hf_olmo", "simple_parsing", "nltk", "datasets", "peft", "absl", "tensorflow")
    sys.meta_path.append(Empty({name for name in wanted if importlib.util.find_spec(name) is None}))
    torch.set_num_threads(1)

    folder = Path(tempfile.mkdtemp(prefix="membership-peers-"))
    inside, outside = texts(arguments.records, 1), texts(arguments.records, 2)
    own = tokenizer(inside + outside)
    end = own.token_to_id("<|endoftext|>")
    encode = lambda text: [end, *own.encode(text).ids]
    ids = [encode(text) for text in inside + outside]
    assert max(map(len, ids)) <= CONTEXT
    base = train(fresh(end), [encode(t) for t in texts(400, 3)], 150, 0)
    target = hf.GPT2LMHeadModel(base.config)
    target.load_state_dict(base.state_dict())
    train(target, ids[: arguments.records], 120, 1)
    for name, model in (("target", target), ("base", base)):
        model.save_pretrained(folder / name)
        own.save(str(folder / name / "tokenizer.json"))
    draw = random.Random(4)
    near = {}
    for text in inside + outside:
        near[text] = []
        for _ in range(NEIGHBOURS):
            words = text.split(" ")
            words[draw.randrange(len(words) - 1)] = draw.choice(WORDS)
            near[text].append(" ".join(words))
        near[text][0] = "please " + text
    for name, side in (("in", inside), ("out", outside)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in side))
    lines = (json.dumps({"text": t, "neighbours": n}) + "\n" for t, n in near.items())
    (folder / "near.jsonl").write_text("".join(lines))
    subprocess.run(
        [arguments.audit.resolve(), *"membership --model target --reference base --members in.jsonl --non-members out.jsonl --attack all "
         "--neighbours near.jsonl --without-end --group-by nothing --unit document --scores-out scores.csv".split()],
        cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with open(folder / "scores.csv", newline="") as file:
        ours = list(csv.DictReader(file))
    place = lambda r: int(r["id"].rsplit("-", 1)[1]) - 1 + (0 if r["member"] == "1" else arguments.records)
    all_texts = inside + outside
    print(f"{len(ours)} of {len(all_texts)} records judged; torch {torch.__version__}, transformers {hf.__version__}\n")
    print("| peer | its | attack | records | largest difference | largest score | |")
    print("|---|---|---|---|---|---|---|")
    for peer, code, anew in (("mimir", Mimir, MimirAnew), ("wbc", Wbc, WbcAnew), ("ez", Ez, EzAnew)):
        how = "own code" if peer in sources else "formula, written anew"
        theirs = (code if peer in sources else anew)(sources.get(peer), target, base, encode)
        found = {}
        for record in ours:
            i = place(record)
            scores = theirs.scores(all_texts[i], ids[i], near[all_texts[i]])
            for attack, score in scores.items():
                found.setdefault(attack, []).append((float(record[attack]), float(score), len(ids[i]) - 1, record["member"]))
        for attack, rows in found.items():
            note, kept = "", rows
            if attack in ("min-k", "min-k++"):
                # They average int(k n) tokens, we at least one and otherwise the next whole number.
                kept = [r for r in rows if r[2] * SHARE == int(r[2] * SHARE)]
                note = f"where k·n is whole; on the other {len(rows) - len(kept)} we average one token more"
            if attack == "zlib":
                kept = [(o / n, t, n, m) for o, t, n, m in rows]
                note = "ours over n tokens: they divide the mean NLL by the bytes, we the sum"
            if attack == "ez":
                kept = [r for r in rows if not (np.isinf(r[0]) and r[1] == 0.0)]
                note = f"the other {len(rows) - len(kept)} lose nothing: 0 there, ∞ here"
            scale = max(abs(t) for _, t, _, _ in kept)
            row(peer, how, attack, len(kept), max(abs(o - t) for o, t, _, _ in kept), scale, note)

    # Shadow models: halves of the records, in pairs.
    mean_ln_p = lambda model: np.array([ln_p(model, i)[0].mean().item() for i in ids])
    pairs, seen, unseen = 4, [], []
    for pair in range(pairs):
        half = set(random.Random(10 + pair).sample(range(len(ids)), len(ids) // 2))
        scored = []
        for turn in (True, False):
            model = hf.GPT2LMHeadModel(base.config)
            model.load_state_dict(base.state_dict())
            train(model, [r for i, r in enumerate(ids) if (i in half) == turn], 120, 20 + pair)
            scored.append(mean_ln_p(model))
        first = np.array([i in half for i in range(len(ids))])
        seen.append(np.where(first, scored[0], scored[1]))
        unseen.append(np.where(first, scored[1], scored[0]))
    targets, seen, unseen = mean_ln_p(target), np.array(seen).T, np.array(unseen).T
    a = 0.3
    signals = json.dumps({"targets": targets.tolist(), "inside": seen.tolist(), "outside": unseen.tolist(), "a": a})
    done = subprocess.run([arguments.shadow_scores.resolve()], input=signals, text=True, stdout=subprocess.PIPE, check=True)
    shadow = json.loads(done.stdout)
    logit = lambda x: x - np.log(-np.expm1(x))
    score = lira_of(sources.get("tensorflow_privacy"))
    how = "own code" if "tensorflow_privacy" in sources else "formula, written anew"
    for name, option, shared in (("online-shared", "both", True), ("online-per-record", "both", False),
                                 ("in-only-shared", "in", True)):
        theirs = score(logit(targets), logit(seen), logit(unseen), option, shared)
        gap = np.abs(theirs - np.array(shadow["lira"][name])).max()
        row("tensorflow_privacy", how, f"LiRA, {name}", len(ids), gap, np.abs(theirs).max())
    how = "own code" if "privacy_meter" in sources else "formula, written anew"
    theirs = rmia_of(sources.get("privacy_meter"))(np.exp(targets), np.exp(seen), np.exp(unseen), a)
    row("privacy_meter", how, "RMIA, offline, a = 0.3, γ = 1", len(ids),
        np.abs(theirs - np.array(shadow["rmia"])).max(), theirs.max())


if __name__ == "__main__":
    main()
