//! Finds the test command of a repository at a commit: what its own settings say, else what its files imply.

use harvest_workspace::{Error, Mirror};

/// The repository's own settings, read from the base commit only.
const SETTINGS: &str = ".harvest.toml";
/// What `npm init` writes when there are no tests.
const NPM_PLACEHOLDER: &str = "no test specified";

pub async fn find_test_command(mirror: &Mirror, commit: &str) -> Result<Option<String>, Error> {
    let files = mirror.files(commit).await?;
    let has = |name: &str| files.iter().any(|file| file == name);
    if has(SETTINGS)
        && let Some(command) = text(mirror, commit, SETTINGS).await?.as_deref().and_then(from_settings)
    {
        return Ok(Some(command));
    }
    for makefile in ["GNUmakefile", "makefile", "Makefile"] {
        if has(makefile) && text(mirror, commit, makefile).await?.is_some_and(|rules| has_test_target(&rules)) {
            return Ok(Some("make test".to_owned()));
        }
    }
    if has("package.json")
        && let Some(package) = text(mirror, commit, "package.json").await?
        && has_test_script(&package)
    {
        let managers =
            [("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lock", "bun run"), ("bun.lockb", "bun run")];
        let manager = managers.iter().find(|(lock, _)| has(lock)).map_or("npm", |(_, manager)| manager);
        return Ok(Some(format!("{manager} test")));
    }
    let by_file = [
        ("Cargo.toml", "cargo test"),
        ("go.mod", "go test ./..."),
        ("pom.xml", "mvn --batch-mode test"),
        ("gradlew", "./gradlew test"),
        ("build.gradle", "gradle test"),
        ("build.gradle.kts", "gradle test"),
        (".rspec", "bundle exec rspec"),
        ("phpunit.xml", "vendor/bin/phpunit"),
        ("pytest.ini", "python3 -m pytest"),
    ];
    if let Some((_, command)) = by_file.iter().find(|(file, _)| has(file)) {
        return Ok(Some((*command).to_owned()));
    }
    if let Some(command) = for_python(mirror, commit, &files).await? {
        return Ok(Some(command));
    }
    // It makes environments of its own, from registries that are not there when tests run.
    if has("tox.ini") {
        return Ok(Some("tox".to_owned()));
    }
    let scripts = ["test.sh", "run_tests.sh", "run-tests.sh", "tests/run.sh", "scripts/test.sh", "script/test"];
    Ok(scripts.iter().find(|script| has(script)).map(|script| format!("sh {script}")))
}

async fn for_python(mirror: &Mirror, commit: &str, files: &[String]) -> Result<Option<String>, Error> {
    let is_test = |file: &&String| {
        let name = file.rsplit('/').next().unwrap_or_default();
        file.ends_with(".py") && (name.starts_with("test_") || name.ends_with("_test.py"))
    };
    let Some(test) = files.iter().find(is_test) else { return Ok(None) };
    let uses_unittest = text(mirror, commit, test)
        .await?
        .is_some_and(|source| source.contains("unittest") && !source.contains("import pytest"));
    Ok(Some(match test.rsplit_once('/') {
        _ if !uses_unittest => "python3 -m pytest".to_owned(),
        None => "python3 -m unittest discover".to_owned(),
        // A folder that is no package cannot be imported from the top.
        Some((folder, _)) if files.contains(&format!("{folder}/__init__.py")) => {
            format!("python3 -m unittest discover -s {} -t .", quoted(folder))
        }
        Some((folder, _)) => format!("python3 -m unittest discover -s {}", quoted(folder)),
    }))
}

async fn text(mirror: &Mirror, commit: &str, path: &str) -> Result<Option<String>, Error> {
    let content = mirror.file(commit, path).await?;
    Ok(content.map(|content| String::from_utf8_lossy(&content).into_owned()))
}

fn from_settings(settings: &str) -> Option<String> {
    let settings: toml::Table = settings.parse().ok()?;
    let command = settings.get("test")?.as_str()?.trim();
    (!command.is_empty()).then(|| command.to_owned())
}

fn has_test_target(rules: &str) -> bool {
    rules.lines().filter(|line| !line.starts_with(char::is_whitespace)).any(|line| {
        let target = line.split_once(':').filter(|(_, rest)| !rest.starts_with('='));
        target.is_some_and(|(names, rest)| {
            let names = if names.trim() == ".PHONY" { rest } else { names };
            names.split_whitespace().any(|name| name == "test")
        })
    })
}

fn has_test_script(package: &str) -> bool {
    let package: serde_json::Value = serde_json::from_str(package).unwrap_or_default();
    package["scripts"]["test"].as_str().is_some_and(|script| !script.contains(NPM_PLACEHOLDER))
}

/// In single quotes unless it is plain.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | ':' | '@' | '+');
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_make_target_counts_and_a_variable_does_not() {
        assert!(has_test_target("build:\n\tcc\ntest: build\n\t./x\n"));
        assert!(has_test_target(".PHONY: all test\n"));
        assert!(!has_test_target("test := 1\n\techo test: x\n"));
    }

    #[test]
    fn the_placeholder_of_npm_is_no_test() {
        assert!(!has_test_script(r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}"#));
        assert!(has_test_script(r#"{"scripts":{"test":"vitest run"}}"#));
        assert!(!has_test_script("not json"));
    }
}
