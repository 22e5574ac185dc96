"""Our pure Rust run of a token classifier beside onnxruntime's, on a small transformer of random
weights: two layers of attention with layer norms, Gelu by Erf, position and type embeddings.

    onnx_parity.py EXAMPLES [SEED]       (pip install onnx onnxruntime numpy)

EXAMPLES holds the built example `classify`
(cargo build --package reticent-corpus --features onnx --example classify).
Every word is a token, and every label begins an entity, so that each word is compared by itself:
which words reach 0.02, their kinds, and the largest difference of their scores.
"""

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

EXAMPLES = Path(sys.argv[1])
draw = np.random.default_rng(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
WIDTH, HEADS, LAYERS, LONGEST = 48, 4, 2, 64
LABELS = ["O", "B-PER", "B-LOC", "B-ORG", "B-ID"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS = SPECIAL + [f"w{i}" for i in range(400)]

nodes, weights = [], []


def weight(name, shape, scale):
    weights.append(numpy_helper.from_array((draw.standard_normal(shape) * scale).astype(np.float32), name))
    return name


def constant(name, values):
    weights.append(numpy_helper.from_array(np.array(values, dtype=np.int64), name))
    return name


def op(kind, inputs, output, **attributes):
    nodes.append(helper.make_node(kind, inputs, [output], **attributes))
    return output


def scalar(name, value):
    weights.append(numpy_helper.from_array(np.array(value, dtype=np.float32), name))
    return name


def dense(x, name, rows, columns):
    y = op("MatMul", [x, weight(f"{name}.w", (rows, columns), 1.5 / math.sqrt(rows))], f"{name}.m")
    return op("Add", [y, weight(f"{name}.b", (columns,), 0.1)], f"{name}.y")


def norm(x, name):
    scale, bias = weight(f"{name}.g", (WIDTH,), 1.0), weight(f"{name}.c", (WIDTH,), 0.1)
    return op("LayerNormalization", [x, scale, bias], f"{name}.n", axis=-1, epsilon=1e-12)


def heads(x, name, order):
    y = op("Reshape", [x, "split"], f"{name}.r")
    return op("Transpose", [y], f"{name}.t", perm=order)


constant("split", [0, 0, HEADS, WIDTH // HEADS])
constant("joined", [0, 0, WIDTH])
for name, values in (("from", [0]), ("axis", [0]), ("one", [1]), ("spread", [1, 2])):
    constant(name, values)
words = op("Gather", [weight("words", (len(WORDS), WIDTH), 1.0), "input_ids"], "of_words")
types = op("Gather", [weight("types", (2, WIDTH), 0.3), "token_type_ids"], "of_types")
length = op("Gather", [op("Shape", ["input_ids"], "shape"), "one"], "length")
places = op("Slice", [weight("places", (LONGEST, WIDTH), 0.5), "from", length, "axis"], "of_places")
x = norm(op("Add", [op("Add", [words, types], "sum"), places], "embedded"), "first")
mask = op("Cast", ["attention_mask"], "mask", to=TensorProto.FLOAT)
mask = op("Unsqueeze", [op("Sub", [scalar("yes", 1.0), mask], "hidden"), "spread"], "wide")
mask = op("Mul", [mask, scalar("far", -1e4)], "bias")
for layer in range(LAYERS):
    n = f"l{layer}"
    q, k, v = (dense(x, f"{n}.{part}", WIDTH, WIDTH) for part in "qkv")
    scores = op("MatMul", [heads(q, f"{n}.qh", [0, 2, 1, 3]), heads(k, f"{n}.kh", [0, 2, 3, 1])], f"{n}.s")
    scores = op("Div", [scores, scalar(f"{n}.root", math.sqrt(WIDTH / HEADS))], f"{n}.d")
    seen = op("Softmax", [op("Add", [scores, mask], f"{n}.a")], f"{n}.p", axis=-1)
    mixed = op("MatMul", [seen, heads(v, f"{n}.vh", [0, 2, 1, 3])], f"{n}.x")
    mixed = op("Reshape", [op("Transpose", [mixed], f"{n}.xt", perm=[0, 2, 1, 3]), "joined"], f"{n}.xr")
    x = norm(op("Add", [x, dense(mixed, f"{n}.o", WIDTH, WIDTH)], f"{n}.res"), f"{n}.n1")
    wide = dense(x, f"{n}.up", WIDTH, 4 * WIDTH)
    erf = op("Erf", [op("Div", [wide, scalar(f"{n}.two", math.sqrt(2))], f"{n}.g1")], f"{n}.g2")
    gelu = op("Mul", [op("Mul", [wide, op("Add", [erf, "yes"], f"{n}.g3")], f"{n}.g4"), scalar(f"{n}.half", 0.5)], f"{n}.g5")
    x = norm(op("Add", [x, dense(gelu, f"{n}.down", 4 * WIDTH, WIDTH)], f"{n}.res2"), f"{n}.n2")
logits = dense(x, "head", WIDTH, len(LABELS))
op("Identity", [logits], "logits")

inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, [1, "n"]) for n in ("input_ids", "attention_mask", "token_type_ids")]
outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, "n", len(LABELS)])]
graph = helper.make_graph(nodes, "random", inputs, outputs, weights)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.checker.check_model(model)

special = [{"id": i, "content": w, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for i, w in enumerate(SPECIAL)]
frame = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]
tokenizer = {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
    "pre_tokenizer": {"type": "WhitespaceSplit"},
    "post_processor": {
        "type": "TemplateProcessing", "single": frame,
        "pair": frame + [{"Sequence": {"id": "B", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
        "special_tokens": {w: {"id": w, "ids": [WORDS.index(w)], "tokens": [w]} for w in ("[CLS]", "[SEP]")},
    },
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {w: i for i, w in enumerate(WORDS)}, "unk_token": "[UNK]"},
}
config = {"model_type": "bert", "max_position_embeddings": LONGEST, "id2label": {str(i): l for i, l in enumerate(LABELS)}}

with tempfile.TemporaryDirectory() as work:
    folder = Path(work)
    onnx.save(model, folder / "model.onnx")
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    texts = [[f"w{draw.integers(400)}" for _ in range(draw.integers(1, LONGEST - 1))] for _ in range(200)]
    (folder / "texts.txt").write_text("".join(" ".join(words) + "\n" for words in texts))
    said = subprocess.run([EXAMPLES / "classify", folder, folder / "texts.txt"], stdout=subprocess.PIPE, text=True, check=True).stdout
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    worst, compared, other = 0.0, 0, 0
    for words, line in zip(texts, said.splitlines(), strict=True):
        ids = np.array([[2, *(WORDS.index(w) for w in words), 3]], dtype=np.int64)
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        rows = session.run(["logits"], feeds)[0][0][1:-1].astype(np.float64)
        parts = np.exp(rows - rows.max(axis=1, keepdims=True))
        parts /= parts.sum(axis=1, keepdims=True)
        ours = {start: (kind, score) for start, _, kind, score in json.loads(line)}
        at = 0
        for word, share in zip(words, parts, strict=True):
            score = 1.0 - share[0]
            if at in ours:
                kind, found = ours[at]
                worst = max(worst, abs(found - score))
                compared += 1
                likeliest = {"PER": "person"}.get(LABELS[1 + share[1:].argmax()][2:], LABELS[1 + share[1:].argmax()][2:].lower())
                other += likeliest != kind
            elif score > 0.02 + 1e-5:
                other += 1
            at += len(word) + 1
    print(f"{compared} words in {len(texts)} texts: scores within {worst:.1e} of onnxruntime's, {other} words found otherwise")
