//! What is said of files and answers beyond their names, beside Apache: when they expire.

use crate::oracle::{Allowed, Case, compare};
use crate::site::Site;

/// `Expires` and `Cache-Control` by type, section and origin; what depends on the present moment is replaced.
#[test]
fn expiry_of_answers() {
    let build = |site: &Site| {
        for name in ["f.html", "f.txt", "f.png", "f.gif", "f.none", "off/f.html", "in/f.png", "in/f.css", "act/f.png"] {
            site.page(name, "x\n");
        }
        site.page("ht/f.html", "x\n");
        site.page("ht/.htaccess", "ExpiresDefault \"access plus 3 days\"\nExpiresByType text/html M315360007\n");
        site.page("bad/f.html", "x\n");
        site.page("bad/.htaccess", "ExpiresDefault \"access plus 3 eons\"\n");
        let says = |fields: &str| format!("#!/bin/sh\nprintf 'Content-Type: text/html\\n{fields}\\nhello'\n");
        site.script("own", &says("Expires: Thu, 01 Jan 1970 00:00:00 GMT\\n"));
        site.script("control", &says("Cache-Control: private\\n"));
        site.script("error", &says("Status: 404 Not Found\\n"));
    };
    let configuration = "AllowOverride All\n</Directory>\nScriptAlias /cgi/ ${ROOT}/cgi-bin/\n\
        <Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n\
        ExpiresActive On\nExpiresByType text/html \"access plus 1 hour\"\nExpiresByType image/* A77\n\
        ExpiresByType IMAGE/GIF \"now plus 2 minutes 3 seconds\"\nExpiresDefault \"modification plus 10 years 1 month\"\n\
        ErrorDocument 403 /f.txt\nRedirect /r http://x.example/\n\
        <Location /in>\nExpiresByType text/css A5\n</Location>\n<Location /act>\nExpiresActive On\n</Location>\n\
        <Location /off>\nExpiresActive Off\n</Location>\n<Location /denied>\nRequire all denied\n</Location>\n\
        <Location /past>\nExpiresDefault M1\nExpiresByType text/html \"access plus 100 years\"\n</Location>\n\
        Alias /past/ ${DOCS}/\nHeader edit Expires \"^.* 20(2[6-9]|3[01]) .*$\" now\n\
        Header edit Cache-Control \"max-age=[0-9]{8,}\" max-age=many\n";
    let requests = [
        "GET /f.html",
        "HEAD /f.html",
        "POST /f.html",
        "GET /f.txt",
        "GET /f.png",
        "GET /f.gif",
        "GET /f.none",
        "GET /f.html|If-Modified-Since: Fri, 31 Dec 2038 00:00:00 GMT",
        "GET /f.html|Range: bytes=0-0",
        "GET /in/f.png",
        "GET /in/f.css",
        "GET /act/f.png",
        "GET /off/f.html",
        "GET /in",
        "GET /r",
        "GET /none",
        "GET /denied",
        "GET /ht/f.html",
        "GET /bad/f.html",
        "GET /past/f.txt",
        "GET /past/f.html",
        "OPTIONS /f.html",
        "GET /cgi/own",
        "GET /cgi/control",
        "GET /cgi/error",
    ];
    let cases: Vec<Case> = requests.iter().map(|request| Case::of(request)).collect();
    let length = ["content-length", "transfer-encoding"].map(|what| Allowed {
        case: "*/cgi/*",
        what,
        entry: "The length of a short CGI answer",
    });
    let mut allowed = length.to_vec();
    allowed.push(Allowed { case: "GET /bad/f.html", what: "%f", entry: "The file of a request" });
    let text = format!("<Directory ${{DOCS}}>\n{configuration}");
    compare("expiry_of_answers", build, &text, &cases, &allowed);
}
