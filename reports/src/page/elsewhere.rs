//! Pages in the formats of other programs: Markdown, SARIF and the YAML of model cards.

use super::{Body, Page, Section, Shown};
use crate::contract::{Align, Inputs, MARK, Table};
use serde_json::{Value, json};

/// Heading of the section for model cards.
pub(super) const CARD: &str = "For the model card";

/// Inputs that name the subject of a result, the most specific first.
const SUBJECTS: [&str; 6] = ["model", "new", "members", "scores", "data", "file"];

impl Page {
    /// Returns the answer in Markdown: title, result, and the sections that belong to the answer.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mark = if self.alarmed() { "**✗** " } else { "" };
        let mut out = format!(
            "{MARK}\n## {}\n\n{mark}{}\n",
            escaped(&self.title),
            escaped(&self.summary)
        );
        for section in self.in_brief() {
            out.push_str(&section.to_markdown());
        }
        out
    }

    /// Returns the sections of the short text.
    fn in_brief(&self) -> impl Iterator<Item = &Section> {
        let brief = self
            .sections
            .iter()
            .filter(|(shown, _)| matches!(shown, Shown::First | Shown::Always | Shown::Briefly));
        brief.map(|(_, section)| section)
    }

    /// Returns the named values of the short text, such as bounds and a verdict.
    fn facts(&self) -> impl Iterator<Item = &(String, String)> {
        self.in_brief().flat_map(|section| match &section.body {
            Body::Facts(facts) => facts.as_slice(),
            _ => &[],
        })
    }

    /// Returns what the answer says beside its result and its tables: assumptions, a limit, what it
    /// doesn't cover.
    fn beside(&self) -> impl Iterator<Item = &String> {
        let answer = self.sections.iter().filter(|(shown, section)| {
            matches!(shown, Shown::First | Shown::Always) && !is_card(&section.heading)
        });
        answer.flat_map(|(_, section)| match &section.body {
            Body::Text(said) | Body::Notes(said) => said.as_slice(),
            _ => &[],
        })
    }

    /// Returns the answer as one result in SARIF 2.1.0; `kind` is the kind of the document.
    #[must_use]
    pub fn to_sarif(&self, kind: &str, inputs: &Inputs) -> String {
        let level = match self.alarmed() {
            true => "error",
            false => "none",
        };
        // What judges nothing has not passed.
        let kind_of_result = self
            .outcome()
            .map_or_else(|| "informational".into(), |m| m.to_string());
        let subject = SUBJECTS.iter().find_map(|name| inputs.get(name));
        let subject = subject.and_then(Value::as_str);
        // A command line is not a location.
        let place = subject.filter(|place| !place.contains(':'));
        let locations: Vec<Value> = place
            .map(|place| json!({ "physicalLocation": { "artifactLocation": { "uri": uri_of(place) } } }))
            .into_iter()
            .collect();
        let facts = self.facts().map(|(name, value)| match name.as_str() {
            "" => value.clone(),
            name => format!("{name}: {value}"),
        });
        let said: Vec<String> = [self.summary.clone()]
            .into_iter()
            .chain(self.beside().cloned())
            .chain(facts)
            .collect();
        let message = said.join("\n");
        let document = json!({
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{
                "tool": { "driver": {
                    "name": "reticent",
                    "version": env!("CARGO_PKG_VERSION"),
                    "rules": [{ "id": kind, "shortDescription": { "text": self.title } }],
                } },
                "results": [{
                    "ruleId": kind,
                    "kind": kind_of_result,
                    "level": level,
                    "message": { "text": message },
                    "locations": locations,
                }],
            }],
        });
        format!("{document:#}\n")
    }

    /// Returns a YAML block for a model card; `kind` is the kind of the document.
    #[must_use]
    pub fn to_model_card(&self, kind: &str) -> String {
        // A JSON string is also a YAML string.
        let quoted = |text: &str| Value::String(text.to_owned()).to_string();
        let mut out = String::from("privacy:\n");
        out.push_str(&format!("- type: {}\n", quoted(kind)));
        out.push_str(&format!(
            "  tool: {}\n",
            quoted(concat!("Reticent ", env!("CARGO_PKG_VERSION")))
        ));
        out.push_str(&format!("  title: {}\n", quoted(&self.title)));
        out.push_str(&format!("  says: {}\n", quoted(&self.summary)));
        if self.outcome().is_some() {
            let above = self.alarmed();
            out.push_str(&format!("  contradicted_or_above_limit: {above}\n"));
        }
        let card = self.on_page().filter(|section| is_card(&section.heading));
        let text: Vec<&String> = card
            .filter_map(|section| match &section.body {
                Body::Text(paragraphs) => Some(paragraphs),
                _ => None,
            })
            .flatten()
            .collect();
        for (name, paragraphs) in [("text", text), ("notes", self.beside().collect())] {
            if !paragraphs.is_empty() {
                out.push_str(&format!("  {name}:\n"));
            }
            for paragraph in paragraphs {
                out.push_str(&format!("  - {}\n", quoted(paragraph)));
            }
        }
        let facts: String = self
            .facts()
            .map(|(name, value)| format!("  - {}: {}\n", quoted(name), quoted(value)))
            .collect();
        if !facts.is_empty() {
            out.push_str("  facts:\n");
            out.push_str(&facts);
        }
        out
    }
}

/// A path as a URI reference (RFC 3986): bytes but letters, digits, `-._~` and `/` are percent-encoded.
fn uri_of(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

/// Whether a section is meant for model cards, of the page itself or of a part of it.
fn is_card(heading: &str) -> bool {
    heading.ends_with(CARD) || heading.ends_with("for the model card")
}

impl Section {
    fn to_markdown(&self) -> String {
        let body = match &self.body {
            Body::Text(paragraphs) => paragraphs
                .iter()
                .map(|text| format!("{}\n\n", escaped(text)))
                .collect(),
            Body::Facts(facts) => facts
                .iter()
                .map(|(name, value)| match name.as_str() {
                    "" => format!("- {}\n", escaped(value)),
                    name => format!("- **{}**: {}\n", escaped(name), escaped(value)),
                })
                .collect(),
            Body::Table(table) if !table.rows().is_empty() => match self.caption.as_str() {
                "" => in_markdown(table),
                caption => format!("{}\n{}\n", in_markdown(table), escaped(caption)),
            },
            Body::Notes(items) => items
                .iter()
                .map(|text| format!("- {}\n", escaped(text)))
                .collect(),
            Body::Table(_) | Body::Plot(_) | Body::Heat(_) => String::new(),
        };
        match (body.is_empty(), self.heading.is_empty()) {
            (true, _) => String::new(),
            (false, true) => format!("\n{body}"),
            (false, false) => format!("\n### {}\n\n{body}", escaped(&self.heading)),
        }
    }
}

fn in_markdown(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let columns = table.columns();
    let mut out = line(columns.iter().map(|(name, _)| escaped(name)).collect());
    let rules = columns.iter().map(|(_, align)| match align {
        Align::Left => ":--".to_owned(),
        Align::Right => "--:".to_owned(),
    });
    out.push_str(&line(rules.collect()));
    for row in table.rows() {
        out.push_str(&line(row.iter().map(|cell| escaped(cell)).collect()));
    }
    out
}

/// Escapes a text so that no character has a meaning in Markdown, and puts it on one line.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\r' => out.push(' '),
            '\\' | '`' | '*' | '_' | '|' | '<' | '>' | '[' | ']' | '#' | '~' | '&' => {
                out.push('\\');
                out.push(letter);
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Mood;

    fn page() -> Page {
        let mut table = Table::new([("arm", Align::Left), ("ε ≤", Align::Right)]);
        table.row(["a|b <i>", "∞"]);
        Page::new("Exposure: \"m\"", "It leaks: *all*.")
            .answer(Section::facts(
                "What follows",
                vec![("ε", "at least 2".to_owned())],
            ))
            .answer(Section::table("In numbers", table).caption("At *95 %*."))
            .card("Words: \"quoted\"")
    }

    #[test]
    fn markdown_has_the_answer_and_nothing_becomes_markup() {
        let text = page().mood(Mood::Alarm).to_markdown();
        assert!(
            text.starts_with(
                "<!-- Reticent -->\n## Exposure: \"m\"\n\n**✗** It leaks: \\*all\\*.\n"
            ),
            "{text}"
        );
        assert!(text.contains("- **ε**: at least 2\n"));
        assert!(
            text.contains(
                "| arm | ε ≤ |\n| :-- | --: |\n| a\\|b \\<i\\> | ∞ |\n\nAt \\*95 %\\*.\n"
            ),
            "{text}"
        );
        assert!(!text.contains("Words"), "the full page has more");
    }

    #[test]
    fn sarif_has_one_result() {
        let inputs = Inputs::new().given("model", "a b/ckpt").unwrap();
        let read = |page: Page| -> Value {
            serde_json::from_str(&page.to_sarif("exposure", &inputs)).unwrap()
        };
        let bad = read(page().mood(Mood::Alarm));
        let result = &bad["runs"][0]["results"][0];
        assert_eq!(
            (&result["kind"], &result["level"]),
            (&json!("fail"), &json!("error"))
        );
        assert_eq!(
            result["ruleId"],
            bad["runs"][0]["tool"]["driver"]["rules"][0]["id"]
        );
        let place = &result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
        assert_eq!(place, "a%20b/ckpt");
        // A training without a promise, a figure and a perplexity "passed", though they judge nothing.
        for (page, kind) in [
            (page(), "informational"),
            (page().mood(Mood::Plain), "pass"),
            (page().mood(Mood::Open), "open"),
            (page().mood(Mood::Review), "review"),
        ] {
            let read = read(page);
            let result = &read["runs"][0]["results"][0];
            assert_eq!(
                (&result["kind"], &result["level"]),
                (&json!(kind), &json!("none"))
            );
        }
    }

    /// Every byte that is read back is that of the path, and a checker of SARIF takes all of them.
    #[test]
    fn a_place_is_a_uri_reference() {
        let path = "a b/100%25 ü#1?x=[y]{z}\\\"<é>|^`.jsonl";
        let uri = uri_of(path);
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._~/%".contains(c);
        assert!(uri.chars().all(plain), "{uri}");
        let mut parts = uri.split('%');
        let mut bytes = parts.next().unwrap().as_bytes().to_vec();
        for part in parts {
            let (code, rest) = part.split_at(2);
            bytes.push(u8::from_str_radix(code, 16).unwrap());
            bytes.extend(rest.bytes());
        }
        assert_eq!(String::from_utf8(bytes).unwrap(), path);
    }

    /// A report shows its verdict in brief, before its parts: card and SARIF lost it.
    #[test]
    fn the_facts_of_the_short_text_are_in_every_format() {
        let verdict = "this audit could not have contradicted the promise";
        let facts = || Section::facts("What follows", [("verdict", verdict.to_owned())]);
        let part = Page::new("Exposure", "No leak was seen.").answer(facts());
        let report = Page::new("What leaks", "No leak was seen.")
            .brief(facts())
            .with("Exposure", part.clone());
        for page in [part, report] {
            let inputs = Inputs::new();
            let sarif: Value = serde_json::from_str(&page.to_sarif("report", &inputs)).unwrap();
            let message = &sarif["runs"][0]["results"][0]["message"]["text"];
            assert_eq!(message, &format!("No leak was seen.\nverdict: {verdict}"));
            let card = page.to_model_card("report");
            let facts = format!("  facts:\n  - \"verdict\": \"{verdict}\"\n");
            assert!(card.ends_with(&facts), "{card}");
        }
    }

    #[test]
    fn a_model_card_is_yaml_whose_strings_are_quoted() {
        assert!(
            !page().to_model_card("train").contains("contradicted"),
            "nothing is judged"
        );
        let text = page().mood(Mood::Plain).to_model_card("exposure");
        let wanted = format!(
            "privacy:\n- type: \"exposure\"\n  tool: \"Reticent {}\"\n  title: \"Exposure: \\\"m\\\"\"\n  says: \"It leaks: *all*.\"\n  contradicted_or_above_limit: false\n  text:\n  - \"Words: \\\"quoted\\\"\"\n  facts:\n  - \"ε\": \"at least 2\"\n",
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(text, wanted);
    }
}
