//! Lists what `web/dist` holds, so that the page is part of the program. Without a built page the list is empty.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../web/dist");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    if root.is_dir() {
        gather(&root, &mut files)?;
    }
    files.sort();
    let mut table = String::from("&[\n");
    for file in &files {
        let Some(name) = file.strip_prefix(&root).ok().and_then(Path::to_str) else { continue };
        let packed = PathBuf::from(format!("{}.gz", file.display()));
        let packed = if packed.exists() { format!("Some({})", include(&packed)) } else { "None".to_owned() };
        let _ = writeln!(table, "    File {{ path: \"/{name}\", plain: {}, gzip: {packed} }},", include(file));
    }
    table.push_str("]\n");
    fs::write(PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("pages.rs"), table)
}

fn include(file: &Path) -> String {
    format!("include_bytes!({:?})", file.display().to_string())
}

fn gather(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_dir() {
            gather(&path, files)?;
        } else if !hidden && path.extension().is_none_or(|extension| extension != "gz") {
            files.push(path);
        }
    }
    Ok(())
}
