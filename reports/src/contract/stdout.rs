//! Output to a terminal: data on stdout, everything else on stderr, both through one sanitiser. A reader that stops
//! early is not an error.

#[cfg(feature = "findings")]
use super::files::is_stdout;
#[cfg(feature = "findings")]
use std::fs::{File, Metadata};
use std::io::{ErrorKind, IsTerminal, Write};
#[cfg(feature = "findings")]
use std::path::Path;

/// Writes a text to stdout, sanitised for a terminal ([`printable`]), and ends it with a newline if it has none.
///
/// A broken pipe (`account … | head -1`) counts as success: the reader has what it wanted.
///
/// # Errors
/// Returns any other error of the stream, for instance of a full disk.
pub fn print(text: &str) -> std::io::Result<()> {
    let shown = without_commands(&printable(text));
    write_to(&mut std::io::stdout().lock(), &shown)
}

/// Like [`print`], for a JSON document, which stays valid JSON ([`printable_json`]).
///
/// # Errors
/// Returns an error as [`print`] does.
pub fn print_json(text: &str) -> std::io::Result<()> {
    write_to(&mut std::io::stdout().lock(), &printable_json(text))
}

/// Sanitises a text for a terminal: escapes control characters except line breaks and tabs, and characters that
/// change the direction of writing. File names and file contents may hold any of them.
///
/// ```
/// use reticent_reports::contract::printable;
/// assert_eq!(printable("a\u{1b}[31m.csv\n"), "a\\u{1b}[31m.csv\n");
/// ```
#[must_use]
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Lines of which none is a command to the CI job that runs us: GitHub's runner obeys `::` at the beginning of a line,
/// behind spaces too, and `##[` anywhere. A kind or an id of a corpus may begin a row of a table.
fn without_commands(text: &str) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        let command = line.trim_start();
        match command.strip_prefix("::") {
            Some(rest) => {
                let spaces = &line[..line.len() - command.len()];
                format!("{spaces}\\u{{3a}}:{rest}")
            }
            None => line.to_owned(),
        }
    });
    lines.collect::<String>().replace("##[", "\\u{23}#[")
}

/// A JSON document as a terminal may see it: the same characters, which stand in strings only, as JSON's own
/// escapes.
#[must_use]
pub fn printable_json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            shown.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Stdout or another terminal for a stream of JSON. In a terminal, what it obeys is escaped ([`printable_json`]); where stdout
/// is a pipe or a file, it gets the bytes as they are.
#[cfg(feature = "findings")]
#[derive(Debug)]
pub struct JsonStream<W = Screen> {
    out: W,
    /// What of a line is not written yet; absent where nothing is escaped.
    line: Option<Vec<u8>>,
}

/// What a [`JsonStream`] writes to.
#[cfg(feature = "findings")]
#[derive(Debug)]
pub enum Screen {
    /// Stdout, whatever it is.
    Stdout(std::io::Stdout),
    /// A terminal.
    Terminal(File),
}

#[cfg(feature = "findings")]
impl JsonStream {
    /// Opens what a path names if it is stdout or a terminal.
    #[must_use]
    pub fn open(path: &Path) -> Option<Self> {
        if is_stdout(path) {
            let out = std::io::stdout();
            let line = out.is_terminal().then(Vec::new);
            let out = Screen::Stdout(out);
            return Some(Self { out, line });
        }
        Some(Self {
            out: Screen::Terminal(terminal(path)?),
            line: Some(Vec::new()),
        })
    }

    /// Returns what the stream is, where that can be found out: it must not be what is read.
    #[must_use]
    pub fn about(&self) -> Option<Metadata> {
        match &self.out {
            #[cfg(unix)]
            Screen::Stdout(out) => {
                use std::os::fd::AsFd;
                let out = out.as_fd().try_clone_to_owned().ok()?;
                File::from(out).metadata().ok()
            }
            #[cfg(not(unix))]
            Screen::Stdout(_) => None,
            Screen::Terminal(file) => file.metadata().ok(),
        }
    }
}

/// Opens a terminal. Nothing else is opened: opening a pipe could block.
#[cfg(feature = "findings")]
fn terminal(path: &Path) -> Option<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let about = std::fs::metadata(path).ok()?;
        let device = about.file_type().is_char_device();
        let open = || File::options().write(true).open(path).ok();
        let file = device.then(open).flatten()?;
        file.is_terminal().then_some(file)
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

#[cfg(feature = "findings")]
impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Stdout(out) => out.write(bytes),
            Self::Terminal(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Stdout(out) => out.flush(),
            Self::Terminal(file) => file.flush(),
        }
    }
}

#[cfg(feature = "findings")]
impl<W: Write> Write for JsonStream<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let Some(line) = &mut self.line else {
            return self.out.write(bytes);
        };
        line.extend_from_slice(bytes);
        if bytes.contains(&b'\n') {
            self.write_held()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.write_held()?;
        self.out.flush()
    }
}

#[cfg(feature = "findings")]
impl<W: Write> JsonStream<W> {
    /// Writes what is held, up to a character that is not whole yet.
    fn write_held(&mut self) -> std::io::Result<()> {
        let Some(line) = &mut self.line else {
            return Ok(());
        };
        let whole = str::from_utf8(line).map_or_else(|error| error.valid_up_to(), str::len);
        let held: Vec<u8> = line.drain(..whole).collect();
        let text = String::from_utf8_lossy(&held);
        self.out.write_all(printable_json(&text).as_bytes())
    }
}

/// Like [`printable`], on one line of at most `most` characters.
#[must_use]
pub(crate) fn in_one_line(text: &str, most: usize) -> String {
    let mut line = printable(text).replace(['\n', '\t'], " ");
    if let Some((end, _)) = line.char_indices().nth(most) {
        line.truncate(end);
        line.push('…');
    }
    line
}

/// Returns whether a character moves the cursor, changes the direction of writing, breaks the line, or is not allowed
/// in XML.
fn is_hidden(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let breaks = matches!(c, '\u{2028}' | '\u{2029}');
    let absent = matches!(c, '\u{fffe}' | '\u{ffff}');
    turns || breaks || absent || c.is_control() && c != '\n' && c != '\t'
}

/// Writes a line to stderr, sanitised for a terminal. Errors are ignored: nobody reads a closed stderr.
pub fn note(line: &str) {
    let shown = without_commands(&printable(&indented(line)));
    let _ = writeln!(std::io::stderr(), "{shown}");
}

/// Writes a line as [`note`] does, if somebody watches.
pub(crate) fn note_to_terminal(line: &str) {
    if std::io::stderr().is_terminal() {
        note(line);
    }
}

/// Indents all lines after the first, so that a line break in a file's name can't begin a line that looks like one of
/// ours.
fn indented(text: &str) -> String {
    text.replace('\n', "\n    ")
}

/// Returns whether stdout was open when the process began. The standard library opens a closed stdout as /dev/null
/// before any of our code runs, and the answer would be lost.
pub(super) fn is_open() -> bool {
    !closed::AT_START.load(std::sync::atomic::Ordering::Relaxed)
}

mod closed {
    use std::sync::atomic::AtomicBool;
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    use std::sync::atomic::Ordering;

    pub(super) static AT_START: AtomicBool = AtomicBool::new(false);

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(
        unsafe_code,
        reason = "a look before the standard library opens what is closed"
    )]
    mod look {
        use super::{AT_START, Ordering};

        extern "C" fn look() {
            // SAFETY: reads the flags of a descriptor, open or not, and touches nothing else.
            let flags = unsafe { libc::fcntl(1, libc::F_GETFD) };
            AT_START.store(flags == -1, Ordering::Relaxed);
        }

        // SAFETY: the loader calls what lies in this section once, before main, with arguments that `look` ignores.
        #[used]
        #[unsafe(link_section = ".init_array")]
        static LOOK: extern "C" fn() = look;
    }
}

fn write_to(out: &mut impl Write, text: &str) -> std::io::Result<()> {
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    let written = out
        .write_all(text.as_bytes())
        .and_then(|()| out.write_all(newline.as_bytes()))
        .and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_line_break_looks_like_no_line_of_ours() {
        let lines = indented("error: a\nerror: b.jsonl: not found");
        assert!(lines.lines().skip(1).all(|line| line.starts_with("    ")));
    }

    #[test]
    fn nothing_moves_the_cursor() {
        let text = "a\u{1b}[2J\u{7}\r\u{9b}1m\u{202e}b\tc\n";
        let shown = printable(text);
        assert!(
            shown
                .chars()
                .all(|c| !c.is_control() || c == '\n' || c == '\t'),
            "{shown:?}"
        );
        assert!(!shown.contains('\u{202e}') && shown.ends_with("b\tc\n"));
        assert_eq!(printable("ε ≤ 1,\n“ok”"), "ε ≤ 1,\n“ok”");
        let json = serde_json::to_string("a\u{9b}1m\u{202e}b").unwrap();
        let shown = printable_json(&json);
        assert_eq!(shown, r#""a\u009b1m\u202eb""#);
        assert_eq!(
            serde_json::from_str::<String>(&shown).unwrap(),
            "a\u{9b}1m\u{202e}b"
        );
    }

    /// However the bytes are cut, also within a character.
    #[cfg(feature = "findings")]
    #[test]
    fn a_stream_of_json_moves_no_cursor_either() {
        let text = "{\"text\":\"a\u{9b}31m\u{7f}\u{202e}é\"}\n{}";
        for size in [1, 2, 3, 100] {
            let streamed = |line| {
                let mut stream = JsonStream {
                    out: Vec::new(),
                    line,
                };
                for part in text.as_bytes().chunks(size) {
                    stream.write_all(part).unwrap();
                }
                stream.flush().unwrap();
                String::from_utf8(stream.out).unwrap()
            };
            assert_eq!(streamed(None), text);
            let shown = streamed(Some(Vec::new()));
            assert_eq!(shown, printable_json(text));
            assert!(shown.contains("\\u009b31m\\u007f\\u202eé"), "{shown}");
        }
    }

    /// By its own name too, in which nothing says that it is one.
    #[cfg(all(feature = "findings", unix))]
    #[test]
    fn a_terminal_is_known_whatever_its_name() {
        use crate::contract::AtomicFile;
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        use std::io::Read;
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&near).unwrap();
        unlockpt(&near).unwrap();
        let name = ptsname(&near, Vec::new()).unwrap().into_string().unwrap();
        // Held open: what is written could be lost at the last close.
        let _held = terminal(Path::new(&name)).unwrap();
        let mut file = AtomicFile::create_new_or_stdout(Path::new(&name), false, &[]).unwrap();
        file.write_all("{\"text\":\"a\u{9b}31m\"}\n".as_bytes())
            .unwrap();
        file.finish().unwrap();
        let mut shown = [0; 100];
        let length = File::from(near).read(&mut shown).unwrap();
        let shown = str::from_utf8(&shown[..length]).unwrap();
        assert_eq!(shown.trim_end(), r#"{"text":"a\u009b31m"}"#);
        assert!(JsonStream::open(Path::new("/dev/stdout")).is_some());
        assert!(JsonStream::open(Path::new("/dev/null")).is_none());
    }

    #[test]
    fn no_line_is_a_command_to_a_ci_job() {
        let text = "kind  count\n::error::x  1\n  ::set-output name=a::b  2\na::b  3\n### [x]\na ##[error]b";
        let shown = without_commands(text);
        for line in shown.lines() {
            assert!(!line.trim_start().starts_with("::") && !line.contains("##["));
        }
        assert_eq!(
            shown,
            "kind  count\n\\u{3a}:error::x  1\n  \\u{3a}:set-output name=a::b  2\na::b  3\n### [x]\na \\u{23}#[error]b"
        );
        assert_eq!(without_commands("a\n\n"), "a\n\n");
    }

    struct Closed(ErrorKind);
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_is_success_and_a_full_disk_is_not() {
        assert!(write_to(&mut Closed(ErrorKind::BrokenPipe), "x").is_ok());
        assert!(write_to(&mut Closed(ErrorKind::StorageFull), "x").is_err());
    }

    #[test]
    fn a_text_ends_with_exactly_one_newline() {
        for text in ["a", "a\n"] {
            let mut out = Vec::new();
            write_to(&mut out, text).unwrap();
            assert_eq!(out, b"a\n");
        }
    }
}
