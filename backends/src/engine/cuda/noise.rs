//! Noise drawn on the device: ChaCha20's words and the normals computed from them, with the bits of
//! [`crate::privacy::gaussian`].
//!
//! A thread computes three blocks of the cipher, which yield 16 pairs of normals. At the first use of a device a draw
//! is compared with the host's; if a single bit differs, the host draws for that device as long as the process runs.

#![expect(
    clippy::manual_rotate,
    clippy::needless_range_loop,
    reason = "kernels are written in what their language has: no rotation, and loops over numbers"
)]

use crate::engine::cubes::{floats, packed, room};
use crate::engine::layers::{Matrix, noised_on_host};
use crate::engine::transfers::{host, indices, upload};
use crate::privacy::gaussian::{COSINE, ODD, SINE};
use crate::privacy::random::{ChaChaNoise, MeanNoise, NOISE_BLOCK, RunKey};
use burn_cuda::{Cuda, CudaDevice};
use cubecl::cuda::CudaRuntime;
use cubecl::prelude::*;
use std::sync::{Mutex, PoisonError};

/// Threads for the 512 values of a chunk.
const LANES: usize = 16;
/// Values of a chunk; the first half takes the first normal of each pair.
const CHUNK: usize = 512;
/// Chunks under one key.
const CHUNKS: usize = NOISE_BLOCK / CHUNK;
/// Threads of a group.
const UNITS: u32 = 128;

pub(super) fn noised(sums: Vec<Matrix<Cuda>>, noise: &MeanNoise<'_>) -> Vec<Matrix<Cuda>> {
    static COMPARED: Mutex<Vec<(CudaDevice, bool)>> = Mutex::new(Vec::new());
    let draws = sums.first().is_some_and(|sum| {
        let device = sum.device();
        let mut compared = COMPARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, equal)) = compared.iter().find(|(known, _)| *known == device) {
            return *equal;
        }
        let equal = draws_as_the_host(&device);
        compared.push((device, equal));
        equal
    });
    if !draws {
        return noised_on_host(sums, noise);
    }
    let each = sums.into_iter().enumerate();
    each.map(|(tensor, sum)| by_threads(sum, tensor, noise))
        .collect()
}

/// Returns whether the device's draws have the host's bits, over more than one key and a partly filled chunk.
pub(in crate::engine) fn draws_as_the_host(device: &CudaDevice) -> bool {
    let drawn = ChaChaNoise::new(RunKey::from_seed(0));
    let noise = MeanNoise {
        noise: &drawn,
        step: (3 << 32) + 7,
        std: 0.37,
        divisor: 1.9,
    };
    // rows whose length is not a multiple of any alignment
    let (rows, columns) = (173, 193);
    let count = rows * columns;
    assert!(count > 2 * NOISE_BLOCK && !count.is_multiple_of(CHUNK));
    let values: Vec<f32> = (0..count).map(|i| (i as f32 * 0.618).sin()).collect();
    let there = by_threads(upload(values.clone(), [rows, columns], device), 5, &noise);
    let there = host(there);
    let mut here = values;
    noise.add_to(5, &mut here);
    there.len() == here.len()
        && there
            .iter()
            .zip(&here)
            .all(|(a, b)| a.to_bits() == b.to_bits())
}

fn by_threads(sum: Matrix<Cuda>, tensor: usize, noise: &MeanNoise<'_>) -> Matrix<Cuda> {
    let (shape, device) = (sum.dims(), sum.device());
    let values = shape[0] * shape[1];
    if values == 0 {
        return sum;
    }
    let keys = noise.noise.keys(tensor, values);
    let keys = indices::<Cuda>(&keys, &device).into_primitive();
    let sum = packed(sum);
    let client = sum.client.clone();
    let out = room(&sum, &shape, sum.dtype);
    let threads = values.div_ceil(CHUNK) * LANES;
    let [low, high] = [noise.step as u32, (noise.step >> 32) as u32];
    let halves = |x: f64| [x.to_bits() as u32, (x.to_bits() >> 32) as u32];
    let ([std_low, std_high], [divisor_low, divisor_high]) =
        (halves(noise.std), halves(noise.divisor));
    // SAFETY: every index is compared with the arrays' lengths before it is used.
    #[expect(unsafe_code, reason = "launches a kernel that checks its own indices")]
    unsafe {
        add_noise::launch_unchecked::<CudaRuntime>(
            &client,
            CubeCount::Static(threads.div_ceil(UNITS as usize) as u32, 1, 1),
            CubeDim::new_1d(UNITS),
            sum.into_array_arg(),
            out.clone().into_array_arg(),
            keys.into_array_arg(),
            low,
            high,
            std_low,
            std_high,
            divisor_low,
            divisor_high,
        );
    }
    floats(out)
}

#[cube(launch_unchecked)]
fn add_noise(
    sum: &Array<f32>,
    out: &mut Array<f32>,
    keys: &Array<u32>,
    step_low: u32,
    step_high: u32,
    std_low: u32,
    std_high: u32,
    divisor_low: u32,
    divisor_high: u32,
) {
    let chunk = ABSOLUTE_POS / LANES;
    let lane = ABSOLUTE_POS % LANES;
    let first = chunk * CHUNK;
    if first < sum.len() {
        let std = double(std_low, std_high);
        let divisor = double(divisor_low, divisor_high);
        let key = (chunk / CHUNKS) * 8;
        let group = (chunk % CHUNKS) * 3 * LANES + lane;
        let mut words = Array::<u32>::new(48usize);
        block(
            &mut words,
            keys,
            key,
            group as u32,
            step_low,
            step_high,
            0usize,
        );
        block(
            &mut words,
            keys,
            key,
            (group + LANES) as u32,
            step_low,
            step_high,
            16usize,
        );
        block(
            &mut words,
            keys,
            key,
            (group + 2 * LANES) as u32,
            step_low,
            step_high,
            32usize,
        );
        for k in 0..16usize {
            let radius = radius(words[k], words[16 + k]);
            let turn = turn(words[16 + k], words[32 + k]);
            let at = first + k * LANES + lane;
            write(sum, out, at, radius * sine(turn), std, divisor);
            write(
                sum,
                out,
                at + CHUNK / 2,
                radius * cosine(turn),
                std,
                divisor,
            );
        }
    }
}

#[cube]
fn write(sum: &Array<f32>, out: &mut Array<f32>, at: usize, normal: f64, std: f64, divisor: f64) {
    if at < sum.len() {
        let noised = f32::cast_from(fma(std, normal, f64::cast_from(sum[at])));
        out[at] = f32::cast_from(f64::cast_from(noised) / divisor);
    }
}

/// Returns the f64 with these bits.
#[cube]
fn double(low: u32, high: u32) -> f64 {
    f64::reinterpret((u64::cast_from(high) << 32u64) | u64::cast_from(low))
}

/// Returns 16 words of the cipher, starting at `at`.
#[cube]
fn block(
    words: &mut Array<u32>,
    keys: &Array<u32>,
    key: usize,
    counter: u32,
    step_low: u32,
    step_high: u32,
    #[comptime] at: usize,
) {
    let mut start = Array::<u32>::new(16usize);
    start[0] = 0x6170_7865u32;
    start[1] = 0x3320_646eu32;
    start[2] = 0x7962_2d32u32;
    start[3] = 0x6b20_6574u32;
    #[unroll]
    for i in 0..8usize {
        start[4 + i] = keys[key + i];
    }
    start[12] = counter;
    start[13] = 0u32;
    start[14] = step_low;
    start[15] = step_high;
    let mut s = Array::<u32>::new(16usize);
    #[unroll]
    for i in 0..16usize {
        s[i] = start[i];
    }
    for _ in 0..10usize {
        quarter(&mut s, 0usize, 4usize, 8usize, 12usize);
        quarter(&mut s, 1usize, 5usize, 9usize, 13usize);
        quarter(&mut s, 2usize, 6usize, 10usize, 14usize);
        quarter(&mut s, 3usize, 7usize, 11usize, 15usize);
        quarter(&mut s, 0usize, 5usize, 10usize, 15usize);
        quarter(&mut s, 1usize, 6usize, 11usize, 12usize);
        quarter(&mut s, 2usize, 7usize, 8usize, 13usize);
        quarter(&mut s, 3usize, 4usize, 9usize, 14usize);
    }
    #[unroll]
    for i in 0..16usize {
        words[at + i] = s[i] + start[i];
    }
}

#[cube]
fn quarter(
    s: &mut Array<u32>,
    #[comptime] a: usize,
    #[comptime] b: usize,
    #[comptime] c: usize,
    #[comptime] d: usize,
) {
    s[a] = s[a] + s[b];
    s[d] = turned(s[d] ^ s[a], 16u32);
    s[c] = s[c] + s[d];
    s[b] = turned(s[b] ^ s[c], 12u32);
    s[a] = s[a] + s[b];
    s[d] = turned(s[d] ^ s[a], 8u32);
    s[c] = s[c] + s[d];
    s[b] = turned(s[b] ^ s[c], 7u32);
}

#[cube]
fn turned(x: u32, by: u32) -> u32 {
    (x << by) | (x >> (32u32 - by))
}

/// [1, 2) from 52 bits.
#[cube]
fn unit(bits: u64) -> f64 {
    f64::reinterpret(bits | 0x3ff0_0000_0000_0000u64)
}

/// √(−2 ln u), u in (0, 1] from 52 bits.
#[cube]
fn radius(high: u32, middle: u32) -> f64 {
    let bits = (u64::cast_from(high) << 20u64) | u64::cast_from(middle >> 12u32);
    let u = 2.0f64 - unit(bits);
    f64::sqrt(-2.0f64 * logarithm(u))
}

/// An angle in turns, [-1/2, 1/2), from 44 bits.
#[cube]
fn turn(middle: u32, low: u32) -> f64 {
    let bits = (u64::cast_from(middle & 0xfffu32) << 32u64) | u64::cast_from(low);
    unit(bits << 8u64) - 1.5f64
}

#[cube]
fn logarithm(u: f64) -> f64 {
    let bits = u64::reinterpret(u);
    let exponent = f64::reinterpret((bits >> 52u64) | 0x4330_0000_0000_0000u64)
        - 4_503_599_627_370_496.0f64
        - 1023.0f64;
    let m = unit(bits & 0x000f_ffff_ffff_ffffu64);
    let large = m > constant(comptime!(std::f64::consts::SQRT_2));
    let m = select(large, 0.5f64 * m, m);
    let exponent = select(large, exponent + 1.0f64, exponent);
    let s = (m - 1.0f64) / (m + 1.0f64);
    let q = s * s;
    let mut sum = constant(comptime!(ODD[0]));
    #[unroll]
    for i in 1..9usize {
        sum = fma(sum, q, constant(comptime!(ODD[i])));
    }
    fma(
        exponent,
        constant(comptime!(std::f64::consts::LN_2)),
        2.0f64 * s * sum,
    )
}

#[cube]
fn constant(#[comptime] value: f64) -> f64 {
    comptime!(value).runtime()
}

/// sin 2πy for y = 1/4 - |turn|; beyond an eighth of a turn sine and cosine are exchanged.
#[cube]
fn sine(turn: f64) -> f64 {
    let y = 0.25f64 - f64::abs(turn);
    let far = f64::abs(y) > 0.125f64;
    let x = eighth(y, far);
    with_sign(select(far, long(x), short(x)), y)
}

#[cube]
fn cosine(turn: f64) -> f64 {
    let y = 0.25f64 - f64::abs(turn);
    let far = f64::abs(y) > 0.125f64;
    let x = eighth(y, far);
    with_sign(select(far, short(x), long(x)), turn)
}

#[cube]
fn eighth(y: f64, far: bool) -> f64 {
    let z = select(far, 0.25f64 - f64::abs(y), f64::abs(y));
    z * constant(comptime!(2.0 * std::f64::consts::PI))
}

#[cube]
fn with_sign(x: f64, sign: f64) -> f64 {
    let top = 0x8000_0000_0000_0000u64;
    f64::reinterpret((u64::reinterpret(x) & !top) | (u64::reinterpret(sign) & top))
}

/// sin x by its series.
#[cube]
fn short(x: f64) -> f64 {
    let q = x * x;
    let mut sum = constant(comptime!(SINE[0]));
    #[unroll]
    for i in 1..8usize {
        sum = fma(sum, q, constant(comptime!(SINE[i])));
    }
    x * sum
}

/// cos x by its series.
#[cube]
fn long(x: f64) -> f64 {
    let q = x * x;
    let mut sum = constant(comptime!(COSINE[0]));
    #[unroll]
    for i in 1..8usize {
        sum = fma(sum, q, constant(comptime!(COSINE[i])));
    }
    sum
}
