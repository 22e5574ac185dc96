//! Random configurations of every mechanism against an oracle that shares no code with the engines.
//!
//! `cargo run -p reticent-accounting --example oracle_sweep [-- COUNT [SEED [KIND [SECONDS]]]]` draws COUNT
//! (default 3000) configurations for every mechanism (or for one KIND of the table; `all` for every one),
//! relation and direction (fewer where these take more than SECONDS), of moderate numbers (σ from 0.5 to 8,
//! q from 1e-3 to 1, up to 300 steps, groups to 3, epochs of up to 8 steps). Each is asked of the chooser, of
//! the contour alone and of the grid alone: δ at an ε, ε at a δ, and of the chooser the Rényi divergence and
//! the blow-up. What has to hold of every answer:
//!
//! - It meets the oracle's interval around the truth, and the other engines' answers. Where the worst case is
//!   not known, that interval reaches from concrete neighbours below to a dominating pair above, and is wide:
//!   truncated batches (others all at −1, 0 or 1 below), k places in an epoch (the record alone), shuffled
//!   batches, replaced records and groups in epochs (the same), fixed-size batches and the exponential
//!   mechanism in several steps (single instances), promises for groups.
//! - So the two ends are checked apart as well, each against what PROPOSITIONS.md says that it rests on: the
//!   upper end is no lower than δ of the pair that is claimed to dominate, the lower end no higher than that
//!   of the pair that is claimed to be attained. Those are known to some digits (`rests`), with weights by
//!   enumeration of batch sizes, sums of cells of likelihood ratios, and the supremum over instances.
//! - One epoch of Gaussian noise with up to four steps is integrated over all steps.
//!
//! Nothing is random but the draws, so there is no false-alarm rate. `loose` counts upper ends of δ farther
//! above what they rest on than the tolerance asked: safe, but not what was asked for. Prints a table and what
//! is wrong; exit code 1 on a contradiction.
#![expect(clippy::print_stdout, reason = "a report for people and scripts")]

mod check;
mod draw;
mod oracle;

use check::{By, Cell, Row};
use draw::{Chance, Kind};
use reticent_accounting::{Direction, Neighbours, Result};
use std::time::Instant;

const RELATIONS: [Neighbours; 3] = [
    Neighbours::AddRemove,
    Neighbours::ZeroOut,
    Neighbours::Replace,
];

/// The value that a share of all is below.
fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let index = (share * values.len() as f64) as usize;
    let last = values.len().saturating_sub(1);
    values.get(index.min(last)).copied().unwrap_or(f64::NAN)
}

fn main() -> Result<std::process::ExitCode> {
    let mut words = std::env::args().skip(1);
    let count = words.next().and_then(|w| w.parse().ok()).unwrap_or(3000);
    let seed = words.next().and_then(|w| w.parse().ok()).unwrap_or(1);
    let word = words.next().unwrap_or_else(|| "all".into());
    let seconds = words
        .next()
        .and_then(|w| w.parse().ok())
        .unwrap_or(f64::INFINITY);
    let kinds = Kind::ALL
        .into_iter()
        .filter(|kind| word == "all" || format!("{kind:?}") == word);
    println!(
        "mechanism\tneighbours\tdirection\tasked\trefused\tengine\tanswered\tchecks\twrong\tloose\twidth_50\twidth_90\trests_50\trests_90\trests_99"
    );
    let mut wrong = 0;
    for kind in kinds {
        for neighbours in RELATIONS {
            for direction in Direction::BOTH {
                let cell = Cell {
                    kind,
                    neighbours,
                    direction,
                };
                let mut chance =
                    Chance(seed ^ (kind as u64 + 1).wrapping_mul(0x1234_5678_9ABC_DEF1));
                let mut row = Row::default();
                let begun = Instant::now();
                for _ in 0..count {
                    if begun.elapsed().as_secs_f64() > seconds {
                        break;
                    }
                    row.ask(cell, &mut chance)?;
                    // Nothing of this kind is covered.
                    if row.refused >= 20 && row.by[0].questions == 0 {
                        break;
                    }
                }
                wrong += row.wrong.len();
                print_row(cell, &mut row);
            }
        }
    }
    println!("seed {seed}, {wrong} contradictions");
    Ok(std::process::ExitCode::from(u8::from(wrong > 0)))
}

fn print_row(cell: Cell, row: &mut Row) {
    let Cell {
        kind,
        neighbours,
        direction,
    } = cell;
    let [half, most] = [0.5, 0.9].map(|share| quantile(&mut row.widths, share));
    let rests = [0.5, 0.9, 0.99].map(|share| quantile(&mut row.rests, share));
    for by in By::ALL {
        let tally = &row.by[by as usize];
        println!(
            "{kind:?}\t{neighbours}\t{direction:?}\t{}\t{}\t{by:?}\t{}\t{}\t{}\t{}\t{half:.1e}\t{most:.1e}\t{:.1e}\t{:.1e}\t{:.1e}",
            tally.questions,
            row.refused,
            tally.answered,
            tally.checks,
            tally.wrong,
            tally.loose,
            rests[0],
            rests[1],
            rests[2],
        );
    }
    for line in row.wrong.iter().take(3) {
        println!("WRONG {kind:?} {neighbours} {direction:?}: {line}");
    }
}
