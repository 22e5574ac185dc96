//! Chats of Python as the objects that the corpus crate reads.

use crate::error::read;
use pyo3::prelude::*;
use reticent_corpus::read::taught_text;
use serde_json::{Map, Value};

/// The key under which the messages are read.
const KEY: &str = "messages";

/// Returns the record that holds these messages, which are JSON.
pub(super) fn object(messages: &str) -> PyResult<Map<String, Value>> {
    let messages: Value = read(KEY, messages)?;
    Ok(Map::from_iter([(KEY.to_owned(), messages)]))
}

/// Returns the messages of a record as JSON.
pub(super) fn messages(object: &Map<String, Value>) -> String {
    object.get(KEY).unwrap_or(&Value::Null).to_string()
}

/// Returns the text of a chat in which a canary goes, that of the assistant's last message with one; `None` if there is
/// none. messages: as JSON.
#[pyfunction]
pub(crate) fn answer(messages: &str) -> PyResult<Option<String>> {
    let mut object = object(messages)?;
    Ok(taught_text(&mut object, None).map(|(text, _)| text.clone()))
}

/// Returns the messages of a chat, as JSON, with another text in the place of `answer`; as they are if there is none.
#[pyfunction]
pub(crate) fn with_answer(chat: &str, text: String) -> PyResult<String> {
    let mut object = object(chat)?;
    if let Some((answer, _)) = taught_text(&mut object, None) {
        *answer = text;
    }
    Ok(messages(&object))
}
