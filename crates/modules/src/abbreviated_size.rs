//! Sizes in four characters.

/// A size in four characters, as APR writes it: `973 ` bytes are the first that become `1.0K`.
pub(crate) fn abbreviated_size(size: Option<u64>) -> String {
    let Some(mut size) = size else { return "  - ".into() };
    if size < 973 {
        return format!("{size:3} ");
    }
    for unit in "KMGTPE".chars() {
        let rest = size & 1023;
        size >>= 10;
        if size >= 973 {
            continue;
        }
        if size < 9 || size == 9 && rest < 973 {
            let tenths = (rest * 5 + 256) / 512;
            let (whole, tenths) = if tenths >= 10 { (size + 1, 0) } else { (size, tenths) };
            return format!("{whole}.{tenths}{unit}");
        }
        return format!("{:3}{unit}", size + u64::from(rest >= 512));
    }
    "****".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_apr_writes_them() {
        let table = [
            (None, "  - "),
            (Some(0), "  0 "),
            (Some(972), "972 "),
            (Some(973), "1.0K"),
            (Some(1536), "1.5K"),
            (Some(10 * 1024 - 1), " 10K"),
            (Some(9 * 1024 + 972), "9.9K"),
            (Some(1024 * 972 + 512), "973K"),
            (Some(1024 * 1024), "1.0M"),
            (Some(u64::MAX), " 16E"),
        ];
        for (bytes, want) in table {
            assert_eq!(abbreviated_size(bytes), want, "{bytes:?}");
        }
    }
}
