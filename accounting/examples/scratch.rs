//! x
#![allow(warnings)]
use reticent_accounting::*;
use reticent_accounting::pld::Direction;
fn main() {
    for (s, q, t, g, p) in [(0.6, 1e-5, 1000, 10, 1e-6), (0.4, 1e-6, 10000, 5, 1e-6), (0.3, 1e-6, 10000, 20, 1e-6), (0.2, 1e-8, 51423, 76, 1e-6)] {
        let run = Mechanism::dp_sgd(NoiseMultiplier::new(s).unwrap(), SamplingRate::new(q).unwrap(), Steps::new(t));
        let qu = Query { neighbours: Neighbours::ZeroOut, group: GroupSize::new(g).unwrap() };
        let loss = PrivacyLoss::of(&run, qu, Direction::Remove).unwrap();
        let at = std::time::Instant::now();
        let found = loss.blow_up(Probability::new(p).unwrap(), Tolerance::new(1e-6).unwrap()).map(|a| (a.bounds, a.engine));
        println!("{s} {q} {t} {g} {p} {found:?} {:?}", at.elapsed());
    }
}
