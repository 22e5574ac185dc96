//! Scores of single records.

use super::{close, row, token};
use reticent_attacks::membership::{Attack, Evidence, Scored, digit_mutations, min_k, zlib_bytes};
use reticent_backends::TokenScore;

/// Golden: the definition of Shi et al. 2023; the short text that int(k n) = 0 loses.
#[test]
fn min_k_counts_at_least_one_token() {
    let ln_p = [-0.1, -2.0, -0.5, -3.0, -1.0, -0.2, -4.0, -0.3, -0.7, -1.5];
    for (share, expected) in [(0.1, -4.0), (0.2, -3.5), (0.5, -2.3), (1.0, -1.33)] {
        close(min_k(ln_p, share).unwrap(), expected, 1e-12);
    }
    close(min_k([-1.0, -7.0, -2.0, -3.0], 0.2).unwrap(), -7.0, 1e-12);
    assert!(min_k(ln_p, 0.0).is_err() && min_k([], 0.2).is_err());
    // 0.1 of 30 tokens are three, although 0.1 · 30 > 3 in double precision.
    close(min_k((0..30).map(f64::from), 0.1).unwrap(), 1.0, 1e-12);
}

#[test]
fn min_k_plus_plus_standardises_and_survives_certainty() {
    let mut scores = row(&[-1.0, -4.0, -2.0, -3.0, -2.5]);
    scores[1].variance = 4.0; // (−4 + 2)/2 = −1
    let tokens = [1; 5];
    let scored = Scored::new(&tokens, &scores).unwrap();
    close(scored.min_k_plus_plus(0.2).unwrap(), -1.0, 1e-12);
    let certain = [TokenScore {
        mean: 0.0,
        variance: 0.0,
        ..token(0.0, 1)
    }; 5];
    let scored = Scored::new(&tokens, &certain).unwrap();
    assert!(scored.min_k_plus_plus(0.2).unwrap().is_finite());
}

/// Golden: mean NLL 1.5 against 2.4; 20 nats over 24 bytes; NLL 2 against four neighbours.
#[test]
fn scores_of_one_record() {
    let tokens = [5, 6];
    let (target, reference) = (row(&[-1.0, -2.0]), row(&[-2.0, -2.8]));
    let (target, reference) = (
        Scored::new(&tokens, &target).unwrap(),
        Scored::new(&tokens, &reference).unwrap(),
    );
    close(target.loss(), -1.5, 1e-12);
    close(target.reference(reference).unwrap(), 0.9, 1e-12);
    close(target.lower_case(reference), 1.6, 1e-12);
    let eight = [1; 8];
    let twenty = row(&[-2.5; 8]);
    let scored = Scored::new(&eight, &twenty).unwrap();
    close(scored.zlib("My ID is 341752."), -20.0 / 24.0, 1e-12);
    let two = row(&[-2.0; 8]);
    let scored = Scored::new(&eight, &two).unwrap();
    // The published sign is NLL − mean, −0.7; ours rises with membership.
    close(
        scored.neighbourhood(&[2.5, 2.7, 2.6, 3.0]).unwrap(),
        0.7,
        1e-12,
    );
    let other = [5, 7];
    let moved = row(&[-1.0, -1.0]);
    let error = target
        .reference(Scored::new(&other, &moved).unwrap())
        .unwrap_err();
    assert!(error.to_string().contains("one tokenizer"), "{error}");
}

/// Draws of a linear congruential generator, as Python repeats them.
fn draws(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

/// Golden: `len(zlib.compress(text))` of CPython 3.11 with zlib 1.2.13: short texts, blocks that are stored, fixed and
/// dynamic, texts of several blocks and beyond a window, and a code that zlib must cut to fifteen bits.
#[test]
fn zlib_lengths() {
    const WORDS: &str = "order send please number table mail green house river call late early north paper seven train old Friday";
    let words = |seed: u64, count: usize| {
        let (all, mut draw): (Vec<&str>, _) = (WORDS.split(' ').collect(), draws(seed));
        let drawn = (0..count).map(|_| all[draw(18) as usize]);
        drawn.collect::<Vec<_>>().join(" ")
    };
    let letters = |seed: u64, count: usize, kinds: u64| -> String {
        let mut draw = draws(seed);
        (0..count)
            .map(|_| char::from(b'a' + draw(kinds) as u8))
            .collect()
    };
    for (seed, count, expected) in [
        (1, 5, 32),
        (2, 12, 63),
        (3, 25, 92),
        (4, 60, 147),
        (5, 200, 337),
        (6, 1000, 1166),
        (7, 20_000, 18_589),
    ] {
        assert_eq!(zlib_bytes(&words(seed, count)), expected, "{count} words");
    }
    for (seed, count, kinds, expected) in [
        (1, 10, 26, 18),
        (2, 100, 4, 56),
        (3, 1000, 26, 628),
        (4, 30_000, 26, 18_958),
        (5, 70_000, 2, 11_195),
        (6, 300_000, 20, 181_728),
    ] {
        assert_eq!(
            zlib_bytes(&letters(seed, count, kinds)),
            expected,
            "{count} letters"
        );
    }
    let all_words = (0..400).map(|s| zlib_bytes(&words(1000 + s, 1 + s as usize % 90)));
    assert_eq!(all_words.sum::<usize>(), 46_189);
    let all_letters =
        (0..400).map(|s| zlib_bytes(&letters(2000 + s, 1 + 3 * s as usize, 2 + s % 25)));
    assert_eq!(all_letters.sum::<usize>(), 127_324);
    // Counts of Fibonacci ask for codes of nineteen bits.
    let mut counts = vec![1, 1];
    while counts.len() < 20 {
        counts.push(counts[counts.len() - 1] + counts[counts.len() - 2]);
    }
    let each = counts
        .iter()
        .zip('A'..)
        .flat_map(|(n, c)| std::iter::repeat_n(c, *n));
    let (mut skewed, mut draw): (Vec<char>, _) = (each.collect(), draws(9));
    for i in (1..skewed.len()).rev() {
        skewed.swap(i, draw(i as u64 + 1) as usize);
    }
    assert_eq!(zlib_bytes(&skewed.into_iter().collect::<String>()), 7028);
    for (text, expected) in [
        ("", 8),
        ("a", 9),
        (&"ä€漢 ".repeat(40), 23),
        ("My ID is 341752.", 24),
        ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 11),
        ("The quick brown fox jumps over the lazy dog.", 51),
    ] {
        assert_eq!(zlib_bytes(text), expected, "{text}");
    }
}

/// A token that costs nothing is a token: published code drops it from the count.
#[test]
fn a_token_without_loss_counts() {
    let tokens = [1, 2, 3, 4];
    let scores = row(&[-4.0, 0.0, 0.0, 0.0]);
    close(
        Scored::new(&tokens, &scores).unwrap().mean_nll(),
        1.0,
        1e-12,
    );
    let broken = row(&[-4.0, f64::NAN, 0.0, 0.0]);
    assert!(Scored::new(&tokens, &broken).is_err(), "NaN is no score");
}

/// A perfectly memorised record has the highest EZ score, not the lowest.
#[test]
fn ez_degenerate_cases() {
    let tokens = [1, 2, 3, 4];
    let reference = row(&[-3.0, -3.0, -3.0, -3.0]);
    let reference = Scored::new(&tokens, &reference).unwrap();
    let ez = |scores: &[TokenScore]| Scored::new(&tokens, scores).unwrap().ez(reference).unwrap();
    let all_right: Vec<_> = tokens.iter().map(|t| token(-0.01, *t)).collect();
    assert!(ez(&all_right).is_infinite());
    let one_wrong: Vec<_> = tokens.iter().map(|t| token(-5.0, (*t).max(2))).collect();
    assert!(ez(&one_wrong).is_infinite());
    assert!(
        ez(&row(&[-1.0, -1.0, -2.0, -2.5])).is_infinite(),
        "nothing lost"
    );
    // Gains 2 + 1, losses 1 + 0.5.
    close(ez(&row(&[-1.0, -2.0, -4.0, -3.5])), 2.0, 1e-12);
    close(ez(&row(&[-3.0; 4])), 1.0, 1e-12);
    close(ez(&row(&[-4.0; 4])), 0.0, 1e-12);
}

/// WBC against its formula by running sums of integers, which round nothing; a window longer than the
/// record is the record. Seed 11, 400 records of 2 to 60 tokens: no random statement.
#[test]
fn windows_vote_by_their_sums() {
    const LENGTHS: [usize; 10] = [2, 3, 4, 6, 9, 13, 18, 25, 32, 40];
    let mut draw = draws(11);
    for _ in 0..400 {
        let n = 2 + draw(59) as usize;
        let tokens: Vec<u32> = (0..n as u32).collect();
        let mut costs = || (0..n).map(|_| draw(9) as i64).collect::<Vec<_>>();
        let (own, other) = (costs(), costs());
        let ln_p =
            |costs: &[i64]| row(&costs.iter().map(|c| -(*c as f64) / 4.0).collect::<Vec<_>>());
        let (target, reference) = (ln_p(&own), ln_p(&other));
        let target = Scored::new(&tokens, &target).unwrap();
        let reference = Scored::new(&tokens, &reference).unwrap();
        let gains: Vec<i64> = std::iter::once(0)
            .chain(own.iter().zip(&other).scan(0, |sum, (a, b)| {
                *sum += b - a;
                Some(*sum)
            }))
            .collect();
        let share = |length: usize| {
            let length = length.min(n);
            let won = (length..=n)
                .filter(|end| gains[*end] > gains[end - length])
                .count();
            won as f64 / (n + 1 - length) as f64
        };
        let expected = LENGTHS.map(share).iter().sum::<f64>() / 10.0;
        close(target.wbc(reference).unwrap(), expected, 1e-12);
        // The two models the other way round win what was lost, but for equal sums.
        assert!(target.wbc(reference).unwrap() + reference.wbc(target).unwrap() <= 1.0 + 1e-12);
        close(target.wbc(target).unwrap(), 0.0, 0.0);
    }
    let (tokens, moved) = ([1, 2], [1, 3]);
    let scores = row(&[-1.0, -2.0]);
    let target = Scored::new(&tokens, &scores).unwrap();
    assert!(target.wbc(Scored::new(&moved, &scores).unwrap()).is_err());
}

/// Every attack ranks a memorised record above an unseen one, and says when it lacks evidence.
#[test]
fn every_attack_rises_with_membership() {
    let tokens = [1, 2, 3, 4, 5];
    let (seen, unseen) = (
        row(&[-0.2, -0.4, -0.3, -0.1, -0.5]),
        row(&[-3.0, -2.0, -4.0, -2.2, -3.3]),
    );
    let base = row(&[-2.6, -2.4, -3.0, -2.5, -3.0]);
    let lower = row(&[-2.5, -2.4, -2.0, -2.6, -2.4]);
    let near = [2.4, 2.6, 2.2];
    let at = |scores| Scored::new(&tokens, scores).unwrap();
    let evidence = |scores| Evidence {
        target: at(scores),
        reference: Some(at(&base)),
        lower_case: Some(at(&lower)),
        text: Some("Order 341752 for Ms Jones."),
        neighbours: Some(&near),
    };
    for attack in Attack::ALL {
        let high = attack.score(&evidence(&seen)).unwrap().unwrap();
        let low = attack.score(&evidence(&unseen)).unwrap().unwrap();
        assert!(high > low, "{attack:?}: {high} {low}");
    }
    let bare = Evidence {
        reference: None,
        lower_case: None,
        text: None,
        neighbours: None,
        ..evidence(&seen)
    };
    let able = Attack::ALL
        .iter()
        .filter(|a| a.score(&bare).unwrap().is_some())
        .count();
    assert_eq!(able, 3, "LOSS and the two Min-K");
}

#[test]
fn digit_mutations_are_distinct_and_of_the_same_shape() {
    let near = digit_mutations("ID 34-17", 500, 3).unwrap();
    assert_eq!(near.len(), 500);
    let distinct: std::collections::BTreeSet<_> = near.iter().collect();
    assert!(distinct.len() == 500 && !distinct.contains(&"ID 34-17".to_owned()));
    assert!(
        near.iter()
            .all(|t| t.starts_with("ID ") && t.as_bytes()[5] == b'-')
    );
    assert_eq!(
        digit_mutations("a7", 25, 0).unwrap().len(),
        9,
        "all there are"
    );
    assert!(
        digit_mutations("none", 25, 0)
            .unwrap_err()
            .to_string()
            .contains("digits")
    );
}

/// A ln p that rounding lifts above 0 counts as 0 in every score, as it does in ranks and perplexities.
#[test]
fn rounding_above_probability_one_costs_nothing() {
    let (lifted, exact) = (
        [token(5e-5, 9), token(-1.0, 9)],
        [token(0.0, 9), token(-1.0, 9)],
    );
    let (tokens, reference) = ([1, 2], row(&[-0.5, -0.5]));
    let of = |scores| Scored::new(&tokens, scores).unwrap();
    let scores = |scored: Scored<'_>| {
        let [min_k, plus] = [scored.min_k(1.0), scored.min_k_plus_plus(1.0)].map(Result::unwrap);
        let [ez, wbc] = [scored.ez(of(&reference)), scored.wbc(of(&exact))].map(Result::unwrap);
        [scored.nll(), scored.loss(), min_k, plus, ez, wbc].map(f64::to_bits)
    };
    assert_eq!(scores(of(&lifted)), scores(of(&exact)));
}

/// Numbers that a scorer of the user's own doesn't have are refused where an attack needs them.
#[test]
fn attacks_refuse_what_is_not_a_number() {
    let scores = [TokenScore {
        mean: f64::NAN,
        ..token(-1.0, 9)
    }];
    let scored = Scored::new(&[1], &scores).unwrap();
    assert!(scored.min_k_plus_plus(0.2).is_err());
    assert!(scored.min_k(0.2).is_ok());
    assert!(scored.neighbourhood(&[1.0, f64::NAN]).is_err());
    assert!(min_k([f64::NAN, -1.0], 0.5).is_err());
}
