#!/bin/sh
# What the server tells a script about a request: variables, arguments, working directory.
echo "Content-Type: text/plain; charset=utf-8"
echo
echo "working directory: $(pwd)"
echo "arguments:         $#"
for argument in "$@"; do
    printf '                   %s\n' "$argument"
done
echo
env | sort
