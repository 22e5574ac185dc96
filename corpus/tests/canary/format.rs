//! Canaries of rare words.

use reticent_corpus::{
    CanaryFormat, CanaryOptions, CanaryPlan, CandidateSpace, Document, Origin, Tokenizer, Unit,
    rare_words,
};
use serde_json::json;

/// Three letters of a word by its number: no word begins another.
fn word(number: usize) -> String {
    let letter = |n: usize| char::from(b'a' + (n % 26) as u8);
    [letter(number / 26), letter(number * 7), letter(number)]
        .into_iter()
        .collect()
}

/// Byte pairs of printable ASCII and of 90 words, each one token behind a space.
fn tokenizer() -> Tokenizer {
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
    Tokenizer::from_json(&whole.to_string(), Origin::Pretrained).unwrap()
}

/// The words that the text has are the last to be taken; the plan's candidates have tokens of their own, one a word, and its
/// secrets are some of them.
#[test]
fn rare_words_are_those_that_the_text_lacks() {
    let tokenizer = tokenizer();
    let often: Vec<String> = (0..26).map(|n| format!(" {}", word(n))).collect();
    let text = format!("So:{}", often.concat().repeat(3));
    let words = rare_words(&tokenizer, [text.as_str()]).unwrap();
    assert_eq!(words.len(), 64);
    assert!(words.iter().all(|w| !often.contains(w)), "{words:?}");
    for word in &words {
        assert_eq!(tokenizer.encode(word).unwrap().len(), 1, "{word}");
    }
    // With more of them in the text than it can do without, the rarer ones are taken.
    let all: Vec<String> = (0..90).map(|n| format!(" {}", word(n))).collect();
    let whole = format!("So:{}{}", all.concat(), often.concat());
    let words = rare_words(&tokenizer, [whole.as_str()]).unwrap();
    assert!(words.iter().all(|w| !often.contains(w)), "{words:?}");

    let format: CanaryFormat = "The code is{rare:3}".parse().unwrap();
    let template = format.with_words(&words).unwrap();
    assert_eq!(template.candidates(), 64 * 64 * 64);
    let options = CanaryOptions {
        template,
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
    assert!(rare_words(&Tokenizer::characters(), [text.as_str()]).is_err());
}
