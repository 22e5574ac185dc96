//! Sums with small errors.

/// A compensated sum with an error of two roundings of the total plus second-order terms.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum {
    total: f64,
    lost: f64,
}

impl Sum {
    pub(crate) fn add(&mut self, term: f64) {
        let next = self.total + term;
        self.lost += if self.total.abs() >= term.abs() {
            (self.total - next) + term
        } else {
            (term - next) + self.total
        };
        self.total = next;
    }
    pub(crate) fn value(&self) -> f64 {
        self.total + self.lost
    }
}
