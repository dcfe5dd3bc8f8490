//! Distinguished names and their strings, formatted as OpenSSL does (X509_NAME_print_ex(3), ASN1_STRING_print_ex(3)).

use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// Attribute types with OpenSSL's short names.
static TYPES: &[(&str, &str)] = &[
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.13", "description"),
    ("2.5.4.15", "businessCategory"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.20", "telephoneNumber"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.44", "generationQualifier"),
    ("2.5.4.45", "x500UniqueIdentifier"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.65", "pseudonym"),
    ("2.5.4.97", "organizationIdentifier"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("1.2.840.113549.1.9.2", "unstructuredName"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.3.6.1.4.1.311.60.2.1.1", "jurisdictionL"),
    ("1.3.6.1.4.1.311.60.2.1.2", "jurisdictionST"),
    ("1.3.6.1.4.1.311.60.2.1.3", "jurisdictionC"),
];

/// mod_ssl's names for some attribute types, with OpenSSL's; the first one for a type is used in the environment.
static COMPONENTS: &[(&str, &str)] = &[
    ("C", "C"),
    ("ST", "ST"),
    ("SP", "ST"),
    ("L", "L"),
    ("O", "O"),
    ("OU", "OU"),
    ("CN", "CN"),
    ("T", "title"),
    ("I", "initials"),
    ("G", "GN"),
    ("S", "SN"),
    ("D", "description"),
    ("UID", "UID"),
    ("Email", "emailAddress"),
    ("SerialNumber", "serialNumber"),
];

fn short_name(attribute: &AttributeTypeAndValue<'_>) -> Option<&'static str> {
    let wanted = attribute.attr_type().to_id_string();
    TYPES.iter().find(|(known, _)| *known == wanted).map(|(_, name)| *name)
}

/// The value of `SSL_*_DN_NAME`: NAME is a component, optionally with an index and `_RAW` for unchanged bytes. `_RAW`
/// and the index may follow the name in this order only.
pub(super) fn component(name: &X509Name<'_>, asked: &str) -> Option<String> {
    let mut parts = asked.split('_');
    let wanted = parts.next()?;
    let (mut raw, mut index) = (false, 0);
    for part in parts {
        match part.parse() {
            Ok(number) => index = number,
            Err(_) if part.eq_ignore_ascii_case("RAW") => raw = true,
            Err(_) => return None,
        }
    }
    let (_, kind) = COMPONENTS.iter().find(|(known, _)| known.eq_ignore_ascii_case(wanted))?;
    let found = name.iter_attributes().filter(|attribute| short_name(attribute) == Some(kind)).nth(index)?;
    Some(text(found, raw))
}

/// The components for the environment, with their names: repeated ones get a number.
pub(super) fn components(name: &X509Name<'_>) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for attribute in name.iter_attributes() {
        let Some(kind) = short_name(attribute) else { continue };
        let Some((tag, _)) = COMPONENTS.iter().find(|(_, of)| *of == kind) else { continue };
        let before = seen.iter().filter(|one| **one == kind).count();
        let key = if before == 0 { (*tag).to_string() } else { format!("{tag}_{before}") };
        seen.push(kind);
        all.push((key, text(attribute, false)));
    }
    all
}

/// A name in the format of RFC 2253, last part first.
pub(super) fn rfc2253(name: &X509Name<'_>) -> String {
    let parts: Vec<_> = name.iter_rdn().map(|part| part.iter().collect::<Vec<_>>()).collect();
    let part = |part: &Vec<&AttributeTypeAndValue<'_>>| {
        let values: Vec<String> = part.iter().rev().map(|attribute| assertion(attribute)).collect();
        values.join("+")
    };
    parts.iter().rev().map(part).collect::<Vec<_>>().join(",")
}

/// The text with bytes above 127 as backslash escapes.
pub(super) fn ascii(text: &str) -> String {
    let byte = |byte: u8| if byte.is_ascii() { char::from(byte).to_string() } else { format!("\\{byte:02X}") };
    http::text::to_bytes(text).iter().copied().map(byte).collect()
}

fn assertion(attribute: &AttributeTypeAndValue<'_>) -> String {
    let value = attribute.attr_value();
    match (short_name(attribute), characters(value.tag().0, value.data)) {
        (Some(name), Some(chars)) => format!("{name}={}", escaped(&chars)),
        (name, _) => {
            let name = name.map_or_else(|| attribute.attr_type().to_id_string(), str::to_string);
            format!("{name}=#{}", hex(&encoded(value.tag().0, value.data)))
        }
    }
}

/// Escapes the characters that RFC 2253 requires with a backslash each. Bytes above 127 stay.
fn escaped(chars: &[char]) -> String {
    let mut out = String::new();
    for (at, char) in chars.iter().enumerate() {
        let is_edge = *char == ' ' && (at == 0 || at + 1 == chars.len());
        match char {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => out.extend(['\\', *char]),
            // In front of others it would announce a value in hexadecimal. OpenSSL leaves a lone one as it is.
            '#' if at == 0 && chars.len() > 1 => out.extend(['\\', *char]),
            _ if is_edge => out.extend(['\\', *char]),
            _ => out.push_str(&control(*char)),
        }
    }
    out
}

/// A character; a control character becomes a numeric backslash escape.
fn control(char: char) -> String {
    match char {
        '\0'..' ' | '\x7f' => format!("\\{:02X}", u32::from(char)),
        other => other.to_string(),
    }
}

/// A name in one line, OpenSSL's format before RFC 2253 (`LegacyDNStringFormat`).
pub(super) fn one_line(name: &X509Name<'_>) -> String {
    let mut out = String::new();
    for (at, attribute) in name.iter_rdn().flat_map(|part| part.iter().enumerate()) {
        let kind = short_name(attribute).map_or_else(|| attribute.attr_type().to_id_string(), str::to_string);
        out.push_str(&format!("{}{kind}=", if at == 0 { '/' } else { '+' }));
        for byte in attribute.attr_value().data {
            match byte {
                b'/' | b'+' => out.extend(['\\', char::from(*byte)]),
                b' '..=b'~' => out.push(char::from(*byte)),
                _ => out.push_str(&format!("\\x{byte:02X}")),
            }
        }
    }
    out
}

/// The text of a component. `raw`: with as few changes as possible; otherwise as UTF-8.
fn text(attribute: &AttributeTypeAndValue<'_>, raw: bool) -> String {
    let value = attribute.attr_value();
    string(value.tag().0, value.data, raw)
}

/// A string of this type (X.680, table 1), with its control characters and backslashes escaped.
pub(super) fn string(tag: u32, data: &[u8], raw: bool) -> String {
    let chars = characters(tag, data).unwrap_or_else(|| data.iter().copied().map(char::from).collect());
    let mut bytes = Vec::new();
    for char in chars {
        match (raw, u32::from(char)) {
            (_, 0x5c) => bytes.extend(b"\\\\"),
            (true, code @ 0x80..=0xff) => bytes.push(code as u8),
            (true, code @ 0x100..=0xffff) => bytes.extend(format!("\\U{code:04X}").into_bytes()),
            (true, code @ 0x1_0000..) => bytes.extend(format!("\\W{code:08X}").into_bytes()),
            _ => bytes.extend(control(char).into_bytes()),
        }
    }
    http::text::from_bytes(&bytes).into_owned()
}

/// The characters of a string of this type. `None`: OpenSSL does not show this type.
fn characters(tag: u32, data: &[u8]) -> Option<Vec<char>> {
    let code = |code: u32| char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    Some(match tag {
        // UTF8String
        12 => String::from_utf8_lossy(data).chars().collect(),
        // NumericString, PrintableString, TeletexString, IA5String, the two times, VisibleString
        18..=20 | 22..=24 | 26 => data.iter().copied().map(char::from).collect(),
        // UniversalString
        28 => data.chunks(4).map(|four| code(four.iter().fold(0, |all, byte| all << 8 | u32::from(*byte)))).collect(),
        // BMPString
        30 => data.chunks(2).map(|two| code(two.iter().fold(0, |all, byte| all << 8 | u32::from(*byte)))).collect(),
        _ => return None,
    })
}

/// A value with tag and length, in DER.
fn encoded(tag: u32, data: &[u8]) -> Vec<u8> {
    let length = data.len().to_be_bytes();
    let length: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
    let mut out = vec![tag as u8];
    match data.len() {
        short @ ..128 => out.push(short as u8),
        _ => {
            out.push(0x80 | length.len() as u8);
            out.extend(length);
        }
    }
    out.extend(data);
    out
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
