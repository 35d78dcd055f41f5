//! The policy language from outside: patterns, files, verdicts and grants. Pure, needs no privilege.

mod ceiling;
mod commands;
mod decide;
mod denials;
mod exec;
mod grants;
mod laws;
mod load;
mod network;
mod patterns;
mod plan;
mod profiles;
mod readings;
mod sample;
mod select;
mod services;
mod shipped;
mod sockets;
