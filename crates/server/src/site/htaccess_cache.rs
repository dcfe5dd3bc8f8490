//! The cache of `.htaccess` files.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, RwLock};

use conf::{DirectiveContext, Node};

use crate::settings::core::{CoreDir, Override};
use crate::settings::merge::Layer;

/// Device, inode, size, and the times of its last changes.
pub(crate) type Identity = (u64, u64, u64, i128, i128);

/// The settings of a file when it was read: for this identity, under these rules.
#[derive(Clone)]
pub(crate) struct CachedSettings {
    pub(crate) identity: Identity,
    pub(crate) rules: OverrideRules,
    pub(crate) outcome: Result<Layer, String>,
    pub(crate) warnings: Vec<String>,
}

/// The result of a file's last reading. A file that is read again with the same content is the same layer: within one
/// request, an internal redirect or a subrequest then finds the same settings, and needs no second access check.
pub(crate) struct CachedLayer {
    pub(crate) rules: OverrideRules,
    pub(crate) tree: Vec<Node>,
    pub(crate) layer: Layer,
}

/// `.htaccess` files read so far, by path.
#[derive(Default)]
pub(crate) struct HtaccessCache {
    pub(crate) files: RwLock<HashMap<String, CachedSettings>>,
    pub(crate) layers: RwLock<HashMap<String, CachedLayer>>,
}

/// The directives that an access file may use here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OverrideRules {
    over: Override,
    list: Option<Arc<HashSet<String>>>,
}

impl OverrideRules {
    pub(crate) fn of(core: &CoreDir) -> OverrideRules {
        OverrideRules {
            over: core.allow_override.get().copied().unwrap_or_default(),
            list: core.allow_override_list.get().cloned(),
        }
    }

    /// The place of the lines of a file in `dir`.
    pub(crate) fn place(&self, dir: &str) -> DirectiveContext {
        let Override { classes, options, skip_forbidden, skip_unknown } = self.over;
        DirectiveContext {
            htaccess: true,
            allowed: classes,
            options,
            skip_forbidden,
            skip_unknown,
            list: self.list.clone(),
            path: Some(dir.into()),
            ..DirectiveContext::server_level()
        }
    }
}
