//! Prints the document of the API: `cargo run -p harvest-server --example openapi > openapi.json`.

use std::io::Write;

fn main() -> std::io::Result<()> {
    let document = harvest_server::document().to_pretty_json().map_err(std::io::Error::other)?;
    writeln!(std::io::stdout(), "{document}")
}
