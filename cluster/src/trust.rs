//! Which connections a process opens. Ballista neither encrypts nor authenticates them: anyone who reaches a port
//! can read the traffic and submit work.

use crate::request::failed;
use anyhow::{Context, Result, ensure};
use ballista_core::extension::EndpointOverrideFn;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

/// The default port of a scheduler.
const PORT: u16 = 50050;

/// Who can reach the network over which processes communicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Unknown: only this machine's own addresses are used.
    Loopback,
    /// Only parties who may see and change the traffic.
    Network,
}

impl Trust {
    /// Returns the address of a listener or a scheduler. `argument`: the argument in which it was given.
    pub(crate) fn address(self, argument: &str, text: &str) -> Result<SocketAddr> {
        let with_port = match text.rsplit_once(':') {
            Some((host, _)) if !host.contains(':') || host.ends_with(']') => text.to_owned(),
            _ => format!("{text}:{PORT}"),
        };
        let found = with_port
            .to_socket_addrs()
            .with_context(|| format!("{argument}: {text:?} must be an address as HOST:PORT"))?;
        let all: Vec<SocketAddr> = found.collect();
        // A name may have addresses of both kinds, and most services listen on IPv4.
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

    /// Returns whether rows may be fetched from a host, as named by an executor. No name is looked up: a name that
    /// is not this machine's is refused.
    pub(crate) fn reaches(self, host: &str) -> bool {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let address = bare.parse::<IpAddr>();
        self == Self::Network
            || bare == "localhost"
            || address.is_ok_and(|address| address.is_loopback())
    }

    /// Returns a check of each address before Ballista connects to it.
    pub(crate) fn links(self) -> EndpointOverrideFn {
        Arc::new(move |endpoint| {
            let host = endpoint.uri().host().unwrap_or_default().to_owned();
            match self.reaches(&host) {
                true => Ok(endpoint),
                false => Err(Box::new(failed(&beyond(&host)))),
            }
        })
    }
}

/// Formats the error for an executor that named a host beyond this machine.
pub(crate) fn beyond(host: &str) -> String {
    format!(
        "an executor gives {host} as its address, which is not this machine's own: nothing is fetched from there without --trust-network"
    )
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

    #[test]
    fn rows_are_fetched_from_this_machine_unless_the_network_is_trusted() {
        for host in ["127.0.0.1", "127.9.9.9", "[::1]", "::1", "localhost"] {
            assert!(Trust::Loopback.reaches(host), "{host}");
        }
        for host in [
            "203.0.113.7",
            "[2001:db8::1]",
            "localhost.example",
            "127.0.0.1.example",
            "",
        ] {
            assert!(!Trust::Loopback.reaches(host), "{host}");
            assert!(Trust::Network.reaches(host), "{host}");
        }
    }
}
