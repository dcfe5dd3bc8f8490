#!/bin/sh
# What the server tells a script about a request: variables, arguments, working directory.

# Whatever comes from outside is text, never markup.
text() { sed 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g; s/"/\&quot;/g'; }

cat <<'PAGE'
Content-Type: text/html; charset=utf-8

<!doctype html>
<html lang="en">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>What a script is told</title>
<link rel="stylesheet" href="/.tsubame/style.css">
<link rel="icon" href="/.tsubame/icon.svg">
<h1>What a script is told</h1>
<h2>Working directory and arguments</h2>
PAGE
echo "<pre>$(pwd | text)"
printf '%s\n' "$@" | text
echo "</pre>"
echo "<h2>Variables</h2>"
echo "<pre>$(env | sort | text)</pre>"
echo '<p><a href="/">Back</a></p>'
echo "</html>"
