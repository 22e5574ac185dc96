//! Arguments of `audit grid`.

use crate::contract::{positive, positive_number};
use clap::Args;
use std::path::PathBuf;

/// Arguments of `audit grid`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
A cell is a preparation, a training run and attacks, each in its own process. Cells share common work: identical \
preparations run once. The folder keeps what is finished, so the same command resumes after an interruption or a kill; \
a failed cell is a row with its reason and is retried by the next run. A stage runs again once the program, or a \
file or folder that its flags name, has changed (of a command: line, those in the line). The command exits with 1 if \
an attack of some cell contradicts a promise or exceeds a limit, whether or not other cells failed; else with 2 if a \
cell failed or leaves a limit undecided.

  schema = 1
  seeds = 3                              # 0, 1, 2: what is held out, missed and planted
  miss_rates = [0, 0.1, 0.5]
  canary_recalls = \"as-policy\"           # catches 1 - miss rate of the canaries; or a list
  sigmas = [1.1]                         # or epsilons
  models = [\"lstm\"]
  data = { dialogues = 60 }              # or path = \"data.jsonl\", documents = 300, skip = 0
  prepare = { policy = \"customers\", conservative = [\"digits\", \"policy\"], canaries = \"10x20\", held_out = 0.2 }
  train = { epochs = 2 }                 # flags of audit train, as those above of audit prepare
  attacks = { membership = { group_size = 5 } }

  [[arms]]
  recipe = \"sgd\"

  [[arms]]
  name = \"crt-2\"
  recipe = \"crt\"
  train = { public_passes = 2 }

Examples:
  audit grid grid.toml --out runs/
  audit figure 'runs/cells/{line}-{x}-{}.json' --y exposure --x-label miss-rate --plot exposure.svg")]
pub struct Grid {
    /// Grid to run.
    #[arg(value_name = "FILE.toml")]
    pub file: PathBuf,
    /// How it is run.
    #[command(flatten)]
    pub running: Running,
    /// Also write an HTML page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// How the cells of a grid are run.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Running {
    /// Folder to write, or to resume in: cells/ has a document for each cell of this run alone, stages/ what they share.
    /// It holds models and text: protect it like the text.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Number of concurrent processes [default: one for every two cores].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub jobs: Option<u64>,
    /// Memory that they may use together, in GiB: what a stage uses is learnt from its first run, which runs alone. A
    /// stage that uses more runs alone. Linux only.
    #[arg(long, value_name = "GIB", value_parser = positive_number, allow_negative_numbers = true)]
    pub memory: Option<f64>,
}
