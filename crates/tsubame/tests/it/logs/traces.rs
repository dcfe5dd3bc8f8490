//! Traces that several servers share: `TraceContext`.

use std::collections::BTreeMap;

use crate::harness::mpm::under_percore_and;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// What the script says of its environment.
fn environment(text: &str) -> BTreeMap<String, String> {
    text.lines().filter_map(|line| line.split_once('=')).map(|(name, value)| (name.into(), value.into())).collect()
}

under_percore_and! { worker:
    /// Scripts, logs and servers behind this one see one trace, and each its own part.
    fn requests_join_their_trace(mpm: Mpm) {
        let site = Site::new();
        site.script("env", "#!/bin/sh\necho Content-Type: text/plain\necho\nenv\n");
        let server = Server::start(
            mpm,
            &site,
            &format!("TraceContext on\nLogFormat \"%U trace=%{{TRACE_ID}}e span=%{{SPAN_ID}}e parent=%{{PARENT_SPAN_ID}}e\" traces\nCustomLog logs/traces traces\n\
             ScriptAlias /cgi/ ${{ROOT}}/cgi-bin/\n<Directory ${{ROOT}}/cgi-bin>\nRequire all granted\n</Directory>\n\
             ProxyPass /via/ http://{}/cgi/ disablereuse=on\n", site.address()),
        );
        let ask = |path: &str, fields: &str| {
            let response = server.client().request(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
            assert_eq!(response.status, 200);
            environment(&response.text())
        };
        let parent = format!("traceparent: 00-{TRACE}-{SPAN}-01\r\ntracestate: a=b\r\n");
        let joined = ask("/cgi/env", &parent);
        let span = &joined["SPAN_ID"];
        assert_eq!([&joined["TRACE_ID"], &joined["PARENT_SPAN_ID"], &joined["HTTP_TRACESTATE"]], [TRACE, SPAN, "a=b"]);
        assert_eq!(joined["HTTP_TRACEPARENT"], format!("00-{TRACE}-{span}-01"));
        assert!(span.len() == 16 && span != SPAN, "{span}");

        let fresh = [0, 1].map(|_| ask("/cgi/env", "tracestate: a=b\r\n"));
        assert_ne!(fresh[0]["TRACE_ID"], fresh[1]["TRACE_ID"]);
        for one in &fresh {
            assert_eq!(one["HTTP_TRACEPARENT"], format!("00-{}-{}-00", one["TRACE_ID"], one["SPAN_ID"]));
            assert!(!one.contains_key("PARENT_SPAN_ID") && !one.contains_key("HTTP_TRACESTATE"), "{one:?}");
        }

        let behind = ask("/via/env", &parent);
        let before = until("a line of the log", || {
            let text = site.read("logs/traces");
            text.lines().find(|line| line.starts_with("/via/env ")).map(|line| environment(&line.replace(' ', "\n")))
        });
        assert_eq!([&before["trace"], &before["parent"], &behind["TRACE_ID"]], [TRACE, SPAN, TRACE]);
        assert_eq!(behind["PARENT_SPAN_ID"], before["span"], "what is behind is called by what is before");
    }
}

under_percore_and! { event:
    /// Strangers name no trace of ours, and without the line their fields go on as they came.
    fn strangers_begin_anew(mpm: Mpm) {
        let parent = format!("traceparent: 00-{TRACE}-{SPAN}-01\r\n");
        for (line, is_kept) in [("TraceContext new", false), ("", true)] {
            let site = Site::new();
            site.script("env", "#!/bin/sh\necho Content-Type: text/plain\necho\nenv\n");
            let text = format!("{line}\nScriptAlias /cgi/ ${{ROOT}}/cgi-bin/\n<Directory ${{ROOT}}/cgi-bin>\nRequire all granted\n</Directory>\n");
            let server = Server::start(mpm, &site, &text);
            let response = server.client().request(format!("GET /cgi/env HTTP/1.1\r\nHost: localhost\r\n{parent}\r\n"));
            let seen = environment(&response.text());
            assert_eq!(seen["HTTP_TRACEPARENT"] == format!("00-{TRACE}-{SPAN}-01"), is_kept, "{line}");
            assert_eq!(seen.contains_key("TRACE_ID"), !is_kept, "{line}");
        }
    }
}
