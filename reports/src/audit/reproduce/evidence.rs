//! Turns measurements into the series to which rules refer.

use super::rules::{Point, Series};
use crate::audit::figure::{self, Known};
use crate::audit::grid::{CellDocument, Place, Work};
use reticent_accounting::training::Recipe;
use serde_json::Value;

/// A quantity of cells: what its series is called before the name of an arm, and how it is read in a cell.
pub(super) type Quantity = (&'static str, fn(&CellDocument) -> Option<f64>);

/// The name of ε in series, before that of an arm.
pub(super) const OF_A_RECORD: &str = "ε of a record of";

/// The quantities that every paper needs.
pub(super) const QUANTITIES: &[Quantity] = &[
    ("perplexity of", |cell| cell.measured(Known::Perplexity)),
    ("loss of", loss),
    ("exposure of", |cell| exposure(cell, Known::Exposure)),
    ("mean exposure of", |cell| {
        exposure(cell, Known::ExposureMean)
    }),
    ("accuracy on", |cell| cell.measured(Known::Accuracy)),
    ("area on", |cell| cell.measured(Known::Auc)),
    ("area of groups on", groups),
    ("area by the texts alone, on", |cell| {
        cell.number(Work::Membership, "blind.area.estimate")
    }),
    (OF_A_RECORD, of_a_record),
    ("ε at least, of", |cell| cell.measured(Known::Epsilon)),
    ("ε at least by e-values, of", |cell| {
        cell.number(Work::Exposure, "e_value.epsilon.lower")
    }),
    ("ε at least by coins, of", |cell| {
        cell.number(Work::Coins, "epsilon.lower")
    }),
    ("accuracy of", |cell| {
        cell.number(Work::Classify, "accuracy")
    }),
    ("extracted", |cell| {
        cell.number(Work::Extract, "prompts.0.verbatim.estimate")
    }),
];

/// Returns the loss of held-out text, or of its masked tokens, in nats.
pub(super) fn loss(cell: &CellDocument) -> Option<f64> {
    cell.measured(Known::Perplexity).map(f64::ln)
}

/// Returns an exposure of a cell, which is NaN if the audit does not know it.
pub(super) fn exposure(cell: &CellDocument, what: Known) -> Option<f64> {
    cell.exposure.as_ref()?;
    Some(cell.measured(what).unwrap_or(f64::NAN))
}

/// Returns the area over groups of the deciding attack.
fn groups(cell: &CellDocument) -> Option<f64> {
    let attacks = &cell.membership.as_ref()?["attacks"];
    let decides = &attacks["decides"];
    let rows = attacks["rows"].as_array()?;
    let row = rows.iter().find(|row| row["attack"] == *decides)?;
    row["grouped"][0]["area"]["estimate"].as_f64()
}

/// Returns the upper end of ε of a record with another content; the rows of `protect` are about secrets.
fn of_a_record(cell: &CellDocument) -> Option<f64> {
    let own = cell.training.as_ref();
    let training = own.filter(|_| cell.place.recipe != Recipe::Protect)?;
    let rows = training["guarantees"].as_array()?;
    let mut rows = rows.iter().filter(|row| row["about"] == "record");
    let row = rows.find(|row| row["neighbours"] == "replace")?;
    let upper = figure::Quantity::At("epsilon.upper".to_owned());
    upper.of(row).ok()
}

/// Returns a quantity of a cell: NaN if the cell failed before it was measured.
pub(super) fn known(cell: &CellDocument, of: impl Fn(&CellDocument) -> Option<f64>) -> Option<f64> {
    of(cell).or_else(|| cell.failed.as_ref().map(|_| f64::NAN))
}

/// Returns a quantity of a cell that audits measure, as [`known`] and [`exposure`] do.
pub(super) fn value(cell: &CellDocument, what: Known) -> Option<f64> {
    known(cell, |cell| match what {
        Known::Exposure | Known::ExposureMean => exposure(cell, what),
        _ => cell.measured(what),
    })
}

/// Returns a series over the selected cells, by x; cells that don't have the quantity are left out. The series is empty
/// if one of its values is NaN, as that of a failed cell: nothing is concluded from the other runs alone.
pub(super) fn over(
    cells: &[CellDocument],
    what: &str,
    wanted: impl Fn(&Place) -> bool,
    of: impl Fn(&CellDocument) -> Option<f64>,
) -> Series {
    let mut found: Vec<(f64, f64, String)> = cells
        .iter()
        .filter(|cell| wanted(&cell.place))
        .filter_map(|cell| {
            let document = format!("cells/{}.json", cell.place.name());
            Some((cell.place.miss_rate, known(cell, &of)?, document))
        })
        .collect();
    if found.iter().any(|(_, value, _)| value.is_nan()) {
        found.clear();
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let points = found.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq());
    Series {
        what: what.to_owned(),
        points: points
            .map(|same| Point {
                x: same[0].0,
                values: same.iter().map(|(_, value, _)| *value).collect(),
                from: same.iter().map(|(_, _, from)| from.clone()).collect(),
            })
            .collect(),
    }
}

/// Returns the series of every quantity for every arm.
pub(super) fn of_arms(cells: &[CellDocument]) -> Vec<Series> {
    let mut arms: Vec<&str> = cells.iter().map(|cell| cell.place.arm.as_str()).collect();
    arms.sort_unstable();
    arms.dedup();
    let mut all = Vec::new();
    for arm in arms {
        for (name, of) in QUANTITIES {
            let what = format!("{name} {arm}");
            let series = over(cells, &what, |place| place.arm == arm, of);
            if !series.points.is_empty() {
                all.push(series);
            }
        }
    }
    all
}

/// Returns a single number with the document from which it comes.
pub(super) fn number(what: &str, x: f64, value: f64, from: String) -> Series {
    Series {
        what: what.to_owned(),
        points: vec![Point {
            x,
            values: vec![value],
            from: vec![from],
        }],
    }
}

/// Merges series with the same name, in order of x.
pub(super) fn merged(all: Vec<Series>) -> Vec<Series> {
    let mut out: Vec<Series> = Vec::new();
    for series in all {
        match out.iter_mut().find(|known| known.what == series.what) {
            Some(known) => known.points.extend(series.points),
            None => out.push(series),
        }
    }
    for series in &mut out {
        series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    out
}

/// Reads points from the document of a command.
pub(super) type Read = fn(&Value) -> Vec<(f64, f64)>;

/// Returns the upper end of ε in the guarantee that matches all keys.
pub(super) fn upper(found: &Value, keys: &[(&str, &str)]) -> Vec<(f64, f64)> {
    let rows = found["guarantees"].as_array();
    let all = |row: &&Value| keys.iter().all(|(key, value)| row[key] == **value);
    let row = rows.and_then(|rows| rows.iter().find(all));
    let upper = row.and_then(|row| row["epsilon"]["upper"].as_f64());
    upper.map(|upper| (0.0, upper)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A search that was cut off knows exposures from below only. They counted as 0 bits, by which models that leak
    /// nothing were recognised.
    #[test]
    fn exposures_that_are_not_known_are_no_evidence() {
        let cell = |seed: u64, unresolved: u64| -> CellDocument {
            let exposure = json!({"type": "exposure", "summary": {"max": 0.5, "mean": 0.5},
                "epsilon": {"lower": 0.0}, "canaries": [{"unresolved": unresolved}]});
            serde_json::from_value(
                json!({"arm": "CRT", "recipe": "crt", "model": "lstm", "seed": seed,
                "miss_rate": 0.0, "canary_recall": 1.0, "stages": [], "exposure": exposure}),
            )
            .unwrap()
        };
        let cut_off = cell(1, 9);
        let row = cut_off.row();
        assert!(row.exposure.is_none() && row.exposure_mean.is_none());
        assert!(cell(1, 0).row().exposure.is_some());
        let names = |cells: &[CellDocument]| -> Vec<String> {
            let series = of_arms(cells);
            series.into_iter().map(|series| series.what).collect()
        };
        let known = [
            "exposure of CRT",
            "mean exposure of CRT",
            "ε at least, of CRT",
        ];
        assert_eq!(names(&[cell(0, 0), cell(1, 0)]), known);
        assert_eq!(names(&[cell(0, 0), cut_off]), known[2..]);
    }

    /// Arms are compared together with what each promises.
    #[test]
    fn the_epsilon_of_a_record_is_that_of_the_run() {
        let cell = |recipe: &str, upper: Value| -> CellDocument {
            let rows = json!([
                {"about": "record", "neighbours": "add-remove", "epsilon": {"upper": 1.0}},
                {"about": "secret", "neighbours": "replace", "epsilon": {"upper": 9.0}},
                {"about": "record", "neighbours": "replace", "epsilon": {"upper": upper}},
            ]);
            let cell = json!({"arm": "A", "recipe": recipe, "model": "lstm", "seed": 0, "miss_rate": 0.0,
                "canary_recall": 1.0, "stages": [], "training": {"guarantees": rows}});
            serde_json::from_value(cell).unwrap()
        };
        assert_eq!(of_a_record(&cell("dpsgd", json!(2.5))), Some(2.5));
        let infinite = of_a_record(&cell("jft", json!("inf")));
        assert_eq!(infinite, Some(f64::INFINITY));
        assert_eq!(of_a_record(&cell("protect", json!(2.5))), None);
    }

    /// Of two runs the one that failed was left out, and the other one alone judged the claim, without a spread. What a
    /// failed cell measured before it failed still counts.
    #[test]
    fn a_run_that_failed_leaves_its_series_unknown() {
        let exposure = json!({"type": "exposure", "summary": {"max": 0.5}, "canaries": []});
        let cell = |seed: u64, miss_rate: f64, more: Value| -> CellDocument {
            let mut cell = json!({"arm": "CRT", "recipe": "crt", "model": "lstm", "seed": seed,
                "miss_rate": miss_rate, "canary_recall": 1.0, "stages": []});
            for (key, value) in more.as_object().unwrap() {
                cell[key] = value.clone();
            }
            serde_json::from_value(cell).unwrap()
        };
        let whole = |seed, miss_rate| cell(seed, miss_rate, json!({"exposure": exposure}));
        let failed = |more: Value| {
            let mut parts = json!({"failed": "training: refused"});
            for (key, value) in more.as_object().unwrap() {
                parts[key] = value.clone();
            }
            cell(1, 0.1, parts)
        };
        let points = |cells: &[CellDocument]| {
            let of = |cell: &CellDocument| super::exposure(cell, Known::Exposure);
            over(cells, "exposure of CRT", |_| true, of).points.len()
        };
        assert_eq!(points(&[whole(0, 0.0), whole(0, 0.1), whole(1, 0.1)]), 2);
        let nothing = failed(json!({}));
        assert_eq!(points(&[whole(0, 0.0), whole(0, 0.1), nothing.clone()]), 0);
        assert_eq!(points(&[whole(0, 0.0), nothing]), 0);
        let measured = failed(json!({"exposure": exposure}));
        assert_eq!(points(&[whole(0, 0.0), whole(0, 0.1), measured]), 2);
    }
}
