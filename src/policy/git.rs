//! The words that may stand between `git` and its subcommand, git(1) "OPTIONS". Pure.

/// Those that take the next word as their value.
/// `--shallow-file` is in no manual.
const WITH_VALUE: [&[u8]; 9] = [
    b"-C",
    b"-c",
    b"--git-dir",
    b"--work-tree",
    b"--namespace",
    b"--super-prefix",
    b"--config-env",
    b"--attr-source",
    b"--shallow-file",
];

/// How many words come before the subcommand; all of them where there is none.
pub(super) fn global_options<'a>(words: impl Iterator<Item = &'a [u8]>) -> usize {
    let mut count = 0_usize;
    let mut is_value = false;
    for word in words {
        if std::mem::take(&mut is_value) {
            count = count.saturating_add(1);
            continue;
        }
        if !word.starts_with(b"-") || word == b"-" {
            return count;
        }
        is_value = WITH_VALUE.contains(&word);
        count = count.saturating_add(1);
    }
    count
}
