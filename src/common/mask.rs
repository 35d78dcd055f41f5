//! Secrets in command lines, replaced by `***` before a command line goes into a record. Runs with any privilege on words
//! that a tool chose; errs towards masking. What is masked is a matter of names and shapes, so a secret that looks like
//! nothing stays: a record is to be kept as carefully as its owner's files.

use super::text::Untrusted;

/// What stands for a secret.
const MASK: &[u8] = b"***";

/// Parts of a name, between `-`, `_` and the ends, that make it the name of a secret.
const SECRET_PARTS: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "passwort",
    "pass",
    "pwd",
    "secret",
    "secrets",
    "token",
    "apikey",
    "credential",
    "credentials",
    "bearer",
    "pat",
];

/// Two parts in a row that do.
const SECRET_PAIRS: [(&str, &str); 6] =
    [("api", "key"), ("access", "key"), ("secret", "key"), ("private", "key"), ("auth", "key"), ("encryption", "key")];

/// Last parts that make it the name of where a secret is, not the secret.
const PLACES: [&str; 9] = ["file", "path", "stdin", "fd", "env", "name", "command", "cmd", "helper"];

/// Headers whose value is a secret, in lower case.
const HEADERS: [&str; 8] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "x-api-key",
    "x-auth-token",
    "private-token",
    "x-vault-token",
];

/// How tokens of well-known services begin, and how many characters of a token follow at the least.
const SHAPES: [(&str, usize); 30] = [
    ("ghp_", 16),
    ("gho_", 16),
    ("ghu_", 16),
    ("ghs_", 16),
    ("ghr_", 16),
    ("github_pat_", 16),
    ("glpat-", 16),
    ("sk-", 16),
    ("sk_live_", 10),
    ("sk_test_", 10),
    ("rk_live_", 10),
    ("AKIA", 12),
    ("ASIA", 12),
    ("AIza", 20),
    ("ya29.", 16),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxa-", 10),
    ("xoxr-", 10),
    ("xoxs-", 10),
    ("xapp-", 10),
    ("npm_", 20),
    ("pypi-", 20),
    ("hf_", 20),
    ("dop_v1_", 20),
    ("SG.", 20),
    ("eyJ", 20),
    ("AGE-SECRET-KEY-", 10),
    ("hvs.", 16),
    ("dckr_pat_", 10),
];

/// Short options that take a secret, by the program's name: the secret is the rest of the word, or the next word.
const SHORT_OPTIONS: [(&str, &str, Next); 15] = [
    ("mysql", "-p", Next::Never),
    ("mysqldump", "-p", Next::Never),
    ("mysqladmin", "-p", Next::Never),
    ("mariadb", "-p", Next::Never),
    ("mariadb-dump", "-p", Next::Never),
    ("sshpass", "-p", Next::IfEmpty),
    ("curl", "-u", Next::IfEmpty),
    ("curl", "-U", Next::IfEmpty),
    ("redis-cli", "-a", Next::IfEmpty),
    ("ldapsearch", "-w", Next::IfEmpty),
    ("zip", "-P", Next::IfEmpty),
    ("unzip", "-P", Next::IfEmpty),
    ("7z", "-p", Next::Never),
    ("docker", "-p", Next::Login),
    ("smbclient", "-U", Next::IfEmpty),
];

/// Long options that take a secret although their name does not say so.
const LONG_OPTIONS: [(&str, &str); 2] = [("curl", "--user"), ("curl", "--proxy-user")];

/// Bytes of a name, from its end, that are looked at: a longer one is no name that anybody gave.
const MAX_NAME: usize = 256;

/// Whether an option's value may be the next word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Never,
    IfEmpty,
    /// Only for the subcommand `login`; elsewhere the option means something else.
    Login,
}

/// A command line with `***` for what looks like a secret. Masking twice changes nothing more.
pub fn argv(words: &[Untrusted]) -> Vec<Untrusted> {
    let raw: Vec<&[u8]> = words.iter().map(Untrusted::as_bytes).collect();
    let program = raw.first().and_then(|word| word.rsplit(|&byte| byte == b'/').next()).unwrap_or_default();
    let login = raw.contains(&b"login".as_slice());
    let mut masked = Vec::with_capacity(raw.len());
    let (mut next_is_secret, mut next_is_script) = (false, false);
    for (at, &word) in raw.iter().enumerate() {
        let secret = std::mem::take(&mut next_is_secret);
        let script = std::mem::take(&mut next_is_script);
        if secret && !word.starts_with(b"--") {
            masked.push(Untrusted::new(MASK));
            continue;
        }
        let shown = if at == 0 || script {
            within(word)
        } else if let Some(length) = short_option(program, word, login, &mut next_is_secret) {
            [word.get(..length).unwrap_or_default(), MASK].concat()
        } else {
            next_is_secret = next_is_secret || announces(program, word);
            next_is_script = word == b"-c";
            whole(word).unwrap_or_else(|| within(word))
        };
        masked.push(Untrusted::new(shown));
    }
    masked
}

/// Variables `NAME=value` with `***` for what looks like a secret.
pub fn variables(variables: &[Untrusted]) -> Vec<Untrusted> {
    let masked = |variable: &Untrusted| {
        let bytes = variable.as_bytes();
        Untrusted::new(whole(bytes).unwrap_or_else(|| within(bytes)))
    };
    variables.iter().map(masked).collect()
}

/// The bytes of a short option before its secret, if the rest of the word is one; or `next` is set.
fn short_option(program: &[u8], word: &[u8], login: bool, next: &mut bool) -> Option<usize> {
    let known = SHORT_OPTIONS.iter().filter(|(name, ..)| name.as_bytes() == program);
    for (_, option, kind) in known {
        let Some(rest) = word.strip_prefix(option.as_bytes()) else { continue };
        match (kind, rest.is_empty()) {
            (Next::Login, _) if !login => {}
            (Next::Never, true) => {}
            (_, true) => *next = true,
            (_, false) => return Some(option.len()),
        }
    }
    None
}

/// Whether the word after this one is a secret: `--token x`, or a header's scheme that was split off.
fn announces(program: &[u8], word: &[u8]) -> bool {
    let named = word.strip_prefix(b"--").is_some_and(|name| !name.contains(&b'=') && is_secret_name(name));
    let bare =
        word.strip_prefix(b"-").is_some_and(|name| name.len() > 2 && !name.contains(&b'=') && is_secret_name(name));
    let listed = LONG_OPTIONS.iter().any(|(name, option)| name.as_bytes() == program && option.as_bytes() == word);
    let header = word.strip_suffix(b":").is_some_and(is_header) || word.eq_ignore_ascii_case(b"bearer");
    named || bare || listed || header
}

/// A word that as a whole is `NAME=secret`, `--name=secret` or `Header: secret`.
fn whole(word: &[u8]) -> Option<Vec<u8>> {
    if let Some(at) = word.iter().position(|&byte| byte == b'=') {
        let (name, _) = word.split_at(at);
        if name.iter().all(|&byte| is_name(byte)) && (is_secret_name(name) || name.eq_ignore_ascii_case(b"--user-pass"))
        {
            return Some([name, b"=", MASK].concat());
        }
    }
    let at = word.iter().position(|&byte| byte == b':')?;
    let (name, value) = word.split_at(at);
    (is_header(name) && value.len() > 1).then(|| [name, b": ", MASK].concat())
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' || byte == b'.'
}

fn is_header(name: &[u8]) -> bool {
    HEADERS.iter().any(|header| name.eq_ignore_ascii_case(header.as_bytes()))
}

/// Whether an option or variable of this name holds a secret.
fn is_secret_name(name: &[u8]) -> bool {
    let name = name.get(name.len().saturating_sub(MAX_NAME)..).unwrap_or_default();
    let lower = String::from_utf8_lossy(name).to_ascii_lowercase();
    let parts: Vec<&str> = lower.split(['-', '_', '.']).filter(|part| !part.is_empty()).collect();
    if parts.last().is_none_or(|last| PLACES.contains(last)) {
        return false;
    }
    // Names that are written in one word, such as PGPASSWORD or authToken.
    let joined =
        |part: &&str| ["password", "passwd", "secret", "token", "apikey"].iter().any(|end| part.ends_with(end));
    parts.first() == Some(&"aws") && name.starts_with(b"AWS_")
        || parts.iter().any(|part| SECRET_PARTS.contains(part) || joined(part))
        || parts.windows(2).any(|pair| matches!(pair, [a, b] if SECRET_PAIRS.contains(&(*a, *b))))
}

/// Secrets inside a word: a shell script, a URL, a header, a token.
fn within(word: &[u8]) -> Vec<u8> {
    let mut shown = Vec::with_capacity(word.len());
    let mut rest = word;
    let mut at_start = true;
    // Bytes of `rest` that can belong to one name, counted once for all the places where it can begin.
    let mut name = 0_usize;
    while let Some(&byte) = rest.first() {
        if name == 0 {
            name = rest.iter().take_while(|&&byte| is_name(byte)).count();
        }
        let (kept, gone) = if at_start { secret_at(rest, name) } else { (0, 0) };
        // The password in `scheme://user:password@host`.
        let (kept, gone) = if gone == 0 { url_password(rest).unwrap_or((0, 0)) } else { (kept, gone) };
        if gone > 0 {
            shown.extend_from_slice(rest.get(..kept).unwrap_or_default());
            shown.extend_from_slice(MASK);
            rest = rest.get(kept.saturating_add(gone)..).unwrap_or_default();
            name = 0;
            at_start = false;
        } else {
            name = name.saturating_sub(1);
            shown.push(byte);
            rest = rest.get(1..).unwrap_or_default();
            at_start = !byte.is_ascii_alphanumeric();
        }
    }
    shown
}

/// At the start of a name of `name` bytes or of a token: the bytes to keep and the bytes of the secret after them; (_, 0) if
/// there is none.
fn secret_at(rest: &[u8], name: usize) -> (usize, usize) {
    for (begin, least) in SHAPES {
        if let Some(tail) = rest.strip_prefix(begin.as_bytes()) {
            let more = tail.iter().take_while(|&&byte| is_name(byte)).count();
            if more >= least {
                return (0, begin.len().saturating_add(more));
            }
        }
    }
    let title = rest.get(..MAX_NAME).unwrap_or(rest);
    if title.starts_with(b"-----BEGIN ") && title.windows(11).any(|window| window == b"PRIVATE KEY") {
        return (0, rest.len());
    }
    let (own, after) = rest.split_at(name);
    let blanks = |text: &[u8]| text.iter().take_while(|&&byte| byte == b' ').count();
    let value = match after.first() {
        Some(b'=') if is_secret_name(own) => 1,
        Some(b':') if is_header(own) => {
            let line = after.iter().take_while(|byte| !b"'\"\r\n".contains(byte)).count();
            return (name + 1, line.saturating_sub(1));
        }
        Some(b' ') if own.eq_ignore_ascii_case(b"bearer") => blanks(after),
        Some(b' ') if own.starts_with(b"--") && is_secret_name(own) => blanks(after),
        _ => return (0, 0),
    };
    let secret = after.get(value..).unwrap_or_default();
    let length = match secret.first() {
        Some(&quote @ (b'\'' | b'"')) => {
            let inner = secret.iter().skip(1).take_while(|&&byte| byte != quote).count();
            return (name + value + 1, inner);
        }
        _ => secret.iter().take_while(|byte| !b" \t\r\n'\"&;|)".contains(byte)).count(),
    };
    (name + value, length)
}

/// At `://user:password@`: the bytes before the password and those in it.
fn url_password(rest: &[u8]) -> Option<(usize, usize)> {
    let authority = rest.strip_prefix(b"://")?;
    let end = authority.iter().position(|byte| b"/?# \t\r\n'\"".contains(byte)).unwrap_or(authority.len());
    let authority = authority.get(..end)?;
    let at = authority.iter().rposition(|&byte| byte == b'@')?;
    let colon = authority.get(..at)?.iter().position(|&byte| byte == b':')?;
    Some((colon.saturating_add(4), at.saturating_sub(colon + 1)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn masked(line: &[&str]) -> Vec<String> {
        let words: Vec<Untrusted> = line.iter().map(|word| Untrusted::new(word.as_bytes())).collect();
        argv(&words).iter().map(|word| String::from_utf8_lossy(word.as_bytes()).into_owned()).collect()
    }

    #[test]
    fn variables_keep_their_names() {
        let given = ["LD_PRELOAD=/tmp/x.so", "API_KEY=abc", "NODE_OPTIONS=--require x --token abc"].map(Untrusted::new);
        let masked = variables(&given);
        let shown: Vec<_> = masked.iter().map(|word| String::from_utf8_lossy(word.as_bytes()).into_owned()).collect();
        assert_eq!(shown, ["LD_PRELOAD=/tmp/x.so", "API_KEY=***", "NODE_OPTIONS=--require x --token ***"]);
    }

    /// Each would be read again from every one of its bytes, if that were how it is done: minutes in the daemon's one thread.
    #[test]
    fn a_word_of_any_length_is_read_once() {
        const LONG: usize = 1 << 18;
        for piece in ["-", "-=", "a-", "-----BEGIN ", "://", "bearer ", "--token "] {
            let word = piece.repeat(LONG / piece.len());
            assert_eq!(argv(&[Untrusted::new("x"), Untrusted::new(word.as_bytes())]).len(), 2);
        }
    }

    #[test]
    fn secrets_are_masked_and_nothing_else() {
        let cases: [(&[&str], &[&str]); 28] = [
            (&["x", "--password=hunter2"], &["x", "--password=***"]),
            (&["x", "--token", "abc", "rest"], &["x", "--token", "***", "rest"]),
            (&["x", "-token", "abc"], &["x", "-token", "***"]),
            (&["x", "--api-key", "-abc"], &["x", "--api-key", "***"]),
            (&["x", "--client_secret=a=b c"], &["x", "--client_secret=***"]),
            (&["x", "--password-file", "/run/p"], &["x", "--password-file", "/run/p"]),
            (&["x", "--password-stdin", "--quiet"], &["x", "--password-stdin", "--quiet"]),
            (&["x", "--password", "--quiet"], &["x", "--password", "--quiet"]),
            (&["x", "--tokenizer", "bert"], &["x", "--tokenizer", "bert"]),
            (&["env", "GITHUB_TOKEN=abc", "make"], &["env", "GITHUB_TOKEN=***", "make"]),
            (&["env", "AWS_SESSION=abc", "A=b"], &["env", "AWS_SESSION=***", "A=b"]),
            (&["env", "PGPASSWORD=x", "KEY=v", "API_KEY=v"], &["env", "PGPASSWORD=***", "KEY=v", "API_KEY=***"]),
            (&["mysql", "-uroot", "-phunter2"], &["mysql", "-uroot", "-p***"]),
            (&["/usr/bin/mysql", "-p", "db"], &["/usr/bin/mysql", "-p", "db"]),
            (&["mkdir", "-p", "dir"], &["mkdir", "-p", "dir"]),
            (&["sshpass", "-p", "x", "ssh", "-p", "22"], &["sshpass", "-p", "***", "ssh", "-p", "***"]),
            (&["curl", "-u", "me:pw", "https://h/"], &["curl", "-u", "***", "https://h/"]),
            (&["docker", "run", "-p", "80:80"], &["docker", "run", "-p", "80:80"]),
            (&["docker", "login", "-p", "x"], &["docker", "login", "-p", "***"]),
            (&["curl", "-H", "Authorization: Bearer abc"], &["curl", "-H", "Authorization: ***"]),
            (&["curl", "-H", "Accept: text/html"], &["curl", "-H", "Accept: text/html"]),
            (&["git", "clone", "https://me:pw@h/r.git"], &["git", "clone", "https://me:***@h/r.git"]),
            (&["git", "clone", "https://h:80/me@x"], &["git", "clone", "https://h:80/me@x"]),
            (&["curl", "https://h/?token=abc&x=1"], &["curl", "https://h/?token=***&x=1"]),
            (
                &["sh", "-c", "export API_KEY='a b'; TOKEN=x curl -H \"Cookie: a=b\" --password pw -v"],
                &["sh", "-c", "export API_KEY='***'; TOKEN=*** curl -H \"Cookie:***\" --password *** -v"],
            ),
            (&["echo", "ghp_0123456789abcdefABCDEF", "AKIAIOSFODNN7EXAMPLE"], &["echo", "***", "***"]),
            (
                &["echo", "x=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.c2ln", "task-0123456789abcdefghij"],
                &["echo", "x=***", "task-0123456789abcdefghij"],
            ),
            (&["echo", "-----BEGIN RSA PRIVATE KEY-----\nabc\n"], &["echo", "***"]),
        ];
        for (line, expected) in cases {
            assert_eq!(masked(line), expected, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn masking_keeps_the_number_of_words_and_is_stable(words in prop::collection::vec("[ -~]{0,30}", 0..6)) {
            let line: Vec<&str> = words.iter().map(String::as_str).collect();
            let once = masked(&line);
            prop_assert_eq!(once.len(), words.len());
            let again: Vec<&str> = once.iter().map(String::as_str).collect();
            prop_assert_eq!(masked(&again), once.clone());
        }

        #[test]
        fn a_named_secret_never_survives(
            name in "(--)?([a-z]{1,5}[-_])?(password|token|secret|api[-_]key)",
            secret in "[A-Z0-9]{8,20}",
            quote in "['\"]?",
        ) {
            let assigned = format!("{name}={quote}{secret}{quote}");
            let script = format!("do {assigned} && done");
            for line in [vec!["x", &assigned], vec!["sh", "-c", &script]] {
                prop_assert!(!masked(&line).concat().contains(&secret), "{line:?}");
            }
        }
    }
}
