//! A module of the tests' own: a handler that says something before its answer, and one that becomes a tunnel.

use conf::ModuleInfo;
use server::{Body, Fields, Handler, HandlerResult, Hook, Module, Order, Request, Tunnel, TunnelStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "tested_module", source: "mod_tested.c", linked: true, directives: &[] },
    hooks: &[Hook::Handler(Order::Middle, TESTED)],
};

const TESTED: Handler = Handler::Later {
    claims: |request| request.handler_name().is_some_and(|name| name.starts_with("tested-")),
    check: |_| None,
    run: |request| Box::pin(handle(request)),
};

/// The protocol that the tunnel speaks.
const SHOUT: &str = "shout";

async fn handle(request: &mut Request) -> HandlerResult {
    if request.handler_name() == Some("tested-hints") {
        let mut fields = Fields::default();
        fields.add("Link", "</a.css>");
        request.send_interim(103, &fields).await.expect("a hint");
        request.send_interim(200, &fields).await.expect_err("no interim status");
        return HandlerResult::Body(Body::text("the answer\n"));
    }
    if request.mapped.filename.ends_with("uninvited") || request.tunnel_for().is_some_and(|list| list == SHOUT) {
        return HandlerResult::Tunnel(Box::new(Tunnel {
            protocol: Some(SHOUT.into()),
            speak: Box::new(|stream| Box::pin(shout(stream))),
            timeout: None,
        }));
    }
    HandlerResult::Status(426)
}

/// Says everything again, louder, until the client has said everything.
async fn shout(mut stream: Box<dyn TunnelStream>) {
    let mut piece = [0; 4];
    while let Ok(read @ 1..) = stream.read(&mut piece).await {
        piece.make_ascii_uppercase();
        if stream.write_all(&piece[..read]).await.is_err() {
            return;
        }
    }
    let _ = stream.shutdown().await;
}
