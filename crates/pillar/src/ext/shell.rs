//! Quotes the minion's id for a command line: minions choose their ids, and a shell reads the line.

/// Replaces each `%s` by the id, quoted so that a shell, or whatever splits the line into words, takes it literally.
///
/// # Errors
/// If the id would be taken for an option, or if it cannot be quoted at its position.
pub fn with_id(command: &str, id: &str) -> Result<String, String> {
    if !command.contains("%s") {
        return Ok(command.to_owned());
    }
    if id.starts_with('-') {
        return Err(format!("the command is not run for the minion id {id:?}, which it would read as an option"));
    }
    // Most ids need no quotes anywhere, so commands of any form work for them.
    if id.chars().all(is_plain) {
        return Ok(command.replace("%s", id));
    }
    // Inside these, quoting depends on a nesting that the scanner below does not follow. Refusing is better than
    // guessing: a wrong guess lets a minion run commands on the master.
    if NESTING.iter().any(|nested| command.contains(nested)) {
        return Err(format!(
            "the command is not run for the minion id {id:?}: it has characters that a shell reads, and cannot be quoted \
             inside of a nested command"
        ));
    }
    let mut line = String::new();
    let (mut quoted, mut rest) = (Quoted::No, command);
    while let Some(letter) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("%s") {
            line.push_str(&quoted.protect(id));
            rest = after;
            continue;
        }
        line.push(letter);
        rest = &rest[letter.len_utf8()..];
        // An escaped quote opens and closes nothing. Between single quotes, a backslash is an ordinary character.
        if letter == '\\' && quoted != Quoted::Single {
            let next = rest.chars().next();
            line.extend(next);
            rest = &rest[next.map_or(0, char::len_utf8)..];
        } else {
            quoted = quoted.after(letter);
        }
    }
    Ok(line)
}

/// The words that nest quotes, or have their words read a second time: substitutions, here documents, arithmetic (in
/// which bash runs the index of an array, quoted or not), and `eval`.
const NESTING: [&str; 9] = ["`", "$(", "${", "$[", "<<", "$'", "((", "[[", "eval"];

/// Returns whether a character has no meaning to a shell.
fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "@%+=:,./-_".contains(letter)
}

/// The quotes around a position of the line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoted {
    No,
    Single,
    Double,
}

impl Quoted {
    fn after(self, letter: char) -> Self {
        match (self, letter) {
            (Quoted::No, '\'') => Quoted::Single,
            (Quoted::No, '"') => Quoted::Double,
            (Quoted::Single, '\'') | (Quoted::Double, '"') => Quoted::No,
            (other, _) => other,
        }
    }

    /// Quotes a string for such a position.
    fn protect(self, text: &str) -> String {
        let inside = text.replace('\'', r"'\''");
        match self {
            Quoted::No => format!("'{inside}'"),
            Quoted::Single => inside,
            // Leaves the double quotes and enters them again.
            Quoted::Double => format!("\"'{inside}'\""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(line: &str) -> String {
        let output = std::process::Command::new("/bin/sh").args(["-c", line]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn a_shell_takes_any_id_literally() {
        // A real shell is the judge: an injected command would print something else than the id.
        for id in ["web1", "a;echo hit", "$(echo hit)", "a'b", "a\"b", "a b", "`echo hit`", "a&&echo hit", "*", "a\\'b"]
        {
            for command in
                ["printf %%s\\\\n %s", "printf '%%s\\n' '%s'", "printf '%%s\\n' \"%s\"", r#"printf '%%s\n' "x"%s"#]
            {
                // `%%` is a literal percent sign.
                let line = with_id(&command.replace("%%s", "%S"), id).unwrap().replace("%S", "%s");
                let before = if command.contains("\"x\"") { "x" } else { "" };
                assert_eq!(printed(&line), format!("{before}{id}\n"), "{line}");
            }
        }
    }

    #[test]
    fn plain_ids_stay_and_unquotable_positions_are_refused() {
        assert_eq!(
            with_id("echo \"$(x '%s')\" %s", "web1.example.com").unwrap(),
            "echo \"$(x 'web1.example.com')\" web1.example.com"
        );
        for nested in
            [r#"echo "$(x '%s')""#, r#"echo "${v:-%s}""#, "[[ '%s' -eq 1 ]]", "echo $((%s))", "eval echo '%s'"]
        {
            assert!(with_id(nested, "$(echo hit)").is_err(), "{nested}");
        }
        assert!(with_id("x %s", "--config=y").is_err());
        assert_eq!(with_id("x", "a'b").unwrap(), "x");
    }
}
