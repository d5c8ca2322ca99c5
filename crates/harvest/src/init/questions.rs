//! Questions at a terminal. Each shows its suggested answer and how to skip it; the end of the input skips as well.

use std::io::{BufRead, Write};

use harvest_vault::{ExposeSecret, SecretString};

use crate::credential;
use crate::view::Style;

/// The answer that skips a question.
const SKIP: &str = "skip";

pub struct Questions {
    style: Style,
    /// Nothing is asked: every suggestion is taken.
    suggested: bool,
}

impl Questions {
    pub fn new(style: Style, suggested: bool) -> Self {
        Self { style, suggested }
    }

    /// What was typed, or the suggestion; `None` skips.
    pub async fn text(&self, question: &str, suggestion: Option<&str>) -> Option<String> {
        if self.suggested {
            return suggestion.map(str::to_owned);
        }
        let shown = suggestion.map_or_else(|| "[Enter skips]".to_owned(), |text| format!("[{text}] (or `skip`)"));
        let typed = self.line(&format!("{question} {}: ", self.style.dim(&shown))).await?;
        match typed.as_str() {
            "" => suggestion.map(str::to_owned),
            SKIP => None,
            _ => Some(typed),
        }
    }

    /// `no` and `skip` are the same answer.
    pub async fn confirm(&self, question: &str, suggestion: bool) -> bool {
        if self.suggested {
            return suggestion;
        }
        let shown = if suggestion { "[Y/n] (`n` skips)" } else { "[y/N]" };
        match self.line(&format!("{question} {} ", self.style.dim(shown))).await {
            Some(typed) if !typed.is_empty() => typed.to_ascii_lowercase().starts_with('y'),
            Some(_) => suggestion,
            None => false,
        }
    }

    /// The index of one of several; the first is suggested, and `None` skips.
    pub async fn choose(&self, question: &str, among: &[String]) -> Option<usize> {
        if self.suggested || among.len() < 2 {
            return Some(0);
        }
        for (index, text) in among.iter().enumerate() {
            let _ = crate::output::line(&format!("    {} {text}", self.style.bold(&format!("{}", index + 1))));
        }
        loop {
            let typed = self.line(&format!("{question} {} ", self.style.dim("[1] (or `skip`)"))).await?;
            match typed.as_str() {
                "" => return Some(0),
                SKIP => return None,
                _ => {}
            }
            match typed.parse::<usize>() {
                Ok(number) if (1..=among.len()).contains(&number) => return Some(number - 1),
                _ => crate::output::complain(&format!("  type a number from 1 to {}, or `skip`", among.len())),
            }
        }
    }

    /// A secret, typed without being shown; `None` skips.
    pub async fn secret(&self, question: &str) -> Result<Option<SecretString>, &'static str> {
        if self.suggested {
            return Ok(None);
        }
        let question = question.to_owned();
        let typed = tokio::task::spawn_blocking(move || credential::type_secret(&question)).await;
        let Ok(Ok(typed)) = typed else { return Ok(None) };
        if ["", SKIP].contains(&typed.expose_secret().trim()) {
            return Ok(None);
        }
        credential::checked(typed.expose_secret()).map(Some)
    }

    async fn line(&self, question: &str) -> Option<String> {
        let question = format!("{} {question}", self.style.accent("?"));
        let reading = tokio::task::spawn_blocking(move || {
            let mut out = std::io::stdout().lock();
            let _ = out.write_all(question.as_bytes()).and_then(|()| out.flush());
            drop(out);
            let mut text = String::new();
            match std::io::stdin().lock().read_line(&mut text) {
                Ok(0) | Err(_) => None,
                Ok(_) => Some(text.trim().to_owned()),
            }
        });
        reading.await.ok().flatten()
    }
}
