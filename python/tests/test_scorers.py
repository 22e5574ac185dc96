"""The scorer for transformers that lies with the examples of `audit --scorer`."""

import json
import subprocess
import sys
from pathlib import Path

import torch
from transformers import BertConfig, BertForMaskedLM, MixtralConfig, MixtralForCausalLM

EXAMPLES = Path(__file__).parents[2] / "reports" / "examples"
SMALL = {"vocab_size": 20, "hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}


def asked(model, folder: Path, *questions: dict) -> subprocess.CompletedProcess[str]:
    model.save_pretrained(folder)
    return subprocess.run(
        [sys.executable, str(EXAMPLES / "scorer_transformers.py"), str(folder)],
        input="".join(json.dumps(question) + "\n" for question in questions), capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_mixture_of_experts_answers_as_itself(tmp_path: Path) -> None:
    torch.manual_seed(1)
    config = MixtralConfig(
        **SMALL, num_hidden_layers=2, num_key_value_heads=1, num_local_experts=2, max_position_embeddings=32
    )
    model = MixtralForCausalLM(config).eval()
    sequences = [[1, 2, 3, 4, 5], [7, 19], [0, 3, 3, 8]]
    done = asked(model, tmp_path, {"id": 1, "score": sequences}, {"id": 2, "next": sequences, "wanted": [3, 0]})
    assert done.returncode == 0, done.stderr
    said, scores, following = map(json.loads, done.stdout.splitlines())
    assert said["vocabulary"] == 20 and said["context"] == 32
    for number, sequence in enumerate(sequences):
        with torch.inference_mode():
            rows = torch.log_softmax(model(torch.tensor([sequence])).logits[0].double(), dim=-1)
        expected = rows[:-1].gather(1, torch.tensor(sequence[1:]).unsqueeze(1)).squeeze(1)
        found = torch.tensor(scores["log_probabilities"][number], dtype=torch.double)
        assert torch.allclose(found, expected, atol=1e-5)
        p = rows[:-1].exp()
        means = torch.tensor(scores["means"][number], dtype=torch.double)
        assert torch.allclose(means, (p * rows[:-1]).sum(1), atol=1e-5)
        assert scores["top_tokens"][number] == rows[:-1].argmax(1).tolist()
        found = torch.tensor(following["log_probabilities"][number], dtype=torch.double)
        assert torch.allclose(found, rows[-1][[3, 0]], atol=1e-5)


def test_an_encoder_is_refused(tmp_path: Path) -> None:
    torch.manual_seed(1)
    done = asked(BertForMaskedLM(BertConfig(**SMALL, num_hidden_layers=1, initializer_range=0.5)), tmp_path)
    assert done.returncode == 1 and done.stdout == ""
    assert "no probabilities of a next token" in done.stderr
