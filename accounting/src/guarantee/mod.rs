//! Finished guarantees: what is promised, to whom, in which notion and unit, and how the number was obtained. A
//! guarantee is a row of every table and an object of every JSON file.

pub mod calibrate;
pub mod confidentiality;
pub mod group;
mod plan;
pub mod rdp;
pub mod reconstruction;
pub mod redaction;
pub mod trade_off;

pub use plan::Plan;

use crate::compose::Looseness;
use crate::engine::Engine;
use crate::quantity::bound::{Bounds, Upper};
use crate::quantity::neighbours::Neighbours;
use crate::quantity::{
    Confidence, Delta, Epsilon, GroupSize, MissRate, Order, Probability, UnitName,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What kind of promise it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Notion {
    /// (ε, δ)-differential privacy for one record.
    Dp,
    /// (ε, δ)-differential privacy for a group of records.
    GroupDp,
    /// One secret against `<MASK>`; the adversary may know the secret (CRT Def. 2).
    Confidentiality,
    /// Several records of one secret against `<MASK>` (CRT Def. 3).
    GroupConfidentiality,
    /// A secret drawn at random against `<MASK>` (CRT Def. 4). For planning: it concerns an
    /// adversary who ignores the secret, bounds no posterior and never enters a verdict.
    BayesianConfidentiality,
    /// μ-GDP: no test does better than between two unit Gaussians μ apart, give or take `delta`.
    Gdp,
    /// One content of a secret against another, as S-DP and JFT compare them; what is not
    /// sensitive stays as it is.
    SelectiveDp,
    /// The reconstruction promise: prior at most p, posterior at most r (Hush! Def. 3.1).
    SecretProtection,
}

/// How the number was obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// From the privacy-loss law itself.
    Pld,
    /// From the Rényi curve, by Canonne–Kamath–Steinke Prop. 12.
    Rdp,
    /// A formula in elementary functions.
    ClosedForm,
    /// From single records, by the group lemma.
    GroupLemma,
    /// CRT Prop. 6 (Theorem 8.3 with a joint miss) applied to a finished base curve.
    #[serde(rename = "proposition-6")]
    Proposition6,
    /// The blow-up function of the dominating pair: hockey-stick divergences at the best ε.
    BlowUp,
    /// Fano's inequality for the Kullback–Leibler divergence.
    KlFano,
    /// Fano's inequality for Rényi divergences, at the best order.
    RenyiFano,
    /// Fano's inequality for the χ²-divergence.
    ChiSquareFano,
    /// The prior and the total variation.
    TotalVariation,
}

/// The curve that a transformation started from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Base {
    /// The privacy-loss law.
    Pld,
    /// The Rényi curve.
    Rdp,
    /// The group lemma on single records.
    GroupLemma,
}

/// Whose neighbours were used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Convention {
    /// The notion's own neighbours: the promise as it is defined.
    Definition,
    /// What the papers computed (add-remove where the notion needs replace): for comparison
    /// with print, never for a verdict.
    Paper,
}

/// The two directions of an add-remove question.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ByDirectionOf{T}")]
pub struct ByDirection<T> {
    /// The record was there and is taken away: mixture first.
    pub remove: Bounds<T>,
    /// The record is added: mixture second.
    pub add: Bounds<T>,
}

/// Whom a guarantee speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// One record.
    Record,
    /// All records of a secret.
    Secret,
    /// All copies of a planted canary.
    Canary,
}

/// One promise with everything that is needed to read it. Absent fields do not apply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Guarantee {
    /// What kind of promise it is.
    pub notion: Notion,
    /// Whom it speaks of, in the guarantees of a training plan.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub about: Option<Subject>,
    /// Who is compared with whom.
    pub neighbours: Neighbours,
    /// Whether those that are compared have one class: where a class stands beside redacted text, nothing is promised of it.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub same_class: bool,
    /// Whether these are the notion's own neighbours.
    pub convention: Convention,
    /// What one record is.
    pub unit: UnitName,
    /// How the number was obtained.
    pub method: Method,
    /// The curve that the method transformed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub base: Option<Base>,
    /// The numerical engine.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub engine: Option<Engine>,
    /// Why the ends are farther apart than asked, if they are.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub looseness: Option<Looseness>,
    /// ε at `delta`, both certified ends.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub epsilon: Option<Bounds<Epsilon>>,
    /// The δ at which ε holds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delta: Option<Delta>,
    /// Both certified ends of δ, when it was asked for at a given ε; `delta` is then the upper.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delta_bounds: Option<Bounds<Delta>>,
    /// δ of each direction, when it was asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delta_by_direction: Option<ByDirection<Delta>>,
    /// ε of each direction of an add-remove question.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by_direction: Option<ByDirection<Epsilon>>,
    /// The Rényi order that gave the number.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub order: Option<Order>,
    /// How many records are changed together.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub group: Option<GroupSize>,
    /// The miss rate γ of the redaction policy.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gamma: Option<MissRate>,
    /// The share η that the conservative policy misses as well.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub missed_by_both: Option<MissRate>,
    /// The confidence with which `gamma` bounds the true miss rate, when it was measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub confidence: Option<Confidence>,
    /// The adversary's chance of guessing the secret beforehand.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prior: Option<Probability>,
    /// The adversary's chance of guessing the secret afterwards.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub posterior: Option<Bounds<Probability>>,
    /// μ of the Gaussian that stands for the run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mu: Option<Bounds<f64>>,
    /// How much worse that Gaussian is than the run, in units of both error rates.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub regret: Option<Bounds<f64>>,
}

impl Guarantee {
    /// Creates a promise by definition, with no value filled in yet.
    #[must_use]
    pub const fn new(
        notion: Notion,
        neighbours: Neighbours,
        unit: UnitName,
        method: Method,
    ) -> Self {
        Self {
            notion,
            about: None,
            neighbours,
            same_class: false,
            convention: Convention::Definition,
            unit,
            method,
            base: None,
            engine: None,
            looseness: None,
            epsilon: None,
            delta: None,
            delta_bounds: None,
            by_direction: None,
            delta_by_direction: None,
            order: None,
            group: None,
            gamma: None,
            missed_by_both: None,
            confidence: None,
            prior: None,
            posterior: None,
            mu: None,
            regret: None,
        }
    }

    /// Returns the row with the additional fact that δ at `epsilon` is certified to be no more than the row's δ: ε(δ)
    /// is then at most `epsilon`, in each direction. A search for ε from δ may certify less where δ is flat.
    #[must_use]
    pub fn certified_at(mut self, epsilon: Epsilon) -> Self {
        let within = |bounds: Bounds<Epsilon>| Bounds {
            upper: (bounds.upper).map(|end| match *end.get() > epsilon {
                true => Upper::new(epsilon),
                false => end,
            }),
            ..bounds
        };
        self.epsilon = self.epsilon.map(within);
        self.by_direction = self.by_direction.map(|each| ByDirection {
            remove: within(each.remove),
            add: within(each.add),
        });
        self
    }
}
