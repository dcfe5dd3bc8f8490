# No strict, no warnings and no lexical variable may be in sight of the texts that are compiled here.
sub Tsubame::Eval::text { eval $_[0] }

# The same, and dies when the text does not compile.
sub Tsubame::Eval::compile { eval( $_[0] ) || ( $@ ne '' && die $@ ) }

1;
