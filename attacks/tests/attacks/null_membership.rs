//! What 1000 models without anything to find show to WBC, to neighbours, and to halves of the shadow models. Limits and
//! their error rates as in `null_simulations`: a correct number fails a test with a probability of about 8e-5.

use crate::membership::{level, normal};
use crate::models::{Bigram, Levels, Memoriser, Toy};
use crate::null_simulations::{LIMIT, excludes, normals, rate};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reticent_attacks::membership::{ScoreSet, Scored, Shadows, instability, replacements};
use reticent_backends::{Scorer, TokenScore};

/// Records a side.
const RECORDS: usize = 30;

/// Whether the interval of the area leaves one half out, of scores with the members first.
fn alarms(mut scores: Vec<f64>) -> bool {
    let others = scores.split_off(RECORDS);
    let set = ScoreSet::new(scores, others).unwrap();
    excludes(&set.area(level(0.95), 0).unwrap().bounds, 0.5)
}

/// Tokens of which each is as likely as this.
fn tokens(ln_p: &[f64]) -> Vec<TokenScore> {
    let each = ln_p.iter().map(|&log_probability| TokenScore {
        log_probability,
        mean: -1.0,
        variance: 1.0,
        top_token: 0,
        top_log_probability: -0.1,
    });
    each.collect()
}

/// WBC of a record of 5 to 60 tokens. Model and reference find it about as difficult as each other, token by token and as a
/// whole; the model gains `learnt` nats a token.
fn windows(rng: &mut ChaCha8Rng, learnt: f64) -> f64 {
    let length = rng.random_range(5..=60_usize);
    let whole = 0.3 * normal(rng);
    let (mut own, mut other) = (Vec::new(), Vec::new());
    for _ in 0..length {
        let hard = 2.0 + normal(rng).abs();
        own.push((-hard + whole + learnt + 0.5 * normal(rng)).min(0.0));
        other.push((-hard + 0.5 * normal(rng)).min(0.0));
    }
    let (own, other) = (tokens(&own), tokens(&other));
    let ids: Vec<u32> = (0..length as u32).collect();
    let reference = Scored::new(&ids, &other).unwrap();
    Scored::new(&ids, &own).unwrap().wbc(reference).unwrap()
}

/// WBC, seed 111, 30 members and 30 others a model, of one law: at most the nominal share of intervals leaves one half out.
/// Of members that gained 0.3 nats a token, seed 112, most models are detected.
#[test]
fn windows_of_a_model_that_saw_nothing() {
    let audit = |rng: &mut ChaCha8Rng, learnt: f64| {
        let each = |n: usize| if n < RECORDS { learnt } else { 0.0 };
        (0..2 * RECORDS).map(|n| windows(rng, each(n))).collect()
    };
    let null = rate(111, |rng| alarms(audit(rng, 0.0)));
    assert!(null <= LIMIT, "{null}");
    let power = rate(112, |rng| alarms(audit(rng, 0.3)));
    assert!(power > 0.5, "{power}");
}

/// Mean NLL per token.
fn cost(model: &mut dyn Scorer, text: &[u32]) -> f64 {
    let rows = model.score(&[text.to_vec()]).unwrap();
    -rows[0].iter().map(|s| s.log_probability).sum::<f64>() / rows[0].len() as f64
}

/// The neighbourhood's score of each text: another model puts other tokens in the place of four of its own.
fn near(model: &mut dyn Scorer, base: u64, texts: &[Vec<u32>]) -> Vec<f64> {
    let mut base = Toy::new(Bigram::random(12, Levels::Smooth, base));
    let each = (0..).zip(texts).map(|(seed, text)| {
        let near = replacements(&mut base, text, 4, None, seed).unwrap();
        let costs: Vec<f64> = near.iter().map(|near| cost(model, near)).collect();
        let rows = model.score(std::slice::from_ref(text)).unwrap();
        let scored = Scored::new(&text[1..], &rows[0]).unwrap();
        scored.neighbourhood(&costs).unwrap()
    });
    each.collect()
}

/// The neighbourhood by replaced tokens, seed 113: 30 members and 30 others of 8 to 20 tokens, models that no text taught
/// anything. Models that know their members by heart are detected, seed 114, 20 of them.
#[test]
fn neighbours_of_a_model_that_saw_nothing() {
    let texts = |rng: &mut ChaCha8Rng| -> Vec<Vec<u32>> {
        (0..2 * RECORDS)
            .map(|_| {
                let length = rng.random_range(8..=20);
                let tokens = (0..length).map(|_| rng.random_range(1..12));
                std::iter::once(0).chain(tokens).collect()
            })
            .collect()
    };
    let null = rate(113, |rng| {
        let (own, base) = (rng.random(), rng.random());
        let mut model = Toy::new(Bigram::random(12, Levels::Smooth, own));
        alarms(near(&mut model, base, &texts(rng)))
    });
    assert!(null <= LIMIT, "{null}");
    let mut rng = ChaCha8Rng::seed_from_u64(114);
    for _ in 0..20 {
        let texts = texts(&mut rng);
        let mut model = Toy::new(Memoriser {
            vocabulary: 12,
            texts: texts[..RECORDS].to_vec(),
        });
        assert!(alarms(near(&mut model, rng.random(), &texts)));
    }
}

/// The spread over shadow seeds, seed 115, 1000 models of 8 pairs of shadow models that no record taught anything, on 40
/// members and 200 others, scored by what the shadow models alone say. The smallest and largest area of the halves are no
/// interval of any level, and nothing is concluded from them: they lie on one side of one half in 7 % of these models; below
/// 11 %, which is 4.7 standard errors more. A half finds a member with chance f = 0.1 whatever the other half finds, so that
/// of the members found by either 2(1 − f)/(2 − f) = 0.947 are not found by the other: within 0.02, where the standard error
/// is 0.002 and a threshold of 200 others varies f.
///
/// An attack that hears the model as well as its shadow models keeps more of its finds, seed 116.
#[test]
fn halves_of_shadow_models_that_saw_nothing() {
    const MEMBERS: usize = 40;
    let mean = |s: &[f64]| s.iter().sum::<f64>() / s.len() as f64;
    let spread = |rng: &mut ChaCha8Rng, own: f64| {
        let targets: Vec<f64> = normals(rng, MEMBERS + 200, 0.0);
        let shadows: Vec<Shadows> = targets
            .iter()
            .map(|_| Shadows {
                inside: normals(rng, 8, 0.0),
                outside: normals(rng, 8, 0.0),
            })
            .collect();
        let score = |some: &[Shadows]| {
            let each = some.iter().zip(&targets);
            Ok(each
                .map(|(s, target)| own * target + mean(&s.inside) - mean(&s.outside))
                .collect())
        };
        instability(&shadows, MEMBERS, 0.1, 0, &score)
            .unwrap()
            .unwrap()
    };
    let mut flips = Vec::new();
    let one_sided = rate(115, |rng| {
        let found = spread(rng, 0.0);
        flips.push(*found.flips.get());
        *found.least_area.get() > 0.5 || *found.largest_area.get() < 0.5
    });
    assert!(one_sided < 0.11, "{one_sided}");
    let share = mean(&flips);
    assert!((share - 0.947).abs() < 0.02, "{share}");
    let mut kept = Vec::new();
    rate(116, |rng| {
        kept.push(*spread(rng, 1.0).flips.get());
        false
    });
    let share = mean(&kept);
    assert!(share < 0.85, "{share}");
}
