//! The language of prompt templates: text with `{{ name }}` and `{% if name == "value" %}`. Every parameter must be given, and
//! every given one must be known.
//!
//! Members write templates, and the server fills them in. So a template can neither loop nor compute, and what it says and what
//! it becomes are bounded: one that is tiny could otherwise take all memory, or a thread for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use harvest_core::{Code, MAX_PROMPT_BYTES};
use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment as Jinja, UndefinedBehavior};

use crate::failure::Failure;
use crate::view::clean;

/// The parser and the compiler call themselves for what is nested or chained, so both are short.
const MOST_STATEMENTS: usize = 100;
const MOST_TOKENS: usize = 50;
const STATEMENTS: [&str; 4] = ["if", "elif", "else", "endif"];
/// Words of the template engine that are no names: they search values, or test them.
const OPERATORS: [&str; 2] = ["in", "is"];

fn jinja() -> Jinja<'static> {
    let mut jinja = Jinja::new();
    jinja.set_undefined_behavior(UndefinedBehavior::Strict);
    jinja
}

/// What is wrong, without the place in a file that does not exist.
fn plain(error: &minijinja::Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

fn not_a_template(error: &minijinja::Error) -> Failure {
    let line = error.line().map(|line| format!(" in line {line}")).unwrap_or_default();
    let message = format!("the prompt is not a template{line}: {}", plain(error));
    Failure::refused(Code::BadPrompt, message, "write parameters like {{ package }}")
}

/// Refuses whatever is not a parameter or a condition.
fn check(prompt: &str) -> Result<(), Failure> {
    let refuse = |line: u16, reason: String| {
        let message = format!("the template cannot be used: line {line} has {reason}");
        let help = "use only {{ name }} and {% if name == \"value\" %} … {% elif … %} … {% else %} … {% endif %}";
        Failure::refused(Code::BadPrompt, message, help)
    };
    let (mut statements, mut tokens, mut is_keyword, mut is_name) = (0, 0, false, false);
    for token in tokenize(prompt, false, SyntaxConfig::default()) {
        let (token, span) = token.map_err(|error| not_a_template(&error))?;
        let line = span.start_line;
        tokens += 1;
        match token {
            Token::TemplateData(_) | Token::BlockEnd => tokens = 0,
            Token::VariableStart => (tokens, is_name) = (0, true),
            Token::VariableEnd => (tokens, is_name) = (0, false),
            // One name and no condition: a prompt has room for many, and each would cost as much as its values are long.
            Token::Ident(_) if is_name && tokens == 1 => {}
            _ if is_name => return Err(refuse(line, "more than a name in {{ … }}".to_owned())),
            Token::BlockStart => {
                (tokens, is_keyword) = (0, true);
                statements += 1;
                if statements > MOST_STATEMENTS {
                    return Err(refuse(line, format!("the statement after the first {MOST_STATEMENTS}")));
                }
            }
            Token::Ident(word) if is_keyword => {
                is_keyword = false;
                if !STATEMENTS.contains(&word) {
                    return Err(refuse(line, format!("the statement `{}`", clean(word))));
                }
            }
            Token::Ident(word) if OPERATORS.contains(&word) => {
                return Err(refuse(line, format!("the word `{word}`")));
            }
            Token::Ident(_) | Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Eq | Token::Ne => {}
            other => return Err(refuse(line, other.to_string())),
        }
        if tokens > MOST_TOKENS {
            return Err(refuse(line, format!("more than {MOST_TOKENS} words in one place")));
        }
    }
    Ok(())
}

pub fn parameters(prompt: &str) -> Result<BTreeSet<String>, Failure> {
    check(prompt)?;
    let jinja = jinja();
    let template = jinja.template_from_str(prompt).map_err(|error| not_a_template(&error))?;
    Ok(template.undeclared_variables(false).into_iter().collect())
}

pub fn render(name: &str, prompt: &str, values: &[(String, String)]) -> Result<String, Failure> {
    let parameters = parameters(prompt)?;
    let mut given = BTreeMap::new();
    for (parameter, value) in values {
        if !parameters.contains(parameter) {
            let known: Vec<&str> = parameters.iter().map(String::as_str).collect();
            let known =
                if known.is_empty() { "it has none".to_owned() } else { format!("it has: {}", known.join(", ")) };
            let message = format!("template `{name}` has no parameter `{}`", clean(parameter));
            return Err(Failure::refused(Code::BadOption, message, known));
        }
        if given.insert(parameter.clone(), value.clone()).is_some() {
            let message = format!("parameter `{}` is given twice", clean(parameter));
            return Err(Failure::refused(Code::BadOption, message, "give each once"));
        }
    }
    let missing: Vec<&str> = parameters.iter().filter(|name| !given.contains_key(*name)).map(String::as_str).collect();
    if !missing.is_empty() {
        let message = format!("template `{name}` needs a value for {}", missing.join(", "));
        let help: Vec<String> = missing.iter().map(|name| format!("--set {name}=…")).collect();
        return Err(Failure::refused(Code::BadOption, message, format!("add {}", help.join(" "))));
    }
    let mut filled = Bounded::default();
    let jinja = jinja();
    let template = jinja.template_from_str(prompt).map_err(|error| not_a_template(&error))?;
    match template.render_captured_to(given, &mut filled) {
        Ok(_) => {}
        Err(_) if filled.is_full => {
            let message = format!("the prompt made from template `{name}` has more than {MAX_PROMPT_BYTES} bytes");
            let help = "give shorter values, or put long texts into a file of the repository, and name the file";
            return Err(Failure::refused(Code::BadPrompt, message, help));
        }
        Err(error) => {
            let message = format!("template `{name}` cannot be filled in: {}", plain(&error));
            return Err(Failure::refused(Code::BadPrompt, message, "correct the template"));
        }
    }
    // Strings are written as a whole.
    Ok(String::from_utf8_lossy(&filled.text).into_owned())
}

/// Takes as much as a prompt may have.
#[derive(Debug, Default)]
struct Bounded {
    text: Vec<u8>,
    is_full: bool,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.text.len() + bytes.len() > MAX_PROMPT_BYTES {
            self.is_full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(prompt: &str, values: &[(&str, &str)]) -> Result<String, String> {
        let values: Vec<(String, String)> =
            values.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        render("upgrade", prompt, &values).map_err(|failure| format!("{} {}", failure.code, failure.message))
    }

    #[test]
    fn parameters_are_filled_in_as_they_are() {
        let prompt = "Upgrade {{ package }} to {{ version }}";
        assert_eq!(filled(prompt, &[("version", "2"), ("package", "serde")]), Ok("Upgrade serde to 2".into()));
        // Neither escaped nor read as a template again.
        assert_eq!(filled("Say {{ text }}", &[("text", "<b> & {{ 7 * 7 }}")]), Ok("Say <b> & {{ 7 * 7 }}".into()));
        assert_eq!(filled("No parameters", &[]), Ok("No parameters".into()));
        assert_eq!(
            filled("{% if fast == 'yes' %}Quickly {% endif %}fix it", &[("fast", "yes")]),
            Ok("Quickly fix it".into())
        );
    }

    #[test]
    fn missing_unknown_and_doubled_ones_are_refused() {
        let prompt = "Upgrade {{ package }} to {{ version }}";
        assert_eq!(filled(prompt, &[]), Err("HV-0141 template `upgrade` needs a value for package, version".into()));
        assert_eq!(
            filled(prompt, &[("package", "a")]),
            Err("HV-0141 template `upgrade` needs a value for version".into())
        );
        assert_eq!(
            filled(prompt, &[("package", "a"), ("version", "1"), ("pakage", "b")]),
            Err("HV-0141 template `upgrade` has no parameter `pakage`".into())
        );
        assert_eq!(filled("{{ a }}", &[("a", "1"), ("a", "2")]), Err("HV-0141 parameter `a` is given twice".into()));
    }

    #[test]
    fn what_is_no_template_is_refused() {
        assert_eq!(parameters("Upgrade {{ package").unwrap_err().code, Code::BadPrompt);
        let failure = parameters("{% if %}").unwrap_err();
        assert_eq!(failure.code, Code::BadPrompt);
        assert!(failure.message.starts_with("the prompt is not a template in line 1: syntax error: "), "{failure:?}");
        assert!(!failure.message.contains("<string>"), "{failure:?}");
    }

    #[test]
    fn a_template_neither_loops_nor_computes() {
        for (prompt, what) in [
            ("{{ 'xxxxxxxxxx' * 10000000 }}", "line 1 has more than a name in {{ … }}"),
            ("{{ a in b }}", "more than a name in {{ … }}"),
            ("{{ a == b }}", "more than a name in {{ … }}"),
            ("{{ a | upper }}", "more than a name in {{ … }}"),
            ("a\n{% for a in [0] * 10000000 %}{% endfor %}", "line 2 has the statement `for`"),
            ("{% set a = 'x' %}", "the statement `set`"),
            ("{% with a = 'x' %}{% endwith %}", "the statement `with`"),
            ("{% if a in b %}{% endif %}", "the word `in`"),
            ("{% if a is string %}{% endif %}", "the word `is`"),
            ("{% if [1, 2] %}{% endif %}", "`[`"),
            ("{% if a ~ a %}{% endif %}", "`~`"),
            ("{% if a + a %}{% endif %}", "`+`"),
            ("{% if range(9) %}{% endif %}", "`(`"),
            ("{% if a | length %}{% endif %}", "`|`"),
            ("{% if a.b %}{% endif %}", "`.`"),
            ("{% if 2 ** 100 %}{% endif %}", "`**`"),
            (&format!("{{% if a{} %}}", " and a".repeat(100_000)), "more than 50 words in one place"),
            (&format!("{{% if {} a %}}b{{% endif %}}", "not ".repeat(100)), "more than 50 words in one place"),
            (&"{% if a %}".repeat(100_000), "the statement after the first 100"),
        ] {
            let failure = parameters(prompt).unwrap_err();
            assert_eq!(failure.code, Code::BadPrompt);
            assert!(failure.message.contains(what), "{}", failure.message);
            // One that was stored earlier is refused when it is used.
            assert_eq!(render("upgrade", prompt, &[]).unwrap_err().message, failure.message);
        }
        let chosen = "{% if a == 'x' and not b %}X{% elif b == 'y' %}Y{% else %}{{ a }}{# as it is #}{% endif %}";
        assert_eq!(filled(chosen, &[("a", "w"), ("b", "w")]), Ok("w".into()));
        assert_eq!(filled(chosen, &[("a", "w"), ("b", "y")]), Ok("Y".into()));
    }

    #[test]
    fn a_filled_template_is_no_longer_than_a_prompt() {
        let prompt = "{{ a }}".repeat(100_000);
        let refused = filled(&prompt, &[("a", &"x".repeat(100_000))]);
        assert_eq!(refused, Err("HV-0111 the prompt made from template `upgrade` has more than 1000000 bytes".into()));
        assert_eq!(filled(&prompt, &[("a", "0123456789")]).unwrap().len(), 1_000_000);
    }
}
