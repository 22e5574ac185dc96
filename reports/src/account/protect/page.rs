//! The answer as text and as rows.

use super::document::{Protection, Row, Setting, Sizes};
use crate::account::csv::Columns;
use crate::contract::{Align, Envelope, Table, dash};
use crate::number::{count_of, described, grouped, nearest, rounded, rounded_up, shortest};
use crate::page::{Page, Section};
use anyhow::Result;

const DIGITS: usize = 5;

/// Returns the tables and what they mean.
#[must_use]
pub(crate) fn page(document: &Envelope<Protection>) -> Page {
    let body = &document.body;
    let sizes = &body.incidence;
    let given = |name: &str| document.inputs.number(name);
    let title = format!(
        "Secret protection: expected batch {}, {}; {} in {} of {}, {}; at most {} in an example, {} of a secret",
        given("batch_size").map_or_else(dash, described),
        count_of(given("steps").unwrap_or_default() as u64, "step"),
        count_of(sizes.secrets, "secret"),
        grouped(sizes.with_secrets),
        count_of(sizes.examples, "example"),
        count_of(sizes.pairs, "pair"),
        count_of(sizes.most_secrets, "secret"),
        count_of(sizes.most_examples, "example"),
    );
    let mut page = Page::new(title, headline(body))
        .answer(Section::text(
            "",
            [document.inputs.given_line(), document.inputs.assumed_line()]
                .into_iter()
                .flatten(),
        ))
        .answer(Section::table("", settings(body)));
    if body.secrets.iter().any(|row| row.own.is_some()) {
        page = page.section(Section::table(
            "What each secret needs on its own",
            own(&body.secrets),
        ));
    }
    if !body.secrets.is_empty() {
        let heading = match body.secrets.len() as u64 == sizes.secrets {
            true => "The chance of guessing each secret, at that sigma",
            false => {
                "The chance of guessing, at that sigma, of the secrets nearest to what is promised"
            }
        };
        page = page.section(Section::table(heading, posteriors(&body.secrets)));
    }
    if body.kinds.len() > 1 {
        page = page.section(Section::table("By kind", kinds(body)));
    }
    page.section(Section::notes("What the numbers mean", notes(body)))
}

/// Describes the least noise that keeps every promise, as recommended by each setting.
fn headline(body: &Protection) -> String {
    let full = format!(
        "From c = {} on every weight is 1: no preprocessing.{}",
        rounded_up(body.full_c, DIGITS),
        in_no_example(&body.incidence)
    );
    let certified = body.settings.iter().filter_map(|setting| {
        let upper = setting.recommended().upper?;
        Some((upper.get().get(), setting))
    });
    let least = certified.min_by(|(a, _), (b, _)| a.total_cmp(b));
    let Some((sigma, best)) = least else {
        return format!("No noise is certified to keep every promise. {full}");
    };
    let c = constant(body, best);
    let weights = match best.joint {
        Some(_) => format!("with weights chosen together with it, of the sum that c = {c} gives"),
        None => format!("at c = {c}"),
    };
    format!(
        "Sigma {} keeps every secret's promise, {weights}. {full}",
        rounded_up(sigma, DIGITS)
    )
}

/// Returns the constant of a setting. One that binds nothing is rounded like the least such constant, beside which it stands.
fn constant(body: &Protection, setting: &Setting) -> String {
    match setting.exponent {
        Some(exponent) => format!("2^{exponent}"),
        None if setting.c >= body.full_c => rounded_up(setting.c, DIGITS),
        None => nearest(setting.c, DIGITS),
    }
}

/// Describes the secrets that cost no noise because no example contains them; empty if there are none.
fn in_no_example(sizes: &Sizes) -> String {
    match sizes.in_no_example {
        0 => String::new(),
        absent => format!(
            " {} of the {} {} in no example of the incidence: one that the text contains all the same is not covered.",
            grouped(absent),
            count_of(sizes.secrets, "secret"),
            if absent == 1 { "is" } else { "are" }
        ),
    }
}

fn notes(body: &Protection) -> Vec<String> {
    let mut notes = vec![
        "compared: inputs that differ in the content of all examples of one secret, arbitrarily. Finer changes \
         (only the secret inside an example) are not supported. Which example contains which secret, and so the \
         weights, are taken as public; an example that holds a secret and is not named with it is not covered.",
        "σ upper: at this noise every secret's promise is certified by the blow-up, which is tight for the pair of \
         distributions that dominates training. lower: at this noise the binding secret's bound certainly exceeds its \
         promise. Fano: what the same promises cost when proved by divergences, as in the paper (KL); - where no noise multiplier \
         up to 1e7 proves them.",
        "examples must be drawn into each batch independently, each at its own rate, and clipped one by one.",
    ];
    if body
        .settings
        .iter()
        .any(|setting| setting.exponent.is_some())
    {
        notes.push(
            "c stands in units in which 2^4 is the least that binds nothing; the c of the capacities c·mu, with mu \
             the divergence that Fano's inequality allows, is that times c above / 16.",
        );
    }
    if !body.infeasible.is_empty() {
        notes.push(
            "infeasible: the weights add up to no more than the batch size, so that no batch of that size can be \
             drawn by them.",
        );
    }
    if body.settings.iter().any(|setting| setting.joint.is_some()) {
        notes.push(
            "together: weights of the same sum chosen for the least noise by the blow-up, not in proportion to mu.",
        );
    }
    if !body.secrets.is_empty() {
        notes.push(
            "the chance of guessing is the best anyone can reach who had the prior's chance before training, \
             whatever else they know; the prior covers everything known besides this model.",
        );
    }
    notes.into_iter().map(str::to_owned).collect()
}

fn settings(body: &Protection) -> Table {
    let rows = &body.settings;
    let joint = rows.iter().any(|row| row.joint.is_some());
    let mut columns = vec![
        "c",
        "kept",
        "weight",
        "gap",
        "σ upper",
        "lower",
        "Fano, Rényi",
        "Fano, KL",
    ];
    if joint {
        columns.extend(["together upper", "saved"]);
    }
    let count = columns.len();
    let mut table = Table::new(columns.into_iter().map(|name| (name, Align::Right)));
    for row in &body.infeasible {
        let mut cells = vec![dash(); count];
        cells[0] = format!("2^{}", row.exponent);
        cells[2] = nearest(row.mass, 6);
        cells[4] = "infeasible".to_owned();
        table.row(cells);
    }
    for row in rows {
        let mut cells = vec![
            constant(body, row),
            grouped(row.kept),
            row.mass.low().map_or_else(dash, |end| nearest(end, 6)),
            gap(row.gap),
            rounded(row.sigma.upper, DIGITS),
            rounded(row.sigma.lower, DIGITS),
            rounded(row.renyi_fano_sigma, DIGITS),
            rounded(row.kl_fano_sigma, DIGITS),
        ];
        if let Some(joint) = &row.joint {
            cells.push(rounded(joint.sigma.upper, DIGITS));
            cells.push(format!("{:.1} %", 100.0 * joint.noise_saved));
        }
        table.row(cells);
    }
    table
}

/// A gap that is only rounding error is shown as zero.
fn gap(gap: f64) -> String {
    if gap < 1e-12 {
        "0".to_owned()
    } else {
        format!("{gap:.0e}")
    }
}

fn own(rows: &[Row]) -> Table {
    let own = rows.iter().filter_map(|row| Some((row, row.own.as_ref()?)));
    Table::of(own)
        .left("secret", |(row, _)| &row.id)
        .right("examples", |(row, _)| grouped(row.examples))
        .right("before", |(row, _)| shortest(row.prior.get()))
        .right("promised", |(row, _)| shortest(row.promise.get()))
        .right("σ upper", |(_, own)| rounded(own.blow_up.upper, DIGITS))
        .right("lower", |(_, own)| rounded(own.blow_up.lower, DIGITS))
        .right("Fano, Rényi", |(_, own)| rounded(own.renyi_fano, DIGITS))
        .right("Fano, KL", |(_, own)| rounded(own.kl_fano, DIGITS))
        .into()
}

fn posteriors(rows: &[Row]) -> Table {
    Table::of(rows)
        .left("secret", |row| &row.id)
        .right("examples", |row| grouped(row.examples))
        .right("draws a step", |row| nearest(row.mean_draws, 4))
        .right("before", |row| shortest(row.prior.get()))
        .right("promised", |row| shortest(row.promise.get()))
        .right("blow-up upper", |row| rounded(row.blow_up, 4))
        .right("Fano, Rényi upper", |row| rounded(row.renyi_fano, 4))
        .right("Fano, KL upper", |row| rounded(row.kl_fano, 4))
        .into()
}

fn kinds(body: &Protection) -> Table {
    Table::of(&body.kinds)
        .left(
            "kind",
            |row| if row.kind.is_empty() { "-" } else { &row.kind },
        )
        .right("secrets", |row| grouped(row.secrets))
        .right("largest chance, upper", |row| rounded(row.blow_up, 4))
        .right("share of its promise, upper", |row| {
            rounded_up(row.share_of_promise, 4)
        })
        .into()
}

/// Returns the settings as CSV, one row each.
///
/// # Errors
/// Returns an error if a number is NaN.
pub(crate) fn csv(body: &Protection) -> Result<String> {
    Columns::of(&body.settings)
        .value("exponent", |row| row.exponent)
        .value("c", |row| row.c)
        .value("kept", |row| row.kept)
        .ends("mass", |row| Some(row.mass))
        .ends("sigma", |row| Some(row.sigma))
        .value("binding", |row| &row.binding)
        .value("renyi_fano_sigma", |row| row.renyi_fano_sigma)
        .value("kl_fano_sigma", |row| row.kl_fano_sigma)
        .value("joint_kept", |row| Some(row.joint.as_ref()?.kept))
        .value("joint_mass", |row| Some(row.joint.as_ref()?.mass))
        .ends("joint_sigma", |row| Some(row.joint.as_ref()?.sigma))
        .value("noise_saved", |row| Some(row.joint.as_ref()?.noise_saved))
        .into_text()
}
