//! Parallel work with results in the order of the input.

use crate::error::Result;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Passes the items of `next` to `threads` workers, and their results in order to `emit`. At most three items per
/// worker are in progress, so a slow item delays the others, and memory stays bounded. Reading and emitting happen on
/// the caller's thread; with one thread, so does the work.
pub(crate) fn ordered<I: Send, T: Send>(
    threads: usize,
    mut next: impl FnMut() -> Result<Option<I>>,
    work: impl Fn(I) -> T + Sync,
    mut emit: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    if threads == 1 {
        while let Some(item) = next()? {
            emit(work(item))?;
        }
        return Ok(());
    }
    let (give, take) = channel::<(u64, I)>();
    let (done, results) = channel::<(u64, std::thread::Result<T>)>();
    let take = Mutex::new(take);
    std::thread::scope(|scope| {
        // Dropped when this closure ends; the workers then find no more items.
        let give = give;
        for _ in 0..threads {
            let done = done.clone();
            let (take, work) = (&take, &work);
            scope.spawn(move || worker(take, &done, work));
        }
        drop(done);
        let mut early: BTreeMap<u64, T> = BTreeMap::new();
        let (mut given, mut emitted, mut over) = (0u64, 0u64, false);
        loop {
            while !over && given - emitted < 3 * threads as u64 {
                match next()? {
                    Some(item) => {
                        // The receiver lives as long as this scope.
                        let _ = give.send((given, item));
                        given += 1;
                    }
                    None => over = true,
                }
            }
            if emitted == given {
                return Ok(());
            }
            // One at a time: the workers get another item before the next is emitted.
            if let Some(result) = early.remove(&emitted) {
                emitted += 1;
                emit(result)?;
                continue;
            }
            // Workers live as long as there are items.
            let Ok((number, result)) = results.recv() else {
                return Ok(());
            };
            early.insert(number, result.unwrap_or_else(|panic| resume_unwind(panic)));
        }
    })
}

/// Does the same until `emit` returns false, and returns false in this case. The mark that `next` returns with an item
/// is passed to `emit` with the item's result, although later items have been read by then.
pub(crate) fn until<I: Send, M: Send, T: Send>(
    threads: usize,
    mut next: impl FnMut() -> Result<Option<(I, M)>>,
    work: impl Fn(I) -> Result<T> + Sync,
    mut emit: impl FnMut(T, M) -> Result<bool>,
) -> Result<bool> {
    let stopped = Cell::new(false);
    ordered(
        threads,
        || {
            if stopped.get() {
                return Ok(None);
            }
            next()
        },
        |(item, mark)| (work(item), mark),
        |(made, mark)| {
            if !stopped.get() {
                stopped.set(!emit(made?, mark)?);
            }
            Ok(())
        },
    )?;
    Ok(!stopped.get())
}

fn worker<I, T>(
    take: &Mutex<Receiver<(u64, I)>>,
    done: &Sender<(u64, std::thread::Result<T>)>,
    work: &impl Fn(I) -> T,
) {
    loop {
        let item = take
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .recv();
        let Ok((number, item)) = item else { return };
        let result = catch_unwind(AssertUnwindSafe(|| work(item)));
        if done.send((number, result)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whichever_is_first() {
        for threads in [1, 4] {
            let mut items = (0..500u64).rev().map(|wait| 499 - wait);
            let mut out = Vec::new();
            ordered(
                threads,
                || Ok(items.next()),
                |item| {
                    // Every eighth is slow: the others overtake it.
                    if item % 8 == 0 {
                        std::thread::sleep(std::time::Duration::from_micros(200));
                    }
                    item * item
                },
                |square| {
                    out.push(square);
                    Ok(())
                },
            )
            .unwrap();
            assert_eq!(out, (0..500u64).map(|i| i * i).collect::<Vec<_>>());
        }
    }

    #[test]
    #[should_panic(expected = "item 7")]
    fn a_panic_of_a_worker_is_one_of_the_caller() {
        let mut items = 0..100;
        let _ = ordered(
            2,
            || Ok(items.next()),
            |item| assert!(item != 7, "item {item}"),
            |()| Ok(()),
        );
    }

    #[test]
    fn an_error_of_either_end_ends_it() {
        let wrong = || crate::error::Error::Empty("x".to_owned());
        let mut left = 10;
        let input = ordered(
            2,
            || {
                left -= 1;
                if left == 0 {
                    Err(wrong())
                } else {
                    Ok(Some(left))
                }
            },
            |item| item,
            |_| Ok(()),
        );
        assert!(input.is_err());
        let mut items = 0..1000;
        let mut seen = 0;
        let output = ordered(
            2,
            || Ok(items.next()),
            |item| item,
            |item| {
                seen += 1;
                if item == 5 { Err(wrong()) } else { Ok(()) }
            },
        );
        assert!(output.is_err());
        assert_eq!(seen, 6);
    }
}
