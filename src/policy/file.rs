//! The notation of one policy file, `schema = 1`, with the place of every value that may have to be complained about. The
//! file is an admin's or a user's: every mistake is an error with file, line and column, and nothing unknown is skipped.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{DeserializeOwned, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::common::access::{Access, Level};
use crate::common::wire::Network;

use super::load::PolicyError;
use super::model::NoConsentAgent;

/// Bytes of a policy file at the most.
pub const MAX_FILE: usize = 1 << 20;

/// A text with the name that errors give it.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub name: String,
    pub text: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(rename = "schema")]
    _schema: IgnoredAny,
    pub profile: Header,
    #[serde(default)]
    pub vars: BTreeMap<Spanned<String>, Spanned<String>>,
    #[serde(default)]
    pub defaults: BTreeMap<Access, Spanned<Level>>,
    #[serde(default)]
    pub scratch: ScratchTable,
    #[serde(default)]
    pub env: Env,
    #[serde(default)]
    pub prompt: PromptTable,
    #[serde(default)]
    pub grants: GrantsTable,
    #[serde(default, rename = "rule")]
    pub rules: Vec<RuleTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub name: Spanned<String>,
    pub description: Option<Spanned<String>>,
    #[serde(default)]
    pub extends: Vec<Spanned<String>>,
    #[serde(default, rename = "match")]
    pub match_on: MatchTable,
    pub network: Option<Network>,
    pub debug: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct MatchTable {
    pub program: Vec<Spanned<String>>,
    pub unit: Vec<Spanned<String>>,
    pub user: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ScratchTable {
    pub path: Vec<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Env {
    pub deny: Vec<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PromptTable {
    pub timeout: Option<Spanned<String>>,
    pub max_per_minute: Option<Spanned<i64>>,
    pub no_consent_agent: Option<NoConsentAgent>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct GrantsTable {
    pub max_for: Option<Spanned<String>>,
    pub persistent: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleTable {
    pub id: Spanned<String>,
    pub access: Spanned<Vec<Spanned<Access>>>,
    pub level: Level,
    #[serde(default)]
    pub path: Vec<Spanned<String>>,
    #[serde(default)]
    pub except: Vec<Spanned<ExceptTerm>>,
    pub remember: Option<Spanned<String>>,
    pub reason: Option<Spanned<String>>,
    #[serde(default)]
    pub examples: Examples,
    pub ask: Option<Spanned<AskTable>>,
    #[serde(default)]
    pub program: Vec<Spanned<String>>,
    pub argv: Option<Spanned<Vec<Spanned<WordTerm>>>>,
    #[serde(default)]
    pub env: Vec<Spanned<String>>,
    // Terms of the language that this version does not hold; known by name so that the error can say so.
    host: Option<Spanned<IgnoredAny>>,
    cidr: Option<Spanned<IgnoredAny>>,
    port: Option<Spanned<IgnoredAny>>,
    socket: Option<Spanned<IgnoredAny>>,
}

/// A word of an argv, or its alternatives.
#[derive(Debug)]
pub(super) enum WordTerm {
    One(String),
    Alternatives(Vec<String>),
}

/// A hole: a path, or an argv.
#[derive(Debug)]
pub(super) enum ExceptTerm {
    Path(String),
    Argv(Vec<Spanned<WordTerm>>),
}

// By hand: an untagged enum would lose the places.
impl<'de> Deserialize<'de> for WordTerm {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<WordTerm, D::Error> {
        struct Words;
        impl<'de> Visitor<'de> for Words {
            type Value = WordTerm;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word, or a list of words")
            }

            fn visit_str<E>(self, word: &str) -> Result<WordTerm, E> {
                Ok(WordTerm::One(word.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<WordTerm, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(WordTerm::Alternatives)
            }
        }
        from.deserialize_any(Words)
    }
}

impl<'de> Deserialize<'de> for ExceptTerm {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<ExceptTerm, D::Error> {
        struct Holes;
        impl<'de> Visitor<'de> for Holes {
            type Value = ExceptTerm;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path, or a list of words")
            }

            fn visit_str<E>(self, path: &str) -> Result<ExceptTerm, E> {
                Ok(ExceptTerm::Path(path.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<ExceptTerm, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(ExceptTerm::Argv)
            }
        }
        from.deserialize_any(Holes)
    }
}

/// Who answers for a rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "`{ group = \"NAME\" }`")]
pub(super) struct AskTable {
    pub group: Spanned<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Examples {
    #[serde(rename = "match")]
    pub matching: Vec<Spanned<String>>,
    pub not_match: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
struct SchemaOnly {
    schema: Option<Spanned<i64>>,
}

impl Text {
    /// An error at this byte of the text.
    pub fn error(&self, at: usize, message: impl Into<String>) -> PolicyError {
        let (line, column) = self.place(at);
        let mut shown = String::new();
        for character in message.into().chars() {
            if is_unseen(character) { shown.extend(character.escape_default()) } else { shown.push(character) }
        }
        PolicyError::Invalid { file: self.name.clone(), line, column, message: shown }
    }

    /// An error at a value.
    pub fn error_at<T>(&self, value: &Spanned<T>, message: impl Into<String>) -> PolicyError {
        self.error(value.span().start, message)
    }

    /// Line and column of a byte, both from 1; the column counts characters.
    pub fn place(&self, at: usize) -> (u32, u32) {
        let before = self.text.get(..at.min(self.text.len())).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline.saturating_add(1));
        let from_one = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1);
        let in_line = before.get(line_start..).unwrap_or_default();
        (from_one(before.matches('\n').count()), from_one(in_line.chars().count()))
    }

    /// Reads a file of schema 1.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, PolicyError> {
        if self.text.len() > MAX_FILE {
            return Err(self.error(0, format!("longer than {MAX_FILE} bytes")));
        }
        // The schema first: what another one calls unknown must not hide that it is another one.
        match toml::from_str::<SchemaOnly>(&self.text).map_err(|error| self.syntax(&error))?.schema {
            None => return Err(self.error(0, "`schema = 1` is missing")),
            Some(schema) if *schema.get_ref() != 1 => {
                let message = format!("schema {} is not known; this version reads schema 1", schema.get_ref());
                return Err(self.error_at(&schema, message));
            }
            Some(_) => {}
        }
        toml::from_str(&self.text).map_err(|error| self.syntax(&error))
    }

    fn syntax(&self, error: &toml::de::Error) -> PolicyError {
        let mut message = error.message().replace('\n', ", ");
        for (of_serde, of_toml) in [
            ("unknown variant", "unknown value"),
            ("unknown field", "unknown key"),
            ("missing field", "missing key"),
            ("expected a sequence", "expected a list in brackets"),
            ("expected i64", "expected an integer"),
        ] {
            message = message.replace(of_serde, of_toml);
        }
        self.error(error.span().map_or(0, |span| span.start), message)
    }
}

impl File {
    /// Reads a file; the values in it are still text.
    pub fn parse(text: &Text) -> Result<File, PolicyError> {
        let file: File = text.parse()?;
        for rule in &file.rules {
            rule.check_supported(text)?;
        }
        Ok(file)
    }
}

impl RuleTable {
    /// Whether the rule is one on programs.
    pub fn is_exec(&self) -> bool {
        self.access.get_ref().iter().any(|access| *access.get_ref() == Access::Exec)
    }

    fn check_supported(&self, text: &Text) -> Result<(), PolicyError> {
        if self.access.get_ref().is_empty() {
            let message = "a rule without an access; `read`, `write` or `exec` was expected";
            return Err(text.error_at(&self.access, message));
        }
        for access in self.access.get_ref() {
            match access.get_ref() {
                Access::Read | Access::Write if self.is_exec() => {
                    let message = format!(
                        "`{}` and `exec` in one rule: programs and files have rules of their own",
                        access.get_ref()
                    );
                    return Err(text.error_at(access, message));
                }
                Access::Read | Access::Write | Access::Exec => {}
                other => {
                    let message = format!("rules for `{other}` are not supported by this version");
                    return Err(text.error_at(access, message));
                }
            }
        }
        let terms = [("host", &self.host), ("cidr", &self.cidr), ("port", &self.port), ("socket", &self.socket)];
        for (name, term) in terms {
            if let Some(term) = term {
                return Err(text.error_at(term, format!("`{name}` in a rule is not supported by this version")));
            }
        }
        self.check_terms(text)
    }

    /// Programs have `program`, `argv` and `env`, files have `path`.
    fn check_terms(&self, text: &Text) -> Result<(), PolicyError> {
        let id = self.id.get_ref();
        if self.is_exec() {
            return match self.path.first() {
                Some(path) => {
                    Err(text.error_at(path, "`path` is for files; a rule on programs has `program` and `argv`"))
                }
                None if self.program.is_empty() => {
                    Err(text.error_at(&self.id, format!("rule `{id}` has no `program`")))
                }
                None => Ok(()),
            };
        }
        let first = |list: &[Spanned<String>]| list.first().map(|value| value.span().start);
        let argv = self.argv.as_ref().map(|value| value.span().start);
        for (name, start) in [("program", first(&self.program)), ("argv", argv), ("env", first(&self.env))] {
            if let Some(start) = start {
                return Err(text.error(start, format!("`{name}` is for programs; a rule on files has `path`")));
            }
        }
        if self.path.is_empty() {
            return Err(text.error_at(&self.id, format!("rule `{id}` has no `path`")));
        }
        Ok(())
    }
}

/// Whether a character could change how the text around it is shown: controls, directional marks and overrides, and what
/// takes no room.
pub(super) fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Reads `60s`, `15m` or `8h`: a whole number and a unit, within the limits given.
pub(super) fn duration(
    text: &Text,
    value: &Spanned<String>,
    least: Duration,
    most: Duration,
) -> Result<Duration, PolicyError> {
    let seconds = parse_duration(value.get_ref()).ok_or_else(|| {
        text.error_at(value, format!("`{}` is no duration; `60s`, `15m` or `8h` was expected", value.get_ref()))
    })?;
    if (least..=most).contains(&seconds) {
        return Ok(seconds);
    }
    let limits = format!("{}s to {}h", least.as_secs(), most.as_secs() / 3600);
    Err(text.error_at(value, format!("`{}` is out of range; {limits} was expected", value.get_ref())))
}

/// A whole number of seconds, minutes or hours; `None` for anything else.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let count: u64 = digits.then(|| number.parse().ok()).flatten()?;
    count.checked_mul(factor).map(Duration::from_secs)
}
