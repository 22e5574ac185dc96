//! The nodes from which moments are summed, kept with their sums: the points of a curve and the questions of a page are
//! about the same steps, and so are the runs that a solver derives from one.

use super::moments::{Derivatives, LN_NOTHING, Sums, WeightedLoss, nodes_of};
use crate::loss::LossDistribution;
use crate::numeric::latest::Latest;
use crate::quantity::error::Result;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The most nodes of the kept laws together.
const MOST_NODES: usize = 1 << 17;
/// The most tilts at which the sums over a law's nodes are kept.
const MOST_SUMS: usize = 1 << 12;

thread_local! {
    static LATEST: RefCell<Latest<Cut, Nodes>> = const { RefCell::new(Latest::new()) };
}

/// A law, and ln of the mass that may be left out of it.
type Cut = (LossDistribution, f64);

/// The nodes of one step in order of their losses, and the sums over them at tilts that were asked for.
#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) each: Vec<WeightedLoss>,
    sums: RefCell<HashMap<u64, Derivatives>>,
}

impl Nodes {
    /// Returns the nodes of a law without a mass of e^`ln_cut` far out.
    ///
    /// # Errors
    /// Returns [`crate::Error::NotCertified`] if they would be too many.
    pub(super) fn of(law: &LossDistribution, ln_cut: f64) -> Result<Rc<Self>> {
        // Only infinite ends are cut.
        let infinite = (law.pieces.iter()).any(|piece| piece.from.is_none() || piece.to.is_none());
        let ln_cut = if infinite { ln_cut } else { LN_NOTHING };
        let same = |(other, cut): &Cut| cut.to_bits() == ln_cut.to_bits() && other == law;
        let before = LATEST.with_borrow_mut(|latest| latest.find(same));
        if let Some(nodes) = before {
            return Ok(nodes);
        }
        let nodes = Rc::new(Self {
            each: nodes_of(law, ln_cut)?,
            sums: RefCell::default(),
        });
        let key = (law.clone(), ln_cut);
        LATEST.with_borrow_mut(|latest| {
            latest.keep(key, Rc::clone(&nodes), MOST_NODES, |nodes| nodes.each.len());
        });
        Ok(nodes)
    }

    /// Returns K, K', K'' of one step at θ.
    pub(super) fn at(&self, theta: f64) -> Derivatives {
        let mut sums = self.sums.borrow_mut();
        if sums.len() >= MOST_SUMS {
            sums.clear();
        }
        *sums.entry(theta.to_bits()).or_insert_with(|| {
            let centre = self.each.first().map_or(0.0, |node| node.loss);
            let sums = Sums::of(&self.each, theta, centre);
            let mean = sums.first / sums.whole;
            Derivatives {
                value: sums.top + f64::ln(sums.whole),
                first: mean + centre,
                second: (sums.second / sums.whole - mean * mean).max(0.0),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::Pair;

    #[test]
    fn equal_laws_share_their_nodes() {
        let law = |distance: f64| LossDistribution::of_pair(&Pair::gaussian(distance));
        let first = Nodes::of(&law(1.5), -60.0).unwrap();
        let again = Nodes::of(&law(1.5), -60.0).unwrap();
        assert!(Rc::ptr_eq(&first, &again));
        for (other, ln_cut) in [(law(1.5), -70.0), (law(1.25), -60.0)] {
            assert!(!Rc::ptr_eq(&first, &Nodes::of(&other, ln_cut).unwrap()));
        }
        // K(c) = d²c(c − 1)/2, asked twice.
        for _ in 0..2 {
            let found = again.at(3.0);
            assert!((found.value - 0.5 * 2.25 * 6.0).abs() < 1e-9, "{found:?}");
            assert!((found.second - 2.25).abs() < 1e-9, "{found:?}");
        }
    }
}
