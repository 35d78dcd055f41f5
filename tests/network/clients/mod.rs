//! Real clients of real servers: each bare, where its host is allowed, and where it is denied.

pub mod asked;
mod case;
mod databases;
mod git;
mod go;
mod java;
mod node;
mod packages;
mod python;
mod resolvers;
pub mod served;
mod shells;
pub mod waiting;
mod web;

use case::Client;

const CLIENTS: &[&[Client]] = &[
    databases::CLIENTS,
    git::CLIENTS,
    go::CLIENTS,
    java::CLIENTS,
    node::CLIENTS,
    packages::CLIENTS,
    python::CLIENTS,
    resolvers::CLIENTS,
    shells::CLIENTS,
    web::CLIENTS,
];

/// A name, and what is done, for each client on each side.
pub fn trials() -> impl Iterator<Item = (String, Box<dyn FnOnce() + Send>)> {
    CLIENTS.iter().copied().flatten().flat_map(|client| {
        let trial = |what: &str, run: fn(&Client)| -> (String, Box<dyn FnOnce() + Send>) {
            (format!("clients::{}_{what}", client.name), Box::new(move || run(client)))
        };
        let mut trials = vec![
            trial("works_bare", Client::bare),
            trial("works_where_its_host_is_allowed", Client::allowed),
            trial("fails_at_once_where_it_is_denied", Client::denied),
        ];
        if client.connects {
            trials.push(trial("fails_at_once_where_its_port_is_denied", Client::denied_port));
        }
        trials
    })
}
