//! Which profile holds where none was named.

use std::collections::BTreeSet;

use gated::policy::select::{By, Circumstances, select};

use super::sample::{Files, context, path};

fn with_match(name: &str, terms: &str) -> String {
    format!("schema = 1\n[profile]\nname = \"{name}\"\nmatch = {{ {terms} }}\n")
}

/// The name and why, or what is said of it, of profiles in `/etc/gated/profiles` by name and match.
fn chosen(profiles: &[(&str, &str)], circumstances: &Circumstances) -> Result<(String, By), String> {
    let mut files = Files::default();
    let mut names = BTreeSet::new();
    for (name, terms) in profiles {
        files = files.with(&format!("/etc/gated/profiles/{name}.toml"), &with_match(name, terms));
        names.insert((*name).to_owned());
    }
    let choice = select(&names, &context(), circumstances, &|file| files.read(file));
    choice.map(|choice| (choice.name, choice.by)).map_err(|error| error.to_string())
}

fn of_program(program: &str) -> Circumstances {
    Circumstances { program: vec![path(program)], ..Circumstances::default() }
}

#[test]
fn a_unit_comes_before_a_program_and_a_program_before_a_person() {
    let profiles = [
        ("person", "user = [\"user\"]"),
        ("tool", "program = [\"~/bin/tool\"]"),
        ("service", "unit = [\"ci-hook@*.service\"]"),
    ];
    let mut circumstances = of_program("/home/user/bin/tool");
    circumstances.unit = Some("ci-hook@7.service".to_owned());
    assert_eq!(chosen(&profiles, &circumstances), Ok(("service".to_owned(), By::Unit)));
    circumstances.unit = Some("session-2.scope".to_owned());
    assert_eq!(chosen(&profiles, &circumstances), Ok(("tool".to_owned(), By::Program)));
    circumstances.program = vec![path("/usr/bin/true")];
    assert_eq!(chosen(&profiles, &circumstances), Ok(("person".to_owned(), By::Person)));
    assert_eq!(chosen(&profiles[1..], &circumstances), Ok(("coder".to_owned(), By::Default)));
    assert_eq!(chosen(&profiles[1..], &Circumstances::default()), Ok(("coder".to_owned(), By::Default)));
}

#[test]
fn every_key_of_a_match_has_to_fit() {
    let groups = |name: &str| Circumstances { groups: [name.to_owned()].into(), ..of_program("/usr/bin/make") };
    let terms =
        "program = [\"/usr/bin/make\"], group = [\"ci\", \"build\"], cwd = [\"~/project/**\"], user = [\"user\"]";
    assert_eq!(chosen(&[("a", terms)], &groups("build")).unwrap().1, By::Program);
    assert_eq!(chosen(&[("a", terms)], &groups("staff")).unwrap().1, By::Default);
    let elsewhere = terms.replace("~/project/**", "/srv/**");
    assert_eq!(chosen(&[("a", &elsewhere)], &groups("ci")).unwrap().1, By::Default);
    let of_another = terms.replace("user = [\"user\"]", "user = [\"bob\"]");
    assert_eq!(chosen(&[("a", &of_another)], &groups("ci")).unwrap().1, By::Default);
}

#[test]
fn two_that_match_alike_are_an_error_that_names_both_files() {
    let profiles = [
        ("one", "program = [\"/usr/bin/make\"]"),
        ("three", "unit = [\"x.service\"]"),
        ("two", "program = [\"/usr/bin/*\"], user = [\"user\"]"),
    ];
    let error = chosen(&profiles, &of_program("/usr/bin/make")).unwrap_err();
    assert_eq!(
        error,
        "both /etc/gated/profiles/one.toml and /etc/gated/profiles/two.toml match by program: name one with --profile"
    );
    let in_unit = Circumstances { unit: Some("x.service".to_owned()), ..of_program("/usr/bin/make") };
    assert_eq!(chosen(&profiles, &in_unit).unwrap().0, "three");
    // What is built in is for whoever has said nothing: its own match is no rival.
    let claude = "/home/user/.local/bin/claude";
    assert_eq!(chosen(&[], &of_program(claude)), Ok(("coder".to_owned(), By::Program)));
    let own = [("mine", "program = [\"~/.local/bin/claude\"]")];
    assert_eq!(chosen(&own, &of_program(claude)), Ok(("mine".to_owned(), By::Program)));
    // Nor is it a way out of what is for this person, or for this place.
    for terms in ["user = [\"user\"]", "group = [\"interns\"]", "cwd = [\"~/project/**\"]"] {
        let circumstances = Circumstances { groups: ["interns".to_owned()].into(), ..of_program(claude) };
        assert_eq!(chosen(&[("interns", terms)], &circumstances), Ok(("interns".to_owned(), By::Person)), "{terms}");
    }
}

#[test]
fn a_program_goes_by_the_name_it_was_called_and_the_one_it_leads_to() {
    let both =
        Circumstances { program: vec![path("/opt/tool-1.2/bin"), path("/usr/bin/tool")], ..Circumstances::default() };
    for terms in ["program = [\"/usr/bin/tool\"]", "program = [\"/opt/tool-*/bin\"]"] {
        assert_eq!(chosen(&[("a", terms)], &both).unwrap().0, "a", "{terms}");
    }
}

#[test]
fn a_profile_that_is_masked_matches_nothing_and_a_broken_one_is_an_error() {
    let files = Files::default()
        .with("/etc/gated/profiles/a.toml", "")
        .with("/usr/lib/gated/profiles/a.toml", &with_match("a", "user = [\"user\"]"));
    let find = |files: &Files, names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        select(&names, &context(), &Circumstances::default(), &|file| files.read(file))
    };
    assert_eq!(find(&files, &["a"]).unwrap().by, By::Default);
    let broken = files.with("/home/user/.config/gated/profiles/b.toml", &with_match("b", "user = [\"\"]"));
    let error = find(&broken, &["a", "b"]).unwrap_err().to_string();
    assert_eq!(error, "/home/user/.config/gated/profiles/b.toml:4:19: `` is no name of a user");
}

#[test]
fn variables_of_a_match_are_those_of_its_own_file() {
    let text = "schema = 1\n[profile]\nname = \"a\"\nmatch = { cwd = [\"{where}/**\"] }\n[vars]\nwhere = \"~/project\"\nworkspace = \"@cwd\"\n";
    let files = Files::default().with("/etc/gated/profiles/a.toml", text);
    let names = ["a".to_owned()].into();
    let choice = select(&names, &context(), &Circumstances::default(), &|file| files.read(file)).unwrap();
    assert_eq!((choice.name.as_str(), choice.by), ("a", By::Person));
    assert_eq!(choice.told().unwrap(), "profile a (/etc/gated/profiles/a.toml), chosen by user, group or directory");
}
