//! Our tokenizers, and other people's.

use proptest::prelude::*;
use reticent_corpus::tokenize::{Origin, Tokenizer};
use std::sync::Arc;

/// A byte-level BPE with two merges and no special token but one.
const SMALL_BPE: &str = r#"{"version":"1.0","truncation":{"direction":"Right","max_length":3,"strategy":"LongestFirst","stride":0},
"padding":null,"added_tokens":[{"id":9,"content":"<|endoftext|>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
"post_processor":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},"decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},
"model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":false,
"vocab":{"a":0,"b":1,"1":2,"2":3,"Ġ":4,"ab":5,"Ġab":6,"12":7,".":8,"<|endoftext|>":9},"merges":[["a","b"],["Ġ","ab"],["1","2"]]}}"#;

fn ours() -> [Tokenizer; 2] {
    [Tokenizer::bytes(), Tokenizer::characters()]
}

#[test]
fn vocabularies_and_specials() {
    let [bytes, characters] = ours();
    assert_eq!(bytes.vocabulary_size(), 259);
    assert_eq!((bytes.bos(), bytes.eos(), bytes.mask()), (256, 257, 258));
    assert_eq!(bytes.origin(), Origin::Bytes);
    assert_eq!(characters.vocabulary_size(), 100);
    assert_eq!(characters.origin(), Origin::Characters);
    assert_eq!(
        characters
            .decode(&characters.encode("aé\n").unwrap())
            .unwrap(),
        "a\u{fffd}\n"
    );
    let framed = characters.frame("x").unwrap();
    assert_eq!(framed, [97, 88, 98]);
    assert_eq!(
        characters.decode(&[97, 88, 99, 98, 4_000_000]).unwrap(),
        "x<MASK>"
    );
}

#[test]
fn a_tokenizer_is_shared_between_threads() {
    fn shared<T: Send + Sync + Clone>(_: &T) {}
    let tokenizer = Tokenizer::from_json(SMALL_BPE, Origin::Pretrained).unwrap();
    shared(&tokenizer);
    let tokenizer = Arc::new(tokenizer);
    let other = tokenizer.clone();
    let there = std::thread::spawn(move || other.encode("ab 12").unwrap());
    assert_eq!(there.join().unwrap(), tokenizer.encode("ab 12").unwrap());
}

#[test]
fn ours_are_recognised_in_a_file() {
    for tokenizer in ours() {
        let json = tokenizer.to_json().unwrap();
        let again = Tokenizer::from_json(&json, Origin::Leaks).unwrap();
        assert_eq!(again.origin(), tokenizer.origin());
        assert_eq!(again.to_json().unwrap(), json);
    }
}

#[test]
fn a_pretrained_one_gets_a_mask_and_keeps_its_ids() {
    let tokenizer = Tokenizer::from_json(SMALL_BPE, Origin::Pretrained).unwrap();
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (9, 9));
    assert_eq!(tokenizer.mask(), 10);
    assert_eq!(tokenizer.vocabulary_size(), 11);
    // Longer than the file's truncation.
    let encoded = tokenizer.encode_with_offsets("ab ab 12.").unwrap();
    assert_eq!(encoded.tokens, [5, 6, 4, 7, 8]);
    let spans: Vec<(usize, usize)> = encoded.offsets.iter().map(|o| (o.start, o.end)).collect();
    assert_eq!(spans, [(0, 2), (2, 5), (5, 6), (6, 8), (8, 9)]);
    assert_eq!(tokenizer.decode(&[9, 5, 10, 6, 9]).unwrap(), "ab<MASK> ab");
    // Written and read again: the same ids, and the post-processor is still there.
    let json = tokenizer.to_json().unwrap();
    assert!(json.contains("\"post_processor\": {"));
    let again = Tokenizer::from_json(&json, Origin::DeclaredPublic).unwrap();
    assert_eq!(
        again.encode("ab 12").unwrap(),
        tokenizer.encode("ab 12").unwrap()
    );
    assert_eq!((again.mask(), again.vocabulary_size()), (10, 11));
    assert_eq!(again.origin(), Origin::DeclaredPublic);
}

/// A model of others is asked in its own tokens; nobody forges a mask, in a file that has one or not.
#[test]
fn special_tokens_in_text_are_the_files_own_but_for_the_mask() {
    let tokenizer = Tokenizer::from_json(SMALL_BPE, Origin::Pretrained).unwrap();
    let again = Tokenizer::from_json(&tokenizer.to_json().unwrap(), Origin::Pretrained).unwrap();
    for tokenizer in [tokenizer, again] {
        assert_eq!(tokenizer.encode("ab<|endoftext|>ab").unwrap(), [5, 9, 5]);
        for text in ["<MASK>ab", "ab<MASK>", "<MASK>"] {
            let tokens = tokenizer.encode(text).unwrap();
            assert!(!tokens.contains(&tokenizer.mask()), "{text}: {tokens:?}");
        }
    }
    for tokenizer in ours() {
        let specials = [tokenizer.bos(), tokenizer.eos(), tokenizer.mask()];
        let tokens = tokenizer.encode("<BOS><MASK><EOS>").unwrap();
        assert_eq!(tokens.len(), 16);
        assert!(tokens.iter().all(|t| !specials.contains(t)));
    }
}

/// A folder of a vocabulary and merges without `tokenizer.json`, with these files beside them.
fn two_files(files: &[(&str, &str)]) -> Result<Tokenizer, String> {
    let home = tempfile::tempdir().unwrap();
    let vocabulary = r#"{"a":0,"b":1,"<":2,"|":3,">":4,"x":5,"Ġ":6,"Ġa":7}"#;
    let own = [
        ("vocab.json", vocabulary),
        ("merges.txt", "#version: 0.2\nĠ a\n"),
    ];
    for (name, text) in own.iter().chain(files) {
        std::fs::write(home.path().join(name), text).unwrap();
    }
    Tokenizer::load_folder(home.path(), Origin::Pretrained).map_err(|e| e.to_string())
}

/// A model was trained on its added tokens, not on the pieces of their names.
#[test]
fn tokens_that_are_added_to_two_files_are_read_as_one() {
    let of = |name: &str, text: &str| {
        let tokenizer = two_files(&[(name, text)])?;
        Ok::<_, String>(tokenizer.encode("a<|x|>b").unwrap())
    };
    let (older, newer) = ("added_tokens.json", "tokenizer_config.json");
    let pieces = vec![0, 2, 3, 5, 3, 4, 1];
    assert_eq!(of(older, "{}").unwrap(), pieces);
    assert_eq!(of(older, r#"{"<|x|>":8}"#).unwrap(), [0, 8, 1]);
    let listed = |tokens: &str| {
        let text =
            format!(r#"{{"tokenizer_class":"GPT2Tokenizer","added_tokens_decoder":{{{tokens}}}}}"#);
        of(newer, &text)
    };
    let token = r#"{"content":"<|x|>","special":true}"#;
    let two = format!(r#""9":{token},"8":{{"content":"<|y|>"}}"#);
    assert_eq!(listed(&two).unwrap(), [0, 9, 1]);
    assert_eq!(listed("").unwrap(), pieces);
    // ids that would become others
    for id in ["7", "9"] {
        let error = listed(&format!(r#""{id}":{token}"#)).unwrap_err();
        assert!(error.contains("<|x|>") && error.contains(id), "{error}");
    }
    assert!(of(older, r#"{"a":1}"#).unwrap_err().contains("the id 1"));
    assert!(of(older, r#"{"<|x|>":"8"}"#).unwrap_err().contains(older));
    let spaced = two_files(&[(newer, r#"{"add_prefix_space":true}"#)]).unwrap();
    assert_eq!(spaced.encode("a").unwrap(), [7]);
}

/// Qwen 2 comes in the same two files and splits numbers into digits.
#[test]
fn two_files_of_another_class_are_refused_with_the_command_that_writes_one() {
    let settings = "tokenizer_config.json";
    let class = r#"{"tokenizer_class":"Qwen2Tokenizer"}"#;
    for files in [
        vec![(settings, class)],
        vec![("config.json", class)],
        vec![("config.json", r#"{"model_type":"qwen2"}"#)],
    ] {
        let error = two_files(&files).unwrap_err();
        assert!(error.to_lowercase().contains("qwen2"), "{error}");
        assert!(error.contains("python -c"), "{error}");
    }
    let roberta = (settings, r#"{"tokenizer_class":"RobertaTokenizerFast"}"#);
    let model = ("config.json", r#"{"model_type":"qwen2"}"#);
    assert!(two_files(&[roberta, model]).is_ok(), "the class is named");
    assert!(two_files(&[("config.json", r#"{"model_type":"opt"}"#)]).is_ok());
    assert!(two_files(&[]).is_ok());
}

/// What of a text is unknown to a file with this normaliser and model: the number of characters, and the tokens, without the
/// beginning of text.
fn unknown(normalizer: &str, model: &str, text: &str) -> (u64, Vec<usize>) {
    let json = format!(
        r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":{normalizer},
"pre_tokenizer":{{"type":"Whitespace"}},"post_processor":null,"decoder":null,"model":{{{model}}}}}"#
    );
    let tokenizer = Tokenizer::from_json(&json, Origin::Pretrained).unwrap();
    let found = tokenizer.unknown(text).unwrap();
    (
        found.characters,
        found.tokens.iter().map(|number| number - 1).collect(),
    )
}

/// Whatever the names: a text of unknown words counted as one that is reproduced verbatim, where theirs was no usual one.
#[test]
fn the_unknown_token_is_the_one_that_the_model_puts() {
    for name in ["<unk>", "UNK"] {
        let vocabulary = r#""vocab":{"<unk>":0,"UNK":1,"a":2}"#;
        let model = format!(r#""type":"WordLevel",{vocabulary},"unk_token":"{name}""#);
        assert_eq!(unknown("null", &model, "a bcd a 病人"), (5, vec![1, 3]));
    }
    // Characters that are unknown are one token.
    let vocabulary = r#""vocab":[["<unk>",0.0],["?",-1.0],["a",-2.0]]"#;
    let model = format!(r#""type":"Unigram","unk_id":1,{vocabulary},"byte_fallback":false"#);
    assert_eq!(unknown("null", &model, "a病人院a"), (3, vec![1]));
}

/// Byte pairs without an unknown token, and normalisers, drop characters. They counted nowhere.
#[test]
fn characters_without_a_token_are_unknown() {
    let pairs = r#""type":"BPE","vocab":{"a":0,"b":1,"ab":2,"é":3},"merges":[["a","b"]]"#;
    let of = |text| unknown("null", pairs, text);
    assert_eq!(of("ab  é ab"), (0, vec![]));
    assert_eq!(of("ab 123 ab"), (3, vec![1]));
    assert_eq!(of("ab 123"), (3, vec![1]));
    // The tokens of a word with such a character: `ab` of "a1b".
    assert_eq!(of("a ééa1b a"), (1, vec![1, 2, 3]));
    assert_eq!(of("1é a"), (1, vec![0]));
    assert_eq!(of(""), (0, vec![]));
    let empty = r#""type":"BPE","vocab":{},"merges":[]"#;
    assert_eq!(unknown("null", empty, "a b"), (2, vec![0]));
    let digits = r#"{"type":"Replace","pattern":{"Regex":"[0-9]"},"content":""}"#;
    assert_eq!(unknown(digits, pairs, "ab 12 ab3"), (3, vec![1, 2]));
    // A sign that is joined to its letter is known; one that is stripped is not.
    assert_eq!(
        unknown(r#"{"type":"NFC"}"#, pairs, "ae\u{301}b"),
        (0, vec![])
    );
    let stripped = r#"{"type":"Sequence","normalizers":[{"type":"NFD"},{"type":"StripAccents"}]}"#;
    assert_eq!(unknown(stripped, pairs, "ab\u{301} a").0, 1);
    // Bytes have no unknown characters, if all are there.
    let tokenizer = |json: &str| Tokenizer::from_json(json, Origin::Pretrained).unwrap();
    let found = tokenizer(SMALL_BPE).unknown("ab c 12").unwrap();
    // Of the word " c", a space is left.
    assert_eq!((found.characters, found.tokens), (1, vec![2]));
    let text = "Zoë zahlt 5\u{a0}€.".to_owned();
    let twice = [text.clone(), text.clone()].into_iter();
    let bytes = reticent_corpus::tokenize::train_tokenizer(twice, 300).unwrap();
    assert_eq!(tokenizer(&bytes).unknown(&text).unwrap().characters, 0);
}

/// Rules that take the machine's memory ended the process when the file was loaded, or a text was read.
#[test]
fn files_whose_rules_grow_without_limit_are_refused() {
    let with = |normalizer: &str| {
        let json = SMALL_BPE.replace(
            r#""normalizer":null"#,
            &format!(r#""normalizer":{normalizer}"#),
        );
        Tokenizer::from_json(&json, Origin::Pretrained)
            .unwrap_err()
            .to_string()
    };
    let table = with(r#"{"type":"Precompiled","precompiled_charsmap":"/////wAAAAA="}"#);
    assert!(
        table.contains("has 8 bytes, and says that its index has 4294967295"),
        "{table}"
    );
    let rule = format!(
        r#"{{"type":"Replace","pattern":{{"String":"a"}},"content":"{}"}}"#,
        "a".repeat(40)
    );
    let grows = with(&format!(
        r#"{{"type":"Sequence","normalizers":[{rule},{rule}]}}"#
    ));
    assert!(grows.contains("1600 bytes of one byte of text"), "{grows}");
}

/// A folder of transformers with these files beside a vocabulary of `<|startoftext|>` (10), `<|stop|>`
/// (11) and `<|endoftext|>` (9).
fn named(files: &[(&str, &str)]) -> Result<[u32; 2], String> {
    let tokenizer = beside(files)?;
    Ok([tokenizer.bos(), tokenizer.eos()])
}

fn beside(files: &[(&str, &str)]) -> Result<Tokenizer, String> {
    let added = |id: u32, name: &str| {
        format!(
            "{{\"id\":{id},\"content\":\"{name}\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}}"
        )
    };
    let more = format!(
        "\"added_tokens\":[{},{},",
        added(10, "<|startoftext|>"),
        added(11, "<|stop|>")
    );
    let home = tempfile::tempdir().unwrap();
    let json = SMALL_BPE.replace("\"added_tokens\":[", &more);
    std::fs::write(home.path().join("tokenizer.json"), json).unwrap();
    for (name, text) in files {
        std::fs::write(home.path().join(name), text).unwrap();
    }
    Tokenizer::load_folder(home.path(), Origin::Pretrained).map_err(|e| e.to_string())
}

/// The order in which transformers reads the files.
#[test]
fn ends_are_those_that_the_files_beside_name() {
    let of = |files: &[(&str, &str)]| named(files).unwrap();
    let settings = "tokenizer_config.json";
    let (map, model) = ("special_tokens_map.json", "config.json");
    let generation = "generation_config.json";
    assert_eq!(of(&[]), [9, 9], "by the usual names");
    let start = r#"{"bos_token":"<|startoftext|>","eos_token":{"content":"<|stop|>"}}"#;
    assert_eq!(of(&[(settings, start)]), [10, 11]);
    assert_eq!(of(&[(map, start)]), [10, 11]);
    // the older layout's map goes before, the newer one's is not read
    let none = r#"{"bos_token":"<|endoftext|>","eos_token":"<|endoftext|>"}"#;
    assert_eq!(of(&[(settings, none), (map, start)]), [10, 11]);
    let newer = r#"{"bos_token":"<|endoftext|>","eos_token":null,"added_tokens_decoder":{}}"#;
    assert_eq!(of(&[(settings, newer), (map, start)]), [9, 9]);
    // then the ids of generation, and of the model
    let ids = r#"{"bos_token_id":10,"eos_token_id":[11,9]}"#;
    assert_eq!(of(&[(settings, newer), (generation, ids)]), [9, 11]);
    assert_eq!(
        of(&[
            (model, r#"{"bos_token_id":10,"eos_token_id":9}"#),
            (generation, ids)
        ]),
        [10, 11]
    );
    assert_eq!(of(&[(model, ids)]), [10, 11]);
    // what the vocabulary lacks is passed over
    assert_eq!(
        of(&[
            (settings, r#"{"bos_token":"<s>"}"#),
            (model, r#"{"bos_token_id":99}"#)
        ]),
        [9, 9]
    );
    let said = named(&[(settings, "[1]")]).unwrap_err();
    assert!(
        said.contains("tokenizer_config.json: no JSON object"),
        "{said}"
    );
}

/// Classes of transformers that split text by a setting, where the file says otherwise.
#[test]
fn settings_that_the_file_contradicts_are_refused() {
    let of = |text: &str| beside(&[("tokenizer_config.json", text)]);
    for (text, says) in [
        (
            r#"{"add_prefix_space":true}"#,
            "has add_prefix_space true in tokenizer_config.json and false in tokenizer.json",
        ),
        (
            r#"{"tokenizer_class":"GPT2TokenizerFast","add_prefix_space":true}"#,
            "has add_prefix_space true in tokenizer_config.json and false in tokenizer.json",
        ),
        (
            r#"{"added_tokens_decoder":{"12":{"content":"<|user|>"}}}"#,
            r#"has the added token "<|user|>" listed in tokenizer_config.json and not in tokenizer.json"#,
        ),
    ] {
        let error = of(text).unwrap_err();
        assert!(
            error.contains(says) && error.contains("python -c"),
            "{error}"
        );
    }
    for text in [
        "{}",
        r#"{"add_prefix_space":false}"#,
        r#"{"add_prefix_space":null}"#,
        // This class has everything from the file, and another normaliser has no such switches.
        r#"{"tokenizer_class":"TokenizersBackend","add_prefix_space":true}"#,
        r#"{"do_lower_case":true,"strip_accents":true,"tokenize_chinese_chars":false}"#,
        r#"{"added_tokens_decoder":{"9":{"content":"<|endoftext|>"}}}"#,
    ] {
        assert!(of(text).is_ok(), "{text}");
    }
}

/// As transformers 5.24 encodes "ab" with these files: its own flags go before the post-processor.
#[test]
fn special_tokens_around_a_text_are_those_of_the_files() {
    let around = |files: &[(&str, &str)]| {
        let tokenizer = beside(files).unwrap();
        tokenizer.encode_with_special_tokens("ab").unwrap()
    };
    let settings =
        |flags: &str| format!(r#"{{"bos_token":"<|startoftext|>","eos_token":"<|stop|>"{flags}}}"#);
    for (flags, expected) in [
        ("", vec![5]),
        (r#","add_bos_token":false"#, vec![5]),
        (r#","add_bos_token":true"#, vec![10, 5]),
        (r#","add_eos_token":true"#, vec![5, 11]),
        (
            r#","add_bos_token":true,"add_eos_token":true"#,
            vec![10, 5, 11],
        ),
    ] {
        let text = settings(flags);
        assert_eq!(
            around(&[("tokenizer_config.json", &text)]),
            expected,
            "{flags}"
        );
    }
    for tokenizer in ours() {
        let framed = tokenizer.encode_with_special_tokens("ab").unwrap();
        assert_eq!(framed, tokenizer.frame("ab").unwrap());
    }
}

/// What is written for a head that reads a whole text frames it for everybody, and is recognised again.
#[test]
fn a_framed_file_frames_a_text() {
    let pretrained = Tokenizer::from_json(SMALL_BPE, Origin::Pretrained).unwrap();
    for tokenizer in ours().into_iter().chain([pretrained]) {
        let json = tokenizer.to_json_framed().unwrap();
        let plain: tokenizers::Tokenizer = json.parse().unwrap();
        let ids = plain.encode("ab", true).unwrap().get_ids().to_vec();
        assert_eq!(ids, tokenizer.frame("ab").unwrap());
        let again = Tokenizer::from_json(&json, tokenizer.origin()).unwrap();
        assert_eq!(again.origin(), tokenizer.origin());
        assert_eq!(again.encode_with_special_tokens("ab").unwrap(), ids);
        assert_eq!(again.to_json_framed().unwrap(), json);
    }
}

/// A padding token that was added says nothing of the text; another merge, id or end does.
#[test]
fn an_added_token_leaves_the_text_as_it_is() {
    let of = |json: &str| Tokenizer::from_json(json, Origin::Pretrained).unwrap();
    let plain = of(SMALL_BPE);
    let pad = r#""added_tokens":[{"id":10,"content":"<pad>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},"#;
    let padded = of(&SMALL_BPE.replace("\"added_tokens\":[", pad));
    assert!(plain.cuts_like(&plain).unwrap());
    assert!(plain.cuts_like(&padded).unwrap() && padded.cuts_like(&plain).unwrap());
    assert_eq!(
        plain.frame("ab 12.").unwrap(),
        padded.frame("ab 12.").unwrap()
    );
    let unmerged = of(&SMALL_BPE.replace(",[\"1\",\"2\"]", ""));
    let renumbered = of(&SMALL_BPE.replace("\"a\":0,\"b\":1", "\"a\":1,\"b\":0"));
    let ended = Tokenizer::from_json_with_ends(SMALL_BPE, Origin::Pretrained, [9, 8]).unwrap();
    assert!(!plain.splits_like(&unmerged).unwrap());
    for other in [unmerged, renumbered, ended, Tokenizer::bytes()] {
        assert!(!plain.cuts_like(&other).unwrap());
    }
}

/// A mask that is only a word of the vocabulary: text must not be able to write it.
#[test]
fn a_mask_of_the_plain_vocabulary_becomes_special() {
    let json = SMALL_BPE.replace("\".\":8,", "\".\":8,\"<MASK>\":11,");
    let tokenizer = Tokenizer::from_json(&json, Origin::Pretrained).unwrap();
    assert_eq!(tokenizer.mask(), 11);
    assert_eq!(tokenizer.vocabulary_size(), 12);
    let tokens = tokenizer.encode("ab<MASK>ab").unwrap();
    assert!(!tokens.contains(&11), "{tokens:?}");
    assert_eq!(tokenizer.decode(&[5, 11, 5]).unwrap(), "ab<MASK>ab");
}

#[test]
fn bad_files_are_errors() {
    for text in ["", "{", "[]", "{}", r#"{"version":"1.0"}"#] {
        assert!(
            Tokenizer::from_json(text, Origin::Pretrained).is_err(),
            "{text}"
        );
    }
    let missing = std::path::Path::new("/nowhere/tokenizer.json");
    let text = Tokenizer::load(missing, Origin::Bytes)
        .unwrap_err()
        .to_string();
    assert!(
        text.starts_with("/nowhere/tokenizer.json: cannot read"),
        "{text}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// The files we write say the same ids to the reference implementation.
    #[test]
    fn ids_agree_with_the_reference_implementation(text in "[ -~\n\té€😀]{0,60}") {
        prop_assume!(!text.contains('<'));
        for tokenizer in ours() {
            let reference: tokenizers::Tokenizer = tokenizer.to_json().unwrap().parse().unwrap();
            prop_assert_eq!(reference.get_vocab_size(true), tokenizer.vocabulary_size());
            let theirs = reference.encode(text.as_str(), false).unwrap();
            let mine = tokenizer.encode_with_offsets(&text).unwrap();
            prop_assert_eq!(theirs.get_ids(), &mine.tokens[..]);
            // For bytes inside a character the reference gives the whole character's place.
            for (a, b) in theirs.get_offsets().iter().zip(&mine.offsets) {
                prop_assert!(a.0 <= b.start && b.end <= a.1);
            }
            for (name, id) in [("<BOS>", tokenizer.bos()), ("<EOS>", tokenizer.eos()), ("<MASK>", tokenizer.mask())] {
                prop_assert_eq!(reference.token_to_id(name), Some(id));
            }
            if tokenizer.unknown(&text).unwrap().tokens.is_empty() {
                prop_assert_eq!(reference.decode(&mine.tokens, true).unwrap(), text.clone());
            }
        }
    }

    #[test]
    fn decoding_undoes_encoding(text in "\\PC{0,60}", ascii in "[ -~\n]{0,60}") {
        let [bytes, characters] = ours();
        prop_assert_eq!(bytes.decode(&bytes.encode(&text).unwrap()).unwrap(), text);
        prop_assert_eq!(characters.decode(&characters.encode(&ascii).unwrap()).unwrap(), ascii);
    }

    #[test]
    fn every_digit_is_one_token_of_its_own(number in any::<u64>()) {
        let text = number.to_string();
        for tokenizer in ours() {
            let tokens = tokenizer.encode(&text).unwrap();
            prop_assert_eq!(tokens.len(), text.len());
            let zero = tokenizer.encode("0").unwrap()[0];
            let digits: String = tokens.iter().map(|t| char::from(b'0' + (t - zero) as u8)).collect();
            prop_assert_eq!(&digits, &text);
        }
    }

    #[test]
    fn offsets_tile_the_text(text in "\\PC{0,60}") {
        for tokenizer in ours() {
            let encoded = tokenizer.encode_with_offsets(&text).unwrap();
            let mut at = 0;
            for offset in &encoded.offsets {
                prop_assert_eq!(offset.start, at);
                at = offset.end;
            }
            prop_assert_eq!(at, text.len());
            prop_assert_eq!(&encoded.tokens, &tokenizer.encode(&text).unwrap());
        }
    }
}

/// Libraries make tables as long as the largest id: it is looked at before anything is built.
#[test]
fn ids_beyond_any_vocabulary_are_refused() {
    for (from, to) in [
        ("\"12\":7", "\"12\":1048576"),
        ("\"id\":9", "\"id\":4294967295"),
    ] {
        let trap = SMALL_BPE.replacen(from, to, 1);
        assert_ne!(trap, SMALL_BPE);
        let error = Tokenizer::from_json(&trap, Origin::Pretrained).unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains("ids of tokens must be below 1048576, got"),
            "{said}"
        );
    }
    let most = SMALL_BPE.replacen("\"12\":7", "\"12\":1048575", 1);
    let tokenizer = Tokenizer::from_json(&most, Origin::Pretrained).unwrap();
    assert!(tokenizer.vocabulary_size() >= 1 << 20);
}

/// The library draws at each reading: canaries would be asked in other tokens than those that were trained on.
#[test]
fn a_dropout_of_merges_is_refused() {
    let with = |dropout: &str| {
        let file = SMALL_BPE.replacen("\"dropout\":null", &format!("\"dropout\":{dropout}"), 1);
        Tokenizer::from_json(&file, Origin::Pretrained)
    };
    for dropout in ["0.1", "1", "1.0", "0.1,\"dropout\":null"] {
        assert!(with(dropout).is_err(), "{dropout}");
    }
    let said = with("0.1").unwrap_err().to_string();
    assert!(
        said.contains("model.dropout must be 0 or null, got 0.1"),
        "{said}"
    );
    for dropout in ["0", "0.0"] {
        assert_eq!(with(dropout).unwrap().encode("ab ab").unwrap(), [5, 6]);
    }
}

/// The library accepts these files, and panics at the first text.
#[test]
fn what_the_library_cannot_split_or_decode_is_an_error() {
    let of = |splits: &str, decoder: &str| {
        let file = format!(
            r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
            "pre_tokenizer":{splits},"post_processor":null,"decoder":{decoder},
            "model":{{"type":"WordLevel","vocab":{{" ":0,"?":1}},"unk_token":"?"}}}}"#
        );
        Tokenizer::from_json(&file, Origin::Pretrained).unwrap()
    };
    let splits = of(r#"{"type":"FixedLength","length":0}"#, "null");
    let error = splits.encode(" ").unwrap_err().to_string();
    assert!(error.contains("it contradicts itself"), "{error}");
    for (start, stop) in [(0, 2), (1, 1)] {
        let decoder = format!(r#"{{"type":"Strip","content":" ","start":{start},"stop":{stop}}}"#);
        let decodes = of("null", &decoder);
        assert_eq!(decodes.encode(" ").unwrap(), [0]);
        let error = decodes.decode(&[0]).unwrap_err().to_string();
        assert!(error.contains("it contradicts itself"), "{error}");
    }
}
