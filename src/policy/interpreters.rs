//! Which word of an interpreter's is the script that it reads: `python3 -u deploy.py`, `java -jar x.jar`. Pure, on words that
//! a tool chose. What is found here is only held against rules above `allow`, so that a mistake makes nothing freer.

use super::reading::Words;

/// What an interpreter is told to run.
pub(super) enum Script<'a> {
    File {
        text: &'a [u8],
        words: Words<'a>,
        /// Whether it is the first word.
        is_first: bool,
    },
    /// `python -m NAME`.
    Module { name: &'a [u8], words: Words<'a> },
}

/// How a family of interpreters takes its words.
struct Family {
    names: &'static [&'static str],
    /// Options whose value is the next word.
    with_value: &'static [&'static str],
    /// Options after which there is no script.
    code: &'static [&'static str],
    /// Options whose value is the script.
    script: &'static [&'static str],
    /// First words that say no more than "run this".
    verbs: &'static [&'static str],
    /// Whether a script may stand without an option before it.
    takes_script: bool,
}

const FAMILIES: [Family; 10] = [
    Family {
        names: &[
            "sh", "bash", "rbash", "dash", "ash", "ksh", "mksh", "zsh", "fish", "csh", "tcsh", "yash", "posh", "hush",
            "pwsh",
        ],
        with_value: &["-o", "+o", "-O", "+O", "--rcfile", "--init-file", "-C", "-d"],
        code: &["-c", "--command", "-s"],
        script: &[],
        verbs: &[],
        takes_script: true,
    },
    Family {
        names: &["python", "pythonw", "pypy"],
        with_value: &["-W", "-X", "--check-hash-based-pycs"],
        code: &["-c"],
        script: &[],
        verbs: &[],
        takes_script: true,
    },
    Family {
        names: &["node", "nodejs", "deno", "bun", "tsx", "ts-node", "qjs"],
        with_value: &[
            "-r",
            "--require",
            "--import",
            "--loader",
            "--experimental-loader",
            "-C",
            "--conditions",
            "--env-file",
            "--config",
        ],
        code: &["-e", "--eval", "-p", "--print", "-pe"],
        script: &[],
        verbs: &["run"],
        takes_script: true,
    },
    Family {
        names: &["perl", "ruby", "jruby", "truffleruby"],
        with_value: &["-I", "-r", "-C", "-E", "-W"],
        code: &["-e"],
        script: &[],
        verbs: &[],
        takes_script: true,
    },
    Family {
        names: &["php", "php-cgi"],
        with_value: &["-c", "-d", "-z", "-t", "-S"],
        code: &["-r", "-B", "-R", "-E"],
        script: &["-f", "--file", "-F"],
        verbs: &[],
        takes_script: true,
    },
    Family {
        names: &[
            "lua", "luajit", "tclsh", "wish", "guile", "expect", "Rscript", "escript", "elixir", "groovy", "scala",
        ],
        with_value: &["-l", "-j", "-b"],
        code: &["-e", "-c"],
        script: &[],
        verbs: &[],
        takes_script: true,
    },
    Family {
        names: &["java"],
        with_value: &["-cp", "-classpath", "--class-path", "-p", "--module-path", "--add-modules", "-m", "--module"],
        code: &[],
        script: &["-jar"],
        verbs: &[],
        takes_script: true,
    },
    Family {
        names: &["awk", "gawk", "mawk", "nawk", "original-awk"],
        with_value: &["-v", "-F", "-i", "-l"],
        code: &["-e", "--source"],
        script: &["-f", "--file", "-E", "--exec"],
        verbs: &[],
        takes_script: false,
    },
    Family {
        names: &["make", "gmake", "ninja", "just"],
        with_value: &[],
        code: &[],
        script: &["-f", "--file", "--makefile", "--justfile"],
        verbs: &[],
        takes_script: false,
    },
    Family {
        names: &["sed", "ed", "bc", "dc", "m4", "gdb"],
        with_value: &[],
        code: &[],
        script: &["-f", "--file", "-x"],
        verbs: &[],
        takes_script: false,
    },
];

/// A name without the version at its end: `python3.11` is `python`.
pub(super) fn unversioned(name: &[u8]) -> &[u8] {
    let end = name.iter().rposition(|byte| !byte.is_ascii_digit() && !b".-_".contains(byte));
    end.and_then(|end| name.get(..=end)).unwrap_or(name)
}

fn family(name: &[u8]) -> Option<&'static Family> {
    let plain = unversioned(name);
    FAMILIES.iter().find(|family| family.names.iter().any(|own| own.as_bytes() == plain))
}

/// Whether a program of this name runs whatever its words or its input say.
pub(super) fn is_interpreter(name: &[u8]) -> bool {
    family(name).is_some()
}

/// The script among an interpreter's words; `None` if there is none, or the program is no interpreter that is known here.
pub(super) fn script<'a>(name: &[u8], words: Words<'a>) -> Option<Script<'a>> {
    let family = family(name)?;
    let is_one = |list: &[&str], word: &[u8]| list.iter().any(|own| own.as_bytes() == word);
    let mut at = 0_usize;
    loop {
        let word = words.get(at)?;
        let after = at.saturating_add(1);
        let found = |at: usize| {
            let text = words.get(at)?;
            Some(Script::File { text, words: words.after(at.saturating_add(1)), is_first: at == 0 })
        };
        if is_one(family.script, word) {
            return found(after);
        } else if is_one(family.code, word) {
            return None;
        } else if word == b"-m" && unversioned(name).starts_with(b"py") {
            let module = words.get(after)?;
            let first = module.split(|&byte| byte == b'.').next().unwrap_or(module);
            return Some(Script::Module { name: first, words: words.after(after.saturating_add(1)) });
        } else if is_one(family.with_value, word) {
            at = after.saturating_add(1);
        } else if word == b"--" {
            return if family.takes_script { found(after) } else { None };
        } else if at == 0 && is_one(family.verbs, word) || is_option(word) {
            at = after;
        } else {
            return if family.takes_script { found(at) } else { None };
        }
    }
}

fn is_option(word: &[u8]) -> bool {
    word.len() > 1 && (word.starts_with(b"-") || word.starts_with(b"+"))
}
