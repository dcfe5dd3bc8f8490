//! An application in Java behind this server: Tomcat, by HTTP over a Unix socket and by AJP.

use std::path::Path;
use std::process::Command;

use crate::harness::mpm::{Mpm, test_name};
use crate::harness::needs;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire::Client;
use crate::proxy::origin::PORT;
use crate::scripts::proxy_fcgi::Program;

/// The connector that a test waits for comes last: the other one listens by then.
const SERVER: &str = "\
<Server port=\"-1\">
  <Service name=\"Catalina\">
    <Connector protocol=\"AJP/1.3\" address=\"ADDR\" port=\"PORT\" secret=\"sesame\"/>
    <Connector protocol=\"HTTP/1.1\" unixDomainSocketPath=\"ROOT/run/tomcat.sock\"/>
    <Engine name=\"Catalina\" defaultHost=\"localhost\">
      <Host name=\"localhost\" deployOnStartup=\"false\" autoDeploy=\"false\">
        <Context path=\"/app\" docBase=\"app\" useRelativeRedirects=\"false\"/>
      </Host>
    </Engine>
  </Service>
</Server>
";

/// Tomcat's libraries, the compiler of pages, and no search for tags in any of them.
const PROPERTIES: &str = "\
common.loader=\"${catalina.home}/lib/*.jar\",\"/usr/share/java/eclipse-jdt-core.jar\"
tomcat.util.scan.StandardJarScanFilter.jarsToSkip=*.jar
";

const APPLICATION: &str = "\
<web-app xmlns=\"https://jakarta.ee/xml/ns/jakartaee\" version=\"6.0\" metadata-complete=\"true\">
  <request-character-encoding>UTF-8</request-character-encoding>
  <servlet>
    <servlet-name>jsp</servlet-name>
    <servlet-class>org.apache.jasper.servlet.JspServlet</servlet-class>
  </servlet>
  <servlet-mapping><servlet-name>jsp</servlet-name><url-pattern>*.jsp</url-pattern></servlet-mapping>
</web-app>
";

/// One page, because each is compiled when it is first asked for.
const PAGE: &str = "\
<%@ page contentType=\"text/plain; charset=UTF-8\" %><%
String task = String.valueOf(request.getParameter(\"do\"));
if (task.equals(\"go\")) {
    response.sendRedirect(\"page.jsp?do=tell\");
} else if (task.equals(\"fill\")) {
    out.print(\"0123456789\".repeat(300000));
} else if (task.equals(\"fail\")) {
    response.sendError(409, \"closed\");
} else if (task.equals(\"sum\")) {
    long sum = 0;
    for (int one = request.getInputStream().read(); one >= 0; one = request.getInputStream().read()) sum += one;
    out.print(sum);
} else {
    Object visits = session.getAttribute(\"visits\");
    session.setAttribute(\"visits\", visits == null ? 1 : (Integer) visits + 1);
    String forwarded = request.getHeader(\"X-Forwarded-For\");
    out.print(request.getMethod() + ' ' + request.getRequestURI() + ' ' + request.getServerName() + ' '
        + (forwarded == null ? request.getRemoteAddr() : forwarded) + ' ' + request.getParameter(\"name\") + ' '
        + session.getAttribute(\"visits\"));
}
%>";

/// Starts Tomcat with this application, as quickly as it can: a thorough compiler would take longer than it saves.
fn tomcat(site: &Site) -> Program {
    const HOME: &str = needs::TOMCAT_HOME;
    let (root, ip) = (site.path(), site.ip.to_string());
    let server = SERVER.replace("ROOT", root).replace("ADDR", &ip).replace("PORT", &PORT.to_string());
    site.file("tomcat/conf/server.xml", server);
    site.file("tomcat/conf/catalina.properties", PROPERTIES);
    site.file("tomcat/webapps/app/WEB-INF/web.xml", APPLICATION);
    site.file("tomcat/webapps/app/page.jsp", PAGE);
    let mut java = Command::new(needs::JAVA);
    java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]);
    java.arg(format!("-Dcatalina.home={HOME}")).arg(format!("-Dcatalina.base={root}/tomcat"));
    java.arg(format!("-Djava.io.tmpdir={root}/run"));
    java.args(["-cp", &format!("{HOME}/bin/bootstrap.jar:{HOME}/bin/tomcat-juli.jar")]);
    java.args(["org.apache.catalina.startup.Bootstrap", "start"]);
    Program::start(&mut java, Path::new(&format!("{root}/run/tomcat.sock")))
}

#[test]
fn tomcat_by_http_and_by_ajp() {
    if !needs::TOMCAT.is_there("tomcat_by_http_and_by_ajp") {
        return;
    }
    let site = Site::new();
    let _tomcat = tomcat(&site);
    let section = |path: &str, url: &str| {
        format!(
            "<Location {path}/>\nProxyPass {url}\nProxyPassReverse http://localhost/app/\n\
             ProxyPassReverseCookiePath /app {path}\n</Location>\n"
        )
    };
    let ajp = format!("ajp://{}:{PORT}", site.ip);
    let text = section("/http", &format!("unix:{}/run/tomcat.sock|http://localhost/app/", site.path()))
        + &section("/ajp", &format!("{ajp}/app/ secret=sesame"))
        + &format!("ProxyPass /stranger/ {ajp}/ secret=other\n");
    for mpm in Mpm::chosen(test_name!()) {
        let server = Server::start(mpm, &site, &text);
        for path in ["/http", "/ajp"] {
            uses_it(&server, path);
        }
        assert_eq!(server.get("/stranger/page.jsp").status, 403, "the secret is wrong");
    }
}

fn uses_it(server: &Server<'_>, path: &str) {
    let mut client = server.client();
    let ask = |client: &mut Client, line: &str, fields: &str, body: &[u8]| {
        let head = format!("{} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n", line.replace(" /", &format!(" {path}/")));
        client.request([head.as_bytes(), body].concat())
    };
    // The first page is compiled.
    let first = ask(&mut client, "GET /page.jsp?name=%C3%A4", "", b"");
    assert_eq!((first.status, first.text()), (200, "GET /app/page.jsp localhost 127.0.0.1 \u{e4} 1".into()), "{path}");
    let cookie = first.field("Set-Cookie").expect("a session");
    assert!(cookie.starts_with("JSESSIONID=") && cookie.contains(&format!("; Path={path};")), "{cookie}");
    let session = format!("Cookie: {}\r\n", cookie.split(';').next().expect("its value"));
    let form = format!("{session}Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 11\r\n");
    let second = ask(&mut client, "POST /page.jsp", &form, b"name=%C3%9F");
    assert_eq!(second.text(), "POST /app/page.jsp localhost 127.0.0.1 \u{df} 2", "{path}");

    let gone = ask(&mut client, "GET /page.jsp?do=go", &session, b"");
    let place = format!("http://localhost{path}/page.jsp?do=tell");
    assert_eq!((gone.status, gone.field("Location")), (302, Some(&*place)), "{gone:?}");
    assert_eq!(client.get(&format!("{path}/page.jsp?do=fill")).body.len(), 3_000_000);
    let head = ask(&mut client, "HEAD /page.jsp?do=fill", "", b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    let failed = client.get(&format!("{path}/page.jsp?do=fail"));
    assert_eq!((failed.status, failed.text().contains("closed")), (409, true), "{failed:?}");
    assert_eq!(client.get(&format!("{path}/missing.jsp")).status, 404);

    let data: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    let sum = data.iter().map(|byte| u64::from(*byte)).sum::<u64>().to_string();
    let length = format!("Content-Length: {}\r\n", data.len());
    let chunk = [format!("{:x}\r\n", data.len()).as_bytes(), &data, b"\r\n0\r\n\r\n"].concat();
    for (fields, body) in [(&*length, &data), ("Transfer-Encoding: chunked\r\n", &chunk)] {
        let fields = format!("{fields}Content-Type: application/octet-stream\r\n");
        assert_eq!(ask(&mut client, "POST /page.jsp?do=sum", &fields, body).text(), sum, "{path}: {fields}");
    }
}
