package APR::Finfo;

# `$r->finfo`: what stat says about the script.

use strict;
use warnings;

sub of {
    my ( $class, $file ) = @_;
    my @stat = stat $file;
    return bless { name => $file, stat => \@stat, type => !@stat ? 0 : -f _ ? 1 : -d _ ? 2 : 7 }, $class;
}

sub stat       { my ( $file, undef ) = @_; return __PACKAGE__->of($file) }
sub filetype   { return $_[0]{type} }
sub fname      { return $_[0]{name} }
sub name       { return ( $_[0]{name} =~ m{([^/]*)\z} )[0] }
sub device     { return $_[0]{stat}[0] }
sub inode      { return $_[0]{stat}[1] }
sub protection { return $_[0]{stat}[2] & 07777 }
sub nlink      { return $_[0]{stat}[3] }
sub user       { return $_[0]{stat}[4] }
sub group      { return $_[0]{stat}[5] }
sub size       { return $_[0]{stat}[7] }
sub csize      { return $_[0]{stat}[7] }
sub atime      { return $_[0]{stat}[8] }
sub mtime      { return $_[0]{stat}[9] }
sub ctime      { return $_[0]{stat}[10] }

1;
