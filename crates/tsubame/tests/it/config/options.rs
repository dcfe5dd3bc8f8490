//! `Options`: how lines, sections and `.htaccess` files are put together. The table holds for Apache too.

use std::os::unix::fs::symlink;

use crate::harness::oracle;
use crate::harness::site::Site;
use crate::harness::wire::Client;

/// `Options` in `<Directory />`, in the directory above, in `.htaccess` (empty: no line), and what works: I listings,
/// L symbolic links, C scripts, M MultiViews.
const ROWS: [(&str, &str, &str, &str); 20] = [
    ("", "", "", ".L.."),
    ("None", "", "", "...."),
    ("Indexes FollowSymLinks", "None", "", "...."),
    ("Indexes FollowSymLinks", "+ExecCGI", "", "ILC."),
    ("Indexes FollowSymLinks", "-Indexes", "", ".L.."),
    ("Indexes FollowSymLinks", "-Indexes +Includes", "", ".L.."),
    ("Indexes FollowSymLinks", "ExecCGI", "+Indexes", "I.C."),
    ("All", "", "", "ILC."),
    ("All", "-ExecCGI", "", "IL.."),
    ("None", "+Indexes", "-Indexes +ExecCGI", "..C."),
    ("Indexes", "Includes", "+FollowSymLinks", ".L.."),
    ("+Indexes", "", "", "IL.."),
    ("-FollowSymLinks", "", "", "...."),
    ("Includes", "-IncludesNOEXEC", "", "...."),
    ("FollowSymLinks", "SymLinksIfOwnerMatch", "", ".L.."),
    ("MultiViews Indexes", "+ExecCGI", "", "I.CM"),
    ("All", "+MultiViews", "", "ILCM"),
    ("All -Indexes", "", "", ".LC."),
    ("Indexes", "", "", "I..."),
    ("FollowSymLinks\nOptions -FollowSymLinks +Indexes", "", "", "I..."),
];

#[test]
fn options_are_merged_as_in_apache() {
    let line = |options: &str| if options.is_empty() { String::new() } else { format!("Options {options}\n") };
    let build = |site: &Site| {
        for (index, (_, _, htaccess, _)) in ROWS.iter().enumerate() {
            let page = |name: &str, text: &str| site.page(&format!("row{index}/d/e/{name}"), text);
            page("mv.html.en", "english\n");
            page("target.txt", "target\n");
            let script = page("s.cgi", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nran\\n'\n");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(script, mode).expect("mode");
            symlink("target.txt", site.root.join(format!("htdocs/row{index}/d/e/link.txt"))).expect("link");
            if !htaccess.is_empty() {
                page(".htaccess", &line(htaccess));
            }
        }
    };
    // Each row is a host: a server for each would take most of a minute to start.
    let hosts = ROWS.iter().enumerate().map(|(index, (root, above, _, _))| {
        format!(
            "<VirtualHost *>\nServerName row{index}\nDocumentRoot ${{DOCS}}/row{index}\n<Directory />\n{}</Directory>\n\
             <Directory ${{DOCS}}/row{index}/d>\nAllowOverride All\n{}</Directory>\n</VirtualHost>\n",
            line(root),
            line(above)
        )
    });
    let configuration = format!("AddHandler cgi-script .cgi\nAddLanguage en .en\n{}", hosts.collect::<String>());
    oracle::both("options_are_merged_as_in_apache", build, &configuration, |site| {
        for (index, (root, above, htaccess, works)) in ROWS.iter().enumerate() {
            let get = |path: &str| {
                let request = format!("GET {path} HTTP/1.1\r\nHost: row{index}\r\n\r\n");
                let response = Client::connect(site.address()).request(request);
                (response.status, response.text())
            };
            let shown: String = [
                ('I', get("/d/e/").0 == 200),
                ('L', get("/d/e/link.txt") == (200, "target\n".into())),
                ('C', get("/d/e/s.cgi") == (200, "ran\n".into())),
                ('M', get("/d/e/mv.html") == (200, "english\n".into())),
            ]
            .map(|(letter, works)| if works { letter } else { '.' })
            .iter()
            .collect();
            assert_eq!(shown, *works, "{root:?}, {above:?}, {htaccess:?}");
        }
    });
}
