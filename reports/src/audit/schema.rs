//! Checks the documents against their published schemas.

use crate::contract::Inputs;
use crate::schema::{fits, problems};

#[test]
fn the_demo_fits_its_schema() {
    let report = super::demo::tests::report();
    let text = report.document(Inputs::new()).to_text().unwrap();
    fits("demo", &text);
}

#[test]
fn an_exposure_finding_fits_its_schema() {
    for arm in super::demo::tests::report().arms {
        let text = arm.exposure.document(Inputs::new()).to_text().unwrap();
        fits("exposure", &text);
    }
}

#[test]
fn the_checker_sees_what_is_wrong() {
    let report = super::demo::tests::report();
    let good = report.document(Inputs::new()).to_text().unwrap();
    for (from, to) in [
        ("\"schema\": 1", "\"schema\": 2"),
        ("\"notion\": \"group-dp\"", "\"notion\": \"abc\""),
        ("\"model\":", "\"modle\":"),
        ("\"seed\": 0", "\"seed\": -1"),
        ("\"upper\": \"inf\"", "\"upper\": \"infinite\""),
        ("\"seconds\": 203.0", "\"seconds\": \"203\""),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good, "{from}");
        assert!(!problems("demo.schema.json", &bad).is_empty(), "{from}");
    }
}
