//! The description of shadow models: how they were trained, and how this differs from the audited model.

use crate::number::{nearest, shortest};
use reticent_attacks::membership::Instability;
use reticent_backends::Recipe;
use reticent_backends::trainer::{Decay, Dropout, LearningRates, OptimizerSpec};
use schemars::JsonSchema;
use serde::Serialize;

/// How the shadow models behind LiRA and RMIA were trained, each on half of the records.
///
/// Both attacks ask what the audited model's losses would be with a record and without it. They
/// answer for models that were trained as the shadow models were: where the audited model was
/// trained otherwise they may miss what it leaks. They never see a leak that is not there, since
/// members and non-members take part in them alike.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ShadowTraining {
    /// How many.
    pub models: u64,
    /// `sgd`, or `dpsgd` where the audited model was trained with noise.
    pub recipe: Recipe,
    /// Where their weights start.
    pub from: &'static str,
    /// Passes over their records.
    pub epochs: u64,
    /// Records of an ordinary step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<u64>,
    /// At which private batches are drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling_rate: Option<f64>,
    /// σ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise_multiplier: Option<f64>,
    /// C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clipping_norm: Option<f64>,
    /// The optimiser.
    pub optimizer: OptimizerSpec,
    /// Learning-rate schedule.
    pub learning_rates: LearningRates,
    /// What training passes dropped.
    #[serde(skip_serializing_if = "Dropout::is_none")]
    pub dropout: Dropout,
    /// What differs from the training of the audited model, or was assumed about it.
    pub differs: Vec<String>,
    /// How far the figures depend on which shadow models there are; empty with two models, which can't say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spread: Vec<AttackSpread>,
}

/// How far an attack depends on which shadow models there are.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AttackSpread {
    /// `lira` or `rmia`.
    pub attack: String,
    /// What halves of the shadow models say.
    #[serde(flatten)]
    pub of: Instability,
}

impl ShadowTraining {
    /// Describes the training in a sentence.
    pub(super) fn says(&self) -> String {
        let steps = match (
            self.noise_multiplier,
            self.clipping_norm,
            self.sampling_rate,
        ) {
            (Some(sigma), Some(clip), Some(rate)) => format!(
                "dpsgd with noise {} on gradients clipped to {}, batches drawn at rate {}",
                shortest(sigma),
                shortest(clip),
                nearest(rate, 3)
            ),
            _ => format!("sgd, {} records a step", self.batch_size.unwrap_or(1)),
        };
        let (optimizer, rate) = match self.optimizer {
            OptimizerSpec::Sgd {
                learning_rate,
                momentum,
            } if momentum > 0.0 => ("momentum", learning_rate),
            OptimizerSpec::Sgd { learning_rate, .. } => ("gradient descent", learning_rate),
            OptimizerSpec::Adam { learning_rate } => ("Adam", learning_rate),
            OptimizerSpec::AdamW { learning_rate, .. } => ("AdamW", learning_rate),
            OptimizerSpec::AdamBc { learning_rate, .. } => ("DP-AdamBC", learning_rate),
        };
        let decay = match self.learning_rates.decay {
            Decay::Constant => "constant",
            Decay::Linear => "falling linearly",
            Decay::Cosine => "falling as a cosine",
            Decay::Plateau => "falling on plateaus",
        };
        let Dropout {
            embedding,
            attention,
            hidden,
        } = self.dropout;
        let dropout = if self.dropout.is_none() {
            "no dropout".to_owned()
        } else {
            let [embedding, attention, hidden] =
                [embedding, attention, hidden].map(|r| nearest(r, 3));
            format!(
                "dropout {embedding} of embedded tokens, {attention} of attention, {hidden} of blocks"
            )
        };
        format!(
            "{} shadow models, each trained on half of these records from {}: {steps}, {} epochs, step size {} ({optimizer}, {decay}), {dropout}.",
            self.models,
            self.from,
            self.epochs,
            nearest(rate, 3)
        )
    }

    /// Describes how much the attacks depend on the choice of shadow models, a sentence each.
    pub(super) fn spreads(&self) -> Vec<String> {
        if self.spread.is_empty() {
            return vec!["How much LiRA and RMIA depend on which shadow models there are takes four of them at least (--shadows 4).".to_owned()];
        }
        let said = |spread: &AttackSpread| {
            let of = &spread.of;
            format!(
                "{} by {} of these models, {} times halved at random: AUC from {:.3} to {:.3}; of the members that either half finds where {} % of the non-members are taken for members, the other half misses {:.0} %.",
                spread.attack,
                of.models,
                of.splits,
                of.least_area.get(),
                of.largest_area.get(),
                nearest(100.0 * of.fpr, 3),
                100.0 * of.flips.get(),
            )
        };
        self.spread.iter().map(said).collect()
    }

    /// Describes the differences in a sentence; `None` if there are none.
    pub(super) fn differs(&self) -> Option<String> {
        (!self.differs.is_empty()).then(|| {
            format!(
                "Shadow models differ from the audited model: {}. LiRA and RMIA may therefore miss what it leaks.",
                self.differs.join("; ")
            )
        })
    }
}
