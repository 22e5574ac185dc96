//! Chat templates: they turn a conversation into the text format that a model was trained on.

use super::rendering::{LARGEST, Rendered, Rendering};
use super::scopes::generates;
use crate::answers::{Answers, LossOn};
use crate::document::Offsets;
#[cfg(feature = "workers")]
use crate::worker::{Refusal, Worker};
use serde_json::{Map, Value as Json, json};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The file that contains only a template.
const OWN: &str = "chat_template.jinja";
/// The file that contains a template among other settings.
const SETTINGS: &str = "tokenizer_config.json";
/// The special tokens whose text a template may write.
const TOKENS: [&str; 2] = ["bos_token", "eos_token"];
/// The template names in a folder with several, and the folder of templates in separate files.
const DEFAULT: &str = "default";
const FOR_TOOLS: &str = "tool_use";
const OTHERS: &str = "additional_chat_templates";

/// A chat template, as transformers' `apply_chat_template` reads it.
///
/// Templates are untrusted: a template sees only the conversation and the special tokens, and is stopped by limits on
/// its number of instructions, its depth, and the length of its text. If it is loaded from a file in a program whose
/// `main` calls [`isolate`](crate::isolate), it runs in a separate process with memory and time limits.
#[derive(Clone)]
pub struct ChatTemplate {
    source: String,
    specials: Map<String, Json>,
    /// Whether the folder has a different template for records with tools.
    other_for_tools: bool,
    runs: Runs,
}

/// Where the template runs.
#[derive(Clone)]
enum Runs {
    /// In this process.
    Here(Arc<Rendering>),
    /// In a separate process.
    #[cfg(feature = "workers")]
    There(Arc<Worker<Rendering>>),
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatTemplate")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl PartialEq for ChatTemplate {
    fn eq(&self, other: &Self) -> bool {
        (&self.source, &self.specials) == (&other.source, &other.specials)
    }
}

impl Eq for ChatTemplate {}

impl ChatTemplate {
    /// Loads a template from a model's folder or from a file. In a folder, `chat_template.jinja` takes precedence over
    /// `chat_template` in `tokenizer_config.json`, whose special tokens the template sees.
    ///
    /// # Errors
    /// Returns a description of the problem if there is no template, a file can't be read, or the template is invalid.
    pub fn load(path: &Path) -> Result<Self, String> {
        let folder = match path.is_dir() {
            true => path,
            false => path.parent().unwrap_or(path),
        };
        let settings = text(&folder.join(SETTINGS))?;
        let settings = settings.map(|text| object(&text)).transpose()?;
        let without_settings = settings.is_none();
        let settings = settings.unwrap_or_default();
        let own = match path.is_dir() {
            true => folder.join(OWN),
            false => path.to_path_buf(),
        };
        let is_settings = own.file_name().is_some_and(|name| name == SETTINGS);
        let source = match text(&own)? {
            Some(text) if !is_settings => text,
            None if !path.is_dir() => return Err("no such file or folder".to_owned()),
            _ => template_of(&settings).ok_or_else(|| {
                format!(
                    "neither {OWN} nor chat_template in {SETTINGS}: the model has no chat template"
                )
            })?,
        };
        // An unknown token would render as nothing and change the text.
        if let Some(token) = TOKENS.iter().find(|token| source.contains(**token))
            && without_settings
        {
            return Err(format!(
                "it reads {token}, and no {SETTINGS} beside it says what that is; put it beside the model's, or name the model's folder"
            ));
        }
        let specials = specials(&settings);
        let other_for_tools = path.is_dir()
            && (folder
                .join(OTHERS)
                .join(format!("{FOR_TOOLS}.jinja"))
                .exists()
                || text(&folder.join(OWN))?.is_none() && named(&settings, FOR_TOOLS).is_some());
        #[cfg(feature = "workers")]
        if let Some(started) = Worker::start(&files(&source, &specials)) {
            let (worker, _) = started.map_err(|refusal| refusal.problem)?;
            return Ok(Self {
                source,
                specials,
                other_for_tools,
                runs: Runs::There(Arc::new(worker)),
            });
        }
        Ok(Self {
            other_for_tools,
            ..Self::of(source, specials)?
        })
    }

    /// Creates a template that runs in this process, with the special tokens that these settings name.
    ///
    /// # Errors
    /// Returns an error if the template is invalid or too long.
    pub fn new(source: String, settings: &Map<String, Json>) -> Result<Self, String> {
        Self::of(source, specials(settings))
    }

    fn of(source: String, specials: Map<String, Json>) -> Result<Self, String> {
        let rendering = Rendering::new(source.clone(), specials.clone())?;
        Ok(Self {
            source,
            specials,
            other_for_tools: false,
            runs: Runs::Here(Arc::new(rendering)),
        })
    }

    /// Returns a sentence for the user on which limits this system cannot impose on the template, if any.
    #[must_use]
    pub fn unconfined(&self) -> Option<String> {
        match &self.runs {
            Runs::Here(_) => Some("it runs in this process, without a limit of memory".to_owned()),
            #[cfg(feature = "workers")]
            Runs::There(worker) => worker.unconfined.clone(),
        }
    }

    /// Renders a conversation as `apply_chat_template` does without a generation prompt. `tools` are those that the
    /// assistant may call.
    ///
    /// ```
    /// use reticent_corpus::read::ChatTemplate;
    /// use serde_json::{Map, json};
    /// let source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content.strip() }}\n{% endfor %}";
    /// let template = ChatTemplate::new(source.to_owned(), &Map::new())?;
    /// let said = [json!({"role": "user", "content": "Hi "}), json!({"role": "assistant", "content": "Hello"})];
    /// assert_eq!(template.render(&said, None)?, "<|user|>Hi\n<|assistant|>Hello\n");
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the template rejects the conversation or is stopped by a limit. The error never contains
    /// text of the conversation.
    pub fn render(&self, messages: &[Json], tools: Option<&Json>) -> Result<String, String> {
        let said = json!({ "messages": messages, "tools": tools });
        self.ask(said).map(|rendered| rendered.text)
    }

    fn ask(&self, said: Json) -> Result<Rendered, String> {
        if self.other_for_tools && !said["tools"].is_null() {
            return Err(format!(
                "a record with tools, for which the folder has another chat template ({FOR_TOOLS}): put that into a file of \
                 its own"
            ));
        }
        match &self.runs {
            Runs::Here(rendering) => rendering.render(said),
            #[cfg(feature = "workers")]
            Runs::There(worker) => worker
                .ask(
                    said.to_string().as_bytes(),
                    2 * LARGEST as u64,
                    || Ok(files(&self.source, &self.specials)),
                    |bytes| Rendered::from_bytes(bytes).ok_or_else(crate::worker::wrong),
                )
                .map_err(|Refusal { problem, .. }| problem),
        }
    }

    /// Renders a conversation, and also returns the byte ranges that the assistant writes: the content of the
    /// template's `{% generation %}` blocks, as for transformers' `return_assistant_tokens_mask`. Without such blocks,
    /// an answer is what the template adds for its message after the generation prompt (`add_generation_prompt`),
    /// provided that the template renders every prefix of the conversation as a prefix of the whole text.
    ///
    /// ```
    /// use reticent_corpus::read::ChatTemplate;
    /// use serde_json::{Map, json};
    /// let source = "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}
    /// {% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
    /// let template = ChatTemplate::new(source.to_owned(), &Map::new())?;
    /// let said = [json!({"role": "user", "content": "Hi"}), json!({"role": "assistant", "content": "Hello"})];
    /// let (text, answers) = template.answers(&said, None)?;
    /// assert_eq!(&text[answers[0].clone()], "Hello\n");
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Self::render`]; also returns an error if the text does not show what the assistant writes.
    pub fn answers(
        &self,
        messages: &[Json],
        tools: Option<&Json>,
    ) -> Result<(String, Vec<Range<usize>>), String> {
        let rendered = self.ask(json!({ "messages": messages, "tools": tools }))?;
        let text = rendered.text;
        let spans = match generates(&self.source) {
            false => self.by_prefixes(messages, tools, &text)?,
            true => rendered.spans.ok_or_else(|| {
                "the chat template does not write its {% generation %} blocks where they stand, but in a macro, a variable or \
                 a filter, so that it does not say which text is the assistant's (transformers marks other text there)"
                    .to_owned()
            })?,
        };
        Ok((text, spans))
    }

    /// Returns the answers of a template without `{% generation %}` blocks.
    fn by_prefixes(
        &self,
        messages: &[Json],
        tools: Option<&Json>,
        whole: &str,
    ) -> Result<Vec<Range<usize>>, String> {
        let inexact = || {
            "the chat template has no {% generation %} block, and writes the beginning of a conversation in another way than \
             the whole, so that it does not say which text is the assistant's"
                .to_owned()
        };
        let length = |count: usize, prompt: bool| {
            if count == messages.len() && !prompt {
                return Ok(whole.len());
            }
            let said = json!({ "messages": messages[..count], "tools": tools, "add_generation_prompt": prompt });
            let begins = self.ask(said).map_err(|_| inexact())?.text;
            whole
                .starts_with(&begins)
                .then_some(begins.len())
                .ok_or_else(inexact)
        };
        let mut spans = Vec::new();
        let assistant =
            |message: &Json| message.get("role").and_then(Json::as_str) == Some("assistant");
        for (number, _) in messages.iter().enumerate().filter(|(_, m)| assistant(m)) {
            let begin = match number {
                0 => length(0, true).or_else(|error| {
                    let first = self.first_answer(messages, tools, whole);
                    first.ok_or(error)
                })?,
                _ => length(number, true)?,
            };
            let span = begin..length(number + 1, false)?;
            if span.start > span.end {
                return Err(inexact());
            }
            spans.extend((!span.is_empty()).then_some(span));
        }
        Ok(spans)
    }

    /// Returns where the answer begins if it is the first message of a conversation, for templates that need a message
    /// before it: after the first occurrence of the generation prompt, provided that the answer's own text follows
    /// there.
    fn first_answer(&self, messages: &[Json], tools: Option<&Json>, whole: &str) -> Option<usize> {
        let first = messages.first()?;
        let content = first.get("content")?.as_str()?.trim();
        let ask = |prompt: bool| {
            let said =
                json!({ "messages": [first], "tools": tools, "add_generation_prompt": prompt });
            Some(self.ask(said).ok()?.text)
        };
        let (asking, answered) = (ask(true)?, ask(false)?);
        let prompt = asking
            .strip_prefix(answered.as_str())
            .filter(|p| !p.is_empty())?;
        let begin = whole.find(prompt)? + prompt.len();
        let stands_there = whole[begin..].trim_start().starts_with(content);
        (stands_there && !content.is_empty()).then_some(begin)
    }

    /// Renders a record without the template's own beginning and end of text, which a record gets anyway.
    pub(super) fn record(
        &self,
        messages: &[Json],
        tools: Option<&Json>,
        loss_on: Option<LossOn>,
    ) -> Result<(String, Option<Answers>), String> {
        let (whole, spans) = match loss_on {
            None => (self.render(messages, tools)?, None),
            Some(LossOn::Assistant) => {
                let (whole, spans) = self.answers(messages, tools)?;
                (whole, Some(spans))
            }
        };
        let special = |name: &str| self.specials.get(name).and_then(Json::as_str).unwrap_or("");
        let text = whole.strip_prefix(special("bos_token")).unwrap_or(&whole);
        let begin = whole.len() - text.len();
        let text = text.strip_suffix(special("eos_token")).unwrap_or(text);
        let end = begin + text.len();
        let answers = spans.map(|spans| {
            let offsets = Offsets::new(text);
            let inside = spans.iter().filter_map(|span| {
                let (from, to) = (span.start.max(begin), span.end.min(end));
                let character = |byte: usize| offsets.character(byte - begin);
                (from < to).then(|| character(from)..character(to))
            });
            Answers {
                spans: inside.collect(),
                end: spans.iter().any(|span| span.end > end),
            }
        });
        Ok((text.to_owned(), answers))
    }
}

/// Returns the special tokens that the settings name.
fn specials(settings: &Map<String, Json>) -> Map<String, Json> {
    let named = |(key, value): (&String, &Json)| {
        let text = value.get("content").unwrap_or(value).as_str()?;
        key.ends_with("_token")
            .then(|| (key.clone(), Json::String(text.to_owned())))
    };
    settings.iter().filter_map(named).collect()
}

/// Returns the files that a worker is started with.
#[cfg(feature = "workers")]
fn files(source: &str, specials: &Map<String, Json>) -> Vec<Vec<u8>> {
    let specials = Json::Object(specials.clone());
    vec![source.into(), specials.to_string().into_bytes()]
}

/// Reads a file; returns `None` if it does not exist.
fn text(path: &Path) -> Result<Option<String>, String> {
    let shown = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    match reticent_disk::read_regular(path, LARGEST as u64) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|e| shown(&e)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(shown(&e)),
    }
}

fn object(text: &str) -> Result<Map<String, Json>, String> {
    match serde_json::from_str(text) {
        Ok(Json::Object(map)) => Ok(map),
        Ok(_) => Err(format!("{SETTINGS} is no JSON object")),
        Err(e) => Err(format!("{SETTINGS} is not JSON: {e}")),
    }
}

/// Returns the template in the settings: the only one, or the one named `default`.
fn template_of(settings: &Map<String, Json>) -> Option<String> {
    match settings.get("chat_template")? {
        Json::String(text) => Some(text.clone()),
        _ => named(settings, DEFAULT),
    }
}

/// Returns one of several templates by its name.
fn named(settings: &Map<String, Json>, name: &str) -> Option<String> {
    settings
        .get("chat_template")?
        .as_array()?
        .iter()
        .find_map(|one| {
            (one.get("name")?.as_str()? == name).then_some(())?;
            Some(one.get("template")?.as_str()?.to_owned())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_read_where_transformers_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let read = || ChatTemplate::load(folder.path()).map(|t| t.render(&[], None).unwrap());
        assert!(read().unwrap_err().contains("no chat template"));
        std::fs::write(
            at(SETTINGS),
            json!({"chat_template": "one{{ eos_token }}", "eos_token": "!"}).to_string(),
        )
        .unwrap();
        assert_eq!(read().unwrap(), "one!");
        let several = json!({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]});
        std::fs::write(at(SETTINGS), several.to_string()).unwrap();
        assert_eq!(read().unwrap(), "d");
        let several = ChatTemplate::load(folder.path()).unwrap();
        let error = several.render(&[], Some(&json!([]))).unwrap_err();
        assert!(error.contains("tool_use"), "{error}");
        std::fs::write(at(OWN), "own\n").unwrap();
        assert_eq!(read().unwrap(), "own");
        std::fs::write(at("other.jinja"), "other").unwrap();
        let other = ChatTemplate::load(&at("other.jinja")).unwrap();
        assert_eq!(other.render(&[], None).unwrap(), "other");
        assert!(ChatTemplate::load(&at("missing")).is_err());
        std::fs::write(at(OWN), "{% for %}").unwrap();
        assert!(read().unwrap_err().contains("chat template"));
        std::fs::write(at(SETTINGS), "[]").unwrap();
        assert!(read().unwrap_err().contains(SETTINGS));
    }
}
