//! Programs that keep files open and share them, or a terminal: a database, an editor, a multiplexer.

use crate::Test;
use crate::case::{Case, Policy, nothing};

pub const TESTS: &[Test] = &[
    ("sqlite_has_two_writers_and_a_reader_in_wal_mode", sqlite),
    ("vim_edits_with_swap_file_and_backup_and_recovers", vim),
    ("tmux_runs_a_shell_in_a_pane", tmux),
];

fn sqlite() {
    let results = Case {
        name: "sqlite",
        script: include_str!("scripts/sqlite.sh"),
        needs: &[("sqlite3", "sqlite3")],
        prepare: nothing,
        policy: Policy::Workspace,
        compare: &[],
    }
    .run();
    results.assert_value("gaps", "0");
    results.assert_value("rows", "600");
    results.assert_value("check", "ok");
    results.bare.assert(results.bare.out().contains("kept|300"), "the rows of one writer are left");
}

fn vim() {
    let results = Case {
        name: "vim",
        script: include_str!("scripts/vim.sh"),
        needs: &[("vim", "vim")],
        prepare: nothing,
        policy: Policy::Coder { answers: "" },
        compare: &[],
    }
    .run();
    results.assert_value("swap", "file");
    results.assert_value("text", "one second three four ");
    results.assert_value("backup", "one second three ");
    results.assert_value("mode", "640 640");
    results.assert_value("link", "target link goal");
    results.assert_value("recovered", "kept not written ");
}

fn tmux() {
    let results = Case {
        name: "tmux",
        script: include_str!("scripts/tmux.sh"),
        needs: &[("tmux", "tmux")],
        prepare: nothing,
        policy: Policy::Workspace,
        compare: &[],
    }
    .run();
    results.assert_value("panes", "2");
    results.assert_value("socket", "1");
    results.assert_value("file", "from tmux");
    results.assert_value("ended", "yes");
}
