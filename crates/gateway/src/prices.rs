//! What models cost: a table as data, with its date and sources, that a file of the user's can override row by row.
//!
//! A request for a model, a service tier or a server tool that has no price is refused before it goes out. An answer of
//! another model than was asked for is priced as the one that was asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use harvest_core::{Cost, Price, Usage};
use serde::Deserialize;

const EMBEDDED: &str = include_str!("prices.toml");
/// Many distinct unknown names would otherwise grow the set of those already warned about.
const MAX_WARNED: usize = 1000;
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Prices by model name. A row is for the model of its name and for the dated and `latest` releases of it; a variant of the
/// model (`-image`, `-audio`, `-32k`, `:cloud`) needs a row of its own. A row `*` is for every model whose name begins with that
/// of no other row.
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
    /// Dollars for one use of a server tool, beside the tokens.
    #[serde(default)]
    fees: BTreeMap<String, f64>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    input_per_mtok: f64,
    output_per_mtok: f64,
    cache_read_per_mtok: Option<f64>,
    cache_write_per_mtok: Option<f64>,
    /// For entries kept an hour instead of five minutes.
    cache_write_1h_per_mtok: Option<f64>,
    /// For sound. The whole input of a request that has sound in it is counted at this price.
    audio_input_per_mtok: Option<f64>,
    /// Rates of requests whose whole input is longer than a limit.
    long_context: Option<LongContext>,
    /// Rates of other service tiers than the ordinary one, by the names that requests have for them.
    #[serde(default)]
    tiers: BTreeMap<String, Rates>,
}

/// Dollars per million tokens of one kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rates {
    input_per_mtok: f64,
    output_per_mtok: f64,
    cache_read_per_mtok: Option<f64>,
    cache_write_per_mtok: Option<f64>,
    cache_write_1h_per_mtok: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct LongContext {
    above_tokens: u64,
    input_per_mtok: f64,
    output_per_mtok: f64,
    cache_read_per_mtok: Option<f64>,
    cache_write_per_mtok: Option<f64>,
    cache_write_1h_per_mtok: Option<f64>,
}

/// What a request asks for that decides on its price, beside its tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Terms {
    /// `None`: the ordinary tier.
    pub(crate) tier: Option<String>,
    /// Server tools that the request offers to the model, by the names of their fees.
    pub(crate) tools: Vec<&'static str>,
    /// The most uses of them that the request allows.
    pub(crate) most_uses: Option<u64>,
    pub(crate) input: Input,
}

/// The kinds of input that have prices of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Input {
    #[default]
    Silent,
    /// Sound, or what may have sound in it.
    WithAudio,
}

/// Something that a request asks for and the table has no price for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unpriced {
    Model,
    Tier(String),
    Tool(&'static str),
    Audio,
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
            for (tool, fee) in &vendor.fees {
                if !(fee.is_finite() && *fee >= 0.0) {
                    return Err(format!("{name}.fees.{tool}: a fee is zero or more dollars for one use"));
                }
            }
            match self.vendors.get_mut(&name) {
                Some(known) => {
                    known.models.extend(vendor.models);
                    known.fees.extend(vendor.fees);
                }
                None => _ = self.vendors.insert(name, vendor),
            }
        }
        Ok(())
    }

    /// The first thing that `terms` ask of this model and that has no price.
    pub(crate) fn unpriced(&self, vendor: &str, model: &str, terms: &Terms) -> Option<Unpriced> {
        let Some(row) = self.find(vendor, model) else { return Some(Unpriced::Model) };
        if let Some(tier) = terms.tier.as_ref().filter(|tier| !row.tiers.contains_key(*tier)) {
            return Some(Unpriced::Tier(tier.clone()));
        }
        if terms.input == Input::WithAudio && row.audio_factor().is_none() {
            return Some(Unpriced::Audio);
        }
        let fees = &self.vendors.get(vendor)?.fees;
        terms.tools.iter().find(|tool| !fees.contains_key(**tool)).map(|tool| Unpriced::Tool(tool))
    }

    /// The fee for one use of a server tool.
    pub(crate) fn fee(&self, vendor: &str, tool: &str) -> Cost {
        let fee = self.vendors.get(vendor).and_then(|vendor| vendor.fees.get(tool)).copied().unwrap_or_default();
        Cost::from_dollars(fee).unwrap_or_default()
    }

    /// The cost of a call's tokens, and whether the price is a guess. `cache_write_1h` of the usage's written tokens are kept
    /// for an hour.
    pub(crate) fn cost(
        &self,
        vendor: &str,
        model: &str,
        tier: Option<&str>,
        usage: &Usage,
        cache_write_1h: u64,
        input: Input,
    ) -> (Cost, bool) {
        let (cost, is_guess) = self.silent_cost(vendor, model, tier, usage, cache_write_1h);
        if input == Input::Silent {
            return (cost, is_guess);
        }
        // Sound costs a multiple of what other input does, at every rate of a model.
        let factor = self.find(vendor, model).and_then(Row::audio_factor);
        let dearest = || {
            let rows = self.vendors.get(vendor).into_iter().flat_map(|vendor| vendor.models.values());
            rows.filter_map(Row::audio_factor).fold(1.0, f64::max)
        };
        let output = Usage { output_tokens: usage.output_tokens, ..Usage::default() };
        let (output, _) = self.silent_cost(vendor, model, tier, &output, 0);
        let heard = (cost.dollars() - output.dollars()).max(0.0) * factor.unwrap_or_else(dearest);
        (output + Cost::from_dollars(heard).unwrap_or(cost), is_guess || factor.is_none())
    }

    fn silent_cost(
        &self,
        vendor: &str,
        model: &str,
        tier: Option<&str>,
        usage: &Usage,
        cache_write_1h: u64,
    ) -> (Cost, bool) {
        match self.find(vendor, model) {
            Some(row) => match tier.map(|tier| row.tiers.get(tier)) {
                Some(Some(rates)) if row.is_long(usage) => {
                    (rates.of(usage, cache_write_1h).max(row.of(usage, cache_write_1h)), false)
                }
                Some(Some(rates)) => (rates.of(usage, cache_write_1h), false),
                // A tier that the vendor chose by itself: the dearest one known for this model.
                Some(None) => (row.dearest_of(usage, cache_write_1h), true),
                None => (row.of(usage, cache_write_1h), false),
            },
            None => {
                self.warn_once(vendor, model);
                (self.dearest(vendor).of(usage, cache_write_1h), true)
            }
        }
    }

    pub(crate) fn knows(&self, vendor: &str, model: &str) -> bool {
        self.find(vendor, model).is_some()
    }

    fn find(&self, vendor: &str, model: &str) -> Option<&Row> {
        // Hosts that resell write `vendor/model`.
        let model = model.rsplit('/').next().unwrap_or(model);
        let models = &self.vendors.get(vendor)?.models;
        if let Some(row) = models.get(model).filter(|_| model != "*") {
            return Some(row);
        }
        let rest_after = |name: &str| model.strip_prefix(name).filter(|rest| rest.starts_with(['-', ':', '@']));
        let mut variant_of = models.iter().filter_map(|(name, row)| Some((name, row, rest_after(name)?))).peekable();
        if variant_of.peek().is_none() {
            // What is worked out elsewhere is not the hardware that a price for every model was meant for.
            return models.get("*").filter(|_| !model.ends_with("cloud"));
        }
        let released = variant_of.filter(|(_, _, rest)| is_release(rest));
        released.max_by_key(|(name, ..)| name.len()).map(|(_, row, _)| row)
    }

    fn dearest(&self, vendor: &str) -> Rates {
        let rows = |vendors: &mut dyn Iterator<Item = &Vendor>| {
            vendors.flat_map(|vendor| vendor.models.values().map(Row::rates)).max_by(|a, b| {
                (a.input_per_mtok + a.output_per_mtok).total_cmp(&(b.input_per_mtok + b.output_per_mtok))
            })
        };
        rows(&mut self.vendors.get(vendor).into_iter()).or_else(|| rows(&mut self.vendors.values())).unwrap_or(Rates {
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
            tracing::warn!(vendor, model, "no price is known for this model; the highest known price is used");
        }
    }
}

/// Whether the end of a model's name only says which release of it is meant: a date, or the latest one.
fn is_release(rest: &str) -> bool {
    if matches!(rest, "-latest" | ":latest" | "@latest") {
        return true;
    }
    let Some(date) = rest.strip_prefix(['-', '@']) else { return false };
    let number = |text: &str, digits: usize| {
        let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u32>().ok()).flatten()
    };
    let year = |text: &str| number(text, 4).is_some_and(|year| (2020..2100).contains(&year));
    let month = |text: &str| number(text, 2).is_some_and(|month| (1..=12).contains(&month));
    let day = |text: &str| number(text, 2).is_some_and(|day| (1..=31).contains(&day));
    let parts: Vec<&str> = date.split('-').collect();
    match parts.as_slice() {
        [y, m, d] => year(y) && month(m) && day(d),
        [m, y] => month(m) && year(y),
        [date] => match (date.get(..4), date.get(4..6), date.get(6..)) {
            (Some(y), Some(m), Some(d)) => year(y) && month(m) && day(d),
            _ => false,
        },
        _ => false,
    }
}

impl Row {
    fn all(&self) -> impl Iterator<Item = f64> {
        let long = self.long_context.as_ref().map(LongContext::rates);
        let rates: Vec<Rates> = std::iter::once(self.rates()).chain(long).chain(self.tiers.values().copied()).collect();
        rates.into_iter().flat_map(Rates::all).chain(self.audio_input_per_mtok)
    }

    fn rates(&self) -> Rates {
        Rates {
            input_per_mtok: self.input_per_mtok,
            output_per_mtok: self.output_per_mtok,
            cache_read_per_mtok: self.cache_read_per_mtok,
            cache_write_per_mtok: self.cache_write_per_mtok,
            cache_write_1h_per_mtok: self.cache_write_1h_per_mtok,
        }
    }

    /// How much dearer sound is than other input; `None` where the table does not say. What costs nothing needs no other price.
    fn audio_factor(&self) -> Option<f64> {
        if self.input_per_mtok == 0.0 {
            return Some(1.0).filter(|_| self.audio_input_per_mtok.unwrap_or(0.0) == 0.0);
        }
        Some((self.audio_input_per_mtok? / self.input_per_mtok).max(1.0))
    }

    /// Whether the request pays the rates of long ones.
    fn is_long(&self, usage: &Usage) -> bool {
        let input = usage.input_tokens.saturating_add(usage.cache_read_tokens).saturating_add(usage.cache_write_tokens);
        self.long_context.is_some_and(|long| input > long.above_tokens)
    }

    fn of(&self, usage: &Usage, cache_write_1h: u64) -> Cost {
        let long = self.long_context.filter(|_| self.is_long(usage));
        long.map_or(self.rates(), |long| long.rates()).of(usage, cache_write_1h)
    }

    fn dearest_of(&self, usage: &Usage, cache_write_1h: u64) -> Cost {
        let ordinary = self.of(usage, cache_write_1h);
        self.tiers.values().map(|rates| rates.of(usage, cache_write_1h)).fold(ordinary, Cost::max)
    }
}

impl LongContext {
    fn rates(&self) -> Rates {
        Rates {
            input_per_mtok: self.input_per_mtok,
            output_per_mtok: self.output_per_mtok,
            cache_read_per_mtok: self.cache_read_per_mtok,
            cache_write_per_mtok: self.cache_write_per_mtok,
            cache_write_1h_per_mtok: self.cache_write_1h_per_mtok,
        }
    }
}

impl Rates {
    fn all(self) -> impl Iterator<Item = f64> {
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
        let (cost, estimated) = prices.cost(vendor, model, None, &MILLION_IN, 0, Input::Silent);
        (cost.dollars(), estimated)
    }

    #[test]
    fn the_embedded_table_is_valid_and_has_every_vendor() {
        let vendors: BTreeMap<String, Vendor> = toml::from_str(EMBEDDED).unwrap();
        assert_eq!(vendors.keys().collect::<Vec<_>>(), ["anthropic", "gemini", "ollama", "openai"]);
        assert!(Prices::embedded().add(EMBEDDED).is_ok(), "its prices pass the checks of a user's file");
    }

    #[test]
    fn a_row_is_for_a_model_and_its_dated_releases() {
        let prices = Prices::embedded();
        assert_eq!(dollars(&prices, "anthropic", "claude-sonnet-4-6-20260219"), (3.0, false));
        assert_eq!(dollars(&prices, "anthropic", "claude-opus-4-1-20250805"), (15.0, false));
        assert_eq!(dollars(&prices, "anthropic", "claude-opus-4-5"), (5.0, false));
        assert_eq!(dollars(&prices, "openai", "gpt-4o-mini-2024-07-18"), (0.15, false));
        assert_eq!(dollars(&prices, "openai", "openai/gpt-4o"), (2.5, false));
        assert_eq!(dollars(&prices, "gemini", "gemini-2.5-flash-lite-preview-09-2025"), (0.1, false));
    }

    #[test]
    fn sound_has_a_price_of_its_own_or_none() {
        let prices = Prices::embedded();
        let terms = Terms { input: Input::WithAudio, ..Terms::default() };
        let heard = |model: &str, usage: &Usage| prices.cost("gemini", model, None, usage, 0, Input::WithAudio);
        assert_eq!(prices.unpriced("gemini", "gemini-2.5-flash", &terms), None);
        let (cost, is_guess) = heard("gemini-2.5-flash", &MILLION_IN);
        assert!((cost.dollars() - 1.0).abs() < 1e-6 && !is_guess, "{cost:?}");
        let million_out = Usage { output_tokens: 1_000_000, input_tokens: 0, ..MILLION_IN };
        assert!((heard("gemini-2.5-flash", &million_out).0.dollars() - 2.5).abs() < 1e-6, "the answer is no sound");
        let million_kept = Usage { cache_read_tokens: 1_000_000, input_tokens: 0, ..MILLION_IN };
        assert!((heard("gemini-2.5-flash", &million_kept).0.dollars() - 0.1).abs() < 1e-6);
        assert!((heard("gemini-2.5-pro", &MILLION_IN).0.dollars() - 2.5).abs() < 1e-6, "all input costs the same");
        for (vendor, model) in [("gemini", "gemini-3.8-flash"), ("openai", "gpt-4o")] {
            assert_eq!(prices.unpriced(vendor, model, &terms), Some(Unpriced::Audio), "{model}");
            assert_eq!(prices.unpriced(vendor, model, &Terms::default()), None, "{model}");
        }
        assert_eq!(prices.unpriced("ollama", "qwen3:8b", &terms), None, "what costs nothing needs no price");
        for model in ["gpt-oss:120b-cloud", "kimi-k2:cloud"] {
            assert!(prices.unpriced("ollama", model, &terms).is_some(), "{model}");
        }
        let (guessed, is_guess) = heard("gemini-3.8-flash", &MILLION_IN);
        assert!(is_guess && guessed > prices.cost("gemini", "gemini-3.8-flash", None, &MILLION_IN, 0, Input::Silent).0);
    }

    #[test]
    fn a_row_for_all_others() {
        let mut prices = Prices::embedded();
        assert_eq!(dollars(&prices, "ollama", "qwen3:8b"), (0.0, false));
        let dearer = "[ollama]\nas_of = \"\"\nsource = \"\"\n[ollama.models.qwen3]\ninput_per_mtok = 1.0\noutput_per_mtok = 1.0\n";
        prices.add(dearer).unwrap();
        assert_eq!(dollars(&prices, "ollama", "qwen3"), (1.0, false));
        assert_eq!(dollars(&prices, "ollama", "qwen3:latest"), (1.0, false));
        assert_eq!(dollars(&prices, "ollama", "gemma3"), (0.0, false));
        let unpriced = prices.unpriced("ollama", "qwen3:480b-cloud", &Terms::default());
        assert_eq!(unpriced, Some(Unpriced::Model), "a variant of a priced model is not one of all others");
    }

    #[test]
    fn a_variant_of_a_model_does_not_have_the_price_of_the_model() {
        let prices = Prices::embedded();
        for (vendor, model) in [
            ("openai", "gpt-4omega"),
            ("openai", "gpt-4-32k"),
            ("openai", "gpt-4-32k-0613"),
            ("openai", "gpt-4o-audio-preview-2024-12-17"),
            ("openai", "gpt-4o-realtime-preview"),
            ("openai", "gpt-5-image"),
            ("openai", "gpt-5.4-pro"),
            ("openai", "gpt-4o:extended"),
            ("openai", "gpt-4o-99991399"),
            ("openai", "gpt-4o-2024-13-01"),
            ("openai", "*"),
            ("gemini", "gemini-2.5-flash-image"),
            ("gemini", "gemini-3-pro-image-preview"),
            ("gemini", "gemini-2.5-flash-native-audio-preview-09-2025"),
            ("gemini", "gemini-2.5-flash-preview-tts"),
            ("anthropic", "claude-opus-4-1-fast"),
        ] {
            assert_eq!(prices.unpriced(vendor, model, &Terms::default()), Some(Unpriced::Model), "{model}");
        }
        for (vendor, model, price) in [
            ("openai", "gpt-4o-2024-08-06", 2.5),
            ("openai", "gpt-4o-2024-05-13", 5.0),
            ("openai", "codex-mini-latest", 1.5),
            ("openai", "gpt-5-codex", 1.25),
            ("gemini", "gemini-3-pro-preview", 4.0),
            ("gemini", "gemini-pro-latest", 4.0),
            ("anthropic", "claude-opus-4-5@20251101", 5.0),
            ("anthropic", "claude-3-5-haiku-latest", 0.8),
            ("anthropic", "claude-opus-4-0", 15.0),
        ] {
            assert_eq!(dollars(&prices, vendor, model), (price, false), "{model}");
        }
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
        let cost = |hour| {
            Prices::embedded().cost("anthropic", "claude-sonnet-4-6", None, &usage, hour, Input::Silent).0.dollars()
        };
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

    #[test]
    fn a_long_context_costs_its_own_rate_and_all_of_it() {
        let prices = Prices::embedded();
        let cost =
            |model: &str, usage: Usage| prices.cost("anthropic", model, None, &usage, 0, Input::Silent).0.dollars();
        let short = Usage { input_tokens: 200_000, output_tokens: 1000, ..Usage::default() };
        let long = Usage { input_tokens: 100_000, cache_read_tokens: 100_001, output_tokens: 1000, ..Usage::default() };
        assert_eq!(cost("claude-sonnet-4-5", short), 0.615);
        assert!((cost("claude-sonnet-4-5", long) - (0.6 + 0.060_000_6 + 0.0225)).abs() < 1e-9);
        assert_eq!(cost("claude-sonnet-5", Usage { input_tokens: 900_000, ..Usage::default() }), 1.8);
        let terra = Usage { input_tokens: 300_000, ..Usage::default() };
        assert_eq!(prices.cost("openai", "gpt-5.4", None, &terra, 0, Input::Silent).0.dollars(), 1.5);
    }

    #[test]
    fn tiers_and_fees_have_prices_or_are_named_as_lacking_one() {
        let mut prices = Prices::embedded();
        let tier = |name: &str| Terms { tier: Some(name.to_owned()), ..Terms::default() };
        let search = Terms { tools: vec!["web_search"], ..Terms::default() };
        assert_eq!(prices.unpriced("openai", "gpt-5", &tier("priority")), None);
        assert_eq!(prices.unpriced("openai", "gpt-5", &tier("flex")), Some(Unpriced::Tier("flex".into())));
        assert_eq!(prices.unpriced("openai", "nobody", &Terms::default()), Some(Unpriced::Model));
        assert_eq!(prices.unpriced("anthropic", "claude-sonnet-5", &search), Some(Unpriced::Tool("web_search")));
        let priced = "[anthropic]\nas_of = \"\"\nsource = \"\"\n[anthropic.fees]\nweb_search = 0\n[anthropic.models]\n";
        prices.add(&priced.replace("= 0\n", "= 0.0\n")).unwrap();
        assert_eq!(prices.unpriced("anthropic", "claude-sonnet-5", &search), None, "0 is a price");
        assert_eq!(prices.cost("openai", "gpt-5", Some("priority"), &MILLION_IN, 0, Input::Silent).0.dollars(), 2.5);
        let odd = prices.cost("openai", "gpt-5", Some("unheard-of"), &MILLION_IN, 0, Input::Silent);
        assert_eq!((odd.0.dollars(), odd.1), (2.5, true), "a tier that was not asked for costs as the dearest known");
    }
}
