//! Our functions take the arguments Salt's take.

/// Functions whose arguments differ on purpose.
const DIFFERENT: &[&str] = &[];

/// The argument specifications that real Salt 3008.5 printed (`salt-call --local sys.argspec 'file.*'` and so on), of
/// the modules for the machine.
#[test]
fn the_arguments_are_salts() {
    let recorded: value::Value = serde_json::from_str(include_str!("../testdata/argspec-3008-machine.json")).unwrap();
    let recorded = recorded.into_map().unwrap();
    let mut wrong = Vec::new();
    let mut compared = 0;
    // Several modules share a name. The recording comes from a Debian machine.
    let first = ["aptpkg", "dpkg_lowpkg", "systemd_service"];
    for module in crate::ALL.iter().filter(|module| module.provider.is_none_or(|name| first.contains(&name))) {
        for function in module.functions {
            let name = format!("{}.{}", module.name, function.name);
            let Some(salt) = recorded.get(&name).filter(|_| !DIFFERENT.contains(&name.as_str())) else { continue };
            let ours = value::Value::from(crate::sys::specification(function));
            // Counted, so that an empty recording cannot pass.
            compared += 1;
            if ours != *salt {
                wrong.push(format!("{name}\n  ours {ours}\n  Salt {salt}"));
            }
        }
    }
    assert!(compared > 100, "only {compared} functions were compared");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Of modules that share a name with others, too: the file of each was recorded by `testdata/record_providers.py`, from
/// 3008.5 or, where that has no such module any more, from 3007.
#[test]
fn the_arguments_of_providers_are_salts() {
    let recorded: value::Value = serde_json::from_str(include_str!("../testdata/argspec-providers.json")).unwrap();
    let recorded = recorded.into_map().unwrap();
    let mut wrong = Vec::new();
    for (name, salt) in &recorded {
        let name = name.as_str().unwrap();
        let (provider, function) = name.split_once('.').unwrap();
        let module = crate::ALL.iter().find(|module| module.provider == Some(provider)).unwrap();
        let ours = module.functions.iter().find(|known| known.name == function);
        match ours.map(|ours| value::Value::from(crate::sys::specification(ours))) {
            Some(ours) if ours == *salt => {}
            Some(ours) => wrong.push(format!("{name}\n  ours {ours}\n  Salt {salt}")),
            None => wrong.push(format!("{name} is missing")),
        }
    }
    assert!(recorded.len() > 150, "only {} functions were recorded", recorded.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
