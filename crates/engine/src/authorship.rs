//! Who the commits of a session are by: the person who asked, and the agent with its model as co-author.

use harvest_workspace::Author;

/// The person that `requested_by` names, as a commit names people.
pub(crate) fn person(requested_by: &str) -> Author {
    let login =
        |login: &str, host: &str| Author { name: login.to_owned(), email: format!("{login}@users.noreply.{host}") };
    // A login of GitHub, someone who signed in at a host, or a name of this machine or of a token.
    if let Some(name) = requested_by.strip_prefix("github:").filter(|name| is_login(name)) {
        return login(name, "github.com");
    }
    match requested_by.split_once('@') {
        Some((name, host)) if is_login(name) && is_host(host) => login(name, host),
        _ => {
            let name: String = requested_by.chars().filter(|c| !c.is_control() && !matches!(c, '<' | '>')).collect();
            let local: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
            let local = local.trim_matches('-').to_ascii_lowercase();
            let name = if name.trim().is_empty() { "Harvest" } else { name.trim() }.to_owned();
            let local = if local.is_empty() { "harvest" } else { &local };
            Author { name, email: format!("{local}@people.harvest.invalid") }
        }
    }
}

/// What follows the name of the person in the name of a commit's author.
pub(crate) const SUFFIX: &str = " (Harvest)";

/// The author of commits that Harvest makes for a person.
pub(crate) fn by_harvest(Author { name, email }: Author) -> Author {
    Author { name: format!("{name}{SUFFIX}"), email }
}

/// The trailers of a commit.
pub(crate) fn trailers(asked_by: &Author, agent: &str, agent_name: &str, model: Option<&str>) -> String {
    let model = model.map(|model| format!(" ({})", model.replace(['<', '>', '\n'], ""))).unwrap_or_default();
    format!(
        "Co-authored-by: {} <{}>\nCo-authored-by: {agent_name}{model} <{agent}@agents.harvest.invalid>",
        asked_by.name, asked_by.email
    )
}

fn is_login(login: &str) -> bool {
    !login.is_empty() && login.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn is_host(host: &str) -> bool {
    !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_named_by_where_they_asked() {
        let named = |text: &str| {
            let Author { name, email } = person(text);
            format!("{name} <{email}>")
        };
        assert_eq!(named("github:ada"), "ada <ada@users.noreply.github.com>");
        assert_eq!(named("ada@ghe.example.com"), "ada <ada@users.noreply.ghe.example.com>");
        assert_eq!(named("Ada Lovelace"), "Ada Lovelace <ada-lovelace@people.harvest.invalid>");
        assert_eq!(
            named("x>\nSigned-off-by: y <z"),
            "xSigned-off-by: y z <xsigned-off-by--y-z@people.harvest.invalid>"
        );
        assert_eq!(named(""), "Harvest <harvest@people.harvest.invalid>");
    }

    #[test]
    fn trailers_name_the_person_the_agent_and_its_model() {
        let text = trailers(&person("github:ada"), "claude-code", "Claude Code", Some("claude-sonnet-4-5"));
        assert_eq!(
            text,
            "Co-authored-by: ada <ada@users.noreply.github.com>\n\
             Co-authored-by: Claude Code (claude-sonnet-4-5) <claude-code@agents.harvest.invalid>"
        );
    }
}
