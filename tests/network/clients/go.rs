//! Go's net/http, with its own resolver and with the C library's.

use super::case::{Client, Servers, nothing};
use crate::support::network::World;

pub const CLIENTS: &[Client] = &[Client {
    name: "go",
    script: "cp \"$1/client\" client\n\
             for resolver in go cgo; do\n\
             \x20   GODEBUG=netdns=$resolver ./client \"$1/tls/ca.pem\"\n\
             done\n",
    needs: &[("go", "golang-go"), ("gcc", "gcc")],
    servers,
    prepare: nothing,
    hosts: &["www.example.org:80", "www.example.org:443"],
    says: "hello from www.example.org\ntls hello from www.example.org\nmptcp HTTP/1.1\nmany 200 failures 0\n\
           hello from www.example.org\ntls hello from www.example.org\nmptcp HTTP/1.1\nmany 200 failures 0\n",
    refused: &["lookup www.example.org"],
    connects: true,
}];

fn servers(world: &World) -> Servers {
    let script = "cd \"$1\"
        # The compiled standard library is kept with what cargo builds.
        export GOCACHE=\"$2/go\" GOPATH=\"$1/gopath\" GOPROXY=off GOTOOLCHAIN=local GOFLAGS=-mod=mod CGO_ENABLED=1
        cat >client.go
        go build -o client client.go";
    let files = world.files().display().to_string();
    let arguments = ["-euc", script, "sh", &files, env!("CARGO_TARGET_TMPDIR")];
    world.internet.output("/bin/sh", &arguments, include_str!("../scripts/client.go"));
    super::case::tls(world)
}
