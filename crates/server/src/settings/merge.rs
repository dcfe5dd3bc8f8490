//! Remembers merged section settings: the same sections in the same order are merged once.

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use conf::SettingsMap;
use foldhash::HashMap;

/// Merged settings with an identity: equal ids mean equal settings.
#[derive(Clone, Debug)]
pub struct Merged {
    /// The number of this merge.
    pub id: u32,
    /// The settings of all modules.
    pub slots: Slots,
}

/// The settings that a request uses.
#[derive(Clone, Debug)]
pub enum Slots {
    /// A host's own. To count their users would be to write into the page that they are on, and each child would copy
    /// that page: with many hosts this is most of a child's memory.
    Lent(&'static SettingsMap),
    /// A merge, which goes when the caches and the last request have forgotten it.
    Shared(Arc<SettingsMap>),
}

impl Deref for Slots {
    type Target = SettingsMap;

    #[inline]
    fn deref(&self) -> &SettingsMap {
        match self {
            Slots::Lent(slots) => slots,
            Slots::Shared(slots) => slots,
        }
    }
}

/// A set of settings to merge: a section's, or an `.htaccess` file's.
#[derive(Clone, Debug)]
pub struct Layer {
    /// The number of this section or file (and version of it).
    pub id: u32,
    /// Its settings.
    pub slots: Arc<SettingsMap>,
}

/// At this many remembered merges, all are forgotten: only ever-changing `.htaccess` files get there.
const REMEMBERED_MAX: usize = 16 * 1024;

static NEXT_ID: AtomicU32 = AtomicU32::new(1);

impl Layer {
    /// A layer with an id of its own.
    pub fn new(slots: SettingsMap) -> Layer {
        Layer { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), slots: Arc::new(slots) }
    }

    /// The layer as the base of merges, for requests, during which a configuration stays.
    pub fn base(&'static self) -> Merged {
        Merged { id: self.id, slots: Slots::Lent(&self.slots) }
    }

    /// The layer as the base of merges, for others.
    pub fn shared_base(&self) -> Merged {
        Merged { id: self.id, slots: Slots::Shared(self.slots.clone()) }
    }
}

/// Merges layers, and remembers each step.
#[derive(Debug, Default)]
pub struct Merger {
    steps: RwLock<HashMap<(u32, u32), Merged>>,
}

impl Merger {
    /// The settings in effect for `layer` inside `base`.
    pub fn merge(&self, base: &Merged, layer: &Layer) -> Merged {
        let key = (base.id, layer.id);
        if let Some(known) = self.steps.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return known.clone();
        }
        let merged = Layer::new(SettingsMap::merge(&base.slots, &layer.slots)).shared_base();
        let mut steps = self.steps.write().unwrap_or_else(PoisonError::into_inner);
        if steps.len() >= REMEMBERED_MAX {
            steps.clear();
        }
        steps.entry(key).or_insert(merged).clone()
    }
}
