"""A transformers training with the callback, on a tiny GPT-2 made here."""

import html
import json
import math
import random
from types import SimpleNamespace

import documents
import numpy
import pytest
import reticent
import tiny
import torch
from accelerate.optimizer import AcceleratedOptimizer
from datasets import Dataset
from opacus.grad_sample import GradSampleModule
from peft import LoraConfig, PrefixTuningConfig, PromptEncoderConfig, PromptTuningConfig, get_peft_model
from reticent.audit import CanaryPlan
from reticent.hf import AuditCallback, _differing, _in_single, _records, _resumed, _vocabulary, plant, scorer, supervised_texts
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler
from transformers import (
    DataCollatorForLanguageModeling,
    DataCollatorWithFlattening,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    PreTrainedTokenizerFast,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)


def trainer(folder, rows, callback, *, length=128, epochs=1, dropout=0.0, model=None, save="no", kind=Trainer, **settings):
    tokenizer = tiny.tokenizer()
    tokenized = rows.map(
        lambda batch: tokenizer(batch["text"], truncation=True, max_length=length),
        batched=True,
        remove_columns=rows.column_names,
    )
    arguments = TrainingArguments(**{
        "output_dir": str(folder), "num_train_epochs": epochs, "per_device_train_batch_size": 8, "learning_rate": 3e-3,
        "report_to": [], "save_strategy": save, "logging_strategy": "no", "disable_tqdm": True, "use_cpu": True, "seed": 0,
        **settings,
    })  # fmt: skip
    return kind(
        model=model or tiny.model(dropout=dropout),
        args=arguments,
        train_dataset=tokenized,
        eval_dataset=tokenized,
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
        processing_class=tokenizer,
        callbacks=[callback] if callback else [],
    )


def planted(n=2, copies=3):
    rows = Dataset.from_dict({"text": tiny.texts()})
    return plant(rows, "ID {digits:3}", n=n, copies=copies, seed=5)  # no text gets longer than the model's context


def test_a_training_writes_its_report(tmp_path) -> None:
    plan, rows = planted()
    promise = reticent.Plan(sigma=1.0, sample_rate=1.0, steps=6)
    callback = AuditCallback(plan, promise=promise)
    trainer(tmp_path, rows, callback, epochs=2).train()
    text = (tmp_path / "report.json").read_text()
    assert documents.problems("exposure", text) == []
    document = json.loads(text)
    assert [epoch for epoch, _ in callback.epochs] == ["epoch 1.00", "epoch 2.00"]
    assert [before["model"] for before in document["earlier"]] == ["epoch 1.00"]
    assert document["candidates"] == 1000 and len(document["canaries"]) == 2
    promised = promise.epsilon(1e-6, neighbours="replace", group=callback.records).upper
    assert document["verdict"]["at_most"] == promised
    page = (tmp_path / "report.html").read_text()
    assert "Guarantee and measurement" in page and "Over training" in page and "For the model card" in page
    for _, secret, _ in plan.secrets:
        assert f"ID {secret}" not in page and f">{secret}<" not in page
    assert (tmp_path / "report.json").stat().st_mode & 0o077 == 0
    assert callback.last.document == document and callback.last.card in html.unescape(page)


def test_that_training_met_the_canaries_is_known_of_what_was_looked_at(tmp_path) -> None:
    """Only then is a limit known to be kept, and is a report without a leak one that `audit diff` compares."""
    plan, rows = planted()
    for preflight, planting in ((True, "supervised"), (False, "not-checked")):
        callback = AuditCallback(plan, max_exposure=9.9, preflight=preflight)
        trainer(tmp_path, rows, callback).train()
        document = json.loads((tmp_path / "report.json").read_text())
        assert document["planting"] == planting
        assert ("not checked" in callback.last.card) is not preflight
        assert not preflight or "is not known" not in callback.last.says
        assert documents.problems("exposure", json.dumps(document)) == []


class Chosen(Trainer):
    """With another sampler."""

    def _get_train_sampler(self, *args):
        return SAMPLERS[self.args.run_name](len(self.train_dataset))


SAMPLERS = {
    "in order": lambda size: SequentialSampler(range(size)),
    "subset": lambda size: SubsetRandomSampler(range(size - 1)),
    "weights": lambda size: WeightedRandomSampler([1.0] * size, size),
    "replacement": lambda size: RandomSampler(range(size), replacement=True),
    "fewer": lambda size: RandomSampler(range(size), num_samples=size - 1),
    "of others": lambda size: SequentialSampler(range(size - 1)),
}


def planting(trained, callback) -> list[str]:
    """What is said of the canaries after each epoch."""
    said = []
    audit = callback._audit
    callback._audit = lambda *args: (audit(*args), said.append(callback.last.document["planting"]))
    trained.train()
    return said


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_that_may_leave_records_out_has_met_nothing(tmp_path, name) -> None:
    plan, rows = planted()
    callback = AuditCallback(plan, max_exposure=9.9)
    said = planting(trainer(tmp_path, rows, callback, kind=Chosen, run_name=name), callback)
    assert said == ["supervised" if name == "in order" else "not-checked"]
    assert ("not checked" in callback.last.card) is (said[-1] == "not-checked")


@pytest.mark.parametrize(("settings", "said"), [
    ({"max_steps": 1}, ["not-checked"]),
    ({"max_steps": 2}, ["not-checked"]),
    ({"max_steps": 3}, ["supervised"]),
    ({"max_steps": 4}, ["supervised", "supervised"]),
    ({"dataloader_drop_last": True, "per_device_train_batch_size": 7}, ["not-checked"]),
    ({"train_sampling_strategy": "group_by_length"}, ["supervised"]),
    ({"gradient_accumulation_steps": 2}, ["supervised"]),
    ({"dataloader_num_workers": 2}, ["supervised"]),
    # The best model is of a step before the first epoch ended, or of its end.
    ({"load_best_model_at_end": True, "metric_for_best_model": "eval_loss", "greater_is_better": True, "save": "steps",
      "eval_strategy": "steps", "eval_steps": 1, "save_steps": 1}, ["supervised", "not-checked"]),
    ({"load_best_model_at_end": True, "metric_for_best_model": "eval_loss", "greater_is_better": True, "save": "epoch",
      "eval_strategy": "epoch", "epochs": 2}, ["supervised", "supervised", "supervised"]),
])  # fmt: skip
def test_canaries_are_met_after_a_whole_epoch(tmp_path, settings, said) -> None:
    plan, rows = planted()
    callback = AuditCallback(plan, max_exposure=9.9)
    assert planting(trainer(tmp_path, rows, callback, **settings), callback) == said
    assert ("not checked" in callback.last.card) is (said[-1] == "not-checked")


class Stops(TrainerCallback):
    """Ends each epoch before its last step, or leaves the optimizer's first step out."""

    def __init__(self, *, skipped: bool) -> None:
        self.skipped = skipped

    def on_step_end(self, args, state, control, **kwargs):
        if self.skipped:
            kwargs["optimizer"].__class__ = Skipping
            kwargs["optimizer"].first = state.global_step == 1
        else:
            control.should_epoch_stop = state.global_step % 2 == 0


class Skipping(AcceleratedOptimizer):
    step_was_skipped = property(lambda self: self.first)


@pytest.mark.parametrize(("skipped", "expected"), [(False, ["not-checked"] * 3), (True, ["not-checked", "supervised", "supervised"])])
def test_epochs_with_steps_left_out_are_not_whole(tmp_path, skipped, expected) -> None:
    plan, rows = planted()
    callback = AuditCallback(plan)
    trained = trainer(tmp_path, rows, None, epochs=3)
    trained.add_callback(Stops(skipped=skipped))
    trained.add_callback(callback)
    assert planting(trained, callback) == expected


def test_the_rest_of_an_epoch_is_not_whole(tmp_path) -> None:
    plan, rows = planted()
    steps = {"save": "steps", "save_steps": 1}
    trainer(tmp_path, rows, AuditCallback(plan, budget=300), epochs=2, max_steps=2, **steps).train()
    callback = AuditCallback(plan)
    resumed = trainer(tmp_path, rows, callback, epochs=2, **steps)
    train = resumed.train
    resumed.train = lambda: train(resume_from_checkpoint=True)
    assert planting(resumed, callback) == ["not-checked", "supervised"]


def test_a_resumed_training_keeps_the_epochs_before(tmp_path) -> None:
    plan, rows = planted()
    trainer(tmp_path, rows, AuditCallback(plan, budget=300), epochs=2, save="epoch").train()
    names = lambda: [before["model"] for before in json.loads((tmp_path / "report.json").read_text())["earlier"]]  # noqa: E731
    assert names() == ["epoch 1.00"]
    callback = AuditCallback(plan, budget=300)
    trainer(tmp_path, rows, callback, epochs=3, save="epoch").train(resume_from_checkpoint=True)
    assert names() == ["epoch 1.00", "epoch 2.00"] and [name for name, _ in callback.epochs] == ["epoch 3.00"]
    assert documents.problems("exposure", (tmp_path / "report.json").read_text()) == []
    # From an earlier checkpoint: what came after it did not happen. Of other canaries nothing is taken up.
    before = lambda plan, epoch: [name for name, _ in _resumed(plan, tmp_path, SimpleNamespace(epoch=epoch, global_step=3))]  # noqa: E731
    assert before(plan, 2.0) == ["epoch 1.00", "epoch 2.00"] and before(plan, 1.0) == ["epoch 1.00"] and before(plan, 0.5) == []
    assert before(planted(n=3)[0], 2.0) == before(planted(copies=4)[0], 2.0) == []
    for broken in ("", "[]", "{}", '{"type": "exposure"}'):
        (tmp_path / "report.json").write_text(broken)
        assert before(plan, 2.0) == []
    trainer(tmp_path, rows, AuditCallback(plan, budget=300)).train()
    assert "earlier" not in json.loads((tmp_path / "report.json").read_text())


@pytest.mark.parametrize(("larger", "names"), [
    (True, ["epoch 1.00", "epoch 2.00", "the best model (checkpoint-3)"]),
    (False, ["epoch 1.00", "epoch 2.00"]),
])  # fmt: skip
def test_the_model_that_is_left_is_audited_last(tmp_path, larger, names) -> None:
    """The loss falls, so that the best checkpoint is the first by the larger loss, and else the last, which was audited."""
    plan, rows = planted()
    callback = AuditCallback(plan)
    best = trainer(
        tmp_path, rows, callback, epochs=2, save="epoch", eval_strategy="epoch", load_best_model_at_end=True,
        metric_for_best_model="eval_loss", greater_is_better=larger,
    )  # fmt: skip
    best.train()
    assert [name for name, _ in callback.epochs] == names
    left = reticent.exposure(plan, scorer(best.model), tokenizer=tiny.tokenizer(), vocabulary=257).document
    assert [canary["nll"] for canary in callback.last.document["canaries"]] == [canary["nll"] for canary in left["canaries"]]
    text = (tmp_path / "report.json").read_text()
    assert documents.problems("exposure", text) == []
    document = json.loads(text)
    assert document["inputs"]["model"] == (names[-1] if larger else "the model after epoch 2.00")
    assert [before["model"] for before in document["earlier"]] == names[:-1]
    # What a resumed training takes up are epochs.
    taken = [name for name, _ in _resumed(plan, tmp_path, SimpleNamespace(epoch=2.0, global_step=6))]
    assert taken == ["epoch 1.00", "epoch 2.00"]


def test_two_callbacks_of_one_trainer_are_refused(tmp_path) -> None:
    plan, rows = planted()
    twice = trainer(tmp_path, rows, AuditCallback(plan, budget=300))
    twice.add_callback(AuditCallback(plan, budget=300))
    with pytest.raises(ValueError, match="callbacks: another AuditCallback of this Trainer writes the report.json"):
        twice.train()
    twice.pop_callback(AuditCallback)
    twice.train()
    twice.train()  # one callback may audit one training after the other


def test_chats_are_planted(tmp_path) -> None:
    chats = [[{"role": "user", "content": "hello"}, {"role": "assistant", "content": text}] for text in tiny.texts()]
    plan, rows = plant(Dataset.from_dict({"messages": chats}), "ID {digits:3}", n=2, copies=3, field="messages", seed=5)
    texts = ["\n".join(message["content"] for message in chat) for chat in rows["messages"]]
    trainer(tmp_path, Dataset.from_dict({"text": texts}), AuditCallback(plan, budget=300)).train()
    assert all("\n".join(texts).count(f"ID {secret}") == 3 for _, secret, _ in plan.secrets)


def test_copies_that_are_cut_off_stop_the_training(tmp_path) -> None:
    plan, rows = planted()
    callback = AuditCallback(plan)
    cut = trainer(tmp_path, rows, callback, length=8)
    with pytest.raises(ValueError, match="copies without a loss"):
        cut.train()
    assert not (tmp_path / "report.json").exists()


def test_data_without_canaries_stop_the_training(tmp_path) -> None:
    plan, _ = planted()
    with pytest.raises(ValueError, match="copies without a loss: canary-0 0 of 3"):
        trainer(tmp_path, Dataset.from_dict({"text": tiny.texts()}), AuditCallback(plan)).train()


def test_records_are_counted_as_they_are_trained_on(tmp_path) -> None:
    """One text with every copy, cut into overlapping rows: each row counts that would be another with another secret."""
    text = Dataset.from_dict({"text": ["\n".join(tiny.texts(12))]})
    plan, rows = plant(text, "ID {digits:3}", n=1, copies=4)
    assert plan.records == 1
    secret = plan.secrets[0][1]
    other = "".join(str((int(digit) + 1) % 10) for digit in secret)
    whole = rows["text"][0]
    # Overlapping: no copy is cut apart everywhere.
    tokens, others = (tiny.tokenizer()(said).input_ids for said in (whole, whole.replace(secret, other)))
    # All of one length: a rest shorter than a line may look cut out of one, and would count where it does not differ.
    starts = [*range(0, len(tokens) - 96, 48), len(tokens) - 96]
    parts, apart = ([ids[start : start + 96] for start in starts] for ids in (tokens, others))
    differing = sum(part != also for part, also in zip(parts, apart))
    callback = AuditCallback(plan, promise=reticent.Plan(sigma=2.0, sample_rate=1.0, steps=1))
    cut = trainer(tmp_path, rows, callback)
    cut.train_dataset = Dataset.from_dict({"input_ids": parts, "attention_mask": [[1] * len(p) for p in parts]})
    cut.train()
    assert callback.records == differing > 1
    document = json.loads((tmp_path / "report.json").read_text())
    assert document["epsilon"]["copies"] == differing == document["verdict"]["terms"]["group"]


def test_records_that_hold_a_part_of_a_canary_count() -> None:
    """Cut at any place, or without a loss; not those that end or begin where it does."""
    plan = reticent.canaries(["one line"], "ID {digits:3}", n=1, copies=1)
    secret = plan.secrets[0][1]
    line = json.loads(plan.to_json())["canaries"][0]["insertions"][0]["text"]
    (differs,) = _differing(plan)
    at = line.index(secret)
    for cut in range(len(line) + 1):
        within = at < cut < at + len(secret)
        assert differs("before\n" + line[:cut]) is (cut > at) and differs(line[cut:] + "\nafter") is (cut < at + len(secret)), cut
        assert not within or (differs(line[:cut]) and differs(line[cut:]) and differs(line[at:cut]))
    assert not differs("") and not differs("other") and not differs(secret[1:] + "x other")
    ids = tiny.tokenizer()(f"ID {secret}").input_ids
    collate = lambda items: {  # noqa: E731
        "input_ids": torch.tensor([[*items[0], 256, 256]]),
        "attention_mask": torch.tensor([[1] * len(items[0]) + [0, 0]]),
        "labels": torch.tensor([[-100] * (len(items[0]) + 2)]),
    }
    ((supervised, whole),) = _records(DataLoader([ids], collate_fn=collate), tiny.tokenizer())
    assert supervised == [] and whole == [f"ID {secret}"]
    # A mask of positions by positions, as packing collators make it, has no row for each token.
    square = lambda items: {**collate(items), "attention_mask": torch.ones(1, 1, len(items[0]) + 2, len(items[0]) + 2)}  # noqa: E731
    ((supervised, whole),) = _records(DataLoader([ids], collate_fn=square), tiny.tokenizer())
    assert supervised == [] and whole == [f"ID {secret}"]


def test_records_are_compared_with_every_line_of_a_canary() -> None:
    """As by a look at each cut of each line, whichever record ends or begins with it."""
    plan = reticent.canaries(["one line", "a second"], "ID {digits:3}", n=1, copies=4)
    secret = plan.secrets[0][1]
    lines = {copy["text"] for copy in json.loads(plan.to_json())["canaries"][0]["insertions"]}
    assert len(lines) > 1
    cuts = [(line[:at], line[at:]) for line in lines for at in range(line.index(secret) + 1, line.index(secret) + len(secret))]

    def expected(text: str) -> bool:
        for end, begin in cuts:
            if text.endswith(end) or (text.startswith(begin) and not text[len(begin) :][:1].isalnum()):
                return True
        return secret in text or any(text and text in line for line in lines)

    (differs,) = _differing(plan)
    parts = {part for line in lines for at in range(len(line) + 1) for part in (line[:at], line[at:])}
    for part in parts:
        for text in (part, f"before {part}", f"{part} after", f"{part}x after"):
            assert differs(text) is expected(text), text


def test_a_text_that_was_cut_before_it_was_packed_counts(tmp_path) -> None:
    """In the row another text follows it at once; what has a loss ends there."""
    plan = reticent.canaries(["one line"], "ID {digits:3}", n=1, copies=1)
    line = json.loads(plan.to_json())["canaries"][0]["insertions"][0]["text"]
    cut = line[: line.index(plan.secrets[0][1]) + 2]
    tokens = lambda text: tiny.tokenizer()(text).input_ids  # noqa: E731

    def collate(items):
        each = [(part, [-100, *part[1:]]) for part in map(tokens, items[0])]
        ids, labels = (torch.tensor([sum(parts, [])]) for parts in zip(*each))
        return {"input_ids": ids, "labels": labels}

    callback = AuditCallback(plan)
    callback.on_train_begin(
        SimpleNamespace(world_size=1, output_dir=str(tmp_path)), SimpleNamespace(global_step=0, epoch=0.0), None, model=tiny.model(),
        processing_class=tiny.tokenizer(), train_dataloader=DataLoader([[line], [cut, "other"], ["other", "text"]], collate_fn=collate),
    )  # fmt: skip
    assert callback.records == 2


def test_records_are_stated_where_nothing_is_looked_at(tmp_path) -> None:
    plan, rows = planted()
    more = plan.records + 4
    callback = AuditCallback(plan, preflight=False, records=more)
    trainer(tmp_path, rows, callback).train()
    document = json.loads((tmp_path / "report.json").read_text())
    assert callback.records == more == document["epsilon"]["copies"]
    with pytest.raises(ValueError, match="records"):
        AuditCallback(plan, preflight=False, records=0)


def test_fewer_records_than_copies_may_be_stated(tmp_path) -> None:
    """A plan from JSON does not know that its copies stand in one text. What is counted beforehand is never lowered."""
    plan, rows = plant(Dataset.from_dict({"text": ["one line"]}), "ID {digits:3}", n=1, copies=3)
    held = CanaryPlan.from_json(plan.to_json())
    assert (plan.records, held.records) == (1, 3)
    for records, used, data in ((None, 3, rows), (1, 1, rows), (1, 2, Dataset.from_dict({"text": rows["text"][:] * 2}))):
        callback = AuditCallback(held, records=records)
        trainer(tmp_path, data, callback, length=1024, model=tiny.model(positions=1024)).train()
        document = json.loads((tmp_path / "report.json").read_text())
        assert callback.records == used == document["epsilon"]["copies"]


def test_evaluation_neither_trains_nor_audits(tmp_path) -> None:
    plan, rows = planted()
    callback = AuditCallback(plan)
    evaluated = trainer(tmp_path, rows, callback)
    before = {name: value.clone() for name, value in evaluated.model.state_dict().items()}
    evaluated.evaluate()
    after = evaluated.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert not callback.epochs and not (tmp_path / "report.json").exists()


def test_auditing_changes_nothing_about_the_training(tmp_path) -> None:
    """With dropout: weights, modes and random numbers are as they would be without the callback."""
    plan, rows = planted()
    with_audit = trainer(tmp_path / "a", rows, AuditCallback(plan), dropout=0.1, epochs=2)
    with_audit.train()
    drawn = torch.rand(1)
    without = trainer(tmp_path / "b", rows, None, dropout=0.1, epochs=2)
    without.train()
    assert torch.equal(drawn, torch.rand(1))
    for (name, ours), theirs in zip(with_audit.model.state_dict().items(), without.model.state_dict().values()):
        assert torch.equal(ours, theirs), name


@pytest.mark.parametrize(("names", "begins"), [(["<s>", "</s>"], "</s>"), (["<|startoftext|>"], "<|startoftext|>")])
def test_canaries_are_read_behind_the_tokens_own_beginning(tmp_path, names, begins) -> None:
    """As OPT's, whose vocabulary also has a token of a more usual name; or by a name that is not usual at all."""
    vocabulary = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    vocabulary |= {name: len(vocabulary) + number for number, name in enumerate(names)}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, bos_token=begins, eos_token=begins)
    tokenizer.save_pretrained(tmp_path)
    plan, _ = planted()
    seen = set()

    def record(prefixes, wanted):
        seen.update(prefix[0] for prefix in prefixes)
        return [[-6.0] * len(wanted) for _ in prefixes]

    # Padded, so that an invented token is in the vocabulary.
    for given in (tokenizer, tmp_path, str(tmp_path / "tokenizer.json"), tmp_path / "tokenizer.json"):
        reticent.exposure(plan, record, tokenizer=given, vocabulary=512, budget=50)
    assert seen == {vocabulary[begins]}
    if len(names) == 1:
        with pytest.raises(ValueError, match="tokenizer: nothing says which token begins a text"):
            reticent.exposure(plan, record, tokenizer=made.to_str(), vocabulary=512, budget=50)


def test_the_scorer_is_the_model_and_leaves_it_as_it_was() -> None:
    model = tiny.model(dropout=0.5)
    model.train()
    model.transformer.wte.eval()
    score = scorer(model)
    prefixes = [[1, 2, 3], [4, 5], [1, 2, 3, 4, 5, 6]]
    rows = score(prefixes, list(range(257)))
    assert model.training and not model.transformer.wte.training
    assert torch.allclose(rows.exp().sum(-1), torch.ones(3, dtype=torch.double))
    model.eval()
    for prefix, row in zip(prefixes, rows):
        alone = model(torch.tensor([prefix])).logits[0, -1].double().log_softmax(-1)
        assert torch.allclose(row, alone, atol=1e-5)
    with pytest.raises(ValueError, match="at most 128 tokens"):
        score([[0] * 129], [0])


@pytest.mark.parametrize("kind", [PromptTuningConfig, PromptEncoderConfig, PrefixTuningConfig])
def test_virtual_tokens_are_not_taken_for_the_prefix(kind) -> None:
    """Prompt tuning and P-tuning have logits for them too, which say nothing of the prefix."""
    model = get_peft_model(tiny.model(), kind(task_type="CAUSAL_LM", num_virtual_tokens=8)).eval()
    score, prefixes = scorer(model), [[1, 2, 3], [4, 5]]
    for prefix, row in zip(prefixes, score(prefixes, list(range(257)))):
        ids = torch.tensor([prefix])
        alone = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0, -1].double().log_softmax(-1)
        assert torch.allclose(row, alone, atol=1e-5)
    with pytest.raises(ValueError, match="at most 120 tokens"):
        score([[0] * 121], [0])


def test_logits_of_nobody_knows_which_tokens_are_refused() -> None:
    for cut in (lambda logits: logits[:, 1:], lambda logits: torch.cat([logits, logits], 1)):
        model = tiny.model()
        model.register_forward_hook(lambda model, args, out, cut=cut: SimpleNamespace(logits=cut(out.logits)))
        with pytest.raises(ValueError, match="model: must give logits for 3 tokens, got them for"):
            scorer(model)([[1, 2, 3]], [0])


PREFIXES = [[(7 * row + 3 * at) % 256 for at in range(12 + row % 24)] for row in range(64)]


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_weights_in_half_precision_are_scored_alike_in_any_batch(half) -> None:
    """One batch of them is rounded otherwise than each row by itself."""
    model = tiny.model().eval()
    model.lm_head.weight.data *= 20  # as far apart as a trained model has them
    model = model.to(half)
    score, every = scorer(model), list(range(257))
    alone = torch.cat([score([prefix], every) for prefix in PREFIXES])
    assert torch.equal(score(PREFIXES, every), alone)
    batch, mask = torch.zeros(64, 35, dtype=torch.long), torch.zeros(64, 35, dtype=torch.long)
    for row, prefix in enumerate(PREFIXES):
        batch[row, : len(prefix)], mask[row, : len(prefix)] = torch.tensor(prefix), 1
    with torch.no_grad():
        logits = model(input_ids=batch, attention_mask=mask).logits
    rows = torch.stack([logits[row, len(prefix) - 1] for row, prefix in enumerate(PREFIXES)]).double().log_softmax(-1)
    assert not torch.allclose(rows, alone, rtol=0, atol=1e-3), "a batch says the same here: nothing was tested"


def test_what_computes_in_half_precision_whatever_its_weights() -> None:
    of = lambda name, *kinds: SimpleNamespace(  # noqa: E731
        config=SimpleNamespace(_attn_implementation=name), parameters=lambda: [torch.zeros(1, dtype=kind) for kind in kinds]
    )
    assert _in_single(of("sdpa", torch.float32)) and _in_single(tiny.model())
    assert not _in_single(of("flash_attention_2", torch.float32))
    assert not _in_single(of("sdpa", torch.float32, torch.uint8))  # quantised, with an adapter


def test_mixed_precision_is_left_out_of_scores(tmp_path) -> None:
    """Accelerate puts it around the forward. Other libraries keep another forward under the name that it uses."""
    trained = trainer(tmp_path, planted()[1], None, bf16=True)
    trained.train()
    model, same, every = trained.model.eval(), tiny.model().eval(), list(range(257))
    same.load_state_dict(model.state_dict())
    expected, forward = scorer(same)(PREFIXES, every), model.forward
    with torch.no_grad():
        mixed = model(input_ids=torch.tensor(PREFIXES[:1])).logits[0, -1].double().log_softmax(-1)
    assert not torch.allclose(mixed, expected[0], rtol=0, atol=1e-4), "nothing is rounded here: nothing was tested"
    assert torch.equal(scorer(model)(PREFIXES, every), expected) and model.forward is forward
    same._original_forward = tiny.model(seed=1).forward
    assert torch.equal(scorer(same)(PREFIXES, every), expected)


@pytest.mark.parametrize(("mixed", "half"), [(True, False), (False, True), (True, True)])
def test_trainings_in_half_precision_are_audited(tmp_path, mixed, half) -> None:
    plan, rows = planted()
    callback = AuditCallback(plan, budget=300)
    model = tiny.model().to(torch.bfloat16) if half else tiny.model()
    trainer(tmp_path, rows, callback, model=model, bf16=mixed).train()
    assert [epoch for epoch, _ in callback.epochs] == ["epoch 1.00"]


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("batch", [1, 64])
def test_dropout_that_stays_on_is_refused(kind, batch) -> None:
    """However many prefixes are scored at a time, and although no random number of the training is used up."""
    plan, _ = planted()
    model = tiny.model().to(kind)
    model.lm_head.weight.data *= 20
    model.transformer.wte.register_forward_hook(lambda module, args, out: torch.nn.functional.dropout(out, 0.05))
    with pytest.raises(ValueError, match="scorer: answers the same question in two ways"):
        reticent.exposure(plan, scorer(model), tokenizer=tiny.tokenizer(), vocabulary=257, batch=batch, budget=300)


def test_a_model_that_opacus_wraps_is_scored() -> None:
    plain, wrapped = tiny.model(), GradSampleModule(tiny.model())
    assert torch.equal(scorer(plain)([[1, 2]], [3, 4]), scorer(wrapped)([[1, 2]], [3, 4]))
    assert wrapped._module.training and _vocabulary(wrapped) == 257


def test_models_of_text_and_images_say_their_vocabulary_and_context() -> None:
    text = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
            "head_dim": 8, "intermediate_size": 16, "max_position_embeddings": 8}  # fmt: skip
    images = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "image_size": 28,
              "patch_size": 14}  # fmt: skip
    model = Gemma3ForConditionalGeneration(Gemma3Config(text_config=text, vision_config=images, mm_tokens_per_image=4))
    assert _vocabulary(model) == 50 and len(scorer(model)([[5, 6, 7]], [1, 2])[0]) == 2
    with pytest.raises(ValueError, match="at most 8 tokens"):
        scorer(model)([[5] * 9], [1])


def test_models_that_cannot_be_scored_stop_the_training(tmp_path) -> None:
    """Before it begins, and not after the first epoch."""
    callback = AuditCallback(planted()[0])

    def begin(model, processes) -> None:
        arguments = SimpleNamespace(world_size=processes, output_dir=str(tmp_path))
        callback.on_train_begin(arguments, SimpleNamespace(global_step=0, epoch=0.0), None, model=model)

    with pytest.raises(ValueError, match="the configuration of a Linear has no vocab_size"):
        begin(torch.nn.Linear(2, 2), 1)
    spread = tiny.model()
    spread.transformer.wte.weight.ds_id = 0  # as ZeRO-3 marks what it spreads
    with pytest.raises(ValueError, match="model: its weights are spread over 2 processes"):
        begin(spread, 2)
    for model, processes in ((spread, 1), (tiny.model(), 2)):
        with pytest.raises(ValueError, match="tokenizer: give AuditCallback one"):  # which is looked at next
            begin(model, processes)


def test_a_tokenizer_without_a_beginning_of_text_stops_the_training(tmp_path) -> None:
    """Before it begins, and not after the first epoch. A token of a usual name would do."""
    plan, rows = planted()
    made = tiny.tokenizer().backend_tokenizer.to_str().replace(tiny.END, "<|over|>")
    for folder, settings in (("a", {}), ("b", {"preflight": False})):
        callback = AuditCallback(plan, tokenizer=PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(made)), **settings)
        refused = trainer(tmp_path / folder, rows, callback)
        with pytest.raises(ValueError, match="tokenizer: nothing says which token begins a text"):
            refused.train()
        assert refused.state.global_step == 0


def test_a_record_is_an_item_of_the_dataset_however_it_is_collated() -> None:
    """Collators without padding make one row of a batch."""
    tokenizer = tiny.tokenizer()
    rows = [{"input_ids": tokenizer(text).input_ids} for text in ("x ID 123", "", "y ID 123", "z")]
    for collator in (DataCollatorWithFlattening(), DataCollatorForLanguageModeling(tokenizer, mlm=False)):
        loader = DataLoader(rows, batch_size=4, collate_fn=collator)
        assert list(supervised_texts(loader, tokenizer)) == [[" ID 123"], [], [" ID 123"], []]


def test_looking_at_what_is_trained_draws_no_random_numbers() -> None:
    draws = lambda: (random.random(), numpy.random.rand(), torch.rand(1).item())  # noqa: E731
    seeds = lambda: (random.seed(0), numpy.random.seed(0), torch.manual_seed(0))  # noqa: E731
    seeds()
    expected = draws()

    def collate(batch):
        draws()
        return {"labels": torch.zeros(len(batch), 3, dtype=torch.long)}

    seeds()
    list(supervised_texts(DataLoader([1, 2], collate_fn=collate), tiny.tokenizer()))
    assert draws() == expected


def test_ranks_equal_flat_scoring() -> None:
    """Independent oracle: every one of the thousand candidates scored by itself."""
    plan, _ = planted()
    model, tokenizer = tiny.model(), tiny.tokenizer()
    model.eval()
    found = reticent.exposure(plan, scorer(model), tokenizer=tokenizer, vocabulary=257)
    context = tokenizer("ID ").input_ids

    def loss(secret: str) -> float:
        ids = [256, *context, *tokenizer(secret).input_ids]
        with torch.no_grad():
            rows = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        return -sum(rows[at - 1, ids[at]].item() for at in range(len(ids) - len(secret), len(ids)))

    every = [loss(f"{number:03d}") for number in range(1000)]
    for canary, (_, secret, _) in zip(found.document["canaries"], plan.secrets):
        own = loss(secret)
        assert math.isclose(canary["nll"], own, rel_tol=1e-5)
        assert canary["rank"]["min"] <= 1 + sum(other < own - 1e-9 for other in every) <= canary["rank"]["max"]


def test_a_lora_adapter_is_audited_as_what_it_merges_to(tmp_path) -> None:
    plan, rows = planted()
    layers = LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM")
    adapted = get_peft_model(tiny.model(), layers)
    callback = AuditCallback(plan)
    trainer(tmp_path, rows, callback, model=adapted).train()
    assert documents.problems("exposure", (tmp_path / "report.json").read_text()) == []
    merged = reticent.exposure(plan, scorer(adapted.merge_and_unload()), tokenizer=tiny.tokenizer(), vocabulary=257)
    for ours, again in zip(callback.last.document["canaries"], merged.document["canaries"]):
        assert math.isclose(ours["nll"], again["nll"], rel_tol=1e-4)
