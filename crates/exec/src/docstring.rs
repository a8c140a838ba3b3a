//! Documentation in the form in which Salt's programs show it.

/// Lays a documentation out as a Python docstring of a function, which programs that show it expect: a line break
/// first, all lines indented.
pub fn raw_docstring(doc: &str) -> String {
    lay_out(doc.lines())
}

/// The same, without the marks of reStructuredText.
pub fn docstring(doc: &str) -> String {
    let mut lines = doc.trim_end().lines().peekable();
    lay_out(std::iter::from_fn(|| {
        // Salt strips the directive and a blank line after it, since `CLI Example` reads well without them.
        while lines.next_if(|line| line.trim_start_matches(' ').starts_with(".. code-block:: ")).is_some() {
            lines.next_if(|next| next.is_empty());
        }
        lines.next()
    }))
}

fn lay_out<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::from("\n");
    for line in lines {
        if !line.is_empty() {
            text.push_str("    ");
        }
        text.push_str(line);
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
