//! A request's body as far as it is looked at: the names and the beginnings of texts. Long texts are not copied.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::Refusal;

/// Longer than every name and the scheme of every address.
pub(super) const KEPT: usize = 256;

#[derive(Debug)]
pub(super) enum Node<'a> {
    /// `null`.
    Nothing,
    /// `true`.
    Yes,
    Number(u64),
    /// `false`, and numbers that are no counts.
    Other,
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

impl<'a> Node<'a> {
    /// The value of a field. Of two fields with one name every parser takes another one, so that is an error.
    pub(super) fn get(&self, name: &str) -> Result<Option<&Node<'a>>, Refusal> {
        self.any(&[name])
    }

    /// The same for a field with several names.
    pub(super) fn any(&self, names: &[&str]) -> Result<Option<&Node<'a>>, Refusal> {
        let Self::Object(fields) = self else { return Ok(None) };
        let mut found = fields.iter().filter(|(field, _)| names.contains(&field.as_ref()));
        let first = found.next();
        if let Some((name, _)) = found.next() {
            return Err(Refusal::NotUnderstood(format!("`{name}` appears twice")));
        }
        Ok(first.map(|(_, value)| value))
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, Refusal> {
        Ok(match self.get(name)? {
            Some(Self::Text(text)) => Some(text),
            _ => None,
        })
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        Ok(match self.get(name)? {
            Some(Self::Number(number)) => Some(*number),
            _ => None,
        })
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = (&str, &Node<'a>)> {
        let fields = if let Self::Object(fields) = self { fields.as_slice() } else { &[] };
        fields.iter().map(|(name, value)| (name.as_ref(), value))
    }

    /// The elements of a list; what stands there in place of a list of one.
    pub(super) fn elements(&self) -> impl Iterator<Item = (usize, &Node<'a>)> {
        let elements = match self {
            Self::List(elements) => elements.as_slice(),
            Self::Object(_) => std::slice::from_ref(self),
            _ => &[],
        };
        elements.iter().enumerate()
    }

    /// The objects of a list of parts, or the one object in its place. A text among them is text; a list in a list or a
    /// number is read by no format.
    pub(super) fn objects(&self, path: &str) -> Result<Vec<(usize, &Node<'a>)>, Refusal> {
        let mut objects = Vec::new();
        for (number, element) in self.elements() {
            match element {
                Self::Object(_) => objects.push((number, element)),
                Self::Text(_) | Self::Nothing => {}
                _ => return Err(Refusal::NotUnderstood(format!("`{path}[{number}]` is not an object"))),
            }
        }
        Ok(objects)
    }

    /// `null`, `false`, an empty list: the field might as well not be there.
    pub(super) fn is_nothing(&self) -> bool {
        match self {
            Self::Nothing => true,
            Self::List(elements) => elements.is_empty(),
            _ => false,
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Node<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

/// A name, borrowed where it has no escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_str(NodeVisitor)? {
            Node::Text(text) => Ok(Self(text)),
            _ => Ok(Self(Cow::Borrowed(""))),
        }
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Node<'de>, E> {
        Ok(Node::Nothing)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node<'de>, E> {
        Ok(if value { Node::Yes } else { Node::Other })
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node<'de>, E> {
        Ok(Node::Number(value))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node<'de>, E> {
        Ok(Node::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node<'de>, E> {
        Ok(Node::Other)
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Node<'de>, E> {
        Ok(Node::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node<'de>, E> {
        let kept = text.get(..text.floor_char_boundary(KEPT)).unwrap_or(text);
        Ok(Node::Text(Cow::Owned(kept.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node<'de>, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element()? {
            elements.push(element);
        }
        Ok(Node::List(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node<'de>, A::Error> {
        let mut fields = Vec::new();
        while let Some(Name(name)) = map.next_key()? {
            fields.push((name, map.next_value()?));
        }
        Ok(Node::Object(fields))
    }
}
