//! A page on its way: texts are passed on, elements are executed.

use std::io;
use std::sync::Arc;

use conf::Level;
use conf::pattern::Captures;
use runtime::CoopBudget;
use server::core::options;
use server::{Body, BodyStream, KeptBody, Request, Writer};

use super::scan::{Element, Part, Scanner};
use super::settings::{END, ERROR, IncludeDir, IncludeServer, START, TIME_FORMAT, UNDEFINED};
use super::variables::Variables;

/// A page while its elements are executed: its variables, its conditions, and what `config` has set.
pub(super) struct Page {
    /// Stands for the page, and makes its subrequests.
    pub(super) own: Box<Request>,
    pub(super) variables: Arc<Variables>,
    /// The environment of `own` includes the variables up to this change.
    pub(super) environment: Option<u64>,
    scanner: Scanner,
    pub(super) no_exec: bool,
    pub(super) conditions: Conditions,
    /// `config errmsg`
    pub(super) error: String,
    /// `config timefmt`
    pub(super) time_format: String,
    /// `config echomsg`
    pub(super) undefined: String,
    /// `config sizefmt="bytes"`
    pub(super) size_in_bytes: bool,
    /// The groups of the last match.
    pub(super) groups: Option<Groups>,
}

/// The nesting of conditions. An `if` inside a part that is not sent is only counted.
pub(super) struct Conditions {
    /// The current part is sent.
    pub(super) is_printing: bool,
    /// A branch has already been taken.
    pub(super) is_decided: bool,
    /// The number of conditions inside a part that is not sent.
    pub(super) depth: usize,
    /// The value of one of the conditions is unknown.
    pub(super) has_failed: bool,
}

impl Default for Conditions {
    /// Outside all of them.
    fn default() -> Conditions {
        Conditions { is_printing: true, is_decided: true, depth: 0, has_failed: false }
    }
}

/// `$0` to `$9`.
pub(super) struct Groups {
    pub(super) subject: String,
    pub(super) captures: Captures,
    /// The number of groups in the expression.
    pub(super) count: usize,
    pub(super) pattern: String,
}

/// An error was logged, and the page should show one.
#[must_use]
pub(super) struct Logged(());

impl Page {
    /// Prepares the page that is this request's file.
    pub(super) fn of(request: &Request, variables: Arc<Variables>) -> Page {
        let mut own = request.stand_in();
        let kept = own.kept_body.as_ref().and_then(KeptBody::bytes);
        if let Some(body) = &kept {
            own.headers_mut().set("Content-Length", body.len().to_string());
        }
        for name in OF_BODY {
            // Included parts are requested with GET.
            if kept.is_none() && own.header(name).is_some() {
                own.headers_mut().remove(name);
            }
        }
        let dir = own.dir.slots.clone();
        let dir = dir.get::<IncludeDir>();
        let text =
            |setting: &conf::Setting<String>, default: &str| setting.get().map_or(default, String::as_str).to_string();
        let tags = request.host::<IncludeServer>().tags.get().cloned().unwrap_or_default();
        let scanner = Scanner::new(tags.start.as_deref().unwrap_or(START), tags.end.as_deref().unwrap_or(END));
        Page {
            no_exec: own.options() & options::INC_WITH_EXEC == 0,
            conditions: Conditions::default(),
            error: text(&dir.error, ERROR),
            time_format: text(&dir.time_format, TIME_FORMAT),
            undefined: text(&dir.undefined, UNDEFINED),
            size_in_bytes: false,
            groups: None,
            own,
            variables,
            environment: None,
            scanner,
        }
    }

    /// Reads the page from `source` and writes its result.
    pub(super) async fn write(mut self, mut source: Box<dyn BodyStream>, out: Writer) -> io::Result<()> {
        let mut budget = CoopBudget::new();
        let mut is_over = false;
        while !is_over {
            match source.next().await {
                Some(piece) => self.scanner.feed(piece?),
                None => is_over = true,
            }
            while let Some(part) = self.scanner.next() {
                budget.step().await;
                self.part(part, &out).await?;
            }
        }
        if let Some(part) = self.scanner.end() {
            self.part(part, &out).await?;
        }
        if !self.conditions.is_printing {
            self.log(
                Level::Warn,
                &format!("AH01373: missing closing endif directive in parsed document {}", self.file()),
            );
        }
        Ok(())
    }

    async fn part(&mut self, part: Part, out: &Writer) -> io::Result<()> {
        match part {
            Part::Text(text) if self.conditions.is_printing => out.write(&text).await,
            Part::Text(_) => {}
            Part::Element(element) => self.carry_out(element, out).await?,
            Part::Unfinished => {
                let text = format!(
                    "AH01372: SSI directive was not properly finished at the end of parsed document {}",
                    self.file()
                );
                self.log(Level::Error, &text);
                self.fail(out).await;
            }
        }
        Ok(())
    }

    async fn carry_out(&mut self, element: Element, out: &Writer) -> io::Result<()> {
        if element.is_whole() {
            return self.element(element, out).await;
        }
        let (name, file) = (&element.name, self.file());
        if name.is_empty() {
            self.log(Level::Error, &format!("AH01368: missing directive name in parsed document {file}"));
        }
        for argument in &element.arguments {
            let number = match &argument.name {
                None => "AH01369",
                Some(name) if name.is_empty() => "AH01370",
                Some(_) => continue,
            };
            let text = format!("{number}: missing argument name for value to tag {name} in {file}");
            self.log(Level::Error, &text);
        }
        self.fail(out).await;
        Ok(())
    }

    /// Writes a body into the page.
    pub(super) async fn insert(&self, body: Body, out: &Writer) -> io::Result<()> {
        if let Body::Bytes(bytes) = body {
            out.write(&bytes).await;
            return Ok(());
        }
        let mut stream = body.into_stream();
        while let Some(piece) = stream.next().await {
            out.write(&piece?).await;
        }
        Ok(())
    }

    /// Shows an error in the page.
    pub(super) async fn fail(&self, out: &Writer) {
        if self.conditions.is_printing {
            out.write(&http::text::to_bytes(&self.error)).await;
        }
    }

    /// Logs an error that the page should show.
    pub(super) fn refuse(&self, text: &str) -> Logged {
        self.log(Level::Error, text);
        Logged(())
    }

    /// The same for an error of the system.
    pub(super) fn refuse_os(&self, error: &io::Error, text: String) -> Logged {
        self.own.log_os("include", Level::Error, error, text);
        Logged(())
    }

    /// Copies the variables into the environment of `own`.
    pub(super) fn renew_environment(&mut self) {
        if let Some(env) = self.variables.environment_since(&mut self.environment) {
            self.own.env = env;
        }
    }

    pub(super) fn log(&self, level: Level, text: &str) {
        self.own.log("include", level, text);
    }

    /// The name of the page's file.
    pub(super) fn file(&self) -> &str {
        &self.own.mapped.filename
    }
}

/// Fields about the request's body, which included parts do not get.
const OF_BODY: [&str; 9] = [
    "Content-Encoding",
    "Content-Language",
    "Content-Length",
    "Content-Location",
    "Content-MD5",
    "Content-Range",
    "Content-Type",
    "Expect",
    "Transfer-Encoding",
];
