//! What a sampler comes down to: the pairs named in PROPOSITIONS.md, with weights by enumeration, and
//! instances of records beside the one asked about.

use super::allocated::{one_of, some_of};
use super::batches::{at, binomial, truncated_sum};
use super::pairs::{Mixture, Noise, both_ways, rising};
use super::step::{Outcome, Step};
use super::truth::{Leaf, Part, Question, exactly};
use reticent_accounting::{Neighbours, Sampling};

/// Epochs of more steps have no instances here.
const MOST_BINS: u64 = 5;

pub(super) fn sampled(
    question: &Question,
    (noise, scale): (Noise, f64),
    rate: f64,
    sampling: Sampling,
    times: u64,
) -> Option<Leaf> {
    let noise = (noise, scale);
    match sampling {
        Sampling::Poisson => {
            let with = binomial(question.query.group.get(), rate);
            exactly(question.shifts(noise.0, scale, &with), times)
        }
        Sampling::WithoutReplacement => question
            .replace()
            .then(|| fixed_batches(question, noise, rate, times)),
        Sampling::TruncatedPoisson { max_batch, records } => {
            truncated(question, noise, rate, (max_batch, records), times)
        }
        Sampling::BallsInBins | Sampling::Shuffled => {
            let bins = (1.0 / rate).round() as u64;
            let shuffled = sampling == Sampling::Shuffled;
            allocation(question, noise, (1, bins), times, shuffled)
        }
        Sampling::RandomAllocation { selected, steps } => {
            allocation(question, noise, (selected, steps), times, false)
        }
        Sampling::WithReplacement => None,
    }
}

/// A record used with some chance, and then at `place`.
fn used(chance: f64, place: f64) -> Mixture {
    let both = vec![(1.0 - chance, 0.0), (chance, place)];
    both.into_iter().filter(|(mass, _)| *mass > 0.0).collect()
}

/// Drawn for the record alone and all others zero: the mean over its places. That is the worst case
/// for one record, present or absent, whose steps are drawn for it alone (Chua et al. 2024). Of k places
/// the upper end rests on k blocks with one place in each, the lower end on the sum over the epoch. What is
/// told where the record is dominates everything, and is all there is for replaced records, for groups
/// and for shuffled batches.
fn allocation(
    question: &Question,
    (noise, scale): (Noise, f64),
    (selected, bins): (u64, u64),
    times: u64,
    shuffled: bool,
) -> Option<Leaf> {
    if !times.is_multiple_of(bins) {
        return None;
    }
    let epochs = times / bins;
    let group = question.query.group.get();
    let known = question.shifts(noise, scale, &binomial(group, 1.0));
    let mut leaf = Leaf {
        upper: vec![(known, epochs * selected)],
        ..Leaf::default()
    };
    let alone = group == 1 && !question.replace();
    let block = bins / selected;
    if alone && block > 1 {
        let one = |bins: u64| question.turned(one_of(noise, scale, bins));
        if !shuffled {
            leaf.upper.push((one(block), epochs * selected));
        }
        if selected == 1 {
            leaf.lower.push((one(bins), epochs));
        } else if noise == Noise::Gaussian {
            let wide = scale * (bins as f64).sqrt();
            let sum = question.shifts(noise, wide, &at(selected as f64));
            leaf.lower.push((sum, epochs));
        }
    }
    if bins <= MOST_BINS && !(alone && selected == 1) {
        let (bins, selected) = (bins as usize, selected as usize);
        let some = some_of(noise, scale, bins, selected, question.replace());
        leaf.below.push((question.turned(some), epochs));
    }
    Some(leaf)
}

/// A batch of fixed size holds the record with chance q. All others equal to what replaces it, at
/// the far end: the sum moves by 2 or not at all, one way or the other; all others zero: it moves
/// by 1 against −1. No instance does worse than both directions of the first at once (Balle, Barthe
/// and Gaboardi 2018, Theorem 9, and the same in reverse; Zhu, Dong and Wang 2022 compose it). Of one
/// step, and at no negative ε, that is attained. Of k records it holds some with chance kq at most, and
/// then the sum moves by 2k at most (LAW-group).
fn fixed_batches(question: &Question, (noise, scale): (Noise, f64), rate: f64, times: u64) -> Leaf {
    let (cells, group) = (question.cells, f64::from(question.query.group.get()));
    let known = both_ways(noise, (group * rate).min(1.0), 2.0 * group, scale, cells);
    let far = rising(noise, &used(rate, 2.0), &at(0.0), scale, cells);
    let opposite = rising(noise, &used(rate, 1.0), &used(rate, -1.0), scale, cells);
    let far = |times: u64| (far.clone(), times);
    Leaf {
        upper: vec![(known, times)],
        lower: (times == 1 && group <= 1.0)
            .then(|| far(1))
            .into_iter()
            .collect(),
        below: vec![
            (far(times).0.swapped(0.0), times),
            far(times),
            (opposite, times),
        ],
        ..Leaf::default()
    }
}

/// Poisson batches of which a place each for `max_batch` is kept at random. Told whether so many others
/// are drawn: if not, plain batches; if so, the record is used with some chance and then displaces
/// another one, so the sum moves by 2 (against the batch without the record, or for zero-out and replace
/// both ways). From below all others are zero. Instances: all others at −1 or 1.
fn truncated(
    question: &Question,
    (noise, scale): (Noise, f64),
    rate: f64,
    (max_batch, records): (u64, u64),
    times: u64,
) -> Option<Leaf> {
    let others = binomial((records - 1) as u32, rate);
    let most = max_batch as f64;
    let full: f64 = others.iter().filter(|o| o.1 >= most).map(|o| o.0).sum();
    let kept: f64 = others
        .iter()
        .map(|(mass, count)| mass * (most / (count + 1.0)).min(1.0))
        .sum();
    let open: f64 = others.iter().filter(|o| o.1 < most).map(|o| o.0).sum();
    let plain = |chance: f64| question.shifts(noise, scale, &binomial(1, chance));
    if full <= 0.0 {
        return exactly(plain(rate), times);
    }
    // Given that the batch is full: summed by itself, as it may be far below the rounding of `kept`.
    let places = others.iter().filter(|o| o.1 >= most);
    let chance = rate
        * places
            .map(|(mass, count)| mass * most / (count + 1.0))
            .sum::<f64>()
        / full;
    let displacing = if question.query.neighbours == Neighbours::AddRemove {
        question.turned(rising(
            noise,
            &used(chance, 2.0),
            &at(0.0),
            scale,
            question.cells,
        ))
    } else {
        both_ways(noise, chance, 2.0, scale, question.cells)
    };
    let instance = |others_at: f64| -> Part {
        let law = |record_at: Option<f64>| -> Mixture {
            truncated_sum(rate, max_batch, records - 1, others_at, record_at)
        };
        let without = match question.query.neighbours {
            Neighbours::AddRemove => None,
            Neighbours::ZeroOut => Some(0.0),
            Neighbours::Replace => Some(-1.0),
        };
        let cells = question.cells / 4;
        let step = rising(noise, &law(Some(1.0)), &law(without), scale, cells);
        (question.turned(step), times)
    };
    Some(Leaf {
        upper: vec![(either((open, &plain(rate)), (full, &displacing)), times)],
        lower: vec![(plain(rate * kept), times)],
        below: vec![instance(-1.0), instance(1.0)],
        ..Leaf::default()
    })
}

/// One step or another, with chances of their own, and told which.
fn either(one: (f64, &Step), other: (f64, &Step)) -> Step {
    let scaled = |(chance, step): (f64, &Step)| -> Vec<Outcome> {
        let of = |o: &Outcome| Outcome {
            p: chance * o.p,
            q: chance * o.q,
            ..*o
        };
        step.outcomes.iter().map(of).collect()
    };
    let mut outcomes = scaled(one);
    outcomes.extend(scaled(other));
    let infinite = one.0 * one.1.infinite + other.0 * other.1.infinite;
    Step::of(outcomes, infinite, None)
}
