//! Responses as `data:` URLs (RFC 2397): the output filter `DATA`.
//!
//! Apache manual: mod_data.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conf::ModuleInfo;
use runtime::CoopBudget;
use server::{Body, BodyStream, Hook, Module, OutputFilter, Rank, Request, RequestKind, Writer};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "data_module", source: "mod_data.c", linked: false, directives: &[] },
    hooks: &[Hook::Repeatable, Hook::NamedFilter(&DATA)],
};

static DATA: OutputFilter = OutputFilter {
    name: "DATA",
    rank: Rank::RESOURCE,
    prepare: None,
    unmodified: None,
    apply: |request, body| Box::pin(data(request, body)),
};

async fn data(request: &mut Request, body: Body) -> Body {
    request.asks_beyond_head();
    if !matches!(request.kind, RequestKind::Main) {
        return body;
    }
    let content_type = request.response.content_type().unwrap_or_default();
    // The media type and its first parameter, without the blank between them.
    let mut words = content_type.splitn(3, ' ');
    let (media_type, parameter) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let front = format!("data:{media_type}{parameter};base64,");
    request.response.set_content_type("text/plain");
    request.response.headers_out.remove("Content-Length");
    server::written(|out| encode(body.into_stream(), front, out)).await
}

async fn encode(mut source: Box<dyn BodyStream>, front: String, out: Writer) -> io::Result<()> {
    out.write(front.as_bytes()).await;
    let (mut left, mut budget) = (Vec::new(), CoopBudget::new());
    while let Some(piece) = source.next().await {
        left.extend_from_slice(&piece?);
        budget.step().await;
        let whole = left.len() - left.len() % 3;
        out.write(STANDARD.encode(&left[..whole]).as_bytes()).await;
        left.drain(..whole);
    }
    out.write(STANDARD.encode(&left).as_bytes()).await;
    Ok(())
}
