package Tsubame::Carp;

# CGI::Carp's fatalsToBrowser keeps silent inside of `eval`, and a persistent interpreter runs every script inside of one. So it is
# taught the difference when it is loaded.

use strict;
use warnings;

# What the hook in @INC returns for CGI/Carp.pm: a line in front of the module's own text.
sub load {
    for my $directory ( grep { !ref } @INC ) {
        my $file = "$directory/CGI/Carp.pm";
        next if !-f $file;
        open my $handle, '<', $file or next;
        $INC{'CGI/Carp.pm'} = $file;
        my $prefix = qq{UNITCHECK { Tsubame::Carp::adjust() }\n#line 1 "$file"\n};
        return ( \$prefix, $handle );
    }
    return;
}

sub adjust {
    no warnings 'redefine';
    no strict 'refs';
    *{'CGI::Carp::ineval'} = \&in_eval if defined &{'CGI::Carp::ineval'};
}

# Whether code of the script's own is being run by an eval of its own.
sub in_eval {
    my ( $level, $before ) = ( 0, '' );
    while ( my ( undef, $file, undef, $name, undef, undef, undef, $required ) = caller $level++ ) {
        # BEGIN blocks are run by an eval of perl's.
        if ( $name eq '(eval)' && !$required && $before !~ /::BEGIN\z/ ) {
            return $file !~ m{\Atsubame/};
        }
        $before = $name;
    }
    return 0;
}

1;
