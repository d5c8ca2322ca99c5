//! Real clients of models, played to by a script through the gateway: agents of other makers and the vendors' own
//! libraries. What they report as used is what the books hold.
//!
//! They are installed from npm and kept, so they need the network once; `make test` asks for them when it is there.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use harvest_core::Usage;
use serde_json::Value;
use tokio::process::Command;

use crate::support::{Served, loopback, serve_script};

const LIMIT: Duration = Duration::from_secs(300);
const CODEX: &str = "@openai/codex@0.166.0-linux-x64";
const GEMINI: &str = "@google/gemini-cli@0.61.0";
const LIBRARIES: [&str; 3] = ["@google/genai@2.32.0", "ollama@0.6.4", "openai@6.49.0"];

const SCRIPT: &str = r#"
model: scripted-1
conversations:
  - when_prompt_contains: "plant a tree"
    replies:
      - say: "I will plant it."
        shell: "echo apple > tree.txt && echo planted"
        tokens: { input: 1200, output: 40, cache_read: 300, reasoning: 7 }
      - expect: "planted"
        say: "The tree is planted."
        tokens: { input: 1300, output: 9 }
"#;

#[expect(clippy::disallowed_methods, reason = "these tests are about other people's programs")]
fn program(name: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(name);
    command.env_clear().stdin(Stdio::null()).kill_on_drop(true);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

async fn run(command: &mut Command) -> Output {
    tokio::time::timeout(LIMIT, command.output()).await.expect("it took too long").unwrap()
}

/// Packages of npm, installed once with the settings of whoever runs the tests.
async fn packages(name: &str, packages: &[&str]) -> PathBuf {
    let tools = std::env::var_os("HARVEST_TOOLS").unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    let folder = Path::new(&tools).join(name);
    if let Some(filling) = harvest_testing::Filling::of(&folder).unwrap() {
        let mut npm = program("npm");
        for name in ["HOME", "NODE_EXTRA_CA_CERTS", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"] {
            npm.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]).arg(&folder);
        let output = run(npm.args(packages).current_dir(&folder)).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        filling.complete().unwrap();
    }
    folder.join("node_modules")
}

/// A home, a folder to work in, and the gateway.
struct Place {
    home: tempfile::TempDir,
    work: tempfile::TempDir,
    base: String,
    served: Served,
}

async fn place(script: &str) -> Place {
    let served = serve_script(script);
    let base = loopback(&served).await;
    Place { home: tempfile::tempdir().unwrap(), work: tempfile::tempdir().unwrap(), base, served }
}

impl Place {
    /// The usage of all calls, and how many there were.
    async fn spent(&self) -> (Usage, usize) {
        let calls = self.served.books.settled().await;
        assert!(calls.iter().all(|call| call.status == 200 && !call.estimated), "{calls:?}");
        let mut sum = Usage::default();
        for call in &calls {
            sum.input_tokens += call.usage.input_tokens;
            sum.output_tokens += call.usage.output_tokens;
            sum.cache_read_tokens += call.usage.cache_read_tokens;
            sum.reasoning_tokens += call.usage.reasoning_tokens;
        }
        (sum, calls.len())
    }
}

const SPENT: Usage =
    Usage { input_tokens: 2500, output_tokens: 49, cache_read_tokens: 300, cache_write_tokens: 0, reasoning_tokens: 7 };

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn all_said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), b"\n", &output.stderr].concat()).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the network"]
async fn codex_works_and_reports_what_the_books_hold() {
    let modules = packages("codex-0.166.0", &[&format!("@openai/codex-linux-x64@npm:{CODEX}")]).await;
    let codex = modules.join("@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex");
    let place = place(SCRIPT).await;
    let settings = format!(
        "model = \"scripted-1\"\nmodel_provider = \"harvest\"\ncheck_for_update_on_startup = false\nweb_search = \"disabled\"\n\
         [analytics]\nenabled = false\n\
         [model_providers.harvest]\nname = \"Harvest\"\nbase_url = \"{}/openai/v1\"\nenv_key = \"HARVEST_KEY\"\n\
         wire_api = \"responses\"\nrequest_max_retries = 0\nstream_max_retries = 0\n",
        place.base
    );
    std::fs::write(place.home.path().join("config.toml"), settings).unwrap();
    let mut command = program(codex);
    command.envs([("HOME", place.home.path()), ("CODEX_HOME", place.home.path())]).env("HARVEST_KEY", "placeholder");
    command.args(["exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-C"]);
    let output = run(command.arg(place.work.path()).arg("plant a tree")).await;
    let said = all_said(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(std::fs::read_to_string(place.work.path().join("tree.txt")).unwrap(), "apple\n", "{said}");
    assert!(said.contains("The tree is planted."), "{said}");
    let (spent, calls) = place.spent().await;
    assert_eq!((spent, calls), (SPENT, 2), "{said}");
    let reported = lines(&output).into_iter().find(|line| line["type"] == "turn.completed").unwrap()["usage"].clone();
    // Codex counts cached tokens in.
    assert_eq!(reported["input_tokens"], spent.input_tokens + spent.cache_read_tokens, "{reported}");
    assert_eq!(reported["cached_input_tokens"], spent.cache_read_tokens);
    assert_eq!(reported["output_tokens"], spent.output_tokens);
    assert_eq!(reported["reasoning_output_tokens"], spent.reasoning_tokens);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the network"]
async fn gemini_cli_works_and_reports_what_the_books_hold() {
    let modules = packages("gemini-cli-0.61.0", &[GEMINI]).await;
    let place = place(SCRIPT).await;
    let settings = place.home.path().join(".gemini/settings.json");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    std::fs::write(&settings, r#"{"security":{"auth":{"selectedType":"gemini-api-key"}}}"#).unwrap();
    let mut command = program("node");
    command.arg(modules.join("@google/gemini-cli/bundle/gemini.js"));
    command.args([
        "-p",
        "plant a tree",
        "--output-format",
        "stream-json",
        "--yolo",
        "--skip-trust",
        "-m",
        "gemini-2.5-pro",
    ]);
    command.env("HOME", place.home.path()).env("GEMINI_API_KEY", "placeholder");
    command.env("GOOGLE_GEMINI_BASE_URL", format!("{}/gemini", place.base));
    let output = run(command.current_dir(place.work.path())).await;
    let said = all_said(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(std::fs::read_to_string(place.work.path().join("tree.txt")).unwrap(), "apple\n", "{said}");
    let (spent, _) = place.spent().await;
    assert_eq!(spent, SPENT, "{said}");
    let reported = lines(&output).into_iter().find(|line| line["type"] == "result").unwrap()["stats"].clone();
    assert_eq!(reported["input_tokens"], spent.input_tokens + spent.cache_read_tokens, "{reported}");
    assert_eq!(reported["cached"], spent.cache_read_tokens, "{reported}");
    // The CLI does not count thoughts as output.
    assert_eq!(reported["output_tokens"], spent.output_tokens - spent.reasoning_tokens, "{reported}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the network"]
async fn the_vendors_libraries_understand_every_format() {
    let modules = packages("model-libraries", &LIBRARIES).await;
    let place = place(SCRIPT).await;
    let script = modules.parent().unwrap().join("libraries.mjs");
    std::fs::write(&script, include_str!("libraries.mjs")).unwrap();
    let mut node = program("node");
    let output = run(node.arg(&script).arg(&place.base).env("HOME", place.home.path())).await;
    assert!(output.status.success(), "{}", all_said(&output));
    let seen: Vec<Value> = lines(&output);
    insta::assert_json_snapshot!(seen);
}
