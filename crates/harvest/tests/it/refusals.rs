//! Bad input: one clear message with its code, exit code 2, and nothing left behind. And odd input that must work.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::{FIX, Harvest, Ran, World, fingerprint, git, init, try_git, uid};

#[track_caller]
fn assert_refused(ran: &Ran, code: &str, says: &str) {
    assert_eq!(ran.exit, Some(2), "{ran:?}");
    // The doctor tells of git and the settings even if it cannot tell of anything else.
    assert!(ran.stdout.is_empty() || ran.stdout.starts_with("✓ git "), "{ran:?}");
    assert!(ran.stderr.starts_with(&format!("error[{code}]: ")), "expected {code}: {}", ran.stderr);
    assert!(ran.stderr.contains(says), "expected `{says}`: {}", ran.stderr);
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
}

/// One failed check with the way out; all others are made, and nothing is said twice.
#[track_caller]
fn assert_found_by_the_doctor(ran: &Ran, code: &str, says: &str) {
    assert_eq!((ran.exit, ran.stderr.as_str()), (Some(1), ""), "{ran:?}");
    let failed: Vec<&str> = ran.stdout.lines().filter(|line| line.starts_with('✗')).collect();
    assert!(failed.len() == 1 && failed[0].contains(&format!("({code})")), "{ran:?}");
    assert!(ran.stdout.contains(says), "expected `{says}`: {ran:?}");
    for other in ["✓ git ", "settings", "model keys", "namespaces", "limit: memory"] {
        assert!(ran.stdout.contains(other), "expected `{other}`: {ran:?}");
    }
    assert!(!ran.stdout.contains("harvest-doctor-"), "{ran:?}");
}

/// Refused, nothing of the repository touched, no task made, nothing left.
#[track_caller]
fn refused(world: &World, harvest: Harvest, code: &str, says: &str) {
    let before = fingerprint(&world.repo());
    assert_refused(&harvest.finish(), code, says);
    assert_eq!(fingerprint(&world.repo()), before);
    world.assert_nothing_left();
    assert_eq!(world.tasks(), Vec::<serde_json::Value>::new());
}

fn run(world: &World, args: &[&str]) -> Harvest {
    world.run_with(&json!([{}]), args)
}

#[test]
fn repositories_that_cannot_be_worked_on() {
    let world = World::empty();
    refused(&world, run(&world, &[]), "HV-0101", "git init");
    let named = format!("error[HV-0101]: {} is not a git repository", world.repo().display());
    refused(&world, run(&world, &[]), "HV-0101", &named);
    refused(&world, run(&world, &["--repo", "/nonexistent/x"]), "HV-0101", "/nonexistent/x");
    refused(&world, run(&world, &["--repo", ""]), "HV-0101", "");
    init(&world.repo());
    refused(&world, run(&world, &[]), "HV-0102", "git commit --allow-empty");
    refused(&world, run(&world, &["--base", "main"]), "HV-0102", "");
}

#[test]
fn bases_that_cannot_be_started_from() {
    let world = World::new();
    for (base, code) in [
        ("nowhere", "HV-0103"),
        ("0123456789012345678901234567890123456789", "HV-0103"),
        ("HEAD:src", "HV-0104"),
        ("--upload-pack=x", "HV-0104"),
        ("-x", "HV-0104"),
        ("", "HV-0104"),
        ("main..HEAD", "HV-0104"),
        ("a b", "HV-0104"),
        ("a\nb", "HV-0104"),
    ] {
        refused(&world, run(&world, &["--base", base]), code, "help:");
    }
    let tree = git(&world.repo(), &["rev-parse", "HEAD^{tree}"]);
    refused(&world, run(&world, &["--base", &tree]), "HV-0103", "");
}

#[test]
fn addresses_that_could_run_something() {
    let world = World::new();
    let marker = world.path().join("ran");
    let touch = marker.display();
    for url in [
        format!("ext::sh -c touch% {touch}"),
        format!("EXT::touch {touch}"),
        "fd::17".to_owned(),
        format!("ssh://-oProxyCommand=touch${{IFS}}{touch}/x"),
        "-oProxyCommand=false:x".to_owned(),
        "ftp://example.com/x".to_owned(),
        "https://-x/y".to_owned(),
    ] {
        refused(&world, run(&world, &[&format!("--repo={url}")]), "HV-0107", "");
        assert!(!marker.exists(), "{url}");
    }
    refused(&world, run(&world, &["--repo", "file:///nonexistent/x"]), "HV-0108", "could not be fetched");
    let ran = run(&world, &["--repo", "https://ada:hunter2@127.0.0.1:1/x"]).finish();
    assert_refused(&ran, "HV-0107", "127.0.0.1");
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
}

#[test]
fn scripts_that_cannot_be_used() {
    let world = World::new();
    let with = |file: &Path| world.harvest(&["run", "x", "--json", "--model-script"]).args(&[file]);
    refused(&world, with(&world.path().join("missing.yaml")), "HV-0131", "missing.yaml");
    refused(&world, with(world.path()), "HV-0131", "");
    if uid() != 0 {
        let closed = world.script_file("closed.yaml", &json!([]));
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        refused(&world, with(&closed), "HV-0131", "closed.yaml");
    }
    let bad = world.path().join("bad.yaml");
    for (text, says) in [
        ("conversations:\n  - replies:\n      - status: 200\n", "line 3"),
        ("conversations:\n  - replies:\n      - sya: x\n", "sya"),
        ("conversations: []\n", "conversation"),
        ("conversations:\n  - replies: [\n", "line"),
        ("", ""),
        ("\u{0}\u{1}", ""),
        ("conversations:\n  - replies:\n      - delay: soon\n", "delay"),
        ("model: x\nmodel: y\nconversations: [{replies: []}]\n", "model"),
    ] {
        fs::write(&bad, text).unwrap();
        refused(&world, with(&bad), "HV-0132", says);
    }
    fs::write(&bad, [0xff, 0xfe, 0x00]).unwrap();
    let ran = with(&bad).finish();
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    assert!(ran.stderr.starts_with("error[HV-013"), "{}", ran.stderr);
}

#[test]
fn agents_models_prompts_and_options() {
    let world = World::new();
    refused(&world, run(&world, &["--agent", "nobody"]), "HV-0121", "builtin");
    refused(&world, world.harvest(&["run", "x"]), "HV-0122", "ANTHROPIC_API_KEY");
    refused(
        &world,
        world.harvest(&["run", "x", "--model", "gpt-5"]).env("ANTHROPIC_API_KEY", "k"),
        "HV-0122",
        "OPENAI_API_KEY",
    );
    for prompt in ["", "  \n\t "] {
        refused(&world, world.harvest(&["run", prompt]), "HV-0111", "empty");
    }
    for options in [
        &["--timeout", "soon"],
        &["--timeout", "0s"],
        &["--timeout=-5m", "--json"],
        &["--budget-usd", "0"],
        &["--budget-usd", "-1"],
        &["--budget-usd", "NaN"],
        &["--budget-usd", "1e300"],
        &["--sandbox", "maybe"],
        &["--nonsense", "x"],
        &["--log", "=="],
    ] {
        refused(&world, run(&world, options), "HV-0141", "");
    }
    refused(&world, world.harvest(&["run"]), "HV-0141", "PROMPT");
    refused(&world, world.harvest(&["run", "x"]).args(&[OsString::from_vec(vec![b'a', 0xff])]), "HV-0141", "");
    refused(&world, world.harvest::<&str>(&[]), "HV-0141", "subcommand");
    refused(&world, world.harvest(&["frobnicate"]), "HV-0141", "frobnicate");
}

#[test]
fn a_merge_or_rebase_in_progress_and_locked_refs() {
    let world = World::new();
    git(&world.repo(), &["switch", "--quiet", "--create", "side"]);
    world.write("src/one.sh", "echo side\n");
    world.commit("Side");
    git(&world.repo(), &["switch", "--quiet", "main"]);
    world.write("src/one.sh", "echo main\n");
    world.commit("Main");
    assert!(!try_git(&world.repo(), &["merge", "side"]).status.success());
    refused(&world, run(&world, &[]), "HV-0105", "git merge --abort");
    git(&world.repo(), &["merge", "--abort"]);
    assert!(!try_git(&world.repo(), &["rebase", "side"]).status.success());
    refused(&world, run(&world, &[]), "HV-0105", "git rebase --abort");
    git(&world.repo(), &["rebase", "--abort"]);
    for lock in ["refs/heads/main.lock", "packed-refs.lock", "HEAD.lock", "refs/heads/x/y.lock"] {
        let path = world.repo().join(".git").join(lock);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        refused(&world, run(&world, &[]), "HV-0106", lock);
        fs::remove_file(path).unwrap();
    }
    run(&world, &["--test", "true"]).finish().assert_ended(0, "completed", None);
}

#[test]
fn data_directories_that_cannot_be_used() {
    let world = World::new();
    let file = world.path().join("file");
    fs::write(&file, "mine").unwrap();
    let full = world.path().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("letter.txt"), "mine").unwrap();
    let mut bad = vec![file.clone(), file.join("below"), full.clone(), PathBuf::from("/proc/nothing")];
    if uid() != 0 {
        bad.push("/usr/harvest".into());
    }
    for folder in bad {
        for command in
            [&["run", "x", "--model-script", "s.yaml"][..], &["task", "list"], &["demo", "--once"], &["doctor"]]
        {
            let script = world.script_file("repo/s.yaml", &json!([{}]));
            let ran = world.harvest_at(&folder, command).finish();
            match command {
                ["doctor"] => assert_found_by_the_doctor(&ran, "HV-0301", "--data-dir"),
                _ => assert_refused(&ran, "HV-0301", "--data-dir"),
            }
            fs::remove_file(script).unwrap();
        }
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    assert_eq!(fs::read_dir(&full).unwrap().count(), 1);
}

fn private_folder(path: &Path) {
    fs::create_dir(path).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
}

/// A command in a mount namespace of its own, in which `folder` is mounted read-only.
fn with_read_only(mut harvest: Harvest, folder: &Path) -> Harvest {
    let mut inside = std::process::Command::new("unshare");
    inside.env_clear().envs(harvest.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    inside.current_dir(harvest.command.get_current_dir().unwrap()).args(["--mount", "sh", "-c"]);
    inside.arg("mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"").arg(folder);
    inside.arg(harvest.command.get_program()).args(harvest.command.get_args());
    harvest.command = inside;
    harvest
}

#[test]
fn a_data_directory_that_is_read_only_or_open_to_others_is_refused_and_its_mode_stays() {
    let world = World::new();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let commands = [&["task", "list"][..], &["up", "--until-empty"], &["serve"], &["doctor"]];
    let data = world.data();
    private_folder(&data);
    assert_eq!(world.tasks().len(), 0);
    for open in [0o755, 0o750, 0o1777] {
        fs::set_permissions(&data, fs::Permissions::from_mode(open)).unwrap();
        for command in commands {
            let ran = world.harvest(command).finish();
            let (closed, why) = (format!("chmod 700 {}", data.display()), format!("is open to others (mode {open:o})"));
            match command {
                ["doctor"] => assert_found_by_the_doctor(&ran, "HV-0301", &closed),
                _ => assert_refused(&ran, "HV-0301", &closed),
            }
            assert!(format!("{}{}", ran.stdout, ran.stderr).contains(&why), "{ran:?}");
        }
        assert_eq!(mode(&data), open);
        world.assert_nothing_left();
    }
    if uid() == 0 {
        fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).unwrap();
        for command in commands {
            let ran = with_read_only(world.harvest(command), &data).finish();
            match command {
                ["doctor"] => assert_found_by_the_doctor(&ran, "HV-0301", "--data-dir"),
                _ => assert_refused(&ran, "HV-0301", "--data-dir"),
            }
            assert!(format!("{}{}", ran.stdout, ran.stderr).contains("is read-only for you"), "{ran:?}");
        }
        assert_eq!(mode(&data), 0o700);
        return;
    }
    fs::set_permissions(&data, fs::Permissions::from_mode(0o500)).unwrap();
    for command in commands {
        let ran = world.harvest(command).finish();
        let way_out = format!("chmod u+rwx {}", data.display());
        match command {
            ["doctor"] => assert_found_by_the_doctor(&ran, "HV-0301", &way_out),
            _ => assert_refused(&ran, "HV-0301", &way_out),
        }
    }
    assert_eq!(mode(&data), 0o500);
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).unwrap();
}

/// The program of this agent is on no machine that tests run on.
#[test]
fn an_agent_that_is_not_installed_is_refused_wherever_it_is_named() {
    let world = World::new();
    let script = world.script(&json!([{ "shell": FIX }, {}]));
    let script = script.to_str().unwrap();
    let commands = [
        &["run", "x", "--agent", "aider", "--model-script", script][..],
        &["run", "x", "--race", "builtin,aider", "--model-script", script],
        &["run", "x", "--plan", "--review-plan", "aider", "--model-script", script],
        &["task", "add", "x", "--agent", "aider"],
        &["task", "add", "x", "--race", "builtin,aider"],
        &["task", "add", "x", "--race", "2", "--judge", "aider"],
        &["task", "add", "x", "--plan", "--review-plan", "aider"],
    ];
    for command in commands {
        let ran = world.harvest(command).finish();
        assert_refused(&ran, "HV-0123", "harvest agent list");
        assert!(ran.stderr.contains("is not installed on this machine: pipx install aider-chat"), "{}", ran.stderr);
    }
    assert_eq!(world.tasks().len(), 0);
    world.run(&json!([{ "shell": FIX }, {}]), &[]).assert_ended(0, "completed", None);
    let id = world.tasks()[0]["id"].as_str().unwrap().to_owned();
    let again = world.harvest(&["session", "prompt", &id, "More", "--agent", "aider"]).finish();
    assert_refused(&again, "HV-0123", "harvest agent list");
    // A worker may have it in its image: then the worker checks, and says the same.
    let queued =
        world.harvest(&["task", "add", "x", "--agent", "aider"]).env("HARVEST_CONTAINER_IMAGE", "mine").finish();
    assert_eq!(queued.exit, Some(0), "{queued:?}");
    let worked = world.harvest(&["up", "--until-empty", "--model-script", script]).finish();
    assert!(worked.stdout.contains("Aider is not installed on this machine: pipx install aider-chat"), "{worked:?}");
    world.assert_nothing_left();
}

/// `--data-dir`, else the XDG folder, else one below the home folder; without any of them there is no guessing.
#[test]
fn where_data_and_keys_are_kept() {
    let world = World::new();
    let bare = |args: &[&str]| {
        let mut harvest = world.harvest(args);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_harvest"));
        command.env_clear().env("PATH", crate::support::PATH).current_dir(world.repo()).args(args);
        harvest.command = command;
        harvest
    };
    assert_refused(&bare(&["task", "list"]).finish(), "HV-0301", "--data-dir");
    let home = world.home();
    assert_eq!(bare(&["task", "list"]).env("HOME", home.to_str().unwrap()).finish().exit, Some(0));
    let made = home.join(".local/share/harvest");
    assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o700);
    let xdg = world.path().join("xdg");
    assert_eq!(bare(&["task", "list"]).env("XDG_DATA_HOME", xdg.to_str().unwrap()).finish().exit, Some(0));
    assert!(xdg.join("harvest/harvest.db").exists());
    // As with the option, a relative one is below the current folder.
    let relative = bare(&["task", "list"]).env("HOME", home.to_str().unwrap()).env("HARVEST_DATA_DIR", "own/data");
    assert_eq!(relative.finish().exit, Some(0));
    assert!(world.repo().join("own/data/harvest.db").exists());
    let keys = home.join(".config/harvest/keys");
    fs::create_dir_all(keys.parent().unwrap()).unwrap();
    fs::write(&keys, "ANTHROPIC_API_KEY=sk-ant-canary\n").unwrap();
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o644)).unwrap();
    let ran = world.harvest(&["task", "list"]).finish();
    assert_refused(&ran, "HV-0141", "chmod 600");
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).unwrap();
    let ran = world.harvest(&["doctor"]).finish();
    assert!(ran.stdout.contains("Anthropic") && !ran.stdout.contains("canary"), "{ran:?}");
    // Settings that cannot be read are a finding like any other.
    fs::write(keys.with_file_name("harvest.toml"), "bugdet_usd = 3\n").unwrap();
    let ran = world.harvest(&["doctor"]).finish();
    let says = "`bugdet_usd` is not a setting";
    assert!(ran.exit == Some(1) && ran.stdout.contains(says) && ran.stdout.contains("Anthropic"), "{ran:?}");
}

/// No engine is no reason to run somewhere else.
#[test]
fn without_an_engine_no_container_is_tried() {
    let world = World::new();
    let script = world.script(&json!([{ "shell": "true" }]));
    let args = ["run", "x", "--sandbox", "container", "--test", "true", "--model-script", script.to_str().unwrap()];
    let mut harvest = world.harvest(&args);
    harvest.command.env("HARVEST_CONTAINER_SOCKET", world.repo().join("engine.sock"));
    let ran = harvest.finish();
    assert_refused(&ran, "HV-0205", "harvest doctor");
    assert!(ran.stderr.contains("engine.sock"), "{}", ran.stderr);
    assert_eq!(world.tasks().len(), 0);
    world.assert_nothing_left();
}

/// No bubblewrap is no reason to run without a sandbox.
#[test]
fn without_bubblewrap_nothing_runs() {
    if uid() != 0 {
        return harvest_testing::skip("only root can mount over a path");
    }
    let world = World::new();
    let script = world.script(&json!([{ "shell": "true" }]));
    for args in
        [&["run", "x", "--json", "--test", "true", "--model-script", script.to_str().unwrap()][..], &["demo", "--once"]]
    {
        let mut harvest = world.harvest(args);
        let mut inside = std::process::Command::new("unshare");
        inside.env_clear().envs(harvest.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        inside.current_dir(world.repo()).args(["--mount", "sh", "-c"]);
        let hide = "mount -t tmpfs tmpfs /mnt && mkdir /mnt/upper /mnt/work && \
                    mount -t overlay -o lowerdir=/usr/bin,upperdir=/mnt/upper,workdir=/mnt/work overlay /usr/bin && \
                    rm /usr/bin/bwrap && exec \"$0\" \"$@\"";
        inside.arg(hide);
        inside.arg(harvest.command.get_program()).args(harvest.command.get_args());
        harvest.command = inside;
        assert_refused(&harvest.finish(), "HV-0201", "install");
        assert_eq!(world.tasks().len(), 0);
        world.assert_nothing_left();
    }
}

#[test]
fn databases_that_cannot_be_used() {
    let world = World::new();
    private_folder(&world.data());
    let database = world.data().join("harvest.db");
    fs::write(&database, "this is a letter, not a database, and long enough to be taken for one".repeat(100)).unwrap();
    for command in [&["task", "list"][..], &["serve"], &["up", "--until-empty"], &["doctor"]] {
        let ran = world.harvest(command).finish();
        let (named, way_out) =
            (format!("the database {} is damaged", database.display()), "harvest restore FILE --data-dir DIR");
        if command == ["doctor"] {
            assert_found_by_the_doctor(&ran, "HV-0304", way_out);
            assert!(ran.stdout.contains(&named) && ran.stdout.contains("GiB free"), "{ran:?}");
            continue;
        }
        assert_refused(&ran, "HV-0304", way_out);
        assert!(ran.stderr.contains(&named), "{}", ran.stderr);
    }
    fs::remove_file(&database).unwrap();
    world.tasks();
    rusqlite::Connection::open(&database).unwrap().pragma_update(None, "user_version", 9999).unwrap();
    assert_refused(&world.harvest(&["task", "list"]).finish(), "HV-0303", "newer");
}

/// A file system of so many kilobytes for the data: whatever does not fit, there is one clear message and nothing runs on.
#[test]
fn a_full_disk_is_told() {
    if uid() != 0 {
        return harvest_testing::skip("only root can mount over a path");
    }
    for kilobytes in [64, 512, 2048, 6000, 8000] {
        let world = World::new();
        let script = world.script(&json!([{ "shell": "head -c 30000000 /dev/urandom > big" }, {}]));
        private_folder(&world.data());
        let mut harvest =
            world.harvest(&["run", "Fill it", "--json", "--test", "true", "--model-script"]).args(&[script]);
        let mut inside = std::process::Command::new("unshare");
        inside.env_clear().envs(harvest.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        inside.current_dir(world.repo()).args(["--mount", "sh", "-c"]);
        inside
            .arg("mount -t tmpfs -o mode=700,size=\"$0\"k tmpfs \"$1\" && shift && exec \"$@\"")
            .arg(kilobytes.to_string());
        inside.arg(world.data()).arg(harvest.command.get_program()).args(harvest.command.get_args());
        harvest.command = inside;
        let ran = harvest.finish();
        if ran.stdout.is_empty() {
            assert_refused(&ran, "HV-0302", "--data-dir");
        } else {
            ran.assert_ended(1, "failed", Some("internal"));
            assert!(ran.stderr.starts_with("error[HV-0302]: "), "{kilobytes}: {}", ran.stderr);
        }
        world.assert_nothing_left();
    }
}

#[test]
fn without_isolation_there_is_a_warning() {
    let world = World::new();
    let ran = world.run(&json!([{ "shell": FIX }, {}]), &["--sandbox", "none", "--timeout", "9999999h"]);
    let outcome = ran.assert_ended(0, "completed", None);
    assert!(ran.stderr.starts_with("warning: --sandbox none"), "{}", ran.stderr);
    assert_eq!(
        git(&world.repo(), &["show", &format!("{}:src/two.sh", outcome["branch"].as_str().unwrap())]),
        "echo two"
    );
    assert!(ran.of_type("sandbox.ready").iter().all(|data| data["provider"] == "none"));
    world.assert_nothing_left();
}

#[test]
fn folders_may_have_any_name() {
    for name in [
        "with space",
        "quo'te\"s",
        "dollar$HOME`x`",
        "new\nline",
        "日本語 ünï",
        "back\\slash",
        "-dash",
        "colon:comma,=;",
        "#hash[*]?",
        "%2e%2e",
    ] {
        let world = World::new();
        let repository = world.path().join(name);
        fs::rename(world.repo(), &repository).unwrap();
        fs::create_dir(world.repo()).unwrap();
        let script = world.script(&json!([{ "shell": FIX }, {}]));
        let data = world.path().join(format!("data {}", name.replace('\n', "")));
        let harvest = world.harvest_at(&data, &["run", "Mend it", "--json", "--model-script"]).args(&[script]);
        let ran = harvest.current_dir(&repository).finish();
        let outcome = ran.assert_ended(0, "completed", None);
        let branch = outcome["branch"].as_str().unwrap();
        assert_eq!(git(&repository, &["show", &format!("{branch}:src/two.sh")]), "echo two", "{name:?}");
        assert_eq!(fs::read_dir(data.join("owners")).unwrap().count(), 0, "{name:?}");
        let id = outcome["task_id"].as_str().unwrap();
        let applied = world.harvest_at(&data, &["task", "apply", id]).current_dir(&repository).finish();
        assert_eq!(applied.exit, Some(0), "{name:?}: {applied:?}");
    }
    // Git has no way to write down that one object store stands on another with such a name.
    let world = World::new();
    for name in [OsString::from("new\nline"), OsString::from_vec(vec![b'a', 0xff])] {
        assert_refused(
            &world.harvest_at(&world.path().join(name), &["task", "list"]).finish(),
            "HV-0301",
            "--data-dir",
        );
    }
}

#[test]
fn a_repository_is_found_from_below_by_path_from_a_worktree_and_bare() {
    let world = World::new();
    let replies = json!([{ "shell": FIX }, {}]);
    let ran = world.run_with(&replies, &[]).current_dir(&world.repo().join("src")).finish();
    ran.assert_ended(0, "completed", None);
    let elsewhere = world.run_with(&replies, &["--repo", "../repo"]).current_dir(&world.home()).finish();
    elsewhere.assert_ended(0, "completed", None);
    let tree = world.path().join("tree");
    git(&world.repo(), &["worktree", "add", "--quiet", "--detach", tree.to_str().unwrap()]);
    let outcome = world.run_with(&replies, &[]).current_dir(&tree).finish().assert_ended(0, "completed", None);
    git(&world.repo(), &["rev-parse", outcome["branch"].as_str().unwrap()]);
    let bare = world.path().join("bare.git");
    git(world.path(), &["clone", "--quiet", "--bare", "repo", "bare.git"]);
    let outcome = world.run(&replies, &["--repo", bare.to_str().unwrap()]).assert_ended(0, "completed", None);
    git(&bare, &["rev-parse", outcome["branch"].as_str().unwrap()]);
    // A clone of little depth, and a repository with the other kind of hash.
    let shallow = world.path().join("shallow");
    world.commit("Another");
    git(world.path(), &["clone", "--quiet", "--depth=1", &format!("file://{}", world.repo().display()), "shallow"]);
    let outcome = world.run(&replies, &["--repo", shallow.to_str().unwrap()]).assert_ended(0, "completed", None);
    git(&shallow, &["rev-parse", outcome["branch"].as_str().unwrap()]);
    // By URL the branch stays with Harvest and says where.
    let url = format!("file://{}", world.repo().display());
    let ran = world.run(&replies, &["--repo", &url]);
    let outcome = ran.assert_ended(0, "completed", None);
    let warnings = ran.of_type("warning");
    assert!(
        warnings.iter().any(|data| data["message"].as_str().unwrap().contains("harvest task apply")),
        "{warnings:?}"
    );
    git(world.path(), &["clone", "--quiet", "repo", "clone"]);
    let clone = world.path().join("clone");
    let applied = world.harvest(&["task", "apply", outcome["task_id"].as_str().unwrap()]).current_dir(&clone).finish();
    assert_eq!(applied.exit, Some(0), "{applied:?}");
    assert_eq!(git(&clone, &["show", "HEAD:src/two.sh"]), "echo two");
    world.assert_nothing_left();
}

#[test]
fn a_repository_with_sha256_hashes() {
    let world = World::empty();
    git(&world.repo(), &["init", "--quiet", "--initial-branch=main", "--object-format=sha256"]);
    world.write("test.sh", "test -e x\n");
    world.commit("Start");
    let outcome = world.run(&json!([{ "shell": "touch x" }, {}]), &[]).assert_ended(0, "completed", None);
    assert_eq!(outcome["commit"].as_str().unwrap().len(), 64);
}

/// As long as the system lets an argument be; and with everything odd in it.
#[test]
fn prompts_may_be_long_and_odd() {
    let world = World::new();
    let script = world.script(&json!([{ "shell": FIX }, {}]));
    let long = "Mend it. ".repeat(14_000);
    for prompt in [long.as_str(), "\u{1b}[31mred\u{7}\n'\"$(touch /tmp/x)`x` \u{202e}", "日本語で直して", "--version"]
    {
        let ran = world
            .harvest(&["run", "--json", "--model-script"])
            .args(&[script.as_path()])
            .args(&["--", prompt])
            .finish();
        let outcome = ran.assert_ended(0, "completed", None);
        assert_eq!(ran.of_type("task.created")[0]["prompt"], prompt);
        let subject = git(&world.repo(), &["log", "-1", "--format=%s", outcome["branch"].as_str().unwrap()]);
        assert!(subject.chars().count() <= 72, "{subject}");
    }
    let list = world.harvest(&["task", "list"]).finish();
    assert!(
        !list.stdout.contains('\u{1b}') && !list.stdout.contains('\u{7}') && !list.stdout.contains('\u{202e}'),
        "{:?}",
        list.stdout
    );
}

#[test]
fn a_key_file_that_others_can_read_is_refused() {
    let world = World::new();
    let keys = world.home().join(".config/harvest/keys");
    fs::create_dir_all(keys.parent().unwrap()).unwrap();
    fs::write(&keys, "ANTHROPIC_API_KEY=sk-ant-canary\n").unwrap();
    for mode in [0o644, 0o640, 0o604, 0o602] {
        fs::set_permissions(&keys, PermissionsExt::from_mode(mode)).unwrap();
        let ran = world.harvest(&["doctor"]).finish();
        assert_refused(&ran, "HV-0141", "can be read by others");
        assert!(ran.stderr.contains("chmod 600") && !ran.stderr.contains("canary"), "{mode:o}: {ran:?}");
    }
    fs::set_permissions(&keys, PermissionsExt::from_mode(0o600)).unwrap();
    let ran = world.harvest(&["doctor"]).finish();
    assert!(!ran.stderr.contains("HV-0141") && !ran.stdout.is_empty(), "{ran:?}");
}

/// Whoever makes the folder first would get between sandboxes and their gateway.
#[test]
fn a_folder_for_sockets_that_is_a_link_or_someone_elses_is_refused() {
    let world = World::new();
    let (run, elsewhere) = (world.path().join("run"), world.path().join("elsewhere"));
    let shared = run.join("harvest");
    for folder in [&run, &elsewhere] {
        fs::create_dir(folder).unwrap();
    }
    let refused = |what: &str, folder: &Path| {
        let ran = run_in(&world, &run).finish();
        assert!(ran.exit.is_some_and(|exit| exit != 0), "{what}: {ran:?}");
        assert!(ran.stderr.contains("belongs to someone else"), "{what}: {ran:?}");
        assert_eq!(fs::read_dir(folder).unwrap().count(), 0, "{what}: something was made there");
    };
    std::os::unix::fs::symlink(&elsewhere, &shared).unwrap();
    refused("a link", &elsewhere);
    fs::remove_file(&shared).unwrap();
    // Only root can make a folder for someone else.
    if uid() == 0 {
        fs::create_dir(&shared).unwrap();
        std::os::unix::fs::chown(&shared, Some(12_345), Some(12_345)).unwrap();
        refused("another user's", &shared);
        fs::remove_dir(&shared).unwrap();
    }
    assert_eq!(run_in(&world, &run).finish().exit, Some(0));
}

fn run_in(world: &World, runtime: &Path) -> Harvest {
    world.run_with(&json!([{ "shell": FIX }, {}]), &[]).env("XDG_RUNTIME_DIR", runtime.to_str().unwrap())
}
