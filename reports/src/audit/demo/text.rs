//! The demo in the terminal.

use super::tables::{facts, leaks, promises};
use super::{DemoReport, short_caveats};
use crate::number::{grouped, nearest};

pub(super) fn text(report: &DemoReport) -> String {
    let mut out = format!("{}\n\n", report.says());
    for (name, value) in facts(report) {
        out.push_str(&format!("{name:<11} {value}\n"));
    }
    out.push_str("\nWhat is promised (upper bounds), and how good the model is\n\n");
    out.push_str(&promises(report).to_text());
    out.push_str(&format!(
        "\nA trigram model has perplexity {}.\n",
        nearest(report.trigram_perplexity, 3)
    ));
    out.push_str("\nWhat leaks (lower bounds)\n\n");
    out.push_str(&leaks(report).to_text());
    out.push('\n');
    if let Some(line) = null_line(report) {
        out.push_str(&format!("{line}\n"));
    }
    for arm in &report.arms {
        out.push_str(&format!("\n{}: {}\n", arm.name, arm.describes));
        if let Some(verdict) = &arm.exposure.verdict {
            out.push_str(&format!("  Verdict: {verdict}.\n"));
        }
    }
    out.push('\n');
    for caveat in short_caveats() {
        out.push_str(&format!("- {caveat}\n"));
    }
    out
}

/// What the exposures would be without any leak.
pub(super) fn null_line(report: &DemoReport) -> Option<String> {
    let finding = &report.arms.first()?.exposure.finding;
    let (max, mean) = (finding.summary.max(), finding.summary.mean());
    Some(format!(
        "Without any leak the largest of {} exposures is {:.2} bits on average and below {:.2} in 95 % of cases; their mean is {:.2} and below {:.2}. Rank 1 of {} is {:.2} bits.",
        finding.canaries.len(),
        max.null_mean(),
        max.null_95(),
        mean.null_mean(),
        mean.null_95(),
        grouped(finding.candidates),
        (finding.candidates as f64).log2(),
    ))
}
