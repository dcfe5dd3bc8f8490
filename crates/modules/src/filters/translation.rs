//! Texts from one charset in another, piece by piece.

use encoding_rs::{CoderResult, Decoder, DecoderResult, Encoder, EncoderResult, Encoding};

/// Decodes a text from one charset and encodes it in another, chunk by chunk.
pub(super) struct Translation {
    decoder: Decoder,
    encoder: Encoder,
    /// Whether untranslatable text is an error.
    is_strict: bool,
}

impl Translation {
    /// `None`: one of the charsets is unknown, or can be read but not written (UTF-16).
    pub(super) fn open(from: &str, to: &str, is_strict: bool) -> Option<Translation> {
        let find = |name: &str| Encoding::for_label(name.as_bytes());
        let (from, to) = (find(from)?, find(to)?);
        let (decoder, encoder) = (from.new_decoder_without_bom_handling(), to.new_encoder());
        (to.output_encoding() == to).then_some(Translation { decoder, encoder, is_strict })
    }

    /// Translates the next chunk of the text. `Err`: the message about text that is invalid or cannot be expressed.
    pub(super) fn step(&mut self, chunk: &[u8], is_last: bool) -> Result<Vec<u8>, &'static str> {
        const INVALID: &str = "AH02194: xlate filter - an input character was invalid";
        let room = self.decoder.max_utf8_buffer_length(chunk.len()).unwrap_or(chunk.len() * 4 + 16);
        let mut text = String::with_capacity(room);
        // There is room for all of it.
        if !self.is_strict {
            _ = self.decoder.decode_to_string(chunk, &mut text, is_last);
        } else if let (DecoderResult::Malformed(..), read) =
            self.decoder.decode_to_string_without_replacement(chunk, &mut text, is_last)
        {
            let is_cut = is_last && read == chunk.len();
            return Err(if is_cut { "AH02196: xlate filter - incomplete char at end of input" } else { INVALID });
        }
        let mut made = Vec::with_capacity(text.len() * 2 + 16);
        let mut rest = &text[..];
        loop {
            let (is_done, read) = if self.is_strict {
                let (result, read) = self.encoder.encode_from_utf8_to_vec_without_replacement(rest, &mut made, is_last);
                if let EncoderResult::Unmappable(_) = result {
                    return Err(INVALID);
                }
                (result == EncoderResult::InputEmpty, read)
            } else {
                let (result, read, _) = self.encoder.encode_from_utf8_to_vec(rest, &mut made, is_last);
                (result == CoderResult::InputEmpty, read)
            };
            if is_done {
                return Ok(made);
            }
            rest = &rest[read..];
            made.reserve(made.capacity().max(1024));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(from: &str, to: &str, is_strict: bool, pieces: &[&[u8]]) -> Result<Vec<u8>, &'static str> {
        let mut translation = Translation::open(from, to, is_strict).ok_or("no such translation")?;
        let mut all = Vec::new();
        for piece in pieces {
            all.extend(translation.step(piece, false)?);
        }
        all.extend(translation.step(b"", true)?);
        Ok(all)
    }

    #[test]
    fn charsets() {
        let long = "é".repeat(50_000);
        for is_strict in [false, true] {
            let translated = |from, to, pieces| translated(from, to, is_strict, pieces).expect("a translation");
            assert_eq!(translated("iso-8859-1", "utf-8", &[b"caf\xe9"]), "café".as_bytes());
            assert_eq!(translated("utf-8", "iso-8859-15", &[b"\xe2\x82", b"\xac"]), [0xa4]);
            assert_eq!(translated("utf-8", "latin1", &[long.as_bytes()]), vec![0xe9; 50_000]);
        }
    }

    #[test]
    fn untranslatable_input() {
        let invalid = Err("AH02194: xlate filter - an input character was invalid");
        let cut = Err("AH02196: xlate filter - incomplete char at end of input");
        assert_eq!(translated("utf-8", "iso-8859-1", false, &["中".as_bytes()]), Ok(b"&#20013;".to_vec()));
        assert_eq!(translated("utf-8", "iso-8859-1", true, &["中".as_bytes()]), invalid);
        assert_eq!(translated("utf-8", "iso-8859-1", true, &[b"a\xffb"]), invalid);
        assert_eq!(translated("utf-8", "iso-8859-1", true, &[b"a\xc3"]), cut);
        for (from, to) in [("utf-8", "utf-16be"), ("utf-8", "klingon"), ("klingon", "utf-8")] {
            assert_eq!(translated(from, to, false, &[]), Err("no such translation"), "{from} {to}");
        }
    }
}
