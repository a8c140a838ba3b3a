//! File attributes (`lsattr`, `chattr`).

use std::collections::BTreeSet;
use std::path::Path;

use exec::{Context, Error, KwArgs, Result, VarArgs, function};
use value::{Map, Value};

use crate::{subprocess, util};

/// The letters that are attributes; others in the output of `lsattr` are left out.
const LETTERS: &str = "aAcCdDeijPsStTu";

/// Returns the attributes of the files that match a path, by path; None where there is no ``lsattr``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.lsattr foo1.txt
#[function]
pub fn lsattr(ctx: &Context, path: String) -> Result<Value> {
    // Salt returns None without the program, and states then skip the attributes.
    if util::which("lsattr").is_none() {
        return Ok(Value::Null);
    }
    if !Path::new(&path).exists() {
        return Err(Error::invocation(format!("File or directory does not exist: {path}")));
    }
    let said = subprocess::quiet(ctx, &["lsattr", &path])?;
    let mut found = Map::new();
    // File systems without attributes make the program complain; the other lines are still good.
    for line in said.stdout.lines().filter(|line| !line.starts_with("lsattr: ")) {
        let Some((attrs, file)) = line.trim_start().split_once(char::is_whitespace) else { continue };
        let letters = attrs.chars().filter(|c| LETTERS.contains(*c)).map(|c| Value::from(c.to_string()));
        found.insert(file.trim_start(), letters.collect::<Vec<_>>());
    }
    Ok(found.into())
}

/// Adds attributes to files (``operator=add``) or removes them (``operator=remove``).
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.chattr foo1.txt foo2.txt operator=add attributes=ai
#[function]
pub fn chattr(ctx: &Context, files: VarArgs, kwargs: KwArgs) -> Result<bool> {
    let files: Vec<String> = files.0.iter().map(Value::to_string).collect();
    let given = |name: &str| kwargs.0.get(name).filter(|value| !value.is_null()).map(Value::to_string);
    let sign = match given("operator").as_deref() {
        Some("add") => '+',
        Some("remove") => '-',
        _ => return Err(Error::invocation("Need an operator: 'add' or 'remove' to modify attributes.")),
    };
    let letters = given("attributes").ok_or_else(|| Error::invocation("Need attributes: [aAcCdDeijPsStTu]"))?;
    let mut words = vec!["chattr".to_owned(), format!("{sign}{letters}")];
    words.extend(given("flags").map(|flags| format!("-{flags}")));
    words.extend(given("version").into_iter().flat_map(|version| ["-v".to_owned(), version]));
    words.extend(files);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = subprocess::quiet(ctx, &words)?;
    ctx.set_retcode(said.retcode.unwrap_or(1));
    // chattr is silent when all went well; Salt judges by that.
    Ok(said.stdout.is_empty() && said.stderr.is_empty())
}

/// The attributes a file lacks, and those it has too many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// To be added.
    pub added: String,
    /// To be removed.
    pub removed: String,
}

impl Difference {
    /// Returns whether all attributes are as wanted.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}

/// Returns the attribute letters of a file; `None` if they cannot be determined.
pub fn letters(ctx: &Context, path: &str) -> Result<Option<String>> {
    let found = lsattr(ctx, path.to_owned())?;
    let Some(map) = found.as_map() else { return Ok(None) };
    let letters = map.get(path).and_then(Value::as_list).unwrap_or_default();
    Ok(Some(letters.iter().map(Value::to_string).collect()))
}

/// Compares the attributes of a file with those wanted. `e` belongs to the file system and is left as it is.
pub fn compare(ctx: &Context, path: &str, wanted: &str) -> Result<Option<Difference>> {
    let Some(has) = letters(ctx, path)? else { return Ok(None) };
    Ok(Some(difference(&has, wanted)))
}

fn difference(has: &str, wanted: &str) -> Difference {
    let old: BTreeSet<char> = has.chars().collect();
    let mut new: BTreeSet<char> = wanted.chars().collect();
    // ext4 sets the letter for files stored in extents; chattr cannot take it away.
    if old.contains(&'e') {
        new.insert('e');
    }
    Difference { added: new.difference(&old).collect(), removed: old.difference(&new).collect() }
}

/// Applies a [`Difference`] to a file.
pub fn apply(ctx: &Context, path: &str, difference: &Difference) -> Result<()> {
    for (operator, letters) in [("add", &difference.added), ("remove", &difference.removed)] {
        if !letters.is_empty() {
            let kwargs = value::map! { "operator" => operator, "attributes" => letters.as_str() };
            chattr(ctx, VarArgs(vec![path.into()]), KwArgs(kwargs))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_compared() {
        assert_eq!(difference("e", "ai"), Difference { added: "ai".into(), removed: String::new() });
        assert_eq!(difference("ae", "i"), Difference { added: "i".into(), removed: "a".into() });
        assert!(difference("e", "").is_empty());
    }
}
