//! Canary plan and scorer in, finding (a lower bound) out.
