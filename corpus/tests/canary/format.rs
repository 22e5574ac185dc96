//! Canaries of rare, made-up and sampled words.

use reticent_corpus::canary::{
    CanaryFormat, CanaryOptions, CanaryPlan, CanaryTemplate, CandidateSpace, TokenCounts, WordFacts,
};
use reticent_corpus::prepare::{PrepareOptions, TokenizerChoice, prepare};
use reticent_corpus::tokenize::{Origin, Tokenizer};
use reticent_corpus::{Document, Error, Unit};
use serde_json::json;

/// Three letters of a word by its number: no word begins another.
fn word(number: usize) -> String {
    let letter = |n: usize| char::from(b'a' + (n % 26) as u8);
    [letter(number / 26), letter(number * 7), letter(number)]
        .into_iter()
        .collect()
}

/// Byte pairs of printable ASCII and of 90 words, each one token behind a space.
fn tokenizer_json() -> String {
    let mut tokens = vec!["<|endoftext|>".to_owned(), "Ġ".to_owned()];
    tokens.extend(('!'..='~').map(String::from));
    let mut merges: Vec<[String; 2]> = Vec::new();
    for number in 0..90 {
        let mut left = "Ġ".to_owned();
        for letter in word(number).chars() {
            let pair = [left.clone(), letter.to_string()];
            left.push(letter);
            if !merges.contains(&pair) {
                merges.push(pair);
                tokens.push(left.clone());
            }
        }
    }
    let vocabulary: serde_json::Map<_, _> = (0..)
        .zip(&tokens)
        .map(|(id, token): (u32, &String)| (token.clone(), json!(id)))
        .collect();
    let special = json!({"id": 0, "content": "<|endoftext|>", "single_word": false, "lstrip": false,
        "rstrip": false, "normalized": false, "special": true});
    let whole = json!({
        "version": "1.0",
        "added_tokens": [special],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
    });
    whole.to_string()
}

fn tokenizer() -> Tokenizer {
    Tokenizer::from_json(&tokenizer_json(), Origin::Pretrained).unwrap()
}

/// The template of a format for this text.
fn filled(
    format: &str,
    tokenizer: &Tokenizer,
    text: &str,
) -> Result<(CanaryTemplate, WordFacts), Error> {
    let format: CanaryFormat = format.parse()?;
    let mut counts = TokenCounts::new(&format, &[], Some(tokenizer))?;
    counts.enter(text)?;
    counts.template()
}

/// The words of one place.
fn words(template: &CanaryTemplate) -> Vec<String> {
    template.positions().swap_remove(0)
}

/// The words that the text has are the last to be taken; the plan's candidates have tokens of their own, one a word, and its
/// secrets are some of them.
#[test]
fn rare_words_are_those_that_the_text_lacks() {
    let tokenizer = tokenizer();
    let often: Vec<String> = (0..26).map(|n| format!(" {}", word(n))).collect();
    let text = format!("So:{}", often.concat().repeat(3));
    let (template, facts) = filled("The code is{rare:1}", &tokenizer, &text).unwrap();
    let rare = words(&template);
    assert_eq!((rare.len(), facts.rare_at_most), (64, Some(0)));
    assert!(rare.iter().all(|w| !often.contains(w)), "{rare:?}");
    for word in &rare {
        assert_eq!(tokenizer.encode(word).unwrap().len(), 1, "{word}");
    }
    // With more of them in the text than it can do without, the rarer ones are taken.
    let all: Vec<String> = (0..90).map(|n| format!(" {}", word(n))).collect();
    let whole = format!("So:{}{}", all.concat(), often.concat());
    let (template, facts) = filled("The code is{rare:3}", &tokenizer, &whole).unwrap();
    let rare = words(&template);
    assert!(rare.iter().all(|w| !often.contains(w)), "{rare:?}");
    assert_eq!(facts.rare_at_most, Some(1));
    assert_eq!(facts.weakness(3), None);

    assert_eq!(template.candidates(), 64 * 64 * 64);
    let options = CanaryOptions {
        template: template.into(),
        ..CanaryOptions::new("5x3".parse().unwrap())
    };
    let documents: Vec<Document> = (0..20)
        .map(|n| Document::new(format!("d{n}"), "one line\nand another"))
        .collect();
    let plan = CanaryPlan::new(&options, Unit::Document, &documents).unwrap();
    let space = CandidateSpace::new(&plan, &tokenizer).unwrap();
    assert_eq!(space.candidates(), 64 * 64 * 64);
    for canary in &plan.canaries {
        assert_eq!(space.tokens(&canary.secret).unwrap().len(), 3);
    }
    // A tokenizer of characters has no such words.
    let none = filled("The code is{rare:3}", &Tokenizer::characters(), &text).unwrap_err();
    assert!(none.to_string().contains("this one has 0"), "{none}");
    // Words that are not chosen yet are no canaries.
    let waiting = CanaryOptions {
        template: "The code is{rare:3}".parse().unwrap(),
        ..options
    };
    let none = CanaryPlan::new(&waiting, Unit::Document, &documents).unwrap_err();
    assert!(none.to_string().contains("not chosen yet"), "{none}");
}

/// Preparing chooses the words from the documents that are trained on, whatever the number of threads and batches, and the
/// pre-flight says what they are.
#[test]
fn preparing_chooses_words_from_the_training_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    std::fs::write(&path, tokenizer_json()).unwrap();
    let often: Vec<String> = (0..26).map(|n| format!(" {}", word(n))).collect();
    let documents: Vec<Document> = (0..40)
        .map(|n| Document::new(format!("d{n}"), format!("line {n}{}", often.concat())))
        .collect();
    let options = |format: &str| PrepareOptions {
        unit: Unit::Document,
        tokenizer: TokenizerChoice::File {
            path: path.clone(),
            origin: Origin::Pretrained,
        },
        canaries: Some(CanaryOptions {
            template: format.parse().unwrap(),
            ..CanaryOptions::new("5x3".parse().unwrap())
        }),
        held_out: 0.25,
        ..PrepareOptions::default()
    };
    let made = prepare(&documents, &options("The code is{rare:2}{new:1}")).unwrap();
    let preflight = made.facts.canaries.clone().unwrap();
    let expected = WordFacts {
        rare_at_most: Some(0),
        new_passed_over: Some(0),
        sampled_left_out: None,
    };
    assert_eq!(preflight.words, Some(expected));
    assert!(preflight.passes(), "{preflight}");
    let plan = made.plan.unwrap();
    assert_eq!(plan.candidates, 64 * 64 * 64);
    let text: String = documents.iter().map(|d| d.text.as_str()).collect();
    let direct = filled("The code is{rare:2}{new:1}", &tokenizer(), &text).unwrap();
    assert_eq!(plan.template, direct.0);
    // What was asked for stays as it was said.
    let requested = made.options.canaries.unwrap().template;
    assert_eq!(requested.to_string(), "The code is{rare:2}{new:1}");

    let mut sampled = options("The code is{sampled:2}");
    let without = prepare(&documents, &sampled).unwrap_err();
    assert!(
        without.to_string().contains("sampled from a public model"),
        "{without}"
    );
    if let Some(canaries) = &mut sampled.canaries {
        canaries.sampled = (60..80)
            .map(|n| format!(" {} {}", word(n), word(n + 1)))
            .collect();
    }
    let made = prepare(&documents, &sampled).unwrap();
    assert_eq!(made.plan.unwrap().candidates, 20);
    let words = made.facts.canaries.unwrap().words.unwrap();
    assert_eq!(words.sampled_left_out, Some(0));
    // Texts whose tokens do not follow from their fields are refused before anybody trains: the letter behind the last word
    // joins it.
    if let Some(canaries) = &mut sampled.canaries {
        canaries.spec = "1x1".parse().unwrap();
        let word = word(60);
        let split = word.split_at(1);
        canaries.template = format!("The code is{{sampled:2}}{}", split.1)
            .parse()
            .unwrap();
        canaries.sampled = vec![format!(" {}", split.0), " q".to_owned()];
    }
    let refused = prepare(&documents, &sampled).unwrap_err();
    assert!(matches!(refused, Error::NotCompositional(_)), "{refused}");
}
