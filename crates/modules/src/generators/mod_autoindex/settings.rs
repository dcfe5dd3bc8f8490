//! The settings of listings.

use conf::{Setting, Stacked, settings};

use super::items::{Description, Ignored, Item};
use super::options::{Options, Width};

settings! {
    /// The module's settings of a section.
    pub struct IndexDir {
        pub(super) icons: Stacked<Item>,
        pub(super) alts: Stacked<Item>,
        pub(super) descriptions: Stacked<Description>,
        pub(super) ignored: Ignored,
        pub(super) options: Options,
        pub(super) icon_width: Setting<i64>,
        pub(super) icon_height: Setting<i64>,
        pub(super) name_width: Setting<Width>,
        pub(super) description_width: Setting<Width>,
        pub(super) media_type: Setting<String>,
        pub(super) charset: Setting<String>,
        pub(super) old_dates: Setting<bool> = false,
        pub(super) order: Setting<(bool, Key)>,
        pub(super) header: Setting<String>,
        pub(super) readme: Setting<String>,
        pub(super) default_icon: Setting<String>,
        pub(super) style_sheet: Setting<String>,
        pub(super) head_insert: Setting<String>,
    }
}

/// The sort key of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Name,
    Date,
    Size,
    Description,
}

impl Key {
    /// The letter in queries.
    pub(super) fn letter(self) -> char {
        match self {
            Key::Name => 'N',
            Key::Date => 'M',
            Key::Size => 'S',
            Key::Description => 'D',
        }
    }
}
