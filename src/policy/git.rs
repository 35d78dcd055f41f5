//! The words that may stand between `git` and its subcommand, git(1) "OPTIONS". Pure.

/// Those that take the next word as their value; `--shallow-file` is in no manual.
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

/// Those that do not; ones with `=` have theirs.
const ALONE: &str =
    "-v -h -p -P --version --help --html-path --man-path --info-path --exec-path --paginate --no-pager --bare
    --no-replace-objects --no-lazy-fetch --no-optional-locks --no-advice --literal-pathspecs --glob-pathspecs
    --noglob-pathspecs --icase-pathspecs";

/// What comes before a subcommand.
pub(super) struct Before {
    /// So many words; all of them where there is no subcommand.
    pub words: usize,
    /// Whether all of them are known: one that is not may take a word more.
    pub is_known: bool,
}

pub(super) fn global_options<'a>(words: impl Iterator<Item = &'a [u8]>) -> Before {
    let mut before = Before { words: 0, is_known: true };
    let mut is_value = false;
    for word in words {
        if !std::mem::take(&mut is_value) {
            if !word.starts_with(b"-") || word == b"-" {
                break;
            }
            is_value = WITH_VALUE.contains(&word);
            let is_alone = ALONE.split_ascii_whitespace().any(|own| own.as_bytes() == word) || word.contains(&b'=');
            before.is_known &= is_value || is_alone;
        }
        before.words = before.words.saturating_add(1);
    }
    before
}
