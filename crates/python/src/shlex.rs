//! The words of a command line, by the rules of a POSIX shell.

/// A command line that cannot be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// A quotation mark is not closed.
    #[error("No closing quotation")]
    Quotation,
    /// The text ends with a backslash.
    #[error("No escaped character")]
    Escape,
}

/// Splits a command line as Python's `shlex.split` does: quotes and backslashes count; variables, pipes and wildcards
/// are plain text.
pub fn split(line: &str) -> Result<Vec<String>, SplitError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            // `None` and an empty word differ: `''` is an argument, two blanks are not.
            ' ' | '\t' | '\r' | '\n' => words.extend(word.take()),
            '\'' => single_quoted(&mut letters, word.get_or_insert_default())?,
            '"' => double_quoted(&mut letters, word.get_or_insert_default())?,
            '\\' => word.get_or_insert_default().push(letters.next().ok_or(SplitError::Escape)?),
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    Ok(words)
}

fn single_quoted(letters: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), SplitError> {
    loop {
        match letters.next().ok_or(SplitError::Quotation)? {
            '\'' => return Ok(()),
            letter => word.push(letter),
        }
    }
}

/// Within double quotes a backslash protects only itself and the quote.
fn double_quoted(letters: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), SplitError> {
    loop {
        match letters.next().ok_or(SplitError::Quotation)? {
            '"' => return Ok(()),
            '\\' => match letters.next().ok_or(SplitError::Escape)? {
                protected @ ('"' | '\\') => word.push(protected),
                // Before any other letter the backslash stays, as POSIX has it for double quotes.
                other => word.extend(['\\', other]),
            },
            letter => word.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_parted_as_python_parts_them() {
        for (line, words) in [
            ("ls -l  /tmp", vec!["ls", "-l", "/tmp"]),
            (r#"echo "a b" 'c d' e\ f"#, vec!["echo", "a b", "c d", "e f"]),
            (r#"x "a\"b\n" '\'"#, vec!["x", r#"a"b\n"#, "\\"]),
            // Empty arguments must survive: programs count them.
            ("a '' \"\"", vec!["a", "", ""]),
            ("pre'mid'\"post\"", vec!["premidpost"]),
            ("", vec![]),
            ("a;b|c $X", vec!["a;b|c", "$X"]),
        ] {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
    }

    #[test]
    fn an_open_quote_is_refused() {
        assert_eq!(split("echo \"x").unwrap_err().to_string(), "No closing quotation");
        assert_eq!(split("echo 'x").unwrap_err(), SplitError::Quotation);
        assert_eq!(split("x\\").unwrap_err(), SplitError::Escape);
    }
}
