//! Applies the same work to many items on all cores.

/// Returns f of every item, in the order of the items.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = threads.min(items.len()).max(1);
    if threads == 1 {
        return items.iter().map(f).collect();
    }
    let f = &f;
    // Each thread takes every `threads`-th item, because neighbouring items cost about the same.
    let mut parts: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|first| {
                let mine = items.iter().skip(first).step_by(threads);
                scope.spawn(move || mine.map(f).collect::<Vec<R>>())
            })
            .collect();
        let joined = running.into_iter().map(|thread| thread.join());
        joined
            .map(|part| {
                part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                    .into_iter()
            })
            .collect()
    });
    (0..items.len())
        .filter_map(|index| parts[index % threads].next())
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_keep_their_order() {
        for count in [0usize, 1, 2, 3, 7, 100] {
            let items: Vec<usize> = (0..count).collect();
            let doubled: Vec<usize> = items.iter().map(|i| 2 * i).collect();
            assert_eq!(super::map(&items, |i| 2 * i), doubled);
        }
    }
}
