package Apache2::Connection;

# `$r->connection`: the client.

use strict;
use warnings;

sub client_ip   { return $_[0]{request}{remote_ip} }
sub remote_ip   { return $_[0]{request}{remote_ip} }
sub remote_host { return $ENV{REMOTE_HOST} }
sub get_remote_host { return $ENV{REMOTE_HOST} // $_[0]{request}{remote_ip} }
sub remote_logname  { return undef }
sub local_ip    { return $ENV{SERVER_ADDR} }
sub local_host  { return $_[0]{request}{server_name} }
sub id          { return $$ }
sub keepalives  { return 0 }
sub keepalive   { return 0 }
sub aborted     { return $Tsubame::Persistent::gone ? 1 : 0 }
sub user        { return $_[0]{request}{user} }
sub auth_type   { return $_[0]{request}{auth_type} }
sub base_server { return bless { request => $_[0]{request} }, 'Apache2::ServerRec' }
sub pool        { require APR::Pool; return bless {}, 'APR::Pool' }
sub notes       { return $_[0]{notes} ||= APR::Table::make() }
sub client_addr { return bless { address => $_[0]{request}{remote_ip}, port => $ENV{REMOTE_PORT} }, 'APR::SockAddr' }
sub local_addr  { return bless { address => $ENV{SERVER_ADDR}, port => $ENV{SERVER_PORT} }, 'APR::SockAddr' }
{
    no warnings 'once';
    *remote_addr = \&client_addr;
}

package APR::SockAddr;

sub ip_get { return $_[0]{address} }
sub port   { return $_[0]{port} }

1;
