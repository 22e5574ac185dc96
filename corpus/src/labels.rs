//! The classes of documents: the key they are stored under, and their names.

use crate::error::{Error, Result, within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// The largest number of classes.
const CLASSES: usize = 1000;
/// The longest class name, in bytes.
const NAME: usize = 200;

/// The key or column of a document's class, and the names of all classes, in the order of their numbers.
///
/// The names are declared and not collected: they stand in a trained model, and a list that was made from the documents
/// would tell which rare class occurs among them. A document's class is part of it: a promise for a record covers it as it
/// covers its text. No policy redacts it.
///
/// ```
/// use reticent_corpus::Labels;
/// let labels = Labels::new("domain", ["hotel", "taxi"])?;
/// assert_eq!((labels.class("taxi"), labels.class("bus")), (Some(1), None));
/// assert!(Labels::new("domain", ["hotel"]).is_err()); // one class has nothing to tell
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Labels {
    /// The key or column.
    pub field: String,
    /// The names of the classes.
    pub classes: Vec<String>,
}

impl Labels {
    /// Creates classes with these names, read from the key `field`.
    ///
    /// # Errors
    /// As for [`Self::validate`].
    pub fn new(
        field: impl Into<String>,
        classes: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self> {
        let labels = Self {
            field: field.into(),
            classes: classes.into_iter().map(Into::into).collect(),
        };
        labels.validate()?;
        Ok(labels)
    }

    /// Checks the names.
    ///
    /// # Errors
    /// Fewer than 2 or more than 1000 classes, a name that is blank, of more than 200 bytes, with a control character,
    /// or that stands twice.
    pub fn validate(&self) -> Result<()> {
        let count = self.classes.len();
        within("the number of classes", count, 2..=CLASSES)?;
        let mut seen = HashSet::new();
        for (number, name) in self.classes.iter().enumerate() {
            let problem = if name.trim().is_empty() {
                "is blank"
            } else if name.len() > NAME {
                "has more than 200 bytes"
            } else if name.contains(char::is_control) {
                "has a control character in it"
            } else if !seen.insert(name) {
                "stands twice"
            } else {
                continue;
            };
            return Err(Error::Labels(format!(
                "the name of class {number} {problem}"
            )));
        }
        Ok(())
    }

    /// Returns the number of the class with this name.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<u32> {
        let at = self.classes.iter().position(|class| class == name)?;
        u32::try_from(at).ok()
    }

    /// Returns the class that a document's values under the key denote: by name, or else, if `numbers` are read, by number.
    ///
    /// # Errors
    /// Returns an error if there is no value, more than one, or one that is no class. The message does not contain the
    /// value.
    pub(crate) fn of_values(
        &self,
        values: &[String],
        numbers: bool,
    ) -> std::result::Result<u32, String> {
        let one = self.only(values)?;
        let numbered = || self.numbered(one);
        let class = self.class(one);
        class
            .or_else(|| numbered().filter(|_| numbers))
            .ok_or_else(|| {
                let number = match numbered() {
                    Some(_) => {
                        "; it is a number, and these classes have names, which another data set may count otherwise"
                    }
                    None => "",
                };
                format!("{}{number}", self.unknown())
            })
    }

    /// Returns the class of a line of a prepared corpus, which is a number, whatever the names are; by name if it is none.
    ///
    /// # Errors
    /// As for [`Self::of_values`]; a number, unless `numbers` are read.
    pub(crate) fn of_prepared(
        &self,
        values: &[String],
        numbers: bool,
    ) -> std::result::Result<u32, String> {
        let one = self.only(values)?;
        match self.numbered(one) {
            Some(class) if numbers => Ok(class),
            Some(_) => Err(format!(
                "what stands under `{}` is a number of the classes of its preparation, which may count otherwise; name the \
                 prepared folder",
                self.field
            )),
            None => self.class(one).ok_or_else(|| self.unknown()),
        }
    }

    fn only<'v>(&self, values: &'v [String]) -> std::result::Result<&'v str, String> {
        match values {
            [one] => Ok(one),
            _ => Err(format!(
                "must have one class under `{}`, got {}",
                self.field,
                values.len()
            )),
        }
    }

    fn numbered(&self, value: &str) -> Option<u32> {
        let number: u32 = value.parse().ok()?;
        ((number as usize) < self.classes.len()).then_some(number)
    }

    fn unknown(&self) -> String {
        format!(
            "what stands under `{}` is none of the {} declared classes",
            self.field,
            self.classes.len()
        )
    }

    /// Checks that a record of a prepared corpus has a class exactly if classes are declared, and that it is one of
    /// them.
    pub(crate) fn check(
        labels: Option<&Self>,
        label: Option<u32>,
    ) -> std::result::Result<(), String> {
        match (labels.map(|l| l.classes.len()), label) {
            (None, None) => Ok(()),
            (Some(classes), Some(label)) if (label as usize) < classes => Ok(()),
            (Some(classes), Some(label)) => {
                Err(format!("class {label}; classes are below {classes}"))
            }
            (Some(_), None) => Err("no class, where classes are declared".to_owned()),
            (None, Some(_)) => Err("a class, where none are declared".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_printable_and_at_least_two() {
        let refused = |names: &[&str]| {
            let error = Labels::new("c", names.iter().copied()).unwrap_err();
            error.to_string()
        };
        assert!(refused(&[]).contains("from 2 to 1000"));
        assert!(refused(&["a", " "]).contains("class 1 is blank"));
        assert!(refused(&["a", "b", "a"]).contains("class 2 stands twice"));
        assert!(refused(&["a\u{1b}[2J", "b"]).contains("class 0 has a control character"));
        assert!(refused(&["a", &"b".repeat(201)]).contains("200 bytes"));
    }

    #[test]
    fn a_documents_class_is_one_declared_value() {
        let labels = Labels::new("mood", ["good", "bad"]).unwrap();
        let of = |values: &[&str]| {
            let values: Vec<String> = values.iter().map(|v| (*v).to_owned()).collect();
            labels.of_values(&values, true)
        };
        assert_eq!(of(&["bad"]), Ok(1));
        assert_eq!((of(&["0"]), of(&["1"])), (Ok(0), Ok(1)));
        assert!(of(&["2"]).is_err() && of(&["-1"]).is_err() && of(&["1.0"]).is_err());
        let numbers = Labels::new("n", ["1", "0"]).unwrap();
        let one = ["1".to_owned()];
        assert_eq!(numbers.of_values(&one, true), Ok(0));
        // A prepared corpus writes numbers, whatever its classes are called.
        assert_eq!(numbers.of_prepared(&one, true), Ok(1));
        // Not even as a name where numbers are not read: 1 is the second class of the preparation.
        let refused = numbers.of_prepared(&one, false).unwrap_err();
        assert!(refused.contains("name the prepared folder"), "{refused}");
        for read in [true, false] {
            assert_eq!(labels.of_prepared(&["bad".to_owned()], read), Ok(1));
        }
        // Without numbers, a number is no class, unless it is a name.
        assert_eq!(numbers.of_values(&one, false), Ok(0));
        let refused = labels.of_values(&one, false).unwrap_err();
        assert!(refused.ends_with("may count otherwise"), "{refused}");
        assert!(
            of(&[])
                .unwrap_err()
                .contains("one class under `mood`, got 0")
        );
        assert!(of(&["good", "bad"]).unwrap_err().contains("got 2"));
        let unknown = of(&["secret"]).unwrap_err();
        assert!(unknown.contains("none of the 2 declared classes") && !unknown.contains("secret"));
    }
}
