//! A proposed rule, and its text as a policy file has it. Pure; what a tool chose is escaped twice: as a pattern, and as TOML.

use crate::common::access::{Access, Level};
use crate::common::argv::{ArgvPattern, Place, WordGlob};
use crate::common::path::RawPath;
use crate::common::scope::Pattern;

/// One `[[rule]]` of a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposed {
    pub id: String,
    pub access: Access,
    pub level: Level,
    /// Keys that have lists of texts, such as `path`.
    pub lists: Vec<(&'static str, Vec<String>)>,
    /// Command lines that it is not about, each with the name that its pattern begins with.
    pub holes: Vec<(String, ArgvPattern)>,
    /// One line each, escaped.
    pub comments: Vec<String>,
    /// Whether it stands there for whoever reads it, and has no effect.
    pub is_comment: bool,
}

impl Proposed {
    /// The rule's text, at another level if one is given; ends with a newline.
    pub fn text(&self, level: Option<Level>) -> String {
        let mut text = String::new();
        for comment in &self.comments {
            text.push_str(&format!("# {comment}\n"));
        }
        let mut lines = vec![
            "[[rule]]".to_owned(),
            format!("id = {}", quoted(&self.id)),
            format!("access = [{}]", quoted(self.access.as_str())),
        ];
        lines.extend(self.lists.iter().map(|(key, values)| list(key, values)));
        if !self.holes.is_empty() {
            let holes = self.holes.iter().map(|(name, hole)| format!("    {},\n", words(name, hole)));
            lines.push(format!("except = [\n{}]", holes.collect::<String>()));
        }
        lines.push(format!("level = {}", quoted(level.unwrap_or(self.level).as_str())));
        let hash = if self.is_comment { "# " } else { "" };
        for line in lines.iter().flat_map(|line| line.lines()) {
            text.push_str(&format!("{hash}{line}\n"));
        }
        text
    }
}

/// A basic string of TOML: JSON's strings are that, too, for what has no control characters.
pub fn quoted(text: &str) -> String {
    let plain: String = text.chars().filter(|one| !one.is_control()).collect();
    serde_json::to_string(&plain).unwrap_or_else(|_| "\"\"".to_owned())
}

/// A pattern on words as a file has it.
fn words(name: &str, pattern: &ArgvPattern) -> String {
    let glob = |word: &WordGlob| match word {
        WordGlob::Empty => quoted(""),
        WordGlob::Glob(glob) => quoted(&glob.to_string()),
    };
    let several = |words: &[WordGlob]| words.iter().map(glob).collect::<Vec<_>>().join(", ");
    let place = |place: &Place| match place {
        Place::Any => quoted("**"),
        Place::Many(words) => format!("[\"**\", {}]", several(words)),
        Place::One(words) => match words.as_slice() {
            [word] => glob(word),
            words => format!("[{}]", several(words)),
        },
    };
    let places: Vec<Place> = pattern.clone().into();
    let all: Vec<String> = std::iter::once(quoted(name)).chain(places.iter().map(place)).collect();
    format!("[{}]", all.join(", "))
}

fn list(key: &str, values: &[String]) -> String {
    let all: Vec<String> = values.iter().map(|value| quoted(value)).collect();
    let one = format!("{key} = [{}]", all.join(", "));
    if one.chars().count() <= 120 {
        return one;
    }
    let lines: String = all.iter().map(|value| format!("    {value},\n")).collect();
    format!("{key} = [\n{lines}]")
}

/// What a profile calls the places that it is about.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    pub home: &'a RawPath,
    pub workspace: Option<&'a RawPath>,
}

impl Places<'_> {
    /// A pattern as a profile says it: with `{workspace}` or `~` for what that is.
    pub fn shown(&self, pattern: &Pattern) -> String {
        let text = pattern.to_string();
        let named = [self.workspace.map(|workspace| ("{workspace}", workspace)), Some(("~", self.home))];
        for (name, tree) in named.into_iter().flatten() {
            if !pattern.literal_prefix().is_within(tree) || tree.components().next().is_none() {
                continue;
            }
            if let Some(rest) = text.strip_prefix(&Pattern::literal(tree).to_string()) {
                return format!("{name}{rest}");
            }
        }
        text
    }
}
