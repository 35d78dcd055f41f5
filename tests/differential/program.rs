//! The text of a program of file system calls. Pure data: read and written by the test process, performed by the executor.
//!
//! One step a line: a system call's name and its arguments, or one of the words of [`Word`]. An argument is
//!
//! | text | is |
//! |---|---|
//! | `-100`, `0x241`, `0o644` | a number, all 64 bits of the register |
//! | `"a\x2fb"` | the address of these bytes and a NUL; `{W}` in it stands for the program's directory, `{F}` for the foreign one |
//! | `"a"*255` | the same, repeated |
//! | `edge"a"` | the NUL is the last byte before an unmapped page |
//! | `cut"a"` | the same without a NUL |
//! | `[1,2,"a"]` | the address of an array of `u64`, which may hold addresses |
//! | `null`, `bad`, `high` | the addresses 0, 8, and one that only the kernel has |

use std::fmt;

#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    Number(u64),
    Text { bytes: Vec<u8>, times: usize, place: Place },
    Array(Vec<Arg>),
    Null,
    Bad,
    High,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    Heap,
    Edge,
    Cut,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Call { name: String, args: Vec<Arg> },
    Word(Word),
}

/// What is not a system call with a plain result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Word {
    /// What fstat(2), fcntl(2) and FS_IOC_GETFLAGS say of a descriptor.
    Fstat(i32),
    /// What pread(2) gives of a descriptor from its start.
    Content(i32),
    /// Another process performs the steps up to the matching `end`; this one waits for it.
    Fork,
    /// The same, and this one goes on until `join`.
    Spawn,
    End,
    /// Waits for the process of the last `spawn`.
    Join,
}

impl Arg {
    pub fn text(text: &str) -> Arg {
        Arg::Text { bytes: text.as_bytes().to_vec(), times: 1, place: Place::Heap }
    }
}

impl From<i64> for Arg {
    fn from(number: i64) -> Arg {
        Arg::Number(number as u64)
    }
}

impl Step {
    pub fn call(name: &str, args: Vec<Arg>) -> Step {
        Step::Call { name: name.to_owned(), args }
    }
}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arg::Number(number) if (*number as i64) < 4096 && (*number as i64) > -4096 => {
                write!(f, "{}", *number as i64)
            }
            Arg::Number(number) => write!(f, "{number:#x}"),
            Arg::Text { bytes, times, place } => {
                f.write_str(match place {
                    Place::Heap => "",
                    Place::Edge => "edge",
                    Place::Cut => "cut",
                })?;
                write!(f, "\"{}\"", bytes.escape_ascii())?;
                if *times == 1 { Ok(()) } else { write!(f, "*{times}") }
            }
            Arg::Array(items) => {
                let items: Vec<String> = items.iter().map(Arg::to_string).collect();
                write!(f, "[{}]", items.join(","))
            }
            Arg::Null => f.write_str("null"),
            Arg::Bad => f.write_str("bad"),
            Arg::High => f.write_str("high"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Call { name, args } => {
                f.write_str(name)?;
                args.iter().try_for_each(|arg| write!(f, " {arg}"))
            }
            Step::Word(Word::Fstat(fd)) => write!(f, "fstat {fd}"),
            Step::Word(Word::Content(fd)) => write!(f, "content {fd}"),
            Step::Word(Word::Fork) => f.write_str("fork"),
            Step::Word(Word::Spawn) => f.write_str("spawn"),
            Step::Word(Word::End) => f.write_str("end"),
            Step::Word(Word::Join) => f.write_str("join"),
        }
    }
}

/// A program as lines.
pub fn to_text(steps: &[Step]) -> String {
    steps.iter().map(|step| format!("{step}\n")).collect()
}

/// Reads a program; empty lines and those that start with `#` are left out. Panics with the line on anything it does not know.
pub fn from_text(text: &str) -> Vec<Step> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| parse_line(line).unwrap_or_else(|| panic!("not a step: {line}"))).collect()
}

fn parse_line(line: &str) -> Option<Step> {
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    let mut reader = Reader { rest: rest.as_bytes() };
    let mut args = Vec::new();
    while reader.skip_spaces() {
        args.push(reader.arg()?);
    }
    let fd = || match args.as_slice() {
        [Arg::Number(fd)] => Some(*fd as i32),
        _ => None,
    };
    Some(match name {
        "fstat" => Step::Word(Word::Fstat(fd()?)),
        "content" => Step::Word(Word::Content(fd()?)),
        "fork" => Step::Word(Word::Fork),
        "spawn" => Step::Word(Word::Spawn),
        "end" => Step::Word(Word::End),
        "join" => Step::Word(Word::Join),
        name => Step::call(name, args),
    })
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    /// Whether anything is left after the spaces.
    fn skip_spaces(&mut self) -> bool {
        self.rest = self.rest.trim_ascii_start();
        !self.rest.is_empty()
    }

    fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text.as_bytes()) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn arg(&mut self) -> Option<Arg> {
        if self.take("null") {
            return Some(Arg::Null);
        }
        if self.take("bad") {
            return Some(Arg::Bad);
        }
        if self.take("high") {
            return Some(Arg::High);
        }
        if self.take("[") {
            let mut items = Vec::new();
            while !self.take("]") {
                items.push(self.arg()?);
                self.take(",");
            }
            return Some(Arg::Array(items));
        }
        let place = if self.take("edge") {
            Place::Edge
        } else if self.take("cut") {
            Place::Cut
        } else {
            Place::Heap
        };
        if self.take("\"") {
            let bytes = self.quoted()?;
            let times = if self.take("*") { self.number()? as usize } else { 1 };
            return Some(Arg::Text { bytes, times, place });
        }
        self.number().map(Arg::Number)
    }

    fn quoted(&mut self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            match byte {
                b'"' => return Some(bytes),
                b'\\' => {
                    let (&kind, rest) = self.rest.split_first()?;
                    self.rest = rest;
                    bytes.push(match kind {
                        b'n' => b'\n',
                        b't' => b'\t',
                        b'r' => b'\r',
                        b'x' => {
                            let digits = std::str::from_utf8(self.rest.get(..2)?).ok()?;
                            self.rest = &self.rest[2..];
                            u8::from_str_radix(digits, 16).ok()?
                        }
                        other => other,
                    });
                }
                byte => bytes.push(byte),
            }
        }
    }

    fn number(&mut self) -> Option<u64> {
        let length = self.rest.iter().position(|byte| !(byte.is_ascii_alphanumeric() || *byte == b'-'));
        let (word, rest) = self.rest.split_at(length.unwrap_or(self.rest.len()));
        let word = std::str::from_utf8(word).ok()?;
        self.rest = rest;
        if let Some(hex) = word.strip_prefix("0x") {
            u64::from_str_radix(hex, 16).ok()
        } else if let Some(octal) = word.strip_prefix("0o") {
            u64::from_str_radix(octal, 8).ok()
        } else {
            word.parse::<i64>().ok().map(|number| number as u64)
        }
    }
}
