//! `gatedctl policy` on files of the test's own: what it says, in golden files, and how it ends. Needs no daemon and no root.

mod check;
mod diff;
mod edit;
mod expectations;
mod explain;
mod files;
mod world;
