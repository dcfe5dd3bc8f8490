#!/bin/sh
# The server sends each line as soon as the script has written it.
cat <<'PAGE'
Content-Type: text/html; charset=utf-8

<!doctype html>
<html lang="en">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>A slow answer</title>
<link rel="stylesheet" href="/.tsubame/style.css">
<link rel="icon" href="/.tsubame/icon.svg">
<h1>A slow answer</h1>
PAGE
for second in 1 2 3 4 5; do
    echo "<p>Second $second</p>"
    sleep 1
done
echo '<p>That was all. <a href="/">Back</a></p>'
echo "</html>"
