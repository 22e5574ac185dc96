//! LiRA and RMIA.

use super::close;
use reticent_attacks::{Lira, Shadows, Spread, lira, logit_of_confidence, logit_of_logits, rmia};

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
