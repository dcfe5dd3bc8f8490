//! For tests of modules: applies lines of configuration as the server does.

use std::sync::{Arc, LazyLock};

use conf::{Context, DirectiveContext, Language, ModuleInfo, Notice, Reader, SettingsMap};

/// The result of some lines.
pub(crate) struct Applied {
    /// The server's settings.
    pub(crate) server: SettingsMap,
    /// The settings outside sections.
    pub(crate) dir: SettingsMap,
    /// Notices.
    pub(crate) notices: Vec<Notice>,
}

/// Applies lines with all modules loaded. `Err`: the message of the first error.
pub(crate) fn apply(lines: &str) -> Result<Applied, String> {
    static FACES: LazyLock<Vec<&'static ModuleInfo>> =
        LazyLock::new(|| crate::MODULES.iter().map(|module| &module.info).collect());
    // Providers are looked up among the program's modules.
    server::module::set_known(crate::MODULES);
    let system = Arc::new(server::machine::Machine);
    let mut reader = Reader::new(system, Language::new(&FACES, &FACES, "/root"));
    let tree = reader.read_text("lines", lines.into()).map_err(|error| error.message)?;
    let mut context = Context { notices: Vec::new(), ..reader.into_context() };
    let (mut server, mut dir) = (SettingsMap::default(), SettingsMap::default());
    conf::apply(&tree, &mut server, &mut dir, &DirectiveContext::server_level(), &mut context)
        .map_err(|error| error.message)?;
    Ok(Applied { server, dir, notices: context.notices })
}

/// Checks lines against their messages; an empty one means that they are accepted.
pub(crate) fn check(table: &[(&str, &str)]) {
    for (lines, want) in table {
        let got = apply(lines).err().unwrap_or_default();
        assert_eq!(got, *want, "{lines}");
    }
}
