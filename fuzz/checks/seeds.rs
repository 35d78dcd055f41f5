//! What the fuzzers begin with, made from the project's own files: shipped policies, pages, records, and messages as the programs
//! write them. Written by tests/fuzz_corpus.rs on request.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use gated::common::access::{Access, Level};
use gated::common::consent::{Answer, Group, Member, Offer, Prompt, Suggestion};
use gated::common::decision::{Decision, Effect, Lifetime, Limits, Outcome, Term, Width};
use gated::common::details::{Details, NoticeDetails, answer_to_bus};
use gated::common::exec::{Execution, Parent};
use gated::common::id::{CallId, GrantId, RequestId, SessionId};
use gated::common::net::{Destination, Knowledge, Named, Service, Transport};
use gated::common::notice::{Deed, Kind, Notice};
use gated::common::path::RawPath;
use gated::common::request::{Operation, Request, RuleRef, Who};
use gated::common::text::Untrusted;
use gated::common::wire::{
    self, Ended, FromCaller, FromSession, Hello, RunningCall, Start, ToCaller, ToSession, WindowSize,
};
use gated::consent::webhook::replies::Desk;
use gated::consent::webhook::signature::Secret;
use gated::policy::{Bounds, Grant, lasting};
use gated::session::net::address;
use hickory_proto::op::{Edns, Message, Query};
use hickory_proto::rr::{Name, RecordType};
use serde::Serialize;
use zbus::Type;
use zbus::wire::serialized::Context;
use zbus::wire::{LE, to_bytes};

/// Below this folder, a folder for each target.
pub fn write(corpus: &Path) {
    let all: [(&str, Vec<Vec<u8>>); 15] = [
        ("addresses", addresses()),
        ("bridge", bridge()),
        ("ceiling", ceilings()),
        ("details", details()),
        ("filter", filter()),
        ("keyboard", keyboard()),
        ("memory", memory()),
        ("messages", messages()),
        ("packets", packets()),
        ("patterns", patterns()),
        ("policy", policies()),
        ("programs", programs()),
        ("records", records()),
        ("script", scripts()),
        ("text", texts()),
    ];
    for (target, seeds) in all {
        let folder = corpus.join(target);
        fs::create_dir_all(&folder).unwrap();
        for (number, bytes) in seeds.iter().enumerate() {
            fs::write(folder.join(format!("seed-{number:02}")), bytes).unwrap();
        }
    }
}

fn root(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn text_of(name: &str) -> String {
    fs::read_to_string(root(name)).unwrap()
}

/// The blocks of a page that are in this language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let text = text_of(page);
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

const ATTEMPTS: &str = "\n====\nw /home/user/project/docs/index.md\nr /etc/shadow\nx /usr/bin/git -C /srv/x tag -s v1\n\
    x /usr/bin/env FOO=1 /usr/bin/npm install\nc static.crates.io:443\nc 10.20.1.2:5005\nb 127.0.0.1:3000\nb 0.0.0.0:80\n\
    u /run/postgresql/s\nu /run/user/1000/gnupg/S.gpg-agent\n";

fn policies() -> Vec<Vec<u8>> {
    let mut files: Vec<PathBuf> = fs::read_dir(root("policies")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|kind| kind == "toml"));
    files.sort();
    let shipped = files.iter().map(|file| fs::read_to_string(file).unwrap());
    let pages = blocks("docs/policy.md", "toml").into_iter().filter(|text| text.contains("[profile]"));
    shipped.chain(pages).map(|text| format!("{}{ATTEMPTS}", text.trim_end()).into_bytes()).collect()
}

fn ceilings() -> Vec<Vec<u8>> {
    let pages = blocks("docs/policy.md", "toml").into_iter().filter(|text| text.contains("[[floor]]"));
    let floors = [
        "access = [\"exec\"]\nprogram = [\"@path/git\"]\nargv = [\"git\", \"push\", \"**\"]\nlevel = \"authenticate\"",
        "access = [\"read\"]\npath = [\"**/.env\", \"~/.ssh/**\"]\nexcept = [\"~/.ssh/*.pub\"]\nlevel = \"ask\"",
        "access = [\"unix\"]\nsocket = [\"@docker\"]\nlevel = \"deny\"",
        "access = [\"connect\"]\nhost = [\"*.example.org:443\"]\nlevel = \"notify\"\nuser = \"user\"",
    ];
    let own = floors.map(|floor| format!("schema = 1\n[[floor]]\n{floor}\n"));
    pages.chain(own).map(|text| format!("{}{ATTEMPTS}", text.trim_end()).into_bytes()).collect()
}

fn scripts() -> Vec<Vec<u8>> {
    let mut all = blocks("docs/consent.md", "toml");
    all.extend(blocks("docs/policy.md", "toml").into_iter().filter(|text| text.contains("[[expect]]")));
    all.push(text_of("examples/demo/answers.toml"));
    all.push("[[answer]]\naccess = \"exec\"\nargv = [\"git\", [\"push\", \"pull\"], \"**\"]\nanswer = \"for\"\nfor = \"1h\"\n".to_owned());
    all.push(
        "[[answer]]\nhost = \"*.npmjs.org:443\"\nanswer = \"block\"\nscope = \"host\"\nafter = \"1ms\"\ntimes = 2\n"
            .to_owned(),
    );
    all.into_iter().map(String::into_bytes).collect()
}

fn records() -> Vec<Vec<u8>> {
    let lines = blocks("docs/consent.md", "json").into_iter().chain(blocks("docs/consent.md", "jsonl"));
    let mut all: Vec<Vec<u8>> = lines.map(String::into_bytes).collect();
    all.push(fs::read(root("tests/golden/control_events.jsonl")).unwrap());
    let audit = text_of("docs/consent.md").lines().filter(|line| line.starts_with('{')).collect::<Vec<_>>().join("\n");
    all.push(audit.into_bytes());
    let exec = r#"{"time":"2026-11-21T22:58:00.786183Z","session":"e52266a8","call":1,"user":"me","tool":{"pid":30891,"program":"/bin/sh","argv":["sh"],"cwd":"/home/me"},"access":"exec","operation":"execute","object":"/usr/bin/git","exec":{"argv":["git","push","\\x1b"],"new":false,"first":true,"parents":["/bin/sh"]},"rule":{"profile":"coder","id":"git","file":"built-in:coder","line":3},"result":"approved","answered_by":"tty:me","duration_ms":12}"#;
    let net = exec.replace("\"exec\":{\"argv\":[\"git\",\"push\",\"\\\\x1b\"],\"new\":false,\"first\":true,\"parents\":[\"/bin/sh\"]}", "\"destination\":{\"names\":[\"a.example.org\"],\"address\":\"192.0.2.7\",\"port\":443,\"transport\":\"tcp\",\"zone\":\"public\",\"hint\":\"x.example.net\"}");
    all.push(exec.as_bytes().to_vec());
    all.push(
        net.replace(
            "\"access\":\"exec\",\"operation\":\"execute\"",
            "\"access\":\"connect\",\"operation\":\"connect\"",
        )
        .into_bytes(),
    );
    all.extend(grants().iter().map(|grant| lasting::write(&grant.scope).unwrap().into_bytes()));
    all
}

fn who() -> Who {
    let argv = ["git", "push", "--token", "abc", "\u{202e}x\x1b[2J"].map(Untrusted::new).to_vec();
    Who { pid: 4242, program: "/usr/bin/git".into(), argv, cwd: "/home/user/project".into() }
}

fn request(access: Access, operation: Operation, object: &str) -> Request {
    let named = Named { name: "a.example.org".parse().unwrap(), by: Knowledge::Resolved };
    let address: SocketAddr = "192.0.2.7:443".parse().unwrap();
    let reached = match operation {
        Operation::LookUp => Destination::name(named.name.clone()),
        _ => Destination {
            hint: Some(Untrusted::new("x.net")),
            ..Destination::address(address, Transport::Tcp, vec![named])
        },
    };
    let parent = Parent { pid: 7, program: "/bin/sh".into(), argv: vec![Untrusted::new("sh")] };
    let execution = Execution {
        argv: ["git", "push", "https://me:pw@example.org/r.git"].map(Untrusted::new).to_vec(),
        words_left_out: 2,
        interpreters: vec!["/bin/sh".into()],
        variables: vec![Untrusted::new("LD_PRELOAD=/tmp/x.so")],
        parents: vec![parent],
        is_new: true,
        version: None,
        is_first: true,
    };
    Request {
        id: RequestId(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff),
        session: SessionId("0000002a".to_owned()),
        call: CallId(3),
        who: who(),
        access,
        operation,
        object: object.into(),
        is_directory: false,
        other: (operation == Operation::Rename).then(|| RawPath::from("/home/user/b")),
        level: Level::Ask,
        rule: RuleRef {
            profile: "p".into(),
            id: "r".into(),
            file: "/etc/p.toml".into(),
            line: 7,
            reason: Some("So.".into()),
        },
        remember: Lifetime::Persistent,
        remember_for: Some(Duration::from_secs(600)),
        group: None,
        execution: (access == Access::Exec).then(|| Box::new(execution)),
        destination: matches!(access, Access::Connect | Access::Bind).then(|| Box::new(reached)),
        service: (access == Access::Unix).then_some(Service::Docker),
    }
}

fn requests() -> Vec<Request> {
    vec![
        request(Access::Write, Operation::Create, "/home/user/project/a"),
        request(Access::Write, Operation::Rename, "/home/user/\u{202e}a"),
        request(Access::Read, Operation::OpenRead, "/home/user/.ssh/id_ed25519"),
        request(Access::Exec, Operation::Execute, "/usr/bin/git"),
        request(Access::Connect, Operation::Connect, "192.0.2.7:443"),
        request(Access::Connect, Operation::LookUp, "a.example.org"),
        request(Access::Bind, Operation::Listen, "192.0.2.7:443"),
        request(Access::Unix, Operation::ConnectSocket, "/var/run/docker.sock"),
    ]
}

fn grants() -> Vec<Grant> {
    let home = RawPath::from("/home/user");
    let limits = Limits { longest: Lifetime::Persistent, max_for: None, ..Limits::SESSION };
    let bounds = Bounds { home: &home, limits };
    let widths = [Width::Exact, Width::Directory, Width::Prefix, Width::Host, Width::Domain];
    let pairs = requests().into_iter().flat_map(|request| widths.map(|width| (request.clone(), width)));
    let given = pairs.filter_map(|(request, width)| {
        Grant::from_answer(GrantId(9), &request, width, Term::Session, "tty:user", &bounds).ok()
    });
    let mut all: Vec<Grant> = given.collect();
    all.dedup_by(|one, other| one.scope == other.scope);
    all.truncate(8);
    all.extend(all.first().cloned().map(|grant| Grant { effect: Effect::Deny, ..grant }));
    all
}

fn message(kind: u8, message: &impl Serialize) -> Vec<u8> {
    let frame = wire::encode(message).unwrap();
    [&[kind], frame.get(4..).unwrap_or_default()].concat()
}

fn messages() -> Vec<Vec<u8>> {
    let grant = grants().remove(0).encode();
    let start = Start {
        command: vec![b"git".to_vec(), b"push".to_vec()],
        environment: vec![b"PATH=/usr/bin".to_vec()],
        cwd: "/home/user".into(),
        umask: 0o022,
        ignored_signals: 2,
        on_terminal: [true, false, true],
        window: Some(WindowSize { rows: 24, columns: 80 }),
        passed: vec![3, 9],
    };
    let decision = Decision {
        request: RequestId(5),
        outcome: Outcome::Approved,
        grant: Some(grant.clone()),
        authenticated: true,
        by: "tty:user".to_owned(),
        edited: Some(vec![b"true".to_vec()]),
    };
    let running = RunningCall { call: CallId(1), pid: 7, program: "/bin/sh".into(), argv: vec![Untrusted::new("sh")] };
    let resumed = wire::Resumed { grants: vec![grant.clone()], calls: vec![running] };
    let hello =
        Hello { version: wire::VERSION, session: SessionId("0000002a".into()), token: None, resumed: Some(resumed) };
    let mut all = vec![
        message(0, &ToSession::Start(Box::new(start.clone()))),
        message(0, &ToSession::Decided(decision)),
        message(0, &ToSession::Grant(grant.clone())),
        message(0, &ToSession::Stop),
        message(1, &FromSession::Hello(Box::new(hello))),
        message(1, &FromSession::CallEnded { call: CallId(1), ended: Ended::Signaled(9) }),
        message(1, &FromSession::CallsOver(vec![CallId(1), CallId(2)])),
        message(2, &ToCaller::Ended(Ended::Exited(3))),
        message(3, &FromCaller::Start(Box::new(start.clone()))),
        message(5, &start),
        [&[13], grant.as_slice()].concat(),
    ];
    all.extend(requests().into_iter().map(|request| message(1, &FromSession::Ask(Box::new(request)))));
    let review = gated::policy::load(
        gated::policy::ProfileSelector::Name("readonly".into()),
        &super::checks::context(),
        &|_| Err(std::io::ErrorKind::NotFound.into()),
    );
    all.push([&[14], review.unwrap().encode().as_slice()].concat());
    all
}

fn prompts() -> Vec<Prompt> {
    let offer = |width, scope: &str| Offer { width, scope: scope.to_owned() };
    let later = Instant::now() + Duration::from_secs(60);
    let each = requests().into_iter().map(|request| {
        let scope = String::from_utf8_lossy(request.object.as_bytes()).into_owned();
        let wide = match request.access {
            Access::Exec => offer(Width::Program, "git …"),
            Access::Connect | Access::Bind => offer(Width::Host, "a.example.org:*"),
            _ => offer(Width::Directory, "/home/user/*"),
        };
        let scope = if wide.width == Width::Directory {
            gated::common::scope::Pattern::literal(&request.object).to_string()
        } else {
            scope
        };
        Prompt::new(Rc::new(request), vec![offer(Width::Exact, &scope), wide], later)
    });
    let mut all: Vec<Prompt> = each.collect();
    let members =
        ["/home/user/a", "/home/user/b"].map(|object| Member { operation: Operation::Create, object: object.into() });
    let group = Group { count: 2, place: "/home/user/*".to_owned(), members: members.to_vec() };
    let suggestion = Suggestion { times: 3, width: Width::Directory, term: Term::Always };
    let first = all[0].clone();
    all.push(Prompt {
        group: Some(group),
        suggestion: Some(suggestion),
        max_for: Some(Duration::from_secs(3600)),
        ..first
    });
    all
}

/// As the body of a message of the bus.
fn body<T: Serialize + Type>(kind: u8, value: &T) -> Vec<u8> {
    let data = to_bytes(Context::new(LE, 0), value).unwrap();
    [&[kind], data.bytes()].concat()
}

fn details() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = prompts().iter().map(|prompt| body(90, &Details::of(prompt, 1000))).collect();
    let deed = Deed {
        program: "/usr/bin/npm\\x1b".into(),
        access: Access::Write,
        operation: Operation::Create,
        object: "/srv/a".into(),
    };
    let muted = Notice {
        count: 13,
        time: Some(Duration::from_secs(60)),
        ..Notice::of(Kind::Muted, &SessionId("0000002a".into()), deed)
    };
    for notice in [muted, Notice::policy("a.toml:3:1: no".into())] {
        all.push(body(0xff, &(notice.kind.as_str(), NoticeDetails::of(&notice))));
    }
    let hour = Duration::from_secs(3600);
    let answers = [
        Answer::Deny,
        Answer::Once(Width::Exact),
        Answer::For(Width::Tree, hour),
        Answer::Block(Width::Host, Term::For(hour)),
        Answer::Edit(vec![b"git".to_vec(), b"status".to_vec()]),
    ];
    all.extend(answers.iter().map(|answer| body(0xfe, &answer_to_bus(answer))));
    all
}

fn bridge() -> Vec<Vec<u8>> {
    const REQUEST: RequestId = RequestId(0x1122_3344_5566_7788_99aa_bbcc_ddee_ff00);
    let mut desk = Desk::new(Secret::new("of this process alone, and 32 bytes long"), None);
    let answers = vec![Answer::Deny, Answer::Once(Width::Exact), Answer::Session(Width::Tree)];
    let tokens = desk.open(REQUEST, 1000, Instant::now() + Duration::from_secs(60), answers);
    let secret = Secret::new("a secret that both sides know, of 32 bytes");
    let reply = |token: &str| {
        let (time, request) = ("1700000000", REQUEST.to_string());
        let signature = secret.sign(&[time.as_bytes(), request.as_bytes(), token.as_bytes()]);
        format!(r#"{{"request":"{request}","token":"{token}","timestamp":{time},"signature":"{signature}"}}"#)
    };
    let one = reply(&tokens[1]);
    let quoted = serde_json::to_string(&one).unwrap();
    [
        one.clone(),
        format!(r#"{{"replies":[{one},{}],"next":"7-a"}}"#, reply(&tokens[0])),
        format!(r#"{{"id":"x1","time":1,"event":"message","topic":"t","message":{quoted}}}"#),
        r#"{"id":"x2","event":"keepalive","topic":"t"}"#.to_owned(),
    ]
    .map(String::into_bytes)
    .to_vec()
}

fn filter() -> Vec<Vec<u8>> {
    let call = |number: i64, arguments: [u64; 6]| {
        let head = [(number as u32).to_le_bytes(), 0x4000_0003_u32.to_le_bytes()].concat();
        let rest = std::iter::once(0x7fff_dead_u64).chain(arguments).flat_map(u64::to_le_bytes);
        head.into_iter().chain(rest).collect()
    };
    vec![
        call(libc::SYS_openat, [0, 0, libc::O_RDWR as u64 | 0xdead_beef_0000_0000, 0, 0, 0]),
        call(libc::SYS_socket, [libc::AF_INET as u64, libc::SOCK_STREAM as u64, 0, 0, 0, 0]),
        call(libc::SYS_ioctl, [u64::MAX, libc::TIOCSTI, 0, 0, 0, 0]),
        call(libc::SYS_clone, [libc::CLONE_NEWUSER as u64, 0, 0, 0, 0, 0]),
        call(libc::SYS_prctl, [libc::PR_SET_SECCOMP as u64, 2, 0, 0, 0, 0]),
        call(libc::SYS_sendto, [3, 0, 0, 0x2000_0000, 0, 0]),
        call(0x4000_0000 | libc::SYS_read, [0; 6]),
    ]
}

fn keyboard() -> Vec<Vec<u8>> {
    let bursts: [&[u8]; 8] = [
        b"\x05\x28\x1b[D\x1bOD\x02\x1b[1;5D\x1bb\x17\x19abc\r",
        b"\x03\x50a\xc3\xa9\xe6\x97\xa5\x7f\x1b[3~\x15\x0b",
        b"\x02\x50y\xff\r",
        b"\x02\x50s\xff+\xff\r",
        b"\x02\x28?\xffm\xff1\xff\r",
        b"\x01\x14\x1b]0;x\r\x07\x1bP1$rrm\r\x1b\\\x1b[24;80R",
        b"\x00\xf0b\xff2\xff\r",
        b"\x04\x40t\r\xffa\r",
    ];
    bursts.map(<[u8]>::to_vec).to_vec()
}

fn memory() -> Vec<Vec<u8>> {
    // As `check` of that module reads them: the number's place, where it begins, six registers, the memory.
    let call = |number: u8, shift: u16, registers: [u32; 6], memory: &[u8]| {
        let head = [&[number], shift.to_le_bytes().as_slice()].concat();
        head.into_iter().chain(registers.into_iter().flat_map(u32::to_le_bytes)).chain(memory.iter().copied()).collect()
    };
    const AT: u32 = 0xf000_0000;
    let cwd = libc::AT_FDCWD as u32;
    let pointers = [u64::from(AT) + 32, u64::from(AT) + 40, u64::from(AT) + 32, 0].map(u64::to_le_bytes).concat();
    let argv = [pointers.as_slice(), b"git\0\0\0\0\0push\0\0\0\0"].concat();
    let mut all = vec![
        call(0, 4090, [cwd, AT, 0o102, 0o644, 0, 0], b"/home/user/a\0"),
        call(
            1,
            0,
            [cwd, AT, AT + 16, 24, 0, 0],
            b"a/b\0\0\0\0\0\0\0\0\0\0\0\0\0\x42\0\0\0\0\0\0\0\xa4\x01\0\0\0\0\0\0\x08",
        ),
        call(4, 9, [cwd, AT, cwd, AT + 8, 1, 0], b"/a\0\0\0\0\0\0/b\0"),
        call(13, 0, [cwd, AT + 32, AT, 0x100, 0, 0], &[b"\xff\xff\xff\x3f".repeat(8).as_slice(), b"f\0"].concat()),
        call(14, 0, [AT, AT + 8, AT + 24, 5, 1, 0], b"/f\0\0\0\0\0\0user.x\0\0\0\0\0\0\0\0\0\0value"),
        call(22, 0, [0xfd, AT, 16, 0, 0, 0], b"\x02\0\x01\xbb\x7f\0\0\x01\0\0\0\0\0\0\0\0"),
        call(25, 0, [0xfd, AT, 5, 0x2000_0000, AT + 8, 16], b"hello\0\0\0\x02\0\x01\xbb\x7f\0\0\x01"),
        call(27, 4000, [AT + 32, AT, AT, 0, 0, 0], &argv),
        call(28, 32760, [cwd, AT, AT, AT, 0x1000, 0], b"/x"),
        call(30, 0, [cwd, AT, 0, AT + 8, AT + 24, 16], b"/f\0\0\0\0\0\0user.x\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x04"),
    ];
    let message: Vec<u8> = [u64::from(AT) + 72, 16, u64::from(AT) + 56, 1, 0, 0, 0, u64::from(AT) + 88, 5]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .chain(*b"\x02\0\x01\xbb\x7f\0\0\x01\0\0\0\0\0\0\0\0hello")
        .collect();
    all.push(call(26, 0, [0xfd, AT, 0, 0, 0, 0], &message));
    all
}

fn packets() -> Vec<Vec<u8>> {
    let query = |name: &str, kind: RecordType, payload: Option<u16>| {
        let mut message = Message::query();
        message.metadata.id = 77;
        message.metadata.recursion_desired = true;
        message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
        if let Some(payload) = payload {
            let mut edns = Edns::new();
            edns.set_max_payload(payload);
            message.set_edns(edns);
        }
        let bytes = message.to_vec().unwrap();
        [&[60], bytes.as_slice()].concat()
    };
    let mut all = vec![
        query("registry.npmjs.org.", RecordType::A, None),
        query("ReGistry.npmjs.org.", RecordType::AAAA, Some(1232)),
        query("_443._https.example.org.", RecordType::HTTPS, Some(65535)),
        query("7.2.0.192.in-addr.arpa.", RecordType::PTR, Some(100)),
        query("example.org.", RecordType::ANY, None),
        query("example.org.", RecordType::AXFR, Some(512)),
        query("printer.local.", RecordType::A, None),
        query(".", RecordType::NS, None),
        b"\x05\0\x01\x01\0\0\x01\0\0\0\0\0\0\xc0\x0c\0\x01\0\x01".to_vec(),
    ];
    all.push(
        b"\xfe127.0.0.1 localhost box\n::1 ip6-localhost\n192.0.2.7\tDB.internal db # db\n0.0.0.0 ads.example\n"
            .to_vec(),
    );
    all.push(
        b"\xffnameserver 192.0.2.1\nnameserver fe80::1%eth0\nsearch corp.example lan\noptions ndots:2 timeout:1\n"
            .to_vec(),
    );
    all
}

fn patterns() -> Vec<Vec<u8>> {
    [
        "/x/**/.env\n/x/*\nregistry.npmjs.org:443\n*.npmjs.org:*\ngit push ** -f\n/x/a/.env\n/x/b\nnpmjs.org\na.b.npmjs.org\n-f\n",
        "**/.git/hooks\n/home/user/**\n[2001:db8::7]:443\n192.0.2.7:1-9\ngit -f,--force* **,-a,-v *\n/home/user/p/.git/hooks\n--force-with-lease\n-a\n",
        "/a*b*c/\\x2a\\*\n**/*.env\nbücher.example:80\n*:443\n* **\n/axbyc/**\n/axbxc/*\nXN--BCHER-KVA.example.\n127.1\n0x7f.1\n",
        "/\n/**\nlocalhost:3000-3999\nexample.co.uk:0\nx \n/\n/.\n/a//b\nexample.co.uk\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

fn programs() -> Vec<Vec<u8>> {
    let mut elf = fs::read("/bin/true").unwrap();
    elf.truncate(2048);
    let tagged = |kind: u8, bytes: &[u8]| [&[kind], bytes].concat();
    let status = "Name:\tx) y\nUmask:\t0027\nTgid:\t12\nPPid:\t3\nTracerPid:\t0\nNStgid:\t12\t2\nNSpid:\t13\t4\nThreads:\t2\nSigPnd:\t0000000000000200\n";
    vec![
        tagged(0, &elf),
        tagged(0, b"#!/usr/bin/env -S python3 -u \nprint()"),
        tagged(0, b"#! \t/bin/sh"),
        tagged(0, &[b"#!/".as_slice(), &[b'a'; 300]].concat()),
        tagged(0, b"#!/bin/sh -e\0x\n"),
        tagged(
            0xfe,
            b"enabled\ninterpreter /usr/bin/qemu\nflags: POC\noffset 1\nmagic 454c46\nmask ffff00\n\0/x\0\x7fELF",
        ),
        tagged(0xfe, b"enabled\ninterpreter /usr/bin/mono\nflags: \nextension .exe\n\0/a.exe\0"),
        tagged(0xff, b"12 (a) b) R 1 2 3) S 7 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 1"),
        tagged(0xff, status.as_bytes()),
        tagged(0xff, b"12:pids:/x\n1:name=systemd:/system.slice/gated-session@1.service\n0::/user.slice/a.scope\n"),
        tagged(0xff, b"git\0push\0--force\0"),
    ]
}

fn texts() -> Vec<Vec<u8>> {
    let lines: [&[u8]; 8] = [
        b"\x24git\0push\0it's $HOME `id` \"x\" \\n !",
        "\u{18}rtl\u{202e}cod.exe\u{200b}…\0日本語\0e\u{301}".as_bytes(),
        b"\x50x\0--password=hunter2\0--token\0abc\0https://me:pw@h/r.git\0Authorization: Bearer abc",
        b"\x08line\nbreak\x1b[31m\x7f\0\xff\xfe'\\\xc3\0  two  \0~root\0=ls",
        b"\x40sh\0-c\0export API_KEY='a b'; TOKEN=x curl -H \"Cookie: a=b\" --password pw -v",
        b"\x10/home/alice/a/very/long/path/to/some/file.txt\0\\x1b\\u{202e}",
        b"\x20a $'\\x1b\\n' \"b\\$c\" 'd'\\''e' {} a~b",
        b"\x20echo\0ghp_0123456789abcdefABCDEF\0AKIAIOSFODNN7EXAMPLE\0-----BEGIN RSA PRIVATE KEY-----\nabc",
    ];
    lines.map(<[u8]>::to_vec).to_vec()
}

fn addresses() -> Vec<Vec<u8>> {
    let internet = [
        "192.0.2.7:443",
        "[2001:db8::7]:1",
        "[fe80::1%3]:80",
        "[::ffff:10.0.0.1]:65535",
        "0.0.0.0:0",
        "[64:ff9b::a9fe:a9fe]:80",
    ];
    let mut all: Vec<Vec<u8>> = internet.iter().map(|text| address::to_bytes(text.parse().unwrap())).collect();
    let unspecified: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    all.extend(
        unspecified
            .map(|ip| [&[0, 0], address::to_bytes(SocketAddr::new(ip, 9)).get(2..).unwrap_or_default()].concat()),
    );
    all.extend([b"\x01\0/run/a\0rest".to_vec(), b"\x01\0\0abstract".to_vec(), b"\x01\0".to_vec()]);
    all
}
