"""Canaries and audits in a `transformers` training.

    plan, dataset = plant(dataset, n=10, copies=20)       # before it is tokenized
    trainer.add_callback(AuditCallback(plan))             # report.json and report.html beside the checkpoints
    trainer.train()

Auditing scores; it neither trains nor changes the model, its mode or the random state.
"""

from __future__ import annotations

import contextlib
import html
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from reticent import __version__
from reticent._reticent import CanaryPlan, Plan
from reticent.audit import TEMPLATE, Exposure, Scorer, canaries, exposure, insert, preflight

__all__ = ["AuditCallback", "plant", "scorer", "supervised_texts"]


def plant(
    dataset: Any,
    template: str = TEMPLATE,
    *,
    n: int = 10,
    copies: int | Sequence[int] = 20,
    field: str = "text",
    seed: int | None = None,
    own_contexts: bool = False,
) -> tuple[CanaryPlan, Any]:
    """A canary plan for a dataset, and the dataset with the canaries in it; arguments as `reticent.canaries`."""
    plan = canaries(
        dataset, template, n=n, copies=copies, field=field, seed=seed, own_contexts=own_contexts
    )
    return plan, insert(plan, dataset, field=field)


@contextlib.contextmanager
def _scoring(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; modes of all modules are as before afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    try:
        model.eval()
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


def scorer(model: Any) -> Scorer:
    """The scorer of a causal language model, for `reticent.exposure`.

    Raises ValueError for a prefix longer than the model's context.
    """
    most = getattr(model.config, "max_position_embeddings", None)

    def score(prefixes: list[list[int]], wanted: list[int]) -> torch.Tensor:
        longest = max(map(len, prefixes))
        if most is not None and longest > most:
            raise ValueError(f"prefixes: at most {most} tokens fit the model's context, got {longest}")
        device = next(model.parameters()).device
        ids = torch.zeros(len(prefixes), longest, dtype=torch.long, device=device)
        mask = torch.zeros_like(ids)
        for row, prefix in enumerate(prefixes):
            ids[row, : len(prefix)] = torch.tensor(prefix, device=device)
            mask[row, : len(prefix)] = 1
        ends = torch.tensor([len(prefix) - 1 for prefix in prefixes], device=device)
        with _scoring(model):
            logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
            last = logits[torch.arange(len(prefixes), device=device), ends].double()
            return last.log_softmax(-1)[:, torch.tensor(wanted, device=device)]

    return score


def supervised_texts(loader: Any, tokenizer: Any) -> Iterator[list[str]]:
    """What a training loader teaches, record by record: each run of tokens that have a loss, decoded.

    Labels are those the collator makes; -100 has no loss, and neither has the first token of a row.
    """
    if not hasattr(loader.dataset, "__len__"):
        raise ValueError(
            "train_dataset: a streamed dataset can't be looked at beforehand; call reticent.audit.preflight on what "
            "it gives, and AuditCallback(preflight=False)"
        )
    with torch.random.fork_rng(devices=[]):
        rows = len(loader.dataset)
        for start in range(0, rows, 64):
            batch = loader.collate_fn([loader.dataset[i] for i in range(start, min(start + 64, rows))])
            if "labels" not in batch:
                raise ValueError("train_dataset: its batches have no labels, so that nothing says what has a loss")
            for labels in batch["labels"].tolist():
                texts: list[str] = []
                run: list[int] = []
                for label in [*labels[1:], -100]:
                    if label != -100:
                        run.append(label)
                    elif run:
                        texts.append(tokenizer.decode(run))
                        run = []
                yield texts


class AuditCallback(TrainerCallback):
    """Audits a training with the canaries of `plan`, which are in its data already (`plant`).

    At the start it raises ValueError where a copy carries no loss. At the end of each epoch it
    ranks the canaries, exactly, and writes `report.json` and `report.html` into the training's
    output folder. Evaluation runs are left alone.

    promise: a `Plan` of what runs, or a function that gives one when asked (of an Opacus
    accountant: `lambda: engine.accountant.plan`). Its ε is an upper bound and stands beside
    the measured lower bound; `audit report` says whether they contradict each other.
    tokenizer: the Trainer's `processing_class` if None.
    delta, confidence, batch, budget: as in `reticent.exposure`.
    """

    def __init__(
        self,
        plan: CanaryPlan,
        *,
        promise: Plan | Callable[[], Plan] | None = None,
        tokenizer: Any = None,
        delta: float = 1e-6,
        confidence: float = 0.95,
        batch: int = 64,
        budget: int | None = None,
        preflight: bool = True,
    ) -> None:
        self.plan = plan
        self.promise = promise
        self.tokenizer = tokenizer
        self.delta = delta
        self.confidence = confidence
        self.batch = batch
        self.budget = budget
        self.preflight = preflight
        self.records: int | None = None
        self.epochs: list[dict[str, Any]] = []

    @property
    def last(self) -> Exposure:
        """The latest exposure. Raises ValueError before there is one."""
        if not self.epochs:
            raise ValueError("last: nothing was audited yet")
        return Exposure(self.epochs[-1]["exposure"])

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.epochs = []
        tokenizer = self._tokenizer(kwargs)
        if self.preflight:
            rows = list(supervised_texts(kwargs["train_dataloader"], tokenizer))
            preflight(self.plan, (text for row in rows for text in row))
            # Packing and cutting make other records than the texts that the plan was drawn for.
            held = (sum(any(secret in text for text in row) for row in rows) for _, secret, _ in self.plan.secrets)
            self.records = max(self.plan.records, *held)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._audit(args, state, kwargs)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not self.epochs or self.epochs[-1]["step"] != state.global_step:
            self._audit(args, state, kwargs)

    def _tokenizer(self, kwargs: dict[str, Any]) -> Any:
        tokenizer = self.tokenizer or kwargs.get("processing_class") or kwargs.get("tokenizer")
        if tokenizer is None:
            raise ValueError("tokenizer: give AuditCallback one, or the Trainer a processing_class")
        return tokenizer

    def _audit(self, args: Any, state: Any, kwargs: dict[str, Any]) -> None:
        if not state.is_world_process_zero:
            return
        model = kwargs["model"]
        found = exposure(
            self.plan,
            scorer(model),
            tokenizer=self._tokenizer(kwargs),
            vocabulary=model.config.vocab_size,
            delta=self.delta,
            confidence=self.confidence,
            batch=self.batch,
            budget=self.budget,
            records=self.records,
        )
        self.epochs.append(
            {
                "epoch": state.epoch,
                "step": state.global_step,
                "exposure": dict(found.document),
                "promise": self._promised(),
            }
        )
        document = {"schema": 1, "type": "training-audit", "reticent": __version__, "epochs": self.epochs}
        folder = Path(args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / "report.json", json.dumps(document, indent=1, default=str))
        _write(folder / "report.html", _page(self.epochs))

    def _promised(self) -> list[dict[str, Any]]:
        """Upper bounds of what has run: about one record, and about all records of a canary."""
        if self.promise is None:
            return []
        plan = self.promise if isinstance(self.promise, Plan) else self.promise()
        rows = []
        for neighbours, group in (("add-remove", 1), ("replace", self.records)):
            row: dict[str, Any] = {"neighbours": neighbours, "group": group, "delta": self.delta}
            try:
                if group is None:
                    raise ValueError("how many training records hold a canary is not known without the pre-flight")
                upper = plan.epsilon(self.delta, neighbours=neighbours, group=group).upper
                row["epsilon_upper"] = upper if upper != float("inf") else "inf"
            except ValueError as error:
                row["not_covered"] = str(error)
            rows.append(row)
        return rows


def _write(path: Path, text: str) -> None:
    """Whole or not at all, and readable by its owner only."""
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise


def _up(value: float | str) -> str:
    """Four decimals, never below the value."""
    if value == "inf":
        return "∞"
    rounded = round(float(value), 4)
    return f"{rounded if rounded >= float(value) else rounded + 1e-4:.4f}"


def _page(epochs: list[dict[str, Any]]) -> str:
    rows = []
    for epoch in epochs:
        found = Exposure(epoch["exposure"])
        summary = epoch["exposure"]["summary"]
        cells = [
            f"{epoch['epoch']:.2f}" if epoch["epoch"] is not None else "",
            str(epoch["step"]),
            f"{found.largest_lower:.2f}",
            f"{summary['null_max_95']:.2f}",
            f"{found.p_value:.2g}",
            f"{max(0.0, found.epsilon_lower - 5e-5):.4f}",
        ]
        rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    last = epochs[-1]
    bound = last["exposure"]["epsilon"]
    promised = []
    for row in last["promise"]:
        count = row["group"] or ""
        about = "one record" if count == 1 else f"all {count} records of a canary together"
        said = f"ε ≤ {_up(row['epsilon_upper'])}" if "epsilon_upper" in row else f"not covered: {row['not_covered']}"
        line = f"{about}, {row['neighbours']}, δ = {row['delta']:g}: {said}"
        promised.append(f"<li>{html.escape(line)}</li>")
    promise = f"<ul>{''.join(promised)}</ul>" if promised else "<p>Nothing was promised: no plan was given.</p>"
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Audit of a training</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 50rem; padding: 0 1rem }}
table {{ border-collapse: collapse }} td, th {{ padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #ccc }}
.measured {{ color: #9a3412 }} .promised {{ color: #1d4ed8 }}
</style>
<h1>Audit of a training</h1>
<h2 class="measured">What leaks: lower bounds</h2>
<table><tr><th>epoch</th><th>step</th><th>largest exposure, bits</th><th>below without a leak, 95 %</th><th>p</th>
<th>ε ≥</th></tr>{''.join(rows)}</table>
<p>{bound['canaries']} canaries among {last['exposure']['candidates']} candidates. ε at δ = {bound['delta']:g} with
confidence {bound['confidence']:g}, {bound['copies']} record(s) replaced at once; it holds for each line alone.</p>
<h2 class="promised">What is promised: upper bounds</h2>
{promise}
<p>Exposure near its null distribution means that these canaries did not leak in this run. A secret that is repeated more
often, or is easier to predict, can leak more. <code>audit report</code> says whether a promise is contradicted.</p>
</html>
"""
