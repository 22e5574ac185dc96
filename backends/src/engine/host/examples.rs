//! Per-example norms of transformer layers from inputs and tapped gradients.
//!
//! With a the inputs (T × d) and g the gradients of the outputs (T × p) of one example, the gradient of the weight is
//! aᵀg. Its squared norm is computed either from the two Gram matrices or from the gradient itself, whichever is
//! cheaper; where rows cancel, from Gram matrices in f64 ([`crate::engine::bound`]). A computed gradient can be kept, so
//! that the clipped sum needs no second product. The choice depends on the example alone, so that its norm has the same
//! bits in any batch.

use super::gemm::{Store, View, dense_here};
use super::gram::gram;
use super::vector::{magnitudes, products, row_lengths, sum_of_squares, wide};
use crate::engine::bound::{FLOOR, Measured, rounding, rounding_of_rows};
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

/// ‖a_t‖ and ‖g_t‖ of each row.
pub(crate) struct Lengths {
    pub(crate) a: Vec<f64>,
    pub(crate) g: Vec<f64>,
}

impl Lengths {
    pub(crate) fn of(a: &[f32], g: &[f32], (_, d, p): (usize, usize, usize)) -> Self {
        Self {
            a: row_lengths(a, d),
            g: row_lengths(g, p),
        }
    }
    /// S = Σ_t ‖a_t‖‖g_t‖.
    fn spread(&self) -> f64 {
        spread(&self.a, &self.g)
    }
    /// R of a sum Σ_t a_t g_tᵀ.
    fn slack(&self) -> f64 {
        rounding_of_rows(self.a.len()) * self.spread()
    }
}

fn spread<X: Copy + Into<f64>>(a: &[X], g: &[X]) -> f64 {
    let pairs = a.iter().zip(g);
    pairs.map(|(a, g)| (*a).into() * (*g).into()).sum()
}

/// ρ of an entry of a Gram matrix, or of a product: sums of blocks and the blocks' sums.
fn rounding_of_products(width: usize) -> f64 {
    rounding(width.min(512) + width / 256 + 4)
}

wide! {
    /// Σ of x∘y, and D, over two symmetric T × T matrices of which the lower triangle is filled. Values off the
    /// diagonal count twice. `x_rows` and `y_rows` are lengths of the rows, and a little more; `rounding` is ρ of x and
    /// of y.
    fn symmetric_product(
        x: &[f32],
        y: &[f32],
        x_rows: &[f32],
        y_rows: &[f32],
        rounding: (f64, f64),
    ) -> (f64, f64) {
        let (t, (of_x, of_y)) = (x_rows.len(), rounding);
        let (mut below, mut on) = (0.0, 0.0);
        let (mut doubt_below, mut doubt_on) = (0.0, 0.0);
        for row in 0..t {
            let at = row * t..row * t + row;
            let (left_x, left_y) = (&x[at.clone()], &y[at.clone()]);
            let (own_x, own_y) = (f64::from(x_rows[row]), f64::from(y_rows[row]));
            below += products(left_x, left_y);
            doubt_below += of_x * own_x * magnitudes(left_y, &x_rows[..row])
                + of_y * own_y * magnitudes(left_x, &y_rows[..row]);
            let (x, y) = (f64::from(x[at.end]), f64::from(y[at.end]));
            on += x * y;
            doubt_on += of_x * own_x * own_x * y + of_y * own_y * own_y * x;
        }
        (on + 2.0 * below, doubt_on + 2.0 * doubt_below)
    }
}

/// ‖aᵀg‖² by Gram matrices in f32. Where the rows cancel, this may be far from the truth, and negative.
fn quick(a: &[f32], g: &[f32], lengths: &Lengths, (t, d, p): (usize, usize, usize)) -> Measured {
    let (x, y) = (gram(a, (t, d)), gram(g, (t, p)));
    // a row of zeros rounds nothing
    let longer = |x: &f64| if *x == 0.0 { 0.0 } else { (x + FLOOR) as f32 };
    let of_x: Vec<f32> = lengths.a.iter().map(longer).collect();
    let of_y: Vec<f32> = lengths.g.iter().map(longer).collect();
    let rounding = (rounding_of_products(d), rounding_of_products(p));
    let (squared, doubt) = symmetric_product(&x, &y, &of_x, &of_y, rounding);
    Measured {
        squared,
        doubt: doubt + rounding.0 * rounding.1 * spread(&of_x, &of_y).powi(2),
        slack: lengths.slack(),
    }
}

wide! {
    /// Σ over pairs of rows of ⟨a_s, a_t⟩⟨g_s, g_t⟩ in f64.
    fn exact_gram(a: &[f32], g: &[f32], shape: (usize, usize, usize)) -> f64 {
        let (t, d, p) = shape;
        let a = |row: usize| &a[row * d..(row + 1) * d];
        let g = |row: usize| &g[row * p..(row + 1) * p];
        let (mut below, mut on) = (0.0, 0.0);
        for s in 0..t {
            for t in 0..s {
                below += products(a(s), a(t)) * products(g(s), g(t));
            }
            on += products(a(s), a(s)) * products(g(s), g(s));
        }
        on + 2.0 * below
    }
}

/// The rounding of sums in f64, relative to S²: a sum of 2^19 products, as of 1 024 rows with each other, is off by 6e-11.
const EXACT: f64 = 1e-10;

/// ‖aᵀg‖² by products in f64.
pub(crate) fn exact_norm(
    a: &[f32],
    g: &[f32],
    lengths: &Lengths,
    shape: (usize, usize, usize),
) -> Measured {
    Measured {
        squared: exact_gram(a, g, shape),
        doubt: EXACT * lengths.spread().powi(2),
        slack: lengths.slack(),
    }
}

/// ‖aᵀg‖² by Gram matrices: in f32, or in f64 if that is doubtful.
pub(crate) fn gram_norm(
    a: &[f32],
    g: &[f32],
    lengths: &Lengths,
    shape: (usize, usize, usize),
) -> Measured {
    let quick = quick(a, g, lengths, shape);
    if quick.doubtful() {
        return exact_norm(a, g, lengths, shape);
    }
    quick
}

/// ‖aᵀg‖² of a gradient that was computed.
pub(crate) fn instantiated_norm(gradient: &[f32], lengths: &Lengths) -> Measured {
    of_computed(sum_of_squares(gradient), lengths)
}

/// The squared norm of a computed gradient, which is off as the share is.
fn of_computed(squared: f64, lengths: &Lengths) -> Measured {
    Measured {
        squared,
        doubt: 0.0,
        slack: 2.0 * lengths.slack(),
    }
}

/// aᵀg, d × p.
pub(crate) fn instantiated(a: &[f32], g: &[f32], (t, d, p): (usize, usize, usize)) -> Vec<f32> {
    let mut out = vec![0.0; d * p];
    let a = View::new(a, d).transposed();
    dense_here(a, View::new(g, p), &mut out, (d, t, p), Store::Set, None);
    out
}

wide! {
    /// Σ over rows of g, or of x∘g, in f64: the gradient of a bias or of a gain.
    fn column_sums(x: Option<&[f32]>, g: &[f32], width: usize) -> Vec<f64> {
        let mut sums = vec![0.0; width];
        match x {
            None => {
                for g in g.chunks_exact(width) {
                    for (s, g) in sums.iter_mut().zip(g) {
                        *s += f64::from(*g);
                    }
                }
            }
            Some(x) => {
                for (x, g) in x.chunks_exact(width).zip(g.chunks_exact(width)) {
                    for ((s, x), g) in sums.iter_mut().zip(x).zip(g) {
                        *s += f64::from(*x) * f64::from(*g);
                    }
                }
            }
        }
        sums
    }
}

/// ‖Σ_t g_t‖², the gradient of a bias, from the lengths of the rows g_t.
pub(crate) fn bias_norm(g: &[f32], lengths: &[f64], width: usize) -> Measured {
    of_rows(&column_sums(None, g, width), lengths)
}

/// ‖Σ_t x_t∘g_t‖², the gradient of a gain.
pub(crate) fn gain_norm(x: &[f32], g: &[f32], width: usize) -> Measured {
    let product: Vec<f32> = x.iter().zip(g).map(|(x, g)| x * g).collect();
    of_rows(
        &column_sums(Some(x), g, width),
        &row_lengths(&product, width),
    )
}

/// Sums of rows in f64: only their terms and the result are rounded.
fn of_rows(sums: &[f64], lengths: &[f64]) -> Measured {
    Measured {
        squared: sums.iter().map(|v| v * v).sum(),
        doubt: 0.0,
        slack: rounding_of_rows(0) * lengths.iter().sum::<f64>(),
    }
}

/// Calls `each` for every distinct token with the f64 sum of its rows of g and R of such a sum.
fn by_token(
    index: &[TokenId],
    g: &[f32],
    width: usize,
    mut each: impl FnMut(TokenId, &[f64], f64),
) {
    let mut order: Vec<usize> = (0..index.len()).collect();
    order.sort_by_key(|row| index[*row]);
    let lengths = row_lengths(g, width);
    let mut sum = vec![0.0f64; width];
    for same in order.chunk_by(|a, b| index[*a] == index[*b]) {
        sum.fill(0.0);
        for r in same {
            let row = &g[r * width..(r + 1) * width];
            sum.iter_mut()
                .zip(row)
                .for_each(|(s, x)| *s += f64::from(*x));
        }
        let spread: f64 = same.iter().map(|r| lengths[*r]).sum();
        each(index[same[0]], &sum, rounding_of_rows(same.len()) * spread);
    }
}

/// ‖Σ_{t: x_t = v} g_t‖² summed over tokens v: an embedding's squared norm.
pub(crate) fn table_norm(index: &[TokenId], g: &[f32], width: usize) -> Measured {
    let (mut squared, mut slack) = (0.0, 0.0f64);
    by_token(index, g, width, |_, sum, own| {
        squared += sum.iter().map(|v| v * v).sum::<f64>();
        slack += own * own;
    });
    Measured {
        squared,
        doubt: 0.0,
        slack: slack.sqrt(),
    }
}

/// The gradients of one matrix, V × d, that is embedding and head: δᵀh plus scale · g_t in the row of each token.
pub(crate) struct Tied<'a> {
    /// Rows that predict something: δ, S × V, and h, S × d.
    pub(crate) delta: &'a [f32],
    pub(crate) hidden: &'a [f32],
    /// ‖δ_t‖ and ‖h_t‖.
    pub(crate) lengths: &'a Lengths,
    /// Rows of the embedding: tokens, and g, T × d.
    pub(crate) tokens: &'a [TokenId],
    pub(crate) embedded: &'a [f32],
    pub(crate) scale: f64,
    /// d and V.
    pub(crate) sizes: (usize, usize),
}

impl Tied<'_> {
    /// The squared norm, by Gram matrices of the head.
    pub(crate) fn gram_norm(&self) -> Measured {
        let (d, vocabulary) = self.sizes;
        let (predictions, t) = (self.lengths.a.len(), self.tokens.len());
        let embedding = self.table_norm();
        if predictions == 0 {
            return embedding;
        }
        let shape = (predictions, vocabulary, d);
        let quick = quick(self.delta, self.hidden, self.lengths, shape) + embedding;
        let mut inner = vec![0.0; predictions * t];
        let e = View::new(self.embedded, d).transposed();
        let hidden = View::new(self.hidden, d);
        dense_here(hidden, e, &mut inner, (predictions, d, t), Store::Set, None);
        let rounding = rounding_of_products(d);
        let quick = quick + self.cross(rounding, |s, own| f64::from(inner[s * t + own]));
        if quick.doubtful() {
            self.exact_norm()
        } else {
            quick
        }
    }

    /// The squared norm, by products in f64.
    pub(crate) fn exact_norm(&self) -> Measured {
        let (d, vocabulary) = self.sizes;
        let shape = (self.lengths.a.len(), vocabulary, d);
        let inner = |s: usize, t: usize| {
            let (h, e) = (&self.hidden[s * d..][..d], &self.embedded[t * d..][..d]);
            products(h, e)
        };
        exact_norm(self.delta, self.hidden, self.lengths, shape)
            + self.table_norm()
            + self.cross(EXACT, inner)
    }

    /// The squared norm, from the head's part as computed.
    pub(crate) fn instantiated_norm(&self, head: &[f32]) -> Measured {
        let d = self.sizes.0;
        let mut squared = sum_of_squares(head);
        by_token(self.tokens, self.embedded, d, |token, sum, _| {
            let head = &head[token as usize * d..][..d];
            let both = head
                .iter()
                .zip(sum)
                .map(|(h, e)| (f64::from(*h), self.scale * e));
            // (h + e)² - h²
            squared += both.map(|(h, e)| e * (2.0 * h + e)).sum::<f64>();
        });
        let embedding = self.table_norm();
        Measured {
            slack: embedding.slack,
            doubt: EXACT * (sum_of_squares(head) + embedding.squared),
            squared,
        } + of_computed(0.0, self.lengths)
    }

    fn table_norm(&self) -> Measured {
        table_norm(self.tokens, self.embedded, self.sizes.0).scaled(self.scale)
    }

    /// 2 scale Σ_{t,s} δ[t, x_s] ⟨h_t, g_s⟩ from these products, which are off by `rounding`.
    fn cross(&self, rounding: f64, inner: impl Fn(usize, usize) -> f64) -> Measured {
        let (d, vocabulary) = self.sizes;
        let embedded = row_lengths(self.embedded, d);
        let (mut sum, mut spread) = (0.0, 0.0);
        let rows = self.delta.chunks_exact(vocabulary).zip(&self.lengths.g);
        for (s, (delta, hidden)) in rows.enumerate() {
            for (t, (token, embedded)) in self.tokens.iter().zip(&embedded).enumerate() {
                let delta = f64::from(delta[*token as usize]);
                sum += inner(s, t) * delta;
                spread += delta.abs() * hidden * embedded;
            }
        }
        Measured {
            squared: 2.0 * self.scale * sum,
            doubt: 2.0 * self.scale.abs() * rounding * spread,
            slack: 0.0,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failing test should panic")]
mod tests {
    use super::*;
    use crate::engine::bound::MARGIN;
    use crate::engine::host::gemm::weighted_product;
    use crate::privacy::clip::{Clip, Clipping, SquaredNorms};
    use rand::RngExt;
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    type Shape = (usize, usize, usize);

    /// Rows a, one vector of this length plus as much of others as `apart`, and g, in pairs that cancel but for
    /// `rest`.
    fn cancelling(seed: u64, (t, d, p): Shape, apart: f32, rest: f32) -> (Vec<f32>, Vec<f32>) {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut random =
            |n: usize| -> Vec<f32> { (0..n).map(|_| 2.0 * rng.random::<f32>() - 1.0).collect() };
        let (v, mut a, mut g) = (random(d), Vec::new(), Vec::new());
        for _ in 0..t / 2 {
            let own: Vec<f32> = v
                .iter()
                .zip(random(d))
                .map(|(v, x)| v + apart * x)
                .collect();
            let out = random(p);
            a.extend([own.clone(), own].concat());
            g.extend(&out);
            g.extend(out.iter().zip(random(p)).map(|(x, small)| rest * small - x));
        }
        (a, g)
    }

    /// The length of the share Σ_t f a_t g_tᵀ that goes into a sum.
    fn share(a: &[f32], g: &[f32], factor: f32, (t, d, p): Shape) -> f64 {
        let mut sum = vec![0.0; d * p];
        let (a, g) = (View::new(a, d).transposed(), View::new(g, p));
        weighted_product(
            a,
            Some(&vec![factor; t]),
            g,
            &mut sum,
            (d, t, p),
            Store::Add,
        );
        sum_of_squares(&sum).sqrt()
    }

    fn kinds() -> [Clipping; 3] {
        let automatic = Clipping::Automatic { stability: 0.01 };
        [Clipping::Flat, Clipping::PerLayer, automatic]
    }

    /// 150 records of 2 to 256 rows in pairs, seeds 0 to 149; what remains of a pair is 1e-1 to 1e-8 of it.
    #[test]
    fn no_share_of_rows_that_cancel_exceeds_the_clipping_norm() {
        let (mut lost, mut worst) = (0, 0.0f64);
        for seed in 0..150 {
            let t = 2 << (seed % 8);
            let shape = (
                t,
                3 + 17 * (seed as usize % 5),
                5 + 40 * (seed as usize % 7),
            );
            let rest = 10f32.powi(-1 - (seed / 8 % 8) as i32);
            let apart = if seed % 3 == 0 { 0.0 } else { 0.5 };
            let (a, g) = cancelling(seed, shape, apart, rest);
            let lengths = Lengths::of(&a, &g, shape);
            let truth = exact_norm(&a, &g, &lengths, shape).squared.max(0.0);
            let of_gram = quick(&a, &g, &lengths, shape);
            assert!(
                (of_gram.squared - truth).abs() <= of_gram.doubt,
                "{seed}: D is too small"
            );
            lost += usize::from(of_gram.squared < 0.25 * truth);
            let by_product = instantiated_norm(&instantiated(&a, &g, shape), &lengths);
            let by_gram = gram_norm(&a, &g, &lengths, shape);
            for measured in [by_gram, by_product] {
                let bound = measured.bound();
                // D up to a tenth of the square stays in the bound, on each side of what was computed
                assert!(
                    bound.sqrt() <= 1.11 * truth.sqrt() + 1e-4 * lengths.spread(),
                    "{seed}"
                );
                for (clip, kind) in [1e-3, 1.0, 1e3]
                    .into_iter()
                    .flat_map(|c| kinds().map(|k| (c, k)))
                {
                    let clip = Clip::new(clip, MARGIN).unwrap().by(kind).unwrap();
                    let factors = clip.factors(&SquaredNorms::new(1, vec![bound]).unwrap());
                    let reach = share(&a, &g, factors.of(0, 0), shape) / clip.norm();
                    worst = worst.max(reach);
                    assert!(
                        reach <= 1.0,
                        "seed {seed}, {kind:?}, {}: {reach}",
                        clip.norm()
                    );
                }
            }
        }
        assert!(
            lost > 10,
            "only {lost} records cancel beyond what Gram matrices tell"
        );
        assert!(worst > 0.999, "{worst}");
    }

    /// Rows that don't cancel keep the norm that Gram matrices give.
    #[test]
    fn ordinary_rows_keep_their_norm() {
        for (seed, t) in [2, 16, 64, 128].into_iter().enumerate() {
            let mut rng = ChaCha20Rng::seed_from_u64(seed as u64);
            let shape = (t, 96, 160);
            let mut random =
                |n: usize| -> Vec<f32> { (0..n).map(|_| rng.random::<f32>() - 0.4).collect() };
            let (a, g) = (random(t * 96), random(t * 160));
            let lengths = Lengths::of(&a, &g, shape);
            let truth = exact_norm(&a, &g, &lengths, shape);
            for found in [
                gram_norm(&a, &g, &lengths, shape),
                instantiated_norm(&instantiated(&a, &g, shape), &lengths),
            ] {
                assert!(
                    (found.bound() / truth.squared - 1.0).abs() < 1e-6,
                    "{t} rows"
                );
                assert_eq!(found.bound().to_bits(), found.squared.to_bits());
            }
        }
    }

    /// Embedding and head that cancel in one matrix: h = g and δ the negative of the tokens' one-hot rows.
    #[test]
    fn no_share_of_a_tied_matrix_exceeds_the_clipping_norm() {
        let (t, d, v) = (48, 24, 40);
        for seed in 0..40 {
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            let mut random = |n: usize, size: f32| -> Vec<f32> {
                (0..n)
                    .map(|_| size * (2.0 * rng.random::<f32>() - 1.0))
                    .collect()
            };
            let embedded = random(t * d, 3.0);
            let rest = 10f32.powi(-(seed as i32 % 8));
            let hidden: Vec<f32> = embedded
                .iter()
                .zip(random(t * d, rest))
                .map(|(x, y)| x + y)
                .collect();
            let tokens: Vec<TokenId> = random(t, 20.0)
                .iter()
                .map(|x| (x + 20.0) as TokenId % v as TokenId)
                .collect();
            let mut delta = vec![0.0; t * v];
            for (row, token) in tokens.iter().enumerate() {
                delta[row * v + *token as usize] = -1.5;
            }
            let lengths = Lengths::of(&delta, &hidden, (t, v, d));
            let tied = Tied {
                delta: &delta,
                hidden: &hidden,
                lengths: &lengths,
                tokens: &tokens,
                embedded: &embedded,
                scale: 1.5,
                sizes: (d, v),
            };
            let head = instantiated(&delta, &hidden, (t, v, d));
            let truth = tied.exact_norm().squared;
            for measured in [tied.gram_norm(), tied.instantiated_norm(&head)] {
                let bound = measured.bound();
                assert!(
                    bound.sqrt() <= 1.11 * truth.max(0.0).sqrt() + 1e-2,
                    "{seed}: {bound} for {truth}"
                );
                for kind in kinds() {
                    let clip = Clip::new(1e-3, MARGIN).unwrap().by(kind).unwrap();
                    let factors = clip.factors(&SquaredNorms::new(1, vec![bound]).unwrap());
                    let factor = factors.of(0, 0);
                    let mut sum = vec![0.0f32; v * d];
                    for (row, token) in tokens.iter().enumerate() {
                        let into = &mut sum[*token as usize * d..][..d];
                        let g = &embedded[row * d..][..d];
                        into.iter_mut()
                            .zip(g)
                            .for_each(|(s, x)| *s += factor * 1.5 * x);
                    }
                    let (x, h) = (View::new(&delta, v).transposed(), View::new(&hidden, d));
                    weighted_product(
                        x,
                        Some(&vec![factor; t]),
                        h,
                        &mut sum,
                        (v, t, d),
                        Store::Add,
                    );
                    let reach = sum_of_squares(&sum).sqrt() / 1e-3;
                    assert!(reach <= 1.0, "seed {seed}, {kind:?}: {reach}");
                }
            }
        }
    }

    /// Products of small values vanish in f32, and those of their rows with large ones don't.
    #[test]
    fn rows_whose_squares_vanish_have_a_norm() {
        let shape = (8, 30, 30);
        let (a, g) = (vec![1e-24f32; 8 * 30], vec![1e18f32; 8 * 30]);
        let lengths = Lengths::of(&a, &g, shape);
        let norm = gram_norm(&a, &g, &lengths, shape).bound().sqrt();
        assert!((norm / (8.0 * 30.0 * 1e-6) - 1.0).abs() < 1e-2, "{norm}");
    }

    #[test]
    fn an_undefined_row_leaves_no_norm() {
        let shape = (4, 6, 5);
        for value in [f32::NAN, f32::INFINITY] {
            let (mut a, g) = cancelling(1, shape, 0.5, 0.1);
            a[7] = value;
            let lengths = Lengths::of(&a, &g, shape);
            assert!(!gram_norm(&a, &g, &lengths, shape).bound().is_finite());
            assert!(!bias_norm(&a, &lengths.a, 6).bound().is_finite());
            assert!(!table_norm(&[1, 2, 1, 3], &a, 6).bound().is_finite());
        }
    }
}
