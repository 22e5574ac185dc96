//! Policies as they are shown in reports.

use super::owner_key::policy_hmac;
use anyhow::Result;
use reticent_corpus::policy::PolicyChoice;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Returns a policy, or options with a policy, for a report: a list of words is replaced by their
/// number and the digest of the dictionary under the owner's key, since readers of a report may not
/// see the words.
pub(super) fn published(policy: impl Serialize) -> Result<Value> {
    let mut value = serde_json::to_value(policy)?;
    without_words(&mut value)?;
    Ok(value)
}

fn without_words(value: &mut Value) -> Result<()> {
    // A seed drawn by the system belongs to the owner.
    if value
        .get("seed_origin")
        .is_some_and(|origin| origin == "system")
        && let Value::Object(fields) = value
    {
        fields.shift_remove("seed");
    }
    // The texts of a public model are many and not informative.
    if let Value::Object(fields) = value
        && let Some(Value::Array(texts)) = fields.shift_remove("sampled")
    {
        fields.insert("sampled_count".to_owned(), texts.len().into());
    }
    for name in ["rules", "patterns"] {
        // Only the kind of a pattern is shown: the pattern itself may contain what it searches for.
        if let Some(Value::Array(rules)) = value.get_mut(name) {
            for rule in rules.iter_mut().filter_map(Value::as_object_mut) {
                rule.shift_remove("pattern");
            }
        }
    }
    if value.get("type").is_some_and(|kind| kind == "dictionary") {
        let digest = match PolicyChoice::deserialize(&*value) {
            Ok(dictionary) => policy_hmac(&dictionary)?,
            Err(_) => None,
        };
        if let Value::Object(fields) = value
            && let Some(Value::Array(words)) = fields.shift_remove("words")
        {
            fields.insert("words_count".to_owned(), words.len().into());
            fields.extend(digest.map(|digest| ("hmac".to_owned(), digest.into())));
        }
        return Ok(());
    }
    match value {
        Value::Array(items) => items.iter_mut().try_for_each(without_words),
        Value::Object(fields) => fields.values_mut().try_for_each(without_words),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reticent_corpus::canary::{CanaryOptions, Spec};
    use reticent_corpus::policy::{
        ConservativeOptions, DictionaryOptions, PatternRule, PolicyOptions,
    };
    use reticent_corpus::prepare::PrepareOptions;

    #[test]
    fn a_report_shows_no_pattern_and_no_seed_of_the_system() {
        let rule = PatternRule {
            kind: "people".to_owned(),
            pattern: "Byron|King".to_owned(),
        };
        let canaries = CanaryOptions::new(Spec::new(1, 2).unwrap());
        let mut options = PrepareOptions {
            policy: PolicyOptions {
                policy: PolicyChoice::Patterns {
                    rules: vec![rule.clone()],
                },
                ..PolicyOptions::default()
            },
            conservative: Some(ConservativeOptions {
                patterns: vec![rule],
                ..ConservativeOptions::default()
            }),
            canaries: Some(canaries.clone()),
            ..PrepareOptions::default()
        };
        let given = published(&options).unwrap();
        assert!(!given.to_string().contains("Byron"), "{given}");
        assert_eq!(given["policy"]["policy"]["rules"][0]["kind"], "people");
        assert_eq!(given["canaries"]["seed"], 0);
        options.canaries = Some(canaries.with_system_seed().unwrap());
        let drawn = published(&options).unwrap();
        assert!(drawn["canaries"].get("seed").is_none(), "{drawn}");
        assert_eq!(drawn["canaries"]["seed_origin"], "system");
    }

    #[test]
    fn a_report_shows_no_word_of_a_list() {
        let list = |words: &[&str]| {
            PolicyChoice::Dictionary(DictionaryOptions {
                kind: "people".to_owned(),
                words: words.iter().map(|word| (*word).to_owned()).collect(),
                case_sensitive: false,
                whole_words: true,
            })
        };
        let of = |words| PrepareOptions {
            policy: PolicyOptions {
                policy: PolicyChoice::Any {
                    of: vec![PolicyChoice::Customers, list(words)],
                },
                ..PolicyOptions::default()
            },
            ..PrepareOptions::default()
        };
        let one = published(of(&["Ada Byron", "Zed"])).unwrap();
        assert!(!one.to_string().contains("Byron") && !one.to_string().contains("Zed"));
        let dictionary = &one["policy"]["policy"]["of"][1];
        assert_eq!(dictionary["words_count"], 2);
        assert_eq!(dictionary["kind"], "people");
        let plain = list(&["Ada Byron", "Zed"]).sha256();
        assert!(!one.to_string().contains(&plain), "words can be tried out");
        assert_eq!(dictionary["hmac"].as_str().unwrap().len(), 64);
        assert_ne!(one, published(of(&["Ada Byron", "Zoe"])).unwrap());
    }
}
