//! `harvest completion`: what a shell offers when Tab is pressed, made from the definition of the commands.

use clap::{Command, CommandFactory};

use crate::cli::{Cli, Shell};
use crate::failure::{Exit, Failure};
use crate::output;

const NAME: &str = "harvest";

pub fn completion(shell: Shell) -> Result<Exit, Failure> {
    let mut commands = Vec::new();
    let mut root = Cli::command();
    root.build();
    collect(&root, NAME, &mut commands);
    let _ = output::line(&match shell {
        Shell::Bash => bash(&commands),
        // Zsh reads bash's completions through its own bridge.
        Shell::Zsh => format!(
            "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n{}",
            bash(&commands)
        ),
        Shell::Fish => fish(&commands),
    });
    Ok(Exit::Done)
}

/// One command, by all of its words, with everything that may follow it.
struct Known {
    path: String,
    subcommands: Vec<(String, String)>,
    options: Vec<(String, String)>,
    values: Vec<String>,
}

fn collect(command: &Command, path: &str, into: &mut Vec<Known>) {
    let visible = || command.get_subcommands().filter(|below| !below.is_hide_set());
    let about = |text: Option<&clap::builder::StyledStr>| {
        text.map(|text| text.to_string().lines().next().unwrap_or_default().to_owned()).unwrap_or_default()
    };
    let arguments = || command.get_arguments().filter(|argument| !argument.is_hide_set());
    let values = arguments().filter(|argument| argument.is_positional()).flat_map(clap::Arg::get_possible_values);
    into.push(Known {
        path: path.to_owned(),
        subcommands: visible().map(|below| (below.get_name().to_owned(), about(below.get_about()))).collect(),
        options: arguments()
            .filter_map(|argument| Some((format!("--{}", argument.get_long()?), about(argument.get_help()))))
            .collect(),
        values: values.map(|value| value.get_name().to_owned()).collect(),
    });
    for below in visible().filter(|below| below.get_name() != "help") {
        collect(below, &format!("{path} {}", below.get_name()), into);
    }
}

fn bash(commands: &[Known]) -> String {
    let paths: Vec<String> = commands.iter().skip(1).map(|known| format!("'{}'", known.path)).collect();
    let words = |known: &Known| {
        let names = known.subcommands.iter().chain(&known.options).map(|(name, _)| name.as_str());
        names.chain(known.values.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
    };
    let cases: String =
        commands.iter().map(|known| format!("        '{}') words='{}' ;;\n", known.path, words(known))).collect();
    format!(
        "_harvest() {{
    local current=\"${{COMP_WORDS[COMP_CWORD]}}\" path={NAME} words= word index
    for ((index = 1; index < COMP_CWORD; index++)); do
        word=\"${{COMP_WORDS[index]}}\"
        case \"$path $word\" in
        {}) path=\"$path $word\" ;;
        esac
    done
    case \"$path\" in
{cases}    esac
    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))
}}
complete -o default -F _harvest {NAME}",
        paths.join(" | ")
    )
}

fn fish(commands: &[Known]) -> String {
    let quote = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let mut lines = vec![format!(
        "function __harvest_path
    set -l path {NAME}
    for word in (commandline -opc)[2..]
        if contains -- \"$path $word\" {}
            set path \"$path $word\"
        end
    end
    test \"$path\" = \"$argv\"
end",
        commands.iter().skip(1).map(|known| quote(&known.path)).collect::<Vec<_>>().join(" ")
    )];
    for Known { path, subcommands, options, values } in commands {
        let at = format!("complete -c {NAME} -n {}", quote(&format!("__harvest_path {path}")));
        let named = subcommands.iter().map(|(name, about)| format!("{at} -f -a {} -d {}", quote(name), quote(about)));
        let flags =
            options.iter().map(|(name, about)| format!("{at} -l {} -d {}", name.trim_start_matches('-'), quote(about)));
        let plain = values.iter().map(|value| format!("{at} -f -a {}", quote(value)));
        lines.extend(named.chain(flags).chain(plain));
    }
    lines.join("\n")
}
