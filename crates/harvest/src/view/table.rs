//! Lists for people: a header and aligned columns. Programs read `--json` instead.

use super::style::Style;

/// One field of a row: its text, and how the text is painted once its width is known.
#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    paint: fn(Style, &str) -> String,
    right: bool,
}

impl Cell {
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), paint: |_, text| text.to_owned(), right: false }
    }

    pub fn painted(self, paint: fn(Style, &str) -> String) -> Self {
        Self { paint, ..self }
    }

    /// For numbers.
    pub fn right(self) -> Self {
        Self { right: true, ..self }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

#[derive(Debug)]
pub struct Table {
    style: Style,
    names: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub fn new(style: Style, names: &[&'static str]) -> Self {
        Self { style, names: names.to_vec(), rows: Vec::new() }
    }

    pub fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.rows.push(cells.into());
    }

    /// The header and the rows; nothing when there is no row.
    pub fn lines(&self) -> Vec<String> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        let header: Vec<Cell> = self
            .names
            .iter()
            .enumerate()
            .map(|(place, name)| Cell {
                text: name.to_uppercase(),
                paint: Style::dim,
                right: self.rows.iter().any(|row| row.get(place).is_some_and(|cell| cell.right)),
            })
            .collect();
        let width = |place: usize| {
            let all = self.rows.iter().chain([&header]).filter_map(|row| row.get(place));
            all.map(|cell| cell.text.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.names.len()).map(width).collect();
        [&header].into_iter().chain(&self.rows).map(|row| self.line(row, &widths)).collect()
    }

    fn line(&self, row: &[Cell], widths: &[usize]) -> String {
        // Spaces at the end of a line make it wrap in a narrow terminal.
        let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or(0);
        let mut line = String::new();
        for (place, cell) in row.iter().enumerate().take(last + 1) {
            let text = match (cell.right, widths.get(place)) {
                (true, Some(width)) => format!("{:>width$}", cell.text),
                (false, Some(width)) if place < last => format!("{:<width$}", cell.text),
                _ => cell.text.clone(),
            };
            if place > 0 {
                line.push_str("  ");
            }
            line.push_str(&(cell.paint)(self.style, &text));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_end_with_text() {
        let mut table = Table::new(Style::plain(true), &["id", "cost", "branch"]);
        table.row(["a".into(), Cell::new("$10.00").right(), "".into()]);
        table.row(["longer".into(), Cell::new("$0.42").right(), "harvest/x".into()]);
        assert_eq!(table.lines(), ["ID        COST  BRANCH", "a       $10.00", "longer   $0.42  harvest/x"]);
        assert_eq!(Table::new(Style::plain(true), &["id"]).lines(), Vec::<String>::new());
    }
}
