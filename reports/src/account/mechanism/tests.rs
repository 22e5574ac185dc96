//! Every kind of mechanism has its words.

use super::words::line;
use reticent_accounting::{Neighbours, training};

#[test]
fn every_kind_of_mechanism_is_said_in_one_line() {
    let batch = |kind: &str, noise: &str, sampling: &str| {
        format!(r#"{{"type":"{kind}","{noise}":1.5,"sampling_rate":0.01,"sampling":{sampling}}}"#)
    };
    let gaussian = |sampling: &str| batch("subsampled-gaussian", "noise_multiplier", sampling);
    let plain = r#"{"type":"gaussian","noise_multiplier":1.5}"#;
    for (text, said) in [
        (plain.to_owned(), "Gaussian noise 1.5"),
        (gaussian(r#""poisson""#), "Gaussian noise 1.5 on Poisson batches of rate 0.01"),
        (gaussian(r#"{"truncated-poisson":{"max_batch":20,"records":1000}}"#), "cut down to 20 of 1000 records"),
        (gaussian(r#""without-replacement""#), "batches of fixed size"),
        (gaussian(r#""with-replacement""#), "drawn with replacement"),
        (gaussian(r#""shuffled""#), "shuffled batches"),
        (gaussian(r#""balls-in-bins""#), "balls in bins"),
        (gaussian(r#"{"random-allocation":{"selected":1,"steps":10}}"#), "in 1 of every 10 steps"),
        (batch("subsampled-laplace", "scale", r#""poisson""#), "Laplace noise 1.5 on Poisson batches"),
        (r#"{"type":"poisson-binomial-gaussian","noise_multiplier":1,"rates":[0.1,0.2]}"#.into(), "a group of 2 records"),
        (r#"{"type":"mixture-of-gaussians","noise_multiplier":1,"sensitivities":[0,1],"probabilities":[0.5,0.5]}"#.into(), "random sensitivity of 2 values"),
        (r#"{"type":"mixture-of-gaussians","noise_multiplier":1,"sensitivities":[1],"probabilities":[1]}"#.into(), "random sensitivity of 1 value"),
        (r#"{"type":"laplace","scale":2}"#.into(), "Laplace noise 2"),
        (r#"{"type":"discrete-gaussian","sigma":2,"sensitivity":1}"#.into(), "discrete Gaussian noise 2"),
        (r#"{"type":"discrete-laplace","scale":2,"sensitivity":1}"#.into(), "discrete Laplace noise 2"),
        (r#"{"type":"randomised-response","truth":0.75,"categories":4}"#.into(), "the truth with probability 0.75 among 4"),
        (r#"{"type":"exponential-mechanism","epsilon":1,"neighbours":"replace"}"#.into(), "the exponential mechanism"),
        (r#"{"type":"pure-dp","epsilon":"inf","neighbours":"zero-out"}"#.into(), "anything with epsilon ∞"),
        (r#"{"type":"approx-dp","epsilon":1,"delta":0.5,"neighbours":"add-remove"}"#.into(), "and delta 0.5"),
        (r#"{"type":"zcdp","rho":0.5,"neighbours":"replace"}"#.into(), "zCDP of rho 0.5 (replace)"),
        (r#"{"type":"zcdp","rho":0.5,"xi":0.1,"neighbours":"replace"}"#.into(), "xi 0.1 and rho 0.5"),
        (r#"{"type":"renyi-dp","orders":[2,4],"divergences":[0.1,"inf"],"neighbours":"add-remove"}"#.into(), "stated at 2 orders"),
        (format!(r#"{{"type":"repeat-and-select","mean":10,"shape":"inf","each":{plain}}}"#), "(mean 10, shape ∞), each Gaussian noise 1.5"),
        (r#"{"type":"non-private","why":"a\nb"}"#.into(), "no protection (a b)"),
        (r#"{"type":"sequence","parts":[]}"#.into(), "nothing is released"),
        (format!(r#"{{"type":"repeat","times":3,"each":{plain}}}"#), "3 × Gaussian noise 1.5"),
        (format!(r#"{{"type":"repeat","times":3,"each":{}}}"#, gaussian(r#""balls-in-bins""#)), "3 × Gaussian noise 1.5 on batches by"),
        (format!(r#"{{"type":"repeat","times":3,"each":{{"type":"repeat","times":2,"each":{}}}}}"#, gaussian(r#""shuffled""#)), "3 × a run of 2 × Gaussian noise 1.5 on shuffled"),
        (format!(r#"{{"type":"repeat","times":3,"each":{{"type":"repeat","times":2,"each":{plain}}}}}"#), "6 × Gaussian noise 1.5"),
        (format!(r#"{{"type":"estimated","why":"x","inner":{plain}}}"#), "an estimate, which is no bound (x)"),
    ] {
        let found = training::read(&text, Neighbours::AddRemove).unwrap();
        let line = line(&found.mechanism);
        assert!(line.contains(said), "{text}: {line}");
    }
}

#[test]
fn a_mechanism_may_begin_with_a_byte_order_mark() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mechanism.json");
    let text = r#"{"type":"gaussian","noise_multiplier":1.5}"#;
    let of = |mark: &str| {
        std::fs::write(&path, format!("{mark}{text}")).unwrap();
        let loaded = super::load(&path, Neighbours::AddRemove).unwrap();
        loaded.document.mechanism
    };
    assert_eq!(of("\u{feff}"), of(""));
}
