//! `tsubame explain` for lines where more than the last one counts; and a question changes nothing.

use serde_json::Value;

use crate::cli::ctl;
use crate::cli::explain::{explain, json};
use crate::harness::mpm::Mpm;
use crate::harness::server::Server;
use crate::harness::site::Site;

/// A question to the running server writes to no log: the messages appear among the steps.
#[test]
fn asking_writes_nothing() {
    let site = Site::with([("a/x.html", "x\n"), ("a/.htaccess", "Bogus on\nOptions +Indexes\n"), ("b/x.html", "x\n")]);
    let text = "ScriptLog logs/scripts\nScriptAlias /cgi-bin/ ${ROOT}/cgi-bin/\n\
                <Directory ${DOCS}/a>\nAllowOverride FileInfo Nonfatal=All\n</Directory>\n\
                <Directory ${DOCS}/b>\nAuthType Basic\nAuthName b\nAuthUserFile ${DOCS}\nRequire valid-user\n</Directory>";
    let server = Server::start(Mpm::Percore, &site, text);
    // The last line of the start.
    server.logged("Command line: ");
    let before = server.log();
    let asked = |arguments: &[&str]| ctl::json(&site, &[&["explain"], arguments].concat())["steps"].to_string();
    let steps = asked(&["/a/x.html"]);
    assert!(steps.contains("AH02296: Unknown directive bogus"), "{steps}");
    assert!(steps.contains("AH02295: Options in .htaccess forbidden by AllowOverride"), "{steps}");
    let steps = asked(&["--header", "Authorization: Basic YTpi", "/b/x.html"]);
    assert!(steps.contains("AH00554: Access to file"), "{steps}");
    let steps = asked(&["/cgi-bin/none"]);
    assert!(steps.contains("script not found or unable to stat"), "{steps}");
    assert_eq!(server.log(), before);
    assert!(!site.root.join("logs/scripts").exists());
    // A client's request does write, in the form of messages that are about no client.
    server.allow("AH0");
    assert_eq!(server.get("/a/x.html").status, 200);
    server.logged("] AH02296: Unknown directive bogus");
    assert!(!server.log().contains("[client "));
}

/// The lines of a directive with the fate of each, last line first.
fn fates(explained: &Value, name: &str) -> Vec<String> {
    let all = explained["paths"][0]["directives"].as_array().expect("directives");
    let said = all.iter().filter(|said| said["name"].as_str().is_some_and(|have| have.eq_ignore_ascii_case(name)));
    let lines = said.flat_map(|said| ["in_effect", "not_in_effect"].map(|key| said[key].as_array().expect("lines")));
    let text = |line: &Value| {
        let within = line["within"].as_str().expect("within");
        let blank = if within.is_empty() { "" } else { " " };
        let (value, fate) = (line["value"].as_str().expect("value"), line["fate"].as_str().expect("fate"));
        format!("{within}{blank}{value}: {fate}")
    };
    lines.flatten().map(text).collect()
}

/// Lines that add up all count, up to one that begins anew.
#[test]
fn lines_that_gather() {
    let site = Site::with([("x.html", "x\n")]);
    site.configure(
        Mpm::Percore,
        "LogLevel error\nLogLevel notice\nLogLevel core:info\nLogLevel dir:info\nLogLevel core:debug\n\
         Protocols h2\nProtocols http/1.1\n\
         <Directory ${DOCS}>\nDirectoryIndex gone.html\nDirectoryIndex disabled\nDirectoryIndex a.html\n\
         DirectoryIndex b.html\nLanguagePriority en\nLanguagePriority de fr\nForceLanguagePriority Prefer\n\
         ForceLanguagePriority Fallback\nFileETag All\nFileETag Size\nFileETag +INode\n</Directory>",
    );
    let explained = json(&site, &["/x.html"]);
    for (name, want) in [
        (
            "DirectoryIndex",
            &["disabled: in effect", "a.html: in effect", "b.html: in effect", "gone.html: replaced"][..],
        ),
        ("LanguagePriority", &["en: in effect", "de fr: in effect"]),
        ("ForceLanguagePriority", &["Prefer: in effect", "Fallback: in effect"]),
        ("FileETag", &["Size: in effect", "+INode: in effect", "All: replaced"]),
        (
            "LogLevel",
            &[
                "notice: in effect",
                "dir:info: in effect",
                "core:debug: in effect",
                "warn: replaced",
                "error: replaced",
                "core:info: replaced",
            ],
        ),
        ("Protocols", &["h2: in effect", "http/1.1: in effect"]),
    ] {
        assert_eq!(fates(&explained, name), want, "{name}");
    }
}

/// Lines without any remaining effect are not in effect, whichever directive has replaced them.
#[test]
fn lines_that_are_lost() {
    let site = Site::with([("a/b/x.html", "x\n")]);
    site.configure(
        Mpm::Percore,
        "IndexIgnore outer\nErrorLogFormat request %a\n\
         <Directory ${DOCS}>\nSetEnv A 1\nUnsetEnv B\nPassEnv PATH\nAddType text/x-a .a\nAddHandler x .a\n\
         Order deny,allow\n</Directory>\n\
         <Directory ${DOCS}/a>\nIndexIgnoreReset On\nIndexIgnore inner\nUnsetEnv A\nSetEnv B 2\nSetEnv PATH x\n\
         RemoveType .a\nRemoveHandler .a\nIndexOptions +IconsAreLinks\nIndexOptions FancyIndexing\n\
         IndexOptions +FoldersFirst\nIndexOptions NameWidth=*\n\
         Satisfy Any\nSatisfy All\nOrder deny,allow\n\
         <Limit GET POST>\nOrder allow,deny\nAllow from all\n</Limit>\n<Limit POST>\nOrder deny,allow\n</Limit>\n\
         <Limit GET>\nOrder mutual-failure\n</Limit>\n<Limit GET>\nOrder allow,deny\n</Limit>\n</Directory>\n\
         <Directory ${DOCS}/a/b>\nIndexIgnore deeper\n</Directory>",
    );
    let explained = json(&site, &["/a/b/x.html"]);
    for (name, want) in [
        ("SetEnv", &["B 2: in effect", "PATH x: in effect", "A 1: replaced"][..]),
        ("UnsetEnv", &["A: in effect", "B: replaced"]),
        ("PassEnv", &["PATH: replaced"]),
        ("AddType", &["text/x-a .a: replaced"]),
        ("AddHandler", &["x .a: replaced"]),
        ("RemoveHandler", &[".a: in effect"]),
        ("IndexIgnoreReset", &["On: in effect"]),
        ("IndexIgnore", &["inner: in effect", "deeper: in effect", "outer: replaced"]),
        (
            "IndexOptions",
            &[
                "FancyIndexing: in effect",
                "NameWidth=*: in effect",
                "+IconsAreLinks: replaced",
                "+FoldersFirst: replaced",
            ],
        ),
        ("Satisfy", &["All: in effect", "Any: replaced"]),
        (
            "Order",
            &[
                "deny,allow: in effect",
                "<Limit GET POST> allow,deny: in effect",
                "<Limit POST> deny,allow: in effect",
                "<Limit GET> allow,deny: in effect",
                "deny,allow: replaced",
                "<Limit GET> mutual-failure: replaced",
            ],
        ),
        ("ErrorLogFormat", &["request %a: no effect here"]),
    ] {
        assert_eq!(fates(&explained, name), want, "{name}");
    }
    let (text, ..) = explain(&site, &["--all", "/a/b/x.html"]);
    assert!(
        text.contains("not as in Apache: Formats for connections and requests are checked, but not used."),
        "{text}"
    );
}

/// A filter that an inner section declares anew has only the types named there.
#[test]
fn filters_by_type_that_are_lost() {
    let site = Site::with([("x.html", "x\n"), ("x.css", "x\n")]);
    let text = "AddOutputFilterByType DEFLATE text/html\nAddOutputFilterByType DEFLATE text/plain\n\
                AddOutputFilterByType INFLATE text/x-a\n\
                <Directory ${DOCS}>\nAddOutputFilterByType DEFLATE text/css\n</Directory>";
    site.configure(Mpm::Percore, text);
    let want = [
        "INFLATE text/x-a: in effect",
        "DEFLATE text/css: in effect",
        "DEFLATE text/html: replaced",
        "DEFLATE text/plain: replaced",
    ];
    assert_eq!(fates(&json(&site, &["/x.html"]), "AddOutputFilterByType"), want);
}

/// The lines of `-C` and of `-c` are numbered from 1 each, and still differ.
#[test]
fn lines_of_the_command_line() {
    let site = Site::with([("x.html", "x\n")]);
    site.configure(Mpm::Percore, "SetEnv A file");
    let explained = json(&site, &["-C", "SetEnv A before", "-c", "SetEnv A after", "/x.html"]);
    assert_eq!(fates(&explained, "SetEnv"), ["A after: in effect", "A before: replaced", "A file: replaced"]);
}

/// The verdict on each line of a directory's access file, and whether the file is used.
fn judged(site: &Site, path: &str) -> (Vec<String>, bool) {
    let explained = json(site, &[path]);
    let steps = explained["steps"].as_array().expect("steps");
    let read = steps.iter().find(|step| step["step"] == "access file").expect("an access file");
    let line = |line: &Value| {
        let objection = line["objection"].as_str().map_or_else(String::new, |why| format!(": {why}"));
        format!("{} {}{objection}", line["line"], line["text"].as_str().expect("text"))
    };
    (read["lines"].as_array().expect("lines").iter().map(line).collect(), read["used"].as_bool().expect("used"))
}

/// Lines inside sections are judged one by one, and an error anywhere is the end of the whole file.
#[test]
fn access_files_are_judged_inside_sections_too() {
    let site = Site::with([("strict/x.html", "x\n"), ("lenient/x.html", "x\n")]);
    let lines = "SetEnv A b\n<Files x.html>\nOptions +Indexes\nSetEnv C d\n</Files>\n<If \"true\">\nSetEnv E f\n</If>\n\
                 <Else>\nBogus on\n</Else>\n<Limit GET>\nRequire all granted\n</Limit>\n";
    for directory in ["strict", "lenient"] {
        site.page(&format!("{directory}/.htaccess"), lines);
    }
    site.configure(
        Mpm::Percore,
        "<Directory ${DOCS}/strict>\nAllowOverride FileInfo\n</Directory>\n\
         <Directory ${DOCS}/lenient>\nAllowOverride FileInfo Nonfatal=All\n</Directory>",
    );
    let expected = |options: &str, bogus: &str, limit: &str| {
        [
            "1 SetEnv A b",
            "2 <Files x.html>",
            &format!("3 Options +Indexes: {options}"),
            "4 SetEnv C d",
            "6 <If \"true\">",
            "7 SetEnv E f",
            "9 <Else>",
            &format!("10 Bogus on: {bogus}"),
            &format!("12 <Limit GET>: {limit}"),
            "13 Require all granted: the section around it is not allowed",
        ]
        .map(String::from)
    };
    let unknown = "perhaps misspelled or defined by a module not included in the server configuration";
    let (lines, used) = judged(&site, "/strict/x.html");
    let strict = expected(
        "Options not allowed in <Files> context",
        &format!("Invalid command 'Bogus', {unknown}"),
        "<Limit not allowed here",
    );
    assert_eq!((lines, used), (strict.to_vec(), false));
    let (lines, used) = judged(&site, "/lenient/x.html");
    let forbidden = |name: &str| format!("AH02295: {name} in .htaccess forbidden by AllowOverride");
    let lenient =
        expected(&forbidden("Options"), &format!("AH02296: Unknown directive bogus {unknown}"), &forbidden("<Limit"));
    assert_eq!((lines, used), (lenient.to_vec(), true));
    let (text, ..) = explain(&site, &["--all", "/strict/x.html"]);
    assert!(text.contains("none of it is used because of an error: Options not allowed in <Files> context"), "{text}");
    assert!(text.contains("           1  SetEnv A b\n"), "{text}");
    let (text, ..) = explain(&site, &["--all", "/lenient/x.html"]);
    assert!(text.contains("           4    SetEnv C d  allowed\n"), "{text}");
}

/// Text from others cannot control the terminal: control characters in paths, fields and files are escaped.
#[test]
fn nothing_from_elsewhere_reaches_the_terminal() {
    let evil = "a\u{1b}[2J\u{7f}\u{9b}b";
    let site = Site::with([("x.html", "x\n")]);
    site.page("a/.htaccess", format!("SetEnv A {evil}\n<Files {evil}>\nSetEnv B {evil}\n</Files>\n"));
    site.script("evil\n\u{1b}[2J", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nok\\n'\n");
    let text = format!(
        "SetEnv OUTER {evil}\nDefine NAME {evil}\nScriptAlias /cgi-bin/ ${{ROOT}}/cgi-bin/\n\
         <Directory ${{DOCS}}/a>\nAllowOverride All\n</Directory>"
    );
    let server = Server::start(Mpm::Percore, &site, &text);
    assert_eq!(server.get("/cgi-bin/evil%0a%1b%5b2J").status, 200);
    let path = "/a/x%1b%5b2J%0a%c2%9b%ff?y";
    let mut outputs = vec![
        explain(&site, &["--all", path]).0,
        explain(&site, &["--config"]).0,
        ctl::ctl(&site, &["scripts"]).0,
        ctl::ctl(&site, &["explain", "--all", path]).0,
    ];
    site.configure(Mpm::Percore, &text.replace("OUTER", "OTHER"));
    outputs.push(ctl::ctl(&site, &["diff"]).0);
    for (output, shown) in
        outputs.iter().zip([r"x\x1b[2J\x0a\x9b\xff", r"a\x1b[2J\x7f\x9bb", "evil??[2J", r"\x1b[2J", r"OTHER a\x1b[2J"])
    {
        assert!(output.contains(shown), "{shown} is not in\n{output}");
        let bad = output.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
        assert_eq!(bad, None, "{output:?}");
    }
}

/// The steps in which a module says something, each as `text (line)`.
fn notes(explained: &Value, module: &str) -> Vec<String> {
    fn gather(steps: &Value, module: &str, notes: &mut Vec<String>) {
        for step in steps.as_array().into_iter().flatten() {
            gather(&step["steps"], module, notes);
            if step["step"] == "note" && step["module"] == module {
                notes.push(format!("{} ({})", step["text"].as_str().expect("text"), step["origin"]["line"]));
            }
        }
    }
    let mut notes = Vec::new();
    gather(&explained["steps"], module, &mut notes);
    notes
}

/// Conditional sections that are passed over are shown where they would have counted, with their lines.
#[test]
fn sections_that_are_passed_over() {
    let site = Site::with([("x.html", "x\n"), (".htaccess", "<If \"false\">\nSetEnv A inner\n</If>\n")]);
    let text = "<Directory ${DOCS}>\nAllowOverride All\n</Directory>\n<If \"%{HTTP_HOST} == 'a'\">\nSetEnv A 1\n</If>\n\
                <ElseIf \"%{HTTP_HOST} == 'b'\">\nSetEnv A 2\n</ElseIf>\n<Else>\nSetEnv B 3\n</Else>";
    site.configure(Mpm::Percore, text);
    let over = "in a section that was skipped";
    for (host, passed, fates_of_a) in [
        (
            "a",
            vec![
                "<ElseIf an earlier condition is true",
                "<Else> an earlier condition is true",
                "<If its condition is false",
            ],
            vec![
                "A 1: in effect".to_string(),
                format!("A 2: {over}"),
                format!("B 3: {over}"),
                format!("A inner: {over}"),
            ],
        ),
        (
            "b",
            vec!["<If its condition is false", "<Else> an earlier condition is true", "<If its condition is false"],
            vec![
                "A 2: in effect".to_string(),
                format!("A 1: {over}"),
                format!("B 3: {over}"),
                format!("A inner: {over}"),
            ],
        ),
    ] {
        let explained = json(&site, &["--host", host, "/x.html"]);
        let layers = explained["paths"][0]["layers"].as_array().expect("layers");
        let told = |layer: &Value| {
            let name = layer["title"].as_str()?.split(' ').next()?;
            Some(format!("{name} {}", layer["passed_over"].as_str()?))
        };
        assert_eq!(layers.iter().filter_map(told).collect::<Vec<_>>(), passed, "{host}");
        assert_eq!(fates(&explained, "SetEnv"), fates_of_a, "{host}");
    }
    let (text, ..) = explain(&site, &["--all", "--host", "b", "/x.html"]);
    assert!(text.contains("   -  <If \"%{HTTP_HOST} == 'a'\">") && text.contains("SetEnv A 1"), "{text}");
}

/// Files that could not be the index, and the reasons; the messages for the error log are among the steps.
#[test]
fn an_index_that_is_not_taken() {
    let site = Site::with([("no.php", "x\n"), ("ok.html", "x\n")]);
    let text = "DirectoryIndex none.html no.php ok.html\n<Files no.php>\nRequire all denied\n</Files>";
    site.configure(Mpm::Percore, text);
    let explained = json(&site, &["/"]);
    let want = [
        "DirectoryIndex: /none.html does not exist (2)",
        "DirectoryIndex: /no.php would be answered with 403 (2)",
        "DirectoryIndex: /ok.html (2)",
    ];
    assert_eq!(notes(&explained, "dir"), want);
    assert!(explained["steps"].to_string().contains("AH01630: client denied by server configuration"));
}

/// The line that gave a file its type.
#[test]
fn where_types_come_from() {
    let site = Site::with([("a.html", "x\n"), ("b.foo", "x\n"), ("c.foo.html", "x\n"), ("d", "x\n"), ("e.txt", "x\n")]);
    site.configure(Mpm::Percore, "AddType text/x-foo .foo\nRemoveType .txt");
    let at = |path: &str| notes(&json(&site, &[path]), "mime");
    let types = std::fs::read_to_string(site.root.join("conf/base.conf")).expect("base.conf");
    let line = 1 + types.lines().position(|line| line.starts_with("TypesConfig")).expect("TypesConfig");
    let by_file = vec![format!("TypesConfig: text/html ({line})")];
    assert_eq!((at("/a.html"), at("/c.foo.html")), (by_file.clone(), by_file));
    assert_eq!(at("/b.foo"), ["AddType: text/x-foo (2)"]);
    assert_eq!((at("/d"), at("/e.txt")), (vec![], vec![]));
}

/// The properties that made the other variants lose.
#[test]
fn why_a_variant_was_chosen() {
    let files = ["p.html.en", "p.html.de", "p.html.fr", "p.txt.en", "q.html", "p.html.en.z"];
    let site = Site::with(files.map(|name| (name, if name == "p.html.fr" { "longer\n" } else { "x\n" })));
    let text = "Options +MultiViews\nAddLanguage en .en\nAddLanguage de .de\nAddLanguage fr .fr\n\
                AddEncoding x-gzip .z\nLanguagePriority de en";
    site.configure(Mpm::Percore, &format!("<Directory ${{DOCS}}>\n{text}\n</Directory>"));
    let wishes = ["--header", "Accept: text/html, text/plain;q=0.5", "--header"];
    for (languages, path, want) in [
        (
            "Accept-Language: en, de;q=0.5",
            "/p",
            "p.html.en: before p.html.de (language), p.html.en.z (encoding), p.html.fr (not acceptable), p.txt.en (type)",
        ),
        (
            "Accept-Language: en, de, fr",
            "/p",
            "p.html.de: before p.html.en (LanguagePriority), p.html.en.z (LanguagePriority), \
             p.html.fr (LanguagePriority), p.txt.en (type)",
        ),
        ("Accept-Language: en", "/q", "q.html: the only variant"),
    ] {
        let explained = json(&site, &[&wishes[..], &[languages, path]].concat());
        assert_eq!(notes(&explained, "negotiation"), [format!("{want} (null)")], "{languages}");
    }
}
