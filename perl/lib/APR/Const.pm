package APR::Const;

# Constants of the portable runtime.

use strict;
use warnings;
use Errno ();
use Apache2::Const ();

our %GROUPS = (
    common => { SUCCESS => 0 },
    error  => {
        EACCES => Errno::EACCES(), EAGAIN => Errno::EAGAIN(), EEXIST => Errno::EEXIST(), EINTR => Errno::EINTR(),
        EINVAL => Errno::EINVAL(), ENOENT => Errno::ENOENT(), ENOTDIR => Errno::ENOTDIR(), EPIPE => Errno::EPIPE(),
        ECONNABORTED => Errno::ECONNABORTED(), ECONNRESET => Errno::ECONNRESET(), ETIMEDOUT => Errno::ETIMEDOUT(), EOF => 70014, TIMEUP => 70007,
    },
    filetype => {
        FILETYPE_NOFILE => 0, FILETYPE_REG => 1, FILETYPE_DIR => 2, FILETYPE_CHR => 3, FILETYPE_BLK => 4, FILETYPE_PIPE => 5,
        FILETYPE_LNK => 6, FILETYPE_SOCK => 7, FILETYPE_UNKFILE => 127,
    },
    finfo => { FINFO_NORM => 0x73170, FINFO_MTIME => 16, FINFO_SIZE => 256, FINFO_TYPE => 32768 },
    table => { OVERLAP_TABLES_SET => 0, OVERLAP_TABLES_MERGE => 1 },
);
our %VALUES = map { %$_ } values %GROUPS;

for my $name ( keys %VALUES ) {
    no strict 'refs';
    my $value = $VALUES{$name};
    *$name = sub () { $value };
}

{
    no warnings 'once';
    *import = \&Apache2::Const::import;
}

1;
