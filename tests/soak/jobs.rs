//! The commands of a soak, each under gated-run, and what must be true of what they leave.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::journal::{Attempt, Came, Journal, found, settle};
use crate::random::Random;
use crate::support::{Running, Side};
use crate::worker::Order;
use crate::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Threads that change files.
    Worker,
    /// The same, where every program is compared at its exec.
    Judged,
    /// The same, in the session that lasts for the round.
    Shared,
    /// The same, on a file system that has no room.
    Small,
    /// The same, with hardly a descriptor left.
    Poor,
    /// git, tar, python3 and a compiler.
    Tools,
}

pub struct Job<'a> {
    pub kind: Kind,
    pub number: usize,
    pub place: PathBuf,
    pub running: Running<'a>,
}

const TOOLS: &str = r#"
set -e
mkdir "$1" && cd "$1"
git init -q repo && cd repo
git config user.name a && git config user.email a@example.org
for n in 1 2 3; do
    python3 -I -S -c "import sys; [open(f'f{i}', 'w').write(sys.argv[1] * i) for i in range(20)]" $n
    git add . && git commit -q -m $n
done
test "$(git log --oneline | wc -l)" = 3
tar cf ../all.tar . && mkdir ../copy && tar xf ../all.tar -C ../copy
diff -r . ../copy
printf 'int main(void) { return 7; }\n' >seven.c && cc -o seven seven.c
! ./seven && rm -r ../copy
echo D
"#;

impl Kind {
    pub fn pick(random: &mut Random) -> Kind {
        use Kind::*;
        random.pick(&[Worker, Worker, Worker, Judged, Judged, Shared, Shared, Shared, Small, Small, Poor, Tools])
    }
}

impl<'a> Job<'a> {
    pub fn start(world: &'a World, kind: Kind, number: usize, session: &str, random: &mut Random) -> Job<'a> {
        Job::begin(world, kind, number, session, random, true)
    }

    /// One that is answered whatever it asks for: if nothing disturbs it, nothing fails but what is to.
    pub fn undisturbed(world: &'a World, number: usize, session: &str, random: &mut Random) -> Job<'a> {
        Job::begin(world, Kind::Worker, number, session, random, false)
    }

    fn begin(world: &'a World, kind: Kind, number: usize, session: &str, random: &mut Random, never: bool) -> Job<'a> {
        let sandbox = &world.served.sandbox;
        let root = if kind == Kind::Small { sandbox.workspace().join("small") } else { sandbox.workspace() };
        let place = root.join(format!("j{number}"));
        let script = world.script();
        // Without a script of its own, the agent beside is asked.
        let consent = if random.chance(70) { script.as_str() } else { "none" };
        let mut words: Vec<String> = match kind {
            Kind::Shared => vec!["--session".into(), session.to_owned()],
            Kind::Judged => vec!["--profile".into(), "judged".into()],
            _ => vec!["--profile".into(), "soak".into()],
        };
        words.extend(["--consent".into(), consent.to_owned(), "--".into()]);
        if kind == Kind::Tools {
            words.extend(["sh", "-c", TOOLS, "sh"].map(String::from));
            words.push(place.display().to_string());
        } else {
            sandbox_dir(world, &place);
            if kind == Kind::Poor {
                words.extend(["sh", "-c", "ulimit -n 24; exec \"$@\"", "sh"].map(String::from));
            }
            let order = Order {
                place: place.clone(),
                outside: world.outside(),
                job: number,
                seed: random.next(),
                threads: 1 + random.below(3),
                steps: 60 + random.below(240),
                asked: if kind == Kind::Small { 2 } else { 8 },
                hold: if kind == Kind::Poor { 40 } else { 0 },
                bytes: if kind == Kind::Small { 16_384 } else { 3000 },
                never,
            };
            words.extend(sandbox.inside("worker", &order.words()).iter().map(text));
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let running = sandbox.start_line(Side::Bare, &world.served.line(&words), None);
        Job { kind, number, place, running }
    }

    /// Holds what it left against what it says. `there` are the files that were asked for, of all jobs.
    pub fn account(
        self,
        world: &World,
        there: &mut crate::journal::Tree,
        is_undisturbed: bool,
    ) -> Result<Vec<Attempt>, String> {
        let (kind, number, place) = (self.kind, self.number, self.place.clone());
        let outcome = self.running.finish();
        let told = |error: String| format!("job {number} ({kind:?}, {}): {error}\n{}", outcome.code(), outcome.err());
        if is_undisturbed && outcome.code() != 0 {
            return Err(told("failed where nothing went wrong".to_owned()));
        }
        let mut attempts = Vec::new();
        if kind == Kind::Tools {
            if outcome.out().lines().any(|line| line == "D") {
                let repo = place.join("repo").display().to_string();
                let checked = world.served.sandbox.bare(&["git", "-C", &repo, "fsck", "--strict", "--no-progress"]);
                if checked.code() != 0 {
                    return Err(told(format!("its repository is damaged: {checked}")));
                }
            }
        } else {
            let journal = Journal::read(&outcome.out()).map_err(told)?;
            let mut tree = found(&place).map_err(told)?;
            for thread in journal.threads.values() {
                settle(thread, "", &mut tree).map_err(told)?;
                settle(thread, "out:", there).map_err(told)?;
            }
            if !tree.is_empty() {
                return Err(told(format!("nobody made these: {tree:?}")));
            }
            if is_undisturbed {
                undisturbed(&journal).map_err(told)?;
            }
            attempts.extend(journal.attempts().cloned());
        }
        if place.exists() {
            fs::remove_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        }
        Ok(attempts)
    }

    pub fn ends_within(&self, limit: Duration) -> bool {
        self.running.pidfd.ends_within(limit)
    }
}

/// Where nothing goes wrong, nothing fails but what is to.
fn undisturbed(journal: &Journal) -> Result<(), String> {
    if !journal.is_whole {
        return Err("it did not come to its end".to_owned());
    }
    for attempt in journal.attempts() {
        let name = attempt.name();
        let is_no = ["out:no-", "out:deny-", "out:never-"].iter().any(|no| name.starts_with(no))
            || attempt.words[0] == "secret";
        let is_right = match attempt.came {
            Some(Came::Ok(_)) => !is_no,
            Some(Came::Errno(libc::ENOTEMPTY)) => attempt.words[0] == "rmdir",
            Some(Came::Errno(libc::EACCES | libc::EPERM)) => is_no,
            _ => false,
        };
        if !is_right {
            return Err(format!("{attempt:?} where nothing went wrong"));
        }
    }
    Ok(())
}

fn sandbox_dir(world: &World, place: &std::path::Path) {
    // On a full file system there may be no room for it: then the worker finds none.
    if fs::create_dir(place).is_ok() {
        world.served.sandbox.give(place);
    }
}

fn text(word: &OsString) -> String {
    word.to_string_lossy().into_owned()
}
