//! Errors as text.

/// Returns an error with all its causes, in one line. A cause whose text already ends the line is not repeated: some errors
/// name their cause themselves.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |cause| cause.source()) {
        let more = cause.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Failed(&'static str, Option<Box<Failed>>);

    impl fmt::Display for Failed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl std::error::Error for Failed {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }

    #[test]
    fn each_cause_is_named_once() {
        let disk = || Some(Box::new(Failed("disk full", None)));
        assert_eq!(chain(&Failed("no answer", None)), "no answer");
        let nested = Failed("failed to keep", Some(Box::new(Failed("failed to write x", disk()))));
        assert_eq!(chain(&nested), "failed to keep: failed to write x: disk full");
        assert_eq!(chain(&Failed("failed to write x: disk full", disk())), "failed to write x: disk full");
    }
}
