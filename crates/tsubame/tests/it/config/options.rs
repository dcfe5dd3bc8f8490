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
    for (root, above, htaccess, works) in ROWS {
        let line = |options: &str| if options.is_empty() { String::new() } else { format!("Options {options}\n") };
        let build = |site: &Site| {
            site.page("d/e/mv.html.en", "english\n");
            site.page("d/e/target.txt", "target\n");
            let script = site.page("d/e/s.cgi", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nran\\n'\n");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(script, mode).expect("mode");
            symlink("target.txt", site.root.join("htdocs/d/e/link.txt")).expect("link");
            if !htaccess.is_empty() {
                site.page("d/e/.htaccess", line(htaccess));
            }
        };
        let configuration = format!(
            "AddHandler cgi-script .cgi\nAddLanguage en .en\n<Directory />\n{}</Directory>\n\
             <Directory ${{DOCS}}/d>\nAllowOverride All\n{}</Directory>",
            line(root),
            line(above)
        );
        oracle::both("options_are_merged_as_in_apache", build, &configuration, |site| {
            let get = |path: &str| {
                let response = Client::connect(site.address()).get(path);
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
            assert_eq!(shown, works, "{root:?}, {above:?}, {htaccess:?}");
        });
    }
}
