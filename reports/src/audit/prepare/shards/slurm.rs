//! Runs the stages of a plan as Slurm jobs: a single script submits four jobs, all arrays except the last, and is
//! also what each of them runs.

use super::program;
use crate::contract::write_file;
use anyhow::{Context, Result};
use reticent_corpus::prepare::ShardPlan;
use std::path::{Path, PathBuf};

/// Writes the script beside the plan, without running anything.
pub(super) fn write(plan: &ShardPlan, path: &Path) -> Result<PathBuf> {
    let script = reticent_disk::sibling(path, "slurm.sh");
    let plan_file = std::path::absolute(path)
        .with_context(|| format!("{} has no absolute path", path.display()))?;
    let text = text(plan.shards(), plan.parts(), &plan_file, &program()?)?;
    write_file(&script, text.as_bytes())?;
    Ok(script)
}

fn text(shards: u64, parts: u64, plan: &Path, program: &Path) -> Result<String> {
    let (plan, program) = (quoted(plan)?, quoted(program)?);
    let (shard, part) = (shards - 1, parts - 1);
    Ok(format!(
        r#"#!/bin/sh
# Prepares a corpus in {shards} shards, as four jobs of Slurm: sh THIS [options of sbatch, for all of them]
# Every machine needs the plan, the corpus, the files that its options name, this program and the owner's key under the same names.
set -eu
plan={plan}
audit={program}
submit() {{
    stage=$1
    shift
    sbatch --parsable --export=ALL --kill-on-invalid-dep=yes --job-name="prepare-$stage" "$@" "$script" "$stage"
}}
case ${{1:-}} in
join) exec "$audit" prepare --config none --plan "$plan" --stage join ;;
group) exec "$audit" prepare --config none --plan "$plan" --stage group --part "$SLURM_ARRAY_TASK_ID" --threads "${{SLURM_CPUS_PER_TASK:-1}}" ;;
scan | write) exec "$audit" prepare --config none --plan "$plan" --stage "$1" --shard "$SLURM_ARRAY_TASK_ID" --threads "${{SLURM_CPUS_PER_TASK:-1}}" ;;
*)
    script=$0
    scan=$(submit scan --array=0-{shard} "$@")
    group=$(submit group --array=0-{part} --dependency="afterok:${{scan%%;*}}" "$@")
    write=$(submit write --array=0-{shard} --dependency="afterok:${{group%%;*}}" "$@")
    submit join --dependency="afterok:${{write%%;*}}" "$@"
    ;;
esac
"#
    ))
}

/// Quotes a path as one word for a shell.
fn quoted(path: &Path) -> Result<String> {
    let text = path
        .to_str()
        .with_context(|| format!("{} is not UTF-8 text", path.display()))?;
    Ok(format!("'{}'", text.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_single_words() {
        let word = quoted(Path::new("it's $HOME/a b")).unwrap();
        assert_eq!(word, r"'it'\''s $HOME/a b'");
    }
}
