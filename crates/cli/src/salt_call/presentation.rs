//! Distinguishes results from error messages.
//!
//! A minion returns a failure to its master as text. `salt-call` prints it to standard error, in the words of Salt's
//! `salt-call`.

use minion::Answer;
use value::Value;

use crate::exit_codes;

/// The presentation of an answer.
#[derive(Debug, PartialEq)]
pub enum Presentation {
    /// As a result, with this exit code.
    Result(u8),
    /// On the error output.
    Complaint {
        /// The message.
        text: String,
        /// The usage of the function, for standard output.
        usage: Option<String>,
        /// The exit code.
        code: u8,
    },
}

/// Salt ends with -1 when there is no such function.
const NOT_AVAILABLE: u8 = 255;

impl Presentation {
    /// Classifies an answer of a function; `usage` returns its usage.
    pub fn of(function: &str, answer: &Answer, usage: impl FnOnce() -> String) -> Presentation {
        let failed = answer.retcode == 1 && answer.out.as_deref() == Some("nested");
        match &answer.value {
            Value::Str(text) if failed => complaint(function, text, usage),
            _ => Presentation::Result(if answer.retcode == 0 { exit_codes::OK } else { exit_codes::GENERIC }),
        }
    }
}

/// The start of Salt's text for keywords that the function does not know. It was not called then.
const UNKNOWN_KEYWORDS: &str = "The following keyword arguments are not valid: ";

fn invalid_arguments(reason: &str, usage: String) -> Presentation {
    let text = format!("\nPassed invalid arguments: {reason}.\n\nUsage:");
    Presentation::Complaint { text, usage: Some(usage), code: exit_codes::GENERIC }
}

fn complaint(function: &str, text: &str, usage: impl FnOnce() -> String) -> Presentation {
    let said = |text: String| Presentation::Complaint { text, usage: None, code: exit_codes::GENERIC };
    if let Some(reason) = text.strip_prefix("ERROR: ") {
        return said(format!("Error running '{function}': {reason}"));
    }
    if let Some(reason) = text.strip_prefix(&format!("ERROR executing '{function}': ")) {
        return match reason.starts_with(UNKNOWN_KEYWORDS) {
            true => said(reason.to_owned()),
            false => invalid_arguments(reason, usage()),
        };
    }
    if let Some(rest) = text.strip_prefix(&format!("Passed invalid arguments to {function}: ")) {
        let (reason, usage) = rest.split_once("\n\n").unwrap_or((rest, ""));
        return invalid_arguments(reason, usage.to_owned());
    }
    let module = function.split('.').next().unwrap_or_default();
    if text.starts_with(&format!("'{function}' is not available"))
        || text.starts_with(&format!("'{module}' __virtual__ returned False"))
    {
        return Presentation::Complaint { text: text.to_owned(), usage: None, code: NOT_AVAILABLE };
    }
    said(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: impl Into<Value>, retcode: i64, out: Option<&str>) -> Presentation {
        let answer =
            Answer { value: value.into(), retcode, out: out.map(str::to_owned), id: "web1".into(), jid: "1".into() };
        Presentation::of("cmd.run", &answer, || "Runs.".to_owned())
    }

    #[test]
    fn failures_are_complaints_and_output_is_not() {
        let complaint = |text: &str| match shown(text, 1, Some("nested")) {
            Presentation::Complaint { text, code, .. } => (text, code),
            other => panic!("{other:?}"),
        };
        assert_eq!(complaint("ERROR: no"), ("Error running 'cmd.run': no".into(), 1));
        let unknown = "The following keyword arguments are not valid: a=1";
        assert_eq!(complaint(&format!("ERROR executing 'cmd.run': {unknown}")), (unknown.into(), 1));
        assert_eq!(complaint("'cmd.run' is not available."), ("'cmd.run' is not available.".into(), 255));
        let turned_off = "'cmd' __virtual__ returned False: no";
        assert_eq!(complaint(turned_off), (turned_off.into(), 255));
        assert_eq!(shown("ERROR: printed by a program", 1, None), Presentation::Result(1));
        assert_eq!(shown(true, 0, None), Presentation::Result(0));
    }

    #[test]
    fn wrong_arguments_come_with_the_usage() {
        let found = shown("Passed invalid arguments to cmd.run: cmd is missing\n\nRuns a command.", 1, Some("nested"));
        let Presentation::Complaint { text, usage, code } = found else { panic!("a complaint") };
        assert_eq!(text, "\nPassed invalid arguments: cmd is missing.\n\nUsage:");
        assert_eq!((usage.as_deref(), code), (Some("Runs a command."), 1));
        let found = shown("ERROR executing 'cmd.run': what?", 1, Some("nested"));
        let Presentation::Complaint { text, usage, code } = found else { panic!("a complaint") };
        assert_eq!(text, "\nPassed invalid arguments: what?.\n\nUsage:");
        assert_eq!((usage.as_deref(), code), (Some("Runs."), 1));
    }
}
