//! `-S`, `-M`, `-L`, `-V` and `-t -D DUMP_...` are Apache's, byte for byte.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::harness::beside::{Call, compare, modules, without_help};
use crate::harness::needs;
use crate::harness::oracle;
use crate::harness::site::Site;

const OURS: &str = env!("CARGO_BIN_EXE_tsubame");
/// Everything at once: what comes in which order counts too.
const ALL: &[&str] =
    &["-t", "-DDUMP_CONFIG", "-DDUMP_CERTS", "-DDUMP_VHOSTS", "-DDUMP_RUN_CFG", "-DDUMP_MODULES", "-DDUMP_INCLUDES"];

/// The beginning of every configuration. It sets locks and the pid file, since their default places are compiled in.
fn base() -> String {
    let wanted = ["mpm_event", "authz_core", "socache_shmcb", "ssl", "info"];
    format!("ServerName localhost\nListen 127.0.0.1:9\nDefaultRuntimeDir run\nPidFile logs/pid\n{}", modules(&wanted))
}

/// Files that configurations include, certificates that are named.
fn site(text: &str) -> Site {
    let site = Site::new();
    site.file(
        "inc/a.conf",
        "ServerTokens Prod\nInclude inc/sub/*.conf\n<VirtualHost *:7>\nServerName inc\n</VirtualHost>\n",
    );
    site.file("inc/sub/b.conf", "Include inc/sub/deep\nKeepAlive on\n");
    site.file("inc/sub/c.conf", "Timeout 5\n");
    site.file("inc/sub/deep/d.conf", "\n\n<Directory /x>\nOptions None\n</Directory>\n");
    site.file("inc/sub/deep/e.conf", "# nothing\n");
    site.file("inc/unclosed.conf", "Timeout 5\n<Directory /x>\n");
    site.file("inc/unknown.conf", "Timeout 5\nBogus x\n");
    for name in ["main.pem", "one.pem", "two.pem"] {
        site.file(name, "not looked into\n");
    }
    site.file("conf/httpd.conf", format!("{}{}", base(), text.replace("ROOT", site.path())));
    site
}

/// A virtual host for every `address name[,line...]`.
fn hosts(all: &[&str]) -> String {
    let host = |text: &&str| {
        let (address, lines) = text.split_once('=').unwrap_or((text, ""));
        let mut lines = lines.split(',').filter(|line| !line.is_empty());
        let name = lines.next().map_or_else(String::new, |name| format!("ServerName {name}\n"));
        let rest: String = lines.map(|line| format!("{line}\n")).collect();
        format!("<VirtualHost {address}>\n{name}{rest}</VirtualHost>\n")
    };
    all.iter().map(host).collect()
}

/// Possible forms of virtual hosts.
fn host_cases() -> Vec<String> {
    let lists: [&[&str]; 22] = [
        &[],
        &["*:80=a"],
        &["*=a", "*=b"],
        &[
            "*:80=a.example",
            "*:80=b.example,ServerAlias x y *.z w?,ServerAlias second",
            "10.0.0.1:80=c",
            "10.0.0.1:80=d",
            "10.0.0.2=e",
            "[::1]:80=six",
            "[2001:db8::1]=seven",
            "_default_:81=default",
            "*:*=any",
            "10.0.0.3:*=f",
        ],
        &["10.0.0.1:80 10.0.0.2:81 *:82=a", "10.0.0.1:80 *:82=b", "10.0.0.2:81=", "10.0.0.9 *="],
        &["*:80=a", "*:80=a", "*:80=A"],
        &["*:80", "10.0.0.1:443", "127.0.0.1:80", "[2001:db8::1]:80", "*:80=x", "10.0.0.1:80 *:80"],
        &["*:80=a:8080", "*:80=http://b:99", "*:80=https://c"],
        &[
            "[::]:80=p",
            "[::ffff:1.2.3.4]:80=s",
            "*:80=t",
            "0.0.0.0:80=u",
            "1.2.3.4:80=v",
            "127.0.0.1:80=l",
            "127.0.0.1:81=n",
        ],
        &["*:80 *:80=a", "10.0.0.1:80 10.0.0.1:80=a", "10.0.0.1:80=b"],
        &[
            "*:80=a,ServerAlias *,ServerAlias a b,ServerAlias [x] ?q,serveralias UPPER *.UPPER",
            "*:81=only,ServerAlias *.one two",
        ],
        &[
            "255.255.255.254:65535=x",
            "[2001:0db8:1111:2222:3333:4444:5555:6666]:65535=a.very.long.name.of.a.host.example.org",
        ],
        &[
            "*:443=s,SSLEngine on,SSLCertificateFile one.pem",
            "*:443=t,SSLCertificateFile one.pem,SSLCertificateFile two.pem",
            "*:444=u",
        ],
        &["*:80=a,ErrorLog none/x"],
        &["*:80=a", "*:81=b", "*:80=c"],
        &["*:80 *:81=a"],
        &["*:80 [::]:80 0.0.0.0:80 1.2.3.4:1=a", "*:81 *:80 *:81=b"],
        &["1.2.3.4:80 1.2.3.4:80 *:80 *:80=a", "*:81=b"],
        &["1.2.3.4:80=a", "1.2.3.4:*=b", "*:80=c", "*:81=d"],
        &["1.2.3.4:80 1.2.3.4:*=a", "1.2.3.4:81=b", "4.3.2.1:80=c", "1.2.3.4:81 4.3.2.1:80=d"],
        &["*:80 *:81 *:82=a", "*:82 *:80=b", "*:83 *:81 *:83=c", "*:84=d"],
        &["1.2.3.4:1 *:80 4.3.2.1:1=a", "*:81 1.2.3.4:2=b", "[::4]:1 4.0.0.0:1=c", "4.3.2.1:1 1.2.3.4:1 *:80=d"],
    ];
    let mut cases: Vec<String> = lists.iter().map(|list| hosts(list)).collect();
    let many: Vec<String> = (1..60).map(|i| format!("10.{}.{}.{i}:{}=h{i}", i % 3, i % 7, 80 + i % 4)).collect();
    cases.push(hosts(&many.iter().map(String::as_str).collect::<Vec<_>>()));
    cases.push(format!(
        "ServerName main.example:8443\nSSLCertificateFile main.pem\n{}",
        hosts(&["*:80", "*:80=a,SSLCertificateFile one.pem"])
    ));
    cases
}

/// The other parts of a dump, and configurations with errors.
fn other_cases() -> Vec<String> {
    let texts = [
        "Include inc/a.conf\nIncludeOptional inc/none*.conf\n",
        "<IfModule ssl_module>\nInclude inc/sub\nInclude inc/sub/c.conf\n</IfModule>\n",
        "Include inc/a.conf\nInclude inc/unclosed.conf\n",
        "Include inc/a.conf\nInclude inc/unknown.conf\n",
        "Include inc/a.conf\nInclude inc/none.conf\n",
        "Include inc/a.conf\nInclude inc/none*.conf\n",
        "<VirtualHost *:80>\nServerName a\n</VirtualHost>\n<Directory /x>\n",
        "<VirtualHost *:80>\nServerName a\nBogus 1\n</VirtualHost>\n",
        "<VirtualHost *:80>\n</VirtualHost>\nCustomLog none/x common\n",
        "ErrorLog none/x\n<VirtualHost *:1>\nErrorLog conf/httpd.conf/x\n</VirtualHost>\n",
        "<Directory /x>\n</Directory>\n<Location /y>\n</Location>\n<Files z>\n# c\n</Files>\n<VirtualHost *:80>\n</VirtualHost>\n",
        "<Directory /x>\n<Files y>\nRequire all granted\n<If \"true\">\nRequire all denied\n</If>\n</Files>\n<Limit GET>\n\
         Require all denied\n</Limit>\n</Directory>\n",
        "keepalive ON\n<directory /x>\noptions none\n</DIRECTORY>\nSSLENGINE off\n<iF \"true\">\n</If>\n",
        "   KeepAlive     On   \n\tTimeout\t\t5\t\nServerAdmin \\\n  a@b \nServerSignature \"On\"\n<Directory    \"/x y\"   >\n\
         Options   None  \n</Directory>\n",
        "Define A\nDefine B \"x y\"\nDefine C ${B}\nServerAdmin \"${B}\"\n<IfDefine A>\nTimeout 7\n</IfDefine>\n",
        "Define a 1\nDefine A 2\nUnDefine a\nDefine z\nDefine z 9\nDefine z 8\nDefine y 7\nDefine y\nDefine DUMP_VHOSTS\n",
        "Define a 1\nDefine A 2\nServerAdmin ${a}${A}\n",
        "MacroIgnoreBadNesting\nMacroIgnoreEmptyArgs\n<Macro m $a>\nServerAdmin $a\n</Macro>\nUse m x@y\nUndefMacro m\n",
        "ErrorLog \"|/bin/cat\"\nDocumentRoot htdocs/\n",
        "ErrorLog syslog:user\nServerRoot ROOT/inc\n",
        "ErrorLog logs/../logs/e\nServerRoot ROOT/inc/\nDefaultRuntimeDir sub\n",
        "User www-data\nGroup #33\nChrootDir /tmp\n",
        "User #77777\nGroup #88888\n",
        "User www-data\n",
        "User nobody-of-that-name\n",
        "SSLCertificateFile none.pem\nSSLOpenSSLConfCmd DHParameters none\n",
        "SSLCACertificatePath none\n",
        "LoadModule macro_module /usr/lib/apache2/modules/mod_macro.so\n<Macro vh $n $p>\n<VirtualHost *:$p>\nServerName $n\n\n\
         # c\nServerAlias www.$n\n</VirtualHost>\n</Macro>\nUse vh a 80\nUse vh b 80\nUse vh c 81\nUndefMacro vh\n",
        "LoadModule macro_module /usr/lib/apache2/modules/mod_macro.so\n<Macro in $x>\nInclude inc/$x\n</Macro>\n<Macro out>\n\
         Use in a.conf\nTimeout 3\n</Macro>\nUse out\n<VirtualHost *:1>\nUse in sub/c.conf\nServerName q\n</VirtualHost>\n",
        "LoadModule alias_module /usr/lib/apache2/modules/mod_alias.so\n\
         LoadModule alias_module /usr/lib/apache2/modules/mod_alias.so\n",
    ];
    texts.iter().map(|text| text.to_string()).collect()
}

/// Arguments of `Mutex`.
const MUTEXES: [&str; 26] = [
    "Mutex default",
    "Mutex file",
    "Mutex file:inc",
    "Mutex flock:inc/ default OmitPID",
    "Mutex fcntl:./inc/. ssl-cache",
    "Mutex default:inc ssl-cache",
    "Mutex sysvsem:/tmp ssl-cache ssl-stapling",
    "Mutex posixsem omitpid watchdog-callback",
    "Mutex sem:",
    "Mutex FILE: ssl-cache",
    "Mutex pthread\nMutex file ssl-cache\nMutex sem ssl-cache\nMutex yes ssl-stapling-refresh",
    "Mutex file ssl-cache\nMutex file:inc default",
    "Mutex none",
    "Mutex no:x ssl-cache",
    "Mutex",
    "Mutex file:none",
    "Mutex YES:x",
    "Mutex bogus",
    "Mutex file DEFAULT",
    "Mutex file bogus",
    "Mutex file \"\"",
    "Mutex OmitPID file",
    "<VirtualHost *>\nMutex file\n</VirtualHost>",
    "WatchdogInterval 100ms",
    "WatchdogInterval 99ms",
    "WatchdogInterval 5x",
];

/// Each text with each list of arguments.
fn compare_texts(texts: &[String], lists: &[&[&str]], user: Option<u32>, program: &Path) {
    let cases: Vec<(&String, &[&str])> =
        texts.iter().flat_map(|text| lists.iter().map(move |arguments| (text, *arguments))).collect();
    compare(&cases, |(text, arguments)| {
        let site = site(text);
        (format!("{arguments:?} on\n{text}"), Call { site: &site, arguments, user }.both(program))
    });
}

#[test]
fn virtual_hosts_are_shown_as_by_apache() {
    if oracle::is_there("virtual_hosts_are_shown_as_by_apache") {
        compare_texts(&host_cases(), &[ALL, &["-t", "-DDUMP_CONFIG", "-DDUMP_CERTS"]], None, Path::new(OURS));
    }
}

#[test]
fn every_dump_is_apaches() {
    if oracle::is_there("every_dump_is_apaches") {
        compare_texts(&other_cases(), &[ALL, &["-t", "-DDUMP_CONFIG"], &["-V"]], None, Path::new(OURS));
    }
}

#[test]
fn locks_are_those_of_apache() {
    if oracle::is_there("locks_are_those_of_apache") {
        let all = modules(&[
            "authn_core",
            "auth_basic",
            "authn_socache",
            "auth_digest",
            "cache",
            "cache_socache",
            "rewrite",
            "proxy",
            "slotmem_shm",
            "proxy_balancer",
            "ldap",
        ]);
        let of_modules = [
            "authdigest-client",
            "authn-socache",
            "cache-socache",
            "ldap-cache",
            "proxy",
            "proxy-balancer-shm",
            "rewrite-map",
        ];
        let names = of_modules.map(|name| format!("Mutex flock:inc {name}\n")).concat();
        let texts = MUTEXES.iter().map(|text| format!("{text}\n")).chain([all.clone(), all + &names]);
        let texts: Vec<String> = texts.collect();
        compare_texts(&texts, &[&["-t", "-DDUMP_RUN_CFG"]], None, Path::new(OURS));
    }
}

/// `LoadModule` lines in any place. Only the loaded modules exist, also above that line and in sections that test for
/// them.
#[test]
fn modules_are_those_that_are_loaded() {
    let wanted = ["authz_core", "dir", "alias"].map(|name| {
        let load = modules(&[name]);
        format!("<IfModule !mod_{name}.c>\n{load}</IfModule>\n")
    });
    let texts = [
        format!("{}<Directory />\nRequire all granted\n</Directory>\n", wanted.concat()),
        format!("<IfModule alias_module>\nError \"above\"\n</IfModule>\n{}Redirect /x /y\n", wanted.concat()),
        format!("<IfModule alias_module>\nInclude none\n</IfModule>\n{}", wanted[0]),
        format!("{}<IfModule setenvif_module>\nError \"below\"\n</IfModule>\n", wanted[0]),
        format!("{}Redirect /x /y\n", wanted[0]),
        format!("<IfDirective Redirect>\nError \"above\"\n</IfDirective>\n{}", wanted[2]),
        format!("<IfModule none_module>\n{}</IfModule>\nRequire all granted\n", wanted[0]),
    ];
    let mpm = modules(&["mpm_event"]);
    let base = "ServerName localhost\nListen 127.0.0.1:9\nDefaultRuntimeDir run\nPidFile logs/pid\n";
    if oracle::is_there("modules_are_those_that_are_loaded") {
        compare(&texts, |text| {
            let site = Site::new();
            site.file("conf/httpd.conf", format!("{base}{text}{mpm}"));
            (text.clone(), Call { site: &site, arguments: &["-t", "-DDUMP_MODULES"], user: None }.both(Path::new(OURS)))
        });
    }
    // Without any choice all modules exist; a line that is skipped is a choice, too.
    for (text, is_right) in
        [("Redirect /x /y\n", true), ("<IfDefine X>\nLoadModule dir_module x\n</IfDefine>\nRedirect /x /y\n", false)]
    {
        let site = Site::new();
        site.file("conf/httpd.conf", format!("{base}{text}"));
        let (_, said, status) = Call { site: &site, arguments: &["-t"], user: None }.said(Path::new(OURS));
        assert_eq!(status == Some(0), is_right, "{text}: {said}");
    }
}

/// Each by itself, with lines of the command line before and after, and with and without `-t`.
#[test]
fn each_dump_alone_is_apaches() {
    if !oracle::is_there("each_dump_alone_is_apaches") {
        return;
    }
    let texts =
        [hosts(&["*:80=a", "*:80=b", "10.0.0.1:443=c,SSLCertificateFile one.pem"]), "Include inc/a.conf\n".to_string()];
    let lists: [&[&str]; 20] = [
        &["-t"],
        &["-S"],
        &["-M"],
        &["-v", "-t"],
        &["-t", "-l"],
        &["-V"],
        &["-t", "-DDUMP_VHOSTS"],
        &["-t", "-DDUMP_RUN_CFG"],
        &["-t", "-DDUMP_MODULES"],
        &["-t", "-DDUMP_INCLUDES"],
        &["-t", "-DDUMP_CERTS"],
        &["-DDUMP_VHOSTS"],
        &["-DDUMP_MODULES", "-k", "start"],
        &["-DDUMP_INCLUDES", "-k", "graceful"],
        &["-S", "-C", "Timeout 3", "-c", "KeepAlive off", "-DX"],
        &["-t", "-DDUMP_CONFIG", "-C", "Timeout 3", "-c", "KeepAlive off"],
        &["-S", "-c", "<VirtualHost *:9>", "-c", "ServerName opt", "-c", "</VirtualHost>"],
        &["-t", "-DDUMP_INCLUDES", "-C", "Include inc/a.conf"],
        &["-t", "-DDUMP_CONFIG", "-c", "Bogus 1"],
        &["-S", "-C", "Define X y", "-DX", "-DY"],
    ];
    compare_texts(&texts, &lists, None, Path::new(OURS));
}

/// Names and values that are not UTF-8 come out as they are.
#[test]
fn bytes_are_kept() {
    const LOAD_ENV: &str = "LoadModule env_module /usr/lib/apache2/modules/mod_env.so\n";
    let text = b"SetEnv a \xe9\xff\nDefine \xe9 \xff\nErrorLog logs/\xe9\nInclude inc/l*.inc\n\
                 <VirtualHost *:80>\nServerName \xe9\n</VirtualHost>\n<VirtualHost *:80>\nServerAlias \xff\n</VirtualHost>\n";
    let site = site(LOAD_ENV);
    site.file(OsStr::from_bytes(b"inc/l\xe9.inc"), b"SetEnv b \"\xe9 \xc3\xa9\"\n");
    let printed = |program| {
        let base = site.root.join("conf/httpd.conf");
        std::fs::write(&base, [format!("{}{LOAD_ENV}", self::base()).as_bytes(), text].concat())
            .expect("configuration");
        let mut command = Command::new(program);
        command
            .arg0("apache2")
            .args(["-d", site.path(), "-f", "conf/httpd.conf"])
            .args(ALL)
            .output()
            .expect("run")
            .stdout
    };
    let ours = printed(OURS);
    let odd = ours.iter().filter(|byte| !byte.is_ascii()).count();
    assert_eq!(odd, 16, "{}", String::from_utf8_lossy(&ours));
    if oracle::is_there("bytes_are_kept") {
        let sorted = |bytes: &[u8]| {
            let mut lines: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&ours), sorted(&printed(oracle::APACHE)));
    }
}

/// With `-E`, messages and the verdict go to that file instead of standard error.
#[test]
fn the_verdict_goes_where_errors_go() {
    if oracle::is_there("the_verdict_goes_where_errors_go") {
        let cases: Vec<(&str, &str)> =
            ["", "Bogus 1\n"].into_iter().flat_map(|text| [(text, "-t"), (text, "-S")]).collect();
        compare(&cases, |(text, argument)| {
            let site = site(text);
            let call = Call { site: &site, arguments: &["-E", "logs/said", argument], user: None };
            let both = [OURS, oracle::APACHE].map(|program| {
                let (out, errors, code) = call.said(Path::new(program));
                let file = site.read("logs/said").replace(site.path(), "ROOT");
                let file: String = without_help(&file).map(|line| format!("{line}\n")).collect();
                std::fs::write(site.root.join("logs/said"), "").expect("emptied");
                (out, format!("{errors}{file}"), code)
            });
            (format!("{argument} on\n{text}"), both)
        });
    }
}

/// The tree is shown by mod_info; without the module there is none.
#[test]
fn the_tree_needs_mod_info() {
    let site = site("");
    let text = site.read("conf/httpd.conf");
    let without = text.lines().filter(|line| !line.contains("info_module")).map(|line| format!("{line}\n"));
    site.file("conf/httpd.conf", without.collect::<String>());
    let call = Call { site: &site, arguments: &["-t", "-DDUMP_CONFIG"], user: None };
    let nothing = (String::new(), "Syntax OK\n".to_string(), Some(0));
    assert_eq!(call.said(Path::new(OURS)), nothing);
    if oracle::is_there("the_tree_needs_mod_info") {
        assert_eq!(call.said(Path::new(oracle::APACHE)), nothing);
    }
}

/// For users other than root, `not_used` follows the user.
#[test]
fn dumps_are_apaches_for_others_than_root() {
    const NAME: &str = "dumps_are_apaches_for_others_than_root";
    if !oracle::is_there(NAME) || !needs::ROOT.is_there(NAME) {
        return;
    }
    // Other users may have no access to the directory in which the program was built.
    let place = Site::new();
    let program = place.root.join("tsubame");
    std::fs::copy(OURS, &program).expect("copy");
    let texts = ["User www-data\nGroup www-data\nChrootDir /tmp\n", "User #5\n", "", "DocumentRoot none\n"];
    compare_texts(&texts.map(str::to_string), &[ALL, &["-t"]], Some(65534), &program);
}

/// The listing of a public page about httpd 2.4.9 comes out of its configuration, byte for byte; the rest is as from Apache.
#[test]
fn a_published_listing_is_reproduced() {
    let site = Site::new();
    for name in ["conf/server.crt", "conf/server.key"] {
        site.file(name, "not looked into\n");
    }
    let configuration = include_str!("../listing/httpd.conf").replace("ROOT", site.path());
    site.file("conf/httpd.conf", configuration.replace(" modules/", &format!(" {}/", oracle::MODULES)));
    let call = |arguments| Call { site: &site, arguments, user: None };
    let (out, errors, code) = call(&["-t", "-DDUMP_CONFIG"]).said(Path::new(OURS));
    assert_eq!(
        (out.as_str(), errors.as_str(), code),
        (include_str!("../listing/dump_config.txt"), "Syntax OK\n", Some(0))
    );
    if oracle::is_there("a_published_listing_is_reproduced") {
        let lists: [&[&str]; 5] = [
            &["-t", "-DDUMP_CONFIG"],
            &["-M"],
            &["-t", "-DDUMP_INCLUDES"],
            &["-t", "-DDUMP_VHOSTS"],
            &["-t", "-DDUMP_CERTS"],
        ];
        for arguments in lists {
            let [ours, theirs] = call(arguments).both(Path::new(OURS));
            assert_eq!(ours, theirs, "{arguments:?}");
        }
    }
}

/// Directives that Apache does not have, as `-L` shows them.
const OWN_DIRECTIVES: [&str; 17] = [
    "AdmissionLimit (mod_admission.c)",
    "AdmissionMemory (mod_admission.c)",
    "AdmissionQueue (mod_admission.c)",
    "AdmissionTimeout (mod_admission.c)",
    "AuthDigestSecretFile (mod_auth_digest.c)",
    "CacheStatusHeader (mod_cache.c)",
    "ControlSocket (core.c)",
    "GracefulShutdownDelay (core.c)",
    "MaxMemoryGrowthPerChild (core.c)",
    "MaxRequestsServedPerChild (core.c)",
    "RedisCACertificateFile (mod_socache_redis.c)",
    "RedisPasswordFile (mod_socache_redis.c)",
    "RedisTLS (mod_socache_redis.c)",
    "RedisUser (mod_socache_redis.c)",
    "ScriptSockDaemons (mod_cgid.c)",
    "StallTimeout (core.c)",
    "SuexecDocumentRoot (mod_suexec.c)",
];

/// Names, help, and the allowed places.
#[test]
fn directives_are_listed_as_by_apache() {
    if !oracle::is_there("directives_are_listed_as_by_apache") {
        return;
    }
    for mpm in ["event", "worker", "prefork"] {
        let site = Site::new();
        let shared = oracle::load_lines().replace("mpm_event", &format!("mpm_{mpm}"));
        site.file(
            "conf/httpd.conf",
            format!("ServerName localhost\nDefaultRuntimeDir run\n{shared}{}", modules(&["ssl"])),
        );
        let [ours, theirs] = [OURS, oracle::APACHE].map(|program| listed(program, &site));
        let own: Vec<&String> = ours.keys().filter(|name| !theirs.contains_key(*name)).collect();
        assert_eq!(own, OWN_DIRECTIVES, "{mpm}");
        for (name, text) in theirs {
            let ours = ours.get(&name);
            if name.starts_with(LONG_HELP) {
                // Apache has a page of HTML there.
                assert_eq!(ours.and_then(|ours| places(ours)), places(&text), "{mpm}: {name}");
            } else {
                assert_eq!(ours, Some(&text), "{mpm}: {name}");
            }
        }
    }
}

/// The directive whose help is another one than Apache's (`docs/differences.md`, "The help of AuthLDAPURL").
const LONG_HELP: &str = "AuthLDAPURL ";

/// The places of a directive, from the output of `-L`.
fn places(text: &str) -> Option<&str> {
    text.find("\tAllowed").map(|at| &text[at..])
}

/// `-L`: `Name (source.c)`, and the lines below it.
fn listed(program: &str, site: &Site) -> BTreeMap<String, String> {
    let arguments = ["-d", site.path(), "-f", "conf/httpd.conf", "-L"];
    let output = Command::new(program).args(arguments).output().expect("run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    let mut name = String::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if !line.starts_with('\t') && line.ends_with(".c)") {
            name = line.to_string();
            all.entry(name.clone()).or_default();
        } else if let Some(text) = all.get_mut(&name) {
            text.push_str(line);
            text.push('\n');
        }
    }
    all
}
