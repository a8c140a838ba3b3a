//! Our functions take the arguments Salt's take.

/// Functions whose arguments differ on purpose.
const DIFFERENT: &[&str] = &[];

/// The argument specifications real Salt 3008.5 printed (`salt-call --local sys.argspec 'file.*'` and so on), of the
/// modules that look at the machine.
#[test]
fn the_arguments_are_salts() {
    let recorded: value::Value = serde_json::from_str(include_str!("../testdata/argspec-3008-machine.json")).unwrap();
    let recorded = recorded.into_map().unwrap();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for module in crate::ALL {
        for function in module.functions {
            let name = format!("{}.{}", module.name, function.name);
            let Some(salt) = recorded.get(&name).filter(|_| !DIFFERENT.contains(&name.as_str())) else { continue };
            let ours = value::Value::from(crate::sys::specification(function));
            compared += 1;
            if ours != *salt {
                wrong.push(format!("{name}\n  ours {ours}\n  Salt {salt}"));
            }
        }
    }
    assert!(compared > 100, "only {compared} functions were compared");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
