//! `pip`: Python packages that are installed, up to date or removed.

mod installed;
mod removed;
mod there;
mod uptodate;

use exec::Module;
use modules::pkg_resource::compare_loosely;
use value::Value;

/// The module.
pub static MODULE: Module = Module::new(
    "pip",
    "Python packages are there, are the newest, are gone.",
    &[&installed::INSTALLED, &removed::REMOVED, &uptodate::UPTODATE],
);

/// Returns the message for options of `pip.install` that the installed version of pip lacks.
pub(crate) fn unsupported(version: &str, options: &[(&str, &Value)]) -> Option<String> {
    let outside = |low: &str, high: Option<&str>| {
        compare_loosely(version, low, false) < 0 || high.is_some_and(|high| compare_loosely(version, high, false) > 0)
    };
    options.iter().filter(|(_, value)| value.truthy()).find_map(|(name, _)| {
        let (wrong, range) = match *name {
            "no_binary" => (outside("7.0.0", None), "7.0.0 and newer"),
            _ => (outside("1.4", Some("9.0.3")), "between 1.4 and 9.0.3"),
        };
        wrong.then(|| {
            format!("The '{name}' option is only supported in pip {range}. The version of pip detected was {version}.")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_belong_to_versions_of_pip() {
        let yes = Value::Bool(true);
        assert!(unsupported("9.0.1", &[("use_wheel", &yes), ("no_binary", &yes)]).is_none());
        assert!(unsupported("23.0", &[("use_wheel", &Value::Null)]).is_none());
        let said = unsupported("23.0", &[("no_use_wheel", &yes)]).unwrap();
        assert!(said.ends_with("pip between 1.4 and 9.0.3. The version of pip detected was 23.0."), "{said}");
        assert!(unsupported("6.1", &[("no_binary", &yes)]).unwrap().contains("pip 7.0.0 and newer"));
    }
}
