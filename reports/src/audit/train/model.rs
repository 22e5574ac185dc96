//! The model from which a run starts.

use crate::audit::args::ModelArg;
use crate::audit::loaded_model::same_tokenizer;
use crate::audit::records::one_text;
use crate::plan::PlanRequest;
use anyhow::{Context, Result, bail, ensure};
use reticent_accounting::training::{CompletedRun, Recipe, TrainingPlan};
use reticent_backends::TrainOptions;
use reticent_backends::checkpoint::{Initial, Manifest, Mark, Pretrained, weights_digest};
use reticent_backends::hugging_face::Beside;
use reticent_backends::model::{
    Family, Head, Lora, LoraSpec, LstmConfig, Model, TransformerConfig,
};
use reticent_backends::trainer::Dropout;
use reticent_corpus::prepare::Prepared;
use reticent_corpus::tokenize::Origin;
use std::path::Path;

/// What a run starts from.
pub(in crate::audit) struct Beginning {
    pub(in crate::audit) model: Model,
    pub(in crate::audit) weights: Vec<Vec<f32>>,
    pub(in crate::audit) initial: Initial,
    /// The dropout that its folder asks for, or why it is not covered; none for fresh weights.
    pub(in crate::audit) dropout: std::result::Result<Dropout, String>,
    /// What else its folder states; nothing for fresh weights.
    pub(in crate::audit) beside: Beside,
    /// The adapter that is trained instead of the model's own weights.
    pub(in crate::audit) adapter: Option<FreshAdapter>,
}

/// An adapter to be trained.
pub(in crate::audit) struct FreshAdapter {
    pub(in crate::audit) lora: Lora,
    /// The folder of the model to which it belongs, as the adapter's own folder will name it.
    pub(in crate::audit) base: String,
    pub(in crate::audit) start: Vec<Vec<f32>>,
}

impl Beginning {
    /// Creates the papers' LSTM with fresh weights.
    pub(in crate::audit) fn paper(prepared: &Prepared, seed: u64) -> Self {
        Self::drawn(
            LstmConfig::paper(prepared.tokenizer.vocabulary_size()).into(),
            seed,
        )
    }

    fn drawn(model: Model, seed: u64) -> Self {
        Self {
            weights: model.starting_weights(seed),
            model,
            initial: Initial::Random { seed },
            dropout: Ok(Dropout::NONE),
            beside: Beside::default(),
            adapter: None,
        }
    }

    /// Creates or loads the model that the arguments name, with room for every token of the prepared corpus.
    pub(in crate::audit) fn args(
        model: &ModelArg,
        request: &PlanRequest,
        options: &TrainOptions,
        prepared: &Prepared,
    ) -> Result<Self> {
        let (plan, seed) = (&options.plan, options.initial_seed);
        let mut begun = match model {
            ModelArg::Lstm => Self::paper(prepared, seed),
            ModelArg::Gpt2 => Self::drawn(fresh(request, prepared, GPT2)?, seed),
            ModelArg::Bert => Self::drawn(fresh(request, prepared, BERT)?, seed),
            ModelArg::Folder(folder) => {
                Self::loaded(folder, request.declared_public, plan, prepared)?
            }
        };
        // Before a step is spent on what the manifest would then contradict.
        let continues = matches!(begun.initial, Initial::Continued { .. });
        ensure!(
            begun.initial.base() == plan.base && continues == plan.continues.is_some(),
            "--model: {CHANGED}"
        );
        begun.tells(prepared, seed).context("--model")?;
        if prepared.options.loss_on.is_some() {
            ensure!(
                begun.model.head() == Head::NextToken,
                "--model: {model} predicts no next token, and PREPARED has loss on some tokens alone (--loss-on)"
            );
            ensure!(
                plan.run.recipe() != Some(Recipe::Sdp),
                "--recipe: sdp learns every token, and PREPARED has loss on some tokens alone (--loss-on)"
            );
        }
        if let (Some(spec), ModelArg::Folder(folder)) = (lora(request)?, model) {
            begun.adapter = Some(begun.fresh(spec, folder, seed).with_context(|| {
                let targets = request.optimization.lora_targets.is_some();
                request.name(if targets { "lora_targets" } else { "lora_rank" })
            })?);
        }
        ensure!(
            plan.run.recipe() != Some(Recipe::Sdp) || matches!(begun.model, Model::Lstm(_)),
            "--model: the recipe sdp releases the states of a recurrent model; it must be lstm, got {model}"
        );
        Ok(begun)
    }

    /// Gives the model the head that the corpus needs: classes if its records have them.
    fn tells(&mut self, prepared: &Prepared, seed: u64) -> Result<()> {
        let Some(labels) = &prepared.options.labels else {
            ensure!(
                !matches!(self.model.head(), Head::Classes(_)),
                "it predicts classes, and the records of PREPARED have none: prepare it with --label"
            );
            return Ok(());
        };
        let head = self.model.head();
        if let (Model::Transformer(config), Head::Classes(_)) = (&mut self.model, head) {
            let count = labels.classes.len();
            let named = config.class_names.is_empty() || config.class_names == labels.classes;
            ensure!(
                head == Head::Classes(count) && named,
                "it predicts other classes than the {count} of PREPARED, which must be those of its id2label in their order"
            );
            // A model whose classes have no names takes the declared ones.
            config.class_names.clone_from(&labels.classes);
            return Ok(());
        }
        let tokenizer = &prepared.tokenizer;
        let padding = tokenizer.padding().unwrap_or_else(|| tokenizer.eos());
        let weights = std::mem::take(&mut self.weights);
        let classes = (labels.classes.as_slice(), padding);
        (self.model, self.weights) = self.model.with_classes(weights, classes, seed)?;
        Ok(())
    }

    fn loaded(
        folder: &Path,
        declared_public: bool,
        plan: &TrainingPlan,
        prepared: &Prepared,
    ) -> Result<Self> {
        let loaded = Pretrained::load(folder).context("--model")?;
        same_tokens(folder, &loaded, prepared).context("--model")?;
        if prepared.options.labels.is_some() && loaded.manifest.is_none() {
            for (number, record) in (1..).zip(&prepared.training.records) {
                one_text(&loaded.model, &prepared.tokenizer, &record.tokens, number)
                    .context("--model")?;
            }
        }
        let earlier = plan.continues.as_ref().map(|run| &run.value);
        let weights = weights_digest(&loaded.weights);
        let initial = match loaded.manifest {
            Some(manifest) if !declared_public => {
                continued(weights, &manifest, earlier, prepared).context("--model")?
            }
            manifest => {
                let sgd = |found: &Manifest| found.recipe == Recipe::Sgd;
                let mark = loaded.mark.as_ref();
                ensure!(
                    manifest.as_ref().is_none_or(sgd) && !mark.is_some_and(Mark::is_private),
                    "--model: {CHANGED}"
                );
                Initial::Pretrained {
                    weights,
                    declared_public,
                    has_manifest: manifest.is_some(),
                    manifest_missing: mark.is_some(),
                }
            }
        };
        let (tokens, dropout) = (prepared.tokenizer.vocabulary_size(), loaded.dropout);
        let (model, weights) = if tokens > loaded.model.vocabulary() {
            loaded.model.grown(loaded.weights, tokens)?
        } else {
            (loaded.model, loaded.weights)
        };
        Ok(Self {
            model,
            weights,
            initial,
            dropout,
            beside: Beside::of(folder).context("--model")?,
            adapter: None,
        })
    }

    /// Creates an adapter for this model, which must be in the folder.
    fn fresh(&self, spec: LoraSpec, folder: &Path, seed: u64) -> Result<FreshAdapter> {
        ensure!(
            !folder.join("adapter_config.json").exists(),
            "{} holds an adapter itself; `audit convert --merge` turns it into a model",
            folder.display()
        );
        ensure!(
            self.model.head() == Head::NextToken,
            "an adapter needs a model that predicts the next token; a class head is trained with its whole model"
        );
        let base = self.initial.weights().unwrap_or_default().to_owned();
        let lora = Lora::of(&self.model, base, spec)?;
        Ok(FreshAdapter {
            start: lora.starting_weights(seed),
            base: folder.display().to_string(),
            lora,
        })
    }
}

/// Returns the adapter that is requested.
fn lora(request: &PlanRequest) -> Result<Option<LoraSpec>> {
    let given = &request.optimization;
    let Some(rank) = given.lora_rank else {
        return Ok(None);
    };
    let rank = usize::try_from(rank)?;
    Ok(Some(LoraSpec {
        rank,
        alpha: given.lora_alpha.unwrap_or(2.0 * rank as f64),
        targets: given.lora_targets.clone().unwrap_or_default(),
    }))
}

/// A family with its default numbers of layers, width, heads and context.
type Usual = (Family, [u64; 4]);
const GPT2: Usual = (Family::Gpt2, [4, 256, 8, 512]);
/// BERT-Tiny (Turc et al. 2019).
const BERT: Usual = (Family::Bert, [2, 128, 2, 512]);

fn fresh(request: &PlanRequest, prepared: &Prepared, (family, usual): Usual) -> Result<Model> {
    let args = &request.optimization;
    let [layers, width, heads, context] = [
        args.layers.unwrap_or(usual[0]),
        args.width.unwrap_or(usual[1]),
        args.heads.unwrap_or(usual[2]),
        args.context.unwrap_or(usual[3]),
    ];
    ensure!(
        width.is_multiple_of(heads),
        "{}: must be a multiple of {} ({heads}), got {width}",
        request.name("width"),
        request.name("heads")
    );
    let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let config = TransformerConfig::new(
        family,
        prepared.tokenizer.vocabulary_size(),
        size(width),
        size(layers),
        size(heads),
        size(context),
    );
    Ok(config.validated()?.into())
}

/// Checks that the corpus was tokenised by the model's own tokenizer.
fn same_tokens(folder: &Path, loaded: &Pretrained, prepared: &Prepared) -> Result<()> {
    if same_tokenizer(&loaded.tokenizer, &prepared.tokenizer)? {
        return Ok(());
    }
    // An adapter's folder does not say what begins and ends a text; its base's does.
    let named = Pretrained::base_of(folder).unwrap_or_else(|_| folder.to_path_buf());
    bail!(
        "{} has another tokenizer than PREPARED, or another beginning or end of text; prepare the corpus with \
         `--tokenizer {} --vocabulary pretrained`",
        folder.display(),
        named.join("tokenizer.json").display()
    )
}

/// The error for a folder that isn't the one with which the plan was built.
const CHANGED: &str = "its manifest.json or its weights were changed while they were read";

/// Resumes from the checkpoint with which the plan was accounted.
fn continued(
    weights: String,
    found: &Manifest,
    accounted: Option<&CompletedRun>,
    prepared: &Prepared,
) -> Result<Initial> {
    ensure!(
        found.vocabulary != Origin::Leaks || prepared.tokenizer.origin() == Origin::Leaks,
        "its vocabulary was built from private text; prepare with `--vocabulary leaks`"
    );
    let earlier = accounted
        .filter(|run| run.recipe == Some(found.recipe) && run.mechanism == *found.mechanism());
    let earlier = earlier.context(CHANGED)?;
    Ok(Initial::Continued {
        weights,
        recipe: found.recipe,
        mechanism: Box::new(earlier.mechanism.clone()),
        seeded: found.seeded,
    })
}
