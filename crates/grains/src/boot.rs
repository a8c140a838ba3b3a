//! The boot of the system: `kernelparams`, `efi`, `efi-secure-boot`, `transactional`, `machine_id`.

use value::{Map, Value, list, map};

use crate::Machine;

/// Returns the grains of the boot.
pub fn boot(machine: &Machine) -> Map {
    let mut grains = Map::new();
    if let Some(line) = machine.read("/proc/cmdline") {
        grains.insert("kernelparams", kernel_parameters(&line));
    }
    grains.update(efi(machine));
    grains.insert("transactional", machine.which("transactional-update").is_some());
    let machine_id = ["/etc/machine-id", "/var/lib/dbus/machine-id"].iter().find_map(|path| machine.read_trimmed(path));
    grains.extend(machine_id.map(|id| ("machine_id", id)));
    grains
}

/// Returns pairs of name and value. As in Salt, a value with another `=` is omitted (`root=UUID=…`).
fn kernel_parameters(line: &str) -> Value {
    let pair = |word: String| -> Value {
        let parts: Vec<&str> = word.split('=').collect();
        let value = if parts.len() == 2 { Some(parts[1].trim_matches('"')) } else { None };
        // `root=UUID=x` has three parts, and Salt gives such a parameter no value.
        list![parts[0], value]
    };
    split_words(line).into_iter().map(pair).collect()
}

/// Splits like a shell: blanks, quotes, backslashes.
fn split_words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            // In single quotes a backslash is an ordinary character.
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

fn efi(machine: &Machine) -> Map {
    let directory =
        ["/sys/firmware/efi/efivars", "/sys/firmware/efi/vars"].into_iter().find(|path| machine.exists(path));
    let secure = directory.is_some_and(|directory| secure_boot(machine, directory));
    map! { "efi" => directory.is_some(), "efi-secure-boot" => secure }
}

/// The last byte of the variable is its value; the file depends on the interface of the kernel.
fn secure_boot(machine: &Machine, directory: &str) -> bool {
    let suffix = if directory.ends_with("efivars") { "" } else { "/data" };
    let names: Vec<String> =
        machine.names(directory).into_iter().filter(|name| name.starts_with("SecureBoot-")).collect();
    // Salt looks only if there is exactly one such variable.
    match names.as_slice() {
        [name] => {
            machine.read_bytes(&format!("{directory}/{name}{suffix}")).is_some_and(|data| data.last() == Some(&1))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn kernel_parameters_are_pairs() {
        let line = "BOOT_IMAGE=/vmlinuz root=UUID=ab-cd ro quiet dyndbg=\"file x +p\" empty=\n";
        let expected = list![
            list!["BOOT_IMAGE", "/vmlinuz"],
            list!["root", Value::Null],
            list!["ro", Value::Null],
            list!["quiet", Value::Null],
            list!["dyndbg", "file x +p"],
            list!["empty", ""],
        ];
        assert_eq!(kernel_parameters(line), expected);
    }

    #[test]
    fn secure_boot_is_the_last_byte() {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine::recorded(folder.path(), &[]);
        assert_eq!(efi(&machine), map! { "efi" => false, "efi-secure-boot" => false });
        let variables = folder.path().join("sys/firmware/efi/efivars");
        fs::create_dir_all(&variables).unwrap();
        assert_eq!(efi(&machine), map! { "efi" => true, "efi-secure-boot" => false });
        fs::write(variables.join("SecureBoot-8be4df61"), [6, 0, 0, 0, 1]).unwrap();
        assert_eq!(efi(&machine), map! { "efi" => true, "efi-secure-boot" => true });
    }
}
