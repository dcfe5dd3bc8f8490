package APR::Table;

# Tables of header fields and the like: names of any case, several values for a name, usable as an object and as a hash.

use strict;
use warnings;

# The hash itself is tied to the entries: a list of [name, value].
# `make($pool, $size)` in mod_perl; both are of no use here.
sub make {
    tie my %table, 'APR::Table::Entries';
    return bless \%table, __PACKAGE__;
}

sub entries { return tied( %{ $_[0] } )->{entries} }

# All values of a name, the first one in scalar context.
sub get {
    my ( $table, $name ) = @_;
    $name = lc $name;
    my @values = map { $_->[1] } grep { lc $_->[0] eq $name } @{ $table->entries };
    return wantarray ? @values : $values[0];
}

sub set {
    my ( $table, $name, $value ) = @_;
    my ($first) = grep { lc $_->[0] eq lc $name } @{ $table->entries };
    return $table->add( $name, $value ) if !$first;
    my $lower = lc $name;
    @{ $table->entries } = grep { $_ == $first || lc $_->[0] ne $lower } @{ $table->entries };
    @$first = ( $name, defined $value ? "$value" : '' );
    return;
}

sub add {
    my ( $table, $name, $value ) = @_;
    my @values = ref $value eq 'ARRAY' ? @$value : $value;
    push @{ $table->entries }, map { [ $name, defined $_ ? "$_" : '' ] } @values;
    return;
}

# Joins the value to the one that is there.
sub merge {
    my ( $table, $name, $value ) = @_;
    my ($first) = grep { lc $_->[0] eq lc $name } @{ $table->entries };
    return $table->add( $name, $value ) if !$first;
    $first->[1] .= ", $value";
    return;
}

sub unset {
    my ( $table, $name ) = @_;
    @{ $table->entries } = grep { lc $_->[0] ne lc $name } @{ $table->entries };
    return;
}

sub clear { @{ $_[0]->entries } = (); return }

sub copy {
    my ($table) = @_;
    my $copy = make();
    $copy->add(@$_) for @{ $table->entries };
    return $copy;
}

# A new table: this one's entries behind the other's.
sub overlay {
    my ( $table, $over ) = @_;
    my $new = make();
    $new->add(@$_) for @{ $over->entries }, @{ $table->entries };
    return $new;
}

# Moves the other table's entries in: flags as in APR::Const, 0 replaces and 1 merges.
sub overlap {
    my ( $table, $other, $flags ) = @_;
    for my $entry ( @{ $other->entries } ) {
        $flags ? $table->merge(@$entry) : $table->set(@$entry);
    }
    return;
}

sub compress {
    my ( $table, $flags ) = @_;
    my @entries = splice @{ $table->entries };
    for my $entry (@entries) {
        $flags ? $table->merge(@$entry) : $table->set(@$entry);
    }
    return;
}

# Calls $code with each name and value, only of the given names if there are any, until it returns false.
sub do {
    my ( $table, $code, @names ) = @_;
    my %wanted = map { ( lc, 1 ) } @names;
    for my $entry ( @{ $table->entries } ) {
        next if %wanted && !$wanted{ lc $entry->[0] };
        $code->(@$entry) or last;
    }
    return 1;
}

sub unescape {
    my ($text) = @_;
    $text =~ tr/+/ /;
    $text =~ s/%([0-9A-Fa-f]{2})/chr hex $1/ge;
    return $text;
}

package APR::Table::Entries;

sub TIEHASH { return bless { entries => [], next => 0 }, $_[0] }

# While a loop over `each` is at an entry of that name, it is the one that is meant.
sub FETCH {
    my ( $self, $name ) = @_;
    $name = lc $name;
    my $at = $self->{next} ? $self->{entries}[ $self->{next} - 1 ] : undef;
    return $at->[1] if $at && lc $at->[0] eq $name;
    for my $entry ( @{ $self->{entries} } ) {
        return $entry->[1] if lc $entry->[0] eq $name;
    }
    return undef;
}

sub STORE {
    my ( $self, $name, $value ) = @_;
    my ( $lower, $done ) = lc $name;
    $value = defined $value ? "$value" : '';
    @{ $self->{entries} } = grep { lc $_->[0] ne $lower || !$done++ } @{ $self->{entries} };
    for my $entry ( @{ $self->{entries} } ) {
        if ( lc $entry->[0] eq $lower ) { @$entry = ( $name, $value ); return }
    }
    push @{ $self->{entries} }, [ $name, $value ];
}

sub DELETE {
    my ( $self, $name ) = @_;
    my ($old) = map { $_->[1] } grep { lc $_->[0] eq lc $name } @{ $self->{entries} };
    @{ $self->{entries} } = grep { lc $_->[0] ne lc $name } @{ $self->{entries} };
    return $old;
}

sub EXISTS {
    my ( $self, $name ) = @_;
    return scalar grep { lc $_->[0] eq lc $name } @{ $self->{entries} };
}

sub CLEAR    { my ($self) = @_; $self->{entries} = []; $self->{next} = 0 }
sub FIRSTKEY { my ($self) = @_; $self->{next} = 0; return $self->NEXTKEY }

sub NEXTKEY {
    my ($self) = @_;
    if ( $self->{next} >= @{ $self->{entries} } ) { $self->{next} = 0; return undef }
    return $self->{entries}[ $self->{next}++ ][0];
}

sub SCALAR { return scalar @{ $_[0]{entries} } }

1;
