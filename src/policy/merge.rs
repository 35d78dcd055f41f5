//! Lays the files of a profile over each other and substitutes `~` and variables: from text with places to a [`Profile`].
//! Runs as whoever starts a session, on an admin's or user's files.
//!
//! Rules, scratch and `[env]` add up; variables, `[defaults]`, `[prompt]`, `[grants]` and `network` of a file replace those
//! of the files that it extends, key by key. `match` and `description` are the file's own.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use toml::Spanned;

use crate::common::access::{Access, Level};
use crate::common::decision::{Lifetime, Widths};
use crate::common::path::RawPath;
use crate::common::scope::{NameGlob, Pattern, Reach};
use crate::common::wire::Network;

use super::ceiling;
use super::execrule;
use super::file::{self, ExceptTerm, File, Kind, MatchTable, RuleTable, Text};
use super::load::{self, Context, PolicyError};
use super::model::{BusNames, Profile, Rule};
use super::netrule;
use super::select::Matching;
use super::socketrule::{self, SocketTerms};

/// Trees of gated's own that no profile opens for writing, and one below the home directory.
const OWN_TREES: [&str; 6] =
    ["/etc/gated", "/run/gated", "/usr/lib/gated", "/usr/libexec/gated", "/var/lib/gated", "/var/log/gated"];
const OWN_USER_TREE: &[u8] = b".config/gated";

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// What stands for `~` and `{name}`.
pub(super) struct Names<'a> {
    context: &'a Context,
    vars: BTreeMap<String, RawPath>,
}

/// The profile of these files, the ones that are extended first; the last one is the profile itself.
pub(super) fn merge(layers: &[(Text, File)], context: &Context) -> Result<Profile, PolicyError> {
    let names = Names { context, vars: vars(layers, context)? };
    let mut protected: Vec<RawPath> = OWN_TREES.iter().map(|&own| RawPath::from(own)).collect();
    protected.push(context.home.join(OWN_USER_TREE));
    let mut profile =
        Profile { workspace: names.vars.get("workspace").cloned(), protected, ..Profile::empty(context.home.clone()) };
    check_defaults(layers)?;
    let mut known: HashMap<String, (String, u32)> = HashMap::new();
    for (text, file) in layers {
        lay_header(&mut profile, &names, text, file)?;
        lay_tables(&mut profile, text, file)?;
        for table in &file.rules {
            let rule = rule(&names, text, table)?;
            if let Some((first, line)) = known.insert(rule.id.clone(), (rule.file.clone(), rule.line)) {
                let message = format!("the id `{}` is taken already, at {first}:{line}", rule.id);
                return Err(text.error_at(&table.id, message));
            }
            profile.rules.push(rule);
        }
    }
    for (text, file) in layers {
        for value in &file.scratch.path {
            let root = scratch_root(&profile, &names, text, value)?;
            if !profile.scratch.contains(&root) {
                profile.scratch.push(root);
            }
        }
    }
    if profile.network == Network::Host {
        leave_network(&mut profile, layers)?;
    }
    Ok(profile)
}

fn vars(layers: &[(Text, File)], context: &Context) -> Result<BTreeMap<String, RawPath>, PolicyError> {
    let mut last = BTreeMap::new();
    for (text, file) in layers {
        for (name, value) in &file.vars {
            let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            if name.get_ref().is_empty() || !name.get_ref().bytes().all(plain) {
                let message = format!("`{}` is no variable name: a-z, 0-9 and `_` were expected", name.get_ref());
                return Err(text.error_at(name, message));
            }
            if name.get_ref() == "user" {
                return Err(text.error_at(name, "`{user}` is the user's name and cannot be set"));
            }
            last.insert(name.get_ref().clone(), (text, value));
        }
    }
    last.into_iter().map(|(name, (text, value))| Ok((name.clone(), var(&name, text, value, context)?))).collect()
}

/// The path that a variable stands for: `@cwd`, or one that is written out.
fn var(name: &str, text: &Text, value: &Spanned<String>, context: &Context) -> Result<RawPath, PolicyError> {
    let written = value.get_ref().as_str();
    let path = match written {
        "@cwd" => context.cwd.clone(),
        _ if written.starts_with('@') => {
            return Err(text.error_at(value, format!("`{written}` is not known; `@cwd` or a path was expected")));
        }
        _ => {
            let names = Names::plain(context);
            let pattern = names.pattern(text, value)?;
            let path = pattern.literal_prefix();
            if Pattern::literal(&path) != pattern {
                return Err(text.error_at(value, format!("`{written}` has a wildcard; one path was expected")));
            }
            path
        }
    };
    if (written == "@cwd" || name == "workspace") && context.home.is_within(&path) {
        let what =
            if path == context.home { "the home directory" } else { "a directory that holds the home directory" };
        let message = format!("`{name}` would be {}, {what}; start in a project's own directory", shown(&path));
        return Err(text.error_at(value, message));
    }
    Ok(path)
}

impl Names<'_> {
    /// `~` and `{user}`, and no variables.
    pub fn plain(context: &Context) -> Names<'_> {
        Names { context, vars: BTreeMap::new() }
    }

    /// A pattern with `~` and `{name}` in it. What is substituted is plain text, whatever characters it has.
    pub fn pattern(&self, text: &Text, value: &Spanned<String>) -> Result<Pattern, PolicyError> {
        let full = self.substitute(text, value)?;
        Pattern::parse(&full).map_err(|error| text.error_at(value, format!("`{}`: {error}", value.get_ref())))
    }

    fn substitute(&self, text: &Text, value: &Spanned<String>) -> Result<String, PolicyError> {
        let mut full = String::new();
        for (at, name) in value.get_ref().split('/').enumerate() {
            if at > 0 {
                full.push('/');
            }
            let variable = name.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
            let path = match variable {
                Some("user") => {
                    let user = Pattern::literal(&RawPath::from(self.context.user.as_str())).to_string();
                    full.push_str(user.trim_start_matches('/'));
                    continue;
                }
                Some(variable) => Some(self.vars.get(variable).ok_or_else(|| {
                    let known: Vec<String> =
                        self.vars.keys().map(String::as_str).chain(["user"]).map(|name| format!("`{name}`")).collect();
                    let message = format!("`{{{variable}}}` is not in [vars]; known here: {}", known.join(", "));
                    text.error_at(value, message)
                })?),
                None if at == 0 && name == "~" => Some(&self.context.home),
                None => None,
            };
            match path {
                Some(_) if at > 0 => {
                    let message = format!("`{name}` is an absolute path and stands only at the beginning of a pattern");
                    return Err(text.error_at(value, message));
                }
                // `/` with something below it must not become `//`.
                Some(path) if path.components().next().is_none() && value.get_ref().contains('/') => {}
                Some(path) => full.push_str(&Pattern::literal(path).to_string()),
                None => full.push_str(name),
            }
        }
        Ok(full)
    }

    fn patterns(&self, text: &Text, values: &[Spanned<String>]) -> Result<Vec<Pattern>, PolicyError> {
        values.iter().map(|value| self.pattern(text, value)).collect()
    }
}

fn lay_header(profile: &mut Profile, names: &Names<'_>, text: &Text, file: &File) -> Result<(), PolicyError> {
    let header = &file.profile;
    if !load::is_profile_name(header.name.get_ref()) {
        return Err(text.error_at(&header.name, PolicyError::BadName(header.name.get_ref().clone()).to_string()));
    }
    profile.name.clone_from(header.name.get_ref());
    profile.description = header.description.as_ref().map_or(Ok(String::new()), |value| sentence(text, value))?;
    profile.file.clone_from(&text.name);
    profile.network = header.network.as_ref().map_or(profile.network, |network| *network.get_ref());
    profile.debug = header.debug.unwrap_or(profile.debug);
    let matching = matching(names, text, &header.match_on)?;
    profile.match_program = matching.program;
    profile.match_unit = matching.unit;
    profile.match_user = matching.user;
    profile.match_group = matching.group;
    profile.match_cwd = matching.cwd;
    Ok(())
}

fn matching(names: &Names<'_>, text: &Text, table: &MatchTable) -> Result<Matching, PolicyError> {
    let accounts = |values: &[Spanned<String>], what: &str| {
        let account = |value: &Spanned<String>| match ceiling::is_account_name(value.get_ref()) {
            true => Ok(value.get_ref().clone()),
            false => Err(text.error_at(value, format!("`{}` is no name of a {what}", value.get_ref()))),
        };
        values.iter().map(account).collect::<Result<Vec<_>, _>>()
    };
    Ok(Matching {
        program: names.patterns(text, &table.program)?,
        unit: globs(text, &table.unit)?,
        user: accounts(&table.user, "user")?,
        group: accounts(&table.group, "group")?,
        cwd: names.patterns(text, &table.cwd)?,
    })
}

/// What chooses a file's profile by itself, whatever else is in the file. The variables in it are the file's own.
pub(super) fn match_of(text: &Text, file: &File, context: &Context) -> Result<Matching, PolicyError> {
    let table = &file.profile.match_on;
    let has_variable = |value: &Spanned<String>| value.get_ref().replace("{user}", "").contains('{');
    let vars = match table.program.iter().chain(&table.cwd).any(has_variable) {
        true => file
            .vars
            .iter()
            .map(|(name, value)| Ok((name.get_ref().clone(), var(name.get_ref(), text, value, context)?)))
            .collect::<Result<_, PolicyError>>()?,
        false => BTreeMap::new(),
    };
    matching(&Names { context, vars }, text, table)
}

/// A `deny` of `[defaults]` is kept by whoever extends its file.
fn check_defaults(layers: &[(Text, File)]) -> Result<(), PolicyError> {
    for (at, (text, file)) in layers.iter().enumerate() {
        let below = layers.get(..at).unwrap_or_default();
        let mut extended: Vec<&(Text, File)> = Vec::new();
        let mut open = vec![file];
        while let Some(one) = open.pop() {
            for base in &one.profile.extends {
                let found = below.iter().rfind(|(_, own)| own.profile.name.get_ref() == base.get_ref());
                if let Some(found) = found.filter(|found| !extended.iter().any(|own| std::ptr::eq(*own, *found))) {
                    extended.push(found);
                    open.push(&found.1);
                }
            }
        }
        for (access, level) in file.defaults.iter().filter(|(_, level)| *level.get_ref() < Level::Deny) {
            let denied = extended.iter().find_map(|(from, own)| {
                let denied = own.defaults.get(access).filter(|own| *own.get_ref() == Level::Deny)?;
                Some((from, denied))
            });
            if let Some((from, denied)) = denied {
                let line = from.place(denied.span().start).0;
                let message = format!(
                    "{access} = \"{}\" lowers the \"deny\" of {}:{line}, which this extends",
                    level.get_ref(),
                    from.name
                );
                return Err(text.error_at(level, message));
            }
        }
    }
    Ok(())
}

fn lay_tables(profile: &mut Profile, text: &Text, file: &File) -> Result<(), PolicyError> {
    for (access, level) in &file.defaults {
        let own = profile.defaults.level_mut(*access);
        // One that extends it does not lower it, and one beside it neither.
        *own = if *own == Level::Deny { Level::Deny } else { *level.get_ref() };
    }
    for glob in globs(text, &file.env.deny)? {
        if !profile.env_deny.contains(&glob) {
            profile.env_deny.push(glob);
        }
    }
    socketrule::lay_bus_names(&mut profile.bus_names, text, &file.dbus)?;
    if let Some(timeout) = &file.prompt.timeout {
        profile.prompt.timeout = file::duration(text, timeout, SECOND, DAY)?;
    }
    if let Some(most) = &file.prompt.max_per_minute {
        profile.prompt.max_per_minute = u32::try_from(*most.get_ref())
            .ok()
            .filter(|most| (1..=600).contains(most))
            .ok_or_else(|| text.error_at(most, format!("{} is out of range; 1 to 600 was expected", most.get_ref())))?;
    }
    if let Some(queue) = file.prompt.no_consent_agent {
        profile.prompt.no_consent_agent = queue;
    }
    if let Some(longest) = &file.grants.max_for {
        profile.grants.max_for = Some(file::duration(text, longest, SECOND, DAY.saturating_mul(30))?);
    }
    if let Some(persistent) = file.grants.persistent {
        profile.grants.persistent = persistent;
    }
    if let Some(widths) = &file.grants.widths {
        profile.grants.widths = Widths::of(widths.iter().copied());
    }
    Ok(())
}

fn globs(text: &Text, values: &[Spanned<String>]) -> Result<Vec<NameGlob>, PolicyError> {
    let glob = |value: &Spanned<String>| {
        NameGlob::parse(value.get_ref())
            .map_err(|error| text.error_at(value, format!("`{}`: {error}", value.get_ref())))
    };
    values.iter().map(glob).collect()
}

pub(super) fn rule(names: &Names<'_>, text: &Text, table: &RuleTable) -> Result<Rule, PolicyError> {
    let id = table.id.get_ref();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if id.is_empty() || id.len() > 64 || !id.bytes().all(plain) || id == "default" {
        let message =
            format!("`{id}` is no rule id: 1 to 64 letters, digits, `-`, `_` and `.` were expected, not `default`");
        return Err(text.error_at(&table.id, message));
    }
    let mut access: Vec<Access> = table.access.get_ref().iter().map(|access| *access.get_ref()).collect();
    access.sort_unstable();
    access.dedup();
    let kind = table.kind(text)?;
    let sockets = match kind {
        Kind::Sockets => socketrule::terms(names, text, table)?,
        Kind::Files => SocketTerms {
            paths: names.patterns(text, &table.path)?,
            except: path_holes(names, text, table)?,
            services: Vec::new(),
        },
        Kind::Programs | Kind::Hosts => SocketTerms::default(),
    };
    let (remember, remember_for) = remember(text, table)?;
    let rule = Rule {
        id: id.clone(),
        file: text.name.clone(),
        line: text.place(table.id.span().start).0,
        access,
        path: sockets.paths,
        except: sockets.except,
        exec: if kind == Kind::Programs { Some(execrule::terms(names, text, table)?) } else { None },
        network: if kind == Kind::Hosts { Some(netrule::terms(text, table)?) } else { None },
        services: sockets.services,
        level: table.level,
        remember,
        remember_for,
        group: group(text, table)?,
        reason: table.reason.as_ref().map(|value| sentence(text, value)).transpose()?,
        is_ceiling: false,
    };
    match (&rule.exec, &rule.network) {
        (Some(terms), _) => execrule::check_examples(names, text, table, &rule, terms)?,
        (None, Some(terms)) => netrule::check_examples(text, table, &rule, terms)?,
        (None, None) if kind == Kind::Sockets => socketrule::check_examples(names, text, table, &rule)?,
        (None, None) => check_examples(names, text, table, &rule)?,
    }
    Ok(rule)
}

fn path_holes(names: &Names<'_>, text: &Text, table: &RuleTable) -> Result<Vec<Pattern>, PolicyError> {
    let hole = |value: &Spanned<ExceptTerm>| match value.get_ref() {
        ExceptTerm::Text(path) => names.pattern(text, &Spanned::new(value.span(), path.clone())),
        ExceptTerm::Argv(_) => Err(text.error_at(value, "a list of words in a rule for files; a path was expected")),
    };
    table.except.iter().map(hole).collect()
}

/// A text that is shown to a person: one line of at most 200 characters.
fn sentence(text: &Text, value: &Spanned<String>) -> Result<String, PolicyError> {
    let sentence = value.get_ref();
    if sentence.chars().any(file::is_unseen) {
        return Err(text.error_at(value, "a line of visible text was expected, without control characters"));
    }
    if sentence.chars().count() > 200 {
        return Err(text.error_at(value, "at most 200 characters were expected"));
    }
    Ok(sentence.clone())
}

/// The longest lifetime, and the longest time within it.
fn remember(text: &Text, table: &RuleTable) -> Result<(Lifetime, Option<Duration>), PolicyError> {
    let Some(value) = &table.remember else {
        // Who has to prove something is asked again in the next session.
        let longest = if table.level == Level::Authenticate { Lifetime::Session } else { Lifetime::Persistent };
        return Ok((longest, None));
    };
    match value.get_ref().as_str() {
        "attempt" => Ok((Lifetime::Attempt, None)),
        "call" => Ok((Lifetime::Call, None)),
        "session" => Ok((Lifetime::Session, None)),
        "persistent" => Ok((Lifetime::Persistent, None)),
        time if file::parse_duration(time).is_some() => {
            Ok((Lifetime::Session, Some(file::duration(text, value, SECOND, DAY.saturating_mul(30))?)))
        }
        other => {
            let message = format!(
                "`{other}` is no lifetime; `attempt`, `call`, `session`, `persistent` or a time such as `10m` was expected"
            );
            Err(text.error_at(value, message))
        }
    }
}

/// The group that answers, where the rule asks at all.
fn group(text: &Text, table: &RuleTable) -> Result<Option<String>, PolicyError> {
    let Some(ask) = &table.ask else { return Ok(None) };
    if !matches!(table.level, Level::Ask | Level::Authenticate) {
        return Err(text.error_at(ask, format!("`ask` says who answers, but level = \"{}\" asks nobody", table.level)));
    }
    let group = &ask.get_ref().group;
    if !ceiling::is_account_name(group.get_ref()) {
        return Err(text.error_at(group, format!("`{}` is no name of a group", group.get_ref())));
    }
    Ok(Some(group.get_ref().clone()))
}

fn check_examples(names: &Names<'_>, text: &Text, table: &RuleTable, rule: &Rule) -> Result<(), PolicyError> {
    let examples = &table.examples;
    let both = examples
        .matching
        .iter()
        .map(|value| (value, true))
        .chain(examples.not_match.iter().map(|value| (value, false)));
    for (value, expected) in both {
        let example = names.pattern(text, value)?;
        let path = example.literal_prefix();
        if Pattern::literal(&path) != example {
            return Err(text
                .error_at(value, format!("the example `{}` has a wildcard; one path was expected", value.get_ref())));
        }
        if rule.matches(&path) != expected {
            let does = if expected { "does not match, but is in `match`" } else { "matches, but is in `not_match`" };
            return Err(text.error_at(value, format!("rule `{}`: the example `{}` {does}", rule.id, value.get_ref())));
        }
    }
    Ok(())
}

/// A root of scratch: a tree that is not everything, holds nothing of gated's own, and in which no rule has its names.
fn scratch_root(
    profile: &Profile,
    names: &Names<'_>,
    text: &Text,
    value: &Spanned<String>,
) -> Result<RawPath, PolicyError> {
    let refuse = |message: String| Err(text.error_at(value, format!("scratch `{}`: {message}", value.get_ref())));
    let Some(root) = names.pattern(text, value)?.as_tree() else {
        return refuse("`/directory/**` was expected".to_owned());
    };
    if root.components().next().is_none() || profile.home.is_within(&root) {
        return refuse("it would hold the home directory or everything".to_owned());
    }
    let overlap = |own: &&RawPath| own.is_within(&root) || root.is_within(own);
    if let Some(own) = profile.protected.iter().find(overlap) {
        return refuse(format!("gated's own {} is in it, or it in that", shown(own)));
    }
    let below: Vec<&[u8]> = root.components().collect();
    let inside = |rule: &&Rule| {
        rule.level > Level::Allow
            && rule.access.contains(&Access::Write)
            && rule.path.iter().any(|path| path.reach_below(&below) == Reach::Named)
    };
    match profile.rules.iter().find(inside) {
        Some(rule) => {
            refuse(format!("no rule holds in scratch, but `{}` ({}:{}) has names there", rule.id, rule.file, rule.line))
        }
        None => Ok(root),
    }
}

/// On the host's network nothing of it is held. Refused where the file that says so, or one laid over it, relies on it; what
/// was said further down does not hold, and whoever starts a session is told.
fn leave_network(profile: &mut Profile, layers: &[(Text, File)]) -> Result<(), PolicyError> {
    const HELD: [Access; 3] = [Access::Connect, Access::Bind, Access::Unix];
    let chosen = layers.iter().rposition(|(_, file)| file.profile.network.is_some()).unwrap_or(0);
    for (text, file) in layers.get(chosen..).unwrap_or_default() {
        for (access, level) in &file.defaults {
            if HELD.contains(access) && *level.get_ref() > Level::Allow {
                let message = format!(
                    "{access} = \"{}\" does not hold with network = \"host\", where nothing holds `{access}`",
                    level.get_ref()
                );
                return Err(text.error_at(level, message));
            }
        }
        for rule in &file.rules {
            if let Some(access) = rule.access.get_ref().iter().find(|access| HELD.contains(access.get_ref())) {
                let message = format!(
                    "rules for `{}` do not hold with network = \"host\", where nothing holds them",
                    access.get_ref()
                );
                return Err(text.error_at(access, message));
            }
        }
        if let Some(name) = file.dbus.session.iter().chain(&file.dbus.system).next() {
            return Err(
                text.error_at(name, "[dbus] does not hold with network = \"host\", where every name is reached")
            );
        }
    }
    let held = |rule: &Rule| rule.access.iter().any(|access| HELD.contains(access));
    let said = profile.rules.iter().filter(|rule| held(rule)).count();
    profile.rules.retain(|rule| !held(rule));
    profile.bus_names = BusNames::default();
    for access in HELD {
        *profile.defaults.level_mut(access) = Level::Allow;
    }
    let place = layers.get(chosen).and_then(|(text, file)| {
        let network = file.profile.network.as_ref()?;
        Some(format!("{}:{}: ", text.name, text.place(network.span().start).0))
    });
    if said > 0 {
        profile.notes.push(format!(
            "{}network = \"host\": no rule on hosts and sockets holds, {said} of what is extended among them.",
            place.unwrap_or_default()
        ));
    }
    Ok(())
}

fn shown(path: &RawPath) -> String {
    path.as_bytes().escape_ascii().to_string()
}
