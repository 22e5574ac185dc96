"""A tokenizer and a GPT-2 of a few thousand weights, made here: nothing is downloaded."""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

END = "<|endoftext|>"


def tokenizer() -> PreTrainedTokenizerFast:
    """Bytes, as GPT-2 spells them, without merges."""
    vocabulary = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    vocabulary[END] = len(vocabulary)
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token=END, eos_token=END, pad_token=END)


def model(seed: int = 0, dropout: float = 0.0, positions: int = 128) -> GPT2LMHeadModel:
    torch.manual_seed(seed)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=257, n_positions=positions, n_embd=64, n_layer=2, n_head=2, bos_token_id=256, eos_token_id=256,
            resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout,
        )
    )  # fmt: skip


def texts(count: int = 24) -> list[str]:
    words = ["the", "order", "is", "late", "again", "please", "send", "it", "soon", "thanks"]
    return [" ".join(words[(i * 7 + j * (i + 1)) % 10] for j in range(5)) for i in range(count)]
