//! Lines of the configuration, and their errors.

use crate::testing::{apply, check};

const NEEDS_PATH: &str = "ProxyPass|ProxyPassMatch needs a path when not defined in a location";
const PAIR: &str = "Invalid ProxyPass|ProxyPassMatch parameter. Parameter must be in the form 'key=value'.";

#[test]
fn lines_as_apache_takes_them() {
    check(&[
        ("ProxyPass /x", NEEDS_PATH),
        ("ProxyPass fcgi://h", NEEDS_PATH),
        ("ProxyPass /x foo", "ProxyPass URL must be absolute!: foo"),
        ("ProxyPass /x unix:/x", "ProxyPass URL must be absolute!: unix:/x"),
        ("ProxyPass /x unix:/x|fcgi", "ProxyPass|ProxyPassMatch uses an invalid \"unix:\" URL"),
        ("ProxyPass /x fcgi://h timeout", PAIR),
        ("ProxyPass /x fcgi://h foo=1", "ProxyPass unknown Worker parameter"),
        ("ProxyPass /x http://h keepalive=maybe", "ProxyPass KeepAlive must be On|Off"),
        ("ProxyPass /x http://h acquire=0", "ProxyPass Acquire must be at least one millisecond"),
        ("ProxyPass /x http://h acquire=1x", "ProxyPass Acquire timeout has wrong format"),
        ("ProxyPass /x http://h smax=-1", "ProxyPass Smax must be a positive number"),
        ("ProxyPass /x http://h mapping=foo", "unknown mapping"),
        ("ProxyPass /x ! mapping=foo", "unknown mapping"),
        ("ProxyPass /x ! MAPPING=Encoded", ""),
        ("ProxyPass /x balancer://h mapping=servlet", ""),
        ("BalancerMember balancer://b http://h mapping=servlet", "BalancerMember unknown Worker parameter"),
        ("BalancerMember balancer://b http://h hcmethod=FOO", "BalancerMember Unknown method"),
        (
            "BalancerMember balancer://b http://h hcmethod=CPING",
            "BalancerMember Health check method CPING not (yet) implemented",
        ),
        ("BalancerMember balancer://b http://h hcmethod=get hcinterval=5s hcpasses=0 hcuri=x", ""),
        (
            "BalancerMember balancer://b http://h hcinterval=0",
            "BalancerMember Interval must be a positive value greater than 100ms",
        ),
        ("BalancerMember balancer://b http://h hcinterval=x", "BalancerMember Unparse-able hcinterval setting"),
        ("BalancerMember balancer://b http://h hcfails=-1", "BalancerMember Fails must be a positive value"),
        ("BalancerMember balancer://b http://h hctemplate=foo", "BalancerMember Unknown ProxyHCTemplate name: foo"),
        ("BalancerMember balancer://b http://h hcexpr=foo", "BalancerMember Unknown health check condition expr: foo"),
        ("BalancerMember balancer://b http://h hcfoo=1", "BalancerMember unknown Worker hcheck parameter"),
        ("ProxyHCTemplate a hcmethod=foo", "ProxyHCTemplate: Unknown method hcmethod=foo; a"),
        ("ProxyHCTemplate a foo", "Invalid ProxyHCTemplate parameter. Parameter must be in the form 'key=value'"),
        ("ProxyHCTPsize -1", "Invalid ProxyHCTPsize parameter. Parameter must be >= 0"),
        ("ProxyHCExpr a {%{REQUEST_STATUS} =~ /^[234]/}", ""),
        ("ProxyHCExpr a", "Missing expression for ProxyHCExpr"),
        ("ProxyHCExpr a {true} b", "error: extra parameter(s)"),
        ("ProxyHCExpr a {true", "Could not parse expression \"{true\": syntax error, unexpected '{'"),
        ("BalancerMember http://h", "BalancerMember must define remote proxy server"),
        (
            "BalancerMember balancer://b http://h loadfactor=0",
            "BalancerMember LoadFactor must be a number between 1..100",
        ),
        ("BalancerMember balancer://b http://h lbset=100", "BalancerMember lbset must be between 0 and 99"),
        ("BalancerMember balancer://b http://h status=x", "BalancerMember Unknown status parameter option"),
        ("BalancerMember balancer://b http://h foo=1", "BalancerMember unknown Worker parameter"),
        (
            "BalancerMember balancer://b http://h foo",
            "Invalid BalancerMember parameter. Parameter must be in the form 'key=value'",
        ),
        ("BalancerMember b http://h", "BalancerMember Bad syntax for a balancer name (b)"),
        ("BalancerMember balancer://b /foo", "BalancerMember URL must be absolute!: /foo"),
        (
            "BalancerMember balancer://b balancer://c",
            "Tsubame does not speak balancer to backends yet; it speaks ajp, fcgi, http, https, h2c, h2, scgi, uwsgi, ws, wss",
        ),
        ("ProxyPass / balancer://b/ lbmethod=foo", "ProxyPass unknown lbmethod"),
        ("ProxyPass / balancer://b/ loadfactor=3", "ProxyPass unknown Balancer parameter"),
        ("ProxyPass / balancer://b/ failonstatus=a", "ProxyPass failonstatus must be one or more HTTP response codes"),
        (
            "ProxyPass / balancer://b/ stickysessionsep=ab",
            "ProxyPass stickysessionsep must be a single character or Off",
        ),
        ("ProxyPass / balancer://b/ maxattempts=-1", "ProxyPass maximum number of attempts must be a positive number"),
        ("ProxySet balancer://b lbmethod=byrequests", "ProxySet can not find 'balancer://b' Balancer."),
        ("ProxyPass / http://h/ lbmethod=byrequests", "ProxyPass unknown Worker parameter"),
        ("ProxyPass /x fcgi://h timeout=0", "ProxyPass Timeout must be at least one second"),
        ("ProxyPass /x fcgi://h timeout=abc", "ProxyPass Timeout must be at least one second"),
        ("ProxyPass /x fcgi://h enablereuse=maybe", "ProxyPass EnableReuse must be On|Off"),
        ("ProxyPass /x fcgi://h retry=-1", "ProxyPass Retry must be a positive value"),
        ("ProxyPass /x fcgi://h connectiontimeout=0", "ProxyPass Connectiontimeout must be at least one millisecond."),
        ("ProxyPass /x fcgi://h connectiontimeout=100ms max=0 min=x", ""),
        ("ProxyPass /x fcgi://h interpolate noquery nocanon", ""),
        ("ProxyPass /x ! a=b", ""),
        (
            "<Location /a>\nProxyPass /x fcgi://h\n</Location>",
            "ProxyPass|ProxyPassMatch can not have a path when defined in a location.",
        ),
        ("<Location /a>\nProxyPass fcgi://h\n</Location>", ""),
        ("<Directory /a>\nProxyPass fcgi://h\n</Directory>", "ProxyPass cannot occur within <Directory> section"),
        ("<Files a>\nProxyPass fcgi://h\n</Files>", "ProxyPass cannot occur within <Files> section"),
        ("ProxyPassMatch ( fcgi://h", "Regular expression could not be compiled."),
        ("ProxyPassMatch ^/x(/.*)?$ fcgi://h:9000$1", ""),
        ("ProxyPassMatch ^/(8[0-9]+)/(.*)$ fcgi://h:$1/$2", ""),
        ("ProxyPass /x fcgi://h:9000$1", "ProxyPass Unable to parse URL: fcgi://h:9000$1"),
        ("<Proxy fcgi://h max>\n</Proxy>", "Invalid Proxy parameter. Parameter must be in the form 'key=value'"),
        ("<Proxy * max=1>\n</Proxy>", "<Proxy> arguments are not supported for wildchar url."),
        ("<Proxy foo max=1>\n</Proxy>", "<Proxy> arguments are not supported for non url."),
        ("<Proxy *>\nRequire all denied\n</Proxy>", ""),
        ("<Proxy \"unix:/run/a.sock|fcgi://php\">\nProxySet connectiontimeout=5 timeout=240\n</Proxy>", ""),
        (
            "<Proxy fcgi://h>\nProxySet max\n</Proxy>",
            "Invalid ProxySet parameter. Parameter must be in the form 'key=value'",
        ),
        ("ProxySet fcgi://h max=1", "ProxySet can not find 'fcgi://h' Worker."),
        ("ProxyPass /x fcgi://h:8000\nProxySet fcgi://h max=1", ""),
        ("ProxyErrorOverride On 404 500", ""),
        ("ProxyPass /x http://h:8080/a retry=0 keepalive=on ping=1", ""),
        ("ProxyPassReverse /x http://h/", ""),
        ("ProxyPassReverse http://h/", "ProxyPassReverse needs a path when not defined in a location"),
        ("<Location /x>\nProxyPassReverse http://h/ interpolate\n</Location>", ""),
        (
            "<Location /x>\nProxyPassReverse /y http://h/\n</Location>",
            "ProxyPassReverse can not have a path when defined in a location",
        ),
        ("ProxyPassReverseCookiePath /a /b interpolate", ""),
        (
            "ProxyErrorOverride On 200",
            "ProxyErrorOverride: status codes to intercept must be valid HTTP Status Codes >=400 && <600",
        ),
        ("ProxyErrorOverride maybe", "ProxyErrorOverride first parameter must be one of: off | on"),
        ("ProxyRemote * h", "ProxyRemote: Bad syntax for a remote proxy server"),
        ("ProxyRemote * http://", "ProxyRemote: Bad syntax for a remote proxy server"),
        ("ProxyRemote * http://h:99999", "ProxyRemote: Bad syntax for a remote proxy server (bad port number)"),
        (
            "ProxyRemote * https://h",
            "ProxyRemote: Tsubame speaks http to remote proxies, and through their tunnels https to servers",
        ),
        (
            "ProxyRemote * http://u:p@h",
            "ProxyRemote: name and password belong into a third argument, username:password",
        ),
        ("ProxyRemote http://x/ http://[::1]:3128/ user:password", ""),
        ("ProxyRemoteMatch ( http://h", "Regular expression for ProxyRemoteMatch could not be compiled."),
        ("ProxyRemoteMatch . h", "ProxyRemoteMatch: Bad syntax for a remote proxy server"),
        ("ProxyDomain foo", "ProxyDomain: domain name must start with a dot."),
        ("ProxySourceAddress 192.0.2.1", ""),
        ("ProxyBlock * word 10.0.0.0/8", ""),
        ("NoProxy .domain.invalid host 10.0.0.0/8 192.168", ""),
        ("AllowCONNECT x", "AllowCONNECT: port numbers must be numeric"),
        ("AllowCONNECT 80 443-", "Cannot parse '' as port number"),
        ("AllowCONNECT 1-1023 8443", ""),
        ("ProxyExpressEnable maybe", "ProxyExpressEnable must be On or Off"),
        ("ProxyExpressEnable On\nProxyExpressDBMFile x\nProxyExpressDBMType DB", ""),
        ("<VirtualHost *>\nProxyExpressEnable On\n</VirtualHost>", ""),
        (
            "<Location /x>\nProxyExpressEnable On\n</Location>",
            "ProxyExpressEnable not allowed here: it is about a whole server",
        ),
        ("ProxyTimeout x", "Proxy Timeout must be at least 1 second."),
        ("ProxyVia maybe", "ProxyVia must be one of: off | on | full | block"),
        ("ProxyStatus maybe", "ProxyStatus must be one of: off | on | full"),
        ("ProxyBadHeader maybe", "ProxyBadHeader must be one of: IsError | Ignore | StartBody"),
        ("ProxyPass /x ajp://h ping=0", "ProxyPass Ping/Pong timeout must be at least one millisecond"),
        ("ProxyPass /x ajp://h ping=x", "ProxyPass Ping/Pong timeout has wrong format"),
        (
            "ProxyPass /x ajp://h iobuffersize=9",
            "ProxyPass IOBufferSize must be >= 512 bytes, or 0 for system default.",
        ),
        ("ProxyIOBufferSize 10", "ProxyIOBufferSize must be >= 512 bytes, or 0 for system default."),
    ]);
}

/// Unsupported features are refused, and never mistaken for something else.
#[test]
fn unsupported_features_are_refused() {
    for scheme in ["h3", "ftp", "nonsense"] {
        let want = format!(
            "Tsubame does not speak {scheme} to backends yet; it speaks ajp, fcgi, http, https, h2c, h2, scgi, uwsgi, ws, wss"
        );
        for line in [
            format!("ProxyPass /x {scheme}://h/"),
            format!("ProxyPassMatch ^/(.*)$ {scheme}://h/$1"),
            format!("ProxyPass /x unix:/run/a.sock|{scheme}://h/"),
            format!("<Location /x>\nProxyPass {scheme}://h/\n</Location>"),
            format!("<Proxy {scheme}://h>\nProxySet timeout=1\n</Proxy>"),
            format!("<Proxy {scheme}://h timeout=1>\n</Proxy>"),
        ] {
            assert_eq!(apply(&line).err(), Some(want.clone()), "{line}");
        }
    }
    let line = "SetHandler proxy:ftp://h/";
    let want = "SetHandler proxy:ftp://h/: Tsubame does not speak ftp to backends yet; it speaks ajp, fcgi, http, https, h2c, h2, scgi, uwsgi, ws, wss";
    assert_eq!(apply(line).err().as_deref(), Some(want));
    assert!(apply("SetHandler \"proxy:unix:/run/php.sock|fcgi://localhost\"").is_ok());
    assert!(apply("<Proxy balancer://b>\nBalancerMember ftp://h\n</Proxy>").is_err());
}
