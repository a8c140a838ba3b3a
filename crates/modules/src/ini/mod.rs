//! `ini` — options in files with sections.
//!
//! [`document`] reads, changes and writes the text; comments and unknown lines stay where they are.

mod document;
mod text;

use std::path::Path;

use exec::{Context, Error, Module, Result, function};
use value::{Map, Value};

use document::{Entry, Section};

/// Registers the functions of `ini`.
pub static MODULE: Module = Module::new(
    "ini",
    "Functions that read and change options in files with sections.",
    &[&GET_INI, &GET_OPTION, &GET_SECTION, &REMOVE_OPTION, &REMOVE_SECTION, &SET_OPTION],
);

/// The format of a file.
struct Form<'a> {
    file: &'a str,
    separator: String,
    no_spaces: bool,
}

/// Checks the encoding: text is UTF-8 here.
fn check_encoding(encoding: Option<&str>) -> Result<()> {
    match encoding.map(|name| name.to_lowercase().replace('_', "-")).as_deref() {
        None | Some("utf-8" | "utf8" | "ascii" | "us-ascii") => Ok(()),
        Some(other) => Err(Error::execution(format!("not supported: encoding '{other}' of an ini file"))),
    }
}

fn read(ctx: &Context, form: &Form) -> Result<Section> {
    match std::fs::read(form.file) {
        Ok(bytes) => {
            let text = String::from_utf8(bytes)
                .map_err(|error| Error::Other(format!("{} is not UTF-8 text: {error}", form.file)))?;
            text::parse(&text, &form.separator, form.no_spaces)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Section::new(&form.separator, form.no_spaces)),
        // A test run must not fail for a file that an earlier state would have made readable.
        Err(_) if ctx.is_test() => Ok(Section::new(&form.separator, form.no_spaces)),
        Err(error) => {
            let why = crate::subprocess::os_text(&error, form.file);
            Err(Error::execution(format!("Unable to open file '{}'. Exception: {why}", form.file)))
        }
    }
}

fn write(form: &Form, ini: &mut Section) -> Result<()> {
    let content = text::print(ini);
    let failed = |error: std::io::Error| {
        let why = crate::subprocess::os_text(&error, form.file);
        Error::execution(format!("Unable to write file '{}'. Exception: {why}", form.file))
    };
    let path = Path::new(form.file);
    if !path.exists() {
        // The directory is checked by writing; a new file gets the usual mode.
        return std::fs::write(path, content).map_err(failed);
    }
    // A rename would replace a link by a file.
    let target = path.canonicalize().map_err(failed)?;
    use std::os::unix::fs::{MetadataExt, chown};
    let meta = target.metadata().map_err(failed)?;
    // A device or a pipe is written into, since it cannot be replaced.
    if !meta.is_file() {
        return std::fs::write(path, content).map_err(failed);
    }
    crate::util::replace_file(&target, content.as_bytes(), meta.mode() & 0o7777).map_err(failed)?;
    // The new file belongs to the minion's user first.
    chown(&target, Some(meta.uid()), Some(meta.gid())).map_err(failed)
}

/// Sets options, and makes sections for them; returns the changes, with ``before`` and ``after``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ini.set_option /etc/app.ini '{section: {option: value}}'
#[function]
fn set_option(
    ctx: &Context,
    file_name: String,
    sections: Option<Value>,
    #[default("=")] separator: String,
    encoding: Option<String>,
    #[default(false)] no_spaces: bool,
) -> Result<Map> {
    check_encoding(encoding.as_deref())?;
    let form = Form { file: &file_name, separator, no_spaces };
    let mut ini = read(ctx, &form)?;
    let wanted = match sections.filter(Value::truthy) {
        None => Map::new(),
        Some(Value::Map(map)) => map,
        Some(other) => return Err(Error::Other(format!("sections must be a map of sections, not {other}"))),
    };
    let changes = ini.update(&wanted)?;
    write(&form, &mut ini)?;
    Ok(changes)
}

/// Returns an option of a section, or one above all sections; None without it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ini.get_option /etc/app.ini section option
#[function]
fn get_option(
    ctx: &Context,
    file_name: String,
    section: Value,
    option: Value,
    #[default("=")] separator: String,
    encoding: Option<String>,
) -> Result<Value> {
    check_encoding(encoding.as_deref())?;
    let ini = read(ctx, &Form { file: &file_name, separator, no_spaces: false })?;
    let found = match section.truthy() {
        true => ini.get(&section.to_string()).and_then(Entry::section).and_then(|inner| inner.get(&option.to_string())),
        false => ini.get(&option.to_string()),
    };
    Ok(found.map(Entry::to_value).unwrap_or_default())
}

/// Removes an option and returns its value; None if there was none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ini.remove_option /etc/app.ini section option
#[function]
fn remove_option(
    ctx: &Context,
    file_name: String,
    section: Value,
    option: Value,
    #[default("=")] separator: String,
    encoding: Option<String>,
) -> Result<Value> {
    check_encoding(encoding.as_deref())?;
    let form = Form { file: &file_name, separator, no_spaces: false };
    let mut ini = read(ctx, &form)?;
    // A section that does not exist falls back to the top of the file, as in Salt.
    let inner = if section.is_null() { None } else { ini.section_mut(&section.to_string()) };
    let gone = match inner {
        Some(inner) => inner.remove(&option.to_string()),
        None => ini.remove(&option.to_string()),
    };
    write(&form, &mut ini)?;
    Ok(gone.map(|entry| entry.to_value()).unwrap_or_default())
}

/// Returns the options of a section.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ini.get_section /etc/app.ini section
#[function]
fn get_section(
    ctx: &Context,
    file_name: String,
    section: Value,
    #[default("=")] separator: String,
    encoding: Option<String>,
) -> Result<Map> {
    check_encoding(encoding.as_deref())?;
    let ini = read(ctx, &Form { file: &file_name, separator, no_spaces: false })?;
    match ini.get(&section.to_string()) {
        None => Ok(Map::new()),
        Some(Entry::Section(inner)) => Ok(inner.without_comments(false)),
        Some(Entry::Text(_)) => Err(not_a_section(&section)),
    }
}

fn not_a_section(name: &Value) -> Error {
    Error::Other(format!("'{name}' is an option, not a section"))
}

/// Removes a section and returns its options; None if there was none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ini.remove_section /etc/app.ini section
#[function]
fn remove_section(
    ctx: &Context,
    file_name: String,
    section: Value,
    #[default("=")] separator: String,
    encoding: Option<String>,
) -> Result<Value> {
    check_encoding(encoding.as_deref())?;
    let form = Form { file: &file_name, separator, no_spaces: false };
    let mut ini = read(ctx, &form)?;
    match ini.remove(&section.to_string()) {
        None => Ok(Value::Null),
        Some(Entry::Text(_)) => Err(not_a_section(&section)),
        Some(Entry::Section(inner)) => {
            write(&form, &mut ini)?;
            Ok(inner.without_comments(false).into())
        }
    }
}

/// Returns the whole file: its options, and its sections with their options.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ini.get_ini /etc/app.ini
#[function]
fn get_ini(
    ctx: &Context,
    file_name: String,
    #[default("=")] separator: String,
    encoding: Option<String>,
) -> Result<Map> {
    check_encoding(encoding.as_deref())?;
    let ini = read(ctx, &Form { file: &file_name, separator, no_spaces: false })?;
    Ok(ini.without_comments(true))
}
