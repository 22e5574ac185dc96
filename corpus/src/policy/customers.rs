//! Patterns for customer-service dialogues: names in typical phrases, postal addresses, and
//! telephone, order and tracking numbers, in the formats of the CustomerSim data and of our
//! simulator.

use super::patterns::{Patterns, Rule};
use crate::error::Result;

/// A capitalised word of two or more letters, including `McCoy`, `O'Hara` and `Lee-Hale`.
const WORD: &str = r"[A-Z][A-Za-z'’-]*[a-z]";

/// Phrases that precede a full name.
const CARRIERS: &str = r"(?:\b(?:I am|I'm|[Nn]ame's|[Nn]ame is|[Tt]his is|[Uu]nder|[Ii]t's|[Ss]peaking with|[Ff]ound you|[Ff]ound it)|\b(?:Yes|Sure|Certainly|Of course|Thanks|Thank you|Perfect|Welcome back|Hello|Hi|All right|Okay|Ok),)";

impl Patterns {
    /// Returns the pattern set for customer-service dialogues, with the kinds `name`, `address`,
    /// `phone`, `order` and `tracking`.
    ///
    /// # Errors
    /// Never fails: the patterns are constant, and a test compiles them.
    pub fn customers() -> Result<Self> {
        let name = format!(r"{WORD}(?: [A-Z]\.)?(?: {WORD}){{1,2}}");
        let mut tracking = Rule::own("tracking", r"\b[A-Z0-9]{10}\b")?;
        tracking.check = |found| found.bytes().any(|b| b.is_ascii_uppercase());
        let rules = vec![
            Rule::own("name", &format!(r"{CARRIERS} (?<secret>{name})\b"))?,
            // A turn that consists only of a name.
            Rule::own(
                "name",
                &format!(r"(?m)^(?:USR: )?(?<secret>{name})[.!]?(?: here[.!]?)?$"),
            )?,
            // Two answers in one turn, with the name first or last; the other may already be
            // masked.
            Rule::own(
                "name",
                &format!(
                    r"(?m)^USR: (?<secret>{name})\.? (?:Yes,|Yep |Sure,|Yea sure,|Ok,|My |my |It's |Shipping |Phone |You can |I am |\d|\x{{fffc}})"
                ),
            )?,
            Rule::own(
                "name",
                &format!(r"(?m)(?:\d{{4}}\.?|\x{{fffc}}\.?|number\.) (?<secret>{name})\.?$"),
            )?,
            Rule::own(
                "address",
                r"\b(?:\d{1,6}|PO Box \d{1,6},) [A-Z][A-Za-z0-9 .,'#-]{3,90}?,? [A-Z]{2} \d{5}(?:-\d{4})?\b",
            )?,
            Rule::own(
                "address",
                r"\b(?:PSC \d{1,5}, Box \d{1,5}|Unit \d{1,5} Box \d{1,5}|US(?:NS|NV|CGC|S) [A-Z][a-z]+) [ADF]PO A[AEP] \d{5}\b",
            )?,
            Rule::own(
                "phone",
                r"(?:\+1 )?\(\d{3}\) \d{3}-\d{4}\b|\b\d{3}[.-]\d{3}[.-]\d{4}\b|\b\d{10}\b",
            )?,
            Rule::own("order", r"\b\d{3}-\d{5}-\d{4}\b")?,
            tracking,
        ];
        Ok(Self::of("customers", rules))
    }
}
