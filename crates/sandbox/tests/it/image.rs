//! The check of the agent image, on a file system that only looks like one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/image")
}

/// One line of the list.
struct Part {
    required: bool,
    kind: String,
    name: String,
    version: String,
    command: String,
}

fn parts() -> Vec<Part> {
    let list = fs::read_to_string(deploy().join("parts")).unwrap();
    let lines = list.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let mut fields = line.split_whitespace().map(str::to_owned);
            let mut next = || fields.next().unwrap_or_default();
            let (level, kind, name, version, command) = (next(), next(), next(), next(), next());
            assert!(["required", "optional"].contains(&level.as_str()), "{line}");
            Part { required: level == "required", kind, name, version, command }
        })
        .collect()
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The files of one part, the first of which is enough to take away.
fn files(root: &Path, part: &Part) -> Vec<(PathBuf, String)> {
    let version = if part.version == "-" { "1.2.3".to_owned() } else { format!("{}0", part.version) };
    let exact = if part.version == "-" { "1.2.3" } else { &part.version };
    let says = |version: &str| format!("#!/bin/sh\necho '{} version {version}, and more'\n", part.name);
    let bin = |name: &str| root.join("usr/local/bin").join(name);
    match part.kind.as_str() {
        "user" => {
            vec![(root.join("etc/passwd"), format!("root:x:0:0::/:/bin/sh\n{}:x:1000:1000::/:/bin/sh\n", part.name))]
        }
        "program" => vec![(bin(&part.name), says(&version))],
        "npm" => {
            let package = root.join("usr/local/lib/node_modules").join(&part.name).join("package.json");
            let text = format!("{{\n  \"name\": \"{}\",\n  \"version\": \"{exact}\"\n}}\n", part.name);
            vec![(bin(&part.command), says(exact)), (package, text)]
        }
        "pip" => vec![(bin(&part.command), says(exact))],
        "browser" => vec![(root.join("opt/browsers").join(&part.name).join("linux/chrome"), says("141.0.1"))],
        "file" => vec![(root.join(part.name.trim_start_matches('/')), "text\n".to_owned())],
        other => panic!("unknown kind {other}"),
    }
}

fn verify(root: &Path) -> (Output, String) {
    let output =
        Command::new(deploy().join("verify.sh")).arg(root).env_clear().env("PATH", "/usr/bin:/bin").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

#[test]
fn every_part_is_told_and_each_required_one_is_missed_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (root, parts) = (folder.path(), parts());
    for part in &parts {
        files(root, part).iter().for_each(|(path, text)| write(path, text));
    }
    write(&root.join("opt/harvest/parts"), &fs::read_to_string(deploy().join("parts")).unwrap());
    let (output, text) = verify(root);
    assert!(output.status.success(), "{text}");
    let told: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("ok")?.split_whitespace().next()).collect();
    assert_eq!(told, parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>());
    assert!(text.contains("2.1.325"), "{text}");

    for part in &parts {
        let (path, content) = files(root, part).remove(0);
        fs::remove_file(&path).unwrap();
        let (output, text) = verify(root);
        let line = text.lines().find(|line| line.split_whitespace().nth(1) == Some(&part.name)).unwrap();
        assert_eq!(output.status.success(), !part.required, "{}: {text}", part.name);
        assert!(line.starts_with(if part.required { "missing" } else { "warning" }), "{line}");
        assert_eq!(text.lines().filter(|line| !line.starts_with("ok")).count(), 1, "{text}");
        write(&path, &content);
    }
}

#[test]
fn another_version_a_root_user_and_no_list_are_wrong_too() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let (output, text) = verify(root);
    assert!(!output.status.success() && text.contains("list of parts"), "{text}");
    write(
        &root.join("opt/harvest/parts"),
        "required user harvest -\nrequired npm @x/tool 2.0.1 tool\nrequired file /opt/harvest/empty -\n",
    );
    write(&root.join("etc/passwd"), "harvest:x:0:0::/:/bin/sh\n");
    write(&root.join("usr/local/bin/tool"), "#!/bin/sh\n");
    write(&root.join("usr/local/lib/node_modules/@x/tool/package.json"), "{\n  \"version\": \"2.0.0\"\n}\n");
    write(&root.join("opt/harvest/empty"), "");
    let (output, text) = verify(root);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text.lines().filter(|line| line.starts_with("missing")).count(), 3, "{text}");
    assert!(text.contains("is 2.0.0, and 2.0.1 was asked for"), "{text}");
}

#[test]
fn whatever_the_image_is_built_from_is_there() {
    let dockerfile = fs::read_to_string(deploy().join("Dockerfile")).unwrap();
    let copied = dockerfile.lines().filter_map(|line| line.strip_prefix("COPY "));
    for sources in copied {
        let names: Vec<&str> = sources.split_whitespace().collect();
        for name in &names[..names.len() - 1] {
            assert!(deploy().join(name).exists(), "{name}");
        }
    }
    assert!(dockerfile.lines().any(|line| line == "USER harvest"));
    // The last thing that the build does as root is to look whether all is there.
    assert!(dockerfile.contains("&& /opt/harvest/verify.sh\n"));
    let pinned = |part: &Part| !["npm", "pip"].contains(&part.kind.as_str()) || part.version.split('.').count() >= 3;
    assert!(parts().iter().all(pinned));
}
