//! The admin's limit: whatever it says, a session under it is never freer than without it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use gated::policy::{Ceiling, Policy, PolicyError, Profile, ProfileSelector, load};

use super::attempts::{all, context, levels};
use super::script::is_there;

static PROFILES: LazyLock<Vec<Profile>> = LazyLock::new(|| {
    let read = |name: &str| {
        let selector = ProfileSelector::Name(name.to_owned());
        load(selector, &context(), &|_| Err(io::ErrorKind::NotFound.into())).expect("a built-in profile")
    };
    let free = load(ProfileSelector::File(PathBuf::from("free.toml")), &context(), &|file| {
        let is_it = file == Path::new("free.toml");
        is_it.then(|| FREE.to_owned()).ok_or_else(|| io::ErrorKind::NotFound.into())
    });
    vec![read("coder"), free.expect("a profile")]
});

const FREE: &str = "schema = 1\n[profile]\nname = \"free\"\n[defaults]\nread = \"allow\"\nwrite = \"allow\"\n\
    exec = \"allow\"\nconnect = \"allow\"\nbind = \"allow\"\nunix = \"allow\"\n";

/// A ceiling's file, `====` on a line, and attempts, a line each.
pub fn check(input: &[u8]) {
    let Ok(input) = std::str::from_utf8(input) else { return };
    let (text, attempts) = input.split_once("\n====\n").unwrap_or((input, ""));
    let read = |file: &Path| {
        let is_it = file.ends_with("ceiling.toml");
        is_it.then(|| text.to_owned()).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    };
    let ceiling = match Ceiling::load(&read) {
        Ok(ceiling) => ceiling,
        Err(PolicyError::Invalid { line, column, .. }) => return is_there(text, line as usize, column as usize),
        Err(_) => return,
    };
    let groups = BTreeSet::from(["user".to_owned(), "dev".to_owned()]);
    let attempts = all(attempts.as_bytes().split(|&byte| byte == b'\n'));
    let alone = ceiling.alone(&context(), Some(&groups)).expect("a ceiling that was taken");
    for profile in PROFILES.iter() {
        let mut covered = profile.clone();
        if ceiling.cover(&mut covered, &context(), &groups).is_err() {
            continue;
        }
        let (free, under) = (levels(&Policy::new(profile), &attempts), levels(&Policy::new(&covered), &attempts));
        for ((question, free), under) in attempts.iter().zip(free).zip(under) {
            assert!(under >= free, "{question:?}: {free:?} became {under:?} under a ceiling");
        }
        let own = covered.grants.limits();
        assert!(own.longest <= ceiling.limits().longest && own.longest <= profile.grants.limits().longest);
    }
    drop(Policy::new(&alone));
    let _ = (ceiling.may_run("user", &groups), ceiling.may_write_profiles());
}
