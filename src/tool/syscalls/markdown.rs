//! The table as `docs/syscalls.md`. Pure.

use std::fmt::Write as _;

use super::{Action, Arch, Feature, NEWEST, classes};

/// How an action reads in the page.
fn words(action: Action) -> String {
    match action {
        Action::Native => "native".into(),
        Action::Trapped => "trapped".into(),
        Action::Refused(errno) => {
            nix::errno::Errno::from_raw(errno.raw()).to_string().split(':').next().unwrap_or("").into()
        }
        Action::WithoutEffect => "answered 0, does nothing".into(),
        Action::By(feature) => {
            let session = match feature {
                Feature::JudgedPrograms => "where the profile judges programs",
                Feature::Debugging => "where the profile says `debug = true`",
                Feature::OwnNetwork | Feature::OwnFastOpen | Feature::OwnDatagrams => {
                    "where the session has its own network"
                }
            };
            format!("{} {session}, else {}", words(feature.with()), words(feature.without()))
        }
    }
}

/// The page: one section per group, in the order of the table.
pub fn markdown() -> String {
    let mut page = String::from(
        "# System calls\n\n\
         <!-- Written by `make docs` from src/tool/syscalls/; a test fails if it is not current. -->\n\n\
         *Native* calls run at full speed and are held by Landlock and the namespaces; *trapped* ones wait for the\n\
         supervisor, which judges and performs them; the others fail with the errno given. Where arguments decide, the first\n\
         case that holds counts, and of an argument that is no pointer only the low 32 bits are looked at.\n",
    );
    // Writing to a string does not fail.
    let _ = writeln!(
        page,
        "\nReviewed up to number {NEWEST} ({}). Every higher number, every hole and the x32 numbers of x86-64 are ENOSYS; a call\n\
         by another architecture (int 0x80, a 32-bit program) ends the process.",
        Arch::X86_64.name(NEWEST).unwrap_or("?"),
    );
    for group in classes::GROUPS {
        let _ = writeln!(page, "\n## {}\n\n{}\n", group.title, group.why);
        for case in group.class.cases {
            let _ = writeln!(page, "* {}: **{}**", case.what, words(case.then));
        }
        let rest = if group.class.cases.is_empty() { "always" } else { "otherwise" };
        let _ = writeln!(page, "* {rest}: **{}**\n", words(group.class.otherwise));
        let _ = writeln!(page, "| call | x86-64 | aarch64 |\n|---|---|---|");
        for name in group.names() {
            let number = |arch: Arch| arch.number(name).map_or("–".into(), |number| number.to_string());
            let _ = writeln!(page, "| {name} | {} | {} |", number(Arch::X86_64), number(Arch::Aarch64));
        }
    }
    page
}
