//! The tables in `testdata` record the answers of Apache 2.4.71 to the same request.

use std::borrow::Cow;
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};

use super::*;

/// The request that the tables were recorded with.
#[derive(Default)]
struct Request {
    vary: RefCell<Vec<String>>,
}

fn find<'v>(table: &[(&str, &'v str)], name: &str) -> Option<Cow<'v, str>> {
    let entry = table.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
    entry.map(|(_, value)| Cow::Borrowed(*value))
}

impl Subject for Request {
    fn variable(&self, variable: Variable) -> Result<Cow<'_, str>, EvalError> {
        Ok(Cow::Borrowed(match variable {
            Variable::TimeYear => "2026",
            Variable::RequestMethod => "GET",
            Variable::RequestScheme => "http",
            Variable::RequestUri | Variable::DocumentUri => "/t/f.txt",
            Variable::RequestFilename => "/tmp/oracle-expr/www/t/f.txt",
            Variable::DocumentRoot | Variable::ContextDocumentRoot => "/tmp/oracle-expr/www",
            Variable::QueryString => "a=1&b=2",
            Variable::RemoteAddr | Variable::ConnRemoteAddr => "127.0.0.1",
            Variable::ServerName => "h.example",
            Variable::ServerPort => "80",
            Variable::ServerProtocol => "HTTP/1.1",
            Variable::ContentType => "text/plain",
            Variable::RequestStatus => "200",
            Variable::IsSubreq => "false",
            Variable::Https | Variable::Http2 | Variable::Ipv6 => "off",
            _ => "",
        }))
    }

    fn header_in(&self, name: &str) -> Option<Cow<'_, str>> {
        let headers =
            [("Host", "h.example"), ("X-Q", "a"), ("Cookie", "k=v"), ("User-Agent", "UA/1.0 (x)"), ("Accept", "*/*")];
        find(&headers, name)
    }

    fn header_out(&self, _name: &str) -> Option<Cow<'_, str>> {
        None
    }

    fn note(&self, _name: &str) -> Option<Cow<'_, str>> {
        None
    }

    fn request_env(&self, _name: &str) -> Option<Cow<'_, str>> {
        None
    }

    fn process_env(&self, name: &str) -> Option<Cow<'_, str>> {
        find(&[("OSVAR", "osvalue"), ("PATH", "/usr/bin:/bin")], name)
    }

    fn file_test(&self, test: FileTest, path: &str) -> bool {
        let is = |paths: &[&str]| paths.contains(&path);
        let directories = ["/etc", "/tmp/oracle-expr/www"];
        let empty = "/tmp/oracle-expr/www/t/empty";
        let script = "/tmp/oracle-expr/www/t/x.sh";
        match test {
            FileTest::Exists => is(&directories) || is(&["/etc/passwd", empty, script]),
            FileTest::Directory => is(&directories),
            FileTest::Regular => is(&["/etc/passwd", empty, script]),
            FileTest::NonEmpty => is(&["/etc/passwd", script]),
            FileTest::Link => is(&["/tmp/oracle-expr/www/t/link"]),
            FileTest::Executable => is(&[script]),
        }
    }

    fn file_contents(&self, path: &str) -> Result<String, FileError> {
        match path {
            "/etc/motd" => Ok("hello".to_owned()),
            _ => Err(FileError::Open),
        }
    }

    fn file_size(&self, path: &str) -> u64 {
        if path == "/etc/motd" { 5 } else { 0 }
    }

    fn access(&self, _access: Access, target: &str) -> Option<bool> {
        Some(target != "/nonexistent")
    }

    fn client_address(&self) -> Option<IpAddr> {
        Some(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    fn note_vary(&self, header: &str) {
        let mut vary = self.vary.borrow_mut();
        if !vary.iter().any(|noted| noted == header) {
            vary.push(header.to_owned());
        }
    }

    fn peer_extensions(&self, oid: &str) -> Vec<String> {
        vec![format!("value of {oid}")]
    }
}

/// The outcome in the tables' format: the value or the error, and the resulting `Vary` header.
fn outcome(value: Result<String, String>, request: &Request) -> String {
    let mut outcome = value.unwrap_or_else(|error| format!("error: {error}"));
    let vary = request.vary.borrow();
    if !vary.is_empty() {
        outcome += " vary: ";
        outcome += &vary.join(",");
    }
    outcome
}

fn condition(text: &str, options: Options) -> String {
    let request = Request::default();
    let value = Expr::parse_with(text, options).map_err(|e| e.to_string()).and_then(|expression| {
        let value = expression.eval(&request, &mut Eval::new());
        value.map(|v| v.to_string()).map_err(|e| e.to_string())
    });
    outcome(value, &request)
}

fn string(text: &str, options: Options) -> String {
    let request = Request::default();
    let value = StringExpr::parse_with(text, options).map_err(|e| e.to_string()).and_then(|expression| {
        let value = expression.eval(&request, &mut Eval::new());
        value.map(|v| format!("[{v}]")).map_err(|e| e.to_string())
    });
    outcome(value, &request)
}

const HTACCESS: Options = Options { restricted: true, ssl_require: false, page: false, ssl: false, health: false };

/// Compares every line `expression<TAB>outcome`.
fn check(table: &str, evaluate: impl Fn(&str) -> String) {
    let differences: Vec<String> = table
        .lines()
        .map(|line| line.rsplit_once('\t').expect("a line of two columns"))
        .map(|(text, expected)| (text, expected, evaluate(text)))
        .filter(|(_, expected, found)| expected != found)
        .map(|(text, expected, found)| format!("{text}\n  Apache: {expected}\n  we:     {found}"))
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn conditions_are_apaches() {
    let table = include_str!("../../testdata/expr-conditions.txt");
    check(table, |text| condition(text, HTACCESS));
}

#[test]
fn strings_are_apaches() {
    let table = include_str!("../../testdata/expr-strings.txt");
    check(table, |text| string(text, HTACCESS));
}

#[test]
fn files_can_be_read_outside_of_htaccess() {
    let evaluate = |text| condition(text, Options::default());
    assert_eq!(evaluate("file('/etc/motd') == 'hello'"), "true");
    assert_eq!(evaluate("filesize('/etc/motd') -eq 5"), "true");
    assert_eq!(evaluate("file('/none') == ''"), "error: Cannot open file /none");
}

#[test]
fn ssl_require_compares_by_length_first() {
    let options = Options { ssl_require: true, ssl: true, ..Options::default() };
    assert_eq!(condition("'9' lt '10'", options), "true");
    assert_eq!(condition("'9' < '10'", options), "true");
    assert_eq!(condition("'b' < 'a'", options), "false");
    assert_eq!(condition("%{SSL_PROTOCOL} == ''", options), "true");
    let oid = "'value of 1.2' in PeerExtList('1.2')";
    assert_eq!(condition(oid, options), "true");
}

#[test]
fn captures_outlive_the_evaluation() {
    let expression = Expr::parse("%{REQUEST_URI} =~ m#^/(t)/(.*)# && 'x' =~ /x/").unwrap();
    let mut eval = Eval::new();
    assert_eq!(expression.eval(&Request::default(), &mut eval), Ok(true));
    assert_eq!(eval.capture(1), "t");
    let (subject, captures) = eval.captures();
    let mut value = String::new();
    crate::pattern::substitute(&mut value, "$2-$1", subject, captures, 100).expect("short");
    assert_eq!(value, "f.txt-t");
}

#[test]
fn constant_strings_are_known_as_such() {
    assert_eq!(StringExpr::parse("text/html").unwrap().constant(), Some("text/html"));
    assert_eq!(StringExpr::parse("%{HANDLER}").unwrap().constant(), None);
}

#[test]
fn nesting_has_a_bound() {
    let nested = |depth| format!("{}true{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(condition(&nested(200), HTACCESS), "true");
    assert_eq!(condition(&nested(100_000), HTACCESS), "error: memory exhausted");
    assert_eq!(condition(&"!".repeat(100_001), HTACCESS), "error: syntax error, unexpected $end");
    let nested = "tolower(".repeat(100_000);
    assert_eq!(condition(&nested, HTACCESS), "error: memory exhausted");
    let nested = "%{tolower:".repeat(100_000);
    assert_eq!(condition(&nested, HTACCESS), "error: memory exhausted");
}

#[test]
fn costly_patterns_are_an_error() {
    let text = format!(r"'{}' =~ /^(a+)+\1$/", "a".repeat(40) + "b");
    let value = Expr::parse(&text).unwrap().eval(&Request::default(), &mut Eval::new());
    let told = value.map_err(|why| why.to_string());
    assert_eq!(told, Err(r"regular expression /^(a+)+\1$/ cannot be matched: match limit exceeded".to_owned()));
}

#[test]
fn the_token_at_fault() {
    for (text, token, at) in [
        ("%{REQUEST_URI} =~ foo", "foo", 18),
        ("true && ", "", 8),
        ("foo(%{REQUEST_URI}) == 'x'", "foo", 0),
        ("%{FOO} == 'x'", "FOO", 2),
        ("'x' =~ /a(/ && true", "/a(/", 7),
        ("'x' -foo 'y' && true", "-foo", 4),
        ("-R 'nowhere' || true", "-R", 0),
        ("-Q 'x'", "-Q", 0),
        ("'x' in foo('y')", "foo", 7),
    ] {
        let place = Expr::parse(text).unwrap_err().place;
        assert_eq!((&text[place.clone()], place.start), (token, at), "{text}");
    }
}
