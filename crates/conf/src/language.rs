//! State from reading that later lines need: modules, variables, macros, directories.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::directive::{Directive, DirectiveIndex, ModuleInfo};
use crate::macros::Macro;
use crate::paths::join;
use crate::settings::SettingsMap;
use crate::system::System;

/// The version that `<IfVersion>` compares with, and that the server claims compatibility with.
pub const VERSION: (u32, u32, u32) = (2, 4, 71);

/// The modules, variables, macros and directories of the lines read so far. `.htaccess` files need them again.
#[derive(Clone)]
pub struct Language {
    known: &'static [&'static ModuleInfo],
    unselected: &'static [&'static ModuleInfo],
    /// Modules that the program lacks, and that `LoadModule` accepts.
    idle: &'static [&'static ModuleInfo],
    /// Whether a `LoadModule` line chose the modules.
    selects: bool,
    loaded: Vec<&'static ModuleInfo>,
    /// Whether the last of them is the MPM of a configuration without `LoadModule` lines.
    has_default_mpm: bool,
    /// The directives of all modules of the program.
    index: Arc<DirectiveIndex>,
    /// Names in the order of their first definition, case-sensitive.
    defines: Vec<String>,
    /// Values, by name in lower case.
    values: BTreeMap<String, String>,
    pub(crate) macros: BTreeMap<String, Arc<Macro>>,
    /// Data that modules keep for later lines, `.htaccess` files included (`<AuthzProviderAlias>`).
    pub kept: SettingsMap,
    /// The current value of `ServerRoot`.
    pub server_root: String,
    /// `DefaultRuntimeDir`, absolute.
    pub runtime_dir: Option<String>,
}

/// Names that modules define when they are loaded, for `<IfDefine>`.
const DEFINED: [(&str, &str); 1] = [("perl_module", "MODPERL2")];

fn is_mpm(info: &&'static ModuleInfo) -> bool {
    info.id.starts_with("mpm_")
}

impl Language {
    /// The state before anything is read. `known` are all modules of the program, `unselected` those of a configuration
    /// without `LoadModule` lines.
    pub fn new(
        known: &'static [&'static ModuleInfo],
        unselected: &'static [&'static ModuleInfo],
        server_root: &str,
    ) -> Language {
        Language {
            known,
            unselected,
            idle: &[],
            selects: false,
            loaded: unselected.to_vec(),
            has_default_mpm: false,
            index: Arc::new(DirectiveIndex::of(known)),
            defines: Vec::new(),
            values: BTreeMap::new(),
            macros: BTreeMap::new(),
            kept: SettingsMap::default(),
            server_root: server_root.to_string(),
            runtime_dir: None,
        }
    }

    /// The language with modules that the program lacks but `LoadModule` accepts: they do nothing where no directive asks
    /// for them, and the directives that ask are not in their tables.
    #[must_use]
    pub fn with_idle(self, idle: &'static [&'static ModuleInfo]) -> Language {
        let index = Arc::new(DirectiveIndex::of(&[self.known, idle].concat()));
        Language { idle, index, ..self }
    }

    /// The modules loaded so far that the program lacks.
    pub fn loaded_idle(&self) -> impl Iterator<Item = &'static ModuleInfo> {
        self.loaded.iter().copied().filter(|info| self.idle.iter().any(|idle| idle.id == info.id))
    }

    /// The directory for runtime files: `DefaultRuntimeDir`, or `logs` below `ServerRoot`.
    pub fn runtime_dir(&self) -> Cow<'_, str> {
        match &self.runtime_dir {
            Some(path) => path.into(),
            None => join(&self.server_root, "logs").into(),
        }
    }

    /// The modules loaded so far: the linked ones first, then in the order of their `LoadModule` lines. Without any
    /// `LoadModule` line, they are those of an httpd with everything linked in. If the lines name no MPM, the MPM is
    /// the one of a configuration without such lines.
    pub fn loaded(&self) -> &[&'static ModuleInfo] {
        &self.loaded
    }

    /// Whether a module is loaded, by identifier.
    pub fn has_module(&self, id: &str) -> bool {
        self.loaded.iter().any(|info| info.id == id)
    }

    /// Finds a directive by name, ignoring case, in the first loaded module that has it.
    pub fn directive(&self, name: &str) -> Option<&'static Directive> {
        self.rows(name).min_by_key(|(position, _)| *position).map(|(_, row)| row)
    }

    /// Finds a directive by name in every loaded module that has it, in their order: all of them get the line.
    pub fn directives(&self, name: &str) -> Vec<&'static Directive> {
        let mut rows: Vec<_> = self.rows(name).collect();
        rows.sort_by_key(|(position, _)| *position);
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// The directives with this name in loaded modules, each with its module's position.
    fn rows(&self, name: &str) -> impl Iterator<Item = (usize, &'static Directive)> {
        let position = |of: &ModuleInfo| self.loaded.iter().position(|info| std::ptr::eq(*info, of));
        self.index.find(name).iter().filter_map(move |(info, row)| Some((position(info)?, *row)))
    }

    /// Whether a `LoadModule` line chose the modules.
    pub fn selects_modules(&self) -> bool {
        self.selects
    }

    /// From now on, limits the modules to the linked ones and those that `LoadModule` lines name.
    pub(crate) fn select_modules(&mut self) {
        if !std::mem::replace(&mut self.selects, true) {
            self.loaded = self.known.iter().copied().filter(|info| info.linked).collect();
            self.has_default_mpm = !self.loaded.iter().any(is_mpm);
            if self.has_default_mpm {
                self.loaded.extend(self.unselected.iter().copied().find(is_mpm));
            }
        }
    }

    /// Runs `LoadModule`. Returns a warning if the module is already loaded.
    pub(crate) fn load(&mut self, id: &str, file: &str) -> Result<Option<String>, String> {
        let Some(info) = self.known.iter().chain(self.idle).copied().find(|info| info.id == id) else {
            return Err(format!("Cannot load {file} into server: Tsubame has no module {id}"));
        };
        self.select_modules();
        // The default MPM stands last, until a line names one.
        let default = self.has_default_mpm.then(|| self.loaded.pop()).flatten();
        let is_new = !self.has_module(id);
        if is_new {
            self.loaded.push(info);
        }
        self.has_default_mpm = default.is_some() && !is_mpm(&info);
        self.loaded.extend(default.filter(|_| self.has_default_mpm));
        if !is_new && !info.linked {
            // No warning for a linked module: the configuration may come from a system where it is not linked in.
            return Ok(Some(format!("AH01574: module {id} is already loaded, skipping")));
        }
        if let Some((_, name)) = DEFINED.iter().find(|(module, _)| *module == id) {
            self.define(name, None);
        }
        Ok(None)
    }

    /// Runs `-D NAME` or `Define NAME [VALUE]`; without a value, an earlier one stays. As in Apache, names are
    /// case-sensitive when asked whether they are defined, but not when their value is looked up.
    pub fn define(&mut self, name: &str, value: Option<&str>) {
        if !self.is_defined(name) {
            self.defines.push(name.to_string());
        }
        if let Some(value) = value {
            self.values.insert(name.to_ascii_lowercase(), value.to_string());
        }
    }

    pub(crate) fn undefine(&mut self, name: &str) {
        self.defines.retain(|have| have != name);
        self.values.remove(&name.to_ascii_lowercase());
    }

    /// Whether a name is defined (case-sensitive).
    pub fn is_defined(&self, name: &str) -> bool {
        self.defines.iter().any(|have| have == name)
    }

    /// The defined names with their values.
    pub fn defines(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.defines.iter().map(|name| (name.as_str(), self.defined_value(name)))
    }

    fn defined_value(&self, name: &str) -> Option<&str> {
        self.values.get(&name.to_ascii_lowercase()).map(String::as_str)
    }

    pub(crate) fn value(&self, name: &str, system: &dyn System) -> Option<String> {
        self.defined_value(name).map(str::to_string).or_else(|| system.env(name))
    }
}
