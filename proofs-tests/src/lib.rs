//! Privacy mistakes that must not compile, and the commands for tests that run them. The tables of propositions and
//! faults are beside this crate's sources; its tests check their links, the commands end to end, and the book.

pub mod compile_fail;

pub mod commands;
