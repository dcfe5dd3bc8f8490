//! A real browser without a window: Chromium, controlled by its DevTools protocol.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use base64::Engine;
use serde_json::{Value, json};

use crate::harness::needs;
use crate::harness::site::Site;
use crate::harness::wait::{DEADLINE, until};

/// The program, where Debian puts it.
pub const CHROMIUM: &str = "/usr/bin/chromium";

/// A browser with one page; it is ended on drop.
pub struct Browser {
    process: Child,
    input: ChildStdin,
    output: Receiver<Value>,
    session: String,
    number: u64,
    /// Answers that arrived while the test waited for something else.
    answers: HashMap<u64, Value>,
    /// The policy sent with pages.
    policy: &'static str,
    /// Errors that the page reported.
    pub complaints: Vec<String>,
}

impl Browser {
    /// Starts one, with its files below the site. `None`: there is no Chromium.
    pub fn start(test: &str, site: &Site) -> Option<Browser> {
        if !needs::CHROMIUM.is_there(test) {
            return None;
        }
        let profile = site.root.join("run/browser");
        // It reads from descriptor 3 and writes to 4; root may not have its sandbox.
        let script = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut process = Command::new("/bin/sh")
            .args(["-c", script, CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--disable-background-networking", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .env("HOME", &site.root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("chromium");
        let (input, output) = (process.stdin.take().expect("input"), process.stdout.take().expect("output"));
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(output).split(0) {
                let Ok(message) = message else { return };
                let value = serde_json::from_slice(&message).expect("a message of the browser");
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let mut browser = Browser {
            process,
            input,
            output: receiver,
            session: String::new(),
            number: 0,
            answers: HashMap::new(),
            policy: "",
            complaints: Vec::new(),
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = attached["sessionId"].as_str().expect("a session").into();
        for what in ["Runtime.enable", "Log.enable", "Page.enable"] {
            browser.call(what, json!({}));
        }
        // A hidden page requests nothing.
        browser.call("Emulation.setFocusEmulationEnabled", json!({"enabled": true}));
        Some(browser)
    }

    /// Every page comes with this `Content-Security-Policy` from now on.
    pub fn obey(&mut self, policy: &'static str) {
        self.policy = policy;
        let pages = json!([{"urlPattern": "*", "resourceType": "Document", "requestStage": "Response"}]);
        self.call("Fetch.enable", json!({"patterns": pages}));
    }

    /// Goes to a page.
    pub fn open(&mut self, url: &str) {
        let answer = self.call("Page.navigate", json!({"url": url}));
        assert_eq!(answer.get("errorText"), None, "{url}");
    }

    /// As wide and high as this, in CSS pixels.
    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// The value of an expression in the page; `null` where it throws.
    pub fn value(&mut self, expression: &str) -> Value {
        let answer = self.call("Runtime.evaluate", json!({"expression": expression, "returnByValue": true}));
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, what: &str, expression: &str) {
        until(what, || (self.value(expression) == json!(true)).then_some(()));
    }

    fn send(&mut self, method: &str, parameters: Value) -> u64 {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.input.write_all(format!("{message}\0").as_bytes()).expect("the browser listens");
        self.number
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        let number = self.send(method, parameters);
        loop {
            if let Some(answer) = self.answers.remove(&number) {
                assert_eq!(answer.get("error"), None, "{method}");
                return answer["result"].clone();
            }
            let message = self.output.recv_timeout(DEADLINE).unwrap_or_else(|error| panic!("{method}: {error}"));
            if let Some(number) = message["id"].as_u64() {
                self.answers.insert(number, message);
                continue;
            }
            let what = &message["params"];
            match message["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" | "Log.entryAdded" => self.complaints.push(what.to_string()),
                "Fetch.requestPaused" => self.pass_on(&what["requestId"]),
                _ => {}
            }
        }
    }

    /// Gives a page to the browser as if it had come with the policy.
    fn pass_on(&mut self, request: &Value) {
        let body = self.call("Fetch.getResponseBody", json!({"requestId": request}));
        let text = body["body"].as_str().expect("a body");
        let text = match body["base64Encoded"] == json!(true) {
            true => text.to_string(),
            false => base64::engine::general_purpose::STANDARD.encode(text),
        };
        let fields = json!([
            {"name": "Content-Type", "value": "text/html"},
            {"name": "Content-Security-Policy", "value": self.policy},
        ]);
        let page = json!({"requestId": request, "responseCode": 200, "responseHeaders": fields, "body": text});
        self.call("Fetch.fulfillRequest", page);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends its other processes itself when nobody speaks to it any more.
        let _ = self.input.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        if crate::harness::wait::within(DEADLINE, || self.process.try_wait().ok().flatten()).is_none() {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}
