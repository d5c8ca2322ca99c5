//! Attacks by way of git, from outside and from inside a sandbox; the numbers are those of the list of attacks. Whatever is
//! tried would leave a file in a folder of the host that anyone may write to, and there is none.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::serve_access::with_projects;
use crate::support::{FIX, Ran, World, fingerprint, git};

/// A folder on the host where whatever should not have run would be seen.
pub struct Trap(PathBuf);

impl Trap {
    pub fn set(world: &World) -> Self {
        let folder = world.path().join("trap");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        Self(folder)
    }

    /// A shell command that would be noticed.
    pub fn spring(&self, name: &str) -> String {
        format!("touch {}/{name}", self.0.display())
    }

    /// Nothing has run here. The trap works: whoever can reach it springs it.
    #[track_caller]
    pub fn assert_empty(&self) {
        let found: Vec<_> = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(found.is_empty(), "ran on the host: {found:?}");
        let works = self.0.join("works");
        let sprung = std::process::Command::new("/bin/sh").env_clear().args(["-c", &self.spring("works")]).status();
        assert!(sprung.unwrap().success() && works.exists());
        fs::remove_file(works).unwrap();
    }
}

/// What the agent printed when it did these one after the other, before it mended the repository after all.
#[track_caller]
fn attempts(world: &World, commands: &[String]) -> (Ran, String) {
    let ran = world.run(&json!([{ "shell": commands }, { "shell": FIX }, { "say": "Done." }]), &[]);
    let printed = ran.tool_outputs().join("\n");
    // Shown when something is not as it should be.
    println!("{printed}");
    (ran, printed)
}

#[test]
fn row_12_addresses_that_run_programs() {
    let world = World::new();
    with_projects(&world);
    let trap = Trap::set(&world);
    let server = world.serve(&["--agents", "0"]);
    let anyone = server.with(&world.token(&["--role", "admin"]));
    let confined = server.with(&world.token(&["--role", "member", "--project", "shop"]));
    let touch = trap.spring("address");
    let addresses = [
        format!("ext::sh -c {}", touch.replace(' ', "% ")),
        format!("EXT::{touch}"),
        format!("Ext::{touch}"),
        format!("ssh://-oProxyCommand={}/x", touch.replace(' ', "${IFS}")),
        format!("-oProxyCommand={touch}:x"),
        format!("--upload-pack={touch}"),
        "fd::17".to_owned(),
        "ftp://127.0.0.1:1/x".to_owned(),
    ];
    for address in &addresses {
        let asked = json!({ "prompt": "x", "repository": address });
        for client in [&anyone, &confined] {
            let answer = client.post("/api/tasks", &asked);
            assert!((400..500).contains(&answer.status), "{address}: {answer:?}");
        }
        let run = world.harvest(&["run", "x", &format!("--repo={address}")]).finish();
        assert_eq!(run.exit, Some(2), "{address}: {run:?}");
        let add = world.harvest(&["repo", "add", "--", address]).finish();
        assert_eq!(add.exit, Some(2), "{address}: {add:?}");
    }
    // Another's repository as a file, for someone who is confined to a project.
    for kind in ["file://", "FILE://", ""] {
        let garden = format!("{kind}{}", world.path().join("garden").display());
        confined.post("/api/tasks", &json!({ "prompt": "x", "repository": garden })).problem(403, "HV-0602");
    }
    let base = json!({ "prompt": "x", "repository": world.repo(), "base": format!("--upload-pack={touch}") });
    anyone.post("/api/tasks", &base).problem(400, "HV-0104");
    assert_eq!(world.tasks(), Vec::<Value>::new());
    trap.assert_empty();
}

#[test]
fn row_13_names_of_refs() {
    let world = World::new();
    let trap = Trap::set(&world);
    let names =
        ["-x", "--upload-pack=x", "a..b", "a\nb", "a.lock", "a//b", "a/", ".a", "a~1", "a^", "a:b", "a?", "@{-1}", ""];
    let before = fingerprint(&world.repo());
    for name in names {
        let run = world.run(&json!([{}]), &[&format!("--base={name}")]);
        assert_eq!((run.exit, run.stdout.as_str()), (Some(2), ""), "{name:?}: {run:?}");
    }
    assert_eq!(fingerprint(&world.repo()), before);
    // From inside, past the client's own checks: as bytes of a push.
    let push = r#"
import http.client, os, sys, urllib.parse
url = urllib.parse.urlparse(os.popen('git remote get-url origin').read().strip())
head = os.popen('git rev-parse HEAD').read().strip()
mine = os.popen('git symbolic-ref HEAD').read().strip()
for name in ['refs/heads/-x', 'refs/heads/a..b', mine + '\n' + 'refs/heads/main', mine + '.lock', mine + '/', mine + '/../../../x',
             '../../config', '/etc/passwd', mine + '\0x', 'HEAD', '-', '']:
    line = (40 * '0' + ' ' + head + ' ' + name).encode() + b'\0 report-status'
    body = b'%04x' % (len(line) + 4) + line + b'0000'
    connection = http.client.HTTPConnection(url.netloc)
    connection.request('POST', url.path + '/git-receive-pack', body, {'content-type': 'application/x-git-receive-pack-request'})
    answer = connection.getresponse()
    said = answer.read()
    print('refused' if answer.status >= 400 or b'ng ' in said else 'TAKEN', repr(name), answer.status)
"#;
    let (ran, printed) = attempts(&world, &[format!("cat > /tmp/push.py <<'END'\n{push}\nEND\npython3 /tmp/push.py")]);
    let outcome = ran.assert_ended(0, "completed", None);
    assert!(printed.matches("refused").count() == 12 && !printed.contains("TAKEN"), "{printed}");
    let branch = outcome["branch"].as_str().unwrap();
    let refs = git(&world.repo(), &["for-each-ref", "--format=%(refname)"]);
    assert_eq!(refs, format!("refs/heads/{branch}\nrefs/heads/main"));
    let refs = in_repository_of(&world, &outcome, &["for-each-ref", "--format=%(refname)", "refs/heads"]);
    assert_eq!(refs, format!("refs/heads/{branch}"));
    trap.assert_empty();
}

/// The session's own repository, where what is pushed arrives.
fn repository_of(world: &World, outcome: &Value) -> PathBuf {
    world.data().join("sessions").join(outcome["session_id"].as_str().unwrap()).join("repository.git")
}

/// What git says there; it belongs to someone else.
#[track_caller]
fn in_repository_of(world: &World, outcome: &Value, args: &[&str]) -> String {
    git(&repository_of(world, outcome), &[&["-c", "safe.directory=*"], args].concat())
}

#[test]
fn row_14_names_of_repositories() {
    let world = World::new();
    let trap = Trap::set(&world);
    let secret = world.path().join("secret.git");
    git(world.path(), &["clone", "--quiet", "--bare", world.repo().to_str().unwrap(), secret.to_str().unwrap()]);
    for name in ["../x", "..", "a/b", "/etc/x", ".", "a\0b", "-x", "x\ny"].iter().filter(|name| !name.contains('\0')) {
        let added = world.harvest(&["repo", "add", world.repo().to_str().unwrap(), &format!("--name={name}")]).finish();
        assert_eq!(added.exit, Some(2), "{name:?}: {added:?}");
    }
    for address in [
        "github:../../etc",
        "github:ada/..",
        "github:ada/../../x",
        "github:/x",
        "github:ada/x/y",
        "github:ada%2f..%2fx",
    ] {
        let run = world.run(&json!([{}]), &["--repo", address]);
        assert_eq!(run.exit, Some(2), "{address}: {run:?}");
    }
    // From inside: other repositories of the gateway, whatever the path is written like.
    let ask = format!(
        r#"
import http.client, os, urllib.parse
url = urllib.parse.urlparse(os.popen('git remote get-url origin').read().strip())
here = url.path
for path in [here + '/../secret.git', here + '/../../..{secret}', '/git{secret}', '/git/..{secret}', '/git/%2e%2e{secret}',
             here + '%2f..%2f..%2f{secret}', '/git//repository', '/git/./repository', here + '.git.git', '/git/', '/git/other',
             here + '/objects/../../repository', '/GIT/repository']:
    connection = http.client.HTTPConnection(url.netloc)
    connection.request('GET', path + '/info/refs?service=git-upload-pack')
    answer = connection.getresponse()
    said = answer.read()
    print('refused' if answer.status >= 400 else 'SERVED', path, answer.status)
"#,
        secret = secret.display()
    );
    let (ran, printed) = attempts(&world, &[format!("cat > /tmp/ask.py <<'END'\n{ask}\nEND\npython3 /tmp/ask.py")]);
    ran.assert_ended(0, "completed", None);
    assert!(printed.matches("refused").count() == 13 && !printed.contains("SERVED"), "{printed}");
    trap.assert_empty();
}

/// Both ways round: the repository comes with it, and the agent leaves it.
#[test]
fn row_15_poisoned_hooks_filters_includes_submodules_and_large_files() {
    let world = World::new();
    let trap = Trap::set(&world);
    // Where a person's own repository has such settings, they are theirs; what its *content* brings must have no effect.
    let hook = |name: &str| format!("#!/bin/sh\n{}\n", trap.spring(name));
    for name in ["post-checkout", "reference-transaction", "pre-push", "post-commit", "fsmonitor-watchman"] {
        world.write(&format!("hooks/{name}"), hook(name));
        fs::set_permissions(world.repo().join("hooks").join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let poison = format!(
        "[core]\n\thooksPath = hooks\n\tfsmonitor = hooks/fsmonitor-watchman\n\tsshCommand = {0}\n[diff \"evil\"]\n\ttextconv = {0}\n\
         \tcommand = {0}\n[filter \"evil\"]\n\tclean = {0}\n\tsmudge = {0}\n[merge \"evil\"]\n\tdriver = {0}\n\
         [filter \"lfs\"]\n\tsmudge = {0}\n",
        trap.spring("config")
    );
    for (file, more) in [(".gitconfig", "[include]\n\tpath = /workspace/config\n"), ("config", ""), (".lfsconfig", "")]
    {
        world.write(file, format!("{poison}{more}"));
    }
    world
        .write(".gitattributes", "*.txt filter=evil diff=evil merge=evil\n*.bin filter=lfs diff=lfs merge=lfs -text\n");
    world.write("a.txt", "text\n");
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";
    world.write("large.bin", pointer);
    let modules = format!("[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c \"{}\"\n", trap.spring("submodule"));
    world.write(".gitmodules", modules);
    git(&world.repo(), &["add", "--all"]);
    let link = format!("160000,{},x", world.head());
    git(&world.repo(), &["update-index", "--add", "--cacheinfo", &link]);
    git(&world.repo(), &["commit", "--quiet", "--message", "Poison"]);
    // And the agent uses all of it, on its own side.
    let commands = [
        "git config include.path /workspace/.gitconfig".to_owned(),
        "git config filter.lfs.smudge cat; git -c protocol.ext.allow=always submodule update --init x; true".to_owned(),
        "git -c protocol.file.allow=always clone $(git remote get-url origin | sed s/repository/lib/) lib; echo submodule $?".to_owned(),
        "python3 -c 'import sys, urllib.request, urllib.error\ntry: urllib.request.urlopen(sys.argv[1], b\"{}\")\nexcept urllib.error.HTTPError as error: \
         print(error.code, error.read().decode())' $(git remote get-url origin)/info/lfs/objects/batch"
            .to_owned(),
        // One that would run something wherever it is cloned does not even arrive.
        format!(
            "export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=/dev/null; start=$(git rev-parse HEAD); \
             printf '[submodule \"../../y\"]\\n\\tpath = y\\n\\turl = ../y\\n\\tupdate = !{}\\n' > .gitmodules; git commit -qam evil && \
             git push -q origin HEAD:$(git symbolic-ref HEAD); echo pushed $?; git reset -q --hard $start",
            trap.spring("update")
        ),
        "echo more >> a.txt; rm -rf lib".to_owned(),
    ];
    let (ran, printed) = attempts(&world, &commands);
    let outcome = ran.assert_ended(0, "completed", None);
    assert!(
        printed.contains("HV-0112") && printed.contains("submodule 128"),
        "a submodule is refused with a reason: {printed}"
    );
    assert!(printed.contains("HV-0113"), "so are large files: {printed}");
    assert!(
        printed.contains("gitmodules") && printed.contains("pushed 1"),
        "and what runs something when it is cloned: {printed}"
    );
    let warnings: Vec<String> =
        ran.of_type("warning").iter().map(|data| data["message"].as_str().unwrap().to_owned()).collect();
    assert!(["HV-0112", "HV-0113"].iter().all(|code| warnings.iter().any(|said| said.contains(code))), "{warnings:?}");
    let branch = outcome["branch"].as_str().unwrap();
    assert_eq!(world.show(&format!("{branch}:large.bin")), pointer.trim_end());
    // Everything that reads the result on the host.
    let id = outcome["task_id"].as_str().unwrap();
    for args in [&["task", "diff", id][..], &["task", "show", id], &["task", "logs", id]] {
        let shown = world.harvest(args).finish();
        assert_eq!(shown.exit, Some(0), "{args:?}: {shown:?}");
    }
    trap.assert_empty();
}

#[test]
fn row_16_pushes_to_other_refs() {
    let world = World::new();
    let trap = Trap::set(&world);
    git(&world.repo(), &["tag", "v1"]);
    let before = git(&world.repo(), &["for-each-ref"]);
    let other = "echo pushed $?";
    let commands: Vec<String> = [
        "git commit -q --allow-empty -m x; git push origin HEAD:refs/heads/main",
        "git push --force origin HEAD:refs/heads/main",
        "git push origin :refs/heads/main",
        "git push origin HEAD:refs/heads/harvest/other-000000",
        "git push origin HEAD:refs/tags/v1",
        "git push --force origin HEAD:refs/tags/v2",
        "git push origin HEAD:refs/harvest/base",
        "git push --force origin HEAD:refs/harvest/delivered",
        "git push origin HEAD:refs/harvest/another-session/1",
        "git push origin HEAD:HEAD",
        "git push --mirror origin",
        "git push origin --delete $(git symbolic-ref --short HEAD)",
        "git push -o ci.skip --signed=false origin HEAD:refs/heads/main",
    ]
    .iter()
    .map(|command| format!("{command}; {other}"))
    .collect();
    let (ran, printed) = attempts(&world, &commands);
    let outcome = ran.assert_ended(0, "completed", None);
    assert_eq!(
        (printed.matches("pushed 1").count(), printed.matches("pushed 0").count()),
        (commands.len(), 0),
        "{printed}"
    );
    let branch = outcome["branch"].as_str().unwrap();
    let after = git(&world.repo(), &["for-each-ref"]);
    let new: Vec<&str> = after.lines().filter(|line| !before.contains(line)).collect();
    assert!(new.len() == 1 && new[0].ends_with(&format!("refs/heads/{branch}")), "{new:?}");
    let base = in_repository_of(&world, &outcome, &["rev-parse", "refs/harvest/base"]);
    assert_eq!(base, world.head(), "what it stands on is where it was");
    trap.assert_empty();
}

#[test]
fn row_17_malformed_lines_and_packs() {
    let world = World::new();
    let trap = Trap::set(&world);
    let send = r#"
import hashlib, http.client, os, struct, urllib.parse, zlib
url = urllib.parse.urlparse(os.popen('git remote get-url origin').read().strip())
head = os.popen('git rev-parse HEAD').read().strip()
mine = os.popen('git symbolic-ref HEAD').read().strip()
line = (40 * '0' + ' ' + head[::-1] + ' ' + mine).encode() + b'\0 report-status side-band-64k'
command = b'%04x' % (len(line) + 4) + line + b'0000'
def pack(count, *objects):
    body = b'PACK' + struct.pack('>II', 2, count) + b''.join(objects)
    return body + hashlib.sha1(body).digest()
def blob(size, data):
    return entry(3, size, b'', data)
def entry(kind, size, base, data):
    first, rest, out = (kind << 4) | (size & 15), size >> 4, b''
    while rest:
        out, first, rest = out + bytes([first | 128]), rest & 127, rest >> 7
    return out + bytes([first]) + base + zlib.compress(data)
def number(size):
    out = b''
    while size > 127:
        out, size = out + bytes([size & 127 | 128]), size >> 7
    return out + bytes([size])
def repeated(kind, times, count):
    """An object of a mebibyte, and deltas that are `times` as long: a few kilobytes each."""
    base = os.urandom(1 << 20)
    name = hashlib.sha1({2: b'tree', 3: b'blob'}[kind] + b' 1048576\0' + base).digest()
    deltas = [number(1 << 20) + number(n << 20) + b'\xc0\x10' * n for n in range(times, times - count, -1)]
    return [entry(kind, 1 << 20, b'', base)] + [entry(7, len(delta), name, delta) for delta in deltas]
bodies = {
    'no line': b'zzzz', 'cut': b'00', 'longer than it is': b'ffff' + b'x' * 100, 'a delimiter': b'0001', 'an end': b'0002',
    'an empty line': b'0004', 'no flush': command[:-4], 'too many refs': b'%04x' % (len(line) + 4) + line + b''.join(
        b'%04x' % (len(l) + 4) + l for l in [(40 * '0' + ' ' + head + ' ' + mine + '-%d' % n).encode() for n in range(500)]) + b'0000',
    'no pack': command, 'a cut pack': command + pack(1, blob(5, b'hello'))[:-30], 'a wrong sum': command + pack(1)[:-1] + b'x',
    'a count that is not so': command + pack(4000000000), 'a size that is not so': command + pack(1, blob(1 << 40, b'hello')),
    'a bomb': command + pack(1, blob(1 << 31, bytes(1 << 27))), 'noise': command + os.urandom(1 << 20),
    'deltas': command + pack(6, *repeated(3, 1000, 5)), 'a long delta': command + pack(2, *repeated(3, 1100, 1)),
    'trees': command + pack(4, *repeated(2, 900, 3)),
}
for name, body in bodies.items():
    for service in ['git-receive-pack', 'git-upload-pack']:
        connection = http.client.HTTPConnection(url.netloc, timeout=60)
        try:
            connection.request('POST', url.path + '/' + service, body, {'content-type': 'application/x-%s-request' % service})
            answer = connection.getresponse()
            said = answer.read()
            taken = service == 'git-receive-pack' and (b'ok ' + mine.encode()) in said
            print(name + ':', said.decode(errors='replace').replace('\n', ' '))
        except (OSError, http.client.HTTPException) as error:
            taken = False
        print('TAKEN' if taken else 'refused', service, name)
"#;
    let (ran, printed) = attempts(&world, &[format!("cat > /tmp/send.py <<'END'\n{send}\nEND\npython3 /tmp/send.py")]);
    let outcome = ran.assert_ended(0, "completed", None);
    assert!(printed.matches("refused git-").count() == 36 && !printed.contains("TAKEN"), "{printed}");
    for (name, reason) in [
        ("a size that is not so:", "an object of the push is larger than 1 GiB"),
        ("a bomb:", "an object of the push is larger than 1 GiB"),
        ("a long delta:", "an object of the push is larger than 1 GiB"),
        ("deltas:", "the push unpacks to more than 4 GiB"),
        // Within the bounds, but git keeps what is no blob in memory.
        ("trees:", "ut of memory"),
    ] {
        let said = printed.lines().any(|line| line.starts_with(name) && line.contains(reason));
        assert!(said, "{name} {reason}: {printed}");
    }
    let used = harvest_beneath::Folder::open(&repository_of(&world, &outcome)).unwrap().disk_usage().unwrap();
    assert!(used < 5 << 20, "{used} bytes");
    in_repository_of(&world, &outcome, &["fsck", "--strict"]);
    let kept = repository_of(&world, &outcome);
    let waiting: Vec<_> = fs::read_dir(kept.join("objects")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let unfinished = waiting.iter().filter(|name| name.to_string_lossy().starts_with("tmp_objdir"));
    assert_eq!(unfinished.count(), 0, "nothing of what was refused is kept: {waiting:?}");
    trap.assert_empty();
    world.assert_nothing_left();
}
