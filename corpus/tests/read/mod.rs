//! Reading corpora: what is accepted, and what each bad input says.

mod folders;
mod formats;
mod packed;
mod refused;
mod templates;
mod users;

use reticent_corpus::Document;
use reticent_corpus::read::read_documents;
use std::io::Write;
use std::path::PathBuf;

const LINES: &str = "{\"id\":\"a\",\"text\":\"one\"}\n{\"id\":\"b\",\"text\":\"two\"}\n";

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

fn read(name: &str, bytes: &[u8]) -> Result<Vec<Document>, String> {
    let place = Place::new();
    let path = place.file(name, bytes);
    read_documents(&path).map_err(|error| {
        let text = error.to_string();
        let shown = path.display().to_string();
        assert!(text.starts_with(&shown), "{text} does not name {shown}");
        text[shown.len()..].to_owned()
    })
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}
