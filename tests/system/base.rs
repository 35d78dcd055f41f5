//! The layers that systems are booted from: a minimal Debian, made once and kept, and on top what `make install` puts there.
//! Runs as root; writes below the target directory only.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rustix::fs::FlockOperation;

/// To be counted up when what goes into the base changes.
const EDITION: u32 = 1;
const PACKAGES: &str = "systemd,systemd-sysv,dbus,polkitd,libpam-systemd";
/// Ordinary users of the base, from uid 1000 on.
pub const USERS: [&str; 3] = ["alice", "bob", "carol"];

/// Runs a program to its end; panics with its output unless it succeeds.
#[track_caller]
pub fn done(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    out.into_owned()
}

/// Where systems live. Created if it is not there.
pub fn place() -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("system");
    fs::create_dir_all(&place).expect("the target directory can be written");
    place
}

/// The machine's own release: programs that were built here run there.
fn suite() -> String {
    let release = fs::read_to_string("/etc/os-release").expect("os-release(5)");
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.expect("a Debian with a code name").trim_matches('"').to_owned()
}

/// The mirror that apt itself uses for the release, sources.list(5).
fn mirror(suite: &str) -> String {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(more) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(more.flatten().map(|entry| entry.path()));
    }
    let texts = files.iter().filter_map(|path| fs::read_to_string(path).ok());
    let found = texts.flat_map(|text| sources(&text)).find(|(_, suites)| suites.iter().any(|name| name == suite));
    found.unwrap_or_else(|| panic!("apt has no source for {suite}")).0
}

/// The addresses in a file of sources, in either format, with their suites.
fn sources(text: &str) -> Vec<(String, Vec<String>)> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut found = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("deb ")) {
        let line: Vec<String> =
            words(line).into_iter().skip(1).filter(|word| !word.contains(['[', ']', '='])).collect();
        if let [address, suite, ..] = line.as_slice() {
            found.push((address.clone(), vec![suite.clone()]));
        }
    }
    for stanza in text.split("\n\n") {
        let field = |name: &str| stanza.lines().find_map(|line| line.strip_prefix(name)).map(words);
        if let (Some(addresses), Some(suites)) = (field("URIs:"), field("Suites:")) {
            found.extend(addresses.into_iter().map(|address| (address, suites.clone())));
        }
    }
    found
}

/// The kept base; made by whoever comes first.
fn base() -> PathBuf {
    let suite = suite();
    let base = place().join(format!("{suite}-{EDITION}"));
    let lock = fs::File::create(place().join("lock")).expect("a lock");
    rustix::fs::flock(lock.as_fd(), FlockOperation::LockExclusive).expect("flock");
    if !base.exists() {
        let begun = place().join("begun");
        let _ = fs::remove_dir_all(&begun);
        eprintln!("installing {suite} below {}", place().display());
        let include = format!("--include={PACKAGES}");
        done(Command::new("debootstrap").args(["--variant=minbase", &include, &suite]).arg(&begun).arg(mirror(&suite)));
        for user in USERS {
            let shell = ["useradd", "--create-home", "--shell", "/bin/bash", user];
            done(Command::new("chroot").arg(&begun).args(shell));
        }
        fs::remove_dir_all(begun.join("var/cache/apt")).expect("a cache");
        fs::rename(&begun, &base).expect("rename");
    }
    base
}

/// Layers for overlayfs, uppermost first: what was built, installed on the base.
pub fn layers() -> String {
    static LAYERS: OnceLock<String> = OnceLock::new();
    LAYERS
        .get_or_init(|| {
            let base = base();
            let installed = place().join(format!("gated-system-{}-installed", std::process::id()));
            install(&installed);
            // Groups, which are not files of their own.
            let root = installed.join("etc");
            for file in ["passwd", "group", "shadow", "gshadow"] {
                fs::copy(base.join("etc").join(file), root.join(file)).expect("the user database");
            }
            done(Command::new("systemd-sysusers").arg(format!("--root={}", installed.display())));
            format!("{}:{}", installed.display(), base.display())
        })
        .clone()
}

/// `make install` into a directory.
pub fn install(root: &Path) {
    let programs = Path::new(env!("CARGO_BIN_EXE_gated-run")).parent().expect("a directory");
    done(
        Command::new("make")
            .args(["--silent", "-C", env!("CARGO_MANIFEST_DIR"), "install"])
            .arg(format!("DESTDIR={}", root.display()))
            .arg(format!("RELEASE={}", programs.display())),
    );
}

/// Removes what this process has installed.
pub fn remove() {
    let _ = fs::remove_dir_all(place().join(format!("gated-system-{}-installed", std::process::id())));
}
