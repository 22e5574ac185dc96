//! Logits that transformers gave for weights made by a formula, for all architectures.
//!
//! Printed by `benches/hugging_face.py --golden` with torch 2.4.1 and transformers 4.46.3 in
//! double precision; those of Mistral, Qwen and Llama with biases with torch 2.15.0 and transformers
//! 5.23.0, those of the other decoders with 5.24.0. Every tensor of the file is filled by [`formula`], so this holds names,
//! orientation and arithmetic at once. Adapters are filled likewise; their logits are those that peft
//! 0.21.2 gave after `merge_and_unload`, with torch 2.15.0 and transformers 5.23.0 in double precision.

use reticent_backends::hugging_face::{load_adapted, load_hugging_face};
use reticent_backends::model::{
    Family, Head, Multipliers, Residual, Rotary, RotaryScaling, Switches, TransformerConfig,
};
use reticent_backends::oracle::{exact_logits, save_hugging_face};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use std::path::Path;

const TOKENS: [u32; 6] = [3, 9, 4, 4, 7, 10];
/// Llama and Gemma compute their norms in single precision whatever the weights.
const TOLERANCE: f64 = 2e-6;

fn base(family: Family) -> TransformerConfig {
    TransformerConfig {
        feed_forward: 20,
        ..TransformerConfig::new(family, 11, 8, 2, 4, 48)
    }
}

fn encoder(family: Family, head: Head) -> TransformerConfig {
    TransformerConfig {
        head,
        norm_epsilon: 1e-12,
        ..base(family)
    }
}

fn llama() -> TransformerConfig {
    TransformerConfig {
        key_value_heads: 2,
        rotary: Some(Rotary {
            scaling: Some(RotaryScaling::Llama3 {
                factor: 8.0,
                low: 1.0,
                high: 4.0,
                original: 32.0,
            }),
            ..Rotary::new(500.0)
        }),
        ..base(Family::Llama)
    }
}

fn gemma2() -> TransformerConfig {
    TransformerConfig {
        key_value_heads: 2,
        head_width: 4,
        query_scalar: Some(7.0),
        attention_cap: Some(2.0),
        logit_cap: Some(3.0),
        sliding_window: Some(4),
        ..base(Family::Gemma2)
    }
}

fn gpt2() -> TransformerConfig {
    TransformerConfig {
        feed_forward: 32,
        ..base(Family::Gpt2)
    }
}

/// 0.3 sin(0.7 i + phase(name)), and 1 more for the gains of a norm.
fn formula(name: &str, index: usize, gain: bool) -> f32 {
    let weighted = name
        .bytes()
        .enumerate()
        .map(|(i, b)| (i + 1) * usize::from(b));
    let phase = weighted.sum::<usize>() % 1000;
    let wave = 0.3 * (0.7 * index as f64 + 0.013 * phase as f64).sin();
    (f64::from(u8::from(gain)) + wave) as f32
}

/// Fills a saved model's file by the formula. RoBERTa's second name of the bias follows the first.
fn fill(folder: &Path, family: Family) {
    let gemma = [Family::Gemma, Family::Gemma2, Family::Gemma3].contains(&family);
    let path = folder.join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let filled: Vec<(String, Vec<usize>, Vec<u8>)> = file
        .iter()
        .map(|(name, view)| {
            let key = if name == "lm_head.decoder.bias" {
                "lm_head.bias"
            } else {
                name
            };
            let vector = view.shape().len() == 1;
            let gain = vector && name.ends_with(".weight") && !gemma;
            let count = view.shape().iter().product();
            let values = (0..count).flat_map(|i| formula(key, i, gain).to_le_bytes());
            (name.to_owned(), view.shape().to_vec(), values.collect())
        })
        .collect();
    let views = filled.iter().map(|(name, shape, raw)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), raw).unwrap();
        (name.as_str(), view)
    });
    std::fs::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
}

fn check(config: TransformerConfig, expected: &[f64]) {
    let home = tempfile::tempdir().unwrap();
    let config = saved(config, home.path());
    let (loaded, weights) = load_hugging_face(&home.path().join("model")).unwrap();
    assert_eq!(loaded, config, "the shape survives config.json");
    compare(loaded, weights, expected);
}

fn saved(config: TransformerConfig, home: &Path) -> TransformerConfig {
    let folder = home.join("model");
    let config = config.validated().unwrap();
    save_hugging_face(&folder, &config, &config.starting_weights(0), None).unwrap();
    fill(&folder, config.family);
    config
}

fn compare(config: TransformerConfig, weights: Vec<Vec<f32>>, expected: &[f64]) {
    let family = config.family;
    let mut model = exact_logits(&config.into(), weights).unwrap();
    let logits = model.logits(&TOKENS, &[]).unwrap();
    let last = &logits[logits.len() - expected.len()..];
    for (ours, theirs) in last.iter().zip(expected) {
        assert!(
            (ours - theirs).abs() < TOLERANCE,
            "{family:?}: {last:?}\nagainst {expected:?}"
        );
    }
}

/// A relative of Llama with wide heads, two of keys and values, and θ of its own.
fn relative(family: Family, theta: f64, head_width: usize) -> TransformerConfig {
    TransformerConfig {
        key_value_heads: 2,
        head_width,
        rotary: Some(Rotary::new(theta)),
        ..base(family)
    }
}

/// With biases around attention.
fn biased(mut config: TransformerConfig) -> TransformerConfig {
    config.switches.biases.attention_in = true;
    config.switches.biases.attention_out = true;
    config
}

#[test]
fn bert_for_classes_as_transformers() {
    let expected = [0.537861251, 0.728672921, 0.588011233];
    check(encoder(Family::Bert, Head::Classes(3)), &expected);
}

#[test]
fn roberta_for_classes_as_transformers() {
    let expected = [-0.344002849, -1.01227148];
    check(encoder(Family::Roberta, Head::Classes(2)), &expected);
}

/// Two heads, the shape of the script's other decoders.
fn other(family: Family) -> TransformerConfig {
    TransformerConfig {
        feed_forward: 20,
        key_value_heads: 1,
        ..TransformerConfig::new(family, 11, 8, 2, 2, 48)
    }
}

fn partly(mut config: TransformerConfig) -> TransformerConfig {
    config.rotary = config.rotary.map(|rotary| Rotary {
        width: Some(2),
        ..rotary
    });
    config
}

/// The class is predicted from the token before the padding, which ends [`TOKENS`]; no cap of logits plays a part.
#[test]
fn decoders_for_classes_as_transformers() {
    let with_classes = |config: TransformerConfig| TransformerConfig {
        head: Head::Classes(3),
        class_names: ["hotel", "taxi", "train"].map(str::to_owned).to_vec(),
        padding: Some(10),
        ..config
    };
    let opt = models().into_iter().find(|(name, _)| *name == "opt");
    for (config, expected) in [
        (gpt2(), [-1.13883946, -0.288460735, 0.691398875]),
        (llama(), [0.0400041102, 0.144769376, 0.184552224]),
        (gemma2(), [-0.463477613, 0.125727086, 0.658496816]),
        (opt.unwrap().1, [1.38632627, 1.48141264, 0.911539799]),
    ] {
        check(with_classes(config), &expected);
    }
}

/// The models that give logits over the vocabulary, by the names of the script.
fn models() -> Vec<(&'static str, TransformerConfig)> {
    let gemma = TransformerConfig {
        head_width: 8,
        ..other(Family::Gemma)
    };
    let gemma3 = TransformerConfig {
        query_scalar: Some(7.0),
        sliding_window: Some(4),
        switches: Switches {
            sliding_layers: Some(vec![0]),
            ..other(Family::Gemma3).switches
        },
        ..other(Family::Gemma3)
    };
    let windowed = |family| TransformerConfig {
        sliding_window: Some(4),
        ..other(family)
    };
    let classic = |family| TransformerConfig {
        feed_forward: 32,
        heads: 2,
        head_width: 4,
        ..base(family)
    };
    let neox = || TransformerConfig {
        key_value_heads: 2,
        ..other(Family::GptNeox)
    };
    let mut in_turn = neox();
    in_turn.switches.residual = Residual::InTurn;
    in_turn.switches.biases.attention_in = false;
    in_turn.switches.biases.attention_out = false;
    let mut opt = classic(Family::Opt);
    (opt.key_value_heads, opt.feed_forward, opt.positions) = (2, 20, 50);
    let neo = TransformerConfig {
        sliding_window: Some(4),
        key_value_heads: 2,
        ..classic(Family::GptNeo)
    };
    let mut granite = biased(other(Family::Granite));
    granite.switches.biases.feed_forward = true;
    granite.switches.multipliers = Multipliers {
        embedding: 12.0,
        attention: Some(0.3),
        residual: 0.22,
        logits: 8.0,
    };
    let mut smollm3 = other(Family::Smollm3);
    smollm3.tied = false;
    smollm3.switches.unturned_layers = vec![1];
    let mut stablelm = other(Family::Stablelm);
    stablelm.switches.biases.attention_in = true;
    let mut parallel = other(Family::Stablelm);
    parallel.switches.residual = Residual::ParallelOneNorm;
    let starcoder2 = TransformerConfig {
        tied: false,
        ..windowed(Family::Starcoder2)
    };
    let apart = TransformerConfig {
        key_value_heads: 2,
        ..classic(Family::GptBigcode)
    };
    let mut llama_with_biases = biased(relative(Family::Llama, 10_000.0, 2));
    llama_with_biases.switches.biases.feed_forward = true;
    let mistral = TransformerConfig {
        sliding_window: Some(4),
        ..relative(Family::Mistral, 10_000.0, 4)
    };
    let qwen3_with_biases = biased(relative(Family::Qwen3, 10_000.0, 4));
    vec![
        ("gpt2", gpt2()),
        ("llama", llama()),
        ("gemma2", gemma2()),
        ("llama with biases", llama_with_biases),
        ("mistral", mistral),
        ("qwen2", relative(Family::Qwen2, 1e6, 2)),
        ("qwen3", relative(Family::Qwen3, 1e6, 4)),
        ("qwen3 with biases", qwen3_with_biases),
        ("bert", encoder(Family::Bert, Head::MaskedToken)),
        ("roberta", encoder(Family::Roberta, Head::MaskedToken)),
        ("gemma", gemma),
        ("gemma3", gemma3),
        ("phi", other(Family::Phi)),
        ("phi3", other(Family::Phi3)),
        ("phi3-partly", partly(windowed(Family::Phi3))),
        ("gpt_neox", neox()),
        ("gpt_neox-in-turn", in_turn),
        ("gpt_neo", neo),
        ("opt", opt),
        ("olmo2", biased(other(Family::Olmo2))),
        ("granite", granite),
        ("smollm3", smollm3),
        ("stablelm", stablelm),
        ("stablelm-parallel", parallel),
        ("starcoder2", starcoder2),
        ("gpt_bigcode", classic(Family::GptBigcode)),
        ("gpt_bigcode-apart", apart),
    ]
}

#[test]
fn models_as_transformers() {
    let expected = golden();
    let models = models();
    assert_eq!(expected.len(), models.len());
    for ((name, config), (theirs, expected)) in models.into_iter().zip(expected) {
        assert_eq!(name, theirs);
        check(config, &expected);
    }
}

/// Logits over the vocabulary after the last token, by the names of the script.
#[rustfmt::skip]
fn golden() -> [(&'static str, [f64; 11]); 27] {
    [
        ("gpt2", [1.54071008, 1.19319958, 0.310099678, -0.712194135, -1.41480659, -1.48235733, -0.884524917,
            0.110342649, 1.05568088, 1.52715753, 1.31314162]),
        ("llama", [0.591582549, 0.488198642, 0.165677874, -0.231210456, -0.524315693, -0.582072312, -0.37855518,
            -0.00511659971, 0.370618639, 0.579994946, 0.529029979]),
        ("gemma2", [0.924680435, 0.0613469812, -0.837730445, -1.30345371, -1.22860753, -0.619215178, 0.329343684,
            1.08913243, 1.33826471, 1.04581429, 0.253137974]),
        ("llama with biases", [-0.629831751, -0.279342083, 0.196535378, 0.584194372, 0.709627, 0.516530648,
            0.091580107, -0.374477871, -0.672444613, -0.668572331, -0.364599192]),
        ("mistral", [0.149982915, -0.115577489, -0.329258795, -0.395146277, -0.283665191, -0.044855801, 0.21408797,
            0.376934413, 0.370587002, 0.197894833, -0.0636260744]),
        ("qwen2", [0.101196356, 0.323046441, 0.399891274, 0.297237624, 0.0611633864, -0.202365138, -0.375058369,
            -0.379399819, -0.213440721, 0.0483251149, 0.288399317]),
        ("qwen3", [-0.339558402, -0.453857614, -0.364434552, -0.111428369, 0.191594409, 0.408616579, 0.442223778,
            0.277330711, -0.0120472721, -0.29601763, -0.447115118]),
        ("qwen3 with biases", [-0.579517315, -0.896888353, -0.811674696, -0.362126021, 0.24996947, 0.749861646,
            0.913164786, 0.666577186, 0.12078429, -0.479224846, -0.864125205]),
        ("bert", [-0.158698381, -1.09133956, -1.53236336, -1.28023083, -0.447044289, 0.591267678, 1.36460388,
            1.52160226, 0.989347315, 0.00724905721, -0.98065473]),
        ("roberta", [1.747569, 1.84567785, 1.10894832, -0.12985213, -1.31057053, -1.89902885, -1.62877079,
            -0.621754751, 0.666694175, 1.65382082, 1.89309495]),
        ("gemma", [0.233469749, -0.0710064787, -0.343610128, -0.461978146, -0.372978779, -0.116561159,
            0.192177108, 0.414653181, 0.451004545, 0.284914387, -0.00906484927]),
        ("gemma3", [0.501018503, 1.24842419, 1.43545193, 0.97815085, 0.0817889104, -0.851285404,
            -1.40224484, -1.32378103, -0.651113975, 0.313817497, 1.13788618]),
        ("phi", [0.846895901, 1.07029694, 0.806903462, 0.17701737, -0.532530615, -0.999055929,
            -1.01083416, -0.563226531, 0.139542496, 0.777610933, 1.06112963]),
        ("phi3", [0.207724496, 0.0913547595, -0.0660211789, -0.193762316, -0.234529723, -0.170024196,
            -0.029200197, 0.124730849, 0.222674191, 0.220666137, 0.119608069]),
        ("phi3-partly", [-0.670105659, -0.754113715, -0.499624036, -0.0208689943, 0.467253433, 0.745640656,
            0.689333493, 0.32360639, -0.187377327, -0.614253333, -0.765410519]),
        ("gpt_neox", [0.0326481514, 0.345080574, 0.502617271, 0.434545016, 0.171419311, -0.168651079,
            -0.433019374, -0.503018968, -0.347229369, -0.0355795393, 0.292040845]),
        ("gpt_neox-in-turn", [-0.797127408, -0.657364466, -0.222531504, 0.312188797, 0.706777451, 0.784116168,
            0.509489996, 0.00616994501, -0.499919548, -0.781611049, -0.712462228]),
        ("gpt_neo", [-0.381194348, 0.197455907, 0.687474467, 0.868907561, 0.660315649, 0.155329019,
            -0.419379828, -0.805842468, -0.830588003, -0.482508964, 0.0821530707]),
        ("opt", [-0.0254905556, -0.856134063, -1.30248616, -1.16419362, -0.503331525, 0.383460077,
            1.09812868, 1.31988212, 0.949182492, 0.152424915, -0.712751391]),
        ("olmo2", [0.0236836418, -0.770913842, -1.21947261, -1.12064886, -0.51880137, 0.315919561,
            1.00883424, 1.24891526, 0.928397888, 0.191152198, -0.631895621]),
        ("granite", [0.160616457, 0.0569002274, -0.0723567087, -0.169135016, -0.189993982, -0.125570688,
            -0.00478269807, 0.118152092, 0.188052163, 0.173541591, 0.081133706]),
        ("smollm3", [1.13921306, 0.837171161, 0.159349726, -0.589998757, -1.07451549, -1.07671639,
            -0.595613513, 0.152841392, 0.832690645, 1.13877151, 0.933694024]),
        ("stablelm", [1.34719115, 0.742835507, -0.194955401, -1.04523703, -1.42634491, -1.16721191,
            -0.384154546, 0.571337611, 1.27037447, 1.39918057, 0.899938943]),
        ("stablelm-parallel", [0.950483665, 0.390627899, -0.344568334, -0.925098803, -1.09038173, -0.766226982,
            -0.098137277, 0.614003159, 1.05053707, 1.01551827, 0.524665575]),
        ("starcoder2", [0.893359973, 0.467430003, -0.168314411, -0.728507834, -0.961697244, -0.763211329,
            -0.222144061, 0.418636612, 0.871504631, 0.933181879, 0.575983391]),
        ("gpt_bigcode", [-0.692378633, -0.219232151, 0.352320731, 0.765727987, 0.835424263, 0.530125109,
            -0.013130333, -0.550492005, -0.840755298, -0.753630239, -0.328224447]),
        ("gpt_bigcode-apart", [-0.63891626, -0.330447849, 0.126348164, 0.526430461, 0.690214835, 0.544183678,
            0.153885773, -0.305486561, -0.627735684, -0.668214193, -0.408752532]),
    ]
}

/// An adapter of both layers' modules, each with its inputs and outputs.
struct Adapter {
    config: serde_json::Value,
    rank: usize,
    modules: &'static [(&'static str, usize, usize)],
    /// The head's, whose own weight peft saves beside its change.
    head: bool,
}

impl Adapter {
    fn write(&self, folder: &Path, layers: &str) {
        let mut tensors: Vec<(String, Vec<usize>)> = Vec::new();
        let mut pair = |module: &str, inputs, outputs| {
            let named = |half: &str| format!("base_model.model.{module}.{half}.weight");
            tensors.push((named("lora_A"), vec![self.rank, inputs]));
            tensors.push((named("lora_B"), vec![outputs, self.rank]));
        };
        for layer in 0..2 {
            for (module, inputs, outputs) in self.modules {
                pair(&format!("{layers}.{layer}.{module}"), *inputs, *outputs);
            }
        }
        let base = "base_model.model.lm_head.base_layer.weight";
        if self.head {
            pair("lm_head", 8, 11);
            tensors.push((base.to_owned(), vec![11, 8]));
        }
        let raw: Vec<Vec<u8>> = tensors
            .iter()
            .map(|(name, shape)| {
                let key = if name == base { "lm_head.weight" } else { name };
                let count = shape.iter().product();
                let values = (0..count).flat_map(|i| formula(key, i, false).to_le_bytes());
                values.collect()
            })
            .collect();
        let views = tensors.iter().zip(&raw).map(|((name, shape), raw)| {
            let view = TensorView::new(Dtype::F32, shape.clone(), raw).unwrap();
            (name.as_str(), view)
        });
        std::fs::create_dir(folder).unwrap();
        let bytes = safetensors::serialize(views, None).unwrap();
        std::fs::write(folder.join("adapter_model.safetensors"), bytes).unwrap();
        let ends = self.modules.iter().map(|(module, ..)| *module);
        let mut config = self.config.clone();
        config["target_modules"] = ends.chain(self.head.then_some("lm_head")).collect();
        std::fs::write(folder.join("adapter_config.json"), config.to_string()).unwrap();
    }

    fn check(&self, config: TransformerConfig, layers: &str, expected: &[f64]) {
        let home = tempfile::tempdir().unwrap();
        saved(config, home.path());
        let adapter = home.path().join("adapter");
        self.write(&adapter, layers);
        let (config, weights) = load_adapted(&home.path().join("model"), &adapter).unwrap();
        compare(config, weights, expected);
    }
}

/// What peft 0.21.2 writes, but for the modules and keys that are null.
fn lora(rank: usize, alpha: u32, rank_stabilised: bool, fan_in_fan_out: bool) -> serde_json::Value {
    serde_json::json!({
        "alpha_pattern": {}, "base_model_name_or_path": null, "bias": "none", "ensure_weight_tying": false,
        "fan_in_fan_out": fan_in_fan_out, "inference_mode": true, "init_lora_weights": true, "loftq_config": {},
        "lora_alpha": alpha, "lora_bias": false, "lora_dropout": 0.0, "megatron_core": "megatron.core",
        "modules_to_save": null, "peft_type": "LORA", "peft_version": "0.21.2", "qalora_group_size": 16,
        "r": rank, "rank_pattern": {}, "task_type": "CAUSAL_LM",
        "use_dora": false, "use_qalora": false, "use_rslora": rank_stabilised,
    })
}

const GPT2_MODULES: &[(&str, usize, usize)] = &[
    ("attn.c_attn", 8, 24),
    ("attn.c_proj", 8, 8),
    ("mlp.c_fc", 8, 32),
    ("mlp.c_proj", 32, 8),
];

const LLAMA_MODULES: &[(&str, usize, usize)] = &[
    ("self_attn.q_proj", 8, 8),
    ("self_attn.k_proj", 8, 4),
    ("self_attn.v_proj", 8, 4),
    ("self_attn.o_proj", 8, 8),
    ("mlp.gate_proj", 8, 20),
    ("mlp.up_proj", 8, 20),
    ("mlp.down_proj", 20, 8),
];

const GEMMA2_MODULES: &[(&str, usize, usize)] = &[
    ("self_attn.q_proj", 8, 16),
    ("self_attn.k_proj", 8, 8),
    ("self_attn.v_proj", 8, 8),
    ("self_attn.o_proj", 16, 8),
    ("mlp.gate_proj", 8, 20),
    ("mlp.up_proj", 8, 20),
    ("mlp.down_proj", 20, 8),
];

#[test]
fn gpt2_adapted_as_peft() {
    #[rustfmt::skip]
    let expected = [
        -0.362312923, -0.491776023, -0.400496456, -0.129446801, 0.199707433, 0.439219329,
        0.481579646, 0.30777411, -0.00418143898, -0.314260079, -0.483277336,
    ];
    // peft turns the flag by the layer's kind, whatever was asked
    for fan_in_fan_out in [true, false] {
        let adapter = Adapter {
            config: lora(2, 6, false, fan_in_fan_out),
            rank: 2,
            modules: GPT2_MODULES,
            head: false,
        };
        adapter.check(gpt2(), "transformer.h", &expected);
    }
}

#[test]
fn gpt2_adapted_by_a_stabilised_rank_as_peft() {
    #[rustfmt::skip]
    let expected = [
        1.56827904, 1.28145151, 0.419421071, -0.630874173, -1.39799, -1.53759256, -0.987018612,
        0.00659664895, 0.997250857, 1.54027087, 1.39191216,
    ];
    let adapter = Adapter {
        config: lora(3, 2, true, true),
        rank: 3,
        modules: &GPT2_MODULES[..1],
        head: false,
    };
    adapter.check(gpt2(), "transformer.h", &expected);
}

#[test]
fn llama_adapted_as_peft() {
    #[rustfmt::skip]
    let expected = [
        -0.363437516, -0.0168159371, -0.275709749, -0.544185668, -0.00065714428, 0.86949908,
        0.892559699, 0.0333621342, -0.547723458, -0.301706532, -0.0157646178,
    ];
    let adapter = Adapter {
        config: lora(2, 5, false, false),
        rank: 2,
        modules: LLAMA_MODULES,
        head: true,
    };
    adapter.check(llama(), "model.layers", &expected);
}

#[test]
fn llama_adapted_by_a_stabilised_rank_as_peft() {
    #[rustfmt::skip]
    let expected = [
        0.434154343, 0.333513243, 0.0831686238, -0.20450777, -0.400387053, -0.416545341,
        -0.245729679, 0.0353862738, 0.300618428, 0.430912532, 0.367783719,
    ];
    let adapter = Adapter {
        config: lora(3, 2, true, false),
        rank: 3,
        modules: &[
            ("self_attn.k_proj", 8, 4),
            ("self_attn.v_proj", 8, 4),
            ("mlp.up_proj", 8, 20),
        ],
        head: false,
    };
    adapter.check(llama(), "model.layers", &expected);
}

#[test]
fn gemma2_adapted_as_peft() {
    #[rustfmt::skip]
    let expected = [
        0.435783484, 0.509686725, 0.357734326, 0.0428654387, -0.292022454, -0.492767675,
        -0.47437112, -0.244224164, 0.0986854178, 0.395578375, 0.513365932,
    ];
    let adapter = Adapter {
        config: lora(2, 5, false, false),
        rank: 2,
        modules: GEMMA2_MODULES,
        head: false,
    };
    adapter.check(gemma2(), "model.layers", &expected);
}
