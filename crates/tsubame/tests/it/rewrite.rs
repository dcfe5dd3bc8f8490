//! mod_rewrite, beside Apache's: contexts, flags, conditions, variables, maps.

use std::os::unix::fs::PermissionsExt;

use crate::oracle::{Case, compare};
use crate::site::Site;

/// What every site of these tests has.
fn build(site: &Site) {
    for name in
        ["a.html", "index.html", "index.php", "b.txt", "d/a.html", "d/index.html", "d/sub/x.html", "sp ace.html"]
    {
        site.page(name, format!("{name}\n"));
    }
    site.file("out/f.html", "out\n");
    site.page("x.cgi", "#!/bin/sh\n");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(site.root.join("htdocs/x.cgi"), mode).expect("mode");
    site.page("empty", "");
    std::os::unix::fs::symlink("a.html", site.root.join("htdocs/link")).expect("link");
}

/// Compares the answers to requests, `METHOD target|Field: value`.
fn check(test: &str, configuration: &str, access_files: &[(&str, &str)], requests: &[&str]) {
    let cases: Vec<Case> = requests.iter().map(|request| Case::of(request)).collect();
    let files = |site: &Site| {
        build(site);
        for (name, text) in access_files {
            site.page(&format!("{name}.htaccess"), text.replace("${DOCS}", &format!("{}/htdocs", site.path())));
        }
    };
    let text = format!(
        "<Directory ${{DOCS}}>\nAllowOverride All\nOptions FollowSymLinks\n</Directory>\n\
         <Directory ${{ROOT}}/out>\nRequire all granted\n</Directory>\n{configuration}"
    );
    compare(test, files, &text, &cases, &[]);
}

#[test]
fn wordpress() {
    let rules = "<IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\n\
        RewriteBase /\nRewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
        RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n</IfModule>\n";
    let requests = [
        "GET /",
        "GET /a.html",
        "GET /2026/11/a-post/?page=2",
        "GET /none",
        "GET /d/",
        "GET /d",
        "GET /index.php",
        "GET /index.php?x=y",
        "GET /a.html/more",
        "GET /sp%20ace.html",
        "GET /%C3%A9t%C3%A9/",
        "HEAD /none",
        "GET /none|Authorization: Basic eDp5",
    ];
    check("wordpress", "DirectoryIndex index.php index.html", &[("", rules)], &requests);
}
