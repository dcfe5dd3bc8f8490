//! A corpus as one text file, for the repository: an input a line, with everything but printable ASCII escaped.

use std::path::Path;

/// Writes each input of the file into a file of its own in a directory.
pub(super) fn unpack(packed: &Path, to: &Path) -> Result<(), String> {
    let text = match std::fs::read_to_string(packed) {
        Ok(text) => text,
        // A new target has only seeds.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(format!("{}: {error}", packed.display())),
    };
    for (number, line) in text.lines().enumerate() {
        let input =
            unescape(line).ok_or_else(|| format!("{}:{}: not an escaped input", packed.display(), number + 1))?;
        let path = to.join(format!("packed-{number:05}"));
        std::fs::write(&path, input).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Writes the inputs in a directory into the file; the number of them.
pub(super) fn pack(from: &Path, packed: &Path) -> Result<usize, String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(from).map_err(|error| failed(from, error))? {
        let path = entry.map_err(|error| failed(from, error))?.path();
        lines.push(escape(&std::fs::read(&path).map_err(|error| failed(&path, error))?));
    }
    // Sorted, so that a change of the corpus is readable.
    lines.sort();
    let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    std::fs::create_dir_all(packed.parent().unwrap_or(Path::new("."))).map_err(|error| failed(packed, error))?;
    std::fs::write(packed, text).map_err(|error| failed(packed, error))?;
    Ok(lines.len())
}

fn escape(input: &[u8]) -> String {
    input.escape_ascii().to_string()
}

/// The bytes of an escaped input; `None`: it is not one.
fn unescape(line: &str) -> Option<Vec<u8>> {
    let mut bytes = line.bytes();
    let mut input = Vec::with_capacity(line.len());
    while let Some(byte) = bytes.next() {
        input.push(match byte {
            b'\\' => match bytes.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                quoted @ (b'\\' | b'\'' | b'"') => quoted,
                b'x' => {
                    let digits = [bytes.next()?, bytes.next()?];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                }
                _ => return None,
            },
            byte => byte,
        });
    }
    Some(input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_input_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        let line = escape(&all);
        assert!(line.bytes().all(|byte| matches!(byte, b' '..=b'~')));
        assert_eq!(unescape(&line), Some(all));
        assert_eq!(unescape(""), Some(vec![]));
        for broken in ["\\", "\\x1", "\\xzz", "\\q"] {
            assert_eq!(unescape(broken), None);
        }
    }
}
