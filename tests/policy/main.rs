//! The policy language from outside: patterns, files, verdicts and grants. Pure, needs no privilege.

mod ceiling;
mod decide;
mod grants;
mod load;
mod patterns;
mod plan;
mod profiles;
mod sample;
