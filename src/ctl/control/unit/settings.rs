//! The settings of a service unit, from what `systemctl cat` prints: the unit's file and its drop-ins, in the order in which
//! they are laid over each other (systemd.syntax(7), systemd.service(5)). Pure.

use std::collections::BTreeMap;

/// A unit as its files make it, without one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// What is right of `ExecStart=`, as it is written; what empties the list has.
    pub exec_start: Vec<String>,
    /// All other settings of `[Service]`, by name; the last value of each, and an empty one unsets it.
    service: BTreeMap<String, String>,
    /// Names of the files that set `ExecStart=`.
    pub set_by: Vec<String>,
}

impl Settings {
    /// `left_out` is the path of a file that does not count.
    pub fn parse(cat: &str, left_out: &str) -> Settings {
        let mut settings = Settings::default();
        let (mut file, mut section) = (String::new(), String::new());
        for line in joined(cat) {
            // Between the files there is a line with the next one's name.
            if let Some(path) = line.strip_prefix("# /") {
                file = format!("/{path}");
                section.clear();
                continue;
            }
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) || file == left_out {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                name.clone_into(&mut section);
                continue;
            }
            let Some((name, value)) = line.split_once('=').filter(|_| section == "Service") else { continue };
            settings.set(name.trim(), value.trim(), &file);
        }
        settings
    }

    fn set(&mut self, name: &str, value: &str, file: &str) {
        match (name, value) {
            ("ExecStart", "") => {
                self.exec_start.clear();
                self.set_by.clear();
            }
            ("ExecStart", line) => {
                self.exec_start.push(line.to_owned());
                if !self.set_by.iter().any(|known| known == file) {
                    self.set_by.push(file.to_owned());
                }
            }
            (_, "") => drop(self.service.remove(name)),
            _ => drop(self.service.insert(name.to_owned(), value.to_owned())),
        }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.service.get(name).map(String::as_str)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.service.keys().map(String::as_str)
    }

    /// Whether a setting is one of the words for yes.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "1" | "yes" | "y" | "true" | "t" | "on"))
    }
}

/// Lines, with those that end in a backslash and the ones that follow as one; comments in between are none of it.
fn joined(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut begun: Option<String> = None;
    for line in text.lines() {
        if begun.is_some() && line.trim_start().starts_with(['#', ';']) && !line.starts_with("# /") {
            continue;
        }
        let mut whole = begun.take().unwrap_or_default();
        match line.strip_suffix('\\') {
            Some(part) => {
                whole.push_str(part);
                whole.push(' ');
                begun = Some(whole);
            }
            None => {
                whole.push_str(line);
                lines.push(whole);
            }
        }
    }
    lines.extend(begun);
    lines
}

/// A command of `ExecStart=`: its prefixes, and the rest as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub prefixes: String,
    pub line: String,
}

/// The commands in one value of `ExecStart=`: several have a ` ; ` of their own between them.
pub fn commands(value: &str) -> Vec<Command> {
    let mut parts = vec![String::new()];
    let mut quote = None;
    let mut all = value.chars().peekable();
    let mut before = ' ';
    while let Some(one) = all.next() {
        let ends_word = all.peek().is_none_or(|next| next.is_whitespace());
        if one == ';' && quote.is_none() && before.is_whitespace() && ends_word {
            parts.push(String::new());
            before = ' ';
            continue;
        }
        if let Some(part) = parts.last_mut() {
            part.push(one);
            if one == '\\' {
                part.extend(all.next());
                before = 'x';
                continue;
            }
        }
        match quote {
            Some(open) if open == one => quote = None,
            None if matches!(one, '"' | '\'') && before.is_whitespace() => quote = Some(one),
            _ => {}
        }
        before = one;
    }
    let command = |part: &String| {
        let line = part.trim();
        let rest = line.trim_start_matches(['@', '-', ':', '+', '!', '|']);
        let prefixes = line.strip_suffix(rest).unwrap_or_default();
        (!rest.is_empty()).then(|| Command { prefixes: prefixes.to_owned(), line: rest.to_owned() })
    };
    parts.iter().filter_map(command).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_laid_over_each_other() {
        let cat = "# /usr/lib/systemd/system/x.service\n[Unit]\nDescription=X\nExecStart=none\n[Service]\nType=exec\n\
                   ExecStart=/bin/a one \\\n# a comment\n  two\nUser=me\n\n# /etc/systemd/system/x.service.d/10.conf\n[Service]\n\
                   ExecStart=\nExecStart=-/bin/b \"x ; y\" ; /bin/c\nUser=\n\n# /etc/systemd/system/x.service.d/50-gated.conf\n\
                   [Service]\nExecStart=\nExecStart=/ours\n";
        let settings = Settings::parse(cat, "/etc/systemd/system/x.service.d/50-gated.conf");
        assert_eq!(settings.exec_start, ["-/bin/b \"x ; y\" ; /bin/c"]);
        assert_eq!(settings.set_by, ["/etc/systemd/system/x.service.d/10.conf"]);
        assert_eq!((settings.get("Type"), settings.get("User")), (Some("exec"), None));
        let all = commands(&settings.exec_start[0]);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].prefixes.as_str(), all[0].line.as_str()), ("-", "/bin/b \"x ; y\""));
        assert_eq!((all[1].prefixes.as_str(), all[1].line.as_str()), ("", "/bin/c"));
        let first = Settings::parse(cat.split("# /etc/").next().unwrap(), "");
        assert_eq!(first.exec_start, ["/bin/a one    two"]);
    }

    #[test]
    fn semicolons_within_words_and_quotes_are_the_commands_own() {
        for one in ["/bin/a x;y", "/bin/a ';'", "/bin/a \" ; \"", "/bin/a \\; x", "/bin/a it's ;x"] {
            assert_eq!(commands(one).len(), 1, "{one}");
        }
        assert!(commands(" ; ").is_empty());
        assert_eq!(commands("+!/bin/a")[0].prefixes, "+!");
    }
}
