//! The optimiser's options, as flags of `audit train` and under the same names in `[optimizer]` of a plan file.
//! Promises depend on none of them but a decay on a plateau.

use super::args::decay_factor;
use crate::contract::{number_within, positive, positive_number};
use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::Deserialize;

/// How gradients are clipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClippingArg {
    /// One norm over all parameters.
    #[default]
    Flat,
    /// Each layer separately, to an equal share.
    PerLayer,
    /// Every gradient scaled to nearly the norm: no threshold to tune.
    Automatic,
}

/// Optimiser of ordinary steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OptimizerArg {
    /// Gradient descent.
    Sgd,
    /// Adam.
    #[default]
    Adam,
    /// Adam with decoupled weight decay.
    Adamw,
}

/// Optimiser of private steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PrivateOptimizerArg {
    /// Gradient descent.
    #[default]
    Sgd,
    /// Adam.
    Adam,
    /// Adam with decoupled weight decay.
    Adamw,
    /// Adam with the noise variance subtracted from its second moment (DP-AdamBC).
    AdamBc,
}

/// Learning-rate schedule over the epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DecayArg {
    /// No decay.
    Constant,
    /// Scaled by 1 − e/E in epoch e of E, from 0.
    #[default]
    Linear,
    /// Scaled by (1 + cos(π e/E))/2 in epoch e of E, from 0.
    Cosine,
    /// Reduced to a quarter after each epoch without a new best held-out likelihood; unless --held-out-is public,
    /// nothing is promised.
    Plateau,
}

/// How weights move.
#[derive(Debug, Clone, PartialEq, Default, Args, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Optimization {
    /// sgd, crt, jft: records per ordinary step [default: 8].
    #[arg(long, value_name = "B", value_parser = positive)]
    pub ordinary_batch_size: Option<u64>,
    /// sgd, crt, sdp, jft: optimiser of ordinary steps [default: adam].
    #[arg(long, value_enum)]
    pub optimizer: Option<OptimizerArg>,
    /// sgd, crt, sdp, jft: learning rate of ordinary steps [default: 0.004, with --optimizer adam or adamw]; --decay
    /// sets its schedule.
    #[arg(long, value_name = "RATE", value_parser = positive_number, allow_negative_numbers = true)]
    pub learning_rate: Option<f64>,
    /// Momentum of --optimizer sgd [default: 0].
    #[arg(long, value_name = "SHARE", value_parser = share, allow_negative_numbers = true)]
    pub momentum: Option<f64>,
    /// All but sgd: norm to which each record's gradient is clipped, at least 1e-12 [default: 1].
    #[arg(long, value_name = "C", value_parser = positive_number, allow_negative_numbers = true)]
    pub clip: Option<f64>,
    /// All but sgd: clipping method [default: flat].
    #[arg(long, value_enum)]
    pub clipping: Option<ClippingArg>,
    /// All but sgd: factor on the clipping norm after every --clip-decay-every epochs, in (0, 1).
    #[arg(long, value_name = "FACTOR", value_parser = decay_factor, allow_negative_numbers = true)]
    pub clip_decay: Option<f64>,
    /// Epochs between reductions of the clipping norm [default: 1].
    #[arg(long, value_name = "EPOCHS", value_parser = positive)]
    pub clip_decay_every: Option<u64>,
    /// All but sgd and sdp: passes over each record in a step, each with fresh dropout; the mean of its gradients is
    /// clipped as one [default: 1]. Needs dropout, except for encoders, which mask other tokens each time.
    #[arg(long, value_name = "K", value_parser = positive)]
    pub augmentations: Option<u64>,
    /// All but sgd: optimiser of private steps [default: sgd].
    #[arg(long, value_enum)]
    pub private_optimizer: Option<PrivateOptimizerArg>,
    /// All but sgd: learning rate of private steps [default: 0.06]; it follows the same schedule.
    #[arg(long, value_name = "RATE", value_parser = positive_number, allow_negative_numbers = true)]
    pub private_learning_rate: Option<f64>,
    /// Momentum of --private-optimizer sgd [default: 0.9].
    #[arg(long, value_name = "SHARE", value_parser = share, allow_negative_numbers = true)]
    pub private_momentum: Option<f64>,
    /// Decoupled weight decay of every adamw optimiser [default: 0.01].
    #[arg(long, value_name = "SHARE", value_parser = positive_number, allow_negative_numbers = true)]
    pub weight_decay: Option<f64>,
    /// Floor of the second moment of --private-optimizer adam-bc after subtracting the noise variance [default:
    /// 5e-8].
    #[arg(long, value_name = "V", value_parser = positive_number, allow_negative_numbers = true)]
    pub second_moment_floor: Option<f64>,
    /// End with a moving average of the weights of the last phase, which keeps this share of itself at each step; as
    /// post-processing, it costs no privacy.
    #[arg(long, value_name = "SHARE", value_parser = share, allow_negative_numbers = true)]
    pub average: Option<f64>,
    /// Dropout rate in training: of embedded tokens, attention probabilities and block outputs. If absent, a folder's
    /// own rates apply (config.json, or the manifest of a Reticent checkpoint), and a fresh model drops nothing.
    #[arg(long, value_name = "RATE", value_parser = share, allow_negative_numbers = true)]
    pub dropout: Option<f64>,
    /// Learning-rate schedule over the epochs [default: linear].
    #[arg(long, value_enum, value_name = "SHAPE")]
    pub decay: Option<DecayArg>,
    /// Warm-up steps of the learning rates [default: 0].
    #[arg(long, value_name = "STEPS")]
    pub warmup: Option<u64>,
    /// Also write a checkpoint after every EPOCHS epochs of the last phase, as OUT-epoch-N next to --out, each with
    /// the promise up to that point.
    #[arg(long, value_name = "EPOCHS", value_parser = positive)]
    pub keep_every: Option<u64>,
    /// Seed of the initial weights of a fresh model or adapter, which depend on nothing else [default: 0].
    #[arg(long, value_name = "N")]
    pub initial_seed: Option<u64>,
    /// All but sdp: train a LoRA adapter of this rank on a decoder's folder, whose own weights are frozen; --out
    /// becomes the adapter's folder, in peft's format, and names --model as its base.
    #[arg(long, value_name = "RANK", value_parser = positive)]
    pub lora_rank: Option<u64>,
    /// LoRA alpha: the product of the adapter's matrices is scaled by this over the rank [default: twice the rank].
    #[arg(long, value_name = "ALPHA", value_parser = positive_number, allow_negative_numbers = true)]
    pub lora_alpha: Option<f64>,
    /// Layers to adapt, by the ends of their names in transformers, or all-linear [default: the projections of
    /// queries and values].
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub lora_targets: Option<Vec<String>>,
    /// Layers of a fresh gpt2 or bert [default: 4; of bert 2].
    #[arg(long)]
    pub layers: Option<u64>,
    /// Width of a fresh gpt2 or bert, a multiple of its heads [default: 256; of bert 128].
    #[arg(long)]
    pub width: Option<u64>,
    /// Attention heads of a fresh gpt2 or bert [default: 8; of bert 2].
    #[arg(long)]
    pub heads: Option<u64>,
    /// Context length of a fresh gpt2 or bert, in tokens [default: 512]; a longer record is read in windows.
    #[arg(long, value_name = "TOKENS")]
    pub context: Option<u64>,
}

/// Parses a share in [0, 1).
fn share(text: &str) -> Result<f64, String> {
    number_within(text, "a number in [0, 1)", |share| {
        (0.0..1.0).contains(&share)
    })
}

/// Expands to all options with their keys, for merging and checking.
macro_rules! each {
    ($this:expr, $other:expr, $merge:ident) => {
        $merge!(
            $this,
            $other,
            ordinary_batch_size,
            optimizer,
            learning_rate,
            momentum,
            clip,
            clipping,
            clip_decay,
            clip_decay_every,
            augmentations,
            private_optimizer,
            private_learning_rate,
            private_momentum,
            weight_decay,
            second_moment_floor,
            average,
            dropout,
            decay,
            warmup,
            keep_every,
            initial_seed,
            lora_rank,
            lora_alpha,
            lora_targets,
            layers,
            width,
            heads,
            context
        )
    };
}

macro_rules! merge {
    ($this:expr, $other:expr, $($key:ident),*) => {
        $(if $other.$key.is_some() {
            ensure!(
                $this.$key.is_none(),
                "--{}: is in the plan file as optimizer.{}; give one of them",
                stringify!($key).replace('_', "-"),
                stringify!($key)
            );
            $this.$key.clone_from(&$other.$key);
        })*
    };
}

macro_rules! keys {
    ($this:expr, $other:expr, $($key:ident),*) => {
        vec![$(($this.$key.is_some(), stringify!($key))),*]
    };
}

impl Optimization {
    /// Adds the options of the command line.
    ///
    /// # Errors
    /// Returns an error if an option was given already.
    pub fn merge(&mut self, flags: &Self) -> Result<()> {
        each!(self, flags, merge);
        Ok(())
    }

    /// Returns the keys of the options that were given.
    #[must_use]
    pub fn given(&self) -> Vec<&'static str> {
        let keys = each!(self, self, keys);
        keys.into_iter()
            .filter_map(|(given, key)| given.then_some(key))
            .collect()
    }

    /// Returns whether a key is one of these options.
    #[must_use]
    pub fn is_key(key: &str) -> bool {
        let none = Self::default();
        let keys = each!(none, none, keys);
        keys.into_iter().any(|(_, known)| known == key)
    }

    /// Checks that every number is in its range; `name` returns the name of a key where it was given.
    ///
    /// # Errors
    /// Returns an error for the first number out of its range.
    pub fn check(&self, name: impl Fn(&str) -> String) -> Result<()> {
        let check = |key: &str, value: Option<f64>, what: &str, fits: fn(f64) -> bool| match value {
            Some(value) if !fits(value) => bail!("{}: must {what}, got {value}", name(key)),
            _ => Ok(()),
        };
        for (key, value) in [
            ("learning_rate", self.learning_rate),
            ("private_learning_rate", self.private_learning_rate),
            ("second_moment_floor", self.second_moment_floor),
        ] {
            check(key, value, "be a number in (0, inf)", |value| {
                value > 0.0 && value.is_finite()
            })?;
        }
        check(
            "lora_alpha",
            self.lora_alpha,
            "be a number in (0, 1e6]",
            |alpha| alpha > 0.0 && alpha <= 1e6,
        )?;
        check("clip", self.clip, "be a number in [1e-12, inf)", |norm| {
            norm >= 1e-12 && norm.is_finite()
        })?;
        for (key, value) in [
            ("momentum", self.momentum),
            ("private_momentum", self.private_momentum),
            ("average", self.average),
            ("dropout", self.dropout),
        ] {
            check(key, value, "be a number in [0, 1)", |value| {
                (0.0..1.0).contains(&value)
            })?;
        }
        check(
            "clip_decay",
            self.clip_decay,
            "be a number in (0, 1)",
            |factor| factor > 0.0 && factor < 1.0,
        )?;
        if self.clip_decay.is_none() && self.clip_decay_every.is_some() {
            bail!(
                "{}: applies only to {}",
                name("clip_decay_every"),
                name("clip_decay")
            );
        }
        check(
            "weight_decay",
            self.weight_decay,
            "lie in (0, 1]",
            |share| share > 0.0 && share <= 1.0,
        )?;
        for (key, value, least, most) in [
            ("ordinary_batch_size", self.ordinary_batch_size, 1, 1 << 24),
            ("warmup", self.warmup, 0, 1 << 32),
            ("keep_every", self.keep_every, 1, 1_000_000),
            ("clip_decay_every", self.clip_decay_every, 1, 1_000_000),
            ("augmentations", self.augmentations, 1, 1024),
            ("lora_rank", self.lora_rank, 1, 4096),
            ("layers", self.layers, 1, 256),
            ("width", self.width, 1, 16_384),
            ("heads", self.heads, 1, 1024),
            ("context", self.context, 2, 1 << 20),
        ] {
            if let Some(value) = value.filter(|value| !(least..=most).contains(value)) {
                bail!("{}: must lie in [{least}, {most}], got {value}", name(key));
            }
        }
        Ok(())
    }
}
