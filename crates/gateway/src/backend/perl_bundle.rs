//! The text of the Perl runtime: all modules of `perl/lib` in a table, followed by `perl/runtime.pl`.
//!
//! The server hands this text to the system's perl on a descriptor, so nothing has to be installed. `perl/runtime.pl`
//! serves the modules from the table through a hook in `@INC`.

use std::fmt::Write;

/// The line that ends a module's text in the bundle. No module may contain it.
const END_OF_FILE: &str = "TSUBAME_END_OF_FILE";

const RUNTIME: &str = include_str!("../../../../perl/runtime.pl");

macro_rules! module {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../perl/lib/", $name)))
    };
}

/// Every file of `perl/lib`: its name and its text.
#[rustfmt::skip]
const MODULES: &[(&str, &str)] = &[
    module!("APR/Const.pm"),
    module!("APR/Error.pm"),
    module!("APR/Finfo.pm"),
    module!("APR/Pool.pm"),
    module!("APR/Table.pm"),
    module!("Apache.pm"),
    module!("Apache/Constants.pm"),
    module!("Apache/PerlRun.pm"),
    module!("Apache/Registry.pm"),
    module!("Apache/Util.pm"),
    module!("Apache2.pm"),
    module!("Apache2/Access.pm"),
    module!("Apache2/Connection.pm"),
    module!("Apache2/Const.pm"),
    module!("Apache2/Log.pm"),
    module!("Apache2/Module.pm"),
    module!("Apache2/RequestIO.pm"),
    module!("Apache2/RequestRec.pm"),
    module!("Apache2/RequestUtil.pm"),
    module!("Apache2/Response.pm"),
    module!("Apache2/ServerRec.pm"),
    module!("Apache2/ServerUtil.pm"),
    module!("Apache2/SubRequest.pm"),
    module!("Apache2/URI.pm"),
    module!("Apache2/Util.pm"),
    module!("Apache2/compat.pm"),
    module!("CGI/SpeedyCGI.pm"),
    module!("ModPerl/Const.pm"),
    module!("ModPerl/PerlRun.pm"),
    module!("ModPerl/PerlRunPrefork.pm"),
    module!("ModPerl/Registry.pm"),
    module!("ModPerl/RegistryBB.pm"),
    module!("ModPerl/RegistryCooker.pm"),
    module!("ModPerl/RegistryLoader.pm"),
    module!("ModPerl/RegistryPrefork.pm"),
    module!("ModPerl/Util.pm"),
    module!("PersistentPerl.pm"),
    module!("Tsubame/Carp.pm"),
    module!("Tsubame/Classes.pm"),
    module!("Tsubame/Eval.pm"),
    module!("Tsubame/Handover.pm"),
    module!("Tsubame/Launch.pm"),
    module!("Tsubame/ModPerl.pm"),
    module!("Tsubame/Persistent.pm"),
    module!("Tsubame/Psgi.pm"),
    module!("Tsubame/Pump.pm"),
    module!("Tsubame/Registry.pm"),
    module!("Tsubame/Run.pm"),
    module!("Tsubame/Speedy.pm"),
    module!("Tsubame/Status.pm"),
    module!("Tsubame/Stdio.pm"),
    module!("Tsubame/System.pm"),
    module!("Tsubame/Template.pm"),
    module!("Tsubame/Usage.pm"),
    module!("mod_perl.pm"),
    module!("mod_perl2.pm"),
];

/// One program made from `perl/runtime.pl` and its modules.
pub fn bundle() -> String {
    let mut text = String::from("BEGIN {\npackage Tsubame::Bundle;\nour %text;\n");
    for (name, module) in MODULES {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "$text{{'{name}'}} = <<'{END_OF_FILE}';\n{module}{END_OF_FILE}");
    }
    text.push_str("}\n#line 1 \"tsubame/runtime.pl\"\n");
    text.push_str(RUNTIME);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    fn files_below(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files_below(&path, found);
            } else {
                found.push(path);
            }
        }
    }

    #[test]
    fn every_module_is_in_the_table() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../perl/lib");
        let mut found = Vec::new();
        files_below(&root, &mut found);
        let mut names: Vec<&str> =
            found.iter().map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap()).collect();
        names.sort_unstable();
        let table: Vec<&str> = MODULES.iter().map(|(name, _)| *name).collect();
        assert_eq!(table, names);
    }

    #[test]
    fn every_module_ends_in_the_bundle_where_its_file_ends() {
        for (name, text) in MODULES {
            assert!(text.ends_with('\n'), "{name}");
            assert!(!text.contains(END_OF_FILE), "{name}");
        }
        assert_eq!(bundle().matches(END_OF_FILE).count(), 2 * MODULES.len());
    }
    /// The tests of the runtime itself (`perl/t`), with the text that the server would give to perl.
    #[test]
    fn the_runtime_passes_its_own_tests() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = std::env::temp_dir().join(format!("perl-bundle-{}", std::process::id()));
        std::fs::write(&text, bundle()).unwrap();
        let proved = std::process::Command::new("prove")
            .args(["--jobs", "4", "perl/t"])
            .current_dir(root)
            .env("PERL_BUNDLE", &text)
            .output()
            .expect("prove, of the package perl");
        std::fs::remove_file(&text).unwrap();
        let said = [proved.stdout, proved.stderr].concat();
        assert!(proved.status.success(), "{}", String::from_utf8_lossy(&said));
    }
}
