//! Finds the bytes of a rendered text that the template's `{% generation %}` blocks write.

use super::rendering::LARGEST;
use minijinja::value::{Kwargs, Object, Value};
use minijinja::{Error, State};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The marks around a block's text during rendering. They are Unicode noncharacters.
const MARKS: [char; 2] = ['\u{fdd0}', '\u{fdd1}'];

/// How many bytes a template has written, without marks, and the byte ranges of its blocks, each starting at the number
/// of bytes written when the block was called, which is where transformers takes a block's text to be.
#[derive(Debug, Default)]
pub(super) struct Progress {
    written: AtomicUsize,
    blocks: Mutex<Vec<Range<usize>>>,
}

impl Object for Progress {}

impl Progress {
    /// Returns the bytes of `text` that the blocks wrote; `marked` is the same text with marks. Returns `None` if the
    /// texts differ, or if a block's text is not where transformers takes it to be, because it is in a macro or a
    /// variable that is written later.
    pub(super) fn spans(&self, marked: &str, text: &str) -> Option<Vec<Range<usize>>> {
        let (mut spans, mut depth, mut begun) = (Vec::new(), 0_usize, 0);
        let mut plain = String::with_capacity(text.len());
        for c in marked.chars() {
            match MARKS.iter().position(|mark| *mark == c) {
                None => plain.push(c),
                Some(0) => {
                    begun = if depth == 0 { plain.len() } else { begun };
                    depth += 1;
                }
                Some(_) => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 && begun < plain.len() {
                        spans.push(begun..plain.len());
                    }
                }
            }
        }
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        (depth == 0 && plain == text && spans == *blocks).then_some(spans)
    }
}

/// Returns the text of a block between marks, and records its position.
pub(super) fn generation(
    state: &mut State<'_, '_>,
    progress: &Value,
    options: Kwargs,
) -> Result<Value, Error> {
    let text = options.get::<Value>("caller")?.call(state, &[])?;
    let text = text.as_str().unwrap_or_default();
    if let Some(progress) = progress.downcast_object_ref::<Progress>() {
        let start = progress.written.load(Ordering::Relaxed);
        let block = start..start + unmarked(text.as_bytes());
        let blocks = progress.blocks.lock();
        let mut blocks = blocks.unwrap_or_else(PoisonError::into_inner);
        // A nested block is part of this one.
        blocks.retain(|inside| inside.start < start || inside.end > block.end);
        blocks.extend((!block.is_empty()).then_some(block));
    }
    let [begin, end] = MARKS;
    Ok(Value::from(format!("{begin}{text}{end}")))
}

/// Returns the number of bytes of a text without marks.
fn unmarked(text: &[u8]) -> usize {
    let marks = MARKS.map(|mark| mark.to_string().into_bytes());
    let [begin, _] = &marks;
    let found = text
        .windows(begin.len())
        .filter(|part| marks.iter().any(|mark| mark == part));
    text.len() - begin.len() * found.count()
}

/// A text buffer with a size limit.
pub(super) struct Bounded {
    pub(super) text: Vec<u8>,
    pub(super) progress: Arc<Progress>,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.text.len() + bytes.len() > LARGEST {
            return Err(io::Error::other("too long"));
        }
        self.text.extend_from_slice(bytes);
        self.progress
            .written
            .fetch_add(unmarked(bytes), Ordering::Relaxed);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
