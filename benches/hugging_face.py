#!/usr/bin/env python3
"""Our logits against Hugging Face transformers, on random weights, there and back.

    pip install torch transformers numpy
    python benches/hugging_face.py [--out DIR] [--golden]

Makes tiny random models of all architectures with save_pretrained (single file, shards, f16,
bf16), runs the example `hugging_face` of reticent-backends on them, and lets transformers load
what we saved. Models with rotary positions come with the `config.json` of transformers 5 (`rope_parameters`)
and with that of 4 (`rope_theta`). Criteria: max |difference| / max |logit| <= 1e-4, each way; of
decoders, each token's loss within 1e-5 nats.
--golden prints the numbers that backends/tests/hugging_face_golden.rs holds.
"""

import argparse
import copy
import json
import math
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers as hf

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 1e-4
LOSS_LIMIT = 1e-5
hf.utils.logging.disable_progress_bar()
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


def sizes(scale, layers):
    """Common sizes: heads 4, width 8 x scale."""
    return {"hidden": 8 * scale, "layers": layers, "heads": 4, "inner": 20 * scale, "positions": 48}


def configs(scale, vocabulary, layers=3):
    s = sizes(scale, layers)
    head = s["hidden"] // s["heads"]
    encoder = dict(
        vocab_size=vocabulary, hidden_size=s["hidden"], num_hidden_layers=s["layers"],
        num_attention_heads=s["heads"], intermediate_size=s["inner"],
        max_position_embeddings=s["positions"], attn_implementation="eager",
    )
    decoder = dict(encoder, num_key_value_heads=2, tie_word_embeddings=False)
    gemma = dict(decoder, tie_word_embeddings=True, head_dim=2 * head, query_pre_attn_scalar=7,
                 sliding_window=4, attn_logit_softcapping=2.0, final_logit_softcapping=3.0)
    gpt2 = hf.GPT2Config(
        vocab_size=vocabulary, n_embd=s["hidden"], n_layer=s["layers"], n_head=s["heads"],
        n_positions=s["positions"], bos_token_id=0, eos_token_id=0, attn_implementation="eager",
    )
    special = dict(pad_token_id=1, bos_token_id=0, eos_token_id=2)
    llama = hf.LlamaConfig(**decoder, rope_theta=500.0, rope_scaling=LLAMA3, bos_token_id=0, eos_token_id=0)
    tied = hf.LlamaConfig(**dict(decoder, tie_word_embeddings=True), bos_token_id=0, eos_token_id=0)
    plain = dict(decoder, bos_token_id=0, eos_token_id=0)
    wide = dict(plain, head_dim=2 * head)
    biased = hf.LlamaConfig(**plain, attention_bias=True, mlp_bias=True)
    mistral = hf.MistralConfig(**wide, sliding_window=4)
    roberta = dict(encoder, type_vocab_size=1, **special)
    return [
        ("gpt2", hf.GPT2LMHeadModel, gpt2, {}),
        ("gpt2-shards", hf.GPT2LMHeadModel, gpt2, {"shards": True}),
        ("llama", hf.LlamaForCausalLM, llama, {}),
        ("llama-tied-bf16", hf.LlamaForCausalLM, tied, {"dtype": torch.bfloat16}),
        ("llama-biases", hf.LlamaForCausalLM, biased, {}),
        ("mistral", hf.MistralForCausalLM, hf.MistralConfig(**plain, sliding_window=None, rope_theta=500.0), {}),
        ("mistral-window", hf.MistralForCausalLM, mistral, {}),
        ("qwen2", hf.Qwen2ForCausalLM, hf.Qwen2Config(**plain, rope_theta=1e6), {}),
        ("qwen2-tied-bf16", hf.Qwen2ForCausalLM, hf.Qwen2Config(**dict(plain, tie_word_embeddings=True)),
         {"dtype": torch.bfloat16}),
        ("qwen3", hf.Qwen3ForCausalLM, hf.Qwen3Config(**wide, rope_theta=1e6), {}),
        ("qwen3-biases", hf.Qwen3ForCausalLM, hf.Qwen3Config(**wide, attention_bias=True), {}),
        ("gemma2", hf.Gemma2ForCausalLM, hf.Gemma2Config(**gemma, bos_token_id=0, eos_token_id=0, pad_token_id=0), {}),
        *(decoders := others(s, vocabulary, plain, gemma)),
        *classifiers([("gpt2", 0, gpt2, {}), ("llama", 0, llama, {}), ("mistral-window", 0, mistral, {}),
                      ("qwen2", 0, hf.Qwen2Config(**plain), {}), ("qwen3", 0, hf.Qwen3Config(**wide), {}),
                      ("gemma2", 0, hf.Gemma2Config(**gemma, bos_token_id=0, eos_token_id=0), {}), *decoders]),
        ("bert-masked", hf.BertForMaskedLM, hf.BertConfig(**encoder), {}),
        ("bert-classes", hf.BertForSequenceClassification, hf.BertConfig(**encoder, num_labels=3), {}),
        ("roberta-masked", hf.RobertaForMaskedLM, hf.RobertaConfig(**roberta), {}),
        ("roberta-classes-f16", hf.RobertaForSequenceClassification, hf.RobertaConfig(**roberta), {"dtype": torch.float16}),
    ]


# A padding that decoders with classes do not read at the end.
PADDING = 10


def classifiers(decoders):
    """The same decoders with classes, where transformers has them."""
    known = hf.models.auto.modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES
    out = []
    for name, _, config, options in decoders:
        if config.model_type in known:
            config = copy.deepcopy(config)
            config.pad_token_id = PADDING
            config.id2label = {0: "hotel", 1: "taxi", 2: "train"}
            config.label2id = {name: number for number, name in config.id2label.items()}
            out.append((f"{name}-classes", getattr(hf, known[config.model_type]), config, options))
    return out


def others(s, vocabulary, plain, gemma):
    """The decoders beside GPT-2, Llama and their closest relatives."""
    if s["hidden"] == 8:  # heads wide enough to be turned in part
        s = dict(s, heads=2)
        plain, gemma = (dict(c, num_attention_heads=2, num_key_value_heads=1) for c in (plain, gemma))
    head = s["hidden"] // s["heads"]
    ids = dict(bos_token_id=0, eos_token_id=0, pad_token_id=0)
    eager = dict(vocab_size=vocabulary, attn_implementation="eager", bos_token_id=0, eos_token_id=0)
    single = {**plain, **ids, "tie_word_embeddings": True, "num_key_value_heads": 1, "head_dim": 2 * head}
    bare = {k: v for k, v in plain.items() if k != "num_key_value_heads"}
    uncapped = dict(gemma, attn_logit_softcapping=None, final_logit_softcapping=None, sliding_window=4, **ids)
    gemma3 = hf.Gemma3TextConfig(**uncapped, layer_types=["sliding_attention", "full_attention", "sliding_attention"][: s["layers"]])
    granite = hf.GraniteConfig(
        **plain, attention_bias=True, mlp_bias=True, embedding_multiplier=12.0, attention_multiplier=0.3,
        residual_multiplier=0.22, logits_scaling=8.0,
    )
    bigcode = dict(n_embd=s["hidden"], n_layer=s["layers"], n_head=s["heads"], n_positions=s["positions"], **eager)
    neo = dict(hidden_size=s["hidden"], num_layers=s["layers"], num_heads=s["heads"],
               max_position_embeddings=s["positions"], **eager)
    opt = dict(hidden_size=s["hidden"], num_hidden_layers=s["layers"], num_attention_heads=s["heads"],
               ffn_dim=s["inner"], max_position_embeddings=s["positions"], word_embed_proj_dim=s["hidden"],
               pad_token_id=1, **eager)
    quarter, half = share(0.25, head), share(0.5, head)
    return [
        ("gemma", hf.GemmaForCausalLM, hf.GemmaConfig(**single), {}),
        ("gemma3", hf.Gemma3ForCausalLM, gemma3, {}),
        ("phi", hf.PhiForCausalLM, hf.PhiConfig(**plain, **half), {}),
        ("phi3", hf.Phi3ForCausalLM, hf.Phi3Config(**{**plain, **ids}), {}),
        ("phi3-partly", hf.Phi3ForCausalLM, hf.Phi3Config(**{**plain, **ids}, **half, sliding_window=4), {}),
        ("gpt_neox", hf.GPTNeoXForCausalLM, hf.GPTNeoXConfig(**bare, **quarter), {}),
        ("gpt_neox-in-turn", hf.GPTNeoXForCausalLM,
         hf.GPTNeoXConfig(**bare, **quarter, use_parallel_residual=False, attention_bias=False), {}),
        ("gpt_neo", hf.GPTNeoForCausalLM,
         hf.GPTNeoConfig(**neo, attention_types=[[["global", "local"], 1], [["local"], s["layers"] - 2]], window_size=4), {}),
        ("opt", hf.OPTForCausalLM, hf.OPTConfig(**opt), {}),
        ("olmo2", hf.Olmo2ForCausalLM, hf.Olmo2Config(**{**plain, **ids}, attention_bias=True), {}),
        ("granite", hf.GraniteForCausalLM, granite, {}),
        ("smollm3", hf.SmolLM3ForCausalLM, hf.SmolLM3Config(**{**plain, **ids}, no_rope_layers=[1, 0, 1][: s["layers"]]), {}),
        ("stablelm", hf.StableLmForCausalLM, hf.StableLmConfig(**plain, **half, use_qkv_bias=True), {}),
        ("stablelm-parallel", hf.StableLmForCausalLM,
         hf.StableLmConfig(**plain, **quarter, use_parallel_residual=True), {}),
        ("starcoder2", hf.Starcoder2ForCausalLM, hf.Starcoder2Config(**plain, sliding_window=4), {}),
        ("gpt_bigcode", hf.GPTBigCodeForCausalLM, hf.GPTBigCodeConfig(**bigcode), {}),
        ("gpt_bigcode-apart", hf.GPTBigCodeForCausalLM, hf.GPTBigCodeConfig(**bigcode, multi_query=False), {}),
    ]


def share(wanted, head):
    """So much of a head is turned, but two values at least."""
    part = max(wanted, 2 / head)
    if hf.__version__.startswith("4."):
        return {"partial_rotary_factor": part, "rotary_pct": part}
    return {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": part}}


def logits(model, case):
    model = model.eval().float()
    arguments = {"input_ids": torch.tensor([case["tokens"]])}
    if case["token_types"]:
        arguments["token_type_ids"] = torch.tensor([case["token_types"]])
    with torch.no_grad():
        return model(**arguments).logits[0].double().numpy()


def losses(tokens, rows):
    """Negative log-likelihood of every token but the first, nats."""
    shifted = rows[:-1] - rows[:-1].max(axis=1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return [-float(row[token]) for row, token in zip(log_p, tokens[1:])]


def other_style(config):
    """A config.json of transformers 5 as transformers 4 wrote it, and the other way round."""
    new = dict(config)
    neox = config["model_type"] == "gpt_neox"
    theta, share = ("rotary_emb_base", "rotary_pct") if neox else ("rope_theta", "partial_rotary_factor")
    if "rope_parameters" in config:
        rotary = dict(new.pop("rope_parameters"))
        if "full_attention" in rotary:
            new["rope_local_base_freq"] = rotary["sliding_attention"]["rope_theta"]
            rotary = dict(rotary["full_attention"])
        new[theta] = rotary.pop("rope_theta")
        if "partial_rotary_factor" in rotary:
            new[share] = rotary.pop("partial_rotary_factor")
        new["rope_scaling"] = None if rotary.get("rope_type", "default") == "default" else rotary
        if config["model_type"] != "gemma3_text":
            new.pop("layer_types", None)
        new["torch_dtype"] = new.pop("dtype", "float32")
    else:
        rotary = dict(new.pop("rope_scaling", None) or {"rope_type": "default"})
        rotary["rope_theta"] = new.pop(theta)
        if share in new:
            rotary["partial_rotary_factor"] = new.pop(share)
        if "rope_local_base_freq" in new:
            local = {"rope_type": "default", "rope_theta": new.pop("rope_local_base_freq")}
            rotary = {"full_attention": rotary, "sliding_attention": local}
        new["rope_parameters"] = rotary
        new["dtype"] = new.pop("torch_dtype", "float32")
    return new


def make(folder, scale, vocabulary, seed=7):
    """Random models on disk, and what they say about a few sequences."""
    names = []
    generator = np.random.default_rng(seed)
    torch.manual_seed(seed)
    for name, kind, config, options in configs(scale, vocabulary):
        model = kind(config)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.15 * torch.randn_like(parameter))
        if "dtype" in options:
            model = model.to(options["dtype"])
        model.save_pretrained(folder / name, **({"max_shard_size": "20KB"} if "shards" in options else {}))
        if "dtype" in options:  # what the file holds, in full precision
            model = kind.from_pretrained(folder / name, torch_dtype=torch.float32, attn_implementation="eager")
        cases = []
        for length in (2, 5, 31):
            tokens = [int(t) for t in generator.integers(3, vocabulary, length)]
            if name.endswith("-classes") and length == 31:
                tokens[-3:] = [PADDING] * 3
            types = [int(i >= length // 2) for i in range(length)] if name.startswith("bert") else []
            case = {"tokens": tokens, "token_types": types}
            rows = logits(model, case)
            case["logits"] = rows.ravel().tolist()
            if "ForCausalLM" in kind.__name__ or kind is hf.GPT2LMHeadModel:
                case["losses"] = losses(tokens, rows)
            cases.append(case)
        (folder / name / "cases.json").write_text(json.dumps(cases))
        names.append(name)
        written = json.loads((folder / name / "config.json").read_text())
        if {"rope_parameters", "rope_theta", "rotary_emb_base"} & set(written):
            again = f"{name}, other config"
            shutil.copytree(folder / name, folder / again)
            (folder / again / "config.json").write_text(json.dumps(other_style(written)))
            names.append(again)
    return names


def relative(ours, theirs):
    return float(np.abs(np.asarray(ours) - np.asarray(theirs)).max() / np.abs(np.asarray(theirs)).max())


def back(folder, names):
    """transformers on what we saved."""
    worst = {}
    kinds = {name: kind for name, kind, *_ in configs(1, 11)}
    for name in names:
        model, report = kinds[name.split(",")[0]].from_pretrained(folder / name / "ours", output_loading_info=True, attn_implementation="eager")
        problems = {k: v for k, v in report.items() if v and k != "error_msgs"}
        if problems:
            sys.exit(f"{name}: transformers complains: {problems}")
        cases = json.loads((folder / name / "cases.json").read_text())
        worst[name] = max(relative(logits(model, case).ravel(), case["logits"]) for case in cases)
    return worst


def formula(name, index, gain):
    """A weight that needs no file: the same numbers in Python and in Rust."""
    phase = sum((i + 1) * b for i, b in enumerate(name.encode())) % 1000
    return (1.0 if gain else 0.0) + 0.3 * math.sin(0.7 * index + 0.013 * phase)


def golden():
    for name, kind, config, _ in configs(1, 11, 2):
        if name in ("gpt2-shards", "llama-tied-bf16", "qwen2-tied-bf16", "mistral"):
            continue
        model = kind(config).double().eval()
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                if name.startswith("gpt_neox"):  # its name in files
                    key = key.replace("lm_head", "embed_out")
                gain = parameter.dim() == 1 and key.endswith(".weight") and "gemma" not in name
                values = [formula(key, i, gain) for i in range(parameter.numel())]
                parameter.copy_(torch.tensor(values, dtype=torch.float32).double().view(parameter.shape))
        tokens = [3, 9, 4, 4, 7, 10]
        with torch.no_grad():
            out = model(input_ids=torch.tensor([tokens])).logits[0]
        row = out[-1] if out.dim() == 2 else out
        print(f"// {name}\n[{', '.join(f'{v:.9}' for v in row.tolist())}],")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--golden", action="store_true")
    arguments = parser.parse_args()
    print(f"# torch {torch.__version__}, transformers {hf.__version__}", file=sys.stderr)
    if arguments.golden:
        return golden()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.out or Path(temporary)
        names = make(folder, 4, 101)
        run = ["cargo", "run", "--quiet", "-p", "reticent-backends", "--features", "oracle", "--example", "hugging_face", "--", str(folder)]
        forward = json.loads(subprocess.run(run, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
        backward = back(folder, names)
        print(f"{'model':32}{'exact':>12}{'fast':>12}{'saved, theirs':>16}{'losses, nats':>16}")
        for name in names:
            exact, fast, loss = forward[name]
            print(f"{name:32}{exact:12.1e}{fast:12.1e}{backward[name]:16.1e}{'-' if loss is None else format(loss, '.1e'):>16}")
        each = [value for exact, fast, _ in forward.values() for value in (exact, fast)]
        if set(forward) != set(names) or max(*each, *backward.values()) > LIMIT:
            sys.exit(f"above {LIMIT}")
        if max(loss for *_, loss in forward.values() if loss is not None) > LOSS_LIMIT:
            sys.exit(f"losses above {LOSS_LIMIT}")


if __name__ == "__main__":
    main()
