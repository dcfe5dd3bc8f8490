//! `LoadModule` lines of Apache's modules that Tsubame does not have: accepted where nothing asks for them.

use std::process::{Command, Output};

use crate::harness::mpm::Mpm;
use crate::harness::server::Server;
use crate::harness::site::Site;

/// The modules of the files in `conf.modules.d` of a distribution of the RHEL family, all of its optional ones included.
const STOCK: &str = "access_compat actions alias allowmethods auth_basic auth_digest authn_anon authn_core authn_dbd authn_dbm \
    authn_file authn_socache authz_core authz_dbd authz_dbm authz_groupfile authz_host authz_owner authz_user autoindex \
    brotli cache cache_disk cache_socache data dbd deflate dir dumpio echo env expires ext_filter filter headers include \
    info log_config logio macro mime_magic mime negotiation remoteip reqtimeout request rewrite setenvif slotmem_plain \
    slotmem_shm socache_dbm socache_memcache socache_redis socache_shmcb status substitute suexec unique_id unixd userdir \
    version vhost_alias watchdog \
    dav dav_fs dav_lock lua mpm_event proxy lbmethod_bybusyness lbmethod_byrequests lbmethod_bytraffic lbmethod_heartbeat \
    proxy_ajp proxy_balancer proxy_connect proxy_express proxy_fcgi proxy_fdpass proxy_ftp proxy_hcheck proxy_http \
    proxy_scgi proxy_uwsgi proxy_wstunnel proxy_http2 systemd cgid http2 xml2enc proxy_html session session_cookie \
    session_crypto session_dbd auth_form ldap authnz_ldap asis buffer heartbeat heartmonitor usertrack dialup charset_lite \
    log_debug log_forensic ratelimit file_cache socache_dc sed speling reflector bucketeer case_filter case_filter_in";

fn load_lines() -> String {
    STOCK.split_whitespace().fold(String::new(), |all, name| match name {
        name if name.starts_with("mpm_") => all + &format!("LoadModule {name}_module modules/mod_{name}.so\n"),
        name => all + &format!("LoadModule {name}_module modules/mod_{name}.so\n"),
    })
}

/// A command of the program about a place with these modules and lines.
fn run(site: &Site, arguments: &[&str], text: &str) -> (Output, String) {
    site.configure_with(&load_lines(), text);
    let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame"));
    let output = command.args(arguments).args(["-d", site.path(), "-f", "conf/httpd.conf"]).output().expect("run");
    let said = [&output.stdout[..], &output.stderr].concat();
    (output, String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn stock_lines_are_accepted_with_one_notice() {
    let site = Site::new();
    let (output, said) = run(&site, &["-t"], "");
    assert!(output.status.success(), "{said}");
    let notices: Vec<&str> = said.lines().filter(|line| line.contains("LoadModule")).collect();
    let [notice] = notices[..] else { panic!("{said}") };
    for name in ["mod_socache_dc", "mod_lua", "mod_bucketeer", "mod_dumpio"] {
        assert!(notice.contains(name), "{name}: {notice}");
    }
    assert!(!notice.contains("systemd") && !notice.contains("mod_rewrite"), "{notice}");
    let (output, said) = run(&site, &["check", "--json"], "");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["verdict"], "starts", "{said}");
    for (id, why) in [("lua_module", "nothing asks for it"), ("systemd_module", "notifies systemd itself")] {
        let subject = format!("LoadModule {id}");
        let mut findings = report["findings"].as_array().expect("findings").iter();
        let found = findings.find(|found| found["subject"] == *subject).unwrap_or_else(|| panic!("{id}: {said}"));
        assert!(found["message"].as_str().is_some_and(|text| text.contains(why)), "{found:#}");
        assert_eq!(found["weight"], "harmless");
    }
}

/// What a distribution of the RHEL family and control panels (HestiaCP, ISPConfig) write about TLS, PHP and servers behind this one.
const BELOW: &str = "LoadModule ssl_module modules/mod_ssl.so\nSSLSessionCache shmcb:${ROOT}/run/cache(512000)\nSSLCryptoDevice builtin\n\
<VirtualHost _default_:443>\nSSLHonorCipherOrder on\nSSLCipherSuite PROFILE=SYSTEM\nSSLProxyCipherSuite PROFILE=SYSTEM\n\
BrowserMatch \"MSIE [2-5]\" nokeepalive ssl-unclean-shutdown downgrade-1.0 force-response-1.0\n\
CustomLog logs/ssl_request_log \"%t %h %{SSL_PROTOCOL}x %{SSL_CIPHER}x \\\"%r\\\" %b\"\n</VirtualHost>\n\
<IfModule !mod_php5.c>\n<FilesMatch \\.(php|phar)$>\nSetHandler \"proxy:unix:/run/php-fpm/www.sock|fcgi://localhost\"\n</FilesMatch>\n</IfModule>\n\
SetEnvIfNoCase ^Authorization$ \"(.+)\" HTTP_AUTHORIZATION=$1\n\
<VirtualHost *:80>\nServerName a.example\nProxyPass / https://localhost:8000\nProxyPassReverse / https://localhost:8000\n\
ProxyPass /admin http://localhost:8000/admin\nProxyPassReverse /admin http://localhost:8000/admin\n</VirtualHost>\n\
<VirtualHost *:80>\nServerName b.example\n<IfModule mod_proxy_fcgi.c>\n<IfVersion >= 2.4.26>\n\
ProxyFCGISetEnvIf \"true\" CONTEXT_DOCUMENT_ROOT \"%{reqenv:DOCUMENT_ROOT}\"\n</IfVersion>\n<Directory ${DOCS}>\n<FilesMatch \"\\.php[345]?$\">\n\
<If \"-f '%{REQUEST_FILENAME}'\">\nSetHandler \"proxy:unix:/run/fpm.sock|fcgi://localhost\"\n</If>\n</FilesMatch>\n</Directory>\n</IfModule>\n\
RewriteEngine on\nRewriteCond %{REQUEST_URI} !^/php-fcgi/\nSSLProxyEngine On\nRewriteRule ^/(.*)$ https://c.example/$1 [P]\n</VirtualHost>";

#[test]
fn lines_of_distributions_and_panels_are_accepted() {
    let site = Site::new();
    let (output, said) = run(&site, &["-t"], BELOW);
    assert!(output.status.success() && said.contains("Syntax OK"), "{said}");
}

/// Lines below the stock ones; what `-t` says, or nothing if it accepts them.
const LINES: [(&str, &str); 11] = [
    // These tune a module, and ask for nothing.
    ("LuaScope once", ""),
    ("<IfModule mod_proxy_ftp.c>\nProxyFtpDirCharset UTF-8\n</IfModule>", ""),
    ("LogLevel lua:warn socache_dc:info", ""),
    // These ask for something.
    ("LuaHookAccessChecker /x.lua f", "Invalid command 'LuaHookAccessChecker'"),
    ("ProtocolEcho On", "Invalid command 'ProtocolEcho'"),
    ("CaseFilter On", "Invalid command 'CaseFilter'"),
    ("ProxyPass / ftp://localhost/", "does not speak ftp"),
    ("SSLSessionCache dbm:/x", "Invalid command 'SSLSessionCache'"),
    ("AuthnCacheSOCache dc:localhost", "Unknown socache provider 'dc'"),
    // Neither acts by itself nor is anybody's.
    ("LoadModule example_hooks_module x.so", "Tsubame has no module example_hooks_module"),
    ("LoadModule security2_module x.so", "Tsubame has no module security2_module"),
];

#[test]
fn what_asks_for_a_missing_module_is_refused() {
    let site = Site::new();
    for (text, want) in LINES {
        let (output, said) = run(&site, &["-t"], text);
        assert_eq!(output.status.success(), want.is_empty(), "{text}: {said}");
        assert!(said.contains(want), "{text}: {said}");
    }
}

/// The condition is true, as in Apache: no protection inside is skipped, and no substitute outside it is read.
#[test]
fn sections_about_a_missing_module_are_read() {
    let site = Site::with([("a.txt", "a"), ("b/b.txt", "b")]);
    let load = "LoadModule socache_dc_module modules/mod_socache_dc.so\nLoadModule lua_module modules/mod_lua.so\n";
    let text = format!(
        "{load}<IfModule lua_module>\n<Location /b>\nRequire all denied\n</Location>\n</IfModule>\n\
         <IfModule !mod_socache_dc.c>\nNoSuchThing 1\n</IfModule>\n"
    );
    let server = Server::start(Mpm::Event, &site, &text);
    server.allow("Tsubame does not have mod_socache_dc, mod_lua;");
    server.announce("AH01630");
    assert_eq!(server.get("/a.txt").status, 200);
    assert_eq!(server.get("/b/b.txt").status, 403);
}
