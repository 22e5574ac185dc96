//! A model that is ready to be attacked: a folder with one of our engines, or a command.

use crate::account::mechanism::{not_authenticated, unknown_origin};
use crate::audit::args::{Audited, Serve, Source, adapted};
use crate::audit::scorer::{CommandScorer, Known, serve};
use crate::contract::{Exit, Interrupt};
use anyhow::{Context, Result, bail, ensure};
use half::{bf16, f16};
use reticent_accounting::training::outside_text;
use reticent_backends::checkpoint::{Authentication, Manifest, Pretrained};
use reticent_backends::engine::open as engine;
use reticent_backends::model::{Head, Model};
use reticent_backends::trainer::{Dropout, Trainer};
use reticent_backends::{Device, Error, PrefixScorer};
use reticent_corpus::tokenize::{Tokenizer, lower_case};
use reticent_corpus::{TokenId, Unit};
use std::path::Path;
use std::time::Duration;

/// The seconds a command may take for one answer, if not set.
const TIMEOUT: u64 = 600;

/// A model may have room for more tokens than its tokenizer has, up to the next multiple of this number.
const PADDING: usize = 512;

/// Models are padded to a multiple of this.
const ROUND: usize = 128;

/// A model with its tokenizer, ready to score.
pub(in crate::audit) struct LoadedModel {
    /// A description of its source.
    pub(in crate::audit) name: String,
    pub(in crate::audit) tokenizer: Tokenizer,
    /// The most tokens that it reads at once.
    pub(in crate::audit) context: Option<usize>,
    /// The manifest of a checkpoint of ours, which describes its training.
    pub(in crate::audit) manifest: Option<Manifest>,
    /// Whether the manifest is authenticated as its owner's.
    pub(in crate::audit) authentication: Authentication,
    /// Why nothing is promised, if the weights are ours and the manifest is missing.
    pub(in crate::audit) unknown_origin: Option<String>,
    /// The dropout of its training, as stated in its folder, or why it is not covered.
    pub(in crate::audit) dropout: std::result::Result<Dropout, String>,
    engine: Engine,
}

enum Engine {
    Own(Box<Model>, Box<dyn Trainer>),
    Command(Box<CommandScorer>),
}

impl LoadedModel {
    /// Loads the model that the arguments name.
    pub(in crate::audit) fn audited(args: &Audited, interrupt: &Interrupt) -> Result<Self> {
        let limit = limit(args);
        match args.source()? {
            Source::Folder(folder) => Self::released(&folder, args.adapter.as_deref(), args.device),
            Source::Command(ref lines) => {
                let tokenizer = args.tokenizer.as_ref();
                let tokenizer = tokenizer.context("--tokenizer: --scorer needs the model's own")?;
                let tokenizer = tokenizer.load().context("--tokenizer")?;
                let model =
                    Self::command(lines, tokenizer, limit, interrupt).context("--scorer")?;
                model.has_its_tokenizer().context("--tokenizer")?;
                Ok(model)
            }
        }
    }

    /// Loads a second model that reads a text as the same tokens, but for its end: canaries and passages are scored without
    /// it.
    pub(in crate::audit) fn beside(
        &self,
        source: &Source,
        args: &Audited,
        flag: &'static str,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        let other = self.second(source, args, flag, interrupt)?;
        ensure!(
            same_up_to_the_end(&other.tokenizer, &self.tokenizer)?,
            "{flag}: {source} has another tokenizer, or another beginning of text, than the model; their log-likelihoods don't compare"
        );
        Ok(other)
    }

    /// Like `Self::beside`, for a model that scores are compared with, if one is named, which must be another model.
    pub(in crate::audit) fn against(
        &self,
        source: Option<&Source>,
        args: &Audited,
        flag: &'static str,
        interrupt: &Interrupt,
    ) -> Result<Option<Self>> {
        let Some(source) = source else {
            return Ok(None);
        };
        let other = self.beside(source, args, flag, interrupt)?;
        self.differs_from(&other, flag)?;
        Ok(Some(other))
    }

    /// Refuses a model with the same weights: comparing a model with itself shows no difference, which reads as "no
    /// leak". So does a copy whose weights are those of the other rounded to bf16 or f16. A model behind a command has
    /// no weights to compare; [`crate::audit::Apart`] compares what both models say about the texts.
    pub(in crate::audit) fn differs_from(&self, other: &Self, flag: &'static str) -> Result<()> {
        let (Some((own, weights)), Some((others, rounded))) = (self.weights(), other.weights())
        else {
            return Ok(());
        };
        ensure!(
            (own, weights) != (others, rounded),
            "{flag}: {} has the weights of the audited model, so no text can be likelier under one of them; name the model that training started from, or another that never saw the text",
            other.name
        );
        let copy = own == others && (is_rounded(weights, rounded) || is_rounded(rounded, weights));
        ensure!(
            !copy,
            "{flag}: {} has the weights of the audited model up to rounding to bf16 or f16, so hardly any text can be likelier under one of them; name the model that training started from, or another that never saw the text",
            other.name
        );
        Ok(())
    }

    /// Loads a second model; [`cuts_alike`] has to check that it reads these texts as the same tokens. A command states
    /// only how many tokens it knows.
    pub(in crate::audit) fn second(
        &self,
        source: &Source,
        args: &Audited,
        flag: &'static str,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        let other = match source {
            Source::Folder(folder) => Self::folder(folder, args.device),
            Source::Command(lines) => {
                Self::command(lines, self.tokenizer.clone(), limit(args), interrupt)
            }
        };
        let other = other.context(flag)?;
        if let Source::Command(_) = source {
            self.fits(&other).context(flag)?;
        }
        Ok(other)
    }

    /// Refuses a model behind a command that knows another number of tokens than the audited model or its tokenizer:
    /// the losses of both are for the same token ids.
    fn fits(&self, other: &Self) -> Result<()> {
        let (own, known) = (self.vocabulary(), other.vocabulary());
        let tokens = self.tokenizer.vocabulary_size();
        let (least, most) = self.sizes()?;
        ensure!(
            known == own || (least..=most).contains(&known),
            "{} says vocabulary {known}; it must be the audited model's {own}, or from {least} to {most}, as the tokenizer has {tokens} tokens: with other tokens their log-likelihoods don't compare",
            other.name
        );
        Ok(())
    }

    /// Refuses a command that knows another number of tokens than the tokenizer with which it is asked: ids would stand
    /// for other tokens.
    fn has_its_tokenizer(&self) -> Result<()> {
        let (known, tokens) = (self.vocabulary(), self.tokenizer.vocabulary_size());
        let (least, _) = self.sizes()?;
        // Models are padded to a round number, some by 2 % or more.
        let most = tokens.next_multiple_of(ROUND).max(tokens + tokens / 20);
        ensure!(
            (least..=most).contains(&known),
            "it has {tokens} tokens, and {} says vocabulary {known}, which must be from {least} to {most}: name the model's own tokenizer",
            self.name
        );
        Ok(())
    }

    /// Returns the fewest and the most tokens of a model with this tokenizer: without the added tokens, and with
    /// padding.
    fn sizes(&self) -> Result<(usize, usize)> {
        let tokens = self.tokenizer.vocabulary_size();
        let least = tokens.saturating_sub(self.tokenizer.added_tokens()?);
        Ok((least, tokens.next_multiple_of(PADDING)))
    }

    fn vocabulary(&self) -> usize {
        match &self.engine {
            Engine::Own(model, _) => model.vocabulary(),
            Engine::Command(scorer) => scorer.hello().vocabulary,
        }
    }

    /// Has a command score these tokens again in [`Self::check_steady`].
    pub(in crate::audit) fn repeat(&mut self, known: Vec<Known>) {
        if let Engine::Command(scorer) = &mut self.engine {
            scorer.repeat(known);
        }
    }

    /// Asks a command some of its questions again after it has answered all; `flag` names the command in messages.
    ///
    /// # Errors
    /// Returns an error if an answer differs from the first.
    pub(in crate::audit) fn check_steady(&mut self, flag: &'static str) -> Result<()> {
        match &mut self.engine {
            Engine::Own(..) => Ok(()),
            Engine::Command(scorer) => scorer.check_steady().context(flag),
        }
    }

    /// Loads a checkpoint of ours or a Hugging Face folder as it is: tokens that only our tokenizer has, such as
    /// `<MASK>`, get no share of its probability.
    pub(in crate::audit) fn folder(folder: &Path, device: Device) -> Result<Self> {
        Self::of(folder, Pretrained::load(folder)?, device)
    }

    /// Like `Self::folder`, for a folder that was read.
    pub(in crate::audit) fn of(folder: &Path, loaded: Pretrained, device: Device) -> Result<Self> {
        Self::ready(folder.display().to_string(), folder, loaded, device)
    }

    /// Loads the folder of `--model`, merged with the adapter of `--adapter` if there is one.
    fn released(folder: &Path, adapter: Option<&Path>, device: Device) -> Result<Self> {
        let Some(adapter) = adapter else {
            return Self::folder(folder, device).map_err(of_model);
        };
        let loaded = Pretrained::load_adapted(folder, adapter).context("--adapter")?;
        let name = adapted(folder.display(), adapter);
        Self::ready(name, folder, loaded, device)
    }

    fn ready(name: String, folder: &Path, loaded: Pretrained, device: Device) -> Result<Self> {
        if loaded.model.predicts_next_token().is_err() {
            let (what, instead) = match loaded.model.head() {
                Head::Classes(_) => (
                    "predicts classes of texts",
                    "; `audit classify --scores-out` writes its losses, which `audit membership` reads",
                ),
                Head::NextToken | Head::MaskedToken => ("predicts masked tokens", ""),
            };
            bail!(
                "{name} {what}, and no next token: it has no likelihood of a text, which this audit measures{instead}"
            );
        }
        let known = loaded.model.vocabulary();
        ensure!(
            (loaded.tokenizer.bos() as usize) < known,
            "{name}: its tokenizer names no beginning of text, behind which a text is scored, among the model's {known} tokens; name one by \"bos_token\" in tokenizer_config.json"
        );
        ensure!(
            loaded.model.context() != Some(1),
            "{name} reads one token at once, and predicting a token takes another one before it"
        );
        let trainer = engine(&loaded.model, loaded.weights, device).context("--device")?;
        Ok(Self {
            name,
            tokenizer: loaded.tokenizer,
            context: loaded.model.context(),
            manifest: loaded.manifest,
            authentication: loaded.authentication,
            unknown_origin: loaded.mark.map(|mark| unknown_origin(folder, &mark)),
            dropout: loaded.dropout,
            engine: Engine::Own(Box::new(loaded.model), trainer),
        })
    }

    /// Checks that a model of a folder has the tokens of these records.
    ///
    /// # Errors
    /// Returns an error with the number of the first record with another one: the end of text, or an added token.
    pub(in crate::audit) fn has_tokens_of<'r>(
        &self,
        records: impl IntoIterator<Item = &'r [TokenId]>,
    ) -> Result<()> {
        let Engine::Own(model, _) = &self.engine else {
            return Ok(());
        };
        let known = model.vocabulary();
        for (number, record) in (1..).zip(records) {
            let token = record.iter().find(|token| **token as usize >= known);
            if let Some(token) = token {
                let what = match *token == self.tokenizer.eos() {
                    true => "the end of text, which",
                    false => "an added token of the tokenizer, which",
                };
                bail!(
                    "record {number} has token {token}, {what} is none of the {known} tokens of {}",
                    self.name
                );
            }
        }
        Ok(())
    }

    fn command(
        lines: &[String],
        tokenizer: Tokenizer,
        limit: Duration,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        let scorer = CommandScorer::start(lines, limit, interrupt)?;
        Ok(Self {
            name: Source::Command(lines.to_vec()).to_string(),
            tokenizer,
            context: scorer.hello().context,
            manifest: None,
            authentication: Authentication::NoKey,
            unknown_origin: None,
            dropout: Ok(Dropout::NONE),
            engine: Engine::Command(Box::new(scorer)),
        })
    }

    /// Returns a note about the manifest on which its promise rests.
    pub(in crate::audit) fn caveat(&self) -> Option<String> {
        let manifest = self.manifest.as_ref()?;
        let mut said = Vec::new();
        if let Some(caveat) = self.authentication.caveat() {
            said.push(format!("manifest.json is {caveat}"));
        }
        let plan = &manifest.plan;
        said.extend(not_authenticated(plan).into_iter().map(str::to_owned));
        let outside = outside_text(manifest.base(), plan.held_out_public());
        said.extend(outside.map(|text| format!("not covered is {text}")));
        (!said.is_empty()).then(|| said.join("; "))
    }

    pub(in crate::audit) fn scorer(&mut self) -> &mut dyn PrefixScorer {
        match &mut self.engine {
            Engine::Own(_, trainer) => trainer.as_mut(),
            Engine::Command(scorer) => scorer.as_mut(),
        }
    }

    /// Returns what one record was in training; a document if nothing states it.
    pub(in crate::audit) fn unit(&self) -> Unit {
        self.manifest.as_ref().map_or(Unit::Document, |m| m.unit)
    }

    /// Returns the most tokens of a record that were trained on, if it had a limit.
    pub(in crate::audit) fn longest(&self) -> Option<usize> {
        self.manifest.as_ref().and_then(|m| m.max_tokens)
    }

    /// Returns the architecture and the weights, if the model runs on one of our engines.
    pub(in crate::audit) fn weights(&self) -> Option<(&Model, &[Vec<f32>])> {
        match &self.engine {
            Engine::Own(model, trainer) => Some((model, trainer.weights())),
            Engine::Command(_) => None,
        }
    }

    /// Returns whether the model gives the statistics of the whole vocabulary at each position, and not only ln p of
    /// the text.
    pub(in crate::audit) fn has_statistics(&self) -> bool {
        match &self.engine {
            Engine::Own(..) => true,
            Engine::Command(scorer) => scorer.hello().statistics,
        }
    }
}

/// Returns whether every weight of one model is that of the other, rounded to bf16 or f16. Training moves some weight
/// by more than half a unit in its last place, since this unit is small for weights near zero.
fn is_rounded(weights: &[Vec<f32>], rounded: &[Vec<f32>]) -> bool {
    let all = |round: fn(f32) -> f32| {
        weights.len() == rounded.len()
            && weights.iter().zip(rounded).all(|(from, to)| {
                from.len() == to.len()
                    && from
                        .iter()
                        .zip(to)
                        .all(|(a, b)| round(*a).to_bits() == b.to_bits())
            })
    };
    all(|x| bf16::from_f32(x).to_f32()) || all(|x| f16::from_f32(x).to_f32())
}

/// Returns whether two models split text into the same tokens, behind the same beginning of text. A base and a chat model
/// often differ in its end alone.
fn same_up_to_the_end(one: &Tokenizer, other: &Tokenizer) -> Result<bool> {
    Ok(one.bos() == other.bos() && one.to_json()? == other.to_json()?)
}

/// Returns whether two models split text into the same tokens, between the same beginning and end of text, which a
/// `tokenizer.json` does not name.
pub(in crate::audit) fn same_tokenizer(one: &Tokenizer, other: &Tokenizer) -> Result<bool> {
    Ok(one.eos() == other.eos() && same_up_to_the_end(one, other)?)
}

/// Returns whether two models read each of these texts, also in lower case, as the same tokens: the tokenizers are the
/// same, or differ only in added tokens (such as a padding token) that no text spells. `without_end`: the end of text is
/// not read, so it may differ.
pub(in crate::audit) fn cuts_alike(
    one: &Tokenizer,
    two: &Tokenizer,
    texts: &[String],
    without_end: bool,
) -> Result<bool> {
    let same = match without_end {
        true => same_up_to_the_end(one, two)?,
        false => same_tokenizer(one, two)?,
    };
    if same {
        return Ok(true);
    }
    if !one.splits_like(two)? {
        return Ok(false);
    }
    let read = |tokenizer: &Tokenizer, text: &str| -> Result<Vec<TokenId>> {
        let mut tokens = tokenizer.frame_prepared(text)?;
        if without_end {
            tokens.pop();
        }
        Ok(tokens)
    };
    for text in texts {
        for text in [text.as_str(), &lower_case(text)] {
            if read(one, text)? != read(two, text)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn limit(args: &Audited) -> Duration {
    Duration::from_secs(args.scorer_timeout.unwrap_or(TIMEOUT))
}

/// Runs `audit serve`: answers on stdin and stdout.
pub(in crate::audit) fn answer(args: &Serve, interrupt: &Interrupt) -> Result<Exit> {
    let mut model = LoadedModel::released(&args.model, args.adapter.as_deref(), args.device)?;
    let context = model.context;
    let row = match model.weights() {
        // Keys and values in single precision.
        Some((Model::Transformer(config), _)) => {
            config.layers * 2 * config.key_value_width() * size_of::<f32>()
        }
        _ => 0,
    };
    let served = serve(
        model.scorer(),
        (context, row),
        std::io::stdin().lock(),
        std::io::stdout().lock(),
        interrupt,
    );
    match served {
        // The client has closed the connection and expects no answer.
        Err(error) if closed(&error) => Ok(Exit::Finished),
        Err(error) => bail!(error),
        Ok(()) => Ok(Exit::Finished),
    }
}

/// Returns an error of a model's folder under the name of its argument; one of the device has its own.
pub(in crate::audit) fn of_model(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<Error>() {
        Some(Error::Device { .. }) => error,
        _ => error.context("--model"),
    }
}

fn closed(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reticent_backends::model::{Family, TransformerConfig};
    use reticent_backends::oracle::save_hugging_face;
    use reticent_corpus::tokenize::Origin;
    use serde_json::json;

    fn tokenizer(added: &[&str], words: &[&str]) -> Tokenizer {
        with_ends(added, words, [0, 0])
    }

    fn with_ends(added: &[&str], words: &[&str], ends: [u32; 2]) -> Tokenizer {
        let json = tokenizer_json(added, words).to_string();
        Tokenizer::from_json_with_ends(&json, Origin::Pretrained, ends).unwrap()
    }

    fn tokenizer_json(added: &[&str], words: &[&str]) -> serde_json::Value {
        let known: serde_json::Map<_, _> = words
            .iter()
            .zip(0..)
            .map(|(w, i)| ((*w).to_owned(), json!(i)))
            .collect();
        let added: Vec<_> = added
            .iter()
            .zip(known.len()..)
            .map(|(content, id)| {
                json!({"id": id, "content": content, "special": true, "single_word": false, "lstrip": false,
                       "rstrip": false, "normalized": false})
            })
            .collect();
        json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
            "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
            "model": {"type": "WordLevel", "vocab": known, "unk_token": "?"},
        })
    }

    #[test]
    fn another_end_of_text_is_no_other_tokenizer_where_none_is_scored() {
        let of = |ends| with_ends(&["<|im_end|>", "<|eot|>", "<|start|>"], &["?", "a"], ends);
        assert!(same_up_to_the_end(&of([4, 2]), &of([4, 3])).unwrap());
        assert!(!same_up_to_the_end(&of([4, 2]), &of([3, 2])).unwrap());
        let other = with_ends(&["<|im_end|>"], &["?", "b"], [2, 2]);
        assert!(!same_up_to_the_end(&of([2, 2]), &other).unwrap());
    }

    #[test]
    fn rounded_copies_are_distinguished_from_trained_models() {
        let base = vec![vec![0.1, -0.3], vec![0.0, 2.0]];
        let rounded = |round: fn(f32) -> f32| -> Vec<Vec<f32>> {
            base.iter()
                .map(|part| part.iter().map(|x| round(*x)).collect())
                .collect()
        };
        let halves: [fn(f32) -> f32; 2] = [
            |x| bf16::from_f32(x).to_f32(),
            |x| f16::from_f32(x).to_f32(),
        ];
        for copy in halves.map(rounded) {
            assert!(is_rounded(&base, &copy) && !is_rounded(&copy, &base));
            // A step of training moves a weight that was zero.
            let mut trained = copy.clone();
            trained[1][0] = 1e-5;
            assert!(!is_rounded(&trained, &copy) && !is_rounded(&copy, &trained));
        }
    }

    #[test]
    fn tokens_of_the_records_are_compared_and_not_those_that_no_record_has() {
        let words = ["?", "a", "b", "<", ">", "pad"];
        let (plain, padded) = (tokenizer(&[], &words), tokenizer(&["<pad>"], &words));
        let other = tokenizer(&[], &["?", "b", "a", "<", ">", "pad"]);
        let texts = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        let alike =
            |one, two, records: &[&str]| cuts_alike(one, two, &texts(records), false).unwrap();
        assert!(alike(&plain, &plain, &["a <pad> b"]));
        assert!(alike(&plain, &padded, &["a b", "b"]));
        assert!(!alike(&plain, &padded, &["a b", "a <pad> b"]));
        assert!(!alike(&plain, &padded, &["a <PAD> b"]), "in lower case");
        assert!(!alike(&plain, &other, &["<"]));
    }

    #[test]
    fn tokenizers_with_other_ends_of_text_differ_though_their_files_do_not() {
        // Special already, so that the file does not say which of them are the ends.
        let of = |ends| with_ends(&["<|im_end|>", "<|eot|>", "<|start|>"], &["?", "a"], ends);
        let (one, other) = (of([4, 2]), of([4, 3]));
        assert_eq!(one.to_json().unwrap(), other.to_json().unwrap());
        assert!(same_tokenizer(&one, &of([4, 2])).unwrap());
        assert!(!same_tokenizer(&one, &other).unwrap());
        let texts = ["a".to_owned()];
        assert!(!cuts_alike(&one, &other, &texts, false).unwrap());
    }

    /// Whose own beginning of text, added for want of another, was named by its number alone: as were tokens of texts.
    #[test]
    fn tokens_that_a_model_lacks_are_named() {
        let config = TransformerConfig::new(Family::Gpt2, 4, 8, 1, 1, 8);
        let weights = config.starting_weights(1);
        let home = tempfile::tempdir().unwrap();
        let loaded = |words: &[&str], name: &str| {
            let folder = home.path().join(name);
            save_hugging_face(&folder, &config, &weights, None).unwrap();
            let json = tokenizer_json(&[], words).to_string();
            std::fs::write(folder.join("tokenizer.json"), json).unwrap();
            LoadedModel::folder(&folder, Device::default())
        };
        let none = loaded(&["?", "a", "b", "c"], "none");
        let none = none.map(drop).unwrap_err().to_string();
        assert!(
            none.contains("no beginning of text") && none.contains("bos_token"),
            "{none}"
        );
        let model = loaded(&["?", "a", "<s>", "</s>", "b"], "four").unwrap();
        let check = |records: [&[TokenId]; 2]| model.has_tokens_of(records);
        assert!(check([&[2, 1, 3], &[2, 0]]).is_ok());
        let more = check([&[2, 1, 3], &[2, 4, 3]]).unwrap_err().to_string();
        assert!(
            more.starts_with("record 2 has token 4, an added token"),
            "{more}"
        );
    }

    /// As those of a base and of the chat model made of it.
    #[test]
    fn an_end_that_is_not_read_may_differ() {
        let of = |ends| with_ends(&["<|im_end|>", "<|eot|>", "<|start|>"], &["?", "a"], ends);
        let (one, texts) = (of([4, 2]), ["a".to_owned()]);
        for (other, alike) in [(of([4, 3]), true), (of([3, 2]), false)] {
            assert_eq!(cuts_alike(&one, &other, &texts, true).unwrap(), alike);
        }
    }
}
