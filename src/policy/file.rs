//! The notation of one policy file, `schema = 1`, with the place of every value that may have to be complained about. The
//! file is an admin's or a user's: every mistake is an error with file, line and column, and nothing unknown is skipped.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::common::access::{Access, Level};
use crate::common::decision::Width;
use crate::common::net::Transport;
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
    /// Where lines begin, once somebody has asked.
    lines: OnceCell<Vec<usize>>,
}

/// What says by which schema it is to be read.
pub(super) trait Versioned {
    fn schema(&self) -> &Spanned<i64>;
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    schema: Spanned<i64>,
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
    #[serde(default)]
    pub dbus: BusTable,
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
    pub network: Option<Spanned<Network>>,
    pub debug: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct MatchTable {
    pub program: Vec<Spanned<String>>,
    pub unit: Vec<Spanned<String>>,
    pub user: Vec<Spanned<String>>,
    pub group: Vec<Spanned<String>>,
    pub cwd: Vec<Spanned<String>>,
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
pub(super) struct BusTable {
    pub session: Vec<Spanned<String>>,
    pub system: Vec<Spanned<String>>,
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
    pub widths: Option<Vec<Width>>,
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
    #[serde(default)]
    pub host: Vec<Spanned<String>>,
    #[serde(default)]
    pub cidr: Vec<Spanned<String>>,
    pub port: Option<Spanned<String>>,
    #[serde(default)]
    pub protocol: Vec<Spanned<Transport>>,
    #[serde(default)]
    pub socket: Vec<Spanned<String>>,
}

/// What a rule is about; one rule is about one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Files,
    Programs,
    Hosts,
    Sockets,
}

impl Kind {
    fn of(access: Access) -> Kind {
        match access {
            Access::Read | Access::Write => Kind::Files,
            Access::Exec => Kind::Programs,
            Access::Connect | Access::Bind => Kind::Hosts,
            Access::Unix => Kind::Sockets,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Kind::Files => "files",
            Kind::Programs => "programs",
            Kind::Hosts => "hosts",
            Kind::Sockets => "sockets",
        }
    }

    /// The keys that say what such a rule speaks of.
    fn keys(self) -> &'static str {
        match self {
            Kind::Files => "`path`",
            Kind::Programs => "`program` and `argv`",
            Kind::Hosts => "`host` and `cidr`",
            Kind::Sockets => "`socket`",
        }
    }
}

/// A word of an argv, or its alternatives.
#[derive(Clone, Debug)]
pub(super) enum WordTerm {
    One(String),
    Alternatives(Vec<String>),
}

/// A hole: a path, a host or a socket, or an argv.
#[derive(Clone, Debug)]
pub(super) enum ExceptTerm {
    Text(String),
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
                f.write_str("a text, or a list of words")
            }

            fn visit_str<E>(self, path: &str) -> Result<ExceptTerm, E> {
                Ok(ExceptTerm::Text(path.to_owned()))
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

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Examples {
    #[serde(rename = "match")]
    pub matching: Vec<Spanned<String>>,
    pub not_match: Vec<Spanned<String>>,
}

/// The rest of a file that cannot be read may still be well-formed.
#[derive(Deserialize)]
struct SchemaOnly {
    schema: Option<Spanned<i64>>,
}

impl Text {
    pub fn new(name: String, text: String) -> Text {
        Text { name, text, lines: OnceCell::new() }
    }

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
        let at = at.min(self.text.len());
        let begins = |(newline, _): (usize, &str)| newline.saturating_add(1);
        let lines = self.lines.get_or_init(|| self.text.match_indices('\n').map(begins).collect());
        let line = lines.partition_point(|&begin| begin <= at);
        let begin = line.checked_sub(1).and_then(|before| lines.get(before)).copied().unwrap_or(0);
        let in_line = self.text.get(begin..at).unwrap_or_default();
        let from_one = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1);
        (from_one(line), from_one(in_line.chars().count()))
    }

    /// Reads a file of schema 1.
    pub fn parse<T: DeserializeOwned + Versioned>(&self) -> Result<T, PolicyError> {
        if self.text.len() > MAX_FILE {
            return Err(self.error(0, format!("longer than {MAX_FILE} bytes")));
        }
        let (read, schema) = match toml::from_str::<T>(&self.text) {
            Ok(file) => {
                let schema = file.schema().clone();
                (Ok(file), Some(schema))
            }
            // What another schema has unknown keys for must not hide that it is another one.
            Err(error) => {
                let only: SchemaOnly = toml::from_str(&self.text).map_err(|error| self.syntax(&error))?;
                (Err(self.syntax(&error)), only.schema)
            }
        };
        match schema {
            None => Err(self.error(0, "`schema = 1` is missing")),
            Some(schema) if *schema.get_ref() != 1 => {
                let message = format!("schema {} is not known; this version reads schema 1", schema.get_ref());
                Err(self.error_at(&schema, message))
            }
            Some(_) => read,
        }
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

impl Versioned for File {
    fn schema(&self) -> &Spanned<i64> {
        &self.schema
    }
}

impl File {
    /// Reads a file; the values in it are still text.
    pub fn parse(text: &Text) -> Result<File, PolicyError> {
        let file: File = text.parse()?;
        for rule in &file.rules {
            let kind = rule.kind(text)?;
            rule.check_keys(text, kind)?;
            rule.check_terms(text, kind)?;
        }
        Ok(file)
    }
}

impl RuleTable {
    /// Whether one of its accesses is this.
    pub fn has(&self, access: Access) -> bool {
        self.access.get_ref().iter().any(|own| *own.get_ref() == access)
    }

    /// What the rule is about.
    pub fn kind(&self, text: &Text) -> Result<Kind, PolicyError> {
        let Some((first, others)) = self.access.get_ref().split_first() else {
            return Err(text.error_at(&self.access, "a rule without an access; `read`, `write` or `exec` was expected"));
        };
        let kind = Kind::of(*first.get_ref());
        match others.iter().find(|other| Kind::of(*other.get_ref()) != kind) {
            None => Ok(kind),
            Some(other) => {
                let message = format!(
                    "`{}` and `{}` in one rule: {} and {} have rules of their own",
                    first.get_ref(),
                    other.get_ref(),
                    kind.as_str(),
                    Kind::of(*other.get_ref()).as_str()
                );
                Err(text.error_at(other, message))
            }
        }
    }

    /// Each kind of rule has keys of its own.
    pub fn check_keys(&self, text: &Text, kind: Kind) -> Result<(), PolicyError> {
        let first = |list: &[Spanned<String>]| list.first().map(|value| value.span().start);
        let argv = self.argv.as_ref().map(|value| value.span().start);
        let port = self.port.as_ref().map(|value| value.span().start);
        let protocol = self.protocol.first().map(|value| value.span().start);
        for (key, start, owner) in [
            ("path", first(&self.path), Kind::Files),
            ("program", first(&self.program), Kind::Programs),
            ("argv", argv, Kind::Programs),
            ("env", first(&self.env), Kind::Programs),
            ("host", first(&self.host), Kind::Hosts),
            ("cidr", first(&self.cidr), Kind::Hosts),
            ("port", port, Kind::Hosts),
            ("protocol", protocol, Kind::Hosts),
            ("socket", first(&self.socket), Kind::Sockets),
        ] {
            if let Some(start) = start.filter(|_| owner != kind) {
                let (owner, kind, keys) = (owner.as_str(), kind.as_str(), kind.keys());
                return Err(text.error(start, format!("`{key}` is for {owner}; a rule on {kind} has {keys}")));
            }
        }
        Ok(())
    }

    /// A rule says what it speaks of.
    fn check_terms(&self, text: &Text, kind: Kind) -> Result<(), PolicyError> {
        let missing = match kind {
            Kind::Files => self.path.is_empty().then_some("`path`"),
            Kind::Programs => self.program.is_empty().then_some("`program`"),
            Kind::Hosts if self.port.is_some() && self.has(Access::Bind) && !self.has(Access::Connect) => None,
            Kind::Hosts => (self.host.is_empty() && self.cidr.is_empty()).then_some("`host` and no `cidr`"),
            Kind::Sockets => self.socket.is_empty().then_some("`socket`"),
        };
        match missing {
            Some(key) => Err(text.error_at(&self.id, format!("rule `{}` has no {key}", self.id.get_ref()))),
            None => Ok(()),
        }
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
