//! A file that cannot be trusted is set aside, and nothing is allowed by it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use gated::daemon::store::{FILE, Store, StoreError};

use super::{Test, alice, grant, live, open, run, stored};

pub const TESTS: &[Test] = &[
    ("what_is_no_store_is_set_aside_and_an_empty_one_begun", no_store),
    ("a_byte_that_changed_anywhere_is_noticed_or_means_nothing", flipped),
    ("a_file_that_others_could_write_is_set_aside", of_others),
    ("a_file_of_a_later_version_is_refused_and_left_alone", later),
    ("a_disk_that_takes_nothing_stores_nothing", full_disk),
];

/// A store with some grants, closed.
fn filled(directory: &Path) -> Vec<u8> {
    run(async {
        let store = open(directory);
        store.add((0..40).map(|number| stored(grant(number), alice())).collect()).await.unwrap();
    });
    fs::read(directory.join(FILE)).unwrap()
}

/// What became of the file beside it: its name, and what it holds.
fn aside(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.path()));
    named
        .filter(|(name, _)| name.starts_with("grants.sqlite.corrupt-"))
        .map(|(name, path)| (name, fs::read(path).unwrap_or_default()))
        .collect()
}

#[track_caller]
fn is_set_aside(directory: &Path, content: &[u8]) {
    let store = open(directory);
    assert!(store.set_aside().is_some(), "it is used");
    assert!(live(&store, &alice()).is_empty());
    let aside = aside(directory);
    assert_eq!(aside.len(), 1);
    assert!(aside[0].1 == content, "it is not what was there");
    // The new one works, and is found again.
    run(async { store.add(vec![stored(grant(7), alice())]).await.unwrap() });
    drop(store);
    let store = open(directory);
    assert!(store.set_aside().is_none());
    assert_eq!(live(&store, &alice()), [7]);
}

fn no_store() {
    let whole = filled(tempfile::tempdir().unwrap().path());
    let half = whole[..whole.len() / 2].to_vec();
    let odd = whole[..whole.len() - 100].to_vec();
    let contents: [&[u8]; 7] = [b"", b"x", b"SQLite format 3\0", &[0; 8192], b"id,allow\n", &half, &odd];
    for content in contents {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join(FILE);
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        is_set_aside(place.path(), content);
    }
    // Another program's, whole.
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join(FILE);
    rusqlite::Connection::open(&file).unwrap().execute_batch("CREATE TABLE grants (id TEXT)").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    is_set_aside(place.path(), &fs::read(&file).unwrap());
}

/// At every 37th place: the grants are those that were stored, or the file is set aside; never others.
fn flipped() {
    let place = tempfile::tempdir().unwrap();
    let whole = filled(place.path());
    let file = place.path().join(FILE);
    let (mut noticed, mut harmless) = (0, 0);
    for at in (0..whole.len()).step_by(37) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x41;
        fs::write(&file, &damaged).unwrap();
        let store = match Store::open(place.path()) {
            Ok(store) => store,
            // A version that is later than this one.
            Err(StoreError::Newer { .. }) => continue,
            Err(error) => panic!("byte {at}: {error}"),
        };
        let found = store.live(&alice());
        if store.set_aside().is_some() {
            assert!(found.is_empty());
            noticed += 1;
        } else {
            assert!(found.iter().all(|stored| *stored.terms() == grant(stored.id().0)), "byte {at} made another grant");
            assert_eq!(found.len(), 40, "byte {at} lost a grant");
            harmless += 1;
        }
        drop(store);
        for entry in fs::read_dir(place.path()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        fs::write(&file, &whole).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    }
    assert!(noticed > 100, "{noticed} of {} were noticed", noticed + harmless);
}

fn of_others() {
    let damaged = |damage: &dyn Fn(&Path)| {
        let place = tempfile::tempdir().unwrap();
        let content = filled(place.path());
        damage(&place.path().join(FILE));
        is_set_aside(place.path(), &content);
    };
    damaged(&|file| fs::set_permissions(file, fs::Permissions::from_mode(0o640)).unwrap());
    damaged(&|file| fs::set_permissions(file, fs::Permissions::from_mode(0o602)).unwrap());
    assert!(rustix::process::geteuid().is_root(), "this test gives files away and needs root");
    damaged(&|file| chown(file, Some(60_777), None).unwrap());
    damaged(&|file| {
        let elsewhere = file.with_file_name("elsewhere");
        fs::rename(file, &elsewhere).unwrap();
        symlink(&elsewhere, file).unwrap();
    });
    damaged(&|file| fs::hard_link(file, file.with_file_name("another-name")).unwrap());
}

fn later() {
    let place = tempfile::tempdir().unwrap();
    filled(place.path());
    let file = place.path().join(FILE);
    rusqlite::Connection::open(&file).unwrap().pragma_update(None, "user_version", 2).unwrap();
    let before = fs::read(&file).unwrap();
    let Err(error) = Store::open(place.path()) else { panic!("it is used") };
    assert!(matches!(error, StoreError::Newer { found: 2, .. }), "{error}");
    assert!(error.to_string().contains("written by a later gated"), "{error}");
    assert_eq!(fs::read(&file).unwrap(), before);
    assert!(aside(place.path()).is_empty());
}

/// A file system of its own, gone with the value.
struct Small(tempfile::TempDir);

impl Small {
    fn new() -> Small {
        let place = tempfile::tempdir().unwrap();
        let options = c"size=256k,mode=0700";
        rustix::mount::mount("tmpfs", place.path(), "tmpfs", rustix::mount::MountFlags::empty(), options).unwrap();
        Small(place)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0.path(), rustix::mount::UnmountFlags::DETACH);
    }
}

fn full_disk() {
    let small = Small::new();
    let directory = small.0.path();
    let refused_number = std::cell::Cell::new(0);
    run(async {
        let store = open(directory);
        store.add(vec![stored(grant(1), alice())]).await.unwrap();
        let mut filler = vec![0; 4096];
        filler.fill(b'x');
        let mut file = fs::File::create(directory.join("filler")).unwrap();
        while std::io::Write::write_all(&mut file, &filler).is_ok() {}
        // Into what is left of the pages that it has.
        let mut number = 2;
        let refused = loop {
            match store.add(vec![stored(grant(number), alice())]).await {
                Ok(_) if number < 1000 => number += 1,
                other => break other,
            }
        };
        assert!(matches!(refused, Err(StoreError::Write(_))), "{refused:?}");
        let there: Vec<u64> = (1..number).collect();
        assert_eq!(live(&store, &alice()), there, "what is not on the disk does not hold");
        // What is taken back holds no more, whether the disk takes that or not.
        let _full = store.revoke(&[gated::common::id::GrantId(1)], "gatedctl:alice").await;
        assert_eq!(live(&store, &alice()), there[1..]);
        drop(file);
        fs::remove_file(directory.join("filler")).unwrap();
        store.add(vec![stored(grant(5000), alice())]).await.unwrap();
        refused_number.set(number);
    });
    let store = open(directory);
    assert!(store.set_aside().is_none());
    let found = live(&store, &alice());
    assert!(found.contains(&5000) && !found.contains(&refused_number.get()), "{found:?}");
}
