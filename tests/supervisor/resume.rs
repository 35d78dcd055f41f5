//! Still to come.

pub const TESTS: &[crate::Test] = &[];
pub const INSIDE: &[crate::Inside] = &[];
