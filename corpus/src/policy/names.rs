//! Names found by a tagger, with a threshold.

use super::levels::{Tagger, names};
use super::{Policy, Span, View, threshold};
use crate::error::Result;
use std::sync::Arc;

/// Finds the words that a tagger considers parts of names with at least a given probability.
///
/// Two thresholds over one model make a redaction policy and a conservative one (Zhao et al. 2022,
/// appendix A.4): 0.3 for what is masked, and 0.1, "scores smaller than 0.9" of being plain text,
/// for what is kept on the private side.
///
/// ```
/// use reticent_corpus::policy::{Names, View, resolved};
/// use reticent_corpus::tagger::TaggerModel;
/// let names = Names::new(TaggerModel::shipped()?, Names::LEAST)?;
/// let text = "Please send it to Mary Watson in Boston.";
/// let found = resolved(&names, &View { text, secrets: &[] });
/// let found: Vec<&str> = found.iter().map(|s| &text[s.start..s.end]).collect();
/// assert_eq!(found, ["Mary Watson", "Boston"]);
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Names {
    tagger: Arc<dyn Tagger>,
    least: f32,
    source: Arc<str>,
}

impl Names {
    /// The threshold of the redaction policy in CRT's experiments.
    pub const LEAST: f32 = 0.3;
    /// The threshold of its conservative policy.
    pub const CONSERVATIVE: f32 = 0.1;

    /// Finds names with at least this score.
    ///
    /// # Errors
    /// As for [`threshold`].
    pub fn new(tagger: Arc<dyn Tagger>, least: f32) -> Result<Self> {
        Self::of(tagger, least, "names")
    }

    /// [`Self::new`], for another source of the spans.
    pub(super) fn of(tagger: Arc<dyn Tagger>, least: f32, source: &str) -> Result<Self> {
        Ok(Self {
            tagger,
            least: threshold(least)?,
            source: source.into(),
        })
    }
}

impl Policy for Names {
    fn find(&self, view: &View<'_>, spans: &mut Vec<Span>) {
        for tag in names(self.tagger.as_ref(), view.text, self.least) {
            let source = self.source.clone();
            spans.push(Span::new(tag.range, tag.role.name(), source, tag.score));
        }
    }
}
