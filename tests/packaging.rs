//! What `make install` puts where, and what the files say: read by the programs that will read them. Installs into
//! directories of its own; needs make and systemd-analyze.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use gated::common::bus::{BUS_NAME, action};

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A target of the Makefile, with the programs that this test was built with.
fn make(target: &str, root: &Path, variables: &[&str]) {
    let programs = Path::new(env!("CARGO_BIN_EXE_gated-run")).parent().expect("a directory");
    let output = Command::new("make")
        .args(["--silent", "-C", env!("CARGO_MANIFEST_DIR"), target])
        .args([format!("DESTDIR={}", root.display()), format!("RELEASE={}", programs.display())])
        .args(variables)
        .output()
        .expect("make");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && err.is_empty(), "make {target}: {}\n{err}", output.status);
}

/// Everything below a directory but directories, as paths from there.
fn files(root: &Path) -> BTreeSet<PathBuf> {
    let (mut folders, mut files) = (vec![root.to_owned()], BTreeSet::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a directory").flatten() {
            match entry.file_type().expect("a type").is_dir() {
                true => folders.push(entry.path()),
                false => {
                    files.insert(Path::new("/").join(entry.path().strip_prefix(root).expect("below")));
                }
            }
        }
    }
    files
}

fn installed() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a directory");
    make("install", root.path(), &[]);
    root
}

#[test]
fn uninstall_removes_all_that_install_puts_there_and_nothing_else() {
    for variables in [&[][..], &["PREFIX=/usr"], &["PREFIX=/opt/gated"]] {
        let root = tempfile::tempdir().expect("a directory");
        for other in ["etc/gated/ceiling.toml", "usr/share/man/man1/other.1", "usr/local/bin/other"] {
            let path = root.path().join(other);
            fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            fs::write(path, "").expect("a file");
        }
        let before = files(root.path());
        make("install", root.path(), variables);
        let there = files(root.path());
        assert!(there.len() > before.len() + 25, "{variables:?}: {there:#?}");
        // A second time changes nothing, and an installation is complete without the first.
        make("install", root.path(), variables);
        assert_eq!(files(root.path()), there, "{variables:?}");
        make("uninstall", root.path(), variables);
        assert_eq!(files(root.path()), before, "{variables:?}");
    }
}

#[test]
fn files_lie_where_their_readers_look() {
    let root = installed();
    let there = files(root.path());
    // systemd.unit(5), sysusers.d(5), tmpfiles.d(5), journalctl(1), dbus-daemon(1), polkit(8).
    for path in [
        "/usr/local/bin/gated-run",
        "/usr/local/bin/gatedctl",
        "/usr/local/libexec/gated/gatedd",
        "/usr/local/libexec/gated/gated-session",
        "/usr/local/libexec/gated/gated-notify",
        "/usr/local/lib/systemd/system/gatedd.service",
        "/usr/local/lib/systemd/system/gated-session@.service",
        "/usr/local/lib/systemd/system/gated.slice",
        "/usr/local/lib/systemd/user/gated-notify.service",
        "/usr/local/lib/systemd/user/gated-notify-webhook.service",
        "/usr/local/lib/systemd/user/graphical-session.target.wants/gated-notify.service",
        "/usr/local/lib/systemd/catalog/gated.catalog",
        "/usr/local/lib/sysusers.d/gated.conf",
        "/usr/local/lib/tmpfiles.d/gated.conf",
        "/etc/dbus-1/system.d/org.gated.Gated1.conf",
        "/usr/local/share/dbus-1/system-services/org.gated.Gated1.service",
        "/usr/share/polkit-1/actions/org.gated.gated1.policy",
        "/etc/xdg/autostart/gated-notify.desktop",
        "/usr/local/share/man/man1/gated-run.1",
        "/usr/local/share/man/man1/gatedctl.1",
        "/usr/local/share/bash-completion/completions/gatedctl",
        "/usr/local/share/zsh/site-functions/_gatedctl",
        "/usr/local/share/fish/vendor_completions.d/gatedctl.fish",
    ] {
        assert!(there.contains(Path::new(path)), "{path} in {there:#?}");
    }
    for path in &there {
        let program = ["/usr/local/bin", "/usr/local/libexec"].iter().any(|folder| path.starts_with(folder));
        let path = root.path().join(path.strip_prefix("/").expect("absolute"));
        if path.is_symlink() {
            assert!(path.exists(), "{} leads nowhere", path.display());
            continue;
        }
        let mode = path.metadata().expect("a file").permissions().mode() & 0o7777;
        assert_eq!(mode, if program { 0o755 } else { 0o644 }, "{}", path.display());
        let text = fs::read(&path).expect("a file");
        let left = String::from_utf8_lossy(&text).contains("@libexecdir@");
        assert!(program || !left, "a place was not filled in: {}", path.display());
    }
}

/// systemd-analyze(1): 0 is best, 10 worst; the threshold is in tenths.
#[test]
fn the_daemon_is_exposed_to_two_and_a_half_at_most() {
    let root = installed();
    let output = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager", "--threshold=25"])
        .arg(format!("--root={}", root.path().display()))
        .arg("gatedd.service")
        .output()
        .expect("systemd-analyze: install it with scripts/install-packages.sh test");
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("Overall exposure level for gatedd.service"), "{table}{output:?}");
    assert!(output.status.success(), "{table}");
}

#[test]
fn systemd_understands_every_word_of_the_units() {
    let root = installed();
    // It looks whether programs are there.
    fs::create_dir_all(root.path().join("usr/bin")).expect("directories");
    fs::copy("/bin/true", root.path().join("usr/bin/busctl")).expect("a program");
    for unit in ["gatedd.service", "gated-session@0.service", "gated.slice"] {
        let output = Command::new("systemd-analyze")
            .args(["verify", "--man=no", "--recursive-errors=no"])
            .arg(format!("--root={}", root.path().display()))
            .arg(unit)
            .output()
            .expect("systemd-analyze");
        let err = String::from_utf8_lossy(&output.stderr);
        let ours: Vec<&str> = err.lines().filter(|line| line.contains("gated")).collect();
        assert!(ours.is_empty(), "{unit}: {err}");
    }
}

/// The names in the files are those of the program.
#[test]
fn the_files_of_the_bus_and_of_polkit_name_what_the_program_names() {
    let read = |name: &str| fs::read_to_string(project().join("dbus").join(name)).expect(name);
    let policy = read("org.gated.gated1.policy");
    let actions = [action::ANSWER_FOR_OTHERS, action::MANAGE_SESSIONS, action::EDIT_POLICY, action::GRANT_SENSITIVE];
    for action in actions {
        assert_eq!(policy.matches(&format!("<action id=\"{action}\">")).count(), 1, "{action}");
    }
    assert_eq!(policy.matches("<action id=").count(), actions.len());
    // Nobody gets anything without a proof.
    let given = policy.lines().filter_map(|line| line.trim().strip_prefix("<allow_")?.split(['>', '<']).nth(1));
    assert!(given.clone().count() == 12 && given.clone().all(|word| word.starts_with("auth_") || word == "no"));
    assert!(read("org.gated.Gated1.service").contains(&format!("\nName={BUS_NAME}\n")));
    assert!(read("org.gated.Gated1.conf").contains(&format!("<allow own=\"{BUS_NAME}\"/>")));
}
