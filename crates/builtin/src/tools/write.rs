//! `write`: a whole file, folders made as needed.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::json;

use super::{Definition, Outcome, cannot, object_schema, resolve};

#[derive(Debug, Deserialize)]
pub(super) struct WriteInput {
    path: String,
    content: String,
}

pub(super) fn definition() -> Definition {
    Definition {
        name: "write".into(),
        description:
            "Writes a whole file: makes it, with the folders it needs, or replaces what was in it. To change a \
            part of a file, use edit."
                .into(),
        schema: object_schema(
            &json!({
                "path": {"type": "string", "description": "The file, relative to the workspace or absolute."},
                "content": {"type": "string", "description": "Everything the file shall contain."},
            }),
            &["path", "content"],
        ),
    }
}

pub(super) fn run(workspace: &Path, input: &WriteInput) -> Outcome {
    let file = resolve(workspace, &input.path);
    let cannot = |error| cannot("write", &input.path, &error);
    let verb = if file.exists() { "Replaced" } else { "Wrote" };
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(cannot)?;
    }
    fs::write(&file, &input.content).map_err(cannot)?;
    Ok(format!("{verb} {} ({} bytes).", input.path, input.content.len()))
}
