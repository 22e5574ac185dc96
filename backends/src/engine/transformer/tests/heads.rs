//! Encoders and classifiers against the exact engine, whose gradients central differences check.

use super::*;
use crate::model::Head;
use crate::privacy::random::RunKey;
use crate::trainer::dropout::Dropout;
use crate::trainer::masking::Masking;

const CLASSES: usize = 3;

/// Every head but that for the next token, and decoders, of whose examples only some tokens are learned.
fn models() -> Vec<(&'static str, TransformerConfig)> {
    let with = |family, head| TransformerConfig {
        head,
        ..tiny(family)
    };
    let classes = |family| with(family, Head::Classes(CLASSES));
    let masked = |family| with(family, Head::MaskedToken);
    let untied = |config| TransformerConfig {
        tied: false,
        ..config
    };
    let padded = |config| TransformerConfig {
        padding: Some(4),
        ..config
    };
    let gemma2 = TransformerConfig {
        logit_cap: Some(0.7),
        attention_cap: Some(0.5),
        ..classes(Family::Gemma2)
    };
    vec![
        ("bert", masked(Family::Bert)),
        ("bert untied", untied(masked(Family::Bert))),
        ("roberta", masked(Family::Roberta)),
        ("bert classes", classes(Family::Bert)),
        ("roberta classes", classes(Family::Roberta)),
        ("gpt2 classes", classes(Family::Gpt2)),
        ("opt classes", classes(Family::Opt)),
        ("llama classes", padded(classes(Family::Llama))),
        ("gemma2 classes", gemma2),
        ("gpt2", tiny(Family::Gpt2)),
        ("llama", tiny(Family::Llama)),
    ]
}

fn token_masks() -> TokenMasks {
    let masking = Masking::new(VOCABULARY, 2, vec![2]).unwrap();
    TokenMasks::new(&RunKey::from_seed(4), 6, &masking)
}

/// What carries no loss in a decoder's examples, in turn; perhaps nothing does.
#[allow(clippy::single_range_in_vec_init, reason = "a list of one range")]
const IGNORED: [&[std::ops::Range<usize>]; 4] = [&[1..2, 5..9], &[], &[1..3, 4..5, 7..31], &[2..3]];

/// All sequences with their numbers, classes and answers; the padding ends some of them.
fn examples(all: &[Vec<u32>]) -> Vec<Example<'_>> {
    let one = |(record, tokens)| Example {
        label: Some(record % CLASSES as u32),
        ignored: IGNORED[record as usize % IGNORED.len()],
        ..Example::whole(record, tokens)
    };
    (0..).zip(all.iter().map(Vec::as_slice)).map(one).collect()
}

/// Ready to train on these records, perhaps with dropout.
fn ready(model: &mut dyn Trainer, drops: bool) {
    let encoder = model.model().head() == Head::MaskedToken;
    let masked = encoder.then(token_masks);
    if masked.is_some() {
        model.mask_tokens(masked).unwrap();
    }
    let rates = Dropout {
        embedding: 0.2,
        attention: 0.3,
        hidden: 0.1,
    };
    let masks = Masks::new(&RunKey::from_seed(2), 1, rates);
    model.drop_out(masks.filter(|_| drops)).unwrap();
}

fn sum_of(model: &mut dyn Trainer, examples: &[Example<'_>], clip: f64) -> Vec<Vec<f32>> {
    model.begin();
    let clip = Clip::new(clip, 0.0).unwrap();
    let added = model.add(&PrivateBatch(examples.to_vec()), &clip).unwrap();
    assert_eq!((added.examples, added.rejected), (examples.len(), 0));
    model.accumulator().to_vec()
}

fn norms_of<B: Floats, K: Layers<B>>(
    model: &Transformer<B, K>,
    examples: &[Example<'_>],
) -> Norms<B> {
    let mut all = Norms::new(model.parameters.len(), 0, examples.len());
    for part in model.microbatches(examples) {
        let rows = model.rows(&part.sequences, part.grid).unwrap();
        let (tape, _) = model.pass(&rows, None);
        let norms = K::norms(&tape, &rows, model.parameters.len());
        for (all, own) in all.squared.iter_mut().zip(&norms.squared) {
            for (place, value) in part.places.iter().zip(own) {
                all[*place] = *value;
            }
        }
    }
    all
}

#[test]
fn heads_have_the_norms_of_the_exact_engine_parameter_by_parameter() {
    let all = sequences();
    let examples = examples(&all);
    for ((name, config), drops) in models()
        .into_iter()
        .flat_map(|m| [(m.clone(), false), (m, true)])
    {
        let (mut fast, mut slow, mut exact) = (fast(&config), slow(&config), exact(&config));
        ready(&mut fast, drops);
        ready(&mut slow, drops);
        ready(&mut *exact, drops);
        let (got, other) = (norms_of(&fast, &examples), norms_of(&slow, &examples));
        for (i, example) in examples.iter().enumerate() {
            let want = sum_of(&mut *exact, std::slice::from_ref(example), 1e9);
            let whole: f64 = want.iter().map(|p| square(p)).sum();
            for (p, parameter) in config.parameters().iter().enumerate() {
                let want = square(&want[p]);
                for (engine, got) in [
                    ("fast", got.squared[p][i]),
                    ("portable", other.squared[p][i]),
                ] {
                    // a part that all but vanishes is good to a rounding of the whole
                    assert!(
                        (got - want).abs() <= 4e-6 * want + 1e-9 * whole + 1e-20,
                        "{name}, {engine}, {}, example {i}: {got} against {want}",
                        parameter.name
                    );
                }
            }
        }
    }
}

#[test]
fn heads_have_the_clipped_sums_and_public_gradients_of_the_exact_engine() {
    let all = sequences();
    let examples = examples(&all);
    for (name, config) in models() {
        let mut exact = exact(&config);
        ready(&mut *exact, false);
        let mut engines: [(&str, Box<dyn Trainer>); 2] = [
            ("fast", Box::new(fast(&config))),
            ("portable", Box::new(slow(&config))),
        ];
        let (mean, loss) = exact
            .public_gradient(&PublicBatch(examples.clone()))
            .unwrap();
        let whole = norm(&sum_of(&mut *exact, &examples, 1e9));
        for (engine, model) in &mut engines {
            ready(&mut **model, false);
            for clip in [whole * 0.2, whole * 0.01, 1e9] {
                let want = sum_of(&mut *exact, &examples, clip);
                let got = sum_of(&mut **model, &examples, clip);
                for ((got, want), p) in got.iter().zip(&want).zip(config.parameters()) {
                    let (got, want) = ([got.clone()], [want.clone()]);
                    let error = distance(&got, &want) / (norm(&want) + 1e-3 * clip.min(1.0));
                    assert!(
                        error < 4e-6,
                        "{name}, {engine}, {} at C = {clip}: {error}",
                        p.name
                    );
                }
            }
            let (got, own) = model
                .public_gradient(&PublicBatch(examples.clone()))
                .unwrap();
            assert!((own - loss).abs() < 2e-6, "{name}: {own} against {loss}");
            let error = distance(&got, &mean) / norm(&mean);
            assert!(error < 3e-6, "{name}: {error}");
        }
    }
}

/// What an example adds does not follow from the examples beside it.
#[test]
fn an_example_of_an_encoder_or_classifier_adds_the_same_bits_alone_and_in_company() {
    let all = sequences();
    let examples = examples(&all);
    for (name, config) in models() {
        let mut model = fast(&config);
        ready(&mut model, true);
        let together = norms_of(&model, &examples);
        for (i, example) in examples.iter().enumerate() {
            let alone = norms_of(&model, std::slice::from_ref(example));
            for (own, all) in alone.squared.iter().zip(&together.squared) {
                assert_eq!(own[0].to_bits(), all[i].to_bits(), "{name}, example {i}");
            }
        }
    }
}

#[test]
fn classes_and_masked_losses_are_those_that_training_sees() {
    let all = sequences();
    let examples = examples(&all);
    let batch = PublicBatch(examples.clone());
    for (name, config) in models() {
        for mut model in [
            Box::new(fast(&config)) as Box<dyn Trainer>,
            Box::new(slow(&config)),
        ] {
            ready(&mut *model, false);
            let (_, mean) = model.public_gradient(&batch).unwrap();
            // dropout plays no part in what is expected
            ready(&mut *model, true);
            let expected = match config.head {
                Head::Classes(_) => {
                    let log_p = model.classify(&views(&all)).unwrap();
                    let own = log_p.iter().zip(&examples);
                    let nll = own.map(|(p, e)| -p[e.label.unwrap() as usize]);
                    nll.sum::<f64>() / all.len() as f64
                }
                Head::NextToken => {
                    let scores = model.score(&all).unwrap();
                    let (mut nll, mut count) = (0.0, 0usize);
                    for (example, scores) in examples.iter().zip(&scores) {
                        let predicted =
                            |at: usize| !example.ignored.iter().any(|r| r.contains(&at));
                        for (_, score) in (1..).zip(scores).filter(|(at, _)| predicted(*at)) {
                            nll -= score.log_probability;
                            count += 1;
                        }
                    }
                    assert!(count > 20 && count < all.iter().map(|s| s.len() - 1).sum::<usize>());
                    nll / count as f64
                }
                Head::MaskedToken => {
                    let (nll, count) = model.masked_loss(&batch, &token_masks()).unwrap();
                    nll / count as f64
                }
            };
            assert!(
                (expected - mean).abs() < 1e-5,
                "{name}: {expected} against {mean}"
            );
            if config.head != Head::NextToken {
                let error = model.score(&all).unwrap_err().to_string();
                assert!(error.contains("no next token"), "{name}: {error}");
                assert!(model.start(&all).is_err());
            }
        }
    }
}

#[test]
fn records_without_a_class_or_of_an_unknown_one_are_refused() {
    let config = models().remove(3).1;
    let mut model = fast(&config);
    let clip = Clip::new(1.0, 0.0).unwrap();
    for (label, words) in [(None, "with a label"), (Some(3), "[0, 3), got 3")] {
        let example = Example {
            label,
            ..Example::whole(0, &[1, 2])
        };
        model.begin();
        let error = model.add(&PrivateBatch(vec![example]), &clip).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    let mut encoder = fast(&models().remove(0).1);
    let unmasked = encoder.public_gradient(&PublicBatch::in_order(vec![&[1, 2]]));
    assert!(unmasked.unwrap_err().to_string().contains("masked tokens"));
}

#[test]
fn a_token_that_is_left_out_is_no_class_of_its_number() {
    let all = sequences();
    let examples = examples(&all);
    for (name, config) in models() {
        let (mut model, mut exact) = (fast(&config), exact(&config));
        for model in [&mut model as &mut dyn Trainer, &mut *exact] {
            ready(model, false);
        }
        let before = sum_of(&mut model, &examples, 1e9);
        for model in [&mut model as &mut dyn Trainer, &mut *exact] {
            model.leave_out(Some(1)).unwrap();
        }
        let (got, want) = (
            sum_of(&mut model, &examples, 1e9),
            sum_of(&mut *exact, &examples, 1e9),
        );
        assert!(distance(&got, &want) < 4e-6 * norm(&want), "{name}");
        let same = distance(&got, &before) < 1e-6 * norm(&before);
        assert_eq!(same, matches!(config.head, Head::Classes(_)), "{name}");
    }
}

/// What carries no loss is in no gradient: the gradient of a record is that of some of its predictions and that of the others.
#[test]
#[allow(clippy::single_range_in_vec_init, reason = "a list of one range")]
fn the_gradients_of_answers_and_of_the_rest_are_that_of_the_whole() {
    let tokens = [1, 5, 3, 3, 9, 2, 7, 4];
    for (name, config) in models().into_iter().filter(|m| m.1.head == Head::NextToken) {
        for mut model in [exact(&config), Box::new(fast(&config)) as Box<dyn Trainer>] {
            let mut of = |ignored: &[std::ops::Range<usize>]| {
                let example = Example {
                    ignored,
                    ..Example::whole(0, &tokens)
                };
                sum_of(&mut *model, &[example], 1e9)
            };
            let (whole, nothing) = (of(&[]), of(&[1..8]));
            let (mut one, other) = (of(&[2..4, 6..7]), of(&[1..2, 4..6, 7..8]));
            for (one, other) in one.iter_mut().flatten().zip(other.iter().flatten()) {
                *one += other;
            }
            assert!(norm(&nothing) < 1e-12, "{name}");
            let error = distance(&one, &whole) / norm(&whole);
            assert!(error < 1e-5, "{name}: {error}");
        }
    }
}
