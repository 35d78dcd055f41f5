//! What runs in sessions of the daemon: tools that ask, one calmly and one by the hundred. Runs re-executed, as the test user.

use std::fs;
use std::path::Path;

use super::now;

/// Makes directories one after the other and says when it called and when it went on: `NAME CALLED RETURNED`.
pub fn asks(directory: &Path, count: usize) {
    for at in 0..count {
        let name = format!("calm-{at}");
        let path = directory.join(&name);
        let called = now();
        let made = fs::create_dir(&path);
        let returned = now();
        made.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        println!("{name} {called} {returned}");
    }
}

/// Asks for something new from so many threads, again and again, whatever the answers are.
pub fn floods(directory: &Path, threads: usize) {
    let spawn = |thread: usize| {
        let directory = directory.to_owned();
        let ask = move || {
            for at in 0_u64.. {
                // A denial is what is expected, and a yes would do no harm.
                let _ = fs::create_dir(directory.join(format!("flood-{thread}-{at}")));
            }
        };
        std::thread::Builder::new().stack_size(64 << 10).spawn(ask).expect("a thread");
    };
    (0..threads).for_each(spawn);
    println!("ready");
    std::thread::sleep(std::time::Duration::from_secs(600));
}
