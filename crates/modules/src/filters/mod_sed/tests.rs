//! Scripts, and their errors.

use server::{BodyStream, Piece};

use super::*;

/// A body in pieces.
struct Pieces(Vec<&'static [u8]>);

impl BodyStream for Pieces {
    fn next(&mut self) -> Piece<'_> {
        let piece = (!self.0.is_empty()).then(|| Ok(self.0.remove(0).into()));
        Box::pin(std::future::ready(piece))
    }
}

/// The output of a script for a text, and its error.
fn edited(lines: &[&str], text: &'static [u8], size: usize) -> Result<Vec<u8>, String> {
    let mut script = Script::default();
    for line in lines {
        script.add(line.as_bytes())?;
    }
    script.check()?;
    let said = Arc::new(std::sync::Mutex::new(None));
    let to = said.clone();
    let pieces = Box::new(Pieces(text.chunks(size).collect()));
    let complain = Box::new(move |why| *to.lock().expect("a lock") = Some(why));
    let mut stream = server::written_later(move |out| edit(complain, pieces, Arc::new(script), out));
    let work = async move {
        let mut all = Vec::new();
        while let Some(piece) = stream.next().await {
            match piece {
                Ok(piece) => all.extend_from_slice(&piece),
                Err(_) => return Err(said.lock().expect("a lock").take().unwrap_or_default()),
            }
        }
        Ok(all)
    };
    sys::block_on::block_on(work, || ()).expect("a reactor")
}

#[test]
fn scripts() {
    let cases: &[(&[&str], &str, &str)] = &[
        (&["s/b/x/"], "abc\nb", "axc\nx\n"),
        (&["s/b*/x/g"], "abc\n", "xaxcx\n"),
        (&["s/x*/-/g"], "baaac\n", "-b-a-a-a-c-\n"),
        (&["s/a*b/X/g"], "abb\n", "Xb\n"),
        (&["s/\\(\\)/-/g"], "ab\n", "-a-b-\n"),
        (&["s/\\(a\\)\\(b\\)*/[\\2&\\1\\&\\n]/"], "ab*c\n", "[bab*a&n]c\n"),
        (&["s/a\\{2\\}/x/", "s/b\\{2,\\}/y/;s/c\\{1,2\\}/z/2"], "aaa bbbb ccc\n", "xa y ccz\n"),
        (&["s/[^]a-c]/-/g"], "]abcd\n", "]abc-\n"),
        (&["s/[\\n]/-/g"], "a\\n\n", "a--\n"),
        (&["s/a$/x/;s/^b/y/;s/$b/z/"], "ba$ba\n", "yazx\n"),
        (&["s/a/b/;t", "s/c/d/"], "ac\ncc\n", "bc\ndc\n"),
        (&["/2/,/4/d"], "1\n2\n3\n4\n5\n", "1\n5\n"),
        (&["2,1d", "$s/$/!/"], "1\n2\n3\n", "1\n3!\n"),
        (&["2!d"], "1\n2\n3\n", "2\n"),
        (&["#n", "2p;$="], "1\n2\n3\n", "2\n3\n"),
        (&["1{h;d", "}", "G"], "1\n2\n", "2\n1\n"),
        (&["x"], "1\n2\n", "\n1\n"),
        (&["N;P;D"], "1\n2\n3\n", "1\n2\n"),
        (&["n;d"], "1\n2\n3\n", "1\n3\n"),
        (&["N;s/\\n/-/"], "1\n2\n3\n4\n", "1-2\n3-4\n"),
        (&["y/ab\\n/xy /"], "abc\n", "xyc\n"),
        (&["2q"], "1\n2\n3\n", "1\n2\n"),
        (&[":a", "s/(.)/[]/;ta"], "(1)(2)\n", "[][]\n"),
        (&["1a\\\n  behind\\\n  it", "1i\\\nbefore"], "1\n2\n", "before\n1\nbehind\nit\n2\n"),
        (&["2,3c\\\ngone"], "1\n2\n3\n4\n", "1\ngone\n4\n"),
        (&["/x/b", "s/a/b/", "/y/b", "s/c/d/"], "xac\nac\n", "xac\nbd\n"),
        (&["s/a/1/g;s//2/"], "b\n", "b\n"),
        (&["p"], "", ""),
        (&["s/^/>/"], "\n\n", ">\n>\n"),
        (&["l;d"], "a\tb\u{e9}\\\n", "a\\11b\\303\\251\\\n"),
        (&["s|a\\|b|x|"], "a|b\n", "x\n"),
        (&["p;}"], "", "too many }'s"),
    ];
    for (lines, text, want) in cases {
        for size in [1, 3, 1000] {
            let got = edited(lines, text.as_bytes(), size);
            let got = got.map_or_else(|why| why, |made| String::from_utf8_lossy(&made).into_owned());
            assert_eq!(got, *want, "{lines:?} {size}");
        }
    }
}

#[test]
fn long_lines_are_listed_in_pieces() {
    let got = edited(&["l;d"], &[b'x'; 100], 1000).expect("a list");
    assert_eq!(got, [&[b'x'; 71][..], b"\\\n", &[b'x'; 29], b"\n"].concat());
}

#[test]
fn endless_scripts_end() {
    let cases: &[(&[&str], &str)] = &[
        (&[":a", "ba"], "line 1 takes more than 1000000 commands"),
        (&["s/.*/&&/;:a", "s//&&/;ta"], "a line has become longer than 8388608 bytes"),
        (&["H;G;G;:a", "H;G;ba"], "a line has become longer than 8388608 bytes"),
        (&["{p"], "too many {'s"),
        (&["b x"], "undefined label: x"),
    ];
    for (lines, want) in cases {
        assert_eq!(edited(lines, b"some text\nmore\n", 100), Err((*want).into()), "{lines:?}");
    }
}

#[test]
fn errors_as_apache_has_them() {
    let cases = [
        ("s", "first RE may not be null"),
        ("s//b/", "first RE may not be null"),
        ("}", "too many }'s"),
        ("s/abc/", "ending delimiter missing on substitution: s/abc/"),
        ("s/a\\(/b/", "\\( \\) imbalance: s/a\\(/b/"),
        ("s/a\\)/b/", "\\( \\) imbalance: s/a\\)/b/"),
        ("s/a\\{x\\}/b/", "Bad number: s/a\\{x\\}/b/"),
        ("s/a\\{1,2,3\\}/b/", "More than 2 numbers given in \\{ \\}: s/a\\{1,2,3\\}/b/"),
        ("s/a\\{3,1\\}/b/", "First number exceeds second in \\{ \\}: s/a\\{3,1\\}/b/"),
        ("s/a\\{1\\]/b/", "} expected after \\: s/a\\{1\\]/b/"),
        ("s/a\\{300\\}/b/", "Range endpoint too large: s/a\\{300\\}/b/"),
        ("s/[a/b/", "[ ] imbalance: s/[a/b/"),
        ("s/\\(a\\)\\2/b/", "``\\digit'' out of range: s/\\(a\\)\\2/b/"),
        ("s/a/\\1/", "``\\digit'' out of range: s/a/\\1/"),
        ("s/a/b/999", "suffix too large: s/a/b/999"),
        ("p p", "command garbled: p p"),
        ("1,p", "command garbled: 1,p"),
        ("a foo", "command garbled: a foo"),
        ("k", "unrecognized command: k"),
        ("5", "unrecognized command: 5"),
        ("1!2p", "unrecognized command: 1!2p"),
        ("1,2=", "only one address allowed: 1,2="),
        (":", "duplicate labels: :"),
        (":a\n:a", "duplicate labels: :a"),
        (":abcdefgh", "label too long: :abcdefgh"),
        ("1:a", "no addresses allowed: 1:a"),
        ("1}", "no addresses allowed: 1}"),
        ("y/abc/xy/", "ending delimiter missing on string: y/abc/xy/"),
        ("y/ab/xyz/", "transform strings not the same size: y/ab/xyz/"),
        ("y/a", "ending delimiter missing on string: y/a"),
        ("s|a", "Illegal or missing delimiter: s|a"),
        ("w file", "a filter reads and writes no files: the commands r and w are not supported: w file"),
    ];
    for (line, want) in cases {
        let got = Script::default().add(line.as_bytes());
        assert_eq!(got, Err(want.to_string()), "{line}");
    }
    crate::testing::check(&[
        ("<Location />\nOutputSed s/a/b/\nInputSed p\n</Location>", ""),
        ("<Location />\nInputSed k\n</Location>", "Failed to compile sed expression. unrecognized command: k"),
        ("OutputSed p", "OutputSed not allowed here"),
    ]);
}
