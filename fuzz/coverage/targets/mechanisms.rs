//! Mechanisms, events and documents around them: what is read is written and read again as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reticent_accounting::{Neighbours, training::read};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(document) = read(text, Neighbours::AddRemove) {
        let written = serde_json::to_string(&document.mechanism).expect("a mechanism has a JSON");
        let again = read(&written, Neighbours::AddRemove).expect("what was written is read");
        assert_eq!(again.mechanism, document.mechanism);
    }
});
