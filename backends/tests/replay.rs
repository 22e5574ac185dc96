//! Neighbouring inputs with the same randomness, for every model, recipe, optimiser and clipping.

use crate::common;
use crate::common::{
    CLIPPINGS, OPTIMIZERS, direct, for_epochs, headed, jft, light, models, noisy, options,
    secret_rates, sensitive, set, with_answers,
};
use reticent_accounting::training::{FirstPhase, StepDecay};
use reticent_accounting::{Neighbours, Sampling};
use reticent_backends::model::{Family, Head};
use reticent_backends::oracle::{Replay, replay};
use reticent_backends::trainer::{Dropout, Masking, Trainer};
use reticent_backends::{Corpus, Recipe, Sensitive, TrainOptions};
use reticent_corpus::TrainingSet;

/// Every recipe that protects, the first phases of `jft` apart.
fn protecting() -> Vec<TrainOptions> {
    let conservative = FirstPhase::LightNoise {
        steps: noisy(0.5, 3, 13, 1),
        token_miss: None,
    };
    let mut first = direct(1);
    if let FirstPhase::Ordinary { screened, .. } = &mut first {
        *screened = true;
    }
    let here = set(4, 8, 1);
    let screened = TrainOptions {
        screened: Some(vec![1, 4, 6]),
        ..jft(first, &here)
    };
    let jfts = [direct(1), light(), conservative].map(|first| jft(first, &here));
    let jfts = jfts.into_iter().chain([screened]);
    let others = [Recipe::Dpsgd, Recipe::Crt, Recipe::Protect, Recipe::Sdp].map(options);
    others.into_iter().chain(jfts).collect()
}

fn compared(
    make: fn() -> Box<dyn Trainer>,
    options: &TrainOptions,
    sets: [&TrainingSet; 2],
    neighbours: Neighbours,
) -> Replay {
    let spans: Vec<Sensitive> = sets.iter().map(|s| sensitive(s)).collect();
    let rates = sets.map(|s| secret_rates(s.records.len()));
    let corpora = [0, 1].map(|i| Corpus {
        sensitive: Some(&spans[i]),
        rates: Some(&rates[i]),
        ..Corpus::plain(sets[i])
    });
    let make = || Ok(make());
    replay(&make, options, &corpora[0], &corpora[1], neighbours).unwrap()
}

/// The same set with other content in the sensitive tokens of record `which`; all of its
/// tokens if the recipe protects whole records.
fn replaced(set: &TrainingSet, which: usize, whole: bool) -> TrainingSet {
    let mut other = set.clone();
    let spans = common::spans(set)[which].clone();
    let tokens = &mut other.records[which].tokens;
    for (at, token) in tokens.iter_mut().enumerate() {
        if whole || spans.iter().any(|s| s.contains(&at)) {
            *token = (*token * 3 + 4) % 10;
        }
    }
    other
}

const fn selective(recipe: Recipe) -> bool {
    matches!(recipe, Recipe::Sdp | Recipe::Jft)
}

#[test]
fn a_replaced_record_moves_every_release_by_twice_the_clipping_norm_at_most() {
    let here = set(4, 8, 1);
    for (name, make) in models() {
        for base in protecting() {
            if base.recipe().unwrap() == Recipe::Sdp && name != "lstm" {
                continue; // refused, as the next test says
            }
            for (optimizer, clipping) in OPTIMIZERS
                .into_iter()
                .flat_map(|o| CLIPPINGS.map(|c| (o, c)))
            {
                let mut options = base.clone();
                options.optimizer = optimizer;
                if let Some(private) = &mut options.private {
                    private.optimizer = optimizer;
                    private.clipping = clipping;
                }
                let there = replaced(&here, 6, !selective(options.recipe().unwrap()));
                let found = compared(make, &options, [&here, &there], Neighbours::Replace);
                let what = format!(
                    "{name}, {}, {optimizer:?}, {clipping:?}",
                    options.recipe().unwrap()
                );
                assert!(found.holds(), "{what}: {found:?}");
                assert!(found.releases > 3, "{what}: {found:?}");
                // the record was in some batch, and moved it
                assert!(found.largest > 1e-4, "{what}: {found:?}");
            }
        }
    }
}

#[test]
fn selective_training_of_other_models_is_refused() {
    let here = set(4, 8, 1);
    let spans = sensitive(&here);
    let corpus = Corpus {
        sensitive: Some(&spans),
        ..Corpus::plain(&here)
    };
    for (name, make) in models().into_iter().filter(|(name, _)| *name != "lstm") {
        let make = || Ok(make());
        let options = options(Recipe::Sdp);
        let found = replay(&make, &options, &corpus, &corpus, Neighbours::Replace);
        let error = found.unwrap_err().to_string();
        assert!(error.contains("recurrent"), "{name}: {error}");
    }
}

#[test]
fn a_record_more_moves_every_release_by_the_clipping_norm_at_most() {
    // the one more takes the place of a point that is only a mask: |D_pri| is the same
    let (here, there) = (set(4, 8, 2), set(4, 9, 1));
    for (name, make) in models() {
        for recipe in [Recipe::Dpsgd, Recipe::Crt, Recipe::Protect] {
            for clipping in CLIPPINGS {
                let mut options = for_epochs(options(recipe), 4); // the one more is in some batch, up to one time in 100
                if let Some(private) = &mut options.private {
                    private.clipping = clipping;
                }
                let found = compared(make, &options, [&here, &there], Neighbours::ZeroOut);
                let what = format!("{name}, {recipe}, {clipping:?}");
                assert!(found.holds(), "{what}: {found:?}");
                assert!(found.largest > 0.5, "{what}: {found:?}");
            }
        }
    }
}

/// A record's masks are its own on D and on D′: dropout moves no release further.
#[test]
fn dropout_keeps_the_sensitivity() {
    let (here, more, fewer) = (set(4, 8, 1), set(4, 9, 1), set(4, 8, 2));
    for (name, make) in models() {
        for mut options in protecting() {
            if options.recipe().unwrap() == Recipe::Sdp && name != "lstm" {
                continue;
            }
            options.dropout = Dropout::all(0.3).unwrap();
            let there = replaced(&here, 6, !selective(options.recipe().unwrap()));
            let found = compared(make, &options, [&here, &there], Neighbours::Replace);
            let what = format!("{name}, {}", options.recipe().unwrap());
            assert!(found.holds() && found.largest > 1e-4, "{what}: {found:?}");
            if !selective(options.recipe().unwrap()) {
                let found = compared(make, &options, [&fewer, &more], Neighbours::ZeroOut);
                assert!(
                    found.holds(),
                    "{name}, {}: {found:?}",
                    options.recipe().unwrap()
                );
            }
        }
    }
}

/// Which tokens carry loss is part of a record, in its windows and under its masks too: what only some tokens add moves
/// no release further, whatever they are in the other record.
#[test]
fn loss_on_answers_keeps_the_sensitivity() {
    let long = |mut set: TrainingSet| {
        set.records[6].tokens = (0..50).map(|at| (at * at + 3) % 10).collect();
        with_answers(set)
    };
    let [here, more, fewer] = [set(4, 8, 1), set(4, 9, 1), set(4, 8, 2)].map(long);
    for (name, make) in models() {
        for options in protecting() {
            let recipe = options.recipe().unwrap();
            if recipe == Recipe::Sdp {
                continue; // refused, as the end says
            }
            let whole = !selective(recipe);
            let mut there = replaced(&here, 6, whole);
            if whole {
                there.records[6].ignored = vec![4..9, 20..21];
            }
            let found = compared(make, &options, [&here, &there], Neighbours::Replace);
            assert!(
                found.holds() && found.largest > 1e-4,
                "{name}, {recipe}: {found:?}"
            );
            if whole {
                let found = compared(make, &options, [&fewer, &more], Neighbours::ZeroOut);
                assert!(found.holds(), "{name}, {recipe}: {found:?}");
            }
        }
    }
    let (spans, lstm) = (sensitive(&here), models()[0].1);
    let corpus = Corpus {
        sensitive: Some(&spans),
        ..Corpus::plain(&here)
    };
    let make = || Ok(lstm());
    let found = replay(
        &make,
        &options(Recipe::Sdp),
        &corpus,
        &corpus,
        Neighbours::Replace,
    );
    let error = found.unwrap_err().to_string();
    assert!(error.contains("learn every token"), "{error}");
}

/// A record's class changes with it, and its masked tokens follow from its number alone.
#[test]
fn encoders_and_classifiers_keep_the_sensitivity() {
    let models: [common::Made; 4] = [
        ("gpt2 classes", || headed(Family::Gpt2, Head::Classes(3))),
        ("bert classes", || headed(Family::Bert, Head::Classes(3))),
        ("bert", || headed(Family::Bert, Head::MaskedToken)),
        ("roberta", || headed(Family::Roberta, Head::MaskedToken)),
    ];
    let masking = Masking::new(11, common::MASK, vec![common::MASK]).unwrap();
    let labelled = |mut set: TrainingSet| {
        for (number, record) in (0..).zip(&mut set.records) {
            record.label = Some(number % 3);
        }
        set
    };
    let (here, more, fewer) = (set(4, 8, 1), set(4, 9, 1), set(4, 8, 2));
    let [here, more, fewer] = [here, more, fewer].map(labelled);
    for (name, make) in models {
        // not of each run: a record may be in no batch, and its few tokens may all be unmasked
        let mut largest = 0.0f64;
        for mut options in protecting() {
            let recipe = options.recipe().unwrap();
            if recipe == Recipe::Sdp {
                continue;
            }
            options.dropout = Dropout::all(0.2).unwrap();
            let whole = !selective(recipe);
            let mut there = replaced(&here, 6, whole);
            if whole {
                there.records[6].label = Some(2);
            }
            let replaced = (Neighbours::Replace, [&here, &there]);
            let added = (Neighbours::ZeroOut, [&fewer, &more]);
            for (neighbours, sets) in [replaced, added] {
                if !whole && neighbours == Neighbours::ZeroOut {
                    continue;
                }
                let spans: Vec<Sensitive> = sets.iter().map(|s| sensitive(s)).collect();
                let rates = sets.map(|s| secret_rates(s.records.len()));
                let corpora = [0, 1].map(|i| Corpus {
                    sensitive: Some(&spans[i]),
                    rates: Some(&rates[i]),
                    masking: Some(&masking),
                    ..Corpus::plain(sets[i])
                });
                let make = || Ok(make());
                let found = replay(&make, &options, &corpora[0], &corpora[1], neighbours).unwrap();
                assert!(found.holds(), "{name}, {recipe}, {neighbours}: {found:?}");
                largest = largest.max(found.largest);
            }
        }
        assert!(largest > 1e-4, "{name}: {largest}");
    }
}

/// A record longer than the context is several windows and one record: replaced or taken away, it moves no release by
/// more than any other.
#[test]
fn windows_of_a_long_record_are_clipped_as_one_record() {
    let long = |mut set: TrainingSet| {
        let tokens = &mut set.records[6].tokens;
        *tokens = (0..50).map(|at| (at * at + 3) % 10).collect();
        set
    };
    let (here, more) = (long(set(4, 8, 1)), long(set(4, 9, 1)));
    let decoders = models()
        .into_iter()
        .filter(|(name, _)| !name.starts_with("lstm"));
    for (name, make) in decoders {
        for clipping in CLIPPINGS {
            let mut options = for_epochs(options(Recipe::Dpsgd), 4);
            if let Some(private) = &mut options.private {
                private.clipping = clipping;
            }
            let there = replaced(&here, 6, true);
            let found = compared(make, &options, [&here, &there], Neighbours::Replace);
            assert!(
                found.holds() && found.largest > 0.1,
                "{name}, {clipping:?}: {found:?}"
            );
            let mut with = more.clone();
            // The long record is the one that comes and goes.
            let record = with.records.remove(6);
            with.records.push(record);
            let mut rest = with.clone();
            rest.records.pop();
            rest.mask_only += 1;
            let found = compared(make, &options, [&rest, &with], Neighbours::ZeroOut);
            assert!(
                found.holds() && found.largest > 0.5,
                "{name}, {clipping:?}: {found:?}"
            );
        }
    }
}

/// Noise and clipping norms that fall, and several augmentations of a record: it moves no release by more than that
/// release's own sensitivity, whether it is one window or several.
#[test]
fn schedules_and_augmentations_keep_the_sensitivity() {
    let mut here = set(4, 8, 1);
    here.records[6].tokens = (0..50).map(|at| (at * at + 3) % 10).collect();
    let there = replaced(&here, 6, true);
    for (name, make) in models() {
        for clipping in CLIPPINGS {
            let mut options = for_epochs(options(Recipe::Dpsgd), 4);
            options.dropout = Dropout::all(0.3).unwrap();
            let each = options.plan.run.steps_per_epoch().unwrap();
            if let Some(noisy) = options.plan.run.noisy_mut() {
                noisy.noise_decay = Some(StepDecay::new(0.5, each).unwrap());
            }
            if let Some(private) = &mut options.private {
                private.clipping = clipping;
                private.clip_decay = Some(StepDecay::new(0.6, each).unwrap());
                private.augmentations = 3;
            }
            let found = compared(make, &options, [&here, &there], Neighbours::Replace);
            assert!(
                found.holds() && found.largest > 0.1,
                "{name}, {clipping:?}: {found:?}"
            );
        }
    }
}

/// Batches that are cut down and balls in bins draw alike on D and on D′.
#[test]
fn every_sampler_keeps_the_sensitivity() {
    let here = set(4, 8, 1);
    let there = replaced(&here, 6, true);
    let (_, make) = models()[0];
    let records = here.records.len() as u64 + here.mask_only;
    let samplers = [
        Sampling::TruncatedPoisson {
            max_batch: 2,
            records,
        },
        Sampling::BallsInBins,
    ];
    for sampling in samplers {
        let mut options = for_epochs(options(Recipe::Dpsgd), 4);
        if let Some(noisy) = options.plan.run.noisy_mut() {
            noisy.sampling.value = sampling;
        }
        let found = compared(make, &options, [&here, &there], Neighbours::Replace);
        assert!(
            found.holds() && found.largest > 1e-4,
            "{sampling:?}: {found:?}"
        );
    }
}

/// What nothing protects is found out: the harness can fail.
#[test]
fn what_goes_past_the_noise_is_found_out() {
    let here = set(4, 8, 1);
    let (_, make) = models()[0];
    let all = replaced(&here, 6, true);
    let public = replaced(&here, 1, true);
    for (recipe, there) in [
        (Recipe::Sgd, &all),    // no noise at all
        (Recipe::Crt, &public), // a record of the public side
        (Recipe::Sdp, &all),    // ordinary tokens
        (Recipe::Jft, &all),
    ] {
        let found = compared(make, &options(recipe), [&here, there], Neighbours::Replace);
        assert!(!found.same_weights && !found.holds(), "{recipe}: {found:?}");
    }
    // twice the sensitivity of one record less does not hold for a record replaced
    let found = compared(
        make,
        &options(Recipe::Dpsgd),
        [&here, &all],
        Neighbours::ZeroOut,
    );
    assert!(found.largest > 1.0 && !found.holds(), "{found:?}");
    let unseeded = options(Recipe::Dpsgd).seeded(None);
    let plain = Corpus::plain(&here);
    let error = replay(
        &|| Ok(make()),
        &unseeded,
        &plain,
        &plain,
        Neighbours::Replace,
    );
    assert!(error.unwrap_err().to_string().contains("seed"));
}
