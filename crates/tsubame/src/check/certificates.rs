//! Certificates and keys: whether they are there, who may read the keys, and until when a certificate is good.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use conf::Origin;
use modules::ssl::mod_ssl::SslServer;
use server::Server;

use super::report::{Finding, Report, Topic, Weight};

/// Certificates are small; a larger file is none.
const SIZE_MAX: u64 = 4 * 1024 * 1024;
/// A certificate that ends within so many days is worth a line.
const SOON: i64 = 14;
const DAY: i64 = 24 * 60 * 60;

/// Those of all hosts.
pub(super) fn all(report: &mut Report, server: &Server) {
    for host in &server.hosts {
        let ssl = host.settings.get::<SslServer>();
        for (field, is_key) in [(&ssl.certificate_files, false), (&ssl.key_files, true)] {
            let Some(origin) = field.origin() else { continue };
            for file in field.get().into_iter().flatten() {
                examine(report, file, is_key, origin);
            }
        }
    }
}

fn examine(report: &mut Report, file: &str, is_key: bool, origin: &Origin) {
    let found = |weight, message: String| Finding::new(weight, Topic::Certificate, file, message).at(origin);
    let meta = match std::fs::metadata(file) {
        Ok(meta) => meta,
        Err(error) => {
            let text = format!("It cannot be read: {}.", sys::describe(&error));
            return report.add(found(Weight::Stops, text));
        }
    };
    if is_key {
        let mode = meta.permissions().mode() & 0o777;
        if mode & 0o007 != 0 {
            let text = format!("A key that everybody may read (its mode is {mode:o}).");
            report.add(found(Weight::Harmless, text).instead(format!("chmod 600 {file}")));
        }
    }
    if meta.len() > SIZE_MAX {
        return;
    }
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        // Who checks need not be who starts.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let text = "You may not read it, so it was not looked at; root may.";
            return report.add(found(Weight::Harmless, text.into()));
        }
        Err(_) => String::new(),
    };
    if !text.contains(if is_key { "-----BEGIN " } else { "-----BEGIN CERTIFICATE-----" }) {
        let text = if is_key { "There is no key in it." } else { "There is no certificate in it." };
        return report.add(found(Weight::Stops, text.into()));
    }
    if let Some(end) = not_after(&text).filter(|_| !is_key) {
        let days = (end - sys::time::realtime().as_secs().cast_signed()).div_euclid(DAY);
        match days {
            ..0 => {
                let text = format!("It expired {} days ago: clients refuse it.", -days);
                report.add(found(Weight::Loses, text));
            }
            0..SOON => report.add(found(Weight::Harmless, format!("It expires in {days} days."))),
            _ => {}
        }
    }
}

/// When the first certificate of a PEM file ends, in seconds since 1970 (RFC 5280, 4.1.2.5). `None`: that cannot be told.
fn not_after(pem: &str) -> Option<i64> {
    let (_, rest) = pem.split_once("-----BEGIN CERTIFICATE-----")?;
    let (body, _) = rest.split_once("-----END")?;
    let body: String = body.split_whitespace().collect();
    let der = STANDARD.decode(body).ok()?;
    let (_, certificate, _) = element(&der)?;
    let (_, mut fields, _) = element(certificate)?;
    // A version, if there is one, then the serial number, the signature's algorithm, the issuer, the validity.
    if fields.first() == Some(&0xa0) {
        fields = element(fields)?.2;
    }
    for _ in 0..3 {
        fields = element(fields)?.2;
    }
    let (_, validity, _) = element(fields)?;
    let (tag, end, _) = element(element(validity)?.2)?;
    let digits = std::str::from_utf8(end).ok()?.strip_suffix('Z')?;
    let (year, rest) = match tag {
        // Two digits are of this century until 49.
        0x17 => digits.split_at_checked(2).and_then(|(year, rest)| {
            let year: i64 = year.parse().ok()?;
            Some((if year < 50 { 2000 + year } else { 1900 + year }, rest))
        })?,
        0x18 => digits.split_at_checked(4).and_then(|(year, rest)| Some((year.parse().ok()?, rest)))?,
        _ => return None,
    };
    let part = |at: usize| rest.get(at..at + 2)?.parse::<i64>().ok();
    let (month, day) = (part(0)?, part(2)?);
    Some(days(year, month, day) * DAY + part(4)? * 3600 + part(6)? * 60 + part(8)?)
}

/// The first element of DER: its tag, what is in it, and what follows.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, mut rest) = rest.split_first()?;
    let mut length = usize::from(*first);
    if length >= 0x80 {
        let (digits, behind) = rest.split_at_checked(length - 0x80).filter(|(digits, _)| digits.len() <= 4)?;
        length = digits.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        rest = behind;
    }
    let (inside, behind) = rest.split_at_checked(length)?;
    Some((*tag, inside, behind))
}

/// The days from 1970 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + (153 * month + 2) / 5 + day
        - 719_469
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_days() {
        for ((year, month, day), want) in [((1970, 1, 1), 0), ((2000, 3, 1), 11_017), ((2026, 11, 23), 20_780)] {
            assert_eq!(days(year, month, day), want, "{year}-{month}-{day}");
        }
    }

    #[test]
    fn elements_that_are_cut_off_are_none() {
        assert_eq!(element(&[0x30, 3, 1, 2]), None);
        assert_eq!(element(&[0x30, 0x82, 1]), None);
        assert_eq!(element(&[0x30, 2, 1, 2, 9]), Some((0x30, &[1, 2][..], &[9][..])));
    }
}
