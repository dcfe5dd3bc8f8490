//! Protocols with a head of their own, and nothing else: the plain body follows, and the response is what a CGI script
//! would write.

/// SCGI: a netstring of variables (<https://python.ca/scgi/protocol.txt>). `CONTENT_LENGTH` is the first of them, and
/// `SCGI` the second, whatever else there is.
pub fn scgi<T: AsRef<[u8]>>(length: u64, variables: impl IntoIterator<Item = (T, T)>) -> Vec<u8> {
    let mut content = format!("CONTENT_LENGTH\0{length}\0SCGI\x001\0").into_bytes();
    for (name, value) in variables {
        let (name, value) = (name.as_ref(), value.as_ref());
        if !matches!(name, b"CONTENT_LENGTH" | b"SCGI") {
            for text in [name, value] {
                content.extend(text.iter().copied().filter(|byte| *byte != 0));
                content.push(0);
            }
        }
    }
    let mut bytes = format!("{}:", content.len()).into_bytes();
    bytes.append(&mut content);
    bytes.push(b',');
    bytes
}

/// uwsgi: a block of variables, whose lengths have two bytes each (uWSGI documentation, "The uwsgi Protocol"). `Err`:
/// they are too long.
pub fn uwsgi<T: AsRef<[u8]>>(variables: impl IntoIterator<Item = (T, T)>) -> Result<Vec<u8>, usize> {
    let mut content = Vec::with_capacity(2048);
    for (name, value) in variables {
        for text in [name.as_ref(), value.as_ref()] {
            let length = u16::try_from(text.len()).map_err(|_| text.len())?;
            content.extend_from_slice(&length.to_le_bytes());
            content.extend_from_slice(text);
        }
    }
    let [low, high] = u16::try_from(content.len()).map_err(|_| content.len())?.to_le_bytes();
    // Modifiers for a request to an application of the server's own kind.
    let mut bytes = vec![0, low, high, 0];
    bytes.append(&mut content);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        let variables = [(&b"CONTENT_LENGTH"[..], &b"9"[..]), (b"A", b"b")];
        assert_eq!(scgi(9, variables), b"28:CONTENT_LENGTH\x009\0SCGI\x001\0A\0b\0,");
        assert_eq!(uwsgi([(&b"A"[..], &b"bc"[..])]).expect("short"), b"\0\x07\0\0\x01\0A\x02\0bc");
        let long = vec![b'x'; 70_000];
        assert_eq!(uwsgi([(&b"A"[..], &long[..])]), Err(70_000));
    }
}
