//! Tokens and money. Money is counted in whole nano-dollars, so that sums are exact however many calls they add up.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub type TokenCount = u64;

const NANOS_PER_DOLLAR: f64 = 1e9;
const NANOS_PER_CENT: u64 = 10_000_000;

/// An amount of US dollars, exact to a nano-dollar; a plain number of dollars on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Cost(u64);

impl Cost {
    pub const ZERO: Self = Self(0);
    /// More than anyone has.
    pub const MOST: Self = Self(1_000_000_000_000_000_000);

    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// `None` when `dollars` is negative, not finite or absurdly large.
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        let nanos = (dollars * NANOS_PER_DOLLAR).round();
        (0.0..1e18).contains(&nanos).then_some(Self(nanos as u64))
    }

    pub fn dollars(self) -> f64 {
        self.0 as f64 / NANOS_PER_DOLLAR
    }
}

/// With cents; amounts of a few cents with two digits more.
impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            1..50_000 => f.write_str("<$0.0001"),
            // Of small amounts the cents say too little.
            small if small < 10 * NANOS_PER_CENT && small % NANOS_PER_CENT != 0 => write!(f, "${:.4}", self.dollars()),
            _ => write!(f, "${:.2}", self.dollars()),
        }
    }
}

impl Add for Cost {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Cost {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::ZERO, Add::add)
    }
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        Self::from_dollars(dollars).ok_or_else(|| serde::de::Error::custom("an amount of dollars must be zero or more"))
    }
}

/// Dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub input_per_mtok: f64,
    pub output_per_mtok: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_per_mtok: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_per_mtok: Option<f64>,
}

impl Price {
    pub fn of(&self, usage: &Usage) -> Cost {
        let per_token = |per_mtok: f64, tokens: TokenCount| per_mtok * 1e-6 * tokens as f64;
        let dollars = per_token(self.input_per_mtok, usage.input_tokens)
            + per_token(self.output_per_mtok, usage.output_tokens)
            + per_token(self.cache_read_per_mtok.unwrap_or(self.input_per_mtok), usage.cache_read_tokens)
            + per_token(self.cache_write_per_mtok.unwrap_or(self.input_per_mtok), usage.cache_write_tokens);
        // What is too large to count must not be free.
        Cost::from_dollars(dollars).unwrap_or(Cost::MOST)
    }
}

/// Token counts of model calls. `input_tokens` excludes cache reads and writes; `output_tokens` includes reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Usage {
    pub input_tokens: TokenCount,
    pub output_tokens: TokenCount,
    #[serde(default)]
    pub cache_read_tokens: TokenCount,
    #[serde(default)]
    pub cache_write_tokens: TokenCount,
    #[serde(default)]
    pub reasoning_tokens: TokenCount,
}

impl Add for Usage {
    type Output = Self;

    /// Counts that a vendor made up do not overflow.
    fn add(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cache_read_tokens: self.cache_read_tokens.saturating_add(other.cache_read_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_add(other.cache_write_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_small_calls_add_up_exactly() {
        let price =
            Price { input_per_mtok: 3.0, output_per_mtok: 15.0, cache_read_per_mtok: None, cache_write_per_mtok: None };
        let usage = Usage { input_tokens: 1200, output_tokens: 40, ..Usage::default() };
        assert_eq!(price.of(&usage), Cost::from_nanos(4_200_000));
        let total: Cost = std::iter::repeat_n(price.of(&usage), 1000).sum();
        assert_eq!(total.dollars(), 4.2);
    }

    #[test]
    fn money_has_cents_and_small_amounts_two_digits_more() {
        let shown = |dollars: f64| Cost::from_dollars(dollars).unwrap().to_string();
        let amounts = [0.0, 0.00001, 0.0042, 0.05, 0.0548, 0.1, 0.4217, 10.0, 1234.5];
        let expected = ["$0.00", "<$0.0001", "$0.0042", "$0.05", "$0.0548", "$0.10", "$0.42", "$10.00", "$1234.50"];
        assert_eq!(amounts.map(shown), expected);
    }

    #[test]
    fn absurd_usage_is_not_free() {
        let price =
            Price { input_per_mtok: 3.0, output_per_mtok: 15.0, cache_read_per_mtok: None, cache_write_per_mtok: None };
        assert_eq!(price.of(&Usage { output_tokens: u64::MAX, ..Usage::default() }), Cost::MOST);
    }

    #[test]
    fn negative_and_absurd_amounts_are_refused() {
        for dollars in [-0.01, f64::NAN, f64::INFINITY, 1e12] {
            assert_eq!(Cost::from_dollars(dollars), None, "{dollars}");
        }
    }
}
