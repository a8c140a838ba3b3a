//! Splits a line, as it is typed, into words.

/// A line up to the cursor.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Its words without quotes; the last is the one to complete.
    pub words: Vec<String>,
    /// The number of bytes in the last word that bash keeps: for bash, `=` and `:` end a word.
    pub kept: usize,
}

/// Splits a line like a shell.
pub fn split(text: &str) -> Line {
    let (mut words, mut word, mut quote, mut kept) = (Vec::new(), String::new(), None, 0);
    let mut begun = false;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (letter, Some(open)) if letter == open => quote = None,
            // Inside double quotes a backslash escapes some letters only. For completion the difference is too small
            // to matter.
            ('\\', None | Some('"')) => {
                word.extend(letters.next());
                begun = true;
            }
            (letter, Some(_)) => word.push(letter),
            // Two quotes with nothing in between are a word, too.
            ('\'' | '"', None) => (quote, begun) = (Some(letter), true),
            (letter, None) if letter.is_whitespace() => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                (begun, kept) = (false, 0);
            }
            (letter, None) => {
                word.push(letter);
                begun = true;
                if matches!(letter, '=' | ':') {
                    kept = word.len();
                }
            }
        }
    }
    // An empty word after a blank is the one to complete.
    words.push(word);
    Line { words, kept }
}

/// Takes words that a shell has split; the last may begin with a quote that is still open.
pub fn words(words: &[String]) -> Line {
    let mut words = words.to_vec();
    if let Some(last) = words.last_mut() {
        *last = last.trim_start_matches(['\'', '"']).to_owned();
    }
    Line { words, kept: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str], kept: usize) -> Line {
        Line { words: words.iter().map(|word| (*word).to_owned()).collect(), kept }
    }

    #[test]
    fn words_end_where_the_shell_ends_them() {
        assert_eq!(split("salt '*' te"), line(&["salt", "*", "te"], 0));
        assert_eq!(split("salt web\\ 1 "), line(&["salt", "web 1", ""], 0));
        assert_eq!(split("salt -C 'a and N@f"), line(&["salt", "-C", "a and N@f"], 0));
        assert_eq!(split("salt --out=js"), line(&["salt", "--out=js"], 6));
        assert_eq!(split("salt '' x"), line(&["salt", "", "x"], 0));
        assert_eq!(split(""), line(&[""], 0));
    }
}
