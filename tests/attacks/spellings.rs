//! Attack 19: many spellings of one path that is not allowed.

use crate::Test;
use crate::engine::{self, Family};
use crate::raw::{self, AT_FDCWD, Raw, outside, sys, text};
use crate::support::Sandbox;

pub const TESTS: &[Test] = &[("every_spelling_of_a_path_has_one_verdict", || engine::run_family(&SPELLINGS))];

fn prepare() -> Sandbox {
    let sandbox = engine::with_victims();
    let link =
        |target: &str, name: &str| std::os::unix::fs::symlink(target, sandbox.workspace().join(name)).expect("symlink");
    link("../../outside", "out");
    link("out/dir/..", "dots");
    link("/proc/self/cwd/out", "by-proc");
    for index in 1..40 {
        link(&format!("l{}", index - 1), &format!("l{index}"));
    }
    link("../../outside/victim", "l0");
    sandbox
}

pub const SPELLINGS: Family = Family {
    name: "spellings",
    prepare,
    guarded: engine::outside_and_home,
    variants: &[
        ("absolute", || hit(&outside("victim"))),
        ("relative", || hit("../../outside/victim")),
        ("dots", || hit("./.././../outside/./dir/../victim")),
        ("slashes", || hit(&outside("victim").replace('/', "///"))),
        ("dot-dot-beyond-the-root", || hit(&format!("/../../..{}", outside("victim")))),
        ("link-to-the-directory", || hit("out/victim")),
        ("link-with-dots", || hit("dots/victim")),
        ("link-through-proc", || hit("by-proc/victim")),
        ("chain-of-links", || hit("l38")),
        ("proc-self-root", || hit(&format!("/proc/self/root{}", outside("victim")))),
        ("proc-self-cwd", || hit("/proc/self/cwd/../../outside/victim")),
        ("proc-thread-self-cwd", || hit("/proc/thread-self/cwd/out/victim")),
        ("proc-own-pid", || hit(&format!("/proc/{}/root{}", std::process::id(), outside("victim")))),
        ("proc-own-task", || hit(&format!("/proc/self/task/{}/cwd/out/victim", std::process::id()))),
        ("descriptor-of-the-directory", || {
            let dir = raw::open(&outside(""), libc::O_RDONLY | libc::O_DIRECTORY)?;
            hit(&format!("/proc/self/fd/{dir}/victim"))
        }),
        ("dev-fd-of-the-directory", || {
            let dir = raw::open(&outside(""), libc::O_PATH)?;
            hit(&format!("/dev/fd/{dir}/dir/../victim"))
        }),
        ("dot-dot-from-a-descriptor", || {
            let dir = raw::open(&outside("dir"), libc::O_PATH)?;
            let path = text("../victim");
            sys(libc::SYS_openat, [dir as u64, path.at(), (libc::O_WRONLY | libc::O_TRUNC) as u64, 0])
        }),
        ("cwd-by-fchdir", || {
            let dir = raw::open(&outside("dir"), libc::O_RDONLY)?;
            sys(libc::SYS_fchdir, [dir as u64])?;
            hit("../victim")
        }),
        ("cwd-by-chdir", || {
            sys(libc::SYS_chdir, [text(outside("")).at()])?;
            hit("victim")
        }),
        ("almost-4096-bytes", || hit(&format!("{}../../outside/victim", "./".repeat(2030)))),
        ("trailing-slash-of-a-directory", || raw::mkdir(&format!("{}///", outside("new")))),
        ("a-name-that-is-no-utf-8", || {
            let mut path = outside("").into_bytes();
            path.extend_from_slice(b"/\xff\xfe\x80");
            sys(libc::SYS_openat, [AT_FDCWD, text(path).at(), (libc::O_WRONLY | libc::O_CREAT) as u64, 0o644])
        }),
        ("a-dangling-link-is-created-through", || {
            raw::symlink(&outside("new"), "dangling")?;
            raw::overwrite("dangling", libc::O_CREAT)
        }),
        ("a-name-like-deleted", || raw::overwrite(&outside("victim (deleted)"), libc::O_CREAT)),
        ("the-shell-start-file", || raw::overwrite("../.bashrc", libc::O_APPEND)),
    ],
};

fn hit(path: &str) -> Raw {
    raw::overwrite(path, libc::O_TRUNC)
}
