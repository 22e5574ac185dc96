use super::*;
use crate::page::View;
use crate::schema::problems;
use serde_json::json;

pub(super) fn exposure(bits: &[f64]) -> Value {
    let canaries: Vec<Value> = bits
        .iter()
        .enumerate()
        .map(|(i, b)| json!({"id": format!("canary-{i}"), "exposure": {"min": b, "max": b}}))
        .collect();
    json!({"schema": 1, "type": "exposure", "candidates": 1_000_000, "canaries": canaries})
}

pub(super) fn membership(low: f64, high: f64, confidence: f64) -> Value {
    json!({"schema": 1, "type": "membership", "confidence": confidence,
        "attacks": {"decides": "reference", "rows": []},
        "area": {"estimate": f64::midpoint(low, high), "lower": low, "upper": high}})
}

pub(super) fn extraction(hits: u64) -> Value {
    let row = |prompt: u64| json!({"prompt": prompt, "verbatim": {"hits": hits, "trials": 200}});
    json!({"schema": 1, "type": "extraction", "prompts": [row(10), row(50)]})
}

pub(super) fn says(old: &Value, new: &Value) -> Vec<Change> {
    let report = DiffReport::of(old, new, 0.05).unwrap();
    report.rows.iter().map(|r| r.says).collect()
}

/// Ten of ten canaries come above five bits: p = 4 lines · 2^-10. Of ten that rise by half a bit two
/// come above two bits and one above five: no more than noise. Five that come above five are not
/// enough: p = 0.125.
#[test]
fn exposures_are_compared_canary_by_canary() {
    let low: Vec<f64> = (0..10).map(|i| 0.1 + f64::from(i) / 2.0).collect();
    let high: Vec<f64> = low.iter().map(|b| b + 8.0).collect();
    let little: Vec<f64> = low.iter().map(|b| b + 0.5).collect();
    let mut mixed = high.clone();
    mixed[5..].fill(0.1);
    let old = exposure(&low);
    assert_eq!(says(&old, &exposure(&high)), [Change::More]);
    assert_eq!(says(&exposure(&high), &old), [Change::Less]);
    for same in [&little, &mixed, &low] {
        assert_eq!(says(&old, &exposure(same)), [Change::Unseen]);
    }
    let report = DiffReport::of(&old, &exposure(&high), 0.05).unwrap();
    assert_eq!(report.exit(), Exit::Exceeded);
    let text = page::page(&report, "old", "new")
        .unwrap()
        .to_text(View::full());
    assert!(
        text.contains("10 came above 5 bits, 0 fell below it, p = 0.0039"),
        "{text}"
    );
    let text = Envelope::new("diff", Inputs::new(), &report)
        .to_text()
        .unwrap();
    assert_eq!(problems("diff.schema.json", &text), Vec::<String>::new());
}

/// Eight canaries that come are p = 4 · 2^-8 = 0.016: enough alone, not beside an area at 99 % and two
/// rates, which leave 0.013 for each.
#[test]
fn rows_share_the_level() {
    let (old, mut new) = (exposure(&[0.1; 10]), vec![8.0; 10]);
    new[8..].fill(0.1);
    let new = exposure(&new);
    assert_eq!(says(&old, &new), [Change::More]);
    let whole = |exposure: &Value| {
        json!({"schema": 1, "type": "report", "exposure": exposure,
            "membership": membership(0.5, 0.6, 0.99), "extraction": extraction(10)})
    };
    assert_eq!(says(&whole(&old), &whole(&new)), [Change::Unseen; 4]);
}

/// Where ties leave an exposure open, both models get the end that speaks against "more".
#[test]
fn ties_never_say_more() {
    let open = |min: f64, max: f64| {
        let one = |i: u32| json!({"id": i.to_string(), "exposure": {"min": min, "max": max}});
        let canaries: Vec<Value> = (0..20).map(one).collect();
        json!({"schema": 1, "type": "exposure", "candidates": 1000, "canaries": canaries})
    };
    assert_eq!(says(&open(0.0, 9.0), &open(9.0, 9.0)), [Change::Unseen]);
    assert_eq!(says(&open(0.0, 0.0), &open(0.0, 9.0)), [Change::Unseen]);
    assert_eq!(says(&open(0.0, 1.0), &open(6.0, 9.0)), [Change::More]);
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
