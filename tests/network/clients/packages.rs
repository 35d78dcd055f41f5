//! Package managers: npm, pip, cargo and apt, each with a small registry of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::case::{Client, Servers, nothing};
use crate::support::Sandbox;
use crate::support::network::{API, World};

pub const CLIENTS: &[Client] = &[
    Client {
        name: "npm",
        script: "export npm_config_cache=\"$PWD/cache\" npm_config_update_notifier=false npm_config_audit=false\n\
                 export npm_config_fund=false npm_config_registry=http://registry.example.org/ npm_config_fetch_retries=0\n\
                 mkdir app; cd app\n\
                 echo '{ \"name\": \"app\", \"version\": \"0.0.0\", \"private\": true }' >package.json\n\
                 npm install --loglevel=error hello >log || { cat log; exit 1; }\n\
                 node -p 'require(\"hello\")'\n",
        needs: &[("node", "nodejs"), ("npm", "npm")],
        servers: npm,
        prepare: nothing,
        hosts: &["registry.example.org:80"],
        says: "says hello\n",
        refused: &["EAI_AGAIN", "ENOTFOUND"],
        connects: true,
    },
    Client {
        name: "pip",
        script: "export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_RETRIES=0 PIP_CONFIG_FILE=/dev/null\n\
                 /usr/bin/python3 -m pip install -q --index-url http://registry.example.org/simple/ \\\n\
                 \x20   --trusted-host registry.example.org --target here hello\n\
                 PYTHONPATH=here /usr/bin/python3 -c 'import hello'\n",
        needs: &[("/usr/lib/python3/dist-packages/pip", "python3-pip")],
        servers: pip,
        prepare: nothing,
        hosts: &["registry.example.org:80"],
        says: "says hello\n",
        refused: &["name resolution", "No matching distribution"],
        connects: true,
    },
    Client {
        name: "cargo",
        script: include_str!("../scripts/cargo.sh"),
        needs: &[],
        servers: cargo,
        prepare: with_toolchain,
        hosts: &["registry.example.org:80"],
        says: "hello 1.0.0\n",
        refused: &["Could not resolve host", "Couldn't resolve host"],
        connects: true,
    },
    Client {
        name: "apt",
        script: include_str!("../scripts/apt.sh"),
        needs: &[("apt-get", "apt"), ("dpkg-deb", "dpkg")],
        servers: apt,
        prepare: nothing,
        hosts: &["registry.example.org:80"],
        says: "Version: 1.0\nsays hello\n",
        refused: &["Temporary failure resolving", "Could not resolve"],
        connects: true,
    },
];

/// A registry at `registry.example.org`: what a script makes in an empty directory, below `/`. The script's stdin is `source`.
#[track_caller]
fn registry(world: &World, script: &str, source: &str) {
    let directory = world.files().join("registry");
    std::fs::create_dir(&directory).expect("mkdir");
    world.internet.output("/bin/sh", &["-euc", script, "sh", &directory.display().to_string()], source);
    world.web.tree("/", &directory);
    world.dns.change(|zone| zone.set("registry.example.org", 60, vec![API.into()]));
}

fn npm(world: &World) -> Servers {
    let script = "cd \"$1\"; mkdir package files
        echo '{ \"name\": \"hello\", \"version\": \"1.0.0\" }' >package/package.json
        echo 'module.exports = \"says hello\";' >package/index.js
        tar -czf files/hello-1.0.0.tgz package
        sum=$(openssl dgst -sha512 -binary files/hello-1.0.0.tgz | base64 -w 0)
        sed \"s|@SUM@|$sum|\" >hello";
    let described = r#"{ "name": "hello", "dist-tags": { "latest": "1.0.0" }, "versions": { "1.0.0": {
        "name": "hello", "version": "1.0.0", "dist": {
        "tarball": "http://registry.example.org/files/hello-1.0.0.tgz", "integrity": "sha512-@SUM@" } } } }"#;
    registry(world, script, described);
    Vec::new()
}

fn pip(world: &World) -> Servers {
    let script = "mkdir \"$1/simple\" \"$1/files\"; cd \"$1/files\"; exec /usr/bin/python3 -";
    let make = r#"
import zipfile
with zipfile.ZipFile("hello-1.0-py3-none-any.whl", "w") as wheel:
    info = "hello-1.0.dist-info/"
    files = {
        "hello.py": "print('says hello')\n",
        info + "METADATA": "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n",
        info + "WHEEL": "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    for name, text in files.items():
        wheel.writestr(name, text)
    wheel.writestr(info + "RECORD", "".join(f"{name},,\n" for name in [*files, info + "RECORD"]))
"#;
    registry(world, script, make);
    let link = "<a href=\"/files/hello-1.0-py3-none-any.whl\">hello-1.0-py3-none-any.whl</a>\n";
    world.web.put("/simple/hello/", "text/html", link);
    Vec::new()
}

fn cargo(world: &World) -> Servers {
    let script = "cd \"$1\"; mkdir -p hello-1.0.0/src index/he/ll dl/hello/1.0.0
        printf '[package]\\nname = \"hello\"\\nversion = \"1.0.0\"\\nedition = \"2021\"\\n' >hello-1.0.0/Cargo.toml
        echo 'pub const WORD: &str = \"hello\";' >hello-1.0.0/src/lib.rs
        tar -czf dl/hello/1.0.0/download hello-1.0.0
        sum=$(sha256sum dl/hello/1.0.0/download | cut -d ' ' -f 1)
        echo '{ \"dl\": \"http://registry.example.org/dl/{crate}/{version}/download\" }' >index/config.json
        echo '{\"name\":\"hello\",\"vers\":\"1.0.0\",\"deps\":[],\"cksum\":\"'$sum'\",\"features\":{},\"yanked\":false}' >index/he/ll/hello";
    registry(world, script, "");
    Vec::new()
}

/// The toolchain may lie where only its owner gets; the test user gets to it here.
fn with_toolchain(_: &World, sandbox: &mut Sandbox) {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "sysroot"]).output().expect("rustc in PATH, as cargo had it");
    let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let at = sandbox.home().join("toolchain");
    sandbox.bind(Path::new(&sysroot), &at);
    // Root's home is one where keys may lie.
    sandbox.answers(
        "[[answer]]\naccess = \"read\"\nobject = \"/root/.rustup/**\"\nanswer = \"session\"\nscope = \"tree\"\n",
    );
}

fn apt(world: &World) -> Servers {
    let script = "cd \"$1\"; mkdir -p hello/DEBIAN hello/usr/share/hello
        echo 'says hello' >hello/usr/share/hello/text
        printf 'Package: hello\\nVersion: 1.0\\nArchitecture: all\\nMaintainer: A <a@example.org>\\nDescription: hello\\n' >hello/DEBIAN/control
        dpkg-deb --root-owner-group -b hello hello.deb >/dev/null
        { cat hello/DEBIAN/control
          echo \"Filename: ./hello.deb\"
          echo \"Size: $(stat -c %s hello.deb)\"
          echo \"SHA256: $(sha256sum hello.deb | cut -d ' ' -f 1)\"; } >Packages";
    registry(world, script, "");
    Vec::new()
}
