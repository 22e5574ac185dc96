//! Adapters on every kind of decoder: against the exact engine, against the model they merge to, and the base as it was.

use super::*;
use crate::model::LoraSpec;
use crate::trainer::optimizer::{Optimizer, OptimizerSpec};

fn lora(config: &TransformerConfig, targets: &[&str]) -> Lora {
    let spec = LoraSpec {
        rank: 3,
        alpha: 4.0,
        targets: targets.iter().map(|t| (*t).to_owned()).collect(),
    };
    Lora::of(&config.clone().into(), "the base".into(), spec).unwrap()
}

/// On every linear layer.
fn everywhere(config: &TransformerConfig) -> Lora {
    lora(config, &["all-linear"])
}

/// A and B far from their start.
fn pairs(lora: &Lora) -> Vec<Vec<f32>> {
    let mut rng = ChaCha20Rng::seed_from_u64(29);
    let mut moved = lora.starting_weights(5);
    for w in moved.iter_mut().flatten() {
        *w += 0.5 * (rng.random::<f32>() - 0.5);
    }
    moved
}

fn adapted<T: Trainer>(mut model: T, config: &TransformerConfig) -> T {
    let lora = everywhere(config);
    model.adapt(lora.clone(), pairs(&lora)).unwrap();
    model
}

fn exact_adapted(config: &TransformerConfig) -> Box<dyn Trainer> {
    let (mut model, lora) = (exact(config), everywhere(config));
    model.adapt(lora.clone(), pairs(&lora)).unwrap();
    model
}

/// W + s·A·B.
fn merged(config: &TransformerConfig, lora: &Lora, pairs: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let (mut merged, rank) = (weights(config), lora.spec().rank);
    for (module, pair) in lora.modules().iter().zip(pairs.chunks_exact(2)) {
        let width = config.parameters()[module.weight].shape[1];
        for input in 0..module.inputs {
            for column in 0..module.columns {
                let product = (0..rank).map(|k| {
                    let (a, b) = (
                        pair[0][input * rank + k],
                        pair[1][k * module.columns + column],
                    );
                    f64::from(a) * f64::from(b)
                });
                let w = &mut merged[module.weight][input * width + module.offset + column];
                *w = (f64::from(*w) + lora.scale() * product.sum::<f64>()) as f32;
            }
        }
    }
    merged
}

#[test]
fn adapters_have_the_norms_of_the_exact_engine() {
    let all = sequences();
    for (name, config) in decoders() {
        let engines = [
            ("fast", norms(&adapted(fast(&config), &config), &all)),
            ("portable", norms(&adapted(slow(&config), &config), &all)),
        ];
        let mut exact = exact_adapted(&config);
        let parameters = exact.parameters().to_vec();
        assert_eq!(parameters.len() % 2, 0);
        for (i, s) in all.iter().enumerate() {
            let want = sum(&mut *exact, std::slice::from_ref(s), 1e9);
            let whole: f64 = want.iter().map(|p| square(p)).sum();
            for (p, parameter) in parameters.iter().enumerate() {
                let want = square(&want[p]);
                for (engine, found) in &engines {
                    let got = found.squared[p][i];
                    // two products one after the other round twice
                    assert!(
                        (got - want).abs() <= 1e-5 * want + 1e-9 * whole,
                        "{name}, {engine}, {}, example {i}: {got} against {want}",
                        parameter.name
                    );
                }
            }
        }
    }
}

#[test]
fn adapters_have_the_clipped_sums_and_public_gradients_of_the_exact_engine() {
    let all = sequences();
    for (name, config) in decoders() {
        let mut exact = exact_adapted(&config);
        let mut sorted = norms(&adapted(fast(&config), &config), &all).flat();
        sorted.sort_by(f64::total_cmp);
        let (public, mean) = exact
            .public_gradient(&PublicBatch::in_order(views(&all)))
            .unwrap();
        let engines: [(&str, Box<dyn Trainer>); 2] = [
            ("fast", Box::new(adapted(fast(&config), &config))),
            ("portable", Box::new(adapted(slow(&config), &config))),
        ];
        for (engine, mut model) in engines {
            for clip in [sorted[4].sqrt(), sorted[0].sqrt() * 0.1, 1e9] {
                let want = sum(&mut *exact, &all, clip);
                let got = sum(&mut *model, &all, clip);
                let error = distance(&got, &want) / norm(&want);
                assert!(error < 4e-6, "{name}, {engine} at C = {clip}: {error}");
            }
            let (got, loss) = model
                .public_gradient(&PublicBatch::in_order(views(&all)))
                .unwrap();
            assert!((loss - mean).abs() < 2e-6, "{name}: {loss} against {mean}");
            let error = distance(&got, &public) / norm(&public);
            assert!(error < 3e-6, "{name}, {engine}: {error}");
        }
    }
}

/// Independent of any engine's rule for adapters: with W' = W + s·A·B and G the gradient of W' in the merged model,
/// that of A is s·G·Bᵀ and that of B is s·Aᵀ·G.
#[test]
fn gradients_follow_from_those_of_the_merged_model() {
    let all = sequences();
    for (name, config) in decoders() {
        let (lora, rank) = (everywhere(&config), 3);
        let pairs = pairs(&lora);
        let whole = merged(&config, &lora, &pairs);
        let mut model = crate::oracle::exact(&config.clone().into(), whole).unwrap();
        let mut exact = exact_adapted(&config);
        let record = std::slice::from_ref(&all[4]);
        let full = sum(&mut *model, record, 1e9);
        let got = sum(&mut *exact, record, 1e9);
        for (k, module) in lora.modules().iter().enumerate() {
            let width = config.parameters()[module.weight].shape[1];
            let g = |i: usize, c: usize| full[module.weight][i * width + module.offset + c];
            let (a, b) = (&pairs[2 * k], &pairs[2 * k + 1]);
            let (mut d_a, mut d_b) = (vec![0.0; a.len()], vec![0.0; b.len()]);
            let scale = lora.scale() as f32;
            for i in 0..module.inputs {
                for c in 0..module.columns {
                    for r in 0..rank {
                        d_a[i * rank + r] += scale * g(i, c) * b[r * module.columns + c];
                        d_b[r * module.columns + c] += scale * g(i, c) * a[i * rank + r];
                    }
                }
            }
            let (want, got) = ([d_a, d_b], &got[2 * k..2 * k + 2]);
            let error = distance(got, &want) / (norm(&want) + 1e-3 * norm(&full));
            assert!(error < 2e-4, "{name}, {}: {error}", module.name);
        }
    }
}

#[test]
fn scores_are_those_of_the_merged_model() {
    let all = sequences();
    for (name, config) in decoders() {
        let lora = everywhere(&config);
        let whole = merged(&config, &lora, &pairs(&lora));
        let mut merged = Fast::new(config.clone(), whole, Default::default()).unwrap();
        let want = merged.score(&all).unwrap();
        for mut model in [
            Box::new(adapted(fast(&config), &config)) as Box<dyn Trainer>,
            Box::new(adapted(slow(&config), &config)),
            exact_adapted(&config),
        ] {
            let got = model.score(&all).unwrap();
            for (got, want) in got.iter().flatten().zip(want.iter().flatten()) {
                let error = (got.log_probability - want.log_probability).abs();
                assert!(error < 1e-4, "{name}: {error}");
            }
        }
    }
}

/// B starts at zero: the model is the base, bit by bit, and the first gradient moves B alone.
#[test]
fn a_fresh_adapter_changes_nothing_and_the_base_never_moves() {
    let all = sequences();
    for (name, config) in decoders() {
        let mut base = fast(&config);
        let before = base.score(&all).unwrap();
        let frozen: Vec<Vec<f32>> = base.weights().to_vec();
        let lora = everywhere(&config);
        let mut model = fast(&config);
        model.adapt(lora.clone(), lora.starting_weights(7)).unwrap();
        assert_eq!(model.parameters().len(), 2 * lora.modules().len());
        assert_eq!(model.score(&all).unwrap(), before, "{name}");
        let lengths: Vec<usize> = model.parameters().iter().map(Parameter::len).collect();
        let spec = OptimizerSpec::AdamW {
            learning_rate: 0.1,
            weight_decay: 0.1,
        };
        let mut optimizer = Optimizer::new(spec, &lengths);
        let start = model.weights().to_vec();
        for step in 0..3 {
            let batch = PublicBatch::in_order(views(&all));
            let (gradient, _) = model.public_gradient(&batch).unwrap();
            if step == 0 {
                let halves = gradient.chunks_exact(2);
                for (pair, module) in halves.zip(lora.modules()) {
                    assert!(pair[0].iter().all(|d| *d == 0.0), "{name} {}", module.name);
                    assert!(pair[1].iter().any(|d| *d != 0.0), "{name} {}", module.name);
                }
            }
            model.apply_public(gradient, &mut optimizer).unwrap();
        }
        assert_ne!(model.weights(), start);
        for (kept, frozen) in model.weights.iter().zip(&frozen) {
            let kept = crate::engine::portable::host(kept.clone());
            assert!(
                kept.iter()
                    .zip(frozen)
                    .all(|(a, b)| a.to_bits() == b.to_bits()),
                "{name}: the base moved"
            );
        }
        assert_ne!(model.score(&all).unwrap(), before, "{name}");
    }
}

#[test]
fn an_example_adds_the_same_bits_to_an_adapter_in_any_company() {
    for (name, config) in decoders() {
        check_isolation(name, &adapted(fast(&config), &config));
    }
    let (name, config) = &decoders()[0];
    check_isolation(&format!("{name}, portable"), &adapted(slow(config), config));
}

#[test]
fn targets_are_modules_by_the_ends_of_their_names() {
    let names = |config: &TransformerConfig, targets: &[&str]| -> Vec<String> {
        let found = lora(config, targets);
        found.modules().iter().map(|m| m.name.clone()).collect()
    };
    let one = |family| TransformerConfig {
        layers: 1,
        ..tiny(family)
    };
    let gpt2 = one(Family::Gpt2);
    assert_eq!(names(&gpt2, &[]), ["transformer.h.0.attn.c_attn"]);
    assert_eq!(
        names(&gpt2, &["c_proj"]),
        ["transformer.h.0.attn.c_proj", "transformer.h.0.mlp.c_proj"]
    );
    assert_eq!(
        names(&gpt2, &["mlp.c_proj"]),
        ["transformer.h.0.mlp.c_proj"]
    );
    let llama = one(Family::Llama);
    let attention = ["q_proj", "v_proj"].map(|m| format!("model.layers.0.self_attn.{m}"));
    assert_eq!(names(&llama, &[]), attention);
    assert_eq!(names(&llama, &["all-linear"]).len(), 7);
    assert_eq!(
        names(&one(Family::GptNeox), &[]),
        ["gpt_neox.layers.0.attention.query_key_value"]
    );
    let refused = |targets: &[&str], config: &TransformerConfig| {
        let spec = LoraSpec {
            rank: 2,
            alpha: 4.0,
            targets: targets.iter().map(|t| (*t).to_owned()).collect(),
        };
        Lora::of(&config.clone().into(), String::new(), spec)
            .unwrap_err()
            .to_string()
    };
    for target in ["lm_head", "wte", "attn", "proj", ""] {
        let said = refused(&["c_attn", target], &gpt2);
        assert!(
            said.contains("c_fc") && said.contains(&format!("{target:?}")),
            "{said}"
        );
    }
    assert!(refused(&["q_proj", "lm_head"], &llama).contains("\"lm_head\""));
    assert!(refused(&[], &one(Family::Bert)).contains("decoder"));
}
