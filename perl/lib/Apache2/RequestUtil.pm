package Apache2::RequestUtil;

# The current request, its configuration, notes of Perl values and what runs after it.

use strict;
use warnings;

sub request {
    my ( undef, @new ) = @_;
    $Tsubame::ModPerl::current = $new[0] if @new;
    return $Tsubame::ModPerl::current || die "there is no request at the moment\n";
}

package Apache2::RequestRec;

# With a name: PerlSetVar's value, the first one of PerlAddVar's. Without: all of them as a table.
sub dir_config {
    my ( $r, @arguments ) = @_;
    my $table = $r->{dir_config} ||= do {
        my $made = APR::Table::make();
        $made->add( split /=/, $_, 2 ) for Tsubame::Persistent::repeated( $r->{request}, 'var' );
        $made;
    };
    return $table if !@arguments;
    return $table->set(@arguments) if @arguments > 1;
    return scalar $table->get( $arguments[0] );
}

sub pnotes {
    my ( $r, @arguments ) = @_;
    my $notes = $r->{pnotes} ||= {};
    return $notes if !@arguments;
    my $old = $notes->{ $arguments[0] };
    $notes->{ $arguments[0] } = $arguments[1] if @arguments > 1;
    return @arguments > 1 ? $arguments[1] : $old;
}

# Only handlers of the clean-up phase can still be added: the others are over.
sub push_handlers {
    my ( $r, $phase, $handlers ) = @_;
    die "\$r->push_handlers($phase): only PerlCleanupHandler can be added while the response is made\n" if $phase ne 'PerlCleanupHandler';
    push @{ $r->{cleanups} }, ref $handlers eq 'ARRAY' ? @$handlers : $handlers;
    return 1;
}

sub set_handlers {
    my ( $r, $phase, $handlers ) = @_;
    delete $r->{cleanups} if $phase eq 'PerlCleanupHandler';
    return defined $handlers ? $r->push_handlers( $phase, $handlers ) : 1;
}

sub get_handlers {
    my ( $r, $phase ) = @_;
    return $phase eq 'PerlCleanupHandler' ? [ @{ $r->{cleanups} || [] } ] : [];
}

# What push_handlers collected, as calls with the request.
sub take_cleanups {
    my ($r) = @_;
    return if !$r->{cleanups};
    return map { [ ref $_ eq 'CODE' ? $_ : Tsubame::ModPerl::handler($_), $r ] } @{ delete $r->{cleanups} };
}

sub slurp_filename {
    my ($r) = @_;
    my $text = Tsubame::Classes::slurp( $r->filename );
    if ( !defined $text ) {
        require APR::Error;
        APR::Error->throw( $!, 'slurp_filename' );
    }
    return \$text;
}

sub as_string {
    my ($r) = @_;
    my $text = $r->the_request . "\n";
    $r->headers_in->do( sub { $text .= "$_[0]: $_[1]\n"; 1 } );
    $text .= "\n" . $r->protocol . ' ' . $r->status_text . "\n";
    $r->headers_out->do( sub { $text .= "$_[0]: $_[1]\n"; 1 } );
    return "$text\n";
}

sub get_server_name    { my ($r) = @_; my $name = $r->{request}{server_name}; return defined $name ? $name : 'localhost' }
sub get_server_port    { return $_[0]{request}{port} || 80 }
sub document_root      { return $_[0]{request}{document_root} }
sub default_type       { return 'text/plain' }
sub location           { my $path = $_[0]{request}{location}; return defined $path && length $path ? $path : undef }
sub is_perl_option_enabled {
    my ( $r, $option ) = @_;
    return $r->{request}{parse_headers} ? 1 : 0 if $option eq 'ParseHeaders';
    return $option =~ /\A(?:SetupEnv|GlobalRequest)\z/ ? 1 : 0;
}
sub child_terminate { $Tsubame::Persistent::last = 1; return }
sub no_op           { return }

1;
