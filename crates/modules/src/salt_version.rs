//! `salt_version` — the code names of Salt's releases, for templates that serve several of them.

use std::cmp::Ordering;

use exec::{Error, Module, Result, function};
use value::Value;

/// The execution module `salt_version`.
pub static MODULE: Module = Module::new(
    "salt_version",
    "Functions that compare the minion's release with a code name of Salt's releases.",
    &[&EQUAL, &GET_RELEASE_NUMBER, &GREATER_THAN, &LESS_THAN],
);

/// Releases that were named after year and month.
const BY_DATE: [(&str, u32, u32); 9] = [
    ("hydrogen", 2014, 1),
    ("helium", 2014, 7),
    ("lithium", 2015, 5),
    ("beryllium", 2015, 8),
    ("boron", 2016, 3),
    ("carbon", 2016, 11),
    ("nitrogen", 2017, 7),
    ("oxygen", 2018, 3),
    ("fluorine", 2019, 2),
];

/// The first release that has one number only.
const FIRST_PLAIN: u32 = 3000;

/// The releases from [`FIRST_PLAIN`] on, by the elements after fluorine. Salt left some elements out.
const PLAIN: &str = "neon sodium magnesium aluminium silicon phosphorus sulfur chlorine argon potassium calcium scandium \
    titanium vanadium chromium manganese iron cobalt nickel copper zinc gallium germanium arsenic selenium bromine krypton \
    rubidium strontium yttrium zirconium niobium molybdenum technetium ruthenium rhodium palladium silver cadmium indium \
    tin antimony tellurium iodine xenon cesium barium lanthanum cerium praseodymium neodymium promethium samarium europium \
    gadolinium terbium dysprosium holmium erbium thulium ytterbium lutetium hafnium tantalum tungsten rhenium osmium \
    iridium platinum gold mercury thallium lead bismuth polonium astatine radon francium radium actinium thorium \
    protactinium uranium neptunium plutonium americium curium berkelium californium einsteinium fermium mendelevium \
    nobelium lawrencium rutherfordium dubnium seaborgium bohrium hassium meitnerium darmstadtium roentgenium copernicium \
    nihonium flerovium moscovium livermorium tennessine oganesson";

/// A release as numbers that compare: the year and month, or the number alone.
fn numbers(name: &Value) -> Result<Option<(u32, Option<u32>)>> {
    // Salt's error for this case; other arguments are checked by their type.
    let Some(name) = name.as_str() else {
        return Err(Error::execution("'name' argument must be a string"));
    };
    let name = name.to_lowercase();
    let dated = BY_DATE.iter().find(|(known, ..)| *known == name).map(|(_, year, month)| (*year, Some(*month)));
    let plain = || PLAIN.split_whitespace().zip(FIRST_PLAIN..).find(|(known, _)| *known == name);
    let found = dated.or_else(|| plain().map(|(_, number)| (number, None)));
    // A name of the future is not an error: a template may be written for a later release.
    if found.is_none() {
        tracing::info!("no release is called {name}");
    }
    Ok(found)
}

/// Compares the line of this minion with a release; `None` if there is none of that name.
fn compared(name: &Value) -> Result<Option<Ordering>> {
    // Only the number before the dot has a code name.
    let line = exec::SALT_LINE.split('.').next().and_then(|number| number.parse().ok()).unwrap_or(FIRST_PLAIN);
    // Years compare below 3000, so releases by date are older than all others.
    Ok(numbers(name)?.map(|other| (line, None).cmp(&other)))
}

/// Returns the number of the release with a code name, as text; None if there is no such release.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' salt_version.get_release_number 'Oxygen'
#[function]
fn get_release_number(name: Value) -> Result<Option<String>> {
    Ok(numbers(&name)?.map(|(number, month)| match month {
        Some(month) => format!("{number}.{month}"),
        None => number.to_string(),
    }))
}

/// Returns whether the minion has the release with this code name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' salt_version.equal 'Oxygen'
#[function]
fn equal(name: Value) -> Result<bool> {
    Ok(compared(&name)? == Some(Ordering::Equal))
}

/// Returns whether the minion's release is newer than the one with this code name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' salt_version.greater_than 'Oxygen'
#[function]
fn greater_than(name: Value) -> Result<bool> {
    Ok(compared(&name)? == Some(Ordering::Greater))
}

/// Returns whether the minion's release is older than the one with this code name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' salt_version.less_than 'Oxygen'
#[function]
fn less_than(name: Value) -> Result<bool> {
    Ok(compared(&name)? == Some(Ordering::Less))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_names_have_the_numbers_of_salts_releases() {
        let number = |name: &str| numbers(&name.into()).unwrap();
        assert_eq!(number("Oxygen"), Some((2018, Some(3))));
        assert_eq!(number("neon"), Some((3000, None)));
        assert_eq!(number("ARGON"), Some((3008, None)));
        assert_eq!(number("tin"), Some((3040, None)));
        assert_eq!(number("oganesson"), Some((3108, None)));
        assert_eq!(number("aluminum"), None);
        assert_eq!(numbers(&5.into()).unwrap_err().to_string(), "'name' argument must be a string");
    }

    #[test]
    fn the_line_that_is_followed_is_compared() {
        let order = |name: &str| compared(&name.into()).unwrap();
        assert_eq!(order("Fluorine"), Some(Ordering::Greater));
        assert_eq!(order("Argon"), Some(Ordering::Equal));
        assert_eq!(order("potassium"), Some(Ordering::Less));
        assert_eq!(order("nope"), None);
    }
}
