//! The `account` command.

fn main() {}
