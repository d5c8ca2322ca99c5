//! `harvest explain HV-0101`: the page of an error code.

use harvest_core::Code;
use rust_embed::RustEmbed;
use serde_json::json;

use crate::cli::Global;
use crate::failure::{Exit, Failure};
use crate::output;

#[derive(RustEmbed)]
#[folder = "../../docs/errors"]
struct Pages;

pub fn explain(global: &Global, code: &str) -> Result<Exit, Failure> {
    let code: Code = code.parse().map_err(|error: harvest_core::UnknownCode| {
        Failure::refused(Code::BadOption, error.to_string(), "the code is in the brackets of an error message")
    })?;
    let page = page(code).unwrap_or_else(|| format!("# {code}: {}\n", code.title()));
    let _ = if global.json {
        output::json(&json!({ "code": code.as_str(), "title": code.title(), "page": page }))
    } else {
        output::line(page.trim_end())
    };
    Ok(Exit::Done)
}

fn page(code: Code) -> Option<String> {
    let file = Pages::get(&format!("{code}.md"))?;
    String::from_utf8(file.data.into_owned()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_page() {
        for code in Code::ALL {
            let page = page(*code).unwrap_or_default();
            let title = format!("# {code}: {}", code.title());
            assert_eq!(page.lines().next(), Some(title.as_str()));
        }
        assert_eq!(Pages::iter().count(), Code::ALL.len(), "a page without a code");
    }
}
