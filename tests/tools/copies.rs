//! What copies and rewrites whole trees: tar, rsync, sed. The trees are compared with modes, times, links, attributes.

use crate::Test;
use crate::case::{Case, Policy, nothing};

pub const TESTS: &[Test] = &[
    ("tar_packs_and_unpacks_modes_links_times_and_attributes", tar),
    ("rsync_copies_and_updates_a_tree", rsync),
    ("sed_edits_in_place", sed),
];

fn tar() {
    let results = Case {
        name: "tar",
        script: include_str!("scripts/tar.sh"),
        needs: &[("tar", "tar"), ("setfattr", "attr"), ("setfacl", "acl")],
        prepare: nothing,
        policy: Policy::Workspace,
        compare: &["tree", "out", "plain"],
    }
    .run();
    results.assert_value("inodes", "1");
    results.assert_value("time", "2001-02-03 04:05:06.789000000 +0000");
    results.assert_value("mode", "4755");
}

fn rsync() {
    let results = Case {
        name: "rsync",
        script: include_str!("scripts/rsync.sh"),
        needs: &[("rsync", "rsync"), ("setfattr", "attr"), ("setfacl", "acl")],
        prepare: nothing,
        policy: Policy::Workspace,
        compare: &["from", "to", "backup"],
    }
    .run();
    results.assert_value("first", "68");
    results.assert_value("second", "66");
    results.assert_value("kept", "file 6");
}

fn sed() {
    let results = Case {
        name: "sed",
        script: include_str!("scripts/sed.sh"),
        needs: &[("sed", "sed"), ("perl", "perl"), ("setfacl", "acl")],
        prepare: nothing,
        policy: Policy::Workspace,
        compare: &["edited"],
    }
    .run();
    results.assert_value("changed", "100");
    results.assert_value("lines", "1 2");
    results.assert_value("link", "file5 name = linked");
    results.assert_value("modes", "640 755 644 ");
}
