//! The textbook radix-2 transform, on complex numbers as pairs; `tests/common` takes it from here.

pub(crate) type Complex = (f64, f64);

fn times(a: Complex, b: Complex) -> Complex {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

pub(crate) fn power(base: Complex, mut exponent: u64) -> Complex {
    let (mut result, mut square) = ((1.0, 0.0), base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = times(result, square);
        }
        square = times(square, square);
        exponent >>= 1;
    }
    result
}

pub(crate) fn transform(data: &mut [Complex], sign: f64) {
    let n = data.len();
    let bits = n.trailing_zeros();
    for i in 0..n {
        let j = i.reverse_bits() >> (usize::BITS - bits);
        if i < j {
            data.swap(i, j);
        }
    }
    let angle = sign * std::f64::consts::TAU / n as f64;
    let roots: Vec<Complex> = (0..n / 2)
        .map(|k| (angle * k as f64).sin_cos())
        .map(|(sin, cos)| (cos, sin))
        .collect();
    let mut half = 1;
    while half < n {
        let stride = n / (2 * half);
        for block in data.chunks_exact_mut(2 * half) {
            let (left, right) = block.split_at_mut(half);
            for (k, (a, b)) in left.iter_mut().zip(right).enumerate() {
                let turned = times(*b, roots[k * stride]);
                *b = (a.0 - turned.0, a.1 - turned.1);
                *a = (a.0 + turned.0, a.1 + turned.1);
            }
        }
        half *= 2;
    }
}

/// The cyclic convolution of all of `parts`, each with itself so many times, and how far any entry may
/// be off. Every part is non-negative and sums to one, so every |transform| is at most one: a transform
/// of n = 2^b entries errs by less than 8b roundings, a T-th power by T times that and 4T, and
/// the transform back averages.
pub(crate) fn convolve(parts: &[(Vec<f64>, u64)]) -> (Vec<f64>, f64) {
    let n = parts[0].0.len();
    let mut whole = vec![(1.0, 0.0); n];
    let mut count = 0;
    for (mass, copies) in parts {
        let mut data: Vec<Complex> = mass.iter().map(|m| (*m, 0.0)).collect();
        transform(&mut data, -1.0);
        for (all, one) in whole.iter_mut().zip(&data) {
            *all = times(*all, power(*one, *copies));
        }
        count += copies;
    }
    transform(&mut whole, 1.0);
    let rounding = 8.0 * f64::from(n.trailing_zeros()) + 8.0;
    let error = (count as f64 + 1.0) * rounding * f64::EPSILON;
    (whole.iter().map(|z| z.0 / n as f64).collect(), error)
}
