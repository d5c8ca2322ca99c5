//! `harvest gc`: makes room in the data directory, and the sweep that `harvest up` does now and then.

use std::collections::BTreeMap;
use std::time::Duration;

use harvest_engine::{Collected, Kind, Retention};
use serde_json::json;

use crate::cli::{Gc, Global};
use crate::config::Key;
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::view::{Style, clean};

const KEEP: Duration = Duration::from_secs(30 * 24 * 60 * 60);

pub async fn gc(global: &Global, environment: Environment, options: &Gc) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    let installation = Installation::open(global, environment).await?;
    let settings = installation.settings()?;
    let retention = Retention {
        older_than: options.older_than.or(settings.time(Key::Keep)).unwrap_or(KEEP),
        most_bytes: settings.size(Key::KeepSize),
        unpublished: options.unpublished,
        dry_run: options.dry_run,
    };
    if !options.dry_run {
        let target = format!("data:{}", installation.data.path().display());
        harvest_store::record_now(installation.store.as_ref(), &target).await?;
    }
    let collected = retention.collect(&installation.data, &installation.store, installation.clock.as_ref()).await?;
    let _ = if global.json {
        output::json(&json!({
            "dry_run": options.dry_run,
            "bytes": collected.bytes(),
            "removed": collected.removed,
            "unpublished": collected.unpublished,
            "failed": collected.failed,
        }))
    } else {
        output::line(&page(style, &collected, options.dry_run))
    };
    Ok(if collected.failed.is_empty() { Exit::Done } else { Exit::Failed })
}

/// The same for `harvest up`: by age and size, as the settings say. What cannot be removed now is no reason not to work.
pub async fn sweep(installation: &Installation) {
    let Ok(settings) = installation.settings() else { return };
    let retention = Retention {
        older_than: settings.time(Key::Keep).unwrap_or(KEEP),
        most_bytes: settings.size(Key::KeepSize),
        unpublished: false,
        dry_run: false,
    };
    match retention.collect(&installation.data, &installation.store, installation.clock.as_ref()).await {
        Ok(collected) => {
            for failed in &collected.failed {
                tracing::warn!(%failed, "something old could not be removed");
            }
        }
        Err(error) => tracing::warn!(%error, "what is old could not be looked for"),
    }
}

fn page(style: Style, collected: &Collected, dry_run: bool) -> String {
    let mut lines = Vec::new();
    let mut kinds: BTreeMap<Kind, (usize, u64)> = BTreeMap::new();
    for item in &collected.removed {
        let (count, bytes) = kinds.entry(item.kind).or_default();
        *count += 1;
        *bytes += item.bytes;
        if dry_run {
            lines.push(style.dim(&format!("  {} {} {}", item.kind.as_str(), item.path.display(), amount(item.bytes))));
        }
    }
    for failed in &collected.failed {
        lines.push(format!("{} {}", style.failed(), clean(failed)));
    }
    let parts: Vec<String> = kinds.iter().map(|(kind, (count, _))| plural(*count, kind.as_str())).collect();
    let verb = if dry_run { "would remove" } else { "removed" };
    lines.push(match parts.is_empty() {
        true => format!("{} nothing to remove", style.ok()),
        false => format!("{} {verb} {} {} {}", style.ok(), parts.join(", "), style.dot(), amount(collected.bytes())),
    });
    if collected.unpublished > 0 {
        lines.push(style.dim(&match collected.unpublished {
            1 => "1 session kept: its branch exists nowhere else (--unpublished removes it too)".to_owned(),
            kept => format!("{kept} sessions kept: their branches exist nowhere else (--unpublished removes them too)"),
        }));
    }
    lines.join("\n")
}

/// `1 file`, `2 files`.
pub fn plural(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

pub fn amount(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_readable() {
        assert_eq!(amount(0), "0 bytes");
        assert_eq!(amount(1536), "1.5 KiB");
        assert_eq!(amount(3 << 30), "3.0 GiB");
    }
}
