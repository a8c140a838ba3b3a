//! Documentation in the form in which Salt's programs show it.

/// Lays a documentation out as a Python docstring of a function, which programs that show it expect: a line break
/// first, all lines indented; without the marks of reStructuredText.
pub fn docstring(doc: &str) -> String {
    let mut text = String::from("\n");
    let mut lines = doc.trim_end().lines().peekable();
    while let Some(line) = lines.next() {
        // Salt strips the directive and a blank line after it, since `CLI Example` reads well without them.
        if line.trim_start_matches(' ').starts_with(".. code-block:: ") {
            lines.next_if(|next| next.is_empty());
            continue;
        }
        if !line.is_empty() {
            text.push_str("    ");
            text.push_str(line);
        }
        text.push('\n');
    }
    text.push_str("    ");
    text
}

#[cfg(test)]
mod tests {
    use super::docstring;

    #[test]
    fn marks_are_taken_out() {
        let doc = "One.\n\nCLI Example:\n\n.. code-block:: bash\n\n    salt x\n\nMore.\n";
        assert_eq!(docstring(doc), "\n    One.\n\n    CLI Example:\n\n        salt x\n\n    More.\n    ");
    }
}
