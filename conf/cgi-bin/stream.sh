#!/bin/sh
# What a script writes goes out at once; the server waits for the rest.
echo "Content-Type: text/plain; charset=utf-8"
echo
for second in 1 2 3 4 5; do
    echo "second $second"
    sleep 1
done
echo "That was all."
