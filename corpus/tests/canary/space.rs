//! The candidate space.

use super::{options, plan};
use reticent_corpus::canary::{CanaryPlan, CandidateSpace};
use reticent_corpus::simulate::simulate;
use reticent_corpus::tokenize::{Origin, Tokenizer};
use reticent_corpus::{Error, Unit};
use std::collections::HashSet;

#[test]
fn the_candidate_space_of_own_tokenizers_is_one_token_per_digit() {
    let plan = plan("10x20");
    for tokenizer in [Tokenizer::bytes(), Tokenizer::characters()] {
        let space = CandidateSpace::new(&plan, &tokenizer).unwrap();
        assert_eq!(space.candidates(), 1_000_000);
        assert_eq!(space.context[0], tokenizer.bos());
        assert_eq!(tokenizer.decode(&space.context).unwrap(), "USR: My ID is: ");
        let shape: Vec<usize> = space.positions.iter().map(Vec::len).collect();
        assert_eq!(shape, [10; 6]);
        assert!(
            space
                .positions
                .iter()
                .flatten()
                .all(|choice| choice.len() == 1)
        );
        for canary in &plan.canaries {
            let number: u128 = canary.secret.parse().unwrap();
            assert_eq!(space.secret(number), canary.secret);
            assert_eq!(
                space.candidate(number),
                space.tokens(&canary.secret).unwrap()
            );
            assert_eq!(
                tokenizer.decode(&space.candidate(number)).unwrap(),
                canary.secret
            );
        }
        assert!(space.tokens("12345").is_err());
        assert!(space.tokens("12345a").is_err());
    }
}

#[test]
fn a_space_with_lists_and_literals_enumerates_every_candidate_once() {
    let documents = simulate(3, 0).unwrap();
    let plan = CanaryPlan::new(
        &options("4x2", "Ask {list:Ada|Bo} for {digits:1}{upper:1} now."),
        Unit::Turn,
        &documents,
    )
    .unwrap();
    let space = CandidateSpace::new(&plan, &Tokenizer::characters()).unwrap();
    assert_eq!(space.candidates(), 520);
    assert_eq!(space.positions.len(), 4);
    let texts: HashSet<String> = (0..520).map(|n| space.secret(n)).collect();
    let tokens: HashSet<Vec<u32>> = (0..520).map(|n| space.candidate(n)).collect();
    assert_eq!((texts.len(), tokens.len()), (520, 520));
    assert!(texts.iter().all(|t| plan.template.matches(t)));
    assert!(texts.contains("Ada for 7Q"));
}

/// A byte-level BPE that joins `12`, so that the tokens of a number depend on its neighbours.
fn joining() -> Tokenizer {
    let mut vocabulary: Vec<String> = (b'!'..=b'~').map(|b| char::from(b).to_string()).collect();
    vocabulary.push("Ġ".to_owned());
    vocabulary.push("12".to_owned());
    let ids: serde_json::Map<String, serde_json::Value> = vocabulary
        .into_iter()
        .enumerate()
        .map(|(i, s)| (s, i.into()))
        .collect();
    let level = serde_json::json!({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":true});
    let json = serde_json::json!({"version":"1.0","truncation":null,"padding":null,"added_tokens":[],
        "normalizer":null,"pre_tokenizer":level,"post_processor":null,"decoder":level,
        "model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,
        "end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":false,
        "vocab":ids,"merges":[["1","2"]]}});
    Tokenizer::from_json(&json.to_string(), Origin::Pretrained).unwrap()
}

#[test]
fn a_tokenizer_that_joins_digits_is_refused() {
    let documents = simulate(3, 0).unwrap();
    let tokenizer = joining();
    let error = CandidateSpace::new(&plan("10x20"), &tokenizer).unwrap_err();
    assert!(matches!(error, Error::NotCompositional(_)), "{error}");
    // Letters are not joined: the same tokenizer is compositional there.
    let letters =
        CanaryPlan::new(&options("2x2", "key {letters:3}"), Unit::Turn, &documents).unwrap();
    let space = CandidateSpace::new(&letters, &tokenizer).unwrap();
    assert_eq!(space.candidates(), 17_576);
}

#[test]
fn choices_with_the_same_tokens_are_refused() {
    let documents = simulate(3, 0).unwrap();
    let plan = CanaryPlan::new(&options("1x1", "say {list:é|ü}"), Unit::Turn, &documents).unwrap();
    assert!(CandidateSpace::new(&plan, &Tokenizer::bytes()).is_ok());
    // Outside the alphabet both are <UNK>.
    let error = CandidateSpace::new(&plan, &Tokenizer::characters()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the tokens of \"é\" begin those of \"ü\""),
        "{error}"
    );
}

#[test]
fn choices_that_no_model_tells_apart_are_found_behind_any_tokenizer() {
    let documents = simulate(3, 0).unwrap();
    let of = |format: &str| {
        let plan = CanaryPlan::new(&options("1x1", format), Unit::Turn, &documents).unwrap();
        move |tokenizer: &Tokenizer| CandidateSpace::check_choices(&plan, tokenizer)
    };
    let names = of("Name:{list:Maier|Müller|Möller}{digits:2}");
    assert!(names(&Tokenizer::bytes()).is_ok());
    let error = names(&Tokenizer::characters()).unwrap_err().to_string();
    assert!(
        error.contains("choices 2 and 3 at position 1") && error.contains("--tokenizer bytes"),
        "{error}"
    );
    assert!(!error.contains("ller"), "{error}");
    // Digits that are joined differ all the same: their candidates are ranked as a list.
    assert!(of("id {digits:2}")(&joining()).is_ok());
}
