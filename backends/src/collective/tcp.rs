//! Workers as processes, on one machine or several, over TCP. All of them connect to rank 0.
//!
//! Sums before noise and the run's key travel over these links. The links are encrypted and authenticated by a key that
//! all workers share (Noise, pattern `NNpsk0`), or do not leave the machine.

use super::{Collective, gone, sum_pairs};
use crate::error::{Error, Result};
use snow::{Builder, TransportState};
use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs,
};
use std::ops::Range;
use std::time::{Duration, Instant};

/// The first bytes of both sides, in the clear: a name and, in the last two, the version of the protocol. All versions begin
/// with them.
const HELLO: &[u8; 16] = b"reticent-train-4";
/// Length of the name in [`HELLO`] in bytes.
const NAME: usize = 14;
/// What a side of another version is.
const OTHER_VERSION: &str = "another version of audit; all workers must run the same one";
/// The message of rank 0 to a worker whose greeting it accepts.
const WELCOME: &[u8; 16] = b"reticent-known-4";
/// The message of rank 0 to the others once all of them are there.
const BEGIN: &[u8; 16] = b"reticent-begin-4";
/// The message of rank 0 to the others that are there if it ends before all of them are.
const END: &[u8; 16] = b"reticent-ended-4";
const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";
/// Maximum length of a message of the Noise protocol in bytes, authentication code included.
const MESSAGE: usize = 65_535;
const CODE: usize = 16;
/// Length of the length of a message in bytes.
const LENGTH: usize = 2;
/// Maximum length of a frame that is not a tensor: positions, counts, a description.
const WORDS: u64 = 1 << 30;
/// How long a caller may take to identify itself, and how many callers may be doing so at once.
const HANDSHAKE: Duration = Duration::from_secs(10);
const CALLERS: usize = 64;
/// Maximum length of a frame in bytes until all workers are there.
const GREETING: u64 = 16;
/// How often a worker retries while rank 0 does not listen yet.
const KNOCK: Duration = Duration::from_millis(100);

/// Options of one worker: its rank and how to reach the others.
#[derive(Clone)]
pub struct TcpOptions {
    /// This worker's number, from 0.
    pub rank: usize,
    /// Number of workers.
    pub world: usize,
    /// The address at which rank 0 is reached, host:port.
    pub address: String,
    /// The secret that all workers share; without it all of them must be on this machine.
    pub key: Option<[u8; 32]>,
    /// How long a worker may be silent.
    pub patience: Duration,
    /// Shows the first refused call, for which the worker does not end.
    pub note: fn(&str),
}

impl std::fmt::Debug for TcpOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TcpOptions")
            .field("rank", &self.rank)
            .field("world", &self.world)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// The workers of a run, as seen by one of them.
pub struct Tcp {
    rank: usize,
    world: usize,
    /// On rank 0 the links to ranks 1, 2, …; on others the link to rank 0.
    links: Vec<Link>,
    /// On rank 0, a buffer for a tensor of each link.
    parts: Vec<Vec<f32>>,
}

impl Tcp {
    /// Waits until all workers are connected.
    ///
    /// # Errors
    /// Returns [`Error::Worker`] if the address does not exist or, without a key, is not this machine's own, or if a
    /// worker does not come in time, comes twice, or has another key, or if rank 0 is another version of audit.
    pub fn connect(options: &TcpOptions) -> Result<Self> {
        let TcpOptions { rank, world, .. } = *options;
        if world == 0 || rank >= world {
            return Err(Error::Worker(format!(
                "the rank must lie in [0, {world}), got {rank}"
            )));
        }
        let links = match (world, rank) {
            (1, _) => Vec::new(),
            (_, 0) => listen(options)?,
            _ => vec![call(options)?],
        };
        let parts = vec![Vec::new(); links.len()];
        Ok(Self {
            rank,
            world,
            links,
            parts,
        })
    }
}

/// Returns the addresses of rank 0; without a key, those on this machine. `None` is a name without an address, which it
/// may get later.
fn addresses(options: &TcpOptions) -> Result<Option<Vec<SocketAddr>>> {
    let wrong = |why: String| Error::Worker(format!("{}: {why}", options.address));
    let mut found: Vec<SocketAddr> = match options.address.to_socket_addrs() {
        Ok(found) => found.collect(),
        Err(e) if e.kind() == ErrorKind::InvalidInput => return Err(wrong(e.to_string())),
        Err(_) => return Ok(None),
    };
    if found.is_empty() {
        return Ok(None);
    }
    if options.key.is_none() {
        found.retain(|address| address.ip().is_loopback());
    }
    if found.is_empty() {
        return Err(wrong(
            "sums before noise would cross the network in the clear: give all workers a key (--worker-key)".into(),
        ));
    }
    Ok(Some(found))
}

/// Explains that the name of rank 0 has no address.
fn unknown(options: &TcpOptions) -> String {
    let (address, within) = (&options.address, options.patience.as_secs());
    format!("{address}: no such host within {within} s")
}

/// Returns the addresses of which rank 0 listens on the first that it can.
///
/// A machine may resolve its own name to other addresses than other machines do: to a loopback address, as with Debian's
/// `/etc/hosts`, or to IPv6 alone. With a key, rank 0 then listens on all its addresses. An address in numbers and
/// `localhost` are the same everywhere and are taken as they are.
fn listening(options: &TcpOptions, found: &[SocketAddr]) -> Vec<SocketAddr> {
    let (parsed, address) = (options.address.parse::<SocketAddr>(), &options.address);
    let same_everywhere = parsed.is_ok() || address.starts_with("localhost:");
    if same_everywhere || options.key.is_none() {
        return found.iter().take(1).copied().collect();
    }
    let port = found.first().map_or(0, SocketAddr::port);
    let all = |ip: IpAddr| SocketAddr::new(ip, port);
    let (v6, v4) = (
        all(Ipv6Addr::UNSPECIFIED.into()),
        all(Ipv4Addr::UNSPECIFIED.into()),
    );
    // Windows and the BSDs take no calls over IPv4 at an address of IPv6.
    if cfg!(any(target_os = "linux", target_os = "macos")) {
        vec![v6, v4]
    } else {
        vec![v4, v6]
    }
}

/// The number of a caller, and the result of its handshake.
type Answered = (usize, std::io::Result<(usize, Link)>);

/// Rank 0: returns the links to ranks 1, 2, …; if it ends before all of them are there, so do those that are.
fn listen(options: &TcpOptions) -> Result<Vec<Link>> {
    let mut links: Vec<Option<Link>> = (1..options.world).map(|_| None).collect();
    let gathered = gather(options, &mut links);
    let mut links: Vec<Link> = links.into_iter().flatten().collect();
    if let Err(error) = gathered {
        for link in &mut links {
            // It may be gone as well.
            let _ = link.tell(END);
        }
        return Err(error);
    }
    for (link, rank) in links.iter_mut().zip(1..) {
        link.tell(BEGIN).map_err(|e| lost(rank, &e))?;
    }
    Ok(links)
}

/// Fills the links to ranks 1, 2, …
///
/// Every caller is answered by its own thread and disconnected after [`HANDSHAKE`], or when [`CALLERS`] others have come
/// since, so that strangers delay nobody. All workers begin when each of them has an open link; one that was started
/// again before takes the place of its closed link.
fn gather(options: &TcpOptions, links: &mut [Option<Link>]) -> Result<()> {
    let address = &options.address;
    let refused = |e: std::io::Error| Error::Worker(format!("can't listen on {address}: {e}"));
    let began = Instant::now();
    let found = loop {
        if let Some(found) = addresses(options)? {
            break found;
        }
        if began.elapsed() >= options.patience {
            return Err(Error::Worker(unknown(options)));
        }
        std::thread::sleep(KNOCK);
    };
    let listener = TcpListener::bind(&listening(options, &found)[..]).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    let (tell, heard) = std::sync::mpsc::channel::<Answered>();
    let mut callers: Vec<(usize, TcpStream, Instant)> = Vec::new();
    let (mut number, mut refusals) = (0, 0);
    let free = |link: &Option<Link>| link.as_ref().is_none_or(Link::is_closed);
    while let Some(missing) = links.iter().position(free) {
        while let Ok((caller, answered)) = heard.try_recv() {
            let place = callers.iter().position(|(number, ..)| *number == caller);
            let known = place.map(|place| callers.remove(place));
            // One that was disconnected meanwhile calls again.
            let (rank, mut link) = match (known, answered) {
                (Some(_), Ok(there)) => there,
                (_, answered) => {
                    if refusals == 0 {
                        let why = match answered.err().filter(is_other_version) {
                            Some(other) => format!("a caller was refused: it is {other}"),
                            None => REFUSED.to_owned(),
                        };
                        (options.note)(&format!("{why}; goes on waiting"));
                    }
                    refusals += 1;
                    continue;
                }
            };
            match links.get_mut(rank.wrapping_sub(1)) {
                Some(slot) if free(slot) => *slot = Some(link),
                _ if link.is_closed() => {}
                _ => {
                    let _ = link.tell(END);
                    return Err(Error::Worker(format!("worker {rank} is there twice")));
                }
            }
        }
        while let Some((_, stream, since)) = callers.first()
            && (since.elapsed() >= HANDSHAKE || callers.len() > CALLERS)
        {
            // The connection may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
            callers.remove(0);
        }
        if began.elapsed() > options.patience {
            return Err(Error::Worker(format!(
                "worker {} did not come to {address} within {} s (with the same version of audit, key and WORLD_SIZE){}",
                missing + 1,
                options.patience.as_secs(),
                refused_callers(refusals + callers.len())
            )));
        }
        match listener.accept() {
            Ok((stream, _)) => {
                let Ok(own) = stream.try_clone() else {
                    continue;
                };
                number += 1;
                callers.push((number, own, Instant::now()));
                let (tell, options) = (tell.clone(), options.clone());
                std::thread::spawn(move || {
                    // Once all workers are connected, nobody receives this any more.
                    let _ = tell.send((number, answer(stream, &options)));
                });
            }
            Err(e) => match e.kind() {
                // Nobody calls, or a caller has gone.
                ErrorKind::WouldBlock | ErrorKind::ConnectionAborted => {
                    std::thread::sleep(KNOCK / 10);
                }
                _ => return Err(refused(e)),
            },
        }
    }
    for (_, stream, _) in callers {
        let _ = stream.shutdown(Shutdown::Both);
    }
    Ok(())
}

/// Explains a caller that is no worker of this run.
const REFUSED: &str = "a caller was refused or said nothing: it has another version of audit, key or WORLD_SIZE, or is no worker";

/// Explains why a worker may not have come.
fn refused_callers(count: usize) -> String {
    match count {
        0 => String::new(),
        _ => format!(
            "; {count} callers were refused or said nothing: they have another version of audit, key or WORLD_SIZE, or are no workers"
        ),
    }
}

/// Performs the handshake with a caller, and returns its rank and link.
fn answer(stream: TcpStream, options: &TcpOptions) -> std::io::Result<(usize, Link)> {
    stream.set_nonblocking(false)?;
    let mut link = Link::new(stream, options.key.as_ref(), false, HANDSHAKE)?;
    let [rank, world] = read_numbers(&link.words_up_to(GREETING)?)?;
    if world != options.world as u64 || !(1..world).contains(&rank) {
        return Err(broken());
    }
    link.tell(WELCOME)?;
    link.be_patient(options.patience)?;
    Ok((rank as usize, link))
}

/// Other ranks: returns the link to rank 0, at the first of its addresses that answers, once all workers are there.
fn call(options: &TcpOptions) -> Result<Link> {
    call_one_of(|| addresses(options), options)
}

fn call_one_of(
    addresses: impl Fn() -> Result<Option<Vec<SocketAddr>>>,
    options: &TcpOptions,
) -> Result<Link> {
    let began = Instant::now();
    // An address that swallows calls must not take the time of the others.
    let each = options.patience.min(HANDSHAKE);
    let within = options.patience.as_secs();
    // A refusal tells more than silence.
    let (mut refused, mut silent) = (None, String::new());
    let mut noted = false;
    loop {
        let found = addresses()?;
        if found.is_none() {
            silent = unknown(options);
        }
        for address in found.iter().flatten() {
            match TcpStream::connect_timeout(address, each) {
                Ok(stream) => match greet(stream, options, each) {
                    Ok(mut link) => match link.words_up_to(GREETING) {
                        Ok(words) if words == BEGIN => return Ok(link),
                        Ok(words) if words == END => {
                            return Err(Error::Worker(
                                "worker 0 ended before all workers had come; its own message says why".into(),
                            ));
                        }
                        // Worker 0 may be started again.
                        ended => {
                            let why = ended.err().unwrap_or_else(broken);
                            (refused, silent) = (None, lost(0, &why).to_string());
                        }
                    },
                    Err(e) if is_other_version(&e) => {
                        return Err(Error::Worker(format!("worker 0 at {address} is {e}")));
                    }
                    Err(e) => {
                        let why = match silence(&e) {
                            true => format!(
                                "what listens at {address} said nothing within {} s",
                                each.as_secs_f64()
                            ),
                            false => format!("worker 0 refused the call at {address} ({e})"),
                        };
                        let why = format!(
                            "{why}; it must have the same version of audit, key and WORLD_SIZE"
                        );
                        if !std::mem::replace(&mut noted, true) {
                            (options.note)(&format!("{why}; goes on calling for {within} s"));
                        }
                        refused = Some(why);
                    }
                },
                Err(e) => {
                    silent =
                        format!("worker 0 did not listen at {address} within {within} s ({e})");
                }
            }
        }
        if began.elapsed() >= options.patience {
            return Err(Error::Worker(refused.unwrap_or(silent)));
        }
        std::thread::sleep(KNOCK);
    }
}

/// Performs the handshake with rank 0, of which each message may take so long.
fn greet(stream: TcpStream, options: &TcpOptions, handshake: Duration) -> std::io::Result<Link> {
    let mut link = Link::new(stream, options.key.as_ref(), true, handshake)?;
    let numbers = [options.rank as u64, options.world as u64];
    link.tell(&write_numbers(&numbers))?;
    if link.words_up_to(GREETING)? != WELCOME {
        return Err(broken());
    }
    link.be_patient(options.patience)?;
    Ok(link)
}

impl Collective for Tcp {
    fn rank(&self) -> usize {
        self.rank
    }
    fn world(&self) -> usize {
        self.world
    }
    fn sum_to_zero(&mut self, values: &mut [f32]) -> Result<()> {
        if self.rank > 0 {
            return self.links[0].tell_values(values).map_err(|e| lost(0, &e));
        }
        if self.links.is_empty() {
            return Ok(());
        }
        for ((link, part), rank) in self.links.iter_mut().zip(&mut self.parts).zip(1..) {
            part.resize(values.len(), 0.0);
            link.values(part).map_err(|e| lost(rank, &e))?;
        }
        sum_pairs(values, &mut self.parts);
        Ok(())
    }
    fn broadcast(&mut self, values: &mut [f32]) -> Result<()> {
        if self.rank > 0 {
            return self.links[0].values(values).map_err(|e| lost(0, &e));
        }
        for (link, rank) in self.links.iter_mut().zip(1..) {
            link.tell_values(values).map_err(|e| lost(rank, &e))?;
        }
        Ok(())
    }
    fn exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        if self.rank > 0 {
            let link = &mut self.links[0];
            let all = link.tell(mine).and_then(|()| {
                (0..self.world)
                    .map(|_| link.words())
                    .collect::<std::io::Result<Vec<_>>>()
            });
            return all.map_err(|e| lost(0, &e));
        }
        let mut all = vec![mine.to_vec()];
        for (link, rank) in self.links.iter_mut().zip(1..) {
            all.push(link.words().map_err(|e| lost(rank, &e))?);
        }
        for (link, rank) in self.links.iter_mut().zip(1..) {
            let sent = all.iter().try_for_each(|words| link.tell(words));
            sent.map_err(|e| lost(rank, &e))?;
        }
        Ok(all)
    }
}

fn lost(rank: usize, error: &std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::InvalidData => {
            Error::Worker(format!("worker {rank} said what it can't have: {error}"))
        }
        _ if silence(error) => Error::Worker(format!(
            "worker {rank} was silent for too long (--worker-timeout)"
        )),
        _ => gone(rank),
    }
}

/// Returns whether nothing came in time.
fn silence(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Returns whether the other side is another version of audit.
fn is_other_version(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::Unsupported
}

fn broken() -> std::io::Error {
    std::io::Error::new(ErrorKind::InvalidData, "no message of this protocol")
}

fn write_numbers(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

fn read_numbers<const N: usize>(bytes: &[u8]) -> std::io::Result<[u64; N]> {
    let (numbers, []) = bytes.as_chunks::<8>() else {
        return Err(broken());
    };
    let numbers: Vec<u64> = numbers.iter().map(|n| u64::from_le_bytes(*n)).collect();
    numbers.try_into().map_err(|_| broken())
}

/// A connection to one worker. A frame is a length and that many bytes.
struct Link {
    stream: BufReader<TcpStream>,
    /// How long a message of at most [`MESSAGE`] bytes may take, however it is split, and how long its last part in
    /// addition.
    patience: Duration,
    /// `None` on one machine. It stays in its place whatever fails: a link with a key never goes on in the clear.
    cipher: Option<Box<TransportState>>,
    /// A message of the Noise protocol: with its length before it where it is sent.
    message: Vec<u8>,
    /// Decrypted bytes, and which of them have not been read yet.
    heard: Vec<u8>,
    unread: Range<usize>,
}

impl Link {
    fn new(
        stream: TcpStream,
        key: Option<&[u8; 32]>,
        caller: bool,
        patience: Duration,
    ) -> std::io::Result<Self> {
        stream.set_nodelay(true)?;
        let mut link = Self {
            stream: BufReader::with_capacity(MESSAGE, stream),
            patience,
            cipher: None,
            message: vec![0; LENGTH + MESSAGE],
            heard: vec![0; MESSAGE],
            unread: 0..0,
        };
        link.be_patient(patience)?;
        link.hello(caller)?;
        if let Some(key) = key {
            link.cipher = Some(Box::new(link.shake(key, caller)?));
        }
        Ok(link)
    }

    /// Exchanges [`HELLO`]. Rank 0 answers a caller of any version, and nobody else.
    fn hello(&mut self, caller: bool) -> std::io::Result<()> {
        if caller {
            self.push(HELLO)?;
        }
        let mut theirs = [0; HELLO.len()];
        self.pull(&mut theirs)?;
        if theirs[..NAME] != HELLO[..NAME] {
            return Err(broken());
        }
        if !caller {
            self.push(HELLO)?;
        }
        match theirs == *HELLO {
            true => Ok(()),
            false => Err(std::io::Error::new(ErrorKind::Unsupported, OTHER_VERSION)),
        }
    }

    fn be_patient(&mut self, patience: Duration) -> std::io::Result<()> {
        self.patience = patience;
        let stream = self.stream.get_ref();
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))
    }

    /// Returns whether the other side has closed the link, while it has nothing to say.
    fn is_closed(&self) -> bool {
        let stream = self.stream.get_ref();
        let come = stream
            .set_nonblocking(true)
            .and_then(|()| stream.peek(&mut [0]));
        let open = match come {
            Ok(come) => come > 0,
            Err(e) => e.kind() == ErrorKind::WouldBlock,
        };
        !open || stream.set_nonblocking(false).is_err()
    }

    /// Sends at most one message.
    fn push(&self, mut bytes: &[u8]) -> std::io::Result<()> {
        let begun = Instant::now();
        let mut stream = self.stream.get_ref();
        while !bytes.is_empty() {
            self.in_time(begun)?;
            match stream.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => bytes = &bytes[sent..],
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Receives at most one message.
    fn pull(&mut self, bytes: &mut [u8]) -> std::io::Result<()> {
        let begun = Instant::now();
        let mut filled = 0;
        while filled < bytes.len() {
            self.in_time(begun)?;
            match self.stream.read(&mut bytes[filled..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(come) => filled += come,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn in_time(&self, begun: Instant) -> std::io::Result<()> {
        match begun.elapsed() < self.patience {
            true => Ok(()),
            false => Err(ErrorKind::TimedOut.into()),
        }
    }

    fn shake(&mut self, key: &[u8; 32], caller: bool) -> std::io::Result<TransportState> {
        let builder = PATTERN
            .parse()
            .map(Builder::new)
            .and_then(|builder| builder.psk(0, key))
            .map_err(noise)?;
        let mut state = if caller {
            builder.build_initiator()
        } else {
            builder.build_responder()
        }
        .map_err(noise)?;
        for mine in [caller, !caller] {
            if mine {
                let message = &mut self.message[LENGTH..];
                let length = state.write_message(&[], message).map_err(noise)?;
                self.send(length)?;
            } else {
                let length = self.receive()?;
                let message = &self.message[..length];
                state
                    .read_message(message, &mut self.heard)
                    .map_err(noise)?;
            }
        }
        state.into_transport_mode().map_err(noise)
    }

    /// Sends the message of this length, after its length.
    fn send(&mut self, length: usize) -> std::io::Result<()> {
        let prefix = u16::try_from(length).map_err(|_| broken())?;
        self.message[..LENGTH].copy_from_slice(&prefix.to_le_bytes());
        self.push(&self.message[..LENGTH + length])
    }

    /// Receives a message and returns its length.
    fn receive(&mut self) -> std::io::Result<usize> {
        let mut length = [0; LENGTH];
        self.pull(&mut length)?;
        let length = usize::from(u16::from_le_bytes(length));
        let mut message = std::mem::take(&mut self.message);
        let pulled = self.pull(&mut message[..length]);
        self.message = message;
        pulled.map(|()| length)
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if self.cipher.is_none() {
            return bytes.chunks(MESSAGE).try_for_each(|part| self.push(part));
        }
        for part in bytes.chunks(MESSAGE - CODE) {
            let cipher = self.cipher.as_deref_mut().ok_or_else(broken)?;
            let message = &mut self.message[LENGTH..];
            let length = cipher.write_message(part, message).map_err(noise)?;
            self.send(length)?;
        }
        Ok(())
    }

    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<()> {
        if self.cipher.is_none() {
            let mut parts = bytes.chunks_mut(MESSAGE);
            return parts.try_for_each(|part| self.pull(part));
        }
        let mut filled = 0;
        while filled < bytes.len() {
            if self.unread.is_empty() {
                let length = self.receive()?;
                let message = &self.message[..length];
                let cipher = self.cipher.as_deref_mut().ok_or_else(broken)?;
                let clear = cipher.read_message(message, &mut self.heard);
                self.unread = 0..clear.map_err(noise)?;
            }
            let take = self.unread.len().min(bytes.len() - filled);
            let from = self.unread.start;
            bytes[filled..filled + take].copy_from_slice(&self.heard[from..from + take]);
            self.unread.start += take;
            filled += take;
        }
        Ok(())
    }

    fn tell(&mut self, words: &[u8]) -> std::io::Result<()> {
        self.write(&write_numbers(&[words.len() as u64]))?;
        self.write(words)
    }

    fn words(&mut self) -> std::io::Result<Vec<u8>> {
        self.words_up_to(WORDS)
    }

    fn words_up_to(&mut self, most: u64) -> std::io::Result<Vec<u8>> {
        let mut length = [0; 8];
        self.read(&mut length)?;
        let length = u64::from_le_bytes(length);
        if length > most {
            return Err(broken());
        }
        // Grows as the bytes arrive: a length alone allocates nothing.
        let mut words = Vec::new();
        let mut part = vec![0; MESSAGE];
        while (words.len() as u64) < length {
            let take = (length - words.len() as u64).min(MESSAGE as u64) as usize;
            self.read(&mut part[..take])?;
            words.extend_from_slice(&part[..take]);
        }
        Ok(words)
    }

    fn tell_values(&mut self, values: &[f32]) -> std::io::Result<()> {
        self.write(&write_numbers(&[values.len() as u64]))?;
        let mut bytes = vec![0; MESSAGE];
        for part in values.chunks((MESSAGE - CODE) / 4) {
            let (places, _) = bytes.as_chunks_mut::<4>();
            for (place, value) in places.iter_mut().zip(part) {
                *place = value.to_le_bytes();
            }
            self.write(&bytes[..4 * part.len()])?;
        }
        Ok(())
    }

    fn values(&mut self, values: &mut [f32]) -> std::io::Result<()> {
        let mut length = [0; 8];
        self.read(&mut length)?;
        if u64::from_le_bytes(length) != values.len() as u64 {
            return Err(broken());
        }
        let mut bytes = vec![0; MESSAGE];
        for part in values.chunks_mut((MESSAGE - CODE) / 4) {
            let bytes = &mut bytes[..4 * part.len()];
            self.read(bytes)?;
            let (found, _) = bytes.as_chunks::<4>();
            for (value, bytes) in part.iter_mut().zip(found) {
                *value = f32::from_le_bytes(*bytes);
            }
        }
        Ok(())
    }
}

fn noise(error: snow::Error) -> std::io::Error {
    std::io::Error::new(ErrorKind::InvalidData, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free_address() -> String {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().to_string()
    }

    fn options(rank: usize, world: usize, address: &str, key: Option<[u8; 32]>) -> TcpOptions {
        TcpOptions {
            rank,
            world,
            address: address.to_owned(),
            key,
            patience: Duration::from_secs(20),
            note: |_| {},
        }
    }

    /// What each worker ends with after a sum, a broadcast and an exchange of long messages.
    fn together(world: usize, key: Option<[u8; 32]>) -> Vec<(Vec<f32>, Vec<Vec<u8>>)> {
        let address = free_address();
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..world)
                .map(|rank| {
                    let options = options(rank, world, &address, key);
                    scope.spawn(move || {
                        let mut tcp = Tcp::connect(&options).unwrap();
                        let mut values: Vec<f32> = (0..100_000)
                            .map(|i| (i * (rank + 1)) as f32 * 0.1)
                            .collect();
                        tcp.sum_to_zero(&mut values).unwrap();
                        tcp.broadcast(&mut values).unwrap();
                        let words = vec![rank as u8; 70_000 * rank];
                        (values, tcp.exchange(&words).unwrap())
                    })
                })
                .collect();
            workers.into_iter().map(|w| w.join().unwrap()).collect()
        })
    }

    #[test]
    fn workers_agree_on_sums_and_words() {
        for key in [None, Some([7; 32])] {
            for world in [1, 2, 4] {
                let all = together(world, key);
                for (values, words) in &all {
                    assert_eq!(values, &all[0].0);
                    assert_eq!(words.len(), world);
                    for (rank, words) in words.iter().enumerate() {
                        assert_eq!(words, &vec![rank as u8; 70_000 * rank]);
                    }
                }
                let expected: f32 = (1..=world).map(|r| (1000 * r) as f32 * 0.1).sum();
                assert!((all[0].0[1000] / expected - 1.0).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn nothing_is_shared_with_a_stranger() {
        let address = free_address();
        let short = |key: [u8; 32], rank| TcpOptions {
            patience: Duration::from_secs(2),
            ..options(rank, 2, &address, Some(key))
        };
        let (one, other) = (short([1; 32], 0), short([2; 32], 1));
        let found = std::thread::scope(|scope| {
            let other = scope.spawn(move || Tcp::connect(&other).map(|_| ()));
            (Tcp::connect(&one).map(|_| ()), other.join().unwrap())
        });
        assert!(found.0.unwrap_err().to_string().contains("did not come"));
        assert!(
            found
                .1
                .unwrap_err()
                .to_string()
                .contains("key and WORLD_SIZE")
        );
        // Without a key nothing leaves the machine.
        let abroad = options(1, 2, "192.0.2.1:9", None);
        let error = Tcp::connect(&abroad).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("--worker-key"), "{error}");
    }

    /// A wrong key was named only at the end of the patience, by both.
    #[test]
    fn a_refused_call_is_noted_at_once() {
        static NOTES: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());
        let address = free_address();
        let noting = |key: [u8; 32], rank, seconds| TcpOptions {
            patience: Duration::from_secs(seconds),
            note: |said| NOTES.lock().unwrap().push(said.to_owned()),
            ..options(rank, 2, &address, Some(key))
        };
        let (one, other) = (noting([1; 32], 0, 5), noting([2; 32], 1, 4));
        std::thread::scope(|scope| {
            let workers = [one, other].map(|o| scope.spawn(move || Tcp::connect(&o).map(|_| ())));
            let began = Instant::now();
            while NOTES.lock().unwrap().len() < 2 && began.elapsed() < Duration::from_secs(3) {
                std::thread::sleep(KNOCK);
            }
            let mut early = NOTES.lock().unwrap().clone();
            early.sort();
            assert!(early[0].starts_with(REFUSED), "{early:?}");
            assert!(early[1].contains("refused the call"), "{early:?}");
            for worker in workers {
                worker.join().unwrap().unwrap_err();
            }
        });
        // Each once.
        assert_eq!(NOTES.lock().unwrap().len(), 2);
    }

    /// Both waited for all of their patience, and named the key and WORLD_SIZE only.
    #[test]
    fn another_version_is_named_at_once() {
        static NOTES: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());
        let other = b"reticent-train-5";
        // A caller ends.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let began = Instant::now();
        let error = std::thread::scope(|scope| {
            let caller = options(1, 2, &address, Some([7; 32]));
            let caller = scope.spawn(move || Tcp::connect(&caller).map(|_| ()));
            let (mut stream, _) = listener.accept().unwrap();
            let mut hello = [0; 16];
            stream.read_exact(&mut hello).unwrap();
            assert_eq!(hello[..NAME], other[..NAME]);
            stream.write_all(other).unwrap();
            caller.join().unwrap().unwrap_err().to_string()
        });
        assert!(error.contains("another version of audit"), "{error}");
        assert!(began.elapsed() < HANDSHAKE);
        // Worker 0 says its own version to a caller of another one, notes it and waits for its workers.
        let address = free_address();
        let first = TcpOptions {
            note: |said| NOTES.lock().unwrap().push(said.to_owned()),
            ..options(0, 2, &address, Some([7; 32]))
        };
        std::thread::scope(|scope| {
            let first = scope.spawn(move || Tcp::connect(&first).map(|_| ()));
            let mut stream = loop {
                if let Ok(stream) = TcpStream::connect(&address) {
                    break stream;
                }
            };
            stream.write_all(other).unwrap();
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard).unwrap();
            assert_eq!(heard, HELLO);
            while NOTES.lock().unwrap().is_empty() && began.elapsed() < HANDSHAKE {
                std::thread::sleep(KNOCK);
            }
            Tcp::connect(&options(1, 2, &address, Some([7; 32]))).unwrap();
            first.join().unwrap().unwrap();
        });
        let notes = NOTES.lock().unwrap().clone();
        assert_eq!(
            notes,
            [format!(
                "a caller was refused: it is {OTHER_VERSION}; goes on waiting"
            )]
        );
    }

    /// The others called for the whole of their own patience.
    #[test]
    fn workers_end_with_worker_0_before_all_are_there() {
        let address = free_address();
        let first = TcpOptions {
            patience: Duration::from_secs(1),
            ..options(0, 3, &address, None)
        };
        let second = options(1, 3, &address, None);
        std::thread::scope(|scope| {
            let first = scope.spawn(move || Tcp::connect(&first).map(|_| ()));
            let began = Instant::now();
            let error = Tcp::connect(&second).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("its own message says why"), "{error}");
            assert!(began.elapsed() < Duration::from_secs(10));
            let error = first.join().unwrap().unwrap_err().to_string();
            assert!(error.contains("worker 2 did not come"), "{error}");
        });
    }

    /// It was said to have refused the call, with the system's words for a read that takes too long.
    #[test]
    fn one_that_listens_and_says_nothing_is_no_refusal() {
        let mute = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = mute.local_addr().unwrap().to_string();
        let hurried = TcpOptions {
            patience: Duration::from_millis(300),
            ..options(1, 2, &address, None)
        };
        let error = call(&hurried).err().unwrap().to_string();
        assert!(error.contains("said nothing within 0.3 s"), "{error}");
    }

    /// Neither a read nor a write that fails leaves a link with a key in the clear.
    #[test]
    fn a_link_stays_encrypted_after_an_error() {
        let (address, key) = (free_address(), Some([7; 32]));
        let caller = options(1, 2, &address, key);
        let other = std::thread::spawn(move || call(&caller).unwrap());
        let mut tcp = Tcp::connect(&options(0, 2, &address, key)).unwrap();
        let mut other = other.join().unwrap();
        let patience = tcp.links[0].patience;
        tcp.links[0].patience = Duration::ZERO;
        assert!(tcp.sum_to_zero(&mut [1.0; 8]).is_err());
        tcp.links[0].patience = patience;
        tcp.broadcast(&mut [2.0; 8]).unwrap();
        let mut heard = vec![0.0; 8];
        other.values(&mut heard).unwrap();
        assert_eq!(heard, vec![2.0; 8]);
        tcp.links[0].patience = Duration::ZERO;
        assert!(tcp.broadcast(&mut [3.0; 8]).is_err());
        assert!(tcp.links[0].cipher.is_some());
    }

    /// A name may be another address here than on the machines of the other workers.
    #[test]
    fn a_name_of_this_machine_is_listened_for_on_all_its_addresses() {
        let key = Some([7; 32]);
        for (address, key, found, expected) in [
            ("node1:29500", key, "127.0.1.1:29500", None),
            ("node1:29500", key, "[2001:db8::1]:29500", None),
            ("node1:29500", key, "10.0.0.1:29500", None),
            (
                "node1:29500",
                None,
                "127.0.1.1:29500",
                Some("127.0.1.1:29500"),
            ),
            (
                "127.0.0.1:29500",
                key,
                "127.0.0.1:29500",
                Some("127.0.0.1:29500"),
            ),
            ("[::1]:29500", key, "[::1]:29500", Some("[::1]:29500")),
            (
                "localhost:29500",
                key,
                "127.0.0.1:29500",
                Some("127.0.0.1:29500"),
            ),
        ] {
            let options = options(0, 2, address, key);
            let found = listening(&options, &[found.parse().unwrap()]);
            match expected {
                Some(expected) => assert_eq!(found, [expected.parse::<SocketAddr>().unwrap()]),
                None => assert!(
                    found.len() == 2 && found.iter().all(|a| a.ip().is_unspecified()),
                    "{address}: {found:?}"
                ),
            }
        }
    }

    /// A worker whose name for worker 0 has an address at which nobody listens calls at the next one.
    #[test]
    fn a_worker_calls_at_each_address() {
        let (address, key) = (free_address(), Some([7; 32]));
        let silent: SocketAddr = free_address().parse().unwrap();
        let listened: SocketAddr = address.parse().unwrap();
        let first = options(0, 2, &address, key);
        let first = std::thread::spawn(move || Tcp::connect(&first).map(|_| ()));
        let second = options(1, 2, &address, key);
        // At first the name has no address.
        let resolved = std::cell::Cell::new(false);
        let found = || Ok(resolved.replace(true).then(|| vec![silent, listened]));
        call_one_of(found, &second).unwrap();
        first.join().unwrap().unwrap();
        let patient = second.clone();
        let hurried = TcpOptions {
            patience: Duration::from_millis(300),
            ..second
        };
        for (found, says) in [
            (Some(vec![silent]), "did not listen"),
            (None, "no such host"),
        ] {
            let error = call_one_of(|| Ok(found.clone()), &hurried).err().unwrap();
            assert!(error.to_string().contains(says), "{error}");
        }
        // One that takes the call and says nothing is given up long before a worker would be.
        let mute = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(mute.local_addr().unwrap()).unwrap();
        let began = Instant::now();
        assert!(greet(stream, &patient, Duration::from_millis(100)).is_err());
        assert!(began.elapsed() < Duration::from_secs(10));
    }

    /// A worker that is started again before all are there takes its own place; two of one number do not.
    #[test]
    fn a_worker_may_come_again_before_all_are_there() {
        let address = free_address();
        let here = |rank, key| options(rank, 3, &address, key);
        for key in [None, Some([7; 32])] {
            std::thread::scope(|scope| {
                let first = scope.spawn(move || Tcp::connect(&here(0, key)).map(|_| ()));
                let once = || loop {
                    let Ok(stream) = TcpStream::connect(&address) else {
                        continue;
                    };
                    if let Ok(link) = greet(stream, &here(1, key), HANDSHAKE) {
                        break link;
                    }
                };
                drop(once());
                let other = scope.spawn(move || Tcp::connect(&here(2, key)).map(|_| ()));
                // Two links do not make three workers while one of them is closed.
                std::thread::sleep(5 * KNOCK);
                assert!(!first.is_finished() && !other.is_finished());
                let again = scope.spawn(move || Tcp::connect(&here(1, key)).map(|_| ()));
                for worker in [first, again, other] {
                    worker.join().unwrap().unwrap();
                }
                let first = scope.spawn(move || Tcp::connect(&here(0, key)).map(|_| ()));
                let both = [once(), once()];
                let error = first.join().unwrap().unwrap_err().to_string();
                assert!(error.contains("worker 1 is there twice"), "{error}");
                drop(both);
            });
        }
    }

    /// Eighty that say nothing, and twenty that flood, keep nobody waiting.
    #[test]
    fn strangers_keep_nobody_waiting() {
        let address = free_address();
        std::thread::scope(|scope| {
            let first = options(0, 2, &address, None);
            let began = Instant::now();
            let first = scope.spawn(move || Tcp::connect(&first).map(|_| ()));
            let strangers: Vec<TcpStream> = (0..100)
                .map(|number| {
                    loop {
                        let Ok(mut stream) = TcpStream::connect(&address) else {
                            continue;
                        };
                        if number % 5 == 0 {
                            // It may be sent away meanwhile.
                            let _ = stream.write_all(&[0xff; 4096]);
                        }
                        break stream;
                    }
                })
                .collect();
            Tcp::connect(&options(1, 2, &address, None)).unwrap();
            first.join().unwrap().unwrap();
            assert!(began.elapsed() < HANDSHAKE);
            drop(strangers);
        });
    }

    /// One byte at a time is as good as none.
    #[test]
    fn a_worker_that_drips_is_silent() {
        let address = free_address();
        let error = std::thread::scope(|scope| {
            let caller = options(1, 2, &address, None);
            scope.spawn(move || {
                let link = call(&caller).unwrap();
                // Ends when the other has.
                while link.push(&[0]).is_ok() {
                    std::thread::sleep(Duration::from_millis(200));
                }
            });
            let mut tcp = Tcp::connect(&options(0, 2, &address, None)).unwrap();
            tcp.links[0].patience = Duration::from_millis(500);
            let began = Instant::now();
            let error = tcp.sum_to_zero(&mut [1.0; 8]).unwrap_err().to_string();
            assert!(began.elapsed() < Duration::from_secs(5));
            error
        });
        assert!(error.contains("silent for too long"), "{error}");
    }

    #[test]
    fn a_worker_that_is_gone_is_named() {
        let address = free_address();
        let error = std::thread::scope(|scope| {
            let other = options(1, 2, &address, None);
            scope.spawn(move || drop(Tcp::connect(&other)));
            let mut tcp = Tcp::connect(&options(0, 2, &address, None)).unwrap();
            tcp.sum_to_zero(&mut [1.0; 8]).unwrap_err().to_string()
        });
        assert!(error.starts_with("worker 1 is gone"), "{error}");
    }
}
