//! scratch
use reticent_accounting::pld::*;
use reticent_accounting::*;
#[test]
fn table() {
    for tol in [1e-6, 1e-9] {
    for (q, s, t, d, want) in [
        (0.01, 1.1, 10_000u64, 1e-5, 5.192583445878),
        (0.01, 1.1, 10_000, 1e-10, 7.849491185125),
        (0.01, 1.1, 10_000, 1e-20, 11.653269371),
        (0.01, 1.1, 10_000, 1e-300, 0.),
        (0.001, 0.6, 100_000, 1e-5, 6.112825184),
        (0.001, 0.6, 100_000, 1e-10, 10.154469174),
        (0.1, 1.1, 1000, 1e-5, 21.0921908102),
        (0.1, 1.1, 1000, 1e-10, 29.938746772),
        (0.5, 8., 2000, 1e-5, 15.2969169495),
        (0.5, 8., 2000, 1e-10, 21.3008613447),
        (1e-4, 0.5, 1_000_000, 1e-5, 3.89815363181),
        (1e-4, 0.5, 1_000_000, 1e-10, 7.961644128),
        (0.00426666666666, 1.1, 14062, 1e-5, 2.38159692142),
        (0.2, 0.5, 3, 1e-5, 0.),
        (0.01, 1.0, 2, 1e-5, 0.),
        (0.01, 1.0, 5, 1e-5, 0.),
        (0.01, 1.0, 20, 1e-5, 0.),
        (0.01, 0.5, 100, 1e-5, 0.),
        (0.01, 0.1, 1000, 1e-5, 0.),
        (0.5, 0.01, 1000, 1e-5, 0.),
        (0.01, 0.01, 1000, 1e-5, 0.),
        (0.01, 1e4, 1000, 1e-5, 0.),
        (0.01, 100.0, 1000000000, 1e-5, 0.),
        (0.001, 1.0, 1000000000, 1e-5, 0.),
        (0.01, 1.0, 1000000000, 1e-5, 0.),
    ] {
        let run = Mechanism::dp_sgd(NoiseMultiplier::new(s).unwrap(), SamplingRate::new(q).unwrap(), Steps::new(t));
        for (n, dir) in [(Neighbours::AddRemove, Direction::Remove), (Neighbours::AddRemove, Direction::Add), (Neighbours::Replace, Direction::Remove)] {
            let loss = PrivacyLoss::of(&run, Query::single(n), dir).unwrap();
            let start = std::time::Instant::now();
            let a = loss.epsilon(Delta::new(d).unwrap(), Tolerance::new(tol).unwrap());
            match a {
                Ok(a) => { let (l,u)=(a.bounds.lower.map_or(-1.0, |l| l.get().get()), a.bounds.upper.unwrap().get().get());
                println!("{q} {s} {t} {d:e} {n} {dir:?}: {l:.12} {u:.12} rel {:.1e} want {want} {:?} {:?}", (u-l)/u, a.engine, start.elapsed()); }
                Err(e) => println!("{q} {s} {t} {d:e} {n} {dir:?}: {e} {:?}", start.elapsed()),
            }
        }
    }
    }
}
