//! Checks a model's bytes before a library builds anything from them.
//!
//! Only the relevant nesting is followed (fields of `onnx.proto`): attributes that contain graphs,
//! types that contain types, and tensors in other files.

/// The largest number of nodes in a graph.
const NODES: usize = 1 << 20;

/// The content of a field of a message.
enum Held<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Rejects branches, loops, and weights in other files.
pub(super) fn checked(model: &[u8]) -> Result<(), String> {
    let mut nodes = 0;
    each(model, 7, |graph| {
        each(graph, 1, |node| {
            nodes += 1;
            if nodes > NODES {
                return Err(format!("the graph has more than {NODES} nodes"));
            }
            each(node, 5, |attribute| {
                for field in [6, 11] {
                    each(attribute, field, |_| {
                        Err("branches and loops (graphs within the graph) are not read".to_owned())
                    })?;
                }
                each(attribute, 5, tensor)
            })
        })?;
        each(graph, 5, tensor)?;
        for field in [11, 12, 13] {
            each(graph, field, |value| {
                each(value, 2, |kind| {
                    // A sequence may contain tensors, but not sequences.
                    each(kind, 4, |sequence| {
                        each(sequence, 1, |inner| {
                            each(inner, 4, |_| {
                                Err("sequences of sequences are not read".to_owned())
                            })
                        })
                    })
                })
            })?;
        }
        Ok(())
    })
}

/// Checks that a tensor's data lies in the file itself.
fn tensor(bytes: &[u8]) -> Result<(), String> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let external = match field(&mut rest)? {
            (14, Held::Number(place)) => place == 1,
            (13, Held::Bytes(_)) => true,
            _ => false,
        };
        if external {
            return Err(
                "weights in other files are not read; export the model into one file".to_owned(),
            );
        }
    }
    Ok(())
}

/// Calls `read` with every message in the fields with one number.
fn each(
    mut message: &[u8],
    wanted: u64,
    mut read: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), String> {
    while !message.is_empty() {
        if let (number, Held::Bytes(bytes)) = field(&mut message)?
            && number == wanted
        {
            read(bytes)?;
        }
    }
    Ok(())
}

/// Reads the next field.
fn field<'a>(rest: &mut &'a [u8]) -> Result<(u64, Held<'a>), String> {
    let broken = || "no ONNX model: the fields of its messages do not fit together".to_owned();
    let key = varint(rest).ok_or_else(broken)?;
    let held = match key & 7 {
        0 => varint(rest).map(Held::Number),
        1 => taken(rest, 8).map(Held::Bytes),
        2 => varint(rest)
            .and_then(|length| taken(rest, usize::try_from(length).ok()?))
            .map(Held::Bytes),
        5 => taken(rest, 4).map(Held::Bytes),
        // Groups are not used in this format.
        _ => None,
    };
    Ok((key >> 3, held.ok_or_else(broken)?))
}

fn taken<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

/// Reads a varint of at most 64 bits.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, left) = rest.split_first()?;
        *rest = left;
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
