//! What the profiles `readonly`, `build` and `review` promise, and which programs `coder` takes for agents.

use gated::common::access::{Access, Level};
use gated::policy::{Grants, Policy};

use super::network::said;
use super::sample::{CALL, Files, command, path};

fn policy(name: &str) -> Policy {
    Policy::new(&Files::default().load(name).unwrap())
}

#[track_caller]
fn assert_levels(policy: &Policy, access: Access, table: &[(Level, &str)]) {
    for (level, places) in table {
        for place in places.split_whitespace() {
            let verdict = policy.decide(access, &path(place), CALL, &Grants::new());
            assert_eq!(verdict.level, *level, "{access} {place}: {:?}", policy.rule(&verdict));
        }
    }
}

fn executed(policy: &Policy, line: &str) -> Level {
    policy.decide_exec(&command(&format!("/usr/bin/{line}")), CALL, &Grants::new()).level
}

/// Of a host that was looked up, at a public address.
fn connected(policy: &Policy, name: &str, port: u16) -> Level {
    said(policy, &format!("93.184.215.14:{port} {name}")).0
}

#[test]
fn readonly_reads_as_coder_does_and_changes_nothing() {
    let (readonly, coder) = (policy("readonly"), policy("coder"));
    for place in
        ["/srv/x", "/home/user/.ssh/id", "/home/user/notes", "/home/other/x", "/root/x", "/srv/.env", "/etc/passwd"]
    {
        let level = |policy: &Policy| policy.decide(Access::Read, &path(place), CALL, &Grants::new()).level;
        assert_eq!(level(&readonly), level(&coder), "{place}");
    }
    assert_levels(&readonly, Access::Write, &[(Level::Deny, "/home/user/project/a /home/user/.bashrc /srv/x /etc/x")]);
    assert_eq!(executed(&readonly, "sudo x"), Level::Deny);
    assert_eq!((executed(&readonly, "git log"), executed(&readonly, "python3 x.py")), (Level::Allow, Level::Allow));
    assert_eq!(connected(&readonly, "registry.npmjs.org", 443), Level::Deny);
    assert_eq!(said(&readonly, "127.0.0.1:80").0, Level::Deny);
}

#[test]
fn build_writes_caches_and_not_what_runs_elsewhere() {
    let build = policy("build");
    let free = "/home/user/project/target/x /home/user/project/.git/index /home/user/.cargo/registry/index/x
        /home/user/.cargo/git/db/x /home/user/.cargo/.package-cache-mutate /home/user/.npm/_cacache/tmp/x
        /home/user/.cache/pip/x /home/user/.cache/go-build/ab/x /home/user/.m2/repository/x /home/user/.gradle/caches/x";
    let asked = "/home/user/project/.git/hooks/post-checkout /home/user/project/.git/config /home/user/project/.env
        /home/user/project/x/.envrc /home/user/.cargo/bin/cargo /home/user/.cargo/config.toml /home/user/.cargo/env
        /home/user/.npmrc /home/user/.gradle/init.d/x.gradle /home/user/.m2/settings.xml /home/user/go/bin/x
        /home/user/.bashrc /home/user/.local/bin/x /etc/x";
    assert_levels(&build, Access::Write, &[(Level::Allow, free), (Level::Ask, asked)]);
    assert_levels(&build, Access::Read, &[(Level::Ask, "/home/user/.cargo/credentials.toml /home/other/x")]);
    for free in ["cc -c x.c", "rm -rf target", "cargo build", "npm ci", "pip install x", "make -j8", "sh -c x"] {
        assert_eq!(executed(&build, free), Level::Allow, "{free}");
    }
    assert_eq!((executed(&build, "git push"), executed(&build, "npm publish")), (Level::Ask, Level::Authenticate));
    assert_eq!(executed(&build, "sudo make install"), Level::Deny);
    let hosts = [
        ("registry.npmjs.org", 443, Level::Allow),
        ("static.crates.io", 443, Level::Allow),
        ("registry.npmjs.org", 80, Level::Ask),
        ("github.com", 443, Level::Ask),
        ("example.org", 443, Level::Ask),
    ];
    for (name, port, level) in hosts {
        assert_eq!(connected(&build, name, port), level, "{name}:{port}");
    }
}

#[test]
fn review_sees_the_checkout_and_the_system_and_asks_for_nothing() {
    let review = policy("review");
    let seen =
        "/home/user/project /home/user/project/src/main.rs /home/user/project/.env.example /usr/bin/git /etc/passwd
        /lib/x.so /proc/self/maps /home/user/.gitconfig /tmp/x /";
    let hidden = "/home/user /home/user/.ssh/id_ed25519 /home/user/.aws/credentials /home/user/.bash_history /home/user/notes
        /home/other/x /root/x /srv/x /mnt/x /home/user/project/.env /home/user/project/a/.env.local /home/user/project/.npmrc
        /home/user/.config/git/credentials /home/user/.netrc /home /data/x";
    assert_levels(&review, Access::Read, &[(Level::Allow, seen), (Level::Deny, hidden)]);
    assert_levels(&review, Access::Write, &[(Level::Deny, "/home/user/project/a /home/user/.bashrc /usr/x /srv/x")]);
    assert_eq!(connected(&review, "example.org", 443), Level::Deny);
    // Of no rule there is anything left to ask.
    let profile = Files::default().load("review").unwrap();
    let asks = profile.rules.iter().filter(|rule| matches!(rule.level, Level::Ask | Level::Authenticate));
    let ids: Vec<&str> = asks.map(|rule| rule.id.as_str()).collect();
    assert_eq!(ids, ["secrets", "agents", "display"], "each of these is denied by a rule of review's own");
}

#[test]
fn coder_knows_agents_by_what_their_names_lead_to() {
    let coder = Files::default().load("coder").unwrap();
    let is_agent = |program: &str| coder.match_program.iter().any(|pattern| pattern.matches(&path(program)));
    for agent in [
        "/home/user/.local/bin/goose",
        "/usr/local/bin/aider",
        "/home/user/.local/share/uv/tools/aider-chat/bin/aider",
        "/home/user/.local/share/claude/versions/2.0.14",
        "/home/user/.claude/local/claude",
        "/home/user/.local/share/cursor-agent/versions/2025.10.02/cursor-agent",
        "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js",
        "/home/user/.npm-global/lib/node_modules/@openai/codex/bin/codex.js",
        "/home/user/.nvm/versions/node/v22.1.0/lib/node_modules/@google/gemini-cli/dist/index.js",
        "/home/user/.bun/install/global/node_modules/@qwen-code/qwen-code/cli.js",
        "/usr/local/lib/node_modules/@github/copilot/index.js",
        "/usr/lib/node_modules/@sourcegraph/amp/dist/main.js",
        "/usr/lib/node_modules/opencode-ai/bin/opencode",
        "/home/user/.opencode/bin/opencode",
    ] {
        assert!(is_agent(agent), "{agent}");
    }
    for other in [
        "/usr/bin/node",
        "/usr/bin/python3",
        "/usr/bin/claude-notes",
        "/usr/lib/node_modules/@anthropic-ai/claude-code/vendor/ripgrep/x64-linux/rg",
        "/usr/lib/node_modules/npm/bin/npm-cli.js",
        "/home/user/.local/share/claude/settings",
    ] {
        assert!(!is_agent(other), "{other}");
    }
}
