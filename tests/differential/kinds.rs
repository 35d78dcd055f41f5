//! Random programs of processes, signals, sockets and terminals. A seed and a number make the same program on every machine.
//!
//! What would have no one result on a bare machine is left out, and what of a session's network is no bare one
//! (docs/architecture.md): unix sockets of datagrams that send without an address.

use super::program::{Arg, Place, Step, Word};
use super::random::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Processes,
    Signals,
    Sockets,
    Terminals,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Processes, Kind::Signals, Kind::Sockets, Kind::Terminals];

    /// Those of the default run; `--long` and `--kind` have all. None yet: each has results left that depend on how busy the
    /// machine is, or that are known differences.
    pub const DEFAULT: &[Kind] = &[];

    /// The program of this number in the run of this seed.
    pub fn program(self, seed: u64, number: u64) -> Vec<Step> {
        let mut random =
            Random::new(seed.wrapping_mul(0x1_0000_0001).wrapping_add(number).wrapping_add(self as u64) << 7);
        random.next();
        let length = 5 + random.below(12);
        let mut steps = Vec::new();
        if self == Kind::Signals {
            // Else most programs would end with their first signal.
            for signal in SIGNALS {
                let word = random.pick(&["handle", "handle", "handle", "ignore", "default"]);
                steps.push(Step::call(word, vec![num(*signal), num(0)]));
            }
        }
        for _ in 0..length {
            match self {
                Kind::Processes => process(&mut random, &mut steps, 0),
                Kind::Signals => steps.push(signal(&mut random)),
                Kind::Sockets => socket(&mut random, &mut steps),
                Kind::Terminals => steps.push(terminal(&mut random)),
            }
        }
        steps
    }
}

fn num(number: i64) -> Arg {
    Arg::from(number)
}

fn pick(random: &mut Random, from: &[i64]) -> Arg {
    Arg::from(random.pick(from))
}

/// An array of addresses that ends with 0.
fn strings(all: &[&str]) -> Arg {
    Arg::Array(all.iter().map(|text| Arg::text(text)).chain([num(0)]).collect())
}

const COMMANDS: &[&str] = &[
    "umask; pwd | sed 's/.*[/]//'",
    "echo /proc/self/fd/*",
    "mkdir a/b && rmdir a/b; echo $?",
    "exit 7",
    "kill -TERM $$",
    "echo $A $B; ulimit -n",
    "exec /bin/false",
    "(exit 3) | cat; echo $?",
    "echo x > made; cat made; rm made",
    "ulimit -n 4; echo x > made; echo $?",
    "trap 'echo trapped' TERM; kill $$; echo after",
    "sleep 0 & wait $!; echo $?",
    "cd a; mkdir ../c; ls ..",
    "set -C; echo 1 > once; echo 2 > once; cat once",
];

fn run(random: &mut Random) -> Step {
    let way = pick(random, &[0, 0, 0, 1, 2, 3, 4]);
    let environment =
        random.pick(&[strings(&["A=1", "PATH=/usr/bin:/bin"]), strings(&["B=two words", "A=", "PATH=/bin"])]);
    let (program, argv) = match random.below(12) {
        0 => (Arg::text("/bin/true"), strings(&["true"])),
        1 => (Arg::text("/bin/false"), strings(&["another name", "x"])),
        2 => (Arg::text("s1"), strings(&["s1", "one", "two words"])),
        3 => (Arg::text("missing"), strings(&["missing"])),
        4 => (Arg::text("a"), strings(&["a"])),
        5 => (
            Arg::text("/bin/echo"),
            Arg::Array(vec![
                Arg::text("echo"),
                Arg::Text { bytes: b"long".to_vec(), times: random.pick(&[100, 30_000, 40_000]), place: Place::Heap },
                num(0),
            ]),
        ),
        6 => (Arg::text("/bin/cat"), strings(&["cat", "/proc/self/cmdline"])),
        _ => (Arg::text("/bin/sh"), strings(&["sh", "-c", random.pick(COMMANDS)])),
    };
    Step::call("run", vec![way, program, argv, environment])
}

fn process(random: &mut Random, steps: &mut Vec<Step>, depth: usize) {
    let name = Arg::text(random.pick(&["a", "a/b", "n1", "n2", "n3"]));
    let step = match random.below(26) {
        0..7 => run(random),
        7 => Step::call("mkdir", vec![name, num(0o777)]),
        8 => Step::call("umask", vec![pick(random, &[0, 0o022, 0o077, 0o027])]),
        9 => Step::call("chdir", vec![Arg::text(random.pick(&["a", "..", "a/b", "{W}", "n1"]))]),
        10 => Step::call("children", vec![pick(random, &[0, 1, 255]), pick(random, &[2, 7]), pick(random, &[3, 256])]),
        11 => Step::call("ids", vec![]),
        12 => Step::call("setsid", vec![]),
        13 => Step::call("setpgid", vec![num(0), num(0)]),
        14 => Step::call("groups", vec![]),
        15 | 16 => Step::call("thread", vec![pick(random, &[0, 1, 2, 3, 4, 5]), name]),
        17 => {
            let text = random.pick(&[
                "#!/bin/sh\necho \"$0\" \"$@\"\n",
                "#!/bin/sh -e\nfalse\necho never\n",
                "#!/bin/echo  with a blank \n",
                "#!{W}/a\n",
                "echo no line of its own\n",
                "#!/bin/cat\nitself\n",
            ]);
            Step::call("script", vec![Arg::text("s1"), Arg::text(text)])
        }
        18 => {
            let limit = random.pick(&[3i64, 4, 6, 64]);
            let resource = random.pick(&[7i64, 7, 0]);
            let value = if resource == 7 { limit } else { 1_000_000 };
            Step::call("setrlimit", vec![num(resource), Arg::Array(vec![num(value), num(value.max(64))])])
        }
        19 => Step::call("getlimit", vec![pick(random, &[0, 3, 7])]),
        20 => Step::call("orphan", vec![]),
        21 => Step::call("parentsdeath", vec![]),
        22 => match random.below(4) {
            0 => Step::call("prctl", vec![num(15), Arg::text("a new name of it")]),
            1 => Step::call("named", vec![]),
            2 => Step::call("prctl", vec![pick(random, &[7, 30, 9999]), num(0)]),
            _ => Step::call("prctl", vec![pick(random, &[1, 36]), pick(random, &[0, 15, 99])]),
        },
        23 => Step::call("open", vec![name, pick(random, &[0x41, 0x80041, 0x42, 0, 0x80000]), num(0o644)]),
        24 => match random.below(4) {
            0 => Step::call("dup2", vec![pick(random, &[3, 4]), pick(random, &[3, 5, 9])]),
            1 => Step::call("fcntl", vec![pick(random, &[3, 4]), num(2), pick(random, &[0, 1])]),
            2 => Step::call("close", vec![pick(random, &[3, 4, 5])]),
            _ => Step::call("waitany", vec![num(0)]),
        },
        _ if depth < 2 => {
            steps.push(Step::Word(Word::Fork));
            for _ in 0..1 + random.below(4) {
                process(random, steps, depth + 1);
            }
            Step::Word(Word::End)
        }
        _ => Step::call(
            "execve",
            vec![Arg::text("/bin/sh"), strings(&["sh", "-c", random.pick(COMMANDS)]), strings(&["A=x"])],
        ),
    };
    steps.push(step);
}

const SIGNALS: &[i64] = &[1, 2, 3, 10, 12, 15, 17, 23, 28, 34, 35, 64];

fn signal(random: &mut Random) -> Step {
    let signal = pick(random, SIGNALS);
    let flags =
        |random: &mut Random| pick(random, &[0, 0x1000_0000, 0x4000_0000, 0x8000_0000u32 as i32 as i64, 0x5000_0000]);
    match random.below(28) {
        0..4 => Step::call("handle", vec![signal, flags(random)]),
        4 => Step::call(random.pick(&["ignore", "ignore", "default"]), vec![signal]),
        5..8 => Step::call("mask", vec![pick(random, &[0, 0, 1, 2]), signal]),
        8 => Step::call("masked", vec![]),
        9..13 => Step::call("send", vec![signal, pick(random, &[0, 0, 1, 2, 3, 4, 5]), pick(random, &[1, 77])]),
        13 => Step::call("pending", vec![]),
        14 | 15 => Step::call("taken", vec![]),
        16 => Step::call("timedwait", vec![signal]),
        17 => Step::call("suspend", vec![signal]),
        18 => Step::call("signalfd", vec![signal]),
        19 | 20 => Step::call(
            "waits",
            vec![pick(random, &[0, 1, 2, 3, 4]), pick(random, &[10, 12]), pick(random, &[0, 0x1000_0000])],
        ),
        21 => Step::call("storm", vec![pick(random, &[20, 60]), pick(random, &[10, 34])]),
        22 => Step::call("held", vec![signal, Arg::text(random.pick(&["m1", "m2"]))]),
        23 => Step::call("inhandler", vec![signal]),
        24 => Step::call("stopped", vec![num(19)]),
        25 => Step::call("diesof", vec![pick(random, &[1, 6, 9, 11, 15, 17, 19, 31])]),
        26 => match random.below(3) {
            0 => Step::call("ofchildren", vec![pick(random, &[0, 3, 255])]),
            1 => Step::call("togroup", vec![pick(random, &[15, 9, 10])]),
            _ => Step::call("toolarge", vec![pick(random, &[0, 1])]),
        },
        _ => Step::call("brokenpipe", vec![pick(random, &[0, 1])]),
    }
}

/// An address: of the ports 7101 to 7103 on the loopback, of any port, of a path, of another family.
fn address(random: &mut Random) -> (Arg, Arg) {
    let port = |number: u16| (u64::from(number.swap_bytes()) << 16) | 2;
    let loopback = 0x0100_007f_u64 << 32;
    match random.below(20) {
        0..9 => (Arg::Array(vec![Arg::Number(port(7101 + random.below(3) as u16) | loopback), num(0)]), num(16)),
        9 => (Arg::Array(vec![Arg::Number(port(0) | loopback), num(0)]), num(16)),
        10 => (Arg::Array(vec![Arg::Number(port(7101)), num(0)]), num(16)),
        11..16 => {
            let path = random.pick(&["\u{1}\0s1", "\u{1}\0s2", "\u{1}\0missing/s", "\u{1}\0\0abstract"]);
            (Arg::text(path), num(path.len() as i64 + i64::from(!path.ends_with("abstract"))))
        }
        16 => (Arg::text("\u{1}\0"), num(2)),
        17 => (Arg::Array(vec![num(0), num(0)]), num(16)),
        18 => (random.pick(&[Arg::Null, Arg::Bad]), num(16)),
        _ => (Arg::Array(vec![Arg::Number(port(7101) | loopback), num(0)]), pick(random, &[0, 2, 8, 15, 129])),
    }
}

fn socket(random: &mut Random, steps: &mut Vec<Step>) {
    let fd = |random: &mut Random| pick(random, &[3, 3, 3, 4, 4, 4, 5, 5, 6, 99]);
    if random.chance(12) {
        // A whole connection, so that what comes after has something to act on.
        let port = Arg::Array(vec![
            Arg::Number((0x0100_007f_u64 << 32) | (u64::from((7110 + random.below(3) as u16).swap_bytes()) << 16) | 2),
            num(0),
        ]);
        steps.push(Step::call("socket", vec![num(2), num(1 | 0x800), num(0)]));
        steps.push(Step::call("setsockopt", vec![num(3), num(1), num(2), Arg::Array(vec![num(1)]), num(4)]));
        steps.push(Step::call("bind", vec![num(3), port.clone(), num(16)]));
        steps.push(Step::call("listen", vec![num(3), num(8)]));
        steps.push(Step::call("socket", vec![num(2), pick(random, &[1, 1 | 0x800]), num(0)]));
        steps.push(Step::call("connect", vec![num(4), port, num(16)]));
        steps.push(Step::call("settle", vec![num(4)]));
        steps.push(Step::call("accept", vec![num(3), num(0x80000)]));
        return;
    }
    let step = match random.below(40) {
        0..5 => {
            let (family, kind) = random.pick(&[(2, 1), (2, 1), (2, 2), (1, 1), (1, 5), (10, 1), (2, 1)]);
            Step::call("socket", vec![num(family), num(kind | 0x800 | random.pick(&[0, 0x80000])), num(0)])
        }
        5 => Step::call(
            "socketpair",
            vec![num(1), pick(random, &[1 | 0x800, 5 | 0x800, 1 | 0x80800]), num(0), Arg::Array(vec![num(0)])],
        ),
        6..11 => {
            let (address, length) = address(random);
            Step::call("bind", vec![fd(random), address, length])
        }
        11..14 => Step::call("listen", vec![fd(random), pick(random, &[5, 8, -1])]),
        14..19 => {
            let (address, length) = address(random);
            let fd = fd(random);
            steps.push(Step::call("connect", vec![fd.clone(), address, length]));
            Step::call("settle", vec![fd])
        }
        19..22 => Step::call("accept", vec![fd(random), pick(random, &[0, 0x800, 0x80000, 1])]),
        22..24 => {
            let data = random.pick(&["hello", "x", ""]);
            Step::call(
                "sendto",
                vec![
                    fd(random),
                    Arg::text(data),
                    num(data.len() as i64),
                    pick(random, &[0x4000, 0x4000, 0x4001, 0x4040, 0xc000]),
                    num(0),
                    num(0),
                ],
            )
        }
        24 => {
            let (address, length) = address(random);
            Step::call("sendto", vec![fd(random), Arg::text("to you"), num(6), num(0x4000), address, length])
        }
        25..28 => Step::call(
            "recv",
            vec![fd(random), pick(random, &[100, 2, 0]), pick(random, &[0, 0, 2, 0x20, 0x100, 1, 0x2000])],
        ),
        28 => Step::call("shutdown", vec![fd(random), pick(random, &[0, 1, 2, 3])]),
        29 | 30 => Step::call(random.pick(&["name", "peer"]), vec![fd(random), pick(random, &[128, 128, 4, 0])]),
        31 | 32 => {
            let (level, option) = random.pick(&[
                (1, 2),
                (1, 3),
                (1, 4),
                (1, 9),
                (1, 13),
                (1, 15),
                (1, 30),
                (1, 38),
                (1, 39),
                (6, 1),
                (6, 4),
                (6, 5),
                (0, 1),
                (0, 2),
                (41, 26),
                (1, 20),
                (6, 99),
                (1, 10),
            ]);
            Step::call("option", vec![fd(random), num(level), num(option)])
        }
        33 | 34 => {
            let (level, option) = random.pick(&[
                (1, 2),
                (1, 2),
                (1, 9),
                (1, 13),
                (1, 15),
                (6, 1),
                (6, 4),
                (6, 5),
                (0, 2),
                (41, 26),
                (1, 10),
                (6, 99),
            ]);
            let value = Arg::Array(vec![pick(random, &[0, 1, 0x5_0000_0001])]);
            Step::call("setsockopt", vec![fd(random), num(level), num(option), value, pick(random, &[4, 4, 8, 2])])
        }
        35 => Step::call("pass", vec![fd(random), fd(random)]),
        36 => Step::call("epoll", vec![fd(random), pick(random, &[0, 1])]),
        37 => Step::call("kind", vec![fd(random)]),
        38 => Step::call(random.pick(&["settle", "readable"]), vec![fd(random)]),
        _ => match random.below(3) {
            0 => Step::call("dup", vec![fd(random)]),
            1 => Step::call("fcntl", vec![fd(random), num(2), pick(random, &[0, 1])]),
            _ => Step::call("close", vec![pick(random, &[3, 4, 5])]),
        },
    };
    steps.push(step);
}

fn terminal(random: &mut Random) -> Step {
    let fd = |random: &mut Random| pick(random, &[3, 4, 4, 5, 6]);
    match random.below(20) {
        0 | 1 => Step::call("pty", vec![pick(random, &[0, 0x800, 0x80000])]),
        2..4 => Step::call("settings", vec![fd(random)]),
        4..7 => Step::call("set", vec![fd(random), pick(random, &[0, 1, 2, 3, 4, 5, 6])]),
        7 => Step::call("size", vec![fd(random)]),
        8 => Step::call("resize", vec![fd(random), pick(random, &[0, 24, 50]), pick(random, &[80, 132])]),
        9..12 => {
            let text = random.pick(&[
                "word",
                "a line\n",
                "\u{3}",
                "\u{4}",
                "\u{1a}",
                "erase\u{7f}\n",
                "\r",
                "tab\there\n",
                "\u{11}\u{13}\u{11}",
            ]);
            Step::call("put", vec![pick(random, &[3, 3, 4]), Arg::text(text)])
        }
        12..14 => Step::call("get", vec![pick(random, &[3, 3]), pick(random, &[100, 2])]),
        14 => Step::call("what", vec![fd(random)]),
        15..18 => Step::call("terminal", vec![num(3), num(4), pick(random, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])]),
        18 => Step::call("hangup", vec![]),
        _ => match random.below(4) {
            0 => Step::call("flush", vec![fd(random), pick(random, &[0, 1, 2, 9])]),
            1 => Step::call("close", vec![pick(random, &[3, 4])]),
            2 => Step::call("open", vec![Arg::text("/dev/tty"), num(2)]),
            _ => Step::call("dup", vec![fd(random)]),
        },
    }
}
