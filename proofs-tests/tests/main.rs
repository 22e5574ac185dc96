//! All tests in one program: it is linked once, and its tests share the processors.

mod audit_attacks;
mod audit_classifiers;
mod audit_corpora;
mod audit_flow;
mod audit_own_model;
mod audit_plan;
mod audit_recipes;
mod audit_secrets;
mod audit_shadows;
mod audit_state;
mod readme;
mod recipes;
