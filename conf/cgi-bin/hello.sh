#!/bin/sh
# A script writes a header, an empty line, and what it has to say.
echo "Content-Type: text/plain; charset=utf-8"
echo
echo "Hello from process $$, started for this request."
date
