//! The two commands, tables, JSON, plots and pages; the only place where an upper and a lower bound meet.
