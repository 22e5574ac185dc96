//! Which links a process opens. Ballista neither encrypts nor authenticates them: whoever reaches a port reads what
//! passes, and hands in work.

use anyhow::{Context, Result, ensure};
use std::net::{SocketAddr, ToSocketAddrs};

/// The port of a scheduler where none is named.
const PORT: u16 = 50050;

/// Who can reach the network that processes talk over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Unknown: this machine's own addresses only.
    Loopback,
    /// Only those who may see and change what passes.
    Network,
}

impl Trust {
    /// The address of a listener or a scheduler. `argument`: what it was given as.
    pub(crate) fn address(self, argument: &str, text: &str) -> Result<SocketAddr> {
        let with_port = match text.rsplit_once(':') {
            Some((host, _)) if !host.contains(':') || host.ends_with(']') => text.to_owned(),
            _ => format!("{text}:{PORT}"),
        };
        let found = with_port
            .to_socket_addrs()
            .with_context(|| format!("{argument}: {text:?} must be an address as HOST:PORT"))?;
        let all: Vec<SocketAddr> = found.collect();
        // A name may have both kinds, and most listen on the older one.
        let first = all.iter().find(|address| address.is_ipv4());
        let first = first.or(all.first()).copied();
        let first = first.with_context(|| format!("{argument}: {text:?} has no address"))?;
        ensure!(
            self == Self::Network || all.iter().all(|address| address.ip().is_loopback()),
            "{argument}: {text:?} is not on this machine, and links are neither encrypted nor authenticated; \
             give --trust-network where only those reach the network who may see and change what passes"
        );
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_reached_unless_the_network_is_trusted() {
        for (text, port) in [("127.0.0.1:7", 7), ("127.0.0.1", PORT), ("[::1]:8", 8)] {
            assert_eq!(
                Trust::Loopback.address("--listen", text).unwrap().port(),
                port
            );
        }
        for text in ["0.0.0.0:7", "10.0.0.1:7", "[::]:7"] {
            let said = Trust::Loopback
                .address("--listen", text)
                .unwrap_err()
                .to_string();
            assert!(
                said.contains("--listen") && said.contains("--trust-network"),
                "{said}"
            );
            assert!(Trust::Network.address("--listen", text).is_ok());
        }
        let said = Trust::Network
            .address("--listen", "127.0.0.1:x")
            .unwrap_err();
        assert!(said.to_string().contains("HOST:PORT"), "{said}");
    }
}
