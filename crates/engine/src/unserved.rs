//! What a repository has beyond git's own objects, and a workspace will therefore lack.

use harvest_core::Code;
use harvest_workspace::{Error, Mirror};

const MODULES: &str = ".gitmodules";
const ATTRIBUTES: &str = ".gitattributes";

/// Warnings for whoever asks for work on a commit.
pub(crate) async fn warnings(mirror: &Mirror, commit: &str) -> Result<Vec<String>, Error> {
    let mut warnings = Vec::new();
    for file in mirror.files_of(commit, &[MODULES, ATTRIBUTES]).await? {
        if file == MODULES {
            warnings.push(format!("{}: the repository has submodules; their folders are empty here", Code::Submodules));
        } else if let Some(content) = mirror.file(commit, &file).await?
            && has_large_files(&String::from_utf8_lossy(&content))
        {
            warnings.push(format!("{}: files stored in Git LFS are only pointers here", Code::LargeFiles));
        }
    }
    Ok(warnings)
}

fn has_large_files(attributes: &str) -> bool {
    let lines = attributes.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.flat_map(str::split_whitespace).any(|attribute| attribute == "filter=lfs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_files_are_told_by_their_filter() {
        assert!(has_large_files("*.txt text\n*.bin filter=lfs diff=lfs merge=lfs -text\n"));
        for none in ["", "*.bin binary", "# *.bin filter=lfs", "*.bin -filter"] {
            assert!(!has_large_files(none), "{none}");
        }
    }
}
