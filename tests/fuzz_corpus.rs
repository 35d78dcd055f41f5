//! What fuzzing has found and what it begins with: each input that is kept in fuzz/corpus goes through its check again, without
//! a fuzzer. `GATED_WRITE_SEEDS=1` writes the inputs that are made from the project's own files.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

#[path = "../fuzz/checks/mod.rs"]
mod checks;
#[path = "../fuzz/checks/seeds.rs"]
mod seeds;

use checks::{TARGETS, Target};

/// Of all targets together; more is for whoever runs them.
const MOST_FILES: usize = 260;
/// Of one file.
const MOST_BYTES: u64 = 64 << 10;

fn below(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz").join(name)
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The inputs of a target that do not hold, with what was said.
fn fails((name, check): Target) -> Vec<String> {
    let folder = below("corpus").join(name);
    let files = names(&folder);
    assert!(!files.is_empty(), "{} is empty", folder.display());
    let try_one = |file: &String| {
        let bytes = fs::read(folder.join(file)).unwrap();
        let error = catch_unwind(AssertUnwindSafe(|| check(&bytes))).err()?;
        let text = error.downcast_ref::<String>().cloned();
        let text = text.or_else(|| error.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Some(format!("{name}/{file}: {}", text.unwrap_or_default()))
    };
    files.iter().filter_map(try_one).collect()
}

#[test]
fn what_is_kept_holds_in_every_check() {
    if std::env::var_os("GATED_WRITE_SEEDS").is_some() {
        seeds::write(&below("corpus"));
    }
    let failed: Vec<String> = TARGETS.into_iter().flat_map(fails).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_check_is_a_target_and_the_corpus_stays_small() {
    let expected: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let targets = names(&below("targets")).iter().map(|file| file.trim_end_matches(".rs").to_owned()).collect();
    assert_eq!(expected, targets);
    assert_eq!(expected, names(&below("corpus")));
    let manifest = fs::read_to_string(below("Cargo.toml")).unwrap();
    for name in &expected {
        assert!(manifest.contains(&format!("name = \"{name}\"\npath = \"targets/{name}.rs\"")), "{name}");
    }
    let folders = expected.iter().map(|name| below("corpus").join(name));
    let files: Vec<PathBuf> =
        folders.flat_map(|folder| names(&folder).into_iter().map(move |name| folder.join(name))).collect();
    assert!(files.len() <= MOST_FILES, "{} files: cargo fuzz cmin", files.len());
    let long = files.iter().filter(|file| fs::metadata(file).unwrap().len() > MOST_BYTES);
    assert_eq!(long.collect::<Vec<_>>(), Vec::<&PathBuf>::new());
}
