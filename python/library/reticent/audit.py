"""Canaries, exposure, membership and redaction.

Canaries are made-up secrets, planted in the training text. How far up a model ranks them among
all candidates is a lower bound on what it leaks.
"""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reticent import _reticent
from reticent._reticent import CanaryPlan, Defaults, Exposure, Plan, Redactor

__all__ = ["CanaryPlan", "Exposure", "Membership", "Redactor", "canaries", "exposure", "insert", "membership",
           "preflight", "redact"]  # fmt: skip

TEMPLATE = "My ID is: {digits:6}"

Scorer = Callable[[list[list[int]], list[int]], Any]


def canaries(
    data: Any,
    template: str = TEMPLATE,
    *,
    n: int = 10,
    copies: int | Sequence[int] = 20,
    field: str = "text",
    seed: int | None = None,
    own_contexts: bool = False,
    unit: str = "document",
) -> CanaryPlan:
    """Draws a plan of `n` canaries for a list of texts or chats, or for the `field` of a dataset.

    A chat is a list of messages, each with `role` and `content` (or `from` and `value`). A canary goes into the
    assistant's last answer; a chat without one takes none.
    template: text with fields `{digits:N}`, `{letters:N}`, `{upper:N}` or `{list:a|b}`.
    copies: of each canary, or a list of numbers that the canaries have in turn.
    seed: None (from the operating system) wherever the result is to be believed.
    own_contexts: words of its own before each canary; the bound on ε is then larger where all
    are memorised.
    unit: what one row is: "turn", "sentence", "dialogue", "document" or "user". A promise about another unit is not compared
    with these canaries.

    >>> import reticent
    >>> plan = reticent.canaries(["one line", "another"], n=3, copies=[1, 4])
    >>> len(plan), plan.copies, plan.candidates
    (3, 4, 1000000)
    """
    doses = list(_items("copies", copies)) if isinstance(copies, Iterable) else [copies]
    return _reticent.plan_canaries(
        list(_texts(data, field).values()), template, copies=doses, n=n, seed=seed, own_contexts=own_contexts,
        unit=unit,
    )  # fmt: skip


def insert(plan: CanaryPlan, data: Any, *, field: str = "text") -> Any:
    """The data that `plan` was drawn for, with the canaries in it: a list, or a `datasets.Dataset`.

    Raises ValueError for other data, and where a secret stands in the data already. A plan from a canaries.json does
    not know its texts: of it only numbers of texts and lines are checked.

    >>> import reticent
    >>> from reticent.audit import insert
    >>> plan = reticent.canaries(["one line", "another"], n=1, copies=3)
    >>> sum(text.count("My ID is: ") for text in insert(plan, ["one line", "another"]))
    3
    """
    texts = _texts(data, field)
    whole = "\n".join(texts.values())
    for name, secret, _ in plan.secrets:
        if secret in whole:
            raise ValueError(f"data: the secret of {name} occurs in it already; draw another plan")
    planted = dict(zip(texts, plan.insert_texts(list(texts.values()))))
    if not hasattr(data, "column_names"):
        return [_with_text(value, planted.get(row)) for row, value in enumerate(data)]
    return data.map(
        lambda example, row: {field: _with_text(example[field], planted.get(row))},
        with_indices=True,
        load_from_cache_file=False,
    )


def preflight(plan: CanaryPlan, supervised: Iterable[str]) -> None:
    """Raises ValueError when a copy of a canary carries no loss.

    supervised: what the model is trained to predict, as text: each run of tokens that have a
    loss, decoded. `reticent.hf.supervised_texts` makes them from a Trainer's batches.

    >>> import reticent
    >>> from reticent.audit import insert, preflight
    >>> plan = reticent.canaries(["one line"], n=1, copies=3)
    >>> preflight(plan, insert(plan, ["one line"]))
    >>> preflight(plan, ["one line"])
    Traceback (most recent call last):
      ...
    ValueError: canaries: copies without a loss: canary-0 0 of 3. They were ...
    """
    found = dict.fromkeys((name for name, _, _ in plan.secrets), 0)
    for row, text in enumerate(_items("supervised", supervised)):
        if not isinstance(text, str):
            raise TypeError(f"supervised, row {row}: must be text, got {type(text).__name__}")
        for name, secret, _ in plan.secrets:
            found[name] += text.count(secret)
    lost = [f"{name} {found[name]} of {copies}" for name, _, copies in plan.secrets if found[name] < copies]
    if lost:
        shown = ", ".join(lost[:10]) + (f" and {len(lost) - 10} more" if len(lost) > 10 else "")
        raise ValueError(
            f"canaries: copies without a loss: {shown}. They were cut off, masked or removed before training "
            "(maximal length, labels of -100, deduplication), or the tokenizer does not give their text back"
        )


def exposure(
    plan: CanaryPlan,
    scorer: Scorer,
    *,
    tokenizer: Any,
    vocabulary: int | None = None,
    delta: float | None = None,
    confidence: float | None = None,
    max_exposure: float | None = None,
    batch: int = 64,
    budget: int | None = None,
    records: int | None = None,
    met: bool = False,
    promise: Plan | None = None,
    name: str = "the model",
    earlier: Sequence[tuple[str, Exposure | Mapping[str, Any]]] = (),
    defaults: Defaults | None = None,
) -> Exposure:
    """Ranks every canary among all candidates, exactly.

    scorer: `scorer(prefixes, wanted)` with prefixes as lists of token ids and the token ids that
    are asked for; returns for each prefix the natural log-probability of each wanted token to
    come next, normalised over the whole vocabulary, as nested lists, an array or a tensor. What
    is no log-probability is refused, and so are other answers to questions that are repeated at the end (dropout that is
    left on). `reticent.hf.scorer` makes one of a model.
    tokenizer: a fast tokenizer of transformers, the path of a tokenizer.json (with the files beside it) or of its folder,
    the text of one, "characters" or "bytes". Canaries are read behind the token that begins a text (`bos_token`); a text
    alone does not name it, so that the first usual name in the vocabulary is taken.
    vocabulary: how many tokens the model knows; the tokenizer's if None.
    budget: positions to score at most; what it leaves open counts on both sides, so that the ends move apart.
    delta: of the bound on ε; 1e-6 where nothing is said. confidence: of that bound; 0.95 where nothing is said.
    max_exposure: bits above which `Exposure.exceeded` is true. Where `budget` cut the search off, or without `met`, false may
    mean that it is not known; `Exposure.says` tells.
    records: how many training records hold one canary, at most, where the training cut the texts into
    more than the plan's `records`, or where fewer hold the copies of a plan from JSON, whose texts are not known; the bound
    on ε is about as many records replaced at once.
    met: whether `preflight` found every copy in what the model was then trained on. Without it, ranks that show no leak
    show nothing: a limit is not known to be kept, and `audit diff` compares no such report.
    promise: what ran. The report has its upper bound in the same terms beside the measured lower bound, and the
    verdict, as `audit exposure --mechanism` has.
    name: of the model, and earlier: exposures of the same canaries in earlier checkpoints, by name, or what their documents
    have as `summary`; both for the report.
    defaults: a project's (`reticent.defaults`): delta, confidence and max_exposure, where they are not given.

    >>> import math, reticent
    >>> plan = reticent.canaries(["one line"], n=4, copies=1)
    >>> def blind(prefixes, wanted):
    ...     return [[math.log(1 / 100)] * len(wanted) for _ in prefixes]
    >>> found = reticent.exposure(plan, blind, tokenizer="characters", budget=2000)
    >>> found.epsilon_lower, found.largest_lower
    (0.0, 0.0)
    """
    source, settings = _tokenizer(tokenizer)
    if vocabulary is None:
        vocabulary = {"characters": 100, "bytes": 259}.get(str(source))
    if vocabulary is None:
        vocabulary = len(tokenizer) if hasattr(tokenizer, "__len__") and not isinstance(tokenizer, str) else None
    if vocabulary is None:
        raise ValueError("vocabulary: how many tokens the model knows must be given with this tokenizer")
    return _reticent.exposure(
        plan,
        source,
        settings,
        scorer,
        vocabulary=vocabulary,
        name=name,
        delta=delta,
        confidence=confidence,
        max_exposure=max_exposure,
        batch=batch,
        budget=budget,
        records=records,
        met=met,
        promise=promise,
        earlier=[(name, found if isinstance(found, Exposure) else json.dumps(found)) for name, found in _items("earlier", earlier, unordered=True)],
        defaults=defaults,
    )


@dataclass(frozen=True)
class Membership:
    """How well scores distinguish members from non-members; `document` has every number with its interval."""

    document: Mapping[str, Any]

    @property
    def area_lower(self) -> float:
        """The area under the ROC curve is at least this, at half of the failure probability."""
        return _number(self.document["area"]["lower"])

    @property
    def area_upper(self) -> float:
        """The area under the ROC curve is at most this, at half of the failure probability."""
        return _number(self.document["area"]["upper"])

    def tpr_lower(self, fpr: float) -> float:
        """The true-positive rate at a false-positive rate certified to be at most `fpr`: at least this.

        Raises ValueError where the non-members are too few to certify the rate.
        """
        if isinstance(fpr, bool) or not isinstance(fpr, numbers.Real):
            raise TypeError(f"fpr: must be a number, got {type(fpr).__name__}")
        for point in self.document["at_fpr"]:
            if point["fpr"] == fpr:
                if "found" not in point:
                    needed = point["non_members_needed"]
                    raise ValueError(f"fpr: this sample can't certify {fpr:g}: {needed} non-members needed")
                return _number(point["found"]["tpr"]["lower"])
        raise ValueError(f"fpr: must be one of {[p['fpr'] for p in self.document['at_fpr']]}, got {fpr:g}")

    def __repr__(self) -> str:
        estimate = self.document["area"]["estimate"]
        taken = self.document["configured"]
        values = ", ".join(f"{key} {value}" for key, value in taken["values"].items())
        source = f"; from {taken['file']}: {values}" if values else ""
        return f"Membership(area {estimate:.3f} in [{self.area_lower:.3f}, {self.area_upper:.3f}]{source})"


def membership(
    members: Sequence[float],
    non_members: Sequence[float],
    *,
    fpr: Sequence[float] = (0.01, 0.001),
    confidence: float | None = None,
    groups: tuple[Sequence[Any], Sequence[Any]] | None = None,
    texts: tuple[Sequence[str], Sequence[str]] | None = None,
    seed: int = 0,
    defaults: Defaults | None = None,
) -> Membership:
    """Area and true-positive rates of membership scores; a higher score speaks for membership.

    groups: of each member and each non-member, where records share a secret, an author or a
    template: they are no independent evidence. Equal groups are the same on both sides; a missing one is refused.
    texts: of each member and each non-member. Of copies and near-copies
    of a text one is judged, texts that stand on both sides are left out, and `document` says how many
    (`repeats`) and what the texts alone tell (`blind`). seed: of these draws and those of intervals.
    confidence: of every interval; 0.95 where nothing is said. defaults: a project's, that may say it.

    >>> import reticent
    >>> found = reticent.membership([0, 4, 6, 7], [1, 2, 3, 5])
    >>> found.document["area"]["estimate"]
    0.6875
    >>> found.tpr_lower(0.01)
    Traceback (most recent call last):
      ...
    ValueError: fpr: this sample can't certify 0.01: 437 non-members needed

    >>> lines = [f"line number {i} says {i * i}" for i in range(32)]
    >>> found = reticent.membership(range(24), range(20), texts=(lines[:12] * 2, lines[12:]))
    >>> found.document["repeats"]["members"]["texts"]
    12
    """
    scores = (_numbers("members", members), _numbers("non_members", non_members))
    found = _reticent.membership(
        scores[0],
        scores[1],
        fpr=list(_items("fpr", fpr)),
        confidence=confidence,
        seed=seed,
        groups=None if groups is None else _numbered(*_sides("groups", groups, scores)),
        texts=None if texts is None else _said(_sides("texts", texts, scores)),
        defaults=defaults,
    )
    return Membership(json.loads(found))


def _items(name: str, value: Any, *, unordered: bool = False) -> Iterable[Any]:
    """The items of a sequence. What gives characters, keys or labels instead of its values is refused, and so is a set
    unless the order doesn't matter."""
    items = value.tolist() if hasattr(value, "tolist") else value
    keys = isinstance(items, (str, bytes, bytearray, Mapping)) or hasattr(items, "columns")
    keys = keys or (isinstance(items, Set) and not unordered)
    if keys or not isinstance(items, Iterable):
        raise TypeError(f"{name}: must be a sequence such as a list, an array or one column, got {type(value).__name__}")
    return items


def _numbers(name: str, value: Any) -> list[float]:
    found = []
    for row, item in enumerate(_items(name, value)):
        try:
            if isinstance(item, (str, bytes, bytearray, bool)):
                raise TypeError
            found.append(float(item))
        except (TypeError, ValueError, OverflowError):
            raise TypeError(f"{name}, row {row}: must be a number, got {type(item).__name__}") from None
    return found


def _sides(name: str, given: Any, scores: tuple[list[float], list[float]]) -> tuple[list[Any], list[Any]]:
    """What is given of members and of non-members, one for each score."""
    sides = list(_items(name, given))
    if len(sides) != 2:
        raise ValueError(f"{name}: must be two sequences, of members and of non-members, got {len(sides)}")
    found = []
    for side, of, own in zip(("members", "non-members"), sides, scores):
        found.append(list(_items(f"{name} of {side}", of)))
        if len(found[-1]) != len(own):
            raise ValueError(f"{name}: must be one for each score: {len(found[-1])} for {len(own)} {side}")
    return found[0], found[1]


def _said(sides: tuple[list[Any], list[Any]]) -> tuple[list[str], list[str]]:
    """Texts of members and non-members, each of which is one."""
    for side, own in zip(("members", "non-members"), sides):
        for row, text in enumerate(own):
            if not isinstance(text, str):
                raise TypeError(f"texts of {side}, row {row}: must be text, got {type(text).__name__}")
            _whole_text(text, f"texts of {side}, row {row}")
    return sides


def _whole_text(text: str, where: str) -> str:
    """The same text. Half of a surrogate pair, which JSON may say and UTF-8 may not, is none."""
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        pass  # its error would hold the whole text
    raise ValueError(f"{where}: must be text, and has half of a surrogate pair (U+D800 to U+DFFF)")


def _numbered(*sides: list[Any]) -> tuple[list[str], list[str]]:
    """The groups of members and non-members by number, equal ones by the same."""
    numbers: dict[Any, str] = {}

    def number(row: int, side: str, group: Any) -> str:
        value = group.tolist() if hasattr(group, "tolist") else group
        # A missing value equals nothing, or does not say so; unless it is None.
        if value is None or (value == value) is not True:
            raise ValueError(f"groups of {side}, row {row}: must not be missing, got {type(group).__name__}")
        try:
            return numbers.setdefault(value, str(len(numbers)))
        except TypeError:
            raise TypeError(f"groups of {side}, row {row}: must be text or a number, got {type(group).__name__}") from None

    inside, outside = (
        [number(row, side, group) for row, group in enumerate(own)] for side, own in zip(("members", "non-members"), sides)
    )
    if len({next((kind for kind in (str, bytes) if isinstance(group, kind)), None) for group in numbers}) > 1:
        raise ValueError("groups: must be all text or all numbers, got both: text never equals the number that it says")
    return inside, outside


_REDACTORS: dict[str, Redactor] = {}


def redact(batch: Any, policy: str | Mapping[str, Any] = "general", *, field: str = "text") -> Any:
    """Text, a list of texts, or a batch of `datasets.map`, with `<MASK>` where the policy finds something.

    None stays None; anything else raises ValueError, and so does text that UTF-8 can't say. A chat (a list of messages) is masked as by `audit redact`: every
    text and number of it but for roles, types and ids, also by what an earlier message says of a later one. A pair in two
    fields is masked field by field: nothing tells that one is the answer to the other. What JSON does not have, such as
    an image, stays, but for sets and bytes that are text, which raise ValueError.

    policy: "general", "detectors", "customers", "names", or a policy document (schemas/redaction-policy.schema.json).
    A policy misses some secrets: `Plan` speaks of trained models, not of how much was missed.

    >>> import reticent
    >>> reticent.redact({"text": ["write to ada@example.org"], "id": [7]})
    {'text': ['write to <MASK>'], 'id': [7]}
    """
    name = policy if isinstance(policy, str) else json.dumps(policy, sort_keys=True)
    if name not in _REDACTORS:
        _REDACTORS[name] = Redactor(name)
    redactor = _REDACTORS[name]
    # A table is a batch too; the keys of a column are its rows' labels.
    if isinstance(batch, Mapping) or hasattr(batch, "columns"):
        if field not in batch.keys():
            raise ValueError(f"field: {field!r} is not in the batch; it has {sorted(map(str, batch.keys()))}")
        return {**batch, field: _masked(batch[field], redactor, field)}
    return _masked(batch, redactor, "batch")


def _masked(value: Any, redactor: Redactor, where: str) -> Any:
    if value is None or isinstance(value, str):
        return value if value is None else redactor(_whole_text(value, where))
    if isinstance(value, Mapping) and _is_message(value):
        return _masked_chat([value], redactor, where)[0]
    if not isinstance(value, Iterable) or isinstance(value, (bytes, bytearray, Mapping)):
        raise ValueError(f"{where}: must be text, None or a chat, got {type(value).__name__}")
    items = list(value)
    if items and all(isinstance(item, Mapping) and _is_message(item) for item in items):
        return _masked_chat(items, redactor, where)
    return [_masked(item, redactor, f"{where}, row {row}") for row, item in enumerate(items)]


def _is_message(value: Mapping[str, Any]) -> bool:
    return not value.keys().isdisjoint(("role", "from", "content", "value"))


def _masked_chat(chat: list[Any], redactor: Redactor, where: str) -> Any:
    try:
        plain = _plain(chat)
        return _changed(chat, plain, json.loads(redactor.chat(json.dumps(plain))))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _plain(value: Any) -> Any:
    """A value in JSON's types: null for what they do not hold, text for numbers that 64 bits do not hold."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Set) or _is_text(value):
        raise ValueError(f"{type(value).__name__}: may hold text that is not masked; give text or a list of it")
    items = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(items, Sequence) and not isinstance(items, str):
        return [_plain(item) for item in items]
    if isinstance(items, numbers.Number) and not isinstance(items, bool):
        held = -(2**63) <= items < 2**64 if isinstance(items, int) else isinstance(items, float) and math.isfinite(items)
        return items if held else str(items)
    return items if items is None or isinstance(items, (str, bool)) else None


def _is_text(value: Any) -> bool:
    """Whether a value is bytes that UTF-8 says; those of an image are not."""
    try:
        return isinstance(value, (bytes, bytearray, memoryview)) and bool(str(value, "utf-8"))
    except UnicodeDecodeError:
        return False


def _changed(value: Any, plain: Any, new: Any) -> Any:
    """A value with the changes that were made to what it is in JSON's types."""
    if plain == new:
        return value
    if isinstance(value, Mapping):
        return {key: _changed(item, plain[str(key)], new[str(key)]) for key, item in value.items()}
    if isinstance(plain, list):
        return [_changed(*each) for each in zip(value, plain, new)]
    return new


def _texts(data: Any, field: str) -> dict[int, str]:
    """What each row teaches, by its number; a chat without an answer is left out."""
    if hasattr(data, "column_names"):
        names = data.column_names
        if isinstance(names, Mapping):
            raise ValueError(f"data: must be one split, not all of {sorted(names)}: data[{min(names)!r}]")
        if not hasattr(data, "__len__"):
            raise ValueError(
                "data: a streamed dataset can't be planted in, as canaries go to random places of all of it: load it "
                "whole (streaming=False), or draw the plan for a list of its texts"
            )
        if field not in names:
            chats = sorted({"messages", "conversations"} & set(names))
            hint = f"; field={chats[0]!r} plants in the answers of chats" if chats else ""
            raise ValueError(f"field: {field!r} is not in the dataset; it has {names}{hint}")
        values, where = data[field], f"field {field!r}"
    elif isinstance(data, (str, bytes, Mapping)) or not isinstance(data, Sequence):
        raise ValueError(f"data: must be a list of texts or a datasets.Dataset, got {type(data).__name__}")
    else:
        values, where = data, "data"
    texts = {}
    for row, value in enumerate(values):
        if isinstance(value, str):
            texts[row] = _whole_text(value, f"{where}, row {row}")
        elif isinstance(value, list) and all(isinstance(message, Mapping) for message in value):
            answer = _reticent.answer(json.dumps(_plain(value)))
            if answer is not None:
                texts[row] = answer
        else:
            raise ValueError(
                f"{where}, row {row}: must be text or a chat, got {type(value).__name__}; leave such rows out, "
                "or fill them, before planting"
            )
    if not texts:
        raise ValueError(f"{where}: no text, and no answer of an assistant, to plant in")
    return texts


def _with_text(value: Any, text: str | None) -> Any:
    """The same text or chat with another text in its place."""
    if text is None or isinstance(value, str):
        return value if text is None else text
    plain = _plain(value)
    return _changed(value, plain, json.loads(_reticent.with_answer(json.dumps(plain), text)))


def _tokenizer(tokenizer: Any) -> tuple[str | Path, str | None]:
    """A tokenizer.json as text or path, and the tokenizer_config.json of a text."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        ends = {key: getattr(tokenizer, key, None) for key in ("bos_token", "eos_token")}
        return str(backend.to_str()), json.dumps({key: str(token) for key, token in ends.items() if token is not None})
    if isinstance(tokenizer, str) and (tokenizer in ("characters", "bytes") or tokenizer.lstrip().startswith("{")):
        return tokenizer, None
    if isinstance(tokenizer, (str, Path)):
        return Path(tokenizer), None
    raise ValueError(
        "tokenizer: must be a fast tokenizer of transformers, a tokenizer.json, \"characters\" or \"bytes\", "
        f"got {type(tokenizer).__name__}"
    )


def _number(value: float | str) -> float:
    return float(value)

