//! Third-party applications from Debian's packages, in every way of running that suits them.

use std::path::Path;
use std::process::Command;

use crate::harness::mpm::under_percore_and;
use crate::harness::server::Server;
use crate::harness::site::Site;

const GITWEB: &str = "/usr/share/gitweb/gitweb.cgi";
const GIT_HTTP_BACKEND: &str = "/usr/lib/git-core/git-http-backend";

/// Whether an application is there. With `CI` it has to be.
fn is_there(path: &str) -> bool {
    let there = Path::new(path).exists();
    assert!(there || std::env::var_os("CI").is_none(), "{path} is missing: apt-get install git gitweb");
    there
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"];
    let output = Command::new("git")
        .args(identity)
        .args(arguments)
        .current_dir(directory)
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("HOME", directory)
        .output()
        .expect("git");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "git {arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned() + &said
}

/// A site with a repository of one commit, which everybody may write to.
fn site() -> Site {
    let site = Site::new();
    let work = site.root.join("work");
    std::fs::create_dir_all(&work).expect("directory");
    git(&work, &["init", "-q"]);
    std::fs::write(work.join("swallow.txt"), "back again\n").expect("file");
    git(&work, &["add", "."]);
    git(&work, &["commit", "-qm", "a swallow"]);
    git(&work, &["clone", "-q", "--bare", ".", "../git/bird.git"]);
    git(&site.root.join("git/bird.git"), &["config", "http.receivepack", "true"]);
    let owned = Command::new("chown").args(["-R", "www-data", "git"]).current_dir(&site.root).status().expect("chown");
    assert!(owned.success() || !sys::cred::is_root());
    site.file(
        "gitweb.conf",
        format!("$projectroot = '{}/git'; @stylesheets = ('/gitweb.css'); $GIT = '/usr/bin/git';\n", site.path()),
    );
    site
}

under_percore_and! { event:
    /// Written as a CGI script, it runs in every class of persistent Perl.
    fn gitweb(mpm: Mpm) {
        if !is_there(GITWEB) {
            return;
        }
        let site = site();
        let mut configuration = String::from(
            "LoadModule perl_module modules/mod_perl.so\nLoadModule speedycgi_module modules/mod_speedycgi.so\n\
             PerlOptions +ParseHeaders\nSetEnv GITWEB_CONFIG ${ROOT}/gitweb.conf\nSetEnv HOME ${ROOT}\n\
             <Directory /usr/share/gitweb>\nOptions +ExecCGI\nRequire all granted\n</Directory>\n",
        );
        let classes = [
            ("cgi", "SetHandler cgi-script"),
            ("fork", "SetHandler perl-fork"),
            ("speedy", "SetHandler speedycgi-script"),
            ("registry", "SetHandler perl-script\nPerlResponseHandler ModPerl::Registry"),
            ("run", "SetHandler perl-script\nPerlResponseHandler ModPerl::PerlRun"),
        ];
        for (name, handler) in classes {
            configuration += &format!("Alias /{name} {GITWEB}\n<Location /{name}>\n{handler}\n</Location>\n");
        }
        let server = Server::start(mpm, &site, &configuration);
        // It has subs that see variables of the file; perl says so where a class makes a sub of the file.
        server.allow("will not stay shared");
        server.allow("is not available at");
        for (name, _) in classes {
            for _ in 0..2 {
                let projects = server.get(&format!("/{name}"));
                assert_eq!((projects.status, projects.text().contains("bird.git")), (200, true), "{name}");
                let blob = server.get(&format!("/{name}?p=bird.git;a=blob_plain;f=swallow.txt;hb=HEAD"));
                assert_eq!((blob.status, blob.text()), (200, "back again\n".into()), "{name}");
                let missing = server.get(&format!("/{name}?p=none.git"));
                assert_eq!((missing.status, missing.text().contains("No such project")), (404, true), "{name}");
            }
        }
    }

    /// Clones and pushes over HTTP.
    fn git_http_backend(mpm: Mpm) {
        if !is_there(GIT_HTTP_BACKEND) {
            return;
        }
        let site = site();
        let configuration = format!(
            "SetEnv GIT_PROJECT_ROOT ${{ROOT}}/git\nSetEnv GIT_HTTP_EXPORT_ALL 1\nSetEnv HOME ${{ROOT}}/git\n\
             ScriptAlias /git/ {GIT_HTTP_BACKEND}/\n<Directory /usr/lib/git-core>\nRequire all granted\n</Directory>\n"
        );
        let server = Server::start(mpm, &site, &configuration);
        let url = format!("http://{}/git/bird.git", server.address());
        git(&site.root, &["clone", "-q", &url, "copy"]);
        let copy = site.root.join("copy");
        // Longer than one buffer anywhere on the way, and not to be compressed.
        let noise: Vec<u8> = (0..3_000_000_u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect();
        std::fs::write(copy.join("noise"), &noise).expect("file");
        git(&copy, &["add", "."]);
        git(&copy, &["commit", "-qm", "noise"]);
        git(&copy, &["push", "-q", "origin", "main"]);
        git(&site.root, &["clone", "-q", &url, "again"]);
        assert!(std::fs::read(site.root.join("again/noise")).expect("file") == noise);
    }
}
