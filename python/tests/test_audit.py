"""Canaries, exposure, membership, redaction: without any model library."""

import copy
import html
import json
import math
import pickle
import random
import re

import numpy
import pytest
import reticent
from reticent import audit

TEXTS = ["the order is late", "please send it soon\nthanks", "it is late again"]


def uniform(prefixes, wanted):
    return [[math.log(1 / 100)] * len(wanted) for _ in prefixes]


class Memorised:
    """A model of the characters that gives 0.9 to what follows in one of these texts."""

    def __init__(self, texts):
        self.texts = texts

    def __call__(self, prefixes, wanted):
        letters = {token: chr(32 + token) for token in range(95)}
        rows = []
        for prefix in prefixes:
            said = "".join(letters.get(t, "") for t in prefix)
            likely = {text[text.index(said) + len(said)] for text in self.texts if said in text}
            share = 0.9 / max(1, len(likely))
            rows.append([math.log(share if letters.get(t) in likely else 0.1 / 100) for t in wanted])
        return rows


def test_plans_differ_without_a_seed_and_agree_with_one() -> None:
    draw = lambda seed: {s for _, s, _ in reticent.canaries(TEXTS, n=5, copies=2, seed=seed).secrets}  # noqa: E731
    assert draw(None) != draw(None)
    assert draw(7) == draw(7) and len(draw(7)) == 5


def test_secrets_are_not_shown() -> None:
    plan = reticent.canaries(TEXTS, n=3, copies=2)
    found = reticent.exposure(plan, uniform, tokenizer="characters", budget=500)
    for _, secret, _ in plan.secrets:
        for shown in (repr(plan), repr(found), json.dumps(dict(found.document))):
            assert secret not in shown


def test_inserted_as_planned() -> None:
    plan = reticent.canaries(TEXTS, n=3, copies=[1, 5])
    planted = audit.insert(plan, TEXTS)
    assert len(planted) == len(TEXTS)
    for (_, secret, copies), dose in zip(plan.secrets, (1, 5, 1)):
        assert copies == dose == sum(text.count(secret) for text in planted)
    assert 1 <= plan.records <= 3
    again = reticent.CanaryPlan.from_json(plan.to_json())
    assert audit.insert(again, TEXTS) == planted


def test_preflight_tells_which_copies_have_no_loss() -> None:
    plan = reticent.canaries(TEXTS, n=2, copies=4)
    planted = audit.insert(plan, TEXTS)
    audit.preflight(plan, planted)
    name, secret, _ = plan.secrets[1]
    with pytest.raises(ValueError, match=f"copies without a loss: {name} 3 of 4") as raised:
        whole = "\n".join(planted)
        audit.preflight(plan, [whole.replace(secret, "", 1)])
    assert secret not in str(raised.value)


def test_a_secret_that_is_there_already_is_refused() -> None:
    plan = reticent.canaries(TEXTS, n=1, copies=1, seed=1)
    secret = plan.secrets[0][1]
    with pytest.raises(ValueError, match="the secret of canary-0 occurs in it already"):
        audit.insert(plan, [secret, *TEXTS[1:]])


def test_other_texts_are_refused() -> None:
    plan = reticent.canaries(TEXTS, n=20, copies=3)
    kept = pickle.loads(pickle.dumps(plan))
    for other in (TEXTS[:1], TEXTS[::-1], ["completely", "other\nand", "data here"], ["".join(TEXTS), "", ""]):
        for drawn in (plan, kept):
            with pytest.raises(ValueError, match="data: not the texts the plan was drawn for"):
                audit.insert(drawn, other)
    # From JSON nothing is known of the texts but how many there are.
    read = reticent.CanaryPlan.from_json(plan.to_json())
    with pytest.raises(ValueError, match="texts: "):
        audit.insert(read, TEXTS[:1])


def test_plans_are_pickled_copied_and_compared() -> None:
    plan = reticent.canaries(TEXTS, n=3, copies=2, seed=1)
    for other in (pickle.loads(pickle.dumps(plan)), copy.copy(plan), copy.deepcopy(plan)):
        assert other == plan and audit.insert(other, TEXTS) == audit.insert(plan, TEXTS)
    assert plan == reticent.canaries(TEXTS, n=3, copies=2, seed=1) != reticent.canaries(TEXTS, n=3, copies=2, seed=2)
    found = reticent.exposure(plan, uniform, tokenizer="characters", budget=500)
    assert copy.deepcopy(found) is copy.copy(found) is found
    with pytest.raises(TypeError, match=r"Exposure: can't be pickled; keep what its to_json\(\) gives"):
        pickle.dumps(found)


def test_a_plan_from_json_is_whole_and_says_nothing_of_its_texts() -> None:
    plan = reticent.canaries(["one text"], n=3, copies=20)
    cut = json.loads(plan.to_json())
    del cut["canaries"][-1], cut["digest"]
    with pytest.raises(ValueError, match="text: canary plan: it has no digest"):
        reticent.CanaryPlan.from_json(json.dumps(cut))
    # As the command, which knows the copies alone.
    read = reticent.CanaryPlan.from_json(plan.to_json())
    copies = lambda plan, **more: reticent.exposure(plan, uniform, tokenizer="characters", budget=10, **more).document["epsilon"]["copies"]  # noqa: E731
    assert (plan.records, read.records) == (1, 20) == (copies(plan), copies(read))
    assert copies(read, records=5) == 5 and copies(pickle.loads(pickle.dumps(plan))) == 1


def test_what_may_hold_text_is_masked_or_refused() -> None:
    for content in (b"call 1234567", bytearray(b"x"), memoryview(b"x"), {"call 1234567"}, [b"x"], numpy.array([b"x"])):
        with pytest.raises(ValueError, match="may hold text that is not masked"):
            reticent.redact([{"role": "user", "content": content}])
    image = [{"role": "user", "content": [{"bytes": b"\x89PNG\r\n"}]}]
    assert reticent.redact(image) == image
    with pytest.raises(ValueError) as raised:
        reticent.redact("x", {"type": "dictionary", "kind": "k", "words": "Ada Lovelace, Bob"})
    assert "policy" in str(raised.value) and "Ada" not in str(raised.value)
    with pytest.raises(TypeError, match="members, row 0: must be a number, got bool"):
        reticent.membership([True, False], [1.0, 2.0])


def test_a_search_that_is_cut_off_is_not_called_quiet() -> None:
    plan = reticent.canaries(TEXTS, n=4, copies=1)
    found = reticent.exposure(plan, uniform, tokenizer="characters", budget=10, max_exposure=5)
    assert found.largest_lower == 0 and found.largest_upper > 19 and not found.exceeded
    for said in (found.says, found.card, json.loads(found.to_json())["says"], html.unescape(found.to_html())):
        assert "No leak" not in said and "cut off" in said and "between 0 and 19.94 bits" in said
    assert "above the limit of 5.00 bits is not known" in found.says
    frame = re.fullmatch(r'<iframe sandbox srcdoc="([^"]*)" style="[^"]*"></iframe>', found._repr_html_())
    assert frame and html.unescape(frame[1]) == found.to_html()


def test_whose_word_a_promise_is_is_said() -> None:
    plan = reticent.canaries(TEXTS, n=4, copies=1)
    of_unit = lambda unit: reticent.Plan.from_json(  # noqa: E731
        json.dumps({"unit": unit, "base": "unstated", "mechanism": {"type": "gaussian", "noise_multiplier": 5}})
    )
    measure = lambda promise: reticent.exposure(plan, uniform, tokenizer="characters", budget=10, promise=promise)  # noqa: E731
    unit = json.loads(plan.to_json())["unit"]
    with pytest.raises(ValueError, match=f"promise: one record is a user in it and a {unit} in the canary plan"):
        measure(of_unit("user"))
    for promise, assumed in ((of_unit(unit), False), (reticent.Plan(sigma=5.0, sample_rate=1.0, steps=1), True)):
        document = json.loads(measure(promise).to_json())
        assert document["promised_by"]["unit_assumed"] is assumed
        assert ("unit" in document["inputs"]["assumed"]) is assumed and document["inputs"]["unit"] == unit
        assert ("not covered is the base model" in document.get("manifest", "")) is not assumed


def test_a_promise_about_a_unit_is_held_against_canaries_of_that_unit() -> None:
    plan = reticent.canaries(TEXTS, n=4, copies=1, unit="turn")
    promise = reticent.Plan.from_json(reticent.Plan(sigma=5.0, sample_rate=1.0, steps=1).report(1e-6, unit="turn").to_json())
    document = reticent.exposure(plan, uniform, tokenizer="characters", budget=5000, promise=promise).document
    assert document["inputs"]["unit"] == "turn" and document["promised_by"]["unit_assumed"] is False
    with pytest.raises(ValueError, match='unit: must be one of "turn", .*got "row"'):
        reticent.canaries(TEXTS, n=1, copies=1, unit="row")


def test_a_promise_keeps_the_records_of_canaries() -> None:
    """Those of the run that a manifest's goes on from too, and its δ; pickled and written they are the same."""
    plan = reticent.canaries(TEXTS, n=4, copies=1)
    given = lambda value: {"value": value, "provenance": {"from": "given", "by": "test"}}  # noqa: E731
    earlier = {"type": "gaussian", "noise_multiplier": 50}
    step = {"type": "subsampled-gaussian", "noise_multiplier": 50.0, "sampling_rate": 0.5, "sampling": "poisson"}
    steps = {"noise_multiplier": given(50.0), "sampling": given("poisson"), "sampling_rate": given(0.5), "steps_per_epoch": 2, "steps": given(10)}

    def manifest(**before):
        ran = {"run": {"recipe": "dpsgd", "private": steps}, "unit": given("document"), "delta": given(1e-7), "unauthenticated_corpus": True}
        return json.dumps({
            "schema": 1, "type": "checkpoint", "unit": "document", "vocabulary": "bytes", "seeded": False,
            "plan": {**ran, "continues": given({"mechanism": earlier, **before})},
            "mechanism": {"type": "sequence", "parts": [earlier, {"type": "repeat", "times": 10, "each": step}]},
            "canaries": {"canaries": 4, "records": 20, "on_public_side": 0},
        })  # fmt: skip

    for before, copies in (({"canary_records": 200}, 200), ({"canary_records": 3}, 20), ({}, 20)):
        promise = reticent.Plan.from_json(manifest(**before))
        other = reticent.Plan(sigma=50, sample_rate=1, steps=1)
        kept = pickle.loads(pickle.dumps(promise))
        assert kept == promise != reticent.Plan.from_json(json.dumps(json.loads(promise.to_json())["mechanism"]))
        for same in (promise, kept, reticent.Plan.from_json(promise.to_json()), promise.then(other), other.then(promise)):
            found = reticent.exposure(plan, uniform, tokenizer="characters", budget=10, promise=same).document
            assert found["epsilon"]["copies"] == copies and found["epsilon"]["delta"] == 1e-7
            unknown = "in how many records of the earlier run a canary was is not known" in json.dumps(found)
            assert unknown is (before == {})
        assert reticent.exposure(plan, uniform, tokenizer="characters", budget=10, promise=promise, delta=1e-5).document["epsilon"]["delta"] == 1e-5


CHATS = [
    [{"role": "system", "content": "be brief"}, {"role": "user", "content": f"hi {i}"}, {"role": "assistant", "content": f"answer {i}"}]
    for i in range(6)
]  # fmt: skip


def test_chats_are_planted_in_their_answers() -> None:
    shared = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}, {"from": "human", "value": "bye"}]
    parts = [{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"type": "text", "text": "b"}]}]
    silent = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": None}]
    # The answer is the last with a text: one that only calls a tool, or is blank, has none.
    called = [*parts[:1], {"role": "bot", "content": "the answer"}, {"role": "user", "content": "do"}, {"role": "assistant", "content": None, "tool_calls": []}]
    blank = [*called[:3], {"role": "assistant", "content": " \n"}]
    for chat in (called, blank):
        plan = reticent.canaries([chat], n=1, copies=1)
        planted = audit.insert(plan, [chat])[0]
        assert planted[2:] == chat[2:] and plan.secrets[0][1] in planted[1]["content"]
        assert "the answer" in planted[1]["content"].split("\n")
    chats = [*CHATS, shared, parts, silent, []]
    before = copy.deepcopy(chats)
    plan = reticent.canaries(chats, n=4, copies=3)
    planted = audit.insert(plan, chats)
    assert chats == before and planted[-2:] == chats[-2:] and plan.records <= 8
    text = json.dumps(planted)
    assert all(text.count(secret) == copies for _, secret, copies in plan.secrets)
    for old, new in zip(CHATS, planted):
        assert new[:2] == old[:2] and old[2]["content"] in new[2]["content"].split("\n")
    assert planted[6][::2] == shared[::2] and planted[6][1]["from"] == "gpt"
    assert "b" in planted[7][1]["content"][0]["text"].split("\n")


def test_what_cannot_be_planted_in_names_field_and_row() -> None:
    from datasets import Dataset, DatasetDict

    rows = Dataset.from_dict({"text": ["a", None], "messages": [CHATS[0], CHATS[1]]})
    for data, field, words in (
        ("one text", "text", "data: must be a list of texts or a datasets.Dataset, got str"),
        ({"text": TEXTS}, "text", "data: must be a list of texts or a datasets.Dataset, got dict"),
        ((text for text in TEXTS), "text", "got generator"),
        (["a", None], "text", "data, row 1: must be text or a chat, got NoneType; leave such rows out"),
        ([{"text": "a"}], "text", "data, row 0: must be text or a chat, got dict"),
        ([CHATS[0][:2]], "text", "data: no text, and no answer of an assistant"),
        (rows, "text", "field 'text', row 1: must be text or a chat, got NoneType"),
        (rows.select_columns(["messages"]), "text", "field: 'text' is not in the dataset.*field='messages' plants in"),
        (rows.to_iterable_dataset(), "text", "data: a streamed dataset can't be planted in.*streaming=False"),
        (DatasetDict({"train": rows, "test": rows}), "text", r"data: must be one split.*data\['test'\]"),
    ):
        with pytest.raises(ValueError, match=words):
            reticent.canaries(data, n=1, copies=1, field=field)
        with pytest.raises(ValueError, match=words):
            audit.insert(reticent.canaries(TEXTS, n=1, copies=1), data, field=field)
    plan = reticent.canaries(rows, n=2, copies=2, field="messages")
    planted = audit.insert(plan, rows, field="messages")
    assert planted.features == rows.features and planted["text"][:] == ["a", None]
    assert all(json.dumps(planted["messages"][:]).count(secret) == 2 for _, secret, _ in plan.secrets)


def test_copies_may_be_of_numpy() -> None:
    assert reticent.canaries(TEXTS, n=1, copies=numpy.int64(2)).copies == 2
    assert reticent.canaries(TEXTS, n=2, copies=numpy.array([1, 3])).copies == 3
    for wrong in (None, 1.5, True, "2"):
        with pytest.raises(TypeError, match="copies"):
            reticent.canaries(TEXTS, n=1, copies=wrong)


def test_exposure_of_a_model_that_knows_and_of_one_that_does_not() -> None:
    plan = reticent.canaries(TEXTS, n=10, copies=3, own_contexts=True)
    lines = [i["text"] for c in json.loads(plan.to_json())["canaries"] for i in c["insertions"]]
    found = reticent.exposure(plan, Memorised(lines), tokenizer="characters")
    assert found.largest_lower == pytest.approx(math.log2(1e6))
    assert found.p_value < 1e-4 and found.epsilon_lower > 5
    blind = reticent.exposure(plan, uniform, tokenizer="characters", budget=5000)
    assert blind.epsilon_lower == 0 and blind.largest_lower == 0  # ties count against a leak


@pytest.mark.parametrize(
    ("scorer", "words"),
    [
        (lambda p, w: [[math.nan] * len(w)] * len(p), r"scorer: answered NaN at .*; it must lie in \[-inf, 0\]"),
        (lambda p, w: [[0.5] * len(w)] * len(p), r"scorer: answered 0.5 at .*; it must lie in \[-inf, 0\]"),
        (lambda p, w: [[0.0] * len(w)] * len(p), r"whose probabilities sum to [\d.]+; they must be at most 1 together"),
        (lambda p, w: [[-5.0] * len(w)] * (len(p) + 1), "rows of log_probabilities for"),
        (lambda p, w: [[-5.0]] * len(p), r"answered with 1 log_probabilities in row 0, \d+ were asked for"),
        # Dropout that is left on: each answer is that of another model.
        (lambda p, w: [[-9 + random.random() for _ in w] for _ in p], "scorer: answers the same question in two ways: ln p of a token"),
        (lambda p, w: [[-math.inf] * len(w)] * len(p), "no finite perplexity"),
    ],
)
def test_scorers_are_not_trusted(scorer, words) -> None:
    plan = reticent.canaries(TEXTS, n=2, copies=1)
    with pytest.raises(ValueError, match=words):
        reticent.exposure(plan, scorer, tokenizer="characters", budget=2000)


def test_scorers_may_round_to_half_precision() -> None:
    """In bf16 ln 1/4 is -1.3828125, so that four equal tokens sum to 1.0035. Of equal tokens alone nothing is said in the end."""
    plan = reticent.canaries(TEXTS, "ID {list:a|b|c|d}-{list:a|b|c|d}", n=2, copies=1)
    with pytest.raises(ValueError, match="every candidate is as likely as the canary"):
        reticent.exposure(plan, lambda p, w: [[-1.3828125] * len(w)] * len(p), tokenizer="characters")


def test_what_a_scorer_raises_comes_through() -> None:
    def broken(prefixes, wanted):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        reticent.exposure(reticent.canaries(TEXTS, n=1, copies=1), broken, tokenizer="characters")


def test_a_vocabulary_that_lacks_a_token_is_refused() -> None:
    plan = reticent.canaries(TEXTS, n=1, copies=1)
    with pytest.raises(ValueError, match="outside the vocabulary of 50 tokens"):
        reticent.exposure(plan, uniform, tokenizer="characters", vocabulary=50)


def test_texts_that_repeat_are_one_piece_of_evidence() -> None:
    texts = [f"line number {i} says {i * i} to {i * 7919 % 9973}" for i in range(60)]
    inside = [float(i * 37 % 101) for i in range(20)] * 16
    outside = [float(i * 37 % 101) for i in range(40)]
    others = [text for i, text in enumerate(texts) if i % 3]
    found = reticent.membership(inside, outside, texts=(texts[::3] * 16, others)).document
    assert (found["members"], found["non_members"]) == (20, 40)
    sides = found["repeats"]
    assert sides["members"] == {"records": 320, "on_both_sides": 0, "repeated": 320, "texts": 20}
    assert sides["non_members"] == {"records": 40, "on_both_sides": 0, "repeated": 0, "texts": 40}
    assert not found["blind"]["shifted"]
    with pytest.raises(ValueError, match="every text of the 60 members stands among the non-members"):
        reticent.membership(range(60), range(60), texts=(texts, texts))
    others = texts[50:] + [f"another {i} {i * i}" for i in range(20)]
    some = reticent.membership(range(60), range(30), texts=(texts, others))
    assert some.document["repeats"]["members"]["on_both_sides"] == 10
    with pytest.raises(ValueError, match="texts"):
        reticent.membership([1.0, 2.0], [1.0], texts=(["a"], ["b"]))


def test_membership() -> None:
    """Golden: tpr-02 of the project's vectors of attacks: 11 % above all but one of a hundred."""
    outside = list(range(100))
    inside = [score + 9.5 for score in outside]
    found = reticent.membership(inside, outside, fpr=(0.01, 0.0625))
    assert found.area_lower <= found.document["area"]["estimate"] <= found.area_upper
    with pytest.raises(ValueError, match="437 non-members needed"):
        found.tpr_lower(0.01)
    assert found.tpr_lower(0.0625) <= 0.11
    with pytest.raises(ValueError, match="fpr: must be one of"):
        found.tpr_lower(0.5)
    with pytest.raises(ValueError, match="members"):
        reticent.membership([math.nan], [1.0])
    grouped = reticent.membership(inside, outside, groups=([i // 5 for i in outside], [i // 5 for i in outside]))
    assert grouped.area_upper - grouped.area_lower > 0


def test_redaction() -> None:
    text = "write to ada@example.org or call"
    masked = "write to <MASK> or call"
    assert reticent.redact(text) == masked
    assert reticent.redact([text, ""]) == [masked, ""]
    assert reticent.redact({"text": [text], "id": [1]}) == {"text": [masked], "id": [1]}
    assert reticent.redact({"body": text}, field="body") == {"body": masked}
    own = {"type": "patterns", "rules": [{"kind": "ticket", "pattern": r"TICKET-(?<secret>\d+)"}]}
    assert reticent.redact("see TICKET-417", own) == "see TICKET-<MASK>"
    redactor = pickle.loads(pickle.dumps(reticent.Redactor("detectors")))
    assert redactor(text) == masked
    with pytest.raises(ValueError, match="policy: must be one of"):
        reticent.redact(text, "magic")
    with pytest.raises(ValueError, match="field: 'text' is not in the batch"):
        reticent.redact({"body": text})
    assert reticent.redact(None) is None and reticent.redact({"text": [None, text]}) == {"text": [None, masked]}
    chat = [{"role": "user", "content": text, "id": "ada@example.org", "n": 1}, {"from": "gpt", "value": [{"type": "x", "text": text}]}]
    clean = [{**chat[0], "content": masked}, {"from": "gpt", "value": [{"type": "x", "text": masked}]}]
    assert reticent.redact({"messages": chat}, field="messages") == {"messages": clean}
    assert reticent.redact({"messages": [chat, None]}, field="messages") == {"messages": [clean, None]}
    for wrong, words in (
        ({"text": ["a", 5]}, "text, row 1: must be text, None or a chat, got int"),
        ({"text": 5}, "text: must be text, None or a chat, got int"),
        ({"text": [b"a"]}, "text, row 0: must be text, None or a chat, got bytes"),
        (["a", {"title": "x"}], "batch, row 1: must be text, None or a chat, got dict"),
        (1.5, "batch: must be text, None or a chat, got float"),
    ):
        with pytest.raises(ValueError, match=words):
            reticent.redact(wrong)


def test_chats_are_masked_as_by_the_command() -> None:
    """Names by their place, numbers, what a question says of its answer, and what JSON does not have."""
    said = lambda *texts: [{"role": "user", "content": text} for text in texts]  # noqa: E731
    address, image = "ada@example.org", object()

    def call(text, card):
        arguments = {"from": text, "to": text, "id": text, 1: text, "card": card, "share": numpy.float64(0.1)}
        called = {"id": address, "type": "function", "function": {"arguments": arguments}}
        return [{"role": "assistant", "type": address, "content": None, "image": image, "tool_calls": [called]}]

    more = "It has been a very long day so far, believe me. My order number?"
    for chat, clean in (
        (call(address, 4111111111111111), call("<MASK>", "<MASK>")),
        ([{**said("a")[0], "meta": {"from": address}}], [{**said("a")[0], "meta": {"from": "<MASK>"}}]),
        (said("What is your order number?", "4417823"), said("What is your order number?", "<MASK>")),
        (said("4417823", more, "4417823"), said("4417823", more, "<MASK>")),
        (said(f"<MASK> {address}"), said("<MASK> <MASK>")),
        (said([{"type": "text", "text": address}, {"type": image}]), said([{"type": "text", "text": "<MASK>"}, {"type": image}])),
    ):
        before = copy.deepcopy(chat, {id(image): image})
        assert reticent.redact(chat, "detectors") == clean == reticent.redact(clean, "detectors")
        assert reticent.redact({"messages": [chat, None]}, "detectors", field="messages") == {"messages": [clean, None]}
        assert chat == before
    with pytest.raises(ValueError, match="batch: messages, message 1: neither content nor value in it"):
        reticent.redact([{"role": "user"}])


def test_groups_and_texts_are_as_many_as_scores() -> None:
    for arguments, words in (
        ({"groups": ([1, 2], [1])}, "groups: must be one for each score: 1 for 2 non-members"),
        ({"groups": ([1], [1, 2])}, "groups: must be one for each score: 1 for 2 members"),
        ({"texts": (["a", "b", "c"], ["d", "e"])}, "texts: must be one for each score: 3 for 2 members"),
    ):
        with pytest.raises(ValueError, match=words):
            reticent.membership([1.0, 2.0], [0.0, 1.0], **arguments)
