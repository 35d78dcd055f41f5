//! The JSON schemas for editors are what the parser reads: the same keys, and nothing that one takes and the other refuses by
//! its structure. Needs no root.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use gated::policy::{self, Ceiling, Context, ProfileSelector};
use serde_json::Value;

fn source(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn schema(of: &str) -> Value {
    serde_json::from_str(&source(&format!("policies/{of}.schema.json"))).unwrap()
}

/// What the loader says of a file.
fn load(of: &str, text: &str) -> Result<(), String> {
    let read = |path: &Path| match path.to_str() {
        Some("x.toml" | "/etc/gated/ceiling.toml") => Ok(text.to_owned()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    let error = match of {
        "ceiling" => Ceiling::load(&read).err(),
        _ => {
            let context = Context { home: "/home/me".into(), user: "me".into(), cwd: "/home/me/project".into() };
            policy::load(ProfileSelector::File("x.toml".into()), &context, &read).err()
        }
    };
    error.map_or(Ok(()), |error| Err(error.to_string()))
}

/// The keys that the parser has at a place, from what it says of one that it has not.
fn known(of: &str, around: &str) -> BTreeSet<String> {
    let error = load(of, &around.replace("HERE", "zz-unknown = 1")).unwrap_err();
    let (_, list) = error.split_once("unknown key `zz-unknown`, expected ").unwrap_or_else(|| panic!("{error}"));
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The keys of a schema at a JSON pointer.
fn keys(schema: &Value, pointer: &str) -> BTreeSet<String> {
    let object = schema.pointer(pointer).unwrap_or_else(|| panic!("{pointer}"));
    assert_eq!(object["additionalProperties"], false, "{pointer}");
    object["properties"].as_object().unwrap().keys().cloned().collect()
}

const HEAD: &str = "schema = 1\n";
const PROFILE: &str = "[profile]\nname = \"x\"\n";

#[test]
fn the_schemas_have_the_keys_of_the_parser_and_no_others() {
    let profile = schema("profile");
    let rule = "[[rule]]\nid = \"r\"\naccess = [\"read\"]\nlevel = \"ask\"\n";
    let places = [
        ("", format!("{HEAD}HERE\n{PROFILE}")),
        ("/properties/profile", format!("{HEAD}{PROFILE}HERE\n")),
        ("/properties/profile/properties/match", format!("{HEAD}{PROFILE}[profile.match]\nHERE\n")),
        ("/properties/scratch", format!("{HEAD}{PROFILE}[scratch]\nHERE\n")),
        ("/properties/env", format!("{HEAD}{PROFILE}[env]\nHERE\n")),
        ("/properties/prompt", format!("{HEAD}{PROFILE}[prompt]\nHERE\n")),
        ("/properties/grants", format!("{HEAD}{PROFILE}[grants]\nHERE\n")),
        ("/properties/dbus", format!("{HEAD}{PROFILE}[dbus]\nHERE\n")),
        ("/$defs/rule", format!("{HEAD}{PROFILE}{rule}HERE\n")),
        ("/$defs/rule/properties/examples", format!("{HEAD}{PROFILE}{rule}examples = {{ HERE }}\n")),
        ("/$defs/rule/properties/ask", format!("{HEAD}{PROFILE}{rule}ask = {{ HERE }}\n")),
    ];
    for (pointer, around) in places {
        assert_eq!(keys(&profile, pointer), known("profile", &around), "profile {pointer}");
    }
    let ceiling = schema("ceiling");
    let floor = "[[floor]]\naccess = [\"read\"]\nlevel = \"ask\"\n";
    for (pointer, around) in [
        ("", format!("{HEAD}HERE\n")),
        ("/properties/users", format!("{HEAD}[users]\nHERE\n")),
        ("/$defs/floor", format!("{HEAD}{floor}HERE\n")),
        ("/$defs/floor/properties/examples", format!("{HEAD}{floor}examples = {{ HERE }}\n")),
    ] {
        assert_eq!(keys(&ceiling, pointer), known("ceiling", &around), "ceiling {pointer}");
    }
}

/// The words of an enumeration, from what the parser says of one that it has not.
#[test]
fn the_schemas_have_the_words_of_the_parser() {
    let profile = schema("profile");
    let words = |around: &str| -> BTreeSet<String> {
        let error = load("profile", &format!("{HEAD}{around}")).unwrap_err();
        let (_, list) = error.split_once("unknown value `zz`, expected ").unwrap_or_else(|| panic!("{error}"));
        list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let listed = |pointer: &str| -> BTreeSet<String> {
        let list = profile.pointer(pointer).and_then(Value::as_array).unwrap_or_else(|| panic!("{pointer}"));
        list.iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    for (pointer, around) in [
        ("/$defs/level/enum", format!("{PROFILE}[defaults]\nread = \"zz\"\n")),
        ("/$defs/access/enum", format!("{PROFILE}[[rule]]\nid = \"r\"\naccess = [\"zz\"]\nlevel = \"ask\"\n")),
        ("/properties/profile/properties/network/enum", format!("{PROFILE}network = \"zz\"\n")),
        (
            "/properties/prompt/properties/no_consent_agent/enum",
            format!("{PROFILE}[prompt]\nno_consent_agent = \"zz\"\n"),
        ),
        (
            "/$defs/rule/properties/protocol/items/enum",
            format!("{PROFILE}[[rule]]\nid = \"r\"\naccess = [\"connect\"]\nlevel = \"ask\"\nprotocol = [\"zz\"]\n"),
        ),
        ("/properties/grants/properties/widths/items/enum", format!("{PROFILE}[grants]\nwidths = [\"zz\"]\n")),
    ] {
        assert_eq!(listed(pointer), words(&around), "{pointer}");
    }
    let defaults: BTreeSet<String> =
        profile["properties"]["defaults"]["properties"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(defaults, listed("/$defs/access/enum"));
}

/// A validator for the part of JSON Schema (2020-12) that the schemas use. `pattern` and `description` are for editors.
fn validate(root: &Value, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    const USED: [&str; 21] = [
        "$schema",
        "$id",
        "title",
        "description",
        "type",
        "properties",
        "additionalProperties",
        "required",
        "items",
        "enum",
        "const",
        "$ref",
        "$defs",
        "anyOf",
        "pattern",
        "minItems",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "not",
    ];
    let wrong = |why: &str| Err(format!("{place}: {why}: {value}"));
    let Some(schema) = schema.as_object() else { return if schema == false { wrong("not allowed") } else { Ok(()) } };
    for (key, rule) in schema {
        assert!(USED.contains(&key.as_str()) || key == "propertyNames", "this validator does not know `{key}`");
        let number = || rule.as_u64().unwrap();
        let length = || value.as_str().map_or(0, |text| text.chars().count() as u64);
        match key.as_str() {
            "$ref" => {
                let pointer = rule.as_str().unwrap().strip_prefix('#').unwrap();
                validate(root, root.pointer(pointer).unwrap(), value, place)?;
            }
            "type" => {
                let fits = match rule.as_str().unwrap() {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "integer" => value.is_i64(),
                    other => panic!("{other}"),
                };
                if !fits {
                    return wrong("another type was expected");
                }
            }
            "required" => {
                let missing = rule.as_array().unwrap().iter().find(|key| value.get(key.as_str().unwrap()).is_none());
                if let Some(missing) = missing {
                    return wrong(&format!("{missing} is missing"));
                }
            }
            "properties" => {
                for (key, rule) in rule.as_object().unwrap() {
                    if let Some(value) = value.get(key) {
                        validate(root, rule, value, &format!("{place}/{key}"))?;
                    }
                }
            }
            "additionalProperties" => {
                let properties = schema.get("properties").and_then(Value::as_object);
                for (key, value) in value.as_object().into_iter().flatten() {
                    if !properties.is_some_and(|properties| properties.contains_key(key)) {
                        validate(root, rule, value, &format!("{place}/{key}"))?;
                    }
                }
            }
            "items" => {
                for (at, value) in value.as_array().into_iter().flatten().enumerate() {
                    validate(root, rule, value, &format!("{place}/{at}"))?;
                }
            }
            "anyOf" if !rule.as_array().unwrap().iter().any(|one| validate(root, one, value, place).is_ok()) => {
                return wrong("none of several");
            }
            "not" if validate(root, rule, value, place).is_ok() => return wrong("not that"),
            "enum" if !rule.as_array().unwrap().contains(value) => return wrong("none of the words"),
            "const" if rule != value => return wrong("another value was expected"),
            "minItems" if value.as_array().is_some_and(|list| (list.len() as u64) < number()) => {
                return wrong("too few");
            }
            "minLength" if length() < number() => return wrong("too short"),
            "maxLength" if length() > number() => return wrong("too long"),
            "minimum" if value.as_i64() < rule.as_i64() => return wrong("too small"),
            "maximum" if value.as_i64() > rule.as_i64() => return wrong("too great"),
            _ => {}
        }
    }
    Ok(())
}

fn held(of: &str, text: &str) -> Result<(), String> {
    let schema = schema(of);
    let value: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    validate(&schema, &schema, &serde_json::to_value(value).unwrap(), "")
}

#[test]
fn what_is_shipped_is_valid() {
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("policies")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            held("profile", &std::fs::read_to_string(&path).unwrap())
                .unwrap_or_else(|error| panic!("{path:?}: {error}"));
        }
    }
    // And what the pages show.
    for page in ["docs/policy.md", "docs/gatedctl.md"] {
        for block in source(page).split("```toml\n").skip(1) {
            let text = block.split("```").next().unwrap();
            let of = if text.contains("[profile]") { "profile" } else { "ceiling" };
            if !text.contains("[[expect]]") {
                held(of, text).unwrap_or_else(|error| panic!("{page}: {error}\n{text}"));
            }
        }
    }
}

#[test]
fn what_the_parser_refuses_by_its_structure_is_refused() {
    let rule = |rest: &str| {
        format!("{HEAD}{PROFILE}[[rule]]\nid = \"r\"\naccess = [\"read\"]\nlevel = \"ask\"\npath = [\"/x\"]\n{rest}")
    };
    assert_eq!((held("profile", &rule("")), load("profile", &rule(""))), (Ok(()), Ok(())));
    let broken = [
        PROFILE.to_owned(),
        format!("schema = 2\n{PROFILE}"),
        HEAD.to_owned(),
        format!("{HEAD}[profile]\n"),
        format!("{HEAD}[profile]\nname = 1\n"),
        format!("{HEAD}{PROFILE}extends = \"base\"\n"),
        format!("{HEAD}{PROFILE}[defaults]\nfly = \"ask\"\n"),
        format!("{HEAD}{PROFILE}[defaults]\nread = \"maybe\"\n"),
        format!("{HEAD}{PROFILE}[prompt]\nmax_per_minute = 0\n"),
        format!("{HEAD}{PROFILE}[prompt]\ntimeout = 60\n"),
        format!("{HEAD}{PROFILE}[grants]\npersistent = \"yes\"\n"),
        format!("{HEAD}{PROFILE}[vars]\nx = 1\n"),
        format!("{HEAD}{PROFILE}[[rule]]\nid = \"r\"\nlevel = \"ask\"\n"),
        format!("{HEAD}{PROFILE}[[rule]]\nid = \"default\"\naccess = [\"read\"]\nlevel = \"ask\"\npath = [\"/x\"]\n"),
        format!("{HEAD}{PROFILE}[[rule]]\nid = \"r\"\naccess = []\nlevel = \"ask\"\npath = [\"/x\"]\n"),
        rule("pathes = [\"/y\"]\n"),
        rule("except = [1]\n"),
        rule("ask = { }\n"),
        rule(&format!("reason = \"{}\"\n", "x".repeat(201))),
    ];
    for text in broken {
        assert!(held("profile", &text).is_err(), "the schema takes\n{text}");
        assert!(load("profile", &text).is_err(), "the parser takes\n{text}");
    }
    for text in ["schema = 1\n[users]\nmay_run = \"all\"\n", "schema = 1\n[[rule]]\nid = \"x\"\n", "[users]\n"] {
        assert!(held("ceiling", text).is_err() && load("ceiling", text).is_err(), "{text}");
    }
}
