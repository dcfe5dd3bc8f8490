//! The text of the Python runtime: all files of `python/` as one program.
//!
//! The server hands this text to the system's python on a descriptor, so nothing has to be installed.

use std::fmt::Write;

macro_rules! module {
    ($name:literal) => {
        (concat!("tsubame_", $name), include_str!(concat!("../../../../python/", $name, ".py")))
    };
}

/// Every file of `python/`: its module and its text.
const MODULES: &[(&str, &str)] = &[
    module!("access"),
    module!("asgi"),
    module!("frames"),
    module!("log"),
    module!("loop"),
    module!("script"),
    module!("serve"),
    module!("websocket"),
    module!("wsgi"),
];

/// Makes a module of a text when it is imported.
const BEGIN: &str = "import sys
from importlib.machinery import ModuleSpec
class Texts:
    def find_spec(name, path=None, target=None):
        return ModuleSpec(name, Texts) if name in Texts.texts else None
    def create_module(spec):
        return None
    def exec_module(module):
        exec(compile(Texts.texts[module.__name__], module.__name__ + '.py', 'exec'), module.__dict__)
Texts.texts = dict((
";
const RUN: &str = "))
sys.meta_path.insert(0, Texts)
import tsubame_serve
tsubame_serve.main(sys.argv[1], sys.argv[2:])
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
