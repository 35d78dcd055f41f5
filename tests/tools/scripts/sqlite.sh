# Two writers and a reader on one database in WAL mode, then a checkpoint.
sqlite3 base.db 'PRAGMA journal_mode=WAL; CREATE TABLE t(who TEXT, n INTEGER, PRIMARY KEY(who, n));'
writer() {
    {
        echo '.timeout 60000'
        n=0
        while [ "$n" -lt 300 ]; do
            echo "BEGIN IMMEDIATE; INSERT INTO t VALUES('$1', $n); COMMIT;"
            n=$((n + 1))
        done
    } | sqlite3 -bail base.db
}
writer a & first=$!
writer b & second=$!
# Rows of a writer are seen in order and without a gap, whenever one looks.
gaps=0
look() {
    sqlite3 -cmd '.timeout 60000' base.db 'SELECT count(*) FROM (SELECT who FROM t GROUP BY who HAVING max(n) + 1 <> count(*));'
}
for _ in 1 2 3 4 5 6 7 8 9 10; do
    gaps=$((gaps + $(look)))
done
wait "$first"
wait "$second"
echo "gaps $gaps"
echo "rows $(sqlite3 base.db 'SELECT count(*) FROM t;')"
echo "check $(sqlite3 base.db 'PRAGMA integrity_check;')"
sqlite3 base.db 'PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode=DELETE; VACUUM;'
sqlite3 base.db "DELETE FROM t WHERE who = 'b'; SELECT 'kept', count(*) FROM t;"
ls base.db*
