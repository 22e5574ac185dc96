"""Canaries, exposure, membership, redaction: without any model library."""

import json
import math
import pickle

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
    with pytest.raises(ValueError, match="the secret of canary-0 stands in it already"):
        audit.insert(plan, [secret, *TEXTS[1:]])


def test_other_texts_are_refused() -> None:
    plan = reticent.canaries(TEXTS, n=20, copies=3)
    with pytest.raises(ValueError, match="texts: "):
        audit.insert(plan, TEXTS[:1])


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
        (lambda p, w: [[math.nan] * len(w)] * len(p), "a log-probability must lie in"),
        (lambda p, w: [[0.5] * len(w)] * len(p), "a log-probability must lie in"),
        (lambda p, w: [[0.0] * len(w)] * len(p), "must be normalised over the whole vocabulary"),
        (lambda p, w: [[-5.0] * len(w)] * (len(p) + 1), "rows for"),
        (lambda p, w: [[-5.0]] * len(p), "numbers in row 0"),
        (lambda p, w: [[-math.inf] * len(w)] * len(p), "no finite perplexity"),
    ],
)
def test_scorers_are_not_trusted(scorer, words) -> None:
    plan = reticent.canaries(TEXTS, n=2, copies=1)
    with pytest.raises(ValueError, match=words):
        reticent.exposure(plan, scorer, tokenizer="characters")


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
    found = reticent.membership(inside, outside, texts=(texts[:20] * 16, texts[20:])).document
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
    found = reticent.membership(inside, outside, fpr=(0.01, 0.0475))
    assert found.area_lower <= found.document["area"]["estimate"] <= found.area_upper
    with pytest.raises(ValueError, match="299 non-members needed"):
        found.tpr_lower(0.01)
    assert found.tpr_lower(0.0475) <= 0.11
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
