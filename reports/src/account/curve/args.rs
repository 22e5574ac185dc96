//! Arguments of `account curve`.

use super::CurveKind;
use crate::account::question::RunArgs;
use crate::account::values::{group, neighbours, point};
use crate::contract::{quantity, whole_within};
use crate::plan::schedule::ASSUMED_NEIGHBOURS;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use reticent_accounting::{Delta, GroupSize, Neighbours, Tolerance};
use std::path::PathBuf;

/// Arguments of `account curve`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
Examples:
  account curve --sigma 1.1 --what profile --plot profile.svg
  account curve --sigma 1.1 --what trade-off --at 0.001,0.01,0.1 --format csv
  account curve --mechanism mechanism.json --what posterior --group 20 --at 1e-9,1e-6
  account curve --over sigma --from 0.5 --to 4 --points 8 --steps 5000 --delta 1e-5
  account curve --over gamma --sigma 1.1 --at 0.001,0.01,0.1")]
pub struct Curve {
    /// What runs.
    #[command(flatten)]
    pub run: RunArgs,
    /// Curve to compute.
    #[arg(long, value_parser = one_of(CurveKind::OF_A_RUN), default_value = "profile")]
    pub what: CurveKind,
    /// Epsilon at --delta over this run parameter instead; its own flag is then omitted.
    #[arg(long, value_parser = one_of(CurveKind::OVER_RUNS), value_name = "AXIS", conflicts_with = "what")]
    pub over: Option<CurveKind>,
    /// Smallest value of that parameter; points are spaced geometrically.
    #[arg(long, value_name = "A", value_parser = point, allow_negative_numbers = true, requires = "over", conflicts_with_all = ["at", "what"])]
    pub from: Option<f64>,
    /// Largest value.
    #[arg(long, value_name = "B", value_parser = point, allow_negative_numbers = true, requires = "over", conflicts_with_all = ["at", "what"])]
    pub to: Option<f64>,
    /// Delta for --over [default: 1e-6, or 0.1/N for N records if that is smaller].
    #[arg(long, value_name = "D", value_parser = quantity::<Delta>, allow_negative_numbers = true, requires = "over", conflicts_with = "what")]
    pub delta: Option<Delta>,
    /// Points to evaluate it at, comma-separated [default: where it bends].
    #[arg(long, value_name = "X,…", value_parser = point, value_delimiter = ',', allow_negative_numbers = true)]
    pub at: Vec<f64>,
    /// Number of points without --at [default: 33; 17 of --over].
    #[arg(long, value_name = "N", value_parser = whole_within::<usize>(2..=1000), allow_negative_numbers = true, conflicts_with = "at")]
    pub points: Option<usize>,
    /// Neighbouring relation.
    #[arg(long, value_parser = neighbours(), help = format!(
        "Neighbouring relation [default: {ASSUMED_NEIGHBOURS}; the posterior is zero-out, redaction replace]"
    ))]
    pub neighbours: Option<Neighbours>,
    /// Group size: records of one secret or person.
    #[arg(long, value_name = "K", value_parser = group, allow_negative_numbers = true)]
    pub group: Option<GroupSize>,
    /// Maximum relative gap between the two ends of a point [default: 1e-6].
    #[arg(long, value_name = "R", value_parser = quantity::<Tolerance>, allow_negative_numbers = true)]
    pub tolerance: Option<Tolerance>,
    /// Plot the curve to this SVG file.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

impl Curve {
    /// Returns the defaults that --what and --over exclude: neighbours if the curve has its own, and delta with
    /// --over.
    pub(in crate::account) fn excluded(&self) -> Vec<&'static str> {
        let own = match self.over {
            Some(axis) => axis == CurveKind::Gamma,
            None => self.what == CurveKind::BlowUp,
        };
        let neighbours = own.then_some("neighbours");
        let delta = self.over.is_none().then_some("delta");
        neighbours.into_iter().chain(delta).collect()
    }
}

/// Takes some kinds of curves.
fn one_of(kinds: &'static [CurveKind]) -> impl TypedValueParser<Value = CurveKind> {
    PossibleValuesParser::new(kinds.iter().filter_map(ValueEnum::to_possible_value))
        .try_map(|name| <CurveKind as ValueEnum>::from_str(&name, false))
}
