//! Where this person's own npm, pip and cargo get packages: registry, proxy and certificates. Sandboxes see none of these
//! files and variables, so the gateway has to be told; it is asked for first.

use std::fs;
use std::path::{Path, PathBuf};

use harvest_core::Code;
use harvest_gateway::registry::{Ecosystem, Options};

use crate::config::Layers;
use crate::environment::Environment;
use crate::failure::Failure;

const PROXY: &str = "proxy";
const CA_FILE: &str = "ca_file";
/// Certificates that are trusted anyway.
const OF_THE_MACHINE: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A line for `[registries]` in harvest.toml.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub key: &'static str,
    pub value: String,
    /// The file or the variable that says so.
    pub from: String,
}

impl Setting {
    pub fn line(&self) -> String {
        // A basic string of TOML is written as one of JSON.
        format!("{} = {}", self.key, serde_json::Value::from(self.value.as_str()))
    }

    pub fn advice(&self) -> String {
        format!("as {} says, write under [registries] in harvest.toml: {}", self.from, self.line())
    }
}

/// What package managers on this machine use and the gateway does not.
pub fn unused(environment: &Environment, options: &Options) -> Vec<Setting> {
    // What a variable says goes before the files, as for the package managers themselves.
    let found = [variables(environment), npm(environment), pip(environment), cargo(environment)].concat();
    let is_set = |setting: &Setting| match setting.key {
        PROXY => options.proxy.is_some(),
        CA_FILE => options.ca_file.is_some(),
        key => Ecosystem::named(key).is_some_and(|ecosystem| options.mirrors.contains_key(&ecosystem)),
    };
    let mut unused: Vec<Setting> = Vec::new();
    for setting in found.into_iter().filter(|setting| !is_set(setting)) {
        if !unused.iter().any(|known| known.key == setting.key) {
            unused.push(setting);
        }
    }
    unused
}

/// Writes the settings below `[registries]`; nothing when the file would not be understood with them.
pub fn adopt(file: &Path, settings: &[Setting]) -> Result<(), Failure> {
    // A link stays one, and leads to the new text.
    let file = &fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let failed = |error: std::io::Error| {
        let message = format!("{} cannot be changed: {error}", file.display());
        Failure::refused(Code::BadConfig, message, "write the lines there yourself, below [registries]")
    };
    let before = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(error)),
    };
    let after = with_lines(&before, settings);
    Layers::defaults().with_file(file.to_owned(), &after)?;
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(failed)?;
    let mut new = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    std::io::Write::write_all(&mut new, after.as_bytes()).map_err(failed)?;
    if let Ok(known) = fs::metadata(file) {
        fs::set_permissions(new.path(), known.permissions()).map_err(failed)?;
    }
    new.as_file().sync_all().map_err(failed)?;
    new.persist(file).map_err(|error| failed(error.error))?;
    Ok(())
}

fn with_lines(before: &str, settings: &[Setting]) -> String {
    let lines: String = settings.iter().map(|setting| format!("{}\n", setting.line())).collect();
    let mut kept: Vec<String> = before.split_inclusive('\n').map(str::to_owned).collect();
    if let Some(at) = kept.iter().position(|line| line.trim() == "[registries]") {
        let end = if kept[at].ends_with('\n') { "" } else { "\n" };
        kept[at] = format!("{}{end}{lines}", kept[at]);
        return kept.concat();
    }
    let gap = match before {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    format!("{before}{gap}[registries]\n{lines}")
}

/// Variables of package managers before those of all programs.
const VARIABLES: &[(&str, &str)] = &[
    ("npm_config_registry", "npm"),
    ("NPM_CONFIG_REGISTRY", "npm"),
    ("PIP_INDEX_URL", "pypi"),
    ("UV_DEFAULT_INDEX", "pypi"),
    ("UV_INDEX_URL", "pypi"),
    ("npm_config_https_proxy", PROXY),
    ("NPM_CONFIG_HTTPS_PROXY", PROXY),
    ("npm_config_proxy", PROXY),
    ("NPM_CONFIG_PROXY", PROXY),
    ("PIP_PROXY", PROXY),
    ("CARGO_HTTP_PROXY", PROXY),
    ("https_proxy", PROXY),
    ("HTTPS_PROXY", PROXY),
    ("http_proxy", PROXY),
    ("HTTP_PROXY", PROXY),
    ("all_proxy", PROXY),
    ("ALL_PROXY", PROXY),
    ("npm_config_cafile", CA_FILE),
    ("NPM_CONFIG_CAFILE", CA_FILE),
    ("PIP_CERT", CA_FILE),
    ("CARGO_HTTP_CAINFO", CA_FILE),
    ("NODE_EXTRA_CA_CERTS", CA_FILE),
    ("REQUESTS_CA_BUNDLE", CA_FILE),
    ("SSL_CERT_FILE", CA_FILE),
];

fn variables(environment: &Environment) -> Vec<Setting> {
    let said = |(name, key): &(&str, &'static str)| {
        setting(&[(name, key)], name, environment.text(name)?, &format!("the variable {name}"))
    };
    VARIABLES.iter().filter_map(said).collect()
}

fn npm(environment: &Environment) -> Vec<Setting> {
    let file = match environment.text("NPM_CONFIG_USERCONFIG") {
        Some(file) => Some(PathBuf::from(file)),
        None => environment.home().map(|home| home.join(".npmrc")),
    };
    let Some((file, text)) = file.and_then(read) else { return Vec::new() };
    let file = file.display().to_string();
    let keys = [("registry", "npm"), ("https-proxy", PROXY), ("proxy", PROXY), ("cafile", CA_FILE)];
    pairs(&text).filter_map(|(_, name, value)| setting(&keys, name, value, &file)).collect()
}

fn pip(environment: &Environment) -> Vec<Setting> {
    let home = environment.home().unwrap_or_default();
    let folder = environment.text("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from);
    let files = match environment.text("PIP_CONFIG_FILE") {
        Some(file) => vec![PathBuf::from(file)],
        None => vec![folder.join("pip/pip.conf"), home.join(".pip/pip.conf"), PathBuf::from("/etc/pip.conf")],
    };
    let keys = [("index-url", "pypi"), ("proxy", PROXY), ("cert", CA_FILE)];
    let of_file = |(file, text): (PathBuf, String)| {
        let file = file.display().to_string();
        let global = pairs(&text).filter(|(section, ..)| matches!(*section, "global" | "install"));
        global.filter_map(|(_, name, value)| setting(&keys, name, value, &file)).collect::<Vec<_>>()
    };
    files.into_iter().filter_map(read).flat_map(of_file).collect()
}

fn cargo(environment: &Environment) -> Vec<Setting> {
    let folder = match environment.text("CARGO_HOME") {
        Some(folder) => Some(PathBuf::from(folder)),
        None => environment.home().map(|home| home.join(".cargo")),
    };
    let Some((file, text)) = folder.and_then(|folder| read(folder.join("config.toml"))) else { return Vec::new() };
    let Ok(config) = text.parse::<toml::Table>() else { return Vec::new() };
    let config = toml::Value::Table(config);
    let text = |path: &[&str]| {
        let value = path.iter().try_fold(&config, |value, name| value.get(name));
        value.and_then(toml::Value::as_str).map(str::to_owned)
    };
    let mirror = text(&["source", "crates-io", "replace-with"]);
    // Only sparse indexes are spoken to.
    let mirror =
        mirror.and_then(|name| Some(text(&["source", &name, "registry"])?.strip_prefix("sparse+")?.to_owned()));
    let file = file.display().to_string();
    let keys = [("cargo", "cargo"), (PROXY, PROXY), (CA_FILE, CA_FILE)];
    let found = [("cargo", mirror), (PROXY, text(&["http", "proxy"])), (CA_FILE, text(&["http", "cainfo"]))];
    found.into_iter().filter_map(|(name, value)| setting(&keys, name, &value?, &file)).collect()
}

fn read(file: PathBuf) -> Option<(PathBuf, String)> {
    let text = fs::read_to_string(&file).ok()?;
    Some((file, text))
}

/// Section, name and value of each line of an INI file.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    let mut section = "";
    text.lines().filter_map(move |line| {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.trim();
            return None;
        }
        let (name, value) = line.split_once('=').filter(|_| !line.starts_with(['#', ';']))?;
        Some((section, name.trim(), value.trim().trim_matches(['"', '\''])))
    })
}

/// A value that says something new and holds no password.
fn setting(keys: &[(&str, &'static str)], name: &str, value: &str, from: &str) -> Option<Setting> {
    let (_, key) = keys.iter().find(|(known, _)| *known == name)?;
    let value = value.trim_end_matches('/');
    let is_public = Ecosystem::named(key).is_some_and(|ecosystem| ecosystem.public() == value);
    let is_usable = match *key {
        CA_FILE => Path::new(value).is_absolute() && !OF_THE_MACHINE.contains(&value),
        _ => {
            ["http://", "https://"].iter().any(|scheme| value.starts_with(scheme))
                && !value.contains(['@', '?', '#', '$'])
        }
    };
    (is_usable && !is_public).then(|| Setting { key, value: value.to_owned(), from: from.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options {
            folder: PathBuf::new(),
            max_bytes: 0,
            mirrors: [(Ecosystem::Cargo, "https://crates.example.com".to_owned())].into(),
            file_hosts: Vec::new(),
            proxy: None,
            ca_file: None,
            clock: std::sync::Arc::new(crate::installation::SystemClock),
        }
    }

    #[test]
    fn registries_proxies_and_certificates_of_package_managers_are_found() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = home.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write(
            ".npmrc",
            "; ours\nregistry = \"https://npm.example.com/all/\"\n//npm.example.com/:_authToken=${NPM}\nstrict-ssl=true\n",
        );
        write(
            ".config/pip/pip.conf",
            "[global]\nindex-url = https://pypi.example.com/simple\ncert = /etc/ssl/example.pem\n[list]\nproxy = http://no.example.com\n",
        );
        write(
            ".cargo/config.toml",
            "[source.crates-io]\nreplace-with = 'ours'\n[source.ours]\nregistry = 'sparse+https://cargo.example.com/'\n[http]\nproxy = 'http://proxy.example.com:3128'\n",
        );
        let environment = Environment::with(&[("HOME", home.path()), ("PIP_UNUSED", Path::new(""))]);
        let found: Vec<String> = unused(&environment, &options()).iter().map(Setting::line).collect();
        assert_eq!(
            found,
            [
                "npm = \"https://npm.example.com/all\"",
                "pypi = \"https://pypi.example.com/simple\"",
                "ca_file = \"/etc/ssl/example.pem\"",
                "proxy = \"http://proxy.example.com:3128\"",
            ],
            "what is set already, and sections that say nothing of installing, are left alone"
        );
        write(".npmrc", "registry=https://registry.npmjs.org/\nproxy=http://ada:secret@proxy.example.com\n");
        let npm = unused(&environment, &options());
        assert!(npm.iter().all(|setting| setting.key != "npm" && !setting.value.contains("secret")), "{npm:?}");
    }

    #[test]
    fn variables_of_package_managers_and_of_all_programs_go_before_files() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(".npmrc"), "registry=https://file.example.com/npm\nproxy=http://file.example.com\n")
            .unwrap();
        let environment = Environment::with(&[
            ("HOME", home.path()),
            ("npm_config_registry", Path::new("https://npm.example.com/")),
            ("PIP_INDEX_URL", Path::new("https://pypi.example.com/simple")),
            ("HTTPS_PROXY", Path::new("http://proxy.example.com:3128")),
            ("SSL_CERT_FILE", Path::new("/etc/ssl/certs/ca-certificates.crt")),
            ("NODE_EXTRA_CA_CERTS", Path::new("/etc/ssl/example.pem")),
        ]);
        let found: Vec<(String, String)> =
            unused(&environment, &options()).into_iter().map(|one| (one.line(), one.from)).collect();
        let expected = [
            ("npm = \"https://npm.example.com\"", "the variable npm_config_registry"),
            ("pypi = \"https://pypi.example.com/simple\"", "the variable PIP_INDEX_URL"),
            ("proxy = \"http://proxy.example.com:3128\"", "the variable HTTPS_PROXY"),
            ("ca_file = \"/etc/ssl/example.pem\"", "the variable NODE_EXTRA_CA_CERTS"),
        ];
        assert_eq!(found, expected.map(|(line, from)| (line.to_owned(), from.to_owned())));
        // A password stays where it is.
        let environment = Environment::with(&[("HTTPS_PROXY", Path::new("http://ada:secret@proxy.example.com"))]);
        assert_eq!(unused(&environment, &options()), []);
    }

    #[test]
    fn settings_are_added_to_what_the_file_says_already() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/harvest.toml");
        let npm = Setting { key: "npm", value: "https://npm.example.com".into(), from: "/home/ada/.npmrc".to_owned() };
        let proxy =
            Setting { key: "proxy", value: "http://proxy.example.com:3128".into(), from: "/etc/pip.conf".into() };
        adopt(&file, &[npm]).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "[registries]\nnpm = \"https://npm.example.com\"\n");
        fs::write(&file, "agents = 2\n\n[registries] \nnpm = \"https://npm.example.com\"\n\n[egress]\nallow = []\n")
            .unwrap();
        adopt(&file, &[proxy]).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(
            text,
            "agents = 2\n\n[registries] \nproxy = \"http://proxy.example.com:3128\"\nnpm = \"https://npm.example.com\"\n\n[egress]\nallow = []\n"
        );
        // A file that says the same twice is no file any more.
        let again = Setting { key: "npm", value: "https://other.example.com".into(), from: "/x".into() };
        adopt(&file, &[again]).unwrap_err();
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
}
