//! Known handlers whose module is missing: the source of their files is never sent.

use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::server::{Server, Start};
use crate::harness::site::Site;
use crate::mpm::control::said;

const SECRET: &str = "<?php $password = 'secret';\n";

/// How a file's handler is named, the name, and the module that is missed.
const NAMED: [(&str, &str, &str); 6] = [
    ("SetHandler fcgid-script", "fcgid-script", "mod_fcgid"),
    ("AddHandler fastcgi-script .x", "fastcgi-script", "mod_fastcgi"),
    ("SetHandler uwsgi-handler", "uwsgi-handler", "mod_uwsgi"),
    ("AddType application/x-httpd-php .x", "application/x-httpd-php", "mod_php"),
    ("SetHandler perl-script", "perl-script", "mod_perl"),
    ("ForceType application/x-httpd-php", "application/x-httpd-php", "mod_php"),
];

under_percore_and! { worker:
    /// It does not matter who names them, nor in which file.
    fn their_files_are_not_sent(mpm: Mpm) {
        let site = Site::new();
        let mut text = String::new();
        for (number, (line, ..)) in NAMED.iter().enumerate() {
            text += &format!("<Directory \"${{DOCS}}/{number}\">\n{line}\n</Directory>\n");
            site.page(&format!("{number}/a.x"), SECRET);
            site.page(&format!("by{number}/a.x"), SECRET);
            site.page(&format!("by{number}/.htaccess"), format!("{line}\n"));
        }
        let server = Server::start(mpm, &site, &format!("{text}<Directory \"${{DOCS}}\">\nAllowOverride All\n</Directory>"));
        server.allow("; requests for it are answered with 500");
        for (number, (line, name, module)) in NAMED.iter().enumerate() {
            server.announce(format!("nothing handles {name}, which needs {module}: "));
            for directory in [number.to_string(), format!("by{number}")] {
                for method in ["GET", "HEAD", "POST"] {
                    let request =
                        format!("{method} /{directory}/a.x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
                    let mut client = server.client();
                    client.send(&request);
                    let response = client.try_response_to(method).expect("an answer");
                    assert_eq!(response.status, 500, "{line}: {method}");
                    assert!(!response.text().contains("secret"), "{line}: {method}");
                    // What is not there is not there, whoever would handle it.
                    let gone = request.replace("/a.x", "/none.x");
                    let mut client = server.client();
                    client.send(&gone);
                    assert_eq!(client.try_response_to(method).expect("an answer").status, 404, "{line}: {method}");
                }
            }
        }
    }
}

/// An unknown name has the same effect as in Apache, and an `Action` makes a known one work.
#[test]
fn other_names_are_left_alone() {
    let site = Site::with([("a.odd", "odd\n"), ("a.php", "php\n")]);
    site.script("php", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nran\\n'\n");
    let text = "AddHandler nobody-knows-it .odd\nAddType application/x-httpd-php .php\n\
                ScriptAlias /php ${ROOT}/cgi-bin/php\nAction application/x-httpd-php /php";
    let server = Server::start(Mpm::Percore, &site, text);
    assert_eq!((server.get("/a.odd").status, server.get("/a.odd").text()), (200, "odd\n".into()));
    assert_eq!(server.get("/a.php").text(), "ran\n");
    let start = Start::new(&site, Mpm::Percore).arguments(&["-t"]);
    assert_eq!(said(&start.command().output().expect("run")).1, "Syntax OK\n");
}

/// `-t` names the lines.
#[test]
fn the_lines_are_named() {
    for (line, name, module) in NAMED {
        let site = Site::new();
        site.configure(Mpm::Percore, &format!("<Directory \"${{DOCS}}\">\n{line}\n</Directory>"));
        let start = Start::new(&site, Mpm::Percore).arguments(&["-t"]);
        let (_, errors, status) = said(&start.command().output().expect("run"));
        let directive = line.split(' ').next().expect("a word");
        let told = format!(
            "{directive} at {}/conf/httpd.conf:3: nothing handles {name}, which needs {module}; requests for it are \
             answered with 500\nSyntax OK\n",
            site.path()
        );
        assert_eq!((errors, status), (told, Some(0)));
    }
}
