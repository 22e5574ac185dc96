//! Propositions as property tests, golden vectors, conformance suites and end-to-end tests.

pub mod compile_fail;

pub mod commands;
