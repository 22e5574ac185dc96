//! Joins the documents of each user into one.

use crate::document::Document;
use reticent_disk::folded_word;
use std::collections::HashMap;

/// A user as a document names it.
#[derive(Debug)]
pub(super) struct User<'a> {
    /// The name as it is written, without white space around it.
    name: &'a str,
    /// The same for all spellings of the name.
    folded: String,
}

impl<'a> User<'a> {
    /// Returns the user that a name stands for; `None` if the name is blank.
    pub(super) fn of(name: &'a str) -> Option<Self> {
        let folded = folded_word(name, true);
        let name = name.trim();
        (!folded.is_empty()).then_some(Self { name, folded })
    }
}

/// Users, in the order of their first documents.
#[derive(Debug, Default)]
pub(super) struct Users {
    places: HashMap<String, usize>,
    /// The document of each user so far; in reverse order once everything has been read.
    documents: Vec<Document>,
    /// How many documents each one was joined from.
    counts: Vec<u32>,
    /// The number of characters of each.
    lengths: Vec<usize>,
    /// Whether all documents have been read.
    pub(super) whole: bool,
}

impl Users {
    /// Appends a document to those of its user. The id of the whole is the first spelling of the user's name.
    pub(super) fn add(&mut self, user: User<'_>, document: Document) {
        let length = document.text.chars().count();
        let Some(place) = self.places.get(&user.folded) else {
            self.places.insert(user.folded, self.documents.len());
            self.documents.push(Document {
                id: user.name.to_owned(),
                ..document
            });
            self.lengths.push(length);
            self.counts.push(1);
            return;
        };
        self.counts[*place] = self.counts[*place].saturating_add(1);
        let (all, before) = (&mut self.documents[*place], &mut self.lengths[*place]);
        all.text.push('\n');
        all.text.push_str(&document.text);
        let from = *before + 1;
        all.secrets
            .extend(document.secrets.into_iter().map(|mut secret| {
                secret.start += from;
                secret.end += from;
                secret
            }));
        all.masked
            .extend(document.masked.into_iter().map(|mut span| {
                span.start += from;
                span.end += from;
                span
            }));
        if let (Some(answers), Some(own)) = (&mut all.answers, document.answers) {
            let spans = own.spans.into_iter();
            let moved = spans.map(|span| span.start + from..span.end + from);
            answers.spans.extend(moved);
            answers.end = own.end;
        }
        *before = from + length;
    }

    /// Marks the end of the input, and reverses the lists, so that the first user comes last.
    pub(super) fn close(&mut self) {
        self.whole = true;
        self.places.clear();
        self.documents.reverse();
        self.counts.reverse();
    }

    /// Returns the next user's document, and how many documents it was joined from.
    pub(super) fn next(&mut self) -> Option<(Document, u32)> {
        Some((self.documents.pop()?, self.counts.pop()?))
    }
}
