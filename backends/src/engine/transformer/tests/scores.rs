//! Scores and logits against the exact engine's.

use super::*;

#[test]
fn scores_equal_the_exact_ones_whole_and_by_cached_states() {
    let all = sequences();
    for (name, config) in decoders() {
        let (mut model, mut portable, mut exact) = (fast(&config), slow(&config), exact(&config));
        let want = exact.score(&all).unwrap();
        let (got, other) = (model.score(&all).unwrap(), portable.score(&all).unwrap());
        for (i, want) in want.iter().enumerate() {
            for (got, want) in got[i].iter().chain(&other[i]).zip(want.iter().chain(want)) {
                assert!(
                    (got.log_probability - want.log_probability).abs() < 2e-5,
                    "{name} {i}"
                );
                assert!((got.mean - want.mean).abs() < 2e-5, "{name} {i}");
                assert!((got.variance - want.variance).abs() < 1e-4, "{name} {i}");
            }
            assert_eq!(
                model.score(&all[i..=i]).unwrap()[0],
                got[i],
                "{name}: sequence {i} alone"
            );
        }
        // every sequence at once, token by token, behind a common first prefix
        let prefixes: Vec<Vec<u32>> = all.iter().map(|s| s[..1].to_vec()).collect();
        let mut states = model.start(&prefixes).unwrap();
        for t in 1..8 {
            let running: Vec<usize> = (0..all.len()).filter(|i| all[*i].len() > t).collect();
            let wanted: Vec<u32> = (0..VOCABULARY as u32).collect();
            let here: Vec<_> = running.iter().map(|i| states[*i]).collect();
            let log_p = model.next_log_probabilities(&here, &wanted).unwrap();
            for (row, i) in log_p.chunks(VOCABULARY).zip(&running) {
                let want = want[*i][t - 1].log_probability;
                assert!(
                    (row[all[*i][t] as usize] - want).abs() < 2e-5,
                    "{name} {i} {t}"
                );
                let total: f64 = row.iter().map(|l| l.exp()).sum();
                assert!((total - 1.0).abs() < 1e-9);
            }
            let steps: Vec<_> = running.iter().map(|i| (states[*i], all[*i][t])).collect();
            let next = model.extend(&steps).unwrap();
            assert_eq!(
                model.extend(&steps[..1]).unwrap().len(),
                1,
                "parents stay valid"
            );
            for (i, state) in running.iter().zip(next) {
                model.release(&[states[*i]]);
                states[*i] = state;
            }
        }
        // a long prefix at once gives what its tokens one by one give
        let whole = model.start(&[all[6][..7].to_vec()]).unwrap();
        let token = all[6][7];
        let a = model.next_log_probabilities(&whole, &[token]).unwrap()[0];
        assert!((a - want[6][6].log_probability).abs() < 2e-5, "{name}");
        model.release(&whole);
        assert!(model.extend(&[(whole[0], 1)]).is_err());
        assert!(model.start(&[vec![]]).is_err() && model.start(&[vec![13]]).is_err());
    }
}

#[test]
fn encoders_and_decoders_give_the_exact_logits() {
    let mut all = decoders();
    for family in [Family::Bert, Family::Roberta] {
        for head in [
            crate::model::Head::MaskedToken,
            crate::model::Head::Classes(3),
        ] {
            for tied in [true, false] {
                all.push((
                    "encoder",
                    TransformerConfig {
                        head,
                        tied,
                        ..tiny(family)
                    },
                ));
            }
        }
    }
    let tokens = [3u32, 0, 5, 1, 9, 9, 2, 1, 4];
    for (name, config) in all {
        let types: Vec<u32> = match config.token_types {
            0 => Vec::new(),
            kinds => (0..tokens.len() as u32).map(|i| i % kinds as u32).collect(),
        };
        let mut exact =
            crate::oracle::exact_logits(&config.clone().into(), weights(&config)).unwrap();
        let want = exact.logits(&tokens, &types).unwrap();
        let most = want.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        for got in [
            fast(&config).logits(&tokens, &types).unwrap(),
            slow(&config).logits(&tokens, &types).unwrap(),
        ] {
            assert_eq!(got.len(), want.len(), "{name}");
            for (g, w) in got.iter().zip(&want) {
                assert!(
                    (g - w).abs() < 2e-5 * most,
                    "{name} {:?}: {g} against {w}",
                    config.head
                );
            }
        }
    }
}

#[test]
fn a_token_left_out_carries_no_loss() {
    let config = tiny(Family::Gpt2);
    let mut model = fast(&config);
    model.leave_out(Some(4)).unwrap();
    // all predictions are of the token that is left out
    let nothing = sum(&mut model, &[vec![4; 8]], 1.0);
    assert!(norm(&nothing) < 1e-12);
    let (_, with) = model
        .public_gradient(&PublicBatch::in_order(vec![&[1, 4, 2, 4, 3]]))
        .unwrap();
    let scores = model.score(&[vec![1, 4, 2, 4, 3]]).unwrap();
    let want = -(scores[0][1].log_probability + scores[0][3].log_probability) / 2.0;
    assert!((with - want).abs() < 1e-5, "{with} against {want}");
}
