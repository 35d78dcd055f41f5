//! Patterns against paths, and against a matcher that is too simple to be wrong.

use gated::common::path::RawPath;
use gated::common::scope::{NameGlob, Pattern, PatternError, Reach};
use proptest::prelude::*;

use super::sample::{any_path, any_pattern, path};

fn matches(pattern: &str, of: &str) -> bool {
    Pattern::parse(pattern).unwrap().matches(&path(of))
}

#[test]
fn each_form_of_a_pattern_matches_what_its_table_says() {
    assert!(
        matches("/x/y", "/x/y") && !matches("/x/y", "/x") && !matches("/x/y", "/x/y/z") && !matches("/x/y", "/x/yy")
    );
    assert!(
        matches("/x/*", "/x/y") && matches("/x/*", "/x/.y") && !matches("/x/*", "/x") && !matches("/x/*", "/x/y/z")
    );
    assert!(matches("/x/**", "/x") && matches("/x/**", "/x/y/z") && !matches("/x/**", "/xy") && !matches("/x/**", "/"));
    assert!(matches("**/.env", "/.env") && matches("**/.env", "/a/b/.env") && !matches("**/.env", "/a/.env/b"));
    assert!(matches("**/.env.*", "/a/.env.local") && !matches("**/.env.*", "/a/.env"));
    assert!(
        matches("/x/**/.env", "/x/.env") && matches("/x/**/.env", "/x/a/b/.env") && !matches("/x/**/.env", "/.env")
    );
    assert!(matches("/**", "/") && matches("/**", "/a/b"));
    assert!(matches("/", "/") && !matches("/", "/a"));
    assert!(matches("/a*b*c/d", "/axbxxc/d") && matches("/a*b*c/d", "/abc/d") && !matches("/a*b*c/d", "/ab/d"));
}

#[test]
fn a_star_inside_a_name_does_not_use_a_byte_twice() {
    let glob = NameGlob::parse("ab*ba").unwrap();
    assert!(glob.matches(b"abba") && glob.matches(b"abxba") && !glob.matches(b"aba"));
    assert!(!NameGlob::parse("a*a").unwrap().matches(b"a"));
}

#[test]
fn a_name_in_upper_case_is_another_name() {
    assert!(!matches("**/.env", "/a/.ENV"));
}

#[test]
fn bytes_that_are_no_text_are_matched_and_survive_the_notation() {
    let odd = RawPath::new(b"/caf\xe9/new\nline/\x1b[31m".to_vec());
    let literal = Pattern::literal(&odd);
    assert_eq!(literal.to_string(), r"/caf\xe9/new\x0aline/\x1b\[31m");
    assert_eq!(Pattern::parse(&literal.to_string()).unwrap(), literal);
    assert!(literal.matches(&odd));
    assert!(Pattern::parse("/*/**").unwrap().matches(&odd));
}

#[test]
fn special_characters_of_a_real_path_are_plain() {
    let odd = path("/ws/[id]/{a,b}/*/**/?");
    let tree = Pattern::tree_of(&odd);
    assert!(tree.matches(&odd) && !tree.matches(&path("/ws/i/a/x/y/z")));
    assert_eq!(tree.literal_prefix(), odd);
    assert_eq!(Pattern::parse(&tree.to_string()).unwrap(), tree);
}

#[test]
fn what_has_no_meaning_is_refused() {
    use PatternError::*;
    let refused = |text: &str| Pattern::parse(text).unwrap_err();
    for text in ["", "x", "x/y", "~/x", "**", "*/x", "***/x"] {
        assert_eq!(refused(text), NotAbsolute, "{text}");
    }
    for text in ["//", "/x/", "/x//y", "**/"] {
        assert_eq!(refused(text), EmptyComponent, "{text}");
    }
    assert_eq!(refused("/x/../y"), Dots("..".into()));
    assert_eq!(refused("/."), Dots(".".into()));
    assert_eq!(refused("/x/a**"), StarsInName);
    assert_eq!(refused("/x/{a,b}"), Reserved('{'));
    assert_eq!(refused("/x/[ab]"), Reserved('['));
    assert_eq!(refused("/x/?"), Reserved('?'));
    for text in [r"/x\", r"/x\n", r"/\x4", r"/\x00", r"/a\x2fb", r"/\xg0"] {
        assert_eq!(refused(text), Escape, "{text}");
    }
    assert_eq!(refused("/x\0"), Nul);
    assert_eq!(refused(&format!("/{}", "x".repeat(20_000))), TooLong);
}

#[test]
fn a_pattern_is_serialised_as_its_text_and_checked_on_the_way_in() {
    let pattern = Pattern::parse("/x/**/.env.*").unwrap();
    assert_eq!(serde_json::to_string(&pattern).unwrap(), "\"/x/**/.env.*\"");
    assert_eq!(serde_json::from_str::<Pattern>("\"/x/**/.env.*\"").unwrap(), pattern);
    assert!(serde_json::from_str::<Pattern>("\"x\"").is_err());
}

#[test]
fn scopes_of_a_directory_are_its_children_or_its_tree() {
    let children = Pattern::children_of(&path("/d"));
    assert!(children.matches(&path("/d/x")) && !children.matches(&path("/d")) && !children.matches(&path("/d/x/y")));
    let tree = Pattern::tree_of(&path("/d"));
    assert!(tree.matches(&path("/d")) && tree.matches(&path("/d/x/y")));
    assert_eq!((children.to_string(), tree.to_string()), ("/d/*".to_owned(), "/d/**".to_owned()));
}

#[test]
fn a_pattern_knows_where_its_names_are() {
    let facts = |text: &str| {
        let pattern = Pattern::parse(text).unwrap();
        (pattern.literal_prefix(), pattern.is_anchored(), pattern.is_floating(), pattern.as_tree().is_some())
    };
    assert_eq!(facts("/x/y"), (path("/x/y"), true, false, false));
    assert_eq!(facts("/x/**"), (path("/x"), true, false, true));
    assert_eq!(facts("/**"), (path("/"), true, false, true));
    assert_eq!(facts("/x/*/y"), (path("/x"), true, false, false));
    assert_eq!(facts("**/.env"), (path("/"), false, true, false));
    assert_eq!(facts("/x/**/.env"), (path("/x"), true, true, false));
}

#[test]
fn what_lies_below_a_directory_is_told_from_what_covers_it() {
    let reach = |pattern: &str, directory: &str| {
        let directory = path(directory);
        Pattern::parse(pattern).unwrap().reach_below(&directory.components().collect::<Vec<_>>())
    };
    assert_eq!(reach("/ws/.git/hooks/**", "/ws/.git"), Reach::Named);
    assert_eq!(reach("/ws/.git/hooks/**", "/ws"), Reach::Named);
    assert_eq!(reach("/ws/.git/hooks/**", "/"), Reach::Named);
    assert_eq!(reach("/ws/.git/hooks/**", "/ws/.git/hooks"), Reach::Nothing);
    assert_eq!(reach("/ws/.git/hooks/**", "/ws/.github"), Reach::Nothing);
    assert_eq!(reach("/ws/*", "/ws"), Reach::Named);
    assert_eq!(reach("/home/*/.ssh/**", "/home/user"), Reach::Named);
    assert_eq!(reach("/**", "/ws"), Reach::Nothing);
    assert_eq!(reach("/ws/**", "/ws/a"), Reach::Nothing);
    assert_eq!(reach("**/.env", "/ws"), Reach::Floating);
    assert_eq!(reach("/ws/**/.env", "/ws/a"), Reach::Floating);
    assert_eq!(reach("/ws/**/.env", "/other"), Reach::Nothing);
    assert_eq!(reach("/ws/**/.env", "/"), Reach::Named);
    assert_eq!(reach("**/.git/hooks/**", "/a/.git"), Reach::Named);
    assert_eq!(reach("**/.git/hooks/**", "/a"), Reach::Floating);
    assert_eq!(reach("**/.git/modules/**/config", "/a/.git"), Reach::Named);
    assert_eq!(reach("**/.git/modules/**/config", "/a/.git/modules/b"), Reach::Inside);
    assert_eq!(reach("**/.git/modules/**/config", "/a/.git/refs"), Reach::Floating);
}

/// Tries every way to share out the components, and the bytes of a component.
fn reference(parts: &[&str], names: &[&[u8]]) -> bool {
    fn name_matches(pattern: &[u8], name: &[u8]) -> bool {
        match pattern {
            [] => name.is_empty(),
            [b'*', rest @ ..] => (0..=name.len()).any(|taken| name_matches(rest, &name[taken..])),
            [byte, rest @ ..] => name.first() == Some(byte) && name_matches(rest, &name[1..]),
        }
    }
    match parts {
        [] => names.is_empty(),
        ["**", rest @ ..] => (0..=names.len()).any(|taken| reference(rest, &names[taken..])),
        [part, rest @ ..] => {
            !names.is_empty() && name_matches(part.as_bytes(), names[0]) && reference(rest, &names[1..])
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn matching_agrees_with_the_reference(text in any_pattern(), of in any_path()) {
        let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty()).collect();
        let names: Vec<&[u8]> = of.components().collect();
        prop_assert_eq!(Pattern::parse(&text).unwrap().matches(&of), reference(&parts, &names));
    }

    #[test]
    fn a_pattern_reads_back_from_its_text(text in any_pattern()) {
        let pattern = Pattern::parse(&text).unwrap();
        prop_assert_eq!(Pattern::parse(&pattern.to_string()).unwrap(), pattern);
    }

    #[test]
    fn any_bytes_as_a_path_read_back_from_their_pattern(bytes in prop::collection::vec(1_u8.., 0..60)) {
        let of = RawPath::new([b"/", bytes.as_slice()].concat());
        for pattern in [Pattern::literal(&of), Pattern::tree_of(&of), Pattern::children_of(&of)] {
            prop_assert_eq!(&Pattern::parse(&pattern.to_string()).unwrap(), &pattern);
        }
        prop_assert!(Pattern::literal(&of).matches(&of));
    }

    #[test]
    fn every_text_is_a_pattern_or_an_error(text in ".{0,40}") {
        if let Ok(pattern) = Pattern::parse(&text) {
            prop_assert_eq!(Pattern::parse(&pattern.to_string()).unwrap(), pattern);
        }
    }

    #[test]
    fn whatever_a_covered_pattern_matches_the_cover_matches(cover in any_pattern(), text in any_pattern(), of in any_path()) {
        let (cover, pattern) = (Pattern::parse(&cover).unwrap(), Pattern::parse(&text).unwrap());
        if cover.covers(&pattern) && pattern.matches(&of) {
            prop_assert!(cover.matches(&of));
        }
    }

    #[test]
    fn a_match_below_a_directory_is_never_called_nothing(text in any_pattern(), of in any_path()) {
        let pattern = Pattern::parse(&text).unwrap();
        let names: Vec<&[u8]> = of.components().collect();
        let covers_tree = |depth: usize| pattern.matches_names(&names[..depth]);
        for depth in 0..names.len() {
            // A pattern that matches the directory itself may speak of it as a tree; all others must be seen.
            if pattern.matches(&of) && (0..=depth).all(|depth| !covers_tree(depth)) {
                prop_assert_ne!(pattern.reach_below(&names[..depth]), Reach::Nothing);
            }
        }
    }
}
