//! Per-example norms of transformer layers from inputs and tapped gradients.
//!
//! With a the inputs (T × d) and g the gradients of the outputs (T × p) of one example, the gradient of the weight is
//! aᵀg. Its squared norm is computed either from the two Gram matrices or from the gradient itself, whichever is
//! cheaper. A computed gradient can be kept, so that the clipped sum needs no second product. The choice depends on the
//! sizes of the example alone, so that its norm has the same bits in any batch.

use super::gemm::{Store, View, dense_here};
use super::gram::gram;
use super::vector::{products, sum_of_squares, wide};
use reticent_corpus::TokenId;

/// The cost of computing, measuring and adding one value of a gradient, in multiplications.
const COST_OF_A_VALUE: usize = 75;

/// How the norm of one example's weight gradient is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Σ_{s,t} (a aᵀ)∘(g gᵀ).
    Gram,
    /// ‖aᵀg‖².
    Instantiated,
}

impl Way {
    /// Returns the cheaper way for t rows of a d × p weight. `kept` says that a computed gradient is also used for the
    /// sum.
    pub(crate) fn of((t, d, p): (usize, usize, usize), kept: bool) -> Self {
        let gram = t * t * (d + p) * 3 / 5;
        let instantiated = if kept { 0 } else { t * d * p } + COST_OF_A_VALUE * d * p;
        if gram <= instantiated {
            Self::Gram
        } else {
            Self::Instantiated
        }
    }
}

/// Σ over s ≤ t of x∘y, counting values off the diagonal twice, for two symmetric T × T matrices of which the lower
/// triangle is filled.
struct SymmetricProduct<'a> {
    x: &'a [f32],
    y: &'a [f32],
    t: usize,
}

impl pulp::NullaryFnOnce for SymmetricProduct<'_> {
    type Output = f64;
    #[inline(always)]
    fn call(self) -> f64 {
        let t = self.t;
        let (mut below, mut on) = (0.0, 0.0);
        for row in 0..t {
            let at = row * t..row * t + row;
            below += products(&self.x[at.clone()], &self.y[at.clone()]);
            on += f64::from(self.x[at.end]) * f64::from(self.y[at.end]);
        }
        on + 2.0 * below
    }
}

/// ‖aᵀg‖² by Gram matrices. Rounding may make a sum that can't be negative slightly negative.
pub(crate) fn gram_norm(a: &[f32], g: &[f32], (t, d, p): (usize, usize, usize)) -> f64 {
    let (x, y) = (gram(a, (t, d)), gram(g, (t, p)));
    // not `max`: it would turn an undefined norm into zero
    let norm = wide(SymmetricProduct { x: &x, y: &y, t });
    if norm < 0.0 { 0.0 } else { norm }
}

/// aᵀg, d × p.
pub(crate) fn instantiated(a: &[f32], g: &[f32], (t, d, p): (usize, usize, usize)) -> Vec<f32> {
    let mut out = vec![0.0; d * p];
    let a = View::new(a, d).transposed();
    dense_here(a, View::new(g, p), &mut out, (d, t, p), Store::Set, None);
    out
}

struct ColumnSums<'a> {
    x: Option<&'a [f32]>,
    g: &'a [f32],
    sums: &'a mut [f64],
}

impl pulp::NullaryFnOnce for ColumnSums<'_> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let width = self.sums.len();
        match self.x {
            None => {
                for g in self.g.chunks_exact(width) {
                    for (s, g) in self.sums.iter_mut().zip(g) {
                        *s += f64::from(*g);
                    }
                }
            }
            Some(x) => {
                for (x, g) in x.chunks_exact(width).zip(self.g.chunks_exact(width)) {
                    for ((s, x), g) in self.sums.iter_mut().zip(x).zip(g) {
                        *s += f64::from(*x) * f64::from(*g);
                    }
                }
            }
        }
    }
}

/// Σ over rows of g, or of x∘g, in f64: the gradient of a bias or of a gain.
pub(crate) fn column_sums(x: Option<&[f32]>, g: &[f32], width: usize) -> Vec<f64> {
    let mut sums = vec![0.0; width];
    wide(ColumnSums {
        x,
        g,
        sums: &mut sums,
    });
    sums
}

/// ‖x‖² of f64 values.
pub(crate) fn square(x: &[f64]) -> f64 {
    x.iter().map(|v| v * v).sum()
}

/// ‖Σ_{t: x_t = v} g_t‖² summed over tokens v: an embedding's squared norm.
pub(crate) fn table_norm(index: &[TokenId], g: &[f32], width: usize) -> f64 {
    let mut order: Vec<usize> = (0..index.len()).collect();
    order.sort_by_key(|row| index[*row]);
    let mut total = 0.0;
    let mut sum = vec![0.0f32; width];
    for same in order.chunk_by(|a, b| index[*a] == index[*b]) {
        let row = |r: usize| &g[r * width..(r + 1) * width];
        sum.copy_from_slice(row(same[0]));
        for r in &same[1..] {
            sum.iter_mut().zip(row(*r)).for_each(|(s, x)| *s += x);
        }
        total += sum_of_squares(&sum);
    }
    total
}

/// Σ_{t,s} δ[t, x_s] ⟨h_t, e_s⟩: the product of the head's and the embedding's gradients if both are one parameter. δ
/// is S × V and h is S × d for the rows that predict something, e is T × d.
pub(crate) fn cross_term(
    delta: &[f32],
    hidden: &[f32],
    embedded: &[f32],
    tokens: &[TokenId],
    (d, vocabulary): (usize, usize),
) -> f64 {
    let (t, asked) = (tokens.len(), delta.len() / vocabulary);
    if asked == 0 {
        return 0.0;
    }
    let mut inner = vec![0.0; asked * t];
    let e = View::new(embedded, d).transposed();
    dense_here(
        View::new(hidden, d),
        e,
        &mut inner,
        (asked, d, t),
        Store::Set,
        None,
    );
    let rows = inner.chunks_exact(t).zip(delta.chunks_exact(vocabulary));
    rows.map(|(inner, delta)| {
        let terms = inner.iter().zip(tokens);
        terms
            .map(|(x, token)| f64::from(*x) * f64::from(delta[*token as usize]))
            .sum::<f64>()
    })
    .sum()
}
