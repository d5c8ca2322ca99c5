//! Programs as the package managers of people install them.

use std::os::unix::fs::symlink;

use super::*;

fn place(files: &[&str]) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for file in files {
        let file = place.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    }
    place
}

#[test]
fn a_program_of_npm_is_shown_with_its_package_and_nothing_beside_it() {
    let place = place(&["lib/node_modules/@anthropic-ai/claude-code/bin/claude", "lib/node_modules/other/secret"]);
    let root = place.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("bin")).unwrap();
    symlink("../lib/node_modules/@anthropic-ai/claude-code/bin/claude", root.join("bin/claude")).unwrap();
    let found = find(&Registry::bundled().unwrap(), &format!("/nowhere:{}/bin", root.display()));
    let package = root.join("lib/node_modules/@anthropic-ai/claude-code");
    assert_eq!(found.found, BTreeMap::from([("claude".to_owned(), package.join("bin/claude"))]));
    assert_eq!(found.shown, [package]);
}

#[test]
fn a_program_of_python_is_shown_with_its_virtual_environment() {
    let place = place(&["aider/venv/pyvenv.cfg", "aider/venv/bin/aider", "aider/other", "bin/else"]);
    let root = place.path().canonicalize().unwrap();
    symlink("../aider/venv/bin/aider", root.join("bin/codex")).unwrap();
    let found = find(&Registry::bundled().unwrap(), &format!("{}/bin", root.display()));
    assert_eq!(found.shown, [root.join("aider/venv")]);
    assert_eq!(found.found["codex"], root.join("aider/venv/bin/aider"));

    let settings = |python: &Path| format!("home = {}\nversion = 3.11.7\n", python.join("bin").display());
    let shown = |python: &Path| {
        std::fs::create_dir_all(python.join("lib")).unwrap();
        std::fs::write(root.join("aider/venv/pyvenv.cfg"), settings(python)).unwrap();
        find(&Registry::bundled().unwrap(), &format!("{}/bin", root.display())).shown
    };
    let python = root.join("python-3.11");
    assert_eq!(shown(&python), [root.join("aider/venv"), python]);
    assert_eq!(shown(&root), [root.join("aider/venv")], "nobody's whole home");
    assert_eq!(shown(Path::new("/usr")), [root.join("aider/venv")]);
}

/// Debian links names in /usr/bin to /usr/share/nodejs, /usr/lib and, for alternatives, to /etc.
#[test]
fn a_program_of_the_system_keeps_its_name_and_needs_nothing_shown() {
    let links = std::fs::read_dir("/usr/bin").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    let is_package = |path: &Path| ["/usr/share", "/usr/lib"].iter().any(|folder| path.starts_with(folder));
    let links = links.filter(|path| path.is_symlink() && executable(path).is_some_and(|file| is_package(&file)));
    let Some(packaged) = links.min() else {
        return harvest_testing::skip("no program of /usr/bin is a link to its package");
    };
    let awk = Path::new("/usr/bin/awk").to_owned();
    for typed in [packaged, awk].into_iter().filter(|typed| executable(typed).is_some()) {
        let name = typed.file_name().unwrap().to_str().unwrap();
        let text = format!(
            "[[agent]]\nid = 'x'\nname = 'x'\nproviders = ['openai']\ndialect = 'text'\nprompt = 'stdin'\n\
             command = '{name}'\ninstall_hint = ''\n"
        );
        let found = find(&Registry::from_toml(&text).unwrap(), "/nowhere:/usr/bin");
        assert_eq!(found.found, BTreeMap::from([(name.to_owned(), typed)]));
        assert!(found.shown.is_empty() && found.interpreters.is_empty(), "{found:?}");
    }
}

#[test]
fn a_program_can_be_named_by_its_whole_path() {
    let place = place(&["tools/mine"]);
    let mine = place.path().canonicalize().unwrap().join("tools/mine");
    let agent = |id: &str, command: &Path| {
        format!(
            "[[agent]]\nid = '{id}'\nname = 'x'\nproviders = ['openai']\ndialect = 'text'\nprompt = 'stdin'\n\
             command = '{}'\ninstall_hint = ''\n",
            command.display()
        )
    };
    let text = agent("mine", &mine) + &agent("shell", Path::new("/bin/sh")) + &agent("none", &mine.join("x"));
    let found = find(&Registry::from_toml(&text).unwrap(), "/nowhere:/usr/bin");
    let (name, shell) = (mine.display().to_string(), "/bin/sh".to_owned());
    assert_eq!(found.found, BTreeMap::from([(name, mine.clone()), (shell.clone(), shell.into())]));
    assert_eq!(found.shown, [mine], "what is of the system is there anyway");
}

#[test]
fn any_other_program_is_shown_alone() {
    let place = place(&["bin/codex", "bin/other"]);
    let root = place.path().canonicalize().unwrap();
    std::fs::write(root.join("claude"), "not executable").unwrap();
    let path = format!("{0}:{0}/bin", root.display());
    let found = find(&Registry::bundled().unwrap(), &path);
    assert_eq!(found.shown, [root.join("bin/codex")]);
    assert_eq!(found.found.keys().collect::<Vec<_>>(), ["codex"]);
}

/// A script that needs Node.js.
const SCRIPT: &str = "#!/usr/bin/env node\n";

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

fn link(target: &str, path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(target, path).unwrap();
}

/// Codex as its package has it: a script, and the program itself in a package of its own.
fn codex_in(modules: &Path) -> PathBuf {
    let script = modules.join("@openai/codex/bin/codex.js");
    write(&script, SCRIPT);
    let manifest =
        r#"{"name":"@openai/codex","optionalDependencies":{"@openai/codex-linux-x64":"1","@openai/codex-win32":"1"}}"#;
    write(&modules.join("@openai/codex/package.json"), manifest);
    write(&modules.join("@openai/codex-linux-x64/bin/codex"), "native");
    write(&modules.join("other/secret"), "");
    script
}

fn find_codex(path: &[PathBuf]) -> (PathBuf, Vec<PathBuf>, Vec<PathBuf>) {
    let path = path.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(":");
    let Programs { mut found, shown, interpreters } = find(&Registry::bundled().unwrap(), &path);
    (found.remove("codex").unwrap(), shown, interpreters)
}

#[test]
fn a_package_is_shown_with_the_packages_that_it_names() {
    // npm in a folder of its own, npm for everyone, yarn and bun lay packages beside each other alike.
    for (modules, name, target) in [
        ("project/node_modules", "project/node_modules/.bin/codex", "../@openai/codex/bin/codex.js"),
        ("prefix/lib/node_modules", "prefix/bin/codex", "../lib/node_modules/@openai/codex/bin/codex.js"),
        (
            ".bun/install/global/node_modules",
            ".bun/bin/codex",
            "../install/global/node_modules/@openai/codex/bin/codex.js",
        ),
        (".config/yarn/global/node_modules", ".yarn/bin/codex", "../../.config/yarn/global/node_modules/.bin/codex"),
    ] {
        let place = place(&[]);
        let root = place.path().canonicalize().unwrap();
        let modules = root.join(modules);
        let script = codex_in(&modules);
        link("../@openai/codex/bin/codex.js", &modules.join(".bin/codex"));
        let name = root.join(name);
        if name.parent() != Some(&modules.join(".bin")) {
            link(target, &name);
        }
        let (program, shown, interpreters) = find_codex(&[name.parent().unwrap().to_owned()]);
        assert_eq!(program, script);
        assert_eq!(shown, [modules.join("@openai/codex"), modules.join("@openai/codex-linux-x64")]);
        assert!(interpreters.is_empty(), "{interpreters:?}");
    }
}

#[test]
fn a_package_of_pnpm_is_found_behind_its_script_and_shown_with_its_store() {
    let place = place(&[]);
    let root = place.path().canonicalize().unwrap();
    let global = root.join("pnpm/global/5");
    let store = global.join("node_modules/.pnpm");
    let script = codex_in(&store.join("@openai+codex@1/node_modules"));
    link("../.pnpm/@openai+codex@1/node_modules/@openai/codex", &global.join("node_modules/@openai/codex"));
    let exec =
        |node: &str| format!("  exec {node}  \"$basedir/global/5/node_modules/@openai/codex/bin/codex.js\" \"$@\"\n");
    let shim = format!(
        "#!/bin/sh\nif [ -x \"$basedir/node\" ]; then\n{}else\n{}fi\n",
        exec("\"$basedir/node\""),
        exec("node")
    );
    write(&root.join("pnpm/codex"), &shim);
    let (program, shown, _) = find_codex(&[root.join("pnpm")]);
    assert_eq!((program, shown), (script, vec![store]));
}

/// Since version 11 pnpm keeps each package in a store for all projects, with links between them.
#[test]
fn a_package_of_a_newer_pnpm_is_shown_with_the_links_to_the_packages_that_it_names() {
    let place = place(&[]);
    let root = place.path().canonicalize().unwrap();
    let links = root.join("pnpm/store/v11/links/@openai/codex");
    let (own, native) = (links.join("1/a0bf/node_modules"), links.join("1-linux-x64/8033/node_modules"));
    write(&own.join("@openai/codex/bin/codex.js"), SCRIPT);
    let manifest = r#"{"name":"@openai/codex","optionalDependencies":{"@openai/codex-linux-x64":"1"}}"#;
    write(&own.join("@openai/codex/package.json"), manifest);
    write(&native.join("@openai/codex/bin/codex"), "native");
    link("../../../../1-linux-x64/8033/node_modules/@openai/codex", &own.join("@openai/codex-linux-x64"));
    let global = root.join("pnpm/global/v11/3eec/node_modules/@openai/codex");
    link(own.join("@openai/codex").to_str().unwrap(), &global);
    let target = "'../global/v11/3eec/node_modules/@openai/codex/bin/codex.js' \"$@\"\n";
    let shim = format!(
        "#!/bin/sh\nif [ -x \"$basedir/node\" ]; then\n  exec \"$basedir/node\"  \"$basedir_abs\"/{target}else\n  exec node  \"$basedir_abs\"/{target}fi\n"
    );
    write(&root.join("pnpm/bin/codex"), &shim);
    let (program, shown, _) = find_codex(&[root.join("pnpm/bin")]);
    assert_eq!(program, own.join("@openai/codex/bin/codex.js"));
    assert_eq!(shown, [own, native.join("@openai/codex")]);
}

/// Of a package with very many links the store is shown, but never a folder that is none.
#[test]
fn a_package_with_very_many_links_is_shown_with_its_store_or_each_by_itself() {
    for (store, expected) in [("store/links", 1), ("home", 41)] {
        let place = place(&[]);
        let store = place.path().canonicalize().unwrap().join(store);
        let own = store.join("codex/node_modules");
        let names: Vec<String> = (0..40).map(|number| format!("part{number}")).collect();
        for name in &names {
            write(&store.join(name).join("package/package.json"), "{}");
            link(&format!("../../{name}/package"), &own.join(name));
        }
        write(&own.join("codex/codex"), "");
        let list: serde_json::Map<String, serde_json::Value> =
            names.iter().map(|name| (name.clone(), "1".into())).collect();
        write(&own.join("codex/package.json"), &serde_json::json!({ "dependencies": list }).to_string());
        let shown = find_codex(&[own.join("codex")]).1;
        assert_eq!(shown.len(), expected, "{shown:#?}");
        assert!(expected > 1 || shown == [store], "{shown:#?}");
    }
}

#[test]
fn a_package_with_very_many_others_is_shown_with_their_folder() {
    let place = place(&[]);
    let modules = place.path().canonicalize().unwrap().join("node_modules");
    let names: Vec<String> = (0..40).map(|number| format!("part{number}")).collect();
    for name in &names {
        write(&modules.join(name).join("index.js"), "");
    }
    write(&modules.join("codex/codex"), "");
    let list: serde_json::Map<String, serde_json::Value> =
        names.iter().map(|name| (name.clone(), "1".into())).collect();
    write(&modules.join("codex/package.json"), &serde_json::json!({ "dependencies": list }).to_string());
    assert_eq!(find_codex(&[modules.join("codex")]).1, [modules]);
}

#[test]
fn a_program_of_a_version_manager_is_found_behind_its_stand_in_with_its_interpreter() {
    for (shim, target, program, node) in [
        (
            ".asdf/shims/codex",
            None,
            ".asdf/installs/nodejs/22.1.0/lib/node_modules/@openai/codex",
            ".asdf/installs/nodejs/22.1.0/bin/node",
        ),
        (
            "mise/shims/codex",
            Some("../bin/mise"),
            "mise/installs/npm-codex/1.0/lib/node_modules/@openai/codex",
            "mise/installs/node/22/bin/node",
        ),
        (
            ".volta/bin/codex",
            Some("volta-shim"),
            ".volta/tools/image/packages/@openai/codex/lib/node_modules/@openai/codex",
            ".volta/tools/image/node/22.1.0/bin/node",
        ),
        (
            ".nvm/versions/node/v22/bin/codex",
            None,
            ".nvm/versions/node/v22/lib/node_modules/@openai/codex",
            ".nvm/versions/node/v22/bin/node",
        ),
    ] {
        let place = place(&[]);
        let root = place.path().canonicalize().unwrap();
        let package = root.join(program);
        let modules = package.parent().unwrap().parent().unwrap();
        let script = codex_in(modules);
        let node = root.join(node);
        write(&node, "native");
        let shim = root.join(shim);
        let folder = shim.parent().unwrap().to_owned();
        // Where the manager links the program of the package.
        link(script.to_str().unwrap(), &modules.parent().unwrap().parent().unwrap().join("bin/codex"));
        match target {
            Some(target) => {
                write(&folder.join(target), "native");
                for name in ["codex", "node"] {
                    link(target, &folder.join(name));
                }
            }
            None if !shim.exists() => {
                for name in ["codex", "node"] {
                    write(&folder.join(name), "#!/usr/bin/env bash\nexec asdf exec \"codex\" \"$@\"\n");
                }
            }
            None => {}
        }
        let (program, shown, interpreters) = find_codex(&[folder]);
        assert_eq!(program, script, "{shim:?}");
        assert!(shown.contains(&package) && shown.contains(&node), "{shim:?}: {shown:?}");
        assert_eq!(interpreters, [node.parent().unwrap()], "{shim:?}");
    }
}

#[test]
fn a_tool_of_uv_or_pipx_is_shown_with_the_python_behind_its_links() {
    let place = place(&["uv/python/cpython-3.12.5/bin/python3.12", "uv/python/cpython-3.12.5/lib/os.py", "bin/else"]);
    let root = place.path().canonicalize().unwrap();
    symlink("cpython-3.12.5", root.join("uv/python/cpython-3.12")).unwrap();
    let tool = root.join("uv/tools/aider-chat");
    let python = root.join("uv/python/cpython-3.12");
    write(&tool.join("pyvenv.cfg"), &format!("home = {}\n", python.join("bin").display()));
    symlink(python.join("bin/python3.12"), {
        std::fs::create_dir_all(tool.join("bin")).unwrap();
        tool.join("bin/python")
    })
    .unwrap();
    write(&tool.join("bin/aider"), &format!("#!{}\n", tool.join("bin/python").display()));
    symlink(tool.join("bin/aider"), root.join("bin/aider")).unwrap();
    let Programs { found, shown, .. } = find(&Registry::bundled().unwrap(), &root.join("bin").display().to_string());
    assert_eq!(found["aider"], tool.join("bin/aider"));
    assert_eq!(shown, [python, root.join("uv/python/cpython-3.12.5"), tool]);
}

/// What a manifest, a virtual environment and a first line name cannot bring other folders into a sandbox.
#[test]
fn names_that_lead_out_of_the_package_folder_are_not_followed() {
    let place = place(&[
        "lib/node_modules/@anthropic-ai/claude-code/bin/claude",
        "lib/node_modules/friend/package.json",
        "lib/node_modules/@scope/friend/package.json",
        "secret/key",
        "secret/bin/node",
        "secret/lib/key",
        "secret/package.json",
    ]);
    let root = place.path().canonicalize().unwrap();
    let package = root.join("lib/node_modules/@anthropic-ai/claude-code");
    symlink("/etc", root.join("lib/node_modules/linked")).unwrap();
    std::fs::create_dir_all(root.join("bin")).unwrap();
    symlink("../lib/node_modules/@anthropic-ai/claude-code/bin/claude", root.join("bin/claude")).unwrap();
    let shown = |names: &[String]| {
        let list: serde_json::Map<String, serde_json::Value> =
            names.iter().map(|name| (name.clone(), "1".into())).collect();
        let manifest = serde_json::json!({ "dependencies": list });
        std::fs::write(package.join("package.json"), manifest.to_string()).unwrap();
        find(&Registry::bundled().unwrap(), &format!("{}/bin", root.display())).shown
    };
    let secret = root.join("secret").display().to_string();
    let outside =
        [secret.as_str(), "../../secret", "../../../secret", "@x/../../../secret", "..", ".", "", "linked", "/"];
    let outside: Vec<String> = outside.map(str::to_owned).into();
    assert_eq!(shown(&outside), std::slice::from_ref(&package));
    let friends = ["friend".to_owned(), "@scope/friend".to_owned()];
    let modules = root.join("lib/node_modules");
    assert_eq!(shown(&friends), [package.clone(), modules.join("@scope/friend"), modules.join("friend")]);
    // The same for an interpreter, and for the Python of a virtual environment.
    std::fs::write(package.join("bin/claude"), "#!/usr/bin/env ../secret/bin/node\n").unwrap();
    assert_eq!(shown(&[]), std::slice::from_ref(&package));
    std::fs::write(package.join("pyvenv.cfg"), format!("home = {}/lib/../secret/bin\n", root.display())).unwrap();
    assert_eq!(shown(&[]), [package]);
}
