//! The first day with projects that others wrote: their own tests, their dependencies from the registries, from `harvest init`
//! to the verified branch.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use crate::agents::Vendor;
use crate::packages::{home, settings, toolchains};
use crate::support::{World, git, init};

/// Projects whose archives have their tests.
pub const CLICK: &str = "click-8.3.1.tar.gz";
pub const SHELL_QUOTE: &str = "shell-quote-1.6.1.tgz";

/// Downloads and unpacks an archive.
const UNPACK: &str = r##"
import io, re, sys, tarfile, urllib.request
registry, name, file, folder = sys.argv[1:]
page = registry + '/' + name + ('/' if file.endswith('.tar.gz') else '')
if file.endswith('.tar.gz'):
    found = re.search(r'href="([^"#]*/%s)' % re.escape(file), urllib.request.urlopen(page, timeout=60).read().decode())[1]
else:
    found = page + '/-/' + file
archive = tarfile.open(fileobj=io.BytesIO(urllib.request.urlopen(found, timeout=60).read()))
# Versions of Python before 3.11.4 have no filters.
safely = {'filter': 'data'} if hasattr(tarfile, 'data_filter') else {}
for member in archive.getmembers():
    member.name = member.name.split('/', 1)[-1]
    archive.extract(member, folder, **safely)
"##;

/// Puts the files of a published archive into a folder; the settings name the registry.
pub fn unpack(settings: &str, registry: &str, name: &str, file: &str, folder: &Path) {
    let text = fs::read_to_string(settings).unwrap();
    let address = text.lines().find_map(|line| line.strip_prefix(&format!("{registry} = '"))).unwrap();
    let address = address.trim_end_matches('\'');
    let mut python = Command::new("python3");
    let unpacked = python.args(["-c", UNPACK, address, name, file]).arg(folder).output().unwrap();
    assert!(unpacked.status.success(), "{}", String::from_utf8_lossy(&unpacked.stderr));
}

/// Whether the archives and their dependencies can be downloaded.
pub fn registries_answer() -> bool {
    let npm = Command::new("timeout").args(["30", "npm", "view", "left-pad", "version"]).output();
    let fetch = "import urllib.request; urllib.request.urlopen('https://pypi.org/simple/click/', timeout=30)";
    let pypi = Command::new("python3").args(["-c", fetch]).output();
    [npm, pypi].into_iter().all(|asked| asked.is_ok_and(|asked| asked.status.success()))
}

pub const NO_REGISTRIES: &str = "the registries of packages cannot be reached";

/// Sets up the project by `harvest init`, which runs the task as well, and applies the result; returns the task as `task show`
/// tells it. `added` is the new test file.
fn day(registry: &str, name: &str, file: &str, change: &str, added: &str) -> Value {
    let began = Instant::now();
    let world = World::empty();
    init(&world.repo());
    let (_mirror, config) = settings(&world);
    unpack(&config, registry, name, file, &world.repo());
    world.commit("As published");

    let conversations = json!([{ "replies": [{ "shell": change }, { "say": "Done." }] }]);
    let vendor = Vendor::playing(&world, &json!({ "model": "claude-sonnet-4-5", "conversations": conversations }));
    let mut harvest = world.harvest(&["init", "--yes", "--json", "--config", &config, "--task", "Add it, with a test"]);
    harvest.command.env("HOME", home()).envs(toolchains()).current_dir(world.repo());
    let ran = harvest
        .env("ANTHROPIC_BASE_URL", &format!("{}/anthropic", vendor.address))
        .env("ANTHROPIC_API_KEY", "made-up-for-this-test")
        .finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let task = world.tasks().remove(0);
    let branch = task["branch"].as_str().unwrap();
    assert_eq!(git(&world.repo(), &["log", "--format=%s", "-1", &format!("{branch}^")]).trim(), "As published");
    let id = task["id"].as_str().unwrap();
    assert!(!world.repo().join(added).exists());
    let applied = world.harvest(&["task", "apply", id]).finish();
    assert_eq!(applied.exit, Some(0), "{applied:?}");
    assert!(world.repo().join(added).exists(), "{applied:?}");
    let task = world.json(&["task", "show", id]);
    let evidence = &task["evidence"];
    println!(
        "{file}: {} passed → {} passed, new: {}, tests took {} ms, the whole day {:.1} s",
        evidence["baseline"]["passed"],
        evidence["passed"],
        evidence["tests"]["added"],
        evidence["duration_ms"],
        began.elapsed().as_secs_f64()
    );
    task
}

/// How many tests passed at the base and at the result, and which are new.
fn counts(task: &Value) -> (u64, u64, Vec<&str>) {
    let evidence = &task["evidence"];
    assert_eq!(evidence["verdict"], "verified", "{task:#}");
    let passed = |counts: &Value| counts["passed"].as_u64().unwrap_or_else(|| panic!("{task:#}"));
    let new = evidence["tests"]["added"].as_array().into_iter().flatten();
    (passed(&evidence["baseline"]), passed(evidence), new.map(|name| name.as_str().unwrap()).collect())
}

#[test]
#[ignore = "needs the network"]
fn click_of_its_sdist_is_prepared_changed_and_verified_by_its_own_tests() {
    if !registries_answer() {
        return harvest_testing::skip(NO_REGISTRIES);
    }
    let change = "printf '\\n\\ndef shout(message: str) -> str:\\n    return message.upper()\\n' >> src/click/utils.py
printf 'from click.utils import shout\\n\\n\\ndef test_shout():\\n    assert shout(\"pear\") == \"PEAR\"\\n' > tests/test_shout.py";
    let task = day("pypi", "click", CLICK, change, "tests/test_shout.py");
    let (before, after, new) = counts(&task);
    assert!(before > 1000 && after == before + 1, "{before} → {after}: {task:#}");
    assert_eq!(new, ["tests/test_shout.py::test_shout"]);
}

#[test]
#[ignore = "needs the network"]
fn shell_quote_of_its_tarball_is_prepared_changed_and_verified_by_its_own_tests() {
    if !registries_answer() {
        return harvest_testing::skip(NO_REGISTRIES);
    }
    let change = "printf '\\nexports.version = \"1.6.1\";\\n' >> index.js
printf 'var test = require(\"tape\");\\ntest(\"version\", function (t) { t.equal(require(\"../\").version, \"1.6.1\"); t.end(); });\\n' > test/version.js";
    let task = day("npm", "shell-quote", SHELL_QUOTE, change, "test/version.js");
    assert_eq!(counts(&task), (95, 96, vec!["version › should be equal"]));
}
