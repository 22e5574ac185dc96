//! The shared vectors of attacks through the command; `attacks/VECTORS.md` names them.
#![cfg(feature = "findings")]
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use crate::common::audit;
use serde_json::Value;
use std::path::Path;

fn json(line: &str) -> Value {
    audit::json(Path::new("."), line)
}

fn bounds(line: &str) -> Vec<f64> {
    let document = json(line);
    let bounds = document["bounds"].as_array().unwrap();
    bounds
        .iter()
        .map(|b| b["lower"].as_f64().unwrap())
        .collect()
}

fn close(got: f64, expected: f64, within: f64) {
    assert!((got - expected).abs() <= within, "{got} and {expected}");
}

/// Golden: cp-01 (audit_2020 of tensorflow/privacy), and onerun-06: scores that tell nothing, or
/// the wrong way round, bound nothing.
#[test]
fn rates_from_outside() {
    let found = bounds("epsilon --rates 500,500,0,500 --delta 0 --confidence 0.99");
    close(found[0], 4.541_915_810_224_092, 1e-9);
    for rates in [
        "2500,5000,2500,5000",
        "800,5000,4200,5000",
        "5,5000,4995,5000",
    ] {
        let found = bounds(&format!("epsilon --rates {rates} --delta 1e-5"));
        close(found[1], 0.0, 0.0);
    }
}

/// Golden: onerun-01 turned round. The p-values of Steinke, Nasr and Jagielski's algorithm are those
/// of some ε; at the confidence 1 − p that ε is the bound.
#[test]
fn coins_from_outside() {
    for (counts, delta, p, epsilon) in [
        ("1000,100,90", "0", 2.735_812_800_766_158_4e-5, 1.0),
        ("1000,100,90", "1e-5", 8.412_885_614_385_305e-4, 1.0),
        ("1000,100,90", "1e-5", 1.876_458_847_467_200_5e-2, 1.5),
        ("1000,1000,600", "1e-3", 2.656_601_205_480_085_8e-2, 0.2),
    ] {
        let confidence = 1.0 - p;
        let line = format!("epsilon --counts {counts} --delta {delta} --confidence {confidence}");
        close(bounds(&line)[0], epsilon, 1e-6);
    }
}

/// Golden: auc-01 and auc-02 (Mann and Whitney's area, ties one half; of the convex hull the first
/// would be 0.8125), tpr-02 (the documented example of jax_privacy: 11 % above all but one of a
/// hundred non-members, which certifies 6.2 % beside an interval at 95 %, not 1 %), cp-05.
#[test]
fn scores_from_outside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scores.csv");
    let measured = |members: &[f64], others: &[f64], more: &str| -> Value {
        let row = |member: u8| move |(i, s): (usize, &f64)| format!("{member}-{i},{member},{s}\n");
        let rows = members.iter().enumerate().map(row(1));
        let rows = rows.chain(others.iter().enumerate().map(row(0)));
        std::fs::write(
            &path,
            format!("id,member,score\n{}", rows.collect::<String>()),
        )
        .unwrap();
        json(&format!("membership --scores {} {more}", path.display()))
    };
    let area = |document: &Value| document["area"]["estimate"].as_f64().unwrap();
    let plain = measured(&[0.0, 4.0, 6.0, 7.0], &[1.0, 2.0, 3.0, 5.0], "");
    close(area(&plain), 0.6875, 1e-12);
    let ties = measured(&[0.0, 1.0, 1.0, 2.0], &[0.0, 0.0, 1.0, 1.0], "");
    close(area(&ties), 0.6875, 1e-12);

    let others: Vec<f64> = (0..100).map(f64::from).collect();
    let members: Vec<f64> = others.iter().map(|s| s + 9.5).collect();
    let found = measured(&members, &others, "--fpr 0.01,0.001,0.0001,0.0625");
    let points = found["at_fpr"].as_array().unwrap();
    for (point, needed) in points.iter().zip([437, 4380, 43_819]) {
        assert_eq!(point["non_members_needed"], needed);
        assert!(point.get("found").is_none(), "{point}");
    }
    let certified = &points[3]["found"];
    assert_eq!(certified["allowed"], 1);
    assert_eq!(certified["tpr"]["hits"], 11);
}
