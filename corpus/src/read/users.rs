//! The documents of one user as one document.

use crate::document::Document;
use std::collections::HashMap;

/// Users in the order of their first documents.
#[derive(Debug, Default)]
pub(super) struct Users {
    places: HashMap<String, usize>,
    /// Of each user, what there is so far; in the opposite order once all is read.
    documents: Vec<Document>,
    /// Of how many documents each is made.
    counts: Vec<u32>,
    /// Characters of each.
    lengths: Vec<usize>,
    /// Whether all documents were read.
    pub(super) whole: bool,
}

impl Users {
    /// Puts a document behind those of its user.
    pub(super) fn add(&mut self, user: String, document: Document) {
        let length = document.text.chars().count();
        let Some(place) = self.places.get(&user) else {
            self.places.insert(user.clone(), self.documents.len());
            self.documents.push(Document {
                id: user,
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

    /// All is read: the first user is the last of the list.
    pub(super) fn close(&mut self) {
        self.whole = true;
        self.places.clear();
        self.documents.reverse();
        self.counts.reverse();
    }

    /// The next user's document, and of how many it is made.
    pub(super) fn next(&mut self) -> Option<(Document, u32)> {
        Some((self.documents.pop()?, self.counts.pop()?))
    }
}
