# `$r` and what belongs to it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Driver qw(runtime script site slurp);
use Test::More;

my $runtime = runtime('persistent');
my $counter = 0;

# The answer of a handler, given as the body of a sub; the header is made through $r.
sub handler {
    my ( $text, %o ) = @_;
    return $runtime->ask( handler => "sub { my \$r = shift; $text }", parse_headers => 0, %o );
}

# The same of a Registry script that prints its header.
sub registry {
    my ( $text, %o ) = @_;
    return $runtime->ask( file => script( 'r' . $counter++ . '.pl', $text ), %o );
}

# Header
my $answer = handler('$r->content_type("text/html"); $r->headers_out->{"X-One"} = 1; $r->headers_out->add("Set-Cookie" => $_) for qw(a b); $r->err_headers_out->set(X => "e"); print "body"; 0');
is( $answer->{out}, "Status: 200 OK\r\nContent-Type: text/html\r\nX: e\r\nX-One: 1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\nbody", 'a header' );
is( $answer->{frames}, 2, 'goes out with the body' );
is( handler('$r->status(404); $r->content_type("text/plain"); print "not here"; 0')->{out}, "Status: 404 Not Found\r\nContent-Type: text/plain\r\n\r\nnot here", 'a status with a page of the handler' );
is( handler('$r->status_line("299 Odd"); print "x"; 0')->{out}, "Status: 299 Odd\r\n\r\nx", 'a status line' );
is( handler('$r->headers_out->set("X" => "a\r\nInjected: 1"); print "x"; 0')->{out}, "Status: 200 OK\r\nX: a  Injected: 1\r\n\r\nx", 'a field cannot smuggle another one in' );
is( handler('0')->{out}, "Status: 200 OK\r\n\r\n", 'nothing at all' );
is( registry('1;')->{out}, "Status: 200 OK\r\n\r\n", 'a script that prints nothing' );
is( registry('my $r = shift; $r->status(404); print "Content-Type: text/plain\n\nmy page";')->{out}, "Status: 404 Not Found\r\nContent-Type: text/plain\n\nmy page", 'a status and a page' );
$answer = handler('$r->headers_out->set(Location => "http://elsewhere/"); 302');
is( $answer->{out}, "Status: 302 Found\r\nLocation: http://elsewhere/\r\n\r\n", 'a redirect' );
is( $answer->{end}{http}, 302, 'its status' );
$answer = handler('print "thrown away"; $r->headers_out->set(X => 1); $r->err_headers_out->set("WWW-Authenticate" => "Basic"); 401');
is( $answer->{out}, "Status: 401 Unauthorized\r\nWWW-Authenticate: Basic\r\n\r\n", 'an error keeps err_headers_out alone' );
is( $answer->{end}{http}, 401, 'its status' );
$answer = handler('-1');
is( $answer->{end}{http}, -1, 'DECLINED' );
is( $answer->{out}, "Status: 404 Not Found\r\n\r\n", 'which nobody answers' );
is( handler('print "x"; -2')->{end}{http}, undef, 'DONE' );
is( handler('500')->{end}{error}, 'the handler returned 500', 'SERVER_ERROR' );
is( handler('$r->no_cache(1); print "x"; 0')->{out}, "Status: 200 OK\r\nPragma: no-cache\r\nCache-Control: no-cache\r\n\r\nx", 'no_cache' );
$answer = handler('$r->content_type("text/plain"); print "a"; $r->rflush; print "b"; 0');
is( $answer->{out}, "Status: 200 OK\r\nContent-Type: text/plain\r\n\r\nab", 'rflush' );
is( $answer->{frames}, 3, 'sends at once' );

# Registry scripts: header printed or made
is( registry('print "Content-Type: text/plain\n\nx";')->{out}, "Content-Type: text/plain\n\nx", 'a printed header' );
is( registry('my $r = shift; $r->headers_out->set(X => 1); print "Content-Type: text/plain\n\nx";')->{out}, "X: 1\r\nContent-Type: text/plain\n\nx", 'and a field set through $r' );
is( registry('my $r = shift; $r->content_type("text/plain"); print "x";')->{out}, "Status: 200 OK\r\nContent-Type: text/plain\r\n\r\nx", 'content_type' );
is( registry('my $r = shift; $r->send_cgi_header("Status: 201 Made\nContent-Type: text/plain\nX: 1\n\nb"); print "x";')->{out}, "Status: 201 Made\r\nContent-Type: text/plain\r\nX: 1\r\n\r\nbx", 'send_cgi_header' );
is( registry('use Apache2::compat; my $r = shift; $r->header_out(X => 2); $r->send_http_header("text/plain"); $r->print("x", $r->header_in("User-Agent"));', list => { header => ['User-Agent: test'] } )->{out}, "Status: 200 OK\r\nContent-Type: text/plain\r\nX: 2\r\n\r\nxtest", 'as mod_perl 1 did' );
$answer = registry('my $r = shift; $r->status(404);');
is( $answer->{end}{http}, 404, '$r->status of a script is what it returns' );
is( $answer->{out}, "Status: 404 Not Found\r\n\r\n", 'and the page is the server\'s' );
is( registry('my $r = shift; $r->internal_redirect("/other?x");')->{out}, "Location: /other?x\r\n\r\n", 'internal_redirect' );
$answer = registry('my $r = shift; $r->custom_response(500, "my page"); die "why\n";');
is( $answer->{out}, "Status: 500 Internal Server Error\r\nContent-Type: text/html\r\n\r\nmy page", 'custom_response' );
is( $answer->{end}{error}, undef, 'is the answer' );
is_deeply( $answer->{log}, [ [ 'error', 'why' ] ], 'and the reason is logged' );
is( registry('my $r = shift; $r->custom_response(403, "/forbidden.html"); $r->status(403);')->{out}, "Location: /forbidden.html\r\n\r\n", 'custom_response with a path' );

# The request
my %list = ( list => { header => [ 'Host: h', 'X-Twice: 1', 'x-twice: 2', 'Authorization: Basic dXNlcjpwdw==' ], var => [ 'Size=big', 'Color=red', 'Color=blue=ish' ], user => ['joe'], auth_type => ['Basic'], document_root => ['/www'] } );
sub value { my ( $code, %o ) = @_; my $got = handler( "print join '|', map { defined \$_ ? \$_ : 'undef' } ($code); 0", %list, %o )->{out}; return $got =~ /\r\n\r\n(.*)/s ? $1 : "[$got]" }
is( value( '$r->method, $r->uri, scalar $r->args, $r->protocol, $r->the_request', query => 'a=1', method => 'POST', body => 'x' ), 'POST|/handler|a=1|HTTP/1.1|POST /handler?a=1 HTTP/1.1', 'the request' );
is( value('$r->header_only, $r->method_number, $r->proto_num'), '0|0|1001', 'numbers' );
is( value( '$r->header_only', method => 'HEAD' ), '1', 'HEAD' );
is( value('$r->headers_in->{host}, $r->headers_in->get("X-TWICE"), scalar $r->headers_in->get("x-twice"), $r->headers_in->{None}'), 'h|1|2|1|undef', 'headers_in' );
is( value('$r->dir_config("Size"), $r->dir_config("none"), scalar $r->dir_config("Color"), $r->dir_config->get("Color")'), 'big|undef|red|red|blue=ish', 'dir_config' );
is( value('$r->user, $r->ap_auth_type, $r->document_root, $r->get_server_name, $r->get_server_port, $r->hostname'), 'joe|Basic|/www|localhost|80|localhost', 'user and server' );
is( value('$r->get_basic_auth_pw'), '0|pw', 'get_basic_auth_pw' );
is( value('$r->connection->client_ip, $r->connection->remote_ip, $r->server->server_hostname, $r->server->port, $r->server->server_admin'), '127.0.0.1|127.0.0.1|localhost|80|you@localhost', 'connection and server' );
is( value('$r->notes->set(a => 1), $r->notes->get("a"), $r->pnotes(x => [1, 2]), $r->pnotes("x")->[1], $r->pnotes->{x}[0]') =~ s/ARRAY\(\w+\)/A/r, '1|A|2|1', 'notes and pnotes' );
is( value('Apache2::RequestUtil->request == $r, ref $r'), '1|Apache2::RequestRec', 'the current request' );
is( value( '$r->subprocess_env("X_ENV"), $r->subprocess_env->{X_ENV}', environment => { X_ENV => 'e' } ), 'e|e', 'subprocess_env' );
is( value('$r->construct_url("/x"), $r->bytes_sent, ref $r->pool, $r->is_initial_req'), 'http://localhost/x|0|APR::Pool|1', 'more' ) if eval { 1 } && do { handler('require Apache2::URI; 0'); 1 };
my $file = script( 'finfo.txt', 'content' );
is( value( '$r->filename, $r->finfo->size, ${ $r->slurp_filename }', file => $file ), "$file|7|content", 'filename, finfo, slurp_filename' );
is( handler( "\$r->content_type('text/plain'); \$r->sendfile('$file'); \$r->sendfile('$file', 3, 2); 0" )->{out}, "Status: 200 OK\r\nContent-Type: text/plain\r\n\r\ncontentte", 'sendfile' );
is( value( 'do { my $b = "xx"; ($r->read($b, 3, 2), $b) }, do { my $b; ($r->read($b, 100), $b) }', method => 'POST', body => 'abcdef' ), '3|xxabc|3|def', 'read' );
is( value( '$r->discard_request_body, scalar <STDIN>', method => 'POST', body => 'abc' ), '0|undef', 'discard_request_body' );
is( value('$r->puts("p"), $r->printf("%02d", 3), $r->write("abcdef", 2, 1)'), 'p03bc1|2|2', 'puts, printf, write' );

# Log
$answer = handler('$r->log_error("one ", "two"); $r->warn("w"); $r->log->info("i"); $r->log->debug(sub { "d" }); $r->server->log_error("s"); Apache2::ServerRec::warn("f"); print "x"; 0');
is_deeply( $answer->{log}, [ [ 'error', 'one two' ], [ 'warn', 'w' ], [ 'info', 'i' ], [ 'debug', 'd' ], [ 'error', 's' ], [ 'warn', 'f' ] ], 'the log' );

# Clean-up
my $mark = site() . '/cleaned';
is( handler("\$r->push_handlers(PerlCleanupHandler => sub { open my \$f, '>>', '$mark'; print \$f 'handler ', ref shift }); \$r->pool->cleanup_register(sub { open my \$f, '>>', '$mark'; print \$f \" pool \@_\" }, 'a', 'b'); print 'x'; 0")->{out}, "Status: 200 OK\r\n\r\nx", 'a request with clean-ups' );
is( slurp($mark), 'handler Apache2::RequestRec pool a b', 'they ran' );

# Constants and exit
is( value('do { package A; Apache2::Const->import(qw(OK :common M_POST)); (OK(), NOT_FOUND(), M_POST()) }, do { package B; Apache2::Const->import(-compile => qw(OK)); defined &B::OK ? "exported" : "compiled" }, Apache2::Const::REDIRECT'), '0|404|2|compiled|302', 'Apache2::Const' );
like( handler('Apache2::Const->import("NO_SUCH"); 0')->{end}{error}, qr/Apache2::Const has no constant NO_SUCH/, 'a constant that is not there' );
is( value('do { require ModPerl::Const; ModPerl::EXIT() }'), '120000', 'ModPerl::EXIT' );
is( handler('print "x"; ModPerl::Util::exit(); print "y"; 0')->{out}, "Status: 200 OK\r\n\r\nx", 'ModPerl::Util::exit' );
is( registry('use Apache::Constants qw(:common); print "Content-Type: text/plain\n\n", OK, NOT_FOUND; Apache->request->exit; print "y"')->{out}, "Content-Type: text/plain\n\n0404", 'Apache::Constants' );

# What cannot be had
like( handler('$r->lookup_uri("/x"); 0')->{end}{error}, qr/\$r->lookup_uri is not available here: a backend cannot ask/, 'lookup_uri' );
like( handler('$r->add_output_filter(1); 0')->{end}{error}, qr/\$r->add_output_filter is not available here/, 'a filter' );
is( value('do { require Apache2::RequestRec; $INC{"Apache2/RequestRec.pm"} }, do { require APR::Table; $INC{"APR/Table.pm"} }'), 'tsubame/Apache2/RequestRec.pm|tsubame/APR/Table.pm', 'the modules are our own' );
is( value('grep { m{^(?:Apache2?|APR|ModPerl)\b} && $INC{$_} !~ /^tsubame/ } sort keys %INC'), '', 'all of them' );
script( 'lib/Apache2/Log.pm', 'die "the wrong one"' );
is( value("do { unshift \@INC, '" . site() . "/lib'; require Apache2::Log; 'ours' }"), 'ours', 'whatever else is in @INC' );

# Conditions
my $conditions = 'require Apache2::Util; $r->headers_out->set("Last-Modified" => Apache2::Util::http_time(1_000_000_000)); $r->headers_out->set(ETag => q{"e"}); print "x" if !(my $rc = $r->meets_conditions); $rc';
is( handler($conditions)->{end}{http}, undef, 'no conditions' );
for ( [ 'If-None-Match: "e"', 304 ], [ 'If-None-Match: "f"', undef ], [ 'If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT', 304 ], [ 'If-Modified-Since: Sun, 09 Sep 2001 01:46:39 GMT', undef ], [ 'If-Match: "f"', 412 ], [ 'If-Unmodified-Since: Sun, 09 Sep 2001 01:46:39 GMT', 412 ] ) {
    is( handler( $conditions, list => { header => [ $_->[0] ] } )->{end}{http}, $_->[1], $_->[0] );
}

is( $runtime->stop, 0, 'the end' );
is( $runtime->complaints, '', 'nothing was said' );
done_testing;
