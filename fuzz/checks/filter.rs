//! The compiled filters, run on any call in the interpreter of the tests, against what the table of system calls says.

use std::sync::LazyLock;

use gated::tool::filter::{Filter, compile};
use gated::tool::syscalls::{Action, Arch, Class, Features, class_of};

use super::feed::Feed;

#[path = "../../tests/support/bpf.rs"]
#[allow(dead_code)]
mod bpf;

const ALLOW: u32 = 0x7fff_0000;
const NOTIFY: u32 = 0x7fc0_0000;
const ERRNO: u32 = 0x0005_0000;
const KILL_PROCESS: u32 = 0x8000_0000;

static FILTERS: LazyLock<Vec<(Arch, Features, Filter)>> = LazyLock::new(|| {
    let all = Arch::ALL.into_iter().flat_map(|arch| Features::ALL.map(|features| (arch, features)));
    all.map(|(arch, features)| (arch, features, compile(arch, features).expect("the table compiles"))).collect()
});

/// A number, then an architecture where it is none of ours, an instruction pointer and six arguments.
pub fn check(input: &[u8]) {
    let mut feed = Feed(input);
    let number = u32::from_le_bytes(feed.array());
    let foreign = u32::from_le_bytes(feed.array());
    let instruction_pointer = feed.word();
    let arguments = std::array::from_fn(|_| feed.word());
    for (arch, features, filter) in FILTERS.iter() {
        // Close to the numbers that there are, and as it came.
        for number in [number, number % 512] {
            for architecture in [arch.audit(), foreign] {
                let data = bpf::Data { number, architecture, instruction_pointer, arguments };
                let outcome = bpf::run(filter.program(), &data).expect("a program that the kernel takes");
                let expected = if architecture == arch.audit() {
                    says(arch.name(number).and_then(class_of), *features, arguments)
                } else {
                    KILL_PROCESS
                };
                assert_eq!(outcome.value, expected, "{arch:?} {features:?} {data:x?}");
            }
        }
    }
}

fn says(class: Option<&Class>, features: Features, arguments: [u64; 6]) -> u32 {
    let Some(class) = class else { return ERRNO | libc::ENOSYS as u32 };
    let holds = |test: &gated::tool::syscalls::Test| arguments[usize::from(test.argument)] & test.mask == test.value;
    let case = class.cases.iter().find(|case| case.when.iter().all(holds));
    match case.map_or(class.otherwise, |case| case.then).under(features) {
        Action::Native => ALLOW,
        Action::Trapped => NOTIFY,
        Action::Refused(errno) => ERRNO | errno.raw() as u32,
        Action::WithoutEffect => ERRNO,
        Action::By(_) => panic!("a feature is there or not"),
    }
}
