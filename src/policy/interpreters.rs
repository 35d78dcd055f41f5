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

/// How a family of interpreters takes its words. Short options are letters, which may stand in one word.
struct Family {
    /// Separated by spaces, as all lists of words here.
    names: &'static str,
    /// Letters after which there is no script: code follows, or nothing is run.
    code: &'static str,
    /// Letters whose value is the rest of the word, or else the next word.
    value: &'static str,
    /// Letters whose value is the rest of the word, if there is any.
    attached: &'static str,
    /// Letters whose value is the script.
    script: &'static str,
    /// Letters whose value is the name of a module to run.
    module: &'static str,
    /// Words of more than a letter, with the meaning of `code`, `value` and `script`.
    long_code: &'static str,
    long_value: &'static str,
    long_script: &'static str,
    /// First words that say no more than "run this".
    verbs: &'static str,
    /// Whether a script only comes with an option.
    needs_option: bool,
}

const NOTHING: Family = Family {
    names: "",
    code: "",
    value: "",
    attached: "",
    script: "",
    module: "",
    long_code: "",
    long_value: "",
    long_script: "",
    verbs: "",
    needs_option: false,
};

const FAMILIES: [Family; 11] = [
    Family {
        names: "sh bash rbash dash ash ksh mksh zsh fish csh tcsh yash posh hush pwsh",
        code: "cs",
        value: "oO",
        long_code: "--command",
        long_value: "--rcfile --init-file --init-command",
        ..NOTHING
    },
    Family {
        names: "python pythonw pypy",
        code: "c",
        value: "WX",
        module: "m",
        long_value: "--check-hash-based-pycs",
        ..NOTHING
    },
    Family {
        names: "node nodejs deno bun tsx ts-node qjs",
        code: "ep",
        value: "rC",
        long_code: "--eval --print",
        long_value: "--require --import --loader --experimental-loader --conditions --env-file --config --preload",
        verbs: "run",
        ..NOTHING
    },
    Family { names: "perl", code: "eE", value: "I", attached: "MmxiFDCld0V", ..NOTHING },
    Family { names: "ruby jruby truffleruby", code: "e", value: "IrCE", attached: "xiFKWT0", ..NOTHING },
    Family {
        names: "php php-cgi",
        code: "rBRE",
        value: "cdztS",
        script: "fF",
        long_code: "--run",
        long_script: "--file",
        ..NOTHING
    },
    Family {
        names: "lua luajit tclsh wish guile expect Rscript escript elixir groovy scala",
        code: "ec",
        value: "ljb",
        ..NOTHING
    },
    Family {
        names: "java",
        long_value: "-cp -classpath --class-path -p --module-path --add-modules -m --module",
        long_script: "-jar",
        ..NOTHING
    },
    Family {
        names: "awk gawk mawk nawk original-awk",
        code: "e",
        value: "vFil",
        script: "fE",
        long_code: "--source",
        long_script: "--file --exec",
        needs_option: true,
        ..NOTHING
    },
    Family {
        names: "make gmake ninja just",
        value: "CIoW",
        attached: "jlO",
        script: "f",
        long_value: "--directory",
        long_script: "--file --makefile --justfile",
        needs_option: true,
        ..NOTHING
    },
    Family {
        names: "sed ed bc dc m4 gdb",
        value: "e",
        attached: "i",
        script: "fx",
        long_script: "--file --command",
        needs_option: true,
        ..NOTHING
    },
];

/// A name without the version at its end: `python3.11` is `python`.
pub(super) fn unversioned(name: &[u8]) -> &[u8] {
    let end = name.iter().rposition(|byte| !byte.is_ascii_digit() && !b".-_".contains(byte));
    end.and_then(|end| name.get(..=end)).unwrap_or(name)
}

fn family(name: &[u8]) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| has(family.names, unversioned(name)))
}

/// Whether a word is one of a list.
fn has(list: &str, word: &[u8]) -> bool {
    list.split_ascii_whitespace().any(|own| own.as_bytes() == word)
}

/// Whether a program of this name runs whatever its words or its input say.
pub(super) fn is_interpreter(name: &[u8]) -> bool {
    family(name).is_some()
}

/// What an option means for where the script is.
enum Meaning<'a> {
    /// There is none.
    Code,
    /// Nothing; so many words after it belong to it.
    Words(usize),
    /// It is the rest of the word, or the next word where that is empty.
    Script(&'a [u8]),
    Module(&'a [u8]),
}

impl Family {
    fn meaning<'a>(&self, option: &'a [u8]) -> Meaning<'a> {
        let name = option.split(|&byte| byte == b'=').next().unwrap_or_default();
        let value = option.get(name.len().saturating_add(1)..).unwrap_or_default();
        let is_whole = name.len() == option.len();
        if has(self.long_code, name) {
            return Meaning::Code;
        } else if has(self.long_script, name) {
            return Meaning::Script(value);
        } else if has(self.long_value, name) {
            return Meaning::Words(usize::from(is_whole));
        } else if option.starts_with(b"--") {
            return Meaning::Words(0);
        }
        let is_one = |letters: &str, letter: u8| letters.as_bytes().contains(&letter);
        for (at, &letter) in option.iter().enumerate().skip(1) {
            let rest = option.get(at.saturating_add(1)..).unwrap_or_default();
            if is_one(self.code, letter) {
                return Meaning::Code;
            } else if is_one(self.script, letter) {
                return Meaning::Script(rest);
            } else if is_one(self.module, letter) {
                return Meaning::Module(rest);
            } else if is_one(self.value, letter) {
                return Meaning::Words(usize::from(rest.is_empty()));
            } else if is_one(self.attached, letter) {
                break;
            }
        }
        Meaning::Words(0)
    }
}

/// The script among an interpreter's words; `None` if there is none, or the program is no interpreter that is known here.
pub(super) fn script<'a>(name: &[u8], words: Words<'a>) -> Option<Script<'a>> {
    let family = family(name)?;
    let mut at = 0_usize;
    loop {
        let word = words.get(at)?;
        let after = at.saturating_add(1);
        // A value that is a part of its word, or else the next one, and where the words after it begin.
        let found = |value: &'a [u8]| match value {
            b"" => Some((words.get(after)?, after.saturating_add(1))),
            value => Some((value, after)),
        };
        let plain = |at: usize| {
            let text = words.get(at).filter(|_| !family.needs_option)?;
            Some(Script::File { text, words: words.after(at.saturating_add(1)), is_first: at == 0 })
        };
        if word == b"--" {
            return plain(after);
        } else if at == 0 && has(family.verbs, word) {
            at = after;
        } else if word.len() < 2 || !word.starts_with(b"-") && !word.starts_with(b"+") {
            if !family.needs_option {
                return plain(at);
            }
            at = after;
        } else {
            match family.meaning(word) {
                Meaning::Code => return None,
                Meaning::Words(count) => at = after.saturating_add(count),
                Meaning::Script(value) => {
                    let (text, next) = found(value)?;
                    return Some(Script::File { text, words: words.after(next), is_first: false });
                }
                Meaning::Module(value) => {
                    let (module, next) = found(value)?;
                    let name = module.split(|&byte| byte == b'.').next().unwrap_or(module);
                    return Some(Script::Module { name, words: words.after(next) });
                }
            }
        }
    }
}
