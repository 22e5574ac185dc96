//! `tokenizer.json` of others: a tokenizer that encodes what it is given, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reticent_corpus::tokenize::{Origin, Tokenizer};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(tokenizer) = Tokenizer::from_json(text, Origin::Pretrained) {
        let _ = tokenizer.to_json();
    }
});
