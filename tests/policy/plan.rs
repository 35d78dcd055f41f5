//! What the floor gives natively.

use gated::policy::plan::{PRIVATE, Scratch, scratch};

use super::sample::{path, profile};

fn private() -> Vec<gated::common::path::RawPath> {
    PRIVATE.into_iter().map(path).collect()
}

#[test]
fn private_trees_and_scratch_are_native() {
    let own =
        profile("[vars]\nworkspace = \"@cwd\"\n[scratch]\npath = [\"{workspace}/target/**\", \"/srv/build/**\"]\n");
    assert_eq!(own.scratch, [path("/home/user/project/target"), path("/srv/build")]);
    let plan = scratch(&own, &private(), &path("/home/user/project"), &[]);
    assert_eq!(plan.native, [path("/tmp"), path("/dev/shm"), path("/home/user/project/target"), path("/srv/build")]);
    assert!(plan.judged.is_empty());
}

#[test]
fn a_private_tree_that_holds_the_workspace_or_cwd_is_judged() {
    let mut own = profile("");
    assert_eq!(scratch(&own, &private(), &path("/tmp/demo"), &[]).judged, [path("/tmp")]);
    own.workspace = Some(path("/dev/shm/ws"));
    assert_eq!(
        scratch(&own, &private(), &path("/srv"), &[]),
        Scratch { native: vec![path("/tmp")], judged: vec![path("/dev/shm")] }
    );
}

#[test]
fn scratch_that_holds_the_workspace_or_gateds_own_files_is_judged() {
    let mut own = profile("[scratch]\npath = [\"/srv/build/**\", \"/srv/other/**\"]\n");
    own.workspace = Some(path("/srv/build/ws"));
    own.protect(path("/srv/other/audit.jsonl"));
    assert_eq!(scratch(&own, &private(), &path("/srv/build/ws"), &[]).judged, own.scratch);
}

#[test]
fn scratch_below_the_workspace_stays_native_when_the_tool_starts_in_it() {
    let own = profile("[scratch]\npath = [\"/srv/build/**\"]\n");
    assert!(scratch(&own, &private(), &path("/srv/build/x"), &[]).judged.is_empty());
}
