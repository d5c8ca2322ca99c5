//! What fits into a prompt. Documents are taken in their order, whole while there is room, then cut at the end of a line, then
//! left out and named.

use serde::Serialize;

/// A token of a text is about this many bytes. A guess on the safe side: prompts are English and code.
const BYTES_PER_TOKEN: usize = 4;
/// Less of a document than this helps nobody.
const LEAST_BYTES: usize = 400;

/// A file's name and text, or as much of it as is to be shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Document {
    pub path: String,
    pub text: String,
}

/// As many of the documents as fit, and the paths of the others. `tokens` is lowered by what was taken.
pub fn fit(documents: Vec<Document>, tokens: &mut usize) -> (Vec<Document>, Vec<String>) {
    let (mut kept, mut left_out) = (Vec::new(), Vec::new());
    for mut document in documents {
        let room = tokens.saturating_mul(BYTES_PER_TOKEN);
        if document.text.len() > room {
            if room < LEAST_BYTES {
                left_out.push(document.path);
                continue;
            }
            document.text = cut(&document.text, room);
        }
        *tokens = tokens.saturating_sub(document.text.len().div_ceil(BYTES_PER_TOKEN));
        kept.push(document);
    }
    (kept, left_out)
}

/// The beginning of a text, up to the end of a line, with a word about the rest.
fn cut(text: &str, most: usize) -> String {
    let end = text.floor_char_boundary(most);
    let head = text.get(..end).unwrap_or_default();
    let head = head.rfind('\n').map_or(head, |line_end| head.get(..line_end).unwrap_or(head));
    let more = text.lines().count().saturating_sub(head.lines().count());
    format!("{head}\n[… {more} more lines]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(path: &str, lines: usize) -> Document {
        Document { path: path.to_owned(), text: "0123456789abcde\n".repeat(lines) }
    }

    #[test]
    fn documents_are_whole_then_cut_then_named() {
        let mut tokens = 1000;
        let all = vec![document("a", 100), document("b", 1000), document("c", 100)];
        let (kept, left_out) = fit(all, &mut tokens);
        assert_eq!(kept.iter().map(|one| one.path.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(kept[0], document("a", 100));
        assert!(kept[1].text.ends_with("0123456789abcde\n[… 850 more lines]"), "{}", kept[1].text);
        assert_eq!((left_out, tokens < 20), (vec!["c".to_owned()], true));
    }

    #[test]
    fn a_text_is_never_cut_within_a_letter() {
        let mut tokens = 101;
        let (kept, _) = fit(vec![Document { path: "a".into(), text: "é".repeat(1000) }], &mut tokens);
        assert!(kept[0].text.starts_with("éé") && kept[0].text.len() < 450);
    }
}
