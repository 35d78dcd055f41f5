//! Java's HttpClient, and Netty with Java's resolver and with its own.

use super::case::{Client, Servers, nothing};
use crate::support::network::World;

pub const CLIENTS: &[Client] = &[
    Client {
        name: "java_http_client",
        script: "exec java -Xshare:auto -XX:TieredStopAtLevel=1 -cp \"$1/java\" -Djavax.net.ssl.trustStore=\"$1/tls/ca.p12\" \\\n\
                 -Djavax.net.ssl.trustStorePassword=changeit Client\n",
        needs: &[("javac", "default-jdk-headless")],
        servers: http_client,
        prepare: nothing,
        hosts: &["www.example.org:80", "www.example.org:443"],
        says: "hello from www.example.org\nhello from www.example.org\nmany 3000\n",
        refused: &["UnresolvedAddressException", "UnknownHostException", "ConnectException"],
        connects: true,
    },
    Client {
        name: "netty",
        script: "exec java -Xshare:auto -XX:TieredStopAtLevel=1 -Dio.netty.noUnsafe=true -cp \"$1/java:$(echo /usr/share/java/netty-*.jar | tr ' ' :)\" Netty\n",
        needs: &[("javac", "default-jdk-headless"), ("/usr/share/java/netty-transport.jar", "libnetty-java")],
        servers: netty,
        prepare: nothing,
        hosts: &["www.example.org:7"],
        says: "jdk back\nnetty back\n",
        refused: &["UnknownHostException"],
        connects: true,
    },
];

#[track_caller]
fn compile(world: &World, class: &str, source: &str) {
    let script = "mkdir -p \"$1/java\"; cat >\"$1/java/$2.java\"
        exec javac -cp \"$(echo /usr/share/java/netty-*.jar | tr ' ' :)\" -d \"$1/java\" \"$1/java/$2.java\"";
    world.internet.output("/bin/sh", &["-euc", script, "sh", &world.files().display().to_string(), class], source);
}

fn http_client(world: &World) -> Servers {
    compile(world, "Client", include_str!("../scripts/Client.java"));
    let authority = world.tls(&["www.example.org"]);
    authority.java_store(world);
    vec![Box::new(authority)]
}

fn netty(world: &World) -> Servers {
    compile(world, "Netty", include_str!("../scripts/Netty.java"));
    Vec::new()
}
