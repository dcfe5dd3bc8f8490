#!/bin/sh
# A script writes a header, an empty line, and a page.
cat <<PAGE
Content-Type: text/html; charset=utf-8

<!doctype html>
<html lang="en">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>A first script</title>
<link rel="stylesheet" href="/.tsubame/style.css">
<link rel="icon" href="/.tsubame/icon.svg">
<h1>Hello from process $$</h1>
<p>It was started for this request: $(date).</p>
<p><a href="/">Back</a></p>
</html>
PAGE
