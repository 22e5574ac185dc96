#!/usr/bin/env python3
"""Private training steps of the Python libraries, timed as benches/training.sh times ours.

    training_peers.py PEER --model lstm|gpt2|bert [sizes]

PEER is one of
    plain                 PyTorch without privacy (for scale)
    opacus                per-example gradients (Opacus: DPLSTM, GradSampleModule)
    opacus-ghost          Opacus' ghost clipping (1.5 and later)
    fastdp                fastDP's book-keeping (--source: a checkout of awslabs/fast-differential-privacy)
    private-transformers  ghost clipping (--source: a checkout of lxuechen/private-transformers)

A BERT tells masked tokens (15 % of them), or --classes of them. Prints one JSON line: tokens per second (median step), peak memory, versions, BLAS.
Every step draws a batch, clips, noises and takes an Adam step, as ours does.
"""

import argparse
import json
import resource
import statistics
import sys
import time


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("peer")
    p.add_argument("--model", choices=["lstm", "gpt2", "bert"], required=True)
    p.add_argument("--classes", type=int, default=0)
    p.add_argument("--vocabulary", type=int, default=8000)
    p.add_argument("--width", type=int, default=200)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--heads", type=int, default=8)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--length", type=int, default=64, help="predicted tokens of an example")
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--device", default="cpu", help="cpu or cuda")
    p.add_argument("--precision", choices=["single", "bf16"], default="single", help="bf16: autocast")
    p.add_argument("--compile", action="store_true", help="plain: by torch.compile")
    p.add_argument("--source", help="checkout of a peer that no package index carries")
    return p.parse_args()


def make_model(args, torch):
    torch.manual_seed(0)
    if args.model == "gpt2":
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(
            vocab_size=args.vocabulary, n_positions=max(args.length + 1, 1024), n_embd=args.width,
            n_layer=args.layers, n_head=args.heads, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )
        return GPT2LMHeadModel(config)

    if args.model == "bert":
        from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification

        config = BertConfig(
            vocab_size=args.vocabulary, hidden_size=args.width, num_hidden_layers=args.layers,
            num_attention_heads=args.heads, intermediate_size=4 * args.width, hidden_dropout_prob=0.0,
            max_position_embeddings=max(args.length + 1, 128), attention_probs_dropout_prob=0.0,
            num_labels=max(args.classes, 2),
        )
        return (BertForSequenceClassification if args.classes else BertForMaskedLM)(config)

    class LanguageModel(torch.nn.Module):
        def __init__(self, recurrent):
            super().__init__()
            self.embedding = torch.nn.Embedding(args.vocabulary, args.width)
            self.lstm = recurrent(args.width, args.width, batch_first=True)
            self.head = torch.nn.Linear(args.width, args.vocabulary)

        def forward(self, tokens):
            return self.head(self.lstm(self.embedding(tokens))[0])

    if args.peer.startswith("opacus"):
        from opacus.layers import DPLSTM

        return LanguageModel(DPLSTM)
    return LanguageModel(torch.nn.LSTM)


def per_example_loss(args, model, tokens, torch):
    if args.precision == "bf16":
        with torch.autocast(args.device, torch.bfloat16):
            return losses(args, model, tokens, torch)
    return losses(args, model, tokens, torch)


def losses(args, model, tokens, torch):
    if args.model == "bert":
        positions = torch.arange(tokens.shape[1], device=tokens.device).repeat(len(tokens), 1)
        places = {"position_ids": positions, "token_type_ids": torch.zeros_like(tokens)}
        if args.classes:
            classes = torch.zeros(len(tokens), dtype=torch.long, device=tokens.device)
            logits = model(input_ids=tokens, **places).logits
            return torch.nn.functional.cross_entropy(logits, classes, reduction="none")
        masked = torch.rand(tokens.shape, device=tokens.device) < 0.15
        logits = model(input_ids=tokens.masked_fill(masked, 1), **places).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction="none")
        return (loss.view(tokens.shape) * masked).sum(dim=1)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    if args.model == "gpt2":
        positions = torch.arange(args.length, device=tokens.device).repeat(len(tokens), 1)
        logits = model(input_ids=inputs, position_ids=positions).logits
    else:
        logits = model(inputs)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    return loss.view(targets.shape).sum(dim=1)


def untie(args, model, torch):
    """Opacus' validator refuses tied weights: the head gets its own."""
    head = model.lm_head if args.model == "gpt2" else None
    if args.model == "bert" and not args.classes:
        head = model.cls.predictions.decoder
        head.bias = torch.nn.Parameter(head.bias.detach().clone())
        model.cls.predictions.register_parameter("bias", None)
    if head is not None:
        head.weight = torch.nn.Parameter(head.weight.detach().clone())


def engine_options(args):
    return {"batch_size": args.batch, "sample_size": 10_000, "epochs": 1, "max_grad_norm": 1.0,
            "noise_multiplier": 1.0, "target_delta": 1e-5}


def make_step(args, model, torch):
    """A function that takes tokens and makes one step; and the model in training mode."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    if args.peer == "plain":
        def mean_loss(tokens):
            return per_example_loss(args, model, tokens, torch).sum() / args.batch

        if args.compile:
            mean_loss = torch.compile(mean_loss)

        def step(tokens):
            optimizer.zero_grad()
            mean_loss(tokens).backward()
            optimizer.step()
    elif args.peer in ("opacus", "opacus-ghost"):
        from opacus.grad_sample import GradSampleModule
        from opacus.optimizers import DPOptimizer

        if args.peer == "opacus":
            untie(args, model, torch)
            wrapped = GradSampleModule(model, batch_first=True, loss_reduction="sum")
            private = DPOptimizer(torch.optim.Adam(wrapped.parameters(), lr=1e-4), noise_multiplier=1.0,
                                  max_grad_norm=1.0, expected_batch_size=args.batch, loss_reduction="sum")

            def step(tokens):
                private.zero_grad()
                per_example_loss(args, wrapped, tokens, torch).sum().backward()
                private.step()
        else:
            from opacus.grad_sample import GradSampleModuleFastGradientClipping
            from opacus.optimizers import DPOptimizerFastGradientClipping

            untie(args, model, torch)
            wrapped = GradSampleModuleFastGradientClipping(
                model, batch_first=True, loss_reduction="sum", max_grad_norm=1.0, use_ghost_clipping=True)
            private = DPOptimizerFastGradientClipping(
                torch.optim.Adam(wrapped.parameters(), lr=1e-4), noise_multiplier=1.0,
                max_grad_norm=1.0, expected_batch_size=args.batch, loss_reduction="sum")

            def step(tokens):
                private.zero_grad()
                loss = per_example_loss(args, wrapped, tokens, torch)
                loss.sum().backward(retain_graph=True)
                private.zero_grad()
                coefficients = wrapped.get_clipping_coef()
                wrapped.disable_hooks()
                (coefficients * loss).sum().backward()
                wrapped.enable_hooks()
                private.step()
    elif args.peer == "fastdp":
        from fastDP import PrivacyEngine

        options = {"origin_params": ["wte", "wpe"] if args.model == "gpt2" else ["embedding"]}
        engine = PrivacyEngine(model, clipping_mode="MixOpt", clipping_fn="Abadi", loss_reduction="sum",
                               **options, **engine_options(args))
        engine.attach(optimizer)

        def step(tokens):
            optimizer.zero_grad()
            per_example_loss(args, model, tokens, torch).sum().backward()
            optimizer.step()
    elif args.peer == "private-transformers":
        from private_transformers import PrivacyEngine

        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
        engine = PrivacyEngine(model, clipping_mode="ghost", skip_checks=True, **engine_options(args))
        engine.attach(optimizer)

        def step(tokens):
            optimizer.zero_grad()
            optimizer.step(loss=per_example_loss(args, model, tokens, torch))
    else:
        sys.exit(f"error: PEER: must be named in --help, got {args.peer}")
    return step


def main():
    args = arguments()
    if args.source:
        sys.path.insert(0, args.source)
    import torch

    torch.set_num_threads(args.threads)
    step = make_step(args, make_model(args, torch).to(args.device), torch)
    batches = [torch.randint(0, args.vocabulary, (args.batch, args.length + 1), device=args.device) for _ in range(args.steps + 2)]
    seconds = []
    for i, tokens in enumerate(batches):
        began = time.perf_counter()
        step(tokens)
        if args.device != "cpu":
            torch.cuda.synchronize()
        if i >= 2:  # the first two warm up
            seconds.append(time.perf_counter() - began)
    median = statistics.median(seconds)
    versions = {"torch": torch.__version__}
    for name in ("opacus", "transformers"):
        if name in sys.modules:
            versions[name] = sys.modules[name].__version__
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if args.device != "cpu":
        peak = torch.cuda.max_memory_allocated()
    print(json.dumps({
        "peer": args.peer, "model": args.model, "batch": args.batch, "length": args.length,
        "precision": args.precision, "compiled": args.compile, "vocabulary": args.vocabulary, "width": args.width, "layers": args.layers,
        "tokens_per_second": args.batch * args.length / median,
        "seconds_per_step": {"median": median, "least": min(seconds), "most": max(seconds)},
        "peak_bytes": peak,
        "versions": versions, "blas": torch.__config__.show().split("Build settings")[0][-200:].strip(),
    }))


if __name__ == "__main__":
    main()
