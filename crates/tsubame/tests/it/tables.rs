//! The modules' tables of directives, as the program has them.

use std::collections::BTreeMap;

use conf::Face;

/// Every module of the program, MPMs included.
pub fn faces() -> Vec<&'static Face> {
    let mpms = [&mpm::tables::PREFORK, &mpm::tables::WORKER, &mpm::tables::EVENT, &mpm::tables::PERCORE];
    let modules = modules::MODULES.iter().map(|module| &module.face);
    [&mpm::tables::CORE].into_iter().chain(modules).chain(mpms).collect()
}

/// A name stands once in a module's table: the second row would never be reached.
#[test]
fn no_module_has_a_directive_twice() {
    for face in faces() {
        let mut seen = BTreeMap::new();
        for row in face.directives {
            let before = seen.insert(row.name.to_ascii_lowercase(), row.name);
            assert!(before.is_none(), "{}: {} stands twice", face.id, row.name);
        }
    }
}

/// What a wrong number of arguments is answered with ends with the help; Apache's own text where it has one.
#[test]
fn every_directive_has_help() {
    for face in faces() {
        for row in face.directives {
            assert!(!row.help.contains('\n'), "{}: {}: the help is one line", face.id, row.name);
        }
    }
}

/// Sections are named with their `<` in the tables, and take their argument without `>`.
#[test]
fn sections_and_only_sections_begin_with_a_bracket() {
    for face in faces() {
        for row in face.directives {
            let section = matches!(row.args, conf::Args::Section(_) | conf::Args::OnRead(_));
            assert!(section || !row.name.starts_with('<'), "{}: {}", face.id, row.name);
            assert!(!row.name.ends_with('>'), "{}: {}", face.id, row.name);
        }
    }
}

/// Identifiers are unique, and what `LoadModule` and `<IfModule>` look for has the right form.
#[test]
fn every_module_has_its_two_names() {
    let mut seen = BTreeMap::new();
    for face in faces() {
        assert!(face.id.ends_with("_module"), "{}", face.id);
        assert!(face.source.ends_with(".c"), "{}: {}", face.id, face.source);
        if let Some(before) = seen.insert(face.id, face.source) {
            assert_eq!(before, face.source, "two modules are called {}", face.id);
        }
    }
}
