//! A token classifier small enough to know by heart, as the bytes of its three files.
//!
//! Each word has a row of logits; `attention_mask` multiplies it, `token_type_ids` adds a row
//! that is zero for type 0. Positions are cut out of a table of as many rows as the model can
//! read, as exports of BERT do: a longer window fails.

use serde_json::{Value, json};

/// What the model says.
pub(crate) const LABELS: [&str; 5] = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"];
/// Rows of the table of positions.
pub(crate) const LONGEST: usize = 12;

/// Words with their logits; the first four are special.
pub(crate) const WORDS: [(&str, [f32; 5]); 16] = [
    ("[PAD]", [9.0, 0.0, 0.0, 0.0, 0.0]),
    ("[UNK]", [9.0, 0.0, 0.0, 0.0, 0.0]),
    ("[CLS]", [9.0, 0.0, 0.0, 0.0, 0.0]),
    ("[SEP]", [9.0, 0.0, 0.0, 0.0, 0.0]),
    ("met", [8.0, 0.0, 0.0, 0.0, 0.0]),
    ("in", [8.0, 0.0, 0.0, 0.0, 0.0]),
    (".", [8.0, 0.0, 0.0, 0.0, 0.0]),
    ("Ada", [0.0, 6.0, 1.0, 0.0, 0.0]),
    ("King", [0.0, 1.0, 4.0, 0.0, 0.0]),
    ("Bob", [0.0, 5.0, 0.0, 0.0, 0.0]),
    ("Paris", [1.0, 0.0, 0.0, 3.0, 0.0]),
    // Unsure: an eighth of a name.
    ("Rose", [2.0, 0.0, -9.0, -9.0, -9.0]),
    // Pieces: the second alone is plain.
    ("Lon", [0.0, 0.0, 0.0, 4.0, 0.0]),
    ("##don", [3.0, 0.0, 0.0, 0.0, 0.0]),
    ("caf\u{e9}", [8.0, 0.0, 0.0, 0.0, 0.0]),
    ("\u{fffc}", [8.0, 0.0, 0.0, 0.0, 0.0]),
];

/// A message of protocol buffers.
#[derive(Default, Clone)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    #[must_use]
    pub(crate) fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    #[must_use]
    pub(crate) fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    #[must_use]
    pub(crate) fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    #[must_use]
    pub(crate) fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }
}

const FLOAT: u64 = 1;
const INT64: u64 = 7;

/// A tensor with its name (`TensorProto`).
pub(crate) fn tensor(name: &str, shape: &[usize], kind: u64, data: &[u8]) -> Message {
    let out = shape
        .iter()
        .fold(Message::default(), |m, d| m.number(1, *d as u64));
    out.number(2, kind).text(8, name).bytes(9, data)
}

pub(crate) fn floats(name: &str, shape: &[usize], values: &[f32]) -> Message {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    tensor(name, shape, FLOAT, &bytes)
}

pub(crate) fn integers(name: &str, shape: &[usize], values: &[i64]) -> Message {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    tensor(name, shape, INT64, &bytes)
}

/// An operator (`NodeProto`).
pub(crate) fn node(operator: &str, inputs: &[&str], output: &str) -> Message {
    let out = inputs
        .iter()
        .fold(Message::default(), |m, input| m.text(1, input));
    out.text(2, output).text(4, operator)
}

/// The same with a whole number as an attribute.
fn with(node: Message, name: &str, value: u64) -> Message {
    let attribute = Message::default()
        .text(1, name)
        .number(3, value)
        .number(20, 2);
    node.message(5, &attribute)
}

/// An input or output (`ValueInfoProto`), its length unknown.
pub(crate) fn value(name: &str, kind: u64, rank: usize) -> Message {
    let free = Message::default().text(2, "n");
    let shape = (0..rank).fold(Message::default(), |m, _| m.message(1, &free));
    let of = Message::default().number(1, kind).message(2, &shape);
    Message::default()
        .text(1, name)
        .message(2, &Message::default().message(1, &of))
}

/// A graph of nodes, tensors, inputs and outputs as a model of opset 14.
pub(crate) fn model(
    nodes: &[Message],
    tensors: &[Message],
    inputs: &[Message],
    outputs: &[Message],
) -> Vec<u8> {
    let mut graph = Message::default();
    for (field, all) in [(1, nodes), (5, tensors), (11, inputs), (12, outputs)] {
        graph = all.iter().fold(graph, |g, one| g.message(field, one));
        if field == 1 {
            graph = graph.text(2, "tiny");
        }
    }
    let opset = Message::default().text(1, "").number(2, 14);
    let model = Message::default().number(1, 8).message(7, &graph);
    model.message(8, &opset).0
}

/// The classifier's graph over a table of logits, row by row.
pub(crate) fn classifier(table: &[[f32; 5]]) -> Vec<u8> {
    let flat: Vec<f32> = table.iter().flatten().copied().collect();
    let one = |at: usize| -> Vec<f32> { (0..5).map(|i| f32::from(u8::from(i == at))).collect() };
    let identity: Vec<f32> = (0..5).flat_map(one).collect();
    let nodes = [
        node("Gather", &["words", "input_ids"], "of_words"),
        node("Gather", &["types", "token_type_ids"], "of_types"),
        node("Shape", &["input_ids"], "shape"),
        node("Gather", &["shape", "second"], "length"),
        node(
            "Slice",
            &["positions", "start", "length", "axis"],
            "of_positions",
        ),
        node("Add", &["of_words", "of_types"], "sum"),
        node("Add", &["sum", "of_positions"], "embedded"),
        with(node("Cast", &["attention_mask"], "mask"), "to", FLOAT),
        node("Unsqueeze", &["mask", "last"], "wide"),
        node("Mul", &["embedded", "wide"], "seen"),
        node("MatMul", &["seen", "identity"], "product"),
        node("Add", &["product", "bias"], "logits"),
    ];
    let tensors = [
        floats("words", &[table.len(), 5], &flat),
        floats(
            "types",
            &[2, 5],
            &[0.0, 0.0, 0.0, 0.0, 0.0, -99.0, 99.0, 0.0, 0.0, 0.0],
        ),
        integers("second", &[1], &[1]),
        integers("start", &[1], &[0]),
        integers("axis", &[1], &[0]),
        floats("positions", &[LONGEST, 5], &[0.0; LONGEST * 5]),
        integers("last", &[1], &[2]),
        floats("identity", &[5, 5], &identity),
        floats("bias", &[5], &[0.0; 5]),
    ];
    let inputs = ["input_ids", "attention_mask", "token_type_ids"].map(|n| value(n, INT64, 2));
    model(&nodes, &tensors, &inputs, &[value("logits", FLOAT, 3)])
}

pub(crate) fn table() -> Vec<[f32; 5]> {
    WORDS.iter().map(|(_, logits)| *logits).collect()
}

/// `config.json` of these labels.
pub(crate) fn config(labels: &[&str]) -> Vec<u8> {
    let names: serde_json::Map<String, Value> = (0..)
        .map(|i: usize| i.to_string())
        .zip(labels.iter().map(|l| json!(l)))
        .collect();
    json!({"model_type": "bert", "max_position_embeddings": LONGEST, "id2label": names})
        .to_string()
        .into_bytes()
}

/// `tokenizer.json`: word pieces, as BERT's.
pub(crate) fn tokenizer() -> Vec<u8> {
    let vocabulary: serde_json::Map<String, Value> = WORDS
        .iter()
        .enumerate()
        .map(|(id, (word, _))| ((*word).to_owned(), json!(id)))
        .collect();
    let added: Vec<Value> = WORDS[..4]
        .iter()
        .enumerate()
        .map(|(id, (word, _))| {
            json!({"id": id, "content": word, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": true})
        })
        .collect();
    let special = |name: &str| json!({"SpecialToken": {"id": name, "type_id": 0}});
    let sequence = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
    json!({
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0},
        "padding": null,
        "added_tokens": added,
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": false, "lowercase": false},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing",
            "single": [special("[CLS]"), sequence("A"), special("[SEP]")],
            "pair": [special("[CLS]"), sequence("A"), special("[SEP]"), sequence("B"), special("[SEP]")],
            "special_tokens": {
                "[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocabulary}
    })
    .to_string()
    .into_bytes()
}
