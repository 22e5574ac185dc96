//! The `audit` command.

fn main() {}
