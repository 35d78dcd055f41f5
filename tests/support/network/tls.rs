//! HTTP over TLS: certificates by an authority of the test's own, and a server that hands what it decrypts to the world's HTTP.
//! OpenSSL does both, by openssl(1) and by Python.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use super::{Program, World};

/// The authority, and the server that has its certificate.
pub struct Authority {
    directory: PathBuf,
    server: Program,
}

impl Authority {
    /// Serves port 443 of every address with one certificate for all of `names`, which may be addresses.
    #[track_caller]
    pub(super) fn new(world: &World, names: &[&str]) -> Authority {
        let directory = world.files().join("tls");
        fs::create_dir(&directory).expect("one authority for a world");
        let named = |(index, name): (usize, &&str)| match name.parse::<IpAddr>() {
            Ok(address) => format!("IP.{index} = {address}\n"),
            Err(_) => format!("DNS.{index} = {name}\n"),
        };
        let listed: String = names.iter().enumerate().map(named).collect();
        let settings = format!(
            "[req]\ndistinguished_name = subject\nprompt = no\n[subject]\nCN = a test\n\
             [ca]\nbasicConstraints = critical,CA:TRUE\nkeyUsage = critical,keyCertSign\nsubjectKeyIdentifier = hash\n\
             [leaf]\nbasicConstraints = CA:FALSE\nkeyUsage = digitalSignature\nextendedKeyUsage = serverAuth\n\
             subjectKeyIdentifier = hash\nauthorityKeyIdentifier = keyid\nsubjectAltName = @names\n[names]\n{listed}"
        );
        fs::write(directory.join("settings"), settings).expect("write");
        let script = "cd \"$1\"
            key() { openssl ecparam -name prime256v1 -genkey -noout -out \"$1\"; }
            key ca.key; key leaf.key
            openssl req -x509 -config settings -extensions ca -subj '/CN=the authority of a test' -days 30 -key ca.key -out ca.pem
            openssl req -new -config settings -key leaf.key -out leaf.csr
            openssl x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -set_serial 2 -days 30 \
                -extfile settings -extensions leaf -out leaf.pem 2>&1";
        world.internet.output("/bin/sh", &["-euc", script, "sh", &directory.display().to_string()], "");
        let mut command = world.internet.command("/usr/bin/python3");
        command.args(["-c", include_str!("tls.py")]).arg(&directory).args(["443", "80"]);
        let at = SocketAddr::new(IpAddr::from([127, 0, 0, 1]), 443);
        let server = Program::start(&world.internet, command, at, &directory.join("printed"));
        Authority { directory, server }
    }

    /// The authority's certificate, PEM.
    pub fn certificate(&self) -> PathBuf {
        self.directory.join("ca.pem")
    }

    /// The names that clients asked for in their hello, in order.
    pub fn hellos(&self) -> Vec<String> {
        let printed = self.server.printed();
        printed.lines().filter_map(|line| line.strip_prefix("hello ")).map(str::to_owned).collect()
    }

    /// A key store for Java, with the password `changeit`.
    #[track_caller]
    pub fn java_store(&self, world: &World) -> PathBuf {
        let store = self.directory.join("ca.p12");
        let script = "keytool -importcert -noprompt -alias test -file \"$1\" -keystore \"$2\" -storetype PKCS12 \
                      -storepass changeit 2>&1";
        let text = |path: &Path| path.display().to_string();
        world.internet.output("/bin/sh", &["-euc", script, "sh", &text(&self.certificate()), &text(&store)], "");
        store
    }
}
