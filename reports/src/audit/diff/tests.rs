use super::*;
use crate::page::View;
use crate::schema::problems;
use serde_json::json;

pub(super) fn exposure(bits: &[f64]) -> Value {
    let canaries: Vec<Value> = bits
        .iter()
        .enumerate()
        .map(|(i, b)| {
            json!({"id": format!("canary-{i}"), "copies": 20, "exposure": {"min": b, "max": b}})
        })
        .collect();
    json!({"schema": 1, "type": "exposure", "candidates": 1_000_000, "draw": "independent",
        "planting": "planted", "canaries": canaries})
}

pub(super) fn membership(low: f64, high: f64, confidence: f64) -> Value {
    json!({"schema": 1, "type": "membership", "confidence": confidence,
        "attacks": {"decides": "reference", "rows": []}, "records": records("aa", "k"),
        "roc": [{"fpr": 0.0, "tpr": 0.0}, {"fpr": 1.0, "tpr": 1.0}],
        "area": {"estimate": f64::midpoint(low, high), "lower": low, "upper": high}})
}

pub(super) fn extraction(hits: u64) -> Value {
    let row = |prompt: u64| json!({"prompt": prompt, "verbatim": {"hits": hits, "trials": 200}});
    json!({"schema": 1, "type": "extraction", "prompts": [row(10), row(50)],
        "records": records("bb", "k")})
}

fn records(hmac: &str, key: &str) -> Value {
    json!({"hmac": hmac, "key": key})
}

pub(super) fn says(old: &Value, new: &Value) -> Vec<Change> {
    let report = DiffReport::of(old, new, 0.05).unwrap();
    report.rows.iter().map(|r| r.says).collect()
}

/// Of ten canaries four come above two bits, ten above five, six above ten: E is the mean over four lines and four
/// stakes, (1/16) Σ (1 + λ)^came = 116.7, p = 0.0086. Of ten that rise by half a bit one comes above two bits and one
/// above five: no more than noise. Five that come above five are not enough.
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
        text.contains("10 rose above 5 bits, 0 fell below it, p = 0.0086"),
        "{text}"
    );
    let text = Envelope::new("diff", Inputs::new(), &report)
        .to_text()
        .unwrap();
    assert_eq!(problems("diff.schema.json", &text), Vec::<String>::new());
    for (name, value) in [
        ("inconclusive", json!(true)),
        ("planting", json!("no-copy")),
    ] {
        let mut nothing = exposure(&high);
        nothing[name] = value;
        let why = DiffReport::of(&old, &nothing, 0.05).unwrap_err();
        let why = why.to_string();
        assert!(why.starts_with("NEW: nothing can be concluded"), "{why}");
    }
    // Canaries that the plan of training did not include leak where they stand out, and tell nothing where they don't.
    let unplanned = |bits: &[f64]| {
        let mut document = exposure(bits);
        document["planting"] = "not-told".into();
        document
    };
    let report = DiffReport::of(&old, &unplanned(&high), 0.05).unwrap();
    assert_eq!(report.exit(), Exit::Exceeded);
    for (old, new, whose) in [
        (&old, unplanned(&[0.1; 10]), "NEW"),
        (&unplanned(&[0.1; 10]), exposure(&high), "OLD"),
    ] {
        let why = DiffReport::of(old, &new, 0.05).unwrap_err().to_string();
        assert!(
            why.starts_with(whose)
                && why.ends_with("plan of its training did not include its canaries"),
            "{why}"
        );
    }
}

/// Earlier versions did not say whether training met the canaries: what a new one does not show is open, with a leak too. Where
/// the old one says it, a new one without it is none of an earlier version, and passed. A word that no version wrote is refused.
#[test]
fn silence_of_canaries_of_unknown_planting_is_open() {
    let old = exposure(&[0.2; 10]);
    let with = |planting: Value| {
        let mut document = exposure(&[0.1; 10]);
        document["planting"] = planting;
        document
    };
    let report = DiffReport::of(&old, &with(json!("planted")), 0.05).unwrap();
    assert_eq!(report.otherwise(), Mood::Plain);
    let of_report = |exposure: &Value| json!({"schema": 1, "type": "report", "exposure": exposure});
    let unsaid = with(json!(null));
    for (old, new) in [
        (old.clone(), unsaid.clone()),
        (of_report(&old), of_report(&unsaid)),
    ] {
        let why = DiffReport::of(&old, &new, 0.05).unwrap_err().to_string();
        assert_eq!(
            why,
            "NEW: that it leaks no more cannot be concluded, since it lacks planting, which OLD has: whether training met its canaries is not known"
        );
    }
    // What it shows stands.
    let mut leaking = exposure(&[9.0; 10]);
    leaking["planting"] = json!(null);
    let report = DiffReport::of(&old, &leaking, 0.05).unwrap();
    assert_eq!(report.exit(), Exit::Exceeded);
    let before = with(json!(null));
    let report = DiffReport::of(&before, &with(json!(null)), 0.05).unwrap();
    assert_eq!(
        (report.otherwise(), report.exit()),
        (Mood::Open, Exit::Finished)
    );
    let unsaid = "what the silence of NEW's canaries means";
    assert!(report.said().contains(unsaid), "{}", report.said());
    let mut leaking = with(json!(null));
    leaking["proves_leak"] = true.into();
    let report = DiffReport::of(&before, &leaking, 0.05).unwrap();
    assert_eq!(report.otherwise(), Mood::Open);
    assert!(report.said().contains(unsaid), "{}", report.said());
    let report = DiffReport::of(&with(json!(null)), &old, 0.05).unwrap();
    assert_eq!(report.otherwise(), Mood::Plain);
    assert!(report.notes[0].starts_with("not known: what the silence of OLD's"));
    let why = DiffReport::of(&old, &with(json!("not-planned")), 0.05).unwrap_err();
    assert!(format!("{why:#}").contains("planting must be"), "{why:#}");
}

/// A document compared with itself passed: the old model's path was given twice.
#[test]
fn one_document_is_no_comparison() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, document: &Value| {
        let path = folder.path().join(name);
        std::fs::write(&path, document.to_string()).unwrap();
        path
    };
    let old = write("old.json", &exposure(&[0.1; 10]));
    let mut args = Args {
        new: write("copy.json", &exposure(&[0.1; 10])),
        old,
        level: reticent_accounting::Probability::new(0.05).unwrap(),
        html: None,
    };
    let report = compared(&args).unwrap();
    assert_eq!(
        (report.otherwise(), report.exit()),
        (Mood::Open, Exit::Finished)
    );
    assert_eq!(report.said(), "OLD and NEW are the same document.");
    // The last of two decided, so that a leak was none.
    let text = exposure(&[0.1; 10]).to_string();
    let text = text.replacen('{', "{\"inconclusive\": true, \"inconclusive\": false, ", 1);
    std::fs::write(&args.new, text).unwrap();
    let why = compared(&args).unwrap_err();
    assert!(
        format!("{why:#}").contains("\"inconclusive\" appears twice"),
        "{why:#}"
    );
    args.new = write("new.json", &exposure(&[0.2; 10]));
    assert_eq!(compared(&args).unwrap().otherwise(), Mood::Plain);
    for level in [0.0, 1.0] {
        args.level = reticent_accounting::Probability::new(level).unwrap();
        let why = compared(&args).unwrap_err().to_string();
        assert!(
            why.starts_with("--level: must lie in (0, 1), got "),
            "{why}"
        );
    }
}

/// Canaries that nobody knows to have been trained on tell nothing where they don't stand out: a model that never met them
/// passed as one that leaks no more.
#[test]
fn canaries_of_unchecked_training_tell_nothing_without_a_leak() {
    let unchecked = |bits: f64, p: f64| {
        let mut document = exposure(&[bits; 10]);
        document["planting"] = "not-checked".into();
        document["summary"] = json!({"p_max": p, "p_mean": p});
        document
    };
    let (silent, leak) = (unchecked(0.1, 0.9), unchecked(8.0, 1e-4));
    for (old, new, whose) in [(&leak, &silent, "NEW"), (&silent, &silent, "OLD")] {
        let why = DiffReport::of(old, new, 0.05).unwrap_err().to_string();
        assert!(
            why.starts_with(whose) && why.ends_with("not checked; give audit exposure --training"),
            "{why}"
        );
    }
    let of_report = |exposure: &Value| json!({"schema": 1, "type": "report", "exposure": exposure});
    assert!(DiffReport::of(&of_report(&leak), &of_report(&silent), 0.05).is_err());
    // A bound shows a leak with the usual confidence; with 0.01, models that never saw the canaries often have one. Documents
    // of earlier versions have no `proves_leak`; the bound that decides says it.
    let bound = |lower: f64, confidence: f64| json!({"lower": lower, "confidence": confidence});
    let by_evalues = |lower: f64| json!({"decides": "e-value", "epsilon": bound(lower, 0.95)});
    for (ranks, e_value, stated, leaks) in [
        (bound(0.3, 0.01), json!(null), json!(null), false),
        (bound(0.3, 0.01), json!(null), json!(true), true),
        (bound(0.3, 0.95), json!(null), json!(null), true),
        (bound(0.3, 0.95), json!(null), json!(false), false),
        (bound(0.0, 0.95), by_evalues(0.3), json!(null), true),
        (bound(0.3, 0.95), by_evalues(0.0), json!(null), false),
    ] {
        let mut proving = silent.clone();
        proving["epsilon"] = ranks;
        proving["e_value"] = e_value;
        proving["proves_leak"] = stated;
        // As the old document, silence that nobody checked is no reading.
        let why = DiffReport::of(&proving, &silent, 0.05).unwrap_err();
        let refused = if leaks { "NEW: " } else { "OLD: " };
        assert!(why.to_string().starts_with(refused), "{proving} {why}");
    }
    // A leak of the new model says nothing of the canaries that don't stand out, but is more than what the old one showed.
    let why = DiffReport::of(&leak, &leak, 0.05).unwrap_err().to_string();
    assert!(why.starts_with("NEW: that it leaks no more"), "{why}");
    let report = DiffReport::of(&silent, &leak, 0.05).unwrap();
    assert_eq!(report.exit(), Exit::Exceeded);
    let met = exposure(&[0.1; 10]);
    let report = DiffReport::of(&leak, &met, 0.05).unwrap();
    assert_eq!(report.otherwise(), Mood::Plain);
}

/// Exposures of canaries that the new training did not meet fall, whatever its model leaks of others: it was "less", and passed.
#[test]
fn canaries_that_training_did_not_meet_are_not_compared() {
    let of = |bits: f64, reached: u64| {
        let mut document = exposure(&[bits; 10]);
        document["reached"] = reached.into();
        document
    };
    let new = of(0.1, 1);
    let report = DiffReport::of(&exposure(&[8.0; 10]), &new, 0.05).unwrap();
    let note = "NEW: training met 1 of 10 canaries; the others can show no leak";
    assert!(report.notes[0].starts_with(note), "{:?}", report.notes);
    let lost = "the exposure of 9 canaries that NEW's training did not meet";
    assert_eq!(report.not_compared, [lost]);
    assert_eq!(report.otherwise(), Mood::Open);
    // Where the old training met no more, nothing is lost.
    for old in [&new, &of(8.0, 1)] {
        let report = DiffReport::of(old, &new, 0.05).unwrap();
        assert_eq!(report.not_compared, Vec::<String>::new());
    }
    let refused = DiffReport::of(&new, &of(0.1, 11), 0.05).unwrap_err();
    let said = "NEW: reached must be a whole number from 0 to 10, got 11";
    assert_eq!(format!("{refused:#}"), said);
}

/// No row could have said more by canaries that training did not meet; what was found could be.
#[test]
fn canaries_that_training_did_not_meet_could_say_nothing() {
    let of = |bits: f64, reached: u64| {
        let mut document = exposure(&[bits; 12]);
        document["reached"] = reached.into();
        document["candidates"] = 20.into();
        document["summary"] = json!({"p_max": 1.0, "p_mean": 1.0});
        document
    };
    for (reached, could) in [(12, true), (1, false)] {
        let report = DiffReport::of(&of(0.1, reached), &of(0.1, reached), 0.05).unwrap();
        let rows: Vec<bool> = report.rows.iter().map(|row| row.could_say).collect();
        assert_eq!(rows, [could; 2], "{report:?}");
        let how = &report.rows[0].how;
        let why = "were 1 canary that training met to come above every line";
        assert_eq!(how.contains(why), !could, "{how}");
    }
    let found = DiffReport::of(&of(0.1, 1), &of(4.3, 1), 0.05).unwrap();
    assert_eq!(found.rows[0].says, Change::More);
    assert!(found.rows[0].could_say, "{found:?}");
}

/// Ranks that a search left open are known from below only: a leak stands, silence doesn't, and neither does what an old model
/// was not seen to do. It was "no more than noise" of a model that leaked everything.
#[test]
fn a_search_that_was_cut_off_is_silent_about_what_it_did_not_find() {
    let low = exposure(&[0.1; 10]);
    let cut_off = |bits: &[f64]| {
        let mut document = exposure(bits);
        for canary in document["canaries"].as_array_mut().unwrap() {
            canary["exposure"]["max"] = 19.9.into();
            canary["unresolved"] = 9.into();
        }
        document
    };
    let report = DiffReport::of(&low, &cut_off(&[8.0; 10]), 0.05).unwrap();
    assert_eq!(report.exit(), Exit::Exceeded);
    for (old, new, whose) in [
        (&low, cut_off(&[0.0; 10]), "NEW"),
        (&cut_off(&[0.0; 10]), exposure(&[8.0; 10]), "OLD"),
    ] {
        let why = DiffReport::of(old, &new, 0.05).unwrap_err().to_string();
        assert!(why.starts_with(whose) && why.ends_with(CUT_OFF), "{why}");
    }
}

/// Of a promise the upper end is shown, of a proof the lower one.
#[test]
fn bounds_are_shown_on_the_side_where_they_hold() {
    let row = |quantity: &str| Row {
        quantity: quantity.to_owned(),
        old: 106.118_86,
        new: 11.897_149,
        says: Change::Unseen,
        could_say: true,
        how: String::new(),
    };
    assert_eq!(row(PROMISE_AND_PROOF).shown(), ["106.2", "11.89"]);
    assert_eq!(row(P_WITHOUT_A_LEAK).shown(), ["106.2", "11.90"]);
    assert_eq!(row("exposure, mean bits").shown(), ["106.1", "11.90"]);
}

/// Eight canaries that come above two lines of four are E = 57.5, p = 0.0174: enough alone, not beside an area at 99 % and
/// two rates, which leave 0.013 for each.
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
        json!({"schema": 1, "type": "exposure", "candidates": 1000, "planting": "planted", "canaries": canaries})
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
        assert!(html.contains(&report.said()) && html.contains("<svg"));
    }
    // Bits stand in the table alone.
    let bits = exposure(&[1.0, 2.0]);
    let report = DiffReport::of(&bits, &bits, 0.05).unwrap();
    let html = page::page(&report, "old", "new").unwrap();
    assert!(!html.to_html().unwrap().contains("<svg"));
}

/// A verdict's parts, as `audit exposure` writes them.
fn verdict(at_least: f64, at_most: f64, copies: u64) -> Value {
    json!({"at_least": at_least, "at_most": at_most, "provable": 12.0, "false_alarm": 5e-4,
        "terms": {"released": "m", "notion": "group-dp", "neighbours": "replace", "unit": "turn",
            "delta": 1e-6, "group": copies}})
}

/// What the old model promised is less than what the new one proves: by the new one's own verdict, in the same terms.
#[test]
fn a_promise_meets_what_the_other_proves() {
    let document = |at_least, at_most, copies| {
        let mut document = exposure(&[1.0; 10]);
        document["verdict"] = verdict(at_least, at_most, copies);
        document
    };
    let old = document(0.5, 3.0, 20);
    for (at_least, at_most, expected) in [
        (3.1, 9.0, Change::More),
        (2.9, 9.0, Change::Unseen),
        (0.0, 0.4, Change::Less),
    ] {
        let report = DiffReport::of(&old, &document(at_least, at_most, 20), 0.05).unwrap();
        let row = &report.rows[1];
        assert_eq!((row.says, row.old, row.new), (expected, 3.0, at_least));
        assert_eq!(report.exit() == Exit::Exceeded, expected == Change::More);
        assert!(
            row.how.contains("the old one promised ε ≤ 3"),
            "{}",
            row.how
        );
    }
    // A promise that its own audit contradicts shows neither more nor less.
    let broken = document(11.0, 5.0, 20);
    let loose = document(11.0, 900.0, 20);
    for (first, second, rows, said) in [
        (&broken, &broken, 1, "(OLD contradicts its own promise)"),
        (&broken, &loose, 1, "(OLD contradicts its own promise)"),
        (&loose, &broken, 2, "(NEW contradicts its own promise)"),
    ] {
        let report = DiffReport::of(first, second, 0.05).unwrap();
        assert_eq!(report.rows.len(), rows, "{said}");
        assert!(report.rows.iter().all(|row| row.says == Change::Unseen));
        assert!(
            report.notes.iter().any(|note| note.ends_with(said)),
            "{:?}",
            report.notes
        );
    }
    let mut by_ranks = document(0.0, 5.0, 20);
    by_ranks["ceiling"] = json!({"test": {"outcome": "contradicted"}});
    let report = DiffReport::of(&by_ranks, &loose, 0.05).unwrap();
    assert_eq!(report.rows.len(), 1, "{:?}", report.notes);
    // Whose word the promise is.
    let mut stated = old.clone();
    stated["promised_by"] = json!({"file": "x.json", "unit": "turn", "unit_assumed": false});
    stated["manifest"] = "x.json: not authenticated".into();
    let report = DiffReport::of(&stated, &old, 0.05).unwrap();
    let said =
        "the promise of OLD: promised by x.json, as the user states; x.json: not authenticated";
    assert!(
        report.notes.contains(&said.to_owned()),
        "{:?}",
        report.notes
    );
    // Other terms meet nothing, and what could prove no more says so.
    assert_eq!(says(&old, &document(8.0, 9.0, 5)).len(), 1);
    let far = document(0.0, 12.0, 20);
    let report = DiffReport::of(&far, &far, 0.05).unwrap();
    assert!(
        report.rows[1]
            .how
            .ends_with("it cannot say more: at most 12.00 could be proved"),
        "{}",
        report.rows[1].how
    );
}

/// The headline says less where a row does and none says more, and a row that one document has not the parts of is noted.
#[test]
fn less_is_said_and_rows_that_vanish_are_noted() {
    let document = |at_least, at_most| {
        let mut document = exposure(&[1.0; 10]);
        document["summary"] = json!({"p_max": 0.5, "p_mean": 0.5});
        document["verdict"] = verdict(at_least, at_most, 20);
        document
    };
    let (old, new) = (document(3.0, 12.0), document(0.0, 2.0));
    let report = DiffReport::of(&old, &new, 0.05).unwrap();
    assert_eq!(report.rows[2].says, Change::Less);
    assert_eq!(
        report.said(),
        "The new model leaks less than the old one by 1 of 3 rows, and by none more; 1 of 3 rows could not have said more whatever it leaks."
    );
    let less = DiffReport::of(&exposure(&[15.0; 10]), &exposure(&[0.1; 10]), 0.05).unwrap();
    assert!(less.said().starts_with("The new model leaks less"));
    let without = |place: &[&str], key: &str| {
        let mut document = new.clone();
        let part = place
            .iter()
            .fold(&mut document, |part, key| &mut part[*key]);
        part.as_object_mut().unwrap().shift_remove(key);
        document
    };
    let mut delta = new.clone();
    delta["verdict"]["terms"]["delta"] = 1e-5.into();
    for (new, said) in [
        (delta, "(delta of verdict.terms: "),
        (without(&[], "verdict"), "(NEW lacks an epsilon"),
        (without(&["verdict"], "terms"), "(NEW lacks verdict.terms)"),
        (
            without(&["summary"], "p_max"),
            "not compared: exposure, p without a leak (NEW lacks summary.p_max",
        ),
    ] {
        let report = DiffReport::of(&old, &new, 0.05).unwrap();
        assert_eq!(report.rows.len(), 2);
        assert!(
            report.notes.len() == 2 && report.notes[1].contains(said),
            "{:?}",
            report.notes
        );
    }
    let report = DiffReport::of(&without(&[], "verdict"), &new, 0.05).unwrap();
    assert!(report.notes[1].ends_with("(OLD has no verdict, and so no promise)"));
}

/// A new model that promises nothing has no verdict: its ranks are held against the old promise, at the row's share of the
/// level.
#[test]
fn ranks_meet_the_old_promise_where_the_new_model_has_none() {
    let mut old = exposure(&[1.0; 10]);
    old["verdict"] = verdict(0.0, 5.0, 20);
    let new = |rank: u64, copies: u64| {
        let mut new = exposure(&[(1e6 / rank as f64).log2(); 10]);
        for canary in new["canaries"].as_array_mut().unwrap() {
            canary["rank"] = json!({"min": rank, "max": rank});
        }
        new["epsilon"] = json!({"lower": 1.0, "confidence": 0.95, "delta": 1e-6,
            "neighbours": "replace", "unit": "turn", "copies": copies, "method": "rank-audit",
            "assumes": "approximate-dp", "canaries": 10});
        new
    };
    let report = DiffReport::of(&old, &new(1, 20), 0.05).unwrap();
    assert_eq!(report.rows[1].says, Change::More);
    // Ten of ten within rank 10, at a third of .025: ln(q/(1 − q)) + ln(99 999), q^10 = .0083 − slack.
    let wanted = report.rows[1].new;
    assert!((11.5..12.2).contains(&wanted), "{wanted}");
    for (reached, could_say) in [(10, true), (1, false)] {
        let mut new = new(500_000, 20);
        new["reached"] = reached.into();
        let report = DiffReport::of(&old, &new, 0.05).unwrap();
        let row = &report.rows[1];
        assert_eq!((row.says, row.new), (Change::Unseen, 0.0));
        assert_eq!(row.could_say, could_say, "{row:?}");
    }
    assert_eq!(says(&old, &new(1, 5)).len(), 1, "other groups");
}

/// Other copies of a canary are said, as more copies are remembered better whatever the model.
#[test]
fn other_numbers_of_copies_are_said() {
    let old = exposure(&[1.0; 10]);
    let mut new = exposure(&[1.0; 10]);
    new["canaries"][3]["copies"] = 5.into();
    let report = DiffReport::of(&old, &new, 0.05).unwrap();
    assert!(
        report.rows[0]
            .how
            .ends_with("canary-3 is in 20 copies of OLD and 5 of NEW"),
        "{}",
        report.rows[0].how
    );
}

/// Names and candidates may agree where the secrets don't.
#[test]
fn other_canaries_of_the_same_names_are_refused() {
    let of = |digest: &str| {
        let mut document = exposure(&[1.0; 10]);
        document["canary_digest"] = digest.into();
        document
    };
    let refused = DiffReport::of(&of("aa"), &of("bb"), 0.05).unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("the same canaries") && refused.contains("canary_digest"));
    let notes = |old: &Value, new: &Value| DiffReport::of(old, new, 0.05).unwrap().notes;
    assert_eq!(notes(&of("aa"), &of("aa")), Vec::<String>::new());
    let older = notes(&exposure(&[1.0; 10]), &of("aa"));
    assert!(
        older.len() == 1 && older[0].starts_with("not known: "),
        "{older:?}"
    );
}

/// Rows of other suffixes, records or attacks are no rows, and say so.
#[test]
fn what_is_not_the_same_is_not_compared() {
    let with = |mut document: Value, place: &str, value: Value| {
        *document.pointer_mut(place).unwrap() = value;
        document
    };
    // Documents without digests of their records: names are all there is.
    let without = |mut document: Value| {
        document.as_object_mut().unwrap().shift_remove("records");
        document
    };
    let mut rates = without(extraction(3));
    rates["suffix"] = 30.into();
    rates["inputs"] = json!({"data": "old/data.jsonl", "unit": "turn"});
    let mut area = without(membership(0.5, 0.6, 0.99));
    area["members"] = 40.into();
    area["inputs"] = json!({"members": "in.jsonl", "reference": "base/", "lower_is_member": false});
    area["attacks"]["rows"] = json!([{"attack": "loss"}]);
    for (old, new, said) in [
        (
            &rates,
            with(rates.clone(), "/suffix", 5.into()),
            "suffix: 30 in OLD, 5 in NEW",
        ),
        (
            &rates,
            with(rates.clone(), "/inputs/data", "new/other.jsonl".into()),
            "data: data.jsonl in OLD, other.jsonl in NEW",
        ),
        (
            &rates,
            with(rates.clone(), "/inputs/unit", "document".into()),
            "unit: turn in OLD, document in NEW",
        ),
        (
            &area,
            with(area.clone(), "/attacks/decides", "loss".into()),
            "deciding attack: reference in OLD, loss in NEW",
        ),
        (
            &area,
            with(area.clone(), "/members", 50.into()),
            "members: 40 in OLD, 50 in NEW",
        ),
        (
            &area,
            with(area.clone(), "/inputs/reference", "other".into()),
            "reference: base in OLD, other in NEW",
        ),
        (
            &area,
            with(area.clone(), "/inputs/lower_is_member", true.into()),
            "lower-is-member: false in OLD, true in NEW",
        ),
    ] {
        let said = format!("({said})");
        let refused = DiffReport::of(old, &new, 0.05).unwrap_err().to_string();
        assert!(
            refused.contains("not compared: ") && refused.contains(&said),
            "{refused}"
        );
    }
    // The same names in other folders are the same.
    let moved = with(rates.clone(), "/inputs/data", "new/data.jsonl".into());
    assert_eq!(says(&rates, &moved).len(), 2);
    // A prompt or an attack that one side lacks leaves the others; whether it leaks more there stays open.
    let short = with(rates.clone(), "/prompts/1/prompt", 25.into());
    let report = DiffReport::of(&rates, &short, 0.05).unwrap();
    assert_eq!(report.rows.len(), 1);
    assert_eq!(report.not_compared, ["verbatim behind 50 tokens"]);
    assert_eq!(report.otherwise(), Mood::Open);
    assert!(report.notes[0].starts_with(
        "not known: whether extraction is of the same records, as a document without"
    ));
    assert_eq!(
        report.notes[1..],
        [
            "not compared: verbatim behind 50 tokens, which NEW lacks",
            "not compared: verbatim behind 25 tokens, which OLD lacks"
        ]
    );
    let fewer = with(rates.clone(), "/prompts/0/verbatim/trials", 100.into());
    let report = DiffReport::of(&rates, &fewer, 0.05).unwrap();
    assert!(report.notes[1].ends_with("(passages: 200 in OLD, 100 in NEW)"));
    assert_eq!(report.not_compared.len(), 1);
    let other = with(area.clone(), "/attacks/rows/0/attack", "min-k".into());
    assert_eq!(
        DiffReport::of(&area, &other, 0.05).unwrap().notes[..2],
        [
            "not compared: the attack loss, which NEW lacks",
            "not compared: the attack min-k, which OLD lacks"
        ]
    );
}

/// Digests under one key tell whether records are the same, and names of files don't; under two keys nothing tells.
#[test]
fn digests_tell_records_whatever_their_files_are_called() {
    for (document, input) in [
        (extraction(3), "data"),
        (membership(0.5, 0.6, 0.99), "members"),
    ] {
        let of = |digest: Value, file: &str| {
            let mut document = document.clone();
            document["records"] = digest;
            document["inputs"] = json!({input: file});
            document
        };
        let old = of(records("aa", "k"), "one.jsonl");
        let report = DiffReport::of(&old, &of(records("aa", "k"), "two.jsonl"), 0.05).unwrap();
        assert_eq!(report.notes, Vec::<String>::new());
        let other = of(records("ab", "k"), "one.jsonl");
        let refused = DiffReport::of(&old, &other, 0.05).unwrap_err().to_string();
        assert!(
            refused.contains("(records: their digests differ)"),
            "{refused}"
        );
        for (unknown, why) in [
            (records("aa", "l"), "the keys of two owners"),
            (Value::Null, "without a digest of them"),
        ] {
            let report = DiffReport::of(&old, &of(unknown.clone(), "one.jsonl"), 0.05).unwrap();
            assert!(
                report.notes.len() == 1 && report.notes[0].contains(why),
                "{:?}",
                report.notes
            );
            let refused = DiffReport::of(&old, &of(unknown, "two.jsonl"), 0.05).unwrap_err();
            assert!(
                refused
                    .to_string()
                    .contains("one.jsonl in OLD, two.jsonl in NEW"),
                "{refused}"
            );
        }
    }
}

/// Where no new model could have made a row speak, the row, the headline and the document say so: five canaries at 5 %, ranks
/// among two candidates, five members at 99 %, five passages of which three came out before.
#[test]
fn rows_that_could_not_speak_say_so() {
    let area = |members: u64, high: f64| {
        let mut area = membership(0.3, high, 0.99);
        area["members"] = members.into();
        area["non_members"] = 500.into();
        area
    };
    let rates = |hits: u64, trials: u64| {
        let mut rates = extraction(hits);
        for row in rates["prompts"].as_array_mut().unwrap() {
            row["verbatim"]["trials"] = trials.into();
        }
        rates
    };
    let coins = |canaries: usize| {
        let mut document = exposure(&vec![0.0; canaries]);
        document["candidates"] = 2.into();
        document["summary"] = json!({"p_max": 1.0, "p_mean": 1.0});
        document
    };
    // (.005)^(1/10) = .5887 of ten members; (.0125)^(1/5) = .4163 of five passages, at half of 5 %.
    for (old, new, spoke, why) in [
        (
            exposure(&[0.1; 5]),
            None,
            vec![false],
            "it cannot say more: were all 5",
        ),
        (exposure(&[0.1; 12]), None, vec![true], ""),
        (
            coins(2),
            None,
            vec![false, false],
            "were every canary that training met the new one's first guess, p would be",
        ),
        (
            coins(20),
            None,
            vec![false, false],
            "first guess, p would be",
        ),
        (
            area(10, 0.59),
            None,
            vec![false],
            "would begin at 0.5888, and the old one's ends at 0.59",
        ),
        (area(10, 0.58), None, vec![true], ""),
        (
            area(50, 1.0),
            None,
            vec![false],
            "would begin at 0.8995, and the old one's ends at 1",
        ),
        (
            rates(3, 5),
            None,
            vec![false, false],
            "at best the new one's would begin at 0.4163",
        ),
        (rates(0, 50), Some(rates(50, 50)), vec![true, true], ""),
    ] {
        let report = DiffReport::of(&old, new.as_ref().unwrap_or(&old), 0.05).unwrap();
        let could: Vec<bool> = report.rows.iter().map(|row| row.could_say).collect();
        assert_eq!(could, spoke, "{report:?}");
        let silent = could.iter().all(|could| !could);
        assert_eq!(
            report.said().starts_with("Nothing can be concluded"),
            silent
        );
        let how = &report.rows.last().unwrap().how;
        assert!(how.contains(why), "{how}");
        assert_eq!(how.contains("cannot say"), silent, "{how}");
        let text = Envelope::new("diff", Inputs::new(), &report)
            .to_text()
            .unwrap();
        assert_eq!(problems("diff.schema.json", &text), Vec::<String>::new());
    }
    let whole = |exposure: Value| {
        json!({"schema": 1, "type": "report", "exposure": exposure,
            "membership": area(500, 0.6)})
    };
    let some = whole(exposure(&[0.1; 5]));
    let report = DiffReport::of(&some, &some, 0.05).unwrap();
    assert!(
        report
            .said()
            .ends_with("1 of 2 rows could not have said so whatever it leaks."),
        "{}",
        report.said()
    );
}

/// In the text and in the document, a line for each part that one report lacks; a part that the new one drops leaves the
/// result open.
#[test]
fn what_one_report_lacks_is_said() {
    let old = json!({"schema": 1, "type": "report", "exposure": exposure(&[1.0; 10]),
        "membership": membership(0.5, 0.6, 0.99), "extraction": extraction(10)});
    let new = json!({"schema": 1, "type": "report", "extraction": extraction(10)});
    let report = DiffReport::of(&old, &new, 0.05).unwrap();
    let said = [
        "not compared: exposure, which NEW lacks",
        "not compared: membership, which NEW lacks",
    ];
    assert_eq!(report.notes, said);
    assert_eq!(report.not_compared, ["exposure", "membership"]);
    assert!(
        report
            .said()
            .ends_with(" Not compared: exposure, membership.")
    );
    assert_eq!(report.otherwise(), Mood::Open);
    // What only the new one has loses nothing; what both have of other records does.
    let more = DiffReport::of(&new, &old, 0.05).unwrap();
    assert_eq!(
        (more.not_compared.len(), more.otherwise()),
        (0, Mood::Plain)
    );
    let mut other = old.clone();
    other["membership"]["records"] = records("ab", "k");
    let other = DiffReport::of(&old, &other, 0.05).unwrap();
    assert_eq!(other.not_compared, ["membership"]);
    let page = page::page(&report, "old", "new").unwrap();
    for view in [View::full(), View::of_terminal(false)] {
        let text = page.to_text(view);
        assert!(said.iter().all(|line| text.contains(line)), "{text}");
    }
    let text = Envelope::new("diff", Inputs::new(), &report)
        .to_text()
        .unwrap();
    assert_eq!(problems("diff.schema.json", &text), Vec::<String>::new());
    assert!(text.contains(said[0]));
}

/// Where attacks find a leak in the new model alone and no row says so, the headline does.
#[test]
fn a_leak_that_only_the_new_report_finds_comes_first() {
    let of = |signal: &str, attack: &str| {
        let mut part = membership(0.5, 0.6, 0.99);
        part["signal"] = signal.into();
        part["attacks"]["decides"] = attack.into();
        json!({"schema": 1, "type": "report", "membership": part, "extraction": extraction(0)})
    };
    let quiet = of("unseen", "loss");
    let mut without = quiet.clone();
    without.as_object_mut().unwrap().shift_remove("membership");
    for old in [&quiet, &of("unseen", "reference"), &without] {
        let report = DiffReport::of(old, &of("leak", "reference"), 0.05).unwrap();
        let said = report.said();
        assert!(
            said.starts_with("NEW finds a leak where OLD finds none (membership): "),
            "{said}"
        );
        assert!(!said.contains("No sign"), "{said}");
        assert_eq!(report.otherwise(), Mood::Open);
    }
    let both = DiffReport::of(&of("leak", "loss"), &of("leak", "reference"), 0.05).unwrap();
    assert!(both.appeared.is_empty());
}

/// What a report was asked for is there, or why it is not; p of ranks is that of the ranks; passages have rows.
#[test]
fn documents_that_contradict_themselves_are_refused() {
    let mut ranked = exposure(&[1.0; 10]);
    for canary in ranked["canaries"].as_array_mut().unwrap() {
        canary["rank"] = json!({"min": 500_000, "max": 500_000});
    }
    let mut found = ranked.clone();
    found["summary"] = json!({"p_max": 0.999, "p_mean": 0.934});
    let said = |new: &Value| {
        let refused = DiffReport::of(&ranked, new, 0.05);
        refused.map_or_else(|error| format!("{error:#}"), |_| String::new())
    };
    let refused = said(&found);
    assert!(
        refused.starts_with("NEW: summary.p_") && refused.contains("as the ranks say"),
        "{refused}"
    );
    // The p-values that were refused name the right ones.
    for key in ["p_max", "p_mean"] {
        let refused = said(&found);
        if let Some((_, behind)) = refused.split_once(&format!("{key} must be ")) {
            let (right, _) = behind.split_once(',').unwrap();
            found["summary"][key] = right.parse::<f64>().unwrap().into();
        }
    }
    assert_eq!(said(&found), "");
    let mut less = found.clone();
    less["canaries"][3]["exposure"]["min"] = 0.25.into();
    let refused = said(&less);
    let words = "NEW: canaries[3].exposure.min must be 1, as the rank says, got 0.25";
    assert!(refused.starts_with(words), "{refused}");
    let report = json!({"schema": 1, "type": "report", "exposure": exposure(&[1.0; 10]),
        "membership": membership(0.5, 0.6, 0.99), "extraction": extraction(10),
        "inputs": {"members": "in.jsonl", "canary_file": "canaries.json"}});
    for part in ["exposure", "membership", "extraction"] {
        let mut other = report.clone();
        other[part] = Value::Null;
        let refused = format!("{:#}", DiffReport::of(&report, &other, 0.05).unwrap_err());
        let words = format!("NEW: {part} must be an object, as inputs ask for it, got nothing");
        assert_eq!(refused, words);
        other[&format!("no_{part}")] = "too short".into();
        let excused = DiffReport::of(&report, &other, 0.05).is_ok();
        assert_eq!(excused, part != "membership");
    }
    let mut rates = extraction(10);
    rates["passages"] = 200.into();
    rates["prompts"] = Value::Null;
    let refused = format!(
        "{:#}",
        DiffReport::of(&extraction(10), &rates, 0.05).unwrap_err()
    );
    assert!(
        refused.starts_with("NEW: prompts must be a list of rows, as passages is 200"),
        "{refused}"
    );
}

/// A document may come from anybody: each field out of its range is refused by name.
/// An area and its interval are those of the curve, however many records there are; scores that say nothing are compared with
/// none.
#[test]
fn areas_that_their_curve_does_not_have_are_refused() {
    use reticent_attacks::membership::ScoreSet;
    // Some hundred corners are left of a thousand.
    let document = |shift: f64, every: usize| {
        let score = |i: u32, more: f64| f64::from(i * 7919 % 1009) / 1009.0 + more;
        let inside = (0..600).map(|i| score(i, shift)).collect();
        let set = ScoreSet::new(inside, (0..600).map(|i| score(i + 300, 0.0)).collect()).unwrap();
        let area = set.area(Confidence::new(0.99).unwrap(), 0).unwrap();
        let (lower, upper) = super::super::ends(&area.bounds);
        let roc: Vec<Value> = (set.roc().iter().enumerate())
            .filter(|(i, _)| i % every == 0)
            .map(|(_, corner)| json!({"fpr": corner.fpr, "tpr": corner.tpr}))
            .collect();
        let mut out = membership(lower, upper, 0.99);
        (out["members"], out["non_members"]) = (600.into(), 600.into());
        out["roc"] = roc.into();
        out["area"] =
            json!({"estimate": area.estimate, "lower": lower, "upper": upper, "method": "delong"});
        out
    };
    let said = |new: &Value| {
        let found = DiffReport::of(&document(0.0, 3), new, 0.05);
        found.map_or_else(|error| format!("{error:#}"), |report| report.said())
    };
    let leak = document(0.3, 3);
    assert!(said(&leak).starts_with("The new model leaks more"));
    for (key, value, words) in [
        ("estimate", json!(0.5), "area.estimate must be from"),
        ("lower", json!(0.5), "area.lower must be"),
        ("lower", Value::Null, "area.lower must be"),
    ] {
        let mut edited = leak.clone();
        edited["area"][key] = value;
        edited["area"]["lower"] = match key {
            "estimate" => json!(0.4),
            _ => edited["area"]["lower"].clone(),
        };
        let said = said(&edited);
        assert!(said.starts_with("NEW: ") && said.contains(words), "{said}");
    }
    let mut blind = leak.clone();
    blind["roc"] = Value::Null;
    assert!(said(&blind).contains("NEW: roc must be a list"));
    let mut equal = membership(0.4, 0.6, 0.99);
    (equal["members"], equal["non_members"]) = (600.into(), 600.into());
    for (new, why) in [
        (
            document(-0.3, 3),
            "members score lower than non-members in NEW",
        ),
        (equal, "all scores are equal in NEW"),
    ] {
        let report = DiffReport::of(&leak, &new, 0.05).unwrap();
        assert!(
            report.is_silent() && report.rows[0].how.contains(why),
            "{report:?}"
        );
    }
}

#[test]
fn fields_out_of_their_range_are_refused() {
    let mut good = json!({"schema": 1, "type": "report", "exposure": exposure(&[1.0; 3]),
        "membership": membership(0.5, 0.6, 0.99), "extraction": extraction(10)});
    good["membership"]["members"] = 40.into();
    good["exposure"]["canary_digest"] = "aa".into();
    good["exposure"]["verdict"] = verdict(0.5, 3.0, 20);
    DiffReport::of(&good, &good, 0.05).unwrap();
    let mut open = good.clone();
    open["exposure"]["verdict"]["at_most"] = "inf".into();
    DiffReport::of(&open, &open, 0.05).unwrap();
    for (place, value, said) in [
        (
            "membership/confidence",
            json!(1.0),
            "membership.confidence must be in (0, 1), got 1.0",
        ),
        (
            "membership/confidence",
            json!(-3),
            "membership.confidence must be in (0, 1), got -3",
        ),
        (
            "membership/area/lower",
            json!(-0.1),
            "membership.area.lower must be in [0, 1]",
        ),
        (
            "membership/area/upper",
            json!(0.4),
            "area.lower must be at most membership.area.upper",
        ),
        (
            "membership/area/estimate",
            json!(7),
            "membership.area.estimate must be in [0, 1], got 7",
        ),
        (
            "membership/records",
            json!({"hmac": "aa"}),
            "membership.records.key must be a text, got nothing",
        ),
        (
            "membership/area/estimate",
            json!(0.61),
            "estimate must be from membership.area.lower to membership.area.upper, got 0.61",
        ),
        (
            "membership/members",
            json!("bad"),
            "membership.members must be a whole number from 0 to 9223372036854775808, got a text",
        ),
        ("membership/members", json!(-3), "number from 0 to"),
        ("membership/members", json!(1e20), "number from 0 to"),
        (
            "exposure/draw",
            json!("zzz"),
            "exposure.draw must be independent or distinct, got a text",
        ),
        (
            "exposure/canary_digest",
            json!(5),
            "exposure.canary_digest must be a text, got 5",
        ),
        (
            "exposure/verdict/false_alarm",
            json!(-5),
            "exposure.verdict.false_alarm must be in (0, 1), got -5",
        ),
        (
            "exposure/verdict/at_most",
            json!(-1),
            "verdict.at_most must be a number in [0, inf) or \"inf\", got -1",
        ),
        (
            "exposure/verdict/at_least",
            json!(1e300),
            "exposure.verdict.at_least must be in [0, 1000], got ",
        ),
        (
            "exposure/verdict/at_least",
            json!(13),
            "at_least must be at most exposure.verdict.provable, got 13 and 12.0",
        ),
        (
            "exposure/canaries/1/id",
            json!("canary-0"),
            "canaries[1].id must be its own",
        ),
        (
            "exposure/canaries/1/exposure",
            json!(null),
            "canaries[1].exposure.min must be in [0, 19.931569], got nothing",
        ),
        (
            "exposure/canaries/1/exposure",
            json!({"min": 1}),
            "canaries[1].exposure.max must be in",
        ),
        (
            "exposure/canaries/1/exposure/min",
            json!(1.5),
            "exposure.min must be at most",
        ),
        (
            "exposure/canaries/1/exposure/max",
            json!(21),
            "exposure.max must be in [0, 19.931569], got 21",
        ),
        (
            "exposure/canaries/2/copies",
            json!(-1),
            "canaries[2].copies must be a whole number from 0 to 4294967295, got -1",
        ),
        (
            "exposure/candidates",
            json!(u64::MAX),
            "exposure.candidates must be a whole number from 1 to 9223372036854775808",
        ),
        (
            "extraction/prompts/1/prompt",
            json!(10),
            "prompts[1].prompt must be its own",
        ),
        (
            "extraction/prompts/1/verbatim/hits",
            json!(201),
            "verbatim.hits must be a whole number from 0 to 200",
        ),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(&format!("/{place}")).unwrap() = value;
        for (old, new, which) in [(&bad, &good, "OLD: "), (&good, &bad, "NEW: ")] {
            let refused = format!("{:#}", DiffReport::of(old, new, 0.05).unwrap_err());
            assert!(
                refused.starts_with(which) && refused.contains(said),
                "{place}: {refused}"
            );
        }
    }
}

#[test]
fn a_level_too_small_is_said_in_few_digits_and_without_other_advice() {
    let refused = |document: &Value, level| {
        DiffReport::of(document, document, level)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refused(&extraction(3), 1e-300),
        "--level: must be above 1.00e-9 for these documents, got 1e-300"
    );
    let area = refused(&membership(0.5, 0.6, 0.95), 1e-300);
    assert!(
        area.contains("intervals take 0.0500 of 1.00e-300"),
        "{area}"
    );
}
