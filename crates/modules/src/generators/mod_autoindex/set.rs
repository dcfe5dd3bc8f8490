//! The functions of the directives, and their errors.

use conf::values::atoi;
use conf::{Cmd, Origin, Outcome, Setting};

use super::items::{Description, Item, SelectedBy};
use super::options::{WIDTH, Width};
use super::settings::{IndexDir, Key};

pub(super) fn text(cmd: &mut Cmd<'_>, value: &str, field: fn(&mut IndexDir) -> &mut Setting<String>) -> Outcome {
    cmd.set(field, value.to_string())
}

/// The path in which entries of this place apply, as Apache keeps it: a directory's path ends with a slash.
fn place_path(cmd: &Cmd<'_>) -> String {
    let path = cmd.place.path.as_deref().unwrap_or_default();
    let is_directory = cmd.place.enclosing.last().is_some_and(|name| name.eq_ignore_ascii_case("<Directory"));
    if is_directory && !path.ends_with('/') { format!("{path}/") } else { path.to_string() }
}

fn item(cmd: &Cmd<'_>, kind: SelectedBy, to: &str, data: &str) -> Item {
    Item::new(kind, to, &place_path(cmd), data)
}

pub(super) fn add_icon(cmd: &mut Cmd<'_>, kind: SelectedBy, icon: &str, to: &str) -> Outcome {
    let url = match icon.strip_prefix('(') {
        None => icon,
        Some(pair) => {
            let pair = &pair[..pair.find(')').ok_or("missing closing paren")?];
            let (alt, url) = pair.split_once(',').unwrap_or((pair, ""));
            add_alt(cmd, kind, alt, to)?;
            url.trim_start_matches(',')
        }
    };
    let (item, origin) = (item(cmd, kind, to, url), cmd.origin());
    cmd.dir.edit::<IndexDir>().icons.push(item, &origin);
    Ok(())
}

pub(super) fn add_alt(cmd: &mut Cmd<'_>, kind: SelectedBy, alt: &str, to: &str) -> Outcome {
    let (item, origin) = (item(cmd, kind, to, alt), cmd.origin());
    cmd.dir.edit::<IndexDir>().alts.push(item, &origin);
    Ok(())
}

pub(super) fn add_ignored(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    let (item, origin) = (item(cmd, SelectedBy::Ignore, name, ""), cmd.origin());
    cmd.dir.edit::<IndexDir>().ignored.list.push(item, &origin);
    Ok(())
}

pub(super) fn add_description(cmd: &mut Cmd<'_>, description: &str, to: &str) -> Outcome {
    let origin = cmd.origin();
    cmd.dir.edit::<IndexDir>().descriptions.push(Description::new(description, to), &origin);
    Ok(())
}

pub(super) fn set_options(cmd: &mut Cmd<'_>, words: &[String]) -> Outcome {
    let in_section = cmd.place.htaccess || !cmd.place.enclosing.is_empty();
    let origin = cmd.origin();
    let conf = cmd.dir.edit::<IndexDir>();
    let mut options = std::mem::take(&mut conf.options);
    options.apply(words, in_section, &origin, |word, minus| detail(conf, word, minus, &origin))?;
    conf.options = options;
    Ok(())
}

pub(super) fn set_order(cmd: &mut Cmd<'_>, direction: &str, key: &str) -> Outcome {
    let ascending = conf::values::one_of(direction, &[("Ascending", true), ("Descending", false)])
        .ok_or("First keyword must be 'Ascending' or 'Descending'")?;
    let keys = [("Name", Key::Name), ("Date", Key::Date), ("Size", Key::Size), ("Description", Key::Description)];
    let key =
        conf::values::one_of(key, &keys).ok_or("Second keyword must be 'Name', 'Date', 'Size', or 'Description'")?;
    cmd.set(|d: &mut IndexDir| &mut d.order, (ascending, key))
}

/// The size of the icons that come with Apache.
const ICON_SIZE: (i64, i64) = (20, 22);

/// Keywords that are more than a bit.
fn detail(conf: &mut IndexDir, word: &str, minus: bool, origin: &Origin) -> Result<(), String> {
    let (key, value) = match word.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (word, None),
    };
    let no_minus = |name: &str| if minus { Err(format!("Cannot combine '-' with {name}=n")) } else { Ok(()) };
    let only_minus = |name: &str| match minus {
        true => Ok(Width { bytes: WIDTH, adjust: false }),
        false => Err(format!("{name} with no value may only appear as '-{name}'")),
    };
    match (key.to_ascii_lowercase().as_str(), value) {
        ("iconwidth", None) => conf.icon_width = size(if minus { 0 } else { ICON_SIZE.0 }, origin),
        ("iconheight", None) => conf.icon_height = size(if minus { 0 } else { ICON_SIZE.1 }, origin),
        ("iconwidth", Some(value)) => {
            no_minus("IconWidth")?;
            conf.icon_width = size(atoi(value).into(), origin);
        }
        ("iconheight", Some(value)) => {
            no_minus("IconHeight")?;
            conf.icon_height = size(atoi(value).into(), origin);
        }
        ("namewidth", None) => conf.name_width.set(only_minus("NameWidth")?, origin),
        ("namewidth", Some(value)) => {
            no_minus("NameWidth")?;
            let width = width(value, conf.name_width.get(), 5);
            conf.name_width.set(width.ok_or("NameWidth value must be greater than 5")?, origin);
        }
        ("descriptionwidth", None) => conf.description_width.set(only_minus("DescriptionWidth")?, origin),
        ("descriptionwidth", Some(value)) => {
            no_minus("DescriptionWidth")?;
            let width = width(value, conf.description_width.get(), 12);
            conf.description_width.set(width.ok_or("DescriptionWidth value must be greater than 12")?, origin);
        }
        ("type", Some(value)) => conf.media_type.set(value.to_string(), origin),
        ("charset", Some(value)) => conf.charset.set(value.to_string(), origin),
        ("useolddateformat", None) => conf.old_dates.set(true, origin),
        _ => return Err("Invalid directory indexing option".into()),
    }
    Ok(())
}

/// 0 counts as unset: an outer level applies.
fn size(pixels: i64, origin: &Origin) -> Setting<i64> {
    let mut size = Setting::default();
    if pixels != 0 {
        size.set(pixels, origin);
    }
    size
}

fn width(value: &str, before: Option<&Width>, least: i32) -> Option<Width> {
    if value.starts_with('*') {
        return Some(Width { bytes: before.map_or(WIDTH, |width| width.bytes), adjust: true });
    }
    match atoi(value) {
        0 => Some(Width { bytes: 0, adjust: false }),
        n if n < least => None,
        n => Some(Width { bytes: usize::try_from(n).ok()?.min(WIDTH_MAX), adjust: false }),
    }
}

/// A column wider than any name would only cost memory.
const WIDTH_MAX: usize = 4096;
