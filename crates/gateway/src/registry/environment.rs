//! What package managers in a sandbox are told, so that they use the gateway without any configuration of a repository.

use std::path::Path;

use super::PREFIX;

/// Variables, and files below the home folder, for every process in a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    pub env: Vec<(String, String)>,
    /// Paths relative to the home folder.
    pub files: Vec<(String, String)>,
}

impl Environment {
    /// Also sends everything else through the proxy; for sessions that may reach anything at all.
    #[must_use]
    pub fn with_proxy(mut self, base_url: &str) -> Self {
        const AROUND: &str = "127.0.0.1,localhost";
        for (name, value) in [("http_proxy", base_url), ("https_proxy", base_url), ("no_proxy", AROUND)] {
            self.env.push((name.to_owned(), value.to_owned()));
            self.env.push((name.to_ascii_uppercase(), value.to_owned()));
        }
        // Node reads these since version 24; before, its programs bring their own support or none.
        self.env.push(("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned()));
        self
    }
}

/// For a gateway that is reached at `base_url` (`http://127.0.0.1:4321`) by processes whose home is `home`.
pub fn environment(base_url: &str, home: &Path) -> Environment {
    let base = base_url.trim_end_matches('/');
    let at = |name: &str| format!("{base}{PREFIX}{name}");
    let host = base.split_once("://").map_or(base, |(_, host)| host);
    let host = host.split(':').next().unwrap_or(host);
    let (npm, pypi, go) = (at("npm/"), at("pypi/simple/"), at("go"));
    let in_home = |path: &str| home.join(path).display().to_string();
    let env = [
        // npm and pnpm; yarn 1 reads npm's too.
        ("npm_config_registry", npm.clone()),
        ("npm_config_replace_registry_host", "npmjs".to_owned()),
        ("npm_config_audit", "false".to_owned()),
        ("npm_config_fund", "false".to_owned()),
        ("npm_config_update_notifier", "false".to_owned()),
        ("COREPACK_NPM_REGISTRY", npm.trim_end_matches('/').to_owned()),
        ("COREPACK_ENABLE_DOWNLOAD_PROMPT", "0".to_owned()),
        ("YARN_NPM_REGISTRY_SERVER", npm.trim_end_matches('/').to_owned()),
        ("YARN_UNSAFE_HTTP_WHITELIST", host.to_owned()),
        ("YARN_ENABLE_TELEMETRY", "0".to_owned()),
        ("BUN_CONFIG_REGISTRY", npm),
        // pip, uv, pdm; poetry with its mirror plugin.
        ("PIP_INDEX_URL", pypi.clone()),
        ("PIP_TRUSTED_HOST", host.to_owned()),
        ("PIP_DISABLE_PIP_VERSION_CHECK", "1".to_owned()),
        ("UV_DEFAULT_INDEX", pypi.clone()),
        ("UV_INDEX_URL", pypi.clone()),
        ("UV_INSECURE_HOST", host.to_owned()),
        ("PDM_PYPI_URL", pypi.clone()),
        ("POETRY_PYPI_MIRROR_URL", pypi),
        // Modules come from the gateway alone; their hashes are checked against the checksum database through it.
        ("GOPROXY", go),
        ("GOSUMDB", "sum.golang.org".to_owned()),
        ("GOTOOLCHAIN", "local".to_owned()),
        ("COMPOSER_HOME", in_home(".composer")),
        ("BUNDLE_USER_CONFIG", in_home(".bundle/config")),
    ];
    let files = [
        (
            ".cargo/config.toml",
            format!(
                "[source.crates-io]\nreplace-with = \"harvest\"\n\n[source.harvest]\nregistry = \"sparse+{}\"\n",
                at("cargo/")
            ),
        ),
        (
            ".m2/settings.xml",
            format!(
                "<settings>\n  <mirrors>\n    <mirror>\n      <id>harvest</id>\n      <mirrorOf>central</mirrorOf>\n      \
                 <url>{}</url>\n    </mirror>\n  </mirrors>\n</settings>\n",
                at("maven")
            ),
        ),
        (".bundle/config", format!("---\nBUNDLE_MIRROR__HTTPS://RUBYGEMS__ORG/: \"{}\"\n", at("rubygems/"))),
        (".gemrc", format!("---\n:sources:\n- {}\n", at("rubygems/"))),
        (
            ".composer/config.json",
            format!(
                "{{\n  \"config\": {{ \"secure-http\": false }},\n  \"repositories\": [\n    {{ \"type\": \"composer\", \"url\": \
                 \"{}\" }},\n    {{ \"packagist.org\": false }}\n  ]\n}}\n",
                at("packagist")
            ),
        ),
    ];
    let owned = |(name, value): (&str, String)| (name.to_owned(), value);
    Environment { env: env.into_iter().map(owned).collect(), files: files.into_iter().map(owned).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_manager_is_sent_to_the_gateway() {
        let base = "http://127.0.0.1:4321";
        let made = environment(base, Path::new("/home/agent")).with_proxy(base);
        let lines = made.env.iter().map(|(name, value)| format!("{name}={value}"));
        let files = made.files.iter().map(|(path, content)| format!("\n~/{path}\n{content}"));
        insta::assert_snapshot!(lines.chain(files).collect::<Vec<_>>().join("\n"));
    }
}
