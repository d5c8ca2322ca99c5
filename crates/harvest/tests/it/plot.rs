//! A picture of how a process did over time, as SVG.

use std::fmt::Write;

const WIDTH: f64 = 900.0;
const PANEL: f64 = 190.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 50.0;
const GAP: f64 = 45.0;

/// One line of the picture.
pub struct Series<'a> {
    pub name: &'a str,
    /// Each value and when it was.
    pub points: &'a [(f64, f64)],
}

/// A panel for each series, above each other, over the same time; `marks` are moments when something happened.
pub fn svg(title: &str, series: &[Series<'_>], marks: &[f64]) -> String {
    let end = series.iter().flat_map(|one| one.points).map(|(at, _)| *at).fold(1.0, f64::max);
    let height = TOP + series.len() as f64 * (PANEL + GAP);
    let x = |at: f64| LEFT + at / end * (WIDTH - LEFT - 20.0);
    let mut out = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' font-family='sans-serif' font-size='12'>\n\
         <rect width='100%' height='100%' fill='white'/>\n<text x='{LEFT}' y='24' font-size='15'>{title}</text>\n"
    );
    for (number, one) in series.iter().enumerate() {
        let (top, most) =
            (TOP + number as f64 * (PANEL + GAP), one.points.iter().map(|(_, value)| *value).fold(1.0, f64::max));
        let bottom = top + PANEL;
        let y = |value: f64| bottom - value / (most * 1.1) * PANEL;
        let _ = writeln!(out, "<text x='{LEFT}' y='{}' fill='#555'>{}</text>", top - 6.0, one.name);
        for mark in marks {
            let at = x(*mark);
            let _ = writeln!(out, "<line x1='{at:.1}' x2='{at:.1}' y1='{top}' y2='{bottom}' stroke='#f3c6a5'/>");
        }
        for part in [0.0, 0.5, 1.0] {
            let (value, at) = (most * part, y(most * part));
            let _ = writeln!(out, "<line x1='{LEFT}' x2='{}' y1='{at:.1}' y2='{at:.1}' stroke='#ddd'/>", WIDTH - 20.0);
            let _ = writeln!(
                out,
                "<text x='{}' y='{:.1}' text-anchor='end' fill='#555'>{value:.0}</text>",
                LEFT - 8.0,
                at + 4.0
            );
        }
        let line: Vec<String> =
            one.points.iter().map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value))).collect();
        let _ =
            writeln!(out, "<polyline fill='none' stroke='#2563a8' stroke-width='1.5' points='{}'/>", line.join(" "));
        let _ = writeln!(
            out,
            "<text x='{}' y='{}' text-anchor='end' fill='#555'>{end:.0} s</text>",
            WIDTH - 20.0,
            bottom + 16.0
        );
    }
    out.push_str("</svg>\n");
    out
}
