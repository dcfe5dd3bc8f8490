//! The info page, compared with Apache's.

use std::cell::RefCell;
use std::process::Command;

use crate::harness::mpm::Mpm;
use crate::harness::oracle::{self, Case, both, compare};
use crate::harness::server::{Server, Start};
use crate::harness::site::Site;
use crate::harness::wire::{Client, get};

const LOCATION: &str = "<Location /info>\nSetHandler server-info\n</Location>\n";

/// Everything that must be escaped, sections in sections, files in files.
const CONFIGURATION: &str = r#"
DirectoryIndex index.html "a <b> & \"c\"" é
alias "/x&y<z>" "/tmp/<z>"
AddModuleInfo mod_dir.c "more <b>about</b> it & all"
AddModuleInfo mod_dir.c second
AddModuleInfo mod_none.c third
addmoduleinfo MOD_ENV.C "the case of letters counts"
AddModuleInfo mod_alias.c "<i>"
<Directory "${DOCS}">
  Require all granted
  directoryindex foo.html
  <Files x>
    DirectoryIndex bar.html
  </Files>
</Directory>
Include conf/one.conf
<virtualhost *:8081>
  ServerName other
  Include conf/one.conf
  <Location "/a <b>">
    <IfModule mod_dir.c>
      directoryslash on
    </IfModule>
  </Location>
  <Location /nothing>
  </Location>
</VirtualHost>
SetEnv LAST last
"#;

fn build(site: &Site) {
    site.page("index.html", "hello\n");
    site.page("info", "a file\n");
    let one = "DirectoryIndex one.html\n<Directory /one>\nDirectorySlash Off\nInclude conf/two.conf\n</Directory>\n";
    site.file("conf/one.conf", one);
    site.file("conf/two.conf", "DirectoryIndex \\\n two.html\nSetEnv TWO \"<2>\"\n");
}

/// The page of a query.
fn page(site: &Site, query: &str) -> String {
    let response = Client::connect(site.address()).get(&format!("/info{query}"));
    assert_eq!(response.status, 200, "{query}");
    assert_eq!(response.field("Content-Type"), Some("text/html; charset=ISO-8859-1"));
    response.text().replace(site.path(), "ROOT").replace(&site.ip.to_string(), "ADDR")
}

/// The pages of a query, ours and Apache's, if there is an Apache.
fn pages(test: &str, configuration: &str, query: &str) -> Option<(String, String)> {
    let found = RefCell::new(Vec::new());
    let ours =
        both(test, build, &format!("{LOCATION}{configuration}"), |site| found.borrow_mut().push(page(site, query)));
    let mut found = found.into_inner();
    let theirs = (found.len() > ours).then(|| found.pop())??;
    Some((found.swap_remove(0), theirs))
}

#[test]
fn modules_and_methods() {
    let request = |method: &str, query: &str| Case {
        name: format!("{method} {query}"),
        bytes: format!("{method} /info{query} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes(),
    };
    let mut cases: Vec<Case> = ["mod_dir.c", "mod_alias.c", "mod_env.c", "mod_info.c", "MOD_DIR.C", "mod_unique_id.c"]
        .iter()
        .map(|module| Case { name: module.to_string(), bytes: get(&format!("/info?{module}")).into_bytes() })
        .collect();
    // Queries that name no module.
    cases.extend(["?", "?mod_dir", "?dir_module", "?list&x", "?<b>", "?mod_none.c"].map(|query| request("GET", query)));
    cases.extend(["POST", "DELETE", "OPTIONS", "PROPFIND"].map(|method| request(method, "?mod_dir.c")));
    for more in ["ServerSignature On\n", "ServerSignature EMail\n", ""] {
        if more.is_empty() {
            // A signature makes the page as long as the name of the server.
            cases.push(request("HEAD", "?mod_dir.c"));
        }
        compare("modules_and_methods", build, &format!("{LOCATION}{CONFIGURATION}{more}"), &cases, &[]);
    }
}

/// A virtual host's `AddModuleInfo` takes precedence over the main server's.
#[test]
fn words_of_virtual_hosts() {
    let configuration = "AddModuleInfo mod_dir.c main\n<VirtualHost *:8080>\nServerName localhost\n\
        AddModuleInfo mod_dir.c own\nAddModuleInfo mod_env.c \"<em>own</em>\"\n</VirtualHost>\n";
    let cases = ["mod_dir.c", "mod_env.c"]
        .map(|module| Case { name: module.into(), bytes: get(&format!("/info?{module}")).into_bytes() });
    compare("words_of_virtual_hosts", build, &format!("{LOCATION}{configuration}"), &cases, &[]);
}

/// Without what the tests put in front, which has a line for each module.
fn without_base(page: &str) -> String {
    let mut is_base = false;
    let lines = page.lines().filter(|line| {
        if line.contains("In file: ") {
            is_base = line.contains("/base.conf");
        }
        !is_base
    });
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_configuration_as_it_was_read() {
    let Some((ours, theirs)) = pages("the_configuration_as_it_was_read", CONFIGURATION, "?config") else { return };
    assert_eq!(without_base(&ours), without_base(&theirs));
    for part in
        ["&lt;b&gt; &amp; \\&quot;c\\&quot;", "two.conf", "&lt;/VirtualHost&gt;", "&lt;Location <i>/nothing&gt;</i>"]
    {
        assert!(ours.contains(part), "no {part} in {ours}");
    }
}

/// The same as text, without a server: headings of files stand at the margin, also before the end of a section.
#[test]
fn the_dump_of_the_configuration() {
    if !oracle::is_there("the_dump_of_the_configuration") {
        return;
    }
    let site = Site::new();
    build(&site);
    let text = |command: &mut Command| {
        let output = command.output().expect("run");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        without_base(&String::from_utf8_lossy(&output.stdout))
    };
    site.configure(Mpm::Percore, CONFIGURATION);
    let ours = text(&mut Start::new(&site, Mpm::Percore).arguments(&["-t", "-DDUMP_CONFIG"]).command());
    site.configure_with(&oracle::load_lines(), CONFIGURATION);
    let arguments = ["-d", site.path(), "-f", "conf/httpd.conf", "-t", "-DDUMP_CONFIG"];
    let theirs = text(Command::new(oracle::APACHE).args(arguments));
    assert_eq!(ours, theirs);
    assert!(ours.contains("\n# In file: ") && ours.contains("one.conf\n</Directory>\n"), "{ours}");
}

#[test]
fn the_list_of_modules() {
    let Some((ours, theirs)) = pages("the_list_of_modules", "", "?list") else { return };
    // Modules that only one of them has.
    let own = [
        "percore.c",
        "mod_admission.c",
        "mod_agent.c",
        "mod_bumpy_life.c",
        "mod_client_limit.c",
        "mod_metrics.c",
        "mod_session_socache.c",
        "mod_ssl.c",
        "mod_trace_context.c",
        "mod_zstd.c",
    ];
    let its = ["event.c"];
    let without = |page: &str, names: &[&str]| {
        names.iter().fold(page.to_string(), |page, name| {
            let item = format!("<dd>{name}</dd>");
            assert!(page.contains(&item), "no {item} in {page}");
            page.replace(&item, "")
        })
    };
    assert_eq!(without(&ours, &own), without(&theirs, &its));
}

/// The values of lines `<dt><strong>TITLE:</strong> VALUE</dt>`.
fn facts(page: &str) -> Vec<(&str, &str)> {
    let parts = page.split("<dt><strong>").skip(1);
    parts.filter_map(|part| part.split_once(":</strong>")).collect()
}

#[test]
fn the_settings_of_the_server() {
    let configuration = "Timeout 17\nKeepAliveTimeout 3";
    let Some((ours, theirs)) = pages("the_settings_of_the_server", configuration, "?server") else { return };
    // Lines about Apache's libraries.
    let is_ours = |title: &str| !["APR", "APU", "PCRE"].iter().any(|library| title.contains(library));
    let titles = |page: &str| facts(page).iter().map(|(title, _)| title.to_string()).collect::<Vec<_>>();
    let wanted: Vec<String> = titles(&theirs).into_iter().filter(|title| is_ours(title)).collect();
    assert_eq!(titles(&ours), wanted);
    for title in ["Module Magic Number", "Hostname/port", "Timeouts", "Server Architecture", "Server Root"] {
        let value = |page| facts(page).into_iter().find(|(have, _)| *have == title).map(|(_, value)| value.to_string());
        assert_eq!(value(&ours), value(&theirs), "{title}");
    }
    // Apache shows the file of the first directive.
    assert!(ours.contains("<dt><strong>Config File:</strong> <tt>ROOT/conf/httpd.conf</tt></dt>\n"), "{ours}");
    let (head, end) =
        ("<h2><a name=\"server\">Server Settings</a></h2><dl><dt>", "</tt></dt>\n</dl><hr /></body></html>\n");
    for page in [&ours, &theirs] {
        assert!(page.contains(head) && page.ends_with(end), "{page}");
    }
}

/// The hooks of each module, by phase.
#[test]
fn providers_and_phases() {
    let Some((ours, theirs)) = pages("providers_and_phases", "", "?providers") else { return };
    // mod_ssl is there only once.
    let of_ssl = ["ssl", "ssl-verify-client"].map(|name| format!("<tt>&nbsp;&nbsp;{name}</tt><br/>"));
    let ours = of_ssl.iter().fold(ours, |page, line| page.replace(line.as_str(), ""));
    let watchdog = theirs.find("<dt><strong>watchdog").expect("watchdog");
    let end = watchdog + theirs[watchdog..].find("</dl>").expect("end");
    assert_eq!(ours, format!("{}{}", &theirs[..watchdog], &theirs[end..]));

    let Some((ours, theirs)) = pages("providers_and_phases", "", "?hooks") else { return };
    let theirs = facts(&theirs);
    let start = ours.find("<a name=\"request_hooks\">").expect("request hooks");
    let mut seen = Vec::new();
    for (phase, takers) in facts(&ours[start..]) {
        let theirs = theirs.iter().find(|(title, _)| *title == phase);
        let theirs = takers_of(theirs.unwrap_or_else(|| panic!("Apache has no phase {phase}")).1);
        for taker in takers_of(takers) {
            // Requests of authorities come before everything else here. mod_dialup paces bodies; Apache's takes the place of the handler of files. Some modules Apache has not. Which of mod_rewrite and
            // mod_proxy comes first is said by their numbers here, and by their names in Apache.
            let ours = ["10 mod_dialup.c", "-10 mod_rewrite.c", "-10 mod_proxy.c"];
            let of_ours = ["ssl", "md", "metrics", "agent", "client_limit", "trace_context"];
            let is_ours =
                ours.contains(&&*taker) || of_ours.iter().any(|name| taker.ends_with(&format!(" mod_{name}.c")));
            assert!(is_ours || theirs.contains(&taker), "{phase}: {taker} is not in {theirs:?}");
            seen.push(format!("{phase}: {taker}"));
        }
    }
    for part in ["Translate Name: 30 core.c", "Check Access: 20 mod_authz_core.c", "Fixups: 20 mod_dir.c"] {
        assert_eq!(seen.iter().filter(|one| *one == part).count(), 1, "{part:?} in {seen:?}");
    }
}

/// The modules of a phase, each with its order before it.
fn takers_of(text: &str) -> Vec<String> {
    let entries = text.split("&nbsp;&nbsp; ").skip(1);
    let taker = |entry: &str| {
        let (order, rest) = entry.split_once(" <a href=\"?")?;
        Some(format!("{order} {}", rest.split('"').next()?))
    };
    entries.filter_map(taker).collect()
}

/// The whole page is its parts one after the other.
#[test]
fn everything() {
    let site = Site::new();
    build(&site);
    let server = Server::start(Mpm::Percore, &site, &format!("{LOCATION}{CONFIGURATION}"));
    let whole = page(server.site, "");
    let body = |page: &str| {
        let start = page.find("</h1>\n").expect("title") + "</h1>\n".len();
        page[start..].trim_end_matches("</body></html>\n").to_string()
    };
    for query in ["?server", "?hooks", "?providers", "?mod_dir.c", "?core.c", "?percore.c"] {
        let part = body(&page(server.site, query));
        assert!(whole.contains(&part), "{query} is no part:\n{part}\n----\n{whole}");
    }
    for link in [
        "<a href=\"?config\">Configuration Files</a>",
        "<a href=\"#modules\">",
        "<a href=\"#mod_dir.c\">mod_dir.c</a>, ",
    ] {
        assert!(whole.contains(link), "no {link}");
    }
    // The core has two tables and is one module.
    assert_eq!(whole.matches("<a name=\"core.c\">").count(), 1);
    let handlers = page(server.site, "?hooks");
    let handlers =
        facts(&handlers).into_iter().find(|(title, _)| *title == "Content Handlers").expect("handlers").1.to_string();
    assert_eq!(handlers.matches("<a href=\"?core.c\">").count(), 1, "{handlers}");
}
