//! The pages of the demonstration: they are made by Apache's own means, so Apache makes the same of them.

use crate::harness::mpm::Mpm;
use crate::harness::oracle::{Allowed, compare};
use crate::harness::server::Server;
use crate::harness::site::Site;

const CONFIGURATION: &str = include_str!("../../../../../conf/httpd.conf");
const PAGES: [(&str, &str); 4] = [
    ("error.shtml", include_str!("../../../../../conf/pages/error.shtml")),
    ("icon.svg", include_str!("../../../../../conf/pages/icon.svg")),
    ("listing.shtml", include_str!("../../../../../conf/pages/listing.shtml")),
    ("style.css", include_str!("../../../../../conf/pages/style.css")),
];

/// The part of the configuration that says what listings and errors look like.
fn configuration() -> String {
    let begin = CONFIGURATION.find("IndexOptions ").expect("listings");
    let end = begin + CONFIGURATION[begin..].find("</Directory>").expect("their pages");
    let pages = CONFIGURATION[begin..end].replace("${TSUBAME_HOME}", "${ROOT}");
    format!("{pages}</Directory>\n<Directory ${{DOCS}}>\nOptions Indexes\n</Directory>\n")
}

fn build(site: &Site) {
    for (name, text) in PAGES {
        site.file(format!("pages/{name}"), text);
    }
    site.page("a & b/<img src=x>/b/c/d/e/f/g/file.txt", "0123456789");
    site.page("a & b/other.html", "<p>x</p>");
}

const DEEP: &str = "/a%20&%20b/%3Cimg%20src=x%3E/b/c/d/e/f/g/";

#[test]
fn apache_makes_the_same_of_them() {
    let length = |what| Allowed { case: "*", what, entry: "The length of a page with includes" };
    let allowed = [length("content-length"), length("transfer-encoding"), length("%b"), length("%O")];
    let cases = [
        "/",
        DEEP,
        "/a%20&%20b/",
        "/a%20&%20b/?C=S;O=D",
        "/a%20&%20b/?x=/%22%3E%3Cb%3E/",
        "/nosuch",
        "/nosuch/%3Cb%3E",
        "/.tsubame/style.css",
        "/.tsubame/",
    ];
    let cases = crate::scripts::cgi_same_as_apache::gets(&cases);
    compare("apache_makes_the_same_of_them", build, &configuration(), &cases, &allowed);
}

#[test]
fn texts_of_the_pages() {
    let site = Site::new();
    build(&site);
    site.file("conf/mime.types", "image/svg+xml svg\ntext/css css\n");
    let server = Server::start(Mpm::Percore, &site, &configuration());
    let listing = server.get(DEEP).text();
    for part in [
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
        "<link rel=\"stylesheet\" href=\"/.tsubame/style.css\" type=\"text/css\">",
        "<h1 class=\"crumbs\"><a href=\"/\">Top</a>",
        "<a href=\"/a%20&amp;%20b/\">a &amp; b</a>",
        "<a href=\"/a%20&amp;%20b/%3Cimg%20src=x%3E/\">&lt;img src=x&gt;</a>",
        "<a href=\"/a%20&amp;%20b/%3Cimg%20src=x%3E/b/c/d/e/\">e</a>",
        "<i>/ …</i>",
        "<td class=\"indexcolsize\"> 10 </td>",
    ] {
        assert!(listing.contains(part), "{part} in {listing}");
    }
    assert!(!listing.contains("<img"), "names are text: {listing}");
    let error = server.get("/nosuch");
    assert_eq!((error.status, error.field("Content-Type")), (404, Some("text/html")));
    assert!(error.text().contains("<p class=\"status\">404</p>"), "{}", error.text());
    let icon = server.get("/.tsubame/icon.svg");
    assert_eq!((icon.status, icon.field("Content-Type")), (200, Some("image/svg+xml")));
    for (name, text) in PAGES {
        let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!elsewhere.contains("http:") && !elsewhere.contains("https:"), "{name} needs nothing from elsewhere");
    }
}
