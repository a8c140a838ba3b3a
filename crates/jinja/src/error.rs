//! The errors of parsing and rendering, with Python's class names and texts.

use std::fmt;

use crate::value::Str;

/// The class of an error, as Python names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// `TemplateSyntaxError`.
    Syntax,
    /// `TemplateAssertionError`: the template is well-formed but cannot work.
    TemplateAssertion,
    /// `TemplateNotFound`.
    NotFound,
    /// `TemplatesNotFound`: none of the listed templates exists.
    NoneFound,
    /// `UndefinedError`.
    Undefined,
    /// `SecurityError`: the sandbox forbids it.
    Security,
    /// `TemplateRuntimeError`.
    Runtime,
    /// `FilterArgumentError`.
    FilterArgument,
    /// Python's `TypeError`.
    Type,
    /// Python's `ValueError`.
    Value,
    /// Python's `KeyError`; the message is the key's representation.
    Key,
    /// Python's `IndexError`.
    Index,
    /// Python's `AttributeError`.
    Attribute,
    /// Python's `ZeroDivisionError`.
    ZeroDivision,
    /// Python's `OverflowError`.
    Overflow,
    /// Python's `RuntimeError`.
    PythonRuntime,
    /// Python's `RecursionError`.
    Recursion,
    /// Python's `AssertionError`.
    Assertion,
    /// Python's `UnicodeEncodeError` and `UnicodeDecodeError`.
    Unicode,
    /// Python's `LookupError`, which unknown encodings raise.
    Lookup,
    /// Python's `MemoryError`: a value or the output became larger than the limits allow.
    Memory,
    /// The template used more steps than the limits allow.
    Steps,
    /// Python's `StopIteration`.
    StopIteration,
    /// An exception class of the host, by name.
    Other(Str),
}

impl ErrorKind {
    /// Returns the name of the Python class.
    pub fn class(&self) -> &str {
        match self {
            ErrorKind::Syntax => "TemplateSyntaxError",
            ErrorKind::TemplateAssertion => "TemplateAssertionError",
            ErrorKind::NotFound => "TemplateNotFound",
            ErrorKind::NoneFound => "TemplatesNotFound",
            ErrorKind::Undefined => "UndefinedError",
            ErrorKind::Security => "SecurityError",
            ErrorKind::Runtime => "TemplateRuntimeError",
            ErrorKind::FilterArgument => "FilterArgumentError",
            ErrorKind::Type => "TypeError",
            ErrorKind::Value => "ValueError",
            ErrorKind::Key => "KeyError",
            ErrorKind::Index => "IndexError",
            ErrorKind::Attribute => "AttributeError",
            ErrorKind::ZeroDivision => "ZeroDivisionError",
            ErrorKind::Overflow => "OverflowError",
            ErrorKind::PythonRuntime => "RuntimeError",
            ErrorKind::Recursion => "RecursionError",
            ErrorKind::Assertion => "AssertionError",
            ErrorKind::Unicode => "UnicodeError",
            ErrorKind::Lookup => "LookupError",
            ErrorKind::Memory => "MemoryError",
            ErrorKind::Steps => "TimeoutError",
            ErrorKind::StopIteration => "StopIteration",
            ErrorKind::Other(name) => name,
        }
    }

    /// Returns whether Jinja itself raises this for a template that cannot be read.
    pub fn is_syntax(&self) -> bool {
        matches!(self, ErrorKind::Syntax | ErrorKind::TemplateAssertion)
    }

    /// Returns whether this is a `TemplateRuntimeError` or a class derived from it.
    pub fn is_runtime(&self) -> bool {
        matches!(self, ErrorKind::Runtime | ErrorKind::Undefined | ErrorKind::Security | ErrorKind::FilterArgument)
    }
}

/// A place in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The template's name; `None` if it was compiled from text without a name.
    pub template: Option<Str>,
    /// The line, from 1.
    pub line: u32,
    /// The part of the template, as Jinja's tracebacks name it: `top-level template code`, `template`, `block 'name'`.
    pub location: Str,
}

struct Inner {
    kind: ErrorKind,
    message: String,
    places: Vec<Place>,
}

/// An error with its class, text and the places in templates it passed through.
pub struct Error(Box<Inner>);

impl Error {
    /// Creates an error of a class with a text.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, message: message.into(), places: Vec::new() }))
    }

    /// Creates an error of a class of the host, such as `CommandExecutionError`.
    pub fn other(class: &str, message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Other(class.into()), message)
    }

    /// Creates a `TypeError`.
    pub fn type_error(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Type, message)
    }

    /// Creates a `ValueError`.
    pub fn value_error(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Value, message)
    }

    /// Creates a `TemplateRuntimeError`.
    pub fn runtime(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Runtime, message)
    }

    /// Creates a `TemplateNotFound` for a template.
    pub fn not_found(name: &str) -> Self {
        Error::new(ErrorKind::NotFound, name)
    }

    /// Creates an error about a template's text at a line.
    pub(crate) fn syntax(kind: ErrorKind, message: impl Into<String>, template: Option<Str>, line: u32) -> Self {
        // Jinja's traceback names a template that could not be read `template`, whatever its file is called.
        let mut error = Error::new(kind, message);
        error.0.places.push(Place { template, line, location: "template".into() });
        error
    }

    /// Returns the class.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Returns the text, as Python's `str()` of the exception.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the places the error passed through, innermost first.
    pub fn places(&self) -> &[Place] {
        &self.0.places
    }

    /// Returns the line of the innermost place, as Jinja's traceback gives it.
    pub fn line(&self) -> Option<u32> {
        self.0.places.first().map(|place| place.line)
    }

    /// Returns the name of the innermost template.
    pub fn template(&self) -> Option<&str> {
        self.0.places.first().and_then(|place| place.template.as_deref())
    }

    pub(crate) fn at(mut self, template: &Option<Str>, line: u32, location: &Str) -> Self {
        // A recursive macro passes the error through every level of its recursion. The innermost places name the fault;
        // the rest would only fill the log.
        if self.0.places.len() < 64 {
            self.0.places.push(Place { template: template.clone(), line, location: location.clone() });
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind.class(), self.0.message)?;
        match (self.line(), self.template()) {
            (Some(line), Some(name)) => write!(f, " ({name}, line {line})"),
            (Some(line), None) => write!(f, " (line {line})"),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}
