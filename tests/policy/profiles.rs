//! What the built-in profiles promise.

use gated::common::access::{Access, Level};
use gated::common::decision::Lifetime;
use gated::common::path::RawPath;
use gated::policy::load::BUILT_IN;
use gated::policy::{Context, Grants, Policy, ProfileSelector, load};

use super::sample::{CALL, Files, command, context, path};

fn policy(name: &str) -> Policy {
    Policy::new(&Files::default().load(name).unwrap())
}

fn verdict(policy: &Policy, of: &str) -> (Level, String) {
    let verdict = policy.decide(Access::Write, &path(of), CALL, &Grants::new());
    (verdict.level, policy.rule(&verdict).id)
}

#[test]
fn every_built_in_profile_loads() {
    for (name, _) in BUILT_IN {
        assert_eq!(Files::default().load(name).unwrap().file, format!("built-in:{name}"));
    }
}

#[test]
fn coder_writes_in_its_workspace_and_asks_for_what_runs_outside() {
    let coder = policy("coder");
    let ws = "/home/user/project";
    for free in [
        "",
        "/src/main.rs",
        "/.git/index",
        "/.git/refs/heads/main",
        "/.github/workflows/ci.yml",
        "/.env.example",
        "/target/x",
    ] {
        assert_eq!(verdict(&coder, &format!("{ws}{free}")), (Level::Allow, "workspace".into()), "{free}");
    }
    for (asked, rule) in [
        (".git/hooks/pre-commit", "git-runs-this"),
        (".git/config", "git-runs-this"),
        (".git/commondir", "git-runs-this"),
        (".git/modules/a/b/config", "git-runs-this"),
        ("vendor/x/.git/config", "git-runs-this"),
        (".husky/pre-push", "git-runs-this"),
        (".envrc", "code-that-runs-outside"),
        ("web/.envrc", "code-that-runs-outside"),
        (".vscode/tasks.json", "code-that-runs-outside"),
        (".claude/settings.local.json", "agent-settings"),
        (".env", "secrets-changed"),
        ("web/.env.production", "secrets-changed"),
    ] {
        assert_eq!(verdict(&coder, &format!("{ws}/{asked}")), (Level::Ask, rule.into()), "{asked}");
    }
}

#[test]
fn coder_asks_for_everything_outside_and_says_why_where_it_matters() {
    let coder = policy("coder");
    for (asked, rule) in [
        ("/home/user/.bashrc", "login-and-editor"),
        ("/home/user/.config/nvim/init.lua", "login-and-editor"),
        ("/home/user/.config/systemd/user/x.service", "services-and-commands"),
        ("/home/user/.config/autostart/x.desktop", "services-and-commands"),
        ("/home/user/.local/bin/git", "services-and-commands"),
        ("/home/user/.ssh/authorized_keys", "secrets-changed"),
        ("/home/user/.gitconfig", "git-runs-this"),
        ("/etc/passwd", "system"),
        ("/usr/bin/env", "system"),
        ("/home/user/other/file", "default"),
        ("/srv/x", "default"),
    ] {
        assert_eq!(verdict(&coder, asked), (Level::Ask, rule.into()), "{asked}");
    }
    assert_eq!(verdict(&coder, "/home/user/.config/gated/profiles/x.toml").0, Level::Deny);
}

#[test]
fn in_coder_the_git_directory_cannot_be_moved_or_replaced_without_a_question() {
    let coder = policy("coder");
    let below = |of: &str| coder.below(Access::Write, &path(of), CALL, &Grants::new()).map(|verdict| verdict.level);
    for asked in ["/home/user/project/.git", "/home/user/project/vendor/x/.git", "/home/user/project/.git/worktrees/a"]
    {
        assert_eq!(below(asked), Some(Level::Ask), "{asked}");
    }
    assert_eq!(below("/home/user/project/src"), None);
    let link = |of: &str| coder.below_link(Access::Write, &path(of), CALL, &Grants::new()).map(|verdict| verdict.level);
    assert_eq!(link("/home/user/project/.git/modules/a"), Some(Level::Ask));
    assert_eq!(link("/home/user/project/node_modules/a"), None);
    assert!(coder.has_floating(Access::Write));
}

#[test]
fn every_built_in_profile_loads_wherever_it_is_started() {
    let odd = [
        "/srv",
        "/opt/x",
        "/etc/x",
        "/tmp/x",
        "/usr/src/x",
        "/home/user/.config/git",
        "/home/user/.ssh/x",
        "/home/user/.vscode",
    ];
    let mut places: Vec<RawPath> = odd.into_iter().map(path).collect();
    places.push(RawPath::new(b"/srv/[*]\xff{b}/\n".to_vec()));
    for cwd in places {
        for (name, _) in BUILT_IN {
            let context = Context { cwd: cwd.clone(), ..context() };
            let selector = ProfileSelector::Name(name.to_owned());
            let profile = load(selector, &context, &|file| Files::default().read(file));
            assert!(profile.is_ok(), "{name} in {cwd:?}: {profile:?}");
        }
    }
}

#[test]
fn a_checkout_below_a_system_directory_is_a_workspace_all_the_same() {
    let context = Context { cwd: path("/opt/src/x"), ..context() };
    let coder = load(ProfileSelector::Name("coder".to_owned()), &context, &|file| Files::default().read(file)).unwrap();
    let coder = Policy::new(&coder);
    assert_eq!(verdict(&coder, "/opt/src/x/a"), (Level::Allow, "workspace".into()));
    assert_eq!(verdict(&coder, "/opt/src/x/.git/config"), (Level::Ask, "git-runs-this".into()));
    assert_eq!(verdict(&coder, "/opt/src/y"), (Level::Ask, "system".into()));
}

#[test]
fn coder_is_for_coding_agents_and_has_no_scratch() {
    let coder = Files::default().load("coder").unwrap();
    let chosen = |program: &str| coder.match_program.iter().any(|pattern| pattern.matches(&path(program)));
    assert!(chosen("/home/user/.local/bin/claude") && chosen("/usr/bin/codex") && !chosen("/usr/bin/bash"));
    assert!(coder.scratch.is_empty());
    for hidden in ["GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD"] {
        assert!(!coder.keeps_variable(hidden.as_bytes()), "{hidden}");
    }
    for kept in ["PATH", "HOME", "LANG", "TERM", "CARGO_HOME"] {
        assert!(coder.keeps_variable(kept.as_bytes()), "{kept}");
    }
}

#[test]
fn strict_asks_inside_and_denies_outside() {
    let strict = policy("strict");
    assert_eq!(verdict(&strict, "/home/user/project/a"), (Level::Ask, "workspace".into()));
    assert_eq!(verdict(&strict, "/home/user/.bashrc"), (Level::Deny, "default".into()));
    assert_eq!(verdict(&strict, "/srv/x"), (Level::Deny, "default".into()));
}

/// The level and the rule of a command line whose first word is a program of the system's.
fn executed(policy: &Policy, line: &str) -> (Level, String) {
    let has_path = line.split(' ').next().unwrap().contains('/');
    let line = if has_path { line.to_owned() } else { format!("/usr/bin/{line}") };
    let verdict = policy.decide_exec(&command(&line), CALL, &Grants::new());
    (verdict.level, policy.rule(&verdict).id)
}

#[test]
fn coder_runs_programs_except_for_the_seeds_of_trouble() {
    let coder = policy("coder");
    let table = [
        (
            Level::Allow,
            "default",
            "true
             sh -c 'git push'
             bash build.sh
             make -j4
             cc -O2 -c x.c -o x.o
             /home/user/project/target/debug/tool --force push
             git status
             git add -A
             git commit -am 'push --force'
             git pull --ff-only
             git fetch --prune
             git merge --no-ff topic
             git checkout main
             git checkout -b push
             git switch -c topic
             git reset HEAD~1
             git stash
             /usr/lib/git-core/git reset --hard -q --no-recurse-submodules
             /usr/lib/git-core/git reset --hard --no-recurse-submodules --quiet
             /usr/lib/git-core/git reflog expire --all
             git gc --prune=now
             git worktree add ../x
             git checkout v1.2 --
             git clean -n
             git restore --staged x
             git rebase --abort
             git branch -d topic
             git send-pack --stateless-rpc --helper-status --thin https://example.org/x
             rm x
             rm -f a.o b.o
             rm -f -r conftest.err conftest.o conftest.c
             rm -fr .libs/libx.lax src/.libs/liby.lax
             rm -rf conftest* confdefs.h
             chmod +x run.sh
             chmod 644 x
             cp -r a b
             mv a b
             find . -name '*.o' -delete
             npm install
             npm ci
             npm run publish
             npm test
             cargo build --release
             cargo test publish
             go build ./...
             python3 -m pytest
             python3 setup.py build
             twine check dist/x
             docker build .
             curl --version
             dd if=/dev/zero of=x bs=1M count=1
             dd if=x of=/dev/null
             env git status
             xargs rm -r
             ld.so /usr/bin/true",
        ),
        (
            Level::Ask,
            "push",
            "git push
             git push origin main
             git -C /x -c a=b push
             git-push=/usr/bin/git origin
             /usr/lib/git-core/git-push origin
             /home/user/.nix-profile/bin/git push
             git send-pack ssh://x/y main
             git send-email x.patch
             ld.so /usr/bin/git push",
        ),
        (
            Level::Authenticate,
            "force-push",
            "git push -f
             git push -uf origin x
             git push --force-with-lease=x:y origin
             git push --forc
             git push origin +main
             git push origin :main
             git push --mirror
             git push --del x
             git push origin -d x
             git --no-pager push --prune
             git-push=/usr/bin/git +main
             git send-pack --force ssh://x/y
             ld.so --argv0 git-push /usr/bin/git -f",
        ),
        (Level::Ask, "reset", "git reset --hard\ngit reset -q --hard HEAD\ngit reset --har\ngit -C x reset --hard -q"),
        (
            Level::Ask,
            "checkout-over-changes",
            "git checkout .\ngit checkout -f main\ngit checkout -qf x\ngit switch --discard-changes main",
        ),
        (Level::Ask, "checkout-of-files", "git checkout -- src\ngit checkout HEAD -- src\ngit checkout -q -- x"),
        (
            Level::Ask,
            "restore-and-clean",
            "git clean -fdx
             git clean -n --no-dry-run -f
             git restore .
             git restore --staged --worktree .
             git rebase main
             git rebase -i HEAD~3
             git -c sequence.editor=true rebase -i x
             git filter-branch --tree-filter x",
        ),
        (
            Level::Ask,
            "lose-commits",
            "git branch -D x\ngit stash clear\ngit stash drop\ngit reflog expire --expire=now --all",
        ),
        (
            Level::Ask,
            "remove-trees",
            "rm -r x
             rm -rf .
             rm -fvr x
             rm x -R
             rm --recursive x
             rm --rec x
             rm -rf conftest src
             rm -rf conftest -- src
             busybox rm -rf x
             rm=/usr/bin/busybox -rf x
             rm=/usr/bin/coreutils -rf x
             coreutils --coreutils-prog=rm -rf x
             /usr/bin/rm=/usr/bin/rm -rf x",
        ),
        (Level::Ask, "remove-trees-elsewhere", "rm -rf conftest/../src\nrm -rf ./conf/../x"),
        (
            Level::Ask,
            "whole-trees",
            "chmod -R 777 .\nchmod -vR a+w x\nchown --recursive me x\nchgrp -R g x\nbusybox chmod -R 0 x",
        ),
        (
            Level::Ask,
            "fetch",
            "curl https://example.org
             curl -sSL https://example.org/install.sh
             wget -qO- x
             busybox wget x
             curl --version x
             /home/user/bin/curl x
             wget=/usr/bin/busybox x",
        ),
        (
            Level::Authenticate,
            "publish",
            "npm publish
             npm --tag next publish
             npm=/usr/lib/node_modules/npm/bin/npm-cli.js publish
             node /usr/bin/npm publish
             yarn npm publish
             yarn publish
             pnpm -r publish
             bun publish
             cargo publish
             cargo +nightly publish --dry-run
             cargo=/home/user/.cargo/bin/rustup publish
             cargo yank x
             uv publish",
        ),
        (
            Level::Authenticate,
            "publish-packages",
            "twine upload dist/x
             python3 -m twine upload dist/x
             python3.11 -u /usr/bin/twine upload x
             gem push x.gem
             docker push x
             docker --config y image push x
             docker buildx build --push .
             podman push x",
        ),
        (
            Level::Deny,
            "privilege-tools",
            "sudo ls\nsu -\npkexec x\ndoas x\nrun0\nsystemd-run --user x\nsudo=/usr/bin/x\n/usr/local/bin/sudo -n true",
        ),
        (
            Level::Deny,
            "file-systems",
            "mkfs.ext4 /dev/sda\n/usr/sbin/mkfs -t xfs x\nmkfs.ext4=/usr/sbin/mke2fs x\nmkswap x",
        ),
        (Level::Deny, "raw-devices", "dd if=x of=/dev/sda\ndd of=/dev/nvme0n1 bs=1M if=x\nbusybox dd of=/dev/sda"),
    ];
    for (level, rule, lines) in table {
        for line in lines.lines().map(str::trim) {
            let line =
                line.strip_prefix("ld.so").map_or(line.to_owned(), |rest| format!("/lib64/ld-linux-x86-64.so.2{rest}"));
            assert_eq!(executed(&coder, &line), (level, rule.into()), "{line}");
        }
    }
    assert!(coder.judges_exec());
}

#[test]
fn an_answer_to_a_force_push_is_for_that_push() {
    let coder = policy("coder");
    let verdict = |line: &str| coder.decide_exec(&command(line), CALL, &Grants::new());
    assert_eq!(coder.remember(&verdict("/usr/bin/git push -f")), Lifetime::Attempt);
    assert_eq!(coder.remember(&verdict("/usr/bin/git push")), Lifetime::Call);
}

#[test]
fn strict_runs_what_only_looks_and_asks_for_the_rest() {
    let strict = policy("strict");
    for line in [
        "ls -la",
        "cat x",
        "pwd",
        "which git",
        "date",
        "tree",
        "[ -e x ]",
        "ls=/usr/bin/busybox -l",
        "busybox cat x",
        "git status",
        "git -C x log -p",
        "git diff --stat",
        "git show HEAD",
        "git branch",
        "git branch -a -vv",
        "git remote -v",
        "git branch --show-current",
        "git-status=/usr/bin/git",
    ] {
        assert_eq!(executed(&strict, line).0, Level::Allow, "{line}");
    }
    for line in [
        "sh -c ls",
        "env ls",
        "find . -delete",
        "python3 x.py",
        "git",
        "git push",
        "git branch topic",
        "git branch -D topic",
        "git branch -aD topic",
        "git branch -m a",
        "git tag v1",
        "git remote add a b",
        "git commit",
        "sort -o x y",
        "/home/user/project/ls",
        "ls=/home/user/project/x",
        "ls=/usr/bin/env",
        "git-push=/usr/bin/git status",
        "/lib64/ld-linux-x86-64.so.2 /usr/bin/ls",
        "busybox sh",
        "xargs ls",
        "tee x",
    ] {
        assert_eq!(executed(&strict, line), (Level::Ask, "default".into()), "{line}");
    }
    assert_eq!(executed(&strict, "sudo ls").0, Level::Deny);
    assert_eq!(executed(&strict, "mkfs.ext4 x").0, Level::Deny);
}

#[test]
fn secrets_and_other_homes_are_read_with_consent() {
    let home = "/home/user";
    for name in ["coder", "strict"] {
        let policy = policy(name);
        let read = |of: &str| {
            let verdict = policy.decide(Access::Read, &path(of), CALL, &Grants::new());
            (verdict.level, policy.rule(&verdict).id)
        };
        for secret in [
            ".ssh/id_ed25519",
            ".ssh",
            ".gnupg/private-keys-v1.d/x",
            ".aws/credentials",
            ".azure/x",
            ".config/gcloud/x",
            ".kube/config",
            ".docker/config.json",
            ".netrc",
            ".git-credentials",
            ".npmrc",
            ".pypirc",
            ".cargo/credentials",
            ".cargo/credentials.toml",
            ".mozilla/firefox/x/logins.json",
            ".config/google-chrome/Default/Cookies",
            ".config/chromium/x",
            ".local/share/keyrings/login.keyring",
            ".bash_history",
            ".zsh_history",
            ".python_history",
            ".local/share/fish/fish_history",
            "project/.env",
            "project/web/.env.local",
            "project/.envrc",
        ] {
            assert_eq!(read(&format!("{home}/{secret}")), (Level::Ask, "secrets".into()), "{name}: {secret}");
        }
        for open in [
            ".bashrc",
            ".config",
            ".cargo/config.toml",
            ".docker",
            "project/.env.example",
            "project/env",
            "project/.git/config",
            ".gitconfig",
            "",
            "project/.env.sample",
        ] {
            assert_eq!(read(&format!("{home}/{open}")).0, Level::Allow, "{name}: {open}");
        }
        for other in ["/home/eve", "/home/eve/notes", "/root", "/root/.bashrc"] {
            assert_eq!(read(other), (Level::Ask, "other-homes".into()), "{name}: {other}");
        }
        for open in ["/etc/passwd", "/home", "/usr/lib/x.so", "/"] {
            assert_eq!(read(open).0, Level::Allow, "{name}: {open}");
        }
    }
}

fn reached(policy: &Policy, to: &str) -> (Level, String) {
    super::network::said(policy, to)
}

fn socket(policy: &Policy, at: &str) -> (Level, String) {
    super::sockets::said(policy, at, &Grants::new())
}

#[test]
fn coder_fetches_packages_and_code_and_asks_for_every_other_host() {
    use Level::{Allow, Ask, Deny};
    let coder = policy("coder");
    for (to, level, rule) in [
        ("93.184.215.14:443 registry.npmjs.org", Allow, "registries"),
        ("93.184.215.14:443 index.crates.io", Allow, "registries"),
        ("93.184.215.14:443 github.com", Allow, "code-hosting"),
        ("93.184.215.14:22 github.com", Ask, "default"),
        ("93.184.215.14:443 gist.github.com", Ask, "default"),
        ("93.184.215.14:443 registry.npmjs.org.evil.example", Ask, "default"),
        ("93.184.215.14:443", Ask, "default"),
        ("registry.npmjs.org", Allow, "registries"),
        ("unknown.example", Ask, "default"),
        // Whatever name leads there.
        ("10.0.0.1:443 registry.npmjs.org", Deny, "no-local-network"),
        ("10.0.0.1:443 =nas", Deny, "no-local-network"),
        ("192.168.1.1:80", Deny, "no-local-network"),
        ("[fd00::1]:80", Deny, "no-local-network"),
        ("169.254.169.254:80", Deny, "metadata"),
        ("[::ffff:169.254.169.254]:80", Deny, "metadata"),
        ("[64:ff9b::a9fe:a9fe]:80", Deny, "metadata"),
        ("[64:ff9b::a00:1]:80", Deny, "no-local-network"),
        ("100.100.100.200:80", Deny, "no-local-network"),
        ("127.0.0.1:5432", Ask, "default"),
        ("0.0.0.0:5432", Ask, "default"),
        ("127.0.0.1:443 registry.npmjs.org", Deny, "built-in:rebinding"),
        ("93.184.215.14:443 registry.npmjs.org/udp", Deny, "built-in:udp"),
    ] {
        let (found, by) = reached(&coder, to);
        assert_eq!(found, level, "{to}: {by}");
        // Two rules of base and coder speak of a cloud's address in a private range.
        assert!(by == rule || to.starts_with("100.100"), "{to}: {by}");
    }
}

#[test]
fn coder_asks_for_agents_for_ten_minutes_and_reaches_no_bus() {
    use Level::{Ask, Deny};
    let coder = policy("coder");
    for (at, level, rule) in [
        ("/run/user/1000/gnupg/S.gpg-agent", Ask, "agents"),
        ("/tmp/ssh-abc/agent.1", Ask, "agents"),
        ("/run/user/1000/wayland-0", Ask, "display"),
        ("/run/docker.sock", Deny, "containers"),
        ("/run/user/1000/bus", Deny, "built-in:services"),
        ("/tmp/.X11-unix/X0", Deny, "built-in:services"),
        ("/tmp/tmux-1000/default", Deny, "runs-commands-outside"),
        ("/run/user/1000/sway-ipc.1000.7.sock", Deny, "runs-commands-outside"),
        ("/run/postgresql/.s.PGSQL.5432", Ask, "default"),
    ] {
        assert_eq!(socket(&coder, at), (level, rule.to_owned()), "{at}");
    }
    let agent = path("/tmp/ssh-abc/agent.1");
    let verdict = coder.decide_unix(&agent, Some(gated::common::net::Service::SshAgent), CALL, &Grants::new());
    assert_eq!(coder.remember_for(&verdict), Some(std::time::Duration::from_secs(600)));
    assert_eq!(coder.remember(&verdict), Lifetime::Session);
}

#[test]
fn strict_asks_for_each_host_and_denies_what_is_near() {
    use Level::{Ask, Deny};
    let strict = policy("strict");
    assert_eq!(reached(&strict, "93.184.215.14:443 registry.npmjs.org").0, Ask);
    assert_eq!(reached(&strict, "registry.npmjs.org").0, Ask);
    for to in [
        "10.0.0.1:80",
        "127.0.0.1:80",
        "0.0.0.0:80",
        "[::]:80",
        "[::1]:80",
        "[fe80::1]:80",
        "169.254.169.254:80",
        "93.184.215.14:53/udp",
    ] {
        assert_eq!(reached(&strict, to).0, Deny, "{to}");
    }
    for at in
        ["/run/user/1000/gnupg/S.gpg-agent", "/run/user/1000/wayland-0", "/run/systemd/journal/stdout", "/srv/x.sock"]
    {
        assert_eq!(socket(&strict, at).0, Deny, "{at}");
    }
    assert_eq!(super::network::bind(&strict, "127.0.0.1:3000", &Grants::new()), (Deny, false));
}
