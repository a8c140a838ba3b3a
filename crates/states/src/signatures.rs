//! Our state functions take the arguments Salt's take.

/// Functions whose arguments differ on purpose.
const DIFFERENT: &[&str] = &[];

/// The argument specifications the real Salt 3008.5 printed, recorded by `testdata/argspec.py`.
#[test]
fn the_arguments_are_salts() {
    let recorded: value::Value = serde_json::from_str(include_str!("../testdata/argspec-3008.json")).unwrap();
    let recorded = recorded.into_map().unwrap();
    let mut wrong = Vec::new();
    for module in crate::ALL {
        for function in module.functions {
            let name = format!("{}.{}", module.name, function.name);
            let Some(salt) = recorded.get(&name).filter(|_| !DIFFERENT.contains(&name.as_str())) else { continue };
            let ours = value::Value::from(modules::sys::specification(function));
            if ours != *salt {
                wrong.push(format!("{name}\n  ours {ours}\n  Salt {salt}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_list_and_the_functions_are_in_alphabetical_order() {
    let names: Vec<_> = crate::ALL.iter().map(|module| module.name).collect();
    assert!(names.is_sorted(), "ALL is not in order: {names:?}");
    for module in crate::ALL {
        let names: Vec<_> = module.functions.iter().map(|function| function.name).collect();
        assert!(names.is_sorted(), "the functions of {} are not in order: {names:?}", module.name);
        for function in module.functions {
            assert!(!function.doc.is_empty(), "{}.{} is not documented", module.name, function.name);
        }
    }
}
