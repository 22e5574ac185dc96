"""Canaries and audits in a `transformers` training.

    plan, dataset = plant(dataset, n=10, copies=20)       # before it is tokenized
    trainer.add_callback(AuditCallback(plan))             # report.json and report.html beside the checkpoints
    trainer.train()

Auditing scores; it neither trains nor changes the model, its mode or the random state of Python, NumPy and torch.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
import torch
from transformers import TrainerCallback

from reticent._reticent import CanaryPlan, Defaults, Exposure, Plan
from reticent.audit import TEMPLATE, Scorer, canaries, exposure, insert, preflight

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
    unit: str = "document",
) -> tuple[CanaryPlan, Any]:
    """A canary plan for a dataset, and the dataset with the canaries in it; arguments as `reticent.canaries`.

    field: of texts, or of chats (`field="messages"`), where canaries go into the assistant's last answer.
    """
    plan = canaries(
        dataset, template, n=n, copies=copies, field=field, seed=seed, own_contexts=own_contexts, unit=unit
    )
    return plan, insert(plan, dataset, field=field)


@contextlib.contextmanager
def _random_state_kept(devices: Sequence[int] = ()) -> Iterator[None]:
    """The random states of Python, NumPy and torch, on the CPU and on CUDA's `devices`, are as before afterwards."""
    python, arrays = random.getstate(), numpy.random.get_state()
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        random.setstate(python)
        numpy.random.set_state(arrays)


@contextlib.contextmanager
def _scoring(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; modes of all modules are as before afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    try:
        model.eval()
        with _random_state_kept(devices), torch.no_grad():
            # The same numbers in each answer would make one model of one that answers by chance.
            seed = int.from_bytes(os.urandom(7), "big")
            torch.default_generator.manual_seed(seed)
            if devices:
                torch.cuda.manual_seed(seed)
            yield
    finally:
        for module, training in modes:
            module.training = training


def _unwrapped(model: Any) -> Any:
    """The model that Opacus wraps, if it does."""
    return getattr(model, "_module", model)


def _text_config(model: Any) -> Any:
    """The configuration of what writes text; that of a model of text and images has it as a part."""
    config: Any = getattr(_unwrapped(model), "config", None)
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def _in_single(model: Any) -> bool:
    """Whether a model can compute in single precision: its weights are kept in it, and no kernel needs less."""
    flash = "flash" in str(getattr(_text_config(model), "_attn_implementation", ""))
    return not flash and all(p.dtype in (torch.float32, torch.float64) for p in model.parameters())


@contextlib.contextmanager
def _without_autocast(model: Any) -> Iterator[None]:
    """Without the mixed precision that Accelerate puts around the forward of a model."""
    forward, plain = model.forward, vars(model).get("_original_forward")
    # Other libraries keep another model's forward under this name.
    inner = forward
    while inner is not None and inner not in (plain, getattr(plain, "__func__", None)):
        inner = getattr(inner, "__wrapped__", None)
    if plain is None or inner is None:
        yield
        return
    model.forward = plain
    try:
        yield
    finally:
        model.forward = forward


def _vocabulary(model: Any) -> int:
    """How many tokens a model knows."""
    size = getattr(_text_config(model), "vocab_size", None)
    if size is None:
        raise ValueError(
            f"model: the configuration of a {type(model).__name__} has no vocab_size; call reticent.exposure with "
            "vocabulary=... and reticent.hf.scorer"
        )
    return int(size)


def scorer(model: Any) -> Scorer:
    """The scorer of a causal language model, for `reticent.exposure`; of a model that Opacus wraps too.

    A Trainer's mixed precision is left out. Where weights are kept in half precision or quantised, or attention is
    computed by a flash kernel, prefixes are scored one by one: what is rounded so coarsely differs from batch to batch by
    more than the 0.01 nats that an audit allows, which is as much as a dropout that was left on may do.

    Raises ValueError for a prefix longer than the model's context, and for a model whose logits are not one row for
    each token, after those of PEFT's virtual tokens.
    """
    model = _unwrapped(model)
    most = getattr(_text_config(model), "max_position_embeddings", None)

    def score(prefixes: list[list[int]], wanted: list[int]) -> torch.Tensor:
        single = _in_single(model)
        if not single and len(prefixes) > 1:
            return torch.cat([score([prefix], wanted) for prefix in prefixes])
        longest = max(map(len, prefixes))
        # Of prompt learning: they come first, and take positions of the context. Prefix tuning has no logits for them.
        virtual = getattr(getattr(model, "active_peft_config", None), "num_virtual_tokens", None) or 0
        if most is not None and longest + virtual > most:
            raise ValueError(f"prefixes: at most {most - virtual} tokens fit the model's context, got {longest}")
        device = next(model.parameters()).device
        ids = torch.zeros(len(prefixes), longest, dtype=torch.long, device=device)
        mask = torch.zeros_like(ids)
        for row, prefix in enumerate(prefixes):
            ids[row, : len(prefix)] = torch.tensor(prefix, device=device)
            mask[row, : len(prefix)] = 1
        ends = torch.tensor([len(prefix) - 1 for prefix in prefixes], device=device)
        with _scoring(model), _without_autocast(model) if single else contextlib.nullcontext():
            logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
            if logits.shape[1] not in (longest, virtual + longest):
                raise ValueError(
                    f"model: must give logits for {longest} tokens, got them for {logits.shape[1]}, so that nothing says "
                    "which belong to which token"
                )
            last = logits[torch.arange(len(prefixes), device=device), ends - longest].double()
            return last.log_softmax(-1)[:, torch.tensor(wanted, device=device)]

    return score


def supervised_texts(loader: Any, tokenizer: Any) -> Iterator[list[str]]:
    """What a training loader teaches, record by record: each run of tokens that have a loss, decoded.

    A record is an item of the loader's dataset. It is collated alone, as some collators make one row of several.
    Labels are those the collator makes; -100 has no loss, and neither has the first token of a row.
    """
    for supervised, _ in _records(loader, tokenizer):
        yield supervised


def _records(loader: Any, tokenizer: Any) -> Iterator[tuple[list[str], list[str]]]:
    """Of each record what has a loss, and the whole text of its rows, without special tokens and padding."""
    if not hasattr(loader.dataset, "__len__"):
        raise ValueError(
            "train_dataset: a streamed dataset can't be looked at beforehand; call reticent.audit.preflight on what "
            "it gives, and AuditCallback(preflight=False, records=...)"
        )
    with _random_state_kept():
        for record in range(len(loader.dataset)):
            item = loader.dataset[record]
            supervised: list[str] = []
            whole: list[str] = []
            # Of an empty record nothing can be collated.
            if not (isinstance(item, Mapping) and "input_ids" in item and len(item["input_ids"]) == 0):
                batch = loader.collate_fn([item])
                if "labels" not in batch:
                    raise ValueError("train_dataset: its batches have no labels, so that nothing says what has a loss")
                for labels in batch["labels"].tolist():
                    supervised += _supervised(labels, tokenizer)
                if "input_ids" in batch:
                    rows = batch["input_ids"].tolist()
                    # Packing collators have masks of positions by positions, which cut nothing off.
                    padded = "attention_mask" in batch and batch["attention_mask"].ndim == 2
                    masks = batch["attention_mask"].tolist() if padded else [[1] * len(row) for row in rows]
                    for row, mask in zip(rows, masks):
                        shown = [token for token, seen in zip(row, mask) if seen]
                        whole.append(tokenizer.decode(shown, skip_special_tokens=True))
            yield supervised, whole


def _differing(plan: CanaryPlan) -> list[Callable[[str], bool]]:
    """For each canary whether a record's text differs if its secret does, with a loss or without: it holds the secret, or
    was cut within it. A text that only looks cut counts too."""
    tests = []
    for canary in json.loads(plan.to_json())["canaries"]:
        secret, lines = canary["secret"], sorted({copy["text"] for copy in canary["insertions"]})
        cuts = [(line, cut) for line in lines for cut in range(line.index(secret) + 1, line.index(secret) + len(secret))]
        tests.append(
            functools.partial(
                _differs,
                secret,
                _by_length(line[:cut] for line, cut in cuts),
                _by_length(line[cut:] for line, cut in cuts),
                tuple(lines),
                max(map(len, lines)),
            )
        )
    return tests


def _by_length(texts: Iterable[str]) -> Mapping[int, set[str]]:
    """The texts by how long they are: of many, those that a record begins or ends with are found by a look for each length."""
    found: dict[int, set[str]] = {}
    for text in texts:
        found.setdefault(len(text), set()).add(text)
    return found


def _differs(
    secret: str,
    ends: Mapping[int, set[str]],
    begins: Mapping[int, set[str]],
    lines: tuple[str, ...],
    longest: int,
    text: str,
) -> bool:
    if secret in text or any(text[-length:] in some for length, some in ends.items()):
        return True
    # After what is left of the line comes another line.
    if any(text[:length] in some and not text[length : length + 1].isalnum() for length, some in begins.items()):
        return True
    # Shorter than a line, or cut in front of the secret as well: its end is that of no line's beginning.
    return 0 < len(text) <= longest and any(text in line for line in lines)


def _supervised(labels: list[int], tokenizer: Any) -> Iterator[str]:
    """The runs of tokens that have a loss in one row of labels, decoded."""
    run: list[int] = []
    for label in [*labels[1:], -100]:
        if label != -100:
            run.append(label)
        elif run:
            yield tokenizer.decode(run)
            run = []


def _whole(model: Any) -> bool:
    """Whether this process holds every weight, so that it can score without the others."""
    sharding = any("FullyShardedDataParallel" in type(module).__name__ for module in model.modules())
    # DTensor: FSDP 2 and tensor parallelism; ds_id: ZeRO-3.
    return not sharding and not any(type(p.data).__name__ == "DTensor" or hasattr(p, "ds_id") for p in model.parameters())


class AuditCallback(TrainerCallback):
    """Ranks the planted canaries after each epoch and at the end of a training.

    With `load_best_model_at_end` the last audit is of the best checkpoint, which the Trainer leaves. Writes report.json
    (schemas/exposure.schema.json, with the epochs before as `earlier`; `audit diff` reads it) and report.html into the
    Trainer's output folder, readable by their owner only, without any secret. At the start it makes sure that every copy of
    every canary carries a loss. The training has met them after one whole epoch, if its sampler draws every record in each
    epoch; no limit is known to be kept before. Where several processes train, the first one scores alone: each must hold the whole model
    (not FSDP, DeepSpeed ZeRO-3 or tensor parallelism). A training that is resumed from a checkpoint takes up the epochs
    before from the report.json that lies there, if it is of as many canaries with as many copies and candidates.

    promise: a `Plan` of what runs, or a function that gives one, such as
    `lambda: engine.accountant.plan`. The report has its upper bound for all records of a canary beside the measured
    lower bound, and the verdict, as `audit report` has.
    tokenizer: the Trainer's `processing_class` if None.
    delta, confidence, max_exposure, batch, budget, defaults: as in `reticent.exposure`.
    preflight: whether what carries a loss is looked at before the training. Without it, no limit is known to be kept, and
    `audit diff` compares no report that shows no leak: nothing says that the training met the canaries.
    records: how many training records hold one canary, at most, as in `reticent.exposure`. The look beforehand counts
    those that hold it, or a part at which they were cut, with a loss or without; without it, give the number where
    packing, windows or cutting make other records than the plan's texts.
    """

    def __init__(
        self,
        plan: CanaryPlan,
        *,
        promise: Plan | Callable[[], Plan] | None = None,
        tokenizer: Any = None,
        delta: float | None = None,
        confidence: float | None = None,
        max_exposure: float | None = None,
        batch: int = 64,
        budget: int | None = None,
        preflight: bool = True,
        records: int | None = None,
        defaults: Defaults | None = None,
    ) -> None:
        if not isinstance(plan, CanaryPlan):
            raise TypeError(f"plan: must be a CanaryPlan, got {type(plan).__name__}")
        if promise is not None and not isinstance(promise, Plan) and not callable(promise):
            raise TypeError(f"promise: must be a Plan or a function that gives one, got {type(promise).__name__}")
        self.plan = plan
        self.promise = promise
        self.tokenizer = tokenizer
        self.preflight = preflight
        self.records = records
        self._stated = records or 0
        self.epochs: list[tuple[str, Exposure]] = []
        self._before: list[tuple[str, Mapping[str, Any]]] = []
        self._audited: int | None = None
        self._looked = False  # whether every copy was found, in data of which every epoch draws all
        self._met: int | None = None  # the step at which the first whole epoch ended
        self._begun = 0.0
        self._skipped = False
        self._asked: dict[str, Any] = {
            "delta": delta, "confidence": confidence, "max_exposure": max_exposure, "batch": batch, "budget": budget,
            "defaults": defaults,
        }  # fmt: skip
        # What is out of its range is said before anyone trains.
        check = {**self._asked, "budget": 1 if budget is None else min(budget, 1)}
        exposure(plan, _blind, tokenizer="bytes", records=records, **check)

    @property
    def last(self) -> Exposure:
        """The latest exposure. Raises ValueError before there is one."""
        if not self.epochs:
            raise ValueError("last: nothing was audited yet")
        return self.epochs[-1][1]

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Looks for every copy of every canary among what carries a loss, and whether the model can be scored."""
        other = getattr(state, "_reticent_audit", self)
        if other is not self:
            raise ValueError(
                "callbacks: another AuditCallback of this Trainer writes the report.json of its output folder: leave one"
            )
        state._reticent_audit = self
        _vocabulary(kwargs["model"])
        if args.world_size > 1 and not _whole(kwargs["model"]):
            raise ValueError(
                f"model: its weights are spread over {args.world_size} processes (FSDP, DeepSpeed ZeRO-3 or tensor "
                "parallelism), and the first would wait for the others while it scores: audit the saved model with "
                "reticent.exposure and reticent.hf.scorer"
            )
        self.epochs, self._audited, self._looked, self._met = [], None, False, None
        self._begun = state.epoch or 0.0
        self._before = _resumed(self.plan, Path(args.output_dir), state) if state.global_step > 0 else []
        tokenizer = self._tokenizer(kwargs)
        if self.preflight:
            tests = _differing(self.plan)
            held = [0] * len(tests)

            def supervised() -> Iterator[str]:
                for texts, whole in _records(kwargs["train_dataloader"], tokenizer):
                    # The end of a row is a part of it alone; another run may be what a packed text was cut to.
                    apart = [text for text in texts if not any(row.endswith(text) for row in whole)]
                    for number, differs in enumerate(tests):
                        held[number] += any(map(differs, [*whole, *apart]))
                    yield from texts

            preflight(self.plan, supervised())
            # Packing, windows and cutting make other records than the texts that the plan was drawn for.
            self.records = max(self._stated or self.plan.records, *held)
            self._looked = _draws_all(kwargs["train_dataloader"])
        # What the tokenizer lacks is said before anyone trains too.
        with contextlib.suppress(_Asked):
            exposure(
                self.plan, _unanswered, tokenizer=tokenizer, vocabulary=_vocabulary(kwargs["model"]), records=self.records,
                **self._asked,
            )  # fmt: skip

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begins to look whether an epoch is whole."""
        self._skipped = False

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Looks whether the step was left out, as gradient scaling does where it overflows."""
        self._skipped |= bool(getattr(kwargs.get("optimizer"), "step_was_skipped", False))

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Audits the model after each epoch."""
        # Neither the rest of an epoch that was resumed, nor one that was stopped.
        whole = float(state.epoch).is_integer() and state.epoch - 1 >= self._begun and not self._skipped
        if self._looked and whole and self._met is None:
            self._met = state.global_step
        self._audit(args, state, kwargs)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Audits the model that is left at the end, where it was not audited after an epoch: the best one, if loaded."""
        if args.load_best_model_at_end and state.best_model_checkpoint is not None:
            best = Path(state.best_model_checkpoint).name
            if best != f"checkpoint-{self._audited}":
                self._audit(args, state, kwargs, f"the best model ({best})")
        elif self._audited != state.global_step:
            self._audit(args, state, kwargs)

    def _tokenizer(self, kwargs: dict[str, Any]) -> Any:
        tokenizer = self.tokenizer or kwargs.get("processing_class") or kwargs.get("tokenizer")
        if tokenizer is None:
            raise ValueError("tokenizer: give AuditCallback one, or the Trainer a processing_class")
        return tokenizer

    def _audit(self, args: Any, state: Any, kwargs: dict[str, Any], best: str | None = None) -> None:
        if not state.is_world_process_zero:
            return
        model = kwargs["model"]
        epoch = f"epoch {state.epoch:.2f}" if state.epoch is not None else f"step {state.global_step}"
        step = int(state.best_global_step) if best else state.global_step
        found = exposure(
            self.plan,
            scorer(model),
            tokenizer=self._tokenizer(kwargs),
            vocabulary=_vocabulary(model),
            records=self.records,
            met=self._met is not None and step >= self._met,
            promise=self._promised(),
            name=best or _NAME + epoch,
            earlier=[*self._before, *self.epochs],
            **self._asked,
        )
        self.epochs.append((best or epoch, found))
        self._audited = state.global_step
        folder = Path(args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / "report.json", found.to_json())
        _write(folder / "report.html", found.to_html())

    def _promised(self) -> Plan | None:
        """What has run, if anyone says."""
        if self.promise is None or isinstance(self.promise, Plan):
            return self.promise
        plan = self.promise()
        if not isinstance(plan, Plan):
            raise TypeError(f"promise: the function must give a Plan, got {type(plan).__name__}")
        return plan


_DRAW_ALL = frozenset([
    "torch.utils.data.sampler.RandomSampler", "torch.utils.data.sampler.SequentialSampler",
    "accelerate.data_loader.SeedableRandomSampler", "transformers.trainer_pt_utils.LengthGroupedSampler",
])  # fmt: skip


def _draws_all(loader: Any) -> bool:
    """Whether every pass of a loader is known to draw every record."""
    named = lambda value: f"{type(value).__module__}.{type(value).__qualname__}"  # noqa: E731
    batches = loader.batch_sampler
    if named(batches) == "accelerate.data_loader.BatchSamplerShard":
        batches = batches.batch_sampler
    if named(batches) != "torch.utils.data.sampler.BatchSampler" or batches.drop_last:
        return False
    sampler = batches.sampler
    return (
        named(sampler) in _DRAW_ALL and not getattr(sampler, "replacement", False) and len(sampler) == len(loader.dataset)
    )


_NAME = "the model after "


def _resumed(plan: CanaryPlan, folder: Path, state: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """What the report of the training that is resumed has of epochs until now; nothing of another plan's report."""
    try:
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        canaries = [(canary["id"], canary["copies"]) for canary in report["canaries"]]
        if report["type"] != "exposure" or int(report["candidates"]) != plan.candidates:
            return []
        if canaries != [(name, copies) for name, _, copies in plan.secrets]:
            return []
        last = (report["inputs"]["model"].removeprefix(_NAME), report["summary"])
        before = [(epoch["model"], epoch["summary"]) for epoch in report.get("earlier", [])]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    now = {"epoch": state.epoch, "step": state.global_step}

    def done(name: str) -> bool:
        kind, _, number = name.partition(" ")
        try:
            # As it is written: to two digits.
            return now.get(kind) is not None and float(number) <= round(now[kind], 2)
        except ValueError:
            return False

    return [(name, summary) for name, summary in [*before, last] if done(name)]


def _blind(prefixes: list[list[int]], wanted: list[int]) -> list[list[float]]:
    """A scorer that knows nothing."""
    return [[-20.0] * len(wanted) for _ in prefixes]


class _Asked(Exception):
    """An audit came to its first question."""


def _unanswered(prefixes: list[list[int]], wanted: list[int]) -> None:
    raise _Asked


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
