<?php
// A small page as people write them: it looks at a variable, makes a table and escapes what it shows.
$who = isset($_GET['who']) ? $_GET['who'] : 'world';
$rows = [];
for ($number = 1; $number <= 20; $number++) {
    $rows[] = ['number' => $number, 'digest' => substr(md5("$who $number"), 0, 8)];
}
echo '<html><head><title>', htmlspecialchars($who), "</title></head><body>\n<table>\n";
foreach ($rows as $row) {
    echo '<tr><td>', $row['number'], '</td><td>', htmlspecialchars($row['digest']), "</td></tr>\n";
}
echo "</table>\n<p>", htmlspecialchars(json_encode([$rows[0]])), '</p><p>', array_sum(array_column($rows, 'number'));
echo "</p></body></html>\n";
