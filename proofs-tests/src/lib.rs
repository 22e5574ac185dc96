//! Propositions as property tests, golden vectors, conformance suites, end-to-end tests.

pub mod compile_fail;

pub mod commands;
