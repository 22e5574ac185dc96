//! Documents of ours that come back from elsewhere: canary plans, manifests, policies.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reticent_backends::checkpoint::Manifest;
use reticent_corpus::canary::CanaryPlan;
use reticent_corpus::policy::PolicyChoice;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let _ = CanaryPlan::from_json(text);
    let _ = Manifest::from_json(text);
    if let Ok(policy) = serde_json::from_str::<PolicyChoice>(text) {
        let _ = policy.build();
    }
});
