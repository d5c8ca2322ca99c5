//! The table that is printed, and the verdict on each of its rows.

use std::fmt;
use std::time::Duration;

/// One promise and what came of it.
#[derive(Debug, Clone)]
pub struct Row {
    pub name: &'static str,
    pub ours: Amount,
    /// Nothing where there is nothing like it, or it is not installed.
    pub theirs: Option<Amount>,
    /// What `theirs` is.
    pub against: &'static str,
    pub bound: Bound,
}

#[derive(Debug, Clone, Copy)]
pub enum Amount {
    Time(Duration),
    PerSecond(f64),
    Count(u64),
    Bytes(u64),
    BytesPerSecond(f64),
}

#[derive(Debug, Clone, Copy)]
pub enum Bound {
    /// Ours is at most so many times theirs.
    Times(f64),
    /// Ours takes at most this long.
    Within(Duration),
    /// Ours takes at most this much longer than theirs.
    Added(Duration),
    /// Ours does at least so many a second.
    AtLeast(f64),
    /// Ours takes in at least so many bytes a second.
    BytesAtLeast(f64),
    /// Ours is at least so many times theirs.
    TimesAtLeast(f64),
    /// Ours counts at most so many.
    AtMost(u64),
    /// Ours takes at most so many bytes of memory.
    Memory(u64),
    /// Shown and not judged.
    Open,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Kept,
    Broken,
    NotJudged,
}

impl Row {
    /// Ours over theirs.
    fn ratio(&self) -> Option<f64> {
        Some(self.ours.number() / self.theirs?.number())
    }

    /// How much of what the bound allows is used up, if there is one: 1 is all of it.
    fn used(&self) -> Option<f64> {
        let ours = self.ours.number();
        // Without theirs, what is judged by them is not a number.
        let theirs = self.theirs.map_or(f64::NAN, Amount::number);
        Some(match self.bound {
            Bound::Times(most) => ours / theirs / most,
            Bound::Within(most) => ours / most.as_secs_f64(),
            Bound::Added(most) => (ours - theirs).max(0.0) / most.as_secs_f64(),
            Bound::AtLeast(least) | Bound::BytesAtLeast(least) => least / ours,
            Bound::TimesAtLeast(least) => least * theirs / ours,
            Bound::AtMost(most) if ours <= most as f64 => 0.0,
            // However many are allowed, one more is too many.
            Bound::AtMost(_) => f64::INFINITY,
            Bound::Memory(most) => ours / most as f64,
            Bound::Open => return None,
        })
    }

    pub fn verdict(&self) -> Verdict {
        match self.used() {
            None => Verdict::NotJudged,
            Some(used) if used <= 1.0 => Verdict::Kept,
            // Not a number, for want of samples, is no success either.
            Some(_) => Verdict::Broken,
        }
    }
}

impl Amount {
    fn number(self) -> f64 {
        match self {
            Self::Time(time) => time.as_secs_f64(),
            Self::PerSecond(rate) | Self::BytesPerSecond(rate) => rate,
            Self::Count(count) | Self::Bytes(count) => count as f64,
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Time(time) => duration(*time),
            Self::PerSecond(rate) if *rate < 100.0 => format!("{rate:.2}/s"),
            Self::PerSecond(rate) => format!("{}/s", thousands(*rate)),
            Self::Count(count) => thousands(*count as f64),
            Self::Bytes(bytes) => megabytes(*bytes),
            Self::BytesPerSecond(rate) => format!("{:.0} MB/s", rate / 1e6),
        };
        f.pad(&text)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Times(most) => format!("≤ {most}×"),
            Self::Within(most) => format!("≤ {}", duration(*most)),
            Self::Added(most) => format!("+ ≤ {}", duration(*most)),
            Self::AtLeast(least) => format!("≥ {}/s", thousands(*least)),
            Self::BytesAtLeast(least) => format!("≥ {:.0} MB/s", least / 1e6),
            Self::TimesAtLeast(least) => format!("≥ {least}×"),
            Self::AtMost(most) => format!("≤ {}", thousands(*most as f64)),
            Self::Memory(most) => format!("≤ {}", megabytes(*most)),
            Self::Open => "none".to_owned(),
        };
        f.pad(&text)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kept => "ok",
            Self::Broken => "BROKEN",
            Self::NotJudged => "not judged",
        })
    }
}

/// Three digits that matter, in the unit that fits.
fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let (value, unit) = match seconds {
        1.0.. => (seconds, "s"),
        1e-3.. => (seconds * 1e3, "ms"),
        _ => (seconds * 1e6, "µs"),
    };
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

fn ratio(ratio: f64) -> String {
    if ratio < 0.1 { format!("1/{}", thousands(1.0 / ratio)) } else { format!("{ratio:.2}×") }
}

const BAR: usize = 12;

/// How much of the bound is used, as a picture; it ends in an arrow when it is more than all.
fn bar(used: f64) -> String {
    if used > 1.0 {
        return "█".repeat(BAR - 1) + "▶";
    }
    let full = (used * BAR as f64).ceil() as usize;
    "█".repeat(full) + &"·".repeat(BAR.saturating_sub(full))
}

fn shown(used: f64) -> String {
    format!("{} {:3.0} %", bar(used), used * 100.0)
}

/// Two lines per row: the figures, and what they are held against.
pub fn render(rows: &[Row]) -> String {
    const HEAD: [&str; 7] = ["", "ours", "theirs", "ratio", "bound", "used of the bound", ""];
    let mut lines = vec![HEAD.map(str::to_owned)];
    lines.extend(rows.iter().map(|row| {
        [
            row.name.to_owned(),
            row.ours.to_string(),
            row.theirs.map(|theirs| theirs.to_string()).unwrap_or_default(),
            row.ratio().map(ratio).unwrap_or_default(),
            row.bound.to_string(),
            row.used().filter(|used| used.is_finite()).map(shown).unwrap_or_default(),
            row.verdict().to_string(),
        ]
    }));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        let mut shown = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            // Figures stand under each other, words begin together.
            let cell = if (1..=4).contains(&column) { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
            shown.push_str(&cell);
            shown.push_str("   ");
        }
        text.push_str(shown.trim_end());
        text.push('\n');
        let row = number.checked_sub(1).and_then(|number| rows.get(number));
        if let Some(row) = row.filter(|row| row.theirs.is_some()) {
            text.push_str(&format!("  against {}\n", row.against));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: u64, theirs: u64, bound: Bound) -> Row {
        let time = |millis| Amount::Time(Duration::from_millis(millis));
        Row { name: "this", ours: time(ours), theirs: Some(time(theirs)), against: "that", bound }
    }

    #[test]
    fn each_kind_of_bound_is_judged_by_its_own_measure() {
        let verdict = |row: &Row| row.verdict();
        assert_eq!(verdict(&row(30, 10, Bound::Times(3.0))), Verdict::Kept);
        assert_eq!(verdict(&row(31, 10, Bound::Times(3.0))), Verdict::Broken);
        assert_eq!(verdict(&row(15, 9000, Bound::Within(Duration::from_millis(15)))), Verdict::Kept);
        assert_eq!(verdict(&row(5, 9, Bound::Added(Duration::from_millis(2)))), Verdict::Kept);
        assert_eq!(verdict(&row(15, 9, Bound::Added(Duration::from_millis(2)))), Verdict::Broken);
        let rate = |ours| Row { ours: Amount::PerSecond(ours), ..row(0, 1, Bound::AtLeast(50_000.0)) };
        assert_eq!(verdict(&rate(80_000.0)), Verdict::Kept);
        assert_eq!(verdict(&rate(30_000.0)), Verdict::Broken);
        let speedup = |ours| Row { ours: Amount::PerSecond(ours), theirs: Some(Amount::PerSecond(0.1)), ..rate(0.0) };
        let speedup = |ours| Row { bound: Bound::TimesAtLeast(2.0), ..speedup(ours) };
        assert_eq!(verdict(&speedup(0.21)), Verdict::Kept);
        assert_eq!(verdict(&speedup(0.19)), Verdict::Broken);
        let count = |ours| Row { ours: Amount::Count(ours), theirs: None, ..row(0, 1, Bound::AtMost(0)) };
        assert_eq!(verdict(&count(0)), Verdict::Kept);
        assert_eq!(verdict(&count(1)), Verdict::Broken);
        assert_eq!(verdict(&Row { theirs: None, ..row(1, 1, Bound::Times(3.0)) }), Verdict::Broken);
        assert_eq!(verdict(&row(9, 1, Bound::Open)), Verdict::NotJudged);
        assert_eq!(verdict(&row(0, 0, Bound::Times(3.0))), Verdict::Broken, "nothing measured is nothing shown");
    }

    #[test]
    fn the_table_is_aligned() {
        let rows = [
            row(12, 4, Bound::Times(3.5)),
            row(9, 4100, Bound::Within(Duration::from_millis(5))),
            Row {
                ours: Amount::PerSecond(123_456.7),
                theirs: Some(Amount::PerSecond(2000.0)),
                ..row(0, 0, Bound::AtLeast(50_000.0))
            },
            Row { ours: Amount::Count(0), theirs: None, ..row(0, 0, Bound::AtMost(0)) },
        ];
        let expected = "
            ours    theirs    ratio        bound   used of the bound
this     12.0 ms   4.00 ms    3.00×       ≤ 3.5×   ███████████·  86 %   ok
  against that
this     9.00 ms    4.10 s    1/456    ≤ 5.00 ms   ███████████▶ 180 %   BROKEN
  against that
this   123,457/s   2,000/s   61.73×   ≥ 50,000/s   █████·······  41 %   ok
  against that
this           0                             ≤ 0   ············   0 %   ok
";
        assert_eq!(format!("\n{}", render(&rows)), expected);
    }
}
