//! Activation functions as branch-free arithmetic that compilers vectorise.

/// tanh by a rational approximation (the [13/6] form used by tensor libraries); absolute error below 2e-7.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    // beyond ±7.9 tanh rounds to ±1 in f32
    let x = x.clamp(-7.905_311, 7.905_311);
    let s = x * x;
    let p = -2.760_768_5e-16_f32;
    let p = p * s + 2.000_188e-13;
    let p = p * s - 8.604_672e-11;
    let p = p * s + 5.122_297e-8;
    let p = p * s + 1.485_722_4e-5;
    let p = p * s + 6.372_619_3e-4;
    let p = p * s + 4.893_524_6e-3;
    let q = 1.198_258_4e-6_f32;
    let q = q * s + 1.185_347_1e-4;
    let q = q * s + 2.268_434_6e-3;
    let q = q * s + 4.893_525e-3;
    x * p / q
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    0.5 + 0.5 * tanh(0.5 * x)
}

/// e^x for x in [-87, 88], relative error below 2e-7; smaller arguments give 0-like values.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let x = x.clamp(-87.0, 88.0);
    // x = n ln 2 + r, |r| <= ln2 / 2; adding and subtracting 1.5 * 2^23 rounds to the nearest integer
    let magic = 12_582_912.0_f32;
    let rounded = x * std::f32::consts::LOG2_E + magic;
    let n = rounded - magic;
    let r = x - n * 0.693_359_4;
    let r = r + n * 2.121_944_4e-4;
    let p = 1.987_569_1e-4_f32;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let e = p * r * r + r + 1.0;
    // the lowest nine bits of `rounded` are those of n: no conversion, which would saturate
    let scale = f32::from_bits(rounded.to_bits().wrapping_add(127) << 23);
    e * scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agree_with_the_standard_library() {
        for i in -40_000..=40_000 {
            let x = i as f32 * 5e-4;
            assert!((tanh(x) - x.tanh()).abs() < 4e-7, "tanh {x}");
            assert!(
                (sigmoid(x) - 1.0 / (1.0 + (-x).exp())).abs() < 4e-7,
                "sigmoid {x}"
            );
            let e = f64::from(x).exp();
            assert!((f64::from(exp(x)) - e).abs() <= 3e-7 * e, "exp {x}");
        }
    }
}
