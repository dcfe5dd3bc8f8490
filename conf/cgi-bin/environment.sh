#!/bin/sh
# Shows what a script learns about its request: variables, arguments, working directory.

# Values from outside are text, never markup.
text() { sed 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g; s/"/\&quot;/g'; }

cat <<'PAGE'
Content-Type: text/html; charset=utf-8

<!doctype html>
<html lang="en">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The environment of a script</title>
<link rel="stylesheet" href="/.tsubame/style.css">
<link rel="icon" href="/.tsubame/icon.svg">
<h1>The environment of a script</h1>
<h2>Working directory and arguments</h2>
PAGE
echo "<pre>$({ pwd; printf '%s\n' "$@"; } | text)</pre>"
echo "<h2>Variables</h2>"
echo "<pre>$(env | sort | text)</pre>"
echo '<p><a href="/">Back</a></p>'
echo "</html>"
