//! What models cost: a table as data, with its date and sources, that a file of the user's can override row by row.
//!
//! A model that no row fits is priced as the dearest known one, so that a budget holds, and marked as estimated.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use harvest_core::{Cost, Price, Usage};
use serde::Deserialize;

const EMBEDDED: &str = include_str!("prices.toml");
/// Many distinct unknown names would otherwise grow the set of those already warned about.
const MAX_WARNED: usize = 1000;
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Prices by model name; the longest row name that is the model's name or a prefix of it up to a `-`, `:` or `@` counts. A
/// row `*` is for every model that no other fits.
#[derive(Debug)]
pub struct Prices {
    vendors: BTreeMap<String, Vendor>,
    warned: Mutex<BTreeSet<String>>,
}

#[derive(Debug, thiserror::Error)]
pub enum PricesError {
    #[error("the price table {} cannot be read", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the price table {} is not valid: {reason}", path.display())]
    Invalid { path: PathBuf, reason: String },
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Vendor {
    #[expect(dead_code, reason = "for the reader of the table")]
    as_of: String,
    #[expect(dead_code, reason = "for the reader of the table")]
    source: String,
    models: BTreeMap<String, Row>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    input_per_mtok: f64,
    output_per_mtok: f64,
    cache_read_per_mtok: Option<f64>,
    cache_write_per_mtok: Option<f64>,
    /// For entries kept an hour instead of five minutes.
    cache_write_1h_per_mtok: Option<f64>,
}

impl Default for Prices {
    fn default() -> Self {
        Self::embedded()
    }
}

impl Prices {
    /// The table that Harvest is built with.
    pub fn embedded() -> Self {
        let vendors = toml::from_str(EMBEDDED).unwrap_or_default();
        Self { vendors, warned: Mutex::default() }
    }

    /// The embedded table with the rows of `file` added or put in place of its own. Blocks on the file.
    pub fn load(file: &Path) -> Result<Self, PricesError> {
        use std::io::Read;
        let unreadable = |source| PricesError::Unreadable { path: file.to_owned(), source };
        let mut text = String::new();
        let opened = std::fs::File::open(file).map_err(unreadable)?;
        opened.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(unreadable)?;
        let mut prices = Self::embedded();
        prices.add(&text).map_err(|reason| PricesError::Invalid { path: file.to_owned(), reason })?;
        Ok(prices)
    }

    fn add(&mut self, text: &str) -> Result<(), String> {
        let added: BTreeMap<String, Vendor> = toml::from_str(text).map_err(|error| error.to_string())?;
        for (name, vendor) in added {
            for (model, row) in &vendor.models {
                if row.all().any(|price| !(price.is_finite() && price >= 0.0)) {
                    return Err(format!("{name}.models.{model}: a price is zero or more dollars per million tokens"));
                }
            }
            match self.vendors.get_mut(&name) {
                Some(known) => known.models.extend(vendor.models),
                None => _ = self.vendors.insert(name, vendor),
            }
        }
        Ok(())
    }

    /// The cost of a call, and whether the price is a guess. `cache_write_1h` of the usage's written tokens are kept for
    /// an hour.
    pub(crate) fn cost(&self, vendor: &str, model: &str, usage: &Usage, cache_write_1h: u64) -> (Cost, bool) {
        match self.find(vendor, model) {
            Some(row) => (row.of(usage, cache_write_1h), false),
            None => {
                self.warn_once(vendor, model);
                (self.dearest(vendor).of(usage, cache_write_1h), true)
            }
        }
    }

    fn find(&self, vendor: &str, model: &str) -> Option<Row> {
        // Hosts that resell write `vendor/model`.
        let model = model.rsplit('/').next().unwrap_or(model);
        let fits = |name: &str| {
            model.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', ':', '@']))
        };
        let models = &self.vendors.get(vendor)?.models;
        let named = models.iter().filter(|(name, _)| fits(name)).max_by_key(|(name, _)| name.len());
        named.map(|(_, row)| *row).or_else(|| models.get("*").copied())
    }

    fn dearest(&self, vendor: &str) -> Row {
        let rows = |vendors: &mut dyn Iterator<Item = &Vendor>| {
            vendors.flat_map(|vendor| vendor.models.values().copied()).max_by(|a, b| {
                (a.input_per_mtok + a.output_per_mtok).total_cmp(&(b.input_per_mtok + b.output_per_mtok))
            })
        };
        rows(&mut self.vendors.get(vendor).into_iter()).or_else(|| rows(&mut self.vendors.values())).unwrap_or(Row {
            input_per_mtok: 30.0,
            output_per_mtok: 180.0,
            cache_read_per_mtok: None,
            cache_write_per_mtok: None,
            cache_write_1h_per_mtok: None,
        })
    }

    fn warn_once(&self, vendor: &str, model: &str) {
        let Ok(mut warned) = self.warned.lock() else { return };
        if warned.len() < MAX_WARNED && warned.insert(format!("{vendor}/{model}")) {
            tracing::warn!(vendor, model, "no price is known for this model; it is counted as the dearest known one");
        }
    }
}

impl Row {
    fn all(&self) -> impl Iterator<Item = f64> {
        let required = [self.input_per_mtok, self.output_per_mtok];
        let optional = [self.cache_read_per_mtok, self.cache_write_per_mtok, self.cache_write_1h_per_mtok];
        required.into_iter().chain(optional.into_iter().flatten())
    }

    fn price(&self) -> Price {
        Price {
            input_per_mtok: self.input_per_mtok,
            output_per_mtok: self.output_per_mtok,
            cache_read_per_mtok: self.cache_read_per_mtok,
            cache_write_per_mtok: self.cache_write_per_mtok,
        }
    }

    fn of(&self, usage: &Usage, cache_write_1h: u64) -> Cost {
        let Some(for_an_hour) = self.cache_write_1h_per_mtok else { return self.price().of(usage) };
        let hour = cache_write_1h.min(usage.cache_write_tokens);
        let rest = Usage { cache_write_tokens: usage.cache_write_tokens - hour, ..*usage };
        let hour_price = Price { cache_write_per_mtok: Some(for_an_hour), ..self.price() };
        self.price().of(&rest) + hour_price.of(&Usage { cache_write_tokens: hour, ..Usage::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLION_IN: Usage = Usage {
        input_tokens: 1_000_000,
        output_tokens: 0,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
    };

    fn dollars(prices: &Prices, vendor: &str, model: &str) -> (f64, bool) {
        let (cost, estimated) = prices.cost(vendor, model, &MILLION_IN, 0);
        (cost.dollars(), estimated)
    }

    #[test]
    fn the_embedded_table_is_valid_and_has_every_vendor() {
        let vendors: BTreeMap<String, Vendor> = toml::from_str(EMBEDDED).unwrap();
        assert_eq!(vendors.keys().collect::<Vec<_>>(), ["anthropic", "gemini", "ollama", "openai"]);
        assert!(Prices::embedded().add(EMBEDDED).is_ok(), "its prices pass the checks of a user's file");
    }

    #[test]
    fn the_longest_fitting_row_counts() {
        let prices = Prices::embedded();
        assert_eq!(dollars(&prices, "anthropic", "claude-sonnet-4-5-20250929"), (3.0, false));
        assert_eq!(dollars(&prices, "anthropic", "claude-opus-4-1-20250805"), (15.0, false));
        assert_eq!(dollars(&prices, "anthropic", "claude-opus-4-5"), (5.0, false));
        assert_eq!(dollars(&prices, "openai", "gpt-4o-mini-2024-07-18"), (0.15, false));
        assert_eq!(dollars(&prices, "openai", "openai/gpt-4o"), (2.5, false));
        assert_eq!(dollars(&prices, "gemini", "gemini-2.5-flash-lite-preview-09-2025"), (0.1, false));
    }

    #[test]
    fn a_row_for_all_others() {
        let mut prices = Prices::embedded();
        assert_eq!(dollars(&prices, "ollama", "qwen3:8b"), (0.0, false));
        let dearer = "[ollama]\nas_of = \"\"\nsource = \"\"\n[ollama.models.qwen3]\ninput_per_mtok = 1.0\noutput_per_mtok = 1.0\n";
        prices.add(dearer).unwrap();
        assert_eq!(dollars(&prices, "ollama", "qwen3:8b"), (1.0, false));
        assert_eq!(dollars(&prices, "ollama", "gemma3"), (0.0, false));
    }

    #[test]
    fn a_name_must_fit_up_to_a_border() {
        let prices = Prices::embedded();
        let (_, estimated) = dollars(&prices, "openai", "gpt-4omega");
        assert!(estimated);
    }

    #[test]
    fn an_unknown_model_costs_as_much_as_the_dearest_of_its_vendor() {
        let prices = Prices::embedded();
        assert_eq!(dollars(&prices, "anthropic", "claude-unheard-of"), (15.0, true));
        let (nowhere, estimated) = dollars(&prices, "nowhere", "x");
        assert!(estimated && nowhere >= 15.0);
    }

    #[test]
    fn an_hour_of_cache_costs_more_than_five_minutes() {
        let usage = Usage { cache_write_tokens: 1_000_000, ..Usage::default() };
        let cost = |hour| Prices::embedded().cost("anthropic", "claude-sonnet-4-5", &usage, hour).0.dollars();
        assert_eq!((cost(0), cost(1_000_000), cost(500_000)), (3.75, 6.0, 4.875));
    }

    #[test]
    fn a_file_overrides_row_by_row_and_is_checked() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("prices.toml");
        let table = |price: &str| {
            format!(
                "[openai]\nas_of = \"today\"\nsource = \"contract\"\n[openai.models.gpt-4o]\ninput_per_mtok = {price}\noutput_per_mtok = 1.0\n"
            )
        };
        std::fs::write(&file, table("1.0")).unwrap();
        let prices = Prices::load(&file).unwrap();
        assert_eq!(dollars(&prices, "openai", "gpt-4o"), (1.0, false));
        assert_eq!(dollars(&prices, "openai", "gpt-4.1"), (2.0, false), "the other rows stay");
        std::fs::write(&file, table("-1.0")).unwrap();
        let refused = Prices::load(&file).unwrap_err().to_string();
        assert!(refused.contains("openai.models.gpt-4o"), "{refused}");
    }
}
