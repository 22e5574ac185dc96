use super::*;
use crate::schema::problems;
use serde_json::json;

fn exposure(bits: &[f64]) -> Value {
    let canaries: Vec<Value> = bits
        .iter()
        .enumerate()
        .map(|(i, b)| json!({"id": format!("canary-{i}"), "exposure": {"min": b, "max": b}}))
        .collect();
    json!({"schema": 1, "type": "exposure", "candidates": 1_000_000, "canaries": canaries})
}

fn membership(low: f64, high: f64, confidence: f64) -> Value {
    json!({"schema": 1, "type": "membership", "confidence": confidence,
        "attacks": {"decides": "reference", "rows": []},
        "area": {"estimate": f64::midpoint(low, high), "lower": low, "upper": high}})
}

fn extraction(hits: u64) -> Value {
    let row = |prompt: u64| json!({"prompt": prompt, "verbatim": {"hits": hits, "trials": 200}});
    json!({"schema": 1, "type": "extraction", "prompts": [row(10), row(50)]})
}

fn says(old: &Value, new: &Value) -> Vec<Change> {
    let report = DiffReport::of(old, new, 0.05).unwrap();
    report.rows.iter().map(|r| r.says).collect()
}

/// Ten of ten canaries rise: p = 2^-10. Seven of ten: p = 0.17.
#[test]
fn exposures_are_compared_canary_by_canary() {
    let low: Vec<f64> = (0..10).map(f64::from).collect();
    let high: Vec<f64> = low.iter().map(|b| b + 0.5).collect();
    let mut mixed = high.clone();
    mixed[..3].fill(-1.0);
    let old = exposure(&low);
    assert_eq!(says(&old, &exposure(&high)), [Change::More]);
    assert_eq!(says(&exposure(&high), &old), [Change::Less]);
    assert_eq!(says(&old, &exposure(&mixed)), [Change::Unseen]);
    assert_eq!(says(&old, &old), [Change::Unseen]);
    let report = DiffReport::of(&old, &exposure(&high), 0.05).unwrap();
    assert_eq!(report.exit(), Exit::Exceeded);
    assert!(report.to_text().contains("10 rose, 0 fell"));
    let text = Envelope::new("diff", Inputs::new(), &report)
        .to_text()
        .unwrap();
    assert_eq!(problems("diff.schema.json", &text), Vec::<String>::new());
}

#[test]
fn areas_and_rates_are_compared_by_their_intervals() {
    let old = membership(0.5, 0.6, 0.95);
    assert_eq!(says(&old, &membership(0.61, 0.7, 0.95)), [Change::More]);
    assert_eq!(says(&old, &membership(0.59, 0.7, 0.95)), [Change::Unseen]);
    assert_eq!(says(&membership(0.7, 0.8, 0.95), &old), [Change::Less]);
    assert_eq!(says(&extraction(10), &extraction(80)), [Change::More; 2]);
    assert_eq!(says(&extraction(10), &extraction(14)), [Change::Unseen; 2]);
    // Several kinds share the level; an interval at 95 % would take all of it.
    let all = |c| {
        json!({"schema": 1, "type": "report", "exposure": exposure(&[1.0, 2.0]),
            "membership": membership(0.5, 0.6, c)})
    };
    assert_eq!(says(&all(0.99), &all(0.99)), [Change::Unseen; 2]);
    let error = DiffReport::of(&all(0.95), &all(0.95), 0.05).unwrap_err();
    assert!(error.to_string().contains("larger --confidence"), "{error}");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let canaries = exposure(&[1.0, 2.0]);
    for (old, new, part) in [
        (canaries.clone(), extraction(3), "must be of one type"),
        (canaries.clone(), exposure(&[1.0]), "the same canaries"),
        (
            json!({"type": "demo"}),
            json!({"type": "demo"}),
            "got \"demo\"",
        ),
    ] {
        let error = DiffReport::of(&old, &new, 0.05).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}

/// Null: canaries rise and fall by chance. 1000 pairs of 20 canaries at level 0.05; "more" is said
/// at 15 of 20 and above, P = 0.0207; 45 or more would come once in 1e6.
#[test]
fn noise_is_not_called_more() {
    let mut state = 88_172_645_463_325_252_u64;
    let mut coin = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut draw = || exposure(&(0..20).map(|_| coin()).collect::<Vec<_>>());
    let alarms = (0..1000)
        .filter(|_| says(&draw(), &draw()) == [Change::More])
        .count();
    assert!((5..45).contains(&alarms), "{alarms}");
}

#[test]
fn the_page_alarms_where_the_text_does() {
    let (low, high) = (membership(0.5, 0.6, 0.99), membership(0.8, 0.9, 0.99));
    for (old, new, alarm) in [(&low, &high, true), (&high, &low, false)] {
        let report = DiffReport::of(old, new, 0.05).unwrap();
        let html = page::page(&report, "old", "new").unwrap();
        let html = html.to_html().unwrap();
        assert_eq!(html.contains("role=\"alert\""), alarm);
        assert!(html.contains(report.said()) && html.contains("<svg"));
    }
    // Bits stand in the table alone.
    let bits = exposure(&[1.0, 2.0]);
    let report = DiffReport::of(&bits, &bits, 0.05).unwrap();
    let html = page::page(&report, "old", "new").unwrap();
    assert!(!html.to_html().unwrap().contains("<svg"));
}
