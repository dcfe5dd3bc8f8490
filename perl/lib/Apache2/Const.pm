package Apache2::Const;

# Apache's constants, by name and by group: `use Apache2::Const -compile => qw(OK :http);` makes Apache2::Const::OK, without
# -compile they are exported.

use strict;
use warnings;

our %GROUPS = (
    common => {
        OK => 0, DECLINED => -1, DONE => -2, NOT_FOUND => 404, FORBIDDEN => 403, AUTH_REQUIRED => 401, SERVER_ERROR => 500,
        REDIRECT => 302,
    },
    http => {
        HTTP_CONTINUE => 100, HTTP_SWITCHING_PROTOCOLS => 101, HTTP_PROCESSING => 102, HTTP_OK => 200, HTTP_CREATED => 201,
        HTTP_ACCEPTED => 202, HTTP_NON_AUTHORITATIVE => 203, HTTP_NO_CONTENT => 204, HTTP_RESET_CONTENT => 205,
        HTTP_PARTIAL_CONTENT => 206, HTTP_MULTI_STATUS => 207, HTTP_MULTIPLE_CHOICES => 300, HTTP_MOVED_PERMANENTLY => 301,
        HTTP_MOVED_TEMPORARILY => 302, HTTP_SEE_OTHER => 303, HTTP_NOT_MODIFIED => 304, HTTP_USE_PROXY => 305,
        HTTP_TEMPORARY_REDIRECT => 307, HTTP_BAD_REQUEST => 400, HTTP_UNAUTHORIZED => 401, HTTP_PAYMENT_REQUIRED => 402,
        HTTP_FORBIDDEN => 403, HTTP_NOT_FOUND => 404, HTTP_METHOD_NOT_ALLOWED => 405, HTTP_NOT_ACCEPTABLE => 406,
        HTTP_PROXY_AUTHENTICATION_REQUIRED => 407, HTTP_REQUEST_TIME_OUT => 408, HTTP_CONFLICT => 409, HTTP_GONE => 410,
        HTTP_LENGTH_REQUIRED => 411, HTTP_PRECONDITION_FAILED => 412, HTTP_REQUEST_ENTITY_TOO_LARGE => 413,
        HTTP_REQUEST_URI_TOO_LARGE => 414, HTTP_UNSUPPORTED_MEDIA_TYPE => 415, HTTP_RANGE_NOT_SATISFIABLE => 416,
        HTTP_EXPECTATION_FAILED => 417, HTTP_UNPROCESSABLE_ENTITY => 422, HTTP_LOCKED => 423, HTTP_FAILED_DEPENDENCY => 424,
        HTTP_UPGRADE_REQUIRED => 426, HTTP_INTERNAL_SERVER_ERROR => 500, HTTP_NOT_IMPLEMENTED => 501, HTTP_BAD_GATEWAY => 502,
        HTTP_SERVICE_UNAVAILABLE => 503, HTTP_GATEWAY_TIME_OUT => 504, HTTP_VARIANT_ALSO_VARIES => 506,
        HTTP_INSUFFICIENT_STORAGE => 507, HTTP_NOT_EXTENDED => 510,
    },
    methods => {
        M_GET => 0, M_PUT => 1, M_POST => 2, M_DELETE => 3, M_CONNECT => 4, M_OPTIONS => 5, M_TRACE => 6, M_PATCH => 7,
        M_PROPFIND => 8, M_PROPPATCH => 9, M_MKCOL => 10, M_COPY => 11, M_MOVE => 12, M_LOCK => 13, M_UNLOCK => 14, M_INVALID => 26,
    },
    options => {
        OPT_NONE => 0, OPT_INDEXES => 1, OPT_INCLUDES => 2, OPT_SYM_LINKS => 4, OPT_EXECCGI => 8, OPT_UNSET => 16,
        OPT_INCNOEXEC => 32, OPT_SYM_OWNER => 64, OPT_MULTI => 128, OPT_ALL => 15,
    },
    satisfy  => { SATISFY_ALL => 0, SATISFY_ANY => 1, SATISFY_NOSPEC => 2 },
    remotehost => { REMOTE_HOST => 0, REMOTE_NAME => 1, REMOTE_NOLOOKUP => 2, REMOTE_DOUBLE_REV => 3 },
    types    => { DIR_MAGIC_TYPE => 'httpd/unix-directory' },
    log      => {
        LOG_EMERG => 0, LOG_ALERT => 1, LOG_CRIT => 2, LOG_ERR => 3, LOG_WARNING => 4, LOG_NOTICE => 5, LOG_INFO => 6,
        LOG_DEBUG => 7, LOG_LEVELMASK => 15, LOG_TOCLIENT => 8192, LOG_STARTUP => 16384,
    },
    conn_keepalive => { CONN_UNKNOWN => 0, CONN_CLOSE => 1, CONN_KEEPALIVE => 2 },
    platform       => { CRLF => "\015\012", CR => "\015", LF => "\012" },
    context        => { NOT_IN_VIRTUALHOST => 1, GLOBAL_ONLY => 31 },
    config         => { DECLINE_CMD => "\a\b" },
    input_mode     => { MODE_READBYTES => 0, MODE_GETLINE => 1, MODE_EATCRLF => 2, MODE_SPECULATIVE => 3, MODE_EXHAUSTIVE => 4, MODE_INIT => 5 },
);
our %VALUES = map { %$_ } values %GROUPS;

# Everything can be named with the package in front, whether it was asked for or not.
for my $name ( keys %VALUES ) {
    no strict 'refs';
    my $value = $VALUES{$name};
    *$name = sub () { $value };
}

sub import {
    my ( $class, @names ) = @_;
    return if @names && $names[0] =~ /\A-?compile\z/ && shift @names && ( checked( $class, @names ) || 1 );
    my $caller = caller;
    no strict 'refs';
    *{"${caller}::$_"} = \&{"${class}::$_"} for checked( $class, @names );
}

# The names that a list of names and groups stands for.
sub checked {
    my ( $class, @names ) = @_;
    no strict 'refs';
    my ( $groups, $values ) = ( \%{"${class}::GROUPS"}, \%{"${class}::VALUES"} );
    return map {
        my $name = $_;
        if    ( $name =~ s/\A:// ) { $groups->{$name} ? keys %{ $groups->{$name} } : die "$class has no group :$name\n" }
        elsif ( exists $values->{$name} ) { $name }
        else                              { die "$class has no constant $name\n" }
    } @names;
}

1;
