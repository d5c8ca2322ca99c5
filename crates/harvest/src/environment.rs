//! The one place where the process environment is read. Everything else gets what it needs from here.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use harvest_core::{Credential, Scope};
use harvest_vault::SecretString;
use harvest_workspace::{Git, Home};

use crate::failure::Failure;
use crate::keychain::Opened;

/// Variables that git needs to reach a person's remotes the way their own git does.
const GIT_VARIABLES: &[&str] = &[
    "SSH_AUTH_SOCK",
    "GIT_SSH_COMMAND",
    "GIT_SSL_CAINFO",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "XDG_CONFIG_HOME",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
    "USER",
    "LOGNAME",
];
/// Variables that a program with a window needs.
const SCREEN_VARIABLES: &[&str] =
    &["DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "HOME", "PATH"];
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

#[derive(Debug, Clone)]
pub struct Environment {
    variables: HashMap<String, OsString>,
}

/// What each provider of models is called, and the variables with its key and its address.
const PROVIDERS: [(&str, &str, &str); 4] = [
    ("anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    ("openai", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    ("gemini", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
    (OLLAMA, "OLLAMA_API_KEY", "OLLAMA_HOST"),
];
/// The variable with the key of a provider of models.
pub fn key_variable(provider: &str) -> Option<&'static str> {
    PROVIDERS.iter().find(|(name, ..)| *name == provider).map(|(_, key, _)| *key)
}

/// Its hosts may well want no key.
const OLLAMA: &str = "ollama";

/// Which models there are keys for.
#[derive(Debug, Clone, Default)]
pub struct ModelKeys {
    /// This installation's own, by provider.
    pub own: BTreeMap<&'static str, OwnKey>,
    vault: Vault,
}

/// A key that was set where Harvest runs, and where it is used, when not at the provider's own host.
#[derive(Debug, Clone)]
pub struct OwnKey {
    pub key: SecretString,
    pub url: Option<String>,
}

/// What is known of the keys in the vault.
#[derive(Debug, Clone, Default)]
enum Vault {
    #[default]
    None,
    /// It was not looked into.
    Unknown,
    Holds(Vec<(String, Scope)>),
}

impl ModelKeys {
    /// With those of the vault.
    pub fn and_of(mut self, opened: &[Opened]) -> Self {
        let known = |opened: &Opened| {
            let Credential { provider, scope, .. } = &opened.record.credential;
            (provider.clone(), scope.clone())
        };
        self.vault = Vault::Holds(opened.iter().map(known).collect());
        self
    }

    /// With a vault that may hold any.
    pub fn and_maybe_more(mut self) -> Self {
        self.vault = Vault::Unknown;
        self
    }

    /// Whether there is one for `user`, for all that is known. Teams and projects are not asked who belongs to them.
    pub fn has_for(&self, user: &str, provider: &str) -> bool {
        self.has(provider, |scope| !matches!(scope, Scope::User(name) if name != user))
    }

    /// Whether there is one for anyone.
    pub fn has_any(&self, provider: &str) -> bool {
        self.has(provider, |_| true)
    }

    fn has(&self, provider: &str, fits: impl Fn(&Scope) -> bool) -> bool {
        self.own.contains_key(provider)
            || match &self.vault {
                Vault::None => false,
                Vault::Unknown => true,
                Vault::Holds(known) => known.iter().any(|(of, scope)| of == provider && fits(scope)),
            }
    }
}

impl Environment {
    /// One with these variables alone.
    #[cfg(test)]
    pub fn with(variables: &[(&str, &Path)]) -> Self {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), value.into()));
        Self { variables: variables.collect() }
    }

    pub fn read() -> Self {
        let variables = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        Self { variables: variables.collect() }
    }

    /// The same person's, with no key and no database of theirs.
    pub fn for_a_rehearsal(&self) -> Self {
        let mut variables = self.variables.clone();
        let keys = PROVIDERS.iter().flat_map(|(_, key, url)| [*key, *url]);
        for name in keys.chain(["HARVEST_DATABASE_URL", "HARVEST_DATA_DIR"]) {
            variables.remove(name);
        }
        Self { variables }
    }

    /// The same person's, with no data of theirs.
    pub fn without_data(&self) -> Self {
        let mut variables = self.variables.clone();
        for name in ["HARVEST_DATABASE_URL", "HARVEST_DATA_DIR"] {
            variables.remove(name);
        }
        Self { variables }
    }

    /// What a program needs to show a window to whoever sits here; `None` where there is no screen.
    pub fn screen(&self) -> Option<BTreeMap<&'static str, &OsString>> {
        let known = SCREEN_VARIABLES.iter().filter_map(|name| Some((*name, self.variables.get(*name)?)));
        let known: BTreeMap<_, _> = known.collect();
        (known.contains_key("DISPLAY") || known.contains_key("WAYLAND_DISPLAY")).then_some(known)
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.variables.get(name)?.to_str().filter(|value| !value.is_empty())
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.variables.get(name).filter(|value| !value.is_empty()).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    pub fn home(&self) -> Option<PathBuf> {
        self.path("HOME")
    }

    /// `$HARVEST_DATA_DIR`, relative to the current folder as `--data-dir` is, else the XDG data folder.
    pub fn default_data_folder(&self) -> Option<PathBuf> {
        if let Some(named) = self.variables.get("HARVEST_DATA_DIR").filter(|value| !value.is_empty()) {
            return std::path::absolute(named).ok();
        }
        let xdg = self.path("XDG_DATA_HOME").or_else(|| Some(self.home()?.join(".local/share")))?;
        Some(xdg.join("harvest"))
    }

    /// A short folder for sockets, whose paths the system limits to 108 bytes.
    pub fn runtime_folder(&self) -> PathBuf {
        let uid = rustix::process::getuid();
        match self.path("XDG_RUNTIME_DIR").filter(|path| path.is_dir() && path.as_os_str().len() < 40) {
            Some(folder) => folder.join("harvest"),
            None if uid.is_root() => PathBuf::from("/run/harvest"),
            None => PathBuf::from(format!("/tmp/harvest-{}", uid.as_raw())),
        }
    }

    /// Where a container engine may listen: the socket that was named, else the usual ones.
    #[cfg(feature = "container")]
    pub fn container_sockets(&self) -> Vec<PathBuf> {
        match self.path("HARVEST_CONTAINER_SOCKET") {
            Some(socket) => vec![socket],
            None => {
                let runtime = self.path("XDG_RUNTIME_DIR");
                harvest_sandbox::container::sockets(self.text("DOCKER_HOST"), runtime.as_deref())
            }
        }
    }

    pub fn user(&self) -> String {
        let named = self.text("USER").or_else(|| self.text("LOGNAME")).filter(|name| !name.is_empty());
        let uid = rustix::process::getuid().as_raw();
        named
            .map(str::to_owned)
            .or_else(|| account_name(uid).map(str::to_owned))
            .unwrap_or_else(|| format!("uid {uid}"))
    }

    /// Where programs are looked for.
    pub fn search_path(&self) -> &str {
        self.text("PATH").unwrap_or(SYSTEM_PATH)
    }

    /// Git that acts for the person: with their settings, keys and helpers.
    pub fn git(&self) -> Git {
        let value = |name: &&str| Some((OsString::from(name), self.variables.get(*name)?.clone()));
        Git::new(Home::Person {
            home: self.home().unwrap_or_else(|| PathBuf::from("/nonexistent")),
            path: self.variables.get("PATH").cloned().unwrap_or_else(|| SYSTEM_PATH.into()),
            extra: GIT_VARIABLES.iter().filter_map(value).collect(),
        })
    }

    /// From the environment, else from the file `keys` in the configuration folder (`NAME=value` lines).
    pub fn model_keys(&self) -> Result<ModelKeys, Failure> {
        let file = self.keys_file();
        let lines = file.as_deref().map(read_keys).transpose()?.unwrap_or_default();
        let find = |name: &str| self.text(name).map(str::to_owned).or_else(|| lines.get(name).cloned());
        let own = |(provider, key, url): (&'static str, &str, &str)| {
            let url = find(url).map(|url| if provider == OLLAMA { ollama_url(&url) } else { url });
            let key = find(key).or_else(|| (provider == OLLAMA && url.is_some()).then(String::new));
            Some((provider, OwnKey { key: key?.into(), url }))
        };
        Ok(ModelKeys { own: PROVIDERS.into_iter().filter_map(own).collect(), vault: Vault::None })
    }

    /// Where the models of a provider are, when not at its own host.
    pub fn model_host(&self, provider: &str) -> Option<&str> {
        PROVIDERS.iter().find(|(name, ..)| *name == provider).and_then(|(_, _, url)| self.text(url))
    }

    fn keys_file(&self) -> Option<PathBuf> {
        Some(self.config_folder()?.join("keys"))
    }

    /// Where a person's settings are.
    pub fn config_folder(&self) -> Option<PathBuf> {
        let folder = self.path("XDG_CONFIG_HOME").or_else(|| Some(self.home()?.join(".config")))?;
        Some(folder.join("harvest"))
    }

    /// The name of this system's time zone, or UTC where it has none that others could look up.
    pub fn time_zone(&self) -> String {
        jiff::tz::TimeZone::system().iana_name().unwrap_or("UTC").to_owned()
    }

    pub fn says_utf8(&self) -> bool {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| self.text(name)).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    }

    pub fn wants_color(&self) -> bool {
        self.text("NO_COLOR").is_none() && self.text("TERM") != Some("dumb")
    }
}

/// As Ollama itself reads it: a host, a host and port, or a whole address. What a server listens on is where it is found.
fn ollama_url(host: &str) -> String {
    if host.contains("://") {
        return host.to_owned();
    }
    let host = host.strip_prefix("0.0.0.0").map_or_else(|| host.to_owned(), |rest| format!("127.0.0.1{rest}"));
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port { format!("http://{host}") } else { format!("http://{host}:11434") }
}

fn read_keys(file: &Path) -> Result<HashMap<String, String>, Failure> {
    use std::os::unix::fs::PermissionsExt;
    let Ok(metadata) = std::fs::metadata(file) else { return Ok(HashMap::new()) };
    if metadata.permissions().mode() & 0o077 != 0 {
        let shown = file.display();
        return Err(Failure::refused(
            harvest_core::Code::BadOption,
            format!("{shown} can be read by others"),
            format!("restrict it: chmod 600 '{shown}'"),
        ));
    }
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let pair = |line: &str| {
        let (name, value) = line.trim().strip_prefix("export ").unwrap_or(line.trim()).split_once('=')?;
        (!name.starts_with('#')).then(|| (name.trim().to_owned(), value.trim().trim_matches(['"', '\'']).to_owned()))
    };
    Ok(text.lines().filter_map(pair).filter(|(_, value)| !value.is_empty()).collect())
}

/// The name of the account that runs this process: in the system's own list, or wherever else the system has accounts from, such
/// as a directory server.
fn account_name(uid: u32) -> Option<&'static str> {
    static NAME: OnceLock<Option<String>> = OnceLock::new();
    let looked_up = || {
        let own = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        name_in(&own, uid).or_else(|| name_in(&asked_of_the_system(uid), uid))
    };
    NAME.get_or_init(looked_up).as_deref()
}

/// As in `/etc/passwd`.
fn name_in(accounts: &str, uid: u32) -> Option<String> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(uid) && !name.is_empty()).then(|| name.to_owned())
    })
}

#[expect(clippy::disallowed_methods, reason = "a program of the system, without anyone's environment")]
fn asked_of_the_system(uid: u32) -> String {
    // A directory server that does not answer holds up nobody for longer.
    let asked = std::process::Command::new("timeout")
        .args(["2", "getent", "passwd", &uid.to_string()])
        .env_clear()
        .env("PATH", SYSTEM_PATH)
        .output();
    asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{asked_of_the_system, name_in, ollama_url};

    #[test]
    fn an_account_is_found_by_its_number_in_a_list_and_by_asking_the_system() {
        let list = "root:x:0:0:root:/root:/bin/sh\nada:x:1001:1001::/home/ada:/bin/sh\n:x:1002:1002:::\n";
        assert_eq!(name_in(list, 1001).as_deref(), Some("ada"));
        assert_eq!([name_in(list, 1002), name_in(list, 1003)], [None, None]);
        assert_eq!(name_in(&asked_of_the_system(0), 0).as_deref(), Some("root"));
    }

    #[test]
    fn hosts_of_ollama() {
        for (host, url) in [
            ("127.0.0.1", "http://127.0.0.1:11434"),
            ("0.0.0.0", "http://127.0.0.1:11434"),
            ("0.0.0.0:8080", "http://127.0.0.1:8080"),
            ("gpu.example.org:80", "http://gpu.example.org:80"),
            ("https://ollama.example.org", "https://ollama.example.org"),
        ] {
            assert_eq!(ollama_url(host), url);
        }
    }
}
