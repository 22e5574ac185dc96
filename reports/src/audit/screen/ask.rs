//! Asks for labels in the terminal, one record after another.

use super::sheet::Line;
use crate::contract::printable;
use anyhow::Result;
use reticent_corpus::Secret;
use std::io::{BufRead, Write};

const HELP: &str = "\
Mark every secret of each record. What the policy found is offered as [1:text].
  Enter       what is marked is right, and all there is; other places of the same text count, too
  -2          number 2 is no secret (or not from end to end: then mark it as it should be)
  phone: text this text is a secret of the kind phone, wherever it stands in the record
  none        no secret here
  q           stop; what was answered is kept
";

/// Whether to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The record is labelled.
    Labelled,
    /// The user stops for now.
    Stop,
}

pub(super) fn explain(out: &mut impl Write) -> Result<()> {
    Ok(out.write_all(HELP.as_bytes())?)
}

/// Asks about one record.
pub(super) fn ask(
    line: &mut Line,
    place: &str,
    input: &mut impl BufRead,
    out: &mut impl Write,
) -> Result<Answer> {
    let mut marked: Vec<Secret> = line
        .found
        .iter()
        .map(|f| Secret {
            start: f.start,
            end: f.end,
            kind: f.kind.clone(),
        })
        .collect();
    loop {
        write!(out, "\n{place}\n{}\n> ", shown(&line.text, &marked))?;
        out.flush()?;
        let mut answer = String::new();
        // The end of the input means stop, not agreement.
        if input.read_line(&mut answer)? == 0 {
            return Ok(Answer::Stop);
        }
        match answer.trim() {
            "" => {
                line.secrets = Some(marked);
                return Ok(Answer::Labelled);
            }
            "q" => return Ok(Answer::Stop),
            "none" => {
                line.secrets = Some(Vec::new());
                return Ok(Answer::Labelled);
            }
            said => {
                if let Err(problem) = change(&line.text, &mut marked, said) {
                    writeln!(out, "{}", printable(&problem))?;
                }
            }
        }
    }
}

fn change(text: &str, marked: &mut Vec<Secret>, said: &str) -> Result<(), String> {
    if let Some(number) = said.strip_prefix('-') {
        let wrong = || format!("must be -1 to -{}, got {said:?}", marked.len());
        let number: usize = number.trim().parse().map_err(|_| wrong())?;
        if !(1..=marked.len()).contains(&number) {
            return Err(wrong());
        }
        marked.remove(number - 1);
        return Ok(());
    }
    let (kind, secret) = said
        .split_once(':')
        .ok_or_else(|| format!("must be Enter, -NUMBER, KIND: TEXT, none or q, got {said:?}"))?;
    let (kind, secret) = (kind.trim(), secret.trim());
    if kind.is_empty() || secret.is_empty() {
        return Err(format!("must be KIND: TEXT, got {said:?}"));
    }
    let length = secret.chars().count();
    let places: Vec<usize> = text
        .match_indices(secret)
        .map(|(at, _)| text[..at].chars().count())
        .collect();
    if places.is_empty() {
        return Err(format!("{secret:?} does not occur in the record"));
    }
    for start in places {
        let end = start + length;
        // Overlapping earlier marks are replaced.
        marked.retain(|m| m.end <= start || end <= m.start);
        marked.push(Secret {
            start,
            end,
            kind: kind.to_owned(),
        });
    }
    marked.sort_by_key(|m| m.start);
    Ok(())
}

/// Returns the text with its marks, sanitised for a terminal.
fn shown(text: &str, marked: &[Secret]) -> String {
    let mut out = String::new();
    for (at, c) in text.chars().enumerate() {
        for (number, mark) in (1..).zip(marked) {
            if mark.start == at {
                out.push_str(&format!("[{number}:"));
            }
        }
        out.push(c);
        for mark in marked {
            if mark.end == at + 1 {
                out.push_str(&format!(" ({})]", mark.kind));
            }
        }
    }
    printable(&out)
}
