//! LiRA and RMIA.

use super::close;
use reticent_accounting::Confidence;
use reticent_attacks::membership::{
    Lira, ScoreSet, Shadows, Spread, instability, lira, logit_of_confidence, logit_of_logits, rmia,
};

/// Golden: advanced_mia_test of tensorflow/privacy (in-only, median, population spread; the
/// fourth record has no shadow model), its sign turned.
#[test]
fn lira_in_only() {
    let shadows: Vec<Shadows> = [vec![-1.0, 1.0], vec![0.0, 2.0], vec![0.0, 20.0], vec![]]
        .into_iter()
        .map(|inside| Shadows {
            inside,
            outside: vec![],
        })
        .collect();
    let got = lira(
        &[1.0, 0.0, 0.0, 0.0],
        &shadows,
        Lira::InOnly,
        Spread::PerRecord,
    )
    .unwrap();
    for (got, wanted) in got
        .iter()
        .zip([1.418_938_53, 1.418_938_53, 3.721_523_63, 2.725_371_78])
    {
        close(-got, wanted, 1e-7);
    }
    let error = lira(
        &[1.0],
        &[Shadows::default()],
        Lira::Online,
        Spread::PerRecord,
    );
    assert!(error.is_err());
}

/// Golden: ln N(2; 1.8, 0.4) − ln N(2; 0.5, 0.5) and Φ(3), by the closed forms.
#[test]
fn lira_online_and_offline() {
    let two = |centre: f64, spread: f64| vec![centre - spread, centre + spread];
    let shadows = [Shadows {
        inside: two(1.8, 0.4),
        outside: two(0.5, 0.5),
    }];
    let score = |variant, spread| lira(&[2.0], &shadows, variant, spread).unwrap()[0];
    for spread in [Spread::PerRecord, Spread::Shared] {
        close(score(Lira::Online, spread), 4.598_143_551_314_209, 1e-9);
        close(score(Lira::Offline, spread), 0.998_650_101_968_369_9, 1e-9);
    }
    close(
        logit_of_confidence(0.9_f64.ln()),
        2.197_224_577_336_219_6,
        1e-12,
    );
    close(
        logit_of_logits(&[1.0, 2.0, -3.0], 1).unwrap(),
        0.981_850_09,
        1e-7,
    );
    close(
        logit_of_logits(&[-1.0, 1.0, 0.0], 2).unwrap(),
        -1.126_928_02,
        1e-7,
    );
}

/// A shared spread takes in's from in and out's from out: published code once mixed them up.
#[test]
fn shared_spreads_are_not_mixed_up() {
    let shadows = [
        Shadows {
            inside: vec![1.0, 3.0],
            outside: vec![0.0, 0.2],
        },
        Shadows {
            inside: vec![2.0, 4.0],
            outside: vec![0.1, 0.3],
        },
    ];
    let offline = lira(&[0.2, 0.3], &shadows, Lira::Offline, Spread::Shared).unwrap();
    let phi_one = 0.841_344_746_068_542_9;
    close(offline[0], phi_one, 1e-9);
    close(offline[1], phi_one, 1e-9);
}

/// One certain shadow model among 200 records must not make all records alike: an infinite score is refused, and the
/// logit of a confidence of 1 is finite.
#[test]
fn a_certain_shadow_model_does_not_hide_the_leak() {
    let record = |i: usize| Shadows {
        inside: (0..8).map(|j| 2.0 + ((i + j) % 5) as f64 / 5.0).collect(),
        outside: (0..8).map(|j| ((i + j) % 5) as f64 / 5.0).collect(),
    };
    let targets: Vec<f64> = (0..200).map(|i| if i < 100 { 2.4 } else { 0.4 }).collect();
    let area = |certain: f64, variant| {
        let mut shadows: Vec<Shadows> = (0..200).map(record).collect();
        shadows[150].outside[0] = certain;
        let mut scores = lira(&targets, &shadows, variant, Spread::Shared)?;
        let others = scores.split_off(100);
        let confidence = Confidence::new(0.95).unwrap();
        ScoreSet::new(scores, others)?.area(confidence, 0)
    };
    for variant in [Lira::Offline, Lira::Online] {
        for certain in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            let error = area(certain, variant).unwrap_err().to_string();
            assert!(error.contains("shadow score"), "{error}");
        }
        close(
            area(logit_of_confidence(0.0), variant).unwrap().estimate,
            1.0,
            1e-12,
        );
    }
    let error = lira(&[f64::INFINITY], &[record(0)], Lira::Online, Spread::Shared);
    assert!(error.unwrap_err().to_string().contains("target score"));
    assert!(logit_of_confidence(f64::NAN).is_nan());
}

#[test]
fn rmia_counts_the_population_it_beats() {
    let ln = |p: f64| p.ln();
    // a = 1: the mean model is the out-model. Ratios: record 4; population 1, 2, 4, 8.
    let population = [
        (ln(0.1), ln(0.1)),
        (ln(0.2), ln(0.1)),
        (ln(0.4), ln(0.1)),
        (ln(0.8), ln(0.1)),
    ];
    let record = (ln(0.4), ln(0.1));
    close(rmia(record, &population, 1.0, 1.0).unwrap(), 0.5, 1e-12);
    close(rmia(record, &population, 1.0, 3.0).unwrap(), 0.25, 1e-12);
    // a = 0: p̄ = (p_out + 1)/2 shrinks the difference of rare texts to their own probability.
    let common = [(ln(0.5), ln(0.4))];
    close(
        rmia((ln(0.4), ln(0.001)), &common, 0.0, 1.0).unwrap(),
        1.0,
        1e-12,
    );
    for bad in [
        rmia(record, &[], 1.0, 1.0),
        rmia((0.1, -1.0), &common, 1.0, 1.0),
        rmia(record, &common, 1.5, 1.0),
        rmia(record, &common, 1.0, 0.0),
    ] {
        assert!(bad.is_err());
    }
}

/// With two pairs every split is the same two halves: areas and flips by hand. With pairs that agree nothing moves.
#[test]
fn what_half_of_the_shadow_models_says() {
    // 30 members, then 30 others; by the first pair the score is a permutation of 0 to 59, by the second another one.
    let score = |p: usize, i: usize| ((i * [7, 11][p] + 13 * p) % 60) as f64;
    let shadows = |second: usize| -> Vec<Shadows> {
        let of = |i| vec![score(0, i), score(second, i)];
        let one = |i| Shadows {
            inside: of(i),
            outside: of(i),
        };
        (0..60).map(one).collect()
    };
    let mean = |shadows: &[Shadows]| -> reticent_attacks::Result<Vec<f64>> {
        let mean = |s: &Shadows| s.inside.iter().sum::<f64>() / s.inside.len() as f64;
        Ok(shadows.iter().map(mean).collect())
    };
    let fpr = 0.5;
    let found = instability(&shadows(1), 30, fpr, 0, &mean)
        .unwrap()
        .unwrap();
    let side = |p: usize| -> (Vec<f64>, Vec<f64>) {
        let all: Vec<f64> = (0..60).map(|i| score(p, i)).collect();
        (all[..30].to_vec(), all[30..].to_vec())
    };
    let area = |p| {
        let (inside, outside) = side(p);
        let set = ScoreSet::new(inside, outside).unwrap();
        set.area(Confidence::new(0.95).unwrap(), 0)
            .unwrap()
            .estimate
    };
    let above = |p| -> Vec<bool> {
        let (inside, outside) = side(p);
        let beaten = |s: &f64| outside.iter().filter(|o| *o >= s).count() <= 15;
        inside.iter().map(beaten).collect()
    };
    let (a, b) = (above(0), above(1));
    let either = (0..30).filter(|&i| a[i] || b[i]).count();
    let one = (0..30).filter(|&i| a[i] != b[i]).count();
    assert!(one > 0 && either > one, "{one} of {either}");
    close(*found.least_area.get(), area(0).min(area(1)), 1e-12);
    close(*found.largest_area.get(), area(0).max(area(1)), 1e-12);
    close(*found.flips.get(), one as f64 / either as f64, 1e-12);
    assert_eq!((found.models, found.splits), (2, 20));

    let same = instability(&shadows(0), 30, fpr, 0, &mean)
        .unwrap()
        .unwrap();
    close(*same.least_area.get(), *same.largest_area.get(), 0.0);
    close(*same.flips.get(), 0.0, 0.0);

    let one = |s: &Shadows| Shadows {
        inside: s.inside[..1].to_vec(),
        outside: s.outside[..1].to_vec(),
    };
    let single: Vec<Shadows> = shadows(1).iter().map(one).collect();
    assert_eq!(instability(&single, 30, fpr, 0, &mean).unwrap(), None);
    let mut uneven = shadows(1);
    uneven[4].outside.pop();
    assert!(instability(&uneven, 30, fpr, 0, &mean).is_err());
    assert!(instability(&shadows(1), 0, fpr, 0, &mean).is_err());
    assert!(instability(&shadows(1), 30, 1.0, 0, &mean).is_err());
}
