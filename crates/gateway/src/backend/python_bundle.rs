//! The text of the Python runtime: all files of `python/` as one program.
//!
//! The server hands this text to the system's python on a descriptor, so nothing has to be installed.

use std::fmt::Write;

macro_rules! module {
    ($name:literal) => {
        (concat!("tsubame_", $name), include_str!(concat!("../../../../python/", $name, ".py")))
    };
}

/// Every file of `python/`: its module and its text, each behind those that it imports.
const MODULES: &[(&str, &str)] =
    &[module!("frames"), module!("log"), module!("script"), module!("access"), module!("wsgi"), module!("serve")];

/// Makes a module of each text, then runs the process.
const BEGIN: &str = "import sys, types\nfor name, text in (\n";
const RUN: &str = "):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name + '.py', 'exec'), module.__dict__)
del name, text, module
sys.modules['tsubame_serve'].main(sys.argv[1], sys.argv[2:])
";

/// One program made of all modules.
pub fn bundle() -> String {
    let mut text = String::from(BEGIN);
    for (name, module) in MODULES {
        // The texts are ASCII, whose escapes in Rust are those of Python. Writing to a string cannot fail.
        let _ = writeln!(text, "({name:?}, {module:?}),");
    }
    text.push_str(RUN);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_in_the_table() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
        let names = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut found: Vec<String> =
            names.filter_map(|name| Some(format!("tsubame_{}", name.strip_suffix(".py")?))).collect();
        found.sort_unstable();
        let mut table: Vec<&str> = MODULES.iter().map(|(name, _)| *name).collect();
        table.sort_unstable();
        assert_eq!(table, found);
    }

    #[test]
    fn texts_are_literals_of_both_languages() {
        for (name, text) in MODULES {
            assert!(text.is_ascii() && !text.contains('\0') && !text.contains('\r'), "{name}");
        }
    }
}
