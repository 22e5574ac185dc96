//! Counted transfers between the host and a device, and values that are computed once per batch.

use burn::tensor::backend::Backend;
use burn::tensor::{Bool, Int, Tensor, TensorData};
use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Counts of transfers between the host and devices since the process began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Transfers {
    /// Tensors created from host memory.
    pub uploads: u64,
    /// Bytes of these tensors.
    pub uploaded: u64,
    /// Tensors read into host memory; each read waits for all pending work of the device.
    pub reads: u64,
    /// Bytes of these tensors.
    pub read: u64,
}

static COUNTS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

fn count(which: usize, bytes: usize) {
    COUNTS[which].fetch_add(1, Ordering::Relaxed);
    COUNTS[which + 1].fetch_add(bytes as u64, Ordering::Relaxed);
}

/// Returns the transfers so far.
#[must_use]
pub fn transfers() -> Transfers {
    let [uploads, uploaded, reads, read] = [0, 1, 2, 3].map(|i| COUNTS[i].load(Ordering::Relaxed));
    Transfers {
        uploads,
        uploaded,
        reads,
        read,
    }
}

/// Uploads values to the device.
pub(super) fn upload<B: Backend, const D: usize>(
    values: Vec<f32>,
    shape: [usize; D],
    device: &B::Device,
) -> Tensor<B, D> {
    count(0, values.len() * size_of::<f32>());
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// Uploads indices to the device.
pub(super) fn indices<B: Backend>(index: &[u32], device: &B::Device) -> Tensor<B, 1, Int> {
    count(0, size_of_val(index));
    let wide: Vec<i32> = index.iter().map(|i| *i as i32).collect();
    let length = wide.len();
    Tensor::from_data(TensorData::new(wide, [length]), device)
}

/// Uploads flags to the device.
pub(super) fn flags<B: Backend, const D: usize>(
    values: Vec<bool>,
    shape: [usize; D],
    device: &B::Device,
) -> Tensor<B, D, Bool> {
    count(0, values.len() * size_of::<u32>());
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// Reads values into host memory.
pub(super) fn host<B: Backend, const D: usize>(x: Tensor<B, D>) -> Vec<f32> {
    let values: Vec<f32> = x
        .into_data()
        .convert::<f32>()
        .into_vec()
        .expect("converted to f32");
    count(2, values.len() * size_of::<f32>());
    values
}

/// Reads whole numbers into host memory, with their bits unchanged.
#[cfg(any(feature = "cuda", feature = "wgpu"))]
pub(super) fn host_bits<B: Backend<IntElem = i32>>(x: Tensor<B, 1, Int>) -> Vec<u32> {
    let values: Vec<i32> = x.into_data().into_vec().expect("32 bits each");
    count(2, values.len() * size_of::<i32>());
    values.into_iter().map(i32::cast_unsigned).collect()
}

/// Values that are derived from a batch at their first use and then read by every layer.
#[derive(Clone, Default)]
pub(super) struct Kept(Arc<Mutex<Vec<KeptValue>>>);

/// The key of a value, a name and a number, and the value.
type KeptValue = ((&'static str, usize), Box<dyn Any + Send>);

impl Kept {
    /// Returns the value with this key, computed now if it was not before.
    pub(super) fn once<T: Clone + Send + 'static>(
        &self,
        name: &'static str,
        number: usize,
        make: impl FnOnce() -> T,
    ) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (name, number);
        let found = all.iter().filter(|(own, _)| *own == key);
        if let Some(kept) = found
            .filter_map(|(_, kept)| kept.downcast_ref::<T>())
            .next()
        {
            return kept.clone();
        }
        let made = make();
        all.push((key, Box::new(made.clone())));
        made
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Kept")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_made_once_for_each_name_and_kind() {
        let kept = Kept::default();
        let other = kept.clone();
        assert_eq!(kept.once("a", 0, || 1u32), 1);
        assert_eq!(other.once("a", 0, || 2u32), 1);
        assert_eq!(kept.once("a", 1, || 3u32), 3);
        assert_eq!(kept.once("b", 0, || 4u32), 4);
        assert_eq!(kept.once("a", 0, || 5u64), 5);
        assert_eq!(Kept::default().once("a", 0, || 6u32), 6);
    }

    #[test]
    fn what_crosses_is_counted() {
        let before = transfers();
        let x = upload::<burn_flex::Flex, 2>(vec![1.0; 6], [2, 3], &Default::default());
        assert_eq!(host(x), [1.0; 6]);
        let after = transfers();
        // other tests of this process may count too
        assert!(after.uploads > before.uploads && after.uploaded >= before.uploaded + 24);
        assert!(after.reads > before.reads && after.read >= before.read + 24);
    }
}
