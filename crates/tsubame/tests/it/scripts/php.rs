//! PHP scripts, with the directives of mod_php. Debian's mod_php gives the expected answers to the same configuration,
//! unless docs/php.md says otherwise.

use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::needs;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire::Response;

const LOAD: &str = "LoadModule php_module modules/libphp8.2.so\n\
    <FilesMatch \".+\\.ph(?:ar|p|tml)$\">\nSetHandler application/x-httpd-php\n</FilesMatch>\n";

/// Says the values of the settings that the query names, one a line, and which process says so.
const INI: &str = "<?php foreach (explode(',', $_SERVER['QUERY_STRING']) as $name) \
    { echo var_export(ini_get($name), true), \"\\n\"; }\nheader('X-Pid: ' . getmypid());\n";

const SECRET: &str = "<?php $password = 'secret'; echo 'ran';\n";

fn is_there(test: &str) -> bool {
    needs::PHP.is_there(test)
}

fn ask(server: &Server<'_>, request: &str) -> Response {
    server.client().request(request)
}

fn values(server: &Server<'_>, path: &str) -> Vec<String> {
    let response = server.get(path);
    assert_eq!(response.status, 200, "{path} {}", response.text());
    response.text().lines().map(str::to_string).collect()
}

under_percore_and! { worker:
    /// Settings of sections and `.htaccess` reach PHP, what an administrator has set stays, and nothing of it is left for the
    /// next request, neither of another directory nor of another virtual host.
    fn settings_are_those_of_the_directory(mpm: Mpm) {
        if !is_there("settings_are_those_of_the_directory") {
            return;
        }
        let site = Site::new();
        for directory in ["plain", "set", "set/inner", "other"] {
            site.page(&format!("{directory}/ini.php"), INI);
        }
        site.page("set/tries.php", "<?php var_dump(ini_set('memory_limit', '99M'), ini_set('error_append_string', 'x'));\n");
        site.page("set/inner/.htaccess", "php_value memory_limit 77M\nphp_value upload_max_filesize 44M\nphp_flag html_errors off\n");
        let server = Server::start(mpm, &site, &format!(
            "{LOAD}PhpProcesses 1\nphp_value upload_max_filesize 22M\n\
             <Directory ${{DOCS}}/set>\nAllowOverride Options\nphp_admin_value memory_limit 55M\nphp_value upload_max_filesize 33M\n\
             php_admin_flag display_errors on\n</Directory>\n\
             <VirtualHost *>\nServerName one\n</VirtualHost>\n\
             <VirtualHost *>\nServerName two\nphp_admin_value open_basedir ${{DOCS}}:/tmp\n</VirtualHost>\n"
        ));
        let query = "ini.php?memory_limit,upload_max_filesize,display_errors,html_errors";
        // More than once, since a process that has served one is to serve the other afterwards.
        for _ in 0..3 {
            assert_eq!(values(&server, &format!("/plain/{query}"))[..2], ["'128M'", "'22M'"]);
            assert_eq!(values(&server, &format!("/set/{query}")), ["'55M'", "'33M'", "'1'", "'1'"]);
            assert_eq!(values(&server, &format!("/set/inner/{query}")), ["'55M'", "'44M'", "'1'", "'0'"]);
            let tries = server.get("/set/tries.php").text();
            assert_eq!(tries, "bool(false)\nstring(0) \"\"\n");
            let two = ask(&server, "GET /plain/ini.php?open_basedir HTTP/1.1\r\nHost: two\r\nConnection: close\r\n\r\n").text();
            assert_eq!(two, format!("'{}/htdocs:/tmp'\n", site.path()));
            assert_eq!(values(&server, "/plain/ini.php?open_basedir"), ["''"]);
        }
        // A process goes on from one request to the next.
        let pid = || server.get("/plain/ini.php").field("X-Pid").map(str::to_string);
        assert_eq!(pid(), pid());
    }
}

/// The directives that a `.htaccess` may contain, and the limits of their effect.
#[test]
fn htaccess_has_the_rules_of_mod_php() {
    if !is_there("htaccess_has_the_rules_of_mod_php") {
        return;
    }
    let site = Site::new();
    site.page("d/a.php", INI);
    site.page("d/prepended.php", "<?php echo \"before\\n\";\n");
    let server = Server::start(
        Mpm::Event,
        &site,
        &format!(
            "{LOAD}<Directory ${{DOCS}}/d>\nAllowOverride Options\nphp_admin_value open_basedir ${{DOCS}}\n</Directory>\n\
             <Location /d>\nphp_value upload_max_filesize 3M\n</Location>\n\
             Alias /e/ ${{DOCS}}/d/\n<Directory ${{DOCS}}/d/e>\nAllowOverride FileInfo\n</Directory>\n"
        ),
    );
    for (line, message) in [
        ("php_admin_value memory_limit 1G", "php_admin_value not allowed here"),
        ("php_admin_flag engine on", "php_admin_flag not allowed here"),
        ("php_value memory_limit", "php_value takes two arguments, PHP Value Modifier"),
    ] {
        site.page("d/.htaccess", format!("{line}\n"));
        server.announce(message);
        assert_eq!(server.get("/d/a.php").status, 500, "{line}");
    }
    let base = format!("'{}/htdocs'", site.path());
    for (line, setting, value) in [
        ("php_value memory_limit 64M", "memory_limit", "'64M'"),
        ("php_value error_append_string none", "error_append_string", "''"),
        ("php_flag html_errors maybe", "html_errors", "'0'"),
        // Each byte is what it is.
        ("php_value error_append_string \"a'b $HOME c\\\\d;e\"", "error_append_string", "'a\\'b $HOME c\\\\d;e'"),
        // PHP does not allow these for a directory at all.
        ("php_value file_uploads 0", "file_uploads", "'1'"),
        ("php_value disable_functions strlen", "disable_functions", "''"),
        ("php_value open_basedir /", "open_basedir", base.as_str()),
        // A section outweighs it.
        ("php_value upload_max_filesize 9M", "upload_max_filesize", "'3M'"),
        // No names of settings, which do no harm to others.
        ("php_value none x\nphp_value \"a]b\" x\nphp_value memory_limit 64M", "memory_limit", "'64M'"),
        ("php_value user_ini.filename x\nphp_value memory_limit 65M", "memory_limit", "'65M'"),
    ] {
        site.page("d/.htaccess", format!("{line}\n"));
        let seen = values(&server, &format!("/d/a.php?{setting}"));
        assert_eq!(seen, [value], "{line}");
    }
    site.page("d/.htaccess", format!("php_value auto_prepend_file {}/htdocs/d/prepended.php\n", site.path()));
    assert_eq!(server.get("/d/a.php?precision").text(), "before\n'14'\n");
}

/// Without `Options` among the allowed overrides, it sets nothing.
#[test]
fn settings_need_leave() {
    if !is_there("settings_need_leave") {
        return;
    }
    let site = Site::with([("d/a.php", INI), ("d/.htaccess", "php_flag html_errors off\n")]);
    let text = format!("{LOAD}<Directory ${{DOCS}}/d>\nAllowOverride FileInfo AuthConfig Limit Indexes\n</Directory>");
    let server = Server::start(Mpm::Event, &site, &text);
    server.announce("php_flag not allowed here");
    assert_eq!(server.get("/d/a.php").status, 500);
}

/// Settings come from the `php.ini` of a directory that the configuration names, once.
#[test]
fn the_configuration_names_the_ini_file() {
    if !is_there("the_configuration_names_the_ini_file") {
        return;
    }
    let site = Site::with([("a.php", INI)]);
    site.file("php/php.ini", "memory_limit = 12M\noutput_buffering = 4096\n");
    let text = format!("{LOAD}PHPINIDir php\nphp_value upload_max_filesize 3M");
    let server = Server::start(Mpm::Event, &site, &text);
    assert_eq!(values(&server, "/a.php?memory_limit,upload_max_filesize"), ["'12M'", "'3M'"]);
}

/// Which pool a request would be served by: requests with the same settings share one.
#[test]
fn pools_are_explained() {
    if !is_there("pools_are_explained") {
        return;
    }
    let site = Site::with([("a.php", INI), ("b.php", INI), ("d/a.php", INI)]);
    let text = format!("{LOAD}PhpProcesses 3\n<Directory ${{DOCS}}/d>\nphp_value precision 9\n</Directory>");
    site.configure(Mpm::Event, &text);
    let pool = |path: &str| {
        let (output, errors, _) = crate::cli::explain::explain(&site, &[path]);
        let line = output.lines().find(|line| line.contains("PHP, in the pool 'php ") && line.contains("of at most 3"));
        line.unwrap_or_else(|| panic!("{path}: {output}{errors}")).to_string()
    };
    assert_eq!(pool("/a.php"), pool("/b.php"));
    assert_ne!(pool("/a.php"), pool("/d/a.php"));
}

/// Features that the administrator disables are absent.
#[test]
fn functions_can_be_disabled() {
    if !is_there("functions_can_be_disabled") {
        return;
    }
    let text = "<?php echo function_exists('exec') ? 'yes' : 'no', function_exists('strlen') ? 'yes' : 'no';\n";
    let site = Site::with([("d/a.php", text), ("b.php", text), ("d/.htaccess", "php_value disable_functions none\n")]);
    let text =
        "<Directory ${DOCS}/d>\nAllowOverride All\nphp_admin_value disable_functions exec,passthru\n</Directory>";
    let server = Server::start(Mpm::Event, &site, &format!("{LOAD}{text}"));
    assert_eq!(server.get("/d/a.php").text(), "noyes");
    assert_eq!(server.get("/b.php").text(), "yesyes");
}

/// Each way to choose the handler, and each name that it has had.
#[test]
fn handlers_have_many_names() {
    if !is_there("handlers_have_many_names") {
        return;
    }
    for line in [
        "AddType application/x-httpd-php .x",
        "AddHandler application/x-httpd-php .x",
        "SetHandler application/x-httpd-php",
        "AddHandler php-script .x",
        "AddHandler php7-script .x",
        "AddType application/x-httpd-php5 .x",
        "AddHandler application/x-httpd-php8.2 .x",
    ] {
        let site = Site::with([("a.x", SECRET)]);
        let server =
            Server::start(Mpm::Event, &site, &format!("LoadModule php_module x.so\n<Location />\n{line}\n</Location>"));
        assert_eq!(server.get("/a.x").text(), "ran", "{line}");
    }
}

/// A module is there under the names that it was loaded by, as in Apache.
#[test]
fn names_of_the_module_are_those_it_was_loaded_by() {
    let all = ["mod_php5.c", "php5_module", "mod_php7.c", "php7_module", "mod_php.c", "php_module"];
    for (module, there) in [("php5_module", &all[..2]), ("php7_module", &all[2..4]), ("php_module", &all[4..])] {
        let site = Site::with([("a.txt", "x\n")]);
        let asks = all.map(|name| {
            format!("<IfModule {name}>\nHeader{name}\n</IfModule>\n").replace("Header", "SetEnvIf Request_URI . x-")
        });
        let text = format!(
            "LoadModule {module} modules/libphp.so\n{}CustomLog logs/seen \"{}\"",
            asks.concat(),
            all.map(|name| format!("%{{x-{name}}}e")).join(" ")
        );
        let server = Server::start(Mpm::Event, &site, &text);
        server.allow("PHP is not installed");
        assert_eq!(server.get("/a.txt").status, 200);
        let seen =
            crate::harness::wait::until("a line", || Some(site.read("logs/seen")).filter(|text| text.ends_with('\n')));
        let want = all.map(|name| if there.contains(&name) { "1" } else { "-" }).join(" ");
        assert_eq!(seen.trim_end(), want, "{module}");
    }
}

/// Nothing sends the source of a script.
#[test]
fn no_source_is_sent() {
    let site = Site::with([("a.php", SECRET), ("off/a.php", SECRET), ("off2/a.php", SECRET), ("a.phps", SECRET)]);
    let server = Server::start(
        Mpm::Event,
        &site,
        &format!(
            "{LOAD}PhpProgram /nonexistent/php-cgi\n<Directory ${{DOCS}}/off>\nphp_admin_flag engine Off\n</Directory>\n\
             <Directory ${{DOCS}}/off2>\nphp_value engine no\n</Directory>\n\
             <FilesMatch \"\\.phps$\">\nSetHandler application/x-httpd-php-source\n</FilesMatch>\n"
        ),
    );
    // It is said when the server starts, too.
    assert!(site.read("logs/stderr").contains("[php:warn] [pid "), "{}", site.read("logs/stderr"));
    server.allow("PHP is not installed");
    for (path, status, message) in [
        ("/a.php", 500, "a.php: PHP is not installed: there is no /nonexistent/php-cgi. Install php-cgi"),
        ("/off/a.php", 403, "the PHP engine is off"),
        ("/off2/a.php", 403, "the PHP engine is off"),
        ("/a.phps", 403, "application/x-httpd-php-source is not supported"),
        ("/none.php", 404, "none.php' not found or unable to stat"),
        ("/off", 301, ""),
    ] {
        if !message.is_empty() {
            server.announce(message);
        }
        let response = server.get(path);
        assert_eq!(response.status, status, "{path}");
        assert!(!response.text().contains("secret"), "{path}");
    }
}

/// The variables that describe a request to a script.
#[test]
fn variables_are_those_of_mod_php() {
    if !is_there("variables_are_those_of_mod_php") {
        return;
    }
    let site = Site::with([(
        "s.php",
        "<?php foreach ($_SERVER as $k => $v) if (is_string($v)) echo \"$k=$v\\n\"; echo getcwd(), \"\\n\";\n",
    )]);
    let log = "CustomLog logs/seen \"%{SCRIPT_NAME}e %{HTTP_AUTHORIZATION}e %u\"";
    let server = Server::start(Mpm::Event, &site, &format!("{LOAD}SetEnv APP_MODE test\n{log}"));
    let head = "Host: localhost\r\nAuthorization: Basic dTpw\r\nX-Foo: bar\r\nProxy: evil\r\nConnection: close\r\n\r\n";
    let text = ask(&server, &format!("GET /s.php/pi/x?q=1 HTTP/1.1\r\n{head}")).text();
    let root = format!("{}/htdocs", site.path());
    for line in [
        "REQUEST_URI=/s.php/pi/x?q=1",
        "SCRIPT_NAME=/s.php",
        "PHP_SELF=/s.php/pi/x",
        "PATH_INFO=/pi/x",
        &format!("PATH_TRANSLATED={root}/pi/x"),
        &format!("SCRIPT_FILENAME={root}/s.php"),
        &format!("DOCUMENT_ROOT={root}"),
        "PHP_AUTH_USER=u",
        "PHP_AUTH_PW=p",
        "HTTP_X_FOO=bar",
        "REQUEST_METHOD=GET",
        "REQUEST_SCHEME=http",
        "APP_MODE=test",
        &root,
    ] {
        assert!(text.lines().any(|have| have == line), "{line}: {text}");
    }
    assert!(!text.contains("evil") && !text.contains("HTTPS=") && !text.contains("ap_trust"), "{text}");
    // Passwords are PHP's alone. It decides about users, too, and the log believes that.
    let seen =
        crate::harness::wait::until("a line", || Some(site.read("logs/seen")).filter(|text| text.ends_with('\n')));
    assert_eq!(seen, "/s.php - u\n");
}

/// The log names the user that a client claims to be; nothing else believes that, not even what a page includes.
#[test]
fn nobody_believes_a_name_that_was_not_checked() {
    if !is_there("nobody_believes_a_name_that_was_not_checked") {
        return;
    }
    let site = Site::with([
        ("page.php", "<?php echo '<!--#echo var=\"REMOTE_USER\" --><!--#include virtual=\"/private/x.txt\" -->';\n"),
        ("private/x.txt", "secret\n"),
    ]);
    site.file("users", "");
    let private =
        "<Location /private>\nAuthType Basic\nAuthName x\nAuthUserFile ${ROOT}/users\nRequire valid-user\n</Location>";
    let page = "<Location /page.php>\nSetOutputFilter INCLUDES\nOptions +Includes\n</Location>";
    let log = "CustomLog logs/seen %u";
    let server = Server::start(Mpm::Event, &site, &format!("{LOAD}{private}\n{page}\n{log}"));
    server.allow("unable to include");
    server.allow("user u not found");
    let answer = ask(&server, "GET /page.php HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic dTpw\r\n\r\n");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.text(), "(none)[an error occurred while processing this directive]");
    crate::harness::wait::until("the user in the log", || (site.read("logs/seen") == "u\n").then_some(()));
}

/// The status, the fields and the length are what the script says.
#[test]
fn answers_are_what_the_script_says() {
    if !is_there("answers_are_what_the_script_says") {
        return;
    }
    let site = Site::with([
        ("gone.php", "<?php header('HTTP/1.1 410 Gone Fishing'); header('X-A: b'); echo 'hi';\n"),
        ("two.php", "<?php header('X-A: b'); header('X-A: c', false);\n"),
        ("to.php", "<?php header('Location: /there'); echo 'gone';\n"),
        ("long.php", "<?php header('Content-Length: 300000'); echo str_repeat('x', 300000);\n"),
    ]);
    let server = Server::start(Mpm::Event, &site, LOAD);
    let response = server.get("/gone.php");
    assert_eq!((response.status, response.field("X-A"), response.text().as_str()), (410, Some("b"), "hi"));
    assert_eq!(response.field("Content-Type"), Some("text/html; charset=UTF-8"));
    assert_eq!(server.get("/two.php").all("X-A"), ["b", "c"]);
    let response = server.get("/to.php");
    assert_eq!((response.status, response.field("Location"), response.text().as_str()), (302, Some("/there"), "gone"));
    let response = server.get("/long.php");
    assert_eq!((response.field("Content-Length"), response.body.len()), (Some("300000"), 300_000));
}

/// A body of 10 MB arrives, with its length and without, and files are uploaded up to the size that a `.htaccess` says.
#[test]
fn bodies_arrive() {
    if !is_there("bodies_arrive") {
        return;
    }
    const LENGTH: usize = 10 << 20;
    let site = Site::with([
        ("d/size.php", "<?php echo strlen(file_get_contents('php://input')), ' ', $_SERVER['CONTENT_LENGTH'];\n"),
        (
            "d/up.php",
            "<?php $f = $_FILES['f']; echo $f['error'], ' ', $f['size'], ' ', md5_file($f['tmp_name']) == md5(str_repeat('x', $f['size'])) ? 'same' : 'other';\n",
        ),
        ("d/.htaccess", "php_value post_max_size 20M\nphp_value upload_max_filesize 15M\n"),
    ]);
    let server =
        Server::start(Mpm::Event, &site, &format!("{LOAD}<Directory ${{DOCS}}/d>\nAllowOverride All\n</Directory>"));
    let head = |path: &str, more: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n{more}\r\n\r\n")
    };
    let body = "x".repeat(LENGTH);
    let mut client = server.client();
    let want = format!("{LENGTH} {LENGTH}");
    for _ in 0..2 {
        let told = client.request(format!("{}{body}", head("/d/size.php", &format!("Content-Length: {LENGTH}"))));
        assert_eq!(told.text(), want);
        let chunks = format!("{}{LENGTH:x}\r\n{body}\r\n0\r\n\r\n", head("/d/size.php", "Transfer-Encoding: chunked"));
        assert_eq!(client.request(chunks).text(), want);
    }
    let form = format!("--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n{body}\r\n--b--\r\n");
    let upload = format!(
        "POST /d/up.php HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    assert_eq!(client.request(upload).text(), format!("0 {LENGTH} same"));
}

/// PHP's messages appear in the error log as mod_php writes them.
#[test]
fn messages_are_logged_as_by_mod_php() {
    if !is_there("messages_are_logged_as_by_mod_php") {
        return;
    }
    let site = Site::with([(
        "e.php",
        "<?php\nini_set('error_reporting', E_ALL);\necho $undefined; error_log('my own'); trigger_error('old', E_USER_DEPRECATED);\n\
         trigger_error('noted'); function f() { throw new Exception('boom'); } f();\n",
    )]);
    let server =
        Server::start(Mpm::Event, &site, &format!("{LOAD}php_flag log_errors on\nphp_flag display_errors off"));
    let file = format!("{}/htdocs/e.php", site.path());
    let lines = [
        ("php:warn", format!("] PHP Warning:  Undefined variable $undefined in {file} on line 3")),
        ("php:notice", "] my own".to_string()),
        ("php:notice", format!("] PHP Notice:  noted in {file} on line 4")),
        (
            "php:error",
            format!(
                "] PHP Fatal error:  Uncaught Exception: boom in {file}:4\\nStack trace:\\n#0 {file}(4): f()\\n#1 {{main}}\\n  thrown in {file} on line 4"
            ),
        ),
    ];
    lines.iter().for_each(|(_, text)| server.announce(text.as_str()));
    assert_eq!(server.get("/e.php").status, 500);
    for (level, text) in &lines {
        let line = server.logged(text);
        assert!(
            line.contains(&format!("[{level}] [pid ")) && line.contains("[client ") && line.ends_with(text.as_str()),
            "{line}"
        );
    }
    // Apache's level for it is info, which LogLevel leaves out.
    assert!(!server.log().contains("PHP Deprecated"), "{}", server.log());
}

/// phpMyAdmin asks for a password, with its package's file for Apache; WordPress reports that it is not installed.
#[test]
fn applications_of_debian_run() {
    if !is_there("applications_of_debian_run") || !needs::PHP_APPLICATIONS.is_there("applications_of_debian_run") {
        return;
    }
    let site = Site::new();
    let server = Server::start(
        Mpm::Event,
        &site,
        &format!(
            "{LOAD}Include /etc/phpmyadmin/apache.conf\n<Directory /usr/share/phpmyadmin>\nRequire all granted\n</Directory>\n\
             Alias /blog /usr/share/wordpress\n<Directory /usr/share/wordpress>\nOptions FollowSymLinks\n\
             AllowOverride Limit Options FileInfo\nDirectoryIndex index.php\nRequire all granted\n</Directory>\n"
        ),
    );
    let response = server.get("/phpmyadmin/");
    assert!(response.status == 200 && response.text().contains("name=\"pma_username\""), "{}", response.text());
    let response = server.get("/blog/");
    assert!(
        response.status == 404 && response.text().contains("could be found. <br/> Ensure one of them"),
        "{}",
        response.text()
    );
    server.allow("AH01630");
    assert_eq!(server.get("/phpmyadmin/libraries/common.inc.php").status, 403);
}
