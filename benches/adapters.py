#!/usr/bin/env python3
"""LoRA adapters there and back: peft reads ours and gives our losses, we read peft's.

    pip install torch transformers peft tokenizers
    cargo build -p reticent-reports --bin audit && cargo build -p reticent-backends --features oracle --example hugging_face
    python benches/adapters.py [--audit target/debug/audit] [--example target/debug/examples/hugging_face]

Of random tiny models: an adapter that `audit train` wrote, by a private and by an ordinary recipe, loaded by peft on
its base; an adapter that peft saved. Both are merged by `audit convert --merge` too, and the example `hugging_face`
compares our logits and token losses of the merged folder with those that peft gives without merging. Criteria: max
|difference| / max |logit| <= 1e-4, each token's loss within 1e-5 nats; peft finds every tensor, the adapter has moved
and the base's files have not.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import transformers as hf
from peft import LoraConfig, PeftModel, get_peft_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = Path(__file__).resolve().parent.parent
LIMIT, LOSS_LIMIT = 1e-4, 1e-5
hf.utils.logging.disable_progress_bar()
TEXTS = [f"Customer {n} asked for room {n * 37 % 1000} and a table at {n % 12} o'clock." for n in range(60)]


def tokenizer(folder):
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(TEXTS, trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    end = "<|endoftext|>"
    hf.PreTrainedTokenizerFast(tokenizer_object=made, bos_token=end, eos_token=end).save_pretrained(folder)
    return made.get_vocab_size()


def bases(vocabulary):
    ids = dict(vocab_size=vocabulary, bos_token_id=0, eos_token_id=0, pad_token_id=0, attn_implementation="eager")
    wide = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
                max_position_embeddings=64, **ids)
    grouped = dict(wide, num_key_value_heads=2)
    return [
        ("gpt2", hf.GPT2LMHeadModel, hf.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=64, **ids), ["c_attn", "c_proj"]),
        ("llama", hf.LlamaForCausalLM, hf.LlamaConfig(**grouped), ["q_proj", "v_proj"]),
        ("qwen3", hf.Qwen3ForCausalLM, hf.Qwen3Config(**grouped, head_dim=16), ["all-linear"]),
        ("gpt_neox", hf.GPTNeoXForCausalLM, hf.GPTNeoXConfig(**wide), ["query_key_value", "dense_4h_to_h"]),
        ("phi3", hf.Phi3ForCausalLM, hf.Phi3Config(**grouped), ["qkv_proj", "gate_up_proj"]),
        ("gemma2", hf.Gemma2ForCausalLM, hf.Gemma2Config(**grouped, head_dim=8, query_pre_attn_scalar=8), []),
    ]


def digest(folder):
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def cases(model, path, vocabulary):
    """Logits and losses of the model as it is, for the example."""
    out = []
    for length in (2, 7, 31):
        tokens = torch.randint(vocabulary, (1, length), generator=torch.Generator().manual_seed(length))
        with torch.no_grad():
            logits = model(tokens).logits[0].double()
        log_p = logits.log_softmax(-1)[:-1].gather(1, tokens[0, 1:, None])[:, 0]
        out.append({"tokens": tokens[0].tolist(), "token_types": [], "logits": logits.flatten().tolist(),
                    "losses": (-log_p).tolist()})
    path.write_text(json.dumps(out))


def moved(model):
    """The largest value of any B, and how many there are."""
    halves = [p for name, p in model.named_parameters() if "lora_B" in name]
    return max(float(p.detach().abs().max()) for p in halves), len(halves)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--audit", default=ROOT / "target/debug/audit")
    parser.add_argument("--example", default=ROOT / "target/debug/examples/hugging_face")
    args = parser.parse_args()

    def run(*words):
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True, cwd=home)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, words))}\n{done.stderr}")
        return done.stdout

    bad = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "data.jsonl").write_text("".join(json.dumps({"id": str(i), "text": t}) + "\n" for i, t in enumerate(TEXTS)))
        (home / "cases").mkdir()
        vocabulary = tokenizer(home / "tokenizer")
        run(args.audit, "prepare", "data.jsonl", "--tokenizer", "tokenizer/tokenizer.json", "--vocabulary", "pretrained",
            "--policy", "nothing", "--out", "prepared")
        # room for the mask, as in published vocabularies, so that ours need not grow
        for name, kind, config, targets in bases(vocabulary + 8):
            torch.manual_seed(1)
            base = home / f"{name}-base"
            kind(config).eval().save_pretrained(base)
            tokenizer(base)
            before = digest(base)
            for recipe in ("dpsgd", "sgd"):
                flags = ["--sigma", "0.5"] if recipe == "dpsgd" else []
                flags += ["--lora-targets", ",".join(targets)] if targets else []
                ours = f"{name}-{recipe}"
                run(args.audit, "train", "prepared", "--recipe", recipe, *flags, "--model", base.name, "--lora-rank", 4,
                    "--epochs", 2, "--out", ours)
                loaded = PeftModel.from_pretrained(kind.from_pretrained(base), home / ours).eval()
                check(loaded, ours, home, vocabulary, bad)
                run(args.audit, "convert", "--merge", ours, "--out", home / "cases" / ours)
                cases(loaded, home / "cases" / ours / "cases.json", vocabulary)
            theirs = f"{name}-peft"
            settings = LoraConfig(r=4, lora_alpha=6, target_modules=targets if targets[:1] != ["all-linear"] else "all-linear",
                                  task_type="CAUSAL_LM", fan_in_fan_out=name == "gpt2") if targets else LoraConfig(
                                      r=4, task_type="CAUSAL_LM")
            made = get_peft_model(kind.from_pretrained(base), settings).eval()
            for parameter_name, parameter in made.named_parameters():
                if "lora_B" in parameter_name:
                    torch.nn.init.normal_(parameter, std=0.1)
            made.save_pretrained(home / theirs)
            run(args.audit, "convert", base.name, "--merge", theirs, "--out", home / "cases" / theirs)
            cases(made, home / "cases" / theirs / "cases.json", vocabulary)
            if digest(base) != before:
                bad.append(f"{name}: the base was changed")
        found = json.loads(run(args.example, home / "cases"))
    print(f"{'adapter':<20} {'exact':>9} {'fast':>9} {'loss':>9}")
    for name, (exact, fast, loss) in sorted(found.items()):
        print(f"{name:<20} {exact:9.1e} {fast:9.1e} {loss:9.1e}")
        if not (exact <= LIMIT and fast <= LIMIT and loss <= LOSS_LIMIT):
            bad.append(f"{name}: differs from peft")
    sys.exit("\n".join(bad) or 0)


def check(loaded, name, home, vocabulary, bad):
    most, halves = moved(loaded)
    written = json.loads((home / name / "adapter_config.json").read_text())
    print(f"{name}: {halves} modules, r {written['r']}, alpha {written['lora_alpha']:g}, largest B {most:.3g}")
    if most == 0.0 or halves == 0:
        bad.append(f"{name}: the adapter did not move")


if __name__ == "__main__":
    main()
