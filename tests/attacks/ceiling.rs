//! Out of the admin's limit: a profile and answers of the tool's own user that allow everything, under a ceiling. And a profile
//! that lies where the tool may write.

use crate::Test;
use crate::engine;
use crate::support::{Outcome, Sandbox, Side, profiles};

pub const TESTS: &[Test] = &[
    ("no_profile_and_no_answer_exceeds_the_ceiling", exceeded),
    ("a_floor_holds_in_scratch_and_for_reads", native),
    ("a_floor_on_reads_of_a_name_holds_wherever_the_session_works", named_anywhere),
    ("a_profile_in_the_workspace_is_not_the_tools_to_change", workspace_profile),
];

/// One that everything is allowed in, with everything else answered with yes.
fn under(ceiling: &str, profile: &str) -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.profile(profile);
    let answers = ["read", "write", "exec"]
        .map(|access| format!("[[answer]]\naccess = \"{access}\"\nobject = \"/**\"\nanswer = \"session\"\n"));
    sandbox.answers(&answers.concat());
    let gated = sandbox.control().join("run/gated");
    std::fs::create_dir_all(&gated).expect("mkdir");
    std::fs::write(gated.join("ceiling.toml"), format!("schema = 1\n{ceiling}")).expect("write");
    sandbox.bind(&sandbox.control().join("run"), std::path::Path::new("/run"));
    sandbox
}

fn shell(sandbox: &Sandbox, side: Side, script: &str) -> Outcome {
    sandbox.on(side, &["sh", "-c", script])
}

/// The script works bare, and in a session under the ceiling it does not.
fn stopped(sandbox: &Sandbox, script: &str) {
    let bare = shell(sandbox, Side::Bare, script);
    bare.assert(bare.code() == 0, "it works bare");
    if engine::gated_too() {
        let gated = shell(sandbox, Side::Gated, script);
        gated.assert(gated.code() != 0 && gated.code() != 125, "it fails inside");
    }
}

fn exceeded() {
    let ceiling = "[[floor]]\naccess = [\"write\"]\npath = [\"/**/outside/kept/**\", \"~/.profile\"]\nlevel = \"deny\"\n\
                   [[floor]]\naccess = [\"write\"]\npath = [\"/**/outside/proof\"]\nlevel = \"authenticate\"\n\
                   [[floor]]\naccess = [\"exec\"]\nargv = [\"*\", \"--danger\", \"**\"]\nlevel = \"deny\"\n";
    let sandbox = under(ceiling, profiles::ALLOW_ALL);
    sandbox.file(&sandbox.outside().join("kept/file"), "original\n");
    let outside = sandbox.outside().display().to_string();
    for script in [
        format!("echo x >{outside}/kept/file"),
        format!("rm {outside}/kept/file && echo original >{outside}/kept/file"),
        format!("mv {outside}/kept {outside}/moved && mv {outside}/moved {outside}/kept"),
        format!("ln -s kept {outside}/l; echo x >{outside}/l/new && rm {outside}/l"),
        format!("echo x >{outside}/proof"),
        "echo x >~/.profile".to_owned(),
        "/bin/echo --danger x".to_owned(),
    ] {
        stopped(&sandbox, &script);
    }
    if engine::gated_too() {
        let allowed = shell(&sandbox, Side::Gated, &format!("echo x >{outside}/free && rm {outside}/free"));
        allowed.assert_code(0);
    }
}

fn native() {
    let ceiling = "[[floor]]\naccess = [\"write\"]\npath = [\"**/.envrc\"]\nlevel = \"deny\"\n\
                   [[floor]]\naccess = [\"read\"]\npath = [\"~/secret\"]\nlevel = \"deny\"\n";
    let profile = format!("{}\n[scratch]\npath = [\"{{workspace}}/target/**\"]\n", profiles::WORKSPACE);
    let sandbox = under(ceiling, &profile);
    sandbox.file(&sandbox.home().join("secret"), "secret\n");
    sandbox.dir(&sandbox.workspace().join("target"));
    stopped(&sandbox, "echo x >target/.envrc");
    stopped(&sandbox, "cat ~/secret");
    if engine::gated_too() {
        shell(&sandbox, Side::Gated, "echo x >target/free && cat target/free").assert_code(0);
    }
}

fn named_anywhere() {
    let ceiling = "[[floor]]\naccess = [\"read\"]\npath = [\"**/*.pem\"]\nlevel = \"deny\"\n\
                   [[floor]]\naccess = [\"read\"]\npath = [\"~/**/*.key\"]\nlevel = \"deny\"\n";
    let sandbox = under(ceiling, profiles::ALLOW_ALL);
    for name in ["k.pem", "work/k.pem", "keys/deep/k.pem", "work/node_modules/k.pem", "k.key", "keys/deep/k.key"] {
        sandbox.file(&sandbox.home().join(name), "secret\n");
        stopped(&sandbox, &format!("cat ~/{name}"));
    }
    sandbox.file(&sandbox.home().join("keys/free"), "free\n");
    if engine::gated_too() {
        shell(&sandbox, Side::Gated, "cat ~/keys/free && echo x >keys && cat keys").assert_code(0);
    }
}

fn workspace_profile() {
    let mut sandbox = Sandbox::new();
    sandbox.answers("[[answer]]\naccess = \"write\"\nobject = \"/**\"\nanswer = \"session\"\n");
    let file = sandbox.workspace().join("policy/gated/p.toml");
    sandbox.file(&file, profiles::ALLOW_ALL);
    sandbox.profile_named(file.to_str().expect("a path of this test"));
    for script in [
        "echo '#' >>policy/gated/p.toml",
        "mv policy/gated policy/other && mv policy/other policy/gated",
        "mv policy other && mv other policy",
        "cp policy/gated/p.toml q && mv q policy/gated/p.toml",
    ] {
        stopped(&sandbox, script);
    }
    let kept = std::fs::read_to_string(&file).expect("it is where it was");
    assert!(kept.starts_with(profiles::ALLOW_ALL));
    if engine::gated_too() {
        shell(&sandbox, Side::Gated, "echo x >policy/gated/other && rm policy/gated/other").assert_code(0);
    }
}
