use super::*;
use crate::schema::problems;
use reticent_attacks::{contrast, strata};

fn level() -> Confidence {
    Confidence::new(0.95).unwrap()
}

/// 40 passages, 12 of which come out, 2 of the baseline; copies 1 and 20.
fn report(baseline: bool) -> ExtractReport {
    let ours: Vec<bool> = (0..40).map(|i| i < 12).collect();
    let theirs: Vec<bool> = (0..40).map(|i| i < 2).collect();
    let copies: Vec<u64> = (0..40).map(|i| if i < 20 { 20 } else { 1 }).collect();
    let base = baseline.then_some(theirs.as_slice());
    let rate = |hits| Rate::of(hits, 40, level()).unwrap();
    ExtractReport {
        passages: 40,
        suffix: 50,
        near_at_most: Some(0.1),
        prompts: vec![PromptRates {
            prompt: 50,
            verbatim: rate(12),
            near: Some(rate(15)),
            strata: strata(&ours, base, &copies, level()).unwrap(),
            contrast: base.map(|b| contrast(&ours, b, level()).unwrap()),
        }],
        draws: vec![WithinDraws {
            prompt: 50,
            draws: 100.0,
            rate: rate(20),
        }],
        baseline,
        secrets: Some(Reconstruction {
            ranks: vec![("a".into(), 1), ("b".into(), 4)],
            hits: 1,
            expected_blindly: 0.02,
            expected_at_most: 0.4,
            p_value: 0.4,
            alpha: 1e-3,
            outcome: CeilingOutcome::NotContradicted,
        }),
        confidence: level(),
    }
}

#[test]
fn documents_fit_their_schema() {
    for baseline in [true, false] {
        let text = report(baseline).to_json(Inputs::new()).unwrap();
        assert_eq!(
            problems("extraction.schema.json", &text),
            Vec::<String>::new()
        );
    }
}

/// The limit meets the certified end of what the model alone gives: 10 of 40 with the baseline
/// beside it (at least 12.6 %), 12 of 40 without (at least 16.5 %).
#[test]
fn a_limit_is_passed_by_what_is_certain() {
    assert_eq!(report(true).exit(Some(0.12)), Exit::Exceeded);
    assert_eq!(report(true).exit(Some(0.13)), Exit::Finished);
    assert_eq!(report(false).exit(Some(0.13)), Exit::Exceeded);
    assert_eq!(report(false).exit(None), Exit::Finished);
    let mut broken = report(true);
    if let Some(secrets) = &mut broken.secrets {
        secrets.outcome = CeilingOutcome::Contradicted;
    }
    assert_eq!(broken.exit(None), Exit::Exceeded);
}

#[test]
fn text_and_page_say_the_same() {
    let with = report(true);
    let text = with.to_text();
    for said in [
        "12 come out word by word behind 50 tokens",
        "10 of them from this model alone: it remembers",
        "1 of 2 secrets",
        "not contradicted",
        "10 to 99",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(report(false).to_text().contains("Without --baseline"));
    let html = with.to_html("ckpt", None).unwrap();
    assert!(html.contains("<svg") && html.contains("it remembers its training text"));
}
