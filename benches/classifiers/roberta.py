"""A RoBERTa of two layers of 64 drawn at random, with a vocabulary made of texts that are declared public.

python benches/classifiers/roberta.py TEXTS.jsonl OUT/
"""

import json
import sys
from pathlib import Path

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import RobertaConfig, RobertaForMaskedLM

texts, out = map(Path, sys.argv[1:3])
lines = [json.loads(line)["text"] for line in texts.read_text().splitlines()]
tokenizer = ByteLevelBPETokenizer()
tokenizer.train_from_iterator(lines, 2000, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
torch.manual_seed(1)
# one token more: the mask of redacted text
config = RobertaConfig(
    vocab_size=2001,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=256,
    max_position_embeddings=66,
    type_vocab_size=1,
)
RobertaForMaskedLM(config).save_pretrained(out)
tokenizer.save(str(out / "tokenizer.json"))
