//! The parser of heads: line by line, so that it can stop after any line.

use super::{Field, Head, HeadError, Limits, Parse, Span, Version};
use crate::authority::Authority;
use crate::joined;
use crate::name::KnownField;
use crate::scan::{find_below, near_colon, token_end, trim};

/// The most empty lines to skip before a request line, as in Apache.
const BLANK_LINES_MAX: usize = 10;

/// The position at which the next call of [`parse`] continues.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The start of the first line that was not yet complete.
    at: usize,
    blank_lines: usize,
    has_start_line: bool,
    is_under_way: bool,
    /// The length of the field that continuation lines would extend.
    field_len: usize,
    /// Whether a Host field contradicts the first one. The head is read to its end all the same, for the log.
    has_several_hosts: bool,
}

/// What a head begins with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartLine {
    /// A request's (RFC 9112 section 3).
    Request,
    /// A response's (RFC 9112 section 4).
    Status,
}

pub(crate) fn parse(buf: &[u8], limits: &Limits, head: &mut Head, start: StartLine) -> Result<Parse, HeadError> {
    if !head.progress.is_under_way {
        head.clear();
    }
    // Spans are 32 bits wide; the limits end a head long before this does.
    let buf = &buf[..buf.len().min(u32::MAX as usize)];
    let outcome = Parser { buf, limits, head, start }.run();
    head.progress.is_under_way = outcome == Err(Stop::Partial);
    match outcome {
        Ok(len) => Ok(Parse::Complete { len }),
        Err(Stop::Partial) => Ok(Parse::Partial),
        Err(Stop::Bad(error)) => Err(error),
    }
}

/// Why parsing stops.
#[derive(Debug, PartialEq, Eq)]
enum Stop {
    Partial,
    Bad(HeadError),
}

impl From<HeadError> for Stop {
    fn from(error: HeadError) -> Self {
        Stop::Bad(error)
    }
}

struct Parser<'a> {
    buf: &'a [u8],
    limits: &'a Limits,
    head: &'a mut Head,
    start: StartLine,
}

impl Parser<'_> {
    /// Parses the rest of the head and returns its length.
    fn run(&mut self) -> Result<usize, Stop> {
        if !self.head.progress.has_start_line {
            match self.start {
                StartLine::Request => {
                    self.blank_lines()?;
                    self.request_line()?;
                }
                StartLine::Status => self.status_line()?,
            }
        }
        loop {
            let at = self.head.progress.at;
            match self.buf.get(at) {
                None => return Err(Stop::Partial),
                Some(b'\r' | b'\n') => {
                    let end = self.line_end(at)?;
                    if self.start == StartLine::Request {
                        self.check_joined()?;
                        self.check_host()?;
                    }
                    return Ok(end);
                }
                Some(b' ' | b'\t') => self.continuation(at)?,
                Some(_) => self.field_line(at)?,
            }
        }
    }

    fn blank_lines(&mut self) -> Result<(), Stop> {
        while let Some(b'\r' | b'\n') = self.buf.get(self.head.progress.at) {
            if self.head.progress.blank_lines == BLANK_LINES_MAX {
                return Err(HeadError::TooManyBlankLines.into());
            }
            self.head.progress.at = self.line_end(self.head.progress.at)?;
            self.head.progress.blank_lines += 1;
        }
        Ok(())
    }

    /// `method SP request-target SP HTTP-version CRLF`, RFC 9112 section 3.
    fn request_line(&mut self) -> Result<(), Stop> {
        let start = self.head.progress.at;
        let method_end = self.method(start)?;
        let target_start = self.blanks(start, method_end)?;
        let target_end = find_below(self.buf, target_start, 0x21);
        match self.byte_of_line(start, target_end)? {
            b' ' => {}
            b'\r' | b'\n' => {
                self.line_end(target_end)?;
                return Err(HeadError::NoVersion.into());
            }
            _ => return Err(HeadError::BadTarget.into()),
        }
        let version_start = self.blanks(start, target_end)?;
        let (version, version_end) = self.version(start, version_start)?;
        let mut end = version_end;
        if !self.limits.strict {
            while self.byte_of_line(start, end)? == b' ' {
                end += 1;
            }
        }
        match self.byte_of_line(start, end)? {
            b'\r' | b'\n' => {}
            _ => return Err(HeadError::BadRequestLine.into()),
        }
        let next = self.line_end(end)?;
        self.head.method = Span::new(start, method_end);
        self.head.target = Span::new(target_start, target_end);
        self.head.version = version;
        self.target(target_start, target_end)?;
        self.head.progress.at = next;
        self.head.progress.has_start_line = true;
        Ok(())
    }

    /// `HTTP-version SP status-code [ SP reason-phrase ] CRLF`, RFC 9112 section 4. As in Apache, the last space may be
    /// missing. The status and the reason take the place of a request's method and target.
    fn status_line(&mut self) -> Result<(), Stop> {
        let start = self.head.progress.at;
        let mut end = start;
        loop {
            end = find_below(self.buf, end, 0x20);
            match self.byte_of_line(start, end)? {
                b'\r' | b'\n' => break,
                b'\t' => end += 1,
                _ => return Err(HeadError::BadStatusLine.into()),
            }
        }
        let next = self.line_end(end)?;
        let line = &self.buf[start..end];
        let version = match line.get(..9) {
            Some(b"HTTP/1.0 ") => Version::Http10,
            Some([b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1'..=b'9', b' ']) => Version::Http11,
            _ => return Err(HeadError::BadStatusLine.into()),
        };
        match line[9..] {
            [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'] | [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9', b' ', ..] => {}
            _ => return Err(HeadError::BadStatusLine.into()),
        }
        self.head.version = version;
        self.head.method = Span::new(start + 9, start + 12);
        self.head.target = Span::new((start + 13).min(end), end);
        self.head.progress.at = next;
        self.head.progress.has_start_line = true;
        Ok(())
    }

    fn method(&self, start: usize) -> Result<usize, Stop> {
        let at = token_end(self.buf, start);
        let end = if self.limits.strict { at } else { find_below(self.buf, at, 0x21) };
        match self.byte_of_line(start, end)? {
            b' ' if end > start => Ok(end),
            b'\r' | b'\n' => Err(HeadError::BadRequestLine.into()),
            _ => Err(HeadError::BadMethod.into()),
        }
    }

    /// The end of the single space at `at`, or of all spaces there if not strict.
    fn blanks(&self, line: usize, at: usize) -> Result<usize, Stop> {
        let mut end = at + 1;
        while self.byte_of_line(line, end)? == b' ' {
            if self.limits.strict {
                return Err(HeadError::BadRequestLine.into());
            }
            end += 1;
        }
        Ok(end)
    }

    fn version(&self, line: usize, start: usize) -> Result<(Version, usize), Stop> {
        let end = find_below(self.buf, start, 0x21);
        let next = self.byte_of_line(line, end)?;
        let text = &self.buf[start..end];
        let (scheme, number) = text.split_at_checked(5).unwrap_or((text, b""));
        let is_http = scheme == b"HTTP/" || !self.limits.strict && scheme.eq_ignore_ascii_case(b"HTTP/");
        match number {
            b"1.0" if is_http => Ok((Version::Http10, end)),
            [b'1', b'.', b'1'..=b'9'] if is_http => Ok((Version::Http11, end)),
            [b'2'..=b'9', b'.', b'0'..=b'9'] if is_http => Err(HeadError::UnsupportedVersion.into()),
            _ if text.is_empty() && matches!(next, b'\r' | b'\n') => Err(HeadError::NoVersion.into()),
            _ => Err(HeadError::BadRequestLine.into()),
        }
    }

    /// Takes the target apart, RFC 9112 section 3.2.
    fn target(&mut self, start: usize, end: usize) -> Result<(), HeadError> {
        let target = &self.buf[start..end];
        let method = self.head.method.of(self.buf);
        let path_start = match target {
            // The target names a host to connect to, not one of ours.
            _ if method == b"CONNECT" => {
                Authority::parse(target, self.limits.strict).ok_or(HeadError::BadTarget)?;
                self.head.authority = Span::new(start, end);
                self.head.path = Span::new(start, end);
                return Ok(());
            }
            [b'/', ..] => start,
            b"*" if method == b"OPTIONS" => start,
            _ => self.absolute_form(start, end)?,
        };
        let mut path_end = end;
        if let Some(hash) = memchr::memchr(b'#', &self.buf[path_start..end]) {
            if self.limits.strict {
                return Err(HeadError::BadTarget);
            }
            path_end = path_start + hash;
        }
        if let Some(mark) = memchr::memchr(b'?', &self.buf[path_start..path_end]) {
            self.head.query = Some(Span::new(path_start + mark + 1, path_end));
            path_end = path_start + mark;
        }
        self.head.path = Span::new(path_start, path_end);
        Ok(())
    }

    /// `http://authority/path?query`: notes the authority, returns the start of the path.
    fn absolute_form(&mut self, start: usize, end: usize) -> Result<usize, HeadError> {
        let target = &self.buf[start..end];
        let scheme_len = ["http://", "https://"]
            .into_iter()
            .find(|scheme| target.get(..scheme.len()).is_some_and(|t| t.eq_ignore_ascii_case(scheme.as_bytes())))
            .ok_or(HeadError::BadTarget)?
            .len();
        let rest = &target[scheme_len..];
        let len = rest.iter().position(|b| matches!(b, b'/' | b'?' | b'#')).unwrap_or(rest.len());
        let mut authority = start + scheme_len;
        if !self.limits.strict {
            // User information has no meaning for http (RFC 9110 section 4.2.4); Apache skips it under Unsafe.
            authority += memchr::memrchr(b'@', &rest[..len]).map_or(0, |at| at + 1);
        }
        let path = start + scheme_len + len;
        let text = &self.buf[authority..path];
        let parsed = Authority::parse(text, self.limits.strict).ok_or(HeadError::BadHost)?;
        // Unlike in a Host field, a port that is not a number is refused here even under Unsafe.
        if parsed.port.is_none() && text.last() != Some(&b']') && text.contains(&b':') {
            return Err(HeadError::BadHost);
        }
        self.head.authority = Span::new(authority, path);
        Ok(path)
    }

    /// `field-name ":" OWS field-value OWS CRLF`, RFC 9112 section 5.
    fn field_line(&mut self, start: usize) -> Result<(), Stop> {
        let (name_end, known) = self.field_name(start)?;
        let (value, next) = self.value(start, name_end + 1)?;
        self.head.progress.field_len = value.end as usize - start;
        let number = self.head.fields.len();
        let most = if self.limits.fields == 0 { Limits::FIELDS_MAX } else { self.limits.fields };
        if number >= most.min(Limits::FIELDS_MAX) {
            return Err(HeadError::TooManyFields.into());
        }
        if let Some(known) = known {
            let is_first = self.head.index.note(known, number);
            if known == KnownField::Host
                && !is_first
                && self.start == StartLine::Request
                && (self.limits.strict || !self.is_the_same_host(value))
            {
                self.head.progress.has_several_hosts = true;
            }
        }
        self.head.fields.push(Field { name: Span::new(start, name_end), value, known, is_folded: false });
        self.head.progress.at = next;
        Ok(())
    }

    /// Whether a Host field says what the first one said.
    fn is_the_same_host(&self, value: Span) -> bool {
        let first = self.head.field(self.buf, KnownField::Host).unwrap_or_default();
        !first.is_empty() && first.eq_ignore_ascii_case(value.of(self.buf))
    }

    /// The index of the colon, and which known field it is.
    #[inline]
    fn field_name(&self, start: usize) -> Result<(usize, Option<KnownField>), Stop> {
        if let Some(colon) = near_colon(self.buf, start) {
            // The name of a known field is a token.
            let known = KnownField::classify(&self.buf[start..colon]);
            if known.is_some() {
                self.checked_len(colon - start)?;
                return Ok((colon, known));
            }
        }
        let mut at = token_end(self.buf, start);
        if !self.limits.strict {
            while at < self.buf.len() && !matches!(self.buf[at], b':' | b' ' | b'\t' | b'\r' | b'\n' | 0) {
                at += 1;
            }
        }
        match self.byte_of_field(start, at)? {
            b':' if at > start => Ok((at, KnownField::classify(&self.buf[start..at]))),
            _ => Err(HeadError::BadFieldName.into()),
        }
    }

    /// The trimmed value that starts at `from`, and the start of the next line.
    #[inline]
    fn value(&self, line: usize, from: usize) -> Result<(Span, usize), Stop> {
        let mut start = from;
        while let Some(b' ' | b'\t') = self.buf.get(start) {
            start += 1;
        }
        let mut stop = start;
        loop {
            stop = find_below(self.buf, stop, 0x20);
            match self.byte_of_field(line, stop)? {
                b'\r' | b'\n' => break,
                b'\t' => {}
                // Like Apache, accept no white space except blanks and tabs in a value.
                0 | 0x0b | 0x0c => return Err(HeadError::BadFieldValue.into()),
                _ if self.limits.strict => return Err(HeadError::BadFieldValue.into()),
                _ => {}
            }
            stop += 1;
        }
        let next = self.line_end(stop)?;
        let mut end = stop;
        while end > start && matches!(self.buf[end - 1], b' ' | b'\t') {
            end -= 1;
        }
        Ok((Span::new(start, end), next))
    }

    /// A line that starts with a blank continues the value before it (obs-fold, RFC 9112 section 5.2): the value
    /// moves to [`Head::folded`] and gets one space and the rest.
    fn continuation(&mut self, start: usize) -> Result<(), Stop> {
        let (more, next) = self.value(start, start)?;
        let Some(field) = self.head.fields.last_mut() else {
            return Err(HeadError::BadFold.into());
        };
        if more.is_empty() {
            return Err(HeadError::BadFold.into());
        }
        let folded = &mut self.head.folded;
        if !field.is_folded {
            let copy = folded.len();
            folded.extend_from_slice(field.value.of(self.buf));
            field.value = Span::new(copy, folded.len());
            field.is_folded = true;
        }
        if !field.value.is_empty() {
            folded.push(b' ');
        }
        folded.extend_from_slice(trim(more.of(self.buf)));
        field.value.end = folded.len() as u32;
        let added = 1 + (more.end - more.start) as usize;
        self.head.progress.field_len += added;
        // As in Apache, a continued field may have two bytes less.
        if self.head.progress.field_len + 2 > self.limits.field_size {
            return Err(HeadError::FieldTooLong.into());
        }
        self.head.progress.at = next;
        Ok(())
    }

    /// Fields of one name count as one (RFC 9110 section 5.3), for the limit too.
    fn check_joined(&self) -> Result<(), HeadError> {
        let most = self.limits.field_size;
        let all = self.head.progress.at;
        if all <= most {
            return Ok(());
        }
        let is_longer = joined::is_longer(self.head.fields(self.buf), |_| 0, most);
        if is_longer { Err(HeadError::FieldTooLong) } else { Ok(()) }
    }

    /// Host is needed in HTTP/1.1, and must be valid in any version (RFC 9112 section 3.2).
    fn check_host(&self) -> Result<(), HeadError> {
        if self.head.progress.has_several_hosts {
            return Err(HeadError::SeveralHosts);
        }
        let Some(host) = self.head.field(self.buf, KnownField::Host) else {
            return if self.head.version == Version::Http10 { Ok(()) } else { Err(HeadError::NoHost) };
        };
        if host.is_empty() {
            return if self.head.version == Version::Http10 { Ok(()) } else { Err(HeadError::NoHost) };
        }
        Authority::parse(host, self.limits.strict).map(|_| ()).ok_or(HeadError::BadHost)
    }

    /// The byte at `at`, which belongs to the request line that starts at `line`. Bytes beyond the limit are not
    /// examined, so that the outcome does not depend on how the bytes arrive.
    fn byte_of_line(&self, line: usize, at: usize) -> Result<u8, Stop> {
        if at - line > self.limits.line.saturating_add(1) {
            return Err(HeadError::LineTooLong.into());
        }
        self.buf.get(at).copied().ok_or(Stop::Partial)
    }

    /// The byte at `at` of the field line that starts at `line`.
    #[inline]
    fn byte_of_field(&self, line: usize, at: usize) -> Result<u8, Stop> {
        self.checked_len(at - line)?;
        self.buf.get(at).copied().ok_or(Stop::Partial)
    }

    #[inline]
    fn checked_len(&self, len: usize) -> Result<usize, HeadError> {
        if len > self.limits.field_size.saturating_add(1) { Err(HeadError::FieldTooLong) } else { Ok(len) }
    }

    /// The start of the line after the line end at `at`, which is a CR or LF.
    #[inline]
    fn line_end(&self, at: usize) -> Result<usize, Stop> {
        match self.buf[at..] {
            [b'\r', b'\n', ..] => Ok(at + 2),
            [b'\r'] => Err(Stop::Partial),
            [b'\n', ..] if !self.limits.strict => Ok(at + 1),
            _ => Err(HeadError::BadLineEnd.into()),
        }
    }
}
