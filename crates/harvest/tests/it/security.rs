//! What an agent finds when it looks around, and what of its doing reaches the host: nothing.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{FIX, World, git, uid};

/// What these commands print in the sandbox, one by one.
fn look(world: &World, commands: &[&str]) -> Vec<String> {
    let ran = world.run(&json!([{ "shell": commands }, {}]), &["--test", "true"]);
    ran.assert_ended(0, "completed", None);
    ran.tool_outputs()
}

#[test]
fn no_variable_file_or_network_of_the_host() {
    let world = World::new();
    let planted = world.home().join("planted.txt");
    fs::write(&planted, "planted-in-home").unwrap();
    let data = world.data();
    let replies = json!([{ "shell": [
        "env",
        "ls -A / && ls -A /home /root /tmp /mnt /media /srv /var 2>&1",
        "cat /etc/shadow 2>&1; cat /etc/passwd",
        format!("ls -la '{}' '{}' '{}' 2>&1; cat '{}' 2>&1", world.path().display(), data.display(), world.home().display(), planted.display()),
        "cat /proc/net/dev | tail -n +3; cat /proc/net/route | tail -n +2; cat /proc/net/unix",
        "cat /proc/self/uid_map; id -u; cat /proc/self/status | grep -E 'Cap|NoNewPrivs'",
        "cat /proc/mounts",
        "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; tr '\\0' '\\n' < $p/environ; done 2>&1",
        "echo x > /proc/sys/kernel/core_pattern; echo x > /usr/x; echo x > /etc/x; echo x > /harvest/objects/x; mount -t tmpfs x /mnt; unshare -Ur true;",
        "ls -laR /harvest 2>&1 | head -50; find / -xdev -name '*.sock' 2>/dev/null",
    ] }, {}]);
    let ran = world
        .run_with(&replies, &["--test", "true"])
        .env("PLANTED_VARIABLE", "planted-in-environment")
        .env("ANTHROPIC_API_KEY", "sk-ant-canary-0123456789abcdef")
        .env("OPENAI_API_KEY", "sk-canary-openai-0123456789abcdef")
        .env("XDG_CONFIG_HOME", "/tmp/planted-config")
        .finish();
    ran.assert_ended(0, "completed", None);
    let outputs = ran.tool_outputs();
    let all = outputs.join("\n---\n");
    for planted in ["planted-in-home", "planted-in-environment", "PLANTED_VARIABLE", "canary", "planted-config"] {
        assert!(!all.contains(planted), "{planted}: {all}");
        assert!(!ran.stdout.contains(planted) && !ran.stderr.contains(planted), "{planted}");
    }
    assert!(!outputs[0].contains(&*world.path().to_string_lossy()), "{}", outputs[0]);
    assert!(!outputs[2].contains("root:$") && !outputs[2].contains("root:*:"), "{}", outputs[2]);
    assert!(!outputs[3].contains("harvest.db"), "{}", outputs[3]);
    let interfaces: Vec<&str> = outputs[4].lines().filter(|line| line.contains(':') && !line.contains("Num")).collect();
    assert!(interfaces[0].trim_start().starts_with("lo:"), "{}", outputs[4]);
    assert_eq!(interfaces.iter().filter(|line| line.split_whitespace().count() > 10).count(), 1, "{}", outputs[4]);
    assert!(outputs[5].contains("CapEff:\t0000000000000000"), "{}", outputs[5]);
    assert!(!outputs[6].contains(&*world.home().to_string_lossy()), "{}", outputs[6]);
    assert!(!outputs[7].contains("harvest-runner"), "{}", outputs[7]);
    for path in ["/usr/x", "/etc/x"] {
        assert!(!Path::new(path).exists());
    }
    assert!(!outputs[9].contains(".sock"), "{}", outputs[9]);
    // Nor is any key in what is kept.
    assert_no_file_contains(&data, b"canary-");
    assert_no_file_contains(&data, b"planted-in-environment");
}

/// Whoever a process of a sandbox is inside, outside it is not root, and two sandboxes of root's are not the same user.
#[test]
fn no_process_of_a_sandbox_is_root_on_the_host() {
    let world = World::new();
    let start = || {
        let mut running = world.run_with(&json!([{ "shell": "echo $$; sleep 987654" }]), &[]).start();
        running.wait_for_type("tool.call");
        running
    };
    let running = [start(), start()];
    let deadline = std::time::Instant::now() + crate::support::PATIENCE;
    let sleepers = loop {
        let found = sandboxed(&world);
        let sleepers: Vec<_> = found.iter().filter(|(cmdline, ..)| cmdline.starts_with("sleep ")).cloned().collect();
        if sleepers.len() == 2 {
            assert!(uid() != 0 || found.iter().all(|(_, uid, _)| *uid != 0), "{found:#?}");
            break sleepers;
        }
        assert!(std::time::Instant::now() < deadline, "{found:#?}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    for (_, _, map) in &sleepers {
        let outside: Vec<u32> = map.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse().ok()).collect();
        assert!(!outside.contains(&0) && !outside.is_empty(), "{map}");
    }
    if uid() == 0 {
        assert_ne!(sleepers[0].1, sleepers[1].1, "two sandboxes share a uid");
    }
    for running in running {
        running.signal(rustix::process::Signal::INT);
        running.finish().assert_ended(3, "cancelled", Some("cancelled"));
    }
    world.assert_nothing_left();
}

/// Command line, uid and uid map, seen from here, of every process that has a mount of this world.
fn sandboxed(world: &World) -> Vec<(String, u32, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        let read = |name: &str| {
            String::from_utf8_lossy(&fs::read(entry.path().join(name)).unwrap_or_default()).replace('\0', " ")
        };
        if !read("mountinfo").contains(&*world.path().to_string_lossy()) {
            continue;
        }
        let status = read("status");
        let Some(uid) = status.lines().find_map(|line| line.strip_prefix("Uid:")) else { continue };
        let uid = uid.split_whitespace().next().unwrap().parse().unwrap();
        found.push((read("cmdline"), uid, read("uid_map")));
    }
    found
}

fn assert_no_file_contains(folder: &Path, needle: &[u8]) {
    for entry in fs::read_dir(folder).unwrap().filter_map(Result::ok) {
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            assert_no_file_contains(&path, needle);
        } else if kind.is_file() {
            let content = fs::read(&path).unwrap_or_default();
            let found = content.windows(needle.len()).any(|window| window == needle);
            assert!(!found, "{} contains {}", path.display(), String::from_utf8_lossy(needle));
        }
    }
}

/// Someone who knows a key, say from the prompt, cannot get it into the journal.
#[test]
fn a_key_that_is_said_aloud_is_not_written_down() {
    let world = World::new();
    let key = "sk-ant-api03-Canary0123456789abcdefXYZ";
    let replies = json!([{ "say": format!("The key is {key}."), "shell": format!("echo {key}; echo {key} | base64; echo {key} > kept.txt") }, {}]);
    let ran =
        world.run_with(&replies, &["--test", "cat kept.txt; cat /nonexistent"]).env("ANTHROPIC_API_KEY", key).finish();
    assert!(!ran.stdout.contains(key) && !ran.stderr.contains(key), "{}", ran.stdout);
    ran.outcome();
    let logs = world.harvest(&["task", "list", "--json"]).env("ANTHROPIC_API_KEY", key).finish();
    assert!(!logs.stdout.contains(key), "{}", logs.stdout);
    for name in ["harvest.db", "harvest.db-wal"] {
        let content = fs::read(world.data().join(name)).unwrap_or_default();
        assert!(!content.windows(key.len()).any(|window| window == key.as_bytes()), "{name}");
    }
}

#[test]
fn a_hostile_workspace_runs_nothing_on_the_host_and_is_delivered() {
    let world = World::new();
    let host = world.path().join("ran");
    fs::create_dir(&host).unwrap();
    fs::set_permissions(&host, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let plant =
        |name: &str| format!("touch {0}/{name}; touch /workspace/.ran-{name}; echo {name} >> /tmp/ran", host.display());
    let mut commands = vec![FIX.to_owned()];
    let mut config = |key: &str, name: &str| {
        commands.push(format!("git config {key} '{}'", plant(name)));
    };
    config("core.fsmonitor", "fsmonitor");
    config("core.sshCommand", "ssh");
    config("core.editor", "editor");
    config("core.pager", "pager");
    config("core.gitProxy", "proxy");
    config("core.askPass", "askpass");
    config("gpg.program", "gpg");
    config("credential.helper", "!credential");
    config("diff.external", "external");
    config("diff.evil.textconv", "textconv");
    config("diff.evil.command", "diffcommand");
    config("merge.evil.driver", "merge");
    config("filter.evil.clean", "clean");
    config("filter.evil.smudge", "smudge");
    config("filter.evil.process", "process");
    config("uploadpack.packObjectsHook", "packobjects");
    config("receive.procReceiveRefs", "procreceive");
    config("alias.push", "!push");
    config("alias.commit", "!commit");
    config("sequence.editor", "sequence");
    commands.push("git config commit.gpgSign true".to_owned());
    commands.push("git config include.path /workspace/evil.config".to_owned());
    commands.push(format!("printf '[core]\\n\\thooksPath = /workspace/hooks\\n[remote \"origin\"]\\n\\tuploadpack = {0}\\n\\treceivepack = {0}\\n' 'touch {1}/remote' > evil.config", "", host.display()));
    commands.push("printf '* filter=evil diff=evil merge=evil\\n' > .gitattributes".to_owned());
    commands.push(format!(
        "mkdir -p hooks .git/hooks && for hook in pre-commit post-commit pre-push reference-transaction post-checkout update pre-receive post-receive post-update; do \
         printf '#!/bin/sh\\ntouch {0}/hook-%s\\n' $hook > hooks/$hook; cp hooks/$hook .git/hooks/; chmod +x hooks/$hook .git/hooks/$hook; done",
        host.display()
    ));
    commands.push(format!("printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = ext::sh -c \"touch {}/submodule\"\\n\\tupdate = !touch {0}/update\\n' > .gitmodules", host.display()));
    let ran = world.run(&json!([{ "shell": commands }, {}]), &[]);
    let outcome = ran.outcome();
    for output in ran.tool_outputs() {
        assert!(output.ends_with("exit code 0"), "{output}");
    }
    let branch = outcome["branch"].as_str().unwrap_or_else(|| panic!("not delivered: {outcome:#}"));
    assert_eq!(world.show(&format!("{branch}:src/two.sh")), "echo two");
    let id = outcome["task_id"].as_str().unwrap();
    for args in [&["task", "diff", id][..], &["task", "logs", id], &["task", "show", id]] {
        assert_eq!(world.harvest(args).finish().exit, Some(0), "{args:?}");
    }
    let found: Vec<_> = fs::read_dir(&host).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(found.is_empty(), "ran on the host: {found:?}");
    assert!(!Path::new("/workspace").exists());
    assert_eq!(
        git(&world.repo(), &["config", "--local", "--list"]).lines().filter(|line| line.contains("evil")).count(),
        0
    );
    world.assert_nothing_left();
}

/// Whatever state the agent leaves the repository in, its work is either brought out or the task fails; nothing hangs.
#[test]
fn a_broken_workspace_fails_or_delivers_but_never_hangs() {
    for command in [
        "rm -rf .git",
        "rm -rf .git && git init -q",
        "rm .git/HEAD",
        "echo junk > .git/index",
        "touch .git/index.lock",
        "git checkout -q --detach",
        "git checkout -q -b mine && git commit -q --allow-empty -m x",
        "git checkout -q --orphan fresh && git commit -q -m orphan",
        "chmod 000 src && chmod 000 .git/objects",
        "rm -rf .git/objects && mkdir .git/objects",
        "mkfifo pipe && ln -s /etc/passwd link && ln -s . loop",
        "git config core.worktree /tmp && git config core.bare true",
        "echo 'gitdir: /tmp/elsewhere' > /tmp/x && rm -rf .git && cp /tmp/x .git",
        "mkdir -p a/.git && cd a && git init -q . && git commit -q --allow-empty -m inner",
        "printf 'x' > \"$(printf 'odd\\nname\\t\\377')\"",
        "git push -q origin HEAD:refs/heads/main; git push -q origin :refs/heads/x; git push -q origin HEAD:refs/heads/harvest/other; git tag v1; git push -q origin v1; true",
        "cd .. && rm -rf /workspace/* /workspace/.[a-z]*",
    ] {
        let world = World::new();
        let before = git(&world.repo(), &["for-each-ref"]);
        let ran = world.run(&json!([{ "shell": [FIX, command] }, {}]), &["--test", "true"]);
        let outcome = ran.outcome();
        assert!(matches!(ran.exit, Some(0 | 1)), "{command}: {outcome:#}");
        assert!(outcome["reason"] != "internal", "{command}: {outcome:#}");
        let refs = git(&world.repo(), &["for-each-ref"]);
        let new: Vec<&str> = refs.lines().filter(|line| !before.contains(line)).collect();
        let expected = outcome["branch"].as_str().map(|branch| format!("\trefs/heads/{branch}"));
        assert_eq!(new.len(), usize::from(expected.is_some()), "{command}: {new:?}");
        assert!(new.iter().all(|line| line.ends_with(expected.as_deref().unwrap())), "{command}: {new:?}");
        world.assert_nothing_left();
    }
}

/// Files that a delivered result leaves must belong to whoever asked for it.
#[test]
fn what_is_delivered_belongs_to_the_person() {
    let world = World::new();
    let look = look(&world, &["touch mine && stat -c %u mine", "id -u"]);
    assert_eq!(look.len(), 2);
    let mut foreign = Vec::new();
    let mut pending = vec![world.repo()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).unwrap().filter_map(Result::ok) {
            let metadata = entry.metadata().unwrap();
            if std::os::unix::fs::MetadataExt::uid(&metadata) != uid() {
                foreign.push(entry.path());
            }
            if metadata.is_dir() {
                pending.push(entry.path());
            }
        }
    }
    assert!(foreign.is_empty(), "{foreign:?}");
}

#[test]
fn an_agent_that_kills_everything_it_can_ends_only_itself() {
    let world = World::new();
    let ran = world.run(&json!([{ "shell": FIX }, { "delay": "1s", "shell": "kill -9 -1" }, {}]), &[]);
    let outcome = ran.assert_ended(1, "failed", Some("agent"));
    assert_eq!(world.show(&format!("{}:src/two.sh", outcome["branch"].as_str().unwrap())), "echo two");
    world.assert_nothing_left();
}

/// Endless output and too many processes are the sandbox's problem alone.
#[test]
fn floods_are_contained() {
    let world = World::new();
    let ran = world.run(
        &json!([{ "shell": ["yes | head -c 20000000", "head -c 3000000 /dev/zero | tr '\\0' x", "printf '\\377\\376\\000\\033[2J\\r'"] }, { "shell": FIX }]),
        &[],
    );
    ran.assert_ended(0, "completed", None);
    assert!(ran.stdout.len() < 5_000_000, "{} bytes", ran.stdout.len());
    let events: Vec<Value> = ran.of_type("tool.result");
    assert!(events.iter().all(|data| data["output"].as_str().unwrap().len() < 200_000));
}

/// Sessions share a mirror of what was public to both; what one of them made is its own.
#[test]
fn what_another_session_made_cannot_be_asked_for_by_its_hash() {
    let world = World::new();
    let theirs = world.run(&json!([{ "shell": FIX }, {}]), &[]).assert_ended(0, "completed", None);
    let hash = theirs["commit"].as_str().unwrap();
    // The branch goes, as if it had never been delivered.
    git(&world.repo(), &["branch", "--quiet", "-D", theirs["branch"].as_str().unwrap()]);
    git(&world.repo(), &["gc", "--quiet", "--prune=now"]);
    let ask = format!("git fetch -q origin {hash}; echo fetched $?; git cat-file -e {hash}; echo found $?; {FIX}");
    let replies = json!([{ "shell": ask }, { "expect": "fetched 128" }]);
    let ran = world.run(&replies, &[]);
    ran.assert_ended(0, "completed", None);
    let results: Vec<String> = ran
        .events()
        .iter()
        .filter(|event| event["type"] == "tool.result")
        .map(|event| event["data"]["output"].to_string())
        .collect();
    assert!(results[0].contains("fetched 128") && results[0].contains("found 1"), "{results:?}");
}

/// Trees that would overwrite a clone's own settings are refused where they arrive.
#[test]
fn a_tree_with_a_disguised_git_folder_does_not_get_out() {
    let world = World::new();
    let marker = world.path().join("marker");
    let hook = format!("#!/bin/sh\\ntouch {}\\n", marker.display());
    let names = [".git", ".GIT", "git~1", ".g\\u200cit"];
    let attempts: Vec<String> = names
        .iter()
        .map(|name| {
            format!(
                "blob=$(printf '{hook}' | git hash-object -w --stdin); \
                 tree=$(printf '100755 blob %s\\tpost-checkout\\n' $blob | git mktree); \
                 tree=$(printf '040000 tree %s\\t{name}\\n' $tree | git mktree); \
                 git push -q --force origin $(git commit-tree -m x $tree):refs/heads/$(git symbolic-ref --short HEAD); echo pushed $?"
            )
        })
        .collect();
    let attempts = format!("{}; {FIX}", attempts.join("; "));
    let ran = world.run(&json!([{ "shell": attempts }, {}]), &[]);
    let outcome = ran.assert_ended(0, "completed", None);
    let results: Vec<String> = ran
        .events()
        .iter()
        .filter(|event| event["type"] == "tool.result")
        .map(|event| event["data"]["output"].to_string())
        .collect();
    assert_eq!(results[0].matches("pushed 1").count(), 4, "{results:?}");
    let branch = outcome["branch"].as_str().unwrap();
    assert_eq!(world.show(&format!("{branch}:src/two.sh")), "echo two");
    assert!(!marker.exists(), "something ran on the host");
}
