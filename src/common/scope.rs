//! Path patterns, shared by rules and grants.
