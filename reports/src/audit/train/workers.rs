//! Several processes that train one model, as started by `torchrun` or a script: the environment of each states its
//! number and the address of number 0.

use super::args::{RANK, WORLD, Workers};
use crate::contract::note;
use anyhow::{Context, Result, bail, ensure};
use reticent_backends::run::check_world;
use reticent_backends::{Collective, Tcp, TcpOptions};
use std::sync::Mutex;
use std::time::Duration;

const ADDRESS: &str = "MASTER_ADDR";
const PORT: &str = "MASTER_PORT";
/// Set if torchrun itself listens on MASTER_PORT for its own store.
const TAKEN: &str = "TORCHELASTIC_USE_AGENT_STORE";
/// The default port of torchrun.
const USUAL_PORT: &str = "29500";
/// The default number of seconds for which a worker may be silent.
const PATIENCE: u64 = 600;

/// The transport of the workers instead of TCP, until a run takes it.
static OTHER: Mutex<Option<Box<dyn Collective>>> = Mutex::new(None);

/// Sets a transport other than TCP for the next training in this process; a program with its own transport calls this
/// before [`crate::audit::run`]. The worker numbers come from the transport, not from the environment.
pub fn join(workers: Box<dyn Collective>) {
    *other() = Some(workers);
}

fn other() -> std::sync::MutexGuard<'static, Option<Box<dyn Collective>>> {
    OTHER
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Returns this process' place among those of the run; `None` if the environment states no number of workers.
pub(in crate::audit) fn of_environment(args: &Workers) -> Result<Option<TcpOptions>> {
    if let Some(workers) = &*other() {
        return beside_tcp(args, workers.rank(), workers.world()).map(Some);
    }
    // A value that is no text is no number either.
    from(args, &|name| {
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    })
}

/// Returns the options for workers that are connected already.
fn beside_tcp(args: &Workers, rank: usize, world: usize) -> Result<TcpOptions> {
    ensure!(
        args.worker_key.is_none() && args.worker_timeout.is_none(),
        "--worker-key, --worker-timeout: are for workers that talk over TCP"
    );
    check_world(world)?;
    Ok(TcpOptions {
        rank,
        world,
        address: String::new(),
        key: None,
        patience: Duration::from_secs(PATIENCE),
        note,
    })
}

fn from(args: &Workers, of: &dyn Fn(&str) -> Option<String>) -> Result<Option<TcpOptions>> {
    let world = of(WORLD);
    let of = |name: &str| of(name).filter(|value| !value.is_empty());
    let Some(world) = world else {
        let rank = of(RANK).filter(|rank| rank.trim() != "0");
        if let Some(rank) = rank {
            bail!("{WORLD}: must be set where {RANK} is not 0, got {RANK} {rank:?}");
        }
        for (given, flag) in [
            (args.worker_key.is_some(), "--worker-key"),
            (args.worker_timeout.is_some(), "--worker-timeout"),
        ] {
            ensure!(
                !given,
                "{flag}: is for several workers, and {WORLD} is not set (with {RANK}, {ADDRESS} and {PORT}, as torchrun sets them)"
            );
        }
        return Ok(None);
    };
    let number = |name: &str, text: String| -> Result<usize> {
        text.parse()
            .with_context(|| format!("{name}: must be a number, got {text:?}"))
    };
    let world = number(WORLD, world)?;
    check_world(world).context(WORLD)?;
    let rank = of(RANK).with_context(|| format!("{RANK}: must be set where {WORLD} is"))?;
    let rank = number(RANK, rank)?;
    ensure!(
        rank < world,
        "{RANK}: must lie in [0, {world}), got {rank} ({WORLD})"
    );
    // An IPv6 address is written in brackets before a port.
    let host = of(ADDRESS).map(|host| match host.parse::<std::net::Ipv6Addr>() {
        Ok(_) => format!("[{host}]"),
        Err(_) => host,
    });
    if let (Some(host), Some(port)) = (&host, of(PORT)) {
        // An address of IPv6 with a zone stands without brackets.
        ensure!(
            host.matches(':').count() != 1 && !host.contains("]:"),
            "{ADDRESS}: must name no port where {PORT} does ({port:?}), got {host:?}"
        );
    }
    let address = match (host, of(PORT)) {
        (None, _) if world == 1 => String::new(),
        (None, _) => bail!("{ADDRESS}: must name the machine of worker 0 where {WORLD} is set"),
        (Some(host), Some(port)) => {
            let number: u16 = (port.parse().ok().filter(|port| *port > 0))
                .with_context(|| format!("{PORT}: must lie in [1, 65535], got {port:?}"))?;
            let taken = of(TAKEN).is_some_and(|value| value.eq_ignore_ascii_case("true"));
            let beside = number.checked_add(1).unwrap_or(number - 1);
            format!("{host}:{}", if taken { beside } else { number })
        }
        (Some(host), None) if host.contains(':') && !host.ends_with(']') => host,
        (Some(host), None) => format!("{host}:{USUAL_PORT}"),
    };
    let key = args
        .worker_key
        .as_deref()
        .inspect(|path| {
            if reticent_disk::read_by_others(path) {
                note("--worker-key: others on this machine can read the file, and so what the workers send; own it and restrict it with chmod 600");
            }
        })
        .map(|path| {
            reticent_disk::read_key(path)
                .with_context(|| format!("--worker-key: {}", path.display()))
        })
        .transpose()?;
    Ok(Some(TcpOptions {
        rank,
        world,
        address,
        key,
        patience: Duration::from_secs(args.worker_timeout.unwrap_or(PATIENCE)),
        note,
    }))
}

/// Waits for the other workers.
pub(in crate::audit) fn connect(options: &TcpOptions) -> Result<Box<dyn Collective>> {
    if let Some(workers) = other().take() {
        return Ok(workers);
    }
    if options.world > 1 {
        let (rank, world) = (options.rank, options.world);
        note(&format!(
            "worker {rank} of {world}: waits for the others at {}",
            options.address
        ));
        if options.key.is_none() && rank == 0 {
            note(
                "without --worker-key any user of this machine can join as a worker and read the sums before noise",
            );
        }
    }
    Ok(Box::new(Tcp::connect(options)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(set: &[(&str, &str)], args: &Workers) -> Result<Option<TcpOptions>> {
        from(args, &|name| {
            let found = set.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn connected_workers_take_no_options_of_tcp() {
        let none = Workers::default();
        let two = beside_tcp(&none, 1, 2).unwrap();
        assert_eq!((two.rank, two.world), (1, 2));
        let three = beside_tcp(&none, 1, 3).unwrap_err().to_string();
        assert!(three.contains("1, 2, 4 or 8"), "{three}");
        let keyed = Workers {
            worker_key: Some("k".into()),
            worker_timeout: None,
        };
        let keyed = beside_tcp(&keyed, 1, 2).unwrap_err().to_string();
        assert!(keyed.contains("talk over TCP"), "{keyed}");
    }

    #[test]
    fn the_environment_says_which_worker_this_is() {
        let none = Workers::default();
        for set in [[].as_slice(), &[("RANK", "0"), (ADDRESS, "h")]] {
            assert!(options(set, &none).unwrap().is_none());
        }
        // Every one of them would have trained alone.
        for (set, says) in [
            ([("RANK", "1"), (ADDRESS, "h")], "WORLD_SIZE: must be set"),
            ([("RANK", "1"), (WORLD, "")], "WORLD_SIZE: must be a number"),
            ([("RANK", "0"), (WORLD, "")], "WORLD_SIZE: must be a number"),
        ] {
            let error = format!("{:#}", options(&set, &none).unwrap_err());
            assert!(error.starts_with(says), "{error}");
        }
        for address in ["127.0.0.1:29555", "host:9", "[::1]:9"] {
            let set = [("RANK", "1"), (WORLD, "2"), (ADDRESS, address), (PORT, "7")];
            let error = options(&set, &none).unwrap_err().to_string();
            assert!(
                error.starts_with("MASTER_ADDR: must name no port"),
                "{error}"
            );
        }
        let of = |set: &[(&str, &str)]| options(set, &none).unwrap().unwrap();
        let one = of(&[
            ("RANK", "3"),
            (WORLD, "4"),
            (ADDRESS, "10.0.0.1"),
            (PORT, "7"),
        ]);
        assert_eq!(
            (one.rank, one.world, one.address.as_str()),
            (3, 4, "10.0.0.1:7")
        );
        let beside = |port| {
            of(&[
                ("RANK", "1"),
                (WORLD, "2"),
                (ADDRESS, "h"),
                (PORT, port),
                (TAKEN, "True"),
            ])
            .address
        };
        assert_eq!([beside("7"), beside("65535")], ["h:8", "h:65534"]);
        let zone = [
            ("RANK", "0"),
            (WORLD, "2"),
            (ADDRESS, "fe80::1%eth0"),
            (PORT, "7"),
        ];
        assert_eq!(of(&zone).address, "fe80::1%eth0:7");
        let six = of(&[("RANK", "0"), (WORLD, "2"), (ADDRESS, "::1")]);
        assert_eq!(six.address, "[::1]:29500");
        let usual = of(&[("RANK", "0"), (WORLD, "2"), (ADDRESS, "host")]);
        assert_eq!(usual.address, "host:29500");
        assert_eq!(usual.patience, Duration::from_secs(600));
        let whole = of(&[("RANK", "0"), (WORLD, "2"), (ADDRESS, "host:9")]);
        assert_eq!(whole.address, "host:9");
        assert_eq!(of(&[("RANK", "0"), (WORLD, "1")]).world, 1);
        for (set, why) in [
            ([("RANK", "2"), (WORLD, "2"), (ADDRESS, "h")], "[0, 2)"),
            (
                [("RANK", "0"), (WORLD, "3"), (ADDRESS, "h")],
                "1, 2, 4 or 8",
            ),
            ([("RANK", "x"), (WORLD, "2"), (ADDRESS, "h")], "a number"),
            ([("RANK", ""), (WORLD, "two"), (ADDRESS, "h")], "a number"),
            ([("RANK", "0"), (WORLD, "2"), (ADDRESS, "")], "MASTER_ADDR"),
            (
                [("OTHER", "0"), (WORLD, "2"), (ADDRESS, "h")],
                "RANK: must be set",
            ),
        ] {
            let set: Vec<_> = set
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .collect();
            let error = format!("{:#}", options(&set, &none).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
        let keyed = Workers {
            worker_key: Some("/nowhere/at/all".into()),
            worker_timeout: None,
        };
        let error = format!("{:#}", options(&[], &keyed).unwrap_err());
        assert!(error.contains("WORLD_SIZE is not set"), "{error}");
        let set = [("RANK", "0"), (WORLD, "2"), (ADDRESS, "h")];
        let error = format!("{:#}", options(&set, &keyed).unwrap_err());
        assert!(
            error.starts_with("--worker-key: /nowhere/at/all: "),
            "{error}"
        );
    }
}
