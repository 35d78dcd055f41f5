//! What the pages and examples tell people to write must be something that this program reads.

use std::fs;
use std::io;
use std::path::Path;

use gated::common::path::RawPath;
use gated::consent::script::{Places, Script};
use gated::policy::{self, Context, ProfileSelector};

/// The blocks of a page that are marked as TOML.
fn toml_blocks(page: &str) -> Vec<String> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).expect("the page");
    let blocks = page.split("```toml\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap_or_default().to_owned()).collect()
}

fn places() -> Places {
    Places { home: Some(RawPath::from("/home/me")), workspace: Some(RawPath::from("/home/me/project")) }
}

#[test]
fn the_policy_files_of_the_policy_page_load() {
    let (expectations, files): (Vec<String>, Vec<String>) =
        toml_blocks("docs/policy.md").into_iter().partition(|text| text.contains("[[expect]]"));
    let here = Context { home: "/home/me".into(), user: "me".to_owned(), cwd: RawPath::from("/home/me/project") };
    for text in &expectations {
        let read = policy::expect::parse("shown.toml", text, &here).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(!read.all.is_empty());
    }
    assert!(!expectations.is_empty());
    let (ceilings, profiles): (Vec<String>, Vec<String>) =
        files.into_iter().partition(|text| !text.contains("[profile]"));
    assert!(!profiles.is_empty() && ceilings.len() == 1);
    let read = |path: &Path| if path.starts_with("/etc") { Ok(ceilings[0].clone()) } else { unreachable!() };
    let ceiling = policy::Ceiling::load(&read).unwrap_or_else(|error| panic!("{error}"));
    assert!(ceiling.may_run("ci", &[].into()) && !ceiling.may_run("me", &[].into()));
    for profile in profiles {
        let context =
            Context { home: "/home/me".into(), user: "me".to_owned(), cwd: RawPath::from("/home/me/project") };
        let read = |path: &Path| match path.to_str() {
            Some("shown.toml") => Ok(profile.clone()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        if let Err(error) = policy::load(ProfileSelector::File("shown.toml".into()), &context, &read) {
            panic!("{error}\n{profile}");
        }
    }
}

#[test]
fn the_profile_of_the_page_on_services_loads() {
    let profiles = toml_blocks("docs/services.md");
    assert_eq!(profiles.len(), 1);
    let context = Context { home: "/var/lib/ci-hook".into(), user: "ci".to_owned(), cwd: RawPath::from("/") };
    let read = |path: &Path| match path.to_str() {
        Some("shown.toml") => Ok(profiles[0].clone()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    policy::load(ProfileSelector::File("shown.toml".into()), &context, &read).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn the_scripts_of_answers_that_are_shown_are_read() {
    let mut scripts = toml_blocks("docs/consent.md");
    assert!(!scripts.is_empty());
    let demonstration = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/demo/answers.toml");
    scripts.push(fs::read_to_string(demonstration).expect("the script of the demonstration"));
    for script in scripts {
        if let Err(error) = Script::parse("shown.toml", &script, &places()) {
            panic!("{error}\n{script}");
        }
    }
}

/// And none is missing there.
#[test]
fn the_readme_names_options_that_exist() {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).expect("the page");
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_gated-run")).arg("--help").output().expect("gated-run");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let options: Vec<&str> =
        readme.lines().filter_map(|line| line.strip_prefix("| `--")?.split(['`', ' ']).next()).collect();
    assert!(options.len() >= 6, "{options:?}");
    for option in &options {
        assert!(
            help.contains(&format!("--{option} ")) || help.contains(&format!("--{option}\n")),
            "--{option}\n{help}"
        );
    }
    let in_help = help.split_whitespace().filter_map(|word| word.strip_prefix("--"));
    for option in in_help.filter(|option| !["help", "version"].contains(option)) {
        assert!(options.contains(&option), "--{option} is not in the README");
    }
}
