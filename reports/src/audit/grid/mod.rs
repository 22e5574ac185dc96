//! `audit grid`: runs recipes × miss rates × canary recall × noise × model × seeds, with a document for each cell and
//! one table.

pub mod args;
mod cell;
mod file;
mod page;
mod plan;
mod pool;
mod run;

pub use cell::{CellDocument, GridReport, Row, StageOf};
pub use file::{Arm, Attacks, CanaryRecalls, Data, Flags, GridFile};
pub use plan::{Place, Plan, Work};
pub(super) use pool::{Ended, ending_with_this, last_error};
pub use pool::{Finished, Limits, end_with_parent};
pub use run::run;
pub(super) use run::{GridFolder, cells};
