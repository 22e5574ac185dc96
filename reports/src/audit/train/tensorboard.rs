//! Writes the course of a run as an event file for TensorBoard.
//!
//! A file is a sequence of records: length (8 bytes, little-endian), its masked CRC-32C, the bytes, their masked
//! CRC-32C. Source: TensorFlow, `core/lib/io/record_writer.h`, `core/util/event.proto`, `core/framework/summary.proto`.
//! Each run of the command starts a new file; a run that resumes from a snapshot marks this, so that TensorBoard drops
//! what earlier files hold about steps that are taken again.

use super::log::Line;
use anyhow::{Context, Result};
use reticent_disk::{DiskFile, private_folder};
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// An event file in progress.
pub(super) struct Events {
    file: DiskFile,
    begun: bool,
}

impl Events {
    /// Creates a new file in a folder, which is created if missing; only their owner can read them, because the losses of
    /// single batches tell of private text.
    ///
    /// # Errors
    /// Returns an error if the folder or the file can't be created.
    pub(super) fn create(folder: &Path) -> Result<Self> {
        private_folder(folder).with_context(|| folder.display().to_string())?;
        let name = format!(
            "events.out.tfevents.{:.0}.{}.reticent",
            now(),
            std::process::id()
        );
        let path = folder.join(name);
        let file = DiskFile::create(&path).with_context(|| path.display().to_string())?;
        let mut events = Self { file, begun: false };
        events.event(0, &bytes(3, b"brain.Event:2"))?;
        Ok(events)
    }

    /// Writes a line of the log as scalars.
    ///
    /// # Errors
    /// Returns an error if the file can't be written.
    pub(super) fn write(&mut self, line: &Line) -> std::io::Result<()> {
        if !self.begun {
            self.begun = true;
            // SessionLog { status: START }: steps from here on replace those of earlier files.
            self.event(line.step(), &bytes(7, &[0x08, 1]))?;
        }
        for (tag, value) in line.scalars() {
            let mut scalar = bytes(1, tag.as_bytes());
            scalar.push(2 << 3 | 5);
            scalar.extend((value as f32).to_le_bytes());
            let summary = bytes(1, &scalar);
            self.event(line.step(), &bytes(5, &summary))?;
        }
        Ok(())
    }

    /// Writes an event: the time, the step, and the content.
    fn event(&mut self, step: u64, what: &[u8]) -> std::io::Result<()> {
        let mut event = vec![1 << 3 | 1];
        event.extend(now().to_le_bytes());
        event.push(2 << 3);
        event.extend(varint(step));
        event.extend_from_slice(what);
        self.file.write_all(&record(&event))
    }
}

/// Returns the seconds since 1970.
fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let parts: [&[u8]; 4] = [
        &length,
        &masked(crc32c(&length)).to_le_bytes(),
        data,
        &masked(crc32c(data)).to_le_bytes(),
    ];
    parts.concat()
}

const fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Computes CRC-32C (Castagnoli) bit by bit: a few hundred bytes a step don't justify a dependency.
fn crc32c(data: &[u8]) -> u32 {
    !data.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    })
}

/// Encodes a field of bytes for protocol buffers.
fn bytes(field: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![field << 3 | 2];
    out.extend(varint(content.len() as u64));
    out.extend_from_slice(content);
    out
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn only_the_owner_can_read_the_events() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("events");
        Events::create(&folder).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        for entry in std::fs::read_dir(&folder).unwrap() {
            assert_eq!(mode(&entry.unwrap().path()), 0o600);
        }
    }

    /// Check values: RFC 3720, B.4.
    #[test]
    fn the_checksum_is_that_of_castagnoli() {
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&rising), 0x46dd_794e);
    }

    #[test]
    fn varints_are_spelled_as_in_protocol_buffers() {
        assert_eq!(varint(0), [0]);
        assert_eq!(varint(127), [127]);
        assert_eq!(varint(300), [0xac, 0x02]);
    }

    /// The first record of a file of TensorFlow 2.15's `tf.summary` but for its time (24 bytes of data).
    #[test]
    fn a_record_is_framed_by_its_checksums() {
        let mut event = vec![0x09];
        event.extend(0f64.to_le_bytes());
        event.extend([0x1a, 0x0d]);
        event.extend(b"brain.Event:2");
        let framed = record(&event);
        assert_eq!(&framed[..8], &24u64.to_le_bytes());
        // Of the length 24, as in every such file: a3 7f 4b 22.
        assert_eq!(&framed[8..12], &[0xa3, 0x7f, 0x4b, 0x22]);
        assert_eq!(framed.len(), 8 + 4 + 24 + 4);
    }
}
