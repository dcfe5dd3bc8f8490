//! The elements that put the body of another response into a page: `include` and `exec`.

use std::io;

use conf::Level;
use server::Writer;

use super::elements::{above_root, below, decoded};
use super::expand::Coding;
use super::page::Page;
use super::scan::Argument;
use crate::generators::exec::Executor;

/// Why an inclusion ends.
enum IncludeError {
    /// Nothing is included: the page may try another target.
    NotIncluded(NotIncluded),
    /// The included body has broken off, and so does the page.
    Body(io::Error),
}

impl From<NotIncluded> for IncludeError {
    fn from(why: NotIncluded) -> IncludeError {
        IncludeError::NotIncluded(why)
    }
}

impl From<io::Error> for IncludeError {
    fn from(error: io::Error) -> IncludeError {
        IncludeError::Body(error)
    }
}

/// Why a file or a path is not included.
enum NotIncluded {
    AboveRoot,
    /// The status of the look-up.
    Setup(u16),
    NotText,
    /// The status of the response.
    Subrequest(u16),
}

impl NotIncluded {
    /// The message for the error log. `value`: the argument; `file`: the page with the element.
    fn text(&self, value: &str, file: &str) -> String {
        let what = format!("\"{value}\" in parsed file {file}");
        match self {
            NotIncluded::AboveRoot => format!("unable to include file {what}"),
            NotIncluded::Setup(status) => format!("unable to include {what}, subrequest setup returned {status}"),
            NotIncluded::NotText => format!("unable to include potential exec {what}, content type not text/*"),
            NotIncluded::Subrequest(status) => format!("unable to include {what}, subrequest returned {status}"),
        }
    }
}

impl Page {
    /// `include`: if a target is not available, the alternatives in `onerror` are tried.
    pub(super) async fn include(&mut self, arguments: Vec<Argument>, out: &Writer) -> io::Result<()> {
        let mut has_failed = false;
        for (tag, value) in decoded(arguments) {
            let is_file = match tag.as_str() {
                "file" => true,
                "virtual" if has_failed => continue,
                "onerror" if !has_failed => continue,
                "virtual" | "onerror" => false,
                _ => {
                    let text = format!("AH01342: unknown parameter \"{tag}\" to tag include in {}", self.file());
                    self.log(Level::Error, &text);
                    self.fail(out).await;
                    break;
                }
            };
            let Ok(target) = self.expand(&value, false).await else {
                has_failed = true;
                break;
            };
            match self.include_one(&target, is_file, out).await {
                Ok(()) => has_failed = false,
                Err(IncludeError::Body(error)) => return Err(error),
                Err(IncludeError::NotIncluded(why)) => {
                    let text = why.text(&value, self.file());
                    match why {
                        NotIncluded::AboveRoot => self.own.log_os("include", Level::Error, &above_root(), text),
                        _ => self.log(Level::Error, &text),
                    }
                    if std::mem::replace(&mut has_failed, true) {
                        break;
                    }
                }
            }
        }
        if has_failed {
            self.fail(out).await;
        }
        Ok(())
    }

    /// Includes a file below the page's directory, or a URL path.
    async fn include_one(&mut self, target: &str, is_file: bool, out: &Writer) -> Result<(), IncludeError> {
        self.renew_environment();
        let mut found = match (is_file, below(target)) {
            // What gets the body gets its method, too.
            (false, _) if self.own.kept_body.as_ref().is_some_and(|kept| kept.bytes().is_some()) => {
                self.own.lookup_alike(target).await
            }
            (false, _) => self.own.lookup_link(target).await,
            (true, Some(name)) => self.own.lookup_file(&name).await,
            (true, None) => return Err(NotIncluded::AboveRoot.into()),
        };
        let status = found.response.status();
        if status != 200 {
            return Err(NotIncluded::Setup(status).into());
        }
        if self.no_exec && found.response.content_type().is_some_and(|text| !text.starts_with("text/")) {
            return Err(NotIncluded::NotText.into());
        }
        found.page = Some(self.variables.clone());
        found.response.no_local_copy = true;
        let body = found.run_subrequest().await.map_err(NotIncluded::Subrequest)?;
        Ok(self.insert(body, out).await?)
    }

    /// `exec`: runs a command, or a file as a script.
    pub(super) async fn exec(&mut self, by: Executor, arguments: Vec<Argument>, out: &Writer) -> io::Result<()> {
        if self.no_exec {
            self.own.log(by.module, Level::Error, format!("AH01228: exec used but not allowed in {}", self.file()));
            self.fail(out).await;
            return Ok(());
        }
        for (tag, value) in decoded(arguments) {
            let wrong = match tag.as_str() {
                "cmd" => {
                    let Ok(text) = self.expand(&value, true).await else {
                        self.fail(out).await;
                        break;
                    };
                    self.variables.complete().await;
                    self.own.env = self.variables.environment();
                    // The shell adds to it.
                    self.environment = None;
                    match by.shell(&mut self.own, &text).await {
                        Ok(body) => {
                            self.insert(body, out).await?;
                            continue;
                        }
                        Err(gateway::NotStarted) => {
                            let file = self.file();
                            format!("AH01229: execution failure for parameter \"{tag}\" to tag exec in file {file}")
                        }
                    }
                }
                "cgi" => {
                    let Ok(target) = self.expand(&value, false).await else {
                        self.fail(out).await;
                        break;
                    };
                    if self.exec_cgi(&target, out).await? {
                        continue;
                    }
                    format!("AH01230: invalid CGI ref \"{value}\" in {}", self.file())
                }
                _ => format!("AH01231: unknown parameter \"{tag}\" to tag exec in {}", self.file()),
            };
            self.own.log(by.module, Level::Error, wrong);
            self.fail(out).await;
            break;
        }
        Ok(())
    }

    /// Runs a file as a script with the page's query and path information. `false`: there is no such file.
    async fn exec_cgi(&mut self, target: &str, out: &Writer) -> io::Result<bool> {
        self.renew_environment();
        let mut found = self.own.lookup_link(target).await;
        if found.response.status() != 200
            || !found.mapped.path_info.is_empty()
            || found.data.args.is_some()
            || !found.mapped.stat.is_some_and(|meta| meta.is_file())
        {
            return Ok(false);
        }
        found.mapped.path_info.clone_from(&self.own.mapped.path_info);
        found.data.args.clone_from(&self.own.data.args);
        found.response.set_content_type("application/x-httpd-cgi");
        found.page = Some(self.variables.clone());
        found.response.no_local_copy = true;
        match found.run_subrequest().await {
            Ok(body) => self.insert(body, out).await?,
            Err(300..=399) => {
                if let Some(location) = found.response.headers_out.get("Location") {
                    let location = Coding::Entity.encode(location);
                    let link = format!("<a href=\"{location}\">{location}</a>");
                    out.write(&http::text::to_bytes(&link)).await;
                }
            }
            Err(_) => {}
        }
        Ok(true)
    }
}
