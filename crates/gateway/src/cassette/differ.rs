//! Where two JSON values part.

use serde_json::Value;

/// How much of a long text is shown around the place.
const SHOWN: usize = 80;

/// The first place at which two values differ, in the words of JSON Pointer, and what stands there in each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) place: String,
    pub(super) recorded: String,
    pub(super) sent: String,
}

pub(super) fn first(recorded: &Value, sent: &Value) -> Option<Difference> {
    let mut place = String::new();
    find(recorded, sent, &mut place)
}

fn find(recorded: &Value, sent: &Value, place: &mut String) -> Option<Difference> {
    let length = place.len();
    let mut below = |key: &str, a: &Value, b: &Value| {
        place.push('/');
        place.push_str(&key.replace('~', "~0").replace('/', "~1"));
        let found = find(a, b, place);
        place.truncate(length);
        found
    };
    match (recorded, sent) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            let absent = Value::Null;
            for key in keys {
                let (left, right) = (a.get(key).unwrap_or(&absent), b.get(key).unwrap_or(&absent));
                if let Some(found) = below(key, left, right) {
                    return Some(found);
                }
            }
            None
        }
        (Value::Array(a), Value::Array(b)) => {
            for (number, (left, right)) in a.iter().zip(b).enumerate() {
                if let Some(found) = below(&number.to_string(), left, right) {
                    return Some(found);
                }
            }
            (a.len() != b.len()).then(|| {
                let items = |count: usize| if count == 1 { "1 item".to_owned() } else { format!("{count} items") };
                Difference { place: place.clone(), recorded: items(a.len()), sent: items(b.len()) }
            })
        }
        (Value::String(a), Value::String(b)) if a != b => {
            let (recorded, sent) = around(a, b);
            Some(Difference { place: place.clone(), recorded, sent })
        }
        (a, b) if a != b => Some(Difference { place: place.clone(), recorded: shown(a), sent: shown(b) }),
        _ => None,
    }
}

/// Both texts from shortly before the place where they part.
fn around(a: &str, b: &str) -> (String, String) {
    let same = a.chars().zip(b.chars()).take_while(|(x, y)| x == y).count();
    let start = same.saturating_sub(SHOWN / 4);
    let window = |text: &str| {
        let part: String = text.chars().skip(start).take(SHOWN).collect();
        let (before, after) = (start > 0, text.chars().count() > start + SHOWN);
        format!("{}{part:?}{}", if before { "…" } else { "" }, if after { "…" } else { "" })
    };
    (window(a), window(b))
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Array(_) | Value::Object(_) => {
            let text = value.to_string();
            let short: String = text.chars().take(SHOWN).collect();
            if short.len() < text.len() { short + "…" } else { short }
        }
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn the_first_place_is_told_with_both_sides() {
        let seen: Vec<String> = [
            (json!({ "m": [{ "c": "exit code 0" }] }), json!({ "m": [{ "c": "exit code 1" }] })),
            (json!({ "m": [1, 2] }), json!({ "m": [1, 2, 3] })),
            (json!({ "a": 1 }), json!({ "a": 1, "b/c": { "d": true } })),
            (json!({ "a": "x".repeat(200) + "1" }), json!({ "a": "x".repeat(200) + "2" })),
            (json!({ "a": "text" }), json!({ "a": ["text"] })),
        ]
        .iter()
        .map(|(a, b)| {
            let Difference { place, recorded, sent } = first(a, b).unwrap();
            format!("{place}: {recorded} | {sent}")
        })
        .collect();
        insta::assert_snapshot!(seen.join("\n"), @r#"
        /m/0/c: "exit code 0" | "exit code 1"
        /m: 2 items | 3 items
        /b~1c: nothing | {"d":true}
        /a: …"xxxxxxxxxxxxxxxxxxxx1" | …"xxxxxxxxxxxxxxxxxxxx2"
        /a: "text" | ["text"]
        "#);
        assert_eq!(first(&json!({ "a": [null] }), &json!({ "a": [null] })), None);
    }

    proptest! {
        #[test]
        fn any_texts_never_panic(a: String, b: String) {
            prop_assert_eq!(first(&json!([&a]), &json!([&b])).is_some(), a != b);
        }
    }
}
