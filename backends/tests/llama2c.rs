//! A model and tokenizer in llama2.c's first layout, made here, converted and compared.

use reticent_backends::checkpoint::Pretrained;
use reticent_backends::hugging_face::convert_llama2c;
use reticent_backends::oracle::exact_logits;
use std::path::{Path, PathBuf};

/// Heads are 4 wide: with 2, neighbours and halves would be the same pairs.
const WIDTH: usize = 16;
const INNER: usize = 6;
const LAYERS: usize = 2;
const HEADS: usize = 4;
const KEY_VALUE_HEADS: usize = 2;
const VOCABULARY: usize = 265;
const POSITIONS: usize = 12;

/// Values that follow no pattern of rows or columns.
fn values(count: usize, phase: f64) -> Vec<f32> {
    (0..count)
        .map(|i| (0.4 * (1.3 * i as f64 + phase).sin()) as f32)
        .collect()
}

/// The tensors in the file's order, each kind layer after layer, `[out, in]`.
struct Tensors {
    kinds: Vec<Vec<f32>>,
}

impl Tensors {
    fn new() -> Self {
        let key = KEY_VALUE_HEADS * WIDTH / HEADS;
        let sizes = [
            VOCABULARY * WIDTH,
            LAYERS * WIDTH,
            LAYERS * WIDTH * WIDTH,
            LAYERS * key * WIDTH,
            LAYERS * key * WIDTH,
            LAYERS * WIDTH * WIDTH,
            LAYERS * WIDTH,
            LAYERS * INNER * WIDTH,
            LAYERS * WIDTH * INNER,
            LAYERS * INNER * WIDTH,
            WIDTH,
        ];
        let kinds = sizes.iter().enumerate();
        Self {
            kinds: kinds.map(|(i, n)| values(*n, i as f64)).collect(),
        }
    }

    fn layer(&self, kind: usize, layer: usize) -> &[f32] {
        let length = self.kinds[kind].len() / LAYERS;
        &self.kinds[kind][layer * length..][..length]
    }
}

fn write(folder: &Path) -> (PathBuf, PathBuf, Tensors) {
    let tensors = Tensors::new();
    let header = [
        WIDTH,
        INNER,
        LAYERS,
        HEADS,
        KEY_VALUE_HEADS,
        VOCABULARY,
        POSITIONS,
    ];
    let mut bytes: Vec<u8> = header
        .iter()
        .flat_map(|n| (*n as i32).to_le_bytes())
        .collect();
    let floats = tensors.kinds.iter().flatten().copied();
    let rotary = vec![0.0f32; POSITIONS * WIDTH / HEADS];
    bytes.extend(floats.chain(rotary).flat_map(f32::to_le_bytes));
    let model = folder.join("model.bin");
    std::fs::write(&model, bytes).unwrap();
    let tokenizer = folder.join("tok.bin");
    std::fs::write(&tokenizer, pieces()).unwrap();
    (model, tokenizer, tensors)
}

/// 259 special pieces, then " ", "a", "b", "ab", " a", "ba"; the later, the worse the score.
fn pieces() -> Vec<u8> {
    let mut names: Vec<String> = vec!["<unk>".into(), "\n<s>\n".into(), "\n</s>\n".into()];
    names.extend((0..256).map(|b| format!("<0x{b:02X}>")));
    names.extend([" ", "a", "b", "ab", " a", "ba"].map(str::to_owned));
    let mut bytes = 7i32.to_le_bytes().to_vec();
    for (id, name) in names.iter().enumerate() {
        let score = if id < 259 { 0.0 } else { 259.0 - id as f32 };
        bytes.extend(score.to_le_bytes());
        bytes.extend((name.len() as i32).to_le_bytes());
        bytes.extend(name.bytes());
    }
    bytes
}

/// llama2.c's forward pass written down again from its description: neighbouring values of a
/// head are turned as pairs, keys and values are shared by heads / key-value heads.
fn logits(t: &Tensors, tokens: &[usize]) -> Vec<f64> {
    let head = WIDTH / HEADS;
    let times = |w: &[f32], x: &[f64]| -> Vec<f64> {
        w.chunks_exact(x.len())
            .map(|row| row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum())
            .collect()
    };
    let norm = |x: &[f64], gain: &[f32]| -> Vec<f64> {
        let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        let scale = (mean + 1e-5).sqrt().recip();
        x.iter()
            .zip(gain)
            .map(|(x, g)| x * scale * f64::from(*g))
            .collect()
    };
    let turn = |x: &mut [f64], position: usize| {
        for (i, pair) in x.chunks_exact_mut(2).enumerate() {
            let power = (2 * i % head) as f64 / head as f64;
            let (sine, cosine) = (position as f64 * 10_000f64.powf(-power)).sin_cos();
            let [a, b] = [pair[0], pair[1]];
            pair.copy_from_slice(&[a * cosine - b * sine, a * sine + b * cosine]);
        }
    };
    let (mut keys, mut all_values) = (vec![Vec::new(); LAYERS], vec![Vec::new(); LAYERS]);
    let mut out = Vec::new();
    for (position, token) in tokens.iter().enumerate() {
        let row = &t.kinds[0][token * WIDTH..][..WIDTH];
        let mut x: Vec<f64> = row.iter().map(|v| f64::from(*v)).collect();
        for l in 0..LAYERS {
            let y = norm(&x, t.layer(1, l));
            let [mut q, mut k, v] = [2, 3, 4].map(|kind| times(t.layer(kind, l), &y));
            turn(&mut q, position);
            turn(&mut k, position);
            keys[l].push(k);
            all_values[l].push(v);
            let mut joined = vec![0.0; WIDTH];
            for h in 0..HEADS {
                let at = h / (HEADS / KEY_VALUE_HEADS) * head;
                let score = |k: &Vec<f64>| -> f64 {
                    let dot: f64 = (0..head).map(|i| q[h * head + i] * k[at + i]).sum();
                    (dot / (head as f64).sqrt()).exp()
                };
                let weights: Vec<f64> = keys[l].iter().map(score).collect();
                let total: f64 = weights.iter().sum();
                for (w, v) in weights.iter().zip(&all_values[l]) {
                    (0..head).for_each(|i| joined[h * head + i] += w / total * v[at + i]);
                }
            }
            let y = times(t.layer(5, l), &joined);
            x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
            let y = norm(&x, t.layer(6, l));
            let (gate, up) = (times(t.layer(7, l), &y), times(t.layer(9, l), &y));
            let inner: Vec<f64> = gate
                .iter()
                .zip(up)
                .map(|(g, u)| g / (1.0 + (-g).exp()) * u)
                .collect();
            let y = times(t.layer(8, l), &inner);
            x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
        }
        out.extend(times(&t.kinds[0], &norm(&x, &t.kinds[10])));
    }
    out
}

#[test]
fn the_converted_model_computes_what_llama2c_does() {
    let home = tempfile::tempdir().unwrap();
    let (model, tokenizer, tensors) = write(home.path());
    let out = home.path().join("out");
    let config = convert_llama2c(&model, &tokenizer, &out).unwrap();
    assert_eq!(
        (config.key_value_heads, config.tied),
        (KEY_VALUE_HEADS, true)
    );
    let loaded = Pretrained::load(&out).unwrap();
    let tokens = [1u32, 261, 259, 264, 260];
    let ours = exact_logits(&loaded.model, loaded.weights)
        .unwrap()
        .logits(&tokens, &[])
        .unwrap();
    let expected = logits(&tensors, &tokens.map(|t| t as usize));
    for (a, b) in ours.iter().zip(&expected) {
        assert!((a - b).abs() < 1e-12, "{a} against {b}");
    }
}

/// Ids: blank 259, a 260, b 261, ab 262, " a" 263, ba 264. Of "▁abab" the pair a+b scores best
/// (262), then nothing joins: "▁", ab, ab. A character outside the vocabulary becomes its bytes + 3.
#[test]
fn the_converted_tokenizer_encodes_as_llama2c_does() {
    let home = tempfile::tempdir().unwrap();
    let (model, tokenizer, _) = write(home.path());
    let out = home.path().join("out");
    convert_llama2c(&model, &tokenizer, &out).unwrap();
    let loaded = Pretrained::load(&out).unwrap().tokenizer;
    assert_eq!(loaded.encode("abab").unwrap(), [259, 262, 262]);
    assert_eq!(loaded.encode("a ba").unwrap(), [263, 259, 264]);
    assert_eq!(loaded.encode("é").unwrap(), [259, 0xc3 + 3, 0xa9 + 3]);
    assert_eq!(loaded.decode(&[263, 259, 264]).unwrap(), "a ba");
    assert_eq!((loaded.bos(), loaded.eos()), (1, 2));
}

#[test]
fn broken_files_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let (model, tokenizer, _) = write(home.path());
    let out = home.path().join("out");
    let refused = |path: &Path, change: &dyn Fn(&mut Vec<u8>), words: &str| {
        let whole = std::fs::read(path).unwrap();
        let mut bytes = whole.clone();
        change(&mut bytes);
        std::fs::write(path, bytes).unwrap();
        let error = convert_llama2c(&model, &tokenizer, &out).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(words), "{text}");
        assert!(!out.exists());
        std::fs::write(path, whole).unwrap();
    };
    refused(&model, &|b| b.truncate(b.len() - 4), "truncated");
    refused(&model, &|b| b.extend([0; 4]), "4 bytes too many");
    refused(&model, &|b| b.truncate(9), "truncated");
    refused(&model, &|b| b[..4].fill(0xff), "width is -1");
    refused(
        &model,
        &|b| b[4..8].copy_from_slice(&i32::MAX.to_le_bytes()),
        "feed-forward width",
    );
    refused(
        &model,
        &|b| b[28..32].copy_from_slice(&f32::NAN.to_le_bytes()),
        "finite",
    );
    refused(&tokenizer, &|b| b.truncate(b.len() - 1), "truncated");
    refused(&tokenizer, &|b| b.push(0), "1 bytes left");
    refused(
        &tokenizer,
        &|b| b[8..12].copy_from_slice(&99i32.to_le_bytes()),
        "piece 0",
    );
}
