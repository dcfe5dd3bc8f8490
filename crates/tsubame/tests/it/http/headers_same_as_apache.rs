//! Fields that configuration adds, changes and takes away, beside Apache's mod_headers.

use crate::harness::oracle::{Allowed, Case, compare};
use crate::harness::site::Site;

fn case(path: &str, fields: &str) -> Case {
    let bytes = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n\r\n").into_bytes();
    Case { name: format!("{path} with {fields}"), bytes }
}

#[test]
fn fields_of_answers_and_requests() {
    let build = |site: &Site| {
        site.page("f.txt", "hello\n");
        site.page("d/f.html", "hello\n");
        site.page("d/.htaccess", "Header add X-Here htaccess\nHeader unset X-There\n");
        site.page("s/f.txt", "hello\n");
        let text = "#!/bin/sh\nprintf 'Content-Type: text/plain\\nX-Own: a\\nSet-Cookie: b=c\\nSet-Cookie: d=e\\n\\n'\n\
            env | grep ^HTTP_X | sort\n";
        site.script("echo", text);
        let text =
            "#!/bin/sh\nprintf 'Status: 304\\nContent-Type: text/x\\nContent-Language: fr\\nContent-MD5: x\\n\\n'\n";
        site.script("same", text);
        site.script("tagged", "#!/bin/sh\nprintf 'Content-Type: text/x\\nX-Own: a\\nETag: \"a\"\\n\\nbody'\n");
    };
    let cases: Vec<Case> = [
        ("/f.txt", ""),
        ("/f.txt", "X-A: one\r\nX-A: two\r\nX-B: b\r\n"),
        ("/f.txt", "If-Modified-Since: Fri, 31 Dec 2038 00:00:00 GMT\r\n"),
        ("/f.txt", "If-None-Match: *\r\n"),
        ("/f.txt", "If-Match: \"x\"\r\n"),
        ("/f.txt", "Range: bytes=1-2\r\n"),
        ("/f.txt", "Range: bytes=99-\r\n"),
        ("/cgi/tagged", "If-Match: \"x\"\r\n"),
        ("/none", "X-A: one\r\n"),
        ("/d/f.html", "X-A: one\r\n"),
        ("/d", ""),
        ("/cgi/same", ""),
        ("/cgi/echo", "X-A: one\r\nX-C: c\r\nX-Gone: x\r\n"),
        ("/cgi/echo", "X-D: client\r\nX-C: c\r\nX-D: again\r\nX-C: d\r\nX-G: e\r\nX-G: f\r\n"),
    ]
    .map(|(path, fields)| case(path, fields))
    .into_iter()
    .collect();
    let configurations = [
        "Header set X-There one\nHeader always set X-All two\nHeader add X-There more\nHeader append X-There three\n\
         Header merge X-There three\nHeader merge X-There four\nHeader setifempty X-There no\nHeader setifempty X-Else yes\n",
        "Header echo ^X-\nHeader unset ETag\nHeader set Content-Type text/x\nHeader always unset Last-Modified\n",
        "Header edit ETag ^\"(.*)\" W/$1\nHeader edit* Content-Type t T\nHeader edit Set-Cookie ^(.*)$ $1;Secure\n\
         Header always edit Set-Cookie ^b $0x\n",
        "SetEnvIf X-A one A=1\nHeader set X-Env \"%{A}e 100%% %{B}e\" env=A\nHeader set X-Not x env=!A\n\
         Header set X-Expr \"expr=%{REQUEST_URI} %{REQUEST_METHOD}\"\nHeader set X-If y \"expr=%{REQUEST_STATUS} -eq 200\"\n",
        "RequestHeader set X-A changed\nRequestHeader append X-C more\nRequestHeader add X-D d\nRequestHeader unset X-Gone\n\
         RequestHeader edit X-A ^c(.) $1\nRequestHeader set X-E e early\nRequestHeader setifempty X-F f\n",
        "ErrorDocument 404 /f.txt\nHeader set X-There one\nHeader always set X-All two\n\
         <Location /d>\nHeader unset X-All\nHeader always unset X-All\n</Location>\n",
        "Header onsuccess set Cache-Control max-age=3\nHeader set Content-Type: text/y\nHeader unset Content-Type env=none\n\
         Header note ETag tag\nHeader set Vary X-V\nHeader append Vary X-W\n",
        "Header set Content-Type text/x\nHeader set Content-Length 7 \"expr=%{REQUEST_STATUS} -eq 304\"\n\
         Header always set Content-Encoding x\n",
        "Header always add X-Own one early\nHeader always add X-Own two early\nHeader always append X-Own end\n\
         RequestHeader set X-A \"expr=<%{resp:X-Own}>\" early\nRequestHeader merge X-B \"\"\nRequestHeader merge X-B \"\"\n",
        "Header always append X-There one\nHeader always add Set-Cookie a=b\nHeader set X-All two\n",
        "Header set Location /x early\nHeader always set Allow GET early\n",
    ];
    let length = ["content-length", "transfer-encoding"].map(|what| Allowed {
        case: "/cgi/echo*",
        what,
        entry: "The length of a short CGI answer",
    });
    let unsatisfiable = ["%k", "content-range", "content-length", "transfer-encoding"].map(|what| Allowed {
        case: "*Range: bytes=99-*",
        what,
        entry: "416 says how long the file is",
    });
    let elsewhere = Allowed { case: "/cgi/tagged*", what: "status", entry: "A script that leads elsewhere" };
    let allowed = [&length[..], &unsatisfiable, &[elsewhere]].concat();
    let base = "AllowOverride All\n";
    for configuration in configurations {
        let text = format!(
            "<Directory ${{DOCS}}>\n{base}Require all granted\n</Directory>\nScriptAlias /cgi/ ${{ROOT}}/cgi-bin/\n\
             <Directory ${{ROOT}}/cgi-bin>\nRequire all granted\n</Directory>\n{configuration}"
        );
        compare("headers", build, &text, &cases, &allowed);
    }
}
